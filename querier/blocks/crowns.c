/*
 * Crowns of parts: those of rollups, and those made from sums of samples. Making one drops the
 * nodes that are too light for any flame graph before any name is looked up. With the function tree
 * of a part in the cache, only the nodes that are kept are hashed, and of these only those that are
 * not in the order of the part before.
 */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/samples.h"

struct crowning {
    const struct qry_blocks *blocks;
    uint32_t max_nodes; /* of a part */
    struct fg_crown_sum *into;
    struct qry_flamegraph_facts *facts;
};

/* Returns true if the part can become a crown. Values below zero, of which a crown says little, and
 * sums beyond 63 bits, which it cannot hold, make the part be added as a whole. */
static bool is_plain(const struct qry_part *part)
{
    uint64_t all = 0;

    for (uint32_t i = 0; i < part->entry->n_stacks; i++)
        if (part->sums[i] > INT64_MAX || (all += part->sums[i]) > INT64_MAX)
            return false;
    return true;
}

/* What becomes of a part. */
struct crowned {
    const struct fg_function_tree *functions;
    bool whole; /* a tree; else a crown */
    struct fg_tree tree;
    struct fg_crown crown;
};

static void make_crown(const struct crowning *crowning, const int64_t *sums,
                       struct crowned *crowned)
{
    struct fg_function_values values;

    fg_function_values_init(&values, crowned->functions);
    fg_function_values_set(&values, crowned->functions, sums);
    fg_crown_make(crowned->functions, &values, crowning->max_nodes, &crowned->crown);
    fg_function_values_done(&values);
}

static void add_crown(const struct crowning *crowning, const struct crowned *crowned)
{
    struct fg_crown_adding adding;

    fg_crown_adding_init(&adding, crowning->into, crowned->functions);
    fg_crown_add(&adding, &crowned->crown);
    fg_crown_adding_done(&adding);
}

/* Finds the nodes that have a value, of their own or below them, even if it adds up to zero. */
static bool *find_live(const struct fg_function_tree *functions, const uint64_t *sums)
{
    bool *live = fg_calloc(FG_MAX((size_t)functions->n_nodes, 1), sizeof *live);

    for (uint32_t i = 0; i < functions->n_from; i++)
        if (sums[i] != 0)
            /* By stack, before they are added up: +5 and -5 in one function are samples, though
             * their sum is zero. */
            live[functions->nodes[i]] = true;
    /* Parents have smaller numbers than their children, so one pass from the end reaches the root.
     */
    for (uint32_t i = functions->n_nodes; i-- > 0;)
        if (live[i] && functions->parents[i] != FG_TREE_ROOT)
            live[functions->parents[i]] = true;
    return live;
}

static void make_whole(const struct fg_function_tree *functions, const uint64_t *sums,
                       struct fg_tree *tree)
{
    uint32_t *placed = fg_malloc(FG_MAX((size_t)functions->n_nodes, 1) * sizeof *placed);
    bool *live = find_live(functions, sums);

    fg_tree_init(tree);
    for (uint32_t i = 0; i < functions->n_nodes; i++) {
        uint32_t above = functions->parents[i];
        uint32_t parent = above == FG_TREE_ROOT ? FG_TREE_ROOT : placed[above];

        if (live[i])
            placed[i] =
                fg_tree_child(tree, parent,
                              fg_symbols_name_location(&tree->symbols,
                                                       functions->names[functions->functions[i]]));
    }
    for (uint32_t i = 0; i < functions->n_from; i++)
        if (sums[i] != 0)
            fg_tree_add(tree, placed[functions->nodes[i]], (int64_t)sums[i]);
    free(live);
    free(placed);
}

static enum fg_code make_part(void *arg, const struct qry_part *part, struct fg_arena *arena,
                              void **ret_made, struct fg_err *err)
{
    struct crowned *crowned = fg_arena_new(arena, struct crowned, 1);

    if (crowned == NULL)
        return qry_query_too_large(err);
    crowned->functions = qry_function_tree_of(part->tree_entry);
    crowned->whole = !is_plain(part);
    if (crowned->whole)
        make_whole(crowned->functions, part->sums, &crowned->tree);
    else
        make_crown(arg, (const int64_t *)part->sums, crowned);
    *ret_made = crowned;
    return FG_OK;
}

