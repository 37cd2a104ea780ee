/* Tests profile kinds: the built-in ones and those that settings define. */
#include "common/base/buf.h"
#include "distributor/scrape/profile_kind.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct dist_profile_kind *find(const struct dist_profile_kinds *kinds,
                                            const char *name)
{
    const struct dist_profile_kind *kind = dist_profile_kinds_find(kinds, fg_cstr(name));

    assert_non_null(kind);
    return kind;
}

static void the_built_in_profile_kinds_are_those_of_alloy(void **state)
{
    static const char *const on[] = {"process_cpu", "memory", "goroutine", "mutex", "block"};
    struct dist_profile_kinds kinds;
    struct fg_err err;

    (void)state;
    assert_int_equal(dist_profile_kinds_init(&kinds, FG_LIT(""), "scrape.profiles", &err), FG_OK);
    assert_int_equal(kinds.n, 9);
    for (uint32_t i = 0; i < kinds.n; i++)
        assert_int_equal(kinds.items[i].enabled, i < FG_COUNT(on));
    for (size_t i = 0; i < FG_COUNT(on); i++)
        assert_string_equal(kinds.items[i].name, on[i]);
    assert_true(find(&kinds, "process_cpu")->seconds);
    assert_string_equal(find(&kinds, "godeltaprof_memory")->stored, "memory");
    assert_int_equal(find(&kinds, "godeltaprof_memory")->n_cumulative, 0);
    assert_string_equal(find(&kinds, "memory")->cumulative[1], "alloc_space");
    assert_null(dist_profile_kinds_find(&kinds, FG_LIT("cpu")));
    dist_profile_kinds_done(&kinds);
}

static void settings_change_profile_kinds_and_add_new_ones(void **state)
{
    struct dist_profile_kinds kinds;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        dist_profile_kinds_init(&kinds,
                                FG_LIT("block: {enabled: false}\n"
                                       "memory: {path: /heap?gc=1, cumulative: [objects]}\n"
                                       "fgprof: {enabled: true}\n"
                                       "wall: {path: /pprof/wall, seconds: true}\n"),
                                "scrape.profiles", &err),
        FG_OK);
    assert_false(find(&kinds, "block")->enabled);
    assert_true(find(&kinds, "fgprof")->enabled);
    assert_string_equal(find(&kinds, "memory")->path, "/heap?gc=1");
    assert_int_equal(find(&kinds, "memory")->n_cumulative, 1);
    assert_string_equal(find(&kinds, "memory")->cumulative[0], "objects");
    assert_true(find(&kinds, "wall")->enabled && find(&kinds, "wall")->seconds);
    assert_string_equal(find(&kinds, "wall")->stored, "wall");
    assert_string_equal(find(&kinds, "wall")->annotation, "wall");
    dist_profile_kinds_done(&kinds);
}

/* clang-format off */
static const struct {
    const char *yaml, *want;
} wrong[] = {
    {"[memory]", "scrape.profiles: not a map of profiles"},
    {"memory: off", "\"memory\": is not a map"},
    {"memory: {enabeld: false}", "unknown key \"enabeld\"; did you mean \"enabled\"?"},
    {"memory: {enabled: maybe}", "\"enabled\" is neither true nor false"},
    {"memory: {path: heap}", "\"path\" must be a path"},
    {"memory: {path: \"/a b\"}", "\"path\" must be a path"},
    {"memory: {cumulative: alloc_space}", "\"cumulative\" is not a list"},
    {"memory: {cumulative: [a,b,c,d,e,f,g,h,i]}", "\"cumulative\" is not a list of up to 8"},
    {"memory: {cumulative: [\"\"]}", "\"cumulative\" lists no sample type"},
    {"memry: {enabled: false}", "did you mean \"memory\"?"},
    {"wall: {seconds: true}", "\"wall\" is a new profile and needs a \"path\""},
    {"Wall: {path: /wall}", "\"Wall\": a name may contain only lower-case letters"},
    {"\"a-b\": {path: /wall}", "\"a-b\": a name may contain only lower-case letters"},
};
/* clang-format on */

static void errors_name_the_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        struct dist_profile_kinds kinds;
        struct fg_err err;

        print_message("  %s\n", wrong[i].yaml);
        assert_int_equal(
            dist_profile_kinds_init(&kinds, fg_cstr(wrong[i].yaml), "scrape.profiles", &err),
            FG_E_INVALID);
        if (strstr(err.msg, wrong[i].want) == NULL)
            fail_msg("\"%s\", not \"%s\"", err.msg, wrong[i].want);
    }
}

static void the_number_of_connections_is_limited(void **state)
{
    struct dist_profile_kinds kinds;
    struct fg_buf yaml;
    struct fg_err err;

    (void)state;
    fg_buf_init(&yaml, 65536);
    for (int i = 0; i < KINDS_MAX; i++)
        fg_buf_printf(&yaml, "p%d: {path: /p}\n", i);
    assert_int_equal(dist_profile_kinds_init(&kinds, fg_buf_slice(&yaml), "scrape.profiles", &err),
                     FG_E_INVALID);
    assert_non_null(strstr(err.msg, "too many profile types"));
    fg_buf_done(&yaml);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_profile_kinds_are_those_of_alloy),
        cmocka_unit_test(settings_change_profile_kinds_and_add_new_ones),
        cmocka_unit_test(errors_name_the_fault),
        cmocka_unit_test(the_number_of_connections_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
