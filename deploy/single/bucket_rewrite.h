/*
 * Makes a segment of the profiles that one tenant has in an object, without some of them. It uses
 * the compactor's merge, and verifies and counts the result like a block.
 *
 * Thread: one that may block. Memory: the object and the result.
 */
#ifndef FG_DEPLOY_SINGLE_BUCKET_REWRITE_H
#define FG_DEPLOY_SINGLE_BUCKET_REWRITE_H

#include "common/labels/deletion.h"
#include "compactor/merge/merge.h"

struct rewrite {
    const char *name; /* of the object */
    struct fg_slice file;
    const struct fg_block_directory *directory; /* of the object */
    struct fg_slice tenant;
    struct fg_deletions deletions; /* leaves out what these delete, */
    struct merge_without without;  /* ... and these profiles */
};

/*
 * Appends the new object to out, which the caller has initialised. *ret_kept: its number of
 * profiles; if it is 0, out is empty. FG_E_CORRUPT: the source is damaged. FG_E_LIMIT: too large.
 */
enum fg_code bucket_rewrite(const struct rewrite *rewrite, struct fg_buf *out, uint64_t *ret_kept,
                            struct fg_err *err) fg_must_check;

#endif
