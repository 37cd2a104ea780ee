#include "common/model/flame.h"
#include "common/model/tree.h"
#include "tests/lib/map_look.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void fold(const struct fg_tree *tree, struct fg_buf *out)
{
    fg_buf_init(out, 1 << 20);
    fg_flame_write_folded(tree, out);
    assert_false(out->full);
}

static void assert_folded(const struct fg_tree *tree, const char *want)
{
    struct fg_buf buf;

    fold(tree, &buf);
    fg_buf_putc(&buf, '\0');
    assert_string_equal((char *)buf.ptr, want);
    fg_buf_done(&buf);
}

static void assert_same_stacks(const struct fg_tree *a, const struct fg_tree *b)
{
    struct fg_buf left, right;

    fold(a, &left);
    fold(b, &right);
    assert_true(fg_slice_eq(fg_buf_slice(&left), fg_buf_slice(&right)));
    assert_int_equal(a->root_self, b->root_self);
    fg_buf_done(&left);
    fg_buf_done(&right);
}

static void tree_equals_the_slow_tree(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t random = seed;
        struct slow_stacks slow = {.count = 0};
        struct fg_tree tree;
        struct fg_buf want, got;

        print_message("  seed %u\n", (unsigned)seed);
        fg_tree_init(&tree);
        for (int i = 0; i < 300; i++)
            slow_add_random(&slow, &tree, &random);
        fg_buf_init(&want, 1 << 20);
        slow_write(&slow, &want);
        fold(&tree, &got);
        assert_true(fg_slice_eq(fg_buf_slice(&want), fg_buf_slice(&got)));
        fg_buf_done(&want);
        fg_buf_done(&got);
        fg_tree_done(&tree);
    }
}

static void merge_is_commutative_and_associative(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fg_tree parts[3], all, left, right;
        uint64_t random = seed;

        print_message("  seed %u\n", (unsigned)seed);
        fg_tree_init(&all);
        fg_tree_init(&left);
        fg_tree_init(&right);
        for (size_t i = 0; i < FG_COUNT(parts); i++) {
            struct slow_stacks ignored = {.count = 0};

            fg_tree_init(&parts[i]);
            for (int k = 0; k < 50; k++)
                slow_add_random(&ignored, &parts[i], &random);
            fg_tree_add(&parts[i], FG_TREE_ROOT, (int64_t)i + 1);
            fg_tree_merge(&all, &parts[i]);
        }
        fg_tree_merge(&right, &parts[2]); /* c + b, then a + (c + b) */
        fg_tree_merge(&right, &parts[1]);
        fg_tree_merge(&left, &parts[0]);
        fg_tree_merge(&left, &right);
        assert_same_stacks(&all, &left);
        for (size_t i = 0; i < FG_COUNT(parts); i++)
            fg_tree_done(&parts[i]);
        fg_tree_done(&all);
        fg_tree_done(&left);
        fg_tree_done(&right);
    }
}

static void totals_are_sums_of_descendants(void **state)
{
    struct fg_tree tree;
    int64_t totals[8];

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "a;b;c", 5);
    slow_tree_add(&tree, "a;b", -2);
    slow_tree_add(&tree, "d", INT64_MAX);
    fg_tree_add(&tree, FG_TREE_ROOT, 100);
    assert_int_equal(fg_tree_totals(&tree, totals), INT64_MAX);
    assert_int_equal(totals[0], 3);
    assert_int_equal(totals[1], 3);
    assert_int_equal(totals[2], 5);
    fg_tree_done(&tree);
}

/* A location with lines, named innermost first as pprof has them. */
static uint32_t lines_location(struct fg_tree *tree, uint64_t address, const char *const *names)
{
    struct fg_location location = {.address = address, .mapping = FG_NO_MAPPING};
    struct fg_line lines[4];

    for (; names[location.n_lines] != NULL; location.n_lines++) {
        struct fg_function function = {
            .name = fg_symbols_string(&tree->symbols, fg_cstr(names[location.n_lines]))};

        function.system_name = fg_symbols_string(&tree->symbols, FG_LIT("system"));
        lines[location.n_lines] =
            (struct fg_line){fg_symbols_function(&tree->symbols, &function), 1};
    }
    return fg_symbols_location(&tree->symbols, &location, lines);
}

