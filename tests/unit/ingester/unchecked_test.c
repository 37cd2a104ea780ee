/* Late profiles while the bucket is unreachable, or with damaged objects: they are stored, answers
 * say that they are missing, and all else goes on. */
#include "common/cluster/manifest/l0.h"
#include "common/cluster/manifest/name.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;
static const char cpu[] = "cpu:nanoseconds";

/* How the bucket does. */
static const struct fg_bucket_faults away = {.seed = 1, .refuse_permille = 1000},
                                     well = {.seed = 1};

struct fixture {
    struct fg_store *store;
    struct fg_bucket *memory;
    struct fg_bucket_faulty *faulty;
    struct head head;
    struct fg_buf text;
};

static void open_head(struct fixture *f)
{
    head_open_evicting(&f->head, f->store, fg_bucket_faulty_bucket(f->faulty), 0);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->store = fg_store_memory(HEAD_FAMILIES);
    f->memory = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->memory, &well);
    fg_buf_init(&f->text, SIZE_MAX);
    open_head(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    head_close(&f->head);
    fg_buf_done(&f->text);
    fg_bucket_close(fg_bucket_faulty_bucket(f->faulty));
    fg_bucket_close(f->memory);
    fg_store_close(f->store);
    free(f);
    return 0;
}

static void restart(struct fixture *f)
{
    head_close(&f->head);
    open_head(f);
}

static const struct head_sample sample[] = {{"shop;buy", {1, 10}, 0}};

static struct head_pushed push(struct fixture *f, const char *tenant, int64_t at_ns)
{
    const struct head_profile profile = {.tenant = tenant,
                                         .service = "shop",
                                         .zone = "n",
                                         .time_ns = start_ns + at_ns,
                                         .duration_ns = 10 * FG_SECOND_NS,
                                         .samples = sample,
                                         .n_samples = 1};

    return head_push(&f->head, &profile, true);
}

static void stored(struct fixture *f, const char *tenant, int64_t at_ns)
{
    struct head_pushed pushed = push(f, tenant, at_ns);

    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.stored, 1);
}

static enum fg_code try_to_flush(struct fixture *f)
{
    struct fg_err err;

    return ing_flush(f->head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS, &err);
}

static void flush(struct fixture *f)
{
    assert_int_equal(try_to_flush(f), FG_OK);
}

struct known {
    uint64_t generation;
    char segment[FG_NAME_MAX_BYTES]; /* the first one */
};

static struct known read_l0(struct fixture *f)
{
    struct fg_bucket_request get = {
        .verb = FG_BUCKET_GET, .name = FG_NAME_L0, .content_max_bytes = SIZE_MAX};
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct known known = {0};
    struct fg_err err;
    struct fg_l0 l0;

    assert_int_equal(fg_bucket_call(f->memory, &get), FG_OK);
    assert_int_equal(fg_l0_decode(fg_buf_slice(&get.body), arena, &l0, &err), FG_OK);
    known.generation = l0.generation;
    if (l0.n_segments > 0)
        fg_name_segment(known.segment, &l0.segments[0].id);
    fg_bucket_clear(&get);
    return known;
}

/* Of the minute from this time on, for a reader that knows all segments. */
static enum fg_code ask(struct fixture *f, const char *tenant, int64_t at_ns, bool lenient)
{
    const struct head_query query = {.tenant = tenant,
                                     .type = cpu,
                                     .start_ns = start_ns + at_ns,
                                     .end_ns = start_ns + at_ns + FG_MINUTE_NS,
                                     .generation = read_l0(f).generation,
                                     .lenient = lenient};

    return head_select(&f->head, &query, &f->text);
}

static void assert_head(struct fixture *f, const char *tenant, int64_t at_ns, const char *want)
{
    assert_int_equal(ask(f, tenant, at_ns, false), FG_OK);
    if (!fg_slice_is(fg_buf_slice(&f->text), want))
        fail_msg("%.*s instead of %s", FG_S(fg_buf_slice(&f->text)), want);
}

