/*
 * One read-write lock guards the tables of all tenants, the epoch and the sums of memory. Look-ups
 * take it for reading; adding takes it for writing and looks again, because two workers may add the
 * same thing. The pointers that come out are safe without the lock as long as the caller holds a
 * guard (catalog.h).
 *
 * Fields of services and series that change after they were added are atomic, or belong to the
 * committer's thread alone.
 */
#include "common/cluster/ring/shard.h"
#include "common/model/tenant_share.h"
#include "ingester/catalog/catalog_impl.h"

/* Numbers are given one after another, and a tenant that never became durable leaves a gap. A
 * number further away than that is damage, and no reason to ask for memory. */
enum { TENANTS_GAP_MAX = 1 << 20 };

/* ---- growing ---- */

void *ing_catalog_grown(void *array, uint32_t count, uint32_t *cap, size_t size)
{
    if (count < *cap)
        return array;
    *cap = FG_MAX(16, *cap * 2);
    return fg_realloc(array, *cap * size);
}

/* The arena has no limit of its own: ing_catalog_check_room() bounds what gets here. */
static struct fg_slice keep_name(struct ing_catalog *catalog, struct fg_slice name)
{
    struct fg_slice copy = fg_arena_copy(catalog->arena, name);

    fg_assert(copy.ptr != NULL);
    catalog->bytes += name.len;
    return copy;
}

static void add_to_table(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                         struct ing_hash_table *table, uint64_t hash,
                         struct ing_catalog_memory *memory)
{
    tenant->bytes += memory->bytes;
    /* The table may grow with the item: count its memory off before and on after. */
    catalog->bytes += memory->bytes - ing_hash_table_bytes(table);
    ing_hash_table_add(table, hash, memory);
    catalog->bytes += ing_hash_table_bytes(table);
}

void ing_catalog_compact_table(struct ing_catalog *catalog, struct ing_hash_table *table)
{
    catalog->bytes -= ing_hash_table_bytes(table);
    ing_hash_table_compact(table);
    catalog->bytes += ing_hash_table_bytes(table);
}

/* ---- epochs ---- */

/* The epoch does not change as long as the lock is held. */
unsigned ing_catalog_enter(struct ing_catalog *catalog)
{
    unsigned slot;

    fg_rwlock_read(&catalog->lock);
    slot = catalog->epoch & 1;
    /* Under the lock, so the guard is counted in the epoch that was read: turning needs the lock
     * for writing. */
    (void)atomic_fetch_add(&catalog->guards[slot], 1);
    fg_rwlock_unlock(&catalog->lock);
    return slot;
}

void ing_catalog_leave(struct ing_catalog *catalog, unsigned entered)
{
    /* Without the lock: a push leaves on the committer's thread. Sequentially consistent, so all
     * its uses come before the free that a count of 0 allows. */
    uint64_t before = atomic_fetch_sub(&catalog->guards[entered], 1);

    fg_assert(before > 0);
}

/* Marks that a push has found it now. Under the lock. */
static void mark_found(const struct ing_catalog *catalog, _Atomic uint64_t *found)
{
    /* Relaxed: the sweeper reads it under the lock for writing, which orders the two. The test
     * spares the cache line of a series that many workers find. */
    if (atomic_load_explicit(found, memory_order_relaxed) != catalog->epoch)
        atomic_store_explicit(found, catalog->epoch, memory_order_relaxed);
}

bool ing_catalog_in_use(const struct ing_catalog *catalog, const _Atomic uint64_t *found)
{
    return catalog->epoch < atomic_load_explicit(found, memory_order_relaxed) + 2;
}

void ing_catalog_make_gone(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                           struct ing_catalog_memory *memory)
{
    fg_assert(tenant->bytes >= memory->bytes);
    tenant->bytes -= memory->bytes;
    /* Counted in `bytes` until it is freed: a catalog that is full of retired series is full. */
    memory->next = catalog->gone[catalog->epoch & 1];
    catalog->gone[catalog->epoch & 1] = memory;
}

