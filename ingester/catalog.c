#include "ingester/catalog.h"

#include "common/ring/shard.h"
#include "ingester/shelf.h"

#include <pthread.h>

struct catalog_tenant {
    struct fg_slice name;
    uint32_t number;
    _Atomic bool durable;

    struct shelf services; /* by the hash of the name */
    struct shelf series;   /* by fg_id_table(id) */
    uint32_t next_series;  /* number */
};

/* Both have struct catalog_memory first. */
struct catalog {
    pthread_rwlock_t lock;
    unsigned spread;
    uint64_t max_bytes;
    uint64_t bytes;
    struct fg_arena *arena;          /* names of tenants */
    struct catalog_tenant **tenants; /* by number */
    uint32_t n_tenants, cap_tenants;
    struct fg_map tenant_map;
    uint32_t next_service; /* number */

    /* Slots are those of this epoch and the one before, by turns. */
    uint64_t epoch; /* from 2, so that what was never found was found long ago */
    _Atomic uint64_t inside[2];
    struct catalog_memory *gone[2];

    uint32_t hand_tenant, hand_place; /* where sweeping goes on */
    struct catalog_service **idle;    /* those without series, and some more */
    uint32_t n_idle, cap_idle;
};

enum { META_TENANT = 't', META_SERVICE = 's', META_NEXT = 'n' };

enum {
    SERIES_ARENA_MAX_BYTES = 4 * 1024 * 1024, /* for reading one series back */
    SWEEP_LOOKS = 64 * 1024,                  /* series in one go: a millisecond or two */
    SWEEP_LOOKS_LOCKED = 4096,                /* of these while pushes have to wait */
    SWEEP_GONE = 8192,
    SWEEP_SERVICES = 256,
};

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

/* The arena has no limit of its own: catalog_is_full() bounds what gets here. */
static struct fg_slice keep_name(struct catalog *catalog, struct fg_slice name)
{
    struct fg_slice copy = fg_arena_copy(catalog->arena, name);

    fg_assert(copy.ptr != NULL);
    catalog->bytes += name.len;
    return copy;
}

static void add_to_shelf(struct catalog *catalog, struct shelf *shelf, uint64_t hash,
                         struct catalog_memory *memory)
{
    catalog->bytes += memory->bytes - shelf_bytes(shelf);
    shelf_add(shelf, hash, memory);
    catalog->bytes += shelf_bytes(shelf);
}

static void tidy_shelf(struct catalog *catalog, struct shelf *shelf)
{
    catalog->bytes -= shelf_bytes(shelf);
    shelf_tidy(shelf);
    catalog->bytes += shelf_bytes(shelf);
}

/* ---- epochs ---- */

/* The epoch does not change as long as the lock is held. */
unsigned catalog_enter(struct catalog *catalog)
{
    unsigned slot;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    slot = catalog->epoch & 1;
    (void)atomic_fetch_add(&catalog->inside[slot], 1);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return slot;
}

void catalog_leave(struct catalog *catalog, unsigned entered)
{
    uint64_t before = atomic_fetch_sub(&catalog->inside[entered], 1);

    fg_assert(before > 0);
}

/* A push has found it, now. Under the lock. */
static void mark_found(const struct catalog *catalog, _Atomic uint64_t *found)
{
    if (atomic_load_explicit(found, memory_order_relaxed) != catalog->epoch)
        atomic_store_explicit(found, catalog->epoch, memory_order_relaxed);
}

/* May a push that found it be inside? Under the lock. */
static bool in_use(const struct catalog *catalog, const _Atomic uint64_t *found)
{
    return catalog->epoch < atomic_load_explicit(found, memory_order_relaxed) + 2;
}

static void make_gone(struct catalog *catalog, struct catalog_memory *memory)
{
    memory->next = catalog->gone[catalog->epoch & 1];
    catalog->gone[catalog->epoch & 1] = memory;
}

static void free_all(struct catalog_memory *memory)
{
    while (memory != NULL) {
        struct catalog_memory *next = memory->next;

        free(memory);
        memory = next;
    }
}

/* The next epoch begins, if nobody is left who entered before this one did. What left in the one
 * before is freed then. */
