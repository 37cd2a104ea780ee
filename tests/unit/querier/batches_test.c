/* Tests that a query reads its parts in batches, so that memory need not hold a long range. The
 * size of the batches does not change any answer. Runs, which only the indexes list, count towards
 * the size of a batch. */
#include "querier/blocks/blocks_impl.h"
#include "querier/blocks/reader.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A part in these worlds has about 6 kB. */
static void batch_size_does_not_change_results(void **state)
{
    static const uint64_t sizes[] = {0, 13000, 30000};

    (void)state;
    for (uint64_t seed = 40; seed < 46; seed++) {
        struct asker asker = {.random = seed};
        struct fg_err err;

        asker_init(&asker, seed, seed % 2 == 0 ? 0 : UINT64_C(1) << 20, NULL);
        asker_blocks(&asker)->batch_bytes = sizes[seed % FG_COUNT(sizes)];
        asker_blocks(&asker)->crown_nodes = 40;
        asker.world.rollups_permille = seed % 2 == 0 ? 500 : 0;
        world_settle(&asker.world);
        for (unsigned i = 0; i < 20; i++) {
            asker_happen_any(&asker, ASKER_HAPPENINGS);
            fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
            for (unsigned k = 0; k < 10; k++)
                asker_must(asker_check_any(&asker, true, &err), &err);
        }
        asker_done(&asker);
    }
}

/* ---- how large they are ---- */

struct walked {
    uint32_t batches, parts;
};

/* Reads all batches of a query for everything. */
static struct walked walk(struct asker *asker, uint64_t batch_bytes)
{
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct qry_query *query = asker_begin(asker, (1u << WORLD_TENANTS) - 1);
    struct fg_deletions deletions[WORLD_TENANTS] = {0};
    struct walked walked = {0, 0};
    struct qry_reader reader;
    struct fg_err err;

    asker_blocks(asker)->batch_bytes = batch_bytes;
    asker_must(qry_blocks_begin(query, false, &err), &err);
    query->deletions = deletions;
    asker_must(qry_reader_open(&reader, query, &selection, selection.type_text, selection.start_ns,
                               selection.end_ns, OBJECTS_PROFILES, true, &err),
               &err);
    for (;;) {
        asker_must(qry_reader_next(&reader, &err), &err);
        if (reader.n_batch == 0)
            break;
        walked.batches++;
        walked.parts += reader.n_batch;
    }
    assert_int_equal(walked.parts, reader.n_parts);
    qry_reader_close(&reader);
    query->deletions = NULL;
    asker_end(query);
    return walked;
}

/* Parts with more runs fill more batches, although their directories are equal. */
static void series_chunks_count_for_batch_size(void **state)
{
    enum { BATCH_BYTES = 28 * 1000 }; /* about four parts with one run for each series */
    uint32_t batches[2];

    (void)state;
    for (size_t striped = 0; striped < FG_COUNT(batches); striped++) {
        struct asker asker = {.random = 0};
        struct walked all;

        asker_init(&asker, 1, UINT64_C(1) << 20, NULL);
        asker.world.stripes_permille = striped == 0 ? 0 : 1000;
        world_push(&asker.world, 2000);
        world_commit(&asker.world, 1000);
        all = walk(&asker, UINT64_C(64) << 20);
        assert_int_equal(all.parts, 9);
        assert_int_equal(all.batches, 1);
        batches[striped] = walk(&asker, BATCH_BYTES).batches;
        assert_int_equal(walk(&asker, 0).batches, all.parts);
        asker_done(&asker);
    }
    assert_true(batches[0] > 1);
    assert_true(batches[1] > batches[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_size_does_not_change_results),
        cmocka_unit_test(series_chunks_count_for_batch_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
