#include "common/model/sandwich.h"

/* What is known of each node of the tree. */
struct sandwich_node {
    bool meant;         /* it is one of the functions */
    bool inside;        /* so is one of its callers, or itself */
    uint32_t in_callee; /* its node in `callees`, if inside */
};

struct sandwich_making {
    const struct fg_tree *tree;
    struct fg_sandwich *sandwich;
    struct fg_symbols_import callers, callees;
    struct sandwich_node *nodes;
    int64_t *totals;
};

/* Adds the way from a function to the root, outermost last. */
static void add_callers(struct sandwich_making *making, uint32_t node)
{
    struct fg_tree *callers = &making->sandwich->callers;
    uint32_t at = FG_TREE_ROOT;
    int64_t total = making->totals[node];

    for (; node != FG_TREE_ROOT; node = making->tree->parents[node])
        at = fg_tree_child(
            callers, at,
            fg_symbols_import_location(&making->callers, making->tree->locations[node]));
    fg_tree_add(callers, at, total);
}

/* Parents come before their callees. */
static void add_node(struct sandwich_making *making, uint32_t i)
{
    const struct fg_tree *tree = making->tree;
    struct fg_sandwich *sandwich = making->sandwich;
    struct sandwich_node *node = &making->nodes[i];
    uint32_t parent = tree->parents[i];
    bool outermost;

    node->inside = node->meant || (parent != FG_TREE_ROOT && making->nodes[parent].inside);
    if (!node->inside)
        return;
    outermost = parent == FG_TREE_ROOT || !making->nodes[parent].inside;
    node->in_callee = fg_tree_child(
        &sandwich->callees, outermost ? FG_TREE_ROOT : making->nodes[parent].in_callee,
        fg_symbols_import_location(&making->callees, tree->locations[i]));
    fg_tree_add(&sandwich->callees, node->in_callee, tree->self[i]);
    if (node->meant)
        sandwich->self = fg_value_add(sandwich->self, tree->self[i]);
    if (outermost && making->totals[i] != 0) {
        sandwich->total = fg_value_add(sandwich->total, making->totals[i]);
        add_callers(making, i);
    }
}

void fg_sandwich_make(const struct fg_tree *tree, fg_sandwich_matches matches, const void *arg,
                      struct fg_sandwich *ret_sandwich)
{
    uint32_t n_locations = tree->symbols.n_locations;
    bool *meant = fg_calloc(FG_MAX(n_locations, 1), sizeof *meant);
    struct sandwich_making making = {
        .tree = tree,
        .sandwich = ret_sandwich,
        .nodes = fg_calloc(FG_MAX(tree->n_nodes, 1), sizeof *making.nodes),
        .totals = fg_calloc(FG_MAX(tree->n_nodes, 1), sizeof *making.totals),
    };

    *ret_sandwich = (struct fg_sandwich){0};
    fg_tree_init(&ret_sandwich->callers);
    fg_tree_init(&ret_sandwich->callees);
    fg_symbols_import_init(&making.callers, &ret_sandwich->callers.symbols, &tree->symbols);
    fg_symbols_import_init(&making.callees, &ret_sandwich->callees.symbols, &tree->symbols);
    ret_sandwich->all = fg_tree_totals(tree, making.totals);
    for (uint32_t i = 0; i < n_locations; i++) /* each name once, however many nodes have it */
        meant[i] = matches(arg, fg_tree_location_name(tree, i));
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        making.nodes[i].meant = meant[tree->locations[i]];
        add_node(&making, i);
    }
    fg_symbols_import_done(&making.callees);
    fg_symbols_import_done(&making.callers);
    free(making.totals);
    free(making.nodes);
    free(meant);
}

void fg_sandwich_done(struct fg_sandwich *sandwich)
{
    fg_tree_done(&sandwich->callers);
    fg_tree_done(&sandwich->callees);
}
