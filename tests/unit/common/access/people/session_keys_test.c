/* Processes that share a bucket share keys, and can open each other's sessions at any time. */
#include "common/access/people/session_keys.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { PROCESSES = 3, DAYS = 40 };

static const int64_t START_S = 1800000000;

struct fixture {
    struct fg_key_wrap *master, *other_master;
    struct fg_bucket *bucket;
    struct fg_clock_manual clock;
};

/* digit: of which the key is made. */
static struct fg_key_wrap *make_master(char digit)
{
    char path[] = "/tmp/master-key-XXXXXX", text[2 * FG_SEAL_KEY_BYTES];
    struct fg_key_wrap *master = NULL;
    int fd = mkstemp(path);
    struct fg_err err;

    memset(text, digit, sizeof text);
    assert_int_equal(write(fd, text, sizeof text), sizeof text);
    (void)close(fd);
    assert_int_equal(fg_key_wrap_file(path, &master, &err), FG_OK);
    (void)unlink(path);
    return master;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->master = make_master('1');
    f->other_master = make_master('2');
    f->bucket = fg_bucket_memory();
    fg_clock_manual_init(&f->clock, START_S * FG_SECOND_NS);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_bucket_close(f->bucket);
    fg_key_wrap_destroy(f->master);
    fg_key_wrap_destroy(f->other_master);
    free(f);
    return 0;
}

static struct fg_session_keys *create(struct fixture *f, struct fg_key_wrap *key)
{
    return fg_session_keys_create(
        &(struct fg_session_keys_config){.clock = &f->clock.clock, .master = key});
}

static void look_in(struct fg_session_keys *keys, struct fg_bucket *bucket)
{
    struct fg_err err;

    assert_int_equal(fg_session_keys_look(keys, bucket, &err), FG_OK);
}

static bool has(const struct fg_cookie_keys *keys, const struct fg_cookie_key *key)
{
    for (unsigned i = 0; i < keys->n; i++)
        if (keys->list[i].id == key->id &&
            memcmp(&keys->list[i].key, &key->key, sizeof key->key) == 0)
            return true;
    return false;
}

/* Each process looks every five minutes, at times of its own. Whatever one seals with, all can open
 * at once, and for as long as a session lasts. */
static void no_session_is_lost_while_keys_change(void **state)
{
    struct fixture *f = *state;
    struct fg_session_keys *processes[PROCESSES];
    struct fg_cookie_keys sealed_a_day_ago = {.n = 0};
    uint32_t last_id = 0;

    for (unsigned i = 0; i < PROCESSES; i++) {
        processes[i] = create(f, NULL);
        look_in(processes[i], f->bucket);
    }
    for (unsigned minute = 0; minute < DAYS * 1440; minute++) {
        for (unsigned i = 0; i < PROCESSES; i++)
            if (minute % 5 == i)
                look_in(processes[i], f->bucket);
        for (unsigned i = 0; i < PROCESSES; i++) {
            struct fg_cookie_keys mine = fg_session_keys_get(processes[i]);

            assert_true(mine.n >= 1);
            for (unsigned k = 0; k < PROCESSES; k++) {
                struct fg_cookie_keys theirs = fg_session_keys_get(processes[k]);

                assert_true(has(&theirs, &mine.list[0]));
                if (sealed_a_day_ago.n > 0)
                    assert_true(has(&theirs, &sealed_a_day_ago.list[0]));
            }
        }
        if (minute % 1440 == 0)
            sealed_a_day_ago = fg_session_keys_get(processes[0]);
        fg_clock_manual_advance(&f->clock, FG_MINUTE_NS);
    }
    last_id = fg_session_keys_get(processes[0]).list[0].id;
    assert_int_equal(last_id, 1 + (DAYS - 1) / 7);
    for (unsigned i = 0; i < PROCESSES; i++)
        fg_session_keys_destroy(processes[i]);
}

