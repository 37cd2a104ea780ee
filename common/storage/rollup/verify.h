/*
 * Verifies the rollups of a part: that they can be read, fill their sections and add up; and, which
 * takes longer, that they are the sums of its profiles.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_VERIFY_H
#define FG_COMMON_STORAGE_ROLLUP_VERIFY_H

#include "common/storage/rollup/reader.h"

/*
 * Checks that all rollups can be read. file: the whole object, in memory or mapped; part: of its
 * directory. max_bytes: limit of memory. FG_E_CORRUPT names the first fault and its place;
 * FG_E_LIMIT. Accepts a part without rollups. fg_block_verify() checks all else.
 */
enum fg_code fg_rollup_verify(const struct fg_block_part *part, struct fg_slice file,
                              size_t max_bytes, struct fg_err *err) fg_must_check;

/*
 * Makes every rollup again from the profiles and compares groups, counts, digests, totals, crowns,
 * function totals and full values. For parts with profiles of blocks that fg_block_verify() has
 * accepted; derived parts have nothing to compare with. Reads each profile once for each rollup
 * that includes it. FG_E_CORRUPT, FG_E_LIMIT.
 */
enum fg_code fg_rollup_verify_sums(const struct fg_block_part *part, struct fg_slice file,
                                   size_t max_bytes, struct fg_err *err) fg_must_check;

/*
 * Checks a rollup-only part: the rollup of a span is the sum of the rollups of the spans in it (the
 * days of a week). fg_rollup_verify() has accepted the part. FG_E_CORRUPT, FG_E_LIMIT.
 */
enum fg_code fg_rollup_verify_spans(const struct fg_block_part *part, struct fg_slice file,
                                    size_t max_bytes, struct fg_err *err) fg_must_check;

#endif
