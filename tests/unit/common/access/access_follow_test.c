/* What a process makes of the registry in the bucket, whatever happens to that, and how the
 * registry is changed. */
#include "tests/lib/remove_tree.h"
#include "tests/unit/common/access/access_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the registry's life ---- */

static void nothing_is_decided_before_the_registry_was_read(void **state)
{
    struct access_run *f = *state;
    struct fg_buf why;

    access_run_put(f);
    bucket_hold_next(&f->hold, FG_BUCKET_GET, "access/");
    access_run_create(f);
    access_run_serve(f);
    bucket_hold_await(&f->hold);
    fg_buf_init(&why, 1024);
    assert_true(fg_access_is_unready(f->access, &why));
    assert_int_equal(access_run_ask(f, "/push", f->push), 503);
    assert_int_equal(access_run_ask(f, "/read", f->read), 503);
    assert_int_equal(served_ask(&f->served, "GET /read HTTP/1.1", NULL), 503);
    /* The end cancels the read, and does not wait for its time to be over. */
    access_run_unfollow_held(f);
    fg_buf_done(&why);
}

static void without_a_registry_nobody_is_known(void **state)
{
    struct access_run *f = *state;
    struct fg_buf why;

    access_run_start(f);
    fg_buf_init(&why, 1024);
    assert_false(fg_access_is_unready(f->access, &why));
    fg_buf_done(&why);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    assert_string_equal(access_run_conditions(f), "");
}

static void a_change_in_the_bucket_counts_after_the_next_look(void **state)
{
    struct access_run *f = *state;
    struct fg_err err;

    access_run_start(f);
    access_run_put(f);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    assert_string_equal(http_ask_body(&f->served.answer), "a");
    assert_int_equal(access_run_ask(f, "/push", f->read), 403);
    assert_int_equal(access_run_ask(f, "/push", f->push), 200);
    assert_int_equal(access_run_ask(f, "/known", f->push), 200);
    assert_int_equal(access_run_metric(f, "flamegrid_access_registry_generation"), 1);
    assert_int_equal(access_run_metric(f, "flamegrid_access_tokens"), 2);
    assert_int_equal(access_run_metric(f, "flamegrid_access_tenants"), 1);
    assert_int_equal(
        fg_access_revoke_token(&f->make.change, fg_bytes(f->read + 4, FG_TOKEN_ID_CHARS), &err),
        FG_OK);
    access_run_put(f);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    assert_int_equal(access_run_ask(f, "/push", f->push), 200);
    assert_int_equal(fg_access_set_tenant_state(&f->make.change, FG_LIT("a"),
                                                ACCESS__TENANT__STATE__SUSPENDED, &err),
                     FG_OK);
    access_run_put(f);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/push", f->push), 403);
}

static void a_damaged_registry_is_not_used(void **state)
{
    struct access_run *f = *state;
    struct fg_buf bytes;

    access_run_put(f);
    access_run_start(f);
    fg_buf_init(&bytes, 1 << 20);
    access_make_object(&f->make.message, &bytes);
    const struct {
        const char *name;
        struct fg_slice bytes;
    } damaged[] = {
        {"empty", FG_LIT("")},
        {"three bytes", FG_LIT("abc")},
        {"only a checksum", FG_LIT("\0\0\0\1")},
        {"cut", fg_slice_sub(fg_buf_slice(&bytes), 0, bytes.len - 1)},
        {"no registry", FG_LIT("<html><body>Bad gateway</body></html>")},
    };

    for (size_t i = 0; i < FG_COUNT(damaged); i++) {
        print_message("  %s\n", damaged[i].name);
        access_run_put_bytes(f, damaged[i].bytes);
        fg_access_look(f->access);
        assert_int_equal(access_run_ask(f, "/read", f->read), 200);
        assert_non_null(strstr(access_run_conditions(f), "access_registry_damaged: "));
        assert_int_equal(access_run_metric(f, "flamegrid_access_registry_read_failures_total"),
                         i + 1);
        access_run_put(f);
        fg_access_look(f->access);
        assert_string_equal(access_run_conditions(f), "");
    }
    fg_buf_done(&bytes);
}

/* It may have the token, and an agent drops what gets a 401. */
static void a_new_token_is_not_refused_by_a_damaged_registry(void **state)
{
    struct access_run *f = *state;
    char fresh[FG_TOKEN_CHARS + 1];

    access_run_put(f);
    access_run_start(f);
    access_run_put_bytes(f, FG_LIT("abc"));
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    for (unsigned i = 0; i < 3; i++) {
        fg_clock_manual_advance(&f->clock, 2 * FG_SECOND_NS);
        fg_access_look(f->access);
        assert_int_equal(access_run_ask(f, "/read", fresh), 503);
    }
    access_run_put(f);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", fresh), 200);
}

