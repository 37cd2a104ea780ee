/* Tests replica reads: real heads, a real ring, real calls and a bucket in memory. Each profile has
 * a stack and a bit of its own, so an answer shows which profiles it contains. Every answer
 * contains a profile that was acknowledged before the query (by a quorum of the owners of its
 * shard, under one revision) exactly once, and any other profile at most once. */
#include "common/model/flame.h"
#include "common/net/http/impl.h"
#include "ingester/segments/publish.h"
#include "proto/inner.pb-c.h"
#include "querier/blocks/blocks.h"
#include "querier/collect.h"
#include "querier/fanout.h"
#include "querier/querier.h"
#include "querier/replicas/replicas.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/committed.h"
#include "tests/lib/head_run.h"
#include "tests/lib/ring_bucket.h"
#include "tests/lib/store_doubles.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { HEADS = 5, ORACLE = HEADS, PROFILES = 48, SERVICES = 4, ALL = (1 << HEADS) - 1 };

static const int64_t now_ns = INT64_C(1700003600) * FG_SECOND_NS;

#define COUNTS "process_cpu:samples:count::"
#define BITS   "process_cpu:cpu:nanoseconds::"

/* ---- a gate before each head ---- */

enum gate_mode { GATE_OPEN, GATE_FAILS, GATE_HOLDS };

struct gate {
    struct head head;
    struct fg_store *store;
    struct fg_rpc_server *server;
    char name[16], url[64];
    struct fg_id id; /* id of the store */
    pthread_mutex_t lock;
    enum gate_mode mode;
    struct passing *held;
    unsigned calls, data_calls; /* calls whose reply had data of shards */
    uint64_t least_generation;  /* a SELECT of an older snapshot is refused */
    unsigned refused;
};

/* A call that passes through the gate. */
struct passing {
    struct fg_call call;
    struct fg_rpc_request *req;
    struct gate *gate;
    struct passing *next;
};

/* The call ends before its answer: the receiver of the answer may close the peer. */
static void on_answer(struct fg_call *call)
{
    struct passing *passing = fg_container(call, struct passing, call);
    enum fg_code code = call->code;
    struct fg_err err = call->err;
    struct fg_buf head, payload;

    fg_buf_init(&head, SIZE_MAX);
    fg_buf_init(&payload, SIZE_MAX);
    fg_buf_put(&head, call->reply_head);
    fg_buf_put(&payload, call->reply_payload);
    fg_call_done(passing->gate->head.peer, call);
    if (code == FG_OK)
        fg_rpc_reply(passing->req, fg_buf_slice(&head), fg_buf_slice(&payload));
    else
        fg_rpc_reply_error(passing->req, &err);
    fg_buf_done(&head);
    fg_buf_done(&payload);
    free(passing);
}

static void pass(struct passing *passing)
{
    passing->call = (struct fg_call){
        .method = fg_rpc_method(passing->req),
        .head = fg_rpc_head(passing->req),
        .payload = fg_rpc_payload(passing->req),
        .deadline_mono_ns = fg_rpc_deadline_mono_ns(passing->req),
        .done = on_answer,
    };
    fg_peer_send(passing->gate->head.peer, &passing->call);
}

/* Returns the generation of the snapshot of a SELECT; for other calls the largest number. */
static uint64_t count_call(struct gate *gate, const struct fg_rpc_request *req)
{
    uint64_t generation;
    Fg__Inner__SelectHead *head;

    gate->calls++;
    if (fg_rpc_method(req) != FG_RPC_SELECT)
        return UINT64_MAX;
    head = fg__inner__select_head__unpack(NULL, fg_rpc_head(req).len, fg_rpc_head(req).ptr);
    gate->data_calls += head->selection->shards == NULL || head->selection->shards->data.len > 0;
    generation = head->selection->generation;
    fg__inner__select_head__free_unpacked(head, NULL);
    return generation;
}

