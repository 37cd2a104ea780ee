/* The catalog: numbers that stay, and all of it read back from the store. */
#include "ingester/catalog.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct catalog *open_catalog(struct fg_store *store)
{
    struct catalog *catalog;
    struct fg_err err;

    assert_int_equal(catalog_open(store, 3, 1 << 30, &catalog, &err), FG_OK);
    return catalog;
}

static void write_batch(struct fg_store *store, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

/* A series of the service with a label zone and two types. */
static struct catalog_series *add_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                         struct catalog_service *service, const char *zone)
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

    return catalog_series(catalog, tenant, service, &batch, &labels, 0);
}

/* Everything of the series, its service and tenant, as a push would. */
static void put_all(struct fg_store *store, struct catalog_tenant *tenant,
                    const struct catalog_series *series)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    catalog_put_tenant(tenant, &batch);
    catalog_put_service(tenant, series->service, &batch);
    catalog_put_series(tenant, series, &batch);
    write_batch(store, &batch);
}

static void equal_things_have_one_number(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(store);
    struct catalog_tenant *a = catalog_tenant(catalog, FG_LIT("a")),
                          *b = catalog_tenant(catalog, FG_LIT("b"));
    struct catalog_service *shop = catalog_service(catalog, a, FG_LIT("shop"));

    (void)state;
    assert_int_equal(catalog_tenant_number(a), 0);
    assert_int_equal(catalog_tenant_number(b), 1);
    assert_ptr_equal(catalog_tenant(catalog, FG_LIT("a")), a);
    assert_ptr_equal(catalog_find_tenant(catalog, FG_LIT("b")), b);
    assert_null(catalog_find_tenant(catalog, FG_LIT("c")));
    assert_ptr_equal(catalog_service(catalog, a, FG_LIT("shop")), shop);
    assert_int_not_equal(catalog_service(catalog, b, FG_LIT("shop"))->number, shop->number);
    assert_ptr_equal(add_series(catalog, a, shop, "x"), add_series(catalog, a, shop, "x"));
    assert_ptr_not_equal(add_series(catalog, a, shop, "x"), add_series(catalog, a, shop, "y"));
    assert_int_equal(add_series(catalog, a, shop, "x")->number, 0);
    assert_int_equal(add_series(catalog, a, shop, "y")->number, 1);
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
                                    &selector, arena, &matches, &count, &err),
                     FG_OK);
    fg_buf_clear(out);
    for (size_t i = 0; i < count; i++) {
        const struct catalog_series *series = matches[i].series;

        if (i > 0)
            assert_true(matches[i - 1].series->shard < series->shard ||
                        (matches[i - 1].series->shard == series->shard &&
                         (matches[i - 1].series->number < series->number ||
                          (matches[i - 1].series->number == series->number &&
                           matches[i - 1].type < matches[i].type))));
        fg_buf_printf(out, "%u/%u/%u ", series->shard, series->number, matches[i].type);
        fg_labels_write(&series->by_type[matches[i].type], out);
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
                catalog_service(catalog, tenant, fg_cstr(z % 2 == 0 ? "shop" : "archive"));
            struct catalog_series *series = add_series(catalog, tenant, service, zones[z]);

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
        assert_int_equal(catalog_service(catalog, one, FG_LIT("shop"))->number,
                         catalog_service(again, two, FG_LIT("shop"))->number);
        assert_true(catalog_service(again, two, FG_LIT("archive"))->durable);
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
        catalog_service(again, catalog_tenant(again, FG_LIT("new")), FG_LIT("s"))->number, 6);
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
    (void)catalog_service(catalog, tenant, FG_LIT("lost"));
    service = catalog_service(catalog, tenant, FG_LIT("shop"));
    (void)add_series(catalog, tenant, service, "lost");
    series = add_series(catalog, tenant, service, "n");
    catalog_series_saw(series, 3);
    put_all(store, tenant, series);
    catalog_close(catalog);

    catalog = open_catalog(store);
    assert_null(catalog_find_tenant(catalog, FG_LIT("lost")));
    tenant = catalog_find_tenant(catalog, FG_LIT("kept"));
    assert_int_equal(catalog_tenant_number(tenant), 1);
    service = catalog_service(catalog, tenant, FG_LIT("shop"));
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

static void what_cannot_be_read_is_refused(void **state)
{
    static const struct {
        const char *name;
        unsigned family;
        struct fg_slice key, value;
        enum fg_code code;
    } cases[] = {
        {"another format", HEAD_META, FG_LIT("format"), FG_LIT("\x01"), FG_E_PRECONDITION},
        {"tenant without number", HEAD_META, FG_LIT("tx"), FG_LIT(""), FG_E_CORRUPT},
        {"huge tenant number", HEAD_META, FG_LIT("tx"), FG_LIT("\xff\xff\xff\xff\x0f"),
         FG_E_CORRUPT},
        {"service of no tenant", HEAD_META, FG_LIT("s\0\0\0\x09x"), FG_LIT("\0"), FG_E_CORRUPT},
        {"short service key", HEAD_META, FG_LIT("s\0"), FG_LIT("\0"), FG_E_CORRUPT},
        {"short series key", HEAD_SERIES, FG_LIT("\0\0\0\0"), FG_LIT(""), FG_E_CORRUPT},
        {"series of no tenant", HEAD_SERIES, FG_LIT("\0\0\0\x09\0\0\0\0"), FG_LIT(""),
         FG_E_CORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
        struct catalog *catalog;
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        put_raw(store, cases[i].family, cases[i].key, cases[i].value);
        assert_int_equal(catalog_open(store, 0, 1 << 30, &catalog, &err), cases[i].code);
        fg_store_close(store);
    }
}

/* Any series' value, damaged in any way, opens or is corrupt. */
static void damaged_series_are_survived(void **state)
{
    struct fg_store *good = fg_store_memory(HEAD_FAMILIES);
    struct catalog *catalog = open_catalog(good);
    struct catalog_tenant *tenant = catalog_tenant(catalog, FG_LIT("a"));
    struct catalog_series *series =
        add_series(catalog, tenant, catalog_service(catalog, tenant, FG_LIT("shop")), "n");
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
        struct fg_err err;

        fg_buf_clear(&value);
        fg_buf_put(&value, iter->value);
        value.ptr[i / 4] = bytes[i % 4];
        put_raw(good, HEAD_SERIES, iter->key, fg_buf_slice(&value));
        if (catalog_open(good, 0, 1 << 30, &catalog, &err) == FG_OK)
            catalog_close(catalog);
        else
            assert_int_equal(err.code, FG_E_CORRUPT);
        put_raw(good, HEAD_SERIES, iter->key, fg_bytes(iter->value.ptr, i / 4));
        assert_int_equal(catalog_open(good, 0, 1 << 30, &catalog, &err), FG_E_CORRUPT);
    }
    fg_store_iter_destroy(iter);
    fg_buf_done(&value);
    fg_store_close(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_things_have_one_number),
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(gaps_are_left_alone),
        cmocka_unit_test(what_cannot_be_read_is_refused),
        cmocka_unit_test(damaged_series_are_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
