/*
 * Repair between replicas (ingester/repair) in three whole ingesters on simulated threads: members
 * of one ring, each with a disk of its own, over one bucket, and calls between them that are
 * refused, lost, late or slow for a while. Members are stopped, killed, wiped and started again.
 * Distributors send each profile to all its owners; it is acknowledged when a quorum has it.
 *
 * After every answer: what a member answers and what is committed have no profile twice; what
 * enough members answer and what is committed have each profile that was acknowledged before. A
 * member gets a profile that nobody sent to it by repair only: not within the profile's first
 * minute, and only if it owns the shard. A run has several times of faults. After each of them all
 * is well for a while, and within minutes each owner has what any other one has, or it is
 * committed; repair has nothing to ask for any more.
 */
#include "common/base/map.h"
#include "common/cluster/ring/object.h"
#include "common/cluster/ring/reads_core.h"
#include "proto/inner.pb-c.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/remove_tree.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"
#include "tests/sim/shells/objects.h"
#include "tests/sim/shells/run.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    SEEDS = 4,
    MEMBERS = 3, /* machines 1 to 3; 0 is the world's and the distributors' */
    DISTRIBUTORS = 3,
    TIMES = 3,     /* of faults in a run */
    ASKED_MAX = 2, /* for a profile that is there */
};

static const char tenant[] = "tenant", type[] = "samples:count";
static const char *const services[] = {"shop", "archive", "search", "mail"};
static const char *const zones[] = {"n", "s", "e", "w"}; /* two shards, of two series each */

static const int64_t faulty_ns = 8 * FG_MINUTE_NS; /* less than a window: not all is committed */
static const int64_t push_max_ns = 10 * FG_SECOND_NS;
static const int64_t poll_ns = 5 * FG_SECOND_NS;
static const int64_t evict_after_ns = 2 * FG_MINUTE_NS;
static const int64_t group_max_ns = 20 * FG_SECOND_NS; /* it takes to ask for one group */
static const int64_t repair_every_ns = FG_MINUTE_NS, young_ns = FG_MINUTE_NS;

/* Far beyond what production code needs when all is well. */
static const int64_t round_max_ns = 4 * FG_MINUTE_NS; /* each owner has what it should have */
static const int64_t rest_max_ns = 4 * FG_MINUTE_NS;  /* repair has nothing to ask for */
static const int64_t settle_max_ns = 90 * FG_MINUTE_NS;
static const int64_t start_max_ns = FG_MINUTE_NS;
static const int64_t stop_max_ns = 5 * FG_MINUTE_NS;
static const int64_t hurry_max_ns = 20 * FG_SECOND_NS; /* if the disk is not slow */

enum count {
    ACKED,
    UNACKED,
    READS,
    READS_INCOMPLETE,
    REPAIRED,
    STOPS,
    KILLS,
    WIPES,
    CALLS_FAILED,
    BUCKET_FAILED,
    DISK_FAILED,
};
static const char *const count_names[] = {
    "profiles acknowledged",
    "pushes that were not",
    "answers",
    "incomplete",
    "profiles repaired",
    "orderly ends",
    "kills",
    "disks wiped",
    "calls that failed",
    "requests that failed",
    "disk calls that failed",
};

/* An ingester with its machine and its disk. */
struct node {
    struct world *world;
    unsigned number; /* from 1: its machine */
    char name[16], url[32];
    struct faults disk_faults;
    struct sim_disk *disk;
    struct sim_net *net;
    struct head *head; /* NULL: it is down */
    struct fg_id store;
    struct fg_peer *peer; /* of who is no member */
    bool slow;            /* in this life its disk was */
};

struct sent {
    int64_t time_ns;
    uint16_t shard;
    unsigned tries;
    int64_t acked_mono_ns; /* 0: it is not */
    /* Bits of members, with the stores that they have now: a request with it has arrived, they have
     * said that they have it, they have it by repair. */
    unsigned reached, taken, repaired;
    int64_t had_mono_ns[1 + MEMBERS]; /* taken, and on the disk since; 0: it is not */
    unsigned asked[1 + MEMBERS];      /* how often members have asked for it that had it */
};

