/* Cardinalities against slow counting: series in several places, two ranges, restarts, bounds. */
#include "querier/cardinality.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SERIES = 300, PARTS = 9, VALUES = 40, SEEDS = 40, SERVICES = 4, TEXT_BYTES = 32 };

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (*random >> 33) % below;
}

/* Series of the world: {zone="zN", pod="pN"} or one of both; and in which range each is. */
struct model {
    uint64_t random;
    char pods[SERIES][TEXT_BYTES], zones[SERIES][TEXT_BYTES];
    struct fg_label items[SERIES][2];
    struct fg_labels labels[SERIES];
    bool in[2][SERIES];
    struct fg_arena *arena;
};

static void model_init(struct model *model, uint64_t seed)
{
    *model = (struct model){.random = seed, .arena = fg_arena_create(SIZE_MAX / 2)};
    for (unsigned i = 0; i < SERIES; i++) {
        struct fg_labels *labels = &model->labels[i];

        labels->items = model->items[i];
        (void)snprintf(model->pods[i], TEXT_BYTES, "p%03u", i);
        (void)snprintf(model->zones[i], TEXT_BYTES, "z%02u",
                       (unsigned)draw(&model->random, VALUES));
        labels->items[labels->count++] = (struct fg_label){FG_LIT("pod"), fg_cstr(model->pods[i])};
        if (draw(&model->random, 4) > 0)
            labels->items[labels->count++] =
                (struct fg_label){FG_LIT("zone"), fg_cstr(model->zones[i])};
    }
}

/* Adds parts with some series each, of one service or of all; most are in several parts. Every
 * third part is small, and looked for in what is there. */
static void add_parts(struct model *model, struct qry_cardinality *into, const char *label,
                      unsigned range)
{
    qry_cardinality_in(into, range == 0 ? CARDINALITY_NOW : CARDINALITY_BEFORE);
    for (unsigned part = 0; part < PARTS; part++) {
        static const char *const services[SERVICES + 1] = {"a", "b", "c", "d", NULL};
        uint64_t service = draw(&model->random, SERVICES + 1);
        uint64_t one_of = part % 3 == 2 ? 40 : 3;
        struct fg_label_indexing indexing;
        struct fg_label_index index;
        struct fg_err err;

        fg_label_indexing_init(&indexing, label, model->arena);
        for (unsigned i = 0; i < SERIES; i++) {
            if (draw(&model->random, one_of) > 0 ||
                (services[service] != NULL && i % SERVICES != service))
                continue;
            model->in[range][i] = true;
            assert_true(fg_label_indexing_series(&indexing, &model->labels[i], NULL));
            /* The same labels with other types. */
            if (services[service] != NULL && i % 7 == 0)
                assert_true(fg_label_indexing_series(&indexing, &model->labels[i], NULL));
        }
        assert_int_equal(fg_label_indexing_end(&indexing, &index, &err), FG_OK);
        if (services[service] != NULL)
            index.service = fg_cstr(services[service]);
        qry_cardinality_add(into, &index);
    }
}

static struct qry_counts want_series(const struct model *model, const char *name,
                                     struct fg_slice value)
{
    struct qry_counts want = {0};

    for (unsigned i = 0; i < SERIES; i++) {
        struct fg_slice mine = fg_labels_get(&model->labels[i], name);
        bool is = value.len == 0 ? mine.len > 0 : fg_slice_eq(mine, value);

        want.now += is && model->in[0][i];
        want.before += is && model->in[1][i];
        want.fresh += is && model->in[0][i] && !model->in[1][i];
    }
    return want;
}

static void assert_counts(struct qry_counts found, struct qry_counts want)
{
    assert_int_equal(found.now, want.now);
    assert_int_equal(found.before, want.before);
    assert_int_equal(found.fresh, want.fresh);
}

/* How many values of a name there are, by their series. */
static struct qry_counts want_values(const struct model *model, const char *name)
{
    struct qry_counts want = {0};

    for (unsigned i = 0; i < SERIES; i++) {
        struct fg_slice value = fg_labels_get(&model->labels[i], name);
        struct qry_counts series;
        bool first = value.len > 0;

        for (unsigned k = 0; k < i && first; k++)
            first = !fg_slice_eq(fg_labels_get(&model->labels[k], name), value);
        if (!first)
            continue;
        series = want_series(model, name, value);
        want.now += series.now > 0;
        want.before += series.before > 0;
        want.fresh += series.now > 0 && series.before == 0;
    }
    return want;
}

