/*
 * The values of a recording rule in a minute: asks what any question asks, over heads, segments and
 * blocks (querier/collect.h), and complete or not at all.
 *
 * Which groups there are, and what they have in sum, comes of one question. A rule about functions
 * asks for the stacks of each group then, of at most RULE_GROUPS_MAX.
 *
 *   rule of everything   sum of the group
 *   rule of functions    of the stacks that have one of them (total), or end in one (self); each
 *                        stack once
 *   the greatest         a series for each function
 *
 * If a rule has more groups than it may have series, the first ones by their labels stay and the
 * others are added up in `rest`. By labels and not by value, since another choice each minute would
 * make new series each minute.
 *
 * Thread: the worker of the query, which waits. Memory: values are on the heap.
 */
#ifndef FG_QUERIER_RULES_EVALUATE_H
#define FG_QUERIER_RULES_EVALUATE_H

#include "querier/query.h"
#include "querier/rules/rule.h"

enum { RULE_GROUPS_MAX = 1000 }; /* of a rule about functions: each is a question of its own */

/*
 * Integers are those of the profiles, so they are the same whichever querier computes them. value
 * and whole are of the minute, before they are divided by time; `whole` is what shares are of.
 */
struct qry_rule_series {
    struct fg_labels labels;  /* of the group, those that it has */
    struct fg_slice function; /* of the greatest; ptr NULL: none */
    double value, whole;
};

struct qry_rule_values {
    struct fg_arena *arena;
    struct qry_rule_series *items;
    size_t n;
    struct qry_rule_series rest; /* without labels; of rules of the greatest always 0 */
    size_t n_rest;               /* groups in it; of rules of the greatest: that were left out */
    uint64_t profiles;
    /* Profiles that an earlier minute has got after its values were computed; unknown if that
     * minute was not evaluated here. */
    bool knows_late;
    uint64_t late;
    int64_t at_wall_ns, took_ns;
};

/*
 * Computes the values of the minute that begins at minute_ns. FG_E_UNAVAILABLE: something may be
 * missing; it says what. FG_E_LIMIT: more memory than a query may use. Other errors of queries.
 */
enum fg_code qry_rule_evaluate(struct qry_query *query, const struct qry_rule *rule,
                               int64_t minute_ns, size_t series_max,
                               struct qry_rule_values **ret_values,
                               struct fg_err *err) fg_must_check;

/* Counts the profiles that the minute has now. Errors as above. */
enum fg_code qry_rule_count(struct qry_query *query, const struct qry_rule *rule, int64_t minute_ns,
                            uint64_t *ret_profiles, struct fg_err *err) fg_must_check;

/* Frees values. Accepts NULL. */
void qry_rule_values_destroy(struct qry_rule_values *values);
FG_AUTO(qry_rule_values, qry_rule_values_destroy)

#endif
