#include "common/cluster/manifest/blocks.h"
#include "common/cluster/manifest/ledger.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { TODAY = 20784 };
static const int64_t NOON = (int64_t)TODAY * FG_USAGE_DAY_NS + 12 * FG_HOUR_NS;

static struct fg_usage_day used(int32_t day, const char *service, uint64_t n,
                                struct fg_arena *arena)
{
    const struct fg_usage_row row = {fg_cstr(service), n, {n, n, n, n}, 0};
    struct fg_usage_day sums = {.day = day};

    assert_true(fg_usage_day_add_row(&sums, &row, arena));
    return sums;
}

static void add(struct fg_ledger *ledger, int32_t day, const char *service, uint64_t n,
                struct fg_arena *arena)
{
    struct fg_usage_day sums = used(day, service, n, arena);

    assert_true(fg_ledger_add(ledger, &sums, 1, arena));
}

static void stored_bytes_are_divided_among_days(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_ledger ledger = {.stored_wall_ns = 0};

    (void)state;
    assert_true(fg_ledger_store(&ledger, 1000, NOON, arena)); /* it begins here */
    assert_int_equal(ledger.next_day, TODAY);
    assert_int_equal(ledger.n_open, 0);
    assert_true(fg_ledger_store(&ledger, 1000, NOON + 2 * FG_USAGE_DAY_NS, arena));
    assert_int_equal(ledger.n_open, 3);
    assert_int_equal(ledger.open[0].stored.byte_days, 500);
    assert_int_equal(ledger.open[1].stored.byte_days, 1000);
    assert_int_equal(ledger.open[2].stored.byte_days, 500);
    assert_true(fg_ledger_store(&ledger, 1000, NOON, arena)); /* a clock that was set back */
    assert_int_equal(ledger.n_open, 3);
    assert_true(ledger.stored_wall_ns == NOON + 2 * FG_USAGE_DAY_NS);
    assert_true(fg_ledger_store(&ledger, 1, INT64_MAX, arena)); /* one that is centuries ahead */
    assert_int_equal(ledger.n_open, FG_LEDGER_DAYS_MAX);
    fg_arena_destroy(arena);
}

static void a_day_is_frozen_two_hours_after_its_end(void **state)
{
    const int64_t end = (int64_t)(TODAY + 1) * FG_USAGE_DAY_NS;
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_ledger ledger = {.stored_wall_ns = NOON, .next_day = TODAY};

    (void)state;
    add(&ledger, TODAY - 3, "shop", 1, arena);
    add(&ledger, TODAY, "shop", 10, arena);
    add(&ledger, TODAY + 1, "shop", 100, arena);
    assert_false(fg_ledger_is_due(&ledger, NOON));
    assert_false(fg_ledger_is_due(&ledger, end + 2 * FG_HOUR_NS - 1));
    assert_true(fg_ledger_is_due(&ledger, end + 2 * FG_HOUR_NS));
    assert_int_equal(fg_ledger_last_day(&ledger, end + 2 * FG_HOUR_NS), TODAY);
    assert_true(fg_ledger_freeze(&ledger, TODAY, fg_ledger_next_version(&ledger, end), arena));
    assert_int_equal(ledger.version, end / FG_SECOND_NS);
    assert_int_equal(ledger.n_frozen, 2); /* with what came late for an earlier day */
    assert_int_equal(ledger.n_open, 1);
    assert_int_equal(ledger.next_day, TODAY + 1);
    assert_false(fg_ledger_is_due(&ledger, end + 9 * FG_USAGE_DAY_NS)); /* one at a time */
    ledger.n_frozen = 0;
    assert_false(fg_ledger_is_due(&ledger, end + 3 * FG_HOUR_NS));
    add(&ledger, TODAY, "shop", 1, arena); /* late: waits for the next day's */
    assert_false(fg_ledger_is_due(&ledger, end + 3 * FG_HOUR_NS));
    assert_true(fg_ledger_next_version(&ledger, 0) > ledger.version); /* whatever the clock says */
    fg_arena_destroy(arena);
}

