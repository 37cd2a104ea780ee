/*
 * A tenant's manifest: its blocks, and which segments of the L0 manifest they cover. Only the
 * compactor that owns the tenant writes it; if two believe that they own it, the swap's condition
 * and the checks of the changes below protect it.
 *
 * Values as in l0.h. Invariants (fg_blocks_decode() checks those that one manifest shows):
 *   - every profile is in one block only that is not derived, or in one that is rollup-only
 *   - a segment with profiles of the tenant is covered (fg_blocks_covers()) exactly if all of them
 *     are in blocks or were deleted deliberately
 *   - blocks and gone are sorted by id, covered by generation, all of it > covered_floor
 *   - the sources of a derived entry are there and are not derived, and there is one such entry
 *     of a level and span at most; except entries that are rollup-only, whose sources are gone
 *
 * derived: the entry has only rollups of other objects. rollup_only: it has taken the place of
 * these objects.
 *
 * covered_floor keeps the list of covered segments short: all segments of the tenant up to it are
 * covered. Each change raises it to the greatest number that its L0 manifest allows.
 */
#ifndef FG_COMMON_CLUSTER_MANIFEST_BLOCKS_H
#define FG_COMMON_CLUSTER_MANIFEST_BLOCKS_H

#include "common/cluster/manifest/l0.h"
#include "common/cluster/manifest/ledger.h"
#include "common/model/deletion.h"

enum {
    FG_BLOCKS_MAX = 65536, /* daily blocks of a century, of fewer years if they are split */
    FG_BLOCKS_COVERED_MAX = FG_L0_SEGMENTS_MAX,
    FG_BLOCKS_FROM_MAX = 4096,  /* of one block */
    FG_BLOCKS_GONE_MAX = 65536, /* as many as there can be blocks */
    FG_BLOCKS_TOMBSTONES_MAX =
        FG_DELETIONS_MAX - 1, /* readers add what the tenant's retention says */
    FG_BLOCKS_SELECTOR_MAX_BYTES = 64 * 1024,
    FG_BLOCKS_ENDED_MAX = 64, /* deletions that were carried out: people look for the last ones */
    FG_BLOCKS_ENDED_SELECTOR_MAX_BYTES = 1024,
    FG_BLOCKS_LOST_MAX = 4096,               /* objects that people gave up, one by one */
    FG_BLOCKS_WHY_MAX_BYTES = 512,           /* as an error has */
    FG_BLOCKS_SERVICE_MAX_BYTES = 64 * 1024, /* as a block's directory allows */
};

struct fg_blocks_entry {
    struct fg_id id;  /* its object: fg_name_block() */
    uint8_t level;    /* 1: hour, 2: 6 hours, 3: day, 4: week, 5: 28 days */
    bool patch;       /* late data of a span that has its block */
    bool derived;     /* a rollup of from_blocks, without profiles of its own: profiles, digest and
                            times are theirs, and counted with them */
    bool rollup_only; /* a rollup that has taken the place of from_blocks: its profiles are counted
                        here */
    int64_t start_ns, end_ns;   /* the span that it was made for, [start, end) */
    int64_t t_min_ns, t_max_ns; /* of the profiles, inclusive; a few may begin before the span */
    uint16_t shard_first, shard_last;
    uint64_t bytes;
    uint64_t directory_offset, directory_bytes;
    uint64_t rollup_offset, rollup_bytes; /* the rollup; it ends at the directory, so that both are
                                           one range; 0 bytes: none */
    uint64_t profiles;
    struct fg_id digest;             /* sum of the profiles' ids */
    struct fg_usage usage;           /* of at most `profiles` */
    const uint64_t *from_segments;   /* generations, ascending */
    const struct fg_id *from_blocks; /* ascending; live if derived and not rollup-only, else gone */
    uint32_t n_from_segments, n_from_blocks;
    struct fg_slice later;
};

/* Returns true if the entry only sums up other live blocks: its profiles are counted with these. */
static inline bool fg_blocks_sums_others(const struct fg_blocks_entry *entry)
{
    return entry->derived && !entry->rollup_only;
}

struct fg_blocks_gone {
    struct fg_id id;
    int64_t since_wall_ns;
    struct fg_slice later;
};

/* A deletion that was requested. Queries leave its data out at once; blocks lose it when they are
 * rewritten. The swap of the new blocks counts what was removed, so the count is exact. */
struct fg_blocks_tombstone {
    struct fg_id id;
    struct fg_slice selector; /* as requested */
    int64_t start_ns, end_ns; /* [start, end); an end of INT64_MAX is the end of time itself */
    int64_t asked_wall_ns;
    uint64_t profiles, rewrites; /* removed so far, by so many swaps */
    int64_t ended_wall_ns;       /* 0: it is pending */
    /* For its completion (compactor/completion_core.h): the number of which all writers must be
     * clean; 0: they were not asked yet. */
    uint64_t awaits;
    uint64_t awaits_profiles; /* `profiles` when that was asked */
    uint64_t quiet;           /* times in a row before that in which nothing was removed */
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
    struct fg_ledger ledger;
    struct fg_slice later;
};

