/* Flame graphs of uploaded files: sample types and what they are called, bounds, comparisons. */
#include "common/base/json_writer.h"
#include "querier/adhoc/flame.h"
#include "tests/lib/pprof_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct fg_limit_settings limits = {
    .max_profile_size_bytes = 1 << 20,
    .max_profile_stacktrace_samples = 1000,
    .max_profile_stacktrace_sample_labels = 100,
    .max_profile_stacktrace_depth = 1000,
    .max_profile_symbol_value_length = 1000,
    .max_label_names_per_series = 30,
    .max_label_name_length = 100,
    .max_label_value_length = 100,
};

struct fixture {
    struct fg_arena *arena;
    struct make make;
    struct fg_budget memory;
    struct qry_adhoc_file file;
    struct qry_adhoc_flame flame;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create(1 << 20);
    make_start(&f->make);
    fg_budget_init(&f->memory, UINT64_C(1) << 30);
    f->file = (struct qry_adhoc_file){.name = FG_LIT("cpu.pb"),
                                      .limits = &limits,
                                      .decode_max_bytes = 1 << 20,
                                      .memory = &f->memory,
                                      .arena = f->arena};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    qry_adhoc_flame_done(&f->flame);
    assert_int_equal(fg_budget_used(&f->memory), 0);
    make_done(&f->make);
    fg_arena_destroy(f->arena);
    free(f);
    return 0;
}

/* Three columns, two of one name. */
static void make_columns(struct fixture *f)
{
    static const uint64_t stack[] = {1};
    static const int64_t values[] = {1, 20, 300};

    make_type(&f->make, "delay", "count");
    make_type(&f->make, "cpu", "nanoseconds");
    make_type(&f->make, "delay", "nanoseconds");
    make_frame(&f->make, 1, "main");
    make_sample(&f->make, &(struct make_sample){stack, 1, values, 3, NULL, 0});
    f->file.content = make_finish(&f->make);
}

static enum fg_code make_again(struct fixture *f, const char *type, struct fg_err *err)
{
    qry_adhoc_flame_done(&f->flame);
    f->flame = (struct qry_adhoc_flame){0};
    f->file.type = fg_cstr(type);
    return qry_adhoc_flame_make(&f->file, &f->flame, err);
}

static void each_type_has_a_name_of_its_own(void **state)
{
    static const struct {
        const char *type, *called;
        int64_t want;
    } cases[] = {
        {"", "file:delay:count", 1},
        {"delay", "file:delay:count", 1},
        {"file:delay:count", "file:delay:count", 1},
        {"cpu", "cpu", 20},
        {"file:cpu:nanoseconds", "cpu", 20},
        {"file:delay:nanoseconds", "file:delay:nanoseconds", 300},
    };
    static const char *const unknown[] = {"wall",        "delay:count",       "file:delay",
                                          "file:delay:", "file:delay:count:", "file:cpu:count"};
    struct fixture *f = *state;
    struct fg_err err;

    make_columns(f);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  '%s'\n", cases[i].type);
        assert_int_equal(make_again(f, cases[i].type, &err), FG_OK);
        assert_int_equal(f->flame.n_types, 3);
        assert_true(fg_slice_is(f->flame.types[f->flame.chosen].called, cases[i].called));
        assert_int_equal(f->flame.tree.n_nodes, 1);
        assert_int_equal(f->flame.tree.self[0], cases[i].want);
    }
    for (size_t i = 0; i < FG_COUNT(unknown); i++) {
        assert_int_equal(make_again(f, unknown[i], &err), FG_E_INVALID);
        assert_non_null(strstr(err.msg, "file:delay:count, cpu, file:delay:nanoseconds"));
    }
}

/* A thousand inlined functions in a location, a thousand times on a stack: 20 kB are a million
 * frames. */
static void inlined_functions_do_not_fill_memory(void **state)
{
    enum { LINES = 1000, DEPTH = 1000 };
    static struct make_line lines[LINES];
    static uint64_t stack[DEPTH];
    static const int64_t value = 1;
    struct fixture *f = *state;
    struct fg_err err;

    for (size_t i = 0; i < LINES; i++)
        lines[i] = (struct make_line){1, (int64_t)i};
    for (size_t i = 0; i < DEPTH; i++)
        stack[i] = 1;
    make_type(&f->make, "samples", "count");
    make_function(&f->make, 1, "main", "", "", 0);
    make_location(&f->make, 1, 0, 0, lines, LINES);
    make_sample(&f->make, &(struct make_sample){stack, DEPTH, &value, 1, NULL, 0});
    f->file.content = make_finish(&f->make);
    assert_int_equal(make_again(f, "", &err), FG_E_TOO_LARGE);
    assert_non_null(strstr(err.msg, "1000000 frames"));
    f->file.decode_max_bytes = 128 << 20;
    assert_int_equal(make_again(f, "", &err), FG_OK);
    assert_int_equal(f->flame.tree.n_nodes, 1000000);
}

static void files_without_samples_are_refused(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    make_type(&f->make, "samples", "count");
    f->file.content = make_finish(&f->make);
    assert_int_equal(make_again(f, "", &err), FG_E_INVALID);
    f->file.name = FG_LIT("notes.txt");
    f->file.content = FG_LIT("\n\n");
    assert_int_equal(make_again(f, "", &err), FG_E_INVALID);
    assert_non_null(strstr(err.msg, "no samples (read as folded)"));
    f->file.content = FG_LIT("\x1f\x8b\x08");
    assert_int_equal(make_again(f, "", &err), FG_E_DECODE);
}

