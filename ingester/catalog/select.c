/* Which series a query is about. */
#include "ingester/catalog/catalog_impl.h"

static int match_order(const void *left, const void *right)
{
    const struct ing_catalog_match *a = left, *b = right;

    if (a->series->shard != b->series->shard)
        return a->series->shard < b->series->shard ? -1 : 1;
    if (a->series->number != b->series->number)
        return a->series->number < b->series->number ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

/* The matches of a growing list in the arena. */
struct match_list {
    struct ing_catalog_match *items;
    size_t count, cap;
    uint64_t n_matched; /* series that were looked at */
};

static bool match_add(struct match_list *list, struct fg_arena *arena,
                      const struct ing_catalog_series *series, uint32_t type)
{
    if (list->count == list->cap) {
        size_t cap = FG_MAX(64, list->cap * 2);
        struct ing_catalog_match *items = fg_arena_alloc(arena, cap * sizeof *items);

        if (items == NULL)
            return false;
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
        list->cap = cap;
    }
    list->items[list->count++] = (struct ing_catalog_match){series, type};
    return true;
}

/* Returns the service that an "=" matcher asks for: series of other services need not be looked at.
 */
static struct fg_slice only_service(const struct fg_selector *selector)
{
    for (size_t i = 0; i < selector->n_matchers; i++)
        if (selector->matchers[i].op == FG_MATCH_EQ &&
            fg_slice_is(selector->matchers[i].name, FG_LABEL_SERVICE))
            return selector->matchers[i].value;
    return fg_bytes(NULL, 0);
}

/* Returns true if the series may have profiles that are asked for. */
static bool passes(const struct ing_catalog_series *series, const struct ing_catalog_filter *filter,
                   struct fg_slice service)
{
    int64_t least_ns, greatest_ns;

    /* It has no profile that was acknowledged. */
    if (!atomic_load(&series->durable))
        return false;
    least_ns = atomic_load(&series->least_ns);
    greatest_ns = atomic_load(&series->greatest_ns);
    return least_ns <= greatest_ns && least_ns <= filter->end_ns &&
           greatest_ns >= filter->start_ns &&
           (service.len == 0 || fg_slice_eq(series->service->name, service));
}

/* ---- going through the series of a tenant ---- */

/*
 * Nothing is matched or counted under the lock: a tenant may have a million series, and a writer
 * that waits keeps everybody out. So pointers are copied, some thousands at a time, and looked at
 * afterwards. The caller holds a guard, so none of them is freed meanwhile.
 */
enum { COPIED_LOCKED = 2048 };

struct select_walk {
    struct ing_catalog *catalog;
    const struct ing_catalog_tenant *tenant;
    uint32_t next; /* number of the series to go on with */
    uint32_t end;  /* those that come meanwhile have this number or a greater one */
    uint32_t n;
    struct ing_catalog_series *series[COPIED_LOCKED];
};

/* The first place whose series has this number or a greater one. Series stand in the order of their
 * numbers, with gaps where some have left. */
static uint32_t first_place(const struct ing_hash_table *table, uint32_t number)
{
    uint32_t low = 0, high = table->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2, at = middle;

        while (at < high && table->slots[at].item == NULL)
            at++;
        if (at == high ||
            ((const struct ing_catalog_series *)table->slots[at].item)->number >= number)
            high = middle;
        else
            low = at + 1;
    }
    return low;
}

/* Begins a walk over the series that there are now. Returns how many these are. */
static uint32_t walk_begin(struct select_walk *walk, struct ing_catalog *catalog,
                           const struct ing_catalog_tenant *tenant)
{
    uint32_t items;

    walk->catalog = catalog;
    walk->tenant = tenant;
    walk->next = 0;
    fg_rwlock_read(&catalog->lock);
    /* A bound, so a walk ends although pushes add series all the time. */
    walk->end = tenant->next_series;
    items = ing_hash_table_items(&tenant->series);
    fg_rwlock_unlock(&catalog->lock);
    return items;
}

/* Sets series[n] to the next ones. Returns false if there are none. */
static bool walk_more(struct select_walk *walk)
{
    const struct ing_hash_table *table = &walk->tenant->series;

    walk->n = 0;
    fg_rwlock_read(&walk->catalog->lock);
    /* By number and not by place: the table may have been compacted since the last piece. */
    for (uint32_t i = first_place(table, walk->next); i < table->count && walk->n < COPIED_LOCKED;
         i++)
        if (table->slots[i].item != NULL)
            walk->series[walk->n++] = table->slots[i].item;
    fg_rwlock_unlock(&walk->catalog->lock);
    /* Without the lock: numbers never change, and the guard keeps the series. */
    while (walk->n > 0 && walk->series[walk->n - 1]->number >= walk->end)
        walk->n--;
    if (walk->n == 0)
        return false;
    walk->next = walk->series[walk->n - 1]->number + 1;
    return true;
}

