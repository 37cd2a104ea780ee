#include "common/storage/block/order.h"

#include "common/storage/block/format.h"

/* ---- comparing ---- */

#define CMP(a, b) (((a) > (b)) - ((a) < (b)))

int fg_block_function_cmp(const struct fg_function *a, const struct fg_function *b)
{
    int order = CMP(a->name, b->name);

    if (order == 0)
        order = CMP(a->system_name, b->system_name);
    if (order == 0)
        order = CMP(a->filename, b->filename);
    return order != 0 ? order : CMP(a->start_line, b->start_line);
}

int fg_block_mapping_cmp(const struct fg_mapping *a, const struct fg_mapping *b)
{
    int order = CMP(a->filename, b->filename);

    if (order == 0)
        order = CMP(a->build_id, b->build_id);
    if (order == 0)
        order = CMP(a->start, b->start);
    if (order == 0)
        order = CMP(a->limit, b->limit);
    if (order == 0)
        order = CMP(a->offset, b->offset);
    return order != 0 ? order : CMP(a->flags, b->flags);
}

static int value_type_cmp(const struct fg_value_type *a, const struct fg_value_type *b)
{
    int order = fg_slice_cmp(a->type, b->type);

    return order != 0 ? order : fg_slice_cmp(a->unit, b->unit);
}

int fg_block_schema_cmp(const struct fg_block_schema *a, const struct fg_block_schema *b)
{
    int order = value_type_cmp(&a->period_type, &b->period_type);

    for (uint32_t i = 0; order == 0 && i < FG_MIN(a->n_types, b->n_types); i++)
        order = value_type_cmp(&a->types[i], &b->types[i]);
    return order != 0 ? order : CMP(a->n_types, b->n_types);
}

static int lines_cmp(const struct fg_line *a, uint32_t n_a, const struct fg_line *b, uint32_t n_b)
{
    for (uint32_t i = 0; i < FG_MIN(n_a, n_b); i++) {
        if (a[i].function != b[i].function)
            return CMP(a[i].function, b[i].function);
        if (a[i].line != b[i].line)
            return CMP(a[i].line, b[i].line);
    }
    return CMP(n_a, n_b);
}

int fg_block_location_cmp(const struct fg_location *a, const struct fg_line *a_lines,
                          const struct fg_location *b, const struct fg_line *b_lines)
{
    int order = lines_cmp(a_lines + a->first_line, a->n_lines, b_lines + b->first_line, b->n_lines);

    /* FG_NO_MAPPING is the largest number; none comes first. */
    if (order == 0)
        order = CMP(a->mapping + 1, b->mapping + 1);
    if (order == 0)
        order = CMP(a->address, b->address);
    return order != 0 ? order : CMP(a->folded, b->folded);
}

/* ---- making ---- */

/* Work on an order. The symbols with new numbers in them are what is compared. */
struct order_making {
    const struct fg_tree *tree;
    const struct fg_symbols *symbols;
    struct fg_arena *arena;
    struct fg_block_order *order;
    struct fg_function *functions; /* by old number, strings renumbered */
    struct fg_mapping *mappings;
    struct fg_location *locations; /* by old number, mapping renumbered */
    struct fg_line *lines;         /* functions renumbered */
};

static enum fg_code no_room(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "no room to order the stacks");
}

/* Makes room for the numbers of so many things, none of which is in use yet. */
static bool numbers_init(struct fg_block_numbers *numbers, uint32_t count, struct fg_arena *arena)
{
    numbers->news = fg_arena_alloc(arena, (size_t)count * sizeof *numbers->news);
    numbers->olds = fg_arena_alloc(arena, (size_t)count * sizeof *numbers->olds);
    if (numbers->news == NULL || numbers->olds == NULL)
        return false;
    memset(numbers->news, 0xff, (size_t)count * sizeof *numbers->news); /* FG_MAP_NONE */
    return true;
}

static void use(struct fg_block_numbers *numbers, uint32_t old)
{
    if (numbers->news[old] == FG_MAP_NONE) {
        numbers->news[old] = 0;
        numbers->olds[numbers->count++] = old;
    }
}

typedef int (*old_cmp)(const void *a, const void *b, void *arg);

static void sort(struct fg_block_numbers *numbers, old_cmp cmp, struct order_making *making)
{
    qsort_r(numbers->olds, numbers->count, sizeof *numbers->olds, cmp, making);
    for (uint32_t i = 0; i < numbers->count; i++)
        numbers->news[numbers->olds[i]] = i;
}

