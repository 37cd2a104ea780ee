/* Stacks cut for Go's compiler. */
#include "common/model/pgo.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STACKS = 60 };

/* The last n frames of "a;b;c". */
static const char *last_frames(const char *text, size_t n)
{
    const char *at = text + strlen(text);

    while (at > text && (at[-1] != ';' || --n > 0))
        at--;
    return at;
}

static void the_last_frames_stay(void **state)
{
    (void)state;
    for (uint32_t keep = 0; keep <= SLOW_DEPTH_MAX; keep++) {
        struct slow_stacks all = {0}, want = {0}, found = {0};
        struct fg_tree tree, into;
        struct fg_buf left, right;
        uint64_t random = keep;

        fg_tree_init(&tree);
        fg_tree_init(&into);
        for (unsigned i = 0; i < STACKS; i++)
            slow_add_random(&all, &tree, &random);
        for (size_t i = 0; i < all.count; i++)
            slow_add(&want, last_frames(all.items[i].text, keep == 0 ? SIZE_MAX : keep),
                     all.items[i].value);
        fg_tree_pgo(&tree, keep, true, &into);
        for (uint32_t i = 0; i < into.n_nodes; i++) {
            char text[64] = "", longer[64];

            for (uint32_t node = i; node != FG_TREE_ROOT; node = into.parents[node]) {
                (void)snprintf(longer, sizeof longer, "%.1s%s%.50s",
                               (const char *)fg_tree_name(&into, node).ptr, node == i ? "" : ";",
                               text);
                memcpy(text, longer, sizeof text);
            }
            slow_add(&found, text, into.self[i]);
        }
        fg_buf_init(&left, SIZE_MAX);
        fg_buf_init(&right, SIZE_MAX);
        slow_write(&want, &left);
        slow_write(&found, &right);
        assert_true(fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right)));
        fg_buf_done(&left);
        fg_buf_done(&right);
        fg_tree_done(&into);
        fg_tree_done(&tree);
    }
}

static uint32_t location(struct fg_tree *tree, const char *name, int64_t line)
{
    struct fg_function function = {.name = fg_symbols_string(&tree->symbols, fg_cstr(name))};
    struct fg_line lines = {.function = fg_symbols_function(&tree->symbols, &function),
                            .line = line};

    return fg_symbols_location(
        &tree->symbols, &(struct fg_location){.mapping = FG_NO_MAPPING, .n_lines = 1}, &lines);
}

/* A caller keeps the line of its call, even if it is a leaf elsewhere. */
static void only_leaves_lose_their_lines(void **state)
{
    struct fg_tree tree, into;
    uint32_t caller;

    (void)state;
    fg_tree_init(&tree);
    fg_tree_init(&into);
    caller = fg_tree_child(&tree, FG_TREE_ROOT, location(&tree, "f", 7));
    fg_tree_add(&tree, caller, 1);
    fg_tree_add(&tree, fg_tree_child(&tree, caller, location(&tree, "g", 8)), 2);
    fg_tree_add(&tree, fg_tree_child(&tree, caller, location(&tree, "g", 9)), 3);
    fg_tree_pgo(&tree, 5, true, &into);
    assert_int_equal(into.n_nodes, 3); /* f:0, f:7 and g:0 under it */
    for (uint32_t i = 0; i < into.n_nodes; i++) {
        const struct fg_location *at = &into.symbols.locations[into.locations[i]];
        int64_t line = into.symbols.lines[at->first_line].line;

        if (into.parents[i] != FG_TREE_ROOT) {
            assert_true(line == 0 && into.self[i] == 5);
            at = &into.symbols.locations[into.locations[into.parents[i]]];
            assert_true(into.symbols.lines[at->first_line].line == 7);
        } else {
            assert_true(line == (into.self[i] == 1 ? 0 : 7));
        }
    }
    fg_tree_done(&into);
    fg_tree_done(&tree);
}

/* g is inlined in f: the line of f is that of the call. A location without lines stays as it is. */
static void inlined_calls_keep_their_lines(void **state)
{
    struct fg_tree tree, into;
    struct fg_location inlined = {.mapping = FG_NO_MAPPING, .n_lines = 2};
    struct fg_location address = {.mapping = FG_NO_MAPPING, .address = 77};
    struct fg_function functions[2];

    (void)state;
    fg_tree_init(&tree);
    fg_tree_init(&into);
    for (unsigned i = 0; i < 2; i++)
        functions[i] = (struct fg_function){
            .name = fg_symbols_string(&tree.symbols, fg_cstr(i == 0 ? "g" : "f"))};
    for (int64_t line = 1; line <= 2; line++) {
        struct fg_line lines[2];

        for (unsigned i = 0; i < 2; i++)
            lines[i] = (struct fg_line){fg_symbols_function(&tree.symbols, &functions[i]),
                                        i == 0 ? line : 50};
        fg_tree_add(
            &tree,
            fg_tree_child(&tree, FG_TREE_ROOT, fg_symbols_location(&tree.symbols, &inlined, lines)),
            line);
    }
    fg_tree_add(
        &tree,
        fg_tree_child(&tree, FG_TREE_ROOT, fg_symbols_location(&tree.symbols, &address, NULL)), 9);
    fg_tree_pgo(&tree, 1, true, &into);
    assert_int_equal(into.n_nodes, 2);
    for (uint32_t i = 0; i < into.n_nodes; i++) {
        const struct fg_location *at = &into.symbols.locations[into.locations[i]];

        assert_int_equal(into.self[i], at->n_lines == 2 ? 3 : 9);
        if (at->n_lines == 0) {
            assert_int_equal(at->address, 77);
        } else {
            assert_int_equal(into.symbols.lines[at->first_line].line, 0);
            assert_int_equal(into.symbols.lines[at->first_line + 1].line, 50);
        }
    }
    fg_tree_done(&into);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_frames_stay),
        cmocka_unit_test(inlined_calls_keep_their_lines),
        cmocka_unit_test(only_leaves_lose_their_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
