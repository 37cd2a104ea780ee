/*
 * A connection without sockets that speaks HTTP/2, see http_stub.h: the preface is said already.
 * What has been written must be whole frames, the first of them SETTINGS.
 */
#include "common/base/cursor.h"
#include "tests/lib/http_stub.h"

static void check_frames(struct fg_slice written)
{
    struct fg_cur cur = fg_cur(written);
    bool first = true;

    for (; fg_cur_more(&cur); first = false) {
        uint64_t len = (uint64_t)fg_cur_u8(&cur) << 16;
        uint8_t type;

        len |= fg_cur_be16(&cur);
        type = fg_cur_u8(&cur);
        (void)fg_cur_u8(&cur); /* flags */
        (void)fg_cur_be32(&cur);
        (void)fg_cur_take(&cur, len);
        fg_assert(type <= 9 && len <= 16384);
        fg_assert(!first || type == 4);
    }
    fg_assert(fg_cur_end(&cur));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_buf written;

    if (!http_stub_run(FG_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), fg_bytes(data, size), &written))
        return 0;
    check_frames(fg_buf_slice(&written));
    fg_buf_done(&written);
    return 0;
}
