/*
 * A whole ingester (segments, committer, intake, queries) on simulated threads, over a bucket
 * and a disk that fail for a while, are slow for a while, or fill up, and that is stopped, killed
 * and started again. After every answer: each profile that was acknowledged before is in it exactly
 * once, no other is in it twice. At the end, when nothing fails any more, all that was acknowledged
 * is committed within a bounded time, the head forgets it, and the ingester ends.
 */
#include "compactor/compaction.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/tenants.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"
#include "tests/sim/shells/objects.h"
#include "tests/sim/shells/run.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    SEEDS = 12,
    PUSHERS = 3,
    HEAD = 1, /* machines */
    COMPACTOR = 2,
};

static const char tenant[] = "tenant", type[] = "samples:count";
static const int64_t length_ns = 50 * FG_MINUTE_NS;
static const int64_t evict_after_ns = 2 * FG_MINUTE_NS;

/* When all is well: whoever asks is answered, what is there is committed, a head ends. Far beyond
 * what any timeout of production code allows for. */
static const int64_t answer_max_ns = 4 * FG_MINUTE_NS;
static const int64_t settle_max_ns = 90 * FG_MINUTE_NS;
static const int64_t compact_max_ns = 8 * FG_HOUR_NS;
/* Once it is told to end, while its disk is not slow. */
static const int64_t hurry_max_ns = 10 * FG_SECOND_NS;
static const int64_t stop_max_ns = 5 * FG_MINUTE_NS;

enum count {
    ACKED,
    DUPLICATES,
    REFUSED,
    READS,
    READS_INCOMPLETE,
    READS_REFUSED,
    FLUSHES,
    FLUSHES_FAILED,
    STOPS,
    KILLS,
    BUCKET_FAILED,
    DISK_FAILED,
    OBJECTS,
    BLOCKS,
};
static const char *const count_names[] = {
    "profiles",     "duplicates",           "pushes refused",
    "answers",      "incomplete",           "reads refused",
    "flushes",      "flushes that failed",  "orderly ends",
    "kills",        "requests that failed", "disk calls that failed",
    "objects read", "blocks left",
};

struct sent {
    int64_t time_ns;
    int64_t acked_mono_ns; /* 0: it is not */
    unsigned tries;        /* 0: it cannot be there */
};

struct compactor {
    struct fg_registry *registry;
    struct fg_limit_settings limits;
    struct fg_tenants *tenants;
    struct cmp_local_store store;
    struct cmp_compaction *compaction; /* NULL: it is down */
    struct sim_net *net;
    char scratch[64];
};

struct world {
    uint64_t *counts;
    struct faults faults;
    struct fg_bucket *bucket; /* what is really there */
    struct sim_disk *disk;
    struct sim_net *net;
    struct head *head; /* NULL: it is down */
    struct fg_id store_id;
    uint64_t life;
    unsigned asking, waiting; /* calls under way in this life; of these selects and flushes */
    bool taking;              /* calls are taken */
    bool ending;
    struct sent sent[PROFILES_MAX];
    uint32_t n_sent;
    struct qry_objects *objects;
    struct compactor compactor;
    unsigned clients;
};

/* ---- calls of a client: on the head's machine, so that a kill ends them ---- */

struct ask {
    struct world *world;
    struct thread *client;
    void (*run)(struct ask *ask);
    bool done;
    uint32_t profile; /* push */
    struct head_pushed pushed;
    uint64_t generation; /* select */
    struct fg_buf lines;
    bool lenient, lacks;
    int64_t deadline_mono_ns; /* flush */
    enum fg_code code;
    struct fg_err err;
};

static void push_one(struct ask *ask);

static void answer(void *arg)
{
    struct ask *ask = arg;

    ask->run(ask);
    ask->done = true;
    ask->world->asking--;
    ask->world->waiting -= ask->run != push_one;
    threads_wake(ask->client);
}

/* Waits for the answer; false: there is none, since the head is down or was killed. */
static bool ask_head(struct ask *ask, const char *name, int64_t max_ns)
{
    struct world *world = ask->world;
    int64_t begin_ns = threads_now_ns();
    uint64_t life = world->life;

    if (world->head == NULL || !world->taking)
        return false;
    ask->client = threads_self();
    ask->done = false;
    world->asking++;
    world->waiting += ask->run != push_one;
    threads_spawn(HEAD, name, answer, ask);
    while (!ask->done && world->life == life) {
        (void)threads_wait(FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > max_ns)
            run_fault("a %s was not answered in %lld s", name, (long long)(max_ns / FG_SECOND_NS));
    }
    return ask->done;
}

