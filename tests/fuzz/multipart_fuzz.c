/* The first line is the Content-Type header, the rest the body. */
#include "common/net/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_bytes(data, size);
    size_t line = FG_MIN(fg_slice_find(in, '\n'), size);
    struct fg_multipart form;
    struct fg_multipart_part part;
    struct fg_err err;

    if (fg_multipart_init(&form, fg_slice_sub(in, 0, line), fg_slice_sub(in, line + 1, size),
                          &err) != FG_OK)
        return 0;
    while (fg_multipart_next(&form, &part, &err) == FG_OK && !form.ended)
        fg_assert(part.name.len + part.filename.len + part.data.len <= 3 * size);
    return 0;
}
