/* What documents of usage say, against a second count of what arrived, in the slow and obvious
 * form. */
#include "common/cluster/usage/documents.h"
#include "common/cluster/usage/query_counts.h"
#include "common/runtime/log.h"
#include "tests/lib/seeds.h"
#include "tests/unit/compactor/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAYS = 64, FIRST = 47500 - 20 /* days before WORLD_NOW may get late data */ };

/* All that arrived; the world's own list loses what is deleted. */
struct arrived {
    struct made_profile *profiles;
    size_t n, cap;
};

/* What was counted of a tenant on a day, of each service and in all. */
struct counted {
    uint64_t profiles[MADE_SERVICES];
    struct fg_usage usage[MADE_SERVICES];
};

/* A segment of n profiles, which are counted. */
static void arrive(struct world *world, struct arrived *arrived, size_t n, int64_t until_ns,
                   int64_t span_ns)
{
    world_arrive(world, n, until_ns, span_ns);
    if (arrived->n + n > arrived->cap) {
        arrived->cap = 2 * (arrived->n + n);
        arrived->profiles = fg_realloc(arrived->profiles, arrived->cap * sizeof *arrived->profiles);
    }
    memcpy(&arrived->profiles[arrived->n], &world->profiles[world->n_profiles - n],
           n * sizeof *arrived->profiles);
    arrived->n += n;
}

static struct counted count(const struct arrived *arrived, uint32_t tenant, int32_t day)
{
    struct counted counted = {{0}, {{0}}};

    for (size_t i = 0; i < arrived->n; i++) {
        const struct made_profile *profile = &arrived->profiles[i];

        if (profile->tenant != tenant || profile->time_ns / FG_USAGE_DAY_NS != day)
            continue;
        counted.profiles[profile->service]++;
        fg_usage_count(&counted.usage[profile->service], made_size(profile), profile->n_samples);
    }
    return counted;
}

/* ---- documents ---- */

static struct fg_usage_documents documents_of(struct world *world)
{
    return (struct fg_usage_documents){
        .bucket = world->memory, .clock = &world->clock.clock, .timeout_ns = FG_MINUTE_NS};
}

/* Reads the newest document of the day. Returns false if there is none. */
static bool read_newest(struct world *world, uint32_t tenant, int32_t day, struct fg_arena *arena,
                        struct fg_usage_document *ret_document)
{
    struct fg_usage_documents documents = documents_of(world);
    struct fg_slice name = fg_cstr(made_tenant(tenant));
    struct fg_usage_newest *newest;
    struct fg_err err;
    uint32_t n;

    world_must(
        fg_usage_documents_list(&documents, name, day, day, UINT64_MAX, arena, &newest, &n, &err),
        &err);
    if (n == 0)
        return false;
    assert_int_equal(n, 1);
    world_must(fg_usage_documents_read(&documents, name, day, newest[0].version, arena,
                                       ret_document, &err),
               &err);
    return true;
}

static void expect_row(const struct fg_usage_day *sums, uint32_t service,
                       const struct counted *counted)
{
    struct fg_slice name = fg_cstr(made_service(service));
    const struct fg_usage_row *row = NULL;

    for (uint32_t i = 0; i < sums->n_rows; i++)
        if (fg_slice_eq(sums->rows[i].service, name))
            row = &sums->rows[i];
    if (counted->profiles[service] == 0) {
        assert_null(row);
        return;
    }
    assert_non_null(row);
    assert_int_equal(row->profiles, counted->profiles[service]);
    assert_true(fg_usage_eq(&row->usage, &counted->usage[service]));
}

/* Asserts that the newest documents of all days have exactly what arrived. */
static void expect_documents(struct world *world, const struct arrived *arrived)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);

    for (uint32_t tenant = 0; tenant < MADE_TENANTS; tenant++)
        for (int32_t day = FIRST; day < FIRST + DAYS; day++) {
            struct counted counted = count(arrived, tenant, day);
            struct fg_usage_document document = {.version = 0};

            (void)read_newest(world, tenant, day, arena, &document);
            for (uint32_t service = 0; service < MADE_SERVICES; service++)
                expect_row(&document.sums, service, &counted);
            fg_arena_reset(arena);
        }
    fg_arena_destroy(arena);
}

/* Every version that was ever there. */
struct versions {
    char names[4096][FG_NAME_MAX_BYTES];
    struct fg_id digests[4096];
    size_t n;
};

struct looking {
    struct world *world;
    struct versions *versions;
    size_t seen;
};

