#include "common/model/tree.h"

enum {
    TREE_MIN_NODES = 64,
    NODE_MIN_BYTES = 3, /* encoded: parent, location, self */
    NEAR_CHILDREN = 16, /* most nodes have few, the root and its like hundreds */
};

void fg_tree_init(struct fg_tree *tree)
{
    *tree = (struct fg_tree){0};
    fg_symbols_init(&tree->symbols);
    fg_map_init(&tree->map);
}

void fg_tree_done(struct fg_tree *tree)
{
    fg_symbols_done(&tree->symbols);
    free(tree->parents);
    free(tree->locations);
    free(tree->self);
    fg_map_done(&tree->map);
    *tree = (struct fg_tree){0};
}

size_t fg_tree_bytes(const struct fg_tree *tree)
{
    size_t node = sizeof *tree->parents + sizeof *tree->locations +
                  (tree->self == NULL ? 0 : sizeof *tree->self);

    return fg_symbols_bytes(&tree->symbols) + tree->cap_nodes * node + fg_map_bytes(&tree->map);
}

static void grow_nodes(struct fg_tree *tree, uint32_t cap)
{
    struct fg_outgrown *outgrown = tree->symbols.outgrown;

    fg_assert(cap < UINT32_MAX / 4); /* what a map can hold */
    tree->cap_nodes = cap;
    /* Threads that read the tree meanwhile keep the old arrays of parents and locations, which
     * `outgrown` frees later. */
    tree->parents = fg_outgrow(outgrown, tree->parents, tree->n_nodes * sizeof *tree->parents,
                               cap * sizeof *tree->parents);
    tree->locations = fg_outgrow(outgrown, tree->locations, tree->n_nodes * sizeof *tree->locations,
                                 cap * sizeof *tree->locations);
    tree->self = fg_realloc(tree->self, cap * sizeof *tree->self); /* readers bring their own */
}

void fg_tree_reserve(struct fg_tree *tree, uint32_t count)
{
    if (count > tree->cap_nodes)
        grow_nodes(tree, FG_MAX(count, (uint32_t)TREE_MIN_NODES));
    fg_map_reserve(&tree->map, count);
}

void fg_tree_seal(struct fg_tree *tree)
{
    uint32_t cap = FG_MAX(tree->n_nodes, 1);

    fg_map_done(&tree->map);
    free(tree->self);
    tree->self = NULL;
    tree->cap_nodes = cap;
    tree->parents = fg_realloc(tree->parents, cap * sizeof *tree->parents);
    tree->locations = fg_realloc(tree->locations, cap * sizeof *tree->locations);
}

uint32_t fg_tree_append(struct fg_tree *tree, uint32_t parent, uint32_t location)
{
    uint32_t node = tree->n_nodes;

    fg_assert(parent == FG_TREE_ROOT || parent < node);
    fg_assert(location < tree->symbols.n_locations);
    if (node == tree->cap_nodes)
        grow_nodes(tree, FG_MAX(tree->cap_nodes * 2, (uint32_t)TREE_MIN_NODES));
    tree->parents[node] = parent;
    tree->locations[node] = location;
    tree->self[node] = 0;
    tree->n_nodes++;
    return node;
}

static uint32_t node_add(struct fg_tree *tree, uint64_t hash, uint32_t parent, uint32_t location)
{
    uint32_t node = fg_tree_append(tree, parent, location);

    fg_map_add(&tree->map, hash, node);
    return node;
}

/* fg_mix64() is a bijection: equal hashes are equal pairs, and there is nothing to compare. Seeded,
 * since who sends the stacks may choose which pairs there are. */
static uint64_t node_hash(uint32_t parent, uint32_t location)
{
    return fg_mix64(((uint64_t)parent << 32 | location) ^ fg_hash_seed());
}

void fg_tree_index(struct fg_tree *tree)
{
    fg_assert(tree->map.count == 0);
    fg_map_reserve(&tree->map, tree->n_nodes);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        fg_map_add(&tree->map, node_hash(tree->parents[i], tree->locations[i]), i);
}

uint32_t fg_tree_child(struct fg_tree *tree, uint32_t parent, uint32_t location)
{
    uint64_t hash = node_hash(parent, location);
    struct fg_map_walk walk;
    uint32_t node = fg_map_first(&tree->map, hash, &walk);

    return node != FG_MAP_NONE ? node : node_add(tree, hash, parent, location);
}

int64_t fg_tree_sums(const struct fg_tree *tree, const int64_t *self, int64_t *totals)
{
    return fg_parents_sums(tree->parents, tree->n_nodes, self, totals);
}

