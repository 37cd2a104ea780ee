/* The catalog: numbers that stay, and all of it read back from the store; what leaves it, and when.
 */
#include "ingester/catalog/catalog.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct catalog_quota all = {.share = 1};

static struct catalog *open_catalog(struct fg_store *store)
{
    struct damage damage = {0};
    struct catalog *catalog;
    struct fg_err err;

    assert_int_equal(
        catalog_open(store, &(struct catalog_bounds){1 << 30, 0}, &damage, &catalog, &err), FG_OK);
    assert_int_equal(damage.repaired + damage.set_aside, 0);
    return catalog;
}

static void write_batch(struct fg_store *store, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

/* A series of the service with a label zone and two types, that came for the shard. */
static struct catalog_series *add_at(struct catalog *catalog, struct catalog_tenant *tenant,
                                     struct catalog_service *service, const char *zone,
                                     uint16_t shard)
{
    struct fg_label items[] = {
        {FG_LIT("__name__"), FG_LIT("process_cpu")},
        {FG_LIT("service_name"), service->name},
        {FG_LIT("zone"), fg_cstr(zone)},
    };
    struct fg_labels labels = {items, 3};
    struct fg_value_type types[] = {{FG_LIT("samples"), FG_LIT("count")},
                                    {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct fg_wire_batch batch = {
        .types = types, .n_types = 2, .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")}};

    return catalog_series(catalog, tenant, service, shard, &batch, &labels, &all);
}

static struct catalog_series *add_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                         struct catalog_service *service, const char *zone)
{
    return add_at(catalog, tenant, service, zone, 0);
}

/* Everything of the series, its service and tenant, as a push would. */
static void put_all(struct fg_store *store, struct catalog_tenant *tenant,
                    const struct catalog_series *series)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    catalog_put_tenant(tenant, &batch);
    catalog_put_service(series->service, &batch);
    catalog_put_series(tenant, series, &batch);
    write_batch(store, &batch);
    *catalog_tenant_durable(tenant) = true;
}

static void equal_things_have_one_number(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *a = catalog_tenant(catalog, FG_LIT("a")),
                          *b = catalog_tenant(catalog, FG_LIT("b"));
    struct catalog_service *shop = catalog_service(catalog, a, FG_LIT("shop"), &all);

    (void)state;
    assert_int_equal(catalog_tenant_number(a), 0);
    assert_int_equal(catalog_tenant_number(b), 1);
    assert_ptr_equal(catalog_tenant(catalog, FG_LIT("a")), a);
    assert_ptr_equal(catalog_find_tenant(catalog, FG_LIT("b")), b);
    assert_null(catalog_find_tenant(catalog, FG_LIT("c")));
    assert_ptr_equal(catalog_service(catalog, a, FG_LIT("shop"), &all), shop);
    assert_int_not_equal(catalog_service(catalog, b, FG_LIT("shop"), &all)->number, shop->number);
    assert_ptr_equal(add_series(catalog, a, shop, "x"), add_series(catalog, a, shop, "x"));
    assert_ptr_not_equal(add_series(catalog, a, shop, "x"), add_series(catalog, a, shop, "y"));
    assert_int_equal(add_series(catalog, a, shop, "x")->number, 0);
    assert_int_equal(add_series(catalog, a, shop, "y")->number, 1);
    /* What comes for another shard is another series. */
    assert_int_equal(add_at(catalog, a, shop, "x", 7)->number, 2);
    assert_int_equal(add_at(catalog, a, shop, "x", 7)->shard, 7);
    catalog_close(catalog);
    fg_store_close(store);
}

/* "shard/number/type zone" of all that matches. */
static void list(struct catalog *catalog, const char *tenant, const char *selector_text,
                 struct fg_buf *out)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_selector selector = {0};
    struct catalog_match *matches;
    struct fg_err err;
    size_t count;

    assert_int_equal(fg_selector_parse(fg_cstr(selector_text), arena, &selector, &err), FG_OK);
    assert_int_equal(catalog_select(catalog, catalog_find_tenant(catalog, fg_cstr(tenant)),
                                    &(struct catalog_filter){&selector, INT64_MIN, INT64_MAX},
                                    arena, &matches, &count, &err),
                     FG_OK);
    fg_buf_clear(out);
    for (size_t i = 0; i < count; i++) {
        const struct catalog_series *series = matches[i].series;
        struct fg_labels labels;

        if (i > 0)
            assert_true(matches[i - 1].series->shard < series->shard ||
                        (matches[i - 1].series->shard == series->shard &&
                         (matches[i - 1].series->number < series->number ||
                          (matches[i - 1].series->number == series->number &&
                           matches[i - 1].type < matches[i].type))));
        fg_buf_printf(out, "%u/%u/%u ", series->shard, series->number, matches[i].type);
        labels = series_type_labels(series, matches[i].type, arena);
        for (size_t l = 0; l < labels.count; l++)
            assert_true(fg_slice_eq(series_label(series, matches[i].type, labels.items[l].name),
                                    labels.items[l].value));
        fg_labels_write(&labels, out);
        fg_buf_putc(out, '\n');
    }
    fg_buf_putc(out, 0);
    fg_selector_done(&selector);
    fg_arena_destroy(arena);
}

static void what_was_written_is_read_back(void **state)
{
    static const char *const zones[] = {"n", "e", "s", "w", "c"};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store), *again;
    struct fg_buf before, after;

    (void)state;
    for (size_t t = 0; t < 3; t++) {
        /* Names in another order than the numbers. */
        struct catalog_tenant *tenant = catalog_tenant(catalog, fg_cstr(t == 0   ? "z"
                                                                        : t == 1 ? "a"
                                                                                 : "m"));

        for (size_t z = 0; z < FG_COUNT(zones); z++) {
            struct catalog_service *service =
                catalog_service(catalog, tenant, fg_cstr(z % 2 == 0 ? "shop" : "archive"), &all);
            struct catalog_series *series =
                add_at(catalog, tenant, service, zones[z], (uint16_t)(65531 + z));

            catalog_series_saw(series, z == 0 ? 1 : z == 1 ? 2 : 3);
            put_all(store, tenant, series);
        }
    }
    again = open_catalog(store);
    fg_buf_init(&before, SIZE_MAX);
    fg_buf_init(&after, SIZE_MAX);
    for (size_t t = 0; t < 3; t++) {
        const char *tenant = t == 0 ? "z" : t == 1 ? "a" : "m";
        struct catalog_tenant *one = catalog_find_tenant(catalog, fg_cstr(tenant)),
                              *two = catalog_find_tenant(again, fg_cstr(tenant));

        assert_int_equal(catalog_tenant_number(one), catalog_tenant_number(two));
        assert_true(*catalog_tenant_durable(two));
        assert_int_equal(catalog_service(catalog, one, FG_LIT("shop"), &all)->number,
                         catalog_service(again, two, FG_LIT("shop"), &all)->number);
        assert_true(catalog_service(again, two, FG_LIT("archive"), &all)->durable);
        assert_true(
            add_at(again, two, catalog_service(again, two, FG_LIT("archive"), &all), "e", 65532)
                ->durable);
        list(again, tenant, "{}", &after);
        assert_non_null(strstr((const char *)after.ptr, "zone=\"w\""));
        list(again, tenant, "{service_name=\"archive\",zone=~\"e|n\"}", &after);
        assert_non_null(strstr((const char *)after.ptr, "cpu:nanoseconds"));
        assert_null(strstr((const char *)after.ptr, "samples:count")); /* never seen */
        assert_null(strstr((const char *)after.ptr, "zone=\"n\""));    /* another service */
    }
    /* New numbers begin after the old. */
    assert_int_equal(catalog_tenant_number(catalog_tenant(again, FG_LIT("new"))), 3);
    assert_int_equal(
        catalog_service(again, catalog_tenant(again, FG_LIT("new")), FG_LIT("s"), &all)->number, 6);
    fg_buf_done(&before);
    fg_buf_done(&after);
    catalog_close(catalog);
    catalog_close(again);
    fg_store_close(store);
}