struct world {
    uint64_t *counts;
    struct faults faults; /* of the bucket and of calls */
    struct fg_bucket *bucket;
    struct qry_objects *objects;
    struct fg_bucket_wave *wave;
    struct fg_ring_view *now; /* the ring as it was read last */
    unsigned replicas;
    int64_t begin_ns;
    struct node nodes[1 + MEMBERS];
    struct sent sent[PROFILES_MAX];
    uint32_t n_sent;
    struct fg_map ids, batches; /* by number */
    unsigned pushing;           /* copies of profiles that are under way */
    bool quiet, ending;
    unsigned clients;
};

/* The caller's reference to the ring as it really is. */
static struct fg_ring_view *read_ring(struct world *world)
{
    const struct fg_ring_object object = {.bucket = world->bucket,
                                          .wave = world->wave,
                                          .clock = fg_clock_real(),
                                          .timeout_ns = FG_MINUTE_NS};
    struct fg_err err;

    threads_pin();
    if (fg_ring_object_read(&object, &world->now, NULL, &err) != FG_OK)
        run_fault("the ring in the bucket: %s", err.msg);
    threads_unpin();
    return fg_ring_view_ref(world->now);
}

/* ---- pushes ---- */

struct push {
    struct world *world;
    uint32_t profile;
    struct fg_ring_view *view;
    unsigned waiting, stored;
};

struct copy {
    struct push *push;
    struct node *node;
    struct fg_id store;
};

struct text {
    char stack[32];
    struct head_sample sample;
};

static struct head_profile profile_of(const struct world *world, uint32_t number, struct text *text)
{
    (void)snprintf(text->stack, sizeof text->stack, "p%u", number);
    text->sample = (struct head_sample){text->stack, {1, 1}, 0};
    return (struct head_profile){
        .tenant = tenant,
        .service = services[number % FG_COUNT(services)],
        .zone = zones[number / FG_COUNT(services) % FG_COUNT(zones)],
        .time_ns = world->sent[number].time_ns,
        .duration_ns = 10 * FG_SECOND_NS,
        .samples = &text->sample,
        .n_samples = 1,
    };
}

static void check_pushed(const struct copy *copy, const struct head_pushed *pushed)
{
    const struct push *push = copy->push;

    if (pushed->code != FG_OK) {
        if (pushed->code != FG_E_UNAVAILABLE && pushed->code != FG_E_LIMIT &&
            pushed->code != FG_E_ABORTED && pushed->code != FG_E_CANCELED &&
            pushed->code != FG_E_DEADLINE && pushed->code != FG_E_PRECONDITION)
            run_fault("push of p%u to %s: %s, which a distributor does not try again",
                      push->profile, copy->node->name, fg_code_name(pushed->code));
        return;
    }
    if (pushed->stored + pushed->duplicates != 1)
        run_fault("push of p%u to %s: %u stored, %u duplicates", push->profile, copy->node->name,
                  pushed->stored, pushed->duplicates);
}

static struct head_pushed send_copy(const struct copy *copy)
{
    const struct push *push = copy->push;
    struct head_profile profile;
    struct head_pushed pushed;
    uint8_t store[FG_ID_BYTES];
    struct head_call call;
    struct fg_buf batch;
    struct text text;

    profile = profile_of(push->world, push->profile, &text);
    fg_buf_init(&batch, SIZE_MAX);
    (void)head_encode(&profile, true, 1, &batch);
    fg_id_put(store, copy->store);
    head_call_push_under(&call, &profile, fg_buf_slice(&batch), fg_ring_newest(&push->view->ring),
                         fg_bytes(store, sizeof store));
    call.call.deadline_mono_ns = threads_now_ns() + push_max_ns;
    (void)fg_peer_call(copy->node->peer, &call.call);
    pushed = head_call_done(copy->node->peer, &call);
    fg_buf_done(&batch);
    run_trace("p%u: %s says %s%s", push->profile, copy->node->name, fg_code_name(pushed.code),
              pushed.duplicates > 0 ? ", a duplicate" : "");
    check_pushed(copy, &pushed);
    return pushed;
}

static void push_copy(void *arg)
{
    struct copy *copy = arg;
    struct push *push = copy->push;
    struct world *world = push->world;
    struct sent *sent = &world->sent[push->profile];
    bool stored = send_copy(copy).code == FG_OK;

    push->stored += stored;
    if (stored && fg_id_eq(copy->store, copy->node->store)) /* it was not wiped meanwhile */
        sent->taken |= 1u << copy->node->number;
    if (push->stored >= fg_ring_view_writes(push->view) && sent->acked_mono_ns == 0) {
        run_trace("p%u is acknowledged", push->profile);
        sent->acked_mono_ns = threads_now_ns();
        world->counts[ACKED]++;
    }
    world->pushing--;
    free(copy);
    if (--push->waiting > 0)
        return;
    world->counts[UNACKED] += push->stored < fg_ring_view_writes(push->view);
    fg_ring_view_unref(push->view);
    free(push);
}

