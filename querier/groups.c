#include "querier/groups.h"

#include "common/base/hash.h"
#include "common/model/frame_name.h"

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

/* ---- what ingesters send ---- */

/* Where a node of the tree belongs. */
struct place {
    size_t group;
    uint32_t node; /* FG_TREE_ROOT: it is the frame of the group */
};

/* Adds a node below the parent's place. */
static enum fg_code add_node(struct qry_groups *groups, const struct fg_tree *tree, uint32_t node,
                             struct place parent, struct place *ret_place, struct fg_err *err)
{
    struct fg_tree *into = groups->tree;

    *ret_place = parent;
    ret_place->node = fg_tree_child(
        into, parent.node, fg_symbols_name_location(&into->symbols, fg_tree_name(tree, node)));
    if (tree->self[node] == 0)
        return FG_OK;
    return qry_groups_add(groups, parent.group, ret_place->node, tree->self[node], err);
}

static enum fg_code check_size(const struct qry_groups *groups, struct fg_err *err)
{
    return fg_tree_bytes(groups->tree) + groups->bytes > groups->max_bytes ? too_large(groups, err)
                                                                           : FG_OK;
}

enum fg_code qry_groups_take_one(struct qry_groups *groups, size_t group,
                                 const struct fg_tree *tree, struct fg_err *err)
{
    struct place *places = fg_calloc((size_t)tree->n_nodes + 1, sizeof *places);
    const struct place top = {group, FG_TREE_ROOT};
    enum fg_code code = FG_OK;

    for (uint32_t i = 0; code == FG_OK && i < tree->n_nodes; i++)
        code = add_node(groups, tree, i,
                        tree->parents[i] == FG_TREE_ROOT ? top : places[tree->parents[i]],
                        &places[i], err);
    free(places);
    return code == FG_OK ? check_size(groups, err) : code;
}

/* Finds the group that an outermost frame is of. */
static enum fg_code find_frame(struct qry_groups *groups, struct fg_slice name,
                               struct place *ret_place, struct fg_err *err)
{
    if (!fg_slice_starts(name, FG_FRAME_GROUP))
        return fg_fail(err, FG_E_CORRUPT, "a stack is in no group");
    ret_place->node = FG_TREE_ROOT;
    return qry_groups_find(groups, fg_slice_sub(name, strlen(FG_FRAME_GROUP), SIZE_MAX),
                           &ret_place->group, err);
}

enum fg_code qry_groups_take(struct qry_groups *groups, const struct fg_tree *tree,
                             struct fg_err *err)
{
    struct place *places = fg_calloc((size_t)tree->n_nodes + 1, sizeof *places);
    enum fg_code code = FG_OK;

    for (uint32_t i = 0; code == FG_OK && i < tree->n_nodes; i++)
        code = tree->parents[i] == FG_TREE_ROOT
                   ? find_frame(groups, fg_tree_name(tree, i), &places[i], err)
                   : add_node(groups, tree, i, places[tree->parents[i]], &places[i], err);
    free(places);
    return code == FG_OK ? check_size(groups, err) : code;
}
