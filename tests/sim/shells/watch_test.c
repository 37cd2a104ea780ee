/*
 * Ring watches on simulated threads (common/cluster/ring/watch): members with seats and one that
 * follows, over a bucket that fails for a while, is slow for a while, or fills up, and that is put
 * back to an older ring now and then. Members are stopped, killed and started again. Whoever waits
 * is answered in time and with a ring that is as new as is said; a member never admits an older
 * revision than it was asked to drain; what the bucket says was drained was drained. At the end,
 * when nothing fails any more, all have their seats and what was wished is in the ring.
 */
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/watch.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"
#include "tests/sim/shells/run.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 6, MEMBERS = 3, CLIENTS = 4, SPREAD = 3 };

static const char *const tenants[] = {"one", "two"};
static const int64_t length_ns = 30 * FG_MINUTE_NS;
static const int64_t poll_ns = 5 * FG_SECOND_NS;

/* Far beyond what production code needs when all is well. */
static const int64_t late_max_ns = 10 * FG_SECOND_NS; /* after a deadline */
static const int64_t stop_max_ns = 8 * FG_SECOND_NS;  /* less than a request may take */
enum { REQUESTS_MAX_PER_S = 20 };
static const int64_t settle_max_ns = 60 * FG_MINUTE_NS;

enum count { FRESH, OLD, CALLS_FAILED, DRAINS, STOPS, KILLS, RESTORED, REQUESTS_FAILED, DAMAGED };
static const char *const count_names[] = {
    "fresh answers", "old answers",          "calls that failed",    "drains",       "orderly ends",
    "kills",         "older rings put back", "requests that failed", "damaged rings"};

/* A process with a watch; number 0 only follows. Each is a machine: 1 + number. */
struct node {
    struct world *world;
    unsigned number;
    char name[16];
    struct sim_net *net;
    struct fg_registry *registry;
    struct fg_ring_watch *watch; /* NULL: it is down */
    bool taking;
    uint64_t life;
    int64_t begun_ns;
    unsigned asking, draining; /* calls and drains under way */
    uint64_t asked;            /* to drain, in this life */
    uint64_t drained;          /* in any */
    uint64_t joined;           /* at this revision; 0: it has not */
    uint64_t seen;             /* revision, in this life */
};

struct world {
    uint64_t *counts;
    struct faults faults;
    struct fg_bucket *bucket;
    struct fg_bucket_wave *wave;
    struct node nodes[1 + MEMBERS];
    struct fg_ring_view *now;   /* as it was read last: tables of owners take long to make */
    struct fg_ring_view *older; /* to be put back */
    bool restored;              /* it was */
    bool damaged;               /* the object is no ring; `now` is the one before */
    bool ending;
    unsigned clients;
};

/* ---- the ring as it really is ---- */

static struct fg_ring_object object_of(struct world *world)
{
    return (struct fg_ring_object){.bucket = world->bucket,
                                   .wave = world->wave,
                                   .clock = fg_clock_real(),
                                   .timeout_ns = FG_MINUTE_NS};
}

/* The caller's reference. */
static struct fg_ring_view *read_ring(struct world *world)
{
    const struct fg_ring_object object = object_of(world);
    struct fg_err err;

    threads_pin();
    if (fg_ring_object_read(&object, &world->now, NULL, &err) != FG_OK && !world->damaged)
        run_fault("the ring in the bucket: %s", err.msg);
    threads_unpin();
    return fg_ring_view_ref(world->now);
}

