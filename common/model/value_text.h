/*
 * Writes values with their units for people, as `go tool pprof` does by default: time in seconds,
 * memory in bytes, anything else as it is.
 *
 * Pure. Thread: any.
 */
#ifndef FG_COMMON_MODEL_VALUE_TEXT_H
#define FG_COMMON_MODEL_VALUE_TEXT_H

#include "common/base/slice.h"

enum { FG_VALUE_TEXT_BYTES = 48 }; /* of any value, with its end */

/* Writes a value with two digits behind the point, unless they are zeros, and its unit: "0.05s".
 * unit: of a sample type, "nanoseconds" or "bytes"; a name that is unknown is not shown. */
void fg_value_text(int64_t value, struct fg_slice unit, char text[FG_VALUE_TEXT_BYTES]);

#endif
