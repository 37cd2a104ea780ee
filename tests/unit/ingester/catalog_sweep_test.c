/* Retirement of series and services: after the chunks, and not while a push or a query uses them.
 */
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/catalog_run.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void series_are_retired_after_their_last_chunk(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);

    (void)state;
    (void)cat_store_one(store, catalog, "n", 0, 1);
    (void)cat_store_one(store, catalog, "s", 0, 1);
    (void)cat_store_one(store, catalog, "s", 2, 1);
    cat_sweep_all(store, catalog, 0);
    assert_int_equal(cat_count(catalog), 2);
    cat_sweep_all(store, catalog, 1);
    assert_int_equal(cat_count(catalog), 1);
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 1);
    cat_sweep_all(store, catalog, 2);
    assert_int_equal(cat_count(catalog), 1);
    cat_sweep_all(store, catalog, UINT32_MAX); /* no chunk at all */
    assert_int_equal(cat_count(catalog), 0);
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 0);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* Also those of which nothing was ever stored, of a push that was refused. */
static void series_never_stored_are_retired(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    unsigned entered = ing_catalog_enter(catalog);
    struct ing_catalog_tenant *tenant = ing_catalog_tenant(catalog, FG_LIT("a"));
    size_t bytes = ing_catalog_bytes(catalog);

    (void)state;
    (void)cat_add(catalog, tenant, ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all),
                  "n");
    assert_true(ing_catalog_bytes(catalog) > bytes + 500);
    ing_catalog_leave(catalog, entered);
    cat_sweep_all(store, catalog, 0);
    /* Except the arrays. */
    assert_true(ing_catalog_bytes(catalog) < bytes + 2000);
    assert_int_equal(ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all)->number, 1);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

static void retired_numbers_are_not_reused(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct ing_catalog_series *series = cat_store_one(store, catalog, "n", 0, 1);

        assert_int_equal(series->number, i);
        assert_int_equal(series->service->number, i);
        if (i % 2 == 1) { /* the highest number is retired, and only the store remembers it */
            ing_catalog_close(catalog);
            catalog = cat_open(store);
            ing_catalog_assume_held(catalog, 0);
        }
        cat_sweep_all(store, catalog, UINT32_MAX);
        assert_int_equal(cat_count_keys(store, HEAD_META, 's'), 0);
        if (i % 2 == 0) {
            ing_catalog_close(catalog);
            catalog = cat_open(store);
        }
    }
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* However long it takes until the push is committed: series and definition are there. */
static void series_found_by_a_push_is_not_retired(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_series *series = cat_store_one(store, catalog, "n", 0, 1);
    struct ing_catalog_tenant *tenant = ing_catalog_find_tenant(catalog, FG_LIT("a"));
    struct ing_catalog_service *service = series->service;
    unsigned entered;

    (void)state;
    for (int before = 0; before < 3; before++) {
        /* It takes a guard in any epoch, and finds the series in the same or the next. */
        for (int i = 0; i < before; i++)
            cat_sweep(store, catalog, 0);
        entered = ing_catalog_enter(catalog);
        for (int i = 0; i < before; i++)
            cat_sweep(store, catalog, 0);
        assert_ptr_equal(cat_add(catalog, tenant, service, "n"), series);
        cat_sweep_all(store, catalog, UINT32_MAX);
        assert_int_equal(cat_count(catalog), 1);
        assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 1);
        assert_ptr_equal(ing_catalog_service(catalog, tenant, FG_LIT("shop"), &cat_all), service);
        ing_catalog_leave(catalog, entered);
    }
    cat_sweep_all(store, catalog, UINT32_MAX);
    assert_int_equal(cat_count(catalog), 0);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* A query: what it found may leave, but is there to look at. */
