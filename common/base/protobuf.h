/*
 * Tags of protobuf's wire format, for readers (cursor.h) and writers (buf.h) of messages that are
 * too large or too frequent for protobuf-c.
 */
#ifndef FG_COMMON_BASE_PROTOBUF_H
#define FG_COMMON_BASE_PROTOBUF_H

#include <stdint.h>

enum fg_pb_type { FG_PB_VARINT = 0, FG_PB_I64 = 1, FG_PB_LEN = 2, FG_PB_I32 = 5 };

#define FG_PB_TAG(field, type) (((uint64_t)(field) << 3) | (uint64_t)(type))

#endif