/* A push that failed has used numbers: they stay empty, and the others keep theirs. */
static void gaps_are_left_alone(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *tenant;
    struct catalog_service *service;
    struct catalog_series *series;
    struct fg_buf text;

    (void)state;
    (void)catalog_tenant(catalog, FG_LIT("lost"));
    tenant = catalog_tenant(catalog, FG_LIT("kept"));
    (void)catalog_service(catalog, tenant, FG_LIT("lost"), &all);
    service = catalog_service(catalog, tenant, FG_LIT("shop"), &all);
    (void)add_series(catalog, tenant, service, "lost");
    series = add_series(catalog, tenant, service, "n");
    catalog_series_saw(series, 3);
    put_all(store, tenant, series);
    catalog_close(catalog);

    catalog = open_catalog(store);
    assert_null(catalog_find_tenant(catalog, FG_LIT("lost")));
    tenant = catalog_find_tenant(catalog, FG_LIT("kept"));
    assert_int_equal(catalog_tenant_number(tenant), 1);
    service = catalog_service(catalog, tenant, FG_LIT("shop"), &all);
    assert_int_equal(service->number, 1);
    assert_int_equal(add_series(catalog, tenant, service, "n")->number, 1);
    assert_int_equal(add_series(catalog, tenant, service, "other")->number, 2);
    fg_buf_init(&text, SIZE_MAX);
    list(catalog, "kept", "{}", &text);
    assert_null(strstr((const char *)text.ptr, "lost"));
    fg_buf_done(&text);
    catalog_close(catalog);
    fg_store_close(store);
}

static void put_raw(struct fg_store *store, unsigned family, struct fg_slice key,
                    struct fg_slice value)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, key, value);
    write_batch(store, &batch);
}

static void a_store_of_another_format_is_refused(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct damage damage = {0};
    struct catalog *catalog;
    struct fg_err err;

    (void)state;
    put_raw(store, HEAD_META, FG_LIT("format"), FG_LIT("\x01"));
    assert_int_equal(
        catalog_open(store, &(struct catalog_bounds){1 << 30, 0}, &damage, &catalog, &err),
        FG_E_PRECONDITION);
    fg_store_close(store);
}

/* Opens the damaged catalog: whatever is wrong with a record, it starts, and says what it did. */
static struct catalog *open_damaged(struct fg_store *store, uint64_t repaired, uint64_t set_aside)
{
    struct damage damage = {0};
    struct catalog *catalog;
    struct fg_err err;

    assert_int_equal(
        catalog_open(store, &(struct catalog_bounds){1 << 30, 0}, &damage, &catalog, &err), FG_OK);
    assert_int_equal(damage.repaired, repaired);
    assert_int_equal(damage.set_aside, set_aside);
    assert_int_equal(damage.first[0] != '\0', set_aside > 0);
    return catalog;
}

static void a_record_that_cannot_be_read_does_not_stop_the_start(void **state)
{
    static const struct {
        const char *name;
        unsigned family;
        struct fg_slice key, value;
        unsigned repaired, set_aside;
    } cases[] = {
        {"tenant without number", HEAD_META, FG_LIT("tx"), FG_LIT(""), 0, 1},
        {"tenant without name", HEAD_META, FG_LIT("t"), FG_LIT("\0"), 0, 1},
        {"huge tenant number", HEAD_META, FG_LIT("tx"), FG_LIT("\xff\xff\xff\xff\x0f"), 0, 1},
        {"service of no tenant", HEAD_META, FG_LIT("s\0\0\0\x09x"), FG_LIT("\0"), 0, 1},
        {"service of a tenant that cannot be", HEAD_META, FG_LIT("s\xff\xff\xff\xffx"),
         FG_LIT("\0"), 0, 1},
        {"number of another tenant", HEAD_META, FG_LIT("n\0\0\0\x09"), FG_LIT("\1"), 1, 0},
        {"number of half a tenant", HEAD_META, FG_LIT("n\0"), FG_LIT("\1"), 1, 0},
        {"number that is none", HEAD_META, FG_LIT("n"), FG_LIT(""), 1, 0},
        {"short service key", HEAD_META, FG_LIT("s\0"), FG_LIT("\0"), 0, 1},
        {"short series key", HEAD_SERIES, FG_LIT("\0\0\0\0"), FG_LIT(""), 0, 1},
        {"series of no tenant", HEAD_SERIES, FG_LIT("\0\0\0\x09\0\0\0\0"), FG_LIT(""), 0, 1},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
        struct catalog *catalog;
        uint32_t number;

        print_message("  %s\n", cases[i].name);
        put_raw(store, cases[i].family, cases[i].key, cases[i].value);
        catalog = open_damaged(store, cases[i].repaired, cases[i].set_aside);
        /* It works, and no number is given that the record may stand for. */
        number = catalog_tenant_number(catalog_tenant(catalog, FG_LIT("new")));
        assert_true(number == 0 || number == 10);
        assert_false(catalog_has_tenant(catalog, 9));
        catalog_close(catalog);
        fg_store_close(store);
    }
}