/* A new profile, of now or late. */
static uint32_t make_profile(struct world *world)
{
    uint32_t number = world->n_sent++;
    struct sent *sent = &world->sent[number];
    struct head_profile profile;
    struct fg_buf batch;
    struct text text;

    sent->time_ns = fg_wall_ns(fg_clock_real()) - run_draw_ns(30 * FG_SECOND_NS);
    if (run_chance(200))
        sent->time_ns -= run_draw_ns(40 * FG_MINUTE_NS);
    profile = profile_of(world, number, &text);
    sent->shard = head_shard(&profile);
    fg_buf_init(&batch, SIZE_MAX);
    fg_map_add(&world->ids, head_encode(&profile, true, 1, &batch).lo, number);
    fg_map_add(&world->batches, fg_hash64(fg_buf_slice(&batch)), number);
    fg_buf_done(&batch);
    return number;
}

static uint32_t find_profile(const struct world *world, struct fg_id id)
{
    struct fg_map_walk walk;

    return fg_map_first(&world->ids, id.lo, &walk);
}

/* A request has reached a member. */
static void on_arrive(void *arg, const char *url, struct fg_slice payload)
{
    struct world *world = arg;
    struct fg_map_walk walk;
    uint32_t number = fg_map_first(&world->batches, fg_hash64(payload), &walk);

    for (unsigned n = 1; n <= MEMBERS && number != FG_MAP_NONE; n++)
        if (strcmp(world->nodes[n].url, url) == 0)
            world->sent[number].reached |= 1u << n;
}

static struct node *find_member(struct world *world, const struct fg_ring_member *member)
{
    for (unsigned n = 1; n <= MEMBERS; n++)
        if (fg_slice_is(member->name, world->nodes[n].name))
            return &world->nodes[n];
    run_fault("%.*s is in the ring", FG_S(member->name));
}

/* Agents send again what was not acknowledged, and now and then what was. */
static uint32_t old_profile(const struct world *world)
{
    uint32_t number = 0;

    for (unsigned tries = 0; tries < 4; tries++) {
        number = world->n_sent - 1 - (uint32_t)threads_draw(FG_MIN(world->n_sent, 100));
        if (world->sent[number].acked_mono_ns == 0)
            break;
    }
    return number;
}

/* To all owners under the ring that the distributor knows. */
static void push(struct world *world, struct fg_ring_view *view)
{
    bool again = world->n_sent > 0 && (run_chance(300) || world->n_sent == PROFILES_MAX);
    uint32_t number = again ? old_profile(world) : make_profile(world);
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    unsigned n = fg_ring_view_owners(view, world->sent[number].shard, owners);
    struct push *push;

    if (n == 0)
        return;
    push = fg_new(struct push);
    *push = (struct push){world, number, fg_ring_view_ref(view), n, 0};
    world->sent[number].tries++;
    for (unsigned i = 0; i < n; i++) {
        struct copy *copy = fg_new(struct copy);

        *copy = (struct copy){push, find_member(world, owners[i]), owners[i]->store};
        world->pushing++;
        threads_spawn(0, "copy", push_copy, copy);
    }
}

static void distributor(void *arg)
{
    struct world *world = arg;
    struct fg_ring_view *copy = read_ring(world);

    while (!world->ending) {
        if (run_chance(300)) {
            fg_ring_view_unref(copy);
            copy = read_ring(world);
        }
        if (!world->quiet)
            push(world, copy);
        threads_sleep(run_draw_ns(run_chance(100) ? FG_MINUTE_NS : 5 * FG_SECOND_NS));
    }
    fg_ring_view_unref(copy);
    world->clients--;
}

/* ---- what is on disks ---- */

static bool owns(const struct world *world, const struct node *node, uint16_t shard)
{
    const struct fg_ring_view *view = world->now;

    for (uint32_t r = 0; r < view->ring.n_revisions; r++)
        for (unsigned i = 0; i < view->tables[r]->n_owners; i++)
            if (fg_slice_is(view->ring.members[fg_ring_view_owner(view, r, shard, i)].name,
                            node->name))
                return true;
    return false;
}

