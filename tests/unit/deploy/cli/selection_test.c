#include "common/base/time.h"
#include "deploy/cli/selection.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define CPU_ID    "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define WALL_CPU  "wall:cpu:nanoseconds:wall:nanoseconds"
#define SPACE_ID  "memory:inuse_space:bytes:space:bytes"
#define MUTEX_ID  "mutex:delay:nanoseconds:contentions:count"
#define BLOCK_ID  "block:delay:nanoseconds:contentions:count"
#define NO_PERIOD "memory:inuse_space:bytes::"

static void assert_slice(struct fg_slice got, const char *want)
{
    print_message("  %.*s\n", FG_S(got));
    assert_true(fg_slice_is(got, want));
}

static void short_selectors_are_completed(void **state)
{
    static const struct {
        const char *text, *type, *labels;
    } cases[] = {
        {"shop", "", "{service_name=\"shop\"}"},
        {" shop ", "", "{service_name=\"shop\"}"},
        {"shop{}", "", "{service_name=\"shop\"}"},
        {"shop.cpu", "cpu", "{service_name=\"shop\"}"},
        {"my.shop", "", "{service_name=\"my.shop\"}"},
        {"my.shop.alloc_space", "alloc_space", "{service_name=\"my.shop\"}"},
        {"shop.mutex_duration", "mutex:delay", "{service_name=\"shop\"}"},
        {"cpu", "", "{service_name=\"cpu\"}"},
        {".cpu", "", "{service_name=\".cpu\"}"},
        {"ns/shop-1{env=~\"p.*\"}", "", "{service_name=\"ns/shop-1\",env=~\"p.*\"}"},
        {"shop.cpu{env=\"a{b}\"}", "cpu", "{service_name=\"shop\",env=\"a{b}\"}"},
        {"{env=\"prod\"}", "", "{env=\"prod\"}"},
        {"{}", "", "{}"},
        {CPU_ID "{service_name=\"a\"}", CPU_ID, "{service_name=\"a\"}"},
        {NO_PERIOD, NO_PERIOD, "{}"},
    };
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct cli_selection selection;
        struct fg_err err;

        assert_int_equal(cli_selection_parse(fg_cstr(cases[i].text), arena, &selection, &err),
                         FG_OK);
        assert_slice(selection.type, cases[i].type);
        assert_slice(selection.labels, cases[i].labels);
    }
}

static void malformed_selectors_are_refused(void **state)
{
    static const char *const cases[] = {"",      "  ",         "shop{env=prod}",
                                        "shop{", "{a=~\"(\"}", "shop{a=\"b\"} x"};
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct cli_selection selection;
        struct fg_err err;

        assert_int_equal(cli_selection_parse(fg_cstr(cases[i]), arena, &selection, &err),
                         FG_E_INVALID);
        print_message("  %s\n", err.msg);
    }
}

static void a_profile_type_becomes_matchers(void **state)
{
    static const struct {
        const char *text, *labels;
    } cases[] = {
        {"shop", "{service_name=\"shop\"}"},
        {"shop.cpu", "{service_name=\"shop\",__type__=\"cpu\"}"},
        {"shop.mutex_duration", "{service_name=\"shop\",__name__=\"mutex\",__type__=\"delay\"}"},
        {CPU_ID, "{__profile_type__=\"" CPU_ID "\"}"},
    };
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct cli_selection selection;
        struct fg_slice labels;
        struct fg_err err;

        assert_int_equal(cli_selection_parse(fg_cstr(cases[i].text), arena, &selection, &err),
                         FG_OK);
        assert_int_equal(cli_selection_with_type(&selection, arena, &labels, &err), FG_OK);
        assert_slice(labels, cases[i].labels);
    }
}

/* ids: NULL after the last. */
static enum fg_code choose(const char *type, const char *const *ids, struct fg_slice *ret_id,
                           struct fg_err *err)
{
    struct fg_slice slices[8];
    size_t n = 0;

    for (; ids[n] != NULL; n++)
        slices[n] = fg_cstr(ids[n]);
    return cli_selection_choose_type(fg_cstr(type), slices, n, " of shop", ret_id, err);
}

static void profile_types_are_found_by_part_of_their_name(void **state)
{
    static const struct {
        const char *type, *ids[5], *want;
    } cases[] = {
        {"", {SPACE_ID}, SPACE_ID},
        {"", {SPACE_ID, CPU_ID, WALL_CPU}, CPU_ID},
        {"cpu", {SPACE_ID, CPU_ID}, CPU_ID},
        {"delay", {BLOCK_ID, CPU_ID}, BLOCK_ID},
        {"mutex:delay", {BLOCK_ID, MUTEX_ID}, MUTEX_ID},
        {"inuse_space", {"nonsense", NO_PERIOD}, NO_PERIOD},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_slice id;
        struct fg_err err;

        assert_int_equal(choose(cases[i].type, cases[i].ids, &id, &err), FG_OK);
        assert_slice(id, cases[i].want);
    }
}

static void matching_profile_types_are_listed(void **state)
{
    static const struct {
        const char *type, *ids[5];
        enum fg_code code;
        const char *want;
    } cases[] = {
        {"",
         {BLOCK_ID, MUTEX_ID},
         FG_E_INVALID,
         "there are several types, choose with --type: " BLOCK_ID ", " MUTEX_ID},
        {"delay",
         {BLOCK_ID, CPU_ID, MUTEX_ID},
         FG_E_INVALID,
         "it means several types, choose with --type: " BLOCK_ID ", " MUTEX_ID},
        {"goroutine",
         {CPU_ID},
         FG_E_NOT_FOUND,
         "no profiles of the type goroutine of shop; there are: " CPU_ID},
        {"cpu", {NULL}, FG_E_NOT_FOUND, "there are no profiles"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_slice id;
        struct fg_err err;

        assert_int_equal(choose(cases[i].type, cases[i].ids, &id, &err), cases[i].code);
        assert_string_equal(err.msg, cases[i].want);
    }
}

static void time_ranges_are_parsed(void **state)
{
    const int64_t now_ns = INT64_C(1700000000) * FG_SECOND_NS;
    struct cli_selection_range range;
    struct fg_err err;

    (void)state;
    assert_int_equal(cli_selection_range("now-1h", "now", now_ns, &range, &err), FG_OK);
    assert_int_equal(range.start_ms, INT64_C(1699996400000));
    assert_int_equal(range.end_ms, INT64_C(1700000000000));
    assert_int_equal(cli_selection_range("1600000000", "20231114", now_ns, &range, &err), FG_OK);
    assert_int_equal(cli_selection_range("now", "now", now_ns, &range, &err), FG_E_INVALID);
    assert_int_equal(cli_selection_range("now", "now-1h", now_ns, &range, &err), FG_E_INVALID);
    assert_int_equal(cli_selection_range("now-99999y", "now", now_ns, &range, &err), FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_selectors_are_completed),
        cmocka_unit_test(malformed_selectors_are_refused),
        cmocka_unit_test(a_profile_type_becomes_matchers),
        cmocka_unit_test(profile_types_are_found_by_part_of_their_name),
        cmocka_unit_test(matching_profile_types_are_listed),
        cmocka_unit_test(time_ranges_are_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