static enum fg_code add_part(void *arg, void *made, struct fg_err *err)
{
    const struct crowning *crowning = arg;
    struct crowned *crowned = made;

    if (crowned->whole)
        fg_crown_sum_take_tree(crowning->into, &crowned->tree);
    else
        add_crown(crowning, crowned);
    /* After each part, since names differ by service: how large the sum gets is known only now. */
    if (fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return qry_query_too_large(err);
    return FG_OK;
}

static void drop_part(void *made)
{
    struct crowned *crowned = made;

    if (crowned->whole)
        fg_tree_done(&crowned->tree);
    else
        fg_crown_done(&crowned->crown);
}

/* ---- crowns of rollups ---- */

struct crowns {
    const struct crowning *crowning;
    struct qry_reader *reader;
    struct taking *takings; /* by part */
};

/* A crown: parsed by a helper, then added. */
struct crown_task {
    struct fg_task task;
    struct crowns *crowns;
    struct taking *taking;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct fg_arena *arena;
    struct fg_crown crown; /* in the arena */
    struct crown_task *next;
};

/* Of a part, while its crowns come in. */
struct taking {
    const struct fg_function_tree *functions; /* NULL: they are not there yet */
    struct fg_cache_entry *functions_entry;
    struct fg_crown_adding adding;
    struct crown_task *early; /* crowns that came before their function tree */
    uint32_t left;            /* crowns to come */
};

static void open_taking(struct crowns *crowns, struct taking *taking,
                        const struct fg_function_tree *functions)
{
    taking->functions = functions;
    fg_crown_adding_init(&taking->adding, crowns->crowning->into, functions);
}

static void crown_task_destroy(struct crown_task *crown)
{
    fg_cache_unref(crown->entry);
    fg_arena_destroy(crown->arena);
    free(crown);
}

static void close_taking(struct taking *taking)
{
    struct crown_task *early;

    if (taking->functions != NULL)
        fg_crown_adding_done(&taking->adding);
    while ((early = taking->early) != NULL) {
        taking->early = early->next;
        crown_task_destroy(early);
    }
    fg_cache_unref(taking->functions_entry);
    *taking = (struct taking){0};
}

static enum fg_code run_crown(struct fg_task *task, struct fg_err *err)
{
    struct crown_task *crown = fg_container(task, struct crown_task, task);
    const struct qry_reader *reader = crown->crowns->reader;
    const struct fg_rollup_row *row = &crown->item->part->rollups->rows[crown->item->number];