static int by_text(const void *a, const void *b, void *arg)
{
    const struct order_making *making = arg;

    return fg_slice_cmp(fg_symbols_text(making->symbols, *(const uint32_t *)a),
                        fg_symbols_text(making->symbols, *(const uint32_t *)b));
}

static int by_function(const void *a, const void *b, void *arg)
{
    const struct order_making *making = arg;

    return fg_block_function_cmp(&making->functions[*(const uint32_t *)a],
                                 &making->functions[*(const uint32_t *)b]);
}

static int by_mapping(const void *a, const void *b, void *arg)
{
    const struct order_making *making = arg;

    return fg_block_mapping_cmp(&making->mappings[*(const uint32_t *)a],
                                &making->mappings[*(const uint32_t *)b]);
}

static int by_location(const void *a, const void *b, void *arg)
{
    const struct order_making *making = arg;

    return fg_block_location_cmp(&making->locations[*(const uint32_t *)a], making->lines,
                                 &making->locations[*(const uint32_t *)b], making->lines);
}

/* Nodes in use, marked by a 0 in news; olds are not filled. */
static void use_nodes(struct order_making *making, const uint32_t *uses)
{
    const struct fg_tree *tree = making->tree;
    struct fg_block_numbers *nodes = &making->order->nodes;

    for (uint32_t i = tree->n_nodes; i-- > 0;) {
        if (uses[1 + i] > 0)
            nodes->news[i] = 0;
        if (nodes->news[i] == 0 && tree->parents[i] != FG_TREE_ROOT)
            nodes->news[tree->parents[i]] = 0;
    }
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (nodes->news[i] == 0)
            use(&making->order->locations, tree->locations[i]);
}

static void use_symbols(struct order_making *making)
{
    const struct fg_symbols *symbols = making->symbols;
    struct fg_block_order *order = making->order;

    for (uint32_t i = 0; i < order->locations.count; i++) {
        const struct fg_location *location = &symbols->locations[order->locations.olds[i]];

        if (location->mapping != FG_NO_MAPPING)
            use(&order->mappings, location->mapping);
        for (uint32_t k = 0; k < location->n_lines; k++)
            use(&order->functions, symbols->lines[location->first_line + k].function);
    }
    /* Always there, used or not: readers take string 0 for the empty one. */
    use(&order->strings, 0);
    for (uint32_t i = 0; i < order->functions.count; i++) {
        const struct fg_function *function = &symbols->functions[order->functions.olds[i]];

        use(&order->strings, function->name);
        use(&order->strings, function->system_name);
        use(&order->strings, function->filename);
    }
    for (uint32_t i = 0; i < order->mappings.count; i++) {
        const struct fg_mapping *mapping = &symbols->mappings[order->mappings.olds[i]];

        use(&order->strings, mapping->filename);
        use(&order->strings, mapping->build_id);
    }
}

static void order_strings(struct order_making *making)
{
    const struct fg_block_order *order = making->order;
    const uint32_t *news = order->strings.news;

    sort(&making->order->strings, by_text, making);
    for (uint32_t i = 0; i < order->functions.count; i++) {
        struct fg_function *function = &making->functions[order->functions.olds[i]];

        *function = making->symbols->functions[order->functions.olds[i]];
        function->name = news[function->name];
        function->system_name = news[function->system_name];
        function->filename = news[function->filename];
    }
    for (uint32_t i = 0; i < order->mappings.count; i++) {
        struct fg_mapping *mapping = &making->mappings[order->mappings.olds[i]];

        *mapping = making->symbols->mappings[order->mappings.olds[i]];
        mapping->filename = news[mapping->filename];
        mapping->build_id = news[mapping->build_id];
    }
}

static void order_locations(struct order_making *making)
{
    struct fg_block_order *order = making->order;

    sort(&order->functions, by_function, making);
    sort(&order->mappings, by_mapping, making);
    for (uint32_t i = 0; i < order->locations.count; i++) {
        uint32_t old = order->locations.olds[i];
        struct fg_location *location = &making->locations[old];

        *location = making->symbols->locations[old];
        if (location->mapping != FG_NO_MAPPING)
            location->mapping = order->mappings.news[location->mapping];
        for (uint32_t k = location->first_line; k < location->first_line + location->n_lines; k++)
            making->lines[k] =
                (struct fg_line){order->functions.news[making->symbols->lines[k].function],
                                 making->symbols->lines[k].line};
    }
    sort(&order->locations, by_location, making);
}

/* ---- nodes ---- */

/* Children of each node in use, by location: of node i children[firsts[i + 1]..firsts[i + 2]). */
struct order_children {
    uint32_t *firsts, *nodes;
};