/* What never reached the member came by repair. */
static void check_repaired(struct world *world, const struct node *node, uint32_t number)
{
    struct sent *sent = &world->sent[number];
    const unsigned bit = 1u << node->number;
    int64_t age_ns = fg_wall_ns(fg_clock_real()) - sent->time_ns;

    if (((sent->reached | sent->repaired) & bit) != 0)
        return;
    run_trace("%s has repaired p%u", node->name, number);
    if (age_ns < young_ns)
        run_fault("%s has taken p%u from another owner when it was %lld s old", node->name, number,
                  (long long)(age_ns / FG_SECOND_NS));
    if (!owns(world, node, sent->shard))
        run_fault("%s has taken p%u from another owner, and does not own its shard", node->name,
                  number);
    sent->repaired |= bit;
    world->counts[REPAIRED]++;
}

static void read_disk(struct world *world, struct node *node)
{
    fg_auto(fg_store_iter) *iter =
        fg_store_iter_create(sim_disk_inner(node->disk), HEAD_PROFILES, FG_LIT(""), FG_LIT(""));
    bool has[PROFILES_MAX] = {false};
    struct ing_head_profile_key key;

    for (; iter->valid; fg_store_iter_next(iter)) {
        uint32_t number;

        fg_assert(ing_head_get_profile_key(iter->key, &key));
        number = find_profile(world, key.id);
        if (number == FG_MAP_NONE)
            run_fault("%s has a profile that nobody made", node->name);
        check_repaired(world, node, number);
        has[number] = true;
    }
    for (uint32_t i = 0; i < world->n_sent; i++) {
        int64_t *had_mono_ns = &world->sent[i].had_mono_ns[node->number];

        /* What a write that failed has left is there too, until the next write. */
        if (!has[i] || (world->sent[i].taken & 1u << node->number) == 0)
            *had_mono_ns = 0;
        else if (*had_mono_ns == 0)
            *had_mono_ns = threads_now_ns();
    }
}

static void inspect(struct world *world, struct node *node)
{
    threads_pin(); /* or the disk may be wiped meanwhile */
    read_disk(world, node);
    threads_unpin();
}

static bool has_long(const struct world *world, const struct node *node, uint32_t number)
{
    int64_t had_mono_ns = world->sent[number].had_mono_ns[node->number];

    return had_mono_ns != 0 && threads_now_ns() - had_mono_ns > group_max_ns;
}

/* A member asks other owners for nothing that it has; except when a comparison moves it to another
 * chunk while the member lists what it has. */
static void on_send(void *arg, unsigned machine, const struct fg_call *call)
{
    struct world *world = arg;
    struct node *node = &world->nodes[machine];
    Fg__Inner__FetchHead *head;

    if (call->method != FG_RPC_FETCH)
        return;
    head = fg__inner__fetch_head__unpack(NULL, call->head.len, call->head.ptr);
    fg_assert(head != NULL);
    for (size_t at = 0; at < head->ids.len; at += FG_ID_BYTES) {
        uint32_t number = find_profile(world, fg_id_get(head->ids.data + at));

        fg_assert(number != FG_MAP_NONE);
        if (has_long(world, node, number))
            inspect(world, node); /* it may just have forgotten it */
        if (has_long(world, node, number) && ++world->sent[number].asked[machine] > ASKED_MAX)
            run_fault("%s asks for p%u again and again, which it has", node->name, number);
    }
    fg__inner__fetch_head__free_unpacked(head, NULL);
}

static void inspector(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        fg_ring_view_unref(read_ring(world));
        for (unsigned n = 1; n <= MEMBERS; n++)
            inspect(world, &world->nodes[n]);
        threads_sleep(FG_SECOND_NS);
    }
    world->clients--;
}

/* ---- reads ---- */

/* What all members answered to one question, with what is committed. */
struct qry_replica_read {
    struct fg_ring_view *view;
    int64_t begin_ns;
    uint8_t committed[PROFILES_MAX];
    uint8_t found[1 + MEMBERS][PROFILES_MAX]; /* with what is committed */
    bool heard[1 + MEMBERS]; /* the answer is complete, and of the store that is in the ring */
};

