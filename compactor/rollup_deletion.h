/*
 * Deletes services from a rollup whose blocks are gone (rollup-only). Profiles cannot be taken out
 * of sums, so the whole part of a service goes, for all of the object's time, unless the part's
 * groups show that it has no series that the deletion names.
 *
 * Thread: one that may wait. Disk: the object.
 */
#ifndef FG_COMPACTOR_ROLLUP_DELETION_H
#define FG_COMPACTOR_ROLLUP_DELETION_H

#include "common/cluster/manifest/blocks.h"
#include "common/storage/block/writer.h"
#include "compactor/env.h"

struct cmp_rollup_deletion {
    struct cmp_env *env;
    struct fg_slice tenant;
    const struct fg_blocks_entry *block;
    struct fg_deletions *deletions; /* the first that names a part counts its profiles */
};

/* Writes the object with the parts that stay. The summary has no profiles if none stays. Errors of
 * cmp_job_run(). */
enum fg_code cmp_rollup_deletion_write(const struct cmp_rollup_deletion *task,
                                       const struct fg_block_sink *sink,
                                       struct fg_block_summary *ret_summary,
                                       struct fg_err *err) fg_must_check;

#endif
