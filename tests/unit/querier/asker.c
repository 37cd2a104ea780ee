#include "tests/unit/querier/asker.h"

#include "common/net/http/impl.h"
#include "querier/blocks/blocks_impl.h"
#include "querier/fanout.h"
#include "querier/querier.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void asker_must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s: %s", fg_code_name(code), err->msg);
}

/* Threads that help the test's own thread with queries. */
static struct fg_work *make_workers(unsigned threads)
{
    const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_QUERY] = {.threads = threads, .queue_max = 16}};
    struct fg_work *work = NULL;
    struct fg_err err;

    assert_int_equal(fg_work_create("tst", lanes, &work, &err), FG_OK);
    return work;
}

void asker_init(struct asker *asker, uint64_t seed, uint64_t cache_max_bytes,
                const struct fg_bucket_faults *faults)
{
    world_init(&asker->world, seed);
    fg_clock_manual_init(&asker->clock, asker->world.end_ns);
    asker->work = make_workers((unsigned)(seed % 4));
    asker->registry = fg_registry_create();
    asker->faulty = faults == NULL ? NULL : fg_bucket_faulty_create(asker->world.bucket, faults);
    asker->querier = qry_create(&(struct qry_config){
        .ingester = &asker->world.peer,
        .work = asker->work,
        .registry = asker->registry,
        .clock = &asker->clock.clock,
        .bucket = faults == NULL ? asker->world.bucket : fg_bucket_faulty_bucket(asker->faulty),
        .cache_max_bytes = cache_max_bytes,
        .fetch_max_bytes = 64 * 1024,
        .manifest_age_ns = 10 * FG_SECOND_NS,
        .disk = asker->disk,
    });
    /* Some of these small objects are read section by section, like large ones. */
    asker->querier->blocks->whole_max_bytes = (uint32_t)(seed % 3 * 3000);
    asker->querier->blocks->before_max_bytes = (uint32_t)(seed % 2 * 500);
    asker->world.stripes_permille = seed % 2 == 0 ? 0 : 800;
}

void asker_done(struct asker *asker)
{
    qry_destroy(asker->querier);
    fg_work_destroy(asker->work);
    if (asker->faulty != NULL)
        fg_bucket_close(fg_bucket_faulty_bucket(asker->faulty));
    fg_registry_destroy(asker->registry);
    world_done(&asker->world);
}

void asker_help_with(struct asker *asker, unsigned threads)
{
    fg_work_destroy(asker->work);
    asker->work = asker->querier->work = make_workers(threads);
}

struct qry_blocks *asker_blocks(const struct asker *asker)
{
    return asker->querier->blocks;
}

struct fg_cache_stats asker_cache(const struct asker *asker)
{
    return fg_cache_stats(asker_blocks(asker)->cache);
}

/* --- what happens --- */

