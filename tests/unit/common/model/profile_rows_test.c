/* Lists of single profiles: what they keep, their encoded form, and bytes that are none. */
#include "common/base/time.h"
#include "common/model/profile_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ROWS = 3000, PODS = 4 };

static const char *const by_pod[] = {"pod"};
static const int64_t step_ns = 15 * FG_SECOND_NS;

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (*random >> 33) % below;
}

static struct fg_profile_rows_config config_of(struct fg_arena *arena)
{
    return (struct fg_profile_rows_config){
        .arena = arena, .max_bytes = 1 << 20, .group_by = by_pod, .n_group_by = 1};
}

/* The label set {pod="p", service_name="shop"} of a pod. */
static uint32_t set_of(struct fg_profile_rows *rows, unsigned pod)
{
    char name[] = {'p', (char)('0' + pod), '\0'};
    struct fg_label items[] = {{FG_LIT("pod"), fg_cstr(name)},
                               {FG_LIT("service_name"), FG_LIT("shop")}};
    struct fg_labels labels = {items, 2};
    struct fg_err err;
    uint32_t set;

    assert_int_equal(fg_profile_rows_set(rows, &labels, &set, &err), FG_OK);
    return set;
}

/* Adds rows that are drawn by a seed. */
static void fill(struct fg_profile_rows *rows, uint64_t seed, unsigned n)
{
    struct fg_err err;

    for (unsigned i = 0; i < n; i++) {
        struct fg_profile_row row = {.set = set_of(rows, (unsigned)draw(&seed, PODS)),
                                     .time_ns = (int64_t)draw(&seed, 600) * FG_SECOND_NS,
                                     .id = {draw(&seed, 1 << 20), i},
                                     .value = (int64_t)draw(&seed, 1000) - 1};

        if (rows->config.spans) {
            row.span_id = 1 + draw(&seed, 50);
            row.trace_id[0] = (uint8_t)draw(&seed, 3);
        }
        assert_int_equal(fg_profile_rows_add(rows, &row, &err), FG_OK);
    }
    fg_profile_rows_finish(rows);
}

static void assert_same(const struct fg_profile_rows *a, const struct fg_profile_rows *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct fg_profile_row *x = &a->items[i], *y = &b->items[i];

        assert_true(x->time_ns == y->time_ns && fg_id_eq(x->id, y->id) && x->value == y->value &&
                    x->span_id == y->span_id && x->step == y->step);
        assert_memory_equal(x->trace_id, y->trace_id, FG_ID_BYTES);
        assert_int_equal(fg_labels_cmp(&a->sets.items[x->set], &b->sets.items[y->set]), 0);
    }
}

/* A list that has room for a few rows only has the same result. */
static void greatest_of_each_step_in_little_memory(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_profile_rows_config config = config_of(arena);
    struct fg_profile_rows large, small;

    (void)state;
    config.keep = FG_ROWS_GREATEST;
    config.step_ns = step_ns;
    config.last_step = 30;
    fg_profile_rows_init(&large, &config);
    config.max_bytes = (size_t)512 * sizeof *small.items; /* 31 steps of 4 pods, twice and more */
    fg_profile_rows_init(&small, &config);
    fill(&large, 7, ROWS);
    fill(&small, 7, ROWS);
    assert_in_range(large.n, 30 * PODS, 31 * PODS); /* in the first step is one second only */
    assert_true(small.cap <= 512);
    assert_same(&large, &small);
    for (size_t i = 0; i < large.n; i++) {
        const struct fg_profile_row *row = &large.items[i];

        assert_ptr_equal(fg_profile_rows_find(&large, row->group, row->step), row);
        assert_true(row->step <= 30 && row->time_ns <= (int64_t)row->step * step_ns + FG_MS_NS);
    }
    assert_null(fg_profile_rows_find(&large, 0, 31));
    fg_profile_rows_done(&large);
    fg_profile_rows_done(&small);
}

