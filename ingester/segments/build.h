/*
 * Builds a segment: reads the profiles of sealed chunks from the head, in the order of the block
 * format (common/storage/block/README.md), and writes them into a file.
 *
 * It reads each service twice, first to count how many profiles need each stack (frequent stacks
 * get short numbers), then to write. Memory: 48 bytes for each profile of a service, and its
 * stacks.
 *
 * Sealed chunks do not change, so no lock is held.
 *
 * Thread: one that may wait.
 */
#ifndef FG_INGESTER_SEGMENTS_BUILD_H
#define FG_INGESTER_SEGMENTS_BUILD_H

#include "common/cluster/manifest/l0.h"
#include "common/storage/block/writer.h"
#include "ingester/catalog/catalog.h"
#include "ingester/dict.h"
#include "ingester/head_chunks.h"

/* Where the profiles are, and how they are written. All borrowed. */
struct ing_build_head {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_dict_table *dicts;
    struct ing_head_chunks *chunks;
    uint32_t block_version;     /* of the format of segments; 0: the newest */
    const struct fg_keys *keys; /* of tenants; NULL: nothing is encrypted */
};

/* What the manifest says of the segment. parts are in the arena; names of tenants are the
 * catalog's. */
struct ing_build_summary {
    struct fg_block_summary file;
    struct fg_l0_new_part *parts; /* ascending by the name of the tenant */
    uint32_t n_parts;
    uint64_t n_lost; /* profiles that a salvage left out */
};

/* Chunks that cannot become a segment, in the arena; none: unknown which ones. */
struct ing_build_suspects {
    struct ing_head_chunk_key *chunks;
    uint32_t n;
    bool keyless; /* the keys of their tenants cannot be had now; nothing is wrong with them */
};

/*
 * Writes the segment into a new file at path and syncs it; removes the file after a failure.
 * salvage: leaves out and counts profiles that cannot be read, instead of FG_E_CORRUPT.
 * FG_E_NO_SPACE: the disk is full. FG_E_UNAVAILABLE: the head cannot be read now, or the keys of
 * some tenants cannot be had: then *ret_suspects has all chunks of these, and nothing was built.
 * Other errors will come again, and *ret_suspects says because of which chunks: FG_E_CORRUPT: what
 * the head has does not fit together; FG_E_LIMIT: more than a segment can hold; FG_E_INVALID: the
 * format cannot express it.
 */
enum fg_code ing_build_segment(const struct ing_build_head *head,
                               const struct ing_head_chunk_key *chunks, size_t n_chunks,
                               bool salvage, const char *path, struct fg_arena *arena,
                               struct ing_build_summary *ret_summary,
                               struct ing_build_suspects *ret_suspects,
                               struct fg_err *err) fg_must_check;

#endif
