#include "common/storage/rollup/groups.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;

/* Label sets as text, "a=1,b=2"; NULL ends them. */
static uint32_t parse_series(const char *const *texts, struct fg_labels *series,
                             struct fg_arena *arena)
{
    uint32_t count = 0;

    for (; texts[count] != NULL; count++) {
        struct fg_slice rest = fg_cstr(texts[count]);
        struct fg_labels *labels = &series[count];

        *labels = (struct fg_labels){fg_arena_new(arena, struct fg_label, 8), 0};
        while (rest.len > 0) {
            struct fg_slice pair = fg_slice_sub(rest, 0, fg_slice_find(rest, ','));
            size_t at = fg_slice_find(pair, '=');

            labels->items[labels->count++] =
                (struct fg_label){fg_slice_sub(pair, 0, at), fg_slice_sub(pair, at + 1, SIZE_MAX)};
            rest = fg_slice_sub(rest, pair.len + 1, SIZE_MAX);
        }
        fg_labels_sort(labels);
    }
    return count;
}

static void write_groups(const struct fg_groups *groups, struct fg_buf *out)
{
    for (size_t i = 0; i < groups->common.count; i++)
        fg_buf_printf(out, "%.*s=%.*s ", FG_S(groups->common.items[i].name),
                      FG_S(groups->common.items[i].value));
    fg_buf_puts(out, "| ");
    for (uint32_t i = 0; i < groups->n_names; i++)
        fg_buf_printf(out, "%.*s ", FG_S(groups->names[i]));
    fg_buf_puts(out, "| ");
    for (uint32_t g = 0; g < groups->n_groups; g++) {
        for (uint32_t i = 0; i < groups->n_names; i++)
            fg_buf_printf(out, "%.*s/", FG_S(groups->values[(size_t)g * groups->n_names + i]));
        fg_buf_puts(out, " ");
    }
    fg_buf_puts(out, "|");
    for (uint32_t i = 0; i < groups->n_series; i++)
        fg_buf_printf(out, " %u", groups->of_series[i]);
    fg_buf_putc(out, '\0');
}

static const struct {
    const char *name;
    const char *series[6];
    const char *want;
} cases[] = {
    {"no series", {NULL}, "| | |"},
    {"one series has all labels in common",
     {"__name__=cpu,region=eu,pod=a", NULL},
     "__sampled__= namespace= pod=a region=eu version= zone= | |  | 0"},
    {"by region",
     {"region=us,pod=a,s=x", "region=eu,pod=b,s=x", "region=us,pod=c,s=x", NULL},
     "__sampled__= namespace= s=x version= zone= | region | eu/ us/ | 1 0 1"},
    {"in the order of the wanted ones",
     {"version=2,region=us", "version=1,region=eu", "version=1,region=us", NULL},
     "__sampled__= namespace= zone= | region version | eu/1/ us/1/ us/2/ | 2 0 1"},
    {"no label is a value too",
     {"zone=b", "pod=x", "zone=a", NULL},
     "__sampled__= namespace= region= version= | zone | / a/ b/ | 2 0 1"},
    {"three labels at most",
     {"region=1,zone=1,version=1,namespace=1", "region=2,zone=2,version=2,namespace=2", NULL},
     "__sampled__= | region zone version | 1/1/1/ 2/2/2/ | 0 1"},
};

static void labels_with_few_values_are_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_labels series[6];
        uint32_t count = parse_series(cases[i].series, series, arena);
        struct fg_groups groups;
        struct fg_buf text;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        assert_int_equal(
            fg_groups_choose(series, count, wanted, FG_COUNT(wanted), arena, &groups, &err), FG_OK);
        fg_buf_init(&text, 1 << 16);
        write_groups(&groups, &text);
        assert_string_equal((char *)text.ptr, cases[i].want);
        fg_buf_done(&text);
        fg_arena_destroy(arena);
    }
}

