/* Tests the memory of accumulators: together with the reader they stay within the limit of a query.
 */
#include "querier/blocks/accumulators.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_BYTES = 1024 * 1024, KIB = 1024 };

/* Makes a reader with a batch of parts with that many stacks. */
struct fixture {
    struct qry_blocks blocks;
    struct qry_blocks_snapshot snapshot;
    struct qry_query query;
    struct fg_block_part entries[2];
    struct qry_part parts[2];
    struct qry_reader reader;
    struct qry_accumulators accumulators;
};

static void fixture_init(struct fixture *f, uint32_t n_stacks, uint32_t n_others)
{
    *f = (struct fixture){
        .blocks = {.memory_max_bytes = MAX_BYTES},
        .snapshot = {.task_group = fg_task_group_create(NULL, FG_LANE_QUERY, NULL)},
        .query = {.snapshot = &f->snapshot},
        .entries = {{.n_stacks = n_stacks}, {.n_stacks = n_others}},
        .parts = {{.entry = &f->entries[0], .n_spans = 1}, {.entry = &f->entries[1]}},
        .reader = {.query = &f->query,
                   .blocks = &f->blocks,
                   .arena = fg_arena_create(MAX_BYTES),
                   .batch = f->parts,
                   .n_batch = 2},
    };
    qry_accumulators_init(&f->accumulators, &f->reader);
}

static void fixture_done(struct fixture *f)
{
    qry_accumulators_done(&f->accumulators);
    fg_arena_destroy(f->reader.arena);
    fg_task_group_destroy(f->snapshot.task_group);
}

static bool has_room(struct fixture *f, size_t bytes)
{
    struct fg_arena_mark mark = fg_arena_mark(f->reader.arena);
    bool room = fg_arena_alloc(f->reader.arena, bytes) != NULL;

    fg_arena_release(f->reader.arena, mark);
    return room;
}

/* Takes an accumulator and returns it. */
static bool can_add(struct fixture *f)
{
    struct qry_accumulator *accumulator = qry_accumulators_take(&f->accumulators);
    bool can = qry_accumulator_sums(accumulator, &f->reader, &f->parts[0]) != NULL;

    qry_accumulators_give(&f->accumulators, accumulator);
    return can;
}

static void reader_and_accumulators_share_one_limit(void **state)
{
    static const struct {
        size_t reader_kib;
        bool fits;
    } cases[] = {{0, true}, {400, true}, {600, false}, {1024, false}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fixture f;

        print_message("  %zu KiB\n", cases[i].reader_kib);
        fixture_init(&f, 60 * KIB, 0); /* its sums take 480 KiB */
        assert_non_null(fg_arena_alloc(f.reader.arena, cases[i].reader_kib * KIB));
        qry_accumulators_begin(&f.accumulators);
        assert_int_equal(can_add(&f), cases[i].fits);
        qry_accumulators_end(&f.accumulators);
        fixture_done(&f);
    }
}

static void reader_has_less_memory_during_a_batch(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 60 * KIB, 0);
    assert_true(has_room(&f, 1000 * KIB));
    qry_accumulators_begin(&f.accumulators);
    assert_true(has_room(&f, 500 * KIB));
    assert_false(has_room(&f, 600 * KIB));
    qry_accumulators_end(&f.accumulators);
    assert_true(has_room(&f, 1000 * KIB));
    fixture_done(&f);
}

/* Fifteen helpers and the first thread, with 10 KiB each. */
static void each_helper_has_memory_for_its_sums(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 1280, 0);
    qry_accumulators_begin(&f.accumulators);
    assert_true(has_room(&f, (1024 - 161) * KIB));
    assert_false(has_room(&f, (1024 - 159) * KIB));
    qry_accumulators_end(&f.accumulators);
    fixture_done(&f);
}

/* A part from which the query reads nothing has no sums. */
static void unread_part_has_no_sums(void **state)
{
    struct fixture f;

    (void)state;
    fixture_init(&f, 1280, 1 << 20);
    qry_accumulators_begin(&f.accumulators);
    assert_true(can_add(&f));
    assert_true(has_room(&f, (1024 - 161) * KIB));
    qry_accumulators_end(&f.accumulators);
    fixture_done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_and_accumulators_share_one_limit),
        cmocka_unit_test(reader_has_less_memory_during_a_batch),
        cmocka_unit_test(each_helper_has_memory_for_its_sums),
        cmocka_unit_test(unread_part_has_no_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