static void free_all(struct ing_catalog_memory *memory)
{
    while (memory != NULL) {
        struct ing_catalog_memory *next = memory->next;

        free(memory);
        memory = next;
    }
}

/* Frees what was retired in the epoch before. */
void ing_catalog_turn_epoch(struct ing_catalog *catalog)
{
    struct ing_catalog_memory *free_now = NULL;
    unsigned before;

    fg_rwlock_write(&catalog->lock);
    /* The slot of the epoch before is the slot of the next one: it must be empty of guards and
     * memory before it is used again. */
    before = (catalog->epoch + 1) & 1;
    if (atomic_load(&catalog->guards[before]) == 0) {
        free_now = fg_take(catalog->gone[before]);
        for (const struct ing_catalog_memory *memory = free_now; memory != NULL;
             memory = memory->next)
            catalog->bytes -= memory->bytes;
        catalog->epoch++;
    }
    fg_rwlock_unlock(&catalog->lock);
    /* Without the lock: there may be thousands. */
    free_all(free_now);
}

/* ---- tenants and services (under the lock) ---- */

static struct ing_catalog_tenant *find_tenant(const struct ing_catalog *catalog,
                                              struct fg_slice name)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&catalog->tenant_map, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&catalog->tenant_map, &walk))
        if (fg_slice_eq(catalog->tenants[i]->name, name))
            return catalog->tenants[i];
    return NULL;
}

struct ing_catalog_tenant *ing_catalog_add_unnamed(struct ing_catalog *catalog)
{
    struct ing_catalog_tenant *tenant = fg_new(struct ing_catalog_tenant);

    tenant->number = catalog->n_tenants;
    catalog->bytes += sizeof *tenant;
    catalog->tenants =
        ing_catalog_grown(catalog->tenants, catalog->n_tenants, &catalog->cap_tenants,
                          sizeof(struct ing_catalog_tenant *));
    catalog->tenants[catalog->n_tenants++] = tenant;
    return tenant;
}

void ing_catalog_name_tenant(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct fg_slice name)
{
    tenant->name = keep_name(catalog, name);
    fg_map_add(&catalog->tenant_map, fg_hash64_table(name), tenant->number);
}

/* Returns the newer of two: a service that the start has rebuilt may share its name with another
 * one. */
struct ing_catalog_service *ing_catalog_find_service(const struct ing_catalog_tenant *tenant,
                                                     struct fg_slice name, uint32_t *ret_place)
{
    struct ing_catalog_service *found = NULL;
    struct fg_map_walk walk;

    for (uint32_t i = ing_hash_table_first(&tenant->services, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = ing_hash_table_next(&tenant->services, &walk)) {
        struct ing_catalog_service *service = tenant->services.slots[i].item;

        if (!fg_slice_eq(service->name, name) || (found != NULL && found->number > service->number))
            continue;
        *ret_place = i;
        found = service;
    }
    return found;
}

void ing_catalog_add_idle(struct ing_catalog *catalog, struct ing_catalog_service *service)
{
    if (service->idle)
        return;
    catalog->idle = ing_catalog_grown(catalog->idle, catalog->n_idle, &catalog->cap_idle,
                                      sizeof(struct ing_catalog_service *));
    catalog->idle[catalog->n_idle++] = service;
    service->idle = true;
}

struct ing_catalog_service *ing_catalog_add_service(struct ing_catalog *catalog,
                                                    struct ing_catalog_tenant *tenant,
                                                    struct fg_slice name, uint32_t number)
{
    struct ing_catalog_service *service = fg_calloc(1, sizeof *service + name.len);
    uint8_t *text = (uint8_t *)(service + 1);

