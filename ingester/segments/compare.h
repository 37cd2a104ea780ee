/*
 * COMPARE of the step core: which profiles of chunks that are not committed are in segments or
 * blocks already. Two halves, since the bucket is read where waiting is allowed and the head is
 * changed where nothing comes in between:
 *
 *   driver's thread      ing_compare_find()     which ids of the head's groups are held
 *   committer's thread   ing_compare_apply()    profiles that are not held move to another chunk
 *
 * All ids of a group are read, and not only looked for: a profile that arrives between the two may
 * be held, and is let in without a look where nothing of its group was missing before.
 */
#ifndef FG_INGESTER_SEGMENTS_COMPARE_H
#define FG_INGESTER_SEGMENTS_COMPARE_H

#include "ingester/catalog/catalog.h"
#include "ingester/dedup_index.h"
#include "ingester/head_chunks.h"
#include "ingester/head_writer.h"
#include "ingester/segments/segments_core.h"

/* Borrowed. */
struct ing_compare_head {
    struct fg_store *store;
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dedup *dedup;
    struct ing_head_writer *writer;
};

/* A group of the head's of which something is held, or may be. */
struct ing_compare_group {
    struct ing_head_group_key key;
    struct ing_dedup_ids committed; /* ascending */
    struct fg_id digest;            /* their sum */
    uint64_t n_met;                 /* of them are in our chunks */
    bool unsure;                    /* there may be more, in an object that is damaged */
};

struct ing_compare {
    struct fg_arena *arena;
    struct ing_compare_group *groups; /* by tenant, shard, window */
    size_t n_groups;
    bool all;            /* that is live was looked at, and not one segment only */
    uint64_t generation; /* of what was looked at */

    /* After ing_compare_apply(): for the core. */
    struct ing_segments_outcome *outcomes;
    uint32_t n_outcomes;
    /* Of one segment: groups of which it holds profiles that we do not have. */
    struct ing_head_group_key *missing;
    uint32_t n_missing;
    /* Groups of which nobody can tell, ascending: what is not committed of them is unchecked. */
    struct ing_head_group_key *unsure;
    uint32_t n_unsure;
};

struct ing_compare_asking {
    /* Only groups for which it says so are looked at. */
    bool (*may_hold)(void *arg, const struct ing_head_group_key *group);
    void *arg;
    uint64_t only;  /* the segment of this generation, or 0: */
    uint64_t least; /* everything that is live at this one or later */
    struct ing_dedup_until until;
};

/* FG_E_NOT_FOUND: that segment is not live any more. FG_E_UNAVAILABLE, FG_E_DEADLINE,
 * FG_E_CANCELED, FG_E_CORRUPT, FG_E_LIMIT. */
enum fg_code ing_compare_find(const struct ing_compare_head *head,
                              const struct ing_compare_asking *asking,
                              struct ing_compare *ret_compare, struct fg_err *err) fg_must_check;

/* leftover: where profiles of a chunk go that are not held (ing_segments_core_leftover()). One
 * durable batch. FG_E_UNAVAILABLE. */
enum fg_code ing_compare_apply(const struct ing_compare_head *head, struct ing_compare *compare,
                               uint32_t (*leftover)(void *arg,
                                                    const struct ing_head_chunk_key *chunk),
                               void *arg, struct fg_err *err) fg_must_check;

/* On a zeroed one too. */
void ing_compare_done(struct ing_compare *compare);

#endif