static void a_ledger_is_bounded_and_loses_nothing(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_ledger ledger = {.stored_wall_ns = NOON, .next_day = TODAY};
    uint64_t profiles = 0, bytes = 0;
    char service[4096];

    (void)state;
    memset(service, 'x', sizeof service);
    for (int i = 0; i < 3000; i++) { /* names of 12 MB */
        (void)snprintf(service + 3000, 16, "%d", i);
        add(&ledger, TODAY - 2 * i, service, 1, arena);
    }
    assert_int_equal(ledger.n_open, FG_LEDGER_DAYS_MAX);
    for (uint32_t i = 0; i < ledger.n_open; i++) {
        profiles += fg_usage_day_total(&ledger.open[i]).profiles;
        for (uint32_t k = 0; k < ledger.open[i].n_rows; k++)
            bytes += ledger.open[i].rows[k].service.len;
    }
    assert_int_equal(profiles, 3000);
    assert_in_range(bytes, FG_LEDGER_MAX_BYTES / 2, FG_LEDGER_MAX_BYTES);
    assert_true(fg_ledger_is_due(&ledger, NOON)); /* not once a day if it is half full */
    assert_int_equal(fg_ledger_last_day(&ledger, NOON), TODAY - 1);
    fg_arena_destroy(arena);
}

/* Adds n services to a day, with names of 20 KB. */
static void add_services(struct fg_ledger *ledger, int32_t day, int n, struct fg_arena *arena)
{
    char service[20480];

    memset(service, 'x', sizeof service);
    for (int i = 0; i < n; i++) {
        (void)snprintf(service + 20000, 16, "%d", i);
        add(ledger, day, service, 1, arena);
    }
}

/* A service that the ledger lists keeps its name, however full the ledger is. */
static void a_full_ledger_goes_on_counting_its_services(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_ledger ledger = {.stored_wall_ns = NOON, .next_day = TODAY};
    const struct fg_usage_day *day;

    (void)state;
    add(&ledger, TODAY, "a", 1, arena);
    add_services(&ledger, TODAY, 250, arena); /* 5 MB */
    add(&ledger, TODAY, "a", 1, arena);
    add(&ledger, TODAY, "b", 5, arena);
    day = &ledger.open[0];
    assert_true(fg_slice_is(day->rows[0].service, ""));
    assert_true(day->rows[0].profiles > 5); /* "b" and what did not fit */
    assert_true(fg_slice_is(day->rows[1].service, "a"));
    assert_int_equal(day->rows[1].profiles, 2);
    assert_int_equal(fg_usage_day_total(day).profiles, 257);
    assert_in_range(fg_usage_day_bytes(day), FG_LEDGER_MAX_BYTES / 2,
                    FG_LEDGER_MAX_BYTES + FG_USAGE_ROW_BYTES);
    fg_arena_destroy(arena);
}

/* A freeze leaves today where it is, so each late profile would make another one. */
static void a_full_today_makes_no_freezes(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_ledger ledger = {.stored_wall_ns = NOON, .next_day = TODAY};

    (void)state;
    add_services(&ledger, TODAY, 150, arena); /* 3 MB */
    add(&ledger, TODAY - 1, "late", 1, arena);
    assert_false(fg_ledger_is_due(&ledger, NOON));
    for (int32_t day = 0; day < FG_LEDGER_DAYS_MAX / 2 + 10; day++)
        add(&ledger, TODAY + day, "early", 1, arena); /* of clocks that are fast */
    assert_false(fg_ledger_is_due(&ledger, NOON));
    add_services(&ledger, TODAY - 1, 70, arena);
    assert_false(fg_ledger_is_due(&ledger, NOON)); /* 1 MB; what is beyond has no names */
    ledger = (struct fg_ledger){.stored_wall_ns = NOON, .next_day = TODAY};
    add_services(&ledger, TODAY - 1, 150, arena);
    assert_true(fg_ledger_is_due(&ledger, NOON));
    fg_arena_destroy(arena);
}

/* ---- in a manifest ---- */

