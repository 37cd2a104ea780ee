/* Sweeping: retires series that no chunk has, and services without series. */
#include "ingester/catalog/catalog_impl.h"

enum {
    SWEEP_LOOKS = 64 * 1024,   /* series in one go: a millisecond or two */
    SWEEP_LOOKS_LOCKED = 4096, /* of these while pushes have to wait */
    /* Bounds the batch of deletes. */
    SWEEP_GONE = 8192,
    /* Each costs a read of the store. */
    SWEEP_SERVICES = 256,
};

static void remove_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                          uint32_t place, struct fg_store_batch *out)
{
    struct ing_catalog_series *series = tenant->series.slots[place].item;
    struct fg_buf key;

    /* Out of reach first: from here on no push can find it, and those that have found it hold it
     * back (ing_catalog_in_use()). */
    ing_hash_table_remove(&tenant->series, place);
    if (--series->service->n_series == 0)
        ing_catalog_add_idle(catalog, series->service);
    ing_catalog_drop_series(catalog, tenant, series);
    ing_catalog_series_key(tenant, series, &key);
    fg_store_delete(out, HEAD_SERIES, fg_buf_slice(&key)); /* also if it was never written */
    fg_buf_done(&key);
}

struct sweep {
    uint32_t least_born;
    struct fg_store_batch *out;
    uint32_t looks, gone; /* so far */
};

/* Some series of the tenant at hand. Under the lock. */
static void sweep_some(struct ing_catalog *catalog, struct sweep *sweep)
{
    struct ing_catalog_tenant *tenant = catalog->tenants[catalog->hand_tenant];
    const struct ing_hash_table *table = &tenant->series;
    uint32_t end = FG_MIN(table->count, catalog->hand_place + SWEEP_LOOKS_LOCKED);
    uint32_t before = sweep->gone;

    sweep->looks += 1 + end - catalog->hand_place;
    for (; catalog->hand_place < end; catalog->hand_place++) {
        const struct ing_catalog_series *series = table->slots[catalog->hand_place].item;

        if (series == NULL || series->chunks_before > sweep->least_born ||
            ing_catalog_in_use(catalog, &series->found))
            continue;
        remove_series(catalog, tenant, catalog->hand_place, sweep->out);
        sweep->gone++;
    }
    /* In the batch of the deletes, so that a restart does not give the numbers of the deleted
     * series again: whatever the store still has under them would become the new series'. A tenant
     * that never became durable has no such records. */
    if (sweep->gone > before && atomic_load(&tenant->durable))
        ing_catalog_put_next(tenant, tenant->next_series, sweep->out);
    if (catalog->hand_place != table->count)
        return;
    /* Continues with the next tenant. Slots of this one may move only now, since nothing points to
     * them. */
    ing_catalog_compact_table(catalog, &tenant->series);
    catalog->hand_place = 0;
    catalog->hand_tenant++;
    if (catalog->hand_tenant == catalog->n_tenants)
        catalog->hand_tenant = 0;
}

/* Passes over all series once at most, and ends early if it has looked at or retired enough. */
void ing_catalog_sweep_series(struct ing_catalog *catalog, uint32_t least_born,
                              struct fg_store_batch *out)
{
    struct sweep sweep = {.least_born = least_born, .out = out};
    bool around = ing_catalog_count_tenants(catalog) == 0;

    /* Here, because sweeps come regularly: what they retire is freed two sweeps later. */
    ing_catalog_turn_epoch(catalog);
    /* The lock is released between two pieces, so pushes wait for a fraction of a millisecond. */
    while (!around && sweep.looks < SWEEP_LOOKS && sweep.gone < SWEEP_GONE) {
        fg_rwlock_write(&catalog->lock);
        sweep_some(catalog, &sweep);
        around = catalog->hand_tenant == 0 && catalog->hand_place == 0;
        fg_rwlock_unlock(&catalog->lock);
    }
}

