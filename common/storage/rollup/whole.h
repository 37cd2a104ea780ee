/*
 * The merged node of all of a part, over all of its time, made while the part is written: what a
 * segment has of a service with many instances, so that questions about its last minutes need not
 * read every profile.
 *
 *     fg_block_part_begin
 *       fg_rollup_whole_create      where it is likely to be worth it
 *       series, profiles           fg_rollup_whole_add() after each fg_block_profile_add()
 *       fg_rollup_whole_write
 *     fg_block_part_end
 *     fg_rollup_whole_destroy
 *
 * It has a crown and a table, no full node: who needs these reads the profiles. Like other nodes it
 * is kept only where it is worth its bytes.
 *
 * Thread: one at a time. Memory: 8 bytes for each type and stack, 64 MiB at most; at the end 45 for
 * a node of the tree.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_WHOLE_H
#define FG_COMMON_STORAGE_ROLLUP_WHOLE_H

#include "common/storage/rollup/writer.h"

struct fg_rollup_whole;

/*
 * tree, uses: as the part has them, which was begun; series[n_series]: those that will have
 * profiles, in order. They and the block stay until destroy. NULL: it would not be worth its time,
 * or there is more than it has room for.
 */
struct fg_rollup_whole *fg_rollup_whole_create(struct fg_block_writer *block,
                                               const struct fg_tree *tree, const uint32_t *uses,
                                               const struct fg_block_series *series,
                                               uint32_t n_series);
void fg_rollup_whole_destroy(struct fg_rollup_whole *whole); /* NULL is one, too */
FG_AUTO(fg_rollup_whole, fg_rollup_whole_destroy)

/* The profile was added to the block just now, to the series of that number. Nothing where whole is
 * NULL. */
void fg_rollup_whole_add(struct fg_rollup_whole *whole, uint32_t series,
                         const struct fg_block_profile *profile);

/* All profiles were added. Nothing where whole is NULL. Fails only as the writing of samples does.
 */
enum fg_code fg_rollup_whole_write(struct fg_rollup_whole *whole, struct fg_err *err) fg_must_check;

#endif