/* All that is committed has left the head, which says so to readers that do not know it. */
static void wait_until_evicted(struct fixture *f, const char *tenant)
{
    const struct head_query old = {
        .tenant = tenant, .type = cpu, .start_ns = INT64_MIN, .end_ns = INT64_MAX};

    while (head_select(&f->head, &old, &f->text) != FG_E_PRECONDITION)
        usleep(10000);
}

/* Returns what segments have of the tenant, after the head has compared its unchecked chunks. */
static void expect_committed(struct fixture *f, const char *tenant, const char *want)
{
    flush(f);
    (void)committed_read(f->memory, tenant, cpu, &f->text);
    if (!fg_slice_is(fg_buf_slice(&f->text), want))
        fail_msg("%.*s instead of %s", FG_S(fg_buf_slice(&f->text)), want);
}

/* ---- the bucket is unreachable ---- */

/* One that is in a segment already, and one that is new, of the same window. */
static void late_profiles_are_stored_while_the_bucket_is_unreachable(void **state)
{
    struct fixture *f = *state;

    stored(f, "a", 0);
    expect_committed(f, "a", "shop;buy 10\n");
    wait_until_evicted(f, "a");
    fg_bucket_faulty_set(f->faulty, &away);
    stored(f, "a", 0);
    stored(f, "a", 1);
    assert_int_equal(push(f, "a", 1).duplicates, 1); /* it is known here */
    stored(f, "a", FG_HOUR_NS);                      /* of a window that no segment has */
    stored(f, "b", 0);                               /* of another tenant: of the same window */
    assert_head(f, "a", FG_HOUR_NS, "shop;buy 10\n");
    assert_int_equal(ask(f, "a", 0, false), FG_E_CORRUPT);
    assert_int_equal(ask(f, "a", 0, true), FG_OK);
    assert_string_equal(fg_buf_slice(&f->text).len == 0 ? "" : "something", "");
    assert_int_equal(head_stats_at(&f->head, "a", read_l0(f).generation).profiles,
                     1); /* two more are unchecked */
    assert_true(head_stats_at(&f->head, "a", read_l0(f).generation).lacks);
    fg_bucket_faulty_set(f->faulty, &well);
    expect_committed(f, "a", "shop;buy 30\n");
    expect_committed(f, "b", "shop;buy 10\n");
    assert_false(head_stats_at(&f->head, "a", read_l0(f).generation).lacks);
    assert_int_equal(ask(f, "a", 0, false), FG_OK);
}

static void unchecked_profiles_survive_a_restart(void **state)
{
    struct fixture *f = *state;

    stored(f, "a", 0);
    expect_committed(f, "a", "shop;buy 10\n");
    wait_until_evicted(f, "a");
    fg_bucket_faulty_set(f->faulty, &away);
    stored(f, "a", 0);
    stored(f, "a", 1);
    restart(f);
    stored(f, "a", 2); /* before the bucket was ever there */
    fg_bucket_faulty_set(f->faulty, &well);
    expect_committed(f, "a", "shop;buy 30\n");
}

/* Many, of which the bucket has every other one: more than fit into a batch. */
static void unchecked_profiles_are_checked_in_pieces(void **state)
{
    struct fixture *f = *state;

    for (int64_t at_ns = 0; at_ns < 40; at_ns += 2)
        stored(f, "a", at_ns);
    expect_committed(f, "a", "shop;buy 200\n");
    wait_until_evicted(f, "a");
    head_close(&f->head);
    head_compare_piece_bytes = 400;
    open_head(f);
    head_compare_piece_bytes = 0;
    flush(f); /* it has read the manifest */
    fg_bucket_faulty_set(f->faulty, &away);
    for (int64_t at_ns = 0; at_ns < 40; at_ns++)
        stored(f, "a", at_ns);
    fg_bucket_faulty_set(f->faulty, &well);
    expect_committed(f, "a", "shop;buy 400\n");
    assert_int_equal(head_stats_at(&f->head, "a", read_l0(f).generation).profiles, 0);
    assert_int_equal(ask(f, "a", 0, false), FG_OK);
}