    memcpy(text, name.ptr, name.len);
    service->memory.bytes = sizeof *service + name.len;
    service->number = number;
    service->name = fg_bytes(text, name.len);
    service->tenant = tenant;
    catalog->n_active += ing_hash_table_items(&tenant->services) == 0;
    add_to_table(catalog, tenant, &tenant->services, fg_hash64_table(name), &service->memory);
    ing_catalog_add_idle(catalog, service);
    /* At the start numbers come in any order. */
    catalog->next_service = FG_MAX(catalog->next_service, number + 1);
    return service;
}

struct ing_catalog_tenant *ing_catalog_find_tenant(struct ing_catalog *catalog,
                                                   struct fg_slice name)
{
    struct ing_catalog_tenant *tenant;

    fg_rwlock_read(&catalog->lock);
    tenant = find_tenant(catalog, name);
    fg_rwlock_unlock(&catalog->lock);
    return tenant;
}

uint64_t ing_catalog_series_of(struct ing_catalog *catalog, struct fg_slice name)
{
    const struct ing_catalog_tenant *tenant;
    uint64_t items;

    fg_rwlock_read(&catalog->lock);
    tenant = find_tenant(catalog, name);
    items = tenant == NULL ? 0 : ing_hash_table_items(&tenant->series);
    fg_rwlock_unlock(&catalog->lock);
    return items;
}

static uint64_t bytes_of(const struct ing_catalog *catalog)
{
    return catalog->bytes + fg_map_bytes(&catalog->tenant_map) +
           catalog->cap_tenants * sizeof(struct ing_catalog_tenant *) +
           catalog->cap_idle * sizeof(struct ing_catalog_service *);
}

static bool full(const struct ing_catalog *catalog)
{
    return bytes_of(catalog) > catalog->max_bytes;
}

/* Returns true if there are as many other tenants with services as allowed. NULL: of a new tenant.
 */
static bool are_too_many(const struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant)
{
    return catalog->tenants_max > 0 && catalog->n_active >= catalog->tenants_max &&
           (tenant == NULL || ing_hash_table_items(&tenant->services) == 0);
}

static uint64_t bytes_of_tenant(const struct ing_catalog_tenant *tenant)
{
    return tenant->bytes + ing_hash_table_bytes(&tenant->services) +
           ing_hash_table_bytes(&tenant->series) + ing_hash_table_bytes(&tenant->kinds);
}

/* Returns true if the tenant may grow, even if its tables double with the next item: the tables of
 * a large tenant are as large as all that is left for small ones. Under the lock, as has_room(). */
static bool has_share(const struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant,
                      const struct ing_catalog_quota *quota)
{
    uint64_t used = bytes_of(catalog);
    uint64_t growth =
        ing_hash_table_growth(&tenant->services) + ing_hash_table_growth(&tenant->series);

    if (quota->share >= 1)
        return used <= catalog->max_bytes;
    return used + growth <= catalog->max_bytes &&
           fg_share_allows(quota->share, bytes_of_tenant(tenant) + growth,
                           catalog->max_bytes - used - growth);
}

/* Returns true if the tenant may add a series. */
static bool has_room(const struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant,
                     const struct ing_catalog_quota *quota)
{
    return has_share(catalog, tenant, quota) && tenant->next_series < UINT32_MAX &&
           (quota->series_max == 0 || ing_hash_table_items(&tenant->series) < quota->series_max);
}

enum fg_code ing_catalog_check_room(struct ing_catalog *catalog,
                                    const struct ing_catalog_tenant *tenant,
                                    const struct ing_catalog_quota *quota,
                                    enum ing_catalog_refusal *ret_why, struct fg_err *err)
{
    uint64_t bytes = 0, items = 0;
    enum ing_catalog_refusal why;
    bool room = false;