int64_t fg_parents_sums(const uint32_t *parents, uint32_t n_nodes, const int64_t *self,
                        int64_t *totals)
{
    int64_t all = 0;

    if (n_nodes > 0 && totals != self)
        memcpy(totals, self, n_nodes * sizeof *totals);
    /* Backwards every node is complete before it is added to its parent. */
    for (uint32_t i = n_nodes; i-- > 0;) {
        int64_t *above = parents[i] == FG_TREE_ROOT ? &all : &totals[parents[i]];

        *above = fg_value_add(*above, totals[i]);
    }
    return all;
}

/* Finds the nodes with a value of their own or below them. A node comes after its parent, so
 * that one pass from the end is enough. */
static bool *nodes_with_value(const struct fg_tree *tree)
{
    bool *live = fg_calloc(FG_MAX((size_t)tree->n_nodes, 1), sizeof *live);

    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        if (tree->self[i] != 0)
            live[i] = true;
        if (live[i] && tree->parents[i] != FG_TREE_ROOT)
            live[tree->parents[i]] = true;
    }
    return live;
}

/* live: which nodes of `from` to take, with their parents; NULL: all. */
static void merge(struct fg_tree *tree, const struct fg_tree *from, const bool *live)
{
    struct fg_symbols_import import;
    uint32_t *nodes = fg_malloc(FG_MAX((size_t)from->n_nodes, 1) * sizeof *nodes);

    fg_assert(tree != from);
    fg_symbols_import_init(&import, &tree->symbols, &from->symbols);
    for (uint32_t i = 0; i < from->n_nodes; i++) {
        uint32_t above = from->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : nodes[above];

        if (live != NULL && !live[i])
            continue;
        nodes[i] =
            fg_tree_child(tree, parent, fg_symbols_import_location(&import, from->locations[i]));
        fg_tree_add(tree, nodes[i], from->self[i]);
    }
    fg_tree_add(tree, FG_TREE_ROOT, from->root_self);
    fg_symbols_import_done(&import);
    free(nodes);
}

void fg_tree_merge(struct fg_tree *tree, const struct fg_tree *from)
{
    fg_tree_reserve(tree, FG_MAX(tree->n_nodes, from->n_nodes));
    merge(tree, from, NULL);
}

void fg_tree_merge_used(struct fg_tree *tree, const struct fg_tree *from)
{
    bool *live = nodes_with_value(from);

    merge(tree, from, live);
    free(live);
}

/* ---- names ---- */

/*
 * Children of the nodes of a new tree, found by going through the first few that each has; only
 * further ones are in the tree's map. Stacks come depth first, so these are at hand, while a probe
 * of a map of millions of nodes is not.
 */
struct near {
    uint32_t *first; /* [1 + node]: its first child, or FG_MAP_NONE; [0]: of the root */
    uint32_t *next;  /* [node]: its parent's next one */
    uint32_t cap;
};

static void near_grow(struct near *near, uint32_t cap)
{
    uint32_t from = near->cap;

    near->first = fg_realloc(near->first, ((size_t)cap + 1) * sizeof *near->first);
    near->next = fg_realloc(near->next, cap * sizeof *near->next);
    memset(near->first + (from == 0 ? 0 : from + 1), 0xff,
           ((size_t)cap - from + (from == 0)) * sizeof *near->first); /* FG_MAP_NONE */
    memset(near->next + from, 0xff, (cap - from) * sizeof *near->next);
    near->cap = cap;
}

static uint32_t near_child(struct near *near, struct fg_tree *tree, uint32_t parent,
                           uint32_t location)
{
    uint32_t *link = &near->first[parent + 1], node; /* FG_TREE_ROOT + 1 is 0 */
    uint32_t steps = 0;

    for (; *link != FG_MAP_NONE; link = &near->next[*link]) {
        if (tree->locations[*link] == location)
            return *link;
        if (++steps == NEAR_CHILDREN)
            return fg_tree_child(tree, parent, location);
    }
    node = fg_tree_append(tree, parent, location);
    *link = node;
    return node;
}

/* A tree on its way to a function tree. */
struct naming {
    const struct fg_tree *tree;
    struct fg_tree *into;
    struct near *near;   /* NULL: `into` is to be added to by others */
    uint32_t *functions; /* of a function: its location in `into`, or FG_MAP_NONE */
    uint32_t *addresses; /* the same of a location without lines; NULL until there is one */
    struct fg_buf text;  /* of the current frame */
    uint32_t *nodes;     /* of a node: where its stack ends in `into` */
};

static uint32_t *new_numbers(uint32_t count)
{
    uint32_t *numbers = fg_malloc(FG_MAX((size_t)count, 1) * sizeof *numbers);

    memset(numbers, 0xff, count * sizeof *numbers); /* FG_MAP_NONE in every byte */
    return numbers;
}

