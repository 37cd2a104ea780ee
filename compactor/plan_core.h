/*
 * What to merge: a pure function of manifests and time. The same manifests give the same jobs; who
 * was stopped in the middle of one finds it again.
 *
 *   segments --> 1 h blocks   once the segment's last hour is over and hour_delay has passed, or
 *                             with the next hour's where it comes later than that; what is of a
 *                             day that is closed already goes into a block of that day
 *   1 h      --> 1 day        once the day is over and day_delay has passed; by ranges of shards
 *                             where a day is larger than a job may be
 *   late     --> folded       blocks that come after a day has its own are patches: they are
 *                             merged into it when they are more than 1 % and no more come, or a
 *                             day old, or many
 *   expired  --> dropped      whole blocks; the exact cut-off is a filter of queries
 *   expired  --> kept         where merged nodes are kept for longer: once all of a week is over
 *                             and as it will be for a while, its blocks are replaced by nodes that
 *                             are alone, in one swap; what cannot be read holds up none beside it,
 *                             and is dropped when it is a fortnight over
 *   deleted  --> rewritten    blocks that hold what a deletion names
 *   1 h      --> nodes of 6 h merged nodes over several blocks, which stay: of a span that is over,
 *   1 day    --> of 7 d, 28 d   whose blocks are as they will be for a while: nothing late waits,
 *                             nothing came for fold_quiet. They leave with any of these blocks
 *                             (manifest), and are made anew then; those of 6 hours with the hours
 *
 * What always holds of the jobs of a plan: no segment or block is in two of them that replace it,
 * or in one of these and in one of nodes; sources of one that replaces are at most job_max_bytes,
 * unless it is a single one, and sources_max (more where only nodes are read:
 * PLAN_ROLLUP_ONLY_JOBS); carried out, they lead to a plan without jobs.
 *
 * Late data is folded by amounts and not at once: each fold rewrites the day, and a stream of
 * single late profiles would rewrite it all the time.
 */
#ifndef FG_COMPACTOR_PLAN_CORE_H
#define FG_COMPACTOR_PLAN_CORE_H

#include "common/base/time.h"
#include "common/cluster/manifest/blocks.h"
#include "compactor/retention.h"

#define PLAN_DAY_NS (24 * FG_HOUR_NS)

enum cmp_plan_level {
    PLAN_HOUR = 1,
    PLAN_6_HOURS = 2, /* nodes only */
    PLAN_DAY = 3,
    PLAN_WEEK = 4,  /* nodes only */
    PLAN_MONTH = 5, /* 28 days: nodes only; with profiles of what is scattered over more days than a
                       job can make blocks of */
};

enum {
    PLAN_SHARES_MAX = 64, /* ranges of shards that one span is divided into, at once */
    PLAN_MANY = 16,       /* blocks of one span and range: so many are merged, whatever they are */
    PLAN_ROLLUP_ONLY_JOBS =
        7, /* job_max_bytes, of blocks that are read for their nodes: a week of days */
    PLAN_LATE_SHARE = 100, /* late data is folded when it is more than one in so many */
};

struct cmp_plan_config {
    int64_t hour_delay_ns, day_delay_ns;
    int64_t segment_wait_ns;   /* a segment whose hour is not over goes in after that all the same:
                                  somebody's clock is wrong */
    int64_t fold_after_ns;     /* late data is folded when it is that old */
    int64_t fold_quiet_ns;     /* or is enough, and the newest is that old */
    uint64_t job_max_bytes;    /* of sources */
    uint32_t sources_max;      /* at least 2 */
    uint64_t rollup_min_bytes; /* of blocks: nodes over fewer are not made; they are soon read */
    struct cmp_retention retention;
    bool segments_apart; /* a job for each: one of them is broken */
};

/* What jobs that failed say of a block, by what was wrong with it and not with the world. */
enum cmp_plan_trouble {
    PLAN_SOUND,
    PLAN_SUSPECT, /* one of several */
    PLAN_BROKEN,  /* it was the only one, and is for long */
};

