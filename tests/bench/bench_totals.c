/*
 * How large rollups are at each level, and whether the function tables among them say what the
 * raw profiles do: self and total of every function, of all there is of the stream's service.
 *
 *     bench_totals FOLDER     bench_fill's
 *
 * Everything is read. The plan of a question for all of it (common/storage/rollup/plan.h) says
 * which tables to add up; what it wants read raw has to be whole objects. The other side is counted
 * from samples, node by node, the slow and simple way.
 *
 * FOLDER/picture.txt is what samples add up to, as bench_months.py compares it with a server's
 * picture: the nodes of the tree of names cut to NODES, a line each: self value, a space, and the
 * names from the root with a tab between them.
 */
#include "common/base/time.h"
#include "common/cluster/manifest/manifest.h"
#include "common/model/flame.h"
#include "common/model/tenant_id.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/rollup/plan.h"
#include "tests/bench/stream.h"

#include <stdlib.h>

enum { PATH_BYTES = 4096, LEVELS_MAX = 8, NODES = 8192 };

#define TYPE FG_LIT("cpu")

/* Functions by number of their names in `names`. */
struct table {
    int64_t *self, *totals;
    uint32_t cap;
};

struct object {
    struct fg_rollups nodes;
    struct fg_slice head, tables; /* of CRN: the names; FTB */
    struct table raw;
};

/* Of all objects of a level, bytes. */
struct level {
    uint32_t objects;
    uint64_t all, nod, crn, ftb, ful;
};

struct tables {
    struct level levels[LEVELS_MAX];
    struct fg_bucket *bucket;
    struct fg_arena *arena;
    struct fg_symbols names;
    struct fg_tree whole; /* of names, of all samples */
    struct fg_plan_source *sources;
    struct object *objects;
    uint32_t n, cap;
};

/* ---- tables ---- */

static void table_add(struct table *table, uint32_t number, int64_t self, int64_t total)
{
    if (number >= table->cap) {
        uint32_t cap = (number + 1) * 2;

        table->self = fg_realloc(table->self, cap * sizeof *table->self);
        table->totals = fg_realloc(table->totals, cap * sizeof *table->totals);
        memset(table->self + table->cap, 0, (cap - table->cap) * sizeof *table->self);
        memset(table->totals + table->cap, 0, (cap - table->cap) * sizeof *table->totals);
        table->cap = cap;
    }
    table->self[number] = fg_value_add(table->self[number], self);
    table->totals[number] = fg_value_add(table->totals[number], total);
}

static void table_join(struct table *into, const struct table *from)
{
    for (uint32_t i = 0; i < from->cap; i++)
        table_add(into, i, from->self[i], from->totals[i]);
}

static bool is_below_itself(const struct fg_tree *tree, uint32_t node)
{
    for (uint32_t at = tree->parents[node]; at != FG_TREE_ROOT; at = tree->parents[at])
        if (tree->locations[at] == tree->locations[node])
            return true;
    return false;
}

/* tree: of names, where a name is a location. */
static void table_of(struct tables *tables, const struct fg_tree *tree, struct table *table)
{
    int64_t *totals = fg_calloc((size_t)tree->n_nodes + 1, sizeof *totals);

    (void)fg_tree_totals(tree, totals);
    for (uint32_t i = 0; i < tree->n_nodes; i++)
        table_add(table, fg_symbols_string(&tables->names, fg_tree_name(tree, i)), tree->self[i],
                  is_below_itself(tree, i) ? 0 : totals[i]);
    free(totals);
}

/* ---- objects ---- */

static void get(struct tables *tables, const char *name, struct fg_buf *out)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = SIZE_MAX};

    bench_must(fg_bucket_call(tables->bucket, &request), &request.err);
    *out = request.body;
    request.body = (struct fg_buf){0};
    fg_bucket_clear(&request);
}

static struct fg_slice range(struct fg_slice file, struct fg_block_range range)
{
    return fg_slice_sub(file, (size_t)range.offset, (size_t)range.len);
}

/* What the type adds up to in every stack of the part. */
static uint64_t *sum_samples(struct fg_slice file, const struct fg_block_index *index,
                             struct fg_arena *arena)
{
    const struct fg_block_pages *pages = &index->pages[FG_BLOCK_SMP];
    struct fg_block_samples *samples = fg_block_samples_create(SIZE_MAX);
    uint64_t *sums = fg_arena_new(arena, uint64_t, index->part->n_stacks);
    uint32_t type = 0;
    struct fg_err err;

