#include "tests/lib/committed.h"

#include "common/cluster/manifest/snapshot_core.h"
#include "common/model/flame.h"
#include "common/storage/block/verify.h"
#include "common/storage/rollup/reader.h"
#include "common/storage/rollup/verify.h"

enum { OBJECT_MAX_BYTES = 64 << 20 };

struct reading {
    struct fg_arena *arena;
    struct fg_slice file;
    const char *tenant, *type;
    struct fg_tree *tree;
    uint64_t n_nodes;
};

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fg_assert_failed(err->msg, __FILE__, __LINE__);
}

static struct fg_slice bytes_of(const struct reading *reading, struct fg_block_range range)
{
    return fg_slice_sub(reading->file, (size_t)range.offset, (size_t)range.len);
}

static struct fg_slice page_bytes(const struct reading *reading, const struct fg_block_page *page)
{
    return bytes_of(reading, (struct fg_block_range){page->offset, page->bytes});
}

/* Values of one type of one series. */
static void sum_series(const struct reading *reading, const struct fg_block_index *index,
                       const struct fg_block_series_row *series, uint32_t type, uint64_t *sums)
{
    const struct fg_block_pages *pages = &index->pages[FG_BLOCK_SMP];
    struct fg_block_samples *samples = fg_block_samples_create(SIZE_MAX);
    struct fg_err err;

    for (uint32_t p = 0; p < pages->count; p++) {
        must(fg_block_samples_open(samples, index, p, page_bytes(reading, &pages->pages[p]), &err),
             &err);
        for (uint32_t i = 0; i < series->n_chunks; i++)
            must(fg_block_samples_sum(samples, index->chunks[series->chunks[i]].first,
                                      index->chunks[series->chunks[i]].count, type, sums, &err),
                 &err);
    }
    fg_block_samples_destroy(samples);
}

static bool is_type(const struct fg_block_schema *schema, uint32_t type, const char *wanted)
{
    char name[128];

    (void)snprintf(name, sizeof name, "%.*s:%.*s", FG_S(schema->types[type].type),
                   FG_S(schema->types[type].unit));
    return strcmp(name, wanted) == 0;
}

