#include "querier/groups.h"

#include "common/base/hash.h"

enum { ITEMS_MIN = 64 };

void qry_groups_init(struct qry_groups *groups, struct fg_tree *tree, struct fg_arena *arena,
                     size_t max_groups, uint64_t max_bytes)
{
    *groups = (struct qry_groups){
        .tree = tree, .arena = arena, .max_groups = max_groups, .max_bytes = max_bytes};
    fg_map_init(&groups->map);
}

void qry_groups_clear(struct qry_groups *groups)
{
    for (size_t i = 0; i < groups->n; i++)
        free(groups->items[i].items);
    fg_map_clear(&groups->map);
    groups->n = 0;
    groups->bytes = 0;
}

void qry_groups_done(struct qry_groups *groups)
{
    qry_groups_clear(groups);
    fg_map_done(&groups->map);
    free(groups->sums);
    free(groups->items);
    *groups = (struct qry_groups){0};
}

static enum fg_code too_large(const struct qry_groups *groups, struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "query needs more than %llu bytes",
                   (unsigned long long)groups->max_bytes);
}

static enum fg_code add_group(struct qry_groups *groups, struct fg_slice name, uint64_t hash,
                              struct fg_err *err)
{
    struct fg_slice copy = fg_arena_copy(groups->arena, name);

    if (groups->n == groups->max_groups)
        return fg_fail(err, FG_E_INVALID,
                       "more than %zu instances: choose fewer by the selector, or by another label "
                       "(parameter instance)",
                       groups->max_groups);
    if (copy.ptr == NULL && name.len > 0)
        return too_large(groups, err);
    if (groups->n == groups->cap) {
        groups->cap = FG_MAX(16, groups->cap * 2);
        groups->items = fg_realloc(groups->items, groups->cap * sizeof *groups->items);
    }
    groups->items[groups->n] = (struct qry_group){.name = copy};
    fg_map_add(&groups->map, hash, (uint32_t)groups->n++);
    return FG_OK;
}

enum fg_code qry_groups_find(struct qry_groups *groups, struct fg_slice name, size_t *ret_group,
                             struct fg_err *err)
{
    uint64_t hash = fg_hash64_table(name);
    struct fg_map_walk walk;

    for (uint32_t at = fg_map_first(&groups->map, hash, &walk); at != FG_MAP_NONE;
         at = fg_map_next(&groups->map, &walk))
        if (fg_slice_eq(groups->items[at].name, name)) {
            *ret_group = at;
            return FG_OK;
        }
    if (add_group(groups, name, hash, err) != FG_OK)
        return err->code;
    *ret_group = groups->n - 1;
    return FG_OK;
}

/* Sums up values of the same node, through a dense array that is all zeros before and after. */
static void settle(struct qry_groups *groups, struct qry_group *group)
{
    struct qry_group_value *items = group->items;
    size_t kept = 0;

    /* The tree is shared, so it may have grown through other groups. */
    if (groups->cap_sums < groups->tree->n_nodes) {
        free(groups->sums);
        groups->cap_sums = FG_MAX((size_t)groups->tree->n_nodes, groups->cap_sums * 2);
        groups->sums = fg_calloc(groups->cap_sums, sizeof *groups->sums);
    }
    for (size_t i = 0; i < group->n; i++) {
        const struct qry_group_value item = items[i];
        int64_t *sum = &groups->sums[item.node];

        /* A node whose values cancel may be kept twice, the second time with 0. */
        if (*sum == 0)
            items[kept++].node = item.node;
        *sum = fg_value_add(*sum, item.value);
    }
    for (size_t i = 0; i < kept; i++) {
        items[i].value = groups->sums[items[i].node];
        groups->sums[items[i].node] = 0;
    }
    group->n = kept;
}

static enum fg_code make_room(struct qry_groups *groups, struct qry_group *group,
                              struct fg_err *err)
{
    size_t cap = FG_MAX(ITEMS_MIN, group->cap * 2);

    settle(groups, group);
    /* Half must be free, or the list would be sorted for every few values. */
    if (group->n <= group->cap / 2 && group->cap > 0)
        return FG_OK;
    /* Counted before it is asked for, and together with the tree, which all groups share. */
    groups->bytes += (cap - group->cap) * sizeof *group->items;
    if (groups->bytes + fg_tree_bytes(groups->tree) > groups->max_bytes)
        return too_large(groups, err);
    group->items = fg_realloc(group->items, cap * sizeof *group->items);
    group->cap = cap;
    return FG_OK;
}

enum fg_code qry_groups_add(struct qry_groups *groups, size_t group, uint32_t node, int64_t value,
                            struct fg_err *err)
{
    struct qry_group *to = &groups->items[group];

