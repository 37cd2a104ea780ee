#include "common/model/function_tree.h"

#include "common/model/flame_order.h"

static void *new_array(size_t count, size_t size)
{
    return fg_calloc(FG_MAX(count, 1), size);
}

/* A tree on its way to its canonical order. */
struct ordering {
    const struct fg_tree *tree;
    struct fg_flame_order order;
    struct fg_function_tree *names;
    uint32_t *stack;  /* nodes to go to, and those on the path */
    uint32_t *inside; /* of a name: how many nodes of it are on the path */
};

/* The first sibling has to come first, so it goes on top. */
static uint32_t push_children(struct ordering *ordering, uint32_t node, uint32_t depth)
{
    struct fg_flame_children children = fg_flame_children(&ordering->order, node);

    for (uint32_t i = children.count; i-- > 0;)
        ordering->stack[depth++] = children.nodes[i];
    return depth;
}

static void number_node(struct ordering *ordering, uint32_t node)
{
    struct fg_function_tree *names = ordering->names;
    uint32_t number = names->n_nodes++, parent = ordering->tree->parents[node];
    uint32_t name = ordering->order.ranks[ordering->tree->locations[node]];

    names->parents[number] = parent == FG_TREE_ROOT ? FG_TREE_ROOT : names->nodes[parent];
    names->functions[number] = name;
    /* A function that calls itself counts once in totals: only its outermost node on a path
     * adds. */
    names->outermost[number] = ordering->inside[name]++ == 0;
    names->nodes[node] = number;
}

/* With a stack of its own instead of recursion: a tree can be as deep as it has nodes. Each node
 * is pushed once, so that the stack never needs more entries than there are nodes. */
static void walk(struct ordering *ordering)
{
    const struct fg_function_tree *names = ordering->names;
    uint32_t depth = push_children(ordering, FG_TREE_ROOT, 0);

    while (depth > 0) {
        uint32_t node = ordering->stack[depth - 1];

        if (names->nodes[node] != FG_TREE_ROOT) { /* on the way up */
            ordering->inside[names->functions[names->nodes[node]]]--;
            depth--;
        } else {
            number_node(ordering, node);
            depth = push_children(ordering, node, depth);
        }
    }
}

void fg_function_tree_init(struct fg_function_tree *names, const struct fg_tree *tree)
{
    struct ordering ordering = {.tree = tree, .names = names};

    *names = (struct fg_function_tree){.n_from = tree->n_nodes, .no_stack = FG_TREE_ROOT};
    fg_flame_order_init(&ordering.order, tree, false);
    names->n_names = ordering.order.n_names;
    names->names = ordering.order.names;
    ordering.order.names = NULL; /* they are ours now */
    names->parents = new_array(tree->n_nodes, sizeof *names->parents);
    names->functions = new_array(tree->n_nodes, sizeof *names->functions);
    names->outermost = new_array(tree->n_nodes, sizeof *names->outermost);
    names->nodes = new_array(tree->n_nodes, sizeof *names->nodes);
    memset(names->nodes, 0xff, tree->n_nodes * sizeof *names->nodes); /* FG_TREE_ROOT */
    ordering.stack = new_array(tree->n_nodes, sizeof *ordering.stack);
    ordering.inside = new_array(names->n_names, sizeof *ordering.inside);
    walk(&ordering);
    free(ordering.inside);
    free(ordering.stack);
    fg_flame_order_done(&ordering.order);
}

/* Copies the names that a tree borrows, one after another. What they are borrowed from has tables
 * to find names in as well, of several times their size, and is not needed any more. */
static void keep_text(struct fg_function_tree *names)
{
    size_t at = 0;

    for (uint32_t i = 0; i < names->n_names; i++)
        names->text_bytes += names->names[i].len;
    names->text = fg_malloc(FG_MAX(names->text_bytes, 1));
    for (uint32_t i = 0; i < names->n_names; i++) {
        struct fg_slice *name = &names->names[i];

        if (name->len > 0)
            memcpy(names->text + at, name->ptr, name->len);
        name->ptr = names->text + at;
        at += name->len;
    }
}

