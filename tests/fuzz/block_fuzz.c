/* A file is a block, or there is a clear reason why not; never more memory than was given. */
#include "common/storage/block/verify.h"
#include "common/storage/rollup/verify.h"

enum { MAX_BYTES = 16 * 1024 * 1024 };

static void expect_reason(enum fg_code code, const struct fg_err *err)
{
    fg_assert(code == FG_OK || err->code == FG_E_CORRUPT || err->code == FG_E_LIMIT ||
              err->code == FG_E_UNIMPLEMENTED);
}

/* Each part by itself, as a repair looks at it, and its rollups. whole: all of the file is
 * right. */
static void verify_parts(struct fg_slice file, bool whole)
{
    fg_auto(fg_arena) *arena = fg_arena_create(MAX_BYTES);
    struct fg_block_directory directory;
    struct fg_err err;
    uint64_t offset;

    if (fg_block_directory_offset(file, file.len, &offset, &err) != FG_OK ||
        fg_block_directory_parse(fg_slice_sub(file, (size_t)offset, SIZE_MAX), file.len, NULL,
                                 arena, &directory, &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < directory.n_parts; i++) {
        const struct fg_block_part *part = &directory.parts[i];
        enum fg_code code =
            fg_block_verify_part(file, part, FG_BLOCK_VERIFY_PROFILES, MAX_BYTES, &err);

        expect_reason(code, &err);
        fg_assert(code == FG_OK || !whole);
        expect_reason(fg_rollup_verify(part, file, MAX_BYTES, &err), &err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice file = fg_bytes(data, size);
    struct fg_block_verified verified;
    struct fg_err err;

    enum fg_code code = fg_block_verify(file, NULL, MAX_BYTES, &verified, &err);

    expect_reason(code, &err);
    verify_parts(file, code == FG_OK);
    return 0;
}
