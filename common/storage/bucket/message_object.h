/*
 * An object in the bucket that several processes change a little at a time: a protobuf message with
 * its crc32c in front (u32, little-endian), replaced by compare-and-swap. The settings and the
 * recording rules of a tenant are such objects, and the registry of access.
 *
 * A change is a function from one version to the next. If somebody else was faster it is called
 * again, with what they wrote. A write whose answer was lost may have been done: the next read
 * shows it, so a change has to do no harm when it is made again.
 *
 * Fields that this version does not know stay in the object. An object that could not be read back
 * is never written.
 *
 * Thread: any that may wait for the bucket. Memory: messages are in the arena of the caller.
 * Errors: FG_E_CORRUPT: the object is damaged; it names the object, and nothing overwrites it.
 * FG_E_LIMIT: it is too large. FG_E_INVALID: a field cannot be stored. FG_E_ABORTED: others changed
 * the object again and again. Errors of the bucket.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_MESSAGE_OBJECT_H
#define FG_COMMON_STORAGE_BUCKET_MESSAGE_OBJECT_H

#include "common/base/arena.h"
#include "common/storage/bucket/bucket.h"

#include <protobuf-c/protobuf-c.h>

enum { FG_MESSAGE_OBJECT_CRC_BYTES = 4 };

struct fg_message_object {
    struct fg_bucket *bucket;
    const char *name; /* of the object */
    const char *what; /* for errors: "the settings of a tenant" */
    const ProtobufCMessageDescriptor *type;
    size_t max_bytes; /* of the message */
    struct fg_arena *arena;
    int64_t deadline_mono_ns;
};

/* Reads the message; one without fields if there is no object. */
enum fg_code fg_message_object_read(const struct fg_message_object *object,
                                    ProtobufCMessage **ret_message,
                                    struct fg_err *err) fg_must_check;

/* Decodes the bytes of the object, for callers that get it themselves, such as only if it has
 * changed. bucket and deadline are not used. */
enum fg_code fg_message_object_decode(const struct fg_message_object *object, struct fg_slice bytes,
                                      ProtobufCMessage **ret_message,
                                      struct fg_err *err) fg_must_check;

/* Changes a message in place. *ret_changed is false before; left so, nothing is written. */
typedef enum fg_code (*fg_message_object_change)(void *arg, struct fg_arena *arena,
                                                 ProtobufCMessage *message, bool *ret_changed,
                                                 struct fg_err *err);

/* Changes the object. Returns the error of `change` if it fails. */
enum fg_code fg_message_object_swap(const struct fg_message_object *object,
                                    fg_message_object_change change, void *arg,
                                    struct fg_err *err) fg_must_check;

/* Turns an error of the bucket into the server's, since the client is at fault for none: our
 * credentials, a bucket that is gone, an object that the store refuses. Returns its code. */
enum fg_code fg_message_object_fault(struct fg_err *err);

#endif
