#include "common/storage/rollup/crown_sum.h"

#include "common/model/flame_cut.h"

static uint64_t add_sat(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void fg_crown_sum_init(struct fg_crown_sum *sum)
{
    *sum = (struct fg_crown_sum){0};
    fg_tree_init(&sum->tree);
}

void fg_crown_sum_done(struct fg_crown_sum *sum)
{
    for (unsigned i = 0; i < FG_CROWN_SUM_LAYERS_MAX; i++)
        fg_crown_layer_destroy(sum->layers[i]);
    fg_tree_done(&sum->tree);
    free(sum->known);
    *sum = (struct fg_crown_sum){0};
}

size_t fg_crown_sum_bytes(const struct fg_crown_sum *sum)
{
    size_t bytes = fg_tree_bytes(&sum->tree) + sum->tree.n_nodes * sizeof *sum->known;

    for (unsigned i = 0; i < FG_CROWN_SUM_LAYERS_MAX; i++)
        bytes += sum->layers[i] == NULL ? 0 : fg_crown_layer_bytes(sum->layers[i]);
    return bytes;
}

/* ---- adding ---- */

/* Returns the sum of both, which are freed. The first may be NULL. */
static struct fg_crown_layer *join(struct fg_crown_layer *a, struct fg_crown_layer *b)
{
    struct fg_crown_layer *both;

    if (a == NULL)
        return b;
    both = fg_crown_layer_add(a, b);
    fg_crown_layer_destroy(a);
    fg_crown_layer_destroy(b);
    return both;
}

void fg_crown_sum_put(struct fg_crown_sum *sum, struct fg_crown_layer *layer)
{
    unsigned i = 0;

    /* As a binary number is counted up: each node is added log2(n) times, not n times. */
    for (; sum->layers[i] != NULL; i++) {
        layer = join(sum->layers[i], layer);
        sum->layers[i] = NULL;
    }
    sum->layers[i] = layer;
}

void fg_crown_sum_add_crown(struct fg_crown_sum *sum, const struct fg_function_tree *functions,
                            const struct fg_crown *crown)
{
    struct fg_crown_names *names = fg_crown_names_create(functions);

    fg_crown_sum_put(sum, fg_crown_layer_of_crown(functions, names, crown));
    fg_crown_names_unref(names);
}

void fg_crown_sum_add_tree(struct fg_crown_sum *sum, const struct fg_tree *tree)
{
    fg_crown_sum_put(sum, fg_crown_layer_of_tree(tree));
}

/* ---- the tree ---- */

/* Locations of a layer's names in a tree, each added when a node has it: the names are those of all
 * profile types of the parts, of which one has some only. */
struct located_names {
    const struct fg_slice *names;
    uint32_t *locations; /* FG_MAP_NONE: not added yet */
};

static void make_tree(const struct fg_crown_layer *layer, struct fg_tree *tree)
{
    size_t n_names = FG_MAX((size_t)fg_crown_names_count(layer->names), 1);
    struct located_names naming = {.names = fg_crown_names_items(layer->names),
                                   .locations = fg_malloc(n_names * sizeof *naming.locations)};
    size_t levels = 0;

    for (uint32_t i = 0; i < layer->n_nodes; i++)
        levels = FG_MAX(levels, (size_t)layer->nodes[i].depth + 1);

    uint32_t *path = fg_malloc(FG_MAX(levels, 1) * sizeof *path);

    memset(naming.locations, 0xff, n_names * sizeof *naming.locations);
    for (uint32_t i = 0; i < layer->n_nodes; i++) {
        const struct fg_crown_node *node = &layer->nodes[i];
        uint32_t parent = node->depth == 0 ? FG_TREE_ROOT : path[node->depth - 1];
        uint32_t *location = &naming.locations[node->name];

        if (*location == FG_MAP_NONE)
            *location = fg_symbols_name_location(&tree->symbols, naming.names[node->name]);
        path[node->depth] = fg_tree_append(tree, parent, *location);
        tree->self[i] = node->self;
    }
    tree->root_self = layer->root_self;
    free(naming.locations);
    free(path);
}

struct fg_crown_layer *fg_crown_sum_take(struct fg_crown_sum *sum)
{
    struct fg_crown_layer *all = NULL;

    for (unsigned i = 0; i < FG_CROWN_SUM_LAYERS_MAX; i++)
        if (sum->layers[i] != NULL)
            all = join(all, fg_take(sum->layers[i]));
    return all;
}

void fg_crown_sum_finish(struct fg_crown_sum *sum)
{
    struct fg_crown_layer *all = fg_crown_sum_take(sum);

    if (all == NULL)
        return;
    make_tree(all, &sum->tree);
    sum->known = fg_take(all->known);
    if (sum->known == NULL)
        sum->known = fg_calloc(FG_MAX((size_t)all->n_nodes, 1), sizeof *sum->known);
    sum->root_rest = all->root_rest;
    sum->root_slack = all->root_slack;
    sum->cut = all->cut;
    fg_crown_layer_destroy(all);
}

/* ---- folding ---- */

static bool *find_called(const struct fg_tree *tree, struct fg_slice name)
{
    bool *called = fg_calloc(FG_MAX((size_t)tree->symbols.n_locations, 1), sizeof *called);

    for (uint32_t i = 0; i < tree->symbols.n_locations; i++)
        called[i] = fg_slice_eq(fg_tree_location_name(tree, i), name);
    return called;
}

bool fg_crown_sum_has_below(const struct fg_crown_sum *sum, struct fg_slice name)
{
    const struct fg_tree *tree = &sum->tree;
    bool *called = find_called(tree, name), found = false;

    for (uint32_t i = 0; i < tree->n_nodes && !found; i++) {
        uint32_t parent = tree->parents[i];

        found =
            (parent != FG_TREE_ROOT && called[tree->locations[parent]]) ||
            (called[tree->locations[i]] && (sum->known[i].rest != 0 || sum->known[i].slack > 0));
    }
    free(called);
    return found;
}

/* A sum on its way to one in which a function has no descendants. */
struct folding {
    const struct fg_crown_sum *sum;
    struct fg_crown_sum *into;
    struct fg_symbols_import import;
    bool *called;     /* by location of the sum */
    bool *inside;     /* by node of the sum: the function, or a descendant of it */
    uint32_t *placed; /* by node of the sum */
};

/* Adds a descendant of the function to it. */
static void fold_into(struct folding *folding, uint32_t node, uint32_t above)
{
    struct fg_tree *tree = &folding->into->tree;

    folding->inside[node] = true;
    folding->placed[node] = folding->placed[above];
    fg_tree_add(tree, folding->placed[above], folding->sum->tree.self[node]);
    fg_tree_add(tree, folding->placed[above], folding->sum->known[node].rest);
}

static void fold_node(struct folding *folding, uint32_t node, uint32_t above)
{
    const struct fg_tree *from = &folding->sum->tree;
    const struct fg_crown_known *known = &folding->sum->known[node];
    struct fg_tree *tree = &folding->into->tree;
    uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : folding->placed[above];
    uint32_t place = fg_tree_append(
        tree, parent, fg_symbols_import_location(&folding->import, from->locations[node]));

    folding->inside[node] = folding->called[from->locations[node]];
    folding->placed[node] = place;
    fg_tree_add(tree, place, from->self[node]);
    folding->into->known[place] = *known;
    if (folding->inside[node]) {
        fg_tree_add(tree, place, known->rest);
        folding->into->known[place] = (struct fg_crown_known){.seen = known->seen};
    }
}

void fg_crown_sum_fold(const struct fg_crown_sum *sum, struct fg_slice name,
                       struct fg_crown_sum *into)
{
    size_t count = FG_MAX((size_t)sum->tree.n_nodes, 1);
    struct folding folding = {.sum = sum,
                              .into = into,
                              .called = find_called(&sum->tree, name),
                              .inside = fg_malloc(count * sizeof *folding.inside),
                              .placed = fg_malloc(count * sizeof *folding.placed)};

    into->known = fg_malloc(count * sizeof *into->known);
    fg_symbols_import_init_new(&folding.import, &into->tree.symbols, &sum->tree.symbols);
    for (uint32_t i = 0; i < sum->tree.n_nodes; i++) {
        uint32_t above = sum->tree.parents[i];

        if (above != FG_TREE_ROOT && folding.inside[above])
            fold_into(&folding, i, above);
        else
            fold_node(&folding, i, above);
    }
    fg_symbols_import_done(&folding.import);
    fg_tree_add(&into->tree, FG_TREE_ROOT, sum->tree.root_self);
    into->root_rest = sum->root_rest;
    into->root_slack = sum->root_slack;
    into->cut = sum->cut;
    free(folding.placed);
    free(folding.inside);
    free(folding.called);
}

/* ---- pictures ---- */

static void *new_column(const struct fg_crown_sum *sum)
{
    return fg_malloc(FG_MAX((size_t)sum->tree.n_nodes, 1) * sizeof(uint64_t));
}

/* Bounds the errors of each node: what crowns without the node have cut at most; and, seen from
 * above, what is hidden in its parent together with what is hidden in the parent's rests. */
static void bound_errors(const struct fg_crown_sum *sum, struct fg_crown_judged *judged)
{
    judged->root_below = FG_MIN(sum->cut, sum->root_slack);
    judged->unseen = judged->root_below;
    for (uint32_t i = 0; i < sum->tree.n_nodes; i++) {
        uint32_t parent = sum->tree.parents[i];
        uint64_t above = parent == FG_TREE_ROOT
                             ? sum->root_slack
                             : add_sat(judged->errors[parent], sum->known[parent].slack);
        uint64_t absent = sum->cut == UINT64_MAX ? UINT64_MAX : sum->cut - sum->known[i].seen;

        judged->errors[i] = FG_MIN(above, absent);
        judged->below[i] = FG_MIN(sum->cut, add_sat(judged->errors[i], sum->known[i].slack));
        judged->unseen = FG_MAX(judged->unseen, judged->below[i]);
    }
}

void fg_crown_sum_judge(const struct fg_crown_sum *sum, struct fg_crown_judged *ret_judged)
{
    const struct fg_tree *tree = &sum->tree;
    struct fg_crown_judged judged = {
        .rests = new_column(sum),
        .totals = new_column(sum),
        .errors = new_column(sum),
        .below = new_column(sum),
    };

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        judged.rests[i] = sum->known[i].rest;
        judged.totals[i] = fg_value_add(tree->self[i], judged.rests[i]);
    }
    judged.all = fg_parents_sums(tree->parents, tree->n_nodes, judged.totals, judged.totals);
    judged.all = fg_value_add(judged.all, sum->root_rest);
    bound_errors(sum, &judged);
    *ret_judged = judged;
}

