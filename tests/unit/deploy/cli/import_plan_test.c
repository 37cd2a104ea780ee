/*
 * What an import asks for. The last test runs it against a source of random profiles, whose times
 * have nanoseconds, and counts what it gets.
 */
#include "common/base/time.h"
#include "common/model/selector.h"
#include "deploy/cli/import_plan.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define HOUR INT64_C(3600000)

static const struct cli_import_scope scope = {{NULL, 0}, 1};

static void windows_end_at_full_hours(void **state)
{
    static const struct cli_selection_range range = {10 * HOUR - 1, 12 * HOUR + 5};
    static const struct cli_selection_range want[] = {
        {10 * HOUR - 1, 10 * HOUR},
        {10 * HOUR, 11 * HOUR},
        {11 * HOUR, 12 * HOUR},
        {12 * HOUR, 12 * HOUR + 5},
    };
    int64_t at_ms = range.start_ms;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(want); i++) {
        struct cli_selection_range window = cli_import_window(&range, at_ms);

        assert_int_equal(window.start_ms, want[i].start_ms);
        assert_int_equal(window.end_ms, want[i].end_ms);
        at_ms = window.end_ms;
    }
    assert_int_equal(at_ms, range.end_ms);
}

static void series_share_the_minutes_of_their_window(void **state)
{
    static const struct cli_selection_range window = {10 * HOUR, 11 * HOUR};

    (void)state;
    assert_int_equal(cli_import_minutes(&window, 0, 0), 60); /* none: it is done */
    assert_int_equal(cli_import_minutes(&window, 0, 7), 0);
    assert_int_equal(cli_import_minutes(&window, 1, 7), 8);
    assert_int_equal(cli_import_minutes(&window, 7, 7), 60);
}

static void a_range_has_whole_steps(void **state)
{
    const struct cli_selection_range range = {61001, 119999};

    (void)state;
    assert_int_equal(cli_import_align(&range, 1).start_ms, 61001);
    assert_int_equal(cli_import_align(&range, 1).end_ms, 119999);
    assert_int_equal(cli_import_align(&range, 15000).start_ms, 60000);
    assert_int_equal(cli_import_align(&range, 15000).end_ms, 105000);
}

/* ---- series ---- */

#define CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

static struct fg_label label(const char *name, const char *value)
{
    return (struct fg_label){fg_cstr(name), fg_cstr(value)};
}

static void write_pushed(const struct cli_import_series *series, struct fg_buf *out)
{
    fg_buf_clear(out);
    fg_labels_write(&series->pushed, out);
    fg_buf_putc(out, '\0');
}

