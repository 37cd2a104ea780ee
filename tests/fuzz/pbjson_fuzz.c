/* Requests as JSON (first byte even) or as protobuf: what can be read is written and read again. */
#include "common/net/pbjson.h"
#include "proto/querier_v1.pb-c.h"

enum { ARENA_BYTES = 16 * 1024 * 1024 };

static void read_again(const ProtobufCMessage *message)
{
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    ProtobufCMessage *again;
    struct fg_buf out;
    struct fg_err err;

    fg_buf_init(&out, ARENA_BYTES);
    fg_pbjson_write(message, NULL, &out);
    if (!out.full) {
        enum fg_code code =
            fg_pbjson_read(fg_buf_slice(&out), message->descriptor, arena, &again, &err);

        fg_assert(code == FG_OK || code == FG_E_LIMIT);
    }
    fg_buf_done(&out);
    fg_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &querier__v1__diff_request__descriptor,
        &querier__v1__select_series_request__descriptor,
        &querier__v1__select_merge_stacktraces_response__descriptor,
        &types__v1__series__descriptor,
    };
    struct fg_slice in = fg_slice_sub(fg_bytes(data, size), 1, SIZE_MAX);
    ProtobufCMessage *message;
    struct fg_err err;

    if (size == 0)
        return 0;
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    const ProtobufCMessageDescriptor *type = types[data[0] / 2 % FG_COUNT(types)];
    enum fg_code code = data[0] % 2 == 0 ? fg_pbjson_read(in, type, arena, &message, &err)
                                         : fg_pb_read(in, type, arena, &message, &err);
    if (code == FG_OK)
        read_again(message);
    fg_arena_destroy(arena);
    return 0;
}
