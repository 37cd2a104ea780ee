/*
 * Writes a segment anew: what one tenant has in an object, without some of its profiles. The same
 * merge as the compactor's does it, and what is written is verified and tallied as its blocks are.
 *
 * Thread: one that may wait. Memory: the object and what is written of it.
 */
#ifndef FG_DEPLOY_SINGLE_BUCKET_REWRITE_H
#define FG_DEPLOY_SINGLE_BUCKET_REWRITE_H

#include "common/labels/deletion.h"
#include "compactor/merge/merge.h"

struct rewrite {
    const char *name; /* of the object */
    struct fg_slice file;
    const struct fg_block_directory *directory; /* of it */
    struct fg_slice tenant;
    struct fg_deletions deletions; /* what these name is left out */
    struct merge_without without;  /* and these are */
};

/*
 * out: initialised; gets the new object. *ret_kept: profiles that are in it; with 0 there is none,
 * and out is empty. FG_E_CORRUPT: the object is damaged. FG_E_LIMIT: too large.
 */
enum fg_code bucket_rewrite(const struct rewrite *rewrite, struct fg_buf *out, uint64_t *ret_kept,
                            struct fg_err *err) fg_must_check;

#endif
