/*
 * A tenant's manifest: its blocks, and which segments of the L0 manifest they cover. Only the
 * compactor that owns the tenant writes it; where two think they do, the swap's condition and the
 * checks of the changes below keep it right.
 *
 * Values as in l0.h. What always holds (fg_blocks_decode checks what can be seen):
 *   - every profile is in one block at most that is not derived, or in one that is alone
 *   - a segment that holds profiles of the tenant is covered (fg_blocks_covers) exactly when all of
 *     them are in blocks, or were deleted on purpose
 *   - blocks and gone are sorted by id, covered by generation, all of it > covered_floor
 *   - what a derived entry is made of is there, and not derived itself; of a level and span
 *     there is one at most; but for those that are alone: what these were made of is gone
 *
 * covered_floor is what keeps the list of covered segments short: all of the tenant's segments up
 * to it are covered. It rises with the changes, as far as the L0 manifest at hand allows.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_BLOCKS_H
#define FG_COMMON_CLUSTER_MANIFEST_BLOCKS_H

#include "common/cluster/manifest/l0.h"
#include "common/model/deletion.h"

enum {
    FG_BLOCKS_MAX = 65536,
    FG_BLOCKS_COVERED_MAX = FG_L0_SEGMENTS_MAX,
    FG_BLOCKS_FROM_MAX = 4096, /* of one block */
    FG_BLOCKS_GONE_MAX = 65536,
    FG_BLOCKS_TOMBSTONES_MAX =
        FG_DELETIONS_MAX - 1, /* readers add what the tenant's retention says */
    FG_BLOCKS_SELECTOR_MAX_BYTES = 64 * 1024,
    FG_BLOCKS_ENDED_MAX = 64, /* deletions that were carried out: people look for the last ones */
    FG_BLOCKS_ENDED_SELECTOR_MAX_BYTES = 1024,
    FG_BLOCKS_LOST_MAX = 4096,
    FG_BLOCKS_WHY_MAX_BYTES = 512,
    FG_BLOCKS_SERVICE_MAX_BYTES = 64 * 1024, /* as a block's directory allows */
};

struct fg_blocks_entry {
    struct fg_id id;  /* its object: fg_name_block() */
    uint8_t level;    /* 1: hour, 2: 6 hours, 3: day, 4: week, 5: 28 days */
    bool patch;       /* late data of a span that has its block */
    bool derived;     /* it holds rollups of from_blocks, and no profiles of its own: profiles,
                            digest and times are theirs, and counted there already */
    bool rollup_only; /* derived, and all that is left of from_blocks, which it took the place of:
                   its profiles are counted here */
    int64_t start_ns, end_ns;   /* the span, [start, end), that it was made for */
    int64_t t_min_ns, t_max_ns; /* of the profiles, inclusive; a few may begin before the span */
    uint16_t shard_first, shard_last;
    uint64_t bytes;
    uint64_t directory_offset, directory_bytes;
    uint64_t rollup_offset, rollup_bytes; /* directories of rollups: up to the directory, so
                                           that both are one range; 0 bytes: none */
    uint64_t profiles;
    struct fg_id digest;             /* sum of the profiles' ids */
    struct fg_usage usage;           /* of at most `profiles`; where derived, counted with them */
    const uint64_t *from_segments;   /* generations, ascending */
    const struct fg_id *from_blocks; /* ascending; live ones where derived and not alone, else
                                        gone */
    uint32_t n_from_segments, n_from_blocks;
    struct fg_slice later;
};

struct fg_blocks_gone {
    struct fg_id id;
    int64_t since_wall_ns;
    struct fg_slice later;
};

/* A deletion that was asked for. Its data is gone from answers at once, from blocks when they are
 * written anew; what that took is counted by the swap that brings them in, so exactly. */
struct fg_blocks_tombstone {
    struct fg_id id;
    struct fg_slice selector; /* as it was written */
    int64_t start_ns, end_ns; /* [start, end); an end of INT64_MAX is the end of time itself */
    int64_t asked_wall_ns;
    uint64_t profiles, rewrites; /* taken so far, by so many swaps */
    int64_t ended_wall_ns;       /* 0: it goes on */
    /* For its end (compactor/completion_core.h): it waits until the writers of the L0 manifest are
     * clean of this number; 0: nobody was asked yet. */
    uint64_t awaits;
    uint64_t awaits_profiles; /* `profiles`, before that was asked */
    uint64_t quiet;           /* so often in a row before that, nothing was taken meanwhile */
    struct fg_slice later;
};

