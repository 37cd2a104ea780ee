/*
 * Makes a segment of rounds: reads their profiles from the head, in the order of the block format
 * (common/block/README.md), into a file.
 *
 * Each service is read twice, first to count how many profiles need each stack (frequent ones get
 * short numbers), then to write. Memory: 40 bytes for each profile of a service, and its stacks.
 *
 * The rounds are sealed, so nothing of them changes meanwhile.
 */
#ifndef FG_INGESTER_SEGMENTS_BUILD_H
#define FG_INGESTER_SEGMENTS_BUILD_H

#include "common/block/writer.h"
#include "common/manifest/l0.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"

/* Where the profiles are; borrowed. */
struct build_head {
    struct fg_store *store;
    struct catalog *catalog;
    struct dict_table *dicts;
};

/* What manifests say of the segment. parts are in the arena; tenants' names are the catalog's. */
struct build_summary {
    struct fg_block_summary file;
    struct fg_l0_new_part *parts; /* ascending by tenant's name */
    uint32_t n_parts;
};

/*
 * path: a new file; it is synced in the end, and removed after a failure. FG_E_NO_SPACE: no room
 * for it. FG_E_UNAVAILABLE, FG_E_CORRUPT: the head cannot be read. FG_E_LIMIT: the arena is full.
 */
enum fg_code build_segment(const struct build_head *head, const struct head_round_key *rounds,
                           size_t n_rounds, const char *path, struct fg_arena *arena,
                           struct build_summary *ret_summary, struct fg_err *err) fg_must_check;

#endif