/*
 * A push of a new tenant fails after its series got a number, and the series is swept: the number
 * of a tenant was stored that never was, and no start could read it.
 */
static void a_swept_series_of_a_tenant_that_never_was_stored_leaves_nothing(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("late"));
    struct fg_store_batch batch;

    (void)state;
    (void)add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), "n");
    for (int i = 0; i < 4; i++) {
        fg_store_batch_init(&batch);
        catalog_sweep_series(catalog, UINT32_MAX, &batch);
        write_batch(store, &batch);
    }
    assert_int_equal(catalog_count_series(catalog, tenant), 0);
    catalog_close(catalog);
    catalog = open_catalog(store);
    assert_null(catalog_find_tenant(catalog, FG_LIT("late")));
    catalog_close(catalog);
    fg_store_close(store);
}

/* Stores of before: the gap stays without a name, and its number is not given again. */
static void a_next_number_of_an_unknown_tenant_leaves_a_gap(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));

    (void)state;
    put_all(
        store, tenant,
        add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), "n"));
    catalog_close(catalog);
    put_raw(store, HEAD_META, FG_LIT("n\0\0\0\3"), FG_LIT("\7"));
    catalog = open_damaged(store, 1, 0);
    assert_int_equal(catalog_count_tenants(catalog), 4);
    assert_non_null(catalog_find_tenant(catalog, FG_LIT("a")));
    assert_int_equal(catalog_tenant_number(catalog_tenant(catalog, FG_LIT("new"))), 4);
    catalog_close(catalog);
    fg_store_close(store);
}

static void delete_raw(struct fg_store *store, unsigned family, struct fg_slice key)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    fg_store_delete(&batch, family, key);
    write_batch(store, &batch);
}

/* Tenant a with two services, of two series each, all of it stored. */
static struct fg_store *make_store(void)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));

    for (int i = 0; i < 4; i++) {
        struct catalog_service *service =
            catalog_service(catalog, tenant, fg_cstr(i < 2 ? "shop" : "archive"), &all);
        struct catalog_series *series =
            add_series(catalog, tenant, service, i % 2 == 0 ? "n" : "s");

        catalog_series_saw(series, 3);
        put_all(store, tenant, series);
    }
    catalog_close(catalog);
    return store;
}

static void without_its_tenant_everything_is_set_aside(void **state)
{
    struct fg_store *store = make_store();
    struct catalog *catalog;
    struct catalog_tenant *tenant;

    (void)state;
    delete_raw(store, HEAD_META, FG_LIT("ta"));
    catalog = open_damaged(store, 0, 2 + 4);
    assert_null(catalog_find_tenant(catalog, FG_LIT("a")));
    /* The same name is another tenant now, and nothing of the old one is overwritten. */
    tenant = catalog_tenant(catalog, FG_LIT("a"));
    assert_int_equal(catalog_tenant_number(tenant), 1);
    assert_int_equal(catalog_service(catalog, tenant, FG_LIT("shop"), &all)->number, 2);
    catalog_close(catalog);
    fg_store_close(store);
}

static void a_missing_service_is_made_again_from_its_series(void **state)
{
    struct fg_store *store = make_store();
    struct catalog *catalog;
    struct catalog_tenant *tenant;
    struct catalog_service *service;
    struct fg_buf text;

    (void)state;
    delete_raw(store, HEAD_META, FG_LIT("s\0\0\0\0shop"));
    catalog = open_damaged(store, 1, 0);
    tenant = catalog_find_tenant(catalog, FG_LIT("a"));
    service = catalog_service(catalog, tenant, FG_LIT("shop"), &all);
    assert_int_equal(service->number, 0); /* its dictionary goes by the number */
    assert_int_equal(service->n_series, 2);
    assert_false(service->durable); /* so that the next push stores it */
    fg_buf_init(&text, SIZE_MAX);
    list(catalog, "a", "{service_name=\"shop\"}", &text);
    assert_non_null(strstr((const char *)text.ptr, "zone=\"n\""));
    assert_non_null(strstr((const char *)text.ptr, "zone=\"s\""));
    fg_buf_done(&text);
    assert_false(catalog_tenant_lacks(tenant));
    catalog_close(catalog);
    fg_store_close(store);
}

static bool leaves(const struct catalog_service *service, void *arg)
{
    (void)service;
    (void)arg;
    return true;
}

/* A service that was made again has a namesake, when another one has its record by now: both are
 * found, and one leaves without taking the definition of the other along. */
static void two_services_of_one_name_keep_their_series(void **state)
{
    struct fg_store *store = make_store();
    struct catalog *catalog;
    struct catalog_tenant *tenant;
    struct catalog_service *newer;
    struct fg_store_batch batch;

    (void)state;
    put_raw(store, HEAD_META, FG_LIT("s\0\0\0\0shop"), FG_LIT("\7")); /* was number 0 */
    catalog = open_damaged(store, 1, 0);
    tenant = catalog_find_tenant(catalog, FG_LIT("a"));
    newer = catalog_service(catalog, tenant, FG_LIT("shop"), &all);
    assert_int_equal(newer->number, 7);
    assert_int_equal(newer->n_series, 0);
    for (int i = 0; i < 4; i++) { /* the series go, and then both services */
        fg_store_batch_init(&batch);
        catalog_sweep_series(catalog, UINT32_MAX, &batch);
        catalog_sweep_services(catalog, leaves, NULL, &batch);
        write_batch(store, &batch);
    }
    catalog_close(catalog);
    catalog = open_catalog(store);
    assert_int_equal(
        catalog_service(catalog, catalog_tenant(catalog, FG_LIT("a")), FG_LIT("x"), &all)->number,
        8);
    catalog_close(catalog);
    fg_store_close(store);
}

