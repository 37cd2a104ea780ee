/*
 * Groups: the series of a part, divided by a few labels of few values, so that a filter on these
 * labels is a sum of nodes.
 *
 * Which labels is chosen from the series that are there: the first of the wanted ones, in their
 * order, that have two values or more (no label counting as a value), at most FG_GROUPS_VALUES_MAX,
 * and with which there are at most FG_GROUPS_MAX groups. Beside them the labels that all series
 * have alike, and the wanted ones that none of them has: filters on those are decided without a
 * look at the series.
 */
#ifndef FG_COMMON_STORAGE_ROLLUP_GROUPS_H
#define FG_COMMON_STORAGE_ROLLUP_GROUPS_H

#include "common/model/selector.h"

enum {
    FG_GROUPS_LABELS_MAX = 3,
    FG_GROUPS_VALUES_MAX = 32, /* of one label */
    FG_GROUPS_MAX = 64,
};

/* What labels are wanted where nobody says otherwise. The first is in every question for pictures
 * (querier/selection.c). */
#define FG_GROUPS_DEFAULT                                                                          \
    {                                                                                              \
        FG_LIT("__sampled__"), FG_LIT("region"), FG_LIT("zone"), FG_LIT("version"),                \
            FG_LIT("namespace")                                                                    \
    }

struct fg_groups {
    struct fg_labels common; /* of all series; sorted; an empty value: none of them has it */
    struct fg_slice names[FG_GROUPS_LABELS_MAX];
    uint32_t n_names;
    struct fg_slice
        *values;         /* of group g: values[g * n_names ...]; "" where it has not the label */
    uint32_t n_groups;   /* ascending by values; 1 at least where there are series */
    uint32_t *of_series; /* [n_series]: the group */
    uint32_t n_series;
};

/*
 * series: label sets, sorted each; their strings are borrowed, the rest lives in the arena.
 * FG_E_LIMIT at its end. The labels of the profile type (__name__) are never common: what a node is
 * of says its type.
 */
enum fg_code fg_groups_choose(const struct fg_labels *series, uint32_t n_series,
                              const struct fg_slice *wanted, size_t n_wanted,
                              struct fg_arena *arena, struct fg_groups *ret_groups,
                              struct fg_err *err) fg_must_check;

/* What a selector says of the series of a group. */
enum fg_groups_answer {
    FG_GROUPS_NONE,  /* matches none */
    FG_GROUPS_EVERY, /* matches all */
    FG_GROUPS_OPEN,  /* depends on labels that groups do not know */
};

/*
 * ret_answers[n_groups]. type: of the node; matchers on the labels that queries see made of it are
 * decided by it. FG_E_LIMIT at the arena's end.
 */
enum fg_code fg_groups_match(const struct fg_groups *groups, const struct fg_profile_type *type,
                             const struct fg_selector *selector, struct fg_arena *arena,
                             enum fg_groups_answer *ret_answers, struct fg_err *err) fg_must_check;

#endif