/* An address in a file. */
static uint32_t mapped_location(struct fg_tree *tree, uint64_t address, uint64_t start,
                                const char *filename)
{
    struct fg_mapping mapping = {
        .start = start,
        .limit = start + 0x1000,
        .filename = fg_symbols_string(&tree->symbols, fg_cstr(filename)),
        .build_id = fg_symbols_string(&tree->symbols, FG_LIT("b1")),
    };
    struct fg_location location = {.address = address,
                                   .mapping = fg_symbols_mapping(&tree->symbols, &mapping)};

    return fg_symbols_location(&tree->symbols, &location, NULL);
}

/* Wide nodes and narrow ones, names that come again below others. */
static void draw_locations(struct fg_tree *tree, uint64_t *random)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", NULL};
    uint32_t count = 1 + (uint32_t)(slow_random(random) % 600);

    for (uint32_t i = 0; i < count; i++) {
        const char *lines[4] = {NULL};
        char many[16];
        uint32_t parent = slow_random(random) % 4 == 0 || tree->n_nodes == 0
                              ? FG_TREE_ROOT
                              : (uint32_t)(slow_random(random) % tree->n_nodes) % 20;

        for (uint64_t k = 0, n = slow_random(random) % 4; k < n; k++)
            lines[k] = names[slow_random(random) % 8];
        (void)snprintf(many, sizeof many, "%u", (unsigned)(slow_random(random) % 100));
        if (slow_random(random) % 2 == 0)
            lines[0] = many;
        if (parent != FG_TREE_ROOT && parent >= tree->n_nodes)
            parent = FG_TREE_ROOT;
        (void)fg_tree_child(tree, parent, lines_location(tree, slow_random(random) % 50, lines));
    }
}

static void names_unfold_lines_and_show_addresses(void **state)
{
    struct fg_tree tree, names, again;
    uint32_t main_node, node;

    (void)state;
    fg_tree_init(&tree);
    fg_tree_init(&names);
    fg_tree_init(&again);
    main_node = fg_tree_child(&tree, FG_TREE_ROOT,
                              lines_location(&tree, 1, (const char *[]){"main", NULL}));
    node = fg_tree_child(&tree, main_node,
                         lines_location(&tree, 2, (const char *[]){"in", "out", NULL}));
    fg_tree_add(&tree, node, 5);
    node = fg_tree_child(&tree, main_node, /* the same name elsewhere */
                         lines_location(&tree, 3, (const char *[]){"out", NULL}));
    fg_tree_add(&tree, node, 1);
    node = fg_tree_child(&tree, main_node, lines_location(&tree, 4, (const char *[]){NULL}));
    fg_tree_add(&tree, node, 2);
    node = fg_tree_child(&tree, main_node, /* only its system name */
                         lines_location(&tree, 5, (const char *[]){"", NULL}));
    fg_tree_add(&tree, node, 3);
    (void)fg_tree_child(&tree, main_node, /* no value below */
                        lines_location(&tree, 6, (const char *[]){"gone", NULL}));
    node = fg_tree_child(&tree, FG_TREE_ROOT, lines_location(&tree, 4, (const char *[]){NULL}));
    fg_tree_add(&tree, node, 7);
    node = fg_tree_child(&tree, main_node, /* mapped */
                         mapped_location(&tree, 0x1234, 0x1000, "/lib/libc.so.6"));
    fg_tree_add(&tree, node, 11);
    node = fg_tree_child(&tree, node, /* a name below an address */
                         lines_location(&tree, 1, (const char *[]){"main", NULL}));
    fg_tree_add(&tree, node, 13);
    fg_tree_add(&tree, FG_TREE_ROOT, 17);
    fg_tree_names(&tree, &names);
    assert_folded(&names, "0x4 7\n[no stack] 17\nmain;0x4 2\nmain;libc.so.6+0x234 11\n"
                          "main;libc.so.6+0x234;main 13\nmain;out 1\nmain;out;in 5\n"
                          "main;system 3\n");
    assert_int_equal(names.n_nodes, 9);
    assert_int_equal(names.root_self, 0);

    /* Names of names are the same, so that function trees can be merged again. */
    fg_tree_names(&names, &again);
    assert_same_stacks(&names, &again);
    fg_tree_done(&tree);
    fg_tree_done(&names);
    fg_tree_done(&again);
}

