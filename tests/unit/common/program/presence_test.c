/*
 * Processes that say in the bucket that they are there: who writes is listed with what it says, who
 * falls silent or ends is not, and nothing is left behind for good.
 */
#include "common/program/presence.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { ARENA_BYTES = 4 * 1024 * 1024 };

struct world {
    struct fg_bucket *bucket;
    struct fg_clock_manual clock;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void open_world(struct world *w)
{
    w->bucket = fg_bucket_memory();
    fg_clock_manual_init(&w->clock, 1768478400 * FG_SECOND_NS);
    fg_bucket_memory_tell_time(w->bucket, &w->clock.clock);
}

static struct fg_presence *begin(struct world *w, const char *role, const char *name,
                                 int64_t started_ms)
{
    struct fg_presence_name full = {
        .started_ms = started_ms, .version = "1.2.3", .revision = "a1b2c3d"};
    struct fg_presence *presence;
    char content[64];
    struct fg_err err;

    (void)snprintf(full.role, sizeof full.role, "%s", role);
    (void)snprintf(full.name, sizeof full.name, "%s", name);
    (void)snprintf(content, sizeof content, "%s since %d", name, (int)started_ms);
    must(fg_presence_create(w->bucket, &w->clock.clock, &full, fg_cstr(content), &presence, &err),
         &err);
    return presence;
}

static void step(struct fg_presence *presence)
{
    struct fg_err err;

    must(fg_presence_step(presence, &err), &err);
}

/* "compactor:c@2 querier:q@1": those that are listed, with their starts. */
static void check_listed(struct world *w, const char *want)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_present *present;
    char got[512] = "";
    struct fg_err err;
    uint32_t n;

    must(fg_presence_list(w->bucket, 0, arena, &present, &n, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        size_t len = strlen(got);

        assert_string_equal(present[i].name.version, "1.2.3");
        assert_string_equal(present[i].name.revision, "a1b2c3d");
        (void)snprintf(got + len, sizeof got - len, "%s%s:%s@%d", i == 0 ? "" : " ",
                       present[i].name.role, present[i].name.name, (int)present[i].name.started_ms);
    }
    assert_string_equal(got, want);
}

static size_t count_objects(struct world *w)
{
    struct fg_bucket_request list = {.verb = FG_BUCKET_LIST, .name = FG_NAME_MEMBERS};
    size_t n;

    assert_int_equal(fg_bucket_call(w->bucket, &list), FG_OK);
    n = list.n_entries;
    fg_bucket_clear(&list);
    return n;
}

static void check_read(struct world *w, const char *role, const char *name, enum fg_code code,
                       const char *want)
{
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, FG_PRESENCE_CONTENT_MAX_BYTES);
    assert_int_equal(fg_presence_read(w->bucket, fg_cstr(role), fg_cstr(name), 0, &out, &err),
                     code);
    assert_true(fg_slice_is(fg_buf_slice(&out), want));
    fg_buf_done(&out);
}

static void who_writes_is_listed(void **state)
{
    struct fg_presence *querier, *compactor;
    struct world w;

    (void)state;
    open_world(&w);
    check_listed(&w, "");
    querier = begin(&w, "querier", "q", 1);
    compactor = begin(&w, "compactor", "c", 2);
    step(querier);
    step(compactor);
    check_listed(&w, "compactor:c@2 querier:q@1");
    check_read(&w, "querier", "q", FG_OK, "q since 1");
    check_read(&w, "querier", "c", FG_E_NOT_FOUND, "");
    check_read(&w, "..", "q", FG_E_NOT_FOUND, "");
    check_read(&w, "querier", "q/1", FG_E_INVALID, "");
    check_read(&w, "", "q", FG_E_INVALID, "");
    check_read(&w, "querier", "", FG_E_INVALID, "");
    /* One falls silent. Without the others nobody could say what time it is. */
    fg_clock_manual_advance(&w.clock, 15 * FG_MINUTE_NS);
    step(querier);
    check_listed(&w, "compactor:c@2 querier:q@1");
    fg_clock_manual_advance(&w.clock, FG_MINUTE_NS);
    step(querier);
    check_listed(&w, "querier:q@1");
    check_read(&w, "compactor", "c", FG_E_NOT_FOUND, "");
    step(compactor);
    check_listed(&w, "compactor:c@2 querier:q@1");
    fg_presence_destroy(querier);
    fg_presence_destroy(compactor);
    fg_bucket_close(w.bucket);
}

