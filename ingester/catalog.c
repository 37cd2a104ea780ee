#include "ingester/catalog.h"

#include "common/ring/shard.h"

#include <pthread.h>

struct catalog_tenant {
    struct fg_slice name;
    uint32_t number;
    _Atomic bool durable;

    struct catalog_service **services;
    uint32_t n_services, cap_services;
    struct fg_map service_map; /* hash of the name -> index here */

    struct catalog_series **series; /* by number */
    uint32_t n_series, cap_series;
    struct fg_map series_map; /* fg_id_table(id) -> number */
};

struct catalog {
    pthread_rwlock_t lock;
    struct fg_arena *arena; /* names, labels and series, which live as long as we do */
    unsigned spread;
    struct catalog_tenant **tenants; /* by number */
    uint32_t n_tenants, cap_tenants;
    struct fg_map tenant_map;
    uint32_t n_services; /* of all tenants: the next number */
    uint64_t max_bytes;
};

enum { META_TENANT = 't', META_SERVICE = 's' };

enum { SERIES_ARENA_MAX_BYTES = 4 * 1024 * 1024 }; /* for reading one series back */

static const struct fg_slice format_key = {(const uint8_t *)"format", 6};

/* ---- growing ---- */

/* Room for one more at the end of a malloc'ed array. */
static void *grown(void *array, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = FG_MAX(16, *cap * 2);
    return fg_realloc(array, *cap * size);
}

/* The catalog's arena has no limit of its own: tenants' limits bound what gets here. */
static void *keep(struct catalog *catalog, size_t count, size_t size)
{
    void *ptr = fg_arena_calloc(catalog->arena, count, size);

    fg_assert(ptr != NULL);
    return ptr;
}

static struct fg_slice keep_text(struct catalog *catalog, struct fg_slice text)
{
    struct fg_slice copy = fg_arena_copy(catalog->arena, text);

    fg_assert(copy.ptr != NULL);
    return copy;
}

/* ---- tenants and services (under the lock) ---- */

static struct catalog_tenant *find_tenant(const struct catalog *catalog, struct fg_slice name)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&catalog->tenant_map, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&catalog->tenant_map, &walk))
        if (fg_slice_eq(catalog->tenants[i]->name, name))
            return catalog->tenants[i];
    return NULL;
}

static struct catalog_tenant *add_tenant(struct catalog *catalog, struct fg_slice name)
{
    struct catalog_tenant *tenant = fg_new(struct catalog_tenant);

    tenant->name = keep_text(catalog, name);
    tenant->number = catalog->n_tenants;
    catalog->tenants = grown(catalog->tenants, catalog->n_tenants, &catalog->cap_tenants,
                             sizeof(struct catalog_tenant *));
    catalog->tenants[catalog->n_tenants++] = tenant;
    fg_map_add(&catalog->tenant_map, fg_hash64_table(name), tenant->number);
    return tenant;
}

static struct catalog_service *find_service(const struct catalog_tenant *tenant,
                                            struct fg_slice name)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&tenant->service_map, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&tenant->service_map, &walk))
        if (fg_slice_eq(tenant->services[i]->name, name))
            return tenant->services[i];
    return NULL;
}

static struct catalog_service *add_service(struct catalog *catalog, struct catalog_tenant *tenant,
                                           struct fg_slice name, uint32_t number)
{
    struct catalog_service *service = keep(catalog, 1, sizeof *service);

    service->number = number;
    service->name = keep_text(catalog, name);
    tenant->services = grown(tenant->services, tenant->n_services, &tenant->cap_services,
                             sizeof(struct catalog_service *));
    fg_map_add(&tenant->service_map, fg_hash64_table(name), tenant->n_services);
    tenant->services[tenant->n_services++] = service;
    catalog->n_services = FG_MAX(catalog->n_services, number + 1);
    return service;
}

struct catalog_tenant *catalog_find_tenant(struct catalog *catalog, struct fg_slice name)
{
    struct catalog_tenant *tenant;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    tenant = find_tenant(catalog, name);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return tenant;
}

static bool full(const struct catalog *catalog)
{
    return fg_arena_used_bytes(catalog->arena) > catalog->max_bytes;
}

bool catalog_is_full(struct catalog *catalog)
{
    bool is_full;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    is_full = full(catalog);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return is_full;
}

