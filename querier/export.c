#include "querier/export.h"

#include "common/cluster/manifest/blocks.h"
#include "common/cluster/manifest/l0.h"
#include "proto/builder/builder.h"
#include "querier/collect.h"
#include "querier/fanout.h"

#include <stdlib.h>

static void begin_export(struct qry_query *query, struct querier *querier,
                         const struct qry_export *what)
{
    /* Limits of the tenant do not apply: an export is of all that is kept. */
    *query = (struct qry_query){
        .querier = querier,
        .tenants = {.ids = {what->tenant}, .n = 1},
        .start_mono_ns = fg_mono_ns(querier->clock),
        .deadline_mono_ns = what->deadline_mono_ns,
        .arena = fg_arena_create(querier->answer_max_bytes),
        .partial = what->partial,
    };
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
}

static void end_export(struct qry_query *query, struct qry_selection *selection,
                       const struct qry_export *what)
{
    /* Several calls for one export lack the same. */
    if (query->incomplete && what->missing != NULL && what->missing->len == 0)
        fg_buf_put(what->missing, fg_buf_slice(&query->missing));
    qry_selection_done(selection);
    qry_fanout_end(query);
    fg_buf_done(&query->missing);
    fg_arena_destroy(query->arena);
}

static enum fg_code select_what(struct qry_query *query, const struct qry_export *what,
                                const char *type, struct qry_selection *selection,
                                struct fg_err *err)
{
    if (qry_selection_range(query, selection, what->start_ms, what->end_ms, err) != FG_OK)
        return err->code;
    return qry_selection_profiles(query, selection, type, what->selector, err);
}

/* ---- types ---- */

static int cmp_slices(const void *a, const void *b)
{
    return fg_slice_cmp(*(const struct fg_slice *)a, *(const struct fg_slice *)b);
}

static enum fg_code copy_types(const struct qry_label_sets *sets, struct fg_arena *arena,
                               struct fg_slice **ret_ids, size_t *ret_n, struct fg_err *err)
{
    struct fg_slice *ids = fg_arena_new(arena, struct fg_slice, sets->n);
    size_t n = 0;

    for (size_t i = 0; ids != NULL && i < sets->n; i++) {
        ids[n] = fg_arena_copy(arena, fg_labels_get(&sets->items[i], FG_LABEL_PROFILE_TYPE));
        /* The arena is full; the condition ends the loop. */
        if (ids[n++].ptr == NULL)
            ids = NULL;
    }
    if (ids == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many profile types");
    /* Sorted, so that messages that list them are the same each time. */
    qsort(ids, n, sizeof *ids, cmp_slices);
    *ret_ids = ids;
    *ret_n = n;
    return FG_OK;
}

enum fg_code qry_export_types(struct querier *querier, const struct qry_export *what,
                              struct fg_arena *arena, struct fg_slice **ret_ids, size_t *ret_n,
                              struct fg_err *err)
{
    static const char *const names[] = {FG_LABEL_PROFILE_TYPE};
    struct qry_selection selection = {0};
    struct qry_query query;
    struct qry_label_sets sets;

    begin_export(&query, querier, what);
    qry_label_sets_init(&sets);
    enum fg_code code = select_what(&query, what, NULL, &selection, err);
    if (code == FG_OK)
        code = qry_collect_series(&query, &selection, names, FG_COUNT(names), &sets, err);
    if (code == FG_OK)
        code = copy_types(&sets, arena, ret_ids, ret_n, err);
    qry_label_sets_done(&sets);
    end_export(&query, &selection, what);
    return code;
}

/* ---- merged ---- */

/* Merges in full, without crowns: an export has exact numbers. */
enum fg_code qry_export_tree(struct querier *querier, const struct qry_export *what,
                             bool names_only, struct fg_tree *into, struct fg_err *err)
{
    static const struct qry_stack_filter all = {0};
    struct qry_selection selection = {0};
    struct qry_query query;

    begin_export(&query, querier, what);
    enum fg_code code = select_what(&query, what, what->type, &selection, err);
    if (code == FG_OK)
        code = qry_collect_tree(&query, &selection, &all, names_only, into, err);
    end_export(&query, &selection, what);
    return code;
}

/* ---- one by one ---- */

struct export_writer {
    qry_export_visit visit;
    void *arg;
    struct fg_buf pprof;
};

static enum fg_code write_profile(void *arg, const struct qry_one_profile *profile,
                                  struct fg_err *err)
{
    struct export_writer *writer = arg;

