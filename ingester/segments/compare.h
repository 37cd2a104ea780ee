/*
 * COMPARE of the step core (segments_core.h): which profiles of chunks that are not committed are
 * in segments or blocks already. It has two halves, since the bucket is read on a thread that may
 * wait, and the head is changed with no push in between:
 *
 *   segments' thread     ing_compare_find()     finds the ids of the head's groups in the bucket
 *   committer's thread   ing_compare_apply()    separates the profiles that the bucket has from
 *                                               those that it lacks; one piece with each call
 *
 * It reads all ids of a group, not only those that the head has: a profile that arrives between
 * the halves may be in the bucket, and needs no lookup if nothing of its group was missing.
 *
 * Pieces. A head that was away may have to separate gigabytes, and a batch has an end. So each call
 * of the second half writes one batch of about piece_bytes, and its results go to the core before
 * the next call. A chunk is separated in one of two ways:
 *
 *   few profiles are missing in the bucket    these move to the open chunk, and the chunk is marked
 *                                             committed: in one batch
 *   else                                      those that the bucket has move to a new chunk that is
 *                                             committed, and the chunk stays what it was
 *
 * The second way can stop after any profile, for the next piece, a failure or a crash: both chunks
 * are then what their states say, and a later comparison goes on with what is left. The first way
 * cannot, since two chunks of a group would be open.
 */
#ifndef FG_INGESTER_SEGMENTS_COMPARE_H
#define FG_INGESTER_SEGMENTS_COMPARE_H

#include "ingester/catalog/catalog.h"
#include "ingester/dedup_index.h"
#include "ingester/head_chunks.h"
#include "ingester/head_writer.h"
#include "ingester/segments/segments_core.h"

/* What the two halves use. All borrowed. */
struct ing_compare_head {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dedup *dedup;
    struct ing_head_writer *writer;
    size_t piece_bytes; /* > 0: a batch takes at most twice as much, and a profile */
};

/* A group of the head of which the bucket has profiles, or may have. */
struct ing_compare_group {
    struct ing_head_group_key key;
    struct ing_dedup_ids committed; /* ascending */
    struct fg_id digest;            /* their sum */
    uint64_t n_met;                 /* how many of them our chunks have */
    bool unsure;                    /* a damaged object may have more */
};

/* How far ing_compare_apply() has come. */
struct ing_compare_place {
    size_t group; /* those before are done */
    /* Of that group: chunks that are done, by number. */
    uint32_t *done;
    size_t n_done, cap_done;
    /* Of that group: a chunk is being split, and this profile is the next one to move. */
    bool in_chunk;
    struct ing_head_profile_key next;
    /* Of that group: the committed chunk that profiles moved to. */
    bool has_split;
    uint32_t split;
};

struct ing_compare {
    struct fg_arena *arena;
    struct ing_compare_group *groups; /* by tenant, shard, window */
    size_t n_groups;
    bool all;            /* all live objects were read, not one segment only */
    uint64_t generation; /* of the segment or the snapshot */

    struct ing_compare_place place;

    /* Set by each ing_compare_apply(), for the core. */
    bool more; /* it is to be called again */
    struct ing_segments_outcome *outcomes;
    uint32_t n_outcomes, cap_outcomes;
    /* Of one segment: groups of which it has profiles that our chunks lack, or that are not done.
     */
    struct ing_head_group_key *missing;
    uint32_t n_missing, cap_missing;
    /* Groups that a damaged object may contain, ascending: their chunks become unchecked. */
    struct ing_head_group_key *unsure;
    uint32_t n_unsure, cap_unsure;
};

/* Which chunks profiles move to, as the core says. */
struct ing_compare_targets {
    uint32_t (*leftover)(void *arg, const struct ing_head_chunk_key *chunk);
    uint32_t (*split)(void *arg, const struct ing_head_group_key *group);
    void *arg;
};

struct ing_compare_asking {
    /* Returns true if the bucket may have profiles of the group; other groups are not read. */
    bool (*may_hold)(void *arg, const struct ing_head_group_key *group);
    void *arg;
    uint64_t only;  /* the generation of one segment to read; or 0: */
    uint64_t least; /* read everything that is live at this generation or a later one */
    struct ing_dedup_until until;
};

/* Finds which ids of the head's groups the bucket has. ing_compare_done() frees the result.
 * FG_E_NOT_FOUND: the segment is not live any more. FG_E_UNAVAILABLE, FG_E_DEADLINE, FG_E_CANCELED,
 * FG_E_CORRUPT, FG_E_LIMIT. A thread that may wait. */
enum fg_code ing_compare_find(const struct ing_compare_head *head,
                              const struct ing_compare_asking *asking,
                              struct ing_compare *ret_compare, struct fg_err *err) fg_must_check;

/* Applies the next piece in one durable batch: separates chunks as said above, and makes the chunks
 * unchecked of groups that are unsure. Call it again while compare->more, with pushes and steps of
 * the core in between as they come. After a failure the comparison is over, and what earlier calls
 * have written stays. FG_E_UNAVAILABLE. The committer's thread. */
enum fg_code ing_compare_apply(const struct ing_compare_head *head, struct ing_compare *compare,
                               const struct ing_compare_targets *targets,
                               struct fg_err *err) fg_must_check;

/* Frees a comparison. Accepts a zeroed one. */
void ing_compare_done(struct ing_compare *compare);

#endif
