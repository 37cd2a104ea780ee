#include "tests/unit/ingester/catalog_run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

const struct ing_catalog_quota cat_all = {.share = 1};

struct ing_catalog *cat_open(struct fg_store *store)
{
    struct ing_damage damage = {0};
    struct ing_catalog *catalog;
    struct fg_err err;

    assert_int_equal(
        ing_catalog_open(store, &(struct ing_catalog_bounds){1 << 30, 0}, &damage, &catalog, &err),
        FG_OK);
    assert_int_equal(damage.repaired + damage.set_aside, 0);
    return catalog;
}

void cat_write(struct fg_store *store, struct fg_store_batch *batch)
{
    struct fg_err err;

    assert_int_equal(fg_store_write(store, batch, &err), FG_OK);
    fg_store_batch_done(batch);
}

struct ing_catalog_series *cat_add_at(struct ing_catalog *catalog,
                                      struct ing_catalog_tenant *tenant,
                                      struct ing_catalog_service *service, const char *zone,
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

    return ing_catalog_series(catalog, tenant, service, shard, &batch, &labels, &cat_all);
}

struct ing_catalog_series *cat_add(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                                   struct ing_catalog_service *service, const char *zone)
{
    return cat_add_at(catalog, tenant, service, zone, 0);
}

void cat_put(struct fg_store *store, struct ing_catalog_tenant *tenant,
             const struct ing_catalog_series *series)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    ing_catalog_put_tenant(tenant, &batch);
    ing_catalog_put_service(series->service, &batch);
    ing_catalog_put_series(tenant, series, &batch);
    cat_write(store, &batch);
    *ing_catalog_tenant_durable(tenant) = true;
}

struct ing_catalog_series *cat_store_one(struct fg_store *store, struct ing_catalog *catalog,
                                         const char *zone, uint32_t born, int64_t time_ns)
{
    unsigned entered = ing_catalog_enter(catalog);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("a"));
    struct ing_catalog_series *series = cat_add(
        catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all), zone);

    (void)ing_catalog_series_saw(series, 3);
    cat_put(store, tenant, series);
    atomic_store(&series->durable, true);
    atomic_store(&series->stored, 3);
    ing_catalog_series_holds(series, born, time_ns);
    ing_catalog_leave(catalog, entered);
    return series;
}

/* Nothing names them but their series. */
static bool always(const struct ing_catalog_service *service, void *arg)
{
    (void)service;
    (void)arg;
    return true;
}

void cat_sweep(struct fg_store *store, struct ing_catalog *catalog, uint32_t least_born)
{
    struct fg_store_batch batch;

    fg_store_batch_init(&batch);
    ing_catalog_sweep_series(catalog, least_born, &batch);
    ing_catalog_sweep_services(catalog, always, NULL, &batch);
    cat_write(store, &batch);
}

void cat_sweep_all(struct fg_store *store, struct ing_catalog *catalog, uint32_t least_born)
{
    for (int i = 0; i < 5; i++)
        cat_sweep(store, catalog, least_born);
}

size_t cat_count_keys(struct fg_store *store, unsigned family, char first)
{
    struct fg_store_iter *iter = fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""));
    size_t count = 0;

    for (; iter->valid; fg_store_iter_next(iter))
        count += first == 0 || iter->key.ptr[0] == (uint8_t)first;
    fg_store_iter_destroy(iter);
    return count;
}

uint64_t cat_count(struct ing_catalog *catalog)
{
    return ing_catalog_count_series(catalog, ing_catalog_find_tenant(catalog, FG_LIT("a")));
}

void cat_list(struct ing_catalog *catalog, const char *tenant, const char *selector_text,
              struct fg_buf *out)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_selector selector = {0};
    struct ing_catalog_match *matches;
    struct fg_err err;
    size_t count;

    assert_int_equal(fg_selector_parse(fg_cstr(selector_text), arena, &selector, &err), FG_OK);
    assert_int_equal(
        ing_catalog_select(catalog, ing_catalog_find_tenant(catalog, fg_cstr(tenant)),
                           &(struct ing_catalog_filter){&selector, INT64_MIN, INT64_MAX}, arena,
                           &matches, &count, &err),
        FG_OK);
    fg_buf_clear(out);
    for (size_t i = 0; i < count; i++) {
        const struct ing_catalog_series *series = matches[i].series;
        struct fg_labels labels;

        if (i > 0)
            assert_true(matches[i - 1].series->shard < series->shard ||
                        (matches[i - 1].series->shard == series->shard &&
                         (matches[i - 1].series->number < series->number ||
                          (matches[i - 1].series->number == series->number &&
                           matches[i - 1].type < matches[i].type))));
        fg_buf_printf(out, "%u/%u/%u ", series->shard, series->number, matches[i].type);
        labels = ing_series_type_labels(series, matches[i].type, arena);
        for (size_t l = 0; l < labels.count; l++)
            assert_true(fg_slice_eq(ing_series_label(series, matches[i].type, labels.items[l].name),
                                    labels.items[l].value));
        fg_labels_write(&labels, out);
        fg_buf_putc(out, '\n');
    }
    fg_buf_putc(out, 0);
    fg_selector_done(&selector);
    fg_arena_destroy(arena);
}