static const struct {
    const char *name;
    const char *series[6];
    const char *want;
} singles[] = {
    {"no series", {NULL}, "| | |"},
    {"one series", {"pod=a,region=eu", NULL}, "pod=a region=eu zone= | |  | 0"},
    {"the label with most values comes first",
     {"pod=a,az=1", "pod=b,az=1", "pod=c,az=2", NULL},
     "zone= | pod az | a/1/ b/1/ c/2/ | 0 1 2"},
    {"series of several types are one",
     {"__name__=cpu,pod=b", "__name__=memory,pod=b", "__name__=cpu,pod=a", NULL},
     "zone= | pod | a/ b/ | 1 1 0"},
    {"no label is a value too", {"pod=b", "x=1", NULL}, "zone= | pod x | /1/ b// | 1 0"},
};

static void single_series_are_groups_by_all_their_labels(void **state)
{
    static const struct fg_slice zone[] = {FG_LIT("zone")};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(singles); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_labels series[6];
        uint32_t count = parse_series(singles[i].series, series, arena);
        struct fg_groups groups;
        struct fg_buf text;
        struct fg_err err;

        print_message("  %s\n", singles[i].name);
        assert_int_equal(fg_groups_single(series, count, zone, 1, arena, &groups, &err), FG_OK);
        fg_buf_init(&text, 1 << 16);
        write_groups(&groups, &text);
        assert_string_equal((char *)text.ptr, singles[i].want);
        fg_buf_done(&text);
        fg_arena_destroy(arena);
    }
}

static void too_many_single_series_or_labels_are_no_groups(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        struct fg_arena *arena = fg_arena_create(16 << 20);
        uint32_t count = FG_GROUPS_SINGLE_MAX + more;
        struct fg_labels *series = fg_arena_new(arena, struct fg_labels, count);
        struct fg_groups groups;
        struct fg_err err;

        for (uint32_t i = 0; i < count; i++) {
            struct fg_label *label = fg_arena_new(arena, struct fg_label, 1);

            *label = (struct fg_label){FG_LIT("pod"), fg_cstr(fg_arena_printf(arena, "%05u", i))};
            series[i] = (struct fg_labels){label, 1};
        }
        assert_int_equal(fg_groups_single(series, count, NULL, 0, arena, &groups, &err), FG_OK);
        assert_int_equal(groups.n_groups, more ? 0 : count);

        count = FG_GROUPS_SINGLE_LABELS_MAX + more;
        for (uint32_t i = 0; i < count; i++)
            series[i].items[0] =
                (struct fg_label){fg_cstr(fg_arena_printf(arena, "l%02u", i)), FG_LIT("x")};
        assert_int_equal(fg_groups_single(series, count, NULL, 0, arena, &groups, &err), FG_OK);
        assert_int_equal(groups.n_groups, more ? 0 : count);
        fg_arena_destroy(arena);
    }
}

/* Series with n regions and m zones, all pairs. */
static struct fg_groups choose_grid(struct fg_arena *arena, uint32_t regions, uint32_t zones)
{
    struct fg_labels *series = fg_arena_new(arena, struct fg_labels, (size_t)regions * zones);
    struct fg_groups groups;
    struct fg_err err;

    for (uint32_t i = 0; i < regions * zones; i++) {
        struct fg_label *items = fg_arena_new(arena, struct fg_label, 2);

        items[0] = (struct fg_label){FG_LIT("region"),
                                     fg_cstr(fg_arena_printf(arena, "r%02u", i % regions))};
        items[1] = (struct fg_label){FG_LIT("zone"),
                                     fg_cstr(fg_arena_printf(arena, "z%02u", i / regions))};
        series[i] = (struct fg_labels){items, 2};
    }
    assert_int_equal(
        fg_groups_choose(series, regions * zones, wanted, FG_COUNT(wanted), arena, &groups, &err),
        FG_OK);
    return groups;
}

static const struct {
    uint32_t regions, zones, n_names, n_groups;
} grids[] = {
    {32, 2, 2, 64}, {32, 3, 1, 32}, {33, 2, 1, 2}, {8, 8, 2, 64}, {33, 33, 0, 1}, {1, 5, 1, 5},
};

