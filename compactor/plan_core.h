/*
 * The plan: which jobs a tenant's segments and blocks need, a pure function of manifests and time.
 * The same manifests give the same jobs, so a compactor that was stopped in the middle of a job
 * finds it again. Shell: compactor/tenant.h.
 *
 *   segments --> 1 h blocks   when the segment's last hour is over and hour_delay has passed, or
 *                             with the next hour's segments if it comes later than that; data of
 *                             a day that is closed goes into a block of that day
 *   1 h      --> 6 h          in an open day, if the blocks of six hours are small (less than is
 *                             worth a parent rollup)
 *   1 h, 6 h --> 1 day        when the day is over and day_delay has passed; divided by shards if
 *                             a day is larger than a job may be
 *   late     --> folded       blocks that come after a day has its own are patches. They are
 *                             merged into it when they are more than 1 % of it and no more come,
 *                             or are a day old, or are many
 *   expired  --> dropped      whole blocks, as retention.h decides; queries apply the exact limit
 *   expired  --> rollup-only  if rollups are kept longer: when a whole week is over and settled,
 *                             its blocks are replaced by rollups in one swap. An unreadable block
 *                             holds up none of the others, and is dropped as lost later
 *   deleted  --> rewritten    blocks that hold what a deletion names
 *   1 h      --> 6 h rollup   parent rollups over several blocks, which stay: of a span that is
 *   1 day    --> 7 d, 28 d    over and settled (no segments wait; nothing came for fold_quiet, if
 *                             it is made of days). A day so large that queries do not read it
 *                             as a whole gets one of its own, for which one request is enough.
 *                             They leave with any of their blocks (manifest) and are built again
 *                             then; those of 6 hours leave with the hourly blocks
 *
 * Invariants of a plan's jobs (plan_check() asserts most of them): no segment or block
 * is in two jobs that replace it, or in one of these and in a PLAN_ROLLUP job. The sources of a job
 * that replaces are at most job_max_bytes, unless it is a single one, and sources_max (more if only
 * rollups are read: PLAN_ROLLUP_ONLY_JOBS). Jobs that were all carried out lead to an empty plan.
 *
 * Late data is folded in batches: each fold rewrites the day, and a stream of single late profiles
 * would rewrite it all the time.
 *
 * Thread: any; a pure function.
 */
#ifndef FG_COMPACTOR_PLAN_CORE_H
#define FG_COMPACTOR_PLAN_CORE_H

#include "common/base/time.h"
#include "common/cluster/manifest/blocks.h"
#include "compactor/retention.h"

#define PLAN_DAY_NS (24 * FG_HOUR_NS)

enum cmp_plan_level {
    PLAN_HOUR = 1,
    PLAN_6_HOURS = 2, /* rollups; blocks of hours that are small */
    PLAN_DAY = 3,
    PLAN_WEEK = 4,  /* rollups */
    PLAN_MONTH = 5, /* 28 days: rollups, and blocks of data that is scattered over more days than a
                       job can make blocks of */
};

enum {
    PLAN_SHARES_MAX = 64,      /* ranges of shards into which one span is divided at once */
    PLAN_MANY = 16,            /* so many blocks of one span and range are merged in any case */
    PLAN_ROLLUP_ONLY_JOBS = 7, /* times job_max_bytes, if only rollups are read: a week of days */
    PLAN_JOIN_MIN = 3,         /* so many small hours become a block of six hours */
    PLAN_LATE_SHARE = 100,     /* late data is folded when it is more than one in so many */
};

struct cmp_plan_config {
    int64_t hour_delay_ns, day_delay_ns;
    int64_t segment_wait_ns;   /* a segment is merged after that although its hour is not over:
                                  a clock is wrong */
    int64_t fold_after_ns;     /* late data is folded at that age */
    int64_t fold_quiet_ns;     /* or earlier, if it is enough and its newest block is that old */
    uint64_t job_max_bytes;    /* of sources */
    uint32_t sources_max;      /* at least 2 */
    uint64_t rollup_min_bytes; /* of blocks: fewer get no parent rollup, as they are read quickly;
                                  hours become one block */
    uint64_t whole_max_bytes;  /* larger objects are read in parts */
    struct cmp_retention retention;
    bool segments_apart; /* one job for each segment, since one is damaged */
};

