/* Call graphs and their drawings: by hand, and against a slow count over random trees. */
#include "common/model/call_graph.h"
#include "common/model/dot.h"
#include "tests/lib/map_look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TREES = 200, NODES = 120, FUNCTIONS = 9 };

/* ---- maps that are freed ---- */

static double
    most_distant; /* of maps, by how many slots values stand behind those of their hashes */

void __real_fg_map_done(struct fg_map *map);
void __wrap_fg_map_done(struct fg_map *map);

/* The linker gives our own code this one. */
void __wrap_fg_map_done(struct fg_map *map)
{
    if (map->count > 0)
        most_distant = FG_MAX(most_distant, map_look_distance(map));
    __real_fg_map_done(map);
}

/* ---- graphs ---- */

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (*random >> 33) % below;
}

static uint32_t add_frame(struct fg_tree *tree, uint32_t parent, const char *name)
{
    return fg_tree_child(tree, parent, fg_symbols_name_location(&tree->symbols, fg_cstr(name)));
}

static struct fg_tree random_tree(uint64_t seed)
{
    struct fg_tree tree;

    fg_tree_init(&tree);
    for (unsigned i = 0; i < NODES; i++) {
        uint32_t parent = tree.n_nodes == 0 || draw(&seed, 8) == 0
                              ? FG_TREE_ROOT
                              : (uint32_t)draw(&seed, tree.n_nodes);
        char name[] = {(char)('a' + draw(&seed, FUNCTIONS)), '\0'};

        fg_tree_add(&tree, add_frame(&tree, parent, name), (int64_t)draw(&seed, 3));
    }
    return tree;
}

/* The names of a stack, outermost first. */
static size_t stack_of(const struct fg_tree *tree, uint32_t node, char names[NODES])
{
    size_t n = tree->parents[node] == FG_TREE_ROOT ? 0 : stack_of(tree, tree->parents[node], names);

    names[n] = (char)fg_tree_name(tree, node).ptr[0];
    return n + 1;
}

/* What a graph of some functions should have, counted stack by stack. */
struct count {
    bool kept[FUNCTIONS];
    int64_t flat[FUNCTIONS], cum[FUNCTIONS], weight[FUNCTIONS][FUNCTIONS], total;
    bool residual[FUNCTIONS][FUNCTIONS];
};

static void count_stack(struct count *count, const char *names, size_t n, int64_t value)
{
    bool seen[FUNCTIONS] = {false}, crossed[FUNCTIONS][FUNCTIONS] = {{false}}, gap = false;
    int before = -1;

    for (size_t i = 0; i < n; i++) {
        int function = names[i] - 'a';

        if (!count->kept[function]) {
            gap = true;
            continue;
        }
        if (!seen[function])
            count->cum[function] += value;
        seen[function] = true;
        if (before >= 0 && before != function && !crossed[before][function]) {
            count->weight[before][function] += value;
            count->residual[before][function] |= gap;
            crossed[before][function] = true;
        }
        before = function;
        gap = false;
    }
    if (before >= 0 && !gap)
        count->flat[before] += value;
}

static void count_tree(struct count *count, const struct fg_tree *tree)
{
    char names[NODES];

    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        count->total += tree->self[i];
        if (tree->self[i] != 0)
            count_stack(count, names, stack_of(tree, i, names), tree->self[i]);
    }
}

static void random_trees(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < TREES; seed++) {
        struct fg_tree tree = random_tree(seed);
        uint32_t max_nodes = 1 + (uint32_t)(seed % (FUNCTIONS + 2)), n_edges = 0, n_residual = 0;
        struct count count = {0};
        struct fg_call_graph graph;

        fg_call_graph_make(&tree, max_nodes, &graph);
        assert_true(graph.n_nodes <= max_nodes && graph.n_functions <= FUNCTIONS);
        for (uint32_t i = 0; i < graph.n_nodes; i++)
            count.kept[graph.nodes[i].name.ptr[0] - 'a'] = true;
        count_tree(&count, &tree);
        assert_true(graph.total == count.total);
        for (uint32_t i = 0; i < graph.n_nodes; i++) {
            int function = graph.nodes[i].name.ptr[0] - 'a';

            assert_true(graph.nodes[i].flat == count.flat[function]);
            assert_true(graph.nodes[i].cum == count.cum[function]);
        }
        for (uint32_t i = 0; i < graph.n_edges; i++) {
            const struct fg_call_edge *edge = &graph.edges[i];
            int from = graph.nodes[edge->from].name.ptr[0] - 'a';
            int to = graph.nodes[edge->to].name.ptr[0] - 'a';

            assert_true(edge->weight == count.weight[from][to]);
            assert_true(i == 0 || graph.edges[i - 1].weight >= edge->weight);
            if (edge->weight != 0)
                assert_true(edge->residual == count.residual[from][to]);
            n_residual += edge->residual;
            count.weight[from][to] = -1; /* seen */
        }
        for (int from = 0; from < FUNCTIONS; from++)
            for (int to = 0; to < FUNCTIONS; to++) /* only residual edges may be missing */
                n_edges += count.weight[from][to] > 0 && !count.residual[from][to];
        assert_int_equal(n_edges, 0);
        assert_true(graph.n_nodes < graph.n_functions || n_residual == 0);
        fg_call_graph_done(&graph);
        fg_tree_done(&tree);
    }
}