    /* One buffer for all profiles: the visitor copies or writes the bytes before it returns. */
    fg_buf_clear(&writer->pprof);
    fg_pprof_write_samples(profile->tree, &profile->samples, &profile->head, &writer->pprof);
    if (writer->pprof.full)
        return fg_fail(err, FG_E_LIMIT, "a profile of more than %zu bytes",
                       writer->pprof.max_bytes);
    return writer->visit(writer->arg,
                         &(struct qry_export_profile){.labels = profile->labels,
                                                      .id = profile->id,
                                                      .time_ns = profile->head.time_ns,
                                                      .pprof = fg_buf_slice(&writer->pprof)},
                         err);
}

enum fg_code qry_export_profiles(struct querier *querier, const struct qry_export *what,
                                 qry_export_visit visit, void *arg, uint64_t *ret_profiles,
                                 struct fg_err *err)
{
    struct export_writer writer = {.visit = visit, .arg = arg};
    struct qry_selection selection = {0};
    struct qry_query query;

    begin_export(&query, querier, what);
    fg_buf_init(&writer.pprof, querier->answer_max_bytes);
    enum fg_code code = select_what(&query, what, what->type, &selection, err);
    if (code == FG_OK)
        code = qry_fanout_begin(&query, err);
    if (code == FG_OK)
        code = qry_blocks_need_profiles(&query, &selection, "single profiles", err);
    if (code == FG_OK)
        code = qry_collect_profiles(&query, &selection, write_profile, &writer, err);
    if (code == FG_OK)
        *ret_profiles = query.profiles;
    fg_buf_done(&writer.pprof);
    end_export(&query, &selection, what);
    return code;
}

/* ---- as batches ---- */

struct export_batcher {
    qry_export_batch_visit visit;
    void *arg;
    size_t max_bytes; /* of the memory of one batch */
};

/* A batch that is being made of one profile. */
struct export_batch {
    const struct qry_one_profile *from;
    struct fg_arena *arena;
    struct fg_symbols symbols; /* those of its stacks alone */
    struct fg_builder *builder;
    struct fg_map nodes; /* node of the tree -> stack */
    struct fg_batch batch;
};

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "a profile needs more memory than an answer may use");
}

/* Seeded: who sends the stacks may choose which nodes have samples. */
static uint64_t node_hash(uint32_t node)
{
    return fg_mix64(node ^ fg_hash_seed());
}

/* Returns the stack that ends in a node; FG_MAP_NONE: it has none yet. */
static uint32_t find_stack(const struct export_batch *making, const uint32_t *node_of,
                           uint32_t node)
{
    struct fg_map_walk walk;
    uint32_t stack;

    for (stack = fg_map_first(&making->nodes, node_hash(node), &walk); stack != FG_MAP_NONE;
         stack = fg_map_next(&making->nodes, &walk))
        if (node_of[stack] == node)
            break;
    return stack;
}

/* Numbers the stacks of the samples. node_of[] gets the node of each. */
static enum fg_code number_stacks(struct export_batch *making, uint32_t *node_of,
                                  uint64_t *ret_depths, struct fg_err *err)
{
    const struct fg_pprof_samples *samples = &making->from->samples;
    struct fg_profile *profile = making->batch.profiles;

    for (uint32_t i = 0; i < samples->count; i++) {
        uint32_t node = samples->nodes[i], stack = find_stack(making, node_of, node);

        if (stack == FG_MAP_NONE) {
            stack = making->batch.n_stacks++;
            node_of[stack] = node;
            if (!fg_map_add_in(&making->nodes, making->arena, node_hash(node), stack))
                return too_large(err);
            for (; node != FG_TREE_ROOT; node = making->from->tree->parents[node])
                ++*ret_depths;
        }
        profile->stacks[i] = stack;
    }
    return FG_OK;
}