/* Nothing is said to be drained that is not. Who joins has nothing of older revisions. */
static void check_ring(struct world *world)
{
    struct fg_ring_view *view = read_ring(world);

    for (unsigned n = 1; n <= MEMBERS; n++) {
        struct node *node = &world->nodes[n];
        uint32_t at = fg_ring_find(&view->ring, fg_cstr(node->name));

        if (node->joined == 0 && at != FG_RING_NO_MEMBER)
            node->joined = view->ring.members[at].drained;
        if (at == FG_RING_NO_MEMBER && !world->restored && node->joined != 0)
            run_fault("%s is not in the ring any more", node->name);
        if (at == FG_RING_NO_MEMBER)
            node->joined = 0; /* in a ring of before; it joins again */
    }
    for (uint32_t i = 0; i < view->ring.n_members; i++) {
        const struct fg_ring_member *member = &view->ring.members[i];

        for (unsigned n = 1; n <= MEMBERS; n++)
            if (fg_slice_is(member->name, world->nodes[n].name) &&
                member->drained > FG_MAX(world->nodes[n].drained, world->nodes[n].joined))
                run_fault("the ring says that %s has drained %" PRIu64 ", and it was %" PRIu64,
                          world->nodes[n].name, member->drained, world->nodes[n].drained);
    }
    fg_ring_view_unref(view);
}

/* ---- a member's head ---- */

struct drain {
    struct node *node;
    uint64_t revision;
};

static void drain_later(void *arg)
{
    struct drain *drain = arg;
    struct node *node = drain->node;

    threads_sleep(run_draw_ns(run_chance(100) ? 5 * FG_MINUTE_NS : 5 * FG_SECOND_NS));
    node->drained = FG_MAX(node->drained, drain->revision);
    node->world->counts[DRAINS]++;
    if (node->watch != NULL)
        fg_ring_watch_drained(node->watch, drain->revision, drain->revision);
    node->draining--;
    free(drain);
}

static void check_admission(struct node *node)
{
    if (node->asked > 1 && fg_ring_watch_admits(node->watch, node->asked - 1) == FG_RING_ADMITS)
        run_fault("%s admits revision %" PRIu64 " and was asked to drain it", node->name,
                  node->asked - 1);
}

static void on_drain(void *arg, uint64_t revision)
{
    struct node *node = arg;
    struct drain *drain = fg_new(struct drain);

    if (revision < node->asked)
        run_fault("%s is asked to drain %" PRIu64 " after %" PRIu64, node->name, revision,
                  node->asked);
    node->asked = revision;
    check_admission(node);
    *drain = (struct drain){node, revision};
    node->draining++;
    threads_spawn(1 + node->number, "drain", drain_later, drain);
}

/* ---- calls ---- */

struct ask {
    struct node *node;
    struct thread *client;
    bool done;
    unsigned kind; /* 0: latest, 1: fresh, 2: until */
    uint64_t seen; /* revision, by earlier calls that have ended */
    uint64_t revision;
    int64_t deadline_mono_ns;
    enum fg_code code;
    struct fg_ring_view *view;
    int64_t age_ns;
    struct fg_err err;
};

static void answer(void *arg)
{
    struct ask *ask = arg;
    struct fg_ring_watch *watch = ask->node->watch;

    ask->age_ns = 0;
    if (ask->kind == 0)
        ask->code =
            fg_ring_watch_latest(watch, ask->deadline_mono_ns, &ask->view, &ask->age_ns, &ask->err);
    else if (ask->kind == 1)
        ask->code = fg_ring_watch_fresh(watch, ask->deadline_mono_ns, &ask->view, &ask->err);
    else
        ask->code =
            fg_ring_watch_until(watch, ask->revision, ask->deadline_mono_ns, &ask->view, &ask->err);
    ask->done = true;
    ask->node->asking--;
    threads_wake(ask->client);
}

