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
    switch (asker_draw(asker, 9)) {
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
    default:
        return asker_check_tree(asker, err);
    }
}
