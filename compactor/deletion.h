/*
 * Deletions: profiles that a user asked to delete, by selector and time. A tombstone in the
 * tenant's manifest hides them from queries at once. Their bytes go when the blocks that hold them
 * are rewritten, and after that the tombstone is removed (completion.h).
 *
 * A deletion takes whole profiles, so its selector may use the labels that a series is stored with,
 * but no labels that are derived from the profile type.
 *
 * Thread: any that may wait.
 */
#ifndef FG_COMPACTOR_DELETION_H
#define FG_COMPACTOR_DELETION_H

#include "common/cluster/manifest/blocks.h"
#include "compactor/env.h"

/* Checks a user's request: the matchers of `selector` and the times [start, end). FG_E_INVALID: the
 * text says what is wrong. */
enum fg_code cmp_deletion_check(struct fg_slice selector, int64_t start_ns, int64_t end_ns,
                                struct fg_err *err) fg_must_check;

/* Finds out if a block has profiles that the deletion names. Reads the block's labels, and its rows
 * if only some of its times are concerned. Errors of cmp_fetch(). */
enum fg_code cmp_deletion_names(struct cmp_env *env, struct fg_slice tenant,
                                const struct fg_blocks_entry *block,
                                const struct fg_deletion *deletion, bool *ret_names,
                                struct fg_err *err) fg_must_check;

#endif
