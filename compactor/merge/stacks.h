/*
 * The stacks of a service in all its sources, each once: what the part of the new block is made of.
 * Only those that chosen profiles have.
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

void cmp_merge_stacks_init(struct cmp_merge_stacks *stacks, size_t max_bytes);
void cmp_merge_stacks_done(struct cmp_merge_stacks *stacks);

/* All parts were added: gives back what only that takes. */
void cmp_merge_stacks_seal(struct cmp_merge_stacks *stacks);

/* Samples that all chosen profiles have together. */
uint64_t cmp_merge_stacks_all_uses(const struct cmp_merge_stacks *stacks);

/* Nobody asks for uses any more. */
void cmp_merge_stacks_drop_uses(struct cmp_merge_stacks *stacks);

/*
 * Adds the stacks of a part's chosen profiles. *ret_map, in the arena: of a rank the number of its
 * stack, 0 or node + 1; FG_MAP_NONE where nobody needs it. scratch is reset.
 */
enum fg_code cmp_merge_stacks_add(struct cmp_merge_stacks *stacks,
                                  const struct cmp_merge_part *part,
                                  const struct cmp_merge_choice *choice,
                                  struct fg_block_samples *samples, struct fg_arena *arena,
                                  struct fg_arena *scratch, uint32_t **ret_map,
                                  struct fg_err *err) fg_must_check;

#endif