/* The nodes in use by location, into sorted; counts has room for one more than locations. */
static uint32_t sort_by_location(const struct fg_tree *tree, const struct fg_block_order *order,
                                 uint32_t *counts, uint32_t *sorted)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        if (order->nodes.news[i] != FG_MAP_NONE) {
            counts[order->locations.news[tree->locations[i]] + 1]++;
            used++;
        }
    }
    for (uint32_t i = 0; i < order->locations.count; i++)
        counts[i + 1] += counts[i];
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        if (order->nodes.news[i] != FG_MAP_NONE)
            sorted[counts[order->locations.news[tree->locations[i]]]++] = i;
    return used;
}

static bool children_make(struct order_making *making, struct order_children *children)
{
    const struct fg_tree *tree = making->tree;
    uint32_t *counts = fg_arena_new(making->arena, uint32_t, making->order->locations.count + 1);
    uint32_t *sorted = fg_arena_new(making->arena, uint32_t, tree->n_nodes);
    uint32_t used;

    /* One more than needed: filling moves each start to the start of the next. */
    children->firsts = fg_arena_new(making->arena, uint32_t, (size_t)tree->n_nodes + 3);
    children->nodes = fg_arena_new(making->arena, uint32_t, tree->n_nodes);
    if (counts == NULL || sorted == NULL || children->firsts == NULL || children->nodes == NULL)
        return false;
    used = sort_by_location(tree, making->order, counts, sorted);
    for (uint32_t i = 0; i < used; i++)
        children->firsts[tree->parents[sorted[i]] + 1 + 2]++; /* FG_TREE_ROOT + 1 is 0 */
    for (size_t i = 1; i < (size_t)tree->n_nodes + 3; i++)
        children->firsts[i] += children->firsts[i - 1];
    for (uint32_t i = 0; i < used; i++)
        children->nodes[children->firsts[tree->parents[sorted[i]] + 1 + 1]++] = sorted[i];
    return true;
}

/* Numbers nodes as they are met. Children are taken off the front of their parent's list. */
static bool order_nodes(struct order_making *making)
{
    const struct fg_tree *tree = making->tree;
    struct fg_block_numbers *nodes = &making->order->nodes;
    struct fg_arena_mark mark = fg_arena_mark(making->arena);
    uint32_t *nexts = fg_arena_new(making->arena, uint32_t, (size_t)tree->n_nodes + 1);
    struct order_children children;
    uint32_t at = FG_TREE_ROOT;

    if (nexts == NULL || !children_make(making, &children))
        return false;
    for (;;) {
        uint32_t slot = at + 1;
        uint32_t next = children.firsts[slot] + nexts[slot];

        if (next < children.firsts[slot + 1]) {
            nexts[slot]++;
            at = children.nodes[next];
            nodes->news[at] = nodes->count;
            nodes->olds[nodes->count++] = at;
        } else if (at == FG_TREE_ROOT) {
            fg_arena_release(making->arena, mark); /* as much as the order itself */
            return true;
        } else {
            at = tree->parents[at];
        }
    }
}

enum fg_code fg_block_order_make(const struct fg_tree *tree, const uint32_t *uses,
                                 struct fg_arena *arena, struct fg_block_order *ret_order,
                                 struct fg_err *err)
{
    const struct fg_symbols *symbols = &tree->symbols;
    struct fg_block_order order = {.tree = tree};
    struct order_making making = {
        .tree = tree,
        .symbols = symbols,
        .arena = arena,
        .order = &order,
        .functions = fg_arena_new(arena, struct fg_function, symbols->n_functions),
        .mappings = fg_arena_new(arena, struct fg_mapping, symbols->n_mappings),
        .locations = fg_arena_new(arena, struct fg_location, symbols->n_locations),
        .lines = fg_arena_new(arena, struct fg_line, symbols->n_lines),
    };

    if (making.functions == NULL || making.mappings == NULL || making.locations == NULL ||
        making.lines == NULL || !numbers_init(&order.strings, symbols->n_strings, arena) ||
        !numbers_init(&order.functions, symbols->n_functions, arena) ||
        !numbers_init(&order.mappings, symbols->n_mappings, arena) ||
        !numbers_init(&order.locations, symbols->n_locations, arena) ||
        !numbers_init(&order.nodes, tree->n_nodes, arena))
        return no_room(err);
    /* Each kind is compared by the new numbers of the kinds before it. */
    use_nodes(&making, uses);
    use_symbols(&making);
    order_strings(&making);
    order_locations(&making);
    if (!order_nodes(&making))
        return no_room(err);
    *ret_order = order;
    return FG_OK;
}
