/* A catalog of which records are damaged, missing or of another format. */
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/catalog_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void put_raw(struct fg_store *store, unsigned family, struct fg_slice key,
                    struct fg_slice value)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, key, value);
    cat_write(store, &batch);
}

static void store_of_another_format_is_refused(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct fg_err err;

    (void)state;
    put_raw(store, HEAD_META, FG_LIT("format"), FG_LIT("\x01"));
    assert_int_equal(
        ing_catalog_open(store, &(struct ing_catalog_bounds){1 << 30, 0}, &damage, &catalog, &err),
        FG_E_PRECONDITION);
    fg_store_close(store);
}

/* Opens the damaged catalog: whatever is wrong with a record, it starts, and says what it did. */
static struct ing_catalog *open_damaged(struct fg_store *store, uint64_t repaired,
                                        uint64_t set_aside)
{
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct fg_err err;

    assert_int_equal(
        ing_catalog_open(store, &(struct ing_catalog_bounds){1 << 30, 0}, &damage, &catalog, &err),
        FG_OK);
    assert_int_equal(damage.repaired, repaired);
    assert_int_equal(damage.set_aside, set_aside);
    assert_int_equal(damage.first[0] != '\0', set_aside > 0);
    return catalog;
}

static void start_survives_an_unreadable_record(void **state)
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
        struct ing_catalog *catalog;
        uint32_t number;

        print_message("  %s\n", cases[i].name);
        put_raw(store, cases[i].family, cases[i].key, cases[i].value);
        catalog = open_damaged(store, cases[i].repaired, cases[i].set_aside);
        /* The catalog works, and gives no number that the record may stand for. */
        number = ing_catalog_tenant_number(ing_catalog_tenant(catalog, FG_LIT("new")));
        assert_true(number == 0 || number == 10);
        assert_false(ing_catalog_has_tenant(catalog, 9));
        ing_catalog_close(catalog);
        fg_store_close(store);
    }
}

/*
 * A push of a new tenant fails after its series got a number, and the series is swept: the number
 * of a tenant was stored that never was, and no start could read it.
 */
static void sweeping_series_of_a_tenant_never_stored_writes_nothing(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("late"));
    struct fg_store_batch batch;

    (void)state;
    (void)cat_add(catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all),
                  "n");
    for (int i = 0; i < 4; i++) {
        fg_store_batch_init(&batch);
        ing_catalog_sweep_series(catalog, UINT32_MAX, &batch);
        cat_write(store, &batch);
    }
    assert_int_equal(ing_catalog_count_series(catalog, tenant), 0);
    ing_catalog_close(catalog);
    catalog = cat_open(store);
    assert_null(ing_catalog_find_tenant(catalog, FG_LIT("late")));
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Stores of before: the gap stays without a name, and its number is not given again. */
static void next_number_of_an_unknown_tenant_reserves_its_number(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("a"));

    (void)state;
    cat_put(store, tenant,
            cat_add(catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all),
                    "n"));
    ing_catalog_close(catalog);
    put_raw(store, HEAD_META, FG_LIT("n\0\0\0\3"), FG_LIT("\7"));
    catalog = open_damaged(store, 1, 0);
    assert_int_equal(ing_catalog_count_tenants(catalog), 4);
    assert_non_null(ing_catalog_find_tenant(catalog, FG_LIT("a")));
    assert_int_equal(ing_catalog_tenant_number(ing_catalog_tenant(catalog, FG_LIT("new"))), 4);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void delete_raw(struct fg_store *store, unsigned family, struct fg_slice key)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    fg_store_delete(&batch, family, key);
    cat_write(store, &batch);
}

/* Tenant a with two services, of two series each, all of it stored. */
static struct fg_store *make_store(void)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("a"));

    for (int i = 0; i < 4; i++) {
        struct ing_catalog_service *service =
            ing_catalog_service(catalog, tenant, fg_cstr(i < 2 ? "shop" : "archive"), &cat_all);
        struct ing_catalog_series *series =
            cat_add(catalog, tenant, service, i % 2 == 0 ? "n" : "s");

        ing_catalog_series_saw(series, 3);
        cat_put(store, tenant, series);
    }
    ing_catalog_close(catalog);
    return store;
}

static void records_without_tenant_are_set_aside(void **state)
{
    struct fg_store *store = make_store();
    struct ing_catalog *catalog;
    struct ing_catalog_tenant *tenant;

    (void)state;
    delete_raw(store, HEAD_META, FG_LIT("ta"));
    catalog = open_damaged(store, 0, 2 + 4);
    assert_null(ing_catalog_find_tenant(catalog, FG_LIT("a")));
    /* The same name is another tenant now, and nothing of the old one is overwritten. */
    tenant = ing_catalog_tenant(catalog, FG_LIT("a"));
    assert_int_equal(ing_catalog_tenant_number(tenant), 1);
    assert_int_equal(ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all)->number, 2);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void missing_service_is_rebuilt_from_its_series(void **state)
{
    struct fg_store *store = make_store();
    struct ing_catalog *catalog;
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_service *service;
    struct fg_buf text;

    (void)state;
    delete_raw(store, HEAD_META, FG_LIT("s\0\0\0\0shop"));
    catalog = open_damaged(store, 1, 0);
    tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));
    service = ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all);
    assert_int_equal(service->number, 0); /* its dictionary goes by the number */
    assert_int_equal(service->n_series, 2);
    assert_false(service->durable); /* so that the next push stores it */
    fg_buf_init(&text, SIZE_MAX);
    cat_list(catalog, "a", "{service_name=\"shop\"}", &text);
    assert_non_null(strstr((const char *)text.ptr, "zone=\"n\""));
    assert_non_null(strstr((const char *)text.ptr, "zone=\"s\""));
    fg_buf_done(&text);
    assert_false(ing_catalog_tenant_lacks(tenant));
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* A rebuilt service shares its name with another service whose record was found: both are found,
 * and one is retired without the definition of the other. */