static void on_call(struct fg_rpc_request *req, void *arg)
{
    struct gate *gate = arg;
    struct passing *passing;
    struct fg_err err;
    enum gate_mode mode;
    bool too_old;

    (void)pthread_mutex_lock(&gate->lock);
    mode = gate->mode;
    too_old = count_call(gate, req) < gate->least_generation;
    if (mode == GATE_FAILS || too_old) {
        gate->refused += too_old;
        (void)pthread_mutex_unlock(&gate->lock);
        (void)fg_fail(&err, too_old ? FG_E_PRECONDITION : FG_E_UNAVAILABLE, "gate is shut");
        fg_rpc_reply_error(req, &err);
        return;
    }
    passing = fg_new(struct passing);
    *passing = (struct passing){.req = req, .gate = gate};
    if (mode == GATE_HOLDS) {
        passing->next = gate->held;
        gate->held = passing;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    if (mode == GATE_OPEN)
        pass(passing);
}

static void set_gate(struct gate *gate, enum gate_mode mode)
{
    struct passing *held, *next;

    (void)pthread_mutex_lock(&gate->lock);
    gate->mode = mode;
    held = mode == GATE_HOLDS ? NULL : gate->held;
    if (held != NULL)
        gate->held = NULL;
    (void)pthread_mutex_unlock(&gate->lock);
    for (; held != NULL; held = next) {
        next = held->next;
        pass(held);
    }
}

static void read_store_id(struct gate *gate)
{
    struct fg_buf value;
    struct fg_err err;
    bool found;

    fg_buf_init(&value, 64);
    assert_int_equal(fg_store_get(gate->store, HEAD_META, FG_LIT("writer"), &value, &found, &err),
                     FG_OK);
    assert_true(found && value.len == FG_ID_BYTES);
    gate->id = fg_id_get(value.ptr);
    fg_buf_done(&value);
}

static void open_gate(struct gate *gate, unsigned number, struct fg_bucket *bucket)
{
    struct fg_err err;

    *gate = (struct gate){.store = fg_store_memory(HEAD_FAMILIES)};
    (void)pthread_mutex_init(&gate->lock, NULL);
    head_open_on(&gate->head, gate->store, bucket);
    read_store_id(gate);
    (void)snprintf(gate->name, sizeof gate->name, "i%u", number);
    (void)snprintf(gate->url, sizeof gate->url, "inproc://replicas-test-%p", (void *)gate);
    gate->server = fg_rpc_server_create(NULL, 16);
    for (enum fg_rpc_method method = FG_RPC_PUSH; method <= FG_RPC_STATS; method++)
        fg_rpc_server_handle(gate->server, method, on_call, gate);
    assert_int_equal(fg_rpc_server_start(gate->server, gate->url, &err), FG_OK);
}

static void close_gate(struct gate *gate)
{
    set_gate(gate, GATE_OPEN);
    fg_rpc_server_stop(gate->server);
    fg_rpc_server_destroy(gate->server);
    head_close(&gate->head);
    fg_store_close(gate->store);
    (void)pthread_mutex_destroy(&gate->lock);
}

/* ---- the world ---- */

struct known {
    struct head_profile profile;
    struct head_sample sample;
    char stack[16], service[16], zone[16];
    struct fg_buf batch;
    struct fg_id id;
    uint16_t shard;
    bool sent; /* to any head */
    atomic_bool acknowledged;
};

struct world {
    struct fg_bucket *bucket;
    struct gate
        gates[HEADS + 1]; /* the last one is in no ring; it tells which shard a profile is in */
    struct fg_registry *registry;
    struct fg_ring_watch *ring;
    struct fg_peers *peers;
    struct fg_clock_manual clock;
    struct querier *querier;
    struct known profiles[PROFILES];
    uint64_t random;
};

static uint64_t draw(struct world *world, uint64_t below)
{
    world->random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(world->random) % below;
}

static unsigned draw_mask(struct world *world, unsigned bits)
{
    return (unsigned)draw(world, UINT64_C(1) << bits);
}

/* Half of the profiles are so recent that replicas compare them by id. */
static void make_profile(struct world *world, unsigned number)
{
    struct known *known = &world->profiles[number];
    int64_t ago_s = (int64_t)draw(world, draw(world, 2) == 0 ? 110 : 3000);

    (void)snprintf(known->stack, sizeof known->stack, "p%u", number);
    (void)snprintf(known->service, sizeof known->service, "s%u", number % SERVICES);
    (void)snprintf(known->zone, sizeof known->zone, "z%u", (unsigned)draw(world, 3));
    known->sample = (struct head_sample){known->stack, {1, INT64_C(1) << number}, 0};
    known->profile = (struct head_profile){
        .tenant = "anonymous",
        .service = known->service,
        .zone = known->zone,
        .time_ns = now_ns - ago_s * FG_SECOND_NS,
        .samples = &known->sample,
        .n_samples = 1,
    };
    fg_buf_init(&known->batch, SIZE_MAX);
    known->id = head_encode(&known->profile, true, 1, &known->batch);
    atomic_init(&known->acknowledged, false);
}

static void push_to(struct world *world, unsigned gate, struct known *known)
{
    struct head_pushed pushed =
        head_push_bytes(&world->gates[gate].head, &known->profile, fg_buf_slice(&known->batch));

    assert_int_equal(pushed.code, FG_OK);
    assert_int_equal(pushed.stored + pushed.duplicates, 1);
}

static void locate(struct world *world, const Fg__Inner__GroupSum *sum)
{
    for (size_t at = 0; at < sum->ids.len; at += FG_ID_BYTES)
        for (unsigned i = 0; i < PROFILES; i++)
            if (fg_id_eq(world->profiles[i].id, fg_id_get(sum->ids.data + at)))
                world->profiles[i].shard = (uint16_t)sum->shard;
}

/* Asks the head outside the ring for the ids of all shards. */
static void locate_all(struct world *world)
{
    static uint8_t map[8192];
    static char tenant[] = "anonymous", type[] = COUNTS;
    Fg__Inner__Shards shards = FG__INNER__SHARDS__INIT;
    Fg__Inner__Selection selection;
    Fg__Inner__SelectHead head;
    struct fg_peer *peer = world->gates[ORACLE].head.peer;
    Fg__Inner__SelectReply *reply;
    uint8_t bytes[8192 + 256];
    struct fg_call call;

    fg__inner__selection__init(&selection);
    fg__inner__select_head__init(&head);
    memset(map, 0xff, sizeof map);
    shards.sums = (ProtobufCBinaryData){sizeof map, map};
    shards.ids_since_ns = INT64_MIN;
    selection.tenant = tenant;
    selection.end_ns = now_ns;
    selection.shards = &shards;
    head.selection = &selection;
    head.profile_type = type;
    for (unsigned i = 0; i < PROFILES; i++)
        push_to(world, ORACLE, &world->profiles[i]);
    assert_true(fg__inner__select_head__get_packed_size(&head) <= sizeof bytes);
    call = (struct fg_call){
        .method = FG_RPC_SELECT,
        .head = fg_bytes(bytes, fg__inner__select_head__pack(&head, bytes)),
        .deadline_mono_ns = INT64_MAX,
    };
    assert_int_equal(fg_peer_call(peer, &call), FG_OK);
    reply = fg__inner__select_reply__unpack(NULL, call.reply_head.len, call.reply_head.ptr);
    assert_non_null(reply);
    for (size_t i = 0; i < reply->n_sums; i++)
        locate(world, reply->sums[i]);
    fg__inner__select_reply__free_unpacked(reply, NULL);
    fg_call_done(peer, &call);
}

/* ---- the ring ---- */

static void join(struct world *world, unsigned gate, struct fg_id store)
{
    ring_bucket_join(world->bucket, world->gates[gate].name, world->gates[gate].url, store, 3);
}

static void leave(struct world *world, unsigned gate)
{
    ring_bucket_change(world->bucket,
                       &(struct fg_ring_change){.kind = FG_RING_LEAVE,
                                                .name = fg_cstr(world->gates[gate].name),
                                                .store = world->gates[gate].id});
}

static struct fg_ring_view *ring_now(struct world *world)
{
    struct fg_ring_view *view = NULL;
    struct fg_err err;

    assert_int_equal(fg_ring_watch_fresh(world->ring, INT64_MAX, &view, &err), FG_OK);
    return view;
}

/* Records in the ring that these members are drained up to the newest revision. */
static void drained(struct world *world, unsigned gates, uint64_t generation)
{
    fg_auto(fg_ring_view) *view = ring_now(world);

    for (unsigned i = 0; i < HEADS; i++)
        if ((gates >> i & 1) != 0)
            ring_bucket_change(world->bucket,
                               &(struct fg_ring_change){.kind = FG_RING_DRAINED,
                                                        .name = fg_cstr(world->gates[i].name),
                                                        .store = world->gates[i].id,
                                                        .revision = fg_ring_newest(&view->ring),
                                                        .generation = generation});
}

/* Returns the owners of the shard under the newest revision, as bits of gates. */
static unsigned owners_of(struct world *world, uint16_t shard)
{
    const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX];
    fg_auto(fg_ring_view) *view = ring_now(world);
    unsigned n = fg_ring_view_owners(view, shard, owners), mask = 0;

    for (unsigned i = 0; i < n; i++)
        mask |= 1u << (owners[i]->name.ptr[1] - '0');
    return mask;
}