/* Returns a tenant's empty manifest. The name is borrowed. */
struct fg_blocks fg_blocks_none(struct fg_slice tenant);

/* Decode, encode and write as JSON: as of fg_l0_decode() and others. tenant: the expected one; a
 * manifest of another tenant is FG_E_CORRUPT. */
enum fg_code fg_blocks_decode(struct fg_slice in, struct fg_slice tenant, struct fg_arena *arena,
                              struct fg_blocks *ret_blocks, struct fg_err *err) fg_must_check;
enum fg_code fg_blocks_encode(const struct fg_blocks *blocks, struct fg_buf *out,
                              struct fg_err *err) fg_must_check;
void fg_blocks_json(const struct fg_blocks *blocks, struct fg_buf *out);

/* Returns true if the tenant's data of this segment is in blocks. */
bool fg_blocks_covers(const struct fg_blocks *blocks, uint64_t generation);

/*
 * Checks that the tenant's manifest can belong to this L0 manifest, which was read before it.
 * FG_E_CORRUPT: it does not cover data that has left the L0 manifest and so is in blocks alone.
 * Then the manifest was lost or is from a backup; using it would give incomplete answers and delete
 * blocks as orphans.
 */
enum fg_code fg_blocks_check(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             struct fg_err *err) fg_must_check;

/* Finds a deletion by its id, pending or ended. NULL: it is not there. */
const struct fg_blocks_tombstone *fg_blocks_tombstone(const struct fg_blocks *blocks,
                                                      struct fg_id id);

/* Finds a block by id. NULL: it is not there. */
const struct fg_blocks_entry *fg_blocks_find(const struct fg_blocks *blocks, struct fg_id id);

/* Returns true if the manifest lists the block, as live or as gone. */
bool fg_blocks_knows(const struct fg_blocks *blocks, struct fg_id id);

/*
 * Makes deletions of the tombstones, in their order. They borrow from blocks and the arena.
 * FG_E_LIMIT: the arena is full. FG_E_CORRUPT: a selector is not valid.
 */
enum fg_code fg_blocks_deletions(const struct fg_blocks *blocks, struct fg_arena *arena,
                                 struct fg_deletions *ret_deletions,
                                 struct fg_err *err) fg_must_check;

/* ---- changes ---- */

/* How many profiles a deletion removed from the blocks that enter. */
struct fg_blocks_taken {
    struct fg_id tombstone;
    uint64_t profiles;
};

/*
 * A change of blocks: some enter and their sources leave in one step, segments by being covered and
 * blocks to gone[]. So no profile is ever there twice or missing. Without entries the sources are
 * dropped (retention; a segment with nothing left). Every derived entry that is made of a
 * leaving block leaves with it, unless it is rollup-only.
 *
 * An entry that is rollup-only must have exactly the profiles and digest of all that it replaces,
 * unless that has an entry that is rollup-only itself (a deletion has removed some of it).
 */
struct fg_blocks_change {
    const struct fg_blocks_entry *add; /* their from_… are set from cover and replace; except those
                                          that are derived and not rollup-only, which have
                                          from_blocks (ascending) already */
    uint32_t n_add;
    const uint64_t *cover; /* generations, live in l0 with a part of the tenant's */
    uint32_t n_cover;
    const struct fg_id *replace;
    uint32_t n_replace;
    const struct fg_blocks_taken *taken; /* ignored for deletions that have ended */
    uint32_t n_taken;
    const struct fg_usage_day *used; /* of all profiles in the covered segments; for the ledger */
    uint32_t n_used;
};

/*
 * Applies a change. *ret_changed false: the change is there already, from an earlier attempt whose
 * answer was lost. FG_E_ABORTED: another compactor was faster (a segment is covered already or not
 * live, a source block has left, an entry or another rollup of the same span is there already);
 * what was built is garbage. FG_E_INTERNAL: an entry that is rollup-only does not add up to what it
 * replaces. FG_E_LIMIT: the manifest would be too large.
 */
enum fg_code fg_blocks_apply(const struct fg_blocks *blocks, const struct fg_l0 *l0,
                             const struct fg_blocks_change *change, int64_t wall_ns,
                             struct fg_arena *arena, struct fg_blocks *ret_blocks,
                             bool *ret_changed, struct fg_err *err) fg_must_check;

