/* What decodes encodes to bytes that decode to the same. */
#include "common/model/symbols.h"

static bool again(struct fg_slice in, struct fg_buf *out)
{
    struct fg_cur cur = fg_cur(in);
    struct fg_symbols symbols;
    struct fg_err err;
    bool good;

    fg_symbols_init(&symbols);
    good = fg_symbols_decode(&symbols, &cur, &err) == FG_OK;
    if (good)
        fg_symbols_encode_since(&symbols, FG_SYMBOLS_START, out);
    fg_symbols_done(&symbols);
    return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_buf once, twice;

    fg_buf_init(&once, 1 << 26);
    fg_buf_init(&twice, 1 << 26);
    if (again(fg_bytes(data, size), &once)) {
        fg_assert(again(fg_buf_slice(&once), &twice));
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
    }
    fg_buf_done(&once);
    fg_buf_done(&twice);
    return 0;
}
