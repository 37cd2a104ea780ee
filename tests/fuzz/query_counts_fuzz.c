/* Counts of queries that can be decoded are encoded and decoded to the same again; two times the
 * same is twice of each. */
#include "common/base/crc32c.h"
#include "common/cluster/usage/query_counts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    struct fg_query_counts counts = {.count = 0}, again = {.count = 0};
    struct fg_buf whole, bytes;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_init(&bytes, FG_QUERY_COUNTS_MAX_BYTES);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_query_counts_add_encoded(&counts, fg_buf_slice(&whole), arena, &err) == FG_OK) {
        fg_assert(fg_query_counts_encode(&counts, &bytes, &err) == FG_OK);
        fg_assert(fg_query_counts_add_encoded(&again, fg_buf_slice(&bytes), arena, &err) == FG_OK);
        fg_assert(fg_query_counts_add_encoded(&again, fg_buf_slice(&bytes), arena, &err) == FG_OK);
        fg_assert(again.count == counts.count);
        for (uint32_t i = 0; i < counts.count; i++) {
            const struct fg_query_count *one = &counts.items[i];

            fg_assert(fg_query_counts_find(&again, one->tenant) == &again.items[i]);
            fg_assert(again.items[i].queries.queries ==
                      fg_usage_sum(one->queries.queries, one->queries.queries));
        }
    }
    fg_buf_done(&whole);
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
    return 0;
}