struct catalog_tenant *catalog_tenant(struct catalog *catalog, struct fg_slice name)
{
    struct catalog_tenant *tenant = catalog_find_tenant(catalog, name);

    if (tenant != NULL)
        return tenant;
    (void)pthread_rwlock_wrlock(&catalog->lock);
    tenant = find_tenant(catalog, name); /* another may have been faster */
    if (tenant == NULL && !full(catalog))
        tenant = add_tenant(catalog, name);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return tenant;
}

uint32_t catalog_count_tenants(struct catalog *catalog)
{
    uint32_t count;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    count = catalog->n_tenants;
    (void)pthread_rwlock_unlock(&catalog->lock);
    return count;
}

struct catalog_tenant *catalog_tenant_at(struct catalog *catalog, uint32_t number)
{
    struct catalog_tenant *tenant;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    fg_assert(number < catalog->n_tenants);
    tenant = catalog->tenants[number];
    (void)pthread_rwlock_unlock(&catalog->lock);
    return tenant;
}

struct fg_slice catalog_tenant_name(const struct catalog_tenant *tenant)
{
    return tenant->name;
}

uint32_t catalog_tenant_number(const struct catalog_tenant *tenant)
{
    return tenant->number;
}

_Atomic bool *catalog_tenant_durable(struct catalog_tenant *tenant)
{
    return &tenant->durable;
}

struct catalog_service *catalog_service(struct catalog *catalog, struct catalog_tenant *tenant,
                                        struct fg_slice name)
{
    struct catalog_service *service;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    service = find_service(tenant, name);
    (void)pthread_rwlock_unlock(&catalog->lock);
    if (service != NULL)
        return service;
    (void)pthread_rwlock_wrlock(&catalog->lock);
    service = find_service(tenant, name);
    if (service == NULL && !full(catalog))
        service = add_service(catalog, tenant, name, catalog->n_services);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return service;
}

void catalog_each_service(struct catalog *catalog,
                          void (*each)(struct catalog_service *service, void *arg), void *arg)
{
    (void)pthread_rwlock_rdlock(&catalog->lock);
    for (uint32_t t = 0; t < catalog->n_tenants; t++)
        for (uint32_t i = 0; i < catalog->tenants[t]->n_services; i++)
            each(catalog->tenants[t]->services[i], arg);
    (void)pthread_rwlock_unlock(&catalog->lock);
}

/* ---- series ---- */

/* What makes two series one: equal labels and an equal schema. */
static struct fg_id series_id(const struct fg_labels *labels, const struct fg_value_type *period,
                              const struct fg_value_type *types, uint32_t n_types)
{
    struct fg_buf content;
    struct fg_id id;

    fg_buf_init(&content, SIZE_MAX);
    fg_labels_encode(labels, &content);
    fg_buf_lenbytes(&content, period->type);
    fg_buf_lenbytes(&content, period->unit);
    for (uint32_t t = 0; t < n_types; t++) {
        fg_buf_lenbytes(&content, types[t].type);
        fg_buf_lenbytes(&content, types[t].unit);
    }
    id = fg_hash128(fg_buf_slice(&content));
    fg_buf_done(&content);
    return id;
}

static struct catalog_series *find_series(const struct catalog_tenant *tenant, struct fg_id id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&tenant->series_map, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&tenant->series_map, &walk))
        if (fg_id_eq(tenant->series[i]->id, id))
            return tenant->series[i];
    return NULL;
}

static struct fg_labels keep_labels(struct catalog *catalog, const struct fg_labels *labels)
{
    struct fg_labels copy = {keep(catalog, labels->count, sizeof *copy.items), labels->count};

    for (size_t i = 0; i < labels->count; i++)
        copy.items[i] = (struct fg_label){keep_text(catalog, labels->items[i].name),
                                          keep_text(catalog, labels->items[i].value)};
    return copy;
}

static void set_types(struct catalog *catalog, struct catalog_series *series,
                      const struct fg_value_type *period, const struct fg_value_type *types,
                      uint32_t n_types)
{
    struct fg_value_type kept = {keep_text(catalog, period->type),
                                 keep_text(catalog, period->unit)};

    series->n_types = n_types;
    series->types = keep(catalog, n_types, sizeof *series->types);
    series->by_type = keep(catalog, n_types, sizeof *series->by_type);
    for (uint32_t t = 0; t < n_types; t++) {
        series->types[t] = (struct fg_profile_type){
            .name = fg_labels_get(&series->labels, FG_LABEL_NAME),
            .type = keep_text(catalog, types[t].type),
            .unit = keep_text(catalog, types[t].unit),
            .period_type = kept.type,
            .period_unit = kept.unit,
        };
        series->by_type[t] =
            fg_labels_with_type(&series->labels, &series->types[t], catalog->arena);
    }
}

