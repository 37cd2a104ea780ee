#include "querier/flamegraph_cut.h"

void qry_flamegraph_cut(const struct fg_crown_sum *sum, size_t max_nodes, bool fold,
                        struct fg_tree *into, struct fg_crown_verdict *ret_verdict)
{
    struct fg_crown_sum folded;

    /* Folding copies the sum, so only if such a function has callees: most sums have none. */
    if (!fold || !fg_crown_sum_has_below(sum, FG_LIT("other"))) {
        fg_crown_sum_truncate(sum, max_nodes, into, ret_verdict);
        return;
    }
    fg_crown_sum_init(&folded);
    fg_crown_sum_fold(sum, FG_LIT("other"), &folded);
    fg_crown_sum_truncate(&folded, max_nodes, into, ret_verdict);
    fg_crown_sum_done(&folded);
}
