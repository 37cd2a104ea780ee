#include "proto/pprof/names.h"
#include "proto/pprof/pprof.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void go_shapes_are_removed_from_names(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"", ""},
        {"main.work", "main.work"},
        {"slices.Sort[go.shape.int]", "slices.Sort"},
        {"a[go.shape.int].b[go.shape.[]uint8].c", "a.b.c"},
        {"a[go.shape.struct { x [4]int; y map[string][]int }]", "a"},
        {"[go.shape.int]", ""},
        {"a[go.shape.int", "a[go.shape.int"},
        {"a[go.shape.int]b[go.shape.[int]", "ab[go.shape.[int]"},
        {"a[...]", "a[...]"},
        {"a[go.shapes]", "a[go.shapes]"},
        {"a[x[go.shape.int]]", "a[x]"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        uint8_t out[128];
        size_t len = fg_go_drop_shapes(fg_cstr(cases[i].in), out);

        print_message("  %s\n", cases[i].in);
        assert_true(fg_slice_is(fg_bytes(out, len), cases[i].want));
    }
}

/* The name that a function of this name and file has afterwards. */
static void assert_renamed(struct fg_slice name, struct fg_slice file, unsigned quirks,
                           struct fg_slice want)
{
    struct fg_batch_function function = {.name = name, .system_name = name, .filename = file};
    struct fg_batch batch = {.functions = &function, .n_functions = 1};
    struct fg_arena *arena = fg_arena_create(1000);
    struct fg_err err;

    assert_int_equal(fg_pprof_rename(&batch, quirks, arena, &err), FG_OK);
    if (!fg_slice_eq(function.name, want))
        print_message("\"%.*s\" is not \"%.*s\"\n", FG_S(function.name), FG_S(want));
    assert_true(fg_slice_eq(function.name, want));
    assert_true(fg_slice_eq(function.filename, file));
    fg_arena_destroy(arena);
}

static void quirks_rename(void **state)
{
    static const struct {
        const char *name, *file;
        unsigned quirks;
        const char *want;
    } cases[] = {
        {"f", "app.py", 0, "f"},
        {"f", "app.py", FG_PPROF_SCRIPT_NAMES, "app.py f"},
        {"f", "/lib/app.rb", FG_PPROF_SCRIPT_NAMES, "/lib/app.rb f"},
        {"f", "/lib/app.py", FG_PPROF_SCRIPT_NAMES | FG_PPROF_SCRIPT_RELATIVE, "f"},
        {"f", "app.py", FG_PPROF_SCRIPT_NAMES | FG_PPROF_SCRIPT_RELATIVE, "app.py f"},
        {"f", "", FG_PPROF_SCRIPT_NAMES, " f"},
        {"f[go.shape.int]", "f.go", 0, "f"},
        {"f[go.shape.int]", "f.py", 0, "f[go.shape.int]"},
        {"f[go.shape.int]", "f.go", FG_PPROF_NOT_GO, "f[go.shape.int]"},
        {"f[go.shape.int]", "f.c", FG_PPROF_GO, "f"},
        {"f[go.shape.int]", "f.c", FG_PPROF_GO | FG_PPROF_SCRIPT_NAMES, "f.c f"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_renamed(fg_cstr(cases[i].name), fg_cstr(cases[i].file), cases[i].quirks,
                       fg_cstr(cases[i].want));
}

/* NUL is a character like others. */
static void nul_in_names_is_kept(void **state)
{
    (void)state;
    assert_renamed(FG_LIT("a\0bc"), FG_LIT("x\0y.py"), FG_PPROF_SCRIPT_NAMES,
                   FG_LIT("x\0y.py a\0bc"));
    assert_renamed(FG_LIT("a\0[go.shape.int]c"), FG_LIT("x.go"), 0, FG_LIT("a\0c"));
}

static void memory_is_bounded(void **state)
{
    struct fg_batch_function function = {.name = FG_LIT("name"), .filename = FG_LIT("file")};
    struct fg_batch batch = {.functions = &function, .n_functions = 1};
    struct fg_arena *arena = fg_arena_create(4);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_pprof_rename(&batch, FG_PPROF_SCRIPT_NAMES, arena, &err), FG_E_TOO_LARGE);
    function.name = FG_LIT("f[go.shape.int]");
    assert_int_equal(fg_pprof_rename(&batch, FG_PPROF_GO, arena, &err), FG_E_TOO_LARGE);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(go_shapes_are_removed_from_names),
        cmocka_unit_test(quirks_rename),
        cmocka_unit_test(nul_in_names_is_kept),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
