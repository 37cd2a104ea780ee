/*
 * COMPARE of the step core (segments_core.h): which profiles of chunks that are not committed are
 * in segments or blocks already. It has two halves, since the bucket is read on a thread that may
 * wait, and the head is changed with no push in between:
 *
 *   segments' thread     ing_compare_find()     finds the ids of the head's groups in the bucket
 *   committer's thread   ing_compare_apply()    moves the profiles that the bucket lacks to another
 *                                               chunk
 *
 * It reads all ids of a group, not only those that the head has: a profile that arrives between
 * the halves may be in the bucket, and needs no lookup if nothing of its group was missing.
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
};

/* A group of the head of which the bucket has profiles, or may have. */
struct ing_compare_group {
    struct ing_head_group_key key;
    struct ing_dedup_ids committed; /* ascending */
    struct fg_id digest;            /* their sum */
    uint64_t n_met;                 /* how many of them our chunks have */
    bool unsure;                    /* a damaged object may have more */
};

struct ing_compare {
    struct fg_arena *arena;
    struct ing_compare_group *groups; /* by tenant, shard, window */
    size_t n_groups;
    bool all;            /* all live objects were read, not one segment only */
    uint64_t generation; /* of the segment or the snapshot */

    /* Set by ing_compare_apply(), for the core. */
    struct ing_segments_outcome *outcomes;
    uint32_t n_outcomes;
    /* Of one segment: groups of which it has profiles that our chunks lack. */
    struct ing_head_group_key *missing;
    uint32_t n_missing;
    /* Groups that a damaged object may contain, ascending: their chunks become unchecked. */
    struct ing_head_group_key *unsure;
    uint32_t n_unsure;
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

/* Marks chunks committed whose profiles the bucket has, and moves their other profiles to the chunk
 * that leftover() names (ing_segments_core_leftover()); one durable batch. FG_E_UNAVAILABLE. The
 * committer's thread. */
enum fg_code ing_compare_apply(const struct ing_compare_head *head, struct ing_compare *compare,
                               uint32_t (*leftover)(void *arg,
                                                    const struct ing_head_chunk_key *chunk),
                               void *arg, struct fg_err *err) fg_must_check;

/* Frees a comparison. Accepts a zeroed one. */
void ing_compare_done(struct ing_compare *compare);

#endif