    fg_rwlock_read(&catalog->lock);
    if (tenant != NULL) {
        bytes = bytes_of_tenant(tenant);
        items = ing_hash_table_items(&tenant->series);
    }
    if (full(catalog))
        why = CATALOG_FULL;
    else if (are_too_many(catalog, tenant))
        why = CATALOG_TENANTS_MAX;
    else if (tenant != NULL && !has_share(catalog, tenant, quota))
        why = CATALOG_TENANT_SHARE;
    else if (tenant != NULL && !has_room(catalog, tenant, quota))
        why = CATALOG_SERIES_MAX;
    else
        room = true;
    fg_rwlock_unlock(&catalog->lock);
    if (room)
        return FG_OK;
    (void)atomic_fetch_add(&catalog->refused[why], 1);
    *ret_why = why;
    switch (why) {
    case CATALOG_TENANTS_MAX:
        return fg_fail(
            err, FG_E_LIMIT,
            "%u other tenants have profiles on this ingester, which is the limit (tenants_max)",
            catalog->tenants_max);
    case CATALOG_TENANT_SHARE:
        return fg_fail(err, FG_E_LIMIT,
                       "tenant %.*s has %llu series of %llu bytes on this ingester, and the rest "
                       "of the catalog is for other tenants (limits.tenant_catalog_share)",
                       FG_S(tenant->name), (unsigned long long)items, (unsigned long long)bytes);
    case CATALOG_SERIES_MAX:
        return fg_fail(err, FG_E_LIMIT,
                       "tenant %.*s has %llu series on this ingester, which is the limit "
                       "(limits.max_series_per_tenant)",
                       FG_S(tenant->name), (unsigned long long)items);
    default:
        return fg_fail(
            err, FG_E_LIMIT,
            "too many series or groups: the catalog is full (ingester.catalog_max_bytes)");
    }
}

uint64_t ing_catalog_count_refused(struct ing_catalog *catalog, enum ing_catalog_refusal why)
{
    return atomic_load(&catalog->refused[why]);
}

uint32_t ing_catalog_count_active(struct ing_catalog *catalog)
{
    uint32_t n_active;

    fg_rwlock_read(&catalog->lock);
    n_active = catalog->n_active;
    fg_rwlock_unlock(&catalog->lock);
    return n_active;
}

struct ing_catalog_tenant *ing_catalog_tenant(struct ing_catalog *catalog, struct fg_slice name)
{
    struct ing_catalog_tenant *tenant = ing_catalog_find_tenant(catalog, name);

    if (tenant != NULL)
        return tenant;
    fg_rwlock_write(&catalog->lock);
    tenant = find_tenant(catalog, name); /* another may have been faster */
    if (tenant == NULL && !full(catalog) && !are_too_many(catalog, NULL)) {
        tenant = ing_catalog_add_unnamed(catalog);
        ing_catalog_name_tenant(catalog, tenant, name);
    }
    fg_rwlock_unlock(&catalog->lock);
    return tenant;
}

uint32_t ing_catalog_count_tenants(struct ing_catalog *catalog)
{
    uint32_t count;

    fg_rwlock_read(&catalog->lock);
    count = catalog->n_tenants;
    fg_rwlock_unlock(&catalog->lock);
    return count;
}

struct ing_catalog_tenant *ing_catalog_tenant_at(struct ing_catalog *catalog, uint32_t number)
{
    struct ing_catalog_tenant *tenant;

    fg_rwlock_read(&catalog->lock);
    fg_assert(number < catalog->n_tenants);
    tenant = catalog->tenants[number];
    fg_rwlock_unlock(&catalog->lock);
    return tenant;
}

bool ing_catalog_has_tenant(struct ing_catalog *catalog, uint32_t number)
{
    bool has;

    fg_rwlock_read(&catalog->lock);
    has = number < catalog->n_tenants && ing_catalog_is_named(catalog->tenants[number]);
    fg_rwlock_unlock(&catalog->lock);
    return has;
}

bool ing_catalog_may_have_been(struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant,
                               struct fg_slice name, uint32_t number)
{
    const struct ing_catalog_tenant *nameless = NULL;
    bool may = tenant == NULL || tenant->number > number;

