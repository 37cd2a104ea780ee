/* Counts of tenants in a period are taken in or refused; what was taken in can be written and read
 * again. The checksum is put right, so that what lies behind it is reached. */
#include "common/base/crc32c.h"
#include "common/cluster/shares/meeting_core.h"

enum { NOON_S = 1795780800 }; /* 27 November 2026, of the seeds */

static void write_again(const struct fg_meeting *meeting)
{
    struct fg_meeting *next = fg_meeting_create();
    struct fg_buf bytes, again;
    struct fg_err err;

    fg_buf_init(&bytes, FG_MEETING_MAX_BYTES);
    fg_buf_init(&again, FG_MEETING_MAX_BYTES);
    fg_assert(fg_meeting_encode(meeting, NOON_S, &bytes, &err) == FG_OK);
    fg_assert(fg_meeting_decode(next, fg_buf_slice(&bytes), NOON_S, &err) == FG_OK);
    fg_assert(fg_meeting_encode(next, NOON_S, &again, &err) == FG_OK);
    fg_assert(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
    fg_buf_done(&again);
    fg_buf_done(&bytes);
    fg_meeting_destroy(next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_meeting *meeting = fg_meeting_create();
    struct fg_buf whole;
    struct fg_err err;

    fg_buf_init(&whole, SIZE_MAX);
    fg_buf_append(&whole, data, size < 4 ? size : size - 4);
    fg_buf_le32(&whole, fg_crc32c(fg_buf_slice(&whole)));
    if (fg_meeting_decode(meeting, fg_buf_slice(&whole), NOON_S, &err) != FG_OK)
        fg_assert(err.code != FG_E_INTERNAL);
    write_again(meeting); /* also of what came before a damage */
    fg_buf_done(&whole);
    fg_meeting_destroy(meeting);
    return 0;
}
