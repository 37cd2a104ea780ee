/* The catalog: numbers that stay, reading back from the store, and limits of a tenant. */
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/catalog_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void equal_definitions_share_a_number(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *a = ing_catalog_tenant(catalog, FG_LIT("a")),
                              *b = ing_catalog_tenant(catalog, FG_LIT("b"));
    struct ing_catalog_service *shop = ing_catalog_service(catalog, a, FG_LIT("shop"), &cat_all);

    (void)state;
    assert_int_equal(ing_catalog_tenant_number(a), 0);
    assert_int_equal(ing_catalog_tenant_number(b), 1);
    assert_ptr_equal(ing_catalog_tenant(catalog, FG_LIT("a")), a);
    assert_ptr_equal(ing_catalog_find_tenant(catalog, FG_LIT("b")), b);
    assert_null(ing_catalog_find_tenant(catalog, FG_LIT("c")));
    assert_ptr_equal(ing_catalog_service(catalog, a, FG_LIT("shop"), &cat_all), shop);
    assert_int_not_equal(ing_catalog_service(catalog, b, FG_LIT("shop"), &cat_all)->number,
                         shop->number);
    assert_ptr_equal(cat_add(catalog, a, shop, "x"), cat_add(catalog, a, shop, "x"));
    assert_ptr_not_equal(cat_add(catalog, a, shop, "x"), cat_add(catalog, a, shop, "y"));
    assert_int_equal(cat_add(catalog, a, shop, "x")->number, 0);
    assert_int_equal(cat_add(catalog, a, shop, "y")->number, 1);
    /* A profile for another shard is another series. */
    assert_int_equal(cat_add_at(catalog, a, shop, "x", 7)->number, 2);
    assert_int_equal(cat_add_at(catalog, a, shop, "x", 7)->shard, 7);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void written_entries_are_read_back(void **state)
{
    static const char *const zones[] = {"n", "e", "s", "w", "c"};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store), *again;
    struct fg_buf before, after;

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        /* Names in another order than the numbers. */
        struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, fg_cstr(t == 0   ? "z"
                                                                                : t == 1 ? "a"
                                                                                         : "m"));

        for (size_t z = 0; z < FG_COUNT(zones); z++) {
            struct ing_catalog_service *service = ing_catalog_service(
                catalog, tenant, fg_cstr(z % 2 == 0 ? "shop" : "archive"), &cat_all);
            struct ing_catalog_series *series =
                cat_add_at(catalog, tenant, service, zones[z], (uint16_t)(65531 + z));

            ing_catalog_series_saw(series, z == 0 ? 1 : z == 1 ? 2 : 3);
            cat_put(store, tenant, series);
        }
    }
    again = cat_open(store);
    fg_buf_init(&before, SIZE_MAX);
    fg_buf_init(&after, SIZE_MAX);
    for (size_t t = 0; t < 3; t++) {
        const char *tenant = t == 0 ? "z" : t == 1 ? "a" : "m";
        struct ing_catalog_tenant *one = ing_catalog_find_tenant(catalog, fg_cstr(tenant)),
                                  *two = ing_catalog_find_tenant(again, fg_cstr(tenant));

        assert_int_equal(ing_catalog_tenant_number(one), ing_catalog_tenant_number(two));
        assert_true(*ing_catalog_tenant_durable(two));
        assert_int_equal(ing_catalog_service(catalog, one, FG_LIT("shop"), &cat_all)->number,
                         ing_catalog_service(again, two, FG_LIT("shop"), &cat_all)->number);
        assert_true(ing_catalog_service(again, two, FG_LIT("archive"), &cat_all)->durable);
        assert_true(cat_add_at(again, two,
                               ing_catalog_service(again, two, FG_LIT("archive"), &cat_all), "e",
                               65532)
                        ->durable);
        cat_list(again, tenant, "{}", &after);
        assert_non_null(strstr((const char *)after.ptr, "zone=\"w\""));
        cat_list(again, tenant, "{service_name=\"archive\",zone=~\"e|n\"}", &after);
        assert_non_null(strstr((const char *)after.ptr, "cpu:nanoseconds"));
        assert_null(strstr((const char *)after.ptr, "samples:count")); /* never seen */
        assert_null(strstr((const char *)after.ptr, "zone=\"n\""));    /* another service */
    }
    /* New numbers begin after the old. */
    assert_int_equal(ing_catalog_tenant_number(ing_catalog_tenant(again, FG_LIT("new"))), 3);
    assert_int_equal(
        ing_catalog_service(again, ing_catalog_tenant(again, FG_LIT("new")), FG_LIT("s"), &cat_all)
            ->number,
        6);
    fg_buf_done(&before);
    fg_buf_done(&after);
    ing_catalog_close(catalog);
    ing_catalog_close(again);
    fg_store_close(store);
}

