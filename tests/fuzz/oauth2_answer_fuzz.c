/* An answer of a token endpoint gives a header of one line, or none. The first byte says the
 * status. */
#include "ingester/forward/oauth2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned statuses[] = {200, 400, 401, 500, 0};
    struct fg_slice in = fg_slice_sub(fg_bytes(data, size), 1, size);
    int64_t lifetime_ns = 0;
    struct fg_buf header;
    struct fg_err err;

    if (size == 0)
        return 0;
    fg_buf_init(&header, SIZE_MAX);
    if (ing_oauth2_answer(statuses[data[0] % FG_COUNT(statuses)], in, &header, &lifetime_ns,
                          &err) == FG_OK) {
        fg_assert(lifetime_ns > 0 && header.ptr[header.len - 1] == '\0');
        for (size_t i = 0; i + 1 < header.len; i++)
            fg_assert(header.ptr[i] >= ' ' && header.ptr[i] <= '~');
    } else {
        fg_assert(header.len == 0);
    }
    fg_buf_done(&header);
    return 0;
}