static struct catalog_series *add_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                         const struct catalog_service *service,
                                         const struct fg_labels *labels,
                                         const struct fg_value_type *period,
                                         const struct fg_value_type *types, uint32_t n_types)
{
    struct catalog_series *series = keep(catalog, 1, sizeof *series);

    series->number = tenant->n_series;
    series->service = service;
    series->labels = keep_labels(catalog, labels);
    series->id = series_id(labels, period, types, n_types);
    series->shard =
        fg_shard_of(tenant->name, service->name, fg_labels_hash(labels), catalog->spread);
    set_types(catalog, series, period, types, n_types);
    tenant->series = grown(tenant->series, tenant->n_series, &tenant->cap_series,
                           sizeof(struct catalog_series *));
    fg_map_add(&tenant->series_map, fg_id_table(series->id), series->number);
    tenant->series[tenant->n_series++] = series;
    return series;
}

struct catalog_series *catalog_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                      struct catalog_service *service,
                                      const struct fg_wire_batch *batch,
                                      const struct fg_labels *labels, uint64_t series_max)
{
    struct fg_id id = series_id(labels, &batch->period_type, batch->types, batch->n_types);
    struct catalog_series *series;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    series = find_series(tenant, id);
    (void)pthread_rwlock_unlock(&catalog->lock);
    if (series != NULL)
        return series;
    (void)pthread_rwlock_wrlock(&catalog->lock);
    series = find_series(tenant, id);
    if (series == NULL && !full(catalog) && (series_max == 0 || tenant->n_series < series_max))
        series = add_series(catalog, tenant, service, labels, &batch->period_type, batch->types,
                            batch->n_types);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return series;
}

bool catalog_series_saw(struct catalog_series *series, uint64_t types)
{
    (void)atomic_fetch_or(&series->seen, types);
    return !atomic_load(&series->durable) || (types & ~atomic_load(&series->stored)) != 0;
}

/* ---- definitions ---- */

static void put_number(struct fg_store_batch *out, unsigned family, const struct fg_buf *key,
                       uint64_t number)
{
    struct fg_buf value;

    fg_buf_init(&value, SIZE_MAX);
    fg_buf_varint(&value, number);
    fg_store_put(out, family, fg_buf_slice(key), fg_buf_slice(&value));
    fg_buf_done(&value);
}

void catalog_put_tenant(const struct catalog_tenant *tenant, struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_putc(&key, META_TENANT);
    fg_buf_put(&key, tenant->name);
    put_number(out, HEAD_META, &key, tenant->number);
    fg_buf_done(&key);
}

void catalog_put_service(const struct catalog_tenant *tenant, const struct catalog_service *service,
                         struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_putc(&key, META_SERVICE);
    fg_buf_be32(&key, tenant->number);
    fg_buf_put(&key, service->name);
    put_number(out, HEAD_META, &key, service->number);
    fg_buf_done(&key);
}

