/*
 * Which merged nodes answer a query, and what is left to be read raw: never twice, never missing,
 * and the fewest bytes among what can be put together so.
 *
 * Sources are what a service's blocks and segments have of it: those that hold profiles, and those
 * that only hold nodes made of the profiles of others (6 hours, weeks), which cost nothing to leave
 * aside. A patch of late data is one more source with profiles. One that is alone is made of what
 * is gone: its profiles are nowhere else, and cannot be read. Nothing is assumed about levels: the
 * rows of each source say what there is.
 *
 * What a source is made of need not be among the sources: its nodes are believed then, and where
 * they do not answer, the plan says what is missing. So the caller opens only what has to be.
 *
 * Pure: no I/O, no clock.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_PLAN_H
#define FG_COMMON_STORAGE_ROLLUP_PLAN_H

#include "common/storage/rollup/reader.h"

/* A series of a source that has the query's type. */
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
    uint64_t tree_bytes; /* of stacks and symbols, which raw data and full nodes need */
    bool rollup_only;
    /* All series of the type, ascending; NULL: not known, which groups can make good for. */
    const struct fg_plan_series *series;
    uint32_t n_series;
};

struct fg_plan_query {
    struct fg_profile_type type;
    const struct fg_selector *selector; /* without the type */
    int64_t start_ns, end_ns;           /* profiles' times, inclusive */
    enum fg_rollup_form form;           /* at least this: a full node will do for all */
    bool crowns_too;                    /* of what is alone, where there is nothing better */
};

/* A node to be read. */
struct fg_plan_pick {
    uint32_t source, row; /* into the source's nodes */
    enum fg_rollup_form form;
    int sign; /* 1, or -1: to be subtracted */
};

/* To be read raw: profiles of the key that match the query, with a time in [start, end]. */
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
    uint64_t bytes; /* to be read, as far as can be foreseen */
    /* Objects that sources are made of: without them the plan lacks their profiles. Ascending. */
    struct fg_id *missing;
    uint32_t n_missing;
};

/*
 * FG_E_LIMIT at the arena's end. FG_E_INVALID: start after end, a source twice; one that is alone
 * cannot answer.
 */
enum fg_code fg_plan_make(const struct fg_plan_query *query, const struct fg_plan_source *sources,
                          uint32_t n_sources, struct fg_arena *arena, struct fg_plan *ret_plan,
                          struct fg_err *err) fg_must_check;

#endif