/* A push that failed has used numbers: they stay empty, and the others keep theirs. */
static void gaps_in_numbers_are_kept(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_service *service;
    struct ing_catalog_series *series;
    struct fg_buf text;

    (void)state;
    (void)ing_catalog_tenant(catalog, FG_LIT("lost"));
    tenant = ing_catalog_tenant(catalog, FG_LIT("kept"));
    (void)ing_catalog_service(catalog, tenant, FG_LIT("lost"), &cat_all);
    service = ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all);
    (void)cat_add(catalog, tenant, service, "lost");
    series = cat_add(catalog, tenant, service, "n");
    ing_catalog_series_saw(series, 3);
    cat_put(store, tenant, series);
    ing_catalog_close(catalog);

    catalog = cat_open(store);
    assert_null(ing_catalog_find_tenant(catalog, FG_LIT("lost")));
    tenant = ing_catalog_find_tenant(catalog, FG_LIT("kept"));
    assert_int_equal(ing_catalog_tenant_number(tenant), 1);
    service = ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all);
    assert_int_equal(service->number, 1);
    assert_int_equal(cat_add(catalog, tenant, service, "n")->number, 1);
    assert_int_equal(cat_add(catalog, tenant, service, "other")->number, 2);
    fg_buf_init(&text, SIZE_MAX);
    cat_list(catalog, "kept", "{}", &text);
    assert_null(strstr((const char *)text.ptr, "lost"));
    fg_buf_done(&text);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void assert_found(struct ing_catalog *catalog, uint32_t n, uint32_t every)
{
    const struct ing_catalog_tenant *tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));

    for (uint32_t i = 0; i < n; i++) {
        const struct ing_catalog_series *series = ing_catalog_find_series(catalog, tenant, i);

        assert_int_equal(series != NULL, i % every == 0);
        if (series != NULL)
            assert_int_equal(series->number, i);
    }
    assert_null(ing_catalog_find_series(catalog, tenant, n));
}