/* What failed jobs say about a block, if the block was the cause and not the bucket or the disk. */
enum cmp_plan_trouble {
    PLAN_SOUND,
    PLAN_SUSPECT, /* a job with several blocks failed */
    PLAN_BROKEN,  /* jobs with it alone have failed for a day */
};

struct cmp_plan_input {
    const struct fg_l0 *l0;
    const struct fg_blocks *blocks;
    const bool *deleted; /* [blocks->n_blocks]: holds something that a deletion names; NULL: none */
    const enum cmp_plan_trouble *troubles; /* [blocks->n_blocks]; NULL: none */
    int64_t wall_ns;
    /* Damaged or missing objects: only jobs of retention (DROP, ROLLUP_ONLY) have them. NULL: none.
     */
    const bool *blocks_aside;   /* [blocks->n_blocks] */
    const bool *segments_aside; /* [l0->n_segments] */
};

enum cmp_plan_kind {
    PLAN_DROP,
    PLAN_SEGMENTS,
    PLAN_MERGE,
    PLAN_ROLLUP,          /* a parent rollup is added; its blocks stay */
    PLAN_ROLLUP_ONLY,     /* blocks are replaced by their rollup */
    PLAN_ROLLUP_DELETION, /* such a rollup loses the services that a deletion may name */
};

struct cmp_plan_range {
    uint16_t first, last; /* shards, inclusive */
};

struct cmp_plan_job {
    enum cmp_plan_kind kind;
    const char *why;      /* for people: "retention", "segments", "day", "late", ... */
    bool lost;            /* DROP: RETENTION_LOST */
    uint64_t *segments;   /* [n_segments]: generations, ascending */
    struct fg_id *blocks; /* [n_blocks], ascending */
    uint32_t n_segments, n_blocks;
    uint64_t bytes; /* of the sources */
    /* The span of the block; SEGMENTS: cmp_plan_span_of() tells it for each time. */
    enum cmp_plan_level level;
    int64_t start_ns, end_ns;
    /* MERGE: one block for each range that has profiles. */
    struct cmp_plan_range ranges[2];
    uint32_t n_ranges;
};

struct cmp_plan {
    struct cmp_plan_job *jobs; /* the most urgent first */
    uint32_t n_jobs;
    uint32_t n_ready, n_waiting; /* segments that are not covered */
};

/* Makes the plan; its memory is in the arena. FG_E_LIMIT: the arena is full. */
enum fg_code cmp_plan_make(const struct cmp_plan_config *config, const struct cmp_plan_input *input,
                           struct fg_arena *arena, struct cmp_plan *ret_plan,
                           struct fg_err *err) fg_must_check;

/* A span of time that becomes a block. */
struct cmp_plan_span {
    enum cmp_plan_level level;
    int64_t start_ns, end_ns;
};
/* Returns the span into which profiles of this time go when they come from segments: of an hour, or
 * of a day that is closed. */
struct cmp_plan_span cmp_plan_span_of(const struct cmp_plan_config *config, int64_t wall_ns,
                                      int64_t time_ns);
/* Returns the span of 28 days that has this time. */
struct cmp_plan_span cmp_plan_month_of(int64_t time_ns);

/* Returns true if the span has a block with profiles, so that another one is a patch of it. */
bool cmp_plan_span_has_block(const struct fg_blocks *blocks, const struct cmp_plan_span *span);

/* Divides a range at the middle of the smallest aligned power of two of shards that holds it.
 * Returns false if the range is a single shard. */
bool cmp_plan_halve(struct cmp_plan_range range, struct cmp_plan_range halves[2]);

/*
 * Divides the shards of `bytes` of profiles into ranges, so that a day of such blocks is not larger
 * than a job. Returns how many ranges, up to PLAN_SHARES_MAX.
 */
uint32_t cmp_plan_divide(const struct cmp_plan_config *config, enum cmp_plan_level level,
                         uint64_t bytes, struct cmp_plan_range shards,
                         struct cmp_plan_range ranges[PLAN_SHARES_MAX]);

/* Estimates a tenant's bytes of a segment by its share of the profiles. */
uint64_t cmp_plan_segment_bytes(const struct fg_l0_segment *segment, const struct fg_l0_part *part);

/* Makes the id of a block: the time at which it was made, then 64 random bits. */
static inline struct fg_id cmp_plan_block_id(int64_t wall_ns, uint64_t random)
{
    return (struct fg_id){.lo = random, .hi = (uint64_t)wall_ns};
}

#endif
