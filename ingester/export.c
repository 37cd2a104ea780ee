/*
 * Numbers change twice: nodes of the dictionary become places in `nodes`, which are the numbers of
 * stacks in the batch, and locations move into a small table of only those that are needed.
 */
#include "ingester/export.h"

#include "common/base/bits.h"

#include <stdlib.h>

/* Profiles of one batch. */
struct export_run {
    const struct ing_export_from *from;
    const struct ing_export_profile *profiles;
    size_t n;
    struct ing_dict *dict;
    struct ing_dict_view view;
    struct ing_record_columns columns; /* scratch */
    uint64_t *marks;                   /* the set of nodes that are named */
    uint32_t *ranks;                   /* see list_nodes() */
    uint32_t *nodes;                   /* the set, ascending */
    uint32_t n_nodes;
    bool *define; /* [n_nodes] */
    uint32_t n_defined;
    struct fg_batch batch;
    struct fg_err *err;
};

static enum fg_code no_memory(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "these profiles need more memory than they may use");
}

#define NEW(run, type, count) fg_arena_new((run)->from->arena, type, (count))

/* ---- which stacks ---- */

/* Adds the nodes of a record to the set. */
static enum fg_code mark_nodes(struct export_run *run, const struct ing_record *record)
{
    if (ing_record_read(record, 0, false, &run->columns, run->err) != FG_OK)
        return run->err->code;
    for (uint32_t i = 0; i < record->n_samples; i++) {
        uint32_t node = run->columns.nodes[i];

        if (node > run->view.tree.n_nodes)
            return fg_fail(run->err, FG_E_CORRUPT, "stored profile: node %u of %u", node,
                           run->view.tree.n_nodes);
        fg_bits_set(run->marks, node);
    }
    return FG_OK;
}

/* Lists the nodes of the set, ascending, and numbers them: ranks[w] is how many are before word w.
 */
static enum fg_code list_nodes(struct export_run *run, size_t n_words)
{
    uint32_t n = 0;

    for (size_t w = 0; w < n_words; w++) {
        run->ranks[w] = n;
        n += (uint32_t)__builtin_popcountll(run->marks[w]);
    }
    run->nodes = NEW(run, uint32_t, n);
    if (run->nodes == NULL)
        return no_memory(run->err);
    for (size_t w = 0; w < n_words; w++)
        for (uint64_t word = run->marks[w]; word != 0; word &= word - 1)
            run->nodes[run->n_nodes++] = (uint32_t)(64 * w) + (uint32_t)__builtin_ctzll(word);
    return FG_OK;
}

static enum fg_code find_nodes(struct export_run *run)
{
    size_t n_words = FG_BITS_WORDS((size_t)run->view.tree.n_nodes + 1);

    run->marks = NEW(run, uint64_t, n_words);
    run->ranks = NEW(run, uint32_t, n_words);
    if (run->marks == NULL || run->ranks == NULL)
        return no_memory(run->err);
    for (size_t i = 0; i < run->n; i++)
        if (mark_nodes(run, &run->profiles[i].record) != FG_OK)
            return run->err->code;
    return list_nodes(run, n_words);
}

/* ---- profiles ---- */

static int compare_links(const void *left, const void *right)
{
    const struct fg_link *a = left, *b = right;

    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    if (a->span_id != b->span_id)
        return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace_id, b->trace_id, FG_ID_BYTES);
}

/* A record has links in the order in which they came, and its samples in that of their nodes; a
 * batch has links in the order of their samples. */
static enum fg_code read_links(struct export_run *run, struct fg_profile *profile)
{
    const struct ing_record_columns *columns = &run->columns;

    profile->n_links = columns->n_links;
    profile->links = NEW(run, struct fg_link, profile->n_links);
    if (profile->links == NULL)
        return no_memory(run->err);
    if (profile->n_links == 0)
        return FG_OK;
    memcpy(profile->links, columns->links, profile->n_links * sizeof *profile->links);
    qsort(profile->links, profile->n_links, sizeof *profile->links, compare_links);
    return FG_OK;
}

static enum fg_code read_values(struct export_run *run, const struct ing_record *record,
                                struct fg_profile *profile)
{
    uint32_t n = record->n_samples;

    for (uint32_t t = 0; t < record->n_types; t++) {
        /* Links and size once, with the first type. */
        if (ing_record_read(record, t, t == 0, &run->columns, run->err) != FG_OK)
            return run->err->code;
        for (uint32_t i = 0; i < n; i++)
            profile->values[(size_t)t * n + i] = (int64_t)run->columns.values[i];
        if (t > 0)
            continue;
        profile->size = run->columns.size;
        if (read_links(run, profile) != FG_OK)
            return run->err->code;
    }
    return FG_OK;
}

