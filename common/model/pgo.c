#include "common/model/pgo.h"

/*
 * Finds or adds a location like this one of `into`, without the line number of its innermost
 * function. The lines of the functions that it is inlined in are those of calls, which the compiler
 * wants to know.
 */
static uint32_t without_line(struct fg_tree *into, uint32_t number)
{
    struct fg_location location = into->symbols.locations[number];
    struct fg_line *lines;
    uint32_t found;

    if (location.n_lines == 0)
        return number;
    lines = fg_calloc(location.n_lines, sizeof *lines);
    memcpy(lines, into->symbols.lines + location.first_line, location.n_lines * sizeof *lines);
    lines[0].line = 0;
    found = fg_symbols_location(&into->symbols, &location, lines);
    free(lines);
    return found;
}

/* Lists the last locations of a stack, the leaf first; returns how many there are. */
static size_t list_locations(const struct fg_tree *tree, uint32_t node, size_t max, uint32_t *list)
{
    size_t n = 0;

    for (; node != FG_TREE_ROOT && n < max; node = tree->parents[node])
        list[n++] = tree->locations[node];
    return n;
}

void fg_tree_pgo(const struct fg_tree *tree, uint32_t keep_locations, bool aggregate_callees,
                 struct fg_tree *into)
{
    /* 0: all locations of a stack. */
    size_t max = keep_locations == 0 ? tree->n_nodes : keep_locations;
    uint32_t *list = fg_calloc(FG_MAX(FG_MIN(max, tree->n_nodes), 1), sizeof *list);
    struct fg_symbols_import import;

    fg_symbols_import_init(&import, &into->symbols, &tree->symbols);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t node = FG_TREE_ROOT;
        size_t n;

        if (tree->self[i] == 0)
            continue;
        n = list_locations(tree, i, FG_MIN(max, tree->n_nodes), list);
        /* The list has the leaf first, and the tree grows from the root. */
        for (size_t k = n; k-- > 0;) {
            uint32_t location = fg_symbols_import_location(&import, list[k]);

            if (k == 0 && aggregate_callees)
                location = without_line(into, location);
            node = fg_tree_child(into, node, location);
        }
        fg_tree_add(into, node, tree->self[i]);
    }
    fg_tree_add(into, FG_TREE_ROOT, tree->root_self);
    fg_symbols_import_done(&import);
    free(list);
}
