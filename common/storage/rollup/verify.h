/*
 * Looks at all merged nodes of a part: that they can be read, fill their sections, and add up; and,
 * where somebody has the time, that they are what its profiles add up to.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_VERIFY_H
#define FG_COMMON_STORAGE_ROLLUP_VERIFY_H

#include "common/storage/rollup/reader.h"

/*
 * file: the whole object, in memory or mapped; part: of its directory. max_bytes: memory it may
 * take. FG_E_CORRUPT: the first fault and its place; FG_E_LIMIT. A part without nodes is fine.
 * fg_block_verify() looks at everything else.
 */
enum fg_code fg_rollup_verify(const struct fg_block_part *part, struct fg_slice file,
                              size_t max_bytes, struct fg_err *err) fg_must_check;

/*
 * Makes every node anew and compares: groups, counts, digests, totals, crowns, tables and full
 * nodes. Of parts with profiles, whose blocks fg_block_verify() has found good; others have nothing
 * to compare with. Reads each profile once for each node that holds it. FG_E_CORRUPT, FG_E_LIMIT.
 */
enum fg_code fg_rollup_verify_sums(const struct fg_block_part *part, struct fg_slice file,
                                   size_t max_bytes, struct fg_err *err) fg_must_check;

/*
 * Of a part that has taken the place of what it was made of: what a node of all of a span says is
 * what those of its parts (days of a week) say together. fg_rollup_verify() has found it good.
 * FG_E_CORRUPT, FG_E_LIMIT.
 */
enum fg_code fg_rollup_verify_spans(const struct fg_block_part *part, struct fg_slice file,
                                    size_t max_bytes, struct fg_err *err) fg_must_check;

#endif
