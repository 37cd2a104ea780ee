/*
 * A frame that costs the peer a few bytes and us some work is not forbidden by any window: PING,
 * SETTINGS, PRIORITY, RST_STREAM right after HEADERS ("rapid reset", CVE-2023-44487), CONTINUATION,
 * DATA without data. nghttp2 bounds some of them (queued acknowledgements, CONTINUATIONs of one
 * block, resets a second), and does not report others at all, such as frames of types that it does
 * not know. So frames are counted here, on the wire: each such frame takes a token, and a
 * connection without tokens ends with ENHANCE_YOUR_CALM.
 *
 * Tokens come back with time, and with answers that were given.
 *
 * What a peer owes us is free: for each DATA that we sent it may open two windows and, if it
 * measures the line as gRPC does, send a PING. A slow peer may have thousands of small DATA before
 * it, in buffers on the way, and answer them all at once long after we sent the last of them; so
 * this has no upper bound but what we sent, and pays for nothing else. Of the other frames that
 * answer ours there is one, the acknowledgement of our SETTINGS, for which a token is enough.
 */
#include "common/net/http/http2.h"

enum {
    PREFACE_BYTES = 24,      /* RFC 9113, 3.4 */
    TOKENS_MAX = 1000,       /* more than any client sends at its start */
    TOKENS_PER_S = 100,      /* sustained, without any request being answered */
    PADDING_MAX_BYTES = 256, /* a DATA frame of padding alone; RFC 9113, 6.1 */
    UPDATES_FOR_DATA = 2,    /* WINDOW_UPDATEs of the stream and of the connection */
    PINGS_FOR_DATA = 1,
};

void fg_http2_meter_init(struct fg_http2_meter *meter, int64_t now_mono_ns)
{
    *meter = (struct fg_http2_meter){
        .skip = PREFACE_BYTES, .tokens = TOKENS_MAX, .refilled_mono_ns = now_mono_ns};
}

/* RFC 9113, 4.1: length in 24 bits, type, flags, stream. */
static size_t payload_len(const uint8_t head[9])
{
    return (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
}

static bool is_cheap(const uint8_t head[9])
{
    size_t len = payload_len(head);
    uint8_t flags = head[4];

    if (head[3] != NGHTTP2_DATA)
        return true; /* HEADERS too, until its request is answered */
    if (flags & NGHTTP2_FLAG_END_STREAM)
        return false;
    return len == 0 || ((flags & NGHTTP2_FLAG_PADDED) && len <= PADDING_MAX_BYTES);
}

/* Returns true if the frame answers DATA of ours. */
static bool is_owed(struct fg_http2_meter *meter)
{
    uint64_t *owed = NULL;

    if (meter->head[3] == NGHTTP2_WINDOW_UPDATE)
        owed = &meter->updates;
    else if (meter->head[3] == NGHTTP2_PING && (meter->head[4] & NGHTTP2_FLAG_ACK) == 0)
        owed = &meter->pings;
    if (owed == NULL || *owed == 0)
        return false;
    --*owed;
    return true;
}

bool fg_http2_meter_count(struct fg_http2_meter *meter, struct fg_slice bytes, int64_t now_mono_ns)
{
    double seconds = (double)(now_mono_ns - meter->refilled_mono_ns) / (double)FG_SECOND_NS;

    meter->tokens = FG_MIN(meter->tokens + seconds * TOKENS_PER_S, (double)TOKENS_MAX);
    meter->refilled_mono_ns = now_mono_ns;
    while (bytes.len > 0) {
        size_t skipped = FG_MIN(meter->skip, bytes.len);
        size_t taken;

        meter->skip -= skipped;
        bytes = fg_slice_sub(bytes, skipped, bytes.len);
        taken = FG_MIN(sizeof meter->head - meter->n_head, bytes.len);
        if (taken > 0)
            memcpy(meter->head + meter->n_head, bytes.ptr, taken);
        meter->n_head += (unsigned)taken;
        bytes = fg_slice_sub(bytes, taken, bytes.len);
        if (meter->n_head < sizeof meter->head)
            continue; /* the input has ended */
        meter->n_head = 0;
        meter->skip = payload_len(meter->head);
        if (is_cheap(meter->head) && !is_owed(meter) && --meter->tokens < 0)
            return false;
    }
    return true;
}

void fg_http2_meter_answered(struct fg_http2_meter *meter)
{
    meter->tokens = FG_MIN(meter->tokens + 1, (double)TOKENS_MAX);
}

void fg_http2_meter_sent_data(struct fg_http2_meter *meter)
{
    meter->updates += UPDATES_FOR_DATA;
    meter->pings += PINGS_FOR_DATA;
}
