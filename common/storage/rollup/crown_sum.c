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
    fg_tree_done(&sum->tree);
    free(sum->known);
    free(sum->strings);
    *sum = (struct fg_crown_sum){0};
}

size_t fg_crown_sum_bytes(const struct fg_crown_sum *sum)
{
    return fg_tree_bytes(&sum->tree) + sum->cap * sizeof *sum->known +
           sum->n_strings * sizeof *sum->strings;
}

/* Extends `known` as the tree grows. New nodes have nothing in them yet, and follow each other:
 * `next` guesses that the nodes of the next crown come in the same order. */
static void follow(struct fg_crown_sum *sum)
{
    uint32_t cap = sum->tree.cap_nodes;

    if (cap == sum->cap)
        return;
    sum->known = fg_realloc(sum->known, cap * sizeof *sum->known);
    for (uint32_t i = sum->cap; i < cap; i++)
        sum->known[i] = (struct fg_crown_known){.next = i + 1};
    sum->cap = cap;
}

static void follow_strings(struct fg_crown_sum *sum)
{
    uint32_t count = sum->tree.symbols.cap_strings;

    if (count == sum->n_strings)
        return;
    sum->strings = fg_realloc(sum->strings, count * sizeof *sum->strings);
    for (uint32_t i = sum->n_strings; i < count; i++)
        sum->strings[i] = (struct fg_crown_name){FG_MAP_NONE, i + 1};
    sum->n_strings = count;
}

/* ---- adding ---- */

static uint32_t *new_numbers(uint32_t count)
{
    uint32_t *numbers = fg_malloc(FG_MAX((size_t)count, 1) * sizeof *numbers);

    memset(numbers, 0xff, count * sizeof *numbers); /* FG_MAP_NONE in every byte */
    return numbers;
}

void fg_crown_adding_init(struct fg_crown_adding *adding, struct fg_crown_sum *sum,
                          const struct fg_function_tree *names)
{
    *adding = (struct fg_crown_adding){
        .sum = sum,
        .names = names,
        .nodes = new_numbers(names->n_nodes),
        .locations = new_numbers(names->n_names),
        .last = FG_TREE_ROOT,
    };
}

void fg_crown_adding_done(struct fg_crown_adding *adding)
{
    free(adding->nodes);
    free(adding->locations);
    *adding = (struct fg_crown_adding){0};
}

/* Tries the name that followed in the crown before, else looks it up by hash: crowns of
 * neighbouring spans have mostly the same names in the same order. */
static uint32_t find_string(struct fg_crown_adding *adding, struct fg_slice name)
{
    struct fg_crown_sum *sum = adding->sum;
    struct fg_symbols *symbols = &sum->tree.symbols;
    uint32_t string;

    follow_strings(sum);
    string = sum->strings[adding->last_string].next;
    if (string >= symbols->n_strings || !fg_slice_eq(fg_symbols_text(symbols, string), name)) {
        string = fg_symbols_string(symbols, name);
        follow_strings(sum);
        sum->strings[adding->last_string].next = string;
    }
    adding->last_string = string;
    return string;
}

static uint32_t find_location(struct fg_crown_adding *adding, struct fg_slice name)
{
    uint32_t number = find_string(adding, name); /* which may move the strings */
    struct fg_crown_name *string = &adding->sum->strings[number];

    if (string->location == FG_MAP_NONE) /* it adds no string: this one is there */
        string->location = fg_symbols_name_location(&adding->sum->tree.symbols, name);
    return string->location;
}

/* Finds the node of a location under a parent by hash; creates it if there is none. */
static uint32_t look_for_node(struct fg_crown_sum *sum, uint32_t parent, uint32_t location)
{
    uint32_t node = fg_tree_child(&sum->tree, parent, location);

    follow(sum);
    sum->known[node].parent = parent;
    sum->known[node].location = location;
    return node;
}

/* Tries the node that followed in the crown before, as find_string() does. */
static uint32_t find_node(struct fg_crown_adding *adding, uint32_t parent, uint32_t location)
{
    struct fg_crown_sum *sum = adding->sum;
    uint32_t node = adding->last == FG_TREE_ROOT ? 0 : sum->known[adding->last].next;

    if (node >= sum->tree.n_nodes || sum->known[node].parent != parent ||
        sum->known[node].location != location) {
        node = look_for_node(sum, parent, location);
        if (adding->last != FG_TREE_ROOT)
            sum->known[adding->last].next = node;
    }
    adding->last = node;
    return node;
}

static uint32_t place_node(struct fg_crown_adding *adding, uint32_t node)
{
    const struct fg_function_tree *names = adding->names;
    uint32_t name = names->functions[node], above = names->parents[node];
    uint32_t *location = &adding->locations[name], parent = FG_TREE_ROOT;

    if (*location == FG_MAP_NONE)
        *location = find_location(adding, names->names[name]);
    if (above != FG_TREE_ROOT) {
        parent = adding->nodes[above];
        fg_assert(parent != FG_MAP_NONE);
    }
    adding->nodes[node] = find_node(adding, parent, *location);
    return adding->nodes[node];
}