static void check_answer(struct ask *ask, uint64_t swaps)
{
    struct node *node = ask->node;
    uint64_t revision = fg_ring_newest(&ask->view->ring);

    if (ask->kind == 2 && revision < ask->revision)
        run_fault("%s: a ring of revision %" PRIu64 " for one that waits for %" PRIu64, node->name,
                  revision, ask->revision);
    if (ask->kind != 2 && ask->age_ns == 0 && ask->view->ring.swaps < swaps)
        run_fault("%s: a ring of %" PRIu64 " swaps is said to be fresh, there were %" PRIu64,
                  node->name, ask->view->ring.swaps, swaps);
    if (revision < ask->seen)
        run_fault("%s: revision %" PRIu64 " after %" PRIu64, node->name, revision, ask->seen);
    node->seen = FG_MAX(node->seen, revision);
    node->world->counts[ask->age_ns == 0 ? FRESH : OLD]++;
}

static void call(struct world *world)
{
    struct node *node = &world->nodes[threads_draw(1 + MEMBERS)];
    struct ask ask = {.node = node, .client = threads_self(), .kind = (unsigned)threads_draw(3)};
    struct fg_ring_view *now = read_ring(world);
    uint64_t life = node->life, swaps = now->ring.swaps, restored = world->counts[RESTORED];

    ask.revision = fg_ring_newest(&now->ring) + (run_chance(200) ? 1 : 0);
    fg_ring_view_unref(now);
    if (!node->taking)
        return;
    ask.deadline_mono_ns = threads_now_ns() + run_draw_ns(FG_MINUTE_NS);
    ask.seen = node->seen;
    node->asking++;
    threads_spawn(1 + node->number, "call", answer, &ask);
    while (!ask.done && node->life == life) {
        (void)threads_wait(FG_SECOND_NS);
        if (threads_now_ns() > ask.deadline_mono_ns + late_max_ns)
            run_fault("%s: a call of kind %u is not answered %lld s after its deadline", node->name,
                      ask.kind, (long long)(late_max_ns / FG_SECOND_NS));
    }
    if (!ask.done)
        return;
    if (ask.code != FG_OK) {
        world->counts[CALLS_FAILED]++;
        return;
    }
    /* A member without a copy takes an older ring for the newest one. */
    check_answer(&ask, world->counts[RESTORED] == restored ? swaps : 0);
    fg_ring_view_unref(ask.view);
}

static void client(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        call(world);
        check_ring(world);
        threads_sleep(run_draw_ns(5 * FG_SECOND_NS));
    }
    world->clients--;
}

/* Wants a wider shard factor for as long as the copy is narrower, as a distributor does. */
static void wish(struct world *world)
{
    struct node *node = &world->nodes[0];
    struct fg_ring_view *view;

    if (!node->taking)
        return;
    view = fg_ring_watch_get(node->watch);
    for (size_t i = 0; view != NULL && i < FG_COUNT(tenants); i++)
        if (fg_ring_shard_factor(&view->ring, fg_cstr(tenants[i])) < SPREAD)
            fg_ring_watch_widen(node->watch, fg_cstr(tenants[i]), SPREAD);
    fg_ring_view_unref(view);
}

/* ---- lives ---- */

struct starting {
    struct node *node;
    bool done;
};

static void open_node(void *arg)
{
    struct starting *starting = arg;
    struct node *node = starting->node;
    const struct fg_ring_watch_member member = {
        .name = node->name,
        .zone = "",
        .address = "tcp://h:1",
        .http = "",
        .store = {node->number, 1},
        .replicas = MEMBERS,
        .on_drain = on_drain,
        .arg = node,
    };
    struct fg_ring_watch *watch;
    struct fg_err err;

    node->net = sim_net_create(1 + node->number, node->world->bucket, &node->world->faults);
    node->registry = fg_registry_create();
    if (fg_ring_watch_create(
            &(struct fg_ring_watch_config){.bucket = sim_net_bucket(node->net),
                                           .clock = fg_clock_real(),
                                           .registry = node->registry,
                                           .poll_ns = poll_ns,
                                           .member = node->number == 0 ? NULL : &member},
            &watch, &err) != FG_OK)
        run_fault("%s: %s", node->name, err.msg);
    node->watch = watch; /* before it runs: it may ask to drain at once */
    if (fg_ring_watch_start(watch, &err) != FG_OK)
        run_fault("%s: %s", node->name, err.msg);
    node->taking = true;
    starting->done = true;
}

