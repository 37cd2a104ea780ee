/* A label index as an ingester answers with. What was read is written and read again. */
#include "common/model/label_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 22);
    struct fg_label_index index, again;
    struct fg_buf bytes, twice;
    struct fg_err err;

    if (fg_label_index_decode(fg_bytes(data, size), arena, &index, &err) != FG_OK) {
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT);
        return 0;
    }
    for (uint32_t i = 0; i < index.n_postings; i++)
        for (uint32_t k = 0; k < index.postings[i].n_series; k++)
            fg_assert(index.postings[i].series[k] < index.n_prints);
    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_init(&twice, SIZE_MAX);
    fg_label_index_encode(&index, &bytes);
    if (fg_label_index_decode(fg_buf_slice(&bytes), arena, &again, &err) == FG_OK) {
        fg_label_index_encode(&again, &twice);
        fg_assert(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&twice)));
    } else {
        fg_assert(err.code == FG_E_LIMIT); /* of the arena, which has both */
    }
    fg_buf_done(&twice);
    fg_buf_done(&bytes);
    return 0;
}
