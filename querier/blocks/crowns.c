/*
 * Crowns of parts: those of rollups, and those made from sums of samples. Making one drops the
 * nodes that are too light for any flame graph before any name is looked at. Each becomes a layer
 * (common/storage/rollup/crown_layer.h) on the thread that made it; layers are added up in pairs
 * (layers.h).
 */
#include "querier/blocks/blocks.h"
#include "querier/blocks/cached_objects.h"
#include "querier/blocks/layers.h"
#include "querier/blocks/samples.h"

enum { CROWNS_MIN = 4 }; /* times a crown's nodes has a tree of which one is made */

struct crowning {
    const struct qry_blocks *blocks;
    struct fg_task_group *task_group;
    bool full;                       /* all nodes of a part, else its crown */
    struct fg_crown_sum *into, *all; /* all: once a piece has ended */
    struct fg_crown_sum piece;
    struct qry_flamegraph_facts *facts;
    bool negatives;           /* of what was added before the piece */
    struct qry_layers layers; /* of a batch of parts, or of the crowns of rollups */
};

/* What the sum may still need. */
static void begin_layers(struct crowning *crowning, uint32_t count)
{
    uint64_t max_bytes = crowning->blocks->memory_max_bytes;

    qry_layers_init(&crowning->layers, crowning->task_group, count,
                    max_bytes - FG_MIN(max_bytes, fg_crown_sum_bytes(crowning->into)));
}

/* Adds the layers to the sum. failed: they are dropped. */
static enum fg_code end_layers(struct crowning *crowning, bool failed, struct fg_err *err)
{
    struct fg_crown_layer *sum = NULL;
    enum fg_code code = failed ? FG_OK : qry_layers_finish(&crowning->layers, &sum, err);

    qry_layers_done(&crowning->layers);
    if (sum != NULL)
        fg_crown_sum_put(crowning->into, sum);
    if (code == FG_OK && fg_crown_sum_bytes(crowning->into) > crowning->blocks->memory_max_bytes)
        return qry_query_too_large(err);
    return code;
}

/* ---- parts ---- */

/* Returns true if the part should become a crown. Values below zero, of which a crown says little,
 * and sums beyond 63 bits, which it cannot hold, make the part be added as a whole. So does a tree
 * that is not much larger than a crown: choosing the nodes costs more than adding all of them, and
 * nothing is uncertain then. */
static bool is_for_crown(const struct crowning *crowning, const struct qry_part *part)
{
    const struct fg_function_tree *functions = qry_function_tree_of(part->tree_entry);
    uint64_t all = 0;

    if (crowning->full || functions->n_nodes / CROWNS_MIN < crowning->blocks->crown_nodes)
        return false;
    for (uint32_t i = 0; i < part->entry->n_stacks; i++)
        if (part->sums[i] > INT64_MAX || (all += part->sums[i]) > INT64_MAX)
            return false;
    return true;
}

static struct fg_crown_layer *make_crown(const struct crowning *crowning,
                                         struct fg_cache_entry *tree_entry, const int64_t *sums)
{
    const struct fg_function_tree *functions = qry_function_tree_of(tree_entry);
    struct fg_function_values values;
    struct fg_crown_layer *layer;
    struct fg_crown crown;

    fg_function_values_init(&values, functions);
    fg_function_values_set(&values, functions, sums);
    fg_crown_make(functions, &values, crowning->blocks->crown_nodes, &crown);
    layer = fg_crown_layer_of_crown(functions, qry_function_names_of(tree_entry), &crown);
    fg_crown_done(&crown);
    fg_function_values_done(&values);
    return layer;
}

static void begin_parts(void *arg, uint32_t count)
{
    begin_layers(arg, count);
}

static enum fg_code make_part(void *arg, const struct qry_part *part, struct fg_arena *arena,
                              void **ret_made, struct fg_err *err)
{
    const struct crowning *crowning = arg;

    (void)arena, (void)err;
    if (is_for_crown(crowning, part))
        *ret_made = make_crown(crowning, part->tree_entry, (const int64_t *)part->sums);
    else
        *ret_made = fg_crown_layer_of_sums(qry_function_tree_of(part->tree_entry),
                                           qry_function_names_of(part->tree_entry), part->sums, 0);
    return FG_OK;
}

static enum fg_code take_part(void *arg, uint32_t number, void *made, struct fg_err *err)
{
    struct crowning *crowning = arg;

    return qry_layers_put(&crowning->layers, number, made, err);
}

static enum fg_code end_parts(void *arg, bool failed, struct fg_err *err)
{
    return end_layers(arg, failed, err);
}