/* A ring of members 0, 1 and 2, which own all shards. */
static struct world *begin(uint64_t seed, int64_t hedge_after_ns)
{
    struct world *world = fg_new(struct world);

    world->random = seed;
    world->bucket = fg_bucket_memory();
    world->registry = fg_registry_create();
    fg_clock_manual_init(&world->clock, now_ns);
    world->clock.mono_ns = fg_mono_ns(fg_clock_real());
    for (unsigned i = 0; i <= HEADS; i++)
        open_gate(&world->gates[i], i, world->bucket);
    world->ring = ring_bucket_watch(world->bucket, world->registry);
    for (unsigned i = 0; i < 3; i++)
        join(world, i, world->gates[i].id);
    drained(world, 7, 0);
    ring_bucket_change(world->bucket, &(struct fg_ring_change){.kind = FG_RING_WIDEN,
                                                               .name = FG_LIT("anonymous"),
                                                               .shard_factor = HEAD_SPREAD});
    world->peers = fg_peers_create(&(struct fg_peers_config){.calls_max = 64, .peers_max = 16});
    world->querier = qry_create(&(struct qry_config){
        .ring = world->ring,
        .peers = world->peers,
        .hedge_after_ns = hedge_after_ns,
        .registry = world->registry,
        .clock = &world->clock.clock,
        .bucket = world->bucket,
        .cache_max_bytes = 1 << 20,
        .fetch_max_bytes = 1 << 20,
        .manifest_age_ns = FG_MINUTE_NS,
    });
    for (unsigned i = 0; i < PROFILES; i++)
        make_profile(world, i);
    locate_all(world);
    return world;
}