    if (qry_query_check(reader->query, err) != FG_OK)
        return err->code;
    crown->arena = fg_arena_create(reader->blocks->memory_max_bytes);
    if (fg_rollup_crown_parse(row, crown->taking->functions, qry_page_of(crown->entry),
                              crown->arena, &crown->crown, err) != FG_OK)
        return qry_fetch_fail(crown->item, err);
    return FG_OK;
}

static enum fg_code add_parsed(const struct crowning *crowning, struct taking *taking,
                               const struct fg_crown *crown, struct fg_err *err)
{
    fg_crown_add(&taking->adding, crown);
    crowning->facts->negatives = crowning->facts->negatives || crown->has_negatives;
    if (fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return qry_query_too_large(err);
    fg_assert(taking->left > 0);
    if (--taking->left == 0)
        close_taking(taking);
    return FG_OK;
}

static enum fg_code end_crown(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct crown_task *crown = fg_container(task, struct crown_task, task);
    enum fg_code code =
        ran ? add_parsed(crown->crowns->crowning, crown->taking, &crown->crown, err) : FG_OK;

    if (code != FG_OK)
        (void)qry_fetch_fail(crown->item, err);
    crown_task_destroy(crown);
    return code;
}

static void put_crown(struct crowns *crowns, struct crown_task *crown)
{
    fg_task_group_put(crowns->reader->query->snapshot->task_group, &crown->task);
}

static void take_functions(struct crowns *crowns, struct taking *taking,
                           const struct qry_fetch_item *item)
{
    struct crown_task *crown;

    taking->functions_entry = fg_cache_ref(item->entry);
    open_taking(crowns, taking, qry_function_tree_of(item->entry));
    while ((crown = taking->early) != NULL) {
        taking->early = crown->next;
        put_crown(crowns, crown);
    }
}

static enum fg_code visit_crown(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct crowns *crowns = arg;
    struct taking *taking = &crowns->takings[item->part - crowns->reader->parts];
    struct crown_task *crown;

    (void)err;
    if (item->type == &qry_cached_rollup_functions) {
        take_functions(crowns, taking, item);
        return FG_OK;
    }
    crown = fg_new(struct crown_task);
    *crown = (struct crown_task){.task = {.run = run_crown, .end = end_crown},
                                 .crowns = crowns,
                                 .taking = taking,
                                 .item = item,
                                 .entry = fg_cache_ref(item->entry),
                                 .next = taking->early};
    if (taking->functions != NULL)
        put_crown(crowns, crown);
    else
        taking->early = crown;
    return FG_OK;
}

/* Lists the crowns of a part, and the function tree that they refer to. A part without functions
 * has crowns of nothing. */
static enum fg_code list_crowns(struct crowns *crowns, uint32_t number, struct qry_fetch_list *list,
                                struct fg_err *err)
{
    static const struct fg_function_tree no_functions;
    struct fg_arena *arena = crowns->reader->arena;
    struct qry_part *part = &crowns->reader->parts[number];

    crowns->takings[number].left = part->n_crowns;
    if (part->n_crowns == 0)
        return FG_OK;
    if (part->rollups->names.bytes + (uint64_t)part->rollups->dict.bytes == 0)
        open_taking(crowns, &crowns->takings[number], &no_functions);
    else if (qry_fetch_add_rollup_functions(list, arena, part, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_crowns; i++)
        if (qry_fetch_add_rollup(list, arena, part, &part->crowns[i], 0, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code take_crowns(void *arg, struct qry_reader *reader, struct fg_err *err)
{
    struct crowns crowns = {.crowning = arg, .reader = reader};
    struct qry_fetch_list list = {0};
    enum fg_code code = FG_OK;

    crowns.takings = fg_arena_new(reader->arena, struct taking, reader->n_found);
    if (crowns.takings == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; code == FG_OK && i < reader->n_found; i++)
        code = list_crowns(&crowns, i, &list, err);
    if (code == FG_OK)
        code = qry_fetch_all(reader->query, &list, visit_crown, &crowns, err);
    for (uint32_t i = 0; i < reader->n_found; i++)
        close_taking(&crowns.takings[i]);
    return code;
}

/* full: uses full rollups only, except for parts that have nothing else, and keeps all nodes of
 * sums. */
enum fg_code qry_blocks_crowns(struct qry_query *query, const struct qry_selection *selection,
                               const struct qry_stack_filter *stacks, bool full,
                               struct fg_crown_sum *into, struct qry_flamegraph_facts *facts,
                               struct fg_err *err)
{
    const struct qry_blocks *blocks = query->querier->blocks;
    struct crowning crowning = {.blocks = blocks, .into = into, .facts = facts};
    struct qry_samples_taker taker = {.take_crowns = take_crowns,
                                      .full = full,
                                      .stacks = &qry_cached_function_tree,
                                      .make = make_part,
                                      .take = add_part,
                                      .drop = drop_part,
                                      .arg = &crowning};

    fg_assert(stacks->n_call_site == 0);
    if (query->snapshot == NULL)
        return FG_OK;
    crowning.max_nodes = full ? UINT32_MAX : blocks->crown_nodes;
    return qry_samples_sum(query, selection, stacks, &taker, &facts->sample_bytes, err);
}