static void check_values(const struct model *model, struct qry_cardinality *found)
{
    const char *label = found->config.label;
    struct qry_counts want = want_values(model, label);
    size_t n, either = 0;
    const struct qry_label_value *items = qry_cardinality_values(found, &n);

    for (size_t i = 0; i < n; i++) {
        assert_true(i == 0 || fg_slice_cmp(items[i - 1].text, items[i].text) < 0);
        assert_counts(items[i].series, want_series(model, label, items[i].text));
        either += items[i].series.now > 0 || items[i].series.before > 0;
    }
    assert_int_equal(either, n);
    assert_int_equal(n, want.before + want.fresh);
}

static void check_names(const struct model *model, struct qry_cardinality *found)
{
    static const char *const names[] = {"pod", "zone"};
    size_t n = 0;
    const struct qry_label_name *items = qry_cardinality_names(found, &n);

    assert_int_equal(n, FG_COUNT(names));
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        assert_true(fg_slice_is(items[i].text, names[i]));
        assert_counts(items[i].series, want_series(model, names[i], fg_bytes(NULL, 0)));
        assert_counts(items[i].values, want_values(model, names[i]));
    }
}

static void numbers_are_those_of_slow_counting(void **state)
{
    static const char *const labels[] = {"pod", "zone", NULL};

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        for (unsigned l = 0; l < FG_COUNT(labels); l++) {
            const struct qry_cardinality_config config = {.label = labels[l], .max_bytes = 1 << 20};
            struct qry_cardinality found;
            struct model model;

            model_init(&model, seed);
            qry_cardinality_init(&found, &config);
            if (seed % 2 == 0)
                add_parts(&model, &found, labels[l], 1);
            add_parts(&model, &found, labels[l], 0);
            if (seed % 3 == 0) {
                qry_cardinality_restart(&found);
                memset(model.in[0], 0, sizeof model.in[0]);
                add_parts(&model, &found, labels[l], 0);
            }
            assert_counts(found.n_series, want_series(&model, "pod", fg_bytes(NULL, 0)));
            if (labels[l] == NULL)
                check_names(&model, &found);
            else
                check_values(&model, &found);
            assert_false(found.series_cut || found.values_cut);
            qry_cardinality_done(&found);
            fg_arena_destroy(model.arena);
        }
}

static bool is_odd(const void *arg, struct fg_slice text)
{
    (void)arg;
    return text.ptr[text.len - 1] % 2 == 1;
}

static void only_wanted_values_are_listed(void **state)
{
    const struct qry_cardinality_config config = {
        .label = "pod", .prefix = FG_LIT("p01"), .wanted = is_odd, .max_bytes = 1 << 20};
    struct qry_cardinality found;
    struct model model;
    size_t n;

    (void)state;
    model_init(&model, 7);
    qry_cardinality_init(&found, &config);
    for (unsigned i = 0; i < 12; i++) /* until all are there */
        add_parts(&model, &found, "pod", 0);
    const struct qry_label_value *items = qry_cardinality_values(&found, &n);
    assert_int_equal(n, 5);
    assert_true(fg_slice_is(items[0].text, "p011") && fg_slice_is(items[4].text, "p019"));
    assert_int_equal(found.n_series.now, SERIES);
    qry_cardinality_done(&found);
    fg_arena_destroy(model.arena);
}

/* Adds n series with a value each. numbers[i] is the number of the i-th value. */
static void add_many(struct qry_cardinality *into, const uint32_t *numbers, uint32_t n)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_label_indexing indexing;
    struct fg_label_index index;
    struct fg_err err;

    fg_label_indexing_init(&indexing, into->config.label, arena);
    for (uint32_t i = 0; i < n; i++) {
        struct fg_label *label = fg_arena_new(arena, struct fg_label, 1);

        *label = (struct fg_label){FG_LIT("pod"),
                                   fg_cstr(fg_arena_printf(arena, "value-%08u", numbers[i]))};
        assert_true(fg_label_indexing_series(&indexing, &(struct fg_labels){label, 1}, NULL));
    }
    assert_int_equal(fg_label_indexing_end(&indexing, &index, &err), FG_OK);
    qry_cardinality_add(into, &index);
    fg_arena_destroy(arena);
}