    fg_assert(index->n_schemas == 1);
    while (!fg_slice_eq(index->schemas[0].types[type].type, TYPE))
        fg_assert(++type < index->schemas[0].n_types);
    for (uint32_t i = 0; i < pages->count; i++) {
        struct fg_block_range where = {pages->pages[i].offset, pages->pages[i].bytes};

        bench_must(fg_block_samples_open(samples, index, i, range(file, where), &err), &err);
        bench_must(fg_block_samples_sum(samples, 0, index->part->n_profiles, type, sums, &err),
                   &err);
    }
    fg_block_samples_destroy(samples);
    return sums;
}

static void read_raw(struct tables *tables, struct fg_slice file, const struct fg_block_part *part,
                     struct fg_arena *arena, struct table *table)
{
    struct fg_block_index index;
    struct fg_block_tree stacks;
    struct fg_tree view, names;
    struct fg_err err;

    bench_must(fg_block_part_parse(part,
                                   range(file, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                                   arena, &index, &err),
               &err);
    bench_must(fg_block_tree_parse(&index,
                                   range(file, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                                   arena, &stacks, &err),
               &err);
    bench_must(fg_block_tree_values(&stacks, sum_samples(file, &index, arena), arena, &view, &err),
               &err);
    fg_tree_init(&names);
    fg_tree_names(&view, &names);
    table_of(tables, &names, table);
    fg_tree_merge(&tables->whole, &names);
    fg_tree_done(&names);
}

static void read_nodes(struct tables *tables, struct fg_slice file,
                       const struct fg_block_part *part, struct object *object)
{
    struct fg_rollup_ranges ranges = fg_rollup_ranges(part);
    struct fg_err err;

    if (ranges.nod.len == 0)
        return;
    bench_must(fg_rollups_parse(part, range(file, ranges.nod), tables->arena, &object->nodes, &err),
               &err);
    object->head = fg_arena_copy(
        tables->arena, fg_slice_sub(range(file, ranges.crn), 0, object->nodes.names.bytes));
    object->tables = fg_arena_copy(tables->arena, range(file, ranges.ftb));
}

static void add_sizes(struct level *level, uint64_t file_bytes, const struct fg_block_part *part)
{
    struct fg_rollup_ranges ranges = fg_rollup_ranges(part);

    level->objects++;
    level->all += file_bytes;
    level->nod += ranges.nod.len;
    level->crn += ranges.crn.len;
    level->ftb += ranges.ftb.len;
    level->ful += ranges.ful.len;
}

static void show_sizes(const struct level *levels)
{
    printf(
        "| level | objects | kB an object | directory of nodes | names and crowns | tables | full "
        "nodes |\n|---|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < LEVELS_MAX; i++) {
        const struct level *level = &levels[i];
        double kb = 1e3 * level->objects;

        if (level->objects > 0)
            printf("| %u | %u | %.1f | %.1f | %.1f | %.1f | %.1f |\n", i, level->objects,
                   (double)level->all / kb, (double)level->nod / kb, (double)level->crn / kb,
                   (double)level->ftb / kb, (double)level->ful / kb);
    }
    printf("\n");
}

static void add_object(struct tables *tables)
{
    if (tables->n == tables->cap) {
        tables->cap = FG_MAX(256, tables->cap * 2);
        tables->sources = fg_realloc(tables->sources, tables->cap * sizeof *tables->sources);
        tables->objects = fg_realloc(tables->objects, tables->cap * sizeof *tables->objects);
    }
    tables->sources[tables->n] = (struct fg_plan_source){0};
    tables->objects[tables->n++] = (struct object){0};
}

static void read_object(struct tables *tables, const char *name, struct fg_id id)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_block_directory directory;
    const struct fg_block_part *part;
    struct fg_plan_source *source;
    struct object *object;
    struct fg_buf file;
    struct fg_err err;
    uint64_t offset;

    add_object(tables);
    source = &tables->sources[tables->n - 1];
    object = &tables->objects[tables->n - 1];
    get(tables, name, &file);
    bench_must(fg_block_directory_offset(fg_buf_slice(&file), file.len, &offset, &err), &err);
    bench_must(fg_block_directory_parse(fg_slice_sub(fg_buf_slice(&file), (size_t)offset, SIZE_MAX),
                                        file.len, NULL, arena, &directory, &err),
               &err);
    fg_assert(directory.n_parts == 1);
    fg_assert(directory.level < LEVELS_MAX);
    part = &directory.parts[0];
    add_sizes(&tables->levels[directory.level], file.len, part);
    read_nodes(tables, fg_buf_slice(&file), part, object);
    if (object->nodes.n_derived_from == 0)
        read_raw(tables, fg_buf_slice(&file), part, arena, &object->raw);
    *source = (struct fg_plan_source){.id = id,
                                      .t_min_ns = part->t_min_ns,
                                      .t_max_ns = part->t_max_ns,
                                      .n_profiles = part->n_profiles,
                                      .digest = part->digest,
                                      .raw_bytes = file.len};
    fg_buf_done(&file);
    fg_arena_destroy(arena);
}

static void read_blocks(struct tables *tables, const struct fg_l0 *l0)
{
    struct fg_manifest *manifest;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    struct fg_err err;

    bench_must(fg_name_blocks(name, FG_LIT(FG_TENANT_ONLY), &err), &err);
    get(tables, name, &bytes);
    bench_must(fg_manifest_blocks(fg_buf_slice(&bytes), FG_LIT("etag"), FG_LIT(FG_TENANT_ONLY),
                                  &manifest, &err),
               &err);
    for (uint32_t i = 0; i < manifest->blocks.n_blocks; i++) {
        struct fg_id id = manifest->blocks.blocks[i].id;

        bench_must(fg_name_block(name, FG_LIT(FG_TENANT_ONLY), id, &err), &err);
        read_object(tables, name, id);
    }
    for (uint32_t i = 0; i < l0->n_segments; i++)
        if (!fg_blocks_covers(&manifest->blocks, l0->segments[i].generation)) {
            fg_name_segment(name, &l0->segments[i].id);
            read_object(tables, name, (struct fg_id){0, l0->segments[i].generation});
        }
    fg_buf_done(&bytes);
    fg_manifest_unref(manifest);
}

static void read_all(struct tables *tables)
{
    struct fg_manifest *manifest;
    struct fg_buf bytes;
    struct fg_err err;

    get(tables, FG_NAME_L0, &bytes);
    bench_must(fg_manifest_l0(fg_buf_slice(&bytes), FG_LIT("etag"), &manifest, &err), &err);
    read_blocks(tables, &manifest->l0);
    fg_buf_done(&bytes);
    fg_manifest_unref(manifest);
    for (uint32_t i = 0; i < tables->n; i++)
        tables->sources[i].rollups =
            tables->objects[i].nodes.n_rows > 0 ? &tables->objects[i].nodes : NULL;
}

/* ---- the picture ---- */

static void put_node(FILE *file, const struct fg_tree *tree, uint32_t node)
{
    if (tree->parents[node] != FG_TREE_ROOT) {
        put_node(file, tree, tree->parents[node]);
        (void)fputc('\t', file);
    }
    (void)fprintf(file, "%.*s", FG_S(fg_tree_name(tree, node)));
}

static void write_picture(const struct tables *tables, const char *path)
{
    FILE *file = fopen(path, "we");
    struct fg_tree once, cut;

    if (file == NULL) {
        (void)fprintf(stderr, "bench_totals: %s cannot be written\n", path);
        exit(1);
    }
    fg_tree_init(&once);
    fg_tree_init(&cut);
    fg_tree_truncate(&tables->whole, NODES, &once);
    fg_tree_truncate(&once, NODES, &cut); /* as drawing does */
    for (uint32_t i = 0; i < cut.n_nodes; i++) {
        (void)fprintf(file, "%lld ", (long long)cut.self[i]);
        put_node(file, &cut, i);
        (void)fputc('\n', file);
    }
    (void)fclose(file);
    fg_tree_done(&once);
    fg_tree_done(&cut);
}

/* ---- the sum of nodes ---- */

static void add_pick(struct tables *tables, const struct fg_plan_pick *pick, struct table *sum)
{
    const struct object *object = &tables->objects[pick->source];
    const struct fg_rollup_row *row = &object->nodes.rows[pick->row];
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_TOTALS];
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_function_tree names;
    int64_t *self, *totals;
    struct fg_err err;

