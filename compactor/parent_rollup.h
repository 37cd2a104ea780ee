/*
 * Writes a block that holds merged nodes of other blocks and no profiles (merge/above.h): fetches
 * of them what that needs, service by service: directories and lists of nodes first, then of each
 * part nodes, stacks and series, and profiles only where nodes do not do.
 *
 * Thread: one that may wait. Disk: what all blocks have of one service, without profiles.
 */
#ifndef FG_COMPACTOR_PARENT_ROLLUP_H
#define FG_COMPACTOR_PARENT_ROLLUP_H

#include "common/cluster/manifest/blocks.h"
#include "compactor/fetch.h"
#include "compactor/merge/merge.h"

struct cmp_parent_rollup {
    struct cmp_env *env;
    struct fg_slice tenant;
    const struct fg_blocks_entry *const *blocks; /* ascending by id */
    uint32_t n_blocks;
    uint32_t level;
    int64_t start_ns, end_ns;
    bool rollup_only; /* what takes the place of the blocks: nothing is left out */
    int64_t parts_ns; /* as of merge_above */
};

/* *ret_read_bytes: fetched. Codes as of cmp_job_run(). */
enum fg_code cmp_parent_rollup_write(const struct cmp_parent_rollup *parent,
                                     const struct fg_block_sink *sink,
                                     struct cmp_merge_written *ret_written,
                                     uint64_t *ret_read_bytes, struct fg_err *err) fg_must_check;

#endif