static void ask(struct world *world, struct qry_replica_read *reading, struct node *node,
                uint64_t generation)
{
    const struct head_query query = {.tenant = tenant,
                                     .type = type,
                                     .start_ns = INT64_MIN,
                                     .end_ns = INT64_MAX,
                                     .generation = generation,
                                     .lenient = run_chance(500)};
    uint32_t place = fg_ring_find(&reading->view->ring, fg_cstr(node->name));
    struct head remote = {.peer = node->peer};
    uint8_t *found = reading->found[node->number];
    struct fg_buf lines;

    fg_buf_init(&lines, SIZE_MAX);
    memcpy(found, reading->committed, sizeof reading->committed);
    if (head_select(&remote, &query, &lines) == FG_OK) {
        world->counts[READS]++;
        world->counts[READS_INCOMPLETE] += remote.lacks;
        objects_count_lines(fg_buf_slice(&lines), found);
        /* Whether the disk was wiped meanwhile. */
        reading->heard[node->number] =
            !remote.lacks && place != FG_RING_NO_MEMBER &&
            fg_id_eq(reading->view->ring.members[place].store, node->store);
    }
    fg_buf_done(&lines);
    for (uint32_t i = 0; i < PROFILES_MAX; i++) {
        if (found[i] > 1)
            run_fault("p%u is %u times in what %s answers and what is committed", i, found[i],
                      node->name);
        if (found[i] == 1 && (i >= world->n_sent || world->sent[i].tries == 0))
            run_fault("p%u is there and was never sent", i);
    }
}

/* Have enough owners of the shard answered? */
static bool is_enough(const struct world *world, const struct qry_replica_read *reading,
                      uint16_t shard)
{
    struct fg_ring_reads reads;

    fg_ring_reads_init(&reads, reading->view, shard, shard);
    for (unsigned n = 1; n <= MEMBERS; n++)
        if (reading->heard[n])
            fg_ring_reads_heard(&reads,
                                fg_ring_find(&reading->view->ring, fg_cstr(world->nodes[n].name)));
    return fg_ring_reads_is_enough(&reads);
}

static bool is_anywhere(const struct qry_replica_read *reading, uint32_t profile)
{
    bool found = reading->committed[profile] != 0;

    for (unsigned n = 1; n <= MEMBERS; n++)
        found = found || reading->found[n][profile] != 0;
    return found;
}

/* The ring is read before the manifests (as-drained). */
static struct qry_replica_read *read_all(struct world *world)
{
    struct qry_replica_read *reading = fg_new(struct qry_replica_read);
    uint64_t generation;

    reading->begin_ns = threads_now_ns();
    reading->view = read_ring(world);
    generation = objects_read_now(world->objects, reading->committed);
    for (unsigned n = 1; n <= MEMBERS; n++)
        ask(world, reading, &world->nodes[n], generation);
    for (uint32_t i = 0; i < world->n_sent; i++) {
        const struct sent *sent = &world->sent[i];

        if (sent->acked_mono_ns != 0 && sent->acked_mono_ns < reading->begin_ns &&
            !is_anywhere(reading, i) && is_enough(world, reading, sent->shard))
            run_fault("p%u, acknowledged at %.3f s, is in no answer and not committed", i,
                      (double)sent->acked_mono_ns / 1e9);
    }
    return reading;
}

static void reading_free(struct qry_replica_read *reading)
{
    fg_ring_view_unref(reading->view);
    free(reading);
}

static void reader(void *arg)
{
    struct world *world = arg;

    while (!world->ending) {
        if (!world->quiet)
            reading_free(read_all(world));
        threads_sleep(run_draw_ns(20 * FG_SECOND_NS));
    }
    world->clients--;
}

/* ---- the members' lives ---- */

struct moving {
    struct node *node;
    bool done;
};

static void open_member(void *arg)
{
    struct moving *starting = arg;
    struct node *node = starting->node;
    struct world *world = node->world;
    struct head *head = fg_new(struct head);
    struct fg_err err;

    node->net = sim_net_create(node->number, world->bucket, &world->faults);
    head_open_member(head, sim_disk_store(node->disk), sim_net_bucket(node->net),
                     &(struct head_member){.name = node->name,
                                           .replicas = world->replicas,
                                           .url = node->url,
                                           .poll_ns = poll_ns,
                                           .evict_after_ns = evict_after_ns,
                                           .repair_every_ns = repair_every_ns});
    node->store = head->store_id;
    node->head = head;
    sim_calls_listen(node->url, head->server);
    if (fg_ring_watch_start(head->watch, &err) != FG_OK)
        run_fault("%s: %s", node->name, err.msg);
    starting->done = true;
}