    fg_assert(group < groups->n && node < groups->tree->n_nodes);
    if (to->n == to->cap && make_room(groups, to, err) != FG_OK)
        return err->code;
    to->items[to->n++] = (struct qry_group_value){node, value};
    return FG_OK;
}

void qry_group_sum(const struct qry_group *group, int64_t *into)
{
    for (size_t i = 0; i < group->n; i++) {
        int64_t *to = &into[group->items[i].node];

        *to = fg_value_add(*to, group->items[i].value);
    }
}

/* ---- trees ---- */

/* Adds the nodes of a function tree to that of the groups. nodes[n_nodes]: their numbers there. */
static void add_nodes(struct qry_groups *groups, const struct fg_tree *tree, uint32_t *nodes)
{
    struct fg_tree *into = groups->tree;

    for (uint32_t i = 0; i < tree->n_nodes; i++)
        /* Parents come first, so nodes[] of a parent is known. */
        nodes[i] = fg_tree_child(
            into, tree->parents[i] == FG_TREE_ROOT ? FG_TREE_ROOT : nodes[tree->parents[i]],
            fg_symbols_name_location(&into->symbols, fg_tree_name(tree, i)));
}

static enum fg_code check_size(const struct qry_groups *groups, struct fg_err *err)
{
    return fg_tree_bytes(groups->tree) + groups->bytes > groups->max_bytes ? too_large(groups, err)
                                                                           : FG_OK;
}

enum fg_code qry_groups_take_one(struct qry_groups *groups, size_t group,
                                 const struct fg_tree *tree, struct fg_err *err)
{
    uint32_t *nodes = fg_malloc(((size_t)tree->n_nodes + 1) * sizeof *nodes);
    enum fg_code code = FG_OK;

    add_nodes(groups, tree, nodes);
    for (uint32_t i = 0; code == FG_OK && i < tree->n_nodes; i++)
        if (tree->self[i] != 0)
            code = qry_groups_add(groups, group, nodes[i], tree->self[i], err);
    free(nodes);
    return code == FG_OK ? check_size(groups, err) : code;
}

/* ---- what ingesters send ---- */

static enum fg_code take_values(struct qry_groups *groups, struct fg_cur *cur,
                                const uint32_t *nodes, uint32_t n_nodes, struct fg_err *err)
{
    struct fg_slice name = fg_cur_lenbytes(cur);
    uint64_t n = fg_cur_count(cur, 2), node = 0; /* a value has two bytes at least */
    size_t group;

    if (cur->bad)
        return FG_OK; /* the caller sees it */
    if (qry_groups_find(groups, name, &group, err) != FG_OK)
        return err->code;
    for (uint64_t i = 0; i < n; i++) {
        int64_t value;

        /* Damaged input may make it wrap around: the comparison with n_nodes catches that. */
        node += (uint64_t)fg_cur_zigzag(cur);
        value = fg_cur_zigzag(cur);
        if (cur->bad)
            return FG_OK;
        if (node >= n_nodes)
            return fg_fail(err, FG_E_CORRUPT, "group: node %llu of %u", (unsigned long long)node,
                           n_nodes);
        if (qry_groups_add(groups, group, nodes[node], value, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code take_lists(struct qry_groups *groups, struct fg_cur *cur,
                               const struct fg_tree *tree, struct fg_err *err)
{
    uint32_t *nodes = fg_malloc(((size_t)tree->n_nodes + 1) * sizeof *nodes);
    uint64_t n = fg_cur_count(cur, 2);
    enum fg_code code = FG_OK;

    add_nodes(groups, tree, nodes);
    for (uint64_t i = 0; code == FG_OK && !cur->bad && i < n; i++)
        code = take_values(groups, cur, nodes, tree->n_nodes, err);
    free(nodes);
    if (code == FG_OK && !fg_cur_end(cur))
        code = fg_fail(err, FG_E_CORRUPT, "groups cut short");
    return code == FG_OK ? check_size(groups, err) : code;
}

enum fg_code qry_groups_take(struct qry_groups *groups, struct fg_slice payload, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(payload);
    struct fg_slice encoded = fg_cur_lenbytes(&cur);
    struct fg_tree tree;
    enum fg_code code = FG_OK;

    fg_tree_init(&tree);
    if (cur.bad)
        code = fg_fail(err, FG_E_CORRUPT, "groups cut short");
    if (code == FG_OK && encoded.len > 0)
        code = fg_tree_decode(&tree, encoded, err);
    if (code == FG_OK)
        code = take_lists(groups, &cur, &tree, err);
    fg_tree_done(&tree);
    return code;
}