/* Somebody cleaned up, or mounted another bucket: agents would drop their profiles. */
static void a_registry_that_is_gone_is_still_used(void **state)
{
    struct access_run *f = *state;

    access_run_put(f);
    access_run_start(f);
    access_run_lose(f);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    assert_non_null(strstr(access_run_conditions(f), "access/registry is gone from the bucket"));
    access_run_put(f);
    fg_access_look(f->access);
    assert_string_equal(access_run_conditions(f), "");
}

/* A backup, or what began where the registry was lost: it lacks tokens that agents have. */
static void an_older_registry_is_not_used(void **state)
{
    struct access_run *f = *state;
    char fresh[FG_TOKEN_CHARS + 1];

    access_run_put(f);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "a", .scopes = FG_SCOPE_READ, .seed = 5},
                      fresh);
    access_run_put(f);
    access_run_start(f);
    assert_int_equal(access_run_ask(f, "/read", fresh), 200);
    f->make.message.n_tokens--;
    f->make.message.generation = 0;
    for (unsigned i = 0; i < 3; i++) {
        access_run_lose(
            f); /* the new one may come before this process has noticed that there is none */
        if (i > 0)
            fg_access_look(f->access);
        f->make.message.generation = 0;
        access_run_put(f);
        fg_access_look(f->access);
        assert_int_equal(access_run_ask(f, "/read", fresh), 200);
        assert_non_null(strstr(access_run_conditions(f), "access_registry_damaged: "));
        assert_non_null(strstr(access_run_conditions(f), "older than the known one"));
        assert_int_equal(access_run_metric(f, "flamegrid_access_registry_generation"), 2);
    }
    /* Somebody restarts on purpose. */
    access_run_stop(f);
    access_run_start(f);
    assert_string_equal(access_run_conditions(f), "");
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    assert_int_not_equal(access_run_ask(f, "/read", fresh), 200);
}

/* The copy is the only one that is left, and whoever repairs the bucket needs it. */
static void a_lost_registry_is_known_from_the_copy(void **state)
{
    struct access_run *f = *state;

    f->settings.copy = f->copy;
    access_run_put(f);
    access_run_put(f);
    access_run_start(f);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    access_run_stop(f);
    for (unsigned round = 0; round < 2; round++) {
        access_run_lose(f);
        if (round == 1) { /* an older one */
            f->make.message.generation = 0;
            access_run_put(f);
        }
        for (unsigned i = 0; i < 2; i++) {
            access_run_start(f);
            fg_access_look(f->access);
            assert_int_equal(access_run_ask(f, "/read", f->read), 200);
            assert_int_equal(access_run_metric(f, "flamegrid_access_registry_generation"), 2);
            assert_non_null(strstr(access_run_conditions(f), "access_registry_damaged: "));
            access_run_stop(f);
        }
    }
    /* Without the copy the one in the bucket counts, on purpose. */
    assert_int_equal(remove_tree(f->copy), 0);
    access_run_start(f);
    assert_string_equal(access_run_conditions(f), "");
    assert_int_equal(access_run_metric(f, "flamegrid_access_registry_generation"), 1);
}

static void a_bucket_that_is_away_stops_queries_after_a_day_and_no_pushes(void **state)
{
    struct access_run *f = *state;

    access_run_put(f);
    access_run_start(f);
    fg_bucket_faulty_set(f->faulty, &access_run_away);
    fg_clock_manual_advance(&f->clock, 59 * FG_SECOND_NS);
    fg_access_look(f->access);
    assert_string_equal(access_run_conditions(f), "");
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    fg_access_look(f->access);
    assert_non_null(strstr(access_run_conditions(f), "access_registry_away: "));
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    assert_int_equal(access_run_ask(f, "/push", f->push), 200);
    fg_clock_manual_advance(&f->clock, 23 * FG_HOUR_NS);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", f->read), 503);
    assert_int_equal(access_run_ask(f, "/known", f->read), 503);
    assert_int_equal(access_run_ask(f, "/push", f->push), 200);
    assert_int_equal(access_run_ask(f, "/push", f->read), 403); /* still decided */
    fg_bucket_faulty_set(f->faulty, &access_run_well);
    fg_access_look(f->access);
    assert_string_equal(access_run_conditions(f), "");
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
}

/* ---- the copy ---- */

