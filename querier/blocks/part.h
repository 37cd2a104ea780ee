/*
 * What a query reads: segments and blocks ("objects"), and their parts. A part is what one service
 * of one tenant has in an object (common/storage/block/README.md). The files of this folder fill
 * these structs step by step: objects.c finds objects, reader.c their parts and the spans of
 * profiles that match, rollups.c decides which rollups take the place of profiles.
 */
#ifndef FG_QUERIER_BLOCKS_PART_H
#define FG_QUERIER_BLOCKS_PART_H

#include "common/cluster/manifest/blocks.h"
#include "common/cluster/manifest/snapshot_core.h"
#include "common/storage/block/reader.h"
#include "common/storage/cache/cache.h"
#include "common/storage/rollup/plan.h"

/* The end of an object, which a query fetches with its head and holds. */
struct qry_tail {
    uint64_t from;       /* up to the object's end */
    struct fg_buf bytes; /* empty: it did not come */
};

/* A segment or block to be read. */
struct qry_object {
    const char *name;
    struct fg_id id;  /* hash of the name */
    uint32_t tenants; /* bit i: of tenant i of the query */
    uint64_t bytes, profiles;
    struct fg_id digest;
    struct fg_block_range directory;
    uint64_t rollups_bytes;       /* of the rollups right before the directory */
    struct fg_block_range head;   /* both if they are small, else the directory */
    struct fg_id block_id;        /* derived blocks name their children by it */
    struct fg_cache_entry *entry; /* its head, once fetched */
    bool known;                   /* its parts are */
    bool mostly;                  /* the query's tenants have at least half of its profiles */
    struct qry_tail *tail;        /* NULL: only the head is fetched */
    bool rollup_only;             /* rollups of profiles that retention deleted */

    /* children.c. A derived block has nothing but rollups, made from those of its children: its
     * entry in the manifest, which lists them. NULL: it is no derived block. */
    const struct fg_blocks_entry *derived;
    bool closed;  /* a child: it is opened only if the rollups of its parent cannot answer */
    bool covered; /* its parent has everything that the query may want of it */
    bool guessed; /* counted by qry_children_bytes() */
};

struct qry_objects {
    struct qry_object *items;
    uint32_t n, cap;
    uint32_t blocks[FG_SNAPSHOT_TENANTS_MAX + 1]; /* where the blocks of each tenant begin; by id */
};

/*
 * Profiles [first, first + count) of a part, which are of one series chunk, and the matches of
 * their series. If deletions divide a series, a chunk has several spans of the same profiles, until
 * the rows say which profile is in which (rows.h).
 */
struct qry_span {
    uint32_t series, first, count;
    uint32_t first_match, n_matches; /* in part.matches */
    struct fg_time_span times;       /* of the profiles to be read */
    bool cut; /* some profiles are outside of these times; the rows say which */
    uint32_t n_found, first_found, last_found; /* inside, so far */
};

/* A part on its way through a query. */
struct qry_part {
    struct qry_object *object;
    uint32_t number; /* in the directory */
    uint32_t tenant; /* of the query */
    const struct fg_block_part *entry;
    struct fg_cache_entry *index_entry, *tree_entry; /* the latter: samples.h */
    const struct fg_block_index *index;              /* once fetched */
    struct fg_block_match *matches;
    uint32_t n_matches;
    struct qry_span *spans; /* ascending by first, then by time */
    uint32_t n_spans, cap_spans;

    /* samples.c */
    bool begun;     /* its samples are being added up, so the spans are fixed */
    uint64_t *sums; /* by rank, once all pages are added up; NULL: there are none */

    /* rollups.c */
    const struct fg_rollups *rollups;     /* NULL: none that can be used */
    struct fg_cache_entry *rollups_entry; /* their memory; NULL: that of the object's head */
    bool single;                          /* they are those of single series */
    struct fg_cache_entry *single_entry;  /* their memory then */
    bool chosen;                          /* false: all profiles of the query's range are read */
    struct fg_plan_raw *raws;             /* profiles to be read, by time */
    struct fg_plan_pick *crowns, *fulls;  /* rollups to be read */
    uint32_t n_raws, cap_raws, n_crowns, cap_crowns, n_fulls, cap_fulls;

    bool in_piece; /* pieces.h */
};

#endif