static void a_series_that_names_a_strange_service_is_set_aside(void **state)
{
    struct fg_store *store = make_store();
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *other = catalog_tenant(catalog, FG_LIT("b"));
    struct fg_store_batch batch;

    (void)state;
    /* Service 0 is that of another tenant, now. */
    fg_store_batch_init(&batch);
    catalog_put_tenant(other, &batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("s\0\0\0\0shop"));
    fg_store_put(&batch, HEAD_META, FG_LIT("s\0\0\0\1shop"), FG_LIT("\0"));
    write_batch(store, &batch);
    catalog_close(catalog);
    catalog = open_damaged(store, 0, 2);
    assert_true(catalog_tenant_lacks(catalog_find_tenant(catalog, FG_LIT("a"))));
    assert_false(catalog_tenant_lacks(catalog_find_tenant(catalog, FG_LIT("b"))));
    assert_int_equal(catalog_count_series(catalog, NULL), 2);
    /* Numbers of what is set aside are not given again. */
    assert_int_equal(add_series(catalog, catalog_find_tenant(catalog, FG_LIT("a")),
                                catalog_service(catalog, catalog_find_tenant(catalog, FG_LIT("a")),
                                                FG_LIT("archive"), &all),
                                "e")
                         ->number,
                     4);
    catalog_close(catalog);
    fg_store_close(store);
}

/* Any series' value, damaged in any way, opens or is set aside. */
static void damaged_series_are_survived(void **state)
{
    struct fg_store *good = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(good);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));
    struct catalog_series *series =
        add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), "n");
    struct fg_store_iter *iter;
    struct fg_buf value;

    (void)state;
    put_all(good, tenant, series);
    catalog_close(catalog);
    fg_buf_init(&value, SIZE_MAX);
    iter = fg_store_iter_create(good, HEAD_SERIES, FG_LIT(""), FG_LIT(""));
    assert_true(iter->valid);
    for (size_t i = 0; i < iter->value.len * 4; i++) {
        static const uint8_t bytes[] = {0, 1, 0x7f, 0xff};
        struct damage damage = {0};
        struct fg_err err;

        fg_buf_clear(&value);
        fg_buf_put(&value, iter->value);
        value.ptr[i / 4] = bytes[i % 4];
        put_raw(good, HEAD_SERIES, iter->key, fg_buf_slice(&value));
        assert_int_equal(
            catalog_open(good, &(struct catalog_bounds){1 << 30, 0}, &damage, &catalog, &err),
            FG_OK);
        catalog_close(catalog);
        put_raw(good, HEAD_SERIES, iter->key, fg_bytes(iter->value.ptr, i / 4));
        catalog = open_damaged(good, 0, 1);
        assert_int_equal(catalog_count_series(catalog, NULL), 0);
        catalog_close(catalog);
    }
    fg_store_iter_destroy(iter);
    fg_buf_done(&value);
    fg_store_close(good);
}

/* ---- leaving ---- */

static size_t count_keys(struct fg_store *store, unsigned family, char first)
{
    struct fg_store_iter *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
    size_t count = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        count += first == 0 || iter->key.ptr[0] == (uint8_t)first;
    fg_store_iter_destroy(iter);
    return count;
}

/* Nothing names them but their series. */
static bool always(const struct catalog_service *service, void *arg)
{
    (void)service;
    (void)arg;
    return true;
}

static void sweep(struct fg_store *store, struct catalog *catalog, uint32_t least_born)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    catalog_sweep_series(catalog, least_born, &batch);
    catalog_sweep_services(catalog, always, NULL, &batch);
    write_batch(store, &batch);
}

/* Two epochs end, if nobody stays inside, and a third, at whose end memory is returned. */
static void sweep_all(struct fg_store *store, struct catalog *catalog, uint32_t least_born)
{
    for (int i = 0; i < 5; i++)
        sweep(store, catalog, least_born);
}

/* What a push that was written leaves: a series with a profile in a round. */
static struct catalog_series *store_one(struct fg_store *store, struct catalog *catalog,
                                        const char *zone, uint32_t born, int64_t time_ns)
{
    unsigned entered = catalog_enter(catalog);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));
    struct catalog_series *series =
        add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), zone);

    (void)catalog_series_saw(series, 3);
    put_all(store, tenant, series);
    atomic_store(&series->durable, true);
    atomic_store(&series->stored, 3);
    catalog_series_holds(series, born, time_ns);
    catalog_leave(catalog, entered);
    return series;
}

static uint64_t count_series(struct catalog *catalog)
{
    return catalog_count_series(catalog, catalog_find_tenant(catalog, FG_LIT("a")));
}

static void series_leave_after_the_rounds_that_hold_them(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);

    (void)state;
    (void)store_one(store, catalog, "n", 0, 1);
    (void)store_one(store, catalog, "s", 0, 1);
    (void)store_one(store, catalog, "s", 2, 1);
    sweep_all(store, catalog, 0);
    assert_int_equal(count_series(catalog), 2);
    sweep_all(store, catalog, 1);
    assert_int_equal(count_series(catalog), 1);
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 1);
    sweep_all(store, catalog, 2);
    assert_int_equal(count_series(catalog), 1);
    sweep_all(store, catalog, UINT32_MAX); /* no round at all */
    assert_int_equal(count_series(catalog), 0);
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 0);
    catalog_close(catalog);
    fg_store_close(store);
}

static void assert_found(struct catalog *catalog, uint32_t n, uint32_t every)
{
    const struct catalog_tenant *tenant = catalog_find_tenant(catalog, FG_LIT("a"));

    for (uint32_t i = 0; i < n; i++) {
        const struct catalog_series *series = catalog_find_series(catalog, tenant, i);

        assert_int_equal(series != NULL, i % every == 0);
        if (series != NULL)
            assert_int_equal(series->number, i);
    }
    assert_null(catalog_find_series(catalog, tenant, n));
}