static void end(struct world *world)
{
    for (unsigned i = 0; i <= HEADS; i++)
        set_gate(&world->gates[i], GATE_OPEN);
    qry_destroy(world->querier);
    fg_peers_destroy(world->peers);
    fg_ring_watch_stop(world->ring);
    fg_ring_watch_destroy(world->ring);
    for (unsigned i = 0; i <= HEADS; i++)
        close_gate(&world->gates[i]);
    for (unsigned i = 0; i < PROFILES; i++)
        fg_buf_done(&world->profiles[i].batch);
    fg_registry_destroy(world->registry);
    fg_bucket_close(world->bucket);
    free(world);
}

/* Sends the profile to the current owners that are in the mask. */
static void push(struct world *world, unsigned number, unsigned mask)
{
    struct known *known = &world->profiles[number];
    unsigned owners = owners_of(world, known->shard);

    for (unsigned i = 0; i < HEADS; i++)
        if ((mask & owners & 1u << i) != 0) {
            push_to(world, i, known);
            known->sent = true;
        }
    if (__builtin_popcount(mask & owners) >= 2)
        atomic_store(&known->acknowledged, true);
}

/* Commits all profiles of a head that are in no block; returns the generation. */
static uint64_t flush(struct world *world, unsigned gate)
{
    struct committed committed;
    struct fg_buf lines;
    struct fg_err err;

    if (ing_flush(world->gates[gate].head.ingester, fg_mono_ns(fg_clock_real()) + FG_MINUTE_NS,
                  &err) != FG_OK)
        fail_msg("%s", err.msg);
    fg_buf_init(&lines, SIZE_MAX);
    committed = committed_read(world->bucket, "anonymous", "samples:count", &lines);
    fg_buf_done(&lines);
    return committed.generation;
}

/* ---- asking ---- */

static struct qry_query *ask(struct world *world, const char *selector, const char *type,
                             struct qry_selection *selection)
{
    static struct fg_http_request nobody; /* its client never disconnects */
    struct qry_query *query = fg_new(struct qry_query);
    struct fg_err err;

    query->querier = world->querier;
    query->req = &nobody;
    world->clock.mono_ns = fg_mono_ns(fg_clock_real()); /* the time of the ring's thread */
    query->start_mono_ns = world->clock.mono_ns;
    query->deadline_mono_ns = query->start_mono_ns + FG_HOUR_NS;
    query->arena = fg_arena_create((size_t)64 << 20);
    query->tenants = (struct fg_tenant_ids){.ids = {FG_LIT("anonymous")}, .n = 1};
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
    *selection = (struct qry_selection){0};
    assert_int_equal(qry_selection_range(query, selection, (now_ns - FG_HOUR_NS) / FG_MS_NS,
                                         now_ns / FG_MS_NS, &err),
                     FG_OK);
    if (qry_selection_profiles(query, selection, type, selector, &err) != FG_OK)
        fail_msg("%s", err.msg);
    return query;
}