static void a_selector_matches_its_series_alone(void **state)
{
    struct fg_label a[] = {label("__profile_type__", CPU), label("service_name", "shop")};
    struct fg_label b[] = {label("k8s.pod", "x\"y\\"), label("service_name", "shop"),
                           label("__profile_type__", CPU)};
    struct fg_label c[] = {label("__profile_type__", CPU), label("env", "prod"),
                           label("service_name", "shop")};
    struct fg_labels sets[] = {{a, 2}, {NULL, 0}, {b, 3}, {c, 3}};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_list list;
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(cli_import_list_make(sets, FG_COUNT(sets), &scope, arena, &list, &err), FG_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(list.n_names, 3);
    for (size_t i = 0; i < list.count; i++) {
        struct fg_selector selector = {0};

        fg_buf_clear(&text);
        cli_import_write_selector(&list, &list.items[i], &text);
        assert_int_equal(fg_selector_parse(fg_buf_slice(&text), arena, &selector, &err), FG_OK);
        for (size_t j = 0; j < list.count; j++)
            assert_int_equal(fg_selector_matches(&selector, &list.items[j].labels), i == j);
        fg_selector_done(&selector);
    }
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

static void labels_that_servers_make_are_not_pushed(void **state)
{
    struct fg_label all[] = {
        label("__profile_type__", CPU),
        label("__service_name__", "shop"),
        label("__name__", "process_cpu"),
        label("__type__", "cpu"),
        label("__unit__", "nanoseconds"),
        label("__period_type__", "cpu"),
        label("__period_unit__", "nanoseconds"),
        label("__delta__", "false"),
        label("__order__", "ByLabels"),
        label("__session_id__", "1"),
        label("__otel__", "true"),
        label("service_name", "shop"),
    };
    struct fg_label bare[] = {label("__profile_type__", CPU), label("service_name", "shop")};
    struct fg_labels sets[] = {{all, FG_COUNT(all)}, {bare, FG_COUNT(bare)}};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_list list;
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(cli_import_list_make(sets, FG_COUNT(sets), &scope, arena, &list, &err), FG_OK);
    write_pushed(&list.items[0], &text);
    assert_string_equal((const char *)text.ptr,
                        "{__name__=\"process_cpu\", __otel__=\"true\", __session_id__=\"1\", "
                        "service_name=\"shop\"}");
    /* Whoever restricts labels may have left out the name; the type has it. */
    write_pushed(&list.items[1], &text);
    assert_non_null(strstr((const char *)text.ptr, "__name__=\"process_cpu\""));
    assert_true(fg_slice_is(list.items[0].type, CPU));
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

static void a_series_without_a_type_is_no_answer(void **state)
{
    struct fg_label none[] = {label("service_name", "shop")};
    struct fg_label odd[] = {label("__profile_type__", "cpu"), label("service_name", "shop")};
    struct fg_labels sets[] = {{none, 1}, {odd, 2}};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_list list;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(sets); i++)
        assert_int_equal(cli_import_list_make(&sets[i], 1, &scope, arena, &list, &err),
                         FG_E_DECODE);
    fg_arena_destroy(arena);
}

static void an_id_is_of_series_time_step_and_tenant(void **state)
{
    static const struct cli_import_scope scopes[] = {
        {{NULL, 0}, 1}, {{NULL, 0}, 1000}, {{(const uint8_t *)"a", 1}, 1}};
    char ids[FG_COUNT(scopes) * 2 + 1][CLI_IMPORT_ID_BYTES];
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_list list;
    struct fg_err err;
    size_t n = 0;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(scopes); i++) {
        struct fg_label labels[] = {label("service_name", "shop"), label("__profile_type__", CPU)};
        struct fg_label other[] = {label("service_name", "bank"), label("__profile_type__", CPU)};
        struct fg_labels sets[] = {{labels, 2}, {other, 2}};

        assert_int_equal(cli_import_list_make(sets, 2, &scopes[i], arena, &list, &err), FG_OK);
        for (size_t j = 0; j < 2; j++)
            cli_import_id(&list.items[j], &(struct cli_import_unit){.time_ms = 5000}, ids[n++]);
    }
    cli_import_id(&list.items[0], &(struct cli_import_unit){.time_ms = 5001}, ids[n++]);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(ids[i][14], '8'); /* RFC 9562, 5.8 */
        assert_non_null(strchr("89ab", ids[i][19]));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
    }
    /* Ids of another version would import everything twice. */
    assert_string_equal(ids[0], "3ad9de59-7f23-8253-a4e8-fb38dbe181cd");
    fg_arena_destroy(arena);
}

/* ---- units ---- */

static void points_become_units(void **state)
{
    static const struct cli_import_point points[] = {
        {14999, 1}, {15000, 2}, {15001, 3}, {29999, 4}, {31000, 5}};
    static const struct cli_import_unit of_15_s[] = {
        {0, 14999, 14999, 1}, {15000, 15000, 29999, 9}, {30000, 31000, 31000, 5}};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_unit *units;
    struct fg_err err;
    size_t n;

    (void)state;
    assert_int_equal(cli_import_units(points, 5, 1, arena, &units, &n, &err), FG_OK);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(units[i].time_ms, points[i].ms);
    assert_int_equal(cli_import_first(units, n, 15001), 0); /* all three are in one row */
    assert_int_equal(cli_import_first(units, n, 29999), 3);
    assert_int_equal(cli_import_first(units, n, 40000), 5);
    assert_int_equal(cli_import_units(points, 5, 15000, arena, &units, &n, &err), FG_OK);
    assert_int_equal(n, FG_COUNT(of_15_s));
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(units[i].time_ms, of_15_s[i].time_ms);
        assert_int_equal(units[i].first_ms, of_15_s[i].first_ms);
        assert_int_equal(units[i].last_ms, of_15_s[i].last_ms);
        assert_true(units[i].value == of_15_s[i].value);
    }
    assert_int_equal(cli_import_units(points, 0, 1, arena, &units, &n, &err), FG_OK);
    assert_int_equal(n, 0);
    fg_arena_destroy(arena);
}

