/* Reads the catalog at the start. A damaged record is counted and stays in the store, and the start
 * continues; what depends on it is set aside as well. Each record that has a number reserves it,
 * readable or not, so that no new tenant, service or series takes over the data of an old one.
 * Nothing is shared yet, so no lock is needed. */
#include "ingester/catalog/catalog_impl.h"

enum {
    SERIES_ARENA_MAX_BYTES = 4 * 1024 * 1024, /* for reading one series back */
    FORMAT_MAX_BYTES = 64,
};

/* Series name their service by its number. */
struct loading {
    struct ing_catalog *catalog;
    struct ing_damage *damage;
    struct ing_catalog_service **services; /* as they came */
    uint32_t n_services, cap_services;
    struct fg_map by_number;
    struct fg_arena *arena; /* of the series at hand */
};

/* Calls entry() for every key of the family that begins with `first`. */
static enum fg_code for_each(struct fg_store *store, unsigned family, uint8_t first,
                             bool every_first, struct loading *loading,
                             void (*entry)(struct loading *loading, struct fg_slice key,
                                           struct fg_slice value),
                             struct fg_err *err)
{
    uint8_t from[1] = {first}, to[1] = {(uint8_t)(first + 1)};
    fg_auto(fg_store_iter) *iter =
        every_first ? fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""))
                    : fg_store_iter_create(store, family, fg_bytes(from, 1), fg_bytes(to, 1));

    for (; iter->valid; fg_store_iter_next(iter))
        entry(loading, iter->key, iter->value);
    if (iter->err.code != FG_OK) {
        *err = iter->err;
        return fg_wrap(err, "head");
    }
    return FG_OK;
}

/* Tenants come in the order of their names but were numbered by arrival. */
static void load_tenant(struct loading *loading, struct fg_slice key, struct fg_slice value)
{
    struct fg_slice name = fg_slice_sub(key, 1, key.len);
    struct fg_cur cur = fg_cur(value);
    uint64_t number = fg_cur_varint(&cur);
    struct ing_catalog *catalog = loading->catalog;
    struct ing_catalog_tenant *tenant;

    if (!fg_cur_end(&cur) || name.len == 0 || number > UINT32_MAX ||
        !ing_catalog_reserve_tenant(catalog, (uint32_t)number)) {
        ing_damage_set_aside(loading->damage, "tenant %.*s: its number cannot be read", FG_S(name));
        return;
    }
    if (ing_catalog_is_named(catalog->tenants[number])) {
        ing_damage_set_aside(loading->damage, "tenant %.*s: number %llu is that of tenant %.*s",
                             FG_S(name), (unsigned long long)number,
                             FG_S(catalog->tenants[number]->name));
        return;
    }
    tenant = catalog->tenants[number];
    ing_catalog_name_tenant(catalog, tenant, name);
    atomic_store(&tenant->durable, true);
}

/* Returns the tenant of a number, or NULL if it has no name: then nothing of it can be asked for.
 */
static struct ing_catalog_tenant *named_tenant(const struct ing_catalog *catalog, uint32_t number)
{
    return number < catalog->n_tenants && ing_catalog_is_named(catalog->tenants[number])
               ? catalog->tenants[number]
               : NULL;
}

static void load_next(struct loading *loading, struct fg_slice key, struct fg_slice value)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    struct ing_catalog *catalog = loading->catalog;
    bool of_services = !fg_cur_more(&key_cur);
    uint32_t number = of_services ? 0 : fg_cur_be32(&key_cur);
    uint64_t next = fg_cur_varint(&cur);

    if (!fg_cur_end(&key_cur) || !fg_cur_end(&cur) || next > UINT32_MAX ||
        (!of_services && !ing_catalog_reserve_tenant(catalog, number))) {
        /* The definitions in the store have numbers, too, and each of them is reserved below. */
        ing_damage_repaired(loading->damage, "next number of %s %u: it cannot be read",
                            of_services ? "services" : "series of tenant", number);
        return;
    }
    if (of_services) {
        catalog->next_service = (uint32_t)next;
        return;
    }
    if (named_tenant(catalog, number) == NULL)
        ing_damage_repaired(loading->damage, "next number of series: tenant %u is not known",
                            number);
    catalog->tenants[number]->next_series = (uint32_t)next;
}

static void note_service(struct loading *loading, struct ing_catalog_service *service)
{
    loading->services =
        ing_catalog_grown(loading->services, loading->n_services, &loading->cap_services,
                          sizeof(struct ing_catalog_service *));
    fg_map_add(&loading->by_number, fg_mix64(service->number), loading->n_services);
    loading->services[loading->n_services++] = service;
}

