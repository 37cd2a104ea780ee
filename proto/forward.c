#include "proto/forward.h"

#include "proto/forward_v1.pb-c.h"

#include <stdlib.h>
#include <zstd.h>

/* Ids of stacks are hashes, which no level makes smaller; 3 is where more effort stops to help. */
enum { ZSTD_LEVEL = 3 };

void fg_forward_add(struct fg_forward_message *message, const struct fg_batch *batch,
                    const bool *define, bool whole_ids)
{
    struct fg_forward_batch *added;
    size_t before;

    if (message->n_batches == message->cap_batches) {
        message->cap_batches = FG_MAX(8, message->cap_batches * 2);
        message->batches =
            fg_realloc(message->batches, message->cap_batches * sizeof *message->batches);
    }
    if (message->payload.max_bytes == 0)
        fg_buf_init(&message->payload, UINT32_MAX);
    before = message->payload.len;
    if (message->version == 1)
        fg_batch_encode(batch, define, &message->payload);
    else
        fg_batch_encode_short(batch, define, whole_ids, &message->payload);
    added = &message->batches[message->n_batches++];
    added->bytes = (uint32_t)(message->payload.len - before);
    added->n_profiles = batch->n_profiles;
    added->sizes = fg_calloc(batch->n_profiles, 2 * sizeof *added->sizes);
    fg_batch_put_sizes(batch, added->sizes);
}

static enum fg_code compress(struct fg_slice in, struct fg_buf *out, struct fg_err *err)
{
    size_t bound = ZSTD_compressBound(in.len), len;

    if (!fg_buf_reserve(out, bound))
        return fg_fail(err, FG_E_LIMIT, "%zu bytes of batches do not fit a message", in.len);
    len = ZSTD_compress(out->ptr, bound, in.ptr, in.len, ZSTD_LEVEL);
    if (ZSTD_isError(len))
        return fg_fail(err, FG_E_LIMIT, "zstd: %s", ZSTD_getErrorName(len));
    out->len = len;
    return FG_OK;
}

static void put(const struct fg_forward_message *message, struct fg_slice via,
                struct fg_slice payload, struct fg_buf *out)
{
    Forward__V1__PushRequest request = FORWARD__V1__PUSH_REQUEST__INIT;
    Forward__V1__Batch *batches = fg_calloc(message->n_batches, sizeof *batches);
    ProtobufCBinaryData ids[FG_FORWARD_VIA_MAX];

    request.version = message->version;
    request.via = ids;
    for (size_t at = 0; at < via.len; at += FG_ID_BYTES)
        ids[request.n_via++] =
            (ProtobufCBinaryData){FG_ID_BYTES, (uint8_t *)(uintptr_t)(via.ptr + at)};
    request.batches = fg_calloc(message->n_batches, sizeof(Forward__V1__Batch *));
    request.n_batches = message->n_batches;
    for (size_t i = 0; i < message->n_batches; i++) {
        forward__v1__batch__init(&batches[i]);
        batches[i].bytes = message->batches[i].bytes;
        batches[i].sizes = message->batches[i].sizes;
        batches[i].n_sizes = 2 * (size_t)message->batches[i].n_profiles;
        request.batches[i] = &batches[i];
    }
    request.payload = (ProtobufCBinaryData){payload.len, (uint8_t *)(uintptr_t)payload.ptr};
    if (fg_buf_reserve(out, forward__v1__push_request__get_packed_size(&request)))
        out->len += forward__v1__push_request__pack(&request, out->ptr + out->len);
    free(request.batches);
    free(batches);
}

enum fg_code fg_forward_write(const struct fg_forward_message *message, struct fg_slice via,
                              struct fg_buf *out, struct fg_err *err)
{
    struct fg_buf packed;
    enum fg_code code = FG_OK;

    fg_assert(via.len % FG_ID_BYTES == 0 && via.len <= (size_t)FG_FORWARD_VIA_MAX * FG_ID_BYTES);
    fg_buf_init(&packed, SIZE_MAX);
    if (message->payload.full)
        code = fg_fail(err, FG_E_LIMIT, "the batches of a message exceed 4 GiB");
    if (code == FG_OK)
        code = compress(fg_buf_slice(&message->payload), &packed, err);
    if (code == FG_OK) {
        put(message, via, fg_buf_slice(&packed), out);
        if (out->full)
            code = fg_fail(err, FG_E_LIMIT, "%zu bytes do not fit a message", packed.len);
    }
    fg_buf_done(&packed);
    return code;
}

void fg_forward_clear(struct fg_forward_message *message)
{
    for (size_t i = 0; i < message->n_batches; i++)
        free(message->batches[i].sizes);
    message->n_batches = 0;
    fg_buf_clear(&message->payload);
}

void fg_forward_done(struct fg_forward_message *message)
{
    fg_forward_clear(message);
    free(message->batches);
    fg_buf_done(&message->payload);
}
