#include "common/model/flame.h"
#include "deploy/cli/treebytes.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Writes the stacks of tree bytes as text, or the error; bytes is NULL for failures. */
static enum fg_code read_stacks(struct fg_slice bytes, struct fg_buf *out, struct fg_err *err)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code = cli_treebytes_decode(bytes, &tree, err);
    if (code == FG_OK)
        fg_flame_write_folded(&tree, out);
    fg_tree_done(&tree);
    return code;
}

#define BYTES(text) text, sizeof(text) - 1

static void small_trees(void **state)
{
    static const struct {
        const char *name, *in;
        size_t len;
        const char *want;
    } cases[] = {
        {"nothing", BYTES(""), ""},
        {"root only", BYTES("\0\0\0"), ""},
        {"two stacks", BYTES("\0\0\1\1a\0\2\1b\1\0\1c\2\0"), "a;b 1\na;c 2\n"},
        {"any order of siblings", BYTES("\0\0\2\1b\1\0\1a\2\0"), "a 2\nb 1\n"},
        {"equal siblings are one", BYTES("\0\0\2\1a\1\0\1a\2\0"), "a 3\n"},
        {"long number", BYTES("\0\0\1\1a\xac\2\0"), "a 300\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&out, 1 << 20);
        assert_int_equal(read_stacks(fg_bytes(cases[i].in, cases[i].len), &out, &err), FG_OK);
        assert_true(fg_slice_is(fg_buf_slice(&out), cases[i].want));
        fg_buf_done(&out);
    }
}

static void damaged_trees(void **state)
{
    static const struct {
        const char *name, *in;
        size_t len;
    } cases[] = {
        {"cut in the root", BYTES("\0\0")},
        {"a child is missing", BYTES("\0\0\1")},
        {"name runs past the end", BYTES("\0\0\1\x7f"
                                         "a\0\0")},
        {"more children than bytes", BYTES("\0\0\xff\xff\xff\xff\x0f\1a\1\0")},
        {"bytes after the root's end", BYTES("\0\0\0\0")},
        {"endless number", BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&out, 1 << 20);
        assert_int_equal(read_stacks(fg_bytes(cases[i].in, cases[i].len), &out, &err), FG_E_DECODE);
        fg_buf_done(&out);
    }
}

/* A tree as deep as it has nodes takes neither much of the stack nor a second. */
static void deep_trees(void **state)
{
    enum { DEPTH = 1000000 };
    struct fg_tree tree;
    struct fg_buf bytes;
    struct fg_err err;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    fg_buf_append(&bytes, "\0\0\1", 3);
    for (size_t i = 0; i < DEPTH; i++)
        fg_buf_append(&bytes, i + 1 < DEPTH ? "\1a\0\1" : "\1a\7\0", 4);
    fg_tree_init(&tree);
    assert_int_equal(cli_treebytes_decode(fg_buf_slice(&bytes), &tree, &err), FG_OK);
    assert_int_equal(tree.n_nodes, DEPTH);
    assert_int_equal(tree.self[DEPTH - 1], 7);
    fg_tree_done(&tree);
    fg_buf_done(&bytes);
}

static void decode_is_the_inverse_of_encode(void **state)
{
    enum { ROUNDS = 200 };

    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct slow_stacks *stacks = fg_new(struct slow_stacks);
        uint64_t random = seed, count = slow_random(&random) % 50;
        struct fg_buf bytes, want, got;
        struct fg_tree tree;
        struct fg_err err;

        fg_tree_init(&tree);
        fg_buf_init(&bytes, 1 << 20);
        fg_buf_init(&want, 1 << 20);
        fg_buf_init(&got, 1 << 20);
        for (uint64_t i = 0; i < count; i++)
            slow_add_random(stacks, &tree, &random);
        slow_write(stacks, &want);
        fg_flame_write_tree(&tree, 0, &bytes);
        assert_int_equal(read_stacks(fg_buf_slice(&bytes), &got, &err), FG_OK);
        if (!fg_slice_eq(fg_buf_slice(&got), fg_buf_slice(&want)))
            fail_msg("seed %llu", (unsigned long long)seed);
        fg_buf_done(&bytes);
        fg_buf_done(&want);
        fg_buf_done(&got);
        fg_tree_done(&tree);
        free(stacks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_trees),
        cmocka_unit_test(damaged_trees),
        cmocka_unit_test(deep_trees),
        cmocka_unit_test(decode_is_the_inverse_of_encode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