/* An idle service, and whether it may leave. */
struct sweep_leaver {
    struct ing_catalog_service *service;
    bool leaves;
};

/* Takes some off the list, the longest idle first. */
static uint32_t take_idle(struct ing_catalog *catalog,
                          struct sweep_leaver ret_leavers[SWEEP_SERVICES])
{
    uint32_t n = 0, taken;

    fg_rwlock_write(&catalog->lock);
    for (taken = 0; taken < FG_MIN(catalog->n_idle, SWEEP_SERVICES); taken++) {
        struct ing_catalog_service *service = catalog->idle[taken];

        service->idle = false;
        if (service->n_series == 0)
            ret_leavers[n++] =
                (struct sweep_leaver){service, !ing_catalog_in_use(catalog, &service->found)};
    }
    catalog->n_idle -= taken;
    if (catalog->n_idle > 0)
        memmove(catalog->idle, catalog->idle + taken,
                catalog->n_idle * sizeof(struct ing_catalog_service *));
    fg_rwlock_unlock(&catalog->lock);
    return n;
}

static void remove_service(struct ing_catalog *catalog, struct ing_catalog_service *service,
                           struct fg_store_batch *out)
{
    struct ing_hash_table *table = &service->tenant->services;
    const struct ing_catalog_service *namesake;
    struct fg_map_walk walk;
    struct fg_buf key;
    uint32_t place = ing_hash_table_first(table, fg_hash64_table(service->name), &walk);

    while (place != FG_MAP_NONE && table->slots[place].item != service)
        place = ing_hash_table_next(table, &walk);
    fg_assert(place != FG_MAP_NONE);
    ing_hash_table_remove(table, place);
    catalog->n_active -= ing_hash_table_items(table) == 0;
    namesake = ing_catalog_find_service(service->tenant, service->name, &place);
    ing_catalog_compact_table(catalog, table);
    ing_catalog_make_gone(catalog, service->tenant, &service->memory);
    if (namesake != NULL) { /* the definition of the two has one key */
        ing_catalog_put_service(namesake, out);
        return;
    }
    ing_catalog_service_key(service, &key);
    fg_store_delete(out, HEAD_META, fg_buf_slice(&key));
    fg_buf_done(&key);
}

void ing_catalog_sweep_services(struct ing_catalog *catalog,
                                bool (*may_leave)(const struct ing_catalog_service *service,
                                                  void *arg),
                                void *arg, struct fg_store_batch *out)
{
    struct sweep_leaver leavers[SWEEP_SERVICES];
    uint32_t n = take_idle(catalog, leavers);
    bool any = false;

    /* Without the lock, since it reads the store; so everything is checked again below. */
    for (uint32_t i = 0; i < n; i++)
        leavers[i].leaves = leavers[i].leaves && may_leave(leavers[i].service, arg);
    fg_rwlock_write(&catalog->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct ing_catalog_service *service = leavers[i].service;

        /* Meanwhile a push may have come. */
        if (service->n_series > 0)
            continue;
        if (leavers[i].leaves && !ing_catalog_in_use(catalog, &service->found)) {
            remove_service(catalog, service, out);
            any = true;
        } else {
            ing_catalog_add_idle(catalog, service);
        }
    }
    /* As for series: numbers of services are in keys of dictionaries. */
    if (any)
        ing_catalog_put_next(NULL, catalog->next_service, out);
    fg_rwlock_unlock(&catalog->lock);
}

void ing_catalog_assume_held(struct ing_catalog *catalog, uint32_t cuts)
{
    fg_rwlock_write(&catalog->lock);
    for (uint32_t t = 0; t < catalog->n_tenants; t++)
        for (uint32_t i = 0; i < catalog->tenants[t]->series.count; i++) {
            struct ing_catalog_series *series = catalog->tenants[t]->series.slots[i].item;

            if (series != NULL)
                series->chunks_before = cuts + 1;
        }
    fg_rwlock_unlock(&catalog->lock);
}