/* Whatever has left between them, and after a restart. */
static void series_are_found_by_their_numbers(void **state)
{
    enum { COUNT = 50 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    char zones[COUNT][8];

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)snprintf(zones[i], sizeof zones[i], "z%u", i);
        (void)store_one(store, catalog, zones[i], i % 12 == 0 ? 2 : i % 3 == 0, 1);
    }
    assert_found(catalog, COUNT, 1);
    sweep_all(store, catalog, 1);
    assert_found(catalog, COUNT, 3);
    sweep_all(store, catalog, 2);
    assert_found(catalog, COUNT, 12);
    catalog_close(catalog);
    catalog = open_catalog(store);
    assert_found(catalog, COUNT, 12);
    catalog_close(catalog);
    fg_store_close(store);
}

/* More than are copied under the lock at a time, with gaps of all sizes between them. */
static void many_series_are_selected_listed_and_counted(void **state)
{
    enum { COUNT = 9000, EVERY = 7 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    fg_auto(fg_arena) *arena = fg_arena_create(64 << 20);
    struct fg_selector selector = {0};
    struct catalog_match *matches;
    struct catalog_series **series;
    size_t n_matches, n_series;
    struct fg_err err;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        char zone[16];

        (void)snprintf(zone, sizeof zone, "z%u", i);
        (void)store_one(store, catalog, zone, i % EVERY == 0 || i / 3000 == 1 ? 2 : 0, 1);
    }
    sweep_all(store, catalog, 1);
    for (int again = 0; again < 2; again++) {
        struct catalog_tenant *tenant = catalog_find_tenant(catalog, FG_LIT("a"));
        unsigned entered = catalog_enter(catalog);
        size_t want = 3000 + (COUNT - 3000 + EVERY - 1) / EVERY;

        assert_in_range(count_series(catalog), want - 2, want + 2);
        want = count_series(catalog);
        assert_int_equal(catalog_count_series(catalog, NULL), want);
        assert_int_equal(catalog_list_series(catalog, tenant, arena, &series, &n_series, &err),
                         FG_OK);
        assert_int_equal(n_series, want);
        assert_int_equal(catalog_select(catalog, tenant,
                                        &(struct catalog_filter){&selector, INT64_MIN, INT64_MAX},
                                        arena, &matches, &n_matches, &err),
                         FG_OK);
        assert_int_equal(n_matches, 2 * want);
        for (size_t i = 0; i < want; i++) {
            assert_true(i == 0 || series[i - 1]->number < series[i]->number);
            assert_ptr_equal(matches[2 * i].series, series[i]);
            assert_ptr_equal(catalog_find_series(catalog, tenant, series[i]->number), series[i]);
        }
        catalog_leave(catalog, entered);
        catalog_close(catalog);
        catalog = open_catalog(store);
    }
    catalog_close(catalog);
    fg_store_close(store);
}

/* ---- quotas ---- */

enum { SMALL_BYTES = 1 << 20 };

static struct catalog *open_small(struct fg_store *store)
{
    struct damage damage = {0};
    struct catalog *catalog;
    struct fg_err err;

    assert_int_equal(
        catalog_open(store, &(struct catalog_bounds){SMALL_BYTES, 0}, &damage, &catalog, &err),
        FG_OK);
    return catalog;
}

