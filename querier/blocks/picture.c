/*
 * Crowns of merged nodes, and sums into crowns: of what a part adds up to, what is too light for
 * any picture is left out before anything is looked for by name. With the tree of names of a part
 * in the cache nothing is hashed but the nodes that are kept, and those only where they do not come
 * as in the part before.
 */
#include "querier/blocks/fetch.h"
#include "querier/blocks/select.h"

struct crowning {
    const struct blocks *blocks;
    uint32_t max_nodes; /* of a part */
    struct fg_crown_sum *into;
    struct picture_facts *facts;
};

/*
 * Values below zero, of which a crown says little, and sums that go around 64 bits, which it does
 * not know: such parts are added as a whole.
 */
static bool is_plain(const struct part *part)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < part->entry->n_stacks; i++)
        if (part->sums[i] > INT64_MAX || (all += part->sums[i]) > INT64_MAX)
            return false;
    return true;
}

static void add_crown(const struct crowning *crowning, const struct fg_name_tree *names,
                      const int64_t *sums)
{
    struct fg_name_values values;
    struct fg_crown_adding adding;
    struct fg_crown crown;

    fg_name_values_init(&values, names);
    fg_name_values_set(&values, names, sums);
    fg_crown_make(names, &values, crowning->max_nodes, &crown);
    fg_crown_adding_init(&adding, crowning->into, names);
    fg_crown_add(&adding, &crown);
    fg_tree_add(&crowning->into->tree, FG_TREE_ROOT, values.nameless);
    fg_crown_adding_done(&adding);
    fg_crown_done(&crown);
    fg_name_values_done(&values);
}

/* Which nodes have a value, of their own or below, whatever it adds up to. */
static bool *find_live(const struct fg_name_tree *names, const uint64_t *sums)
{
    bool *live = fg_calloc(FG_MAX((size_t)names->n_nodes, 1), sizeof *live);

    for (uint32_t i = 0; i < names->n_from; i++)
        if (sums[i] != 0 && names->nodes[i] != FG_TREE_ROOT)
            live[names->nodes[i]] = true;
    for (uint32_t i = names->n_nodes; i-- > 0;)
        if (live[i] && names->parents[i] != FG_TREE_ROOT)
            live[names->parents[i]] = true;
    return live;
}

static void add_whole(const struct crowning *crowning, const struct fg_name_tree *names,
                      const uint64_t *sums)
{
    uint32_t *placed = fg_malloc(FG_MAX((size_t)names->n_nodes, 1) * sizeof *placed);
    bool *live = find_live(names, sums);
    struct fg_tree tree;

    fg_tree_init(&tree);
    for (uint32_t i = 0; i < names->n_nodes; i++) {
        uint32_t above = names->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        if (live[i])
            placed[i] = fg_tree_child(
                &tree, parent,
                fg_symbols_name_location(&tree.symbols, names->names[names->name_numbers[i]]));
    }
    for (uint32_t i = 0; i < names->n_from; i++)
        if (sums[i] != 0)
            fg_tree_add(&tree,
                        names->nodes[i] == FG_TREE_ROOT ? FG_TREE_ROOT : placed[names->nodes[i]],
                        (int64_t)sums[i]);
    fg_crown_sum_take_tree(crowning->into, &tree);
    fg_tree_done(&tree);
    free(live);
    free(placed);
}

static enum fg_code add_part(void *arg, const struct part *part, struct fg_arena *arena,
                             struct fg_err *err)
{
    const struct crowning *crowning = arg;
    const struct fg_name_tree *names = names_of(part->tree_entry);

