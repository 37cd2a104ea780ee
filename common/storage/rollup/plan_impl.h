/*
 * Internals that the files of the planner share: rows of a source, its plan, the whole plan.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_PLAN_IMPL_H
#define FG_COMMON_STORAGE_ROLLUP_PLAN_IMPL_H

#include "common/base/map.h"
#include "common/storage/rollup/plan.h"

#define FG_PLAN_NEVER UINT64_MAX /* the cost of something impossible */

/* A span of time, [lo, hi]. The spans in it follow, up to index end. */
struct fg_plan_span {
    int64_t lo, hi;
    uint32_t parent, end; /* parent: of the first, FG_MAP_NONE */
};

/* A row that can be used, with its key and span. */
struct fg_plan_entry {
    uint32_t key, span, row;
};

enum fg_plan_choice {
    FG_PLAN_NOTHING, /* there are no profiles */
    FG_PLAN_ROW,
    FG_PLAN_RAW,
    FG_PLAN_BY_TIME,
    FG_PLAN_BY_KEY,
    FG_PLAN_MINUS, /* all series minus the groups that do not match */
};

/* The best choice for a span and a key. */
struct fg_plan_best {
    uint32_t span, key;
    enum fg_plan_choice choice;
    uint64_t bytes;
    bool tree, names; /* needs the stack tree; needs names and function tree */
};

/*
 * The planning of one source. Keys: 0 is all series; 1 + g is group g; then all series in the order
 * of of_group. The state of a key tells whether the query matches all, some or none of its series
 * that have the type.
 */
struct fg_plan_work {
    const struct fg_plan_query *query;
    const struct fg_plan_source *source;
    uint32_t number; /* of the source */
    struct fg_arena *arena;
    bool raw; /* it has profiles of its own */

    struct fg_plan_span *spans;
    uint32_t n_spans;
    struct fg_plan_entry *entries; /* ascending by key, span, bytes */
    uint32_t n_entries;
    uint32_t *series_rows; /* [n_spans + 1]: entries of series over spans before this one */

    uint32_t n_groups, n_keys;
    enum fg_groups_answer *states; /* [n_keys] */
    float *shares;                 /* [n_keys]: estimated share of the profiles that match */
    uint32_t *of_group;            /* indexes into source->series, ordered by group */
    uint32_t *group_firsts;        /* [n_groups + 1]: into of_group */
    bool by_series; /* there are rollups of series, and it is known which series match */

    struct fg_plan_best *bests;
    uint32_t n_bests, cap_bests;
    struct fg_map map; /* (span, key) -> best */
    bool no_tree;      /* choices that need the stack tree are excluded */
    bool tree;         /* the best choice needs the stack tree */
    uint64_t bytes;    /* in total, including trees and names */
    bool no_room;
};

static inline uint64_t fg_plan_add(uint64_t a, uint64_t b)
{
    return a > FG_PLAN_NEVER - b ? FG_PLAN_NEVER : a + b;
}

/* Fills in spans, keys and entries. FG_E_LIMIT. */
enum fg_code fg_plan_rows(struct fg_plan_work *work, struct fg_err *err) fg_must_check;

/* Returns the row of a span and key, or NULL. */
const struct fg_rollup_row *fg_plan_find_row(const struct fg_plan_work *work, uint32_t span,
                                             uint32_t key, uint32_t *ret_row);

/* Returns whether a row can serve the query, and in which form. linear: it takes part in a
 * subtraction. */
bool fg_plan_serves(const struct fg_plan_work *work, uint32_t row, bool linear,
                    enum fg_rollup_form *ret_form);

/* Return whether there are rollups of series over the spans [first, end); and rollups of a key or
 * of its series over spans in this span. */
bool fg_plan_has_series_rows_over(const struct fg_plan_work *work, uint32_t first, uint32_t end);
bool fg_plan_has_finer(const struct fg_plan_work *work, uint32_t span, uint32_t key);

/* Plans the source. work->bytes is FG_PLAN_NEVER if a derived source cannot answer. FG_E_LIMIT. */
enum fg_code fg_plan_source_make(struct fg_plan_work *work, struct fg_err *err) fg_must_check;

/* A plan in progress; its arrays are in the arena. */
struct fg_plan_out {
    struct fg_plan plan;
    uint32_t cap_picks, cap_raws;
    struct fg_arena *arena;
    bool no_room;
};
/* Appends the picks and raws of a planned source. */
void fg_plan_source_emit(const struct fg_plan_work *work, struct fg_plan_out *out);

#endif
