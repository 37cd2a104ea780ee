#include "common/net/rpc/message.h"

#include "common/base/cursor.h"
#include "common/base/hash.h"

/* Three letters that stay and a version. */
static const char magic[4] = {'F', 'G', 'R', '1'};

size_t fg_rpc_frame_size(const struct fg_rpc_frame *frame)
{
    size_t room = FG_RPC_MESSAGE_MAX_BYTES - FG_RPC_FRAME_BYTES;

    if (frame->head.len > room || frame->payload.len > room - frame->head.len)
        return 0;
    return FG_RPC_FRAME_BYTES + frame->head.len + frame->payload.len;
}

static uint8_t *put_le(uint8_t *out, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *out++ = (uint8_t)(value >> (8 * i));
    return out;
}

static uint8_t *put_slice(uint8_t *out, struct fg_slice bytes)
{
    if (bytes.len > 0)
        memcpy(out, bytes.ptr, bytes.len);
    return out + bytes.len;
}

void fg_rpc_frame_encode(const struct fg_rpc_frame *frame, uint8_t *out)
{
    memcpy(out, magic, sizeof magic);
    out = put_le(out + sizeof magic, frame->kind, 4); /* with the three zero bytes */
    out = put_le(out, frame->key, 8);
    out = put_le(out, frame->left, 8);
    out = put_le(out, frame->head.len, 4);
    out = put_slice(out, frame->head);
    (void)put_slice(out, frame->payload);
}

enum fg_code fg_rpc_frame_decode(struct fg_slice bytes, struct fg_rpc_frame *ret_frame,
                                 struct fg_err *err)
{
    struct fg_cur cur = fg_cur(bytes);
    struct fg_rpc_frame frame;
    struct fg_slice seen = fg_cur_take(&cur, sizeof magic);
    uint32_t kind = fg_cur_le32(&cur);

    if (!fg_slice_eq(seen, fg_bytes(magic, sizeof magic))) {
        /* Bytes that begin like ours come from a process of another release, and its operator has
         * to know that. */
        if (fg_slice_starts(bytes, "FGR") && bytes.len > 3 && bytes.ptr[3] > ' ' &&
            bytes.ptr[3] <= '~')
            return fg_fail(err, FG_E_UNIMPLEMENTED, "message of protocol FGR%c, here is FGR1",
                           bytes.ptr[3]);
        return fg_fail(err, FG_E_INVALID, "not a message of protocol FGR1 (%zu bytes)", bytes.len);
    }
    frame.key = fg_cur_le64(&cur);
    frame.left = fg_cur_le64(&cur);
    frame.head = fg_cur_take(&cur, fg_cur_le32(&cur));
    if (cur.bad)
        return fg_fail(err, FG_E_INVALID, "message cut short in %zu bytes", bytes.len);
    /* The other bytes are zero. A later version that gives them a meaning must not be understood
     * by halves. */
    if (kind > UINT8_MAX)
        return fg_fail(err, FG_E_UNIMPLEMENTED, "message with unknown flags %06x", kind >> 8);
    frame.kind = (uint8_t)kind;
    frame.payload = fg_cur_take(&cur, cur.left);
    *ret_frame = frame;
    return FG_OK;
}

uint64_t fg_rpc_cluster_key(const char *name)
{
    return name[0] == '\0' ? 0 : fg_hash64(fg_cstr(name));
}