/* A series of service "shop" with that zone; NULL: refused. */
static struct catalog_series *add_with(struct fg_store *store, struct catalog *catalog,
                                       const char *name, uint32_t number,
                                       const struct catalog_quota *quota)
{
    struct catalog_tenant *tenant = catalog_tenant(catalog, fg_cstr(name));
    char zone[16] = {0};
    int len = snprintf(zone, sizeof zone, "z%u", number);
    struct fg_label items[] = {{FG_LIT("__name__"), FG_LIT("process_cpu")},
                               {FG_LIT("service_name"), FG_LIT("shop")},
                               {FG_LIT("zone"), fg_bytes(zone, (size_t)len)}};
    struct fg_labels labels = {items, 3};
    struct fg_value_type types[] = {{FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct fg_wire_batch batch = {
        .types = types, .n_types = 1, .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")}};
    struct catalog_service *service;
    struct catalog_series *series;

    if (tenant == NULL)
        return NULL;
    service = catalog_service(catalog, tenant, FG_LIT("shop"), quota);
    series = service == NULL ? NULL
                             : catalog_series(catalog, tenant, service, 0, &batch, &labels, quota);
    if (series != NULL) {
        (void)catalog_series_saw(series, 1);
        put_all(store, tenant, series);
        atomic_store(&series->durable, true);
    }
    return series;
}

/* As many as there is room for. */
static uint32_t fill(struct fg_store *store, struct catalog *catalog, const char *name,
                     const struct catalog_quota *quota)
{
    uint32_t n = 0;

    while (add_with(store, catalog, name, n, quota) != NULL)
        assert_true(n++ < 100000);
    return n;
}

static void one_tenant_cannot_fill_the_catalog(void **state)
{
    static const struct catalog_quota half = {.share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_small(store);
    struct fg_err err;
    uint32_t n;

    (void)state;
    n = fill(store, catalog, "greedy", &half);
    assert_in_range(catalog_bytes(catalog), SMALL_BYTES / 4, SMALL_BYTES * 5 / 8);
    assert_int_equal(
        catalog_check_room(catalog, catalog_find_tenant(catalog, FG_LIT("greedy")), &half, &err),
        FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "limits.tenant_catalog_share"));
    assert_int_equal(catalog_count_refused(catalog, CATALOG_TENANT_SHARE), 1);
    assert_non_null(strstr(err.msg, "greedy"));
    assert_non_null(add_with(store, catalog, "greedy", n / 2, &half)); /* known ones go on */
    for (uint32_t i = 0; i < 20; i++)
        assert_non_null(add_with(store, catalog, "modest", i, &half));

    /* A restart finds each one's share as it was. */
    catalog_close(catalog);
    catalog = open_small(store);
    assert_null(add_with(store, catalog, "greedy", n + 1000, &half));
    assert_non_null(add_with(store, catalog, "modest", 20, &half));

    /* Others that take all they get halve what is left, and somebody new finds room. */
    for (int c = 'a'; c <= 'd'; c++)
        (void)fill(store, catalog, (const char[]){(char)c, '\0'}, &half);
    assert_true(catalog_bytes(catalog) < SMALL_BYTES);
    assert_non_null(add_with(store, catalog, "new", 1, &half));
    catalog_close(catalog);
    fg_store_close(store);
}

/* Without tenancy it is all for one. */
static void a_share_of_one_is_the_whole_catalog(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_small(store);
    struct fg_err err;

    (void)state;
    (void)fill(store, catalog, "anonymous", &all);
    assert_true(catalog_bytes(catalog) > SMALL_BYTES);
    assert_int_equal(
        catalog_check_room(catalog, catalog_find_tenant(catalog, FG_LIT("anonymous")), &all, &err),
        FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "ingester.catalog_max_bytes"));
    catalog_close(catalog);
    fg_store_close(store);
}

static void a_limit_of_series_is_named(void **state)
{
    static const struct catalog_quota three = {.series_max = 3, .share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_small(store);
    struct fg_err err;

    (void)state;
    assert_int_equal(fill(store, catalog, "a", &three), 3);
    assert_int_equal(fill(store, catalog, "b", &three), 3);
    assert_int_equal(
        catalog_check_room(catalog, catalog_find_tenant(catalog, FG_LIT("a")), &three, &err),
        FG_E_LIMIT);
    assert_non_null(strstr(err.msg, "3 series here"));
    assert_non_null(strstr(err.msg, "limits.max_series_per_tenant"));
    catalog_close(catalog);
    fg_store_close(store);
}

/* What left is counted for nobody any more. */
/* Those that have nothing here any more make room for others, and take next to no memory. */
static void idle_tenants_make_room_for_others(void **state)
{
    enum { MAX = 5, TENANTS = 300 };
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct damage damage = {0};
    struct catalog *catalog;
    struct fg_err err;
    size_t before;

    (void)state;
    assert_int_equal(
        catalog_open(store, &(struct catalog_bounds){SMALL_BYTES, MAX}, &damage, &catalog, &err),
        FG_OK);
    before = catalog_bytes(catalog);
    for (uint32_t i = 0; i < TENANTS; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "tenant-%u", i);
        assert_non_null(add_with(store, catalog, name, 0, &all));
        if (i % MAX != MAX - 1)
            continue;
        assert_null(add_with(store, catalog, "one more", 0, &all));
        assert_int_equal(catalog_check_room(catalog, NULL, &all, &err), FG_E_LIMIT);
        assert_non_null(strstr(err.msg, "tenants_max"));
        assert_int_equal(catalog_count_active(catalog), MAX);
        assert_null(catalog_find_tenant(catalog, FG_LIT("one more")));
        assert_non_null(add_with(store, catalog, name, 1, &all)); /* who is there goes on */
        if (i > MAX) /* one that was there, and is idle, is one more, too */
            assert_null(add_with(store, catalog, "tenant-0", 0, &all));
        sweep_all(store, catalog, UINT32_MAX);
    }
    assert_true(catalog_bytes(catalog) < before + TENANTS * 300);
    catalog_close(catalog);
    fg_store_close(store);
}

static void what_leaves_gives_back_its_share(void **state)
{
    static const struct catalog_quota half = {.share = 0.5};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_small(store);
    uint32_t n = fill(store, catalog, "greedy", &half);

    (void)state;
    sweep_all(store, catalog, UINT32_MAX);
    assert_true(catalog_bytes(catalog) < 2000);
    assert_in_range(fill(store, catalog, "greedy", &half), n - n / 8, n + n / 8);
    catalog_close(catalog);
    fg_store_close(store);
}

/* Also those of which nothing was ever stored, of a push that was refused. */
static void what_was_never_stored_leaves_too(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    unsigned entered = catalog_enter(catalog);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));
    size_t bytes = catalog_bytes(catalog);

    (void)state;
    (void)add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), "n");
    assert_true(catalog_bytes(catalog) > bytes + 500);
    catalog_leave(catalog, entered);
    sweep_all(store, catalog, 0);
    /* But for the arrays. */
    assert_true(catalog_bytes(catalog) < bytes + 2000);
    assert_int_equal(catalog_service(catalog, tenant, FG_LIT("shop"), &all)->number, 1);
    catalog_close(catalog);
    fg_store_close(store);
}

static void numbers_are_not_given_twice(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct catalog_series *series = store_one(store, catalog, "n", 0, 1);

        assert_int_equal(series->number, i);
        assert_int_equal(series->service->number, i);
        if (i % 2 == 1) { /* the highest number leaves, and nobody but the store remembers */
            catalog_close(catalog);
            catalog = open_catalog(store);
            catalog_assume_held(catalog, 0);
        }
        sweep_all(store, catalog, UINT32_MAX);
        assert_int_equal(count_keys(store, HEAD_META, 's'), 0);
        if (i % 2 == 0) {
            catalog_close(catalog);
            catalog = open_catalog(store);
        }
    }
    catalog_close(catalog);
    fg_store_close(store);
}

/* However long it takes until the push is committed: series and definition are there. */
static void what_a_push_has_found_stays(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_series *series = store_one(store, catalog, "n", 0, 1);
    struct catalog_tenant *tenant = catalog_find_tenant(catalog, FG_LIT("a"));
    struct catalog_service *service = series->service;
    unsigned entered;

    (void)state;
    for (int before = 0; before < 3; before++) {
        /* It enters in any epoch, and finds the series in the same or in the next. */
        for (int i = 0; i < before; i++)
            sweep(store, catalog, 0);
        entered = catalog_enter(catalog);
        for (int i = 0; i < before; i++)
            sweep(store, catalog, 0);
        assert_ptr_equal(add_series(catalog, tenant, service, "n"), series);
        sweep_all(store, catalog, UINT32_MAX);
        assert_int_equal(count_series(catalog), 1);
        assert_int_equal(count_keys(store, HEAD_SERIES, 0), 1);
        assert_ptr_equal(catalog_service(catalog, tenant, FG_LIT("shop"), &all), service);
        catalog_leave(catalog, entered);
    }
    sweep_all(store, catalog, UINT32_MAX);
    assert_int_equal(count_series(catalog), 0);
    catalog_close(catalog);
    fg_store_close(store);
}