/* The total of a function tree is that of all values, whatever has a name. */
static void function_trees_keep_all_values(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct fg_tree tree, names;
        uint64_t random = seed;
        int64_t want, totals[600], *named;

        fg_tree_init(&tree);
        fg_tree_init(&names);
        draw_locations(&tree, &random);
        for (uint32_t i = 0; i < tree.n_nodes; i++)
            fg_tree_add(&tree, i, (int64_t)(slow_random(&random) % 3));
        fg_tree_add(&tree, FG_TREE_ROOT, (int64_t)(seed % 3));
        want = tree.root_self + fg_tree_totals(&tree, totals);
        fg_tree_names(&tree, &names);
        named = fg_calloc((size_t)names.n_nodes + 1, sizeof *named);
        assert_int_equal(fg_tree_totals(&names, named), want);
        free(named);
        fg_tree_done(&tree);
        fg_tree_done(&names);
    }
}

static void a_new_function_tree_equals_a_merged_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint32_t nodes[2][600], no_stacks[2];
        struct fg_tree tree, any, new;
        uint64_t random = seed;

        fg_tree_init(&tree);
        fg_tree_init(&any);
        fg_tree_init(&new);
        draw_locations(&tree, &random);
        fg_tree_name_all(&tree, &any, nodes[0], &no_stacks[0]);
        fg_tree_name_new(&tree, &new, nodes[1], &no_stacks[1]);
        assert_int_equal(no_stacks[0], no_stacks[1]);
        assert_true(fg_slice_is(fg_tree_name(&any, no_stacks[0]), "[no stack]"));
        assert_int_equal(any.n_nodes, new.n_nodes);
        assert_memory_equal(nodes[0], nodes[1], tree.n_nodes * sizeof nodes[0][0]);
        for (uint32_t i = 0; i < any.n_nodes; i++) {
            assert_int_equal(any.parents[i], new.parents[i]);
            assert_true(fg_slice_eq(fg_tree_name(&any, i), fg_tree_name(&new, i)));
        }
        fg_tree_done(&tree);
        fg_tree_done(&any);
        fg_tree_done(&new);
    }
}

static void trees_are_decoded_as_encoded(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct slow_stacks ignored = {.count = 0};
        struct fg_tree tree, copy, cut;
        struct fg_buf bytes, again;
        struct fg_err err;
        uint64_t random = seed;

        print_message("  seed %u\n", (unsigned)seed);
        fg_tree_init(&tree);
        fg_tree_init(&copy);
        for (int i = 0; i < 20; i++)
            slow_add_random(&ignored, &tree, &random);
        fg_tree_add(&tree, FG_TREE_ROOT, -3);
        fg_buf_init(&bytes, 1 << 20);
        fg_buf_init(&again, 1 << 20);
        fg_tree_encode(&tree, &bytes);
        assert_int_equal(fg_tree_decode(&copy, fg_buf_slice(&bytes), &err), FG_OK);
        assert_same_stacks(&tree, &copy);
        fg_tree_encode(&copy, &again);
        assert_true(fg_slice_eq(fg_buf_slice(&bytes), fg_buf_slice(&again)));
        for (size_t len = 0; len < bytes.len; len++) {
            fg_tree_init(&cut);
            assert_int_equal(fg_tree_decode(&cut, fg_bytes(bytes.ptr, len), &err), FG_E_CORRUPT);
            fg_tree_done(&cut);
        }
        fg_buf_done(&bytes);
        fg_buf_done(&again);
        fg_tree_done(&tree);
        fg_tree_done(&copy);
    }
}

static void bad_trees_are_refused(void **state)
{
    /* Symbols of one string "a", one function, one location; then root self, nodes. */
#define SYMBOLS                                                                                    \
    "\x01\x01"                                                                                     \
    "a\x01\x01\0\0\0\0\x01\0\0\x02\0\0"
    static const struct {
        const char *name, *nodes;
        size_t len;
        bool good;
    } cases[] = {
        {"one node", "\0\x01\0\0\x02", 5, true},
        {"its child", "\0\x02\0\0\x02\x01\0\x02", 8, true},
        {"a parent that comes later", "\0\x01\x01\0\x02", 5, false},
        {"an unknown location", "\0\x01\0\x01\x02", 5, false},
        {"a stack twice", "\0\x02\0\0\x02\0\0\x02", 8, false},
        {"more nodes than bytes", "\0\xff\xff\xff\xff\x0f\0\0\x02", 9, false},
        {"bytes left over", "\0\x01\0\0\x02\0", 6, false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tree tree;
        struct fg_buf buf;
        struct fg_err err;
        enum fg_code want = cases[i].good ? FG_OK : FG_E_CORRUPT;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&buf, 256);
        fg_buf_append(&buf, SYMBOLS, sizeof SYMBOLS - 1);
        fg_buf_append(&buf, cases[i].nodes, cases[i].len);
        fg_tree_init(&tree);
        assert_int_equal(fg_tree_decode(&tree, fg_buf_slice(&buf), &err), want);
        fg_tree_done(&tree);
        fg_buf_done(&buf);
    }
}

