/* A file is a block, or there is a clear reason why not; never more memory than was given. */
#include "common/block/verify.h"

enum { MAX_BYTES = 16 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_block_verified verified;
    struct fg_err err;

    if (fg_block_verify(fg_bytes(data, size), MAX_BYTES, &verified, &err) != FG_OK)
        fg_assert(err.code == FG_E_CORRUPT || err.code == FG_E_LIMIT);
    return 0;
}
