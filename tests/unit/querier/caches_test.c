/* Tests the caches in memory and on disk, and their limits. */
#include "common/storage/cache/disk_cache.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/rules/evaluate.h"
#include "tests/lib/remove_tree.h"
#include "tests/unit/querier/asker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- a disk below the cache --- */

enum { DISK_BYTES = 8 * 1024 * 1024 };

static char disk_folder[64];

static struct fg_disk_cache *open_disk(struct fg_registry *registry)
{
    struct fg_disk_cache *disk;
    struct fg_err err;

    asker_must(fg_disk_cache_open(&(struct fg_disk_cache_config){.path = disk_folder,
                                                                 .max_bytes = DISK_BYTES,
                                                                 .registry = registry},
                                  &disk, &err),
               &err);
    fg_disk_cache_settle(disk);
    return disk;
}

static void ask_some(struct asker *asker, unsigned count)
{
    struct fg_err err;

    for (unsigned i = 0; i < count; i++)
        asker_must(asker_check_any(asker, true, &err), &err);
    fg_disk_cache_settle(asker->disk);
}

/* Replaces each cached value by bytes of the same length that have a valid checksum and another
 * meaning. */
static void put_other_bytes(struct fg_disk_cache *disk)
{
    struct fg_disk_file *files[DISK_FILES_MAX];
    struct fg_disk_entry entry;
    struct fg_err err;
    unsigned n;

    asker_must(fg_disk_files_open(disk_folder, files, &n, &err), &err);
    for (unsigned i = 0; i < n; i++) {
        for (uint64_t at = 0; fg_disk_file_next(files[i], &at, &entry);) {
            uint8_t *bytes = fg_calloc(1, (size_t)entry.key.len);

            fg_disk_cache_drop(disk, &entry.key);
            fg_disk_cache_put(disk, &entry.key, fg_bytes(bytes, (size_t)entry.key.len));
            free(bytes);
        }
        fg_disk_file_close(files[i]);
    }
    fg_disk_cache_settle(disk);
}

static uint64_t fetched_bytes(const struct asker *asker)
{
    return fg_metric_get(asker_blocks(asker)->metrics, BLOCKS_FETCHED_BYTES);
}

/* Values on the disk are not requested again, except for damaged ones. */
static void disk_cache_does_not_change_results(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    uint64_t hits, faults, fetched;
    struct asker asker = {.random = 3};

    (void)state;
    (void)snprintf(disk_folder, sizeof disk_folder, "/tmp/flamegrid-blocks-test.XXXXXX");
    assert_non_null(mkdtemp(disk_folder));
    asker.disk = open_disk(registry);
    asker_init(&asker, 3, 0, NULL);
    for (unsigned i = 0; i < 30; i++) {
        world_push(&asker.world, 20);
        asker_happen(&asker, ASKER_COMMIT + i % 3);
        fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
        ask_some(&asker, 10);
    }
    hits = fg_disk_cache_stats(asker.disk).hits;
    assert_true(hits > 100);

    fg_disk_cache_close(asker.disk); /* for the disk cache this is a restart */
    asker.disk = asker.querier->blocks->disk = open_disk(registry);
    asker.random = 3;
    ask_some(&asker, 100);
    asker.random = 3;
    fetched = fetched_bytes(&asker);
    ask_some(&asker, 100); /* the same queries */
    assert_true(fetched_bytes(&asker) == fetched);

    put_other_bytes(asker.disk);
    faults = fg_disk_cache_stats(asker.disk).faults;
    ask_some(&asker, 100);
    assert_true(fg_disk_cache_stats(asker.disk).faults > faults);
    assert_true(fetched_bytes(&asker) > fetched);
    asker_done(&asker);
    fg_disk_cache_close(asker.disk);
    fg_registry_destroy(registry);
    (void)remove_tree(disk_folder);
}

enum { KEPT_QUESTIONS = 8 };

/* Flame graphs that were asked before, while what they are about changes or does not. */
static void pieces_do_not_change_flame_graphs(void **state)
{
    const uint64_t cache_bytes = 64 << 20;
    uint64_t questions[KEPT_QUESTIONS] = {0};
    struct asker asker = {.random = 11, .keeps_all = true};
    const struct fg_metrics *metrics;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 11, cache_bytes, NULL);
    metrics = asker_blocks(&asker)->metrics;
    for (unsigned i = 0; i < 40; i++) {
        world_push(&asker.world, 20);
        if (i % 2 == 0)
            asker_happen(&asker, ASKER_COMMIT);
        asker_happen_any(&asker, ASKER_HAPPENINGS);
        fg_clock_manual_advance(&asker.clock, FG_MINUTE_NS);
        questions[i % KEPT_QUESTIONS] = asker.random;
        asker_must(asker_check_flamegraph(&asker, &err), &err);
        /* Each twice: the first time pieces are made of what is new. */
        for (unsigned k = 0; k < 2 * KEPT_QUESTIONS; k++) {
            const uint64_t random = asker.random;

            asker.random = questions[k / 2];
            asker_must(asker_check_flamegraph(&asker, &err), &err);
            asker.random = random;
        }
    }
    assert_true(fg_metric_get(metrics, BLOCKS_PIECES_MADE) > 20);
    assert_true(fg_metric_get(metrics, BLOCKS_PIECES_CACHED) > 60);
    asker_done(&asker);
}

