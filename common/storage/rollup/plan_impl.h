/*
 * What the files of plans share: rows of one source, its plan, the plan of all. Private to them.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_PLAN_IMPL_H
#define FG_COMMON_STORAGE_ROLLUP_PLAN_IMPL_H

#include "common/base/map.h"
#include "common/storage/rollup/plan.h"

#define FG_PLAN_NEVER UINT64_MAX /* the cost of what cannot be done */

/* A stretch of time, [lo, hi]; those below it follow, up to index end. */
struct fg_plan_span {
    int64_t lo, hi;
    uint32_t parent, end; /* parent: of the first, FG_MAP_NONE */
};

/* A row that can be used: of which key, over which span. */
struct fg_plan_entry {
    uint32_t key, span, row;
};

enum fg_plan_choice {
    FG_PLAN_NOTHING, /* there is nothing to read */
    FG_PLAN_NODE,
    FG_PLAN_RAW,
    FG_PLAN_BY_TIME,
    FG_PLAN_BY_KEY,
    FG_PLAN_MINUS, /* all series, without the groups that do not match */
};

/* The best that can be done for a span and a key. */
struct fg_plan_best {
    uint32_t span, key;
    enum fg_plan_choice choice;
    uint64_t bytes;
    bool tree, names; /* needs the stack tree; names and dictionary */
};

/*
 * Keys: 0 is all series; 1 + g is group g; series come behind them, in the order of of_group.
 * State: does the query match all, some or none of the key's series that have the type?
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
    float *shares;                 /* [n_keys]: how much of it matches */
    uint32_t *of_group;            /* series, by their places in source->series, by group */
    uint32_t *group_firsts;        /* [n_groups + 1]: into of_group */
    bool by_series;                /* there are nodes of series, and it is known which match */

    struct fg_plan_best *bests;
    uint32_t n_bests, cap_bests;
    struct fg_map map; /* (span, key) -> best */
    bool no_tree;      /* what needs the stack tree is not looked at */
    bool tree;         /* the best needs it */
    uint64_t bytes;    /* of it all, trees and names included */
    bool no_room;
};

static inline uint64_t fg_plan_add(uint64_t a, uint64_t b)
{
    return a > FG_PLAN_NEVER - b ? FG_PLAN_NEVER : a + b;
}

/* Fills in spans, keys and entries. FG_E_LIMIT. */
enum fg_code fg_plan_rows(struct fg_plan_work *work, struct fg_err *err) fg_must_check;

/* The row of a span and key, or NULL. */
const struct fg_rollup_row *fg_plan_find_row(const struct fg_plan_work *work, uint32_t span,
                                             uint32_t key, uint32_t *ret_row);

/* How a row can serve the query; false: it cannot. linear: as something to subtract from. */
bool fg_plan_serves(const struct fg_plan_work *work, uint32_t row, bool linear,
                    enum fg_rollup_form *ret_form);

/* Are there nodes of series over the spans [first, end)? Of a key, or of its series, over spans
 * below this one? */
bool fg_plan_has_series_rows_over(const struct fg_plan_work *work, uint32_t first, uint32_t end);
bool fg_plan_has_finer(const struct fg_plan_work *work, uint32_t span, uint32_t key);

/* FG_E_LIMIT. work->bytes is FG_PLAN_NEVER where nodes alone cannot do it. */
enum fg_code fg_plan_source_make(struct fg_plan_work *work, struct fg_err *err) fg_must_check;

/* A plan on its way: arrays in the arena. */
struct fg_plan_out {
    struct fg_plan plan;
    uint32_t cap_picks, cap_raws;
    struct fg_arena *arena;
    bool no_room;
};
void fg_plan_source_emit(const struct fg_plan_work *work, struct fg_plan_out *out);

#endif
