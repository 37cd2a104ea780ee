/*
 * What the files that build rollups (rollup.h) share; nobody else includes it.
 *
 *     rollup.c         sums over time, groups and series; memory; types
 *     rollup_parts.c   what there is: spans of time, types, series, and where sources have them
 *     rollup_rows.c    which rows are worth their bytes, and writing them
 */
#ifndef FG_COMPACTOR_MERGE_ROLLUP_IMPL_H
#define FG_COMPACTOR_MERGE_ROLLUP_IMPL_H

#include "common/base/map.h"
#include "common/model/function_tree.h"
#include "compactor/merge/rollup.h"

enum { ROLLUP_TYPES_MAX = 256 }; /* of a service: others have no rollup */

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

/* A source. Of its run r the first bucket that may have profiles is that of its
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
    struct fg_groups *groups; /* in the caller's arena: the writer of rollups reads them */
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
    bool small_groups, small_series; /* get rollups although these save no bytes */
    uint32_t n_groups;               /* that are summed; 1: all are one */
    size_t stride;                   /* of a column by name */
    int64_t *fine, *step;            /* [column]; fine is NULL where n_fine is 1 */
    int64_t *middle, *top;           /* [group][column] */
    uint64_t *full;                  /* [group][column][n_ranks]; NULL: none */
};

/* ---- rollup_parts.c ---- */

void cmp_rollup_set_spans(struct cmp_making *making);
struct cmp_stretch cmp_rollup_middle(const struct cmp_making *making, uint32_t middle);
struct cmp_stretch cmp_rollup_whole(const struct cmp_making *making);
/* Returns where a bucket begins; for n_buckets where the last one ends. */
int64_t cmp_rollup_bucket_start_ns(const struct cmp_making *making, uint32_t bucket);

/* Sets all fields of the part's series except their counts. seen: types of each, as bits. Returns
 * false if memory is full. */
bool cmp_rollup_set_series(struct cmp_making *making, const uint64_t *seen) fg_must_check;

/* Counts profiles, and finds where in each source a series' profiles of a bucket are. *ret_fits
 * false: memory is full. */
enum fg_code cmp_rollup_scan_sources(struct cmp_making *making, bool *ret_fits,
                                     struct fg_err *err) fg_must_check;
/* Returns the first profile of a run in a bucket or after it. */
uint32_t cmp_rollup_first_of(const struct cmp_making *making, const struct cmp_source *source,
                             const struct fg_block_index *index, uint32_t run, uint32_t bucket);

/* Replaces stacks of sources by ranks of the block and gives these names. Returns false if memory
 * is full. */
bool cmp_rollup_map_sources(struct cmp_making *making) fg_must_check;

/* ---- rollup_rows.c ---- */

/* Adds the counts of a series in some buckets. */
void cmp_rollup_count_series(const struct cmp_making *making, uint32_t series,
                             struct cmp_stretch stretch, struct cmp_counted *sum);
/* Decides for the current types if small groups and small series are worth sums, each all together.
 */
void cmp_rollup_judge_small(struct cmp_making *making);
/* Returns how many bytes a sum of the key saves; 0: it is not worth its bytes. */
uint64_t cmp_rollup_replaced_bytes(const struct cmp_making *making, enum fg_rollup_kind kind,
                                   uint64_t samples);
/* Adds a row of the key in these buckets for each current type that is worth it. self, full: by
 * column. */
enum fg_code cmp_rollup_add_row(struct cmp_making *making, struct fg_rollup_key key,
                                struct cmp_stretch stretch, const int64_t *self,
                                const uint64_t *full, struct fg_err *err) fg_must_check;

#endif
