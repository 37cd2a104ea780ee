/*
 * Protobuf messages from the outside, as bytes and as JSON, by the descriptors that protoc-c
 * generates.
 *
 * JSON is proto3's ("JSON Mapping" in the protobuf documentation). Written: lowerCamelCase names,
 * defaults left out, 64-bit integers as strings, enums as names, bytes as base64. Read: names in
 * either spelling, integers as numbers or strings, enums as names or numbers, null for unset;
 * a field twice, in whichever spelling, is an error; unknown fields and unknown names of enums are
 * ignored, since clients may be newer than we are.
 *
 * Memory: messages live in the arena and are never freed by themselves; slices are copied.
 */
#ifndef FG_COMMON_NET_PBJSON_H
#define FG_COMMON_NET_PBJSON_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"

#include <protobuf-c/protobuf-c.h>

/* Reads a message from JSON. FG_E_INVALID: which field is wrong, and why; FG_E_LIMIT: the arena is
 * full. */
enum fg_code fg_pbjson_read(struct fg_slice json, const ProtobufCMessageDescriptor *type,
                            struct fg_arena *arena, ProtobufCMessage **ret_message,
                            struct fg_err *err) fg_must_check;

/* A field that a message gets beyond those of its type. Readers that do not know it skip it, as
 * protobuf and its JSON mapping demand. */
struct fg_pb_extension {
    uint32_t number;
    const char *name; /* in JSON, lowerCamelCase */
    const ProtobufCMessage *message;
};

/* Writes a message as JSON, with one more field unless `extension` is NULL. out->full: it did not
 * fit. Invalid UTF-8 in strings is replaced. */
void fg_pbjson_write(const ProtobufCMessage *message, const struct fg_pb_extension *extension,
                     struct fg_buf *out);

/* Read and write the binary form. FG_E_INVALID, FG_E_LIMIT. */
enum fg_code fg_pb_read(struct fg_slice bytes, const ProtobufCMessageDescriptor *type,
                        struct fg_arena *arena, ProtobufCMessage **ret_message,
                        struct fg_err *err) fg_must_check;
void fg_pb_write(const ProtobufCMessage *message, struct fg_buf *out);

/* Appends the field to a message in the binary form, in which the order of fields is free. */
void fg_pb_write_extension(const struct fg_pb_extension *extension, struct fg_buf *out);

#endif
