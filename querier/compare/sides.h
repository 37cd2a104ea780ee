/*
 * What a comparison reads of its two sides: stacks by instance, or by block of time if there are
 * too few instances, and the time that their profiles cover.
 *
 * Thread: the query's worker, which waits. Memory: the query's arena, and groups (groups.h) of at
 * most answer_max_bytes for both sides together. Errors: those of qry_fanout_run().
 */
#ifndef FG_QUERIER_COMPARE_SIDES_H
#define FG_QUERIER_COMPARE_SIDES_H

#include "querier/compare/change_params.h"
#include "querier/groups.h"
#include "querier/merge.h"

/* Something that values vary over: an instance, or a block of time. */
struct qry_change_unit {
    const struct qry_group *group;
    double total;             /* value of all stacks */
    double seconds, profiles; /* covered by its profiles; how many, of values of moments only */
};

/* When an instance has profiles, on a grid of steps. */
struct qry_change_points {
    struct fg_slice name;
    struct qry_points points;
    int64_t usual; /* distance of points (coverage.h) */
};

struct qry_change_side {
    struct qry_groups groups;         /* by instance */
    struct qry_groups times;          /* by block of time, if design says so */
    struct qry_change_points *points; /* by instance */
    size_t n_points;
    size_t n_instances;            /* with a value */
    double seconds, profiles;      /* the same, of all instances */
    struct qry_change_unit *units; /* those that count, in the order of their names */
    size_t n_units;
};

struct qry_change_sides {
    const char *label; /* that names instances; NULL: profiles have none of those labels */
    struct fg_tree tree;
    struct qry_change_side sides[QRY_CHANGE_SIDES];
    enum qry_change_design design;
    uint32_t *partners; /* of units of side 0, as of qry_change_config */
    size_t n_same;      /* instances on both sides */
    int64_t block_ns;   /* length of a block of time */
};

/* Init and free; init never fails. */
void qry_change_sides_init(struct qry_change_sides *sides, struct qry_query *query);
void qry_change_sides_done(struct qry_change_sides *sides);

/* Reads both sides, decides on the design, and lists the units. */
enum fg_code qry_change_sides_read(struct qry_query *query, const struct qry_change_params *params,
                                   struct qry_change_sides *sides,
                                   struct fg_err *err) fg_must_check;

#endif