static void read_part(const struct reading *reading, const struct fg_block_part *part)
{
    uint64_t *sums = fg_arena_new(reading->arena, uint64_t, part->n_stacks);
    struct fg_block_index index;
    struct fg_block_tree stacks;
    struct fg_tree values;
    struct fg_err err;

    must(fg_block_part_parse(part,
                             bytes_of(reading, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                             reading->arena, &index, &err),
         &err);
    must(fg_block_tree_parse(&index,
                             bytes_of(reading, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                             reading->arena, &stacks, &err),
         &err);
    for (uint32_t s = 0; s < index.n_series; s++)
        for (uint32_t t = 0; t < index.series[s].schema->n_types; t++)
            if (is_type(index.series[s].schema, t, reading->type))
                sum_series(reading, &index, &index.series[s], t, sums);
    must(fg_block_tree_values(&stacks, sums, reading->arena, &values, &err), &err);
    fg_tree_merge(reading->tree, &values);
}

static void read_nodes(struct reading *reading, const struct fg_block_part *part)
{
    struct fg_block_range nod = fg_rollup_ranges(part).nod;
    struct fg_rollups nodes;
    struct fg_err err;

    if (nod.len == 0)
        return;
    must(fg_rollup_verify(part, reading->file, SIZE_MAX, &err), &err);
    must(fg_rollup_verify_sums(part, reading->file, SIZE_MAX, &err), &err);
    must(fg_rollups_parse(part, bytes_of(reading, nod), reading->arena, &nodes, &err), &err);
    reading->n_nodes += nodes.n_rows;
}

static void read_object(struct reading *reading)
{
    struct fg_block_directory directory;
    struct fg_block_verified verified;
    uint64_t offset;
    struct fg_err err;

    must(fg_block_verify(reading->file, NULL, SIZE_MAX, &verified, &err), &err);
    must(fg_block_directory_offset(reading->file, reading->file.len, &offset, &err), &err);
    must(fg_block_directory_parse(fg_slice_sub(reading->file, (size_t)offset, SIZE_MAX),
                                  reading->file.len, NULL, reading->arena, &directory, &err),
         &err);
    for (uint32_t p = 0; p < directory.n_parts; p++) {
        read_nodes(reading, &directory.parts[p]);
        if (fg_slice_is(directory.parts[p].tenant, reading->tenant))
            read_part(reading, &directory.parts[p]);
    }
}

static void get(struct fg_bucket *bucket, const char *name, struct fg_bucket_request *ret_get)
{
    *ret_get = (struct fg_bucket_request){
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = OBJECT_MAX_BYTES};
    if (fg_bucket_call(bucket, ret_get) != FG_E_NOT_FOUND)
        must(ret_get->code, &ret_get->err);
}

static void write_lines(const struct fg_tree *tree, struct fg_buf *lines)
{
    if (tree->root_self != 0)
        fg_buf_printf(lines, " %lld\n", (long long)tree->root_self);
    fg_flame_write_folded(tree, lines);
}

/* Adds the object's values to the tree and returns its number of rollups. *ret_bytes: its size. */
static uint64_t add_object(struct fg_bucket *bucket, const char *name, const char *tenant,
                           const char *type, struct fg_tree *tree, uint64_t *ret_bytes)
{
    struct reading reading = {
        .arena = fg_arena_create(SIZE_MAX), .tenant = tenant, .type = type, .tree = tree};
    struct fg_bucket_request object;

    get(bucket, name, &object);
    fg_assert(object.code == FG_OK);
    reading.file = fg_buf_slice(&object.body);
    read_object(&reading);
    *ret_bytes = object.body.len;
    fg_bucket_clear(&object);
    fg_arena_destroy(reading.arena);
    return reading.n_nodes;
}

void committed_read_object(struct fg_bucket *bucket, const char *name, const char *tenant,
                           const char *type, struct fg_buf *lines)
{
    struct fg_tree tree;
    uint64_t bytes;

    fg_tree_init(&tree);
    (void)add_object(bucket, name, tenant, type, &tree, &bytes);
    fg_buf_clear(lines);
    write_lines(&tree, lines);
    fg_tree_done(&tree);
}

struct fg_manifest *committed_manifest(struct fg_bucket *bucket)
{
    struct fg_bucket_request l0;
    struct fg_manifest *manifest;
    struct fg_err err;

    get(bucket, FG_NAME_L0, &l0);
    must(fg_manifest_l0(fg_buf_slice(&l0.body), fg_cstr(l0.etag.text), &manifest, &err), &err);
    fg_bucket_clear(&l0);
    return manifest;
}

struct fg_manifest *committed_blocks(struct fg_bucket *bucket, const char *tenant)
{
    struct fg_bucket_request blocks;
    struct fg_manifest *manifest;
    char name[FG_NAME_MAX_BYTES];
    struct fg_err err;

    must(fg_name_blocks(name, fg_cstr(tenant), &err), &err);
    get(bucket, name, &blocks);
    must(fg_manifest_blocks(fg_buf_slice(&blocks.body),
                            fg_cstr(blocks.code == FG_OK ? blocks.etag.text : ""), fg_cstr(tenant),
                            &manifest, &err),
         &err);
    fg_bucket_clear(&blocks);
    return manifest;
}

struct committed committed_read(struct fg_bucket *bucket, const char *tenant, const char *type,
                                struct fg_buf *lines)
{
    struct committed committed = {0};
    struct fg_manifest *manifest = committed_manifest(bucket);
    struct fg_tree tree;

    fg_tree_init(&tree);
    committed.generation = manifest->l0.generation;
    committed.n_segments = manifest->l0.n_segments;
    for (uint32_t i = 0; i < manifest->l0.n_segments; i++) {
        const struct fg_l0_segment *segment = &manifest->l0.segments[i];

        committed.n_profiles += segment->profiles;
        char name[FG_NAME_MAX_BYTES];
        uint64_t bytes;

        fg_name_segment(name, &segment->id);
        committed.n_nodes += add_object(bucket, name, tenant, type, &tree, &bytes);
        fg_assert(bytes == segment->bytes);
        committed.digest = fg_id_add(committed.digest, segment->digest);
    }
    fg_buf_clear(lines);
    write_lines(&tree, lines);
    fg_tree_done(&tree);
    fg_manifest_unref(manifest);
    return committed;
}