/* "main;work" adds its nodes, and its value to the last. */
static void add_stack(struct fg_tree *tree, const char *const *names, size_t n, int64_t value)
{
    uint32_t node = FG_TREE_ROOT;

    for (size_t i = 0; i < n; i++)
        node =
            fg_tree_child(tree, node, fg_symbols_name_location(&tree->symbols, fg_cstr(names[i])));
    fg_tree_add(tree, node, value);
}

static void merging_used_nodes_leaves_out_the_others(void **state)
{
    static const char *const names[] = {"main", "work", "idle"};
    struct fg_tree tree, into;

    (void)state;
    fg_tree_init(&tree);
    fg_tree_init(&into);
    add_stack(&tree, names, 2, 5);
    add_stack(&tree, names, 3, 0);
    add_stack(&tree, names + 2, 1, 0);
    add_stack(&tree, NULL, 0, 7);
    fg_tree_merge_used(&into, &tree);
    fg_tree_merge_used(&into, &tree);
    assert_int_equal(into.n_nodes, 2);
    assert_int_equal(into.root_self, 14);
    assert_folded(&into, "main;work 10\n");
    fg_tree_done(&tree);
    fg_tree_done(&into);
}

static void a_call_site_keeps_its_descendants(void **state)
{
    static const char *const names[] = {"main", "work", "hash"}, *const other[] = {"main", "idle"};
    static const struct {
        const char *site[3];
        size_t n;
        const char *want;
    } cases[] = {
        {{"main"}, 1, "main 1\nmain;idle 8\nmain;work 2\nmain;work;hash 4\n"},
        {{"main", "work"}, 2, "main;work 2\nmain;work;hash 4\n"},
        {{"main", "work", "hash"}, 3, "main;work;hash 4\n"},
        {{"work"}, 1, ""},
        {{"main", "wor"}, 2, ""},
        {{"app+0x20"}, 1, "app+0x20 32\napp+0x20;main 64\n"},
        {{"app+0x20", "main"}, 2, "app+0x20;main 64\n"},
        {{"main", "main"}, 2, ""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tree tree, named;
        uint32_t address;

        fg_tree_init(&tree);
        add_stack(&tree, NULL, 0, 16);
        for (size_t n = 1; n <= 3; n++)
            add_stack(&tree, names, n, INT64_C(1) << (n - 1));
        add_stack(&tree, other, 2, 8);
        address = fg_tree_child(&tree, FG_TREE_ROOT,
                                mapped_location(&tree, 0x5020, 0x5000, "/usr/bin/app"));
        fg_tree_add(&tree, address, 32);
        fg_tree_add(
            &tree,
            fg_tree_child(&tree, address, fg_symbols_name_location(&tree.symbols, FG_LIT("main"))),
            64);
        fg_tree_keep_site(&tree, cases[i].site, cases[i].n);
        fg_tree_init(&named);
        fg_tree_names(&tree, &named);
        assert_folded(&named, cases[i].want);
        assert_int_equal(tree.root_self, 0);
        fg_tree_done(&named);
        fg_tree_done(&tree);
    }
}

static void a_sealed_tree_keeps_its_nodes(void **state)
{
    uint64_t random = 5;
    struct slow_stacks slow = {.count = 0};
    struct fg_tree tree, again;
    size_t bytes;

    (void)state;
    fg_tree_init(&tree);
    fg_tree_init(&again);
    fg_tree_seal(&again);
    fg_tree_done(&again);
    fg_tree_init(&again);
    for (int i = 0; i < 300; i++)
        slow_add_random(&slow, &tree, &random);
    fg_tree_merge(&again, &tree);
    bytes = fg_tree_bytes(&tree);
    fg_tree_seal(&tree);
    assert_true(fg_tree_bytes(&tree) < bytes);
    assert_int_equal(tree.n_nodes, again.n_nodes);
    assert_memory_equal(tree.parents, again.parents, tree.n_nodes * sizeof *tree.parents);
    fg_tree_done(&tree);
    fg_tree_done(&again);
}

/* Sums that do not fit saturate, in whatever order trees are merged. */
static void sums_beyond_64_bits_saturate(void **state)
{
    static const char *const names[] = {"main", "work", "hash"};
    static const int64_t values[3][3] = {
        {INT64_MAX, 1, 0}, {5, INT64_MAX - 1, 2}, {0, 3, INT64_MAX}};
    static const unsigned orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};

    (void)state;
    for (size_t o = 0; o < FG_COUNT(orders); o++) {
        struct fg_tree all;
        int64_t totals[3];

        fg_tree_init(&all);
        for (size_t i = 0; i < 3; i++) {
            struct fg_tree part;

            fg_tree_init(&part);
            for (size_t depth = 0; depth < 3; depth++)
                add_stack(&part, names, depth + 1, values[orders[o][i]][depth]);
            add_stack(&part, NULL, 0, INT64_MAX);
            fg_tree_merge(&all, &part);
            fg_tree_done(&part);
        }
        assert_int_equal(all.root_self, INT64_MAX);
        assert_folded(&all, "main 9223372036854775807\nmain;work 9223372036854775807\n"
                            "main;work;hash 9223372036854775807\n");
        assert_int_equal(fg_tree_totals(&all, totals), INT64_MAX);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(totals[i], INT64_MAX);
        fg_tree_done(&all);
    }
}

