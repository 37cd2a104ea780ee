#include "common/storage/rollup/crown_layer.h"

#include <stdatomic.h>

static uint64_t add_sat(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* ---- names ---- */

struct fg_crown_names {
    _Atomic uint32_t refs;
    uint32_t count;
    size_t cap;             /* of items */
    struct fg_slice *items; /* into text */
    uint8_t *text;
    size_t text_bytes, text_cap;
};

static struct fg_crown_names *names_create(size_t count, size_t text_bytes)
{
    struct fg_crown_names *names = fg_new(struct fg_crown_names);

    atomic_init(&names->refs, 1);
    names->items = fg_malloc(FG_MAX(count, 1) * sizeof *names->items);
    names->text = fg_malloc(FG_MAX(text_bytes, 1));
    names->cap = count;
    names->text_cap = text_bytes;
    return names;
}

static void put_name(struct fg_crown_names *names, struct fg_slice name)
{
    uint8_t *text = names->text + names->text_bytes;

    fg_assert(name.len <= names->text_cap - names->text_bytes);
    if (name.len > 0)
        memcpy(text, name.ptr, name.len);
    names->text_bytes += name.len;
    names->items[names->count++] = fg_bytes(text, name.len);
}

struct fg_crown_names *fg_crown_names_create(const struct fg_function_tree *functions)
{
    struct fg_crown_names *names;
    size_t bytes = 0;

    for (uint32_t i = 0; i < functions->n_names; i++)
        bytes += functions->names[i].len;
    names = names_create(functions->n_names, bytes);
    for (uint32_t i = 0; i < functions->n_names; i++)
        put_name(names, functions->names[i]);
    return names;
}

size_t fg_crown_names_bytes(const struct fg_crown_names *names)
{
    return sizeof *names + names->cap * sizeof *names->items + names->text_cap;
}

struct fg_crown_names *fg_crown_names_ref(struct fg_crown_names *names)
{
    if (names != NULL)
        atomic_fetch_add(&names->refs, 1);
    return names;
}

void fg_crown_names_unref(struct fg_crown_names *names)
{
    if (names == NULL || atomic_fetch_sub(&names->refs, 1) > 1)
        return;
    free(names->items);
    free(names->text);
    free(names);
}

const struct fg_slice *fg_crown_names_items(const struct fg_crown_names *names)
{
    return names->items;
}

uint32_t fg_crown_names_count(const struct fg_crown_names *names)
{
    return names->count;
}

/* Numbers of the names of two layers in those of their sum. NULL: they are the same numbers. */
struct renaming {
    struct fg_crown_names *both;
    uint32_t *a, *b;
};

static void rename_both(const struct fg_crown_names *a, const struct fg_crown_names *b,
                        struct renaming *renaming)
{
    uint32_t i = 0, k = 0;

    renaming->both = names_create((size_t)a->count + b->count, a->text_bytes + b->text_bytes);
    renaming->a = fg_malloc(FG_MAX((size_t)a->count, 1) * sizeof *renaming->a);
    renaming->b = fg_malloc(FG_MAX((size_t)b->count, 1) * sizeof *renaming->b);
    while (i < a->count || k < b->count) {
        uint32_t number = renaming->both->count;
        int order = i == a->count ? 1 : k == b->count ? -1 : fg_slice_cmp(a->items[i], b->items[k]);

        put_name(renaming->both, order <= 0 ? a->items[i] : b->items[k]);
        if (order <= 0)
            renaming->a[i++] = number;
        if (order >= 0)
            renaming->b[k++] = number;
    }
}

/* Takes the names of one side for both if the other has no others: services mostly have the same
 * names from one segment to the next, and their layers are compared no more. */
static bool share_names(struct renaming *renaming, struct fg_crown_names *names, uint32_t **numbers)
{
    if (renaming->both->count != names->count)
        return false;
    fg_crown_names_unref(renaming->both);
    renaming->both = fg_crown_names_ref(names);
    free(fg_take(*numbers));
    return true;
}

struct fg_crown_names *fg_crown_names_unite(struct fg_crown_names *a, struct fg_crown_names *b,
                                            uint32_t **ret_a, uint32_t **ret_b)
{
    struct renaming renaming = {0};

    if (a == b) {
        renaming.both = fg_crown_names_ref(a);
    } else {
        rename_both(a, b, &renaming);
        if (!share_names(&renaming, a, &renaming.a))
            (void)share_names(&renaming, b, &renaming.b);
    }
    *ret_a = renaming.a;
    *ret_b = renaming.b;
    return renaming.both;
}

/* ---- layers ---- */

static struct fg_crown_layer *layer_create(struct fg_crown_names *names, size_t count, bool known)
{
    struct fg_crown_layer *layer = fg_new(struct fg_crown_layer);

    layer->names = names;
    layer->nodes = fg_malloc(FG_MAX(count, 1) * sizeof *layer->nodes);
    if (known)
        layer->known = fg_malloc(FG_MAX(count, 1) * sizeof *layer->known);
    return layer;
}

/* Gives back the room of nodes that are not there. */
static void shrink(struct fg_crown_layer *layer)
{
    size_t count = FG_MAX(layer->n_nodes, 1);

    layer->nodes = fg_realloc(layer->nodes, count * sizeof *layer->nodes);
    if (layer->known != NULL)
        layer->known = fg_realloc(layer->known, count * sizeof *layer->known);
}

struct fg_crown_layer *fg_crown_layer_copy(const struct fg_crown_layer *layer)
{
    struct fg_crown_layer *copy =
        layer_create(fg_crown_names_ref(layer->names), layer->n_nodes, layer->known != NULL);
    struct fg_crown_layer own = *copy;

    *copy = *layer;
    copy->nodes = own.nodes;
    copy->known = own.known;
    memcpy(copy->nodes, layer->nodes, layer->n_nodes * sizeof *copy->nodes);
    if (copy->known != NULL)
        memcpy(copy->known, layer->known, layer->n_nodes * sizeof *copy->known);
    return copy;
}

void fg_crown_layer_pack(struct fg_crown_layer *layer)
{
    struct fg_crown_names *names = layer->names, *packed;
    uint32_t *numbers = fg_calloc(FG_MAX((size_t)names->count, 1), sizeof *numbers);
    size_t count = 0, bytes = 0;

    for (uint32_t i = 0; i < layer->n_nodes; i++)
        numbers[layer->nodes[i].name] = 1;
    for (uint32_t i = 0; i < names->count; i++)
        if (numbers[i] != 0) {
            count++;
            bytes += names->items[i].len;
        }
    packed = names_create(count, bytes);
    for (uint32_t i = 0; i < names->count; i++)
        if (numbers[i] != 0) {
            numbers[i] = packed->count;
            put_name(packed, names->items[i]);
        }
    for (uint32_t i = 0; i < layer->n_nodes; i++)
        layer->nodes[i].name = numbers[layer->nodes[i].name];
    layer->names = packed;
    fg_crown_names_unref(names);
    free(numbers);
}

void fg_crown_layer_destroy(struct fg_crown_layer *layer)
{
    if (layer == NULL)
        return;
    fg_crown_names_unref(layer->names);
    free(layer->nodes);
    free(layer->known);
    free(layer);
}

size_t fg_crown_layer_bytes(const struct fg_crown_layer *layer)
{
    size_t node = sizeof *layer->nodes + (layer->known == NULL ? 0 : sizeof *layer->known);

    return sizeof *layer + layer->n_nodes * node + fg_crown_names_bytes(layer->names);
}

/* Depths of nodes that come after their parents, by node of a function tree. Those of nodes that
 * are left out are not set. */
static uint32_t depth_of(const struct fg_function_tree *functions, const uint32_t *depths,
                         uint32_t node)
{
    uint32_t parent = functions->parents[node];

    return parent == FG_TREE_ROOT ? 0 : depths[parent] + 1;
}

static uint32_t *new_depths(const struct fg_function_tree *functions)
{
    return fg_malloc(FG_MAX((size_t)functions->n_nodes, 1) * sizeof(uint32_t));
}

/* Returns the most that one child can have of a rest. With negative values, a rest is no bound. */
static uint64_t hidden(const struct fg_crown *crown, int64_t rest)
{
    if (crown->has_negatives)
        return crown->cut_max;
    return FG_MIN(crown->cut_max, (uint64_t)rest);
}

/* Without a cut there is no rest: all that a node has is its own or its children's. */
static bool has_cut(const struct fg_crown *crown)
{
    for (uint32_t i = 0; i < crown->n_nodes; i++)
        if (crown->rest[i] != 0)
            return true;
    return crown->cut_max > 0;
}

struct fg_crown_layer *fg_crown_layer_of_crown(const struct fg_function_tree *functions,
                                               struct fg_crown_names *names,
                                               const struct fg_crown *crown)
{
    bool cut = has_cut(crown);
    struct fg_crown_layer *layer = layer_create(fg_crown_names_ref(names), crown->n_nodes, cut);
    uint32_t *depths = new_depths(functions);

    for (uint32_t i = 0; i < crown->n_nodes; i++) {
        uint32_t node = crown->nodes[i];

        depths[node] = depth_of(functions, depths, node);
        layer->nodes[i] =
            (struct fg_crown_node){depths[node], functions->functions[node], crown->self[i]};
        if (cut)
            layer->known[i] = (struct fg_crown_known){crown->rest[i], hidden(crown, crown->rest[i]),
                                                      crown->cut_max};
    }
    free(depths);
    layer->n_nodes = crown->n_nodes;
    layer->root_rest = crown->root_rest;
    layer->root_slack = hidden(crown, crown->root_rest);
    layer->cut = crown->cut_max;
    return layer;
}

/* Adds a value to a node of a function tree, if there is one. By stack, before they are added up:
 * +5 and -5 in one function are samples, though their sum is zero. */
static void add_sum(int64_t *self, bool *live, uint32_t node, uint64_t value)
{
    if (value == 0)
        return;
    self[node] = fg_value_add(self[node], (int64_t)value);
    live[node] = true;
}

struct fg_crown_layer *fg_crown_layer_of_sums(const struct fg_function_tree *functions,
                                              struct fg_crown_names *names, const uint64_t *sums,
                                              uint64_t no_stack)
{
    struct fg_crown_layer *layer =
        layer_create(fg_crown_names_ref(names), functions->n_nodes, false);
    size_t count = FG_MAX((size_t)functions->n_nodes, 1);
    int64_t *self = fg_calloc(count, sizeof *self);
    bool *live = fg_calloc(count, sizeof *live);
    uint32_t *depths = new_depths(functions);

    for (uint32_t i = 0; i < functions->n_from; i++)
        add_sum(self, live, functions->nodes[i], sums[i]);
    if (functions->no_stack != FG_TREE_ROOT)
        add_sum(self, live, functions->no_stack, no_stack);
    /* Parents have smaller numbers than their children: from the end, one pass marks all. */
    for (uint32_t i = functions->n_nodes; i-- > 0;)
        if (live[i] && functions->parents[i] != FG_TREE_ROOT)
            live[functions->parents[i]] = true;
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        if (!live[i])
            continue;
        depths[i] = depth_of(functions, depths, i);
        layer->nodes[layer->n_nodes++] =
            (struct fg_crown_node){depths[i], functions->functions[i], self[i]};
    }
    shrink(layer);
    free(depths);
    free(live);
    free(self);
    return layer;
}