static void a_restart_without_the_bucket_uses_the_copy(void **state)
{
    struct access_run *f = *state;
    char path[128];
    FILE *file;

    f->settings.copy = f->copy;
    access_run_put(f);
    access_run_start(f);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    access_run_stop(f);
    fg_bucket_faulty_set(f->faulty, &access_run_away);
    access_run_start(f);
    while (access_run_ask(f, "/push", f->push) == 503)
        (void)usleep(1000);
    assert_int_equal(access_run_ask(f, "/read", f->read), 200);
    assert_int_equal(access_run_metric(f, "flamegrid_access_registry_generation"), 1);
    /* What the bucket says replaces it. */
    f->make.message.tokens[1]->revoked_ms = 1;
    access_run_put(f);
    fg_bucket_faulty_set(f->faulty, &access_run_well);
    fg_access_look(f->access);
    assert_int_equal(access_run_ask(f, "/read", f->read), 401);
    access_run_stop(f);
    /* A damaged one is none. */
    (void)snprintf(path, sizeof path, "%s/objects/access/registry", f->copy);
    file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fputc('x', file), 'x');
    assert_int_equal(fclose(file), 0);
    fg_bucket_faulty_set(f->faulty, &access_run_away);
    access_run_start(f);
    assert_int_equal(access_run_ask(f, "/push", f->push), 503);
}

/* ---- the first token ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum fg_code state_of_admin(struct access_run *f)
{
    struct fg_access_registry *registry = fg_access_registry(f->access);
    const Access__Token *token =
        fg_access_find_token(registry, fg_bytes(f->admin + 4, FG_TOKEN_ID_CHARS), NULL);
    bool good = token != NULL && token->scopes == (FG_SCOPE_ADMIN | FG_SCOPE_TENANT_ADMIN);

    fg_access_registry_unref(registry);
    return good ? FG_OK : FG_E_NOT_FOUND;
}

static void a_token_in_a_file_is_the_admin_until_there_is_one(void **state)
{
    struct access_run *f = *state;
    char with_line_end[FG_TOKEN_CHARS + 2], other[FG_TOKEN_CHARS + 1];

    (void)access_make_secret(3, NULL, f->admin);
    f->settings.bootstrap_token_file = f->token_file;
    access_run_start(f);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND); /* there is no file yet */
    write_file(f->token_file, "fgt_mistyped");
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND);
    (void)snprintf(with_line_end, sizeof with_line_end, "%s\n", f->admin);
    write_file(f->token_file, with_line_end);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_OK);
    assert_int_equal(access_run_ask(f, "/read", f->admin),
                     403); /* it is known, and does not read */
    /* A registry without an admin changes nothing. */
    access_run_put(f);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_OK);
    access_make_token(&f->make,
                      &(struct access_token){.tenants = "*", .scopes = FG_SCOPE_ADMIN, .seed = 9},
                      other);
    access_run_put(f);
    fg_access_look(f->access);
    assert_int_equal(state_of_admin(f), FG_E_NOT_FOUND);
    assert_int_equal(access_run_ask(f, "/known", f->admin), 401);
}

/* ---- writers ---- */

struct writer {
    struct fg_bucket *bucket;
    const char *prefix;
    unsigned n, aborted;
};

static enum fg_code add_tenant(void *arg, const struct fg_access_change *change, struct fg_err *err)
{
    return fg_access_create_tenant(change, fg_cstr(arg), err);
}

/* By a writer that has read the registry of that generation. */
static enum fg_code swap_known(struct fg_bucket *bucket, uint64_t known, char *id,
                               struct fg_err *err)
{
    return fg_access_swap(
        &(struct fg_access_writer){.bucket = bucket,
                                   .by = "test",
                                   .now_ms = WALL_MS,
                                   .deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
                                   .known = known},
        add_tenant, id, err);
}

static enum fg_code swap(struct fg_bucket *bucket, char *id, struct fg_err *err)
{
    return swap_known(bucket, 0, id, err);
}

static void *write_tenants(void *arg)
{
    struct writer *writer = arg;
    struct fg_err err;
    char id[32];

    for (unsigned i = 0; i < writer->n; i++) {
        (void)snprintf(id, sizeof id, "%s-%u", writer->prefix, i);
        while (swap(writer->bucket, id, &err) != FG_OK) {
            assert_int_equal(err.code, FG_E_ABORTED); /* others were faster again and again */
            writer->aborted++;
        }
    }
    return NULL;
}

static void writers_at_the_same_time_lose_no_change(void **state)
{
    struct access_run *f = *state;
    struct writer writers[3] = {
        {f->memory, "x", 40, 0}, {f->memory, "y", 40, 0}, {f->memory, "z", 40, 0}};
    struct fg_access_registry *registry;
    pthread_t threads[3];
    char id[32];

    for (size_t i = 0; i < FG_COUNT(writers); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_tenants, &writers[i]), 0);
    for (size_t i = 0; i < FG_COUNT(writers); i++)
        (void)pthread_join(threads[i], NULL);
    access_run_start(f);
    registry = fg_access_registry(f->access);
    assert_int_equal(registry->message->n_tenants, 120);
    assert_int_equal(registry->message->generation, 120);
    for (size_t w = 0; w < FG_COUNT(writers); w++)
        for (unsigned i = 0; i < writers[w].n; i++) {
            (void)snprintf(id, sizeof id, "%s-%u", writers[w].prefix, i);
            assert_non_null(fg_access_find_tenant(registry, fg_cstr(id)));
        }
    fg_access_registry_unref(registry);
}

