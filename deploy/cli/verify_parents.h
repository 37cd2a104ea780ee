/*
 * For `flamegrid bucket verify`: compares parent rollups with the blocks that they were made of.
 * What blocks have of each service is noted when they are read, and blocks with a fault are noted,
 * since nothing can be compared with them; then come the parent rollups.
 *
 * Thread: one.
 */
#ifndef FG_DEPLOY_CLI_VERIFY_PARENTS_H
#define FG_DEPLOY_CLI_VERIFY_PARENTS_H

#include "common/cluster/manifest/blocks.h"
#include "common/storage/rollup/reader.h"

struct cli_held; /* what a block has of a service */

/* Of a tenant. A zeroed one is empty. */
struct cli_parents {
    struct cli_held *held;
    size_t n_held, cap_held;
    struct fg_id *broken; /* blocks with a fault */
    size_t n_broken;
};

/* Frees what was noted. */
void cli_parents_done(struct cli_parents *parents);

/* Notes a part of a block; copies what it needs. */
void cli_parents_hold(struct cli_parents *parents, struct fg_id block,
                      const struct fg_block_part *part);

/* Notes that a block has a fault, which was reported: its parent rollups are not compared. */
void cli_parents_break(struct cli_parents *parents, struct fg_id block);

/* Compares a part of a parent rollup. nod: its section of rollups; memory for it is bounded by
 * memory_max_bytes. FG_E_CORRUPT: it does not sum up its blocks, or cannot be read. */
enum fg_code cli_parents_check(const struct cli_parents *parents,
                               const struct fg_blocks_entry *parent,
                               const struct fg_block_part *part, struct fg_slice nod,
                               size_t memory_max_bytes, struct fg_err *err) fg_must_check;

#endif
