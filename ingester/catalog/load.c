/* The catalog out of the store, at the start. */
#include "ingester/catalog/impl.h"

enum { SERIES_ARENA_MAX_BYTES = 4 * 1024 * 1024 }; /* for reading one series back */

static const struct fg_slice format_key = {(const uint8_t *)"format", 6};

/* Series name their service by its number. */
struct loading {
    struct catalog *catalog;
    struct catalog_service **services; /* as they came */
    uint32_t n_services, cap_services;
    struct fg_map by_number;
};

static enum fg_code corrupt(struct fg_err *err, const char *what)
{
    return fg_fail(err, FG_E_CORRUPT, "head: %s cannot be read", what);
}

/* Calls entry() for every key of the family that begins with `first`. */
static enum fg_code for_each(struct fg_store *store, unsigned family, uint8_t first,
                             bool every_first, struct loading *loading,
                             enum fg_code (*entry)(struct loading *loading, struct fg_slice key,
                                                   struct fg_slice value, struct fg_err *err),
                             struct fg_err *err)
{
    uint8_t from[1] = {first}, to[1] = {(uint8_t)(first + 1)};
    fg_auto(fg_store_iter) *iter =
        every_first ? fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""))
                    : fg_store_iter_create(store, family, fg_bytes(from, 1), fg_bytes(to, 1));

    for (; iter->valid; fg_store_iter_next(iter))
        if (entry(loading, iter->key, iter->value, err) != FG_OK)
            return err->code;
    if (iter->err.code != FG_OK) {
        *err = iter->err;
        return fg_wrap(err, "head");
    }
    return FG_OK;
}

/* Tenants come in the order of their names but were numbered by arrival. */
static enum fg_code load_tenant(struct loading *loading, struct fg_slice key, struct fg_slice value,
                                struct fg_err *err)
{
    struct fg_cur cur = fg_cur(value);
    uint64_t number = fg_cur_varint(&cur);
    struct catalog *catalog = loading->catalog;
    struct catalog_tenant *tenant;

    if (!fg_cur_end(&cur) || number >= UINT32_MAX / 2)
        return corrupt(err, "tenant");
    while (catalog->n_tenants <= number) {
        catalog->tenants = catalog_grown(catalog->tenants, catalog->n_tenants,
                                         &catalog->cap_tenants, sizeof(struct catalog_tenant *));
        catalog->tenants[catalog->n_tenants++] = NULL;
    }
    if (catalog->tenants[number] != NULL)
        return corrupt(err, "tenant");
    tenant = catalog_make_tenant(catalog, fg_slice_sub(key, 1, key.len), (uint32_t)number);
    atomic_store(&tenant->durable, true);
    catalog->tenants[number] = tenant;
    return FG_OK;
}

/* A tenant's number was given to one that never became durable: it stays without a name. */
static void fill_gaps(struct catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        if (catalog->tenants[i] == NULL) {
            catalog->tenants[i] = fg_new(struct catalog_tenant);
            catalog->tenants[i]->number = i;
            catalog->bytes += sizeof(struct catalog_tenant);
        }
}

static struct catalog_tenant *tenant_at(struct catalog *catalog, uint32_t number)
{
    return number < catalog->n_tenants ? catalog->tenants[number] : NULL;
}

static enum fg_code load_next(struct loading *loading, struct fg_slice key, struct fg_slice value,
                              struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    uint64_t next = fg_cur_varint(&cur);
    struct catalog *catalog = loading->catalog;
    struct catalog_tenant *tenant;

    if (!fg_cur_end(&cur) || next > UINT32_MAX)
        return corrupt(err, "number");
    if (!fg_cur_more(&key_cur)) {
        catalog->next_service = (uint32_t)next;
        return FG_OK;
    }
    tenant = tenant_at(catalog, fg_cur_be32(&key_cur));
    if (!fg_cur_end(&key_cur) || tenant == NULL)
        return corrupt(err, "number");
    tenant->next_series = (uint32_t)next;
    return FG_OK;
}