/* Lists the locations of each stack, by the numbers of the batch's own table. */
static enum fg_code list_locations(struct export_batch *making, const uint32_t *node_of,
                                   uint64_t depths, struct fg_err *err)
{
    const struct fg_tree *tree = making->from->tree;
    struct fg_batch *batch = &making->batch;
    struct fg_symbols_import import;

    batch->stack_locations =
        depths > UINT32_MAX ? NULL : fg_arena_new(making->arena, uint32_t, depths);
    if (batch->stack_locations == NULL)
        return too_large(err);
    fg_symbols_import_init(&import, &making->symbols, &tree->symbols);
    for (uint32_t i = 0; i < batch->n_stacks; i++) {
        batch->stacks[i].first = batch->n_stack_locations;
        for (uint32_t node = node_of[i]; node != FG_TREE_ROOT; node = tree->parents[node])
            batch->stack_locations[batch->n_stack_locations++] =
                fg_symbols_import_location(&import, tree->locations[node]);
        batch->stacks[i].depth = batch->n_stack_locations - batch->stacks[i].first;
    }
    fg_symbols_import_done(&import);
    return FG_OK;
}

static enum fg_code make_stacks(struct export_batch *making, struct fg_err *err)
{
    static const struct fg_decode_limits limits = FG_DECODE_LIMITS_DEFAULT;
    struct fg_decode_counts unused = {0};
    struct fg_batch *batch = &making->batch;
    uint32_t count = making->from->samples.count;
    uint32_t *node_of = fg_arena_new(making->arena, uint32_t, count);
    uint64_t depths = 0;