static enum fg_code make_profile(struct export_run *run, const struct ing_export_profile *from,
                                 struct fg_profile *profile)
{
    const struct ing_record *record = &from->record;
    uint32_t n = record->n_samples;

    if (record->n_types != run->profiles[0].series->kind->n_types)
        return fg_fail(run->err, FG_E_CORRUPT, "stored profile: %u types, its series has %u",
                       record->n_types, run->profiles[0].series->kind->n_types);
    *profile = (struct fg_profile){
        .id = from->key.id,
        .labels = from->series->labels,
        .time_ns = from->key.time_ns,
        .duration_ns = record->duration_ns,
        .period = record->period,
        .n_samples = n,
        .stacks = NEW(run, uint32_t, n),
        .values = NEW(run, int64_t, (size_t)n * record->n_types),
    };
    if (profile->stacks == NULL || profile->values == NULL)
        return no_memory(run->err);
    if (read_values(run, record, profile) != FG_OK)
        return run->err->code;
    for (uint32_t i = 0; i < n; i++)
        profile->stacks[i] = fg_bits_rank(run->marks, run->ranks, run->columns.nodes[i]);
    return FG_OK;
}

static enum fg_code make_schema(struct export_run *run)
{
    const struct ing_series_kind *kind = run->profiles[0].series->kind;
    struct fg_batch *batch = &run->batch;

    batch->types = NEW(run, struct fg_value_type, kind->n_types);
    if (batch->types == NULL)
        return no_memory(run->err);
    for (uint32_t t = 0; t < kind->n_types; t++)
        batch->types[t] =
            (struct fg_value_type){kind->types[t].parts.type, kind->types[t].parts.unit};
    batch->n_types = kind->n_types;
    batch->period_type =
        (struct fg_value_type){kind->types[0].parts.period_type, kind->types[0].parts.period_unit};
    return FG_OK;
}

/* ---- definitions ---- */

/* Writes stacks as lists of locations, by the numbers of a small table that has only these. */
static enum fg_code make_stacks(struct export_run *run, const struct fg_tree *tree,
                                struct fg_symbols *symbols)
{
    struct fg_batch *batch = &run->batch;
    struct fg_symbols_import import;
    uint64_t depths = 0;
    uint32_t at = 0;

    if (run->n_defined == 0)
        return FG_OK; /* the steady state of forwarding */
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        uint32_t node = run->define[i] ? run->nodes[i] : 0;

        for (; node > 0; node = tree->parents[node - 1] + 1) /* FG_TREE_ROOT + 1 is 0 */
            depths++;
    }
    batch->stack_locations = depths > UINT32_MAX ? NULL : NEW(run, uint32_t, depths);
    if (batch->stack_locations == NULL)
        return no_memory(run->err);
    fg_symbols_import_init(&import, symbols, &tree->symbols);
    for (uint32_t i = 0; i < run->n_nodes; i++) {
        if (!run->define[i])
            continue;
        batch->stacks[i].first = at;
        for (uint32_t node = run->nodes[i]; node > 0; node = tree->parents[node - 1] + 1)
            batch->stack_locations[at++] =
                fg_symbols_import_location(&import, tree->locations[node - 1]);
        batch->stacks[i].depth = at - batch->stacks[i].first;
    }
    batch->n_stack_locations = at;
    fg_symbols_import_done(&import);
    return FG_OK;
}

static enum fg_code choose_stacks(struct export_run *run, void *arg)
{
    struct fg_batch *batch = &run->batch;

    run->define = NEW(run, bool, run->n_nodes);
    if (run->define == NULL)
        return no_memory(run->err);
    if (run->from->choose == NULL)
        memset(run->define, true, run->n_nodes * sizeof *run->define);
    else if (run->from->choose(arg, batch, run->profiles, run->define, run->err) != FG_OK)
        return run->err->code;
    for (uint32_t i = 0; i < run->n_nodes; i++)
        run->n_defined += run->define[i];
    batch->n_undefined = run->n_nodes - run->n_defined;
    return FG_OK;
}

static enum fg_code find_stacks(struct export_run *run, void *arg, struct fg_symbols *symbols)
{
    struct fg_batch *batch = &run->batch;
    struct fg_id *ids = NEW(run, struct fg_id, run->n_nodes);