static void two_services_of_one_name_keep_their_series(void **state)
{
    struct fg_store *store = make_store();
    struct ing_catalog *catalog;
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_service *newer;

    (void)state;
    put_raw(store, HEAD_META, FG_LIT("s\0\0\0\0shop"), FG_LIT("\7")); /* was number 0 */
    catalog = open_damaged(store, 1, 0);
    tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));
    newer = ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all);
    assert_int_equal(newer->number, 7);
    assert_int_equal(newer->n_series, 0);
    for (int i = 0; i < 4; i++) /* the series go, and then both services */
        cat_sweep(store, catalog, UINT32_MAX);
    ing_catalog_close(catalog);
    catalog = cat_open(store);
    assert_int_equal(ing_catalog_service(catalog, ing_catalog_tenant(catalog, FG_LIT("a")),
                                         FG_LIT("x"), &cat_all)
                         ->number,
                     8);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void series_of_an_inconsistent_service_is_set_aside(void **state)
{
    struct fg_store *store = make_store();
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_tenant *other = ing_catalog_tenant(catalog, FG_LIT("b"));
    struct fg_store_batch batch;

    (void)state;
    /* Service 0 is that of another tenant, now. */
    fg_store_batch_init(&batch);
    ing_catalog_put_tenant(other, &batch);
    fg_store_delete(&batch, HEAD_META, FG_LIT("s\0\0\0\0shop"));
    fg_store_put(&batch, HEAD_META, FG_LIT("s\0\0\0\1shop"), FG_LIT("\0"));
    cat_write(store, &batch);
    ing_catalog_close(catalog);
    catalog = open_damaged(store, 0, 2);
    assert_true(ing_catalog_tenant_lacks(ing_catalog_find_tenant(catalog, FG_LIT("a"))));
    assert_false(ing_catalog_tenant_lacks(ing_catalog_find_tenant(catalog, FG_LIT("b"))));
    assert_int_equal(ing_catalog_count_series(catalog, NULL), 2);
    /* Numbers of what is set aside are not given again. */
    assert_int_equal(
        cat_add(catalog, ing_catalog_find_tenant(catalog, FG_LIT("a")),
                ing_catalog_service(catalog, ing_catalog_find_tenant(catalog, FG_LIT("a")),
                                    FG_LIT("archive"), &cat_all),
                "e")
            ->number,
        4);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Any series' value, damaged in any way, opens or is set aside. */
static void start_survives_damaged_series(void **state)
{
    struct fg_store *good = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(good);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("a"));
    struct ing_catalog_series *series = cat_add(
        catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all), "n");
    struct fg_store_iter *iter;
    struct fg_buf value;

    (void)state;
    cat_put(good, tenant, series);
    ing_catalog_close(catalog);
    fg_buf_init(&value, SIZE_MAX);
    iter = fg_store_iter_create(good, HEAD_SERIES, FG_LIT(""), FG_LIT(""));
    assert_true(iter->valid);
    for (size_t i = 0; i < iter->value.len * 4; i++) {
        static const uint8_t bytes[] = {0, 1, 0x7f, 0xff};
        struct ing_damage damage = {0};
        struct fg_err err;

        fg_buf_clear(&value);
        fg_buf_put(&value, iter->value);
        value.ptr[i / 4] = bytes[i % 4];
        put_raw(good, HEAD_SERIES, iter->key, fg_buf_slice(&value));
        assert_int_equal(ing_catalog_open(good, &(struct ing_catalog_bounds){1 << 30, 0}, &damage,
                                          &catalog, &err),
                         FG_OK);
        ing_catalog_close(catalog);
        put_raw(good, HEAD_SERIES, iter->key, fg_bytes(iter->value.ptr, i / 4));
        catalog = open_damaged(good, 0, 1);
        assert_int_equal(ing_catalog_count_series(catalog, NULL), 0);
        ing_catalog_close(catalog);
    }
    fg_store_iter_destroy(iter);
    fg_buf_done(&value);
    fg_store_close(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(store_of_another_format_is_refused),
        cmocka_unit_test(start_survives_an_unreadable_record),
        cmocka_unit_test(sweeping_series_of_a_tenant_never_stored_writes_nothing),
        cmocka_unit_test(next_number_of_an_unknown_tenant_reserves_its_number),
        cmocka_unit_test(records_without_tenant_are_set_aside),
        cmocka_unit_test(missing_service_is_rebuilt_from_its_series),
        cmocka_unit_test(two_services_of_one_name_keep_their_series),
        cmocka_unit_test(series_of_an_inconsistent_service_is_set_aside),
        cmocka_unit_test(start_survives_damaged_series),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