static void answered(struct qry_query *query, struct qry_selection *selection)
{
    qry_selection_done(selection);
    qry_fanout_end(query);
    fg_buf_done(&query->missing);
    fg_arena_destroy(query->arena);
    free(query);
}

/* Bits of the acknowledged profiles, and of all that an answer may contain. */
static uint64_t acknowledged(const struct world *world, const char *service)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < PROFILES; i++)
        if (atomic_load(&world->profiles[i].acknowledged) &&
            (service == NULL || strcmp(service, world->profiles[i].service) == 0))
            bits |= UINT64_C(1) << i;
    return bits;
}

static uint64_t sent(const struct world *world, const char *service)
{
    uint64_t bits = 0;

    for (unsigned i = 0; i < PROFILES; i++)
        if (world->profiles[i].sent &&
            (service == NULL || strcmp(service, world->profiles[i].service) == 0))
            bits |= UINT64_C(1) << i;
    return bits;
}

static const char *selector_of(const char *service, char text[64])
{
    (void)snprintf(text, 64, service == NULL ? "{}" : "{service_name=\"%s\"}", service);
    return text;
}

/* Returns the profiles that the tree contains, each once. */
static uint64_t bits_of(const struct fg_tree *tree)
{
    struct fg_buf text;
    uint64_t bits = 0;
    const char *at;

    fg_buf_init(&text, SIZE_MAX);
    fg_flame_write_folded(tree, &text);
    fg_buf_append(&text, "", 1);
    for (at = (const char *)text.ptr; *at != '\0'; at = strchr(at, '\n') + 1) {
        char *after;
        unsigned long number = strtoul(at + 1, &after, 10);

        assert_true(*at == 'p' && number < PROFILES);
        assert_int_equal(strtoul(after, NULL, 10), 1);
        bits |= UINT64_C(1) << number;
    }
    fg_buf_done(&text);
    return bits;
}

static enum fg_code ask_select(struct world *world, const char *service, bool partial,
                               uint64_t *ret_bits, struct fg_err *err)
{
    static const struct qry_stack_filter all = {0};
    struct qry_selection selection;
    struct qry_query *query;
    struct fg_tree tree;
    enum fg_code code;
    char text[64];

    query = ask(world, selector_of(service, text), COUNTS, &selection);
    query->partial = partial;
    fg_tree_init(&tree);
    code = qry_collect_tree(query, &selection, &all, true, &tree, err);
    if (code == FG_OK) {
        *ret_bits = bits_of(&tree);
        assert_int_equal(query->profiles, __builtin_popcountll(*ret_bits));
        assert_int_equal(query->incomplete, query->missing.len > 0);
        if (!partial)
            assert_false(query->incomplete);
    }
    fg_tree_done(&tree);
    answered(query, &selection);
    return code;
}

static enum fg_code ask_points(struct world *world, const char *service, uint64_t *ret_bits,
                               struct fg_err *err)
{
    struct qry_selection selection;
    struct qry_query *query;
    struct qry_points *series;
    enum fg_code code;
    char text[64];
    size_t n;

    query = ask(world, selector_of(service, text), BITS, &selection);
    code = qry_collect_points(query, &selection, 5 * FG_MINUTE_NS, NULL, 0, &series, &n, err);
    *ret_bits = 0;
    for (size_t i = 0; code == FG_OK && i < n; i++)
        for (size_t k = 0; k < series[i].n; k++) {
            /* A profile that counts twice sets the next higher bit instead of its own. */
            assert_int_equal(__builtin_popcountll((uint64_t)series[i].items[k].sum),
                             series[i].items[k].count);
            assert_true((*ret_bits & (uint64_t)series[i].items[k].sum) == 0);
            *ret_bits |= (uint64_t)series[i].items[k].sum;
        }
    answered(query, &selection);
    return code;
}

static void expect_bits(const char *what, uint64_t got, uint64_t least, uint64_t most)
{
    if ((got & least) != least || (got & ~most) != 0)
        fail_msg("%s: lost %llx, too many %llx", what, (unsigned long long)(least & ~got),
                 (unsigned long long)(got & ~most));
}

static void expect_series(struct world *world)
{
    static const char *const names[] = {"service_name"};
    struct qry_selection selection;
    struct qry_query *query = ask(world, "{}", NULL, &selection);
    struct qry_label_sets sets;
    struct fg_err err;

    qry_label_sets_init(&sets);
    if (qry_collect_series(query, &selection, names, 1, &sets, &err) != FG_OK)
        fail_msg("%s", err.msg);
    for (unsigned i = 0; i < PROFILES; i++) {
        bool listed = false;

        for (size_t k = 0; k < sets.n; k++)
            listed |= fg_slice_is(fg_labels_get(&sets.items[k], "service_name"),
                                  world->profiles[i].service);
        assert_true(listed || !atomic_load(&world->profiles[i].acknowledged));
    }
    qry_label_sets_done(&sets);
    answered(query, &selection);
}