static bool look_at_version(const struct fg_bucket_entry *entry, void *arg)
{
    struct looking *looking = arg;
    struct versions *versions = looking->versions;
    struct fg_usage_name name;
    struct fg_buf bytes;
    struct fg_id digest;
    size_t i = 0;

    assert_true(fg_name_parse_usage(fg_cstr(entry->name), &name));
    world_get(looking->world, entry->name, &bytes);
    digest = fg_hash128(fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    looking->seen++;
    while (i < versions->n && strcmp(versions->names[i], entry->name) != 0)
        i++;
    if (i == versions->n) {
        assert_true(versions->n < FG_COUNT(versions->names));
        (void)snprintf(versions->names[i], FG_NAME_MAX_BYTES, "%s", entry->name);
        versions->digests[i] = digest;
        versions->n++;
    }
    assert_true(fg_id_eq(versions->digests[i], digest)); /* it has not changed */
    return true;
}

/* Asserts that all versions of before are there as they were, and remembers new ones. */
static void expect_kept(struct world *world, struct versions *versions)
{
    struct looking looking = {world, versions, 0};
    struct fg_err err;

    world_must(
        fg_bucket_each(world->memory, "usage/days/", false, 0, look_at_version, &looking, &err),
        &err);
    assert_int_equal(looking.seen, versions->n);
}

/* ---- the property ---- */

static uint64_t draw(struct world *world, uint64_t below)
{
    static uint64_t step;

    return fg_mix64(world->seed * 1000003 + ++step) % below;
}

static bool not_of_shop(const struct made_profile *profile)
{
    return profile->tenant != 0 || profile->service != 2;
}

/* An hour: profiles of now, late ones of a day before, a compactor that dies, and another one that
 * believes that the tenants are its own. */
static void live_an_hour(struct world *world, struct arrived *arrived, struct cmp_compaction *other)
{
    struct fg_err err;

    world_pass_time(world, FG_HOUR_NS);
    arrive(world, arrived, 1 + draw(world, 8), world->clock.wall_ns, FG_HOUR_NS);
    if (draw(world, 6) == 0)
        arrive(world, arrived, 1 + draw(world, 3),
               world->clock.wall_ns - (int64_t)draw(world, 5) * FG_USAGE_DAY_NS, FG_USAGE_DAY_NS);
    if (draw(world, 5) == 0) {
        world->mortal.left = draw(world, 60);
        world_try_round(world);
        world->mortal.left = UINT64_MAX;
        world_restart(world);
    }
    if (draw(world, 3) == 0)
        (void)!cmp_compaction_pass(other, &err);
    if (draw(world, 2) == 0)
        world_try_round(world);
}

static void run_days(uint64_t seed)
{
    struct world *world = fg_new(struct world);
    struct versions *versions = fg_new(struct versions);
    struct arrived arrived = {NULL, 0, 0};
    struct cmp_compaction *other;
    struct cmp_config config;
    char scratch[80];
    struct fg_err err;

    world_open(world, seed);
    (void)snprintf(scratch, sizeof scratch, "%s-other", world->scratch);
    config = world->config;
    config.scratch = scratch;
    world_must(cmp_compaction_create(&config, NULL, &other, &err), &err);
    for (int hour = 0; hour < 7 * 24; hour++) {
        live_an_hour(world, &arrived, other);
        if (hour == 3 * 24 + 5) {
            world_bury(world, "{service_name=\"shop\"}", 0, world->clock.wall_ns);
            world_keep(world, not_of_shop);
        }
        expect_kept(world, versions);
    }
    for (int hour = 0; hour < 3 * 24; hour++) { /* until all is documented */
        world_pass_time(world, FG_HOUR_NS);
        world_try_round(world);
        expect_kept(world, versions);
    }
    expect_documents(world, &arrived);
    assert_in_range(versions->n, 2 * 9, FG_COUNT(versions->names));
    cmp_compaction_destroy(other);
    assert_int_equal(rmdir(scratch), 0);
    world_close(world);
    free(arrived.profiles);
    free(versions);
    free(world);
}

static void documents_have_what_arrived_to_the_byte(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(2); seed++)
        run_days(seed);
}

/* ---- single days ---- */

/* Lets the hours of a day pass, with profiles in each. */
static void pass_a_day(struct world *world, struct arrived *arrived)
{
    for (int hour = 0; hour < 24; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        arrive(world, arrived, 6, world->clock.wall_ns, FG_HOUR_NS);
        world_turn(world);
    }
}

