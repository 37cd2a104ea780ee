#include "common/storage/bucket/message_object.h"

#include "common/base/crc32c.h"
#include "common/base/cursor.h"
#include "common/net/pbjson.h"

/* SWAPS_MAX bounds how long a worker tries while others change the object. */
enum { SWAPS_MAX = 8, CRC_BYTES = FG_MESSAGE_OBJECT_CRC_BYTES };

struct object_version {
    struct fg_bucket_etag etag; /* empty: there is no object */
    ProtobufCMessage *message;
};

enum fg_code fg_message_object_fault(struct fg_err *err)
{
    if (err->code == FG_E_DENIED || err->code == FG_E_NOT_FOUND)
        err->code = FG_E_UNAVAILABLE; /* an operator mends it, and clients may try again */
    else if (err->code == FG_E_INVALID || err->code == FG_E_TOO_LARGE)
        err->code = FG_E_INTERNAL;
    return err->code;
}

enum fg_code fg_message_object_decode(const struct fg_message_object *object, struct fg_slice bytes,
                                      ProtobufCMessage **ret_message, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(bytes);
    uint32_t crc = fg_cur_le32(&cur);
    struct fg_slice content = fg_slice_sub(bytes, CRC_BYTES, SIZE_MAX);

    if (cur.bad || fg_crc32c(content) != crc)
        return fg_fail(err, FG_E_CORRUPT, "%s: the checksum is not that of its content",
                       object->name);
    /* Messages borrow their bytes, and read_version() frees the response of the bucket. */
    content = fg_arena_copy(object->arena, content);
    if (content.ptr == NULL && content.len > 0)
        return fg_fail(err, FG_E_LIMIT, "%s: too large", object->name);
    if (fg_pb_read(content, object->type, object->arena, ret_message, err) != FG_OK) {
        if (err->code == FG_E_INVALID)
            err->code = FG_E_CORRUPT; /* it is not the client's fault */
        return fg_wrap(err, "%s", object->name);
    }
    return FG_OK;
}

static enum fg_code begin_version(const struct fg_message_object *object,
                                  struct object_version *version, struct fg_err *err)
{
    version->message = fg_arena_alloc(object->arena, object->type->sizeof_message);
    if (version->message == NULL)
        return fg_fail(err, FG_E_LIMIT, "%s: no memory", object->name);
    protobuf_c_message_init(object->type, version->message);
    return FG_OK;
}

static enum fg_code read_version(const struct fg_message_object *object,
                                 struct object_version *version, struct fg_err *err)
{
    struct fg_bucket_request get = {.verb = FG_BUCKET_GET,
                                    .name = object->name,
                                    .content_max_bytes = object->max_bytes + CRC_BYTES,
                                    .deadline_mono_ns = object->deadline_mono_ns};
    enum fg_code code = fg_bucket_call(object->bucket, &get);

    *version = (struct object_version){0};
    if (code == FG_OK) {
        version->etag = get.etag;
        code = fg_message_object_decode(object, fg_buf_slice(&get.body), &version->message, err);
    } else if (code == FG_E_NOT_FOUND) {
        code = begin_version(object, version, err);
    } else {
        *err = get.err;
        code = fg_message_object_fault(err);
    }
    fg_bucket_clear(&get);
    return code;
}

/* Fields that we do not know are written as they came, and some that can be read cannot be read
 * once they are written: those with the number 0, whose tag is as short as it can be then. */
static enum fg_code check_readable(const struct fg_message_object *object, struct fg_slice content,
                                   struct fg_err *err)
{
    struct fg_arena_mark mark = fg_arena_mark(object->arena);
    ProtobufCMessage *message;
    enum fg_code code = fg_pb_read(content, object->type, object->arena, &message, err);

    fg_arena_release(object->arena, mark);
    return code == FG_E_INVALID
               ? fg_fail(err, FG_E_INVALID, "%s: a field cannot be stored", object->what)
               : code;
}

/* FG_E_PRECONDITION: somebody else was faster. */
static enum fg_code write_version(const struct fg_message_object *object,
                                  const struct object_version *version, struct fg_err *err)
{
    bool is_new = version->etag.text[0] == '\0';
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT,
        .name = object->name,
        .condition = is_new ? FG_BUCKET_IF_ABSENT : FG_BUCKET_IF_MATCH,
        .if_etag = version->etag,
        .deadline_mono_ns = object->deadline_mono_ns,
    };
    size_t len = protobuf_c_message_get_packed_size(version->message);
    struct fg_buf bytes;
    enum fg_code code;

    if (len > object->max_bytes)
        return fg_fail(err, FG_E_LIMIT, "%s exceed %zu bytes", object->what, object->max_bytes);
    fg_buf_init(&bytes, SIZE_MAX);
    /* Room for the checksum, which is known when the message is packed. */
    fg_buf_le32(&bytes, 0);
    (void)fg_buf_reserve(&bytes, len + 1);
    bytes.len += protobuf_c_message_pack(version->message, bytes.ptr + bytes.len);
    uint32_t crc = fg_crc32c(fg_bytes(bytes.ptr + CRC_BYTES, len));
    for (size_t i = 0; i < CRC_BYTES; i++)
        bytes.ptr[i] = (uint8_t)(crc >> 8 * i);
    put.content = fg_buf_slice(&bytes);
    code = check_readable(object, fg_slice_sub(put.content, CRC_BYTES, len), err);
    if (code == FG_OK && fg_bucket_call(object->bucket, &put) != FG_OK) {
        *err = put.err;
        code = fg_message_object_fault(err); /* FG_E_PRECONDITION stays */
    }
    fg_bucket_clear(&put);
    fg_buf_done(&bytes);
    return code;
}

enum fg_code fg_message_object_read(const struct fg_message_object *object,
                                    ProtobufCMessage **ret_message, struct fg_err *err)
{
    struct object_version version;

    if (read_version(object, &version, err) != FG_OK)
        return err->code;
    *ret_message = version.message;
    return FG_OK;
}

enum fg_code fg_message_object_swap(const struct fg_message_object *object,
                                    fg_message_object_change change, void *arg, struct fg_err *err)
{
    struct object_version version;
    enum fg_code code;

    for (unsigned i = 0; i < SWAPS_MAX; i++) {
        bool changed = false;

        /* Each try reads again: the change applies to what is stored, and never to a stale copy. */
        if (read_version(object, &version, err) != FG_OK ||
            change(arg, object->arena, version.message, &changed, err) != FG_OK)
            return err->code;
        if (!changed)
            return FG_OK;
        code = write_version(object, &version, err);
        if (code != FG_E_PRECONDITION)
            return code;
    }
    return fg_fail(err, FG_E_ABORTED, "%s: others change it all the time, try again", object->name);
}