static void drop_part(void *made)
{
    fg_crown_layer_destroy(made);
}

/* ---- crowns of rollups ---- */

struct crowns {
    struct crowning *crowning;
    struct qry_reader *reader;
    struct qry_fetch_list list;
    struct taking *takings;          /* by part */
    struct fg_crown_names *no_names; /* of a part without functions */
};

/* A crown, on its way to a layer. */
struct crown_task {
    struct fg_task task;
    struct crowns *crowns;
    struct taking *taking;
    const struct qry_fetch_item *item;
    struct fg_cache_entry *entry;
    struct fg_crown_layer *layer;
    bool has_negatives;
    struct crown_task *next;
};

/* Of a part, while its crowns come in. */
struct taking {
    bool is_open;                     /* the function tree is there, or the part has none */
    struct fg_cache_entry *functions; /* NULL: it has none */
    struct crown_task *early;         /* crowns that came before their function tree */
};

static void crown_task_destroy(struct crown_task *crown)
{
    fg_cache_unref(crown->entry);
    free(crown);
}

static void close_taking(struct taking *taking)
{
    struct crown_task *early;

    while ((early = taking->early) != NULL) {
        taking->early = early->next;
        crown_task_destroy(early);
    }
    fg_cache_unref(taking->functions);
    *taking = (struct taking){0};
}

static enum fg_code parse_crown(struct crown_task *crown, struct fg_arena *arena,
                                struct fg_err *err)
{
    static const struct fg_function_tree no_functions;
    const struct fg_rollup_row *row = &crown->item->part->rollups->rows[crown->item->number];
    struct fg_cache_entry *entry = crown->taking->functions;
    const struct fg_function_tree *functions =
        entry == NULL ? &no_functions : qry_function_tree_of(entry);
    struct fg_crown_names *names =
        entry == NULL ? crown->crowns->no_names : qry_function_names_of(entry);
    struct fg_crown parsed;

    if (fg_rollup_crown_parse(row, functions, qry_page_of(crown->entry), arena, &parsed, err) !=
        FG_OK)
        return err->code;
    crown->layer = fg_crown_layer_of_crown(functions, names, &parsed);
    crown->has_negatives = parsed.has_negatives;
    return FG_OK;
}

static enum fg_code run_crown(struct fg_task *task, struct fg_err *err)
{
    struct crown_task *crown = fg_container(task, struct crown_task, task);
    const struct qry_reader *reader = crown->crowns->reader;
    struct fg_arena *arena;
    enum fg_code code;

    if (qry_query_check(reader->query, err) != FG_OK)
        return err->code;
    arena = fg_arena_create(reader->blocks->memory_max_bytes);
    code = parse_crown(crown, arena, err);
    fg_arena_destroy(arena);
    return code == FG_OK ? FG_OK : qry_fetch_fail(crown->item, err);
}

static enum fg_code end_crown(struct fg_task *task, bool ran, struct fg_err *err)
{
    struct crown_task *crown = fg_container(task, struct crown_task, task);
    struct crowning *crowning = crown->crowns->crowning;
    enum fg_code code = FG_OK;

    if (ran) {
        crowning->facts->negatives = crowning->facts->negatives || crown->has_negatives;
        /* Items have an order, so the number depends on what is read only. */
        code =
            qry_layers_put(&crowning->layers, (uint32_t)(crown->item - crown->crowns->list.items),
                           crown->layer, err);
    }
    if (code != FG_OK)
        (void)qry_fetch_fail(crown->item, err);
    crown_task_destroy(crown);
    return code;
}

static void put_crown(struct crowns *crowns, struct crown_task *crown)
{
    fg_task_group_put(crowns->crowning->task_group, &crown->task);
}

static enum fg_code visit_crown(void *arg, const struct qry_fetch_item *item, struct fg_err *err)
{
    struct crowns *crowns = arg;
    struct taking *taking = &crowns->takings[item->part - crowns->reader->parts];
    struct crown_task *crown;

    (void)err;
    if (item->type == &qry_cached_rollup_functions) {
        taking->functions = fg_cache_ref(item->entry);
        taking->is_open = true;
        while ((crown = taking->early) != NULL) {
            taking->early = crown->next;
            put_crown(crowns, crown);
        }
        return FG_OK;
    }
    crown = fg_new(struct crown_task);
    *crown = (struct crown_task){.task = {.run = run_crown, .end = end_crown},
                                 .crowns = crowns,
                                 .taking = taking,
                                 .item = item,
                                 .entry = fg_cache_ref(item->entry),
                                 .next = taking->early};
    if (taking->is_open)
        put_crown(crowns, crown);
    else
        taking->early = crown;
    return FG_OK;
}

