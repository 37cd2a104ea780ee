/* Sets of groups are compared with a plain array of bits; what is folded may only add. */
#include "common/base/hash.h"
#include "common/cluster/manifest/late_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WINDOWS = 12, SHARDS = 40 };

static uint64_t state_of_random = 1;

static uint32_t draw(uint32_t below)
{
    state_of_random += 0x9e3779b97f4a7c15u;
    return (uint32_t)(fg_mix64(state_of_random) % below);
}

struct slow {
    bool has[WINDOWS][SHARDS];
};

/* Some runs, and the same in bits. */
static struct fg_late_filter make(struct fg_arena *arena, struct slow *slow)
{
    struct fg_late_filter_run runs[20];
    uint32_t n = draw(FG_COUNT(runs) + 1);
    struct fg_late_filter filter;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = draw(SHARDS), len = draw(SHARDS - first);

        runs[i] =
            (struct fg_late_filter_run){draw(WINDOWS), (uint16_t)first, (uint16_t)(first + len)};
        for (uint32_t s = first; s <= first + len; s++)
            slow->has[runs[i].window][s] = true;
    }
    assert_true(fg_late_filter_make(runs, n, arena, &filter));
    return filter;
}

static void check_form(const struct fg_late_filter *filter)
{
    for (uint32_t i = 1; i < filter->n_runs; i++) {
        const struct fg_late_filter_run *a = &filter->runs[i - 1], *b = &filter->runs[i];

        assert_true(a->window < b->window ||
                    (a->window == b->window && (uint32_t)a->last + 1 < b->first));
    }
}

static void the_filter_agrees_with_a_set_of_bits(void **state)
{
    (void)state;
    for (int round = 0; round < 300; round++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct slow a = {0}, b = {0};
        struct fg_late_filter left = make(arena, &a), right = make(arena, &b), both;
        uint32_t below = draw(4) == 0 ? draw(WINDOWS) : 0;

        assert_true(fg_late_filter_join(&left, &right, below, 0, arena, &both));
        check_form(&left);
        check_form(&both);
        for (uint32_t w = 0; w < WINDOWS; w++)
            for (uint32_t s = 0; s < SHARDS; s++) {
                assert_int_equal(fg_late_filter_has(&left, (uint16_t)s, w), a.has[w][s]);
                assert_int_equal(fg_late_filter_has(&both, (uint16_t)s, w),
                                 w < below || a.has[w][s] || b.has[w][s]);
            }
        assert_true(fg_late_filter_has(&both, 0, UINT32_MAX));
        fg_arena_destroy(arena);
    }
}

/* More runs than there may be: old windows are folded, and then the farthest. */
static void too_many_runs_are_folded(void **state)
{
    struct fg_arena *arena = fg_arena_create(64 << 20);
    uint32_t n = FG_LATE_FILTER_RUNS_MAX, windows = n / 32768;
    struct fg_late_filter_run *runs = fg_arena_new(arena, struct fg_late_filter_run, n);
    struct fg_late_filter_run one = {.window = 5000, .first = 3, .last = 3};
    struct fg_late_filter set, more, past, future;

    (void)state;
    for (uint32_t i = 0; i < n; i++) { /* every other shard */
        uint16_t shard = (uint16_t)(2 * (i % 32768));

        runs[i] = (struct fg_late_filter_run){100 + i / 32768, shard, shard};
    }
    assert_true(fg_late_filter_make(runs, n, arena, &set));
    assert_int_equal(set.n_runs, n);
    assert_true(fg_late_filter_make(&one, 1, arena, &more));

    assert_true(fg_late_filter_join(&set, &more, 0, 101, arena, &past));
    assert_int_equal(past.below, 101);
    assert_int_equal(past.above, FG_LATE_FILTER_ABOVE_NONE);
    assert_true(past.n_runs <= FG_LATE_FILTER_RUNS_MAX);
    assert_true(fg_late_filter_has(&past, 1, 100)); /* folded: too often is fine */
    assert_false(fg_late_filter_has(&past, 1, 101));
    assert_true(fg_late_filter_has(&past, 3, 5000));

    assert_true(fg_late_filter_join(&set, &more, 0, 0, arena, &future));
    assert_int_equal(future.below, 0);
    assert_int_equal(future.above, 5000);
    assert_true(fg_late_filter_has(&future, 7, 6000));
    assert_false(fg_late_filter_has(&future, 7, 100 + windows));
    assert_false(fg_late_filter_has(&future, 7, 4999));

    /* What is folded stays folded. */
    assert_true(fg_late_filter_join(&past, &future, 0, 0, arena, &more));
    assert_int_equal(more.below, 101);
    assert_int_equal(more.above, 5000);
    fg_arena_destroy(arena);
}

static void a_full_arena_is_reported(void **state)
{
    struct fg_arena *arena = fg_arena_create(64);
    struct fg_late_filter_run runs[20] = {{0}};
    struct fg_late_filter filter;

    (void)state;
    assert_false(fg_late_filter_make(runs, FG_COUNT(runs), arena, &filter));
    filter = fg_late_filter_none();
    assert_false(fg_late_filter_has(&filter, 0, 0));
    assert_false(fg_late_filter_has(&filter, UINT16_MAX, UINT32_MAX - 1));
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_filter_agrees_with_a_set_of_bits),
        cmocka_unit_test(too_many_runs_are_folded),
        cmocka_unit_test(a_full_arena_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
