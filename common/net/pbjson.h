/*
 * Protobuf messages from the outside, as bytes and as JSON, by the descriptors that protoc-c
 * generates.
 *
 * JSON is proto3's ("JSON Mapping" in the protobuf documentation). Written: lowerCamelCase names,
 * defaults left out, 64-bit integers as strings, enums as names, bytes as base64. Read: names in
 * either spelling, integers as numbers or strings, enums as names or numbers, null for unset;
 * unknown fields and unknown names of enums are ignored, since clients may be newer than we are.
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

/* Writes a message as JSON. out->full: it did not fit. Invalid UTF-8 in strings is replaced. */
void fg_pbjson_write(const ProtobufCMessage *message, struct fg_buf *out);

/* Read and write the binary form. FG_E_INVALID, FG_E_LIMIT. */
enum fg_code fg_pb_read(struct fg_slice bytes, const ProtobufCMessageDescriptor *type,
                        struct fg_arena *arena, ProtobufCMessage **ret_message,
                        struct fg_err *err) fg_must_check;
void fg_pb_write(const ProtobufCMessage *message, struct fg_buf *out);

#endif