static struct fg_blocks apply(const struct fg_blocks *blocks, const struct fg_usage_day *sums,
                              int64_t wall_ns, struct fg_arena *arena)
{
    const struct fg_blocks_entry entry = {.id = {1, (uint64_t)wall_ns}, .bytes = 86400};
    const struct fg_blocks_change change = {.add = &entry, .n_add = 1, .used = sums, .n_used = 1};
    struct fg_l0 l0 = fg_l0_none();
    struct fg_blocks next;
    struct fg_err err;
    bool changed;

    assert_int_equal(fg_blocks_apply(blocks, &l0, &change, wall_ns, arena, &next, &changed, &err),
                     FG_OK);
    assert_true(changed);
    /* Made again, it counts nothing. */
    assert_int_equal(fg_blocks_apply(&next, &l0, &change, wall_ns, arena, &next, &changed, &err),
                     FG_OK);
    assert_false(changed);
    return next;
}

static struct fg_blocks read_back(const struct fg_blocks *blocks, struct fg_arena *arena)
{
    struct fg_blocks read;
    struct fg_buf bytes;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    assert_int_equal(fg_blocks_encode(blocks, &bytes, &err), FG_OK);
    assert_int_equal(fg_blocks_decode(fg_buf_slice(&bytes), FG_LIT("t"), arena, &read, &err),
                     FG_OK);
    fg_buf_done(&bytes);
    return read;
}

static void a_swap_counts_once_and_a_freeze_is_final(void **state)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_day sums = used(TODAY, "shop", 5, arena), more = used(TODAY, "shop", 0, arena);
    struct fg_blocks_freeze freeze = {.version = 77, .last = TODAY, .more = &more, .n_more = 1};
    struct fg_blocks blocks = fg_blocks_none(FG_LIT("t")), other;
    struct fg_err err;
    bool changed;

    (void)state;
    blocks = apply(&blocks, &sums, NOON, arena);
    blocks = apply(&blocks, &sums, NOON + FG_HOUR_NS, arena);
    blocks = read_back(&blocks, arena);
    assert_int_equal(blocks.ledger.n_open, 1);
    assert_int_equal(blocks.ledger.open[0].rows[0].profiles, 10);
    assert_int_equal(blocks.ledger.open[0].stored.byte_days, 3600); /* the first block's hour */
    assert_int_equal(blocks.ledger.open[0].writes, 4);
    more.rows[0].series = 3;
    assert_int_equal(
        fg_blocks_freeze(&blocks, &freeze, NOON + FG_USAGE_DAY_NS, arena, &other, &changed, &err),
        FG_OK);
    assert_true(changed);
    other = read_back(&other, arena);
    assert_int_equal(other.ledger.n_frozen, 1);
    assert_int_equal(other.ledger.frozen[0].rows[0].series, 3);
    assert_int_equal(fg_blocks_freeze(&other, &freeze, NOON, arena, &blocks, &changed, &err),
                     FG_OK);
    assert_false(changed); /* its answer was lost */
    freeze.version = 78;
    assert_int_equal(fg_blocks_freeze(&other, &freeze, NOON, arena, &blocks, &changed, &err),
                     FG_E_ABORTED); /* it was decided without the first one */
    blocks = apply(&other, &sums, NOON + 2 * FG_USAGE_DAY_NS, arena);
    assert_int_equal(fg_usage_day_total(&blocks.ledger.frozen[0]).profiles, 10);
    assert_int_equal(fg_blocks_drop_frozen(&blocks, 76, NOON, arena, &other, &changed, &err),
                     FG_OK);
    assert_false(changed);
    assert_int_equal(fg_blocks_drop_frozen(&blocks, 77, NOON, arena, &other, &changed, &err),
                     FG_OK);
    assert_true(changed);
    assert_int_equal(other.ledger.n_frozen, 0);
    assert_int_equal(other.ledger.version, 77);
    assert_int_equal(other.ledger.open[0].rows[0].profiles, 5); /* what came since */
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stored_bytes_are_divided_among_days),
        cmocka_unit_test(a_day_is_frozen_two_hours_after_its_end),
        cmocka_unit_test(a_ledger_is_bounded_and_loses_nothing),
        cmocka_unit_test(a_full_ledger_goes_on_counting_its_services),
        cmocka_unit_test(a_full_today_makes_no_freezes),
        cmocka_unit_test(a_swap_counts_once_and_a_freeze_is_final),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