/* Whatever has left between them, and after a restart. */
static void series_are_found_by_their_numbers(void **state)
{
    enum { COUNT = 50 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    char zones[COUNT][8];

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(zones[i], sizeof zones[i], "z%u", i);
        (void)cat_store_one(store, catalog, zones[i], i % 12 == 0 ? 2 : i % 3 == 0, 1);
    }
    assert_found(catalog, COUNT, 1);
    cat_sweep_all(store, catalog, 1);
    assert_found(catalog, COUNT, 3);
    cat_sweep_all(store, catalog, 2);
    assert_found(catalog, COUNT, 12);
    ing_catalog_close(catalog);
    catalog = cat_open(store);
    assert_found(catalog, COUNT, 12);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* More than are copied under the lock at a time, with gaps of all sizes between them. */
static enum fg_code wanted_thrice(void *arg, struct fg_err *err)
{
    unsigned *asked = arg;

    return ++*asked < 3 ? FG_OK : fg_fail(err, FG_E_DEADLINE, "nobody waits any more");
}

/* A selection goes on only as long as somebody waits for it. */
static void assert_unwanted(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                            struct fg_arena *arena)
{
    unsigned asked = 0;
    const struct fg_selector selector = {.wanted = wanted_thrice, .wanted_arg = &asked};
    struct ing_catalog_match *matches;
    size_t n_matches;
    struct fg_err err;

    assert_int_equal(
        ing_catalog_select(catalog, tenant,
                           &(struct ing_catalog_filter){&selector, INT64_MIN, INT64_MAX}, arena,
                           &matches, &n_matches, &err),
        FG_E_DEADLINE);
    assert_int_equal(asked, 3);
}

static void many_series_are_selected_listed_and_counted(void **state)
{
    enum { COUNT = 9000, EVERY = 7 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    fg_auto(fg_arena) *arena = fg_arena_create(64 << 20);
    struct fg_selector selector = {0};
    struct ing_catalog_match *matches;
    struct ing_catalog_series **series;
    size_t n_matches, n_series;
    struct fg_err err;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        char zone[16];

        (void)snprintf(zone, sizeof zone, "z%u", i);
        (void)cat_store_one(store, catalog, zone, i % EVERY == 0 || i / 3000 == 1 ? 2 : 0, 1);
    }
    cat_sweep_all(store, catalog, 1);
    for (int again = 0; again < 2; again++) {
        struct ing_catalog_tenant *tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));
        unsigned entered = ing_catalog_enter(catalog);
        size_t want = 3000 + (COUNT - 3000 + EVERY - 1) / EVERY;

        assert_in_range(cat_count(catalog), want - 2, want + 2);
        want = cat_count(catalog);
        assert_int_equal(ing_catalog_count_series(catalog, NULL), want);
        assert_int_equal(ing_catalog_list_series(catalog, tenant, arena, &series, &n_series, &err),
                         FG_OK);
        assert_int_equal(n_series, want);
        assert_int_equal(
            ing_catalog_select(catalog, tenant,
                               &(struct ing_catalog_filter){&selector, INT64_MIN, INT64_MAX}, arena,
                               &matches, &n_matches, &err),
            FG_OK);
        assert_int_equal(n_matches, 2 * want);
        assert_unwanted(catalog, tenant, arena);
        for (size_t i = 0; i < want; i++) {
            assert_true(i == 0 || series[i - 1]->number < series[i]->number);
            assert_ptr_equal(matches[2 * i].series, series[i]);
            assert_ptr_equal(ing_catalog_find_series(catalog, tenant, series[i]->number),
                             series[i]);
        }
        ing_catalog_leave(catalog, entered);
        ing_catalog_close(catalog);
        catalog = cat_open(store);
    }
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void list_between(struct ing_catalog *catalog, int64_t start_ns, int64_t end_ns, char *out)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    const struct fg_selector selector = {0};
    struct ing_catalog_match *matches;
    struct fg_err err;
    size_t count;

    assert_int_equal(ing_catalog_select(catalog, ing_catalog_find_tenant(catalog, FG_LIT("a")),
                                        &(struct ing_catalog_filter){&selector, start_ns, end_ns},
                                        arena, &matches, &count, &err),
                     FG_OK);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct ing_catalog_series *series = matches[i].series;

        if (matches[i].type == 0) {
            *out++ = (char)fg_labels_get(&series->labels, "zone").ptr[0];
            *out = '\0';
        }
    }
    fg_arena_destroy(arena);
}

static void series_are_selected_by_time(void **state)
{
    static const struct {
        int64_t start_ns, end_ns;
        const char *want;
    } cases[] = {
        {INT64_MIN, INT64_MAX, "ns"},
        {10, 10, "n"},
        {9, 9, ""},
        {11, 29, "ns"},
        {20, 20, "ns"},
        {11, 15, "n"},
        {30, 30, "n"},
        {31, INT64_MAX, ""},
        {INT64_MIN, 9, ""},
        {21, 29, "n"},
        {19, 21, "ns"},
    };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_series *empty;
    char got[8];

    (void)state;
    (void)cat_store_one(store, catalog, "n", 0, 30);
    (void)cat_store_one(store, catalog, "n", 0, 10);
    (void)cat_store_one(store, catalog, "s", 0, 20);
    /* All of its profiles were in blocks already. */
    tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));
    empty = cat_add(catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all),
                    "e");
    (void)ing_catalog_series_saw(empty, 3);
    atomic_store(&empty->durable, true);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        list_between(catalog, cases[i].start_ns, cases[i].end_ns, got);
        if (strlen(got) != strlen(cases[i].want) ||
            strspn(got, cases[i].want) != strlen(cases[i].want))
            fail_msg("%lld to %lld: %s", (long long)cases[i].start_ns, (long long)cases[i].end_ns,
                     got);
    }
    /* Unknown after a restart. */
    ing_catalog_close(catalog);
    catalog = cat_open(store);
    list_between(catalog, 31, INT64_MAX, got);
    assert_int_equal(strlen(got), 2);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* ---- quotas ---- */