/* Lists the crowns of a part, and the function tree that they refer to. A part without functions
 * has crowns of nothing. */
static enum fg_code list_crowns(struct crowns *crowns, uint32_t number, struct fg_err *err)
{
    struct fg_arena *arena = crowns->reader->arena;
    struct qry_part *part = &crowns->reader->parts[number];

    if (part->n_crowns == 0)
        return FG_OK;
    if (part->rollups->names.bytes + (uint64_t)part->rollups->dict.bytes == 0)
        crowns->takings[number].is_open = true;
    else if (qry_fetch_add_rollup_functions(&crowns->list, arena, part, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < part->n_crowns; i++)
        if (qry_fetch_add_rollup(&crowns->list, arena, part, &part->crowns[i], 0, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static enum fg_code take_crowns(void *arg, struct qry_reader *reader, bool of_piece,
                                struct fg_err *err)
{
    struct crowns crowns = {.crowning = arg, .reader = reader};
    enum fg_code code = FG_OK;

    crowns.takings = fg_arena_new(reader->arena, struct taking, reader->n_found);
    if (crowns.takings == NULL)
        return qry_query_too_large(err);
    for (uint32_t i = 0; code == FG_OK && i < reader->n_found; i++)
        if (reader->parts[i].in_piece == of_piece)
            code = list_crowns(&crowns, i, err);
    if (code != FG_OK || crowns.list.n == 0)
        return code;
    crowns.no_names = fg_crown_names_create(&(struct fg_function_tree){0});
    begin_layers(crowns.crowning, crowns.list.n);
    code = qry_fetch_all(reader->query, &crowns.list, visit_crown, &crowns, err);
    if (end_layers(crowns.crowning, code != FG_OK, err) != FG_OK)
        code = err->code;
    for (uint32_t i = 0; i < reader->n_found; i++)
        close_taking(&crowns.takings[i]);
    fg_crown_names_unref(crowns.no_names);
    return code;
}

/* ---- pieces ---- */

static void add_piece(void *arg, const struct qry_piece *piece)
{
    struct crowning *crowning = arg;

    crowning->facts->negatives = crowning->facts->negatives || piece->negatives;
    if (piece->layer != NULL)
        fg_crown_sum_put(crowning->into, fg_crown_layer_copy(piece->layer));
}

static void begin_piece(void *arg)
{
    struct crowning *crowning = arg;

    fg_crown_sum_init(&crowning->piece);
    crowning->all = crowning->into;
    crowning->into = &crowning->piece;
    crowning->negatives = crowning->facts->negatives;
    crowning->facts->negatives = false;
}

static void end_piece(void *arg, struct qry_piece *ret_piece)
{
    struct crowning *crowning = arg;

    *ret_piece = (struct qry_piece){.layer = fg_crown_sum_take(&crowning->piece),
                                    .negatives = crowning->facts->negatives};
    fg_crown_sum_done(&crowning->piece);
    crowning->into = crowning->all;
    crowning->facts->negatives = crowning->negatives;
}

/* In full: uses full rollups only, except for parts that have nothing else, and keeps all nodes of
 * sums. */
enum fg_code qry_blocks_crowns(struct qry_query *query, const struct qry_selection *selection,
                               const struct qry_stack_filter *stacks,
                               const struct qry_crowns_full *full, struct fg_crown_sum *into,
                               struct qry_flamegraph_facts *facts, struct fg_err *err)
{
    const struct qry_blocks *blocks = query->querier->blocks;
    struct crowning crowning = {.blocks = blocks, .into = into, .facts = facts};
    struct qry_samples_taker taker = {.take_crowns = take_crowns,
                                      .add_piece = add_piece,
                                      .begin_piece = begin_piece,
                                      .end_piece = end_piece,
                                      .full = full != NULL,
                                      .max_sample_bytes =
                                          full == NULL ? UINT64_MAX : full->max_sample_bytes,
                                      .stacks = &qry_cached_function_tree,
                                      .begin = begin_parts,
                                      .make = make_part,
                                      .take = take_part,
                                      .end = end_parts,
                                      .drop = drop_part,
                                      .arg = &crowning};

    fg_assert(stacks->n_call_site == 0);
    if (query->snapshot == NULL)
        return FG_OK;
    crowning.task_group = query->snapshot->task_group;
    crowning.full = full != NULL;
    return qry_samples_sum(query, selection, stacks, &taker, &facts->sample_bytes, err);
}
