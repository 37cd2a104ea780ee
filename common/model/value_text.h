/*
 * Writes values with their units for people: as `go tool pprof` does by default, with time in
 * seconds and memory in bytes, or in the unit that fits the value.
 *
 * Pure. Thread: any.
 */
#ifndef FG_COMMON_MODEL_VALUE_TEXT_H
#define FG_COMMON_MODEL_VALUE_TEXT_H

#include "common/base/buf.h"

enum { FG_VALUE_TEXT_BYTES = 48 }; /* of any value, with its end */

/* Writes a value with two digits behind the point, unless they are zeros, and its unit: "0.05s".
 * unit: of a sample type, "nanoseconds" or "bytes"; a name that is unknown is not shown. */
void fg_value_text(int64_t value, struct fg_slice unit, char text[FG_VALUE_TEXT_BYTES]);

/* Appends a value in the largest unit in which it is at least 1: "1.50s", "2.00MiB", "999ns"; one
 * whose unit is unknown as it is: "42". */
void fg_value_scaled(int64_t value, struct fg_slice unit, struct fg_buf *out);

#endif