    bench_must(fg_rollup_functions_parse(&object->nodes, object->head, (struct fg_slice){NULL, 0},
                                         arena, &names, &err),
               &err);
    self = fg_arena_new(arena, int64_t, names.n_names);
    totals = fg_arena_new(arena, int64_t, names.n_names);
    bench_must(fg_rollup_totals_add(
                   row, &names, fg_slice_sub(object->tables, (size_t)place->offset, place->bytes),
                   pick->sign, arena, self, totals, &err),
               &err);
    for (uint32_t i = 0; i < names.n_names; i++)
        if (self[i] != 0 || totals[i] != 0)
            table_add(sum, fg_symbols_string(&tables->names, names.names[i]), self[i], totals[i]);
    fg_arena_destroy(arena);
}

static void add_raw(const struct tables *tables, const struct fg_plan_raw *raw, struct table *sum)
{
    const struct fg_plan_source *source = &tables->sources[raw->source];

    if (raw->kind != FG_ROLLUP_ALL || raw->start_ns > source->t_min_ns ||
        raw->end_ns < source->t_max_ns) {
        (void)fprintf(stderr, "bench_totals: a part of an object is to be read raw\n");
        exit(1);
    }
    table_join(sum, &tables->objects[raw->source].raw);
}

static struct fg_plan make_plan(struct tables *tables)
{
    const struct fg_selector all = {0};
    const struct fg_plan_query query = {
        .type = {FG_LIT("process_cpu"), TYPE, FG_LIT("nanoseconds"), TYPE, FG_LIT("nanoseconds")},
        .selector = &all,
        .start_ns = INT64_MIN / 2,
        .end_ns = INT64_MAX / 2,
        .form = FG_ROLLUP_TOTALS,
    };
    struct fg_plan plan;
    struct fg_err err;