static uint64_t series_that_arrived(const struct arrived *arrived, uint32_t tenant,
                                    uint32_t service, int32_t day)
{
    uint64_t seen = 0;

    for (size_t i = 0; i < arrived->n; i++) {
        const struct made_profile *profile = &arrived->profiles[i];

        if (profile->tenant == tenant && profile->service == service &&
            profile->time_ns / FG_USAGE_DAY_NS == day)
            seen |= UINT64_C(1) << (profile->instance * 2 + profile->schema);
    }
    return (uint64_t)__builtin_popcountll(seen);
}

static void a_day_has_its_distinct_series(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};
    int32_t day = 47500;

    (void)state;
    world_open(world, 5);
    pass_a_day(world, &arrived);
    for (int hour = 0; hour < 3; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    for (uint32_t tenant = 0; tenant < MADE_TENANTS; tenant++) {
        assert_true(read_newest(world, tenant, day, arena, &document));
        assert_int_equal(document.revision, 1);
        assert_int_equal(document.sums.n_rows, MADE_SERVICES);
        for (uint32_t service = 0; service < MADE_SERVICES; service++)
            assert_int_equal(document.sums.rows[service].series,
                             series_that_arrived(&arrived, tenant, service, day));
    }
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

/* Late data makes a second version, with the next day's documents; the first one stays. */
static void late_data_is_a_correction(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document first, second;
    uint64_t more = 0;

    (void)state;
    world_open(world, 6);
    pass_a_day(world, &arrived);
    world_pass_time(world, 3 * FG_HOUR_NS);
    world_turn(world);
    assert_true(read_newest(world, 0, 47500, arena, &first));
    arrive(world, &arrived, 30, WORLD_NOW + FG_USAGE_DAY_NS, FG_USAGE_DAY_NS);
    for (size_t i = arrived.n - 30; i < arrived.n; i++)
        more += arrived.profiles[i].tenant == 0 &&
                arrived.profiles[i].time_ns < WORLD_NOW + FG_USAGE_DAY_NS;
    for (int hour = 0; hour < 25; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    assert_true(read_newest(world, 0, 47500, arena, &second));
    assert_int_equal(second.revision, 2);
    assert_int_equal(second.before, first.version);
    assert_int_equal(fg_usage_day_total(&second.sums).profiles,
                     fg_usage_day_total(&first.sums).profiles + more);
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

static uint64_t live_bytes(struct world *world, uint32_t tenant)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *blocks = NULL;
    struct fg_err err;
    uint64_t bytes = 0;

    world_must(cmp_env_read_manifest(&env, fg_cstr(made_tenant(tenant)), &blocks, &err), &err);
    for (uint32_t i = 0; i < blocks->blocks.n_blocks; i++)
        bytes += blocks->blocks.blocks[i].bytes;
    fg_manifest_unref(blocks);
    return bytes;
}

/* What was live after each round, for the hour until the next one. */
static void stored_bytes_are_those_of_live_blocks_over_time(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};
    uint64_t byte_hours = 0;

    (void)state;
    world_open(world, 7);
    for (int hour = 0; hour < 48; hour++) {
        if (hour >= 24) /* the second day, from its first moment */
            byte_hours += live_bytes(world, 0);
        world_pass_time(world, FG_HOUR_NS);
        arrive(world, &arrived, 6, world->clock.wall_ns, FG_HOUR_NS);
        world_turn(world);
    }
    world_pass_time(world, 3 * FG_HOUR_NS);
    world_turn(world);
    assert_true(read_newest(world, 0, 47501, arena, &document));
    assert_true(byte_hours > 0);
    assert_int_equal(document.sums.stored.byte_days * FG_USAGE_DAY_S +
                         document.sums.stored.byte_seconds,
                     byte_hours * 3600);
    assert_true(document.sums.writes >= 24);
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

/* Takes the ledger away, as if a version without one had written the manifest. */
static void forget_ledger(struct world *world, uint32_t tenant)
{
    struct cmp_env env = world_env(world);
    struct fg_manifest *manifest = NULL;
    struct fg_blocks blocks;
    char name[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    struct fg_err err;

    world_must(cmp_env_read_manifest(&env, fg_cstr(made_tenant(tenant)), &manifest, &err), &err);
    blocks = manifest->blocks;
    blocks.ledger = (struct fg_ledger){.version = 0};
    fg_buf_init(&bytes, FG_MANIFEST_MAX_BYTES);
    world_must(fg_blocks_encode(&blocks, &bytes, &err), &err);
    world_must(fg_name_blocks(name, fg_cstr(made_tenant(tenant)), &err), &err);
    world_put(world, name, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    fg_manifest_unref(manifest);
}

/* It sends nothing any more, so no swap of a job would begin to count what it stores. */
static void a_tenant_of_an_older_version_is_billed_for_what_it_stores(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};

    (void)state;
    world_open(world, 11);
    pass_a_day(world, &arrived);
    for (int hour = 0; hour < 5 * 24; hour++) { /* all is merged and documented */
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    forget_ledger(world, 0);
    world_restart(world);
    for (int hour = 0; hour < 2 * 24 + 3; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    assert_true(read_newest(world, 0, 47500 + 7, arena, &document));
    assert_int_equal(document.sums.stored.byte_days, live_bytes(world, 0));
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

/* It sends nothing any more and nothing changes, so only the days themselves make swaps. */
static void an_idle_tenant_is_billed_for_each_day(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};
    uint64_t bytes;

    (void)state;
    world_open(world, 12);
    pass_a_day(world, &arrived);
    for (int hour = 0; hour < 5 * 24; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    bytes = live_bytes(world, 0);
    for (int hour = 0; hour < 10 * 24; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    world_pass_time(world, 7 * FG_USAGE_DAY_NS + 3 * FG_HOUR_NS); /* the compactor was off */
    world_turn(world);
    assert_int_equal(live_bytes(world, 0), bytes);
    for (int32_t day = 47500 + 6; day < 47500 + 23; day++) {
        assert_true(read_newest(world, 0, day, arena, &document));
        assert_int_equal(document.sums.stored.byte_days, bytes);
        assert_int_equal(document.sums.stored.byte_seconds, 0);
        assert_int_equal(document.sums.n_rows, 0);
        assert_int_equal(document.revision, 1);
    }
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

/* ---- failures ---- */

/* Damages the newest document of a day. Gives its name and what it was. */
static struct fg_buf damage_newest(struct world *world, uint32_t tenant, int32_t day,
                                   char ret_object[FG_NAME_MAX_BYTES])
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_name name = {.day = day};
    struct fg_usage_document document = {.version = 0};
    struct fg_buf was;
    struct fg_err err;

    assert_true(read_newest(world, tenant, day, arena, &document));
    (void)snprintf(name.tenant, sizeof name.tenant, "%s", made_tenant(tenant));
    name.version = document.version;
    world_must(fg_name_usage(ret_object, &name, &err), &err);
    world_get(world, ret_object, &was);
    world_put(world, ret_object, FG_LIT("damaged"));
    fg_arena_destroy(arena);
    return was;
}

static bool condition_is_raised(struct fg_conditions *conditions, const char *name)
{
    struct fg_buf text;
    bool raised;

    fg_buf_init(&text, SIZE_MAX);
    fg_conditions_write(conditions, &text);
    raised = fg_slice_search(fg_buf_slice(&text), name) != SIZE_MAX;
    fg_buf_done(&text);
    return raised;
}

/* A correction of a damaged document fails until somebody puts the document back. Meanwhile all is
 * merged, others are billed, and nothing is lost. */
static void compaction_does_not_wait_for_bills(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};
    struct fg_conditions *conditions;
    char object[FG_NAME_MAX_BYTES];
    struct fg_buf was;

    (void)state;
    world_open(world, 13);
    conditions = fg_conditions_create(world->registry);
    world->config.conditions = conditions;
    world_restart(world);
    pass_a_day(world, &arrived);
    world_pass_time(world, 3 * FG_HOUR_NS);
    world_turn(world);
    was = damage_newest(world, 0, 47500, object);
    arrive(world, &arrived, 40, WORLD_NOW + FG_USAGE_DAY_NS, FG_USAGE_DAY_NS); /* late */
    for (int hour = 0; hour < 30; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        arrive(world, &arrived, 6, world->clock.wall_ns, FG_HOUR_NS);
        world_turn(world);
    }
    world_expect_status(world, "\"usage_error\":\"usage: usage/days/acme/2100-01-19/");
    assert_true(condition_is_raised(conditions, "usage_undocumented"));
    assert_false(condition_is_raised(conditions, "tenants_failing"));
    assert_true(world_shape_of(world).segments < 5);
    assert_true(read_newest(world, 1, 47501, arena, &document));

    world_put(world, object, fg_buf_slice(&was));
    for (int hour = 0; hour < 3 * 24; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    assert_false(condition_is_raised(conditions, "usage_undocumented"));
    expect_documents(world, &arrived);
    fg_buf_done(&was);
    fg_arena_destroy(arena);
    world_close(world);
    fg_conditions_destroy(conditions);
    free(arrived.profiles);
    free(world);
}

/* All jobs fail for lack of memory. The days are documented without what was not merged, which is a
 * correction later. */
static void bills_do_not_wait_for_compaction(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};
    uint64_t memory, profiles;

    (void)state;
    world_open(world, 14);
    pass_a_day(world, &arrived);
    memory = world->settings.memory_max_bytes;
    world->settings.memory_max_bytes = 4096;
    world_restart(world);
    for (int hour = 0; hour < 7; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        arrive(world, &arrived, 6, world->clock.wall_ns - 20 * FG_HOUR_NS, FG_HOUR_NS);
        world_turn(world);
    }
    assert_false(read_newest(world, 0, 47500, arena, &document)); /* it may be well again soon */
    for (int hour = 0; hour < 2; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    assert_true(read_newest(world, 0, 47500, arena, &document));
    assert_true(document.sums.stored.byte_days + document.sums.stored.byte_seconds > 0);
    profiles = fg_usage_day_total(&document.sums).profiles;

    world->settings.memory_max_bytes = memory;
    world_restart(world);
    for (int hour = 0; hour < 3 * 24; hour++) {
        world_pass_time(world, FG_HOUR_NS);
        world_turn(world);
    }
    assert_true(read_newest(world, 0, 47500, arena, &document));
    assert_int_equal(document.revision, 2);
    assert_true(fg_usage_day_total(&document.sums).profiles > profiles);
    expect_documents(world, &arrived);
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

/* ---- queries ---- */

static void put_counts(struct world *world, int32_t day, uint64_t process, const char *tenant,
                       uint64_t queries)
{
    const struct fg_query_counts_name name = {day, process, 1};
    const struct fg_usage_queries took = {queries, 2 * queries, 100 * queries, 7 * queries};
    struct fg_arena *arena = fg_arena_create(FG_QUERY_COUNTS_ARENA_BYTES);
    struct fg_query_counts counts = {.count = 0};
    char object[FG_NAME_MAX_BYTES];
    struct fg_buf bytes;
    struct fg_err err;

    assert_true(fg_query_counts_add(&counts, fg_cstr(tenant), &took, arena));
    fg_buf_init(&bytes, SIZE_MAX);
    world_must(fg_query_counts_encode(&counts, &bytes, &err), &err);
    fg_name_query_counts(object, &name);
    world_put(world, object, fg_buf_slice(&bytes));
    fg_buf_done(&bytes);
    fg_arena_destroy(arena);
}

/* Also when one object is damaged, which must not stop bills. */
static void queries_of_all_processes_are_added_up(void **state)
{
    struct world *world = fg_new(struct world);
    struct arrived arrived = {NULL, 0, 0};
    struct fg_arena *arena = fg_arena_create(SIZE_MAX / 2);
    struct fg_usage_document document = {.version = 0};

    (void)state;
    world_open(world, 8);
    arrive(world, &arrived, 10, world->clock.wall_ns + FG_HOUR_NS, FG_HOUR_NS);
    put_counts(world, 47500, 1, "acme", 3);
    put_counts(world, 47500, 2, "acme", 4);
    put_counts(world, 47500, 3, "zoo", 5);
    put_counts(world, 47501, 1, "acme", 1000);
    world_put(world, "usage/queries/2100-01-19/0000000000000009-0000000000000001",
              FG_LIT("damaged"));
    world_pass_time(world, 4 * FG_HOUR_NS);
    world_turn(world);
    world_pass_time(world, 22 * FG_HOUR_NS);
    world_turn(world);
    assert_true(read_newest(world, 0, 47500, arena, &document));
    assert_int_equal(document.sums.queries.queries, 7);
    assert_int_equal(document.sums.queries.requests, 14);
    assert_int_equal(document.sums.queries.read_bytes, 700);
    assert_int_equal(document.sums.queries.cpu_us, 49);
    assert_true(read_newest(world, 1, 47500, arena, &document));
    assert_int_equal(document.sums.queries.queries, 5);
    fg_arena_destroy(arena);
    world_close(world);
    free(arrived.profiles);
    free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_day_has_its_distinct_series),
        cmocka_unit_test(late_data_is_a_correction),
        cmocka_unit_test(stored_bytes_are_those_of_live_blocks_over_time),
        cmocka_unit_test(a_tenant_of_an_older_version_is_billed_for_what_it_stores),
        cmocka_unit_test(an_idle_tenant_is_billed_for_each_day),
        cmocka_unit_test(compaction_does_not_wait_for_bills),
        cmocka_unit_test(bills_do_not_wait_for_compaction),
        cmocka_unit_test(queries_of_all_processes_are_added_up),
        cmocka_unit_test(documents_have_what_arrived_to_the_byte),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