void catalog_put_series(const struct catalog_tenant *tenant, const struct catalog_series *series,
                        struct fg_store_batch *out)
{
    struct fg_buf key, value, labels;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_init(&value, SIZE_MAX);
    fg_buf_init(&labels, SIZE_MAX);
    fg_buf_be32(&key, tenant->number);
    fg_buf_be32(&key, series->number);
    fg_labels_encode(&series->labels, &labels);
    fg_buf_varint(&value, series->service->number);
    fg_buf_varint(&value, series->shard);
    fg_buf_lenbytes(&value, fg_buf_slice(&labels));
    fg_buf_lenbytes(&value, series->types[0].period_type);
    fg_buf_lenbytes(&value, series->types[0].period_unit);
    fg_buf_varint(&value, series->n_types);
    for (uint32_t t = 0; t < series->n_types; t++) {
        fg_buf_lenbytes(&value, series->types[t].type);
        fg_buf_lenbytes(&value, series->types[t].unit);
    }
    fg_buf_varint(&value, atomic_load(&series->seen));
    fg_store_put(out, HEAD_SERIES, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
    fg_buf_done(&labels);
}

/* ---- queries ---- */

static int match_order(const void *left, const void *right)
{
    const struct catalog_match *a = left, *b = right;

    if (a->series->shard != b->series->shard)
        return a->series->shard < b->series->shard ? -1 : 1;
    if (a->series->number != b->series->number)
        return a->series->number < b->series->number ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

/* The matches of a growing list in the arena. */
struct match_list {
    struct catalog_match *items;
    size_t count, cap;
};

static bool match_add(struct match_list *list, struct fg_arena *arena,
                      const struct catalog_series *series, uint32_t type)
{
    if (list->count == list->cap) {
        size_t cap = FG_MAX(64, list->cap * 2);
        struct catalog_match *items = fg_arena_alloc(arena, cap * sizeof *items);

        if (items == NULL)
            return false;
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = (struct catalog_match){series, type};
    return true;
}

/* The service an "=" matcher asks for: then no other series need be looked at. */
static struct fg_slice only_service(const struct fg_selector *selector)
{
    for (size_t i = 0; i < selector->n_matchers; i++)
        if (selector->matchers[i].op == FG_MATCH_EQ &&
            fg_slice_is(selector->matchers[i].name, FG_LABEL_SERVICE))
            return selector->matchers[i].value;
    return fg_bytes(NULL, 0);
}

static bool select_all(const struct catalog_tenant *tenant, const struct fg_selector *selector,
                       struct fg_arena *arena, struct match_list *list)
{
    struct fg_slice service = only_service(selector);

    for (uint32_t s = 0; s < tenant->n_series; s++) {
        const struct catalog_series *series = tenant->series[s];

        if (!atomic_load(&series->durable)) /* nothing was stored, or it is a gap */
            continue;
        if (service.len > 0 && !fg_slice_eq(series->service->name, service))
            continue;
        for (uint32_t t = 0; t < series->n_types; t++)
            if ((atomic_load(&series->seen) >> t & 1) != 0 &&
                fg_selector_matches(selector, &series->by_type[t]) &&
                !match_add(list, arena, series, t))
                return false;
    }
    return true;
}

enum fg_code catalog_select(struct catalog *catalog, struct catalog_tenant *tenant,
                            const struct fg_selector *selector, struct fg_arena *arena,
                            struct catalog_match **ret_matches, size_t *ret_count,
                            struct fg_err *err)
{
    struct match_list list = {0};
    bool fits = true;

    if (tenant != NULL) {
        (void)pthread_rwlock_rdlock(&catalog->lock);
        fits = select_all(tenant, selector, arena, &list);
        (void)pthread_rwlock_unlock(&catalog->lock);
    }
    if (!fits)
        return fg_fail(err, FG_E_LIMIT, "selector matches more than %zu series", list.count);
    if (list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, match_order);
    *ret_matches = list.items;
    *ret_count = list.count;
    return FG_OK;
}

enum fg_code catalog_list_series(struct catalog *catalog, const struct catalog_tenant *tenant,
                                 struct fg_arena *arena, struct catalog_series ***ret_series,
                                 size_t *ret_count, struct fg_err *err)
{
    struct catalog_series **series;
    size_t count = 0;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    series = fg_arena_alloc(arena, tenant->n_series * sizeof(struct catalog_series *));
    for (uint32_t s = 0; series != NULL && s < tenant->n_series; s++)
        if (atomic_load(&tenant->series[s]->durable))
            series[count++] = tenant->series[s];
    (void)pthread_rwlock_unlock(&catalog->lock);
    if (series == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many series to list");
    *ret_series = series;
    *ret_count = count;
    return FG_OK;
}

uint64_t catalog_count_series(struct catalog *catalog, struct catalog_tenant *tenant)
{
    uint64_t count = 0;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        if (tenant == NULL || tenant == catalog->tenants[i])
            for (uint32_t s = 0; s < catalog->tenants[i]->n_series; s++)
                count += atomic_load(&catalog->tenants[i]->series[s]->durable);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return count;
}

size_t catalog_bytes(struct catalog *catalog)
{
    size_t bytes;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    bytes = fg_arena_used_bytes(catalog->arena);
    for (uint32_t i = 0; i < catalog->n_tenants; i++) {
        const struct catalog_tenant *tenant = catalog->tenants[i];

        bytes += fg_map_bytes(&tenant->series_map) +
                 tenant->cap_series * sizeof(struct catalog_series *);
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
    return bytes;
}

/* ---- reading back ---- */

static enum fg_code corrupt(struct fg_err *err, const char *what)
{
    return fg_fail(err, FG_E_CORRUPT, "head: %s cannot be read", what);
}

/* Calls entry() for every key of the family that begins with `first`. */
static enum fg_code for_each(struct fg_store *store, unsigned family, uint8_t first,
                             bool every_first, struct catalog *catalog,
                             enum fg_code (*entry)(struct catalog *catalog, struct fg_slice key,
                                                   struct fg_slice value, struct fg_err *err),
                             struct fg_err *err)
{
    uint8_t from[1] = {first}, to[1] = {(uint8_t)(first + 1)};
    fg_auto(fg_store_iter) *iter =
        every_first ? fg_store_iter_create(store, family, FG_LIT(""), FG_LIT(""))
                    : fg_store_iter_create(store, family, fg_bytes(from, 1), fg_bytes(to, 1));

    for (; iter->valid; fg_store_iter_next(iter))
        if (entry(catalog, iter->key, iter->value, err) != FG_OK)
            return err->code;
    if (iter->err.code != FG_OK) {
        *err = iter->err;
        return fg_wrap(err, "head");
    }
    return FG_OK;
}

/* Tenants come in the order of their names but were numbered by arrival. */
static enum fg_code load_tenant(struct catalog *catalog, struct fg_slice key, struct fg_slice value,
                                struct fg_err *err)
{
    struct fg_cur cur = fg_cur(value);
    uint64_t number = fg_cur_varint(&cur);
    struct catalog_tenant *tenant = fg_new(struct catalog_tenant);

    if (!fg_cur_end(&cur) || number >= UINT32_MAX / 2) {
        free(tenant);
        return corrupt(err, "tenant");
    }
    tenant->name = keep_text(catalog, fg_slice_sub(key, 1, key.len));
    tenant->number = (uint32_t)number;
    atomic_store(&tenant->durable, true);
    while (catalog->n_tenants <= number) {
        catalog->tenants = grown(catalog->tenants, catalog->n_tenants, &catalog->cap_tenants,
                                 sizeof(struct catalog_tenant *));
        catalog->tenants[catalog->n_tenants++] = NULL;
    }
    catalog->tenants[number] = tenant;
    fg_map_add(&catalog->tenant_map, fg_hash64_table(tenant->name), tenant->number);
    return FG_OK;
}

/* A tenant's number was given to one that never became durable: it stays without a name. */
static void fill_gaps(struct catalog *catalog)
{
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        if (catalog->tenants[i] == NULL) {
            catalog->tenants[i] = fg_new(struct catalog_tenant);
            catalog->tenants[i]->number = i;
        }
}

static struct catalog_tenant *tenant_at(struct catalog *catalog, uint32_t number)
{
    return number < catalog->n_tenants ? catalog->tenants[number] : NULL;
}

static enum fg_code load_service(struct catalog *catalog, struct fg_slice key,
                                 struct fg_slice value, struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    struct catalog_tenant *tenant = tenant_at(catalog, fg_cur_be32(&key_cur));
    uint64_t number = fg_cur_varint(&cur);
    struct catalog_service *service;

    if (key_cur.bad || tenant == NULL || !fg_cur_end(&cur) || number >= UINT32_MAX)
        return corrupt(err, "service");
    service = add_service(catalog, tenant, fg_bytes(key_cur.ptr, key_cur.left), (uint32_t)number);
    atomic_store(&service->durable, true);
    return FG_OK;
}

static const struct catalog_service *service_at(const struct catalog_tenant *tenant,
                                                uint64_t number)
{
    for (uint32_t i = 0; i < tenant->n_services; i++)
        if (tenant->services[i]->number == number)
            return tenant->services[i];
    return NULL;
}

/* Series numbers that never became durable leave gaps too: a series that nothing matches. */
static void skip_series(struct catalog *catalog, struct catalog_tenant *tenant, uint32_t until)
{
    while (tenant->n_series < until) {
        struct catalog_series *gap = keep(catalog, 1, sizeof *gap);

        gap->number = tenant->n_series;
        tenant->series = grown(tenant->series, tenant->n_series, &tenant->cap_series,
                               sizeof(struct catalog_series *));
        tenant->series[tenant->n_series++] = gap;
    }
}

static enum fg_code load_series_value(struct catalog *catalog, struct catalog_tenant *tenant,
                                      struct fg_cur *cur, struct fg_arena *arena,
                                      struct fg_err *err)
{
    const struct catalog_service *service = service_at(tenant, fg_cur_varint(cur));
    uint64_t shard = fg_cur_varint(cur);
    struct fg_slice labels_bytes = fg_cur_lenbytes(cur);
    struct fg_value_type period, *types;
    struct fg_labels labels;
    struct catalog_series *series;
    uint64_t n_types, seen;

    period.type = fg_cur_lenbytes(cur);
    period.unit = fg_cur_lenbytes(cur);
    n_types = fg_cur_count(cur, 2);
    types = fg_arena_new(arena, struct fg_value_type, n_types);
    if (types == NULL || n_types == 0 || service == NULL)
        return corrupt(err, "series");
    for (uint64_t t = 0; t < n_types; t++) {
        types[t].type = fg_cur_lenbytes(cur);
        types[t].unit = fg_cur_lenbytes(cur);
    }
    seen = fg_cur_varint(cur);
    if (!fg_cur_end(cur) || shard > UINT16_MAX)
        return corrupt(err, "series");
    if (fg_labels_decode(labels_bytes, arena, &labels, err) != FG_OK)
        return fg_wrap(err, "head: series");
    series = add_series(catalog, tenant, service, &labels, &period, types, (uint32_t)n_types);
    series->shard = (uint16_t)shard; /* of its profiles' keys, whatever the spread is now */
    atomic_store(&series->seen, seen);
    atomic_store(&series->stored, seen);
    atomic_store(&series->durable, true);
    return FG_OK;
}

static enum fg_code load_series(struct catalog *catalog, struct fg_slice key, struct fg_slice value,
                                struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(key), cur = fg_cur(value);
    struct catalog_tenant *tenant = tenant_at(catalog, fg_cur_be32(&key_cur));
    uint32_t number = fg_cur_be32(&key_cur);
    fg_auto(fg_arena) *arena = fg_arena_create(SERIES_ARENA_MAX_BYTES);

    if (!fg_cur_end(&key_cur) || tenant == NULL || number < tenant->n_series)
        return corrupt(err, "series");
    skip_series(catalog, tenant, number);
    return load_series_value(catalog, tenant, &cur, arena, err);
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

static enum fg_code load(struct catalog *catalog, struct fg_store *store, struct fg_err *err)
{
    if (check_format(store, err) != FG_OK ||
        for_each(store, HEAD_META, META_TENANT, false, catalog, load_tenant, err) != FG_OK)
        return err->code;
    fill_gaps(catalog);
    if (for_each(store, HEAD_META, META_SERVICE, false, catalog, load_service, err) != FG_OK ||
        for_each(store, HEAD_SERIES, 0, true, catalog, load_series, err) != FG_OK)
        return err->code;
    return FG_OK;
}

enum fg_code catalog_open(struct fg_store *store, unsigned spread, uint64_t max_bytes,
                          struct catalog **ret_catalog, struct fg_err *err)
{
    struct catalog *catalog = fg_new(struct catalog);

    fg_assert(spread <= FG_SHARD_SPREAD_MAX);
    (void)pthread_rwlock_init(&catalog->lock, NULL);
    catalog->arena = fg_arena_create(SIZE_MAX);
    catalog->spread = spread;
    catalog->max_bytes = max_bytes;
    if (load(catalog, store, err) != FG_OK) {
        catalog_close(catalog);
        return err->code;
    }
    *ret_catalog = catalog;
    return FG_OK;
}

static void tenant_free(struct catalog_tenant *tenant)
{
    if (tenant == NULL)
        return;
    fg_map_done(&tenant->service_map);
    fg_map_done(&tenant->series_map);
    free(tenant->services);
    free(tenant->series);
    free(tenant);
}

void catalog_close(struct catalog *catalog)
{
    if (catalog == NULL)
        return;
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        tenant_free(catalog->tenants[i]);
    free(catalog->tenants);
    fg_map_done(&catalog->tenant_map);
    fg_arena_destroy(catalog->arena);
    (void)pthread_rwlock_destroy(&catalog->lock);
    free(catalog);
}
