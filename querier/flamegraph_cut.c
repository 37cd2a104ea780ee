/*
 * Which part of a tree is drawn. Clients have come to know two habits of the servers before us, and
 * answers of ours are compared with theirs:
 *
 *   - in flame graphs a function named "other" counts as a remainder: what it calls is part of it;
 *   - truncation runs twice, since a part was truncated before it was merged; the remainders of the
 * first pass are nodes of the second and take room from others.
 *
 * Sums are exact with or without. Only flame graphs are cut so; data that is asked for as pprof is
 * not.
 */
#include "querier/query.h"

void qry_flamegraph_cut(const struct fg_crown_sum *sum, size_t max_nodes, bool fold,
                        struct fg_tree *into, struct fg_crown_verdict *ret_verdict)
{
    struct fg_crown_sum folded;

    if (!fold || !fg_crown_sum_has_below(sum, FG_LIT("other"))) {
        fg_crown_sum_truncate(sum, max_nodes, into, ret_verdict);
        return;
    }
    fg_crown_sum_init(&folded);
    fg_crown_sum_fold(sum, FG_LIT("other"), &folded);
    fg_crown_sum_truncate(&folded, max_nodes, into, ret_verdict);
    fg_crown_sum_done(&folded);
}