static void start_node(struct node *node)
{
    struct starting starting = {.node = node};

    node->life++;
    node->begun_ns = threads_now_ns();
    node->asked = node->seen = 0;
    run_trace("start of %s", node->name);
    threads_spawn(1 + node->number, "main", open_node, &starting);
    run_wait_until(&starting.done, FG_MINUTE_NS, "a start");
}

/* Who fails pauses. */
static void check_requests(const struct node *node)
{
    int64_t seconds = (threads_now_ns() - node->begun_ns) / FG_SECOND_NS + 10;

    if (sim_net_requests(node->net) > (uint64_t)seconds * REQUESTS_MAX_PER_S)
        run_fault("%s: %" PRIu64 " requests in %lld s", node->name, sim_net_requests(node->net),
                  (long long)seconds);
}

static void kill_node(struct node *node)
{
    check_requests(node);
    run_trace("kill of %s", node->name);
    node->world->counts[KILLS]++;
    node->world->counts[REQUESTS_FAILED] += sim_net_failed(node->net);
    threads_pin();
    node->taking = false;
    sim_net_kill(node->net);
    threads_kill(1 + node->number);
    node->life++;
    node->asking = node->draining = 0;
    node->watch = NULL;
    threads_unpin();
}

static void close_node(void *arg)
{
    struct starting *stopping = arg;
    struct node *node = stopping->node;
    struct fg_ring_watch *watch = node->watch;

    node->taking = false;
    fg_ring_watch_stop(watch);
    node->watch = NULL; /* drains that go on say so to nobody */
    while (node->asking > 0)
        threads_sleep(10 * FG_MS_NS);
    stopping->done = true;
    while (node->draining > 0)
        threads_sleep(10 * FG_MS_NS);
    fg_ring_watch_destroy(watch);
    fg_registry_destroy(node->registry);
    sim_net_close(node->net);
}

static void stop_node(struct node *node)
{
    struct starting stopping = {.node = node};
    int64_t begin_ns;

    check_requests(node);
    run_trace("stop of %s", node->name);
    node->world->counts[STOPS]++;
    node->world->counts[REQUESTS_FAILED] += sim_net_failed(node->net);
    threads_spawn(1 + node->number, "main", close_node, &stopping);
    run_wait_until(&stopping.done, stop_max_ns, "the end of a watch and of all calls");
    begin_ns = threads_now_ns();
    while (threads_count(1 + node->number) > 0) {
        threads_sleep(FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > 10 * FG_MINUTE_NS)
            run_fault("threads of %s are left after the end", node->name);
    }
    node->life++;
}

/* ---- the operator ---- */

static const char *change_faults(struct faults *faults)
{
    static const unsigned verbs[] = {0, 0, 1u << FG_BUCKET_GET, 1u << FG_BUCKET_PUT};

    if (run_chance(500)) {
        *faults = (struct faults){0};
        return "all is well";
    }
    faults->verbs = verbs[threads_draw(FG_COUNT(verbs))];
    switch (threads_draw(6)) {
    case 0:
        faults->refuse = 1000;
        return "the bucket refuses";
    case 1:
        faults->lose = 1000;
        return "the bucket does not answer";
    case 2:
        faults->lose_answer = 700;
        return "answers of the bucket get lost";
    case 3:
        faults->late = 500;
        return "requests arrive late";
    case 4:
        faults->delay_max_ns = 15 * FG_SECOND_NS;
        return "the bucket is slow";
    default:
        faults->bucket_full = true;
        return "the bucket is full";
    }
}

