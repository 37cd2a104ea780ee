/*
 * Writes a parent rollup: a block without profiles that sums up several blocks
 * (merge/merge_parent.h). Fetches what that needs, service by service: directories and lists of
 * rollups first, then of each part rollups, stacks and series, and profiles only if the rollups are
 * not enough.
 *
 * Thread: one that may wait. Disk: what all blocks have of one service, without profiles, or with
 * them up to PARENT_ROLLUP_READ_MAX_BYTES.
 */
#ifndef FG_COMPACTOR_PARENT_ROLLUP_H
#define FG_COMPACTOR_PARENT_ROLLUP_H

#include "common/cluster/manifest/blocks.h"
#include "compactor/fetch.h"
#include "compactor/merge/merge.h"

/* Up to this size all of a service is read, so that its single series have sums. */
#define PARENT_ROLLUP_READ_MAX_BYTES (UINT64_C(512) << 20)

struct cmp_parent_rollup {
    struct cmp_env *env;
    struct fg_slice tenant;
    const struct fg_blocks_entry *const *blocks; /* ascending by id */
    uint32_t n_blocks;
    uint32_t level;
    int64_t start_ns, end_ns;
    bool rollup_only; /* it replaces the blocks (rollup-only), so nothing is left out */
    bool of_one;      /* also services that only one of the blocks has */
    int64_t parts_ns; /* as of struct cmp_merge_parent */
};

/* Writes the block. *ret_read_bytes: bytes that were fetched. Errors of cmp_job_run(). */
enum fg_code cmp_parent_rollup_write(const struct cmp_parent_rollup *parent,
                                     const struct fg_block_sink *sink,
                                     struct cmp_merge_written *ret_written,
                                     uint64_t *ret_read_bytes, struct fg_err *err) fg_must_check;

#endif