    batch->stacks = NEW(run, struct fg_stack, run->n_nodes);
    batch->n_stacks = run->n_nodes;
    if (ids == NULL || batch->stacks == NULL)
        return no_memory(run->err);
    if (!ing_dict_view_ids(&run->view, run->marks, run->ranks, run->n_nodes, ids))
        return fg_fail(run->err, FG_E_CORRUPT,
                       "stored profile: a stack is missing from its dictionary");
    for (uint32_t i = 0; i < run->n_nodes; i++)
        batch->stacks[i] = (struct fg_stack){.id = ids[i], .depth = FG_STACK_UNDEFINED};
    return choose_stacks(run, arg) == FG_OK ? make_stacks(run, &run->view.tree, symbols)
                                            : run->err->code;
}

/* ---- batches ---- */

static enum fg_code make_batch(struct export_run *run, void *arg, struct fg_symbols *symbols)
{
    if (find_nodes(run) != FG_OK)
        return run->err->code;
    run->batch.profiles = NEW(run, struct fg_profile, run->n);
    if (run->batch.profiles == NULL)
        return no_memory(run->err);
    for (size_t i = 0; i < run->n; i++)
        if (make_profile(run, &run->profiles[i], &run->batch.profiles[i]) != FG_OK)
            return run->err->code;
    run->batch.n_profiles = (uint32_t)run->n;
    if (make_schema(run) != FG_OK || find_stacks(run, arg, symbols) != FG_OK)
        return run->err->code;
    return fg_batch_take_symbols(&run->batch, symbols, run->from->arena) ? FG_OK
                                                                         : no_memory(run->err);
}

enum fg_code ing_export_batch(const struct ing_export_from *from,
                              const struct ing_export_profile *profiles, size_t n,
                              ing_export_take take, void *arg, struct fg_err *err)
{
    struct export_run run = {.from = from, .profiles = profiles, .n = n, .err = err};
    struct fg_symbols symbols;
    enum fg_code code;

    if (ing_dict_ref(from->dicts, profiles[0].series->service->number,
                     profiles[0].record.generation, &run.dict, err) != FG_OK)
        return err->code;
    ing_dict_view_begin(run.dict, &run.view);
    fg_symbols_init(&symbols);
    code = make_batch(&run, arg, &symbols);
    if (code == FG_OK)
        code = take(arg, &run.batch, profiles,
                    &(struct ing_export_stacks){&run.view.tree, run.nodes}, err);
    fg_symbols_done(&symbols);
    ing_dict_view_end(run.dict, &run.view);
    ing_dict_unref(from->dicts, run.dict);
    ing_record_columns_done(&run.columns);
    return code;
}

/* ---- which profiles go together ---- */

/* A number that is the same for profiles of one batch, and orders the batches. */
static int cmp_batches(const struct ing_export_profile *a, const struct ing_export_profile *b)
{
    const struct ing_catalog_series *x = a->series, *y = b->series;

    if (x == NULL || y == NULL)
        return (x != NULL) - (y != NULL);
    if (x->service != y->service) /* of one tenant each */
        return x->service->number < y->service->number ? -1 : 1;
    if (a->record.generation != b->record.generation)
        return a->record.generation < b->record.generation ? -1 : 1;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return fg_id_cmp(x->kind->id, y->kind->id);
}

static int cmp_profiles(const void *left, const void *right)
{
    const struct ing_export_profile *a = left, *b = right;
    int batches = cmp_batches(a, b);

    if (batches != 0)
        return batches;
    if (a->key.series != b->key.series)
        return a->key.series < b->key.series ? -1 : 1;
    return (a->key.time_ns > b->key.time_ns) - (a->key.time_ns < b->key.time_ns);
}

void ing_export_sort(struct ing_catalog *catalog, struct ing_export_profile *profiles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t tenant = profiles[i].key.chunk.group.tenant;

        profiles[i].series =
            ing_catalog_has_tenant(catalog, tenant)
                ? ing_catalog_find_series(catalog, ing_catalog_tenant_at(catalog, tenant),
                                          profiles[i].key.series)
                : NULL;
    }
    if (n > 1)
        qsort(profiles, n, sizeof *profiles, cmp_profiles);
}

size_t ing_export_end(const struct ing_export_profile *profiles, size_t n, size_t i)
{
    size_t end = i + 1;

    while (end < n && cmp_batches(&profiles[i], &profiles[end]) == 0)
        end++;
    return end;
}