/* The record of an object that an operator gave up (quarantine), or of one service's part of an
 * object (repair). Its profiles are lost, and answers about their service and time say so. */
struct fg_blocks_lost {
    struct fg_slice object;  /* its name; that of a segment or block */
    struct fg_slice service; /* the only one that lost something by this record; empty: any may */
    int64_t t_min_ns, t_max_ns; /* of the profiles, inclusive */
    uint64_t profiles, bytes;   /* of the tenant's; of the object, or of the service's part */
    int64_t since_wall_ns;
    struct fg_slice why; /* what was wrong with it */
    struct fg_slice later;
};

struct fg_blocks {
    struct fg_slice tenant;
    uint64_t revision; /* counts swaps */
    uint64_t covered_floor;
    uint64_t newest; /* the greatest generation that is covered; 0: none (retry-covered) */
    uint64_t *covered;
    uint32_t n_covered;
    struct fg_blocks_entry *blocks;
    uint32_t n_blocks;
    struct fg_blocks_gone *gone;
    uint32_t n_gone;
    struct fg_blocks_tombstone *tombstones; /* by id */
    uint32_t n_tombstones;
    struct fg_blocks_tombstone
        *ended; /* the last that were carried out, oldest first; selectors cut */
    uint32_t n_ended;
    struct fg_blocks_lost *lost; /* in the order in which they were given up */
    uint32_t n_lost;
    struct fg_slice later;
};

/* What a tenant has before the first swap. The name is borrowed. */
struct fg_blocks fg_blocks_none(struct fg_slice tenant);

/* As fg_l0_decode(). tenant: whose manifest was asked for; that of another is FG_E_CORRUPT. */
enum fg_code fg_blocks_decode(struct fg_slice in, struct fg_slice tenant, struct fg_arena *arena,
                              struct fg_blocks *ret_blocks, struct fg_err *err) fg_must_check;
enum fg_code fg_blocks_encode(const struct fg_blocks *blocks, struct fg_buf *out,
                              struct fg_err *err) fg_must_check;
void fg_blocks_json(const struct fg_blocks *blocks, struct fg_buf *out);

/* Is what this segment holds of the tenant in blocks? */
bool fg_blocks_covers(const struct fg_blocks *blocks, uint64_t generation);

/*
 * Returns FG_E_CORRUPT if the tenant's manifest cannot be the one that belongs to this L0 manifest,
 * which was read before it: what has left the L0 manifest, and so is in blocks alone, is not
 * covered. Then the manifest was lost or is from a backup, and taking it for what there is would
 * give answers with less than all, and sweep blocks away as orphans.
 */
enum fg_code fg_blocks_check(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             struct fg_err *err) fg_must_check;

/* By id, or NULL. */
const struct fg_blocks_entry *fg_blocks_find(const struct fg_blocks *blocks, struct fg_id id);

/* Returns true if the manifest lists the block, as live or as gone. */
bool fg_blocks_knows(const struct fg_blocks *blocks, struct fg_id id);

/*
 * The tombstones as deletions, in their order; borrows from blocks and the arena. FG_E_LIMIT: the
 * arena is full. FG_E_CORRUPT.
 */
enum fg_code fg_blocks_deletions(const struct fg_blocks *blocks, struct fg_arena *arena,
                                 struct fg_deletions *ret_deletions,
                                 struct fg_err *err) fg_must_check;

/* ---- changes ---- */

/* What a deletion took out of the blocks that enter. */
struct fg_blocks_taken {
    struct fg_id tombstone;
    uint64_t profiles;
};

/*
 * Blocks enter, and what they were made of goes: segments are covered, blocks go to gone[]. All in
 * one, so that nothing is ever there twice or not at all. No entries: what is named is dropped
 * (retention; a segment of which nothing was left). With a block goes every derived entry that
 * is made of it, unless that is alone.
 *
 * An entry that is alone takes the place of what is replaced: of all of it, to the profile and the
 * digest, unless something of that was alone itself (a deletion took some of it).
 */