/* Returns where the location of a frame is kept, so that it is named once. NULL: a line of a
 * nameless function, which the function does not name. */
static uint32_t *place_of_name(struct naming *naming, uint32_t number, uint32_t frame)
{
    const struct fg_symbols *symbols = &naming->tree->symbols;
    const struct fg_location *location = &symbols->locations[number];

    if (location->n_lines > 0) {
        uint32_t function = symbols->lines[location->first_line + frame].function;

        return fg_function_name(&symbols->functions[function]) == 0 ? NULL
                                                                    : &naming->functions[function];
    }
    if (naming->addresses == NULL)
        naming->addresses = new_numbers(symbols->n_locations);
    return &naming->addresses[number];
}

/* The location in `into` of a frame of a location. */
static uint32_t name_frame(struct naming *naming, uint32_t number, uint32_t frame)
{
    uint32_t *place = place_of_name(naming, number, frame), location;

    if (place != NULL && *place != FG_MAP_NONE)
        return *place;
    location = fg_symbols_name_location(
        &naming->into->symbols,
        fg_frame_name(&naming->tree->symbols, number, frame, &naming->text));
    if (place != NULL)
        *place = location;
    return location;
}

static uint32_t name_child(struct naming *naming, uint32_t parent, uint32_t location)
{
    struct fg_tree *into = naming->into;

    if (naming->near == NULL)
        return fg_tree_child(into, parent, location);
    if (into->n_nodes == naming->near->cap)
        near_grow(naming->near, naming->near->cap * 2);
    return near_child(naming->near, into, parent, location);
}

static void name_node(struct naming *naming, uint32_t node)
{
    const struct fg_tree *tree = naming->tree;
    const struct fg_location *location = &tree->symbols.locations[tree->locations[node]];
    const struct fg_line *lines = tree->symbols.lines + location->first_line;
    uint32_t parent = tree->parents[node];
    uint32_t at = parent == FG_TREE_ROOT ? FG_TREE_ROOT : naming->nodes[parent];

    /* pprof has the innermost inlined function first, a tree wants the outermost. */
    for (uint32_t i = fg_frame_count(location); i-- > 0;) {
        uint32_t name = i < location->n_lines ? naming->functions[lines[i].function] : FG_MAP_NONE;

        if (name == FG_MAP_NONE) /* the first time, or it is no function's */
            name = name_frame(naming, tree->locations[node], i);
        at = name_child(naming, at, name);
    }
    naming->nodes[node] = at;
}

/* live: NULL, or the nodes that are wanted; of the others nodes[] says nothing. */
static void name_nodes(struct naming *naming, const bool *live, uint32_t *ret_no_stack)
{
    const struct fg_tree *tree = naming->tree;

    naming->functions = new_numbers(tree->symbols.n_functions);
    fg_buf_init(&naming->text, SIZE_MAX);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (live == NULL || live[i]) /* and so is its parent */
            name_node(naming, i);
    if (ret_no_stack != NULL)
        *ret_no_stack =
            name_child(naming, FG_TREE_ROOT,
                       fg_symbols_name_location(&naming->into->symbols, FG_LIT(FG_FRAME_NO_STACK)));
    fg_buf_done(&naming->text);
    free(naming->addresses);
    free(naming->functions);
}

void fg_tree_name_all(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack)
{
    struct naming naming = {.tree = tree, .into = into, .nodes = nodes};

    name_nodes(&naming, NULL, ret_no_stack);
}

void fg_tree_name_new(const struct fg_tree *tree, struct fg_tree *into, uint32_t *nodes,
                      uint32_t *ret_no_stack)
{
    struct near near = {0};
    struct naming naming = {.tree = tree, .into = into, .near = &near, .nodes = nodes};

    fg_assert(into->n_nodes == 0);
    near_grow(&near, TREE_MIN_NODES);
    name_nodes(&naming, NULL, ret_no_stack);
    free(near.first);
    free(near.next);
}

void fg_tree_names(const struct fg_tree *tree, struct fg_tree *into)
{
    uint32_t *nodes = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *nodes);
    bool *live = nodes_with_value(tree);
    struct naming naming = {.tree = tree, .into = into, .nodes = nodes};
    uint32_t no_stack = FG_TREE_ROOT;

    name_nodes(&naming, live, tree->root_self == 0 ? NULL : &no_stack);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (live[i])
            fg_tree_add(into, nodes[i], tree->self[i]);
    if (tree->root_self != 0)
        fg_tree_add(into, no_stack, tree->root_self);
    free(live);
    free(nodes);
}