/* Other tenants have all requests that there are: each query sends one at a time, and comes to its
 * end. */
static void others_requests_do_not_stop_a_query(void **state)
{
    const uint64_t other = 1;
    struct asker asker = {.random = 5};
    struct qry_loads *loads;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 3, 0, NULL);
    world_settle(&asker.world);
    loads = &asker_blocks(&asker)->loads;
    loads->shared = true;
    qry_loads_add(loads, other, LOADS_MAX);
    for (unsigned i = 0; i < 100; i++)
        asker_must(asker_check_any(&asker, true, &err), &err);
    assert_int_equal(atomic_load(&loads->all), LOADS_MAX);
    assert_int_equal(atomic_load(qry_loads_of(loads, other)), LOADS_MAX);
    asker_done(&asker);
}

/* Passes requests on, and looks at whose they are. */
struct watch {
    struct fg_bucket bucket, *inner;
    struct qry_loads *loads;
    uint64_t flow;
    unsigned theirs, others;
};

static void watch_send(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct watch *watch = fg_container(bucket, struct watch, bucket);
    unsigned all = atomic_load(&watch->loads->all);
    unsigned of = atomic_load(qry_loads_of(watch->loads, watch->flow));

    watch->theirs += of;
    watch->others += all - of;
    fg_bucket_send(watch->inner, request);
}

static void watch_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    fg_bucket_cancel(fg_container(bucket, struct watch, bucket)->inner, request);
}

/* The query of a rule is one of its own, and yet what it reads counts for the tenant. */
static void a_rule_reads_for_its_tenant(void **state)
{
    static const struct fg_bucket_ops ops = {.send = watch_send, .cancel = watch_cancel};
    char matcher[] = "{__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\"}";
    char id[] = "a", metric[] = "m", *matchers[] = {matcher};
    Settings__V1__RecordingRule message = SETTINGS__V1__RECORDING_RULE__INIT;
    struct asker asker = {.random = 5, .keeps_all = true};
    struct qry_rule_values *values;
    struct qry_query *query;
    struct qry_rule rule;
    struct fg_err err;

    (void)state;
    asker_init(&asker, 3, 0, NULL);
    world_settle(&asker.world);
    message.id = id;
    message.metric_name = metric;
    message.generation = 1;
    message.matchers = matchers;
    message.n_matchers = 1;
    query = asker_begin(&asker, 1);
    query->flow.id = 77;
    struct watch watch = {.bucket = {.ops = &ops},
                          .inner = asker_blocks(&asker)->bucket,
                          .loads = &asker_blocks(&asker)->loads,
                          .flow = query->flow.id};
    asker_blocks(&asker)->bucket = &watch.bucket;
    asker_must(qry_rule_read(&message, query->arena, &rule, &err), &err);
    for (uint32_t i = 0; i < FG_MIN(asker.world.n_profiles, 20U); i++) {
        int64_t minute_ns = asker.world.profiles[i].time_ns / FG_MINUTE_NS * FG_MINUTE_NS;

        asker_must(qry_rule_evaluate(query, &rule, minute_ns, 100, &values, &err), &err);
        qry_rule_values_destroy(values);
    }
    assert_true(watch.theirs > 0);
    assert_int_equal(watch.others, 0);
    qry_rule_done(&rule);
    asker_end(query);
    asker_blocks(&asker)->bucket = watch.inner;
    asker_done(&asker);
}

/* --- memory --- */

static void cache_stays_within_its_limit(void **state)
{
    static const uint64_t bounds[] = {0, 20000, 200000, UINT64_C(64) << 20};
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bounds); i++) {
        struct asker asker = {.random = 7};
        uint64_t before;

        asker_init(&asker, 3, bounds[i], NULL);
        world_settle(&asker.world);
        for (unsigned k = 0; k < 200; k++) {
            asker_must(asker_check_any(&asker, true, &err), &err);
            assert_true(asker_cache(&asker).bytes <= bounds[i]);
        }
        if (bounds[i] == 0)
            assert_int_equal(asker_cache(&asker).entries, 0);
        /* Values that fit into the cache are not requested again. */
        before = fg_metric_get(asker_blocks(&asker)->metrics, BLOCKS_CACHE_MISSES);
        asker.random = 7;
        for (unsigned k = 0; k < 200; k++)
            asker_must(asker_check_any(&asker, true, &err), &err);
        if (i + 1 == FG_COUNT(bounds))
            assert_true(fg_metric_get(asker_blocks(&asker)->metrics, BLOCKS_CACHE_MISSES) ==
                        before);
        asker_done(&asker);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disk_cache_does_not_change_results),
        cmocka_unit_test(pieces_do_not_change_flame_graphs),
        cmocka_unit_test(others_requests_do_not_stop_a_query),
        cmocka_unit_test(a_rule_reads_for_its_tenant),
        cmocka_unit_test(cache_stays_within_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
