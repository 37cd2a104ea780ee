/* Which series a query is about. */
#include "ingester/catalog/impl.h"

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

/* Series stand in the order of their numbers, with gaps where some have left. */
static const struct catalog_series *find_number(const struct shelf *shelf, uint32_t number)
{
    uint32_t low = 0, high = shelf->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2, at = middle;
        const struct catalog_series *series;

        while (at < high && shelf->places[at].item == NULL)
            at++;
        if (at == high) {
            high = middle;
            continue;
        }
        series = shelf->places[at].item;
        if (series->number == number)
            return series;
        if (series->number < number)
            low = at + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct catalog_series *
catalog_find_series(struct catalog *catalog, const struct catalog_tenant *tenant, uint32_t number)
{
    const struct catalog_series *series;

    (void)pthread_rwlock_rdlock(&catalog->lock);
    series = find_number(&tenant->series, number);
    (void)pthread_rwlock_unlock(&catalog->lock);
    return is_stored(series) ? series : NULL;
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
