/* Parses times as people write them in URLs: from=now-1h, until=1700000000
 * (distributor/API.md#times). */
#ifndef FG_COMMON_BASE_TIMESPEC_H
#define FG_COMMON_BASE_TIMESPEC_H

#include "common/base/slice.h"

/*
 * Parses a time. It drops spaces, '_' and ',' first, and reads the rest as:
 *   20230401 (8 digits that are a date after 1900)   that day, 00:00 UTC
 *   2023-04-01                                       likewise
 *   12 or 13, 15 or 16, 18 or 19 digits              unix milliseconds, microseconds, nanoseconds
 *   other digits                                     unix seconds
 *   X, X-1h30min, X+2d                               now and an offset; the word X does not matter
 * Units by prefix, in this order: s; mon or M (30 d); min or m; h; d; w; y (365 d); other units
 * count as 0. Empty text is now. Returns false if the time does not fit 64 bits of nanoseconds, the
 * calendar has no such day as 2023-02-30, or the text is too long.
 */
bool fg_timespec_parse(struct fg_slice text, int64_t now_ns, int64_t *ret_ns) fg_must_check;

#endif
