/*
 * Plans a query: chooses the rollups to read, and the profiles to read where rollups do not
 * suffice, so that every matching profile is counted exactly once and the fewest bytes are read.
 *
 * Sources are the parts of a service in blocks and segments: parts with profiles, and derived
 * parts, whose rollups sum the profiles of other objects (6 hours, weeks) and may be ignored. A
 * patch of late data is one more source with profiles. A rollup-only source is derived from objects
 * that are deleted, so its profiles cannot be read. The planner assumes nothing about levels: the
 * rows of each source tell what there is.
 *
 * The objects that a source is derived from need not be among the sources. Its rollups are trusted
 * then, and if they do not answer the query, the plan names the missing objects. So the caller
 * opens only the objects that are needed.
 *
 * Pure: no I/O, no clock.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_PLAN_H
#define FG_COMMON_STORAGE_ROLLUP_PLAN_H

#include "common/storage/rollup/reader.h"

/* A series of a source that has the type of the query. */
struct fg_plan_series {
    uint32_t number;
    bool matches;
};

struct fg_plan_source {
    struct fg_id id;                  /* of the object */
    const struct fg_rollups *rollups; /* NULL: none */
    int64_t t_min_ns, t_max_ns;       /* of its profiles, inclusive */
    uint64_t n_profiles;
    struct fg_id digest; /* sum of their ids */
    uint64_t raw_bytes;  /* of its samples */
    uint64_t tree_bytes; /* of stacks and symbols, which profiles and full values need */
    bool rollup_only;
    /* All series of the type, ascending; NULL: unknown, so only groups can decide filters. */
    const struct fg_plan_series *series;
    uint32_t n_series;
};

struct fg_plan_query {
    struct fg_profile_type type;
    const struct fg_selector *selector; /* without the type */
    int64_t start_ns, end_ns;           /* times of profiles, inclusive */
    enum fg_rollup_form form; /* the form that is needed; full values serve for all forms */
    bool crowns_too;          /* use crowns of rollup-only sources that have nothing better */
};

/* A rollup to be read. */
struct fg_plan_pick {
    uint32_t source, row; /* into the rollups of the source */
    enum fg_rollup_form form;
    int sign; /* 1, or -1: to be subtracted */
};

/* Profiles to be read: those of the key that match the query, with a time in [start, end]. */
struct fg_plan_raw {
    uint32_t source;
    enum fg_rollup_kind kind;
    uint32_t number;
    int64_t start_ns, end_ns; /* inclusive, as queries are */
};

struct fg_plan {
    struct fg_plan_pick *picks;
    struct fg_plan_raw *raws;
    uint32_t n_picks, n_raws;
    uint64_t bytes; /* estimate of the bytes to be read */
    /* Objects that sources are derived from and that the plan needs. Ascending. */
    struct fg_id *missing;
    uint32_t n_missing;
};

/*
 * Makes a plan. FG_E_LIMIT: the arena is full. FG_E_INVALID: start after end, a duplicate source,
 * or a rollup-only source that cannot answer the query.
 */
enum fg_code fg_plan_make(const struct fg_plan_query *query, const struct fg_plan_source *sources,
                          uint32_t n_sources, struct fg_arena *arena, struct fg_plan *ret_plan,
                          struct fg_err *err) fg_must_check;

#endif