/* Each request of a change fails once, before or after it was done; made again, it is made once. */
static void a_change_with_a_lost_answer_is_made_once(void **state)
{
    struct access_run *f = *state;
    struct fg_access_registry *registry;
    unsigned tenants = 0;
    char id[32];

    for (unsigned late = 0; late < 2; late++) {
        bool failed = true;

        for (uint64_t k = 1; failed; k++) {
            uint64_t before = fg_bucket_faulty_count(f->faulty);
            struct fg_err err;

            assert_true(k < 20);
            fg_bucket_faulty_fail(f->faulty, k, late);
            (void)snprintf(id, sizeof id, "t%u", tenants++);
            if (swap(&f->hold.bucket, id, &err) != FG_OK) {
                assert_int_equal(err.code, FG_E_UNAVAILABLE);
                fg_bucket_faulty_fail(f->faulty, 0, false);
                assert_int_equal(swap(&f->hold.bucket, id, &err), FG_OK);
            }
            failed = fg_bucket_faulty_count(f->faulty) - before >= k;
            fg_bucket_faulty_fail(f->faulty, 0, false);
        }
    }
    access_run_start(f);
    registry = fg_access_registry(f->access);
    assert_int_equal(registry->message->n_tenants, tenants);
    fg_access_registry_unref(registry);
}

/* A damaged registry is somebody's to look at: a change must not overwrite it. */
static void a_change_of_a_damaged_registry_fails(void **state)
{
    struct access_run *f = *state;
    char id[] = "t";
    struct fg_err err;

    access_run_put_bytes(f, FG_LIT("garbage"));
    assert_int_equal(swap(f->memory, id, &err), FG_E_CORRUPT);
}

/* It would end all that the lost one has. */
static void a_change_makes_no_registry_in_the_place_of_a_lost_one(void **state)
{
    struct access_run *f = *state;
    char id[] = "t";
    struct fg_err err;

    for (unsigned i = 0; i < 3; i++)
        access_run_put(f);
    assert_int_equal(swap_known(f->memory, 3, id, &err), FG_OK);
    access_run_lose(f);
    assert_int_equal(swap_known(f->memory, 4, id, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "access/registry is gone from the bucket"));
    assert_int_equal(access_run_stored_generation(f), 0);
    f->make.message.generation = 0;
    access_run_put(f);
    assert_int_equal(swap_known(f->memory, 4, id, &err), FG_E_CORRUPT);
    assert_int_equal(access_run_stored_generation(f), 1);
    /* The first one of all: nobody has read any. */
    access_run_lose(f);
    assert_int_equal(swap_known(f->memory, 0, id, &err), FG_OK);
    assert_int_equal(access_run_stored_generation(f), 1);
}

/* ---- secrets ---- */

static void secrets_are_random(void **state)
{
    char one[FG_TOKEN_CHARS + 1], two[FG_TOKEN_CHARS + 1];
    struct fg_token token;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_access_make_secret(NULL, one, &token, &err), FG_OK);
    assert_int_equal(fg_access_make_secret(NULL, two, &token, &err), FG_OK);
    assert_memory_not_equal(one + 4, two + 4, FG_TOKEN_ID_CHARS);
    assert_memory_not_equal(one + 13, two + 13, FG_TOKEN_SECRET_CHARS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, access_run_set_up, access_run_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_decided_before_the_registry_was_read),
        TEST(without_a_registry_nobody_is_known),
        TEST(a_change_in_the_bucket_counts_after_the_next_look),
        TEST(a_damaged_registry_is_not_used),
        TEST(a_new_token_is_not_refused_by_a_damaged_registry),
        TEST(a_registry_that_is_gone_is_still_used),
        TEST(an_older_registry_is_not_used),
        TEST(a_lost_registry_is_known_from_the_copy),
        TEST(a_bucket_that_is_away_stops_queries_after_a_day_and_no_pushes),
        TEST(a_restart_without_the_bucket_uses_the_copy),
        TEST(a_token_in_a_file_is_the_admin_until_there_is_one),
        TEST(writers_at_the_same_time_lose_no_change),
        TEST(a_change_with_a_lost_answer_is_made_once),
        TEST(a_change_of_a_damaged_registry_fails),
        TEST(a_change_makes_no_registry_in_the_place_of_a_lost_one),
        cmocka_unit_test(secrets_are_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