enum { SMALL_BYTES = 1 << 20 };

static struct ing_catalog *open_small(struct fg_store *store)
{
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct fg_err err;

    assert_int_equal(ing_catalog_open(store, &(struct ing_catalog_bounds){SMALL_BYTES, 0}, &damage,
                                      &catalog, &err),
                     FG_OK);
    return catalog;
}

/* A series of service "shop" with that zone; NULL: refused. */
static struct ing_catalog_series *add_with(struct fg_store *store, struct ing_catalog *catalog,
                                           const char *name, uint32_t number,
                                           const struct ing_catalog_quota *quota)
{
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, fg_cstr(name));
    char zone[16] = {0};
    int len = snprintf(zone, sizeof zone, "z%u", number);
    struct fg_label items[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                               {FG_LIT("service_name"), FG_LIT("shop")},
                               {FG_LIT("zone"), fg_bytes(zone, (size_t)len)}};
    struct fg_labels labels = {items, 3};
    struct fg_value_type types[] = {{FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct fg_wire_batch batch = {
        .types = types, .n_types = 1, .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct ing_catalog_service *service;
    struct ing_catalog_series *series;

    if (tenant == NULL)
        return NULL;
    service = ing_catalog_service(catalog, tenant, FG_LIT("shop"), quota);
    series = service == NULL
                 ? NULL
                 : ing_catalog_series(catalog, tenant, service, 0, &batch, &labels, quota);
    if (series != NULL) {
        (void)ing_catalog_series_saw(series, 1);
        cat_put(store, tenant, series);
        atomic_store(&series->durable, true);
    }
    return series;
}

/* As many as there is room for. */
static uint32_t fill(struct fg_store *store, struct ing_catalog *catalog, const char *name,
                     const struct ing_catalog_quota *quota)
{
    uint32_t n = 0;

    while (add_with(store, catalog, name, n, quota) != NULL)
        assert_true(n++ < 100000);
    return n;
}

static void one_tenant_cannot_fill_the_catalog(void **state)
{
    static const struct ing_catalog_quota half = {.share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = open_small(store);
    enum ing_catalog_refusal why;
    struct fg_err err;
    uint32_t n;

    (void)state;
    n = fill(store, catalog, "greedy", &half);
    assert_in_range(ing_catalog_bytes(catalog), SMALL_BYTES / 4, SMALL_BYTES * 5 / 8);
    assert_int_equal(ing_catalog_check_room(catalog,
                                            ing_catalog_find_tenant(catalog, FG_LIT("greedy")),
                                            &half, &why, &err),
                     FG_E_LIMIT);
    assert_int_equal(why, CATALOG_TENANT_SHARE);
    assert_non_null(strstr(err.msg, "limits.tenant_catalog_share"));
    assert_int_equal(ing_catalog_count_refused(catalog, CATALOG_TENANT_SHARE), 1);
    assert_non_null(strstr(err.msg, "greedy"));
    assert_non_null(add_with(store, catalog, "greedy", n / 2, &half)); /* known ones go on */
    for (uint32_t i = 0; i < 20; i++)
        assert_non_null(add_with(store, catalog, "modest", i, &half));

    /* A restart finds each one's share as it was. */
    ing_catalog_close(catalog);
    catalog = open_small(store);
    assert_null(add_with(store, catalog, "greedy", n + 1000, &half));
    assert_non_null(add_with(store, catalog, "modest", 20, &half));

    /* Others that take all they get halve what is left, and somebody new finds room. */
    for (int c = 'a'; c <= 'd'; c++)
        (void)fill(store, catalog, (const char[]){(char)c, '\0'}, &half);
    assert_true(ing_catalog_bytes(catalog) < SMALL_BYTES);
    assert_non_null(add_with(store, catalog, "new", 1, &half));
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Without tenancy it is all for one. */
static void a_share_of_one_is_the_whole_catalog(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = open_small(store);
    enum ing_catalog_refusal why;
    struct fg_err err;

    (void)state;
    (void)fill(store, catalog, "anonymous", &cat_all);
    assert_true(ing_catalog_bytes(catalog) > SMALL_BYTES);
    assert_int_equal(ing_catalog_check_room(catalog,
                                            ing_catalog_find_tenant(catalog, FG_LIT("anonymous")),
                                            &cat_all, &why, &err),
                     FG_E_LIMIT);
    assert_int_equal(why, CATALOG_FULL);
    assert_non_null(strstr(err.msg, "ingester.catalog_max_bytes"));
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void a_limit_of_series_is_named(void **state)
{
    static const struct ing_catalog_quota three = {.series_max = 3, .share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = open_small(store);
    enum ing_catalog_refusal why;
    struct fg_err err;

    (void)state;
    assert_int_equal(fill(store, catalog, "a", &three), 3);
    assert_int_equal(fill(store, catalog, "b", &three), 3);
    assert_int_equal(ing_catalog_check_room(catalog, ing_catalog_find_tenant(catalog, FG_LIT("a")),
                                            &three, &why, &err),
                     FG_E_LIMIT);
    assert_int_equal(why, CATALOG_SERIES_MAX);
    assert_non_null(strstr(err.msg, "3 series on this ingester"));
    assert_non_null(strstr(err.msg, "limits.max_series_per_tenant"));
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Tenants without services make room for others, and take almost no memory. */
static void idle_tenants_make_room_for_others(void **state)
{
    enum { MAX = 5, TENANTS = 300 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    enum ing_catalog_refusal why;
    struct fg_err err;
    size_t before;

    (void)state;
    assert_int_equal(ing_catalog_open(store, &(struct ing_catalog_bounds){SMALL_BYTES, MAX},
                                      &damage, &catalog, &err),
                     FG_OK);
    before = ing_catalog_bytes(catalog);
    for (uint32_t i = 0; i < TENANTS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "tenant-%u", i);
        assert_non_null(add_with(store, catalog, name, 0, &cat_all));
        if (i % MAX != MAX - 1)
            continue;
        assert_null(add_with(store, catalog, "one more", 0, &cat_all));
        assert_int_equal(ing_catalog_check_room(catalog, NULL, &cat_all, &why, &err), FG_E_LIMIT);
        assert_int_equal(why, CATALOG_TENANTS_MAX);
        assert_non_null(strstr(err.msg, "tenants_max"));
        assert_int_equal(ing_catalog_count_active(catalog), MAX);
        assert_null(ing_catalog_find_tenant(catalog, FG_LIT("one more")));
        assert_non_null(
            add_with(store, catalog, name, 1, &cat_all)); /* existing tenants are not affected */
        if (i > MAX) /* one that was there, and is idle, is one more, too */
            assert_null(add_with(store, catalog, "tenant-0", 0, &cat_all));
        cat_sweep_all(store, catalog, UINT32_MAX);
    }
    assert_true(ing_catalog_bytes(catalog) < before + TENANTS * 300);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Retired series count for no tenant. */
static void retired_series_free_the_share_of_their_tenant(void **state)
{
    static const struct ing_catalog_quota half = {.share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = open_small(store);
    uint32_t n = fill(store, catalog, "greedy", &half);

    (void)state;
    cat_sweep_all(store, catalog, UINT32_MAX);
    assert_true(ing_catalog_bytes(catalog) < 2000);
    assert_in_range(fill(store, catalog, "greedy", &half), n - n / 8, n + n / 8);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_definitions_share_a_number),
        cmocka_unit_test(written_entries_are_read_back),
        cmocka_unit_test(gaps_in_numbers_are_kept),
        cmocka_unit_test(series_are_found_by_their_numbers),
        cmocka_unit_test(many_series_are_selected_listed_and_counted),
        cmocka_unit_test(one_tenant_cannot_fill_the_catalog),
        cmocka_unit_test(a_share_of_one_is_the_whole_catalog),
        cmocka_unit_test(a_limit_of_series_is_named),
        cmocka_unit_test(retired_series_free_the_share_of_their_tenant),
        cmocka_unit_test(idle_tenants_make_room_for_others),
        cmocka_unit_test(series_are_selected_by_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
