/* The frame of a message between services: whatever is taken for one is written back as it was. */
#include "common/rpc/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice in = fg_bytes(data, size);
    struct fg_rpc_frame frame;
    struct fg_err err;
    uint8_t *again;

    if (fg_rpc_frame_decode(in, &frame, &err) != FG_OK)
        return 0;
    fg_assert(fg_rpc_frame_size(&frame) == size);
    again = fg_malloc(size);
    fg_rpc_frame_encode(&frame, again);
    fg_assert(fg_slice_eq(in, fg_bytes(again, size)));
    free(again);
    return 0;
}
