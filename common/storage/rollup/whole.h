/*
 * Makes the rollup of a whole part, of all series over its whole time, while the part is written.
 * Segments have it for services with many instances, so that queries of the last minutes do not
 * read every profile.
 *
 *     fg_block_part_begin
 *       fg_rollup_whole_create      if it is likely to be worth its time
 *       series, profiles           fg_rollup_whole_add() after each fg_block_profile_add()
 *       fg_rollup_whole_write
 *     fg_block_part_end
 *     fg_rollup_whole_destroy
 *
 * It has a crown and function totals, but no full values; queries that need those read the
 * profiles. As with other rollups, a form is kept only if it is worth its bytes.
 *
 * Thread: one at a time. Memory: 8 bytes per type and stack, at most 64 MiB; at the end 45 per node
 * of the tree.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WHOLE_H
#define FG_COMMON_STORAGE_ROLLUP_WHOLE_H

#include "common/storage/rollup/writer.h"

struct fg_rollup_whole;

/*
 * Begins, after the part was begun. tree, uses: those of the part; series[n_series]: the series
 * that will have profiles, in order. All are borrowed until destroy, and so is the block. Returns
 * NULL if it would not be worth its time or exceed its memory.
 */
struct fg_rollup_whole *fg_rollup_whole_create(struct fg_block_writer *block,
                                               const struct fg_tree *tree, const uint32_t *uses,
                                               const struct fg_block_series *series,
                                               uint32_t n_series);
/* Frees it. Accepts NULL. */
void fg_rollup_whole_destroy(struct fg_rollup_whole *whole);
FG_AUTO(fg_rollup_whole, fg_rollup_whole_destroy)

/* Adds the profile that was just added to the block, of the series with that number. whole NULL:
 * does nothing. */
void fg_rollup_whole_add(struct fg_rollup_whole *whole, uint32_t series,
                         const struct fg_block_profile *profile);

/* Writes the rollup after all profiles were added. whole NULL: does nothing. Errors are those of
 * writing samples. */
enum fg_code fg_rollup_whole_write(struct fg_rollup_whole *whole, struct fg_err *err) fg_must_check;

#endif