    fg_rwlock_read(&catalog->lock);
    if (number < catalog->n_tenants)
        nameless = catalog->tenants[number];
    may = may && (nameless == NULL || !ing_catalog_is_named(nameless));
    /* Each trace may be in its shard, whatever the service's shard factor was when it came. */
    for (uint32_t i = 0; may && nameless != NULL && i < nameless->n_traces; i++)
        may = fg_shard_first(name, nameless->traces[i].service, FG_SHARD_FACTOR_MAX) ==
              nameless->traces[i].shard >> FG_SHARD_FACTOR_MAX << FG_SHARD_FACTOR_MAX;
    fg_rwlock_unlock(&catalog->lock);
    return may;
}

void ing_catalog_add_trace(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                           struct fg_slice service, uint16_t shard)
{
    uint32_t i = 0;

    while (i < tenant->n_traces && !fg_slice_eq(tenant->traces[i].service, service))
        i++;
    if (i < tenant->n_traces || i == CATALOG_TRACES_MAX)
        return;
    if (tenant->traces == NULL)
        tenant->traces = fg_calloc(CATALOG_TRACES_MAX, sizeof *tenant->traces);
    tenant->traces[tenant->n_traces++] =
        (struct ing_catalog_trace){keep_name(catalog, service), shard};
}

bool ing_catalog_reserve_tenant(struct ing_catalog *catalog, uint32_t number)
{
    bool near;

    fg_rwlock_write(&catalog->lock);
    near = number < (uint64_t)catalog->n_tenants + TENANTS_GAP_MAX;
    /* Numbers in between belong to tenants that come later, or to none. */
    while (near && catalog->n_tenants <= number)
        (void)ing_catalog_add_unnamed(catalog);
    fg_rwlock_unlock(&catalog->lock);
    return near;
}

struct fg_slice ing_catalog_tenant_name(const struct ing_catalog_tenant *tenant)
{
    return tenant->name;
}

uint32_t ing_catalog_tenant_number(const struct ing_catalog_tenant *tenant)
{
    return tenant->number;
}

_Atomic bool *ing_catalog_tenant_durable(struct ing_catalog_tenant *tenant)
{
    return &tenant->durable;
}

bool ing_catalog_tenant_lacks(const struct ing_catalog_tenant *tenant)
{
    return atomic_load(&tenant->lacks) || atomic_load(&tenant->lacks_chunk);
}

void ing_catalog_tenant_set_lacks(struct ing_catalog_tenant *tenant, bool for_good)
{
    atomic_store(for_good ? &tenant->lacks_chunk : &tenant->lacks, true);
}

void ing_catalog_clear_lacks(struct ing_catalog *catalog)
{
    fg_rwlock_read(&catalog->lock);
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        atomic_store(&catalog->tenants[i]->lacks, false);
    fg_rwlock_unlock(&catalog->lock);
}

/* Finds a service and marks that a push has found it. */
static struct ing_catalog_service *use_service(const struct ing_catalog *catalog,
                                               const struct ing_catalog_tenant *tenant,
                                               struct fg_slice name)
{
    uint32_t place;
    struct ing_catalog_service *service = ing_catalog_find_service(tenant, name, &place);

