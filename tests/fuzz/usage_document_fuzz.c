/* A document of usage that can be decoded is encoded to the same bytes again, unless a newer
 * version has added fields to it, and the next version of it can be read back. */
#include "common/base/crc32c.h"
#include "common/cluster/usage/document.h"

enum { MEMORY_MAX = 64 << 20, DAY = 20784, VERSION = 1796000000 };

static void look_at(const struct fg_usage_document *document, struct fg_arena *arena)
{
    struct fg_usage_document next, read;
    struct fg_buf bytes, again;
    struct fg_err err;

    fg_buf_init(&bytes, FG_USAGE_DOCUMENT_MAX_BYTES);
    fg_buf_init(&again, FG_USAGE_DOCUMENT_MAX_BYTES);
    if (fg_usage_document_next(document, FG_LIT("t"), VERSION + 1, &document->sums, arena, &next,
                               &err) == FG_OK &&
        fg_usage_document_encode(&next, &bytes, &err) == FG_OK &&
        fg_usage_document_decode(fg_buf_slice(&bytes), FG_LIT("t"), DAY, VERSION + 1, arena, &read,
                                 &err) == FG_OK) {
        fg_assert(read.before == VERSION && read.revision == next.revision);
        fg_assert(fg_usage_document_encode(&read, &again, &err) == FG_OK);
        fg_assert(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
        fg_assert(read.sums.n_rows == document->sums.n_rows);
    } else {
        /* The arena is full, or the number of versions is at its end. */
        fg_assert(fg_arena_used_bytes(arena) > MEMORY_MAX / 4 || document->revision == UINT64_MAX);
    }
    fg_buf_done(&bytes);
    fg_buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_arena *arena = fg_arena_create(MEMORY_MAX);
    struct fg_usage_document document;
    struct fg_buf whole;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_usage_document_decode(fg_buf_slice(&whole), FG_LIT("t"), DAY, VERSION, arena, &document,
                                 &err) == FG_OK)
        look_at(&document, arena);
    fg_buf_done(&whole);
    fg_arena_destroy(arena);
    return 0;
}