static void start_member(struct node *node)
{
    struct moving starting = {.node = node};
    const bool unreadable = node->disk_faults.store_unreadable;

    node->disk_faults.store_unreadable = false; /* one that cannot be read does not start */
    sim_disk_restart(node->disk);
    run_trace("start of %s", node->name);
    threads_spawn(node->number, "main", open_member, &starting);
    run_wait_until(&starting.done, stop_max_ns, "a start");
    node->disk_faults.store_unreadable = unreadable;
    node->slow = node->disk_faults.write_max_ns > 0;
}

static void kill_member(struct node *node)
{
    run_trace("kill of %s", node->name);
    node->world->counts[KILLS]++;
    node->world->counts[BUCKET_FAILED] += sim_net_failed(node->net);
    threads_pin();
    sim_net_kill(node->net);
    sim_calls_kill(node->number);
    threads_kill(node->number);
    (void)remove_tree(node->head->scratch);
    node->head = NULL;
    threads_unpin();
}

/* As main() does. */
static void close_member(void *arg)
{
    struct moving *stopping = arg;
    struct node *node = stopping->node;

    fg_ring_watch_stop(node->head->watch);
    ing_hurry(node->head->ingester);
    sim_calls_stop(node->url);
    head_close(node->head);
    sim_net_close(node->net);
    free(node->head);
    node->head = NULL;
    stopping->done = true;
}

static void stop_member(struct node *node)
{
    struct moving stopping = {.node = node};
    uint64_t *counts = node->world->counts;
    int64_t begin_ns = threads_now_ns();

    run_trace("stop of %s", node->name);
    counts[STOPS]++;
    counts[BUCKET_FAILED] += sim_net_failed(node->net);
    threads_spawn(node->number, "main", close_member, &stopping);
    run_wait_until(&stopping.done, stop_max_ns, "an end");
    if (!node->slow && threads_now_ns() - begin_ns > hurry_max_ns)
        run_fault("%s takes %lld s to end", node->name,
                  (long long)((threads_now_ns() - begin_ns) / FG_SECOND_NS));
    threads_sleep(FG_SECOND_NS);
    if (threads_count(node->number) > 0)
        run_fault("threads of %s are left after the end", node->name);
}

/* Its disk is lost: it comes back with another store. */
static void wipe(struct node *node)
{
    struct world *world = node->world;

    run_trace("wipe of %s", node->name);
    world->counts[WIPES]++;
    world->counts[DISK_FAILED] += sim_disk_failed(node->disk);
    node->disk_faults = (struct faults){0};
    /* Not destroyed: a killed machine has left iterators. */
    node->disk = sim_disk_create(HEAD_FAMILIES, &node->disk_faults);
    for (uint32_t i = 0; i < world->n_sent; i++) {
        world->sent[i].reached &= ~(1u << node->number);
        world->sent[i].repaired &= ~(1u << node->number);
        world->sent[i].taken &= ~(1u << node->number);
        world->sent[i].had_mono_ns[node->number] = 0;
    }
}

/* ---- the operator ---- */

static const char *change_bucket(struct faults *faults)
{
    switch (threads_draw(5)) {
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
        return "requests to the bucket arrive late";
    default:
        faults->delay_max_ns = 15 * FG_SECOND_NS;
        return "the bucket is slow";
    }
}

static const char *change_calls(struct faults *faults)
{
    switch (threads_draw(7)) {
    case 0:
        faults->call_refuse = 500;
        return "calls are refused";
    case 1:
        faults->call_lose = 300;
        return "calls get lost";
    case 2:
        faults->call_lose_answer = 300;
        return "answers to calls get lost";
    case 3:
        faults->call_late = 300;
        return "calls arrive late";
    case 4:
        faults->call_max_ns = 4 * FG_SECOND_NS;
        return "calls are slow";
    default:
        faults->call_cut = 1u << (1 + threads_draw(MEMBERS));
        return "a member is cut off";
    }
}