static void groups_stay_within_their_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(grids); i++) {
        struct fg_arena *arena = fg_arena_create(4 << 20);
        struct fg_groups groups = choose_grid(arena, grids[i].regions, grids[i].zones);

        print_message("  %u regions, %u zones\n", grids[i].regions, grids[i].zones);
        assert_int_equal(groups.n_names, grids[i].n_names);
        assert_int_equal(groups.n_groups, grids[i].n_groups);
        fg_arena_destroy(arena);
    }
}

static void a_full_arena_is_an_error(void **state)
{
    struct fg_labels series[2] = {{NULL, 0}, {NULL, 0}};
    struct fg_arena *arena = fg_arena_create(1);
    struct fg_groups groups;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_groups_choose(series, 2, wanted, FG_COUNT(wanted), arena, &groups, &err),
                     FG_E_LIMIT);
    fg_arena_destroy(arena);
}

/* ---- selectors ---- */

static const struct {
    const char *selector;
    enum fg_groups_answer eu, us;
} questions[] = {
    {"{}", FG_GROUPS_EVERY, FG_GROUPS_EVERY},
    {"{region=\"eu\"}", FG_GROUPS_EVERY, FG_GROUPS_NONE},
    {"{region=\"\"}", FG_GROUPS_NONE, FG_GROUPS_NONE},
    {"{region=~\"e.*\",service_name=\"shop\"}", FG_GROUPS_EVERY, FG_GROUPS_NONE},
    {"{service_name!=\"shop\"}", FG_GROUPS_NONE, FG_GROUPS_NONE},
    {"{pod=\"a\"}", FG_GROUPS_OPEN, FG_GROUPS_OPEN},
    {"{pod=\"a\",region=\"eu\"}", FG_GROUPS_OPEN, FG_GROUPS_NONE},
    {"{unheard_of=\"\"}", FG_GROUPS_OPEN, FG_GROUPS_OPEN},
    {"{__sampled__!=\"true\"}", FG_GROUPS_EVERY, FG_GROUPS_EVERY},
    {"{version=\"2\"}", FG_GROUPS_NONE, FG_GROUPS_NONE},
    {"process_cpu{}", FG_GROUPS_EVERY, FG_GROUPS_EVERY},
    {"memory{}", FG_GROUPS_NONE, FG_GROUPS_NONE},
    {"{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}", FG_GROUPS_EVERY,
     FG_GROUPS_EVERY},
    {"{__service_name__=\"shop\"}", FG_GROUPS_EVERY, FG_GROUPS_EVERY},
};

static void selectors_are_decided_by_groups(void **state)
{
    static const char *const texts[] = {"region=us,pod=a,service_name=shop",
                                        "region=eu,pod=b,service_name=shop",
                                        "region=eu,pod=c,service_name=shop", NULL};
    const struct fg_profile_type type = {FG_LIT("process_cpu"), FG_LIT("cpu"),
                                         FG_LIT("nanoseconds"), FG_LIT("cpu"),
                                         FG_LIT("nanoseconds")};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_labels series[3];
    uint32_t count = parse_series(texts, series, arena);
    struct fg_groups groups;
    struct fg_err err;

    (void)state;
    assert_int_equal(
        fg_groups_choose(series, count, wanted, FG_COUNT(wanted), arena, &groups, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(questions); i++) {
        enum fg_groups_answer answers[FG_GROUPS_MAX];
        struct fg_selector selector = {0};

        print_message("  %s\n", questions[i].selector);
        assert_int_equal(fg_selector_parse(fg_cstr(questions[i].selector), arena, &selector, &err),
                         FG_OK);
        assert_int_equal(fg_groups_match(&groups, &type, &selector, arena, answers, &err), FG_OK);
        assert_int_equal(answers[0], questions[i].eu);
        assert_int_equal(answers[1], questions[i].us);
        fg_selector_done(&selector);
    }
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_with_few_values_are_chosen),
        cmocka_unit_test(groups_stay_within_their_bounds),
        cmocka_unit_test(single_series_are_groups_by_all_their_labels),
        cmocka_unit_test(too_many_single_series_or_labels_are_no_groups),
        cmocka_unit_test(a_full_arena_is_an_error),
        cmocka_unit_test(selectors_are_decided_by_groups),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