    (void)arena;
    if (is_plain(part))
        add_crown(crowning, names, (const int64_t *)part->sums);
    else
        add_whole(crowning, names, part->sums);
    if (fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return blocks_too_large(err);
    return FG_OK;
}

/* ---- crowns of merged nodes ---- */

/* A crown that came before the names it is over. */
struct early {
    struct fg_cache_entry *entry;
    uint32_t row;
    struct early *next;
};

/* Of a part, while its crowns come in. */
struct taking {
    const struct fg_name_tree *names; /* NULL: they are not there yet */
    struct fg_cache_entry *names_entry;
    struct fg_crown_adding adding;
    struct early *early;
    uint32_t left; /* crowns to come */
};

struct crowns {
    const struct crowning *crowning;
    struct reader *reader;
    struct taking *takings; /* by part */
};

static void open_taking(struct crowns *crowns, struct taking *taking,
                        const struct fg_name_tree *names)
{
    taking->names = names;
    fg_crown_adding_init(&taking->adding, crowns->crowning->into, names);
}

static void close_taking(struct taking *taking)
{
    if (taking->names != NULL)
        fg_crown_adding_done(&taking->adding);
    for (struct early *early = taking->early; early != NULL; early = early->next)
        fg_cache_unref(early->entry);
    fg_cache_unref(taking->names_entry);
    *taking = (struct taking){0};
}

static enum fg_code add_node(struct crowns *crowns, const struct part *part, struct taking *taking,
                             uint32_t row, struct fg_slice bytes, struct fg_err *err)
{
    struct fg_arena *arena = crowns->reader->arena;
    struct fg_arena_mark mark = fg_arena_mark(arena);
    const struct crowning *crowning = crowns->crowning;
    struct fg_crown crown;

    if (fg_nodes_crown_parse(&part->nodes->rows[row], taking->names, bytes, arena, &crown, err) !=
        FG_OK)
        return err->code;
    fg_crown_add(&taking->adding, &crown);
    crowning->facts->negatives = crowning->facts->negatives || crown.has_negatives;
    fg_arena_release(arena, mark);
    if (fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return blocks_too_large(err);
    if (--taking->left == 0)
        close_taking(taking);
    return FG_OK;
}

static enum fg_code put_early(struct crowns *crowns, struct taking *taking,
                              const struct fetch_item *item, struct fg_err *err)
{
    struct early *early = fg_arena_new(crowns->reader->arena, struct early, 1);

    if (early == NULL)
        return blocks_too_large(err);
    *early = (struct early){fg_cache_ref(item->entry), item->number, taking->early};
    taking->early = early;
    return FG_OK;
}

static enum fg_code take_names(struct crowns *crowns, struct taking *taking,
                               const struct fetch_item *item, struct fg_err *err)
{
    struct early *early = taking->early;
    enum fg_code code = FG_OK;

    taking->names_entry = fg_cache_ref(item->entry);
    taking->early = NULL;
    open_taking(crowns, taking, node_names_of(item->entry));
    for (; early != NULL; early = early->next) {
        if (code == FG_OK)
            code = add_node(crowns, item->part, taking, early->row, page_of(early->entry), err);
        fg_cache_unref(early->entry);
    }
    return code;
}

static enum fg_code visit_crown(void *arg, const struct fetch_item *item, struct fg_err *err)
{
    struct crowns *crowns = arg;
    struct taking *taking = &crowns->takings[item->part - crowns->reader->parts];

    if (item->thing == &thing_node_names)
        return take_names(crowns, taking, item, err);
    if (taking->names == NULL)
        return put_early(crowns, taking, item, err);
    return add_node(crowns, item->part, taking, item->number, page_of(item->entry), err);
}

/* A part without names has crowns of nothing. */
static enum fg_code list_crowns(struct crowns *crowns, uint32_t number, struct fetch_list *list,
                                struct fg_err *err)
{
    static const struct fg_name_tree no_names;
    struct fg_arena *arena = crowns->reader->arena;
    struct part *part = &crowns->reader->parts[number];

    crowns->takings[number].left = part->n_crowns;
    if (part->n_crowns == 0)
        return FG_OK;
    if (part->nodes->names.bytes + (uint64_t)part->nodes->dict.bytes == 0)
        open_taking(crowns, &crowns->takings[number], &no_names);
    else if (fetch_add_node_names(list, arena, part, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_crowns; i++)
        if (fetch_add_node(list, arena, part, &part->crowns[i], 0, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code take_crowns(void *arg, struct reader *reader, struct fg_err *err)
{
    struct crowns crowns = {.crowning = arg, .reader = reader};
    struct fetch_list list = {0};
    enum fg_code code = FG_OK;

    crowns.takings = fg_arena_new(reader->arena, struct taking, reader->n_found);
    if (crowns.takings == NULL)
        return blocks_too_large(err);
    for (uint32_t i = 0; code == FG_OK && i < reader->n_found; i++)
        code = list_crowns(&crowns, i, &list, err);
    if (code == FG_OK)
        code = fetch_all(reader->question, &list, visit_crown, &crowns, err);
    for (uint32_t i = 0; i < reader->n_found; i++)
        close_taking(&crowns.takings[i]);
    return code;
}

/* full: of merged nodes only full ones will do then, unless there are no others, and of sums
 * nothing is left out. */
enum fg_code blocks_picture(struct question *question, const struct selection *selection,
                            const struct stacks *stacks, bool full, struct fg_crown_sum *into,
                            struct picture_facts *facts, struct fg_err *err)
{
    const struct blocks *blocks = question->querier->blocks;
    struct crowning crowning = {.blocks = blocks, .into = into, .facts = facts};
    struct select_taker taker = {.take_crowns = take_crowns,
                                 .full = full,
                                 .stacks = &thing_names,
                                 .take = add_part,
                                 .arg = &crowning};

    fg_assert(stacks->n_call_site == 0);
    if (question->snapshot == NULL)
        return FG_OK;
    crowning.max_nodes = full ? UINT32_MAX : blocks->crown_nodes;
    return select_sums(question, selection, stacks, &taker, &facts->sample_bytes, err);
}
