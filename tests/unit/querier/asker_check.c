/* Checks the other kinds of queries against the model: time series, lists of series and statistics;
 * and runs any kind. */
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { NAMES_MAX = 2 };

static size_t draw_names(struct asker *asker, char *names[NAMES_MAX])
{
    static char texts[][20] = {"service_name", "pod", "zone", "__profile_type__", "none"};
    size_t n = asker_draw(asker, NAMES_MAX + 1);

    for (size_t i = 0; i < n; i++)
        names[i] = texts[asker_draw(asker, FG_COUNT(texts))];
    return n;
}

static int points_by_labels(const void *a, const void *b)
{
    return fg_labels_cmp(&((const struct qry_points *)a)->labels,
                         &((const struct qry_points *)b)->labels);
}

static void assert_same_points(struct qry_points *found, size_t n_found,
                               struct qry_points_list *want)
{
    assert_int_equal(n_found, want->n);
    if (n_found > 1) {
        qsort(found, n_found, sizeof *found, points_by_labels);
        qsort(want->items, want->n, sizeof *found, points_by_labels);
    }
    for (size_t i = 0; i < n_found; i++) {
        assert_int_equal(fg_labels_cmp(&found[i].labels, &want->items[i].labels), 0);
        assert_int_equal(found[i].n, want->items[i].n);
        for (size_t k = 0; k < found[i].n; k++) {
            assert_true(found[i].items[k].k == want->items[i].items[k].k);
            assert_true(found[i].items[k].sum == want->items[i].items[k].sum);
            assert_true(found[i].items[k].count == want->items[i].items[k].count);
        }
    }
}

static enum fg_code check_points(struct asker *asker, struct fg_err *err)
{
    static const int64_t steps_ns[] = {FG_SECOND_NS, 10 * FG_SECOND_NS, 15 * FG_SECOND_NS,
                                       FG_MINUTE_NS, 2 * FG_HOUR_NS,    7 * FG_SECOND_NS + 1};
    int64_t step_ns = steps_ns[asker_draw(asker, FG_COUNT(steps_ns))];
    char *names[NAMES_MAX];
    size_t n_names = draw_names(asker, names), n;
    struct qry_points_list want;
    struct qry_points *found;
    struct ask ask;

    ask_begin(asker, &ask);
    enum fg_code code = asker_whole(
        ask.query,
        qry_collect_points(ask.query, &ask.selection, step_ns, names, n_names, &found, &n, err),
        err);
    if (code == FG_OK) {
        qry_points_list_init(&want);
        world_points(&asker->world, &ask.asked, step_ns, (const char *const *)names, n_names,
                     ask.query->arena, &want);
        assert_same_points(found, n, &want);
        qry_points_list_done(&want);
    }
    ask_end(&ask);
    return code;
}

/* What the model says of one value: the points of all label sets that have it. */
static int64_t want_of(const struct qry_points_list *want, const char *label, struct fg_slice value)
{
    int64_t sum = 0;

    for (size_t i = 0; i < want->n; i++)
        if (value.ptr == NULL || fg_slice_eq(fg_labels_get(&want->items[i].labels, label), value))
            for (size_t k = 0; k < want->items[i].n; k++)
                sum += want->items[i].items[k].sum;
    return sum;
}

static void assert_same_totals(const struct qry_value_totals *found, const char *label,
                               const struct qry_points_list *want)
{
    assert_true(found->total == want_of(want, label, fg_bytes(NULL, 0)));
    for (size_t i = 0; i < found->n; i++)
        assert_true(found->totals[i] == want_of(want, label, found->values[i].text));
}

/* Values to sum, some of which no profile has, and some of which are left out. */
static size_t draw_values(struct asker *asker, const struct qry_points_list *want,
                          const char *label, struct qry_label_value *values)
{
    static const char *const others[] = {"a", "none", "zzz"};
    size_t n = 0;

    for (size_t i = 0; i < want->n + FG_COUNT(others); i++) {
        struct fg_slice text = i < want->n ? fg_labels_get(&want->items[i].labels, label)
                                           : fg_cstr(others[i - want->n]);
        size_t at = n;

        while (at > 0 && fg_slice_cmp(values[at - 1].text, text) > 0)
            at--;
        /* A series without the label has no value that could be listed. */
        if (text.len == 0 || asker_draw(asker, 4) == 0 ||
            (at > 0 && fg_slice_eq(values[at - 1].text, text)))
            continue;
        memmove(values + at + 1, values + at, (n++ - at) * sizeof *values);
        values[at] = (struct qry_label_value){.text = text};
    }
    return n;
}

