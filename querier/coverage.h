/*
 * Covered time: for how long there are profiles, so that a gap in them is not taken for a drop of
 * what they measure. A value divided by covered seconds is a rate that a restart, or an agent that
 * was away, does not change.
 *
 * It follows from the points of a series (merge.h) alone, which heads, segments, blocks and rollups
 * all have: a point stands for the time since the one before it. Where that is a gap, and if it is
 * the first, it stands for as long as points of the series usually do, which is the median of their
 * distances. A distance is a gap if it is longer than a minute and than one and a half times the
 * usual one. So what agents cover counts as covered, whether they send every 10 seconds or every 5
 * minutes, and a profile that was lost leaves a gap.
 *
 * On a coarse grid a step would look covered if it had one profile. So points are asked for on a
 * finer one, of which `parts` make a step, and joined.
 *
 * Pure. Thread: any.
 */
#ifndef FG_QUERIER_COVERAGE_H
#define FG_QUERIER_COVERAGE_H

#include "querier/merge.h"

/* Returns the usual distance of the points of a series, in steps of the grid: the median of those
 * up to an hour, since no agent sends less often; 1 if there are none. */
int64_t qry_coverage_usual(const struct qry_points *points, int64_t step_ns);

/* Returns how many steps of the grid a point stands for. usual: as above. */
int64_t qry_coverage_of(const struct qry_points *points, size_t i, int64_t usual, int64_t step_ns);

/* Returns in how many parts a step of whole milliseconds is divided: into 15 seconds or more, and
 * into no more than a few thousand parts in length_ns. A part has whole milliseconds, too. */
int64_t qry_coverage_parts(int64_t step_ns, int64_t length_ns);

/* Joins points of the fine grid, `parts` of which are a step, the first ones being 0 to parts - 1.
 * Points and sums are then those that the coarse grid has. *ret_covered_ns: of each point, in the
 * arena. FG_E_LIMIT. */
enum fg_code qry_coverage_join(struct qry_points *points, int64_t parts, int64_t part_ns,
                               struct fg_arena *arena, int64_t **ret_covered_ns,
                               struct fg_err *err) fg_must_check;

#endif
