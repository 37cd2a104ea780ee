/*
 * Stacks that Go's profilers have cut. A CPU profile has at most 64 frames of a stack, a heap
 * profile before Go 1.23 at most 32; the frames next to the root are lost. So one deep function
 * appears under many roots. This guesses the lost frames as Pyroscope does:
 *
 *   whole    a b c d e f g h          Stacks with the same 24 locations next to the root are a
 *   cut          c d e f g h i        group. If the 16 next to the root of one group are in another
 *   cut              e f g h i j      one as well, but 1 to 8 further away from its root, the
 *   root ^                            others are what the first one lacks; and so on, up to 56
 *                                     groups further.
 *
 * Of several groups the one counts in which they are furthest away from the root, of equal ones the
 * first, ordered by the numbers of their locations, leaf first, as little-endian bytes; of a group
 * its deepest stack (Pyroscope takes any). The stacks of all samples are needed, whatever their
 * values are.
 */
#ifndef FG_PROTO_PPROF_GO_STACKS_H
#define FG_PROTO_PPROF_GO_STACKS_H

#include "common/base/arena.h"
#include "common/model/batch.h"

enum {
    FG_GO_SUFFIX = 24, /* locations of a stack that is neither completed nor used without them */
    FG_GO_TOKEN = 16,  /* that two groups have in common */
    FG_GO_SHIFT_MAX = FG_GO_SUFFIX - FG_GO_TOKEN,
    FG_GO_CHAIN_MAX = 56, /* groups further; a longer chain is recursion, and ends it all */
};

/* Locations of a sample, leaf first. */
struct fg_go_stack {
    const uint32_t *locations;
    uint32_t depth;
};

/* From which depth on a stack may be cut, for a batch with these sample types; 0: never. If
 * *ret_less_than is not 0, a stack of so many locations shows that the profiler cuts later. */
uint32_t fg_go_cut_depth(const struct fg_batch *batch, uint32_t *ret_less_than);

/*
 * Points each stack that is found cut to a longer copy in the arena. Ids, which are the numbers of
 * the locations plus one, say which locations are equal. *ret_completed: how many stacks are longer
 * now. FG_E_TOO_LARGE: the arena is full.
 */
enum fg_code fg_go_complete(struct fg_go_stack *stacks, uint32_t count, struct fg_arena *arena,
                            uint32_t *ret_completed, struct fg_err *err) fg_must_check;

#endif