static enum fg_code check_value_totals(struct asker *asker, struct fg_err *err)
{
    static const char *const labels[] = {"service_name", "pod", "zone", "__profile_type__", "none"};
    const char *label = labels[asker_draw(asker, FG_COUNT(labels))];
    struct qry_points_list want;
    struct qry_value_totals found = {0};
    struct qry_label_value *values;
    struct ask ask;

    ask_begin(asker, &ask);
    /* A step from before the first profile to the end: the model's sums, whatever the grid. */
    int64_t step_ns = ask.selection.end_ns - ask.selection.start_ns + FG_MS_NS;
    struct world_query whole = ask.asked;
    whole.start_ns = whole.end_ns;
    qry_points_list_init(&want);
    world_points(&asker->world, &whole, step_ns, &label, 1, ask.query->arena, &want);
    values = fg_arena_new(ask.query->arena, struct qry_label_value, want.n + 4);
    found.values = values;
    found.n = draw_values(asker, &want, label, values);
    found.totals = fg_arena_new(ask.query->arena, int64_t, found.n);
    enum fg_code code = asker_whole(
        ask.query, qry_collect_value_totals(ask.query, &ask.selection, label, &found, err), err);
    if (code == FG_OK)
        assert_same_totals(&found, label, &want);
    qry_points_list_done(&want);
    ask_end(&ask);
    return code;
}

static bool has_set(const struct qry_label_sets *sets, const struct fg_labels *labels)
{
    for (size_t i = 0; i < sets->n; i++)
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            return true;
    return false;
}

static void assert_within(const struct qry_label_sets *inner, const struct qry_label_sets *outer)
{
    for (size_t i = 0; i < inner->n; i++)
        assert_true(has_set(outer, &inner->items[i]));
}

/* fresh: the snapshot is current, so its places are the current ones. */
static enum fg_code check_series(struct asker *asker, bool fresh, struct fg_err *err)
{
    struct qry_label_sets found, want[3];
    char *texts[NAMES_MAX];
    const char *const *names = (const char *const *)texts;
    size_t n_names = draw_names(asker, texts);
    struct ask ask;

    ask_begin(asker, &ask);
    ask.asked.type = NULL;
    qry_label_sets_init(&found);
    enum fg_code code = asker_whole(
        ask.query, qry_collect_series(ask.query, &ask.selection, names, n_names, &found, err), err);
    for (unsigned i = 0; i < FG_COUNT(want); i++) {
        qry_label_sets_init(&want[i]);
        world_list(&asker->world, &ask.asked, (enum world_presence)i, names, n_names,
                   ask.query->arena, &want[i]);
    }
    if (code == FG_OK) {
        assert_within(&want[WORLD_EXACTLY], &found);
        assert_within(&found, &want[WORLD_ANYWHERE]);
    }
    if (code == FG_OK && fresh) {
        assert_within(&found, &want[WORLD_BY_PLACE]);
        if (asker->world.stripes_permille == 0) /* stripes are places of their own */
            assert_int_equal(found.n, want[WORLD_BY_PLACE].n);
    }
    for (unsigned i = 0; i < FG_COUNT(want); i++)
        qry_label_sets_done(&want[i]);
    qry_label_sets_done(&found);
    ask_end(&ask);
    return code;
}

/* With an older snapshot the places differ, and deletions are counted by place. */
static enum fg_code check_stats(struct asker *asker, bool fresh, struct fg_err *err)
{
    struct ask ask;
    struct qry_tenant_stats found, want;

    ask_begin(asker, &ask);
    enum fg_code code = asker_whole(ask.query, qry_collect_stats(ask.query, &found, err), err);
    if (code == FG_OK && (fresh || (asker->world.deletions_ever == 0 && asker->keeps_all))) {
        want = world_stats(&asker->world, &ask.asked);
        assert_true(found.profiles == want.profiles);
        assert_true(found.oldest_ns == want.oldest_ns);
        assert_true(found.newest_ns == want.newest_ns);
    }
    ask_end(&ask);
    return code;
}

enum fg_code asker_check_any(struct asker *asker, bool fresh, struct fg_err *err)
{
    switch (asker_draw(asker, 10)) {
    case 0:
        return check_points(asker, err);
    case 1:
        return check_series(asker, fresh, err);
    case 2:
        return check_stats(asker, fresh, err);
    case 3:
        return asker_check_flamegraph(asker, err);
    case 4:
        return asker_check_diff(asker, err);
    case 5:
        return asker_check_rows(asker, err);
    case 6:
        return asker_check_labels(asker, err);
    case 7:
        return check_value_totals(asker, err);
    default:
        return asker_check_tree(asker, err);
    }
}
