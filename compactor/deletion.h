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

#include "common/cluster/manifest/blocks.h"
#include "compactor/env.h"

/*
 * What a user asks: the matchers of `selector`, times [start, end). FG_E_INVALID: what is wrong
 * with it.
 */
enum fg_code cmp_deletion_check(struct fg_slice selector, int64_t start_ns, int64_t end_ns,
                                struct fg_err *err) fg_must_check;

/* Does a block have profiles that it names? Reads labels, and rows where times do not say. */
enum fg_code cmp_deletion_names(struct cmp_env *env, struct fg_slice tenant,
                                const struct fg_blocks_entry *block,
                                const struct fg_deletion *deletion, bool *ret_names,
                                struct fg_err *err) fg_must_check;

#endif