/* ---- pushes ---- */

static void push_one(struct ask *ask)
{
    struct world *world = ask->world;
    char stack[32];
    struct head_sample sample = {stack, {1, 1}, 0};
    const struct head_profile profile = {
        .tenant = tenant,
        .service = ask->profile % 3 == 0 ? "shop" : "archive",
        .zone = ask->profile % 2 == 0 ? "n" : "s",
        .time_ns = world->sent[ask->profile].time_ns,
        .duration_ns = 10 * FG_SECOND_NS,
        .samples = &sample,
        .n_samples = 1,
    };

    (void)snprintf(stack, sizeof stack, "p%u", ask->profile);
    ask->pushed = head_push(world->head, &profile, true);
}

/* A new profile, of now or late. */
static uint32_t make_profile(struct world *world)
{
    struct sent *sent = &world->sent[world->n_sent];

    sent->time_ns = fg_wall_ns(fg_clock_real()) - run_draw_ns(30 * FG_SECOND_NS);
    if (run_chance(200))
        sent->time_ns -= run_draw_ns(100 * FG_MINUTE_NS);
    return world->n_sent++;
}

static void push(struct world *world)
{
    bool again = world->n_sent > 0 && (run_chance(300) || world->n_sent == PROFILES_MAX);
    struct ask ask = {.world = world, .run = push_one};
    struct sent *sent;

    if (world->head == NULL)
        return;
    ask.profile = again ? (uint32_t)threads_draw(world->n_sent) : make_profile(world);
    sent = &world->sent[ask.profile];
    sent->tries++;
    if (!ask_head(&ask, "push", answer_max_ns))
        return;
    if (ask.pushed.code != FG_OK) {
        world->counts[REFUSED]++;
        if (ask.pushed.code != FG_E_UNAVAILABLE && ask.pushed.code != FG_E_LIMIT &&
            ask.pushed.code != FG_E_ABORTED && ask.pushed.code != FG_E_CANCELED &&
            ask.pushed.code != FG_E_DEADLINE)
            run_fault("push of p%u: %s, which an agent does not try again", ask.profile,
                      fg_code_name(ask.pushed.code));
        return;
    }
    if (ask.pushed.stored + ask.pushed.duplicates != 1)
        run_fault("push of p%u: %u stored, %u duplicates", ask.profile, ask.pushed.stored,
                  ask.pushed.duplicates);
    if (ask.pushed.duplicates == 1 && sent->tries == 1)
        run_fault("p%u is a duplicate, and was never sent before", ask.profile);
    run_trace("p%u of %.0f s ago is %s%s", ask.profile,
              (double)(fg_wall_ns(fg_clock_real()) - sent->time_ns) / 1e9,
              ask.pushed.stored == 1 ? "stored" : "a duplicate",
              sent->acked_mono_ns == 0 ? "" : " (again)");
    world->counts[ACKED] += sent->acked_mono_ns == 0;
    world->counts[DUPLICATES] += ask.pushed.duplicates;
    if (sent->acked_mono_ns == 0)
        sent->acked_mono_ns = threads_now_ns();
}

static void pusher(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        push(world);
        threads_sleep(run_draw_ns(run_chance(100) ? FG_MINUTE_NS : 10 * FG_SECOND_NS));
    }
    world->clients--;
}

/* ---- reads ---- */

/* Each that was acknowledged before is there once, if the answer is complete. */
static void check(const struct world *world, const uint8_t *found, int64_t before_ns, bool complete,
                  const char *what)
{
    for (uint32_t i = 0; i < world->n_sent; i++) {
        const struct sent *sent = &world->sent[i];

        if (found[i] > 1)
            run_fault("%s: p%u is there %u times", what, i, found[i]);
        if (found[i] == 1 && sent->tries == 0)
            run_fault("%s: p%u is there and was never sent", what, i);
        if (found[i] == 0 && complete && sent->acked_mono_ns != 0 &&
            sent->acked_mono_ns < before_ns)
            run_fault("%s: p%u, acknowledged at %.3f s, is not there", what, i,
                      (double)sent->acked_mono_ns / 1e9);
    }
}

