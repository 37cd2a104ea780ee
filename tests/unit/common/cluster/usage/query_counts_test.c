#include "common/cluster/usage/query_counts.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void add(struct fg_query_counts *counts, const char *tenant, uint64_t n,
                struct fg_arena *arena)
{
    assert_true(fg_query_counts_add(counts, fg_cstr(tenant),
                                    &(struct fg_usage_queries){n, 2 * n, 3 * n, 4 * n}, arena));
}

static void counts_of_processes_add_up(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    struct fg_query_counts one = {.count = 0}, all = {.count = 0};
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    add(&one, "zoo", 1, arena);
    add(&one, "acme", 10, arena);
    add(&one, "zoo", 100, arena);
    add(&all, "acme", 1000, arena);
    fg_buf_init(&bytes, FG_QUERY_COUNTS_MAX_BYTES);
    assert_int_equal(fg_query_counts_encode(&one, &bytes, &err), FG_OK);
    assert_int_equal(fg_query_counts_add_encoded(&all, fg_buf_slice(&bytes), arena, &err), FG_OK);
    assert_int_equal(all.count, 2);
    assert_int_equal(fg_query_counts_find(&all, FG_LIT("acme"))->queries.queries, 1010);
    assert_int_equal(fg_query_counts_find(&all, FG_LIT("zoo"))->queries.cpu_us, 404);
    assert_null(fg_query_counts_find(&all, FG_LIT("other")));
    for (size_t at = 0; at < bytes.len; at++) { /* a bit that was lost anywhere */
        bytes.ptr[at] ^= 4;
        assert_int_not_equal(fg_query_counts_add_encoded(&all, fg_buf_slice(&bytes), arena, &err),
                             FG_OK);
        bytes.ptr[at] ^= 4;
    }
    assert_int_equal(fg_query_counts_find(&all, FG_LIT("zoo"))->queries.queries, 101);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

static void tenants_are_bounded(void **state)
{
    struct fg_arena *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    struct fg_query_counts counts = {.count = 0};
    struct fg_buf bytes;
    struct fg_err err;
    char tenant[32];

    (void)state;
    for (int i = 0; i < FG_QUERY_COUNTS_TENANTS_MAX; i++) {
        (void)snprintf(tenant, sizeof tenant, "tenant-%06d", i);
        add(&counts, tenant, 1, arena);
    }
    assert_false(fg_query_counts_add(&counts, FG_LIT("one-more"),
                                     &(struct fg_usage_queries){1, 1, 1, 1}, arena));
    add(&counts, "tenant-000007", 1, arena);
    fg_buf_init(&bytes, FG_QUERY_COUNTS_MAX_BYTES);
    assert_int_equal(fg_query_counts_encode(&counts, &bytes, &err), FG_OK);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* The compactor adds a day up two hours after its end. */
static void nothing_comes_for_a_day_that_was_added_up(void **state)
{
    const int64_t end = 11 * FG_USAGE_DAY_NS;

    (void)state;
    assert_int_equal(fg_query_counts_day(10, end - 1), 10);
    assert_int_equal(fg_query_counts_day(10, end + FG_HOUR_NS - 1), 10);
    assert_int_equal(fg_query_counts_day(10, end + FG_HOUR_NS), 11);
    assert_int_equal(fg_query_counts_day(10, end + 5 * FG_USAGE_DAY_NS), 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_of_processes_add_up),
        cmocka_unit_test(tenants_are_bounded),
        cmocka_unit_test(nothing_comes_for_a_day_that_was_added_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