static void guard_keeps_retired_series_readable(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct ing_catalog_series *series = cat_store_one(store, catalog, "n", 0, 1);
    unsigned entered;
    size_t bytes;

    (void)state;
    for (int i = 0; i < 4; i++)
        cat_sweep(store, catalog, 0);
    entered = ing_catalog_enter(catalog);
    cat_sweep_all(store, catalog, UINT32_MAX);
    assert_int_equal(cat_count(catalog), 0);
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 0);
    assert_true(fg_slice_is(ing_series_label(series, 1, FG_LIT("zone")), "n"));
    assert_true(fg_slice_is(series->service->name, "shop"));
    bytes = ing_catalog_bytes(catalog);
    ing_catalog_leave(catalog, entered);
    cat_sweep_all(store, catalog, UINT32_MAX);
    assert_true(ing_catalog_bytes(catalog) < bytes - 500); /* it was counted until it was freed */
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* The delete was lost in a crash, and the series has come back before. */
static void newer_of_two_services_with_one_name_is_used(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    struct fg_store_batch lost;
    uint32_t number;

    (void)state;
    (void)cat_store_one(store, catalog, "n", 0, 1);
    for (int i = 0; i < 3; i++)
        cat_sweep(store, catalog, 0);
    fg_store_batch_init(&lost);
    ing_catalog_sweep_series(catalog, UINT32_MAX, &lost);
    assert_true(lost.count > 0);
    fg_store_batch_done(&lost);
    number = cat_store_one(store, catalog, "n", 5, 1)->number;
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 2);
    ing_catalog_close(catalog);
    catalog = cat_open(store);
    ing_catalog_assume_held(catalog, 5);
    assert_int_equal(cat_store_one(store, catalog, "n", 6, 1)->number, number);
    cat_sweep_all(store, catalog, 6); /* so far the older one was in no chunk, and will not be */
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 1);
    assert_int_equal(cat_store_one(store, catalog, "n", 6, 1)->number, number);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

enum { PODS = 20000, PODS_AT_A_TIME = 1000 };

static void memory_stays_bounded_while_series_come_and_go(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct ing_catalog *catalog = cat_open(store);
    size_t most = 0;
    char zone[16];

    (void)state;
    for (uint32_t pod = 0; pod < PODS; pod++) {
        uint32_t cut = pod / PODS_AT_A_TIME;

        (void)snprintf(zone, sizeof zone, "pod-%u", pod);
        (void)cat_store_one(store, catalog, zone, cut, pod);
        (void)cat_store_one(store, catalog, "stays", cut, pod);
        if (pod % PODS_AT_A_TIME != 0 || cut < 2)
            continue;
        cat_sweep_all(store, catalog, cut - 1);
        assert_in_range(cat_count(catalog), PODS_AT_A_TIME, 2 * PODS_AT_A_TIME + 2);
        assert_in_range(cat_count_keys(store, HEAD_SERIES, 0), PODS_AT_A_TIME,
                        2 * PODS_AT_A_TIME + 2);
        if (cut == 4)
            most = ing_catalog_bytes(catalog) * 5 / 4;
        assert_true(cut < 4 || ing_catalog_bytes(catalog) < most);
    }
    cat_sweep_all(store, catalog, UINT32_MAX);
    assert_true(ing_catalog_bytes(catalog) < 8192);
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 0);
    ing_catalog_close(catalog);
    fg_store_close(store);
}

/* ---- threads ---- */

enum { PUSHERS = 3, CHUNKS = 400, ZONES = 40 };

/* A store and catalog that pushers, a reader and a committer work with. */
struct crowd {
    struct fg_store *store;
    struct ing_catalog *catalog;
    pthread_mutex_t lock; /* over the queue */
    struct crowd_item *first;
    _Atomic uint32_t left; /* pushers that are not done */
};

/* As much of a push as the catalog sees. */
struct crowd_item {
    struct crowd_item *next;
    struct ing_catalog_tenant *tenant;
    struct ing_catalog_series *series;
    unsigned entered;
};

static void *push_many(void *arg)
{
    static _Atomic uint32_t next;
    struct crowd *crowd = arg;
    uint32_t from = atomic_fetch_add(&next, 1);

    for (uint32_t i = 0; i < CHUNKS; i++) {
        struct crowd_item *item = fg_new(struct crowd_item);
        char zone[16], name[16];

        (void)snprintf(zone, sizeof zone, "%u", (i * 7 + from) % ZONES);
        (void)snprintf(name, sizeof name, "service-%u", i / 16 % 8);
        item->entered = ing_catalog_enter(crowd->catalog);
        item->tenant = ing_catalog_tenant(crowd->catalog, FG_LIT("a"));
        item->series = cat_add(
            crowd->catalog, item->tenant,
            ing_catalog_service(crowd->catalog, item->tenant, fg_cstr(name), &cat_all), zone);
        (void)ing_catalog_series_saw(item->series, 3);
        (void)pthread_mutex_lock(&crowd->lock);
        item->next = crowd->first;
        crowd->first = item;
        (void)pthread_mutex_unlock(&crowd->lock);
        (void)sched_yield();
    }
    (void)atomic_fetch_sub(&crowd->left, 1);
    return NULL;
}