static const char *change_disk(struct faults *faults)
{
    switch (threads_draw(4)) {
    case 0:
        faults->store_fails = true;
        return "a disk fails";
    case 1:
        faults->store_full = true;
        return "a disk is full";
    case 2:
        faults->store_unreadable = true;
        return "a disk cannot be read";
    default:
        faults->write_max_ns = 10 * FG_SECOND_NS;
        return "a disk is slow";
    }
}

static void heal(struct world *world)
{
    world->faults = (struct faults){0};
    for (unsigned n = 1; n <= MEMBERS; n++)
        world->nodes[n].disk_faults = (struct faults){0};
}

static void change_faults(struct world *world)
{
    struct node *node = &world->nodes[1 + threads_draw(MEMBERS)];

    heal(world);
    run_trace("all is well, but");
    if (run_chance(200))
        run_trace("%s", change_bucket(&world->faults));
    if (run_chance(500))
        run_trace("%s (%x)", change_calls(&world->faults), world->faults.call_cut);
    if (run_chance(250))
        run_trace("%s of %s", change_disk(&node->disk_faults), node->name);
    node->slow = node->slow || node->disk_faults.write_max_ns > 0;
}

/* Each time of faults takes one disk at most, so that no quorum is lost. */
static void operate(struct world *world)
{
    int64_t end_ns = threads_now_ns() + faulty_ns;
    bool wiped = false;

    while (threads_now_ns() < end_ns) {
        struct node *node = &world->nodes[1 + threads_draw(MEMBERS)];

        threads_sleep(run_draw_ns(FG_MINUTE_NS));
        change_faults(world);
        if (run_chance(100))
            kill_member(node);
        else if (run_chance(100))
            stop_member(node);
        else
            continue;
        if (!wiped && run_chance(150)) {
            wipe(node);
            wiped = true;
        }
        threads_sleep(run_draw_ns(2 * FG_MINUTE_NS));
        start_member(node);
    }
}

/* Whether each owner has what any other one has, or it is committed; or what is lacking. */
static bool has_come_round(struct world *world, struct fg_buf *why)
{
    struct qry_replica_read *reading = read_all(world);
    bool all = reading->view->ring.n_revisions == 1;

    fg_buf_clear(why);
    if (!all)
        fg_buf_printf(why, "the ring has %u revisions", reading->view->ring.n_revisions);
    for (unsigned n = 1; n <= MEMBERS; n++) {
        const struct node *node = &world->nodes[n];

        if (all && !reading->heard[n]) {
            fg_buf_printf(why, "%s does not answer completely", node->name);
            all = false;
        }
        for (uint32_t i = 0; i < world->n_sent && all; i++) {
            if (!is_anywhere(reading, i) || reading->found[n][i] > 0 ||
                !owns(world, node, world->sent[i].shard))
                continue;
            fg_buf_printf(why, "%s lacks p%u, which another owner has", node->name, i);
            all = false;
        }
    }
    reading_free(reading);
    return all;
}

static void wait_until_chunk(struct world *world)
{
    int64_t begin_ns = threads_now_ns();
    struct fg_buf why;

    fg_buf_init(&why, SIZE_MAX);
    while (world->pushing > 0 || !has_come_round(world, &why)) {
        threads_sleep(5 * FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > round_max_ns)
            run_fault("%lld s after the faults %.*s", (long long)(round_max_ns / FG_SECOND_NS),
                      FG_S(fg_buf_slice(&why)));
    }
    fg_buf_done(&why);
    run_trace("repair has come round");
}

/* Until each member has asked all others and nothing differs. */
static void wait_until_rest(struct world *world)
{
    int64_t begin_ns = threads_now_ns();
    uint64_t fetches;

    do {
        fetches = sim_calls_made(FG_RPC_FETCH);
        threads_sleep(repair_every_ns + 15 * FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > rest_max_ns)
            run_fault("%lld s after repair has come round members still ask for profiles",
                      (long long)(rest_max_ns / FG_SECOND_NS));
    } while (sim_calls_made(FG_RPC_FETCH) != fetches);
    reading_free(read_all(world));
}

/* All is well, and nobody sends anything. */
static void come_round(struct world *world)
{
    run_trace("all is well");
    heal(world);
    world->quiet = true;
    wait_until_chunk(world);
    wait_until_rest(world);
    world->quiet = false;
}