static enum fg_code load_service(struct loading *loading, struct fg_slice key,
                                 struct fg_slice value, struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    struct catalog_tenant *tenant = tenant_at(loading->catalog, fg_cur_be32(&key_cur));
    uint64_t number = fg_cur_varint(&cur);
    struct catalog_service *service;

    if (key_cur.bad || tenant == NULL || !fg_cur_end(&cur) || number >= UINT32_MAX)
        return corrupt(err, "service");
    service = catalog_add_service(loading->catalog, tenant, fg_bytes(key_cur.ptr, key_cur.left),
                                  (uint32_t)number);
    atomic_store(&service->durable, true);
    loading->services = catalog_grown(loading->services, loading->n_services,
                                      &loading->cap_services, sizeof(struct catalog_service *));
    fg_map_add(&loading->by_number, fg_mix64(number), loading->n_services);
    loading->services[loading->n_services++] = service;
    return FG_OK;
}

static struct catalog_service *service_at(const struct loading *loading, uint64_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&loading->by_number, fg_mix64(number), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&loading->by_number, &walk))
        if (loading->services[i]->number == number)
            return loading->services[i];
    return NULL;
}

/* Nobody knows which profiles it has, and in which rounds. */
static enum fg_code load_series(struct loading *loading, struct fg_slice key, struct fg_slice value,
                                struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(key);
    struct catalog_tenant *tenant = tenant_at(loading->catalog, fg_cur_be32(&key_cur));
    uint32_t number = fg_cur_be32(&key_cur);
    fg_auto(fg_arena) *arena = fg_arena_create(SERIES_ARENA_MAX_BYTES);
    struct catalog_service *service;
    struct catalog_series *series;
    struct series_stored stored;

    if (!fg_cur_end(&key_cur) || tenant == NULL || number == UINT32_MAX)
        return corrupt(err, "series");
    if (series_decode(value, arena, &stored, err) != FG_OK)
        return fg_wrap(err, "head");
    service = service_at(loading, stored.service);
    if (service == NULL || service->tenant != tenant)
        return corrupt(err, "series");
    series = series_make(&stored.def);
    catalog_add_series(loading->catalog, tenant, service, series, number);
    series->least_ns = INT64_MIN;
    series->greatest_ns = INT64_MAX;
    series->held_before = UINT32_MAX;
    atomic_store(&series->seen, stored.seen);
    atomic_store(&series->stored, stored.seen);
    atomic_store(&series->durable, true);
    return FG_OK;
}

/* A store of another format is refused: guessing would be worse. */
static enum fg_code check_format(struct fg_store *store, struct fg_err *err)
{
    struct fg_store_batch batch;
    struct fg_buf value;
    struct fg_cur cur;
    bool found;
    enum fg_code code;

    fg_buf_init(&value, 64);
    code = fg_store_get(store, HEAD_META, format_key, &value, &found, err);
    cur = fg_cur(fg_buf_slice(&value));
    if (code == FG_OK && found && fg_cur_varint(&cur) != HEAD_FORMAT)
        code = fg_fail(err, FG_E_PRECONDITION, "head was written by another version");
    if (code == FG_OK && !found) {
        fg_store_batch_init(&batch);
        fg_buf_clear(&value);
        fg_buf_varint(&value, HEAD_FORMAT);
        fg_store_put(&batch, HEAD_META, format_key, fg_buf_slice(&value));
        code = fg_store_write(store, &batch, err);
        fg_store_batch_done(&batch);
    }
    fg_buf_done(&value);
    return code;
}

static enum fg_code load_all(struct loading *loading, struct fg_store *store, struct fg_err *err)
{
    if (for_each(store, HEAD_META, META_TENANT, false, loading, load_tenant, err) != FG_OK)
        return err->code;
    fill_gaps(loading->catalog);
    if (for_each(store, HEAD_META, META_NEXT, false, loading, load_next, err) != FG_OK ||
        for_each(store, HEAD_META, META_SERVICE, false, loading, load_service, err) != FG_OK ||
        for_each(store, HEAD_SERIES, 0, true, loading, load_series, err) != FG_OK)
        return err->code;
    return FG_OK;
}

enum fg_code catalog_load(struct catalog *catalog, struct fg_store *store, struct fg_err *err)
{
    struct loading loading = {.catalog = catalog};
    enum fg_code code = check_format(store, err);

    if (code == FG_OK)
        code = load_all(&loading, store, err);
    free(loading.services);
    fg_map_done(&loading.by_number);
    return code;
}
