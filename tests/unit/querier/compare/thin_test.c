/* Tests which findings of a comparison are told. */
#include "common/base/def.h"
#include "querier/compare/thin.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void packages_are_what_names_begin_with(void **state)
{
    static const struct {
        const char *name, *package;
    } cases[] = {
        {"net/http.(*conn).serve", "net/http"},
        {"github.com/a/b.v2.run.func1", "github.com/a/b"},
        {"main.work", "main"},
        {"runtime.mallocgc", "runtime"},
        {"runtime.(*mheap).alloc", "runtime"},
        {"java.util.HashMap.get", "java.util.HashMap"},
        {"std::vector<std::string>::push_back(std::string const&)", "std"},
        {"a::b::c(int)", "a::b"},
        {"core::iter::map", "core::iter"},
        {"memcpy", ""},
        {"", ""},
        {".", ""},
        {"::x", ""},
        {"(anonymous)", ""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_slice found = qry_thin_package(fg_cstr(cases[i].name));

        if (!fg_slice_is(found, cases[i].package))
            fail_msg("%s: %.*s", cases[i].name, FG_S(found));
    }
}

/* main calls serve, which calls hash and sort. */
enum { MAIN, SERVE, HASH, SORT, FUNCTIONS };
static const char *const texts[] = {"main.main", "web.serve", "lib.hash", "lib.sort"};

static void thin(struct qry_thin_row *rows, size_t n, double whole,
                 const struct qry_thin_edge *edges, size_t n_edges)
{
    struct fg_slice names[FUNCTIONS];

    for (size_t i = 0; i < FUNCTIONS; i++)
        names[i] = fg_cstr(texts[i]);
    for (size_t i = 0; i < n; i++)
        rows[i].first = rows[i].function;
    qry_thin(rows, n, whole, names, FUNCTIONS, edges, n_edges);
}

static void callers_are_folded_into_what_they_call(void **state)
{
    struct qry_thin_row rows[] = {
        {.function = MAIN, .of_total = true, .found = true, .delta = 0.1, .size = 2},
        {.function = SERVE, .of_total = true, .found = true, .delta = 0.1, .size = 2},
        {.function = HASH, .found = true, .delta = 0.09, .size = 0.4},
        {.function = SORT, .found = false, .delta = 0.01, .size = 0.4},
    };
    const struct qry_thin_edge edges[] = {{QRY_THIN_NONE, MAIN, 0.1, 2},
                                          {MAIN, SERVE, 0.1, 2},
                                          {SERVE, HASH, 0.09, 0.4},
                                          {SERVE, SORT, 0.01, 0.4}};

    (void)state;
    thin(rows, FG_COUNT(rows), 2, edges, FG_COUNT(edges));
    assert_int_equal(rows[0].folded, 1);
    assert_int_equal(rows[1].folded, 1);
    assert_int_equal(rows[2].folded, 0);
    /* Less than 80 % of it is explained. */
    rows[2].delta = 0.07;
    thin(rows, FG_COUNT(rows), 2, edges, FG_COUNT(edges));
    assert_int_equal(rows[1].folded, 0);
    assert_int_equal(rows[0].folded, 1);
    /* What changed the other way explains nothing. */
    rows[2].delta = -0.09;
    thin(rows, FG_COUNT(rows), 2, edges, FG_COUNT(edges));
    assert_int_equal(rows[1].folded, 0);
}

static void a_total_is_folded_into_its_own_self_value(void **state)
{
    struct qry_thin_row rows[] = {
        {.function = SERVE, .found = true, .delta = 0.05, .size = 0.5},
        {.function = SERVE, .of_total = true, .found = true, .delta = 0.06, .size = 1.5},
    };

    (void)state;
    thin(rows, FG_COUNT(rows), 2, NULL, 0);
    assert_int_equal(rows[0].folded, 0);
    assert_int_equal(rows[1].folded, 1);
}

static void recursion_does_not_fold_everything(void **state)
{
    struct qry_thin_row rows[] = {
        {.function = SERVE, .of_total = true, .found = true, .delta = 0.1, .size = 1},
        {.function = HASH, .of_total = true, .found = true, .delta = 0.1, .size = 1},
    };
    const struct qry_thin_edge edges[] = {{SERVE, HASH, 0.1, 1}, {HASH, SERVE, 0.1, 1}};

    (void)state;
    thin(rows, FG_COUNT(rows), 2, edges, FG_COUNT(edges));
    assert_int_equal(rows[0].folded, 1);
    assert_int_equal(rows[1].folded, 0);
}

static void changes_that_cancel_each_other_have_moved(void **state)
{
    struct qry_thin_row rows[] = {
        {.function = HASH, .found = true, .delta = -0.1, .size = 0.1},
        {.function = SORT, .found = true, .delta = 0.095, .size = 0.095},
        {.function = SERVE, .found = true, .delta = 0.02, .size = 0.1},
    };
    const struct qry_thin_edge callers[] = {{SERVE, HASH, -0.1, 0.1}, {MAIN, SORT, 0.095, 0.1}};

    (void)state;
    /* Of the same package. */
    thin(rows, FG_COUNT(rows), 2, callers, FG_COUNT(callers));
    assert_int_equal(rows[0].moved, 0);
    assert_int_equal(rows[1].moved, 0);
    assert_int_equal(rows[2].moved, QRY_THIN_NONE);
    /* Too different in size. */
    rows[1].delta = 0.08;
    thin(rows, FG_COUNT(rows), 2, callers, FG_COUNT(callers));
    assert_int_equal(rows[0].moved, QRY_THIN_NONE);
    /* With the same caller, split in two. */
    rows[1].function = SERVE;
    rows[2].function = MAIN;
    rows[2].delta = 0.025;
    thin(rows, FG_COUNT(rows), 2,
         (struct qry_thin_edge[]){{SORT, HASH, 0, 1}, {SORT, SERVE, 0, 1}, {SORT, MAIN, 0, 1}}, 3);
    assert_int_equal(rows[0].moved, 0);
    assert_int_equal(rows[2].moved, 0);
}

static void shares_of_everything_do_not_move(void **state)
{
    /* hash got slower, so the share of sort fell. */
    struct qry_thin_row rows[] = {
        {.function = HASH, .found = true, .delta = 0.1, .size = 1.1},
        {.function = SORT, .found = true, .delta = -0.1, .size = 0.9},
    };

    (void)state;
    thin(rows, FG_COUNT(rows), 2, NULL, 0);
    assert_int_equal(rows[0].moved, QRY_THIN_NONE);
    thin(rows, FG_COUNT(rows), INFINITY, NULL, 0); /* seconds of CPU did move */
    assert_int_equal(rows[0].moved, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packages_are_what_names_begin_with),
        cmocka_unit_test(callers_are_folded_into_what_they_call),
        cmocka_unit_test(a_total_is_folded_into_its_own_self_value),
        cmocka_unit_test(recursion_does_not_fold_everything),
        cmocka_unit_test(changes_that_cancel_each_other_have_moved),
        cmocka_unit_test(shares_of_everything_do_not_move),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