/* ---- objects are damaged ---- */

static void put(struct fixture *f, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    assert_int_equal(fg_bucket_call(f->memory, &request), FG_OK);
    fg_bucket_clear(&request);
}

static struct fg_buf get(struct fixture *f, const char *name)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = SIZE_MAX};
    struct fg_buf content;

    assert_int_equal(fg_bucket_call(f->memory, &request), FG_OK);
    content = request.body;
    request.body = (struct fg_buf){0};
    fg_bucket_clear(&request);
    return content;
}

/* Undoes the damage by putting the content back. */
enum harm { HARM_LOST, HARM_CUT, HARM_FLIPPED };

static struct fg_buf harm(struct fixture *f, const char *name, enum harm kind)
{
    struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE, .name = name};
    struct fg_buf content = get(f, name), spoilt;

    fg_buf_init(&spoilt, SIZE_MAX);
    fg_buf_put(&spoilt, fg_buf_slice(&content));
    for (size_t i = 0; i < spoilt.len; i += 16)
        spoilt.ptr[i] ^= 0x20;
    if (kind == HARM_LOST)
        assert_int_equal(fg_bucket_call(f->memory, &delete), FG_OK);
    else
        put(f, name,
            fg_slice_sub(fg_buf_slice(kind == HARM_CUT ? &content : &spoilt), 0,
                         kind == HARM_CUT ? content.len / 3 : SIZE_MAX));
    fg_bucket_clear(&delete);
    fg_buf_done(&spoilt);
    return content;
}

/* Of the segment that holds window 0 of tenant a. */
static void expect_damage_costs_its_window_only(struct fixture *f)
{
    assert_int_equal(push(f, "a", 1).code, FG_OK); /* unknown: stored all the same */
    assert_int_equal(push(f, "a", FG_HOUR_NS).code, FG_OK);
    assert_int_equal(push(f, "b", FG_HOUR_NS).code, FG_OK);
    assert_int_equal(ask(f, "a", FG_HOUR_NS, false), FG_OK);
    assert_int_equal(ask(f, "b", FG_HOUR_NS, false), FG_OK);
    assert_int_equal(ask(f, "a", 0, false), FG_E_CORRUPT);
    assert_int_equal(ask(f, "a", 0, true), FG_OK);
}

static void damaged_segment_affects_only_its_own_groups(void **state)
{
    for (enum harm kind = HARM_LOST; kind <= HARM_FLIPPED; kind++) {
        struct fixture *f;
        struct known known;
        struct fg_buf content;

        assert_int_equal(set_up((void **)&f), 0);
        stored(f, "a", 0);
        expect_committed(f, "a", "shop;buy 10\n");
        wait_until_evicted(f, "a");
        known = read_l0(f);
        content = harm(f, known.segment, kind);
        restart(f);
        expect_damage_costs_its_window_only(f);
        assert_int_equal(try_to_flush(f), FG_E_CORRUPT); /* all else is committed */
        expect_damage_costs_its_window_only(f);
        put(f, known.segment, fg_buf_slice(&content));
        /* Once the object is back, a flush compares at once, and not in five minutes. */
        expect_committed(f, "a", "shop;buy 30\n");
        expect_committed(f, "b", "shop;buy 10\n");
        assert_int_equal(ask(f, "a", 0, false), FG_OK);
        fg_buf_done(&content);
        assert_int_equal(tear_down((void **)&f), 0);
    }
    (void)state;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(late_profiles_are_stored_while_the_bucket_is_unreachable),
        TEST(unchecked_profiles_survive_a_restart),
        TEST(unchecked_profiles_are_checked_in_pieces),
        cmocka_unit_test(damaged_segment_affects_only_its_own_groups),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
