/*
 * The union of a service's stacks in all sources, each once: the stacks of the new block's part.
 * Only stacks that chosen profiles use.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMPACTOR_MERGE_STACKS_H
#define FG_COMPACTOR_MERGE_STACKS_H

#include "compactor/merge/choose.h"

struct cmp_merge_stacks {
    struct fg_tree tree;
    uint32_t *uses; /* [1 + tree.n_nodes]: in how many chosen profiles; the empty stack first */
    uint32_t cap;
    size_t max_bytes;
};

/* Initialises an empty union; max_bytes: of its memory. */
void cmp_merge_stacks_init(struct cmp_merge_stacks *stacks, size_t max_bytes);
/* Frees it. */
void cmp_merge_stacks_done(struct cmp_merge_stacks *stacks);

/* Frees memory that only adding needs, after all parts were added. */
void cmp_merge_stacks_seal(struct cmp_merge_stacks *stacks);

/* Returns the number of samples of all chosen profiles. */
uint64_t cmp_merge_stacks_all_uses(const struct cmp_merge_stacks *stacks);

/* Frees `uses`, when nobody reads them any more. */
void cmp_merge_stacks_drop_uses(struct cmp_merge_stacks *stacks);

/*
 * Adds the stacks of a part's chosen profiles. *ret_map, in the arena: for each rank the number of
 * its stack, 0 or node + 1; FG_MAP_NONE if no chosen profile uses it. Resets scratch. FG_E_LIMIT:
 * memory is full.
 */
enum fg_code cmp_merge_stacks_add(struct cmp_merge_stacks *stacks,
                                  const struct cmp_merge_part *part,
                                  const struct cmp_merge_choice *choice,
                                  struct fg_block_samples *samples, struct fg_arena *arena,
                                  struct fg_arena *scratch, uint32_t **ret_map,
                                  struct fg_err *err) fg_must_check;

#endif