static void select_all(struct ask *ask)
{
    const struct head_query query = {.tenant = tenant,
                                     .type = type,
                                     .start_ns = INT64_MIN,
                                     .end_ns = INT64_MAX,
                                     .generation = ask->generation,
                                     .lenient = ask->lenient};

    ask->code = head_select(ask->world->head, &query, &ask->lines);
    ask->lacks = ask->world->head->lacks;
}

/* One question, of the blocks and of the head, as a querier asks it. */
static void read_all(struct world *world)
{
    uint8_t found[PROFILES_MAX] = {0};
    struct ask ask = {.world = world, .run = select_all};
    int64_t begin_ns = threads_now_ns();
    bool ahead = run_chance(50);
    struct snapshot snapshot = objects_snapshot(world->objects);

    if (run_chance(100))
        threads_sleep(run_draw_ns(evict_after_ns)); /* a slow querier */
    ask.generation = objects_read(world->objects, &snapshot, found);
    ask.lenient = run_chance(500);
    if (ahead) /* it has seen a manifest that there may not be; nothing is known of what is in it */
        ask.generation += 1 + threads_draw(3);
    fg_buf_init(&ask.lines, SIZE_MAX);
    if (!ask_head(&ask, "select", answer_max_ns))
        return; /* the lines may be the killed machine's */
    run_trace("answer at generation %" PRIu64 ": %s%s", ask.generation, fg_code_name(ask.code),
              ask.code == FG_OK && ask.lacks ? ", incomplete" : "");
    if (ask.code == FG_OK) {
        objects_count_lines(fg_buf_slice(&ask.lines), found);
        check(world, found, begin_ns, !ask.lacks && !ahead, "an answer");
        world->counts[READS]++;
        world->counts[READS_INCOMPLETE] += ask.lacks;
    } else {
        world->counts[READS_REFUSED]++;
    }
    fg_buf_done(&ask.lines);
}

static void reader(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        read_all(world);
        threads_sleep(run_draw_ns(20 * FG_SECOND_NS));
    }
    world->clients--;
}

/* ---- flushes ---- */

static void flush_head(struct ask *ask)
{
    ask->code = ing_flush(ask->world->head->ingester, ask->deadline_mono_ns, &ask->err);
}

/* Returns whether all is committed now that was acknowledged before. */
static bool flush(struct world *world, int64_t timeout_ns)
{
    uint8_t found[PROFILES_MAX] = {0};
    struct ask ask = {
        .world = world, .run = flush_head, .deadline_mono_ns = threads_now_ns() + timeout_ns};
    int64_t begin_ns = threads_now_ns();

    if (!ask_head(&ask, "flush", timeout_ns + FG_MINUTE_NS))
        return false;
    world->counts[FLUSHES]++;
    if (ask.code != FG_OK) {
        if (ask.code != FG_E_DEADLINE && ask.code != FG_E_UNAVAILABLE)
            run_fault("flush: %s", ask.err.msg);
        run_trace("flush: %s", ask.err.msg);
        world->counts[FLUSHES_FAILED]++;
        return false;
    }
    (void)objects_read_now(world->objects, found);
    check(world, found, begin_ns, true, "after a flush");
    return true;
}

static void flusher(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        threads_sleep(run_draw_ns(8 * FG_MINUTE_NS));
        (void)flush(world, run_draw_ns(run_chance(200) ? 20 * FG_MINUTE_NS : 3 * FG_MINUTE_NS));
    }
    world->clients--;
}

/* ---- the head's lives ---- */

struct starting {
    struct world *world;
    bool done;
};

static void open_head(void *arg)
{
    struct starting *starting = arg;
    struct world *world = starting->world;
    struct head *head = fg_new(struct head);

    world->net = sim_net_create(HEAD, world->bucket, &world->faults);
    head_open_evicting(head, sim_disk_store(world->disk), sim_net_bucket(world->net),
                       evict_after_ns);
    world->store_id = head->store_id;
    world->head = head;
    starting->done = true;
}