    if (service != NULL)
        mark_found(catalog, &service->found);
    return service;
}

struct ing_catalog_service *ing_catalog_service(struct ing_catalog *catalog,
                                                struct ing_catalog_tenant *tenant,
                                                struct fg_slice name,
                                                const struct ing_catalog_quota *quota)
{
    struct ing_catalog_service *service;

    fg_rwlock_read(&catalog->lock);
    service = use_service(catalog, tenant, name);
    fg_rwlock_unlock(&catalog->lock);
    if (service != NULL)
        return service;
    fg_rwlock_write(&catalog->lock);
    service = use_service(catalog, tenant, name);
    if (service == NULL && has_share(catalog, tenant, quota) && !are_too_many(catalog, tenant) &&
        catalog->next_service < UINT32_MAX) {
        service = ing_catalog_add_service(catalog, tenant, name, catalog->next_service);
        mark_found(catalog, &service->found);
    }
    fg_rwlock_unlock(&catalog->lock);
    return service;
}

/* Copies the pointers to all services, under the lock, so that each() may take long without it. */
static struct ing_catalog_service **copy_services(const struct ing_catalog *catalog,
                                                  size_t *ret_count)
{
    struct ing_catalog_service **services;
    size_t count = 0, n = 0;

    for (uint32_t t = 0; t < catalog->n_tenants; t++)
        count += ing_hash_table_items(&catalog->tenants[t]->services);
    services = fg_calloc(FG_MAX(count, 1), sizeof(struct ing_catalog_service *));
    for (uint32_t t = 0; t < catalog->n_tenants; t++) {
        const struct ing_hash_table *table = &catalog->tenants[t]->services;

        for (uint32_t i = 0; i < table->count; i++)
            if (table->slots[i].item != NULL)
                services[n++] = table->slots[i].item;
    }
    fg_assert(n == count);
    *ret_count = count;
    return services;
}

/* Raises a number to at least `least`. */
static void raise_to(_Atomic uint32_t *number, uint32_t least)
{
    uint32_t now = atomic_load(number);

    while (now < least && !atomic_compare_exchange_weak(number, &now, least))
        ;
}

void ing_catalog_end_generation(struct ing_catalog_service *service, uint32_t generation)
{
    /* In this order, so that nobody finds the newest generation ended. */
    raise_to(&service->generation, generation + 1);
    raise_to(&service->valid_from, generation + 1);
}

void ing_catalog_each_service(struct ing_catalog *catalog,
                              void (*each)(struct ing_catalog_service *service, void *arg),
                              void *arg)
{
    /* The guard keeps services that leave meanwhile from being freed. */
    unsigned entered = ing_catalog_enter(catalog);
    struct ing_catalog_service **services;
    size_t count;

    fg_rwlock_read(&catalog->lock);
    services = copy_services(catalog, &count);
    fg_rwlock_unlock(&catalog->lock);
    for (size_t i = 0; i < count; i++)
        each(services[i], arg);
    free(services);
    ing_catalog_leave(catalog, entered);
}

/* ---- series ---- */

/*
 * Returns the newer of two: a crash may come between a delete that failed and its repetition, when
 * the series has come back already. The older one has no profiles, and leaves with the next sweep.
 */
static struct ing_catalog_series *find_series(const struct ing_catalog_tenant *tenant,
                                              struct fg_id id)
{
    struct ing_catalog_series *found = NULL;
    struct fg_map_walk walk;

    for (uint32_t i = ing_hash_table_first(&tenant->series, fg_id_table(id), &walk);
         i != FG_MAP_NONE; i = ing_hash_table_next(&tenant->series, &walk)) {
        struct ing_catalog_series *series = tenant->series.slots[i].item;

        if (fg_id_eq(series->id, id) && (found == NULL || series->number > found->number))
            found = series;
    }
    return found;
}

static struct ing_series_kind *find_kind(const struct ing_catalog_tenant *tenant, struct fg_id id,
                                         uint32_t *ret_place)
{
    struct fg_map_walk walk;

    for (uint32_t i = ing_hash_table_first(&tenant->kinds, fg_id_table(id), &walk);
         i != FG_MAP_NONE; i = ing_hash_table_next(&tenant->kinds, &walk)) {
        struct ing_series_kind *kind = tenant->kinds.slots[i].item;

        if (fg_id_eq(kind->id, id)) {
            *ret_place = i;
            return kind;
        }
    }
    return NULL;
}

void ing_catalog_drop_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                             struct ing_catalog_series *series)
{
    struct ing_series_kind *kind = series->kind;
    uint32_t place;

    ing_catalog_make_gone(catalog, tenant, &series->memory);
    if (--kind->n_series > 0)
        return;
    fg_assert(find_kind(tenant, kind->id, &place) == kind);
    ing_hash_table_remove(&tenant->kinds, place);
    ing_catalog_compact_table(catalog, &tenant->kinds);
    ing_catalog_make_gone(catalog, tenant, &kind->memory); /* in the epoch of its last series */
}