static void turn_epoch(struct catalog *catalog)
{
    struct catalog_memory *free_now = NULL;
    unsigned before;

    (void)pthread_rwlock_wrlock(&catalog->lock);
    before = (catalog->epoch + 1) & 1;
    if (atomic_load(&catalog->inside[before]) == 0) {
        free_now = fg_take(catalog->gone[before]);
        for (const struct catalog_memory *memory = free_now; memory != NULL; memory = memory->next)
            catalog->bytes -= memory->bytes;
        catalog->epoch++;
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
    free_all(free_now);
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

static struct catalog_tenant *make_tenant(struct catalog *catalog, struct fg_slice name,
                                          uint32_t number)
{
    struct catalog_tenant *tenant = fg_new(struct catalog_tenant);

    tenant->name = keep_name(catalog, name);
    tenant->number = number;
    catalog->bytes += sizeof *tenant;
    fg_map_add(&catalog->tenant_map, fg_hash64_table(name), number);
    return tenant;
}

static struct catalog_tenant *add_tenant(struct catalog *catalog, struct fg_slice name)
{
    struct catalog_tenant *tenant = make_tenant(catalog, name, catalog->n_tenants);

    catalog->tenants = grown(catalog->tenants, catalog->n_tenants, &catalog->cap_tenants,
                             sizeof(struct catalog_tenant *));
    catalog->tenants[catalog->n_tenants++] = tenant;
    return tenant;
}

static struct catalog_service *find_service(const struct catalog_tenant *tenant,
                                            struct fg_slice name, uint32_t *ret_place)
{
    struct fg_map_walk walk;

    for (uint32_t i = shelf_first(&tenant->services, fg_hash64_table(name), &walk);
         i != FG_MAP_NONE; i = shelf_next(&tenant->services, &walk)) {
        struct catalog_service *service = tenant->services.places[i].item;

        *ret_place = i;
        if (fg_slice_eq(service->name, name))
            return service;
    }
    return NULL;
}

/* It is looked at some day whether it has series. */
static void add_idle(struct catalog *catalog, struct catalog_service *service)
{
    if (service->idle)
        return;
    catalog->idle =
        grown(catalog->idle, catalog->n_idle, &catalog->cap_idle, sizeof(struct catalog_service *));
    catalog->idle[catalog->n_idle++] = service;
    service->idle = true;
}

static struct catalog_service *add_service(struct catalog *catalog, struct catalog_tenant *tenant,
                                           struct fg_slice name, uint32_t number)
{
    struct catalog_service *service = fg_calloc(1, sizeof *service + name.len);
    uint8_t *text = (uint8_t *)(service + 1);

    memcpy(text, name.ptr, name.len);
    service->memory.bytes = sizeof *service + name.len;
    service->number = number;
    service->name = fg_bytes(text, name.len);
    service->tenant = tenant;
    add_to_shelf(catalog, &tenant->services, fg_hash64_table(name), &service->memory);
    add_idle(catalog, service);
    catalog->next_service = FG_MAX(catalog->next_service, number + 1);
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

static uint64_t bytes_of(const struct catalog *catalog)
{
    return catalog->bytes + fg_map_bytes(&catalog->tenant_map) +
           catalog->cap_tenants * sizeof(struct catalog_tenant *) +
           catalog->cap_idle * sizeof(struct catalog_service *);
}

static bool full(const struct catalog *catalog)
{
    return bytes_of(catalog) > catalog->max_bytes;
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

/* Also the mark that a push has found it. */
static struct catalog_service *use_service(const struct catalog *catalog,
                                           const struct catalog_tenant *tenant,
                                           struct fg_slice name)
{
    uint32_t place;
    struct catalog_service *service = find_service(tenant, name, &place);

    if (service != NULL)
        mark_found(catalog, &service->found);
    return service;
}

struct catalog_service *catalog_service(struct catalog *catalog, struct catalog_tenant *tenant,
                                        struct fg_slice name)
{
    struct catalog_service *service;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    service = use_service(catalog, tenant, name);
    (void)pthread_rwlock_unlock(&catalog->lock);
    if (service != NULL)
        return service;
    (void)pthread_rwlock_wrlock(&catalog->lock);
    service = use_service(catalog, tenant, name);
    if (service == NULL && !full(catalog) && catalog->next_service < UINT32_MAX) {
        service = add_service(catalog, tenant, name, catalog->next_service);
        mark_found(catalog, &service->found);
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
    return service;
}

void catalog_each_service(struct catalog *catalog,
                          void (*each)(struct catalog_service *service, void *arg), void *arg)
{
    (void)pthread_rwlock_rdlock(&catalog->lock);
    for (uint32_t t = 0; t < catalog->n_tenants; t++) {
        const struct shelf *services = &catalog->tenants[t]->services;

        for (uint32_t i = 0; i < services->count; i++)
            if (services->places[i].item != NULL)
                each(services->places[i].item, arg);
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
}

/* ---- series ---- */

/*
 * Of two the newer: a crash may come between a delete that failed and its repetition, when the
 * series has come back already. The older one has no profiles, and leaves when it is swept again.
 */
static struct catalog_series *find_series(const struct catalog_tenant *tenant, struct fg_id id)
{
    struct catalog_series *found = NULL;
    struct fg_map_walk walk;

    for (uint32_t i = shelf_first(&tenant->series, fg_id_table(id), &walk); i != FG_MAP_NONE;
         i = shelf_next(&tenant->series, &walk)) {
        struct catalog_series *series = tenant->series.places[i].item;

        if (fg_id_eq(series->id, id) && (found == NULL || series->number > found->number))
            found = series;
    }
    return found;
}

static void add_series(struct catalog *catalog, struct catalog_tenant *tenant,
                       struct catalog_service *service, struct catalog_series *series,
                       uint32_t number)
{
    series->number = number;
    series->service = service;
    series->shard =
        fg_shard_of(tenant->name, service->name, fg_labels_hash(&series->labels), catalog->spread);
    add_to_shelf(catalog, &tenant->series, fg_id_table(series->id), &series->memory);
    tenant->next_series = FG_MAX(tenant->next_series, number + 1);
    service->n_series++;
}

/* Under the lock, as the two that follow. */
static bool has_room(const struct catalog *catalog, const struct catalog_tenant *tenant,
                     uint64_t series_max)
{
    return !full(catalog) && tenant->next_series < UINT32_MAX &&
           (series_max == 0 || shelf_items(&tenant->series) < series_max);
}

static struct catalog_series *use_series(const struct catalog *catalog,
                                         const struct catalog_tenant *tenant, struct fg_id id)
{
    struct catalog_series *series = find_series(tenant, id);

    if (series != NULL)
        mark_found(catalog, &series->found);
    return series;
}

struct catalog_series *catalog_series(struct catalog *catalog, struct catalog_tenant *tenant,
                                      struct catalog_service *service,
                                      const struct fg_wire_batch *batch,
                                      const struct fg_labels *labels, uint64_t series_max)
{
    const struct series_def def = {*labels, batch->period_type, batch->types, batch->n_types};
    struct fg_id id = series_id(&def);
    struct catalog_series *series, *made;
    bool room;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    series = use_series(catalog, tenant, id);
    room = has_room(catalog, tenant, series_max);
    (void)pthread_rwlock_unlock(&catalog->lock);
    if (series != NULL || !room)
        return series;
    made = series_make(&def);
    (void)pthread_rwlock_wrlock(&catalog->lock);
    series = use_series(catalog, tenant, id); /* another may have been faster */
    if (series == NULL && has_room(catalog, tenant, series_max)) {
        series = fg_take(made);
        add_series(catalog, tenant, service, series, tenant->next_series);
        mark_found(catalog, &series->found);
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
    free(made);
    return series;
}

bool catalog_series_saw(struct catalog_series *series, uint64_t types)
{
    (void)atomic_fetch_or(&series->seen, types);
    return !atomic_load(&series->durable) || (types & ~atomic_load(&series->stored)) != 0;
}

/* One thread changes them. */
void catalog_series_holds(struct catalog_series *series, uint32_t born, int64_t time_ns)
{
    series->held_before = FG_MAX(series->held_before, born + 1);
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

static void tenant_key(const struct catalog_tenant *tenant, struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    fg_buf_putc(out, META_TENANT);
    fg_buf_put(out, tenant->name);
}

static void service_key(const struct catalog_service *service, struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    fg_buf_putc(out, META_SERVICE);
    fg_buf_be32(out, service->tenant->number);
    fg_buf_put(out, service->name);
}

static void series_key(const struct catalog_tenant *tenant, const struct catalog_series *series,
                       struct fg_buf *out)
{
    fg_buf_init(out, SIZE_MAX);
    fg_buf_be32(out, tenant->number);
    fg_buf_be32(out, series->number);
}

void catalog_put_tenant(const struct catalog_tenant *tenant, struct fg_store_batch *out)
{
    struct fg_buf key;

    tenant_key(tenant, &key);
    put_number(out, HEAD_META, &key, tenant->number);
    fg_buf_done(&key);
}

void catalog_put_service(const struct catalog_service *service, struct fg_store_batch *out)
{
    struct fg_buf key;

    service_key(service, &key);
    put_number(out, HEAD_META, &key, service->number);
    fg_buf_done(&key);
}

void catalog_put_series(const struct catalog_tenant *tenant, const struct catalog_series *series,
                        struct fg_store_batch *out)
{
    struct fg_buf key, value;

    series_key(tenant, series, &key);
    fg_buf_init(&value, SIZE_MAX);
    series_encode(series, series->service->number, &value);
    fg_store_put(out, HEAD_SERIES, fg_buf_slice(&key), fg_buf_slice(&value));
    fg_buf_done(&key);
    fg_buf_done(&value);
}

/* Numbers up to it are not given again, though nothing in the store has them. tenant: of whose
 * series; NULL: services. */
static void put_next(const struct catalog_tenant *tenant, uint32_t next, struct fg_store_batch *out)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    fg_buf_putc(&key, META_NEXT);
    if (tenant != NULL)
        fg_buf_be32(&key, tenant->number);
    put_number(out, HEAD_META, &key, next);
    fg_buf_done(&key);
}

/* ---- sweeping ---- */

static void remove_series(struct catalog *catalog, struct catalog_tenant *tenant, uint32_t place,
                          struct fg_store_batch *out)
{
    struct catalog_series *series = tenant->series.places[place].item;
    struct fg_buf key;

    shelf_remove(&tenant->series, place);
    if (--series->service->n_series == 0)
        add_idle(catalog, series->service);
    make_gone(catalog, &series->memory);
    series_key(tenant, series, &key);
    fg_store_delete(out, HEAD_SERIES, fg_buf_slice(&key)); /* where it never came to be, too */
    fg_buf_done(&key);
}

/* To the next tenant. The places of this one may change only now: nobody stands on them. */
static void move_hand(struct catalog *catalog)
{
    tidy_shelf(catalog, &catalog->tenants[catalog->hand_tenant]->series);
    catalog->hand_place = 0;
    catalog->hand_tenant++;
    if (catalog->hand_tenant == catalog->n_tenants)
        catalog->hand_tenant = 0;
}

struct sweep {
    uint32_t least_born;
    struct fg_store_batch *out;
    uint32_t looks, gone; /* so far */
};

/* Some series of the tenant at hand. Under the lock. */
static void sweep_some(struct catalog *catalog, struct sweep *sweep)
{
    struct catalog_tenant *tenant = catalog->tenants[catalog->hand_tenant];
    const struct shelf *shelf = &tenant->series;
    uint32_t end = FG_MIN(shelf->count, catalog->hand_place + SWEEP_LOOKS_LOCKED);
    uint32_t before = sweep->gone;

    sweep->looks += 1 + end - catalog->hand_place;
    for (; catalog->hand_place < end; catalog->hand_place++) {
        const struct catalog_series *series = shelf->places[catalog->hand_place].item;

        if (series == NULL || series->held_before > sweep->least_born ||
            in_use(catalog, &series->found))
            continue;
        remove_series(catalog, tenant, catalog->hand_place, sweep->out);
        sweep->gone++;
    }
    if (sweep->gone > before)
        put_next(tenant, tenant->next_series, sweep->out);
    if (catalog->hand_place == shelf->count)
        move_hand(catalog);
}

/* Once round at most. */
void catalog_sweep_series(struct catalog *catalog, uint32_t least_born, struct fg_store_batch *out)
{
    struct sweep sweep = {.least_born = least_born, .out = out};
    bool round = catalog_count_tenants(catalog) == 0;

    turn_epoch(catalog);
    while (!round && sweep.looks < SWEEP_LOOKS && sweep.gone < SWEEP_GONE) {
        (void)pthread_rwlock_wrlock(&catalog->lock);
        sweep_some(catalog, &sweep);
        round = catalog->hand_tenant == 0 && catalog->hand_place == 0;
        (void)pthread_rwlock_unlock(&catalog->lock);
    }
}

/* A service that may leave, perhaps. */
struct leaver {
    struct catalog_service *service;
    bool leaves;
};

/* Takes some off the list, the longest idle first. */
static uint32_t take_idle(struct catalog *catalog, struct leaver ret_leavers[SWEEP_SERVICES])
{
    uint32_t n = 0, taken;

    (void)pthread_rwlock_wrlock(&catalog->lock);
    for (taken = 0; taken < FG_MIN(catalog->n_idle, SWEEP_SERVICES); taken++) {
        struct catalog_service *service = catalog->idle[taken];

        service->idle = false;
        if (service->n_series == 0)
            ret_leavers[n++] = (struct leaver){service, !in_use(catalog, &service->found)};
    }
    catalog->n_idle -= taken;
    if (catalog->n_idle > 0)
        memmove(catalog->idle, catalog->idle + taken,
                catalog->n_idle * sizeof(struct catalog_service *));
    (void)pthread_rwlock_unlock(&catalog->lock);
    return n;
}

static void remove_service(struct catalog *catalog, struct catalog_service *service,
                           struct fg_store_batch *out)
{
    struct shelf *shelf = &service->tenant->services;
    struct fg_buf key;
    uint32_t place;

    fg_assert(find_service(service->tenant, service->name, &place) == service);
    shelf_remove(shelf, place);
    tidy_shelf(catalog, shelf);
    make_gone(catalog, &service->memory);
    service_key(service, &key);
    fg_store_delete(out, HEAD_META, fg_buf_slice(&key));
    fg_buf_done(&key);
}

void catalog_sweep_services(struct catalog *catalog,
                            bool (*may_leave)(const struct catalog_service *service, void *arg),
                            void *arg, struct fg_store_batch *out)
{
    struct leaver leavers[SWEEP_SERVICES];
    uint32_t n = take_idle(catalog, leavers);
    bool any = false;

    for (uint32_t i = 0; i < n; i++)
        leavers[i].leaves = leavers[i].leaves && may_leave(leavers[i].service, arg);
    (void)pthread_rwlock_wrlock(&catalog->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct catalog_service *service = leavers[i].service;

        /* Meanwhile a push may have come. */
        if (service->n_series > 0)
            continue;
        if (leavers[i].leaves && !in_use(catalog, &service->found)) {
            remove_service(catalog, service, out);
            any = true;
        } else {
            add_idle(catalog, service);
        }
    }
    if (any)
        put_next(NULL, catalog->next_service, out);
    (void)pthread_rwlock_unlock(&catalog->lock);
}

void catalog_assume_held(struct catalog *catalog, uint32_t cuts)
{
    (void)pthread_rwlock_wrlock(&catalog->lock);
    for (uint32_t t = 0; t < catalog->n_tenants; t++)
        for (uint32_t i = 0; i < catalog->tenants[t]->series.count; i++) {
            struct catalog_series *series = catalog->tenants[t]->series.places[i].item;

            if (series != NULL)
                series->held_before = cuts + 1;
        }
    (void)pthread_rwlock_unlock(&catalog->lock);
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

/* Can it have profiles that are asked for? */
static bool passes(const struct catalog_series *series, const struct catalog_filter *filter,
                   struct fg_slice service)
{
    int64_t least_ns, greatest_ns;

    if (series == NULL || !atomic_load(&series->durable))
        return false;
    least_ns = atomic_load(&series->least_ns);
    greatest_ns = atomic_load(&series->greatest_ns);
    return least_ns <= greatest_ns && least_ns <= filter->end_ns &&
           greatest_ns >= filter->start_ns &&
           (service.len == 0 || fg_slice_eq(series->service->name, service));
}

static bool select_all(const struct catalog_tenant *tenant, const struct catalog_filter *filter,
                       struct fg_arena *arena, struct match_list *list)
{
    struct fg_slice service = only_service(filter->selector);

    for (uint32_t s = 0; s < tenant->series.count; s++) {
        const struct catalog_series *series = tenant->series.places[s].item;

        if (!passes(series, filter, service))
            continue;
        for (uint32_t t = 0; t < series->n_types; t++)
            if ((atomic_load(&series->seen) >> t & 1) != 0 &&
                fg_selector_matches(filter->selector, &series->by_type[t]) &&
                !match_add(list, arena, series, t))
                return false;
    }
    return true;
}

enum fg_code catalog_select(struct catalog *catalog, struct catalog_tenant *tenant,
                            const struct catalog_filter *filter, struct fg_arena *arena,
                            struct catalog_match **ret_matches, size_t *ret_count,
                            struct fg_err *err)
{
    struct match_list list = {0};
    bool fits = true;

    if (tenant != NULL) {
        (void)pthread_rwlock_rdlock(&catalog->lock);
        fits = select_all(tenant, filter, arena, &list);
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

static bool is_stored(const struct catalog_series *series)
{
    return series != NULL && atomic_load(&series->durable);
}

enum fg_code catalog_list_series(struct catalog *catalog, const struct catalog_tenant *tenant,
                                 struct fg_arena *arena, struct catalog_series ***ret_series,
                                 size_t *ret_count, struct fg_err *err)
{
    const struct shelf *shelf = &tenant->series;
    struct catalog_series **series;
    size_t count = 0;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    series = fg_arena_alloc(arena, shelf_items(shelf) * sizeof(struct catalog_series *));
    for (uint32_t s = 0; series != NULL && s < shelf->count; s++)
        if (is_stored(shelf->places[s].item))
            series[count++] = shelf->places[s].item;
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
    for (uint32_t i = 0; i < catalog->n_tenants; i++) {
        const struct shelf *shelf = &catalog->tenants[i]->series;

        if (tenant == NULL || tenant == catalog->tenants[i])
            for (uint32_t s = 0; s < shelf->count; s++)
                count += is_stored(shelf->places[s].item);
    }
    (void)pthread_rwlock_unlock(&catalog->lock);
    return count;
}

size_t catalog_bytes(struct catalog *catalog)
{
    size_t bytes;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    bytes = bytes_of(catalog);
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
    struct catalog_tenant *tenant;

    if (!fg_cur_end(&cur) || number >= UINT32_MAX / 2)
        return corrupt(err, "tenant");
    while (catalog->n_tenants <= number) {
        catalog->tenants = grown(catalog->tenants, catalog->n_tenants, &catalog->cap_tenants,
                                 sizeof(struct catalog_tenant *));
        catalog->tenants[catalog->n_tenants++] = NULL;
    }
    if (catalog->tenants[number] != NULL)
        return corrupt(err, "tenant");
    tenant = make_tenant(catalog, fg_slice_sub(key, 1, key.len), (uint32_t)number);
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

static enum fg_code load_next(struct catalog *catalog, struct fg_slice key, struct fg_slice value,
                              struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(fg_slice_sub(key, 1, key.len)), cur = fg_cur(value);
    uint64_t next = fg_cur_varint(&cur);
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

static struct catalog_service *service_at(const struct catalog_tenant *tenant, uint64_t number)
{
    for (uint32_t i = 0; i < tenant->services.count; i++) {
        struct catalog_service *service = tenant->services.places[i].item;

        if (service->number == number)
            return service;
    }
    return NULL;
}

/* Nobody knows which profiles it has, and in which rounds. */
static enum fg_code load_series(struct catalog *catalog, struct fg_slice key, struct fg_slice value,
                                struct fg_err *err)
{
    struct fg_cur key_cur = fg_cur(key);
    struct catalog_tenant *tenant = tenant_at(catalog, fg_cur_be32(&key_cur));
    uint32_t number = fg_cur_be32(&key_cur);
    fg_auto(fg_arena) *arena = fg_arena_create(SERIES_ARENA_MAX_BYTES);
    struct catalog_service *service;
    struct catalog_series *series;
    struct series_stored stored;

    if (!fg_cur_end(&key_cur) || tenant == NULL || number == UINT32_MAX)
        return corrupt(err, "series");
    if (series_decode(value, arena, &stored, err) != FG_OK)
        return fg_wrap(err, "head");
    service = service_at(tenant, stored.service);
    if (service == NULL)
        return corrupt(err, "series");
    series = series_make(&stored.def);
    add_series(catalog, tenant, service, series, number);
    series->shard = stored.shard; /* of its profiles' keys, whatever the spread is now */
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

static enum fg_code load(struct catalog *catalog, struct fg_store *store, struct fg_err *err)
{
    if (check_format(store, err) != FG_OK ||
        for_each(store, HEAD_META, META_TENANT, false, catalog, load_tenant, err) != FG_OK)
        return err->code;
    fill_gaps(catalog);
    if (for_each(store, HEAD_META, META_NEXT, false, catalog, load_next, err) != FG_OK ||
        for_each(store, HEAD_META, META_SERVICE, false, catalog, load_service, err) != FG_OK ||
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
    catalog->epoch = 2;
    if (load(catalog, store, err) != FG_OK) {
        catalog_close(catalog);
        return err->code;
    }
    *ret_catalog = catalog;
    return FG_OK;
}

static void free_shelf(struct shelf *shelf)
{
    for (uint32_t i = 0; i < shelf->count; i++)
        free(shelf->places[i].item);
    shelf_done(shelf);
}

static void tenant_free(struct catalog_tenant *tenant)
{
    if (tenant == NULL)
        return;
    free_shelf(&tenant->series);
    free_shelf(&tenant->services);
    free(tenant);
}

void catalog_close(struct catalog *catalog)
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
    (void)pthread_rwlock_destroy(&catalog->lock);
    free(catalog);
}