static bool is_committed(struct world *world)
{
    uint8_t found[PROFILES_MAX] = {0};
    bool all = true;

    (void)objects_read_now(world->objects, found);
    for (uint32_t i = 0; i < world->n_sent; i++) {
        if (found[i] > 1)
            run_fault("p%u is committed %u times", i, found[i]);
        all = all && (found[i] == 1 || world->sent[i].acked_mono_ns == 0);
    }
    return all;
}

/* Members ask each other once in a while, also if that fails. */
static void check_calls(const struct world *world)
{
    uint64_t passes = (uint64_t)(threads_now_ns() - world->begin_ns) / (uint64_t)repair_every_ns;

    passes = MEMBERS * (passes + 1) + world->counts[STOPS] + world->counts[KILLS];
    if (sim_calls_made(FG_RPC_GROUPS) > passes * (MEMBERS - 1))
        run_fault("%" PRIu64 " times a member has asked another one, which is more than %" PRIu64
                  " passes need",
                  sim_calls_made(FG_RPC_GROUPS), passes);
}

static void settle(struct world *world)
{
    int64_t begin_ns = threads_now_ns();

    world->ending = true;
    while (world->clients > 0 || !is_committed(world)) {
        threads_sleep(10 * FG_SECOND_NS);
        if (threads_now_ns() - begin_ns > settle_max_ns)
            run_fault("%lld s after the faults not all is committed, or a client does not end",
                      (long long)(settle_max_ns / FG_SECOND_NS));
    }
    check_calls(world);
    for (unsigned n = 1; n <= MEMBERS; n++)
        stop_member(&world->nodes[n]);
}

static bool is_seated(struct world *world)
{
    for (unsigned n = 1; n <= MEMBERS; n++)
        if (fg_ring_watch_member_state(world->nodes[n].head->watch) != FG_RING_MEMBER_ACTIVE)
            return false;
    return true;
}

static void make_members(struct world *world)
{
    struct fg_err err;

    for (unsigned n = 1; n <= MEMBERS; n++) {
        struct node *node = &world->nodes[n];

        node->world = world;
        node->number = n;
        (void)snprintf(node->name, sizeof node->name, "member-%u", n);
        (void)snprintf(node->url, sizeof node->url, "sim://%s", node->name);
        node->disk = sim_disk_create(HEAD_FAMILIES, &node->disk_faults);
        fg_assert(fg_peer_dial(NULL, node->url, 64, &node->peer, &err) == FG_OK);
        start_member(node);
    }
    for (int64_t begin_ns = threads_now_ns(); !is_seated(world); threads_sleep(FG_SECOND_NS))
        if (threads_now_ns() - begin_ns > start_max_ns)
            run_fault("not all members have their seats");
}

static void run(uint64_t counts[RUN_COUNTS])
{
    struct world *world = fg_new(struct world);

    world->counts = counts;
    world->begin_ns = threads_now_ns();
    world->bucket = fg_bucket_memory();
    world->objects = objects_create(world->bucket, tenant, type);
    world->wave = fg_bucket_wave_create();
    world->replicas = run_chance(300) ? 2 : 3;
    fg_map_init(&world->ids);
    fg_map_init(&world->batches);
    sim_calls_init(&world->faults, &(struct sim_calls_watch){on_send, on_arrive, world});
    make_members(world);
    world->clients = DISTRIBUTORS + 2;
    for (unsigned i = 0; i < DISTRIBUTORS; i++)
        threads_spawn(0, "distributor", distributor, world);
    threads_spawn(0, "reader", reader, world);
    threads_spawn(0, "inspector", inspector, world);
    for (unsigned i = 0; i < TIMES; i++) {
        operate(world);
        come_round(world);
    }
    settle(world);
    counts[CALLS_FAILED] += sim_calls_failed();
    for (unsigned n = 1; n <= MEMBERS; n++)
        counts[DISK_FAILED] += sim_disk_failed(world->nodes[n].disk);
}

static void owners_come_to_what_they_should_have(void **state)
{
    uint64_t counts[RUN_COUNTS];

    (void)state;
    run_seeds(run, SEEDS, counts);
    for (size_t i = 0; i < FG_COUNT(count_names); i++)
        print_message("%s%" PRIu64 " %s", i == 0 ? "  " : ", ", counts[i], count_names[i]);
    print_message("\n");
    assert_true(counts[ACKED] > 0 && counts[REPAIRED] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(owners_come_to_what_they_should_have),
    };

    /* A comparison takes several writes, so that kills and faults of the disk come in between. */
    head_compare_piece_bytes = 500;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