static void *read_many(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t hash = 0;

    while (atomic_load(&crowd->left) > 0) {
        struct fg_arena *arena = fg_arena_create(1 << 24);
        unsigned entered = ing_catalog_enter(crowd->catalog);
        struct ing_catalog_tenant *tenant = ing_catalog_find_tenant(crowd->catalog, FG_LIT("a"));
        const struct fg_selector selector = {0};
        struct ing_catalog_match *matches;
        struct fg_err err;
        size_t count;

        assert_int_equal(
            ing_catalog_select(crowd->catalog, tenant,
                               &(struct ing_catalog_filter){&selector, INT64_MIN, INT64_MAX}, arena,
                               &matches, &count, &err),
            FG_OK);
        (void)sched_yield();
        for (size_t i = 0; i < count; i++) {
            struct fg_labels labels =
                ing_series_type_labels(matches[i].series, matches[i].type, arena);

            hash ^= fg_labels_hash(&labels).lo ^ fg_hash64(matches[i].series->service->name);
        }
        ing_catalog_leave(crowd->catalog, entered);
        fg_arena_destroy(arena);
    }
    return hash == 1 ? arg : NULL;
}

/* Its definition is in the store, since its profile is. */
static void check_stored(struct crowd *crowd, const struct crowd_item *item)
{
    struct fg_buf key;
    struct fg_err err;
    bool found;

    fg_buf_init(&key, 64);
    fg_buf_be32(&key, ing_catalog_tenant_number(item->tenant));
    fg_buf_be32(&key, item->series->number);
    assert_int_equal(fg_store_contains(crowd->store, HEAD_SERIES, fg_buf_slice(&key), &found, &err),
                     FG_OK);
    assert_true(found);
    fg_buf_done(&key);
}

static void commit_some(struct crowd *crowd, uint32_t cut)
{
    struct crowd_item *items, *next;

    (void)pthread_mutex_lock(&crowd->lock);
    items = fg_take(crowd->first);
    (void)pthread_mutex_unlock(&crowd->lock);
    for (; items != NULL; items = next) {
        next = items->next;
        ing_catalog_series_holds(items->series, cut, cut);
        if (!atomic_load(&items->series->durable))
            cat_put(crowd->store, items->tenant, items->series);
        atomic_store(&items->series->durable, true);
        check_stored(crowd, items);
        ing_catalog_leave(crowd->catalog, items->entered);
        free(items);
    }
}

static void pushes_queries_and_sweeps_run_concurrently(void **state)
{
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct crowd crowd = {.store = store, .catalog = cat_open(store), .left = PUSHERS};
    pthread_t pushers[PUSHERS], reader;
    bool last;
    void *odd;

    (void)state;
    (void)pthread_mutex_init(&crowd.lock, NULL);
    for (size_t i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, &crowd), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_many, &crowd), 0);
    /* Every chunk is evicted at the next cut. */
    for (uint32_t cut = 1; last = atomic_load(&crowd.left) == 0, true; cut++) {
        commit_some(&crowd, cut);
        cat_sweep(store, crowd.catalog, cut);
        if (last)
            break;
    }
    for (size_t i = 0; i < PUSHERS; i++)
        assert_int_equal(pthread_join(pushers[i], NULL), 0);
    assert_int_equal(pthread_join(reader, &odd), 0);
    cat_sweep_all(store, crowd.catalog, UINT32_MAX);
    assert_int_equal(cat_count_keys(store, HEAD_SERIES, 0), 0);
    assert_int_equal(cat_count_keys(store, HEAD_META, 's'), 0);
    (void)pthread_mutex_destroy(&crowd.lock);
    ing_catalog_close(crowd.catalog);
    fg_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_are_retired_after_their_last_chunk),
        cmocka_unit_test(series_never_stored_are_retired),
        cmocka_unit_test(retired_numbers_are_not_reused),
        cmocka_unit_test(series_found_by_a_push_is_not_retired),
        cmocka_unit_test(guard_keeps_retired_series_readable),
        cmocka_unit_test(newer_of_two_services_with_one_name_is_used),
        cmocka_unit_test(memory_stays_bounded_while_series_come_and_go),
        cmocka_unit_test(pushes_queries_and_sweeps_run_concurrently),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
