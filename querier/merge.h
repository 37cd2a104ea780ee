/*
 * Merges what several sources (ingesters, blocks) return for one query: label sets unite, points of
 * the same labels add up, counts add up.
 *
 * Pure values. Thread: one at a time. Memory: items are in the arena that each call names; *_done()
 * frees the hash tables only.
 */
#ifndef FG_QUERIER_MERGE_H
#define FG_QUERIER_MERGE_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/map.h"
#include "common/model/labels.h"

/* Distinct label sets. */
struct qry_label_sets {
    struct fg_labels *items;
    size_t n, cap;
    struct fg_map map; /* hash of the labels -> item */
};

void qry_label_sets_init(struct qry_label_sets *sets);
void qry_label_sets_done(struct qry_label_sets *sets);

/* Adds a label set unless it is there. The labels are borrowed as long as the sets. FG_E_LIMIT. */
enum fg_code qry_label_sets_add(struct qry_label_sets *sets, const struct fg_labels *labels,
                                struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* Adds a copy of a label set unless it is there. *ret_at: its item. FG_E_LIMIT. */
enum fg_code qry_label_sets_take(struct qry_label_sets *sets, const struct fg_labels *labels,
                                 struct fg_arena *arena, size_t *ret_at,
                                 struct fg_err *err) fg_must_check;

/* Sorts the items; nothing can be added afterwards. */
void qry_label_sets_sort(struct qry_label_sets *sets);

/* A value on the grid start + k * step. */
struct qry_point {
    int64_t k, sum;
    uint64_t count; /* profiles in the sum */
};

struct qry_points {
    struct fg_labels labels;
    struct qry_point *items; /* ascending by k */
    int64_t *covered_ns;     /* [n]: of each (coverage.h); NULL: not asked for */
    size_t n;
    double total; /* of all points, set by qry_points_order() */
};

/* Returns the time of a point. The start and the step come from clients, so times beyond 64 bits
 * are INT64_MAX. */
static inline int64_t qry_point_ms(const struct qry_point *point, int64_t start_ms, int64_t step_ms)
{
    int64_t ms;

    if (__builtin_mul_overflow(point->k, step_ms, &ms) || __builtin_add_overflow(start_ms, ms, &ms))
        return INT64_MAX;
    return ms;
}

/* Puts series into the order of responses: by descending sum, then by labels. Keeps the first
 * `limit` (0: all). */
void qry_points_order(struct qry_points *series, size_t *n, int64_t limit);

/* Points of distinct label sets. */
struct qry_points_list {
    struct qry_points *items;
    size_t n, cap;
    struct fg_map map; /* hash of the labels -> item */
};

void qry_points_list_init(struct qry_points_list *list);
void qry_points_list_done(struct qry_points_list *list); /* the items stay in the arena */

/* Adds points; those of the same labels and k are summed, clamped to 64 bits. Labels and points are
 * borrowed as long as the list. FG_E_LIMIT. */
enum fg_code qry_points_list_add(struct qry_points_list *list, const struct qry_points *points,
                                 struct fg_arena *arena, struct fg_err *err) fg_must_check;

/* How many profiles the tenants of a query have, and of which time. */
struct qry_tenant_stats {
    uint64_t profiles;
    int64_t oldest_ns, newest_ns; /* valid if there are profiles */
};

#endif