static void expect_stats(struct world *world)
{
    struct qry_selection selection;
    struct qry_query *query = ask(world, "{}", NULL, &selection);
    struct qry_tenant_stats stats;
    struct fg_err err;

    if (qry_collect_stats(query, &stats, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(stats.profiles <= (uint64_t)__builtin_popcountll(sent(world, NULL)));
    for (unsigned i = 0; i < PROFILES; i++)
        if (atomic_load(&world->profiles[i].acknowledged)) {
            assert_true(stats.profiles > 0);
            assert_true(stats.oldest_ns <= world->profiles[i].profile.time_ns);
            assert_true(stats.newest_ns >= world->profiles[i].profile.time_ns);
        }
    answered(query, &selection);
}

/* Queries everything, and one service. */
static void expect_all(struct world *world)
{
    char one[16];
    const char *const services[] = {NULL, one};
    struct fg_err err;
    uint64_t bits = 0;

    (void)snprintf(one, sizeof one, "s%llu", (unsigned long long)draw(world, SERVICES));
    for (unsigned i = 0; i < FG_COUNT(services); i++) {
        uint64_t least = acknowledged(world, services[i]), most = sent(world, services[i]);

        if (ask_select(world, services[i], false, &bits, &err) != FG_OK)
            fail_msg("%s", err.msg);
        expect_bits("select", bits, least, most);
        if (ask_points(world, services[i], &bits, &err) != FG_OK)
            fail_msg("%s", err.msg);
        expect_bits("points", bits, least, most);
    }
    expect_series(world);
    expect_stats(world);
}

/* Returns the value of the metric: the text after its name in the exposition. */
static uint64_t counted(struct world *world, const char *metric)
{
    uint64_t value = 0;
    struct fg_buf text;
    size_t at;

    fg_buf_init(&text, (size_t)1 << 20);
    fg_registry_write(world->registry, &text);
    at = fg_slice_search(fg_buf_slice(&text), metric);
    assert_true(at != SIZE_MAX);
    for (at += strlen(metric) + 1; text.ptr[at] >= '0' && text.ptr[at] <= '9'; at++)
        value = value * 10 + (uint64_t)(text.ptr[at] - '0');
    fg_buf_done(&text);
    return value;
}

#define CALLS(outcome) "\nflamegrid_querier_replica_calls_total{outcome=\"" outcome "\"}"
#define COMPARISONS(outcome)                                                                       \
    "\nflamegrid_querier_replica_comparisons_total{outcome=\"" outcome "\"}"
#define ANSWERS(outcome) "\nflamegrid_querier_replica_answers_total{outcome=\"" outcome "\"}"
#define LATE             "\nflamegrid_querier_replica_calls_late_total"
#define REPLACED         "\nflamegrid_querier_replica_owners_replaced_total"
#define FETCHED          "\nflamegrid_querier_replica_profiles_fetched_total"

/* ---- tests ---- */

static void profiles_on_two_of_three_count_once(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world *world = begin(seed, FG_MINUTE_NS);

        expect_all(world); /* there are no profiles yet */
        for (unsigned i = 0; i < PROFILES; i++) {
            push(world, i, seed == 1 ? 7 : draw_mask(world, 3));
            if (i % 16 == 15)
                expect_all(world);
        }
        end(world);
    }
}

/* Only the first replica of a shard sends profiles, the others send sums. */
static void equal_replicas_send_data_once(void **state)
{
    struct world *world = begin(11, FG_MINUTE_NS);
    unsigned calls = 0, data_calls = 0;
    struct fg_err err;
    uint64_t bits;

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i, 7);
    for (unsigned i = 0; i < HEADS; i++)
        world->gates[i].calls = world->gates[i].data_calls = 0;
    assert_int_equal(ask_select(world, "s1", false, &bits, &err), FG_OK);
    assert_true(bits == acknowledged(world, "s1"));
    for (unsigned i = 0; i < HEADS; i++) {
        calls += world->gates[i].calls;
        data_calls += world->gates[i].data_calls;
    }
    assert_int_equal(calls, 2);
    assert_in_range(data_calls, 1, 2); /* the shards of a service may have different first owners */
    assert_int_equal(counted(world, CALLS("answered")), 2);
    assert_int_equal(counted(world, CALLS("failed")), 0);
    assert_int_equal(counted(world, COMPARISONS("equal")), 1);
    assert_int_equal(counted(world, COMPARISONS("missing")), 0);
    assert_int_equal(counted(world, FETCHED), 0);
    end(world);
}