/* The bucket is put back to a ring of before, by somebody who thinks that helps. */
static void restore(struct world *world)
{
    const struct fg_ring_object object = object_of(world);
    struct fg_ring_view *now = read_ring(world);
    struct fg_err err;

    if (world->older != NULL && now->etag.len > 0) {
        run_trace("the ring of %" PRIu64 " swaps is put back, there were %" PRIu64,
                  world->older->ring.swaps, now->ring.swaps);
        world->counts[RESTORED]++;
        world->restored = true;
        threads_pin();
        if (fg_ring_object_swap(&object, now->etag, &world->older->ring, &err) != FG_OK)
            run_fault("%s", err.msg);
        threads_unpin();
    }
    fg_ring_view_unref(now);
}

static bool is_any_member_with_ring(struct world *world)
{
    for (unsigned n = 1; n <= MEMBERS; n++)
        if (world->nodes[n].taking && fg_ring_watch_revision(world->nodes[n].watch) > 0)
            return true;
    return false;
}

/* The object becomes something else than a ring. A member that has a copy puts that back, which may
 * be older than the ring of a moment before; else an operator does. The bucket is well meanwhile.
 */
static void damage(struct world *world)
{
    struct fg_bucket_request put = {
        .verb = FG_BUCKET_PUT, .name = FG_RING_NAME, .content = fg_cstr("no ring")};
    const struct fg_ring_object object = object_of(world);
    struct fg_ring_view *was = read_ring(world), *view = NULL;
    int64_t begin_ns = threads_now_ns();
    struct fg_ring_read read;
    struct fg_err err;

    world->faults = (struct faults){0};
    if (was->etag.len > 0) {
        run_trace("the ring of %" PRIu64 " swaps is damaged", was->ring.swaps);
        world->counts[DAMAGED]++;
        world->counts[RESTORED]++;
        world->restored = world->damaged = true;
        threads_pin();
        fg_assert(fg_bucket_call(world->bucket, &put) == FG_OK);
        fg_bucket_clear(&put);
        threads_unpin();
        while (fg_ring_object_read(&object, &view, &read, &err) != FG_OK &&
               threads_now_ns() - begin_ns < FG_MINUTE_NS)
            threads_sleep(FG_SECOND_NS);
        if (view == NULL && is_any_member_with_ring(world))
            run_fault("no member puts a damaged ring back");
        if (view == NULL &&
            fg_ring_object_swap(&object, fg_cstr(read.damaged.text), &was->ring, &err) != FG_OK)
            run_fault("%s", err.msg);
        world->damaged = false;
        world->counts[RESTORED]++; /* calls that began meanwhile may know of a newer one */
    }
    fg_ring_view_unref(view);
    fg_ring_view_unref(was);
}

/* Another number of replicas is a new revision, which all have to drain. */
static void replicate(struct world *world)
{
    const struct fg_ring_object object = object_of(world);
    const struct fg_ring_change change = {.kind = FG_RING_REPLICATE,
                                          .replicas = 1 + (unsigned)threads_draw(MEMBERS)};
    struct fg_ring_view *now = read_ring(world), *view = NULL;
    struct fg_err err;

    threads_pin();
    if (now->ring.n_revisions > 0 &&
        fg_ring_object_change(&object, &change, &view, &err) != FG_OK && err.code != FG_E_LIMIT)
        run_fault("%s", err.msg);
    threads_unpin();
    fg_ring_view_unref(view);
    fg_ring_view_unref(now);
}

static void operate(struct world *world)
{
    int64_t end_ns = threads_now_ns() + length_ns;

    while (threads_now_ns() < end_ns) {
        struct node *node = &world->nodes[threads_draw(1 + MEMBERS)];

        threads_sleep(run_draw_ns(FG_MINUTE_NS));
        run_trace("%s", change_faults(&world->faults));
        wish(world);
        if (run_chance(30)) {
            fg_ring_view_unref(world->older);
            world->older = read_ring(world);
        }
        if (run_chance(30))
            restore(world);
        if (run_chance(30))
            damage(world);
        if (run_chance(150))
            replicate(world);
        if (run_chance(150))
            kill_node(node);
        else if (run_chance(150))
            stop_node(node);
        else
            continue;
        threads_sleep(run_draw_ns(FG_MINUTE_NS));
        start_node(node);
    }
}

