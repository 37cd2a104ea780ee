#include "common/model/function_counts.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FUNCTIONS = 9, NODES = 60, LOCATIONS = 25, PROFILES = 200, STACKS_MAX = 6 };

/* A random tree of locations: several locations of one function, inlined ones, some without lines,
 * of which two have the same name. */
static void make_tree(struct fg_tree *tree, uint64_t *random)
{
    struct fg_mapping mapping = {.start = 0x1000, .limit = 0x9000};
    uint32_t functions[FUNCTIONS], locations[LOCATIONS];

    fg_tree_init(tree);
    mapping.filename = fg_symbols_string(&tree->symbols, FG_LIT("/bin/libc.so"));
    uint32_t in = fg_symbols_mapping(&tree->symbols, &mapping);
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        char name[] = {(char)('a' + i), '\0'};

        functions[i] = fg_symbols_function(
            &tree->symbols,
            &(struct fg_function){.name = fg_symbols_string(&tree->symbols, fg_cstr(name)),
                                  .start_line = i % 2});
    }
    for (uint32_t i = 0; i < LOCATIONS; i++) {
        struct fg_line lines[3];
        struct fg_location location = {.address = 0x1000 + slow_random(random) % 3,
                                       .mapping = i % 2 == 0 ? in : FG_NO_MAPPING,
                                       .n_lines = (uint32_t)(slow_random(random) % 4)};

        for (uint32_t k = 0; k < location.n_lines; k++)
            lines[k] = (struct fg_line){functions[slow_random(random) % FUNCTIONS], i};
        locations[i] = fg_symbols_location(&tree->symbols, &location, lines);
    }
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t above = (uint32_t)(slow_random(random) % (i + 1));

        (void)fg_tree_child(tree, above == i ? FG_TREE_ROOT : FG_MIN(above, tree->n_nodes - 1),
                            locations[slow_random(random) % LOCATIONS]);
    }
}

/* Is the name on the stack? */
static bool has(const struct fg_tree *tree, uint32_t node, struct fg_slice name)
{
    struct fg_buf scratch;
    bool found = node == FG_TREE_ROOT && fg_slice_is(name, FG_FRAME_NO_STACK);

    fg_buf_init(&scratch, SIZE_MAX);
    for (; node != FG_TREE_ROOT; node = tree->parents[node]) {
        uint32_t location = tree->locations[node];

        for (uint32_t i = 0; i < fg_frame_count(&tree->symbols.locations[location]); i++)
            found |= fg_slice_eq(fg_frame_name(&tree->symbols, location, i, &scratch), name);
    }
    fg_buf_done(&scratch);
    return found;
}

struct profile {
    uint32_t stacks[STACKS_MAX]; /* nodes; FG_TREE_ROOT: the empty stack */
    unsigned n;
};

static void check(const struct fg_tree *tree, const struct profile *profiles,
                  const struct fg_tree *counted)
{
    unsigned n_any = 0;
    uint64_t checked = 0;

    for (unsigned i = 0; i < PROFILES; i++)
        n_any += profiles[i].n > 0;
    assert_int_equal(counted->root_self, n_any);
    for (uint32_t f = 0; f < counted->n_nodes; f++) {
        int64_t want = 0;

        assert_int_equal(counted->parents[f], FG_TREE_ROOT);
        for (unsigned i = 0; i < PROFILES; i++) {
            bool any = false;

            for (unsigned s = 0; s < profiles[i].n; s++)
                any |= has(tree, profiles[i].stacks[s], fg_tree_name(counted, f));
            want += any;
        }
        assert_true(want > 0);
        assert_int_equal(counted->self[f], want);
        checked++;
    }
    assert_true(checked > FUNCTIONS);
}

static void counts_are_those_of_a_slow_model(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (unsigned round = 0; round < 8; round++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 22);
        struct profile profiles[PROFILES] = {0};
        struct fg_function_counts located, named;
        struct fg_function_tree functions;
        struct fg_tree tree, counted;

        make_tree(&tree, &random);
        fg_function_tree_init_stacks(&functions, &tree, true);
        assert_true(fg_function_counts_init(&located, &tree, arena));
        assert_true(fg_function_counts_init_functions(&named, &functions, arena));
        for (unsigned i = 0; i < PROFILES; i++) {
            profiles[i].n = (unsigned)(slow_random(&random) % (STACKS_MAX + 1));
            fg_function_counts_profile(&located);
            fg_function_counts_profile(&named);
            for (unsigned s = 0; s < profiles[i].n; s++) {
                uint32_t node = (uint32_t)(slow_random(&random) % (tree.n_nodes + 1));
                bool is_empty = node == tree.n_nodes;

                /* The empty stack is in a profile once, as any stack. */
                for (unsigned k = 0; k < s; k++)
                    is_empty &= profiles[i].stacks[k] != FG_TREE_ROOT;
                node = is_empty ? FG_TREE_ROOT : node % tree.n_nodes;
                profiles[i].stacks[s] = node;
                assert_true(fg_function_counts_stack(&located, node));
                assert_true(fg_function_counts_stack(
                    &named, node == FG_TREE_ROOT ? functions.no_stack : functions.nodes[node]));
            }
        }
        fg_tree_init(&counted);
        fg_function_counts_write(&located, &counted);
        check(&tree, profiles, &counted);
        fg_tree_done(&counted);
        fg_tree_init(&counted);
        fg_function_counts_write(&named, &counted);
        check(&tree, profiles, &counted);
        /* Sources add up. */
        fg_function_counts_write(&located, &counted);
        assert_int_equal(counted.root_self, 2 * (int64_t)named.n_profiles);
        fg_tree_done(&counted);
        fg_function_counts_done(&named);
        fg_function_counts_done(&located);
        fg_function_tree_done(&functions);
        fg_tree_done(&tree);
    }
}

static void a_full_arena_is_said(void **state)
{
    uint64_t random = 3;
    struct fg_tree tree;
    bool any_fits = false;

    (void)state;
    make_tree(&tree, &random);
    for (size_t limit = 0; limit < 8192; limit += 64) {
        fg_auto(fg_arena) *arena = fg_arena_create(limit);
        struct fg_function_counts counts;
        bool fits = fg_function_counts_init(&counts, &tree, arena);

        if (fits)
            fg_function_counts_profile(&counts);
        for (uint32_t i = 0; fits && i < tree.n_nodes; i++)
            fits = fg_function_counts_stack(&counts, i);
        assert_true(fits || !any_fits);
        any_fits = any_fits || fits;
        fg_function_counts_done(&counts);
    }
    assert_true(any_fits);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_a_slow_model),
        cmocka_unit_test(a_full_arena_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
