/*
 * Makes a segment of chunks: reads their profiles from the head, in the order of the block format
 * (common/storage/block/README.md), into a file.
 *
 * Each service is read twice, first to count how many profiles need each stack (frequent ones get
 * short numbers), then to write. Memory: 48 bytes for each profile of a service, and its stacks.
 *
 * The chunks are sealed, so nothing of them changes meanwhile.
 */
#ifndef FG_INGESTER_SEGMENTS_BUILD_H
#define FG_INGESTER_SEGMENTS_BUILD_H

#include "common/cluster/manifest/l0.h"
#include "common/storage/block/writer.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/head_chunks.h"

/* Where the profiles are, borrowed, and how they are written. */
struct ing_build_head {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_dict_table *dicts;
    struct ing_head_chunks *chunks;
    uint32_t block_version; /* of the format of segments; 0: the newest */
};

/* What manifests say of the segment. parts are in the arena; tenants' names are the catalog's. */
struct ing_build_summary {
    struct fg_block_summary file;
    struct fg_l0_new_part *parts; /* ascending by tenant's name */
    uint32_t n_parts;
    uint64_t n_lost; /* profiles that were left out: only when salvaging */
};

/* Chunks of which no segment can be made, in the arena; none: nobody knows which they are. */
struct ing_build_suspects {
    struct ing_head_chunk_key *chunks;
    uint32_t n;
};

/*
 * Makes the segment in a new file at path, which is synced in the end, and removed after a failure.
 * FG_E_NO_SPACE: no room for it. FG_E_UNAVAILABLE: the head cannot be read now. Others say that it
 * would fail again, and *ret_suspects why: FG_E_CORRUPT: what the head holds does not fit together;
 * FG_E_LIMIT: it is more than a segment can hold; FG_E_INVALID: the format has no way to say it.
 * salvage: profiles that cannot be read are left out and counted, instead of FG_E_CORRUPT.
 */
enum fg_code ing_build_segment(const struct ing_build_head *head,
                               const struct ing_head_chunk_key *chunks, size_t n_chunks,
                               bool salvage, const char *path, struct fg_arena *arena,
                               struct ing_build_summary *ret_summary,
                               struct ing_build_suspects *ret_suspects,
                               struct fg_err *err) fg_must_check;

#endif