static void start_head(struct world *world)
{
    struct starting starting = {.world = world};
    const bool unreadable = world->faults.store_unreadable;

    world->faults.store_unreadable = false; /* one that cannot be read does not start */
    sim_disk_restart(world->disk);
    world->life++;
    run_trace("start %" PRIu64, world->life);
    threads_spawn(HEAD, "main", open_head, &starting);
    run_wait_until(&starting.done, stop_max_ns, "a start");
    world->faults.store_unreadable = unreadable;
    world->taking = true;
}

static void kill_head(struct world *world)
{
    run_trace("kill");
    world->counts[KILLS]++;
    world->counts[BUCKET_FAILED] += sim_net_failed(world->net);
    threads_pin();
    world->taking = false;
    sim_net_kill(world->net);
    threads_kill(HEAD);
    (void)remove_tree(world->head->scratch);
    world->life++;
    world->asking = world->waiting = 0;
    world->head = NULL;
    threads_unpin();
}

struct stopping {
    struct world *world;
    bool done;
};

/* As main() does: who waits is told, who asks is answered, then all ends. */
static void close_head(void *arg)
{
    struct stopping *stopping = arg;
    struct world *world = stopping->world;
    int64_t begin_ns = threads_now_ns(), hurried_ns = begin_ns;

    world->taking = false;
    ing_hurry(world->head->ingester);
    while (world->asking > 0) {
        threads_sleep(10 * FG_MS_NS);
        if (world->faults.write_max_ns > 0)
            hurried_ns = threads_now_ns();
        if (world->waiting > 0 && threads_now_ns() - hurried_ns > hurry_max_ns)
            run_fault("%u queries and flushes do not hear that the ingester ends", world->waiting);
        if (threads_now_ns() - begin_ns > stop_max_ns)
            run_fault("%u calls are not answered at the end", world->asking);
    }
    head_close(world->head);
    sim_net_close(world->net);
    free(world->head);
    world->head = NULL;
    stopping->done = true;
}

static void stop_head(struct world *world)
{
    struct stopping stopping = {.world = world};

    run_trace("stop");
    world->counts[STOPS]++;
    world->counts[BUCKET_FAILED] += sim_net_failed(world->net);
    threads_spawn(HEAD, "main", close_head, &stopping);
    run_wait_until(&stopping.done, stop_max_ns, "an end");
    threads_sleep(FG_SECOND_NS);
    if (threads_count(HEAD) > 0)
        run_fault("threads are left after the end");
    world->life++;
}

/* ---- the compactor's lives ---- */

static void open_compactor(void *arg)
{
    static const struct cmp_settings settings = {
        .interval_ns = 30 * FG_SECOND_NS,
        .hour_delay_ns = FG_MINUTE_NS,
        .day_delay_ns = FG_HOUR_NS,
        .fold_after_ns = FG_HOUR_NS,
        .fold_quiet_ns = FG_HOUR_NS,
        .job_max_bytes = 1 << 30,
        .job_max_sources = 16,
        .rollup_min_bytes = 1 << 20,
        .memory_max_bytes = 64 << 20,
        .retire_after_ns = 5 * FG_MINUTE_NS,
        .grace_ns = 10 * FG_MINUTE_NS,
        .orphan_after_ns = 2 * FG_HOUR_NS,
        .deletion_wait_ns = FG_HOUR_NS,
    };
    struct starting *starting = arg;
    struct world *world = starting->world;
    struct compactor *compactor = &world->compactor;
    struct cmp_compaction *compaction;
    struct fg_err err;

    *compactor = (struct compactor){.registry = fg_registry_create(),
                                    .store = {world->store_id, true},
                                    .scratch = "/tmp/flamegrid-test.XXXXXX"};
    fg_assert(mkdtemp(compactor->scratch) != NULL);
    compactor->net = sim_net_create(COMPACTOR, world->bucket, &world->faults);
    compactor->tenants = tenants_make(&compactor->limits, NULL, true, compactor->registry);
    if (cmp_compaction_create(&(struct cmp_config){.settings = &settings,
                                                   .bucket = sim_net_bucket(compactor->net),
                                                   .scratch = compactor->scratch,
                                                   .store = &compactor->store,
                                                   .tenants = compactor->tenants,
                                                   .registry = compactor->registry,
                                                   .clock = fg_clock_real()},
                              NULL, &compaction, &err) != FG_OK ||
        cmp_compaction_start(compaction, &err) != FG_OK)
        run_fault("compactor: %s", err.msg);
    compactor->compaction = compaction;
    starting->done = true;
}