void ing_catalog_add_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                            struct ing_catalog_service *service, const struct ing_series_def *def,
                            struct fg_id kind_id, struct ing_catalog_series *series,
                            uint32_t number)
{
    uint32_t place;
    struct ing_series_kind *kind = find_kind(tenant, kind_id, &place);

    if (kind == NULL) {
        kind = ing_series_kind_make(def);
        add_to_table(catalog, tenant, &tenant->kinds, fg_id_table(kind->id), &kind->memory);
    }
    kind->n_series++;
    ing_series_bind(series, kind);
    series->number = number;
    series->service = service;
    add_to_table(catalog, tenant, &tenant->series, fg_id_table(series->id), &series->memory);
    tenant->next_series = FG_MAX(tenant->next_series, number + 1);
    service->n_series++;
}

static struct ing_catalog_series *use_series(const struct ing_catalog *catalog,
                                             const struct ing_catalog_tenant *tenant,
                                             struct fg_id id)
{
    struct ing_catalog_series *series = find_series(tenant, id);

    if (series != NULL)
        mark_found(catalog, &series->found);
    return series;
}

struct ing_catalog_series *ing_catalog_series(struct ing_catalog *catalog,
                                              struct ing_catalog_tenant *tenant,
                                              struct ing_catalog_service *service, uint16_t shard,
                                              const struct fg_wire_batch *batch,
                                              const struct fg_labels *labels,
                                              const struct ing_catalog_quota *quota)
{
    const struct ing_series_def def = {
        .shard = shard,
        .labels = *labels,
        .period = batch->period_type,
        .types = batch->types,
        .n_types = batch->n_types,
    };
    struct fg_id id = ing_series_id(&def), kind_id;
    struct ing_catalog_series *series, *made;
    bool room;

    fg_rwlock_read(&catalog->lock);
    series = use_series(catalog, tenant, id);
    room = has_room(catalog, tenant, quota);
    fg_rwlock_unlock(&catalog->lock);
    if (series != NULL || !room)
        return series;
    /* Made without the lock, since it copies all labels; thrown away if another worker was faster
     * or the room is gone. */
    made = ing_series_make(&def, service->name);
    kind_id = ing_series_kind_id(&def);
    fg_rwlock_write(&catalog->lock);
    series = use_series(catalog, tenant, id); /* another may have been faster */
    if (series == NULL && has_room(catalog, tenant, quota)) {
        series = fg_take(made);
        ing_catalog_add_series(catalog, tenant, service, &def, kind_id, series,
                               tenant->next_series);
        mark_found(catalog, &series->found);
    }
    fg_rwlock_unlock(&catalog->lock);
    free(made);
    return series;
}

bool ing_catalog_series_saw(struct ing_catalog_series *series, uint64_t types)
{
    (void)atomic_fetch_or(&series->seen, types);
    /* Read `durable` first: its writer has set `stored` before (ing_commit_item_set_marks()).
     */
    return !atomic_load(&series->durable) || (types & ~atomic_load(&series->stored)) != 0;
}