    bench_must(fg_plan_make(&query, tables->sources, tables->n, tables->arena, &plan, &err), &err);
    return plan;
}

/* How many functions differ. */
static uint32_t compare(struct table *sum, struct table *raw, uint32_t n, int64_t *ret_self)
{
    uint32_t unlike = 0;

    table_add(sum, n, 0, 0); /* as long as there are names */
    table_add(raw, n, 0, 0);
    *ret_self = 0;
    for (uint32_t i = 0; i < n; i++) {
        unlike += sum->self[i] != raw->self[i] || sum->totals[i] != raw->totals[i];
        *ret_self = fg_value_add(*ret_self, raw->self[i]);
    }
    return unlike;
}

static void run(struct tables *tables)
{
    struct table sum = {0}, raw = {0};
    struct fg_plan plan;
    uint32_t unlike;
    int64_t self;

    read_all(tables);
    show_sizes(tables->levels);
    plan = make_plan(tables);
    for (uint32_t i = 0; i < plan.n_picks; i++)
        add_pick(tables, &plan.picks[i], &sum);
    for (uint32_t i = 0; i < plan.n_raws; i++)
        add_raw(tables, &plan.raws[i], &sum);
    for (uint32_t i = 0; i < tables->n; i++)
        table_join(&raw, &tables->objects[i].raw);
    unlike = compare(&sum, &raw, tables->names.n_strings, &self);
    printf("%u objects: tables of %u nodes and %u objects read raw; %u functions, %.0f s in all: ",
           tables->n, plan.n_picks, plan.n_raws, tables->names.n_strings - 1, (double)self / 1e9);
    if (unlike == 0)
        printf("the same as of all profiles\n");
    else
        printf("%u functions differ from those of all profiles\n", unlike);
    for (uint32_t i = 0; i < tables->n; i++) {
        free(tables->objects[i].raw.self);
        free(tables->objects[i].raw.totals);
    }
    free(sum.self);
    free(sum.totals);
    free(raw.self);
    free(raw.totals);
}

int main(int argc, char **argv)
{
    struct tables tables = {.arena = fg_arena_create(SIZE_MAX / 2)};
    char path[PATH_BYTES], picture[PATH_BYTES];
    struct fg_err err;

    if (argc != 2 || snprintf(path, sizeof path, "%s/bucket", argv[1]) >= PATH_BYTES ||
        snprintf(picture, sizeof picture, "%s/picture.txt", argv[1]) >= PATH_BYTES) {
        (void)fprintf(stderr, "usage: bench_totals FOLDER\n");
        return 2;
    }
    bench_must(
        fg_bucket_directory_open(
            &(struct fg_bucket_directory_config){.path = path, .threads = 2, .queue_max = 100},
            &tables.bucket, &err),
        &err);
    fg_symbols_init(&tables.names);
    fg_tree_init(&tables.whole);
    run(&tables);
    write_picture(&tables, picture);
    fg_bucket_close(tables.bucket);
    fg_symbols_done(&tables.names);
    fg_tree_done(&tables.whole);
    fg_arena_destroy(tables.arena);
    free(tables.sources);
    free(tables.objects);
    return 0;
}