struct fg_slice fg_tree_name(const struct fg_tree *tree, uint32_t node)
{
    return fg_tree_location_name(tree, tree->locations[node]);
}

struct fg_slice fg_tree_location_name(const struct fg_tree *tree, uint32_t number)
{
    const struct fg_symbols *symbols = &tree->symbols;
    const struct fg_location *location = &symbols->locations[number];

    /* Trees that others sent, as function trees, may be none: they have names all the same. */
    if (location->n_lines == 0)
        return FG_LIT(FG_FRAME_UNKNOWN);
    return fg_symbols_text(
        symbols,
        fg_function_name(&symbols->functions[symbols->lines[location->first_line].function]));
}

/* ---- call sites ---- */

enum { SITE_DEAD = UINT32_MAX }; /* the stack does not begin as asked */

/* Returns how many of the names are found after this location, if `matched` were before it. */
static uint32_t site_step(const struct fg_symbols *symbols, uint32_t location, uint32_t matched,
                          const char *const *names, size_t n_names, struct fg_buf *scratch)
{
    uint32_t count = fg_frame_count(&symbols->locations[location]);

    for (uint32_t i = count; i > 0 && matched < n_names; i--) {
        if (!fg_slice_is(fg_frame_name(symbols, location, i - 1, scratch), names[matched]))
            return SITE_DEAD;
        matched++;
    }
    return matched;
}

void fg_tree_keep_site(struct fg_tree *tree, const char *const *names, size_t n_names)
{
    uint32_t *matched = fg_malloc(FG_MAX((size_t)tree->n_nodes, 1) * sizeof *matched);
    struct fg_buf scratch;

    fg_assert(n_names > 0 && n_names < SITE_DEAD);
    fg_buf_init(&scratch, SIZE_MAX);
    if (n_names > 1 || strcmp(names[0], FG_FRAME_NO_STACK) != 0)
        tree->root_self = 0;
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        uint32_t before = tree->parents[i] == FG_TREE_ROOT ? 0 : matched[tree->parents[i]];

        matched[i] = before == SITE_DEAD ? SITE_DEAD
                                         : site_step(&tree->symbols, tree->locations[i], before,
                                                     names, n_names, &scratch);
        if (matched[i] != n_names)
            tree->self[i] = 0;
    }
    fg_buf_done(&scratch);
    free(matched);
}

/* ---- encoding ---- */

void fg_tree_encode(const struct fg_tree *tree, struct fg_buf *out)
{
    fg_symbols_encode_since(&tree->symbols, FG_SYMBOLS_START, out);
    fg_buf_zigzag(out, tree->root_self);
    fg_buf_varint(out, tree->n_nodes);
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        fg_buf_varint(out, tree->parents[i] == FG_TREE_ROOT ? 0 : i - tree->parents[i]);
        fg_buf_varint(out, tree->locations[i]);
        fg_buf_zigzag(out, tree->self[i]);
    }
}

static bool decode_node(struct fg_tree *tree, struct fg_cur *cur)
{
    uint32_t next = tree->n_nodes;
    uint64_t up = fg_cur_varint(cur);
    uint64_t location = fg_cur_varint(cur);
    int64_t self = fg_cur_zigzag(cur);
    uint32_t parent;

    /* `up` is the distance to the parent, which comes first: no input can make a cycle. */
    if (cur->bad || up > next || location >= tree->symbols.n_locations)
        return false;
    parent = up == 0 ? FG_TREE_ROOT : next - (uint32_t)up;
    if (fg_tree_child(tree, parent, (uint32_t)location) != next)
        return false; /* a second node of the same stack */
    tree->self[next] = self;
    return true;
}

static bool decode_nodes(struct fg_tree *tree, struct fg_cur *cur)
{
    uint64_t count;

    tree->root_self = fg_cur_zigzag(cur);
    count = fg_cur_count(cur, NODE_MIN_BYTES);
    if (cur->bad || count >= UINT32_MAX / 4)
        return false;
    fg_tree_reserve(tree, (uint32_t)count);
    for (uint64_t i = 0; i < count; i++)
        if (!decode_node(tree, cur))
            return false;
    return fg_cur_end(cur);
}

enum fg_code fg_tree_decode(struct fg_tree *tree, struct fg_slice in, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(in);

    fg_assert(tree->n_nodes == 0 && tree->symbols.n_strings == 1);
    if (fg_symbols_decode(&tree->symbols, &cur, err) != FG_OK)
        return fg_wrap(err, "tree of %zu bytes", in.len);
    if (!decode_nodes(tree, &cur))
        return fg_fail(err, FG_E_CORRUPT, "tree of %zu bytes: bad node %u", in.len, tree->n_nodes);
    return FG_OK;
}