/* An object that an operator gives up, or some services of it. */
struct fg_blocks_giving_up {
    struct fg_blocks_change change;    /* removes its reference, and adds what is left of it */
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

/* Removes blocks whose objects were deleted from gone[]. FG_E_LIMIT: the arena is full. */
enum fg_code fg_blocks_deleted(const struct fg_blocks *blocks, const struct fg_id *ids,
                               uint32_t count, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                               bool *ret_changed, struct fg_err *err) fg_must_check;

/*
 * Adds the tombstone of a deletion, unless there is one with its id, pending or ended. The selector
 * is borrowed. FG_E_INVALID: the selector is not valid. FG_E_LIMIT: there are more pending
 * deletions than readers can hold (common/model/deletion.h).
 */
enum fg_code fg_blocks_bury(const struct fg_blocks *blocks,
                            const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                            struct fg_blocks *ret_blocks, bool *ret_changed,
                            struct fg_err *err) fg_must_check;

/*
 * Adds the tombstone of a deletion of everything, which takes the place of all pending ones, unless
 * there is one with its id, pending or ended. No limit refuses it, nor a pending deletion that
 * cannot be read. Its selector matches all series, and its time is all time. FG_E_LIMIT: the arena
 * is full.
 */
enum fg_code fg_blocks_bury_all(const struct fg_blocks *blocks,
                                const struct fg_blocks_tombstone *tombstone, struct fg_arena *arena,
                                struct fg_blocks *ret_blocks, bool *ret_changed,
                                struct fg_err *err) fg_must_check;

/* The next thing that a deletion waits for, if it has waited for `before` until now. */
struct fg_blocks_await {
    struct fg_id tombstone;
    uint64_t before;
    uint64_t awaits, awaits_profiles, quiet; /* as in the tombstone */
};

/*
 * Sets what deletions wait for. *ret_changed false: another compactor has changed it for each of
 * them that is still there.
 */
enum fg_code fg_blocks_wait(const struct fg_blocks *blocks, const struct fg_blocks_await *awaits,
                            uint32_t n, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                            bool *ret_changed, struct fg_err *err) fg_must_check;

/* A freeze of the ledger. */
struct fg_blocks_freeze {
    uint64_t before;                 /* the version that the ledger had when this was decided */
    uint64_t version;                /* of the freeze */
    int32_t last;                    /* day */
    const struct fg_usage_day *more; /* [n_more] of days up to `last`; enters the sums before */
    uint32_t n_more;
};

/* Freezes the ledger. *ret_changed false: it has this version already. FG_E_ABORTED: another
 * compactor has frozen it. */
enum fg_code fg_blocks_freeze(const struct fg_blocks *blocks, const struct fg_blocks_freeze *freeze,
                              int64_t wall_ns, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                              bool *ret_changed, struct fg_err *err) fg_must_check;

/* Removes the frozen sums of this version, which are in documents. *ret_changed false: they are not
 * there any more. */
enum fg_code fg_blocks_drop_frozen(const struct fg_blocks *blocks, uint64_t version,
                                   int64_t wall_ns, struct fg_arena *arena,
                                   struct fg_blocks *ret_blocks, bool *ret_changed,
                                   struct fg_err *err) fg_must_check;

/* Returns the bytes of all live blocks. */
uint64_t fg_blocks_stored_bytes(const struct fg_blocks *blocks);

/* For fg_blocks_apply() alone: counts what the change uses and writes. Returns false if the arena
 * is full. */
bool fg_blocks_count_used(struct fg_blocks *next, const struct fg_blocks *before,
                          const struct fg_blocks_change *change, int64_t wall_ns,
                          struct fg_arena *arena) fg_must_check;

/* Ends a deletion: moves its tombstone to ended[]. *ret_changed false: it has ended already. */
enum fg_code fg_blocks_unbury(const struct fg_blocks *blocks, struct fg_id tombstone,
                              int64_t wall_ns, struct fg_arena *arena, struct fg_blocks *ret_blocks,
                              bool *ret_changed, struct fg_err *err) fg_must_check;

/*
 * Clears the manifest of a tenant that was deleted: forgets ended deletions except `kept`, records
 * of lost objects, and the ledger. What it covers stays: without that the manifest would count as
 * lost (fg_blocks_check()). *ret_changed false: there is nothing to forget. FG_E_ABORTED: it has
 * blocks, objects to delete or pending deletions.
 */
enum fg_code fg_blocks_clear(const struct fg_blocks *blocks, struct fg_id kept,
                             struct fg_arena *arena, struct fg_blocks *ret_blocks,
                             bool *ret_changed, struct fg_err *err) fg_must_check;

/* Returns whether fg_blocks_clear() would change the manifest. */
bool fg_blocks_is_clear(const struct fg_blocks *blocks, struct fg_id kept);

/* For fg_blocks_apply() alone: adds to the counts of tombstones. Returns false if the arena is
 * full. */
bool fg_blocks_count_taken(struct fg_blocks *next, const struct fg_blocks_taken *taken, uint32_t n,
                           struct fg_arena *arena) fg_must_check;

#endif