struct fg_crown_layer *fg_crown_layer_of_tree(const struct fg_tree *tree)
{
    struct fg_function_tree functions;
    struct fg_crown_layer *layer;
    uint32_t *depths;

    fg_function_tree_init(&functions, tree);
    layer = layer_create(fg_crown_names_create(&functions), tree->n_nodes, false);
    depths = new_depths(&functions);
    for (uint32_t i = 0; i < functions.n_nodes; i++) {
        depths[i] = depth_of(&functions, depths, i);
        layer->nodes[i] = (struct fg_crown_node){depths[i], functions.functions[i], 0};
    }
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        int64_t *self = &layer->nodes[functions.nodes[i]].self;

        *self = fg_value_add(*self, tree->self[i]);
    }
    layer->n_nodes = functions.n_nodes;
    layer->root_self = tree->root_self;
    free(depths);
    fg_function_tree_done(&functions);
    return layer;
}

/* ---- sums ---- */

/* The list of a layer that is being added. */
struct list {
    const struct fg_crown_layer *layer;
    const uint32_t *names; /* numbers in the sum; NULL: the same */
    uint32_t at;
};

/* The order of nodes: deeper ones first, then by name. */
static uint64_t key_of(const struct list *list)
{
    const struct fg_crown_node *node = &list->layer->nodes[list->at];
    uint32_t name = list->names == NULL ? node->name : list->names[node->name];

    return (uint64_t)(UINT32_MAX - node->depth) << 32 | name;
}