static void the_call_site_of_the_empty_stack(void **state)
{
    static const char *const site[] = {"[no stack]", "main"};
    struct fg_tree tree;

    (void)state;
    fg_tree_init(&tree);
    add_stack(&tree, NULL, 0, 16);
    add_stack(&tree, site + 1, 1, 1);
    fg_tree_keep_site(&tree, site, 1);
    assert_int_equal(tree.root_self, 16);
    assert_folded(&tree, "");
    fg_tree_keep_site(&tree, site, 2);
    assert_int_equal(tree.root_self, 0);
    fg_tree_done(&tree);
}

/* Who sends the stacks chooses which functions call which: those whose pairs would fall into one
 * slot of the map, if nothing of it were secret. */
static void chosen_calls_do_not_meet_in_the_map(void **state)
{
    enum { PARENTS = 64, NAMES = 20000, SLOT_BITS = 0x3ff, MOST = 20 };
    struct fg_tree tree;

    (void)state;
    fg_tree_init(&tree);
    for (uint32_t i = 0; i < NAMES; i++) {
        char text[16];

        (void)snprintf(text, sizeof text, "f%u", i);
        assert_int_equal(fg_symbols_name_location(&tree.symbols, fg_cstr(text)), i);
    }
    for (uint32_t parent = 0; parent < PARENTS; parent++)
        assert_int_equal(fg_tree_child(&tree, FG_TREE_ROOT, parent), parent);
    for (uint32_t parent = 0; parent < PARENTS; parent++)
        for (uint32_t i = 0; i < NAMES; i++)
            if ((fg_mix64((uint64_t)parent << 32 | i) & SLOT_BITS) == 0)
                (void)fg_tree_child(&tree, parent, i);
    print_message("  %u nodes, %.1f slots away\n", tree.n_nodes, map_look_distance(&tree.map));
    assert_true(tree.n_nodes > 1000);
    assert_true(map_look_distance(&tree.map) < MOST);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tree_equals_the_slow_tree),
        cmocka_unit_test(merge_is_commutative_and_associative),
        cmocka_unit_test(totals_are_sums_of_descendants),
        cmocka_unit_test(names_unfold_lines_and_show_addresses),
        cmocka_unit_test(a_new_function_tree_equals_a_merged_one),
        cmocka_unit_test(merging_used_nodes_leaves_out_the_others),
        cmocka_unit_test(the_call_site_of_the_empty_stack),
        cmocka_unit_test(function_trees_keep_all_values),
        cmocka_unit_test(sums_beyond_64_bits_saturate),
        cmocka_unit_test(a_call_site_keeps_its_descendants),
        cmocka_unit_test(trees_are_decoded_as_encoded),
        cmocka_unit_test(bad_trees_are_refused),
        cmocka_unit_test(a_sealed_tree_keeps_its_nodes),
        cmocka_unit_test(chosen_calls_do_not_meet_in_the_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