static void start_compactor(struct world *world)
{
    struct starting starting = {.world = world};

    run_trace("start of the compactor");
    threads_spawn(COMPACTOR, "main", open_compactor, &starting);
    run_wait_until(&starting.done, stop_max_ns, "a start of the compactor");
}

static void kill_compactor(struct world *world)
{
    run_trace("kill of the compactor");
    world->counts[KILLS]++;
    world->counts[BUCKET_FAILED] += sim_net_failed(world->compactor.net);
    threads_pin();
    sim_net_kill(world->compactor.net);
    threads_kill(COMPACTOR);
    (void)remove_tree(world->compactor.scratch);
    threads_unpin();
}

static void close_compactor(void *arg)
{
    struct stopping *stopping = arg;
    struct compactor *compactor = &stopping->world->compactor;

    cmp_compaction_stop(compactor->compaction);
    cmp_compaction_destroy(compactor->compaction);
    tenants_free(compactor->tenants, &compactor->limits);
    fg_registry_destroy(compactor->registry);
    sim_net_close(compactor->net);
    if (rmdir(compactor->scratch) != 0)
        run_fault("the compactor leaves files behind");
    stopping->done = true;
}

static void stop_compactor(struct world *world)
{
    struct stopping stopping = {.world = world};

    run_trace("stop of the compactor");
    world->counts[STOPS]++;
    world->counts[BUCKET_FAILED] += sim_net_failed(world->compactor.net);
    threads_spawn(COMPACTOR, "main", close_compactor, &stopping);
    run_wait_until(&stopping.done, stop_max_ns, "an end of the compactor");
    threads_sleep(FG_SECOND_NS);
    if (threads_count(COMPACTOR) > 0)
        run_fault("threads of the compactor are left after its end");
}

/* ---- the operator ---- */

static const char *change_faults(struct faults *faults)
{
    unsigned verbs[] = {0, 0, 1u << FG_BUCKET_GET, 1u << FG_BUCKET_PUT};

    if (run_chance(500)) {
        *faults = (struct faults){0};
        return "all is well";
    }
    switch (threads_draw(10)) {
    case 0:
        faults->refuse = 1000;
        faults->verbs = verbs[threads_draw(FG_COUNT(verbs))];
        return "the bucket refuses";
    case 1:
        faults->lose = 1000;
        faults->verbs = verbs[threads_draw(FG_COUNT(verbs))];
        return "the bucket does not answer";
    case 2:
        faults->lose_answer = 700;
        faults->verbs = verbs[threads_draw(FG_COUNT(verbs))];
        return "answers of the bucket get lost";
    case 3:
        faults->late = 500;
        return "requests arrive late";
    case 4:
        faults->delay_max_ns = 40 * FG_SECOND_NS;
        return "the bucket is slow";
    case 5:
        faults->bucket_full = true;
        return "the bucket is full";
    case 6:
        faults->store_fails = true;
        return "the disk fails";
    case 7:
        faults->store_full = true;
        return "the disk is full";
    case 8:
        faults->store_unreadable = true;
        return "the disk cannot be read";
    default:
        faults->write_max_ns = 20 * FG_SECOND_NS;
        return "the disk is slow";
    }
}

static void operate(struct world *world)
{
    int64_t end_ns = threads_now_ns() + length_ns;

    while (threads_now_ns() < end_ns) {
        threads_sleep(run_draw_ns(3 * FG_MINUTE_NS));
        run_trace("%s", change_faults(&world->faults));
        if (run_chance(60)) {
            (run_chance(500) ? kill_compactor : stop_compactor)(world);
            start_compactor(world);
        }
        if (run_chance(100))
            kill_head(world);
        else if (run_chance(100))
            stop_head(world);
        else
            continue;
        threads_sleep(run_draw_ns(FG_MINUTE_NS));
        start_head(world);
    }
}

static bool has_profiles(struct world *world)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(sim_disk_inner(world->disk), HEAD_PROFILES, FG_LIT(""), FG_LIT(""));

    return iter->valid;
}