/* ---- selecting ---- */

/* Matches as fg_selector_matches() does with ing_series_type_labels(), without making these labels.
 */
static bool matches(const struct ing_catalog_series *series, uint32_t type,
                    const struct fg_selector *selector)
{
    for (size_t i = 0; i < selector->n_matchers; i++) {
        const struct fg_matcher *matcher = &selector->matchers[i];

        if (!fg_matcher_matches(matcher, ing_series_label(series, type, matcher->name)))
            return false;
    }
    return true;
}

static enum fg_code select_one(const struct ing_catalog_series *series,
                               const struct ing_catalog_filter *filter, struct fg_arena *arena,
                               struct match_list *list, struct fg_err *err)
{
    for (uint32_t t = 0; t < series->kind->n_types; t++)
        if ((atomic_load(&series->seen) >> t & 1) != 0 && matches(series, t, filter->selector) &&
            !match_add(list, arena, series, t))
            return fg_fail(err, FG_E_LIMIT, "selector matches more than %zu series", list->count);
    return fg_selector_ask(filter->selector, &list->n_matched, err);
}

static enum fg_code select_all(struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant,
                               const struct ing_catalog_filter *filter, struct fg_arena *arena,
                               struct match_list *list, struct fg_err *err)
{
    struct fg_slice service = only_service(filter->selector);
    struct select_walk walk;

    (void)walk_begin(&walk, catalog, tenant);
    while (walk_more(&walk))
        for (uint32_t i = 0; i < walk.n; i++)
            if (passes(walk.series[i], filter, service) &&
                select_one(walk.series[i], filter, arena, list, err) != FG_OK)
                return err->code;
    return FG_OK;
}

enum fg_code ing_catalog_select(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant,
                                const struct ing_catalog_filter *filter, struct fg_arena *arena,
                                struct ing_catalog_match **ret_matches, size_t *ret_count,
                                struct fg_err *err)
{
    struct match_list list = {0};

    if (tenant != NULL && select_all(catalog, tenant, filter, arena, &list, err) != FG_OK)
        return err->code;
    if (list.count > 1)
        qsort(list.items, list.count, sizeof *list.items, match_order);
    *ret_matches = list.items;
    *ret_count = list.count;
    return FG_OK;
}

enum fg_code ing_catalog_list_series(struct ing_catalog *catalog,
                                     const struct ing_catalog_tenant *tenant,
                                     struct fg_arena *arena,
                                     struct ing_catalog_series ***ret_series, size_t *ret_count,
                                     struct fg_err *err)
{
    struct select_walk walk;
    struct ing_catalog_series **series = fg_arena_alloc(
        arena, walk_begin(&walk, catalog, tenant) * sizeof(struct ing_catalog_series *));
    size_t count = 0;

    if (series == NULL)
        return fg_fail(err, FG_E_LIMIT, "too many series to list");
    while (walk_more(&walk))
        for (uint32_t i = 0; i < walk.n; i++)
            if (atomic_load(&walk.series[i]->durable))
                series[count++] = walk.series[i];
    *ret_series = series;
    *ret_count = count;
    return FG_OK;
}

const struct ing_catalog_series *ing_catalog_find_series(struct ing_catalog *catalog,
                                                         const struct ing_catalog_tenant *tenant,
                                                         uint32_t number)
{
    const struct ing_hash_table *table = &tenant->series;
    const struct ing_catalog_series *series = NULL;

    fg_rwlock_read(&catalog->lock);
    for (uint32_t i = first_place(table, number); i < table->count && series == NULL; i++)
        series = table->slots[i].item;
    fg_rwlock_unlock(&catalog->lock);
    return series != NULL && series->number == number && atomic_load(&series->durable) ? series
                                                                                       : NULL;
}

static uint64_t count_stored(struct ing_catalog *catalog, const struct ing_catalog_tenant *tenant)
{
    struct select_walk walk;
    uint64_t count = 0;

    (void)walk_begin(&walk, catalog, tenant);
    while (walk_more(&walk))
        for (uint32_t i = 0; i < walk.n; i++)
            count += atomic_load(&walk.series[i]->durable);
    return count;
}

uint64_t ing_catalog_count_series(struct ing_catalog *catalog, struct ing_catalog_tenant *tenant)
{
    unsigned entered = ing_catalog_enter(catalog);
    uint64_t count = 0;

    if (tenant != NULL)
        count = count_stored(catalog, tenant);
    /* Tenants stay, so each number that was counted has one. */
    for (uint32_t t = 0; tenant == NULL && t < ing_catalog_count_tenants(catalog); t++)
        count += count_stored(catalog, ing_catalog_tenant_at(catalog, t));
    ing_catalog_leave(catalog, entered);
    return count;
}