/* A query: what it found may leave, but is there to look at. */
static void who_is_inside_may_look_at_what_left(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_series *series = store_one(store, catalog, "n", 0, 1);
    unsigned entered;
    size_t bytes;

    (void)state;
    for (int i = 0; i < 4; i++)
        sweep(store, catalog, 0);
    entered = catalog_enter(catalog);
    sweep_all(store, catalog, UINT32_MAX);
    assert_int_equal(count_series(catalog), 0);
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 0);
    assert_true(fg_slice_is(series_label(series, 1, FG_LIT("zone")), "n"));
    assert_true(fg_slice_is(series->service->name, "shop"));
    bytes = catalog_bytes(catalog);
    catalog_leave(catalog, entered);
    sweep_all(store, catalog, UINT32_MAX);
    assert_true(catalog_bytes(catalog) < bytes - 500); /* it was counted until it was freed */
    catalog_close(catalog);
    fg_store_close(store);
}

static void list_between(struct catalog *catalog, int64_t start_ns, int64_t end_ns, char *out)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    const struct fg_selector selector = {0};
    struct catalog_match *matches;
    struct fg_err err;
    size_t count;

    assert_int_equal(catalog_select(catalog, catalog_find_tenant(catalog, FG_LIT("a")),
                                    &(struct catalog_filter){&selector, start_ns, end_ns}, arena,
                                    &matches, &count, &err),
                     FG_OK);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct catalog_series *series = matches[i].series;

        if (matches[i].type == 0) {
            *out++ = (char)fg_labels_get(&series->labels, "zone").ptr[0];
            *out = '\0';
        }
    }
    fg_arena_destroy(arena);
}

static void they_are_found_by_the_times_of_their_profiles(void **state)
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
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *tenant;
    struct catalog_series *empty;
    char got[8];

    (void)state;
    (void)store_one(store, catalog, "n", 0, 30);
    (void)store_one(store, catalog, "n", 0, 10);
    (void)store_one(store, catalog, "s", 0, 20);
    /* All of its profiles were in blocks already. */
    tenant = catalog_find_tenant(catalog, FG_LIT("a"));
    empty =
        add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop"), &all), "e");
    (void)catalog_series_saw(empty, 3);
    atomic_store(&empty->durable, true);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        list_between(catalog, cases[i].start_ns, cases[i].end_ns, got);
        if (strlen(got) != strlen(cases[i].want) ||
            strspn(got, cases[i].want) != strlen(cases[i].want))
            fail_msg("%lld to %lld: %s", (long long)cases[i].start_ns, (long long)cases[i].end_ns,
                     got);
    }
    /* After a restart nobody knows. */
    catalog_close(catalog);
    catalog = open_catalog(store);
    list_between(catalog, 31, INT64_MAX, got);
    assert_int_equal(strlen(got), 2);
    catalog_close(catalog);
    fg_store_close(store);
}

/* The delete was lost in a crash, and the series has come back before. */
static void of_two_the_newer_goes_on(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct fg_store_batch lost;
    uint32_t number;

    (void)state;
    (void)store_one(store, catalog, "n", 0, 1);
    for (int i = 0; i < 3; i++)
        sweep(store, catalog, 0);
    fg_store_batch_init(&lost);
    catalog_sweep_series(catalog, UINT32_MAX, &lost);
    assert_true(lost.count > 0);
    fg_store_batch_done(&lost);
    number = store_one(store, catalog, "n", 5, 1)->number;
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 2);
    catalog_close(catalog);
    catalog = open_catalog(store);
    catalog_assume_held(catalog, 5);
    assert_int_equal(store_one(store, catalog, "n", 6, 1)->number, number);
    sweep_all(store, catalog, 6); /* so far the older one was in no round, and will not be */
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 1);
    assert_int_equal(store_one(store, catalog, "n", 6, 1)->number, number);
    catalog_close(catalog);
    fg_store_close(store);
}

enum { PODS = 20000, PODS_AT_A_TIME = 1000 };

static void many_come_and_go(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    size_t most = 0;
    char zone[16];

    (void)state;
    for (uint32_t pod = 0; pod < PODS; pod++) {
        uint32_t cut = pod / PODS_AT_A_TIME;

        (void)snprintf(zone, sizeof zone, "pod-%u", pod);
        (void)store_one(store, catalog, zone, cut, pod);
        (void)store_one(store, catalog, "stays", cut, pod);
        if (pod % PODS_AT_A_TIME != 0 || cut < 2)
            continue;
        sweep_all(store, catalog, cut - 1);
        assert_in_range(count_series(catalog), PODS_AT_A_TIME, 2 * PODS_AT_A_TIME + 2);
        assert_in_range(count_keys(store, HEAD_SERIES, 0), PODS_AT_A_TIME, 2 * PODS_AT_A_TIME + 2);
        if (cut == 4)
            most = catalog_bytes(catalog) * 5 / 4;
        assert_true(cut < 4 || catalog_bytes(catalog) < most);
    }
    sweep_all(store, catalog, UINT32_MAX);
    assert_true(catalog_bytes(catalog) < 8192);
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 0);
    catalog_close(catalog);
    fg_store_close(store);
}

/* ---- threads ---- */

enum { PUSHERS = 3, ROUNDS = 400, ZONES = 40 };

/* A store and catalog that pushers, a reader and a committer work with. */
struct crowd {
    struct fg_store *store;
    struct catalog *catalog;
    pthread_mutex_t lock; /* over the queue */
    struct crowd_item *first;
    _Atomic uint32_t left; /* pushers that are not done */
};

/* As much of a push as the catalog sees. */
struct crowd_item {
    struct crowd_item *next;
    struct catalog_tenant *tenant;
    struct catalog_series *series;
    unsigned entered;
};

