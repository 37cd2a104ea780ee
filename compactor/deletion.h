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

enum cmp_deletion_verdict {
    DELETION_OPEN,   /* not known */
    DELETION_NONE,   /* the block has nothing that it names */
    DELETION_NAMES,  /* the block has something that it names */
    DELETION_UNREAD, /* the part of the block that may have something is damaged or missing */
};

/* A search of one block for what deletions name. All borrowed. */
struct cmp_deletion_search {
    struct cmp_env *env;
    struct fg_slice tenant;
    const struct fg_blocks_entry *block;
    const struct fg_deletion *deletions;
    uint32_t count;
    enum cmp_deletion_verdict *verdicts; /* [count]: looks for those that are OPEN */
    struct fg_err unread;                /* out: FG_OK, or why some are UNREAD */
    uint32_t reads;                      /* out: requests to the bucket, also after a failure */
};

/*
 * Finds out which deletions name profiles of a block. Reads its labels, and its rows if only some
 * of its times are concerned, once for all deletions. After FG_OK no verdict is OPEN. Errors of
 * cmp_fetch() that are not the block's own (cmp_env_own_fault()); FG_E_CANCELED.
 */
enum fg_code cmp_deletion_search(struct cmp_deletion_search *search,
                                 struct fg_err *err) fg_must_check;

#endif