void asker_happen(struct asker *asker, uint64_t what)
{
    struct world *world = &asker->world;

    switch (what) {
    case ASKER_PUSH:
        world_push(world, 40);
        break;
    case ASKER_COMMIT:
        world_commit(world, 600);
        break;
    case ASKER_COMPACT:
        world_compact(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    case ASKER_JOIN:
        world_join(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    case ASKER_RETIRE:
        world_retire(world);
        break;
    case ASKER_SWEEP:
        world_sweep(world);
        break;
    case ASKER_FORGET:
        world_forget(world);
        break;
    case ASKER_DELETE: /* the writer of the manifest tells the querier */
        world_delete(world, (uint32_t)world_random(world, WORLD_TENANTS));
        qry_refresh(asker->querier);
        break;
    default:
        world_undelete(world, (uint32_t)world_random(world, WORLD_TENANTS));
        break;
    }
}

void asker_happen_any(struct asker *asker, uint64_t happenings)
{
    static const unsigned of_blocks[] = {ASKER_COMMIT, ASKER_COMPACT, ASKER_COMPACT};
    struct world *world = &asker->world;

    if (world->rollups_permille == 0 || world_random(world, 2) == 0)
        asker_happen(asker, world_random(world, happenings));
    else if (world_random(world, 4) == 0)
        world_sum(world, (uint32_t)world_random(world, WORLD_TENANTS));
    else
        asker_happen(asker, of_blocks[world_random(world, FG_COUNT(of_blocks))]);
}

/* --- queries --- */

struct qry_query *asker_begin(struct asker *asker, uint32_t tenants)
{
    static struct fg_http_request nobody; /* its client never disconnects */
    struct qry_query *query = fg_new(struct qry_query);

    query->querier = asker->querier;
    query->req = &nobody;
    query->deadline_mono_ns = INT64_MAX;
    query->arena = fg_arena_create(ASKER_ARENA_BYTES);
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
    query->partial = asker->partial;
    for (uint32_t t = 0; t < WORLD_TENANTS; t++)
        if ((tenants >> t & 1) != 0)
            query->tenants.ids[query->tenants.n++] = asker->world.tenants[t];
    return query;
}

void asker_end(struct qry_query *query)
{
    qry_fanout_end(query);
    fg_buf_done(&query->missing);
    fg_arena_destroy(query->arena);
    free(query);
}

enum fg_code asker_whole(const struct qry_query *query, enum fg_code code, struct fg_err *err)
{
    if (code != FG_OK || !query->incomplete)
        return code;
    return fg_fail(err, FG_E_UNAVAILABLE, "not complete: %.*s",
                   FG_S(fg_buf_slice(&query->missing)));
}

enum fg_code asker_ask_all(struct asker *asker, bool names_only, struct fg_err *err)
{
    static const struct qry_stack_filter all;
    struct qry_query *query = asker_begin(asker, 7);
    struct qry_selection selection = {
        .type_text = asker_types[0], .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    struct fg_tree tree;

    fg_tree_init(&tree);
    enum fg_code code =
        asker_whole(query, qry_collect_tree(query, &selection, &all, names_only, &tree, err), err);
    fg_tree_done(&tree);
    asker_end(query);
    return code;
}

uint64_t asker_draw(struct asker *asker, uint64_t below)
{
    asker->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(asker->random) % below;
}

static const char *const selectors[] = {
    "{}",
    "{service_name=\"api\"}",
    "{service_name=\"shop\"}",
    "{service_name=~\"api|web\"}",
    "{service_name!=\"api\"}",
    "{service_name=\"nowhere\"}",
    "{pod=\"p1\"}",
    "{pod=~\"p[02]\",zone=\"\"}",
    "{zone!=\"\"}",
    "{zone=\"a\",service_name=\"web\"}",
    "{__type__=\"cpu\"}",
    "{__profile_type__=~\"memory:.*\"}",
};

const char *const asker_types[ASKER_TYPES] = {
    "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
    "process_cpu:samples:count:cpu:nanoseconds",
    "memory:alloc_objects:count:space:bytes",
    "memory:inuse_space:bytes:space:bytes",
    "nothing:of:the:same:kind",
};

static int64_t draw_time(struct asker *asker)
{
    int64_t on_grid =
        asker->world.start_ns + ((int64_t)asker_draw(asker, 380) - 10) * 10 *
                                    FG_SECOND_NS; /* on seconds, like the times of profiles */

    switch (asker_draw(asker, 7)) {
    case 0:
        return on_grid - 1;
    case 1:
        return on_grid + 1;
    default:
        return on_grid;
    }
}

/* The selectors still belong to the world. */
static void expect_deletions(struct asker *asker, struct ask *ask)
{
    struct qry_query *query = ask->query;
    struct fg_err err;

    for (uint32_t t = 0, at = 0; t < WORLD_TENANTS; t++) {
        struct fg_deletion old = {.start_ns = INT64_MIN};

        for (uint32_t i = 0; i < asker->world.deletions[t].count; i++)
            assert_int_equal(fg_deletions_add(&ask->deletions[t],
                                              &asker->world.deletions[t].items[i], query->arena,
                                              &err),
                             FG_OK);
        if ((ask->asked.tenants >> t & 1) == 0 || asker_draw(asker, 3) > 0 || asker->keeps_all) {
            at += ask->asked.tenants >> t & 1;
            continue;
        }
        query->retention_ns[at++] = FG_MINUTE_NS * (int64_t)(1 + asker_draw(asker, 80));
        old.end_ns = fg_wall_ns(&asker->clock.clock) - query->retention_ns[at - 1] - 1;
        assert_int_equal(fg_deletions_add(&ask->deletions[t], &old, query->arena, &err), FG_OK);
    }
    ask->asked.deletions = ask->deletions;
}

void ask_begin(struct asker *asker, struct ask *ask)
{
    uint32_t tenants = asker_draw(asker, 3) == 0 ? 1 + (uint32_t)asker_draw(asker, 7)
                                                 : 1u << asker_draw(asker, WORLD_TENANTS);
    struct fg_err err;

    *ask = (struct ask){.query = asker_begin(asker, tenants)};
    assert_int_equal(fg_selector_parse(fg_cstr(selectors[asker_draw(asker, FG_COUNT(selectors))]),
                                       ask->query->arena, &ask->selection.selector, &err),
                     FG_OK);
    ask->selection.type_text = asker_types[asker_draw(asker, FG_COUNT(asker_types))];
    ask->selection.start_ns = draw_time(asker);
    ask->selection.end_ns = draw_time(asker);
    if (ask->selection.start_ns > ask->selection.end_ns) {
        int64_t start_ns = ask->selection.end_ns;

        ask->selection.end_ns = ask->selection.start_ns;
        ask->selection.start_ns = start_ns;
    }
    ask->asked = (struct world_query){.tenants = tenants,
                                      .selector = &ask->selection.selector,
                                      .type = ask->selection.type_text,
                                      .start_ns = ask->selection.start_ns,
                                      .end_ns = ask->selection.end_ns};
    expect_deletions(asker, ask);
}

void ask_for_all_time(struct ask *ask)
{
    ask->selection.start_ns = ask->asked.start_ns = INT64_MIN;
    ask->selection.end_ns = ask->asked.end_ns = INT64_MAX;
}

void ask_end(struct ask *ask)
{
    qry_selection_done(&ask->selection);
    asker_end(ask->query);
}

void asker_draw_stacks(struct asker *asker, struct qry_stack_filter *stacks, struct fg_arena *arena)
{
    const struct world_profile *some =
        &asker->world.profiles[asker_draw(asker, asker->world.n_profiles)];

    *stacks = (struct qry_stack_filter){0};
    switch (asker_draw(asker, 5)) {
    case 0: { /* the outermost functions of some stack */
        static const char *const names[] = {"f0", "f1",  "f2",          "f3",        "f4",
                                            "f5", "0x5", "x.so+0x1005", "[no stack]"};

        stacks->call_site = fg_arena_new(arena, const char *, 2);
        stacks->call_site[0] = names[asker_draw(asker, FG_COUNT(names))];
        stacks->call_site[1] = names[asker_draw(asker, FG_COUNT(names))];
        stacks->n_call_site = 1 + asker_draw(asker, 2);
        break;
    }
    case 1:
        stacks->n_spans = 1 + asker_draw(asker, 2);
        stacks->spans = fg_arena_new(arena, uint64_t, 2);
        stacks->spans[0] = asker_draw(asker, 20);
        stacks->spans[1] = 3;
        break;
    case 2:
        stacks->n_traces = 1;
        stacks->traces = fg_arena_new(arena, ProtobufCBinaryData, 1);
        stacks->traces[0].len = FG_ID_BYTES;
        stacks->traces[0].data = fg_arena_new(arena, uint8_t, FG_ID_BYTES);
        stacks->traces[0].data[0] = (uint8_t)asker_draw(asker, 5);
        break;
    case 3: /* one that exists, perhaps not in the range, and one that does not */
        stacks->n_profile_ids = 2;
        stacks->profile_ids = fg_arena_new(arena, ProtobufCBinaryData, 2);
        for (size_t i = 0; i < 2; i++) {
            stacks->profile_ids[i].len = FG_ID_BYTES;
            stacks->profile_ids[i].data = fg_arena_new(arena, uint8_t, FG_ID_BYTES);
        }
        fg_id_put(stacks->profile_ids[0].data, some->id);
        break;
    default:
        break;
    }
}