struct cmp_plan_input {
    const struct fg_l0 *l0;
    const struct fg_blocks *blocks;
    const bool *deleted; /* [blocks->n_blocks]: holds something that a deletion names; NULL: none */
    const enum cmp_plan_trouble *troubles; /* [blocks->n_blocks]; NULL: none */
    int64_t wall_ns;
    /* Damaged or missing objects: no job but one of retention (DROP, KEEP) has them. NULL: none. */
    const bool *blocks_aside;   /* [blocks->n_blocks] */
    const bool *segments_aside; /* [l0->n_segments] */
};

enum cmp_plan_kind {
    PLAN_DROP,
    PLAN_SEGMENTS,
    PLAN_MERGE,
    PLAN_ROLLUP,
    PLAN_ROLLUP_ONLY,     /* blocks into nodes that are alone */
    PLAN_ROLLUP_DELETION, /* one of these, without the services that a deletion may name */
};

struct cmp_plan_range {
    uint16_t first, last; /* shards, inclusive */
};

struct cmp_plan_job {
    enum cmp_plan_kind kind;
    const char *why;      /* for people: "retention", "segments", "day", "late", ... */
    bool lost;            /* DROP: what could not be kept as it should */
    uint64_t *segments;   /* [n_segments]: generations, ascending */
    struct fg_id *blocks; /* [n_blocks], ascending */
    uint32_t n_segments, n_blocks;
    uint64_t bytes; /* of the sources */
    /* MERGE, NODES, KEEP, STRIP: the block's span; SEGMENTS: cmp_plan_span_of() says for each time.
     */
    enum cmp_plan_level level;
    int64_t start_ns, end_ns;
    /* MERGE: a block for each; empty ones are left out. */
    struct cmp_plan_range ranges[2];
    uint32_t n_ranges;
};

struct cmp_plan {
    struct cmp_plan_job *jobs; /* the most urgent first */
    uint32_t n_jobs;
    uint32_t n_ready, n_waiting; /* segments that are not covered */
};

/* FG_E_LIMIT: the arena is full. */
enum fg_code cmp_plan_make(const struct cmp_plan_config *config, const struct cmp_plan_input *input,
                           struct fg_arena *arena, struct cmp_plan *ret_plan,
                           struct fg_err *err) fg_must_check;

/* The span that profiles of a time go into when they come from segments. */
struct cmp_plan_span {
    enum cmp_plan_level level;
    int64_t start_ns, end_ns;
};
struct cmp_plan_span cmp_plan_span_of(const struct cmp_plan_config *config, int64_t wall_ns,
                                      int64_t time_ns);
/* Of 28 days, whatever the time. */
struct cmp_plan_span cmp_plan_month_of(int64_t time_ns);

/* Returns whether a block with profiles was made for the span: another one is a patch of it. */
bool cmp_plan_span_has_block(const struct fg_blocks *blocks, const struct cmp_plan_span *span);

/* The halves of the smallest power of two of shards that holds the range, aligned as such; false:
 * it is a single shard. */
bool cmp_plan_halve(struct cmp_plan_range range, struct cmp_plan_range halves[2]);

/*
 * Ranges that `bytes` of profiles of shards [first, last] are divided into, so that a day of such
 * blocks is no larger than a job. Returns how many, up to PLAN_SHARES_MAX.
 */
uint32_t cmp_plan_divide(const struct cmp_plan_config *config, enum cmp_plan_level level,
                         uint64_t bytes, struct cmp_plan_range shards,
                         struct cmp_plan_range ranges[PLAN_SHARES_MAX]);

/* Bytes of a segment that are the tenant's, as far as the manifest tells. */
uint64_t cmp_plan_segment_bytes(const struct fg_l0_segment *segment, const struct fg_l0_part *part);

/* Ids of blocks say when they were made, in front of 64 random bits. */
static inline struct fg_id cmp_plan_block_id(int64_t wall_ns, uint64_t random)
{
    return (struct fg_id){.lo = random, .hi = (uint64_t)wall_ns};
}

#endif