static void sizes_are_bounded(void **state)
{
    struct fg_limit_settings small = limits;
    struct fixture *f = *state;
    struct fg_err err;

    f->file.name = FG_LIT("a.folded");
    f->file.content = FG_LIT("main;work 1\n");
    small.max_profile_size_bytes = 12;
    f->file.limits = &small;
    assert_int_equal(make_again(f, "", &err), FG_OK);
    small.max_profile_size_bytes = 11;
    assert_int_equal(make_again(f, "", &err), FG_E_TOO_LARGE);
    assert_non_null(strstr(err.msg, "limits.max_profile_size_bytes"));
    small.max_profile_size_bytes = 12;
    f->file.decode_max_bytes = 1000;
    assert_int_equal(make_again(f, "", &err), FG_E_TOO_LARGE);
    assert_non_null(strstr(err.msg, "querier.adhoc_decode_max_bytes"));
}

/* All memory of a file counts: what it is decompressed to, decoded to, and its stacks. */
static void one_limit_is_for_everything(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;
    struct fg_buf text;
    uint64_t least = 1 << 10, most = 8 << 20;

    /* Many stacks with little in common: the tree is the largest part. */
    fg_buf_init(&text, SIZE_MAX);
    for (int i = 0; i < 3000; i++)
        fg_buf_printf(&text, "main;f%d;g%d;h%d 1\n", i, i * 7, i * 13);
    f->file.name = FG_LIT("a.folded");
    f->file.content = fg_buf_slice(&text);
    /* The least limit with which it can be decoded. */
    while (least + (16 << 10) < most) {
        f->file.decode_max_bytes = (least + most) / 2;
        if (make_again(f, "", &err) == FG_OK) {
            /* What stays is what the flame graph has. */
            assert_true(f->flame.held_bytes >= fg_tree_bytes(&f->flame.tree));
            assert_int_equal(fg_budget_used(&f->memory), f->flame.held_bytes);
            assert_true(f->flame.held_bytes <= f->file.decode_max_bytes);
            most = f->file.decode_max_bytes;
        } else {
            assert_int_equal(err.code, FG_E_TOO_LARGE);
            assert_non_null(strstr(err.msg, "querier.adhoc_decode_max_bytes"));
            assert_int_equal(fg_budget_used(&f->memory), f->flame.held_bytes);
            least = f->file.decode_max_bytes;
        }
    }
    f->file.decode_max_bytes = most;
    assert_int_equal(make_again(f, "", &err), FG_OK);
    /* Two trees, of which one was copied. */
    assert_true(most >= 2 * fg_tree_bytes(&f->flame.tree));
    fg_buf_done(&text);
}

static void all_files_share_memory(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    f->file.name = FG_LIT("a.folded");
    f->file.content = FG_LIT("main;work 1\n");
    f->file.decode_max_bytes = UINT64_C(1) << 30;
    /* A small file does not take all that one may have. */
    fg_budget_force(&f->memory, (UINT64_C(1) << 30) - (8 << 20));
    assert_int_equal(make_again(f, "", &err), FG_OK);
    fg_budget_force(&f->memory, 8 << 20);
    assert_int_equal(make_again(f, "", &err), FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "querier.adhoc_memory_max_bytes"));
    fg_budget_give(&f->memory, UINT64_C(1) << 30);
    assert_int_equal(make_again(f, "", &err), FG_OK);
    assert_true(fg_budget_used(&f->memory) < 64 << 10);
}

static void only_equal_units_are_compared(void **state)
{
    struct fixture *f = *state;
    struct qry_adhoc_flame other = {0};
    struct fg_json_writer json;
    struct fg_buf text;
    struct fg_err err;

    make_columns(f);
    assert_int_equal(make_again(f, "cpu", &err), FG_OK);
    f->file.type = FG_LIT("delay");
    assert_int_equal(qry_adhoc_flame_make(&f->file, &other, &err), FG_OK);
    fg_buf_init(&text, SIZE_MAX);
    json = fg_json_writer(&text);
    fg_json_begin_object(&json, NULL);
    assert_int_equal(qry_adhoc_flame_write_diff(&f->flame, &other, 10, &json, &err), FG_E_INVALID);
    qry_adhoc_flame_done(&other);
    other = (struct qry_adhoc_flame){0};
    f->file.type = FG_LIT("file:delay:nanoseconds");
    assert_int_equal(qry_adhoc_flame_make(&f->file, &other, &err), FG_OK);
    assert_int_equal(qry_adhoc_flame_write_diff(&f->flame, &other, 10, &json, &err), FG_OK);
    fg_json_end(&json);
    assert_true(fg_slice_search(fg_buf_slice(&text),
                                "\"levels\":[[0,20,0,0,300,0,0],[0,20,20,0,300,300,1]]") !=
                SIZE_MAX);
    fg_buf_done(&text);
    qry_adhoc_flame_done(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_type_has_a_name_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(inlined_functions_do_not_fill_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(files_without_samples_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_are_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_limit_is_for_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_files_share_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_equal_units_are_compared, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
