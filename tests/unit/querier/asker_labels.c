/* Checks that label indexes give the numbers that a list of whole label sets gives. */
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Distinct texts or ids, found one by one. */
struct distinct {
    struct fg_id *items;
    uint32_t n;
};

static void distinct_add(struct distinct *distinct, struct fg_id id)
{
    for (uint32_t i = 0; i < distinct->n; i++)
        if (fg_id_eq(distinct->items[i], id))
            return;
    distinct->items[distinct->n++] = id;
}

/* The id of a series: of its labels without those made from the type. */
static struct fg_id series_of(const struct fg_labels *set, struct fg_arena *arena)
{
    struct fg_labels stored = {fg_arena_new(arena, struct fg_label, set->count), 0};

    assert_non_null(stored.items);
    for (size_t i = 0; i < set->count; i++)
        if (!fg_label_is_of_type(set->items[i].name))
            stored.items[stored.count++] = set->items[i];
    return fg_labels_hash(&stored);
}

/* Counts series and values of a label (name), or the series of one value of it. name NULL: all. */
static void count_sets(const struct qry_label_sets *sets, struct fg_arena *arena,
                       struct fg_slice name, struct fg_slice value, uint32_t *ret_series,
                       uint32_t *ret_values)
{
    struct distinct series = {fg_arena_new(arena, struct fg_id, sets->n), 0};
    struct distinct values = {fg_arena_new(arena, struct fg_id, sets->n), 0};

    for (size_t i = 0; i < sets->n; i++) {
        size_t at;

        if (name.ptr != NULL) {
            if (!fg_labels_find(&sets->items[i], name, &at) ||
                (value.ptr != NULL && !fg_slice_eq(sets->items[i].items[at].value, value)))
                continue;
            distinct_add(&values, fg_hash128(sets->items[i].items[at].value));
        }
        distinct_add(&series, series_of(&sets->items[i], arena));
    }
    *ret_series = series.n;
    *ret_values = values.n;
}

static void assert_names(struct qry_cardinality *found, const struct qry_label_sets *sets,
                         struct fg_arena *arena)
{
    uint32_t n_series, n_values;
    struct distinct names = {fg_arena_new(arena, struct fg_id, sets->n * 16), 0};
    size_t n;
    const struct qry_label_name *items = qry_cardinality_names(found, &n);

    count_sets(sets, arena, fg_bytes(NULL, 0), fg_bytes(NULL, 0), &n_series, &n_values);
    assert_int_equal(found->n_series.now, n_series);
    for (size_t i = 0; i < sets->n; i++)
        for (size_t k = 0; k < sets->items[i].count; k++)
            distinct_add(&names, fg_hash128(sets->items[i].items[k].name));
    assert_int_equal(n, names.n);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || fg_slice_cmp(items[i - 1].text, items[i].text) < 0);
        count_sets(sets, arena, items[i].text, fg_bytes(NULL, 0), &n_series, &n_values);
        assert_int_equal(items[i].series.now, n_series);
        assert_int_equal(items[i].values.now, n_values);
    }
}

static void assert_values(struct qry_cardinality *found, const struct qry_label_sets *sets,
                          struct fg_arena *arena)
{
    struct fg_slice label = fg_cstr(found->config.label);
    uint32_t n_series, n_values;
    size_t n;
    const struct qry_label_value *items = qry_cardinality_values(found, &n);

    count_sets(sets, arena, label, fg_bytes(NULL, 0), &n_series, &n_values);
    assert_int_equal(n, n_values);
    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || fg_slice_cmp(items[i - 1].text, items[i].text) < 0);
        count_sets(sets, arena, label, items[i].text, &n_series, &n_values);
        assert_int_equal(items[i].series.now, n_series);
    }
    count_sets(sets, arena, fg_bytes(NULL, 0), fg_bytes(NULL, 0), &n_series, &n_values);
    assert_int_equal(found->n_series.now, n_series);
}

enum fg_code asker_check_labels(struct asker *asker, struct fg_err *err)
{
    static const char *const labels[] = {NULL,       "service_name", "pod",     "zone",
                                         "__type__", "__unit__",     "__name__"};
    const struct qry_cardinality_config config = {
        .label = labels[asker_draw(asker, FG_COUNT(labels))], .max_bytes = 1 << 22};
    struct qry_cardinality found;
    struct qry_label_sets sets;
    struct ask ask;

    ask_begin(asker, &ask);
    qry_label_sets_init(&sets);
    qry_cardinality_init(&found, &config);
    enum fg_code code = asker_whole(
        ask.query, qry_collect_series(ask.query, &ask.selection, NULL, 0, &sets, err), err);
    if (code == FG_OK)
        code =
            asker_whole(ask.query, qry_collect_labels(ask.query, &ask.selection, &found, err), err);
    if (code == FG_OK && config.label == NULL)
        assert_names(&found, &sets, ask.query->arena);
    else if (code == FG_OK)
        assert_values(&found, &sets, ask.query->arena);
    qry_cardinality_done(&found);
    qry_label_sets_done(&sets);
    ask_end(&ask);
    return code;
}