/* What is left of values that do not fit is exact, whatever the order they come in. */
static void values_beyond_the_bound_are_cut_from_the_end(void **state)
{
    enum { TOTAL = 12000, EACH = 1000 };

    (void)state;
    for (unsigned descending = 0; descending < 2; descending++) {
        /* A quarter of it for values of 32 bytes each: 8,192, of which half stay. */
        const struct qry_cardinality_config config = {.label = "pod", .max_bytes = 1 << 20};
        struct qry_cardinality found;
        uint32_t numbers[EACH];
        size_t n;

        qry_cardinality_init(&found, &config);
        for (uint32_t from = 0; from < TOTAL; from += EACH) {
            for (uint32_t i = 0; i < EACH; i++)
                numbers[i] = descending ? TOTAL - 1 - from - i : from + i;
            add_many(&found, numbers, EACH);
            add_many(&found, numbers, EACH / 2); /* again: counts once */
        }
        const struct qry_label_value *items = qry_cardinality_values(&found, &n);
        assert_true(found.values_cut);
        assert_true(n > 1000 && n < TOTAL);
        for (size_t i = 0; i < n; i++) {
            char want[TEXT_BYTES];

            (void)snprintf(want, sizeof want, "value-%08zu", i);
            assert_true(fg_slice_is(items[i].text, want));
            assert_int_equal(items[i].series.now, 1);
        }
        qry_cardinality_done(&found);
    }
}

/* An index that lacks values from one on leaves out those of all others, too: they would be too
 * few.
 */
static void values_that_an_index_lacks_are_cut(void **state)
{
    enum { TOTAL = 300, KEPT = 120 };
    const struct qry_cardinality_config config = {.label = "pod", .max_bytes = 1 << 20};
    struct fg_label_index lacking = {.left = {FG_LIT("pod"), FG_LIT("value-00000120")}};
    struct qry_cardinality found;
    uint32_t numbers[TOTAL];
    size_t n;

    (void)state;
    for (uint32_t i = 0; i < TOTAL; i++)
        numbers[i] = i;
    /* It comes first, between others, or last. */
    for (unsigned place = 0; place < 3; place++) {
        qry_cardinality_init(&found, &config);
        if (place == 0)
            qry_cardinality_add(&found, &lacking);
        add_many(&found, numbers, TOTAL / 2);
        if (place == 1)
            qry_cardinality_add(&found, &lacking);
        add_many(&found, numbers + TOTAL / 2, TOTAL - TOTAL / 2);
        if (place == 2)
            qry_cardinality_add(&found, &lacking);
        const struct qry_label_value *items = qry_cardinality_values(&found, &n);
        assert_int_equal(n, KEPT);
        assert_true(fg_slice_is(items[0].text, "value-00000000"));
        assert_true(fg_slice_is(items[n - 1].text, "value-00000119"));
        assert_true(found.values_cut && !found.series_cut);
        assert_int_equal(found.n_series.now, TOTAL);
        qry_cardinality_done(&found);
    }
}

static void series_beyond_the_bound_do_not_count(void **state)
{
    enum { TOTAL = 20000, EACH = 1000 };
    const struct qry_cardinality_config config = {.label = "none", .max_bytes = 1 << 18};
    struct qry_cardinality found;
    uint32_t numbers[EACH];

    (void)state;
    qry_cardinality_init(&found, &config);
    for (uint32_t from = 0; from < TOTAL; from += EACH) {
        for (uint32_t i = 0; i < EACH; i++)
            numbers[i] = from + i;
        add_many(&found, numbers, EACH);
        assert_true(found.series.n <= (uint64_t)found.series.n_places / 4 * 3);
    }
    assert_true(found.series_cut && !found.values_cut);
    /* 4,096 places of 18 bytes are the most in 128 KiB. */
    assert_int_equal(found.n_series.now, 3072);
    qry_cardinality_done(&found);
}

static int64_t key_of(const void *items, uint32_t i)
{
    return ((const int64_t *)items)[i];
}

static void the_first_k_are_those_of_a_sort(void **state)
{
    enum { N = 200 };
    uint64_t random = 5;

    (void)state;
    for (uint32_t k = 0; k <= N; k += k < 10 ? 1 : 19) {
        int64_t keys[N];
        uint32_t picked[N];

        for (unsigned i = 0; i < N; i++)
            keys[i] = (int64_t)draw(&random, 30) - 15;
        qry_rank(keys, N, key_of, k, picked);
        for (uint32_t p = 0; p < k; p++) {
            uint32_t before = 0; /* how many come before it */

            for (uint32_t i = 0; i < N; i++)
                before +=
                    keys[i] > keys[picked[p]] || (keys[i] == keys[picked[p]] && i < picked[p]);
            assert_int_equal(before, p);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_slow_counting),
        cmocka_unit_test(only_wanted_values_are_listed),
        cmocka_unit_test(values_beyond_the_bound_are_cut_from_the_end),
        cmocka_unit_test(values_that_an_index_lacks_are_cut),
        cmocka_unit_test(series_beyond_the_bound_do_not_count),
        cmocka_unit_test(the_first_k_are_those_of_a_sort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
