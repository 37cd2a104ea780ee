/*
 * The parsers behind the checksums. The first byte chooses a block (two are of the oldest version
 * of the format, two of the newest), the second a page of it, its
 * page table (254) or the directory (255); the rest takes that one's place, and all checksums and
 * lengths are made right. Then everything is read that can be read, whatever failed before.
 */
#include "common/storage/block/verify.h"
#include "tests/lib/block_make.h"
#include "tests/lib/block_repack.h"

enum { MAX_BYTES = 16 * 1024 * 1024, BLOCKS = 4 };

static struct fg_arena *bases_arena;
static struct repack bases[BLOCKS];

static void make_bases(void)
{
    bases_arena = fg_arena_create(1 << 24);
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct made_block *block = made_block_create(i + 1, i != 3);
        struct fg_block_summary summary;
        struct fg_buf file;
        struct fg_err err;

        block->version = i < 2 ? FG_BLOCK_VERSION_LEAST : FG_BLOCK_VERSION;
        fg_buf_init(&file, 1 << 24);
        fg_assert(made_block_write(block, 0, &file, &summary, &err) == FG_OK);
        repack_take(fg_buf_slice(&file), bases_arena, &bases[i]);
        fg_buf_done(&file);
        free(block);
    }
}

static struct fg_slice page_of(struct fg_slice file, const struct fg_block_index *index,
                               uint32_t kind, uint32_t page)
{
    const struct fg_block_page *row = &index->pages[kind].pages[page];

    return fg_slice_sub(file, row->offset, row->bytes);
}

static void read_samples(struct fg_slice file, const struct fg_block_index *index,
                         struct fg_arena *arena)
{
    fg_auto(fg_block_samples) *samples = fg_block_samples_create(MAX_BYTES);
    uint64_t *sums = fg_arena_new(arena, uint64_t, index->part->n_stacks);
    struct fg_block_exemplars exemplars;
    struct fg_err err;

    for (uint32_t i = 0; sums != NULL && i < index->pages[FG_BLOCK_SMP].count; i++) {
        if (fg_block_samples_open(samples, index, i, page_of(file, index, FG_BLOCK_SMP, i), &err) !=
            FG_OK)
            continue;
        for (uint32_t t = 0; t < 5; t++)
            (void)!fg_block_samples_sum(samples, 0, UINT32_MAX, t, sums, &err);
    }
    for (uint32_t i = 0; i < index->pages[FG_BLOCK_EXM].count; i++)
        (void)!fg_block_exemplars_parse(index, i, page_of(file, index, FG_BLOCK_EXM, i), arena,
                                        &exemplars, &err);
}

static void read_tree(struct fg_slice file, const struct fg_block_index *index,
                      struct fg_arena *arena)
{
    struct fg_block_range range = fg_block_part_range(index->part, FG_BLOCK_WANT_TREE);
    struct fg_block_tree tree;
    struct fg_tree view, names;
    struct fg_err err;
    uint64_t *sums;

    if (fg_block_tree_parse(index, fg_slice_sub(file, range.offset, range.len), arena, &tree,
                            &err) != FG_OK)
        return;
    sums = fg_arena_new(arena, uint64_t, tree.n_stacks);
    if (sums == NULL || fg_block_tree_values(&tree, sums, arena, &view, &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < view.n_nodes; i++)
        view.self[i] = 1;
    fg_tree_init(&names);
    fg_tree_names(&view, &names);
    fg_tree_done(&names);
}

static void read_names(struct fg_slice file, const struct fg_block_index *index,
                       struct fg_arena *arena)
{
    struct fg_block_range range = fg_block_part_range(index->part, FG_BLOCK_WANT_FUNCTION_TREE);
    struct fg_function_values values;
    struct fg_function_tree names;
    struct fg_err err;
    int64_t *self;

    if (range.len == 0 ||
        fg_block_function_tree_parse(index, fg_slice_sub(file, range.offset, range.len), arena,
                                     &names, &err) != FG_OK)
        return;
    self = fg_arena_new(arena, int64_t, names.n_from);
    if (self == NULL)
        return;
    fg_function_values_init(&values, &names);
    fg_function_values_set(&values, &names, self);
    fg_function_values_done(&values);
}

static void select_series(const struct fg_block_index *index, struct fg_arena *arena)
{
    struct fg_selector selector = {0};
    struct fg_block_match *matches;
    struct fg_err err;
    uint32_t count;

    fg_assert(fg_selector_parse(FG_LIT("{region!=\"eu\",__type__=~\".*e.*\"}"), arena, &selector,
                                &err) == FG_OK);
    if (fg_block_select(index, &selector, arena, &matches, &count, &err) == FG_OK)
        for (uint32_t i = 0; i < count; i++)
            (void)fg_block_profile_type(&index->series[matches[i].series], matches[i].type);
    fg_selector_done(&selector);
}

static void read_part(struct fg_slice file, const struct fg_block_part *part,
                      struct fg_arena *arena)
{
    struct fg_block_range range = fg_block_part_range(part, FG_BLOCK_WANT_SERIES);
    struct fg_block_index index;
    struct fg_profile_size *sizes;
    struct fg_block_rows rows;
    struct fg_err err;

    if (fg_block_part_parse(part, fg_slice_sub(file, range.offset, range.len), arena, &index,
                            &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < index.pages[FG_BLOCK_IDX].count; i++) {
        (void)!fg_block_rows_parse(&index, i, page_of(file, &index, FG_BLOCK_IDX, i), arena, &rows,
                                   &err);
        (void)!fg_block_totals_parse(&index, i, page_of(file, &index, FG_BLOCK_IDX, i), arena,
                                     &rows, &err);
    }
    for (uint32_t i = 0; i < index.pages[FG_BLOCK_USE].count; i++)
        (void)!fg_block_sizes_parse(&index, i, page_of(file, &index, FG_BLOCK_USE, i), arena,
                                    &sizes, &err);
    select_series(&index, arena);
    read_tree(file, &index, arena);
    read_names(file, &index, arena);
    read_samples(file, &index, arena);
}

static void read_file(struct fg_slice file)
{
    fg_auto(fg_arena) *arena = fg_arena_create(MAX_BYTES);
    struct fg_block_directory directory;
    struct fg_block_verified verified;
    struct fg_err err;
    uint64_t offset;

    (void)!fg_block_verify(file, NULL, MAX_BYTES, &verified, &err);
    fg_assert(fg_block_directory_offset(file, file.len, &offset, &err) == FG_OK);
    if (fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL, arena,
                                 &directory, &err) != FG_OK)
        return;
    for (uint32_t i = 0; i < FG_MIN(directory.n_parts, 4u); i++)
        read_part(file, &directory.parts[i], arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fg_slice rest = fg_slice_sub(fg_bytes(data, size), 2, SIZE_MAX);
    struct repack repack;
    struct fg_buf file;

    if (bases_arena == NULL)
        make_bases();
    if (size < 2)
        return 0;
    repack = bases[data[0] % BLOCKS];
    if (data[1] == 255)
        repack.directory = rest;
    else if (data[1] == 254)
        repack.table = rest;
    else if (data[1] == 253)
        repack.groups = rest;
    else
        repack.pages[data[1] % repack.n_pages].raw = rest;
    fg_buf_init(&file, 1 << 24);
    repack_write(&repack, &file);
    read_file(fg_buf_slice(&file));
    fg_buf_done(&file);
    return 0;
}