struct fg_blocks_change {
    const struct fg_blocks_entry *add; /* from_… is what is covered and replaced, but for derived
                                          entries that are not alone, which come with from_blocks
                                          (ascending) */
    uint32_t n_add;
    const uint64_t *cover; /* generations, live in l0 with a part of the tenant's */
    uint32_t n_cover;
    const struct fg_id *replace;
    uint32_t n_replace;
    const struct fg_blocks_taken *taken; /* of a deletion that has ended meanwhile: not counted */
    uint32_t n_taken;
};

/*
 * *ret_changed false: the change is there already, by an earlier try of which nobody knew.
 * FG_E_ABORTED: a segment is covered already, or not live; a block is not there any more, or is
 * there already, or another of the same nodes: somebody else was faster, and what was built is
 * waste. FG_E_INTERNAL: an entry that is alone does not add up to what it takes the place of.
 */
enum fg_code fg_blocks_apply(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             const struct fg_blocks_change *change, int64_t wall_ns,
                             struct fg_arena *arena, struct fg_blocks *ret_blocks,
                             bool *ret_changed, struct fg_err *err) fg_must_check;

/* An object that is given up, or some services of it. */
struct fg_blocks_giving_up {
    struct fg_blocks_change change;    /* takes its reference away, and adds what is left of it */
    const struct fg_blocks_lost *lost; /* [n_lost]: records of the rest, all of that object; what
                                          they point to is borrowed */
    uint32_t n_lost;
};

/*
 * Gives an object up: applies the change, which removes its reference and may add blocks of what is
 * left, and adds the records. Does nothing if there are records of that name. Errors as of
 * fg_blocks_apply(); FG_E_LIMIT also if there would be more than FG_BLOCKS_LOST_MAX records.
 * Borrows what the records point to.
 */
enum fg_code fg_blocks_give_up(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                               const struct fg_blocks_giving_up *giving_up, int64_t wall_ns,
                               struct fg_arena *arena, struct fg_blocks *ret_blocks,
                               bool *ret_changed, struct fg_err *err) fg_must_check;

/* The objects of these were deleted: they leave gone[]. */
enum fg_code fg_blocks_deleted(const struct fg_blocks *blocks, const struct fg_id *ids,
                               uint32_t count, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                               bool *ret_changed, struct fg_err *err) fg_must_check;

/*
 * A deletion is asked for; twice with the same id is once. The selector is borrowed. FG_E_INVALID:
 * what is wrong with it. FG_E_LIMIT: it and those that are pending are more than readers have room
 * for (common/model/deletion.h).
 */
enum fg_code fg_blocks_bury(const struct fg_blocks *blocks,
                            const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                            struct fg_blocks *ret_blocks, bool *ret_changed,
                            struct fg_err *err) fg_must_check;

/* What a deletion waits for from now on, if it waited for `before` until now. */
struct fg_blocks_await {
    struct fg_id tombstone;
    uint64_t before;
    uint64_t awaits, awaits_profiles, quiet; /* as in the tombstone */
};

/*
 * These deletions wait for that. *ret_changed false: for each that is there somebody has changed
 * what it waits for, and another look will tell.
 */
enum fg_code fg_blocks_wait(const struct fg_blocks *blocks, const struct fg_blocks_await *awaits,
                            uint32_t n, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                            bool *ret_changed, struct fg_err *err) fg_must_check;

/* All blocks were written without what this one names: it is among those that have ended. */
enum fg_code fg_blocks_unbury(const struct fg_blocks *blocks, struct fg_id tombstone,
                              int64_t wall_ns, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                              bool *ret_changed, struct fg_err *err) fg_must_check;

/* fg_blocks_apply()'s own: adds to the counts of tombstones. false: the arena is full. */
bool fg_blocks_count_taken(struct fg_blocks *next, const struct fg_blocks_taken *taken, uint32_t n,
                           struct fg_arena *arena) fg_must_check;

#endif
