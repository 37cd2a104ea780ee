/*
 * Reads what heads hold of a tenant, with the state machine that queriers run
 * (querier/replicas/replica_read_core): of each shard the data of one head, sums of the others, and
 * the profiles that these have besides. What a head says is decided by production, too
 * (ingester/query_shards). Calls are made one after another, in any order, so that much happens
 * between them; some are late, and failover replicas are asked before they answer.
 */
#include "querier/replicas/replica_read_core.h"
#include "tests/sim/world.h"

enum { HEDGE_NS = 1000, LATE_PERMILLE = 100 };

/* What a head has answered to a request. */
struct reply {
    struct reply *next;
    const struct qry_replica_request *request;
    struct items data;
};

struct replicas {
    struct world *world;
    uint32_t tenant;
    uint64_t generation;
    uint64_t *least;
    struct fg_arena *arena;
    struct qry_replica_read_core core;
    struct reply *replies;
    int64_t now_ns; /* of this read alone: it is only compared with HEDGE_NS */
};

static ProtobufCBinaryData as_binary(struct fg_slice bytes)
{
    return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr}; /* only read */
}

static bool is_bad(void *arg, uint32_t member)
{
    (void)arg, (void)member;
    return false;
}

/* ---- calls ---- */

/* The head of the reply, as on the wire. (sums-of-ids) */
static struct fg_slice pack(const struct replicas *replicas, const struct head_answer *answer)
{
    Fg__Inner__SelectReply reply = FG__INNER__SELECT_REPLY__INIT;
    Fg__Inner__Stats stats = FG__INNER__STATS__INIT;
    uint8_t *bytes;

    for (uint32_t i = 0; !keeps(replicas->world, CLUSTER_RULE_SUMS_OF_IDS) && i < answer->n_sums;
         i++)
        answer->sums[i]->digest.len = 0;
    stats.profiles = answer->data.n;
    reply.stats = &stats;
    reply.sums = answer->sums;
    reply.n_sums = answer->n_sums;
    bytes = fg_arena_alloc(replicas->arena, fg__inner__select_reply__get_packed_size(&reply) + 1);
    return fg_bytes(bytes, fg__inner__select_reply__pack(&reply, bytes));
}

static void fail(struct replicas *replicas, struct qry_replica_request *request, enum fg_code code)
{
    struct fg_err err;

    (void)fg_fail(&err, code, "head");
    qry_replica_read_core_failed(&replicas->core, request, &err);
}

/* Asks a head. It fails, too, if another store has its name: that would answer with nothing. */
static void call(struct replicas *replicas, struct qry_replica_request *request)
{
    const struct fg_ring_member *member =
        &replicas->core.requests.view->ring.members[request->member];
    struct head *head = find_head(replicas->world, member->name);
    struct head_question question = {.tenant = replicas->tenant,
                                     .generation = replicas->generation,
                                     .only_ids = as_binary(request->ids)};
    struct head_answer answer = {0};
    struct reply *reply;
    enum head_read got = HEAD_UNAVAILABLE;

    fg__inner__shards__init(&question.shards);
    question.shards.ids_since_ns = replicas->core.ids.since_ns;
    question.shards.data = as_binary(request->data.bits);
    if (request->n_ids == 0) {
        question.shards.sums = as_binary(request->sums.bits);
        question.shards.ids_of = replicas->core.ids.of;
        question.shards.n_ids_of = replicas->core.ids.n_of;
    }
    if (head != NULL && fg_id_eq(head_identity(head)->store, member->store))
        got = head_read(head, &question, replicas->arena, &answer, replicas->least);
    if (got != HEAD_ANSWERED) {
        fail(replicas, request, got == HEAD_STALE ? FG_E_PRECONDITION : FG_E_UNAVAILABLE);
        return;
    }
    reply = fg_arena_new(replicas->arena, struct reply, 1);
    *reply = (struct reply){.next = replicas->replies, .request = request, .data = answer.data};
    replicas->replies = reply;
    qry_replica_read_core_answered(&replicas->core, request, pack(replicas, &answer));
}

/* Makes one of the calls under way, or lets it be late. */
static void go_on(struct replicas *replicas)
{
    struct qry_replica_request *chosen = NULL;
    uint64_t n = 0;

    for (struct qry_replica_request *r = replicas->core.requests.items; r != NULL; r = r->next)
        if (qry_replica_request_is_open(r) && draw(replicas->world, ++n) == 0)
            chosen = r;
    fg_assert(chosen != NULL); /* else the read would wait for ever */
    if (chosen->state == REQUEST_SENT && draw(replicas->world, 1000) < LATE_PERMILLE)
        replicas->now_ns += HEDGE_NS; /* and all others that are under way */
    else
        call(replicas, chosen);
}

/* ---- the read ---- */

static enum fg_code run(struct replicas *replicas, struct fg_err *err)
{
    struct qry_replica_read_core *core = &replicas->core;
    enum fg_code code = qry_replica_read_core_start(core, world_wall_ns(replicas->world), err);

    while (code == FG_OK && core->state != REPLICA_READ_DONE) {
        bool moved = false;

        core->past = NULL;
        for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next)
            if (r->state == REQUEST_PLANNED) {
                r->state = REQUEST_SENT;
                r->sent_mono_ns = replicas->now_ns;
            }
        code = qry_replica_read_core_step(core, replicas->now_ns, &moved, err);
        if (code == FG_OK && !moved)
            go_on(replicas);
    }
    return code;
}

static enum head_read take(struct replicas *replicas, enum fg_code code, const struct fg_err *err,
                           struct items *out)
{
    const struct qry_replica_read_core *core = &replicas->core;

    replicas->world->differed += (uint32_t)core->counts[REPLICAS_DIFFERENT];
    replicas->world->fetched += (uint32_t)core->counts[REPLICAS_FETCHED];
    if (code == FG_E_CORRUPT)
        found_fault(replicas->world, "a head's reply is refused: %s", err->msg);
    if (code != FG_OK)
        return code == FG_E_PRECONDITION ? HEAD_STALE : HEAD_UNAVAILABLE;
    for (const struct reply *reply = replicas->replies; reply != NULL; reply = reply->next)
        if (reply->request->state == REQUEST_ANSWERED &&
            qry_replica_read_core_is_part(core, reply->request))
            items_append(out, items_bytes(&reply->data));
    return HEAD_ANSWERED;
}

enum head_read ask_heads(struct world *world, const struct fg_ring_view *view, uint32_t tenant,
                         uint64_t generation, struct items *out, uint64_t *ret_least)
{
    struct replicas replicas = {.world = world,
                                .tenant = tenant,
                                .generation = generation,
                                .least = ret_least,
                                .arena = fg_arena_create(SIZE_MAX),
                                .core = {.requests = {.view = view,
                                                      .method = FG_RPC_SELECT,
                                                      .first = 0,
                                                      .last = SHARDS - 1,
                                                      .round_robin = (uint32_t)draw(world, 1000),
                                                      .is_bad = is_bad},
                                         .hedge_after_ns = HEDGE_NS,
                                         .give_up_late_mono_ns = INT64_MAX}};
    struct fg_err err;
    enum head_read got;

    out->n = 0;
    replicas.core.requests.arena = replicas.arena;
    got = take(&replicas, run(&replicas, &err), &err, out);
    for (struct reply *reply = replicas.replies; reply != NULL; reply = reply->next)
        items_done(&reply->data);
    fg_arena_destroy(replicas.arena);
    return got;
}
