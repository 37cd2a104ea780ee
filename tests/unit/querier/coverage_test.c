/* Covered time of points, and the division of steps. */
#include "common/base/time.h"
#include "querier/coverage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { N_MAX = 16 };

static void assert_covered(const int64_t *ks, size_t n, int64_t parts, int64_t part_s,
                           const char *want)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 16);
    struct qry_point items[N_MAX];
    struct qry_points points = {.items = items, .n = n};
    int64_t *covered_ns;
    char found[256] = "";
    struct fg_err err;
    size_t len = 0;

    for (size_t i = 0; i < n; i++)
        items[i] = (struct qry_point){ks[i], (int64_t)i + 1, 1};
    assert_int_equal(
        qry_coverage_join(&points, parts, part_s * FG_SECOND_NS, arena, &covered_ns, &err), FG_OK);
    for (size_t i = 0; i < points.n; i++)
        len += (size_t)snprintf(found + len, sizeof found - len, "%lld: %lld of %llu in %lld s\n",
                                (long long)items[i].k, (long long)items[i].sum,
                                (unsigned long long)items[i].count,
                                (long long)(covered_ns[i] / FG_SECOND_NS));
    assert_string_equal(found, want);
}

static void points_stand_for_the_time_before(void **state)
{
    (void)state;
    assert_covered(NULL, 0, 1, 15, "");
    assert_covered((int64_t[]){7}, 1, 1, 15, "7: 1 of 1 in 15 s\n");
    /* Every 30 s, then a gap of an hour. */
    assert_covered((int64_t[]){0, 2, 4, 244, 246}, 5, 1, 15,
                   "0: 1 of 1 in 30 s\n2: 2 of 1 in 30 s\n4: 3 of 1 in 30 s\n"
                   "244: 4 of 1 in 30 s\n246: 5 of 1 in 30 s\n");
    /* A minute is no gap, more is one. */
    assert_covered((int64_t[]){0, 1, 2, 3, 7, 12}, 6, 1, 15,
                   "0: 1 of 1 in 15 s\n1: 2 of 1 in 15 s\n2: 3 of 1 in 15 s\n3: 4 of 1 in 15 s\n"
                   "7: 5 of 1 in 60 s\n12: 6 of 1 in 15 s\n");
    /* On a coarse grid each point stands for its step. */
    assert_covered((int64_t[]){0, 1, 5}, 3, 1, 3600,
                   "0: 1 of 1 in 3600 s\n1: 2 of 1 in 3600 s\n5: 3 of 1 in 3600 s\n");
}

static void rare_points_stand_for_their_distance(void **state)
{
    (void)state;
    /* Every 120 s, not on time; the last one but one is lost. */
    assert_covered((int64_t[]){0, 8, 15, 24, 32, 48}, 6, 1, 15,
                   "0: 1 of 1 in 120 s\n8: 2 of 1 in 120 s\n15: 3 of 1 in 105 s\n"
                   "24: 4 of 1 in 135 s\n32: 5 of 1 in 120 s\n48: 6 of 1 in 120 s\n");
    /* Every 300 s, also in steps that most of them leave out. */
    assert_covered((int64_t[]){3, 23, 43, 243}, 4, 1, 15,
                   "3: 1 of 1 in 300 s\n23: 2 of 1 in 300 s\n43: 3 of 1 in 300 s\n"
                   "243: 4 of 1 in 300 s\n");
    assert_covered((int64_t[]){3, 23, 43}, 3, 4, 15,
                   "0: 1 of 1 in 300 s\n5: 2 of 1 in 300 s\n10: 3 of 1 in 300 s\n");
    /* More than an hour apart: single ones. */
    assert_covered((int64_t[]){0, 241, 482}, 3, 1, 15,
                   "0: 1 of 1 in 15 s\n241: 2 of 1 in 15 s\n482: 3 of 1 in 15 s\n");
    assert_covered((int64_t[]){0, 240}, 2, 1, 15, "0: 1 of 1 in 3600 s\n240: 2 of 1 in 3600 s\n");
}

static void parts_are_joined(void **state)
{
    (void)state;
    /* Four parts in a step; the second one has profiles in one of them only. */
    assert_covered((int64_t[]){0, 1, 2, 3, 5, 15}, 6, 4, 15,
                   "0: 10 of 4 in 60 s\n1: 5 of 1 in 30 s\n3: 6 of 1 in 15 s\n");
}

static void steps_have_whole_parts(void **state)
{
    static const struct {
        int64_t step_ms, length_ms, want;
    } cases[] = {
        {1, 0, 1},
        {15000, 3600000, 1},
        {29999, 3600000, 1},
        {30000, 3600000, 2},
        {60000, 3600000, 4},
        {77000, 3600000, 5},
        {61001, 0, 1},            /* 61001 ms have no divisor up to 4 */
        {3600000, 86400000, 160}, /* 25 points: at most 160 parts each */
        {3600000, INT64_C(365) * 86400000, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        int64_t parts =
            qry_coverage_parts(cases[i].step_ms * FG_MS_NS, cases[i].length_ms * FG_MS_NS);

        print_message("  %lld ms\n", (long long)cases[i].step_ms);
        assert_int_equal(parts, cases[i].want);
        assert_int_equal(cases[i].step_ms % parts, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_stand_for_the_time_before),
        cmocka_unit_test(rare_points_stand_for_their_distance),
        cmocka_unit_test(parts_are_joined),
        cmocka_unit_test(steps_have_whole_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