/* Returns the most that one child can have of a rest. With negative values, a rest is no bound. */
static uint64_t hidden(const struct fg_crown *crown, int64_t rest)
{
    if (crown->has_negatives)
        return crown->cut_max;
    return FG_MIN(crown->cut_max, (uint64_t)rest);
}

void fg_crown_add(struct fg_crown_adding *adding, const struct fg_crown *crown)
{
    struct fg_crown_sum *sum = adding->sum;

    for (uint32_t i = 0; i < crown->n_nodes; i++) {
        uint32_t node = adding->nodes[crown->nodes[i]];
        struct fg_crown_known *known;

        if (node == FG_MAP_NONE)
            node = place_node(adding, crown->nodes[i]);
        known = &sum->known[node];
        sum->tree.self[node] = fg_value_add(sum->tree.self[node], crown->self[i]);
        known->rest = fg_value_add(known->rest, crown->rest[i]);
        known->slack = add_sat(known->slack, hidden(crown, crown->rest[i]));
        known->seen = add_sat(known->seen, crown->cut_max);
    }
    sum->root_rest = fg_value_add(sum->root_rest, crown->root_rest);
    sum->root_slack = add_sat(sum->root_slack, hidden(crown, crown->root_rest));
    sum->cut = add_sat(sum->cut, crown->cut_max);
}

/* Notes the nodes from `first` on, which came with a tree. */
static void know_nodes(struct fg_crown_sum *sum, uint32_t first)
{
    follow(sum);
    for (uint32_t i = first; i < sum->tree.n_nodes; i++) {
        sum->known[i].parent = sum->tree.parents[i];
        sum->known[i].location = sum->tree.locations[i];
    }
}

void fg_crown_sum_add_tree(struct fg_crown_sum *sum, const struct fg_tree *tree)
{
    uint32_t before = sum->tree.n_nodes;

    fg_tree_merge(&sum->tree, tree);
    know_nodes(sum, before);
}

void fg_crown_sum_take_tree(struct fg_crown_sum *sum, struct fg_tree *tree)
{
    struct fg_tree empty = sum->tree;

    if (empty.n_nodes > 0) {
        fg_crown_sum_add_tree(sum, tree);
        return;
    }
    /* Taken over without a copy: trees of raw data are large. */
    fg_tree_add(tree, FG_TREE_ROOT, empty.root_self);
    sum->tree = *tree;
    *tree = empty;
    know_nodes(sum, 0);
}

/* ---- folding ---- */

static bool is_called(const struct fg_crown_sum *sum, uint32_t node, struct fg_slice name)
{
    return node != FG_TREE_ROOT && fg_slice_eq(fg_tree_name(&sum->tree, node), name);
}

bool fg_crown_sum_has_below(const struct fg_crown_sum *sum, struct fg_slice name)
{
    const struct fg_tree *tree = &sum->tree;
    bool *called = fg_calloc(FG_MAX((size_t)tree->symbols.n_locations, 1), sizeof *called);
    bool found = false;

    for (uint32_t i = 0; i < tree->symbols.n_locations; i++)
        called[i] = fg_slice_eq(fg_tree_location_name(tree, i), name);
    for (uint32_t i = 0; i < tree->n_nodes && !found; i++) {
        const struct fg_crown_known *known = &sum->known[i];

        found = (known->parent != FG_TREE_ROOT && called[tree->locations[known->parent]]) ||
                (called[known->location] && (known->rest != 0 || known->slack > 0));
    }
    free(called);
    return found;
}

static void fold_node(const struct fg_crown_sum *sum, uint32_t from, struct fg_slice name,
                      struct fg_crown_sum *into, uint32_t node)
{
    const struct fg_crown_known *known = &sum->known[from];
    struct fg_crown_known *to = &into->known[node];

    fg_tree_add(&into->tree, node, sum->tree.self[from]);
    to->seen = add_sat(to->seen, known->seen);
    if (is_called(into, node, name)) {
        fg_tree_add(&into->tree, node, known->rest);
    } else {
        to->rest = fg_value_add(to->rest, known->rest);
        to->slack = add_sat(to->slack, known->slack);
    }
}

void fg_crown_sum_fold(const struct fg_crown_sum *sum, struct fg_slice name,
                       struct fg_crown_sum *into)
{
    uint32_t *placed = new_numbers(sum->tree.n_nodes);

    for (uint32_t i = 0; i < sum->tree.n_nodes; i++) {
        uint32_t above = sum->known[i].parent;
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        if (is_called(into, parent, name)) {
            placed[i] = parent;
            fg_tree_add(&into->tree, parent, sum->tree.self[i]);
            fg_tree_add(&into->tree, parent, sum->known[i].rest);
        } else {
            struct fg_slice text = fg_tree_name(&sum->tree, i);

            placed[i] =
                look_for_node(into, parent, fg_symbols_name_location(&into->tree.symbols, text));
            fold_node(sum, i, name, into, placed[i]);
        }
    }
    fg_tree_add(&into->tree, FG_TREE_ROOT, sum->tree.root_self);
    into->root_rest = fg_value_add(into->root_rest, sum->root_rest);
    into->root_slack = add_sat(into->root_slack, sum->root_slack);
    into->cut = add_sat(into->cut, sum->cut);
    free(placed);
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
