/*
 * What the files that make merged nodes (nodes.h) share; nobody else includes it.
 *
 *     nodes.c         sums over time, groups and series; memory; types
 *     nodes_parts.c   what there is: spans of time, types, series, and where sources have them
 *     nodes_rows.c    which rows are worth making, and the writer's
 */
#ifndef FG_COMPACTOR_MERGE_ROLLUP_IMPL_H
#define FG_COMPACTOR_MERGE_ROLLUP_IMPL_H

#include "common/base/map.h"
#include "common/model/function_tree.h"
#include "compactor/merge/rollup.h"

enum { ROLLUP_TYPES_MAX = 256 }; /* of a service: more have no nodes */

/* Buckets [from, to). */
struct cmp_stretch {
    uint32_t from, to;
};

/* Profiles of a series in a bucket of time. */
struct cmp_counted {
    uint64_t profiles, samples;
    struct fg_id digest;
};

struct cmp_series {
    uint32_t group;
    uint32_t *types; /* [n_types of its schema]: into making.types; FG_MAP_NONE: not seen */
    struct cmp_counted *buckets; /* [n_buckets] */
};

/* What is known of a source. Of its run r the first bucket that may have profiles is that of its
 * least time; of those after it firsts[places[r]] and on say with which profile they begin. */
struct cmp_source {
    uint32_t *firsts;
    uint32_t *places;      /* [n_runs + 1] */
    uint32_t at;           /* series that comes next, when they are gone through in order */
    const uint32_t *ranks; /* of a rank: that in the block */
};

struct cmp_making {
    const struct cmp_merge_rollup_input *input;
    struct fg_arena *arena, *scratch;
    struct fg_rollup_writer *writer;
    const struct fg_function_tree *names;
    uint32_t n_ranks;
    uint32_t *name_of;        /* of a rank of the block: the node of names */
    struct fg_groups *groups; /* in the caller's arena: the writer of nodes looks at them */
    uint32_t group_sizes[FG_GROUPS_MAX]; /* series */
    bool left_out;

    /* Time: buckets, the first of them for what is early, where anything is (n_early 1); the others
     * are the span. n_fine of them are a step, and some steps a middle span; 1: there is none. */
    int64_t start_ns, bucket_ns;
    uint32_t n_buckets, n_fine, n_middles, n_early;

    struct fg_profile_type types[ROLLUP_TYPES_MAX];
    uint32_t n_types;
    struct cmp_series *series;
    struct cmp_source *sources;
    uint64_t samples, samples_bytes; /* of the part, as stored */

    /* Sums of the types at hand: columns. */
    uint32_t columns[ROLLUP_TYPES_MAX], n_columns; /* into types, ascending */
    uint32_t column_of[ROLLUP_TYPES_MAX];          /* FG_MAP_NONE: not at hand */
    bool done[ROLLUP_TYPES_MAX];
    bool small_groups, small_series; /* have nodes, whatever they are worth */
    uint32_t n_groups;               /* that are summed; 1: all are one */
    size_t stride;                   /* of a column by name */
    int64_t *fine, *step;            /* [column]; fine is NULL where n_fine is 1 */
    int64_t *middle, *top;           /* [group][column] */
    uint64_t *full;                  /* [group][column][n_ranks]; NULL: none */
};

/* ---- nodes_parts.c ---- */

void cmp_rollup_set_spans(struct cmp_making *making);
struct cmp_stretch cmp_rollup_middle(const struct cmp_making *making, uint32_t middle);
struct cmp_stretch cmp_rollup_whole(const struct cmp_making *making);
/* Where a bucket begins; n_buckets: where the last one ends. */
int64_t cmp_rollup_bucket_start_ns(const struct cmp_making *making, uint32_t bucket);

/* What is known of the part's series but their counts. seen: types of each, as bits. false: no
 * room. */
bool cmp_rollup_set_series(struct cmp_making *making, const uint64_t *seen) fg_must_check;

/* Counts, and where in each source a series' profiles of a bucket are. *ret_fits false: no room. */
enum fg_code cmp_rollup_scan_sources(struct cmp_making *making, bool *ret_fits,
                                     struct fg_err *err) fg_must_check;
/* The first profile of a run in a bucket or behind it. */
uint32_t cmp_rollup_first_of(const struct cmp_making *making, const struct cmp_source *source,
                             const struct fg_block_index *index, uint32_t run, uint32_t bucket);

/* Stacks of sources become ranks of the block, in their place, and these get names. false: no room.
 */
bool cmp_rollup_map_sources(struct cmp_making *making) fg_must_check;

/* ---- nodes_rows.c ---- */

/* Adds what a series has in some buckets. */
void cmp_rollup_count_series(const struct cmp_making *making, uint32_t series,
                             struct cmp_stretch stretch, struct cmp_counted *sum);
/* Are small groups and series worth nodes, all together? Of the types at hand. */
void cmp_rollup_judge_small(struct cmp_making *making);
/* What a node of the key takes the place of; 0: it is not worth making. */
uint64_t cmp_rollup_replaced_bytes(const struct cmp_making *making, enum fg_rollup_kind kind,
                                   uint64_t samples);
/* A row of the key in these buckets, of each type at hand that is worth it. self, full: by column.
 */
enum fg_code cmp_rollup_add_row(struct cmp_making *making, struct fg_rollup_key key,
                                struct cmp_stretch stretch, const int64_t *self,
                                const uint64_t *full, struct fg_err *err) fg_must_check;

#endif