static struct ing_catalog_service *service_at(const struct loading *loading, uint64_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&loading->by_number, fg_mix64(number), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&loading->by_number, &walk)) {
        fg_assert(loading->services != NULL && i < loading->n_services);
        if (loading->services[i]->number == number)
            return loading->services[i];
    }
    return NULL;
}

static void load_service(struct loading *loading, struct fg_slice key, struct fg_slice value)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    struct ing_catalog *catalog = loading->catalog;
    uint32_t tenant_number = fg_cur_be32(&key_cur);
    struct fg_slice name = fg_bytes(key_cur.ptr, key_cur.left);
    uint64_t number = fg_cur_varint(&cur);
    struct ing_catalog_service *service;
    struct ing_catalog_tenant *tenant;

    if (key_cur.bad || !ing_catalog_reserve_tenant(catalog, tenant_number) || !fg_cur_end(&cur) ||
        number >= UINT32_MAX) {
        ing_damage_set_aside(loading->damage, "service %.*s of tenant %u: it cannot be read",
                             FG_S(name), tenant_number);
        return;
    }
    catalog->next_service = FG_MAX(catalog->next_service, (uint32_t)number + 1);
    tenant = named_tenant(catalog, tenant_number);
    if (tenant == NULL) {
        ing_damage_set_aside(loading->damage, "service %.*s: tenant %u is not known", FG_S(name),
                             tenant_number);
        return;
    }
    /* A number is in the keys of dictionaries: two services with one number would read each other's
     * stacks. */
    if (service_at(loading, number) != NULL) {
        ing_damage_set_aside(loading->damage,
                             "service %.*s of tenant %.*s: another one has number %llu", FG_S(name),
                             FG_S(tenant->name), (unsigned long long)number);
        return;
    }
    service = ing_catalog_add_service(catalog, tenant, name, (uint32_t)number);
    atomic_store(&service->durable, true);
    note_service(loading, service);
}

/*
 * Returns the service of a series that was read. Rebuilds a missing one, since the series has its
 * name as a label, and its number. It becomes durable with the next push. Returns NULL if something
 * else has this number.
 */
static struct ing_catalog_service *service_of(struct loading *loading,
                                              struct ing_catalog_tenant *tenant, uint32_t series,
                                              const struct ing_series_stored *stored)
{
    struct fg_slice name = fg_labels_get(&stored->def.labels, FG_LABEL_SERVICE);
    struct ing_catalog_service *service = service_at(loading, stored->service);

    if (service != NULL)
        return service->tenant == tenant ? service : NULL;
    if (name.len == 0 || stored->service >= UINT32_MAX)
        return NULL;
    ing_damage_repaired(loading->damage,
                        "service %.*s of tenant %.*s: made again from its series %u", FG_S(name),
                        FG_S(tenant->name), series);
    service = ing_catalog_add_service(loading->catalog, tenant, name, (uint32_t)stored->service);
    note_service(loading, service);
    return service;
}

/* Keeps what a series tells of the tenant that has lost its name. */
static void note_trace(struct loading *loading, struct ing_catalog_tenant *tenant,
                       struct fg_slice value)
{
    struct ing_series_stored stored;
    struct fg_slice service;
    struct fg_err err;

    fg_arena_reset(loading->arena);
    if (ing_series_decode(value, loading->arena, &stored, &err) != FG_OK)
        return;
    service = fg_labels_get(&stored.def.labels, FG_LABEL_SERVICE);
    if (service.len > 0)
        ing_catalog_add_trace(loading->catalog, tenant, service, stored.def.shard);
}