static void impossible_points_are_refused(void **state)
{
    static const struct cli_import_point points[][2] = {
        {{5, 1}, {5, 1}},  {{6, 1}, {5, 1}},         {{5, 1}, {6, 0}},
        {{5, -1}, {6, 1}}, {{5, 1}, {6, 1.0 / 0.0}}, {{5, 0.0 / 0.0}, {6, 1}}};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct cli_import_unit *units;
    struct fg_err err;
    size_t n;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(points); i++)
        assert_int_equal(cli_import_units(points[i], 2, 1, arena, &units, &n, &err), FG_E_DECODE);
    fg_arena_destroy(arena);
}

/* Three units in a row, of 5, 7 and 9. */
static void a_group_asks_until_it_knows_its_content(void **state)
{
    static const struct cli_import_unit units[] = {
        {10, 10, 10, 5}, {11, 11, 11, 7}, {12, 12, 12, 9}, {20, 20, 21, 0x1p60}};
    static const struct {
        const char *name;
        size_t first;
        struct {
            int64_t from_ms, to_ms;
            double sum;
        } asked[4]; /* until from_ms 0 */
        enum cli_import_verdict want;
        size_t n;
    } cases[] = {
        {"alone", 0, {{10, 11, 5}}, IMPORT_TAKE, 1},
        {"less than it was", 0, {{10, 11, 4}}, IMPORT_CHANGED, 1},
        {"times in milliseconds", 0, {{10, 11, 12}, {10, 10, 5}}, IMPORT_TAKE, 1},
        {"it grew", 0, {{10, 11, 13}, {10, 10, 6}}, IMPORT_CHANGED, 1},
        {"two that cannot be told apart",
         0,
         {{10, 11, 6}, {10, 10, 3}, {10, 12, 12}},
         IMPORT_TAKE,
         2},
        {"the second has milliseconds, too",
         0,
         {{10, 11, 6}, {10, 10, 3}, {10, 12, 21}, {10, 11, 12}},
         IMPORT_TAKE,
         2},
        {"more, and nothing is next", 2, {{12, 13, 10}}, IMPORT_CHANGED, 1},
        {"nothing is left", 2, {{12, 13, 0}}, IMPORT_CHANGED, 1},
        {"points are rounded", 3, {{20, 22, 0x1p60 + 512}}, IMPORT_TAKE, 1},
        {"but not so much", 3, {{20, 22, 0x1p60 + 0x1p20}}, IMPORT_CHANGED, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct cli_import_group group =
            cli_import_group(units + cases[i].first, FG_COUNT(units) - cases[i].first);
        enum cli_import_verdict verdict = IMPORT_ASK;

        print_message("  %s\n", cases[i].name);
        for (size_t j = 0; verdict == IMPORT_ASK; j++) {
            struct cli_selection_range range = cli_import_group_range(&group);

            assert_true(j < FG_COUNT(cases[i].asked));
            assert_int_equal(range.start_ms, cases[i].asked[j].from_ms);
            assert_int_equal(range.end_ms, cases[i].asked[j].to_ms);
            verdict = cli_import_group_answer(&group, cases[i].asked[j].sum);
        }
        assert_int_equal(verdict, cases[i].want);
        assert_int_equal(group.n, cases[i].n);
    }
}

/* ---- an import from a source with nanoseconds ---- */

enum { PROFILES = 60 };

struct source {
    int64_t times_ns[PROFILES];
    unsigned taken[PROFILES]; /* by how many profiles that were pushed */
};

/* Both ends of a merge are included, in nanoseconds. */
static double merge(struct source *source, int64_t first_ms, int64_t last_ms, bool take)
{
    double sum = 0;

    for (unsigned i = 0; i < PROFILES; i++)
        if (source->times_ns[i] >= first_ms * FG_MS_NS &&
            source->times_ns[i] <= last_ms * FG_MS_NS) {
            sum += i + 1;
            source->taken[i] += take;
        }
    return sum;
}

/* Points are of whole milliseconds; what is read ends at the first nanosecond of the last one. */
static size_t tell_points(const struct source *source, int64_t start_ms, int64_t end_ms,
                          struct cli_import_point *points)
{
    size_t n = 0;

    for (int64_t ms = start_ms; ms <= end_ms; ms++) {
        double value = 0;

        for (unsigned i = 0; i < PROFILES; i++)
            if (source->times_ns[i] / FG_MS_NS == ms && source->times_ns[i] <= end_ms * FG_MS_NS)
                value += i + 1;
        if (value > 0)
            points[n++] = (struct cli_import_point){ms, value};
    }
    return n;
}

/* As the shell does it, but with a window that is short. */
static void import_window(struct source *source, int64_t start_ms, int64_t end_ms, int64_t step_ms,
                          struct fg_arena *arena)
{
    struct cli_import_point points[512];
    size_t n = tell_points(source, start_ms - 100, end_ms + 100, points), taken;
    struct cli_import_unit *units;
    struct fg_err err;

    assert_int_equal(cli_import_units(points, n, step_ms, arena, &units, &n, &err), FG_OK);
    for (size_t i = cli_import_first(units, n, start_ms); i < n && units[i].time_ms < end_ms;
         i += taken) {
        struct cli_import_group group = cli_import_group(&units[i], n - i);
        struct cli_selection_range range;
        enum cli_import_verdict verdict;

        do {
            range = cli_import_group_range(&group);
            verdict =
                cli_import_group_answer(&group, merge(source, range.start_ms, range.end_ms, false));
        } while (verdict == IMPORT_ASK);
        assert_int_equal(verdict, IMPORT_TAKE);
        if (units[i].time_ms >= start_ms)
            (void)merge(source, range.start_ms, range.end_ms, true);
        taken = group.n;
    }
}

static void whatever_the_times_each_profile_is_imported_once(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        int64_t step_ms = round % 3 == 0 ? 20 : 1;
        struct source source = {0};

        for (unsigned i = 0; i < PROFILES; i++) {
            random = fg_mix64(random + 0x9e3779b97f4a7c15u);
            /* Dense around the cuts, with every mixture of full milliseconds and others. */
            source.times_ns[i] = (int64_t)(1000 + random % 120) * FG_MS_NS;
            if ((random >> 32) % 3 < round % 4)
                source.times_ns[i] += (int64_t)((random >> 40) % FG_MS_NS);
        }
        for (int64_t at_ms = 1000; at_ms < 1120; at_ms += 40)
            import_window(&source, at_ms, at_ms + 40, step_ms, arena);
        for (unsigned i = 0; i < PROFILES; i++)
            if (source.taken[i] != 1)
                fail_msg("round %u: the profile at %lld ns was imported %u times", round,
                         (long long)source.times_ns[i], source.taken[i]);
        fg_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_end_at_full_hours),
        cmocka_unit_test(series_share_the_minutes_of_their_window),
        cmocka_unit_test(a_range_has_whole_steps),
        cmocka_unit_test(a_selector_matches_its_series_alone),
        cmocka_unit_test(labels_that_servers_make_are_not_pushed),
        cmocka_unit_test(a_series_without_a_type_is_no_answer),
        cmocka_unit_test(an_id_is_of_series_time_step_and_tenant),
        cmocka_unit_test(points_become_units),
        cmocka_unit_test(impossible_points_are_refused),
        cmocka_unit_test(a_group_asks_until_it_knows_its_content),
        cmocka_unit_test(whatever_the_times_each_profile_is_imported_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