void fg_crown_judged_done(struct fg_crown_judged *judged)
{
    free(judged->rests);
    free(judged->totals);
    free(judged->errors);
    free(judged->below);
    *judged = (struct fg_crown_judged){0};
}

/* A picture is exact if nothing that may belong into it is uncertain: nothing that is shown,
 * nothing that could weigh as much as the least that is shown, and nothing unseen that could. */
static struct fg_crown_verdict verdict_of(const struct fg_crown_judged *judged, uint32_t n_nodes,
                                          int64_t least, bool cut)
{
    struct fg_crown_verdict verdict = {.exact = true, .total = judged->all};

    for (uint32_t i = 0; i < n_nodes; i++) {
        int64_t could;

        if (judged->errors[i] == 0)
            continue;
        verdict.bound = FG_MAX(verdict.bound, judged->errors[i]);
        if (!cut || judged->errors[i] > INT64_MAX ||
            __builtin_add_overflow(judged->totals[i], (int64_t)judged->errors[i], &could) ||
            could >= least)
            verdict.exact = false;
    }
    if (judged->unseen > 0 &&
        (!cut || judged->unseen > INT64_MAX || (int64_t)judged->unseen >= least))
        verdict.exact = false;
    verdict.bound = verdict.exact ? 0 : FG_MAX(verdict.bound, judged->unseen);
    return verdict;
}

void fg_crown_sum_truncate(const struct fg_crown_sum *sum, size_t max_nodes, struct fg_tree *into,
                           struct fg_crown_verdict *ret_verdict)
{
    const struct fg_tree *tree = &sum->tree;
    bool cut = max_nodes > 0 && tree->n_nodes > max_nodes;
    struct fg_crown_judged judged;
    struct fg_flame_weights weights;
    int64_t least = INT64_MIN;

    fg_crown_sum_judge(sum, &judged);
    if (cut)
        least = fg_flame_nth_largest(judged.totals, tree->n_nodes, max_nodes);
    weights = (struct fg_flame_weights){judged.totals, judged.rests, sum->root_rest};
    fg_flame_cut(tree, &weights, least, into);
    *ret_verdict = verdict_of(&judged, tree->n_nodes, least, cut);
    fg_crown_judged_done(&judged);
}