/* Loads a series, or sets it aside. */
static void load_series(struct loading *loading, struct fg_slice key, struct fg_slice value)
{
    struct fg_cur key_cur = fg_cur(key);
    struct ing_catalog *catalog = loading->catalog;
    uint32_t tenant_number = fg_cur_be32(&key_cur), number = fg_cur_be32(&key_cur);
    struct ing_catalog_service *service;
    struct ing_catalog_series *series;
    struct ing_catalog_tenant *tenant;
    struct ing_series_stored stored;
    struct fg_err err;

    if (!fg_cur_end(&key_cur) || number == UINT32_MAX ||
        !ing_catalog_reserve_tenant(catalog, tenant_number)) {
        ing_damage_set_aside(loading->damage, "series with a key of %zu bytes", key.len);
        return;
    }
    tenant = catalog->tenants[tenant_number];
    tenant->next_series = FG_MAX(tenant->next_series, number + 1);
    if (!ing_catalog_is_named(tenant)) {
        ing_damage_set_aside(loading->damage, "series %u: tenant %u is not known", number,
                             tenant_number);
        note_trace(loading, tenant, value);
        return;
    }
    /* One series at a time; ing_series_make() copies what it keeps. */
    fg_arena_reset(loading->arena);
    if (ing_series_decode(value, loading->arena, &stored, &err) != FG_OK) {
        ing_damage_set_aside(loading->damage, "series %u of tenant %.*s: %s", number,
                             FG_S(tenant->name), err.msg);
        /* Its profiles are in the store and can belong to any selector. */
        atomic_store(&tenant->lacks, true);
        return;
    }
    service = service_of(loading, tenant, number, &stored);
    if (service == NULL) {
        ing_damage_set_aside(loading->damage,
                             "series %u of tenant %.*s: service %llu is not its own", number,
                             FG_S(tenant->name), (unsigned long long)stored.service);
        atomic_store(&tenant->lacks, true);
        return;
    }
    series = ing_series_make(&stored.def, service->name);
    ing_catalog_add_series(catalog, tenant, service, &stored.def, ing_series_kind_id(&stored.def),
                           series, number);
    /* Nothing is known of its profiles, so it is listed for any time and held by any chunk until
     * pushes and cuts tell more. */
    series->least_ns = INT64_MIN;
    series->greatest_ns = INT64_MAX;
    series->chunks_before = UINT32_MAX;
    atomic_store(&series->seen, stored.seen);
    atomic_store(&series->stored, stored.seen);
    atomic_store(&series->durable, true);
}

/* A store of another format is refused: guessing would be worse. */
enum fg_code ing_catalog_check_format(struct fg_store *store, bool *ret_found, struct fg_err *err)
{
    struct fg_buf value;
    struct fg_cur cur;
    enum fg_code code;

    fg_buf_init(&value, FORMAT_MAX_BYTES);
    code = fg_store_get(store, HEAD_META, HEAD_FORMAT_KEY, &value, ret_found, err);
    cur = fg_cur(fg_buf_slice(&value));
    if (code == FG_OK && *ret_found && fg_cur_varint(&cur) != HEAD_FORMAT)
        code = fg_fail(err, FG_E_PRECONDITION, "head was written by another version");
    fg_buf_done(&value);
    return code;
}

/* Before anything else is written, so a store with data always has a format. */
static enum fg_code write_format(struct fg_store *store, struct fg_err *err)
{
    struct fg_store_batch batch;
    struct fg_buf value;
    enum fg_code code;

    fg_store_batch_init(&batch);
    fg_buf_init(&value, FORMAT_MAX_BYTES);
    fg_buf_varint(&value, HEAD_FORMAT);
    fg_store_put(&batch, HEAD_META, HEAD_FORMAT_KEY, fg_buf_slice(&value));
    code = fg_store_write(store, &batch, err);
    fg_buf_done(&value);
    fg_store_batch_done(&batch);
    return code;
}

/* ---- damage ---- */

enum {
    /* Above all numbers that lost series can have: retired ones had lesser numbers than the store
     * notes (META_NEXT), and of the others no catalog holds so many. */
    SERIES_SKIP = 1 << 24,
};

/* Tenants of which series are lost: [from, until]. Those of the last one have lesser numbers than
 * the series that was read next, so nothing is to be skipped there. */
struct lost_series {
    uint32_t from, until;
    uint32_t series; /* of `from`: the lost ones have greater numbers */
    struct fg_store *store;
    struct fg_store_batch *out;
    enum fg_code code;
    struct fg_err *err;
};

static struct lost_series lost_between(struct fg_slice after, struct fg_slice until)
{
    struct fg_cur from = fg_cur(after), to = fg_cur(until);
    struct lost_series lost = {.from = fg_cur_be32(&from)}; /* 0: there is no key */

    lost.series = fg_cur_be32(&from);
    lost.until = until.len == 0 ? UINT32_MAX : fg_cur_be32(&to);
    return lost;
}

/* Calls entry() for each record of META whose key begins with `first`, as it is. */
static enum fg_code each_stored(struct fg_store *store, uint8_t first,
                                void (*entry)(void *arg, struct fg_slice key,
                                              struct fg_slice value),
                                void *arg, struct fg_err *err)
{
    uint8_t from[1] = {first}, to[1] = {(uint8_t)(first + 1)};
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(store, HEAD_META, fg_bytes(from, 1), fg_bytes(to, 1));

    for (; iter->valid; fg_store_iter_next(iter))
        entry(arg, iter->key, iter->value);
    if (iter->err.code == FG_OK)
        return FG_OK;
    *err = iter->err;
    return fg_wrap(err, "head");
}