/* Who asks for the ring gets it, now that it can be read. */
static void check_all_answer(struct world *world)
{
    for (unsigned n = 0; n <= MEMBERS; n++) {
        struct ask ask = {.node = &world->nodes[n],
                          .client = threads_self(),
                          .kind = 1,
                          .deadline_mono_ns = threads_now_ns() + FG_MINUTE_NS};

        ask.node->asking++;
        threads_spawn(1 + n, "call", answer, &ask);
        while (!ask.done)
            (void)threads_wait(FG_SECOND_NS);
        if (ask.code != FG_OK)
            run_fault("%s does not read the ring: %s", ask.node->name, ask.err.msg);
        check_answer(&ask, 0);
        fg_ring_view_unref(ask.view);
    }
}

/* Has every member its seat, in the bucket and by itself, and is the wish there? */
static bool is_settled(struct world *world)
{
    struct fg_ring_view *view = read_ring(world);
    bool settled = view->ring.n_revisions == 1; /* all older ones are drained */

    for (size_t i = 0; i < FG_COUNT(tenants); i++)
        settled = settled && fg_ring_shard_factor(&view->ring, fg_cstr(tenants[i])) >= SPREAD;
    for (unsigned n = 1; n <= MEMBERS; n++) {
        const struct node *node = &world->nodes[n];
        uint32_t at = fg_ring_find(&view->ring, fg_cstr(node->name));

        settled = settled && at != FG_RING_NO_MEMBER &&
                  fg_ring_state(&view->ring, at) == FG_RING_ACTIVE &&
                  fg_ring_watch_member_state(node->watch) == FG_RING_MEMBER_ACTIVE &&
                  fg_ring_watch_revision(node->watch) == fg_ring_newest(&view->ring);
    }
    fg_ring_view_unref(view);
    return settled;
}

static void settle(struct world *world)
{
    int64_t begin_ns = threads_now_ns();

    run_trace("all is well to the end");
    world->faults = (struct faults){0};
    world->ending = true;
    while (world->clients > 0 || !is_settled(world)) {
        threads_sleep(FG_SECOND_NS);
        wish(world);
        if (threads_now_ns() - begin_ns > settle_max_ns)
            run_fault("%lld s after the faults not all members have their seats",
                      (long long)(settle_max_ns / FG_SECOND_NS));
    }
    check_ring(world);
    check_all_answer(world);
    for (unsigned n = 0; n <= MEMBERS; n++)
        stop_node(&world->nodes[n]);
}

static void run(uint64_t counts[RUN_COUNTS])
{
    struct world *world = fg_new(struct world);

    world->counts = counts;
    world->bucket = fg_bucket_memory();
    world->wave = fg_bucket_wave_create();
    for (unsigned n = 0; n <= MEMBERS; n++) {
        struct node *node = &world->nodes[n];

        node->world = world;
        node->number = n;
        (void)snprintf(node->name, sizeof node->name, n == 0 ? "follower" : "member-%u", n);
        start_node(node);
    }
    world->clients = CLIENTS;
    for (unsigned i = 0; i < CLIENTS; i++)
        threads_spawn(0, "client", client, world);
    operate(world);
    settle(world);
}

static void members_agree_and_waiters_are_answered(void **state)
{
    uint64_t counts[RUN_COUNTS];

    (void)state;
    run_seeds(run, SEEDS, counts);
    for (size_t i = 0; i < FG_COUNT(count_names); i++)
        print_message("%s%" PRIu64 " %s", i == 0 ? "  " : ", ", counts[i], count_names[i]);
    print_message("\n");
    assert_true(counts[FRESH] > 0 && counts[OLD] > 0 && counts[DRAINS] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_agree_and_waiters_are_answered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
