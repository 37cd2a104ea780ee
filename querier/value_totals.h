/*
 * Sums by the value of one label: for each value of a given list what all profiles with it add up
 * to. Unlike points of label sets, a value is no label set, is not hashed, and is not copied: texts
 * that come in order are merged with the list, so a million values cost a walk over both.
 *
 * Pure. Thread: one at a time. Memory: the caller's.
 */
#ifndef FG_QUERIER_VALUE_TOTALS_H
#define FG_QUERIER_VALUE_TOTALS_H

#include "querier/cardinality.h"

struct qry_value_totals {
    const struct qry_label_value *values; /* [n], ascending; only their texts are read */
    size_t n;
    int64_t *totals; /* [n], 0 at first */
    int64_t total;   /* of all profiles, also of those whose value is not in the list */
    size_t at;       /* where the next value is looked for first */
};

/* Adds to a value, if it is in the list. Fastest if values ascend. Does not add to `total`. */
void qry_value_totals_add(struct qry_value_totals *totals, struct fg_slice value, int64_t sum);

/* Sets all sums to 0. */
void qry_value_totals_clear(struct qry_value_totals *totals);

#endif