static bool count_entry(const struct fg_bucket_entry *entry, void *arg)
{
    (void)entry;
    *(uint32_t *)arg += 1;
    return true;
}

static uint32_t count_objects(struct world *world, const char *prefix)
{
    uint32_t n = 0;
    struct fg_err err;

    threads_pin();
    fg_assert(fg_bucket_each(world->bucket, prefix, false, 0, count_entry, &n, &err) == FG_OK);
    threads_unpin();
    return n;
}

/* All segments become blocks, and no object stays that nobody needs. */
static void wait_for_blocks(struct world *world, int64_t begin_ns)
{
    struct snapshot snapshot;
    uint32_t live, segments, blocks, objects;

    do {
        threads_sleep(FG_MINUTE_NS);
        snapshot = objects_snapshot(world->objects);
        live = snapshot.l0->l0.n_segments;
        blocks = snapshot.blocks->blocks.n_blocks;
        fg_manifest_unref(snapshot.l0);
        fg_manifest_unref(snapshot.blocks);
        segments = count_objects(world, "segments/");
        objects = count_objects(world, "tenants/");
        if (threads_now_ns() - begin_ns > compact_max_ns)
            run_fault("%lld s after the faults: %u segments are not in blocks, %u objects of "
                      "segments, %u blocks, %u objects of these",
                      (long long)(compact_max_ns / FG_SECOND_NS), live, segments, blocks, objects);
    } while (live > 0 || segments > 0 || objects > blocks + 1);
    world->counts[BLOCKS] += blocks;
}

/* When nothing fails any more. */
static void settle(struct world *world)
{
    uint8_t found[PROFILES_MAX] = {0};
    int64_t begin_ns = threads_now_ns();

    run_trace("all is well to the end");
    world->faults = (struct faults){0};
    world->ending = true;
    while (world->clients > 0) {
        threads_sleep(FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > settle_max_ns)
            run_fault("%u clients do not end", world->clients);
    }
    while (!flush(world, FG_MINUTE_NS))
        if (threads_now_ns() - begin_ns > settle_max_ns)
            run_fault("the head is not committed %lld s after the faults",
                      (long long)(settle_max_ns / FG_SECOND_NS));
    while (has_profiles(world)) {
        threads_sleep(FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > settle_max_ns)
            run_fault("the head still has profiles %lld s after the faults",
                      (long long)(settle_max_ns / FG_SECOND_NS));
    }
    (void)objects_read_now(world->objects, found);
    check(world, found, threads_now_ns(), true, "at the end");
    read_all(world);
    wait_for_blocks(world, begin_ns);
    memset(found, 0, sizeof found);
    (void)objects_read_now(world->objects, found);
    check(world, found, threads_now_ns(), true, "in the blocks");
    stop_compactor(world);
    stop_head(world);
}

static void run(uint64_t counts[RUN_COUNTS])
{
    struct world *world = fg_new(struct world);

    world->counts = counts;
    world->bucket = fg_bucket_memory();
    world->objects = objects_create(world->bucket, tenant, type);
    world->disk = sim_disk_create(HEAD_FAMILIES, &world->faults);
    start_head(world);
    start_compactor(world);
    for (unsigned i = 0; i < PUSHERS; i++)
        threads_spawn(0, "pusher", pusher, world);
    threads_spawn(0, "reader", reader, world);
    threads_spawn(0, "flusher", flusher, world);
    world->clients = PUSHERS + 2;
    operate(world);
    settle(world);
    counts[OBJECTS] += objects_count(world->objects);
    counts[DISK_FAILED] += sim_disk_failed(world->disk);
}

static void nothing_acknowledged_is_lost_or_doubled(void **state)
{
    uint64_t counts[RUN_COUNTS];

    (void)state;
    run_seeds(run, SEEDS, counts);
    for (size_t i = 0; i < FG_COUNT(count_names); i++)
        print_message("%s%" PRIu64 " %s", i == 0 ? "  " : ", ", counts[i], count_names[i]);
    print_message("\n");
    assert_true(counts[ACKED] > 0 && counts[READS] > counts[READS_INCOMPLETE]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost_or_doubled),
    };

    /* A comparison takes several writes, so that kills and faults of the disk come in between. */
    head_compare_piece_bytes = 500;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
