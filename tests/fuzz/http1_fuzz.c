/*
 * A connection without sockets, see http_stub.h. What has been written must be whole answers, or,
 * where the input found its way to HTTP/2, begin with SETTINGS.
 */
#include "tests/lib/http_stub.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice settings = FG_LIT("\0\0\x18\4\0\0\0\0\0"); /* 24 bytes, on stream 0 */
    struct fg_slice answers;
    struct fg_buf written;

    if (!http_stub_run(fg_bytes(NULL, 0), fg_bytes(data, size), &written))
        return 0;
    answers = fg_buf_slice(&written);
    fg_assert(answers.len == 0 || fg_slice_starts(answers, "HTTP/1.1 ") ||
              fg_slice_eq(fg_slice_sub(answers, 0, settings.len), settings));
    fg_buf_done(&written);
    return 0;
}