static void of_several_starts_the_last_counts(void **state)
{
    struct fg_presence *starts[3];
    struct world w;

    (void)state;
    open_world(&w);
    for (int i = 0; i < 3; i++) {
        starts[i] = begin(&w, "distributor", "host_4040", 9 + i); /* 9, 10, 11: not in byte order */
        step(starts[i]);
    }
    check_listed(&w, "distributor:host_4040@11");
    check_read(&w, "distributor", "host_4040", FG_OK, "host_4040 since 11");
    for (int i = 0; i < 3; i++)
        fg_presence_destroy(starts[i]);
    fg_bucket_close(w.bucket);
}

static void what_was_left_is_removed_after_a_day(void **state)
{
    struct fg_presence *killed, *other, *runs;
    struct world w;

    (void)state;
    open_world(&w);
    killed = begin(&w, "distributor", "killed", 1);
    other = begin(&w, "querier", "other", 1);
    runs = begin(&w, "distributor", "runs", 1);
    step(killed);
    step(other);
    for (int i = 0; i < 24 * 12; i++) {
        step(runs);
        fg_clock_manual_advance(&w.clock, 5 * FG_MINUTE_NS);
    }
    assert_int_equal(count_objects(&w), 3);
    for (int i = 0; i < 13; i++) {
        fg_clock_manual_advance(&w.clock, 5 * FG_MINUTE_NS);
        step(runs);
    }
    check_listed(&w, "distributor:runs@1");
    assert_int_equal(count_objects(&w), 2); /* another role is for others to remove */
    fg_presence_destroy(killed);
    fg_presence_destroy(other);
    fg_presence_destroy(runs);
    fg_bucket_close(w.bucket);
}

static void who_ends_in_order_leaves_nothing(void **state)
{
    struct fg_presence *presence;
    struct fg_err err;
    struct world w;

    (void)state;
    open_world(&w);
    presence = begin(&w, "compactor", "c", 7);
    must(fg_presence_start(presence, &err), &err);
    while (count_objects(&w) == 0)
        ; /* the thread writes at once */
    fg_presence_stop(presence);
    fg_presence_stop(presence);
    assert_int_equal(count_objects(&w), 0);
    fg_presence_destroy(presence);
    fg_presence_stop(NULL);
    fg_presence_destroy(NULL);
    fg_bucket_close(w.bucket);
}

static void a_bucket_that_refuses_is_told(void **state)
{
    const struct fg_bucket_faults faults = {.refuse_permille = 1000};
    struct fg_bucket_faulty *faulty;
    struct fg_presence *presence;
    struct fg_bucket *inner;
    struct fg_err err;
    struct world w;

    (void)state;
    open_world(&w);
    inner = w.bucket;
    faulty = fg_bucket_faulty_create(inner, &faults);
    w.bucket = fg_bucket_faulty_bucket(faulty);
    presence = begin(&w, "distributor", "d", 1);
    assert_int_equal(fg_presence_step(presence, &err), FG_E_UNAVAILABLE);
    check_read(&w, "distributor", "d", FG_E_UNAVAILABLE, "");
    fg_presence_destroy(presence);
    fg_bucket_close(w.bucket);
    fg_bucket_close(inner);
}

static void other_objects_are_skipped(void **state)
{
    static const char *const names[] = {"members/querier/q/later", "members/querier/q/1_2",
                                        "members/querier/q/01_1.0_x", "members/x"};
    struct fg_presence *presence;
    struct world w;

    (void)state;
    open_world(&w);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        struct fg_bucket_request put = {.verb = FG_BUCKET_PUT, .name = names[i]};

        assert_int_equal(fg_bucket_call(w.bucket, &put), FG_OK);
        fg_bucket_clear(&put);
    }
    presence = begin(&w, "querier", "q", 1);
    step(presence);
    check_listed(&w, "querier:q@1");
    assert_int_equal(count_objects(&w), FG_COUNT(names) + 1);
    fg_presence_destroy(presence);
    fg_bucket_close(w.bucket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_writes_is_listed),
        cmocka_unit_test(of_several_starts_the_last_counts),
        cmocka_unit_test(what_was_left_is_removed_after_a_day),
        cmocka_unit_test(who_ends_in_order_leaves_nothing),
        cmocka_unit_test(a_bucket_that_refuses_is_told),
        cmocka_unit_test(other_objects_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
