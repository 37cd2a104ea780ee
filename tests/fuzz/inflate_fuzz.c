/* The first byte chooses the coding; the rest is the body, of which 64 KiB may come out. */
#include "common/net/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { MAX_BYTES = 64 * 1024 };
    struct fg_buf out;
    struct fg_err err;

    if (size == 0)
        return 0;
    fg_buf_init(&out, 0);
    if (fg_inflate(fg_bytes(data + 1, size - 1), data[0] & 3, MAX_BYTES, &out, &err) == FG_OK)
        fg_assert(out.len <= MAX_BYTES);
    fg_assert(out.cap <= MAX_BYTES + 1);
    fg_buf_done(&out);
    return 0;
}
