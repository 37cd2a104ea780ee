/*
 * Groups divide the series of a part by a few labels with few values, so that a filter on these
 * labels is a sum of rollups.
 *
 * The labels depend on the series of the part: they are the first of the wanted labels, in their
 * order, that have from two to FG_GROUPS_VALUES_MAX values (a missing label counts as a value) and
 * give at most FG_GROUPS_MAX groups. Groups also record the labels that all series share, and the
 * wanted labels that no series has: filters on those are decided without the series. Groups of
 * single series (fg_groups_single()) decide filters on all labels that any series has.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_GROUPS_H
#define FG_COMMON_STORAGE_ROLLUP_GROUPS_H

#include "common/model/selector.h"

enum {
    FG_GROUPS_LABELS_MAX = 3,
    FG_GROUPS_VALUES_MAX = 32, /* of one label */
    FG_GROUPS_MAX = 64,
    /* Of groups that are single series. */
    FG_GROUPS_SINGLE_LABELS_MAX = 16,
    FG_GROUPS_SINGLE_MAX = 1024,
};

/* The wanted labels by default. The first one is in every query for flame graphs
 * (querier/selection.c). */
#define FG_GROUPS_DEFAULT                                                                          \
    {                                                                                              \
        FG_LIT("__sampled__"), FG_LIT("region"), FG_LIT("zone"), FG_LIT("version"),                \
            FG_LIT("namespace")                                                                    \
    }

struct fg_groups {
    struct fg_labels common; /* of all series; sorted; an empty value: no series has it */
    struct fg_slice names[FG_GROUPS_SINGLE_LABELS_MAX];
    uint32_t n_names;
    struct fg_slice *values; /* of group g: values[g * n_names ...]; "": without the label */
    uint32_t n_groups;       /* ascending by values; at least 1 if there are series */
    uint32_t *of_series;     /* [n_series]: the group of each series */
    uint32_t n_series;
};

/*
 * Chooses the groups. series: sorted label sets, whose strings are borrowed; all else lives in the
 * arena. FG_E_LIMIT: the arena is full. Labels of the profile type (__name__) are never common,
 * since a rollup has its type.
 */
enum fg_code fg_groups_choose(const struct fg_labels *series, uint32_t n_series,
                              const struct fg_slice *wanted, size_t n_wanted,
                              struct fg_arena *arena, struct fg_groups *ret_groups,
                              struct fg_err *err) fg_must_check;

/*
 * Makes a group of each series, by all labels that they do not have in common; series that differ
 * in their name only, and so in their type, share one. Labels with more values come first, so that
 * the groups of one value of such a label are neighbours. Arguments and errors are those of
 * fg_groups_choose(). n_groups 0: there are more labels or series than there may be groups.
 */
enum fg_code fg_groups_single(const struct fg_labels *series, uint32_t n_series,
                              const struct fg_slice *wanted, size_t n_wanted,
                              struct fg_arena *arena, struct fg_groups *ret_groups,
                              struct fg_err *err) fg_must_check;

/* Which series of a group a selector matches. */
enum fg_groups_answer {
    FG_GROUPS_NONE,  /* none */
    FG_GROUPS_EVERY, /* all */
    FG_GROUPS_OPEN,  /* unknown: it depends on labels that groups do not have */
};

/*
 * Sets ret_answers[n_groups]. type: of the rollup; it decides matchers on labels that are derived
 * from the type. FG_E_LIMIT: the arena is full.
 */
enum fg_code fg_groups_match(const struct fg_groups *groups, const struct fg_profile_type *type,
                             const struct fg_selector *selector, struct fg_arena *arena,
                             enum fg_groups_answer *ret_answers, struct fg_err *err) fg_must_check;

#endif