    batch->stacks = fg_arena_new(making->arena, struct fg_stack, count);
    if (node_of == NULL || batch->stacks == NULL)
        return too_large(err);
    if (number_stacks(making, node_of, &depths, err) != FG_OK ||
        list_locations(making, node_of, depths, err) != FG_OK)
        return err->code;
    if (!fg_batch_take_symbols(batch, &making->symbols, making->arena))
        return too_large(err);
    making->builder = fg_builder_create(making->arena, &limits, batch, &unused);
    if (making->builder == NULL)
        return too_large(err);
    if (fg_builder_hash_locations(making->builder, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        batch->stacks[i].id =
            fg_builder_stack_id(making->builder, batch->stack_locations + batch->stacks[i].first,
                                batch->stacks[i].depth);
    return FG_OK;
}

static enum fg_code make_batch(struct export_batch *making, struct fg_err *err)
{
    const struct qry_one_profile *from = making->from;
    struct fg_batch *batch = &making->batch;
    struct fg_profile *profile = fg_arena_new(making->arena, struct fg_profile, 1);

    if (profile == NULL)
        return too_large(err);
    *profile = (struct fg_profile){
        .id = from->id,
        .labels = *from->labels,
        .time_ns = from->head.time_ns,
        .duration_ns = from->head.duration_ns,
        .period = from->head.period,
        .n_samples = from->samples.count,
        .stacks = fg_arena_new(making->arena, uint32_t, from->samples.count),
        /* Borrowed for the visit, which only reads them. */
        .values = (int64_t *)(uintptr_t)from->samples.values,
        .links = (struct fg_link *)(uintptr_t)from->samples.links,
        .n_links = from->samples.n_links,
    };
    if (profile->stacks == NULL)
        return too_large(err);
    batch->profiles = profile;
    batch->n_profiles = 1;
    batch->types = (struct fg_value_type *)(uintptr_t)from->samples.types;
    batch->n_types = from->samples.n_types;
    batch->period_type =
        (struct fg_value_type){from->head.type.period_type, from->head.type.period_unit};
    return make_stacks(making, err);
}

static enum fg_code batch_profile(void *arg, const struct qry_one_profile *profile,
                                  struct fg_err *err)
{
    const struct export_batcher *batcher = arg;
    struct export_batch making = {.from = profile, .arena = fg_arena_create(batcher->max_bytes)};
    enum fg_code code;

    fg_symbols_init(&making.symbols);
    code = make_batch(&making, err);
    if (code == FG_OK)
        code = batcher->visit(batcher->arg, &making.batch, err);
    fg_symbols_done(&making.symbols);
    fg_arena_destroy(making.arena);
    return code == FG_E_TOO_LARGE ? err->code = FG_E_LIMIT : code;
}

enum fg_code qry_export_batches(struct querier *querier, const struct qry_export *what,
                                qry_export_batch_visit visit, void *arg, struct fg_err *err)
{
    struct export_batcher batcher = {visit, arg, querier->answer_max_bytes};
    struct qry_selection selection = {0};
    struct qry_query query;
    enum fg_code code;

    begin_export(&query, querier, what);
    code = select_what(&query, what, what->type, &selection, err);
    if (code == FG_OK)
        code = qry_collect_profiles(&query, &selection, batch_profile, &batcher, err);
    end_export(&query, &selection, what);
    return code;
}

/* ---- numbers of profiles ---- */

/* How many of profiles between two times are in the range, if they are spread evenly. */
static uint64_t part_of(uint64_t profiles, int64_t t_min_ns, int64_t t_max_ns,
                        const struct qry_selection *range)
{
    int64_t from_ns = FG_MAX(t_min_ns, range->start_ns), to_ns = FG_MIN(t_max_ns, range->end_ns);

    if (from_ns > to_ns)
        return 0;
    if (from_ns == t_min_ns && to_ns == t_max_ns)
        return profiles;
    return (uint64_t)((double)profiles * ((double)to_ns - (double)from_ns + 1) /
                      ((double)t_max_ns - (double)t_min_ns + 1));
}

static uint64_t count_profiles(const struct qry_query *query, const struct qry_export *what,
                               const struct qry_selection *range)
{
    const struct fg_blocks *blocks = qry_blocks_manifest(query, 0);
    const struct fg_l0 *l0 = qry_blocks_l0(query);
    uint32_t tenant = l0 == NULL ? FG_L0_NO_TENANT : fg_l0_tenant(l0, what->tenant);
    uint64_t profiles = 0;

    for (uint32_t i = 0; blocks != NULL && i < blocks->n_blocks; i++) {
        const struct fg_blocks_entry *entry = &blocks->blocks[i];

        if (!entry->derived && !entry->rollup_only)
            profiles += part_of(entry->profiles, entry->t_min_ns, entry->t_max_ns, range);
    }
    for (uint32_t i = 0; tenant != FG_L0_NO_TENANT && i < l0->n_segments; i++) {
        const struct fg_l0_segment *segment = &l0->segments[i];
        const struct fg_l0_part *part = fg_l0_part(segment, tenant);

        if (part != NULL && (blocks == NULL || !fg_blocks_covers(blocks, segment->generation)))
            profiles += part_of(part->profiles, part->t_min_ns, part->t_max_ns, range);
    }
    return profiles;
}

enum fg_code qry_export_count(struct querier *querier, const struct qry_export *what,
                              struct qry_export_counts *ret_counts, struct fg_err *err)
{
    struct qry_selection selection = {0};
    struct qry_query query;
    enum fg_code code;

    begin_export(&query, querier, what);
    code = qry_selection_range(&query, &selection, what->start_ms, what->end_ms, err);
    if (code == FG_OK)
        code = qry_fanout_begin(&query, err);
    if (code == FG_OK)
        *ret_counts = (struct qry_export_counts){
            .profiles = count_profiles(&query, what, &selection),
            .lost = qry_blocks_lost_profiles(&query, &selection),
        };
    end_export(&query, &selection, what);
    return code;
}

/* ---- tenants ---- */

static enum fg_code copy_tenants(const struct fg_l0 *l0, struct fg_arena *arena,
                                 struct fg_slice **ret_ids, size_t *ret_n, struct fg_err *err)
{
    uint32_t n = l0 == NULL ? 0 : l0->n_tenants;
    struct fg_slice *ids = fg_arena_new(arena, struct fg_slice, n);

    if (ids == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many tenants");
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = fg_arena_copy(arena, l0->tenants[i].name);
        if (ids[i].ptr == NULL)
            return fg_fail(err, FG_E_LIMIT, "too many tenants");
    }
    *ret_ids = ids;
    *ret_n = n;
    return FG_OK;
}

enum fg_code qry_export_tenants(struct querier *querier, int64_t deadline_mono_ns,
                                struct fg_arena *arena, struct fg_slice **ret_ids, size_t *ret_n,
                                struct fg_err *err)
{
    const struct qry_export what = {.deadline_mono_ns = deadline_mono_ns};
    struct qry_selection selection = {0};
    struct qry_query query;
    enum fg_code code;

    begin_export(&query, querier, &what);
    query.tenants.n = 0; /* the L0 manifest alone */
    code = qry_fanout_begin(&query, err);
    if (code == FG_OK)
        code = copy_tenants(qry_blocks_l0(&query), arena, ret_ids, ret_n, err);
    end_export(&query, &selection, &what);
    return code;
}