static void put_node(struct fg_crown_layer *into, uint64_t key, int64_t self)
{
    into->nodes[into->n_nodes] =
        (struct fg_crown_node){UINT32_MAX - (uint32_t)(key >> 32), (uint32_t)key, self};
}

static struct fg_crown_known known_of(const struct list *list)
{
    return list->layer->known == NULL ? (struct fg_crown_known){0} : list->layer->known[list->at];
}

/* Takes the next node of one list. */
static void take_one(struct fg_crown_layer *into, struct list *list, uint64_t key)
{
    put_node(into, key, list->layer->nodes[list->at].self);
    if (into->known != NULL)
        into->known[into->n_nodes] = known_of(list);
    into->n_nodes++;
    list->at++;
}

/* Takes the next node of both lists, which is the same. */
static void take_both(struct fg_crown_layer *into, struct list *a, struct list *b, uint64_t key)
{
    put_node(into, key, fg_value_add(a->layer->nodes[a->at].self, b->layer->nodes[b->at].self));
    if (into->known != NULL) {
        struct fg_crown_known left = known_of(a), right = known_of(b);

        into->known[into->n_nodes] = (struct fg_crown_known){fg_value_add(left.rest, right.rest),
                                                             add_sat(left.slack, right.slack),
                                                             add_sat(left.seen, right.seen)};
    }
    into->n_nodes++;
    a->at++;
    b->at++;
}

