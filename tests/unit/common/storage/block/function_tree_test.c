/* The names of a part's stacks: those that its tree gives, and no others. */
#include "common/storage/block/verify.h"
#include "tests/lib/block_make.h"
#include "tests/lib/block_repack.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024, SEEDS = 40 };

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void write_block(uint64_t seed, struct fg_buf *out, uint32_t *ret_named)
{
    struct made_block *block = made_block_create(seed, seed % 2 == 0);
    struct fg_block_summary summary;
    struct fg_err err;

    fg_buf_init(out, 1 << 26);
    must(made_block_write(block, seed, out, &summary, &err), &err);
    *ret_named = 0;
    for (uint32_t i = 0; i < block->n_parts; i++)
        *ret_named |= (uint32_t)block->parts[i].named << i;
    free(block);
}

/* Do two nodes of two trees have the same names from the root? */
static bool same_path(const struct fg_function_tree *names, uint32_t node,
                      const struct fg_tree *tree, uint32_t other)
{
    while (node != FG_TREE_ROOT && other != FG_TREE_ROOT) {
        if (!fg_slice_eq(names->names[names->functions[node]], fg_tree_name(tree, other)))
            return false;
        node = names->parents[node];
        other = tree->parents[other];
    }
    return node == other; /* both are at the root */
}

static bool is_outermost(const struct fg_function_tree *names, uint32_t node)
{
    for (uint32_t at = names->parents[node]; at != FG_TREE_ROOT; at = names->parents[at])
        if (names->functions[at] == names->functions[node])
            return false;
    return true;
}

/* The other way: each stack's names are looked for in a tree that grows. */
static void check_part(const struct fg_block_tree *tree, const struct fg_function_tree *names)
{
    uint32_t *nodes = fg_calloc((size_t)tree->tree.n_nodes + 1, sizeof *nodes), no_stack;
    struct fg_tree other;
    bool empty = false;

    for (uint32_t i = 0; i < tree->n_stacks; i++)
        empty = empty || tree->nodes[i] == 0;
    fg_tree_init(&other);
    fg_tree_name_all(&tree->tree, &other, nodes, empty ? &no_stack : NULL);
    assert_int_equal(names->n_from, tree->n_stacks);
    assert_int_equal(names->n_nodes, other.n_nodes);
    for (uint32_t i = 0; i < tree->n_stacks; i++)
        assert_true(same_path(names, names->nodes[i], &other,
                              tree->nodes[i] == 0 ? no_stack : nodes[tree->nodes[i] - 1]));
    for (uint32_t i = 0; i < names->n_nodes; i++)
        assert_int_equal(names->outermost[i], is_outermost(names, i));
    fg_tree_done(&other);
    free(nodes);
}

static struct fg_slice range(struct fg_slice file, const struct fg_block_part *part, unsigned want)
{
    struct fg_block_range range = fg_block_part_range(part, want);

    return fg_slice_sub(file, range.offset, range.len);
}

static void look_at_part(struct fg_slice file, const struct fg_block_part *part, bool named,
                         struct fg_arena *arena)
{
    struct fg_function_tree names;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_err err;

    assert_int_equal(fg_block_part_range(part, FG_BLOCK_WANT_FUNCTION_TREE).len > 0,
                     named && part->n_stacks > 0);
    if (!named || part->n_stacks == 0)
        return;
    must(fg_block_part_parse(part, range(file, part, FG_BLOCK_WANT_SERIES), arena, &index, &err),
         &err);
    must(fg_block_tree_parse(&index, range(file, part, FG_BLOCK_WANT_TREE), arena, &tree, &err),
         &err);
    must(fg_block_function_tree_parse(&index, range(file, part, FG_BLOCK_WANT_FUNCTION_TREE), arena,
                                      &names, &err),
         &err);
    check_part(&tree, &names);
}

static void function_tree_equals_that_of_the_stacks(void **state)
{
    uint32_t seen = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
        struct fg_block_directory directory;
        struct fg_buf bytes;
        struct fg_slice file;
        struct fg_err err;
        uint64_t offset;
        uint32_t named;

        print_message("  seed %u\n", (unsigned)seed);
        write_block(seed, &bytes, &named);
        file = fg_buf_slice(&bytes);
        must(fg_block_directory_offset(file, file.len, &offset, &err), &err);
        must(fg_block_directory_parse(fg_slice_sub(file, offset, SIZE_MAX), file.len, NULL, arena,
                                      &directory, &err),
             &err);
        for (uint32_t i = 0; i < directory.n_parts; i++) {
            look_at_part(file, &directory.parts[i], (named >> i & 1) != 0, arena);
            seen |= 1u << (named >> i & 1);
        }
        fg_buf_done(&bytes);
        fg_arena_destroy(arena);
    }
    assert_int_equal(seen, 3); /* parts with names, and without */
}

static struct repack_page *page_of(struct repack *repack, uint32_t kind)
{
    for (uint32_t i = 0; i < repack->n_pages; i++)
        if (repack->pages[i].kind == kind)
            return &repack->pages[i];
    return NULL;
}

/* Another last name: whole and in order, but not what the tree says. */
static void spoil(struct repack_page *page, struct fg_buf *raw)
{
    fg_buf_init(raw, 1 << 20);
    fg_buf_put(raw, page->raw);
    raw->ptr[raw->len - 1]++;
    page->raw = fg_buf_slice(raw);
}

static enum fg_code verify(const struct repack *repack, struct fg_err *err)
{
    struct fg_block_verified verified;
    struct fg_buf file;
    enum fg_code code;

    fg_buf_init(&file, 1 << 26);
    repack_write(repack, &file);
    code = fg_block_verify(fg_buf_slice(&file), NULL, ARENA_MAX_BYTES, &verified, err);
    fg_buf_done(&file);
    return code;
}

static bool spoil_and_verify(struct repack *repack)
{
    struct repack_page *names = page_of(repack, FG_BLOCK_NMS);
    struct fg_buf raw;
    struct fg_err err;

    if (names == NULL)
        return false;
    must(verify(repack, &err), &err);
    spoil(names, &raw);
    assert_int_equal(verify(repack, &err), FG_E_CORRUPT);
    assert_non_null(strstr(err.msg, "not those of the stacks"));
    fg_buf_done(&raw);
    return true;
}

static void a_wrong_function_tree_is_detected(void **state)
{
    uint32_t tried = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
        struct repack repack;
        struct fg_buf file;
        uint32_t named;

        write_block(seed, &file, &named);
        repack_take(fg_buf_slice(&file), arena, &repack);
        tried += spoil_and_verify(&repack);
        fg_buf_done(&file);
        fg_arena_destroy(arena);
    }
    assert_true(tried > SEEDS / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(function_tree_equals_that_of_the_stacks),
        cmocka_unit_test(a_wrong_function_tree_is_detected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