void fg_function_tree_init_stacks(struct fg_function_tree *names, const struct fg_tree *tree,
                                  bool no_stack)
{
    uint32_t *nodes = new_array(tree->n_nodes, sizeof *nodes), empty = FG_TREE_ROOT;
    struct fg_tree named;

    fg_tree_init(&named);
    fg_tree_name_new(tree, &named, nodes, no_stack ? &empty : NULL);
    fg_function_tree_init(names, &named);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        nodes[i] = names->nodes[nodes[i]];
    if (no_stack)
        names->no_stack = names->nodes[empty];
    free(names->nodes);
    names->nodes = nodes;
    names->n_from = tree->n_nodes;
    keep_text(names);
    fg_tree_done(&named);
}

void fg_function_tree_drop_names(struct fg_function_tree *names)
{
    free(fg_take(names->names));
    free(fg_take(names->text));
    names->n_names = 0;
    names->text_bytes = 0;
}

/* path: scratch for all nodes; inside: of a name, how many nodes of it are on the path. */
static void find_outermost(struct fg_function_tree *names, uint32_t *path, uint32_t *inside)
{
    uint32_t depth = 0;

    for (uint32_t i = 0; i < names->n_nodes; i++) {
        /* Nodes are in depth-first order, so the path to a node is a prefix of the path to the one
         * before it. */
        while (depth > 0 && path[depth - 1] != names->parents[i])
            inside[names->functions[path[--depth]]]--;
        names->outermost[i] = inside[names->functions[i]]++ == 0;
        path[depth++] = i;
    }
}

bool fg_function_tree_find_outermost(struct fg_function_tree *names, struct fg_arena *arena)
{
    struct fg_arena_mark mark = fg_arena_mark(arena);
    uint32_t *path = fg_arena_new(arena, uint32_t, names->n_nodes);
    uint32_t *inside = fg_arena_new(arena, uint32_t, names->n_names);

    if (path == NULL || inside == NULL)
        return false;
    find_outermost(names, path, inside);
    fg_arena_release(arena, mark);
    return true;
}

void fg_function_tree_done(struct fg_function_tree *names)
{
    free(names->parents);
    free(names->functions);
    free(names->outermost);
    free(names->names);
    free(names->nodes);
    free(names->text);
    *names = (struct fg_function_tree){0};
}

size_t fg_function_tree_bytes(const struct fg_function_tree *names)
{
    size_t node = sizeof *names->parents + sizeof *names->functions + sizeof *names->outermost;

    return sizeof *names + names->n_nodes * node + names->n_names * sizeof *names->names +
           names->n_from * sizeof *names->nodes + names->text_bytes;
}

/* ---- values ---- */

void fg_function_values_init(struct fg_function_values *values,
                             const struct fg_function_tree *names)
{
    *values = (struct fg_function_values){
        .self = new_array(names->n_nodes, sizeof(int64_t)),
        .totals = new_array(names->n_nodes, sizeof(int64_t)),
        .function_self = new_array(names->n_names, sizeof(int64_t)),
        .function_totals = new_array(names->n_names, sizeof(int64_t)),
    };
}

void fg_function_values_done(struct fg_function_values *values)
{
    free(values->self);
    free(values->totals);
    free(values->function_self);
    free(values->function_totals);
    *values = (struct fg_function_values){0};
}

static void sum_functions(struct fg_function_values *values, const struct fg_function_tree *names)
{
    memset(values->function_self, 0, names->n_names * sizeof *values->function_self);
    memset(values->function_totals, 0, names->n_names * sizeof *values->function_totals);
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint32_t name = names->functions[i];

        values->function_self[name] = fg_value_add(values->function_self[name], values->self[i]);
        if (names->outermost[i])
            values->function_totals[name] =
                fg_value_add(values->function_totals[name], values->totals[i]);
    }
}

static void sum_up(struct fg_function_values *values, const struct fg_function_tree *names)
{
    values->all = fg_parents_sums(names->parents, names->n_nodes, values->self, values->totals);
    sum_functions(values, names);
}

void fg_function_values_set(struct fg_function_values *values, const struct fg_function_tree *names,
                            const int64_t *self)
{
    memset(values->self, 0, names->n_nodes * sizeof *values->self);
    for (uint32_t i = 0; i < names->n_from; i++) {
        int64_t *to = &values->self[names->nodes[i]];

        *to = fg_value_add(*to, self[i]);
    }
    sum_up(values, names);
}

void fg_function_values_set_nodes(struct fg_function_values *values,
                                  const struct fg_function_tree *names, const int64_t *self)
{
    if (names->n_nodes > 0)
        memcpy(values->self, self, names->n_nodes * sizeof *self);
    sum_up(values, names);
}
