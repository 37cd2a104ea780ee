#include "deploy/canary/content.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct canary_journal_shape shape = {
    .seed = 3, .services = 2, .pods = 3, .leaves = 5, .start_ms = 1000, .interval_ms = 10};

static uint32_t child(struct fg_tree *tree, uint32_t parent, const char *name)
{
    return fg_tree_child(tree, parent, fg_symbols_name_location(&tree->symbols, fg_cstr(name)));
}

static void add(struct fg_tree *tree, const char *root, const char *branch, const char *leaf,
                int64_t value)
{
    uint32_t node = child(tree, child(tree, child(tree, FG_TREE_ROOT, root), branch), leaf);

    fg_tree_add(tree, node, value);
}

static void profiles_are_the_same_each_time(void **state)
{
    struct canary_journal_profile one = canary_journal_profile(&shape, 17),
                                  other = canary_journal_profile(&shape, 18);
    struct fg_buf first, again, next;

    (void)state;
    fg_buf_init(&first, SIZE_MAX);
    fg_buf_init(&again, SIZE_MAX);
    fg_buf_init(&next, SIZE_MAX);
    canary_content_write(&one, &first);
    canary_content_write(&one, &again);
    canary_content_write(&other, &next);
    assert_true(first.len > 0);
    assert_true(fg_slice_eq(fg_buf_slice(&first), fg_buf_slice(&again)));
    assert_false(fg_slice_eq(fg_buf_slice(&first), fg_buf_slice(&next)));
    fg_buf_done(&first);
    fg_buf_done(&again);
    fg_buf_done(&next);
}

static void upload_paths_name_run_service_and_series(void **state)
{
    struct canary_journal_profile profile = canary_journal_profile(&shape, 17);
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    canary_content_path(&profile, "abc", &text);
    assert_string_equal((const char *)text.ptr,
                        "/ingest?format=pprof&name=flamegrid-canary-1%7Bpod%3D0%2C"
                        "canary_run%3Dabc%7D");
    fg_buf_clear(&text);
    canary_content_selector(&(struct canary_journal_range){0, 1, JOURNAL_NONE, JOURNAL_NONE}, "abc",
                            &text);
    assert_string_equal((const char *)text.ptr, "{canary_run=\"abc\"}");
    fg_buf_clear(&text);
    canary_content_selector(&(struct canary_journal_range){0, 1, 1, 2}, "abc", &text);
    assert_string_equal((const char *)text.ptr,
                        "{canary_run=\"abc\",service_name=\"flamegrid-canary-1\",pod=\"2\"}");
    fg_buf_done(&text);
}

static void flame_graph_values_are_summed_by_cell(void **state)
{
    int64_t cells[10] = {0}, foreign = 0;
    struct fg_tree tree;

    (void)state;
    fg_tree_init(&tree);
    add(&tree, "canary", "service_0", "leaf_0", 1);
    add(&tree, "canary", "service_1", "leaf_4", 20);
    add(&tree, "canary", "service_1", "leaf_5", 300);  /* unknown leaf */
    add(&tree, "canary", "service_2", "leaf_0", 4000); /* unknown service */
    add(&tree, "other", "service_1", "leaf_0", 50000); /* unknown root */
    add(&tree, "canary", "service_1", "leaf_x", 600000);
    fg_tree_add(&tree, child(&tree, FG_TREE_ROOT, "canary"), 7000000);
    fg_tree_add(&tree, FG_TREE_ROOT, 80000000);
    canary_content_read(&shape, &tree, cells, &foreign);
    assert_int_equal(cells[0], 1);
    assert_int_equal(cells[canary_journal_cell(&shape, 1, 4)], 20);
    assert_int_equal(foreign, 87654300);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_the_same_each_time),
        cmocka_unit_test(upload_paths_name_run_service_and_series),
        cmocka_unit_test(flame_graph_values_are_summed_by_cell),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