/* Only the committer changes them. */
void ing_catalog_series_holds(struct ing_catalog_series *series, uint32_t born, int64_t time_ns)
{
    /* Plain, since the sweeper runs on this thread, too. Times are read by queries at any moment;
     * each is right by itself. */
    series->chunks_before = FG_MAX(series->chunks_before, born + 1);
    if (time_ns < atomic_load_explicit(&series->least_ns, memory_order_relaxed))
        atomic_store(&series->least_ns, time_ns);
    if (time_ns > atomic_load_explicit(&series->greatest_ns, memory_order_relaxed))
        atomic_store(&series->greatest_ns, time_ns);
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

void ing_catalog_service_key(const struct ing_catalog_service *service, struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    fg_buf_putc(out, META_SERVICE);
    fg_buf_be32(out, service->tenant->number);
    fg_buf_put(out, service->name);
}

void ing_catalog_series_key(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    fg_buf_be32(out, tenant->number);
    fg_buf_be32(out, series->number);
}

void ing_catalog_put_tenant(const struct ing_catalog_tenant *tenant, struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_putc(&key, META_TENANT);
    fg_buf_put(&key, tenant->name);
    put_number(out, HEAD_META, &key, tenant->number);
    fg_buf_done(&key);
}

void ing_catalog_put_service(const struct ing_catalog_service *service, struct fg_store_batch *out)
{
    struct fg_buf key;

    ing_catalog_service_key(service, &key);
    put_number(out, HEAD_META, &key, service->number);
    fg_buf_done(&key);
}

void ing_catalog_put_series(const struct ing_catalog_tenant *tenant,
                            const struct ing_catalog_series *series, struct fg_store_batch *out)
{
    struct fg_buf key, value;

    ing_catalog_series_key(tenant, series, &key);
    fg_buf_init(&value, SIZE_MAX);
    ing_series_encode(series, series->service->number, &value);
    fg_store_put(out, HEAD_SERIES, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

void ing_catalog_put_next(const struct ing_catalog_tenant *tenant, uint32_t next,
                          struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_putc(&key, META_NEXT);
    if (tenant != NULL)
        fg_buf_be32(&key, tenant->number);
    put_number(out, HEAD_META, &key, next);
    fg_buf_done(&key);
}
size_t ing_catalog_bytes(struct ing_catalog *catalog)
{
    size_t bytes;

    fg_rwlock_read(&catalog->lock);
    bytes = bytes_of(catalog);
    fg_rwlock_unlock(&catalog->lock);
    return bytes;
}
enum fg_code ing_catalog_open(struct fg_store *store, const struct ing_catalog_bounds *bounds,
                              struct ing_damage *damage, struct ing_catalog **ret_catalog,
                              struct fg_err *err)
{
    struct ing_catalog *catalog = fg_new(struct ing_catalog);

    fg_rwlock_init(&catalog->lock);
    catalog->arena = fg_arena_create(SIZE_MAX);
    catalog->max_bytes = bounds->max_bytes;
    catalog->tenants_max = bounds->tenants_max;
    catalog->epoch = 2;
    if (ing_catalog_load(catalog, store, damage, err) != FG_OK) {
        ing_catalog_close(catalog);
        return err->code;
    }
    *ret_catalog = catalog;
    return FG_OK;
}

static void free_table(struct ing_hash_table *table)
{
    for (uint32_t i = 0; i < table->count; i++)
        free(table->slots[i].item);
    ing_hash_table_done(table);
}

static void tenant_free(struct ing_catalog_tenant *tenant)
{
    free_table(&tenant->series);
    free_table(&tenant->kinds);
    free_table(&tenant->services);
    free(tenant->traces);
    free(tenant);
}

void ing_catalog_close(struct ing_catalog *catalog)
{
    if (catalog == NULL)
        return;
    for (uint32_t i = 0; i < catalog->n_tenants; i++)
        tenant_free(catalog->tenants[i]);
    for (size_t i = 0; i < FG_COUNT(catalog->gone); i++)
        free_all(catalog->gone[i]);
    free(catalog->idle);
    free(catalog->tenants);
    fg_map_done(&catalog->tenant_map);
    fg_arena_destroy(catalog->arena);
    fg_rwlock_done(&catalog->lock);
    free(catalog);
}