/* Pages of a list, one after another, are the list. */
static void pages_of_the_newest(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_profile_rows_config config = config_of(arena);
    struct fg_profile_rows all, page;
    size_t at = 0;

    (void)state;
    config.keep = FG_ROWS_NEWEST;
    config.n_newest = ROWS;
    fg_profile_rows_init(&all, &config);
    fill(&all, 9, ROWS);
    assert_int_equal(all.n, ROWS);
    config.n_newest = 7;
    do {
        fg_profile_rows_init(&page, &config);
        fill(&page, 9, ROWS);
        for (size_t i = 0; i < page.n; i++, at++) {
            assert_true(page.items[i].time_ns == all.items[at].time_ns);
            assert_true(fg_id_eq(page.items[i].id, all.items[at].id));
        }
        config.has_before = true;
        config.before_ns = all.items[at - 1].time_ns;
        config.before_id = all.items[at - 1].id;
        fg_profile_rows_done(&page);
    } while (at < ROWS);
    fg_profile_rows_done(&all);
}

static void more_rows_than_memory(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_profile_rows_config config = config_of(arena);
    struct fg_profile_rows rows;
    struct fg_profile_row row = {0};
    struct fg_err err;

    (void)state;
    config.max_bytes = 100 * sizeof row + 1;
    fg_profile_rows_init(&rows, &config);
    row.set = set_of(&rows, 0);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(fg_profile_rows_add(&rows, &row, &err), FG_OK);
    assert_int_equal(fg_profile_rows_add(&rows, &row, &err), FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "more than 100 profiles"));
    fg_profile_rows_done(&rows);
}

static void encoded_and_decoded(void **state)
{
    (void)state;
    for (unsigned spans = 0; spans < 2; spans++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
        struct fg_profile_rows_config config = config_of(arena);
        struct fg_profile_rows rows, again;
        struct fg_buf bytes;
        struct fg_err err;

        config.spans = spans == 1;
        fg_profile_rows_init(&rows, &config);
        fg_profile_rows_init(&again, &config);
        fg_buf_init(&bytes, SIZE_MAX);
        fill(&rows, 11, ROWS);
        fg_profile_rows_encode(&rows, &bytes);
        assert_int_equal(fg_profile_rows_decode(&again, fg_buf_slice(&bytes), &err), FG_OK);
        fg_profile_rows_finish(&again);
        assert_int_equal(again.sets.n, PODS);
        assert_int_equal(again.n, ROWS);
        for (size_t len = 1; len < bytes.len; len += 97) { /* cut short */
            fg_profile_rows_done(&again);
            assert_int_equal(fg_profile_rows_decode(&again, fg_bytes(bytes.ptr, len), &err),
                             FG_E_CORRUPT);
        }
        fg_profile_rows_done(&again);
        assert_int_equal(fg_profile_rows_decode(&again, fg_bytes(NULL, 0), &err), FG_OK);
        assert_int_equal(again.n, 0);
        fg_buf_done(&bytes);
        fg_profile_rows_done(&rows);
        fg_profile_rows_done(&again);
    }
}

/* Times from one end of 64 bits to the other. */
static void extreme_times(void **state)
{
    static const int64_t times_ns[] = {INT64_MIN, INT64_MAX, 0, INT64_MIN + 1, -1};
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 24);
    struct fg_profile_rows_config config = config_of(arena);
    struct fg_profile_rows rows, again;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_profile_rows_init(&rows, &config);
    fg_profile_rows_init(&again, &config);
    for (size_t i = 0; i < FG_COUNT(times_ns); i++) {
        struct fg_profile_row row = {
            .set = set_of(&rows, 0), .time_ns = times_ns[i], .value = INT64_MIN + (int64_t)i};

        assert_int_equal(fg_profile_rows_add(&rows, &row, &err), FG_OK);
    }
    fg_profile_rows_finish(&rows);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_profile_rows_encode(&rows, &bytes);
    assert_int_equal(fg_profile_rows_decode(&again, fg_buf_slice(&bytes), &err), FG_OK);
    fg_profile_rows_finish(&again);
    assert_same(&rows, &again);
    fg_buf_done(&bytes);
    fg_profile_rows_done(&rows);
    fg_profile_rows_done(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greatest_of_each_step_in_little_memory),
        cmocka_unit_test(pages_of_the_newest),
        cmocka_unit_test(more_rows_than_memory),
        cmocka_unit_test(encoded_and_decoded),
        cmocka_unit_test(extreme_times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