static void skip_tenant(void *arg, struct fg_slice name, struct fg_slice value)
{
    struct lost_series *lost = arg;
    struct fg_cur cur = fg_cur(value);
    uint64_t number = fg_cur_varint(&cur), next = 0;
    struct ing_catalog_tenant tenant = {.number = (uint32_t)number};
    struct fg_buf key, stored;
    bool found = false;

    (void)name;
    if (!fg_cur_end(&cur) || number < lost->from || number >= lost->until || lost->code != FG_OK)
        return;
    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&stored, FORMAT_MAX_BYTES);
    fg_buf_putc(&key, META_NEXT);
    fg_buf_be32(&key, tenant.number);
    lost->code =
        fg_store_get(lost->store, HEAD_META, fg_buf_slice(&key), &stored, &found, lost->err);
    cur = fg_cur(fg_buf_slice(&stored));
    next = found ? fg_cur_varint(&cur) : 0;
    if (number == lost->from)
        next = FG_MAX(next, lost->series);
    if (next <= UINT32_MAX - SERIES_SKIP)
        ing_catalog_put_next(&tenant, (uint32_t)next + SERIES_SKIP, lost->out);
    fg_buf_done(&key);
    fg_buf_done(&stored);
}

enum fg_code ing_catalog_skip_series(struct fg_store *store, struct fg_slice after,
                                     struct fg_slice until, struct fg_store_batch *out,
                                     struct fg_err *err)
{
    struct lost_series lost = lost_between(after, until);

    lost.store = store;
    lost.out = out;
    lost.err = err;
    return each_stored(store, META_TENANT, skip_tenant, &lost, err) == FG_OK ? lost.code
                                                                             : err->code;
}

void ing_catalog_tenants_between(struct fg_slice after, struct fg_slice until, uint32_t *ret_first,
                                 uint32_t *ret_last)
{
    const struct lost_series lost = lost_between(after, until);

    *ret_first = lost.from;
    *ret_last = lost.until;
}

void ing_catalog_lose_series(struct ing_catalog *catalog, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i < catalog->n_tenants && i <= last; i++)
        atomic_store(&catalog->tenants[i]->lacks, true);
}

struct each_service {
    void (*each)(uint32_t number, void *arg);
    void *arg;
};

static void take_service(void *arg, struct fg_slice key, struct fg_slice value)
{
    const struct each_service *to = arg;
    struct fg_cur cur = fg_cur(value);
    uint64_t number = fg_cur_varint(&cur);

    (void)key;
    if (fg_cur_end(&cur) && number < UINT32_MAX)
        to->each((uint32_t)number, to->arg);
}

enum fg_code ing_catalog_each_stored_service(struct fg_store *store,
                                             void (*each)(uint32_t number, void *arg), void *arg,
                                             struct fg_err *err)
{
    struct each_service to = {each, arg};

    return each_stored(store, META_SERVICE, take_service, &to, err);
}

static enum fg_code load_all(struct loading *loading, struct fg_store *store, struct fg_err *err)
{
    /* In this order: services and series name tenants, and series name services. */
    if (for_each(store, HEAD_META, META_TENANT, false, loading, load_tenant, err) != FG_OK ||
        for_each(store, HEAD_META, META_NEXT, false, loading, load_next, err) != FG_OK ||
        for_each(store, HEAD_META, META_SERVICE, false, loading, load_service, err) != FG_OK ||
        for_each(store, HEAD_SERIES, 0, true, loading, load_series, err) != FG_OK)
        return err->code;
    return FG_OK;
}

enum fg_code ing_catalog_load(struct ing_catalog *catalog, struct fg_store *store,
                              struct ing_damage *damage, struct fg_err *err)
{
    struct loading loading = {
        .catalog = catalog, .damage = damage, .arena = fg_arena_create(SERIES_ARENA_MAX_BYTES)};
    bool has_format;
    enum fg_code code = ing_catalog_check_format(store, &has_format, err);

    if (code == FG_OK && !has_format)
        code = write_format(store, err);
    if (code == FG_OK)
        code = load_all(&loading, store, err);
    fg_arena_destroy(loading.arena);
    free(loading.services);
    fg_map_done(&loading.by_number);
    return code;
}