static void assert_drawn(const struct fg_tree *tree, const char *unit, const char *const *texts,
                         size_t n)
{
    struct fg_profile_type type = {.type = FG_LIT("cpu"), .unit = fg_cstr(unit)};
    struct fg_buf out;

    fg_buf_init(&out, SIZE_MAX);
    fg_dot_write(tree, &type, INT64_C(1769433000000000000), 0, &out);
    fg_buf_putc(&out, '\0');
    for (size_t i = 0; i < n; i++)
        if (strstr((const char *)out.ptr, texts[i]) == NULL)
            fail_msg("%s is not in %s", texts[i], (const char *)out.ptr);
    fg_buf_done(&out);
}

/* Names are shortened as pprof does, and nothing in them ends a text. */
static void names_and_values(void **state)
{
    static const char *const texts[] = {
        "\"Type: cpu\" [shape=box fontsize=16 label=\"Type: cpu\\lTime: Jan 26, 2026 at 1:10pm ",
        " (UTC)\\lShowing nodes accounting for 0.11s, 100% of 0.11s total\\l\\lSee",
        "[label=\"server\\n(*Server)\\nServe\\n0 of 0.11s (100%)\"",
        "tooltip=\"example.com/shop/v2/server.(*Server).Serve (0.11s)\"",
        "[label=\"String\\nvalueOf\\n0.01s (9.09%)\"",
        "[label=\"Shape\\ndraw<int>\\n0.05s (45.45%)\"",
        "[label=\"say \\\"hi\\\" \\\\o/\\n0.05s (45.45%)\"",
        "penwidth=3 color=\"#b22500\"",
    };
    struct fg_tree tree;
    uint32_t root;

    (void)state;
    fg_tree_init(&tree);
    root = add_frame(&tree, FG_TREE_ROOT, "example.com/shop/v2/server.(*Server).Serve");
    fg_tree_add(&tree, add_frame(&tree, root, "java.lang.String.valueOf"), 10000000);
    fg_tree_add(&tree, add_frame(&tree, root, "gfx::Shape::draw<int>(int)"), 50000000);
    fg_tree_add(&tree, add_frame(&tree, root, "say \"hi\" \\o/"), 50000000);
    assert_drawn(&tree, "nanoseconds", texts, FG_COUNT(texts));
    fg_tree_done(&tree);
}

static void an_empty_tree_is_an_empty_text(void **state)
{
    struct fg_profile_type type = {.type = FG_LIT("cpu"), .unit = FG_LIT("count")};
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    fg_tree_init(&tree);
    fg_buf_init(&out, SIZE_MAX);
    fg_dot_write(&tree, &type, 0, 0, &out);
    assert_int_equal(out.len, 0);
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

/* Sums at the ends of 64 bits, and a recursion as deep as a tree may be. */
static void extreme_values(void **state)
{
    static const char *const texts[] = {"9223372036854775808", "N1 -> N2", "N2 -> N1"};
    struct fg_tree tree;
    uint32_t node = FG_TREE_ROOT;

    (void)state;
    fg_tree_init(&tree);
    for (unsigned i = 0; i < 50000; i++)
        node = add_frame(&tree, node, i % 2 == 0 ? "ping" : "pong");
    fg_tree_add(&tree, node, INT64_MAX);
    fg_tree_add(&tree, add_frame(&tree, FG_TREE_ROOT, "pong"), INT64_MAX);
    assert_drawn(&tree, "count", texts, FG_COUNT(texts));
    fg_tree_done(&tree);
}

/* Who sends the stacks chooses which functions call which: those whose pairs would fall into one
 * slot of the map of edges, if nothing of it were secret. */
static void chosen_calls_do_not_meet_in_the_map(void **state)
{
    enum { CALLERS = 64, NAMES = 20000, SLOT_BITS = 0x3ff, MOST = 20 };
    struct fg_call_graph graph;
    struct fg_tree tree;

    (void)state;
    fg_tree_init(&tree);
    for (uint32_t i = 0; i < NAMES; i++) {
        char text[16];

        /* Functions are numbered in the order of their names. */
        (void)snprintf(text, sizeof text, "f%05u", i);
        assert_int_equal(add_frame(&tree, FG_TREE_ROOT, text), i);
    }
    for (uint32_t caller = 0; caller < CALLERS; caller++)
        for (uint32_t i = 0; i < NAMES; i++)
            if (i != caller && (fg_mix64((uint64_t)caller << 32 | i) & SLOT_BITS) == 0)
                fg_tree_add(&tree, fg_tree_child(&tree, caller, i), 1);
    most_distant = 0;
    fg_call_graph_make(&tree, NAMES, &graph);
    print_message("  %u edges, %.1f slots away\n", graph.n_edges, most_distant);
    assert_true(graph.n_edges > 1000);
    assert_true(most_distant > 0);
    assert_true(most_distant < MOST);
    fg_call_graph_done(&graph);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees),
        cmocka_unit_test(names_and_values),
        cmocka_unit_test(an_empty_tree_is_an_empty_text),
        cmocka_unit_test(extreme_values),
        cmocka_unit_test(chosen_calls_do_not_meet_in_the_map),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