static void any_one_ingester_may_be_dead(void **state)
{
    struct world *world = begin(21, FG_MINUTE_NS);

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i, draw_mask(world, 3));
    for (unsigned dead = 0; dead < 3; dead++) {
        set_gate(&world->gates[dead], GATE_FAILS);
        for (unsigned i = 0; i < 2; i++) /* so often that its peer counts as down */
            expect_all(world);
        set_gate(&world->gates[dead], GATE_OPEN);
    }
    assert_true(counted(world, CALLS("failed")) > 0 && counted(world, REPLACED) > 0);
    assert_true(counted(world, COMPARISONS("missing")) > 0 && counted(world, FETCHED) > 0);
    end(world);
}

/* The answer has all profiles of the living members, each once. */
static void two_dead_ingesters_fail_the_query(void **state)
{
    struct world *world = begin(22, FG_MINUTE_NS);
    uint64_t bits, held = 0;
    struct fg_err err;

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++) {
        unsigned mask = draw_mask(world, 3);

        push(world, i, mask);
        held |= (uint64_t)(mask >> 2 & 1) << i;
    }
    set_gate(&world->gates[0], GATE_FAILS);
    set_gate(&world->gates[1], GATE_FAILS);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ask_select(world, NULL, false, &bits, &err), FG_E_UNAVAILABLE);
        assert_non_null(
            strstr(err.msg, "shard 0 of ring revision 3: 1 of 2 required ingesters responded: "));
        assert_non_null(strstr(err.msg, "i0: gate is shut"));
        assert_non_null(strstr(err.msg, "i1: gate is shut"));
        assert_int_equal(ask_select(world, NULL, true, &bits, &err), FG_OK);
        assert_true(bits == held);
    }
    assert_int_equal(counted(world, ANSWERS("refused")), 3);
    assert_int_equal(counted(world, ANSWERS("incomplete")), 3);
    end(world);
}

static void any_one_ingester_may_hang(void **state)
{
    struct world *world = begin(31, 20 * FG_MS_NS);

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i, draw_mask(world, 3));
    for (unsigned slow = 0; slow < 3; slow++) {
        set_gate(&world->gates[slow], GATE_HOLDS);
        expect_all(world);
        set_gate(&world->gates[slow], GATE_OPEN);
        expect_all(world);
    }
    set_gate(&world->gates[1], GATE_HOLDS); /* queries end while the gate holds its calls */
    expect_all(world);
    assert_true(counted(world, LATE) > 0 && counted(world, CALLS("not_needed")) > 0);
    end(world);
}

/* One member refuses the snapshot as too old while another one does not answer. */
static void refusal_does_not_wait_for_a_hanging_ingester(void **state)
{
    struct world *world = begin(35, 20 * FG_MS_NS);
    struct fg_err err;
    uint64_t bits;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        struct gate *newer = &world->gates[i], *silent = &world->gates[(i + 1) % 3];

        for (unsigned k = i * PROFILES / 3; k < (i + 1) * PROFILES / 3; k++)
            push(world, k, 7);
        for (unsigned turn = 0; turn < 2; turn++) /* each of them is asked first once */
            expect_all(world);
        newer->least_generation = flush(world, i);
        set_gate(silent, GATE_HOLDS);
        if (ask_select(world, NULL, false, &bits, &err) != FG_OK)
            fail_msg("%s", err.msg);
        assert_true(bits == acknowledged(world, NULL));
        set_gate(silent, GATE_OPEN);
        assert_int_not_equal(newer->refused, 0);
    }
    assert_true(counted(world, LATE) > 0);
    end(world);
}

/* One query has waited for the member; the next ones ask it last. */
static void hanging_ingester_is_asked_last(void **state)
{
    struct world *world = begin(36, 300 * FG_MS_NS); /* long enough for slow machines */
    uint64_t late;

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i, 7);
    set_gate(&world->gates[1], GATE_HOLDS);
    for (unsigned i = 0; i < 3 && counted(world, LATE) == 0; i++)
        expect_all(world);
    late = counted(world, LATE);
    assert_int_not_equal(late, 0);
    for (unsigned i = 0; i < 3; i++)
        expect_all(world);
    assert_int_equal(counted(world, LATE), late);
    end(world);
}