static void *push_many(void *arg)
{
    static _Atomic uint32_t next;
    struct crowd *crowd = arg;
    uint32_t from = atomic_fetch_add(&next, 1);

    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct crowd_item *item = fg_new(struct crowd_item);
        char zone[16], name[16];

        (void)snprintf(zone, sizeof zone, "%u", (i * 7 + from) % ZONES);
        (void)snprintf(name, sizeof name, "service-%u", i / 16 % 8);
        item->entered = catalog_enter(crowd->catalog);
        item->tenant = catalog_tenant(crowd->catalog, FG_LIT("a"));
        item->series =
            add_series(crowd->catalog, item->tenant,
                       catalog_service(crowd->catalog, item->tenant, fg_cstr(name), &all), zone);
        (void)catalog_series_saw(item->series, 3);
        (void)pthread_mutex_lock(&crowd->lock);
        item->next = crowd->first;
        crowd->first = item;
        (void)pthread_mutex_unlock(&crowd->lock);
        (void)sched_yield();
    }
    (void)atomic_fetch_sub(&crowd->left, 1);
    return NULL;
}

static void *read_many(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t hash = 0;

    while (atomic_load(&crowd->left) > 0) {
        struct fg_arena *arena = fg_arena_create(1 << 24);
        unsigned entered = catalog_enter(crowd->catalog);
        struct catalog_tenant *tenant = catalog_find_tenant(crowd->catalog, FG_LIT("a"));
        const struct fg_selector selector = {0};
        struct catalog_match *matches;
        struct fg_err err;
        size_t count;

        assert_int_equal(catalog_select(crowd->catalog, tenant,
                                        &(struct catalog_filter){&selector, INT64_MIN, INT64_MAX},
                                        arena, &matches, &count, &err),
                         FG_OK);
        (void)sched_yield();
        for (size_t i = 0; i < count; i++) {
            struct fg_labels labels = series_type_labels(matches[i].series, matches[i].type, arena);

            hash ^= fg_labels_hash(&labels).lo ^ fg_hash64(matches[i].series->service->name);
        }
        catalog_leave(crowd->catalog, entered);
        fg_arena_destroy(arena);
    }
    return hash == 1 ? arg : NULL;
}

/* Its definition is in the store, since its profile is. */
static void check_stored(struct crowd *crowd, const struct crowd_item *item)
{
    struct fg_buf key;
    struct fg_err err;
    bool found;

    fg_buf_init(&key, 64);
    fg_buf_be32(&key, catalog_tenant_number(item->tenant));
    fg_buf_be32(&key, item->series->number);
    assert_int_equal(fg_store_contains(crowd->store, HEAD_SERIES, fg_buf_slice(&key), &found, &err),
                     FG_OK);
    assert_true(found);
    fg_buf_done(&key);
}

static void commit_some(struct crowd *crowd, uint32_t cut)
{
    struct crowd_item *items, *next;

    (void)pthread_mutex_lock(&crowd->lock);
    items = fg_take(crowd->first);
    (void)pthread_mutex_unlock(&crowd->lock);
    for (; items != NULL; items = next) {
        next = items->next;
        catalog_series_holds(items->series, cut, cut);
        if (!atomic_load(&items->series->durable))
            put_all(crowd->store, items->tenant, items->series);
        atomic_store(&items->series->durable, true);
        check_stored(crowd, items);
        catalog_leave(crowd->catalog, items->entered);
        free(items);
    }
}

static void pushes_queries_and_sweeps_meet(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct crowd crowd = {.store = store, .catalog = open_catalog(store), .left = PUSHERS};
    pthread_t pushers[PUSHERS], reader;
    bool last;
    void *odd;

    (void)state;
    (void)pthread_mutex_init(&crowd.lock, NULL);
    for (size_t i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, &crowd), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_many, &crowd), 0);
    /* Every round is forgotten at the next cut. */
    for (uint32_t cut = 1; last = atomic_load(&crowd.left) == 0, true; cut++) {
        commit_some(&crowd, cut);
        sweep(store, crowd.catalog, cut);
        if (last)
            break;
    }
    for (size_t i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_join(pushers[i], NULL), 0);
    assert_int_equal(pthread_join(reader, &odd), 0);
    sweep_all(store, crowd.catalog, UINT32_MAX);
    assert_int_equal(count_keys(store, HEAD_SERIES, 0), 0);
    assert_int_equal(count_keys(store, HEAD_META, 's'), 0);
    (void)pthread_mutex_destroy(&crowd.lock);
    catalog_close(crowd.catalog);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_things_have_one_number),
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(gaps_are_left_alone),
        cmocka_unit_test(a_store_of_another_format_is_refused),
        cmocka_unit_test(a_record_that_cannot_be_read_does_not_stop_the_start),
        cmocka_unit_test(a_swept_series_of_a_tenant_that_never_was_stored_leaves_nothing),
        cmocka_unit_test(a_next_number_of_an_unknown_tenant_leaves_a_gap),
        cmocka_unit_test(without_its_tenant_everything_is_set_aside),
        cmocka_unit_test(a_missing_service_is_made_again_from_its_series),
        cmocka_unit_test(two_services_of_one_name_keep_their_series),
        cmocka_unit_test(a_series_that_names_a_strange_service_is_set_aside),
        cmocka_unit_test(damaged_series_are_survived),
        cmocka_unit_test(series_leave_after_the_rounds_that_hold_them),
        cmocka_unit_test(series_are_found_by_their_numbers),
        cmocka_unit_test(many_series_are_selected_listed_and_counted),
        cmocka_unit_test(one_tenant_cannot_fill_the_catalog),
        cmocka_unit_test(a_share_of_one_is_the_whole_catalog),
        cmocka_unit_test(a_limit_of_series_is_named),
        cmocka_unit_test(what_leaves_gives_back_its_share),
        cmocka_unit_test(idle_tenants_make_room_for_others),
        cmocka_unit_test(what_was_never_stored_leaves_too),
        cmocka_unit_test(numbers_are_not_given_twice),
        cmocka_unit_test(what_a_push_has_found_stays),
        cmocka_unit_test(who_is_inside_may_look_at_what_left),
        cmocka_unit_test(they_are_found_by_the_times_of_their_profiles),
        cmocka_unit_test(of_two_the_newer_goes_on),
        cmocka_unit_test(many_come_and_go),
        cmocka_unit_test(pushes_queries_and_sweeps_meet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