static void processes_that_start_together_agree(void **state)
{
    struct fixture *f = *state;
    struct fg_session_keys *a = create(f, NULL), *b = create(f, NULL);
    struct fg_cookie_keys of_a, of_b;

    assert_int_equal(fg_session_keys_get(a).n, 0);
    look_in(a, f->bucket);
    look_in(b, f->bucket);
    of_a = fg_session_keys_get(a);
    of_b = fg_session_keys_get(b);
    assert_int_equal(of_a.n, 1);
    assert_memory_equal(&of_a, &of_b, sizeof of_a);
    fg_session_keys_destroy(a);
    fg_session_keys_destroy(b);
}

/* Every request of the look fails once, before and after it is done. */
static void a_failing_bucket_does_no_harm(void **state)
{
    struct fixture *f = *state;

    for (unsigned late = 0; late <= 1; late++)
        for (uint64_t k = 1; k <= 4; k++) {
            struct fg_bucket *memory = fg_bucket_memory();
            const struct fg_bucket_faults none = {.seed = 1};
            struct fg_bucket_faulty *faulty = fg_bucket_faulty_create(memory, &none);
            struct fg_bucket *bucket = fg_bucket_faulty_bucket(faulty);
            struct fg_session_keys *a = create(f, NULL), *b = create(f, NULL);
            struct fg_cookie_keys of_a, of_b;
            struct fg_err err;

            fg_bucket_faulty_fail(faulty, k, late != 0);
            (void)fg_session_keys_look(a, bucket, &err);
            look_in(b, memory);
            look_in(a, bucket);
            of_a = fg_session_keys_get(a);
            of_b = fg_session_keys_get(b);
            assert_int_equal(of_a.n, 1);
            assert_memory_equal(&of_a, &of_b, sizeof of_a);
            fg_session_keys_destroy(a);
            fg_session_keys_destroy(b);
            fg_bucket_close(bucket);
            fg_bucket_close(memory);
        }
}

static void a_master_key_keeps_readers_of_the_bucket_out(void **state)
{
    struct fixture *f = *state;
    struct fg_session_keys *owner = create(f, f->master), *stranger = create(f, f->other_master),
                           *reader = create(f, NULL);
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = FG_SESSION_KEYS_NAME, .content_max_bytes = 100000};
    struct fg_cookie_keys known;
    struct fg_err err;

    look_in(owner, f->bucket);
    known = fg_session_keys_get(owner);
    assert_int_equal(known.n, 1);
    assert_int_equal(fg_bucket_call(f->bucket, &get), FG_OK);
    assert_null(memmem(get.body.ptr, get.body.len, known.list[0].key.bytes, 8));
    fg_bucket_clear(&get);
    assert_int_equal(fg_session_keys_look(stranger, f->bucket, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "master key"));
    assert_int_equal(fg_session_keys_look(reader, f->bucket, &err), FG_E_CORRUPT);
    assert_int_equal(fg_session_keys_get(stranger).n, 0);
    fg_session_keys_destroy(owner);
    fg_session_keys_destroy(stranger);
    fg_session_keys_destroy(reader);
}

/* Keys that were made before there was a master key serve until they go. */
static void a_master_key_may_come_later(void **state)
{
    struct fixture *f = *state;
    struct fg_session_keys *before = create(f, NULL), *after;

    look_in(before, f->bucket);
    after = create(f, f->master);
    look_in(after, f->bucket);
    assert_int_equal(fg_session_keys_get(after).n, 1);
    fg_clock_manual_advance(&f->clock, 8 * 24 * FG_HOUR_NS);
    look_in(after, f->bucket);
    assert_int_equal(fg_session_keys_get(after).n, 2);
    fg_session_keys_destroy(before);
    fg_session_keys_destroy(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_session_is_lost_while_keys_change, set_up, tear_down),
        cmocka_unit_test_setup_teardown(processes_that_start_together_agree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_failing_bucket_does_no_harm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_master_key_keeps_readers_of_the_bucket_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_master_key_may_come_later, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