static void reply_of_another_store_does_not_count(void **state)
{
    struct world *world = begin(41, FG_MINUTE_NS);
    struct fg_err err;
    uint64_t bits;

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        push(world, i, draw_mask(world, 3));
    expect_all(world);
    /* The ring says that the disk was wiped: its profiles are lost, and the store is another one.
     */
    join(world, 1, (struct fg_id){7, 7});
    expect_all(world);
    join(world, 0, (struct fg_id){8, 8});
    assert_int_equal(ask_select(world, NULL, false, &bits, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "of ring revision 4: 1 of 2 required ingesters responded: "));
    assert_non_null(
        strstr(err.msg, "i1: the request is for another store than the one of this ingester"));
    end(world);
}

static void committed_profiles_are_not_read_from_replicas(void **state)
{
    struct world *world = begin(51, FG_MINUTE_NS);

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++) {
        push(world, i, draw_mask(world, 3));
        if (i % 12 == 7) {
            expect_all(world);
            (void)flush(world, (unsigned)draw(world, 3));
            expect_all(world);
            qry_refresh(world->querier); /* the snapshot would be the previous one */
            expect_all(world);
        }
    }
    end(world);
}

static void owners_under_older_revisions_are_asked(void **state)
{
    (void)state;
    for (uint64_t seed = 61; seed < 63; seed++) {
        struct world *world = begin(seed, FG_MINUTE_NS);
        uint64_t generation = 0;

        for (unsigned i = 0; i < PROFILES; i++) {
            if (i == PROFILES / 4)
                join(world, 3, world->gates[3].id);
            if (i == PROFILES / 2)
                leave(world, 0);
            if (i == 3 * PROFILES / 4)
                join(world, 4, world->gates[4].id);
            push(world, i, draw_mask(world, HEADS));
            if (i % 12 == 11)
                expect_all(world);
        }
        /* All members commit their profiles, and leaving members leave the ring. */
        for (unsigned i = 0; i < HEADS; i++)
            generation = flush(world, i);
        expect_all(world);
        drained(world, ALL, generation);
        set_gate(&world->gates[0], GATE_FAILS);
        expect_all(world);
        end(world);
    }
}

/* ---- while profiles come ---- */

/* Sends to the owners one by one in random order; the profile is acknowledged after the second. */
static void *push_all(void *arg)
{
    struct world *world = arg;
    uint64_t random = 5;

    for (unsigned i = 0; i < PROFILES; i++) {
        unsigned first = (unsigned)(fg_mix64(++random) % 3);

        for (unsigned k = 0; k < 3; k++) {
            push_to(world, (first + k) % 3, &world->profiles[i]);
            if (k == 1)
                atomic_store(&world->profiles[i].acknowledged, true);
        }
    }
    return NULL;
}

static void acknowledged_profile_is_visible_at_once(void **state)
{
    struct world *world = begin(71, FG_MINUTE_NS);
    pthread_t thread;
    uint64_t bits, least;
    struct fg_err err;

    (void)state;
    for (unsigned i = 0; i < PROFILES; i++)
        world->profiles[i].sent =
            true; /* set before the push, as an answer may already contain it */
    assert_int_equal(pthread_create(&thread, NULL, push_all, world), 0);
    do {
        least = acknowledged(world, NULL);
        if (ask_select(world, NULL, false, &bits, &err) != FG_OK)
            fail_msg("%s", err.msg);
        expect_bits("select", bits, least, sent(world, NULL));
        least = acknowledged(world, NULL);
        if (ask_points(world, NULL, &bits, &err) != FG_OK)
            fail_msg("%s", err.msg);
        expect_bits("points", bits, least, sent(world, NULL));
    } while (least != sent(world, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    end(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_on_two_of_three_count_once),
        cmocka_unit_test(equal_replicas_send_data_once),
        cmocka_unit_test(any_one_ingester_may_be_dead),
        cmocka_unit_test(two_dead_ingesters_fail_the_query),
        cmocka_unit_test(any_one_ingester_may_hang),
        cmocka_unit_test(refusal_does_not_wait_for_a_hanging_ingester),
        cmocka_unit_test(hanging_ingester_is_asked_last),
        cmocka_unit_test(reply_of_another_store_does_not_count),
        cmocka_unit_test(committed_profiles_are_not_read_from_replicas),
        cmocka_unit_test(owners_under_older_revisions_are_asked),
        cmocka_unit_test(acknowledged_profile_is_visible_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
