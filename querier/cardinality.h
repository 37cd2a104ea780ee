/*
 * Counts series by label: how many series have each value of a label, or each label name, and how
 * many values a name has. It is fed with label indexes (common/model/label_index.h) of all places
 * that have series; a series that is in several places counts once.
 *
 * Numbers are exact (label_index.h). With `growth` series are counted in two ranges of time, first
 * the earlier one, and `fresh` are those that only the later one has.
 *
 * Memory is bounded by max_bytes: half for prints of series, a quarter for values, a quarter for
 * their texts (names count as values). Series and values that do not fit are left out and reported:
 *   - series_cut: series beyond the bound did not count,
 *   - values_cut: values from a text on (in byte order) are missing; those before it are exact. Of
 *     label names: some are missing, or lack series or values.
 * An index may lack postings (label_index.h: left), which has the same effect.
 *
 * Pure. Thread: one at a time. Memory: on the heap, until qry_cardinality_done().
 */
#ifndef FG_QUERIER_CARDINALITY_H
#define FG_QUERIER_CARDINALITY_H

#include "querier/print_set.h"

/* Of series or of values. Without growth only `now` is counted. */
struct qry_counts {
    uint32_t now, before, fresh;
};

struct qry_label_value {
    struct fg_slice text;
    struct qry_counts series;
};

struct qry_label_name {
    struct fg_slice text;
    struct qry_counts series, values;
};

struct qry_cardinality_config {
    const char *label;      /* values of this label; NULL: names of labels */
    bool names_only;        /* names without numbers, which is faster */
    struct fg_slice prefix; /* only values, or names, that begin with it */
    /* Only values, or names, for which it returns true. NULL: all. */
    bool (*wanted)(const void *arg, struct fg_slice text);
    const void *arg;
    uint64_t max_bytes;
};

enum qry_cardinality_range { CARDINALITY_NOW, CARDINALITY_BEFORE };

/* Values in ascending order. */
struct qry_value_run {
    struct qry_label_value *items;
    uint32_t n;
};

enum { CARDINALITY_RUNS_MAX = 48 }; /* their sizes at least halve */

struct qry_cardinality {
    struct qry_cardinality_config config;
    enum qry_cardinality_range range; /* of what is added */
    struct qry_print_set series, values;
    uint8_t *news; /* [cap_news]: of the prints of the index that is being added */
    uint32_t cap_news;
    struct fg_arena *texts;
    struct qry_value_run runs[CARDINALITY_RUNS_MAX];
    unsigned n_runs;
    struct fg_slice bound;        /* if values_cut: values from here on are left out; in texts */
    struct qry_label_name *names; /* [cap_names] */
    uint32_t n_names, cap_names;
    struct fg_map by_name;
    struct qry_counts n_series; /* all that were selected */
    bool series_cut, values_cut;
};

/* Begins with nothing, in the range NOW. The texts of the configuration are borrowed. */
void qry_cardinality_init(struct qry_cardinality *cardinality,
                          const struct qry_cardinality_config *config);

/* Frees everything. Accepts a zeroed one. */
void qry_cardinality_done(struct qry_cardinality *cardinality);

/* Sets the range of what is added from now on. BEFORE comes first, if at all. */
void qry_cardinality_in(struct qry_cardinality *cardinality, enum qry_cardinality_range range);

/* Forgets what was added to the current range. */
void qry_cardinality_restart(struct qry_cardinality *cardinality);

/* Adds an index, which may be freed afterwards: one of config.label, or of all labels. */
void qry_cardinality_add(struct qry_cardinality *cardinality, const struct fg_label_index *index);

/* Returns the values, ascending. They are valid until the next call for this cardinality. */
const struct qry_label_value *qry_cardinality_values(struct qry_cardinality *cardinality,
                                                     size_t *ret_n);

/* Returns the names, ascending, in the same way. Nothing can be added afterwards. */
const struct qry_label_name *qry_cardinality_names(struct qry_cardinality *cardinality,
                                                   size_t *ret_n);

/* An order by descending keys; equal ones by their number. */
typedef int64_t (*qry_rank_key)(const void *items, uint32_t i);

/* Sets picked[] to the numbers of the first k of n items in that order; k is at most n. */
void qry_rank(const void *items, uint32_t n, qry_rank_key key, uint32_t k, uint32_t *picked);

#endif
