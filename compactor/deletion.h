/*
 * Deletions: what a user asked to be gone, by selector and time. A tombstone in the tenant's
 * manifest takes it out of answers at once (whoever answers looks at tombstones); the bytes go
 * when the blocks that hold some of it are written anew; then the tombstone goes.
 *
 * It takes whole profiles, so a selector can name the labels that a series is stored with, and none
 * that is made from the profile type.
 */
#ifndef FG_COMPACTOR_DELETION_H
#define FG_COMPACTOR_DELETION_H

#include "common/manifest/blocks.h"
#include "compactor/env.h"
#include "compactor/merge/choose.h"

enum { DELETION_ARENA_BYTES = 16 * 1024 * 1024 }; /* enough for the tombstones of a tenant */

/*
 * What a user asks: the matchers of `selector`, times [start, end). FG_E_INVALID: what is wrong
 * with it.
 */
enum fg_code deletion_check(struct fg_slice selector, int64_t start_ns, int64_t end_ns,
                            struct fg_err *err) fg_must_check;

/* The tombstones of a manifest, one by one, in its order. FG_E_CORRUPT. deletions_done() in any
 * case. */
enum fg_code deletions_parse(const struct fg_blocks *blocks, struct fg_arena *arena,
                             struct merge_deletions *ret_deletions,
                             struct fg_err *err) fg_must_check;
void deletions_done(struct merge_deletions *deletions);

/* Does a block have profiles that it names? Reads labels, and rows where times do not say. */
enum fg_code deletion_names(struct env *env, struct fg_slice tenant,
                            const struct fg_blocks_entry *block,
                            const struct merge_deletion *deletion, bool *ret_names,
                            struct fg_err *err) fg_must_check;

#endif