static void add_lists(struct fg_crown_layer *into, struct list *a, struct list *b)
{
    while (a->at < a->layer->n_nodes && b->at < b->layer->n_nodes) {
        uint64_t left = key_of(a), right = key_of(b);

        if (left == right)
            take_both(into, a, b, left);
        else if (left < right)
            take_one(into, a, left);
        else
            take_one(into, b, right);
    }
    while (a->at < a->layer->n_nodes)
        take_one(into, a, key_of(a));
    while (b->at < b->layer->n_nodes)
        take_one(into, b, key_of(b));
}

struct fg_crown_layer *fg_crown_layer_add(const struct fg_crown_layer *a,
                                          const struct fg_crown_layer *b)
{
    uint32_t *names_a, *names_b;
    struct fg_crown_names *names = fg_crown_names_unite(a->names, b->names, &names_a, &names_b);
    struct list left = {a, names_a, 0}, right = {b, names_b, 0};
    struct fg_crown_layer *sum =
        layer_create(names, (size_t)a->n_nodes + b->n_nodes, a->known != NULL || b->known != NULL);

    fg_assert((uint64_t)a->n_nodes + b->n_nodes < UINT32_MAX);
    add_lists(sum, &left, &right);
    shrink(sum);
    sum->root_self = fg_value_add(a->root_self, b->root_self);
    sum->root_rest = fg_value_add(a->root_rest, b->root_rest);
    sum->root_slack = add_sat(a->root_slack, b->root_slack);
    sum->cut = add_sat(a->cut, b->cut);
    free(names_a);
    free(names_b);
    return sum;
}
