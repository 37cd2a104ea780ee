#include "querier/replicas/replica_read.h"

#include "common/net/rpc/peers.h"

/* ---- sending ---- */

static ProtobufCBinaryData as_binary(struct fg_slice bytes)
{
    return (ProtobufCBinaryData){bytes.len, (uint8_t *)(uintptr_t)bytes.ptr}; /* only read */
}

/* Fills in which shards the request is about, and of which profiles it asks for ids. */
static void fill_shards(const struct qry_replica_read *read,
                        const struct qry_replica_request *request, Fg__Inner__Shards *shards)
{
    const struct qry_replica_read_core *core = &read->core;

    fg__inner__shards__init(shards);
    shards->first = read->first;
    shards->ids_since_ns = core->ids.since_ns;
    if (request->n_ids > 0) {
        shards->data = as_binary(request->data.bits);
        return;
    }
    shards->ids_of = core->ids.of;
    shards->n_ids_of = core->ids.n_of;
    if (read->method == FG_RPC_SERIES) {
        /* SERIES has no sums: all owners give their label sets, which unite. */
        shards->data = as_binary(request->sums.bits);
    } else {
        shards->data = as_binary(request->data.bits);
        shards->sums = as_binary(request->sums.bits);
    }
}

/* Sends a request. An address that cannot be used is a failure of the member, as an answer would
 * be. FG_E_LIMIT. */
static enum fg_code send_request(struct qry_replica_read *read, struct qry_replica_request *request,
                                 struct fg_err *err)
{
    struct querier *querier = read->query->querier;
    struct qry_heads_request head = {
        .tenant = &read->about,
        .lenient = read->core.lenient,
        .only_ids = as_binary(request->ids),
        .cancel_key = read->head->cancel_key == NULL ? 0 : qry_calls_cancel_key()};
    struct fg_peer *peer = querier->ingester;
    Fg__Inner__Shards shards;
    struct fg_slice bytes;
    struct fg_err unusable;

    if (request->member != FG_RING_NO_MEMBER) {
        const struct fg_ring_member *member = &read->query->ring->ring.members[request->member];
        const char *address = fg_arena_text(read->arena, member->address);

        if (address == NULL)
            return qry_query_too_large(err);
        fill_shards(read, request, &shards);
        head.store = &member->store;
        head.shards = &shards;
        /* The address may have the wrong scheme for our settings. Its replicas may do. */
        if (fg_peers_get(querier->peers, address, &peer, &unusable) != FG_OK) {
            qry_replica_read_core_failed(&read->core, request, &unusable);
            return FG_OK;
        }
    }
    enum fg_code code = qry_heads_pack(read->head, &head, read->arena, &bytes, err);
    if (code == FG_OK) {
        request->state = REQUEST_SENT;
        request->sent_mono_ns = fg_mono_ns(fg_clock_real());
        request->call = qry_calls_send(
            read->calls, peer,
            &(struct qry_calls_request){.method = read->method,
                                        .head = bytes,
                                        .cancel_key = head.cancel_key,
                                        .deadline_mono_ns = read->query->deadline_mono_ns});
    }
    if (request->member != FG_RING_NO_MEMBER)
        fg_peers_put(querier->peers, peer); /* the call keeps it */
    return code;
}

/* ---- the core ---- */

static bool is_bad(void *arg, uint32_t member)
{
    struct qry_replica_read *read = arg;
    struct fg_peers *peers = read->query->querier->peers;
    const char *url = fg_arena_text(read->arena, read->query->ring->ring.members[member].address);
    struct fg_peer *peer;
    struct fg_err unused;
    bool bad;

    if (url == NULL || fg_peers_get(peers, url, &peer, &unused) != FG_OK)
        return false;
    bad = fg_peer_is_bad(peer, fg_mono_ns(fg_clock_real()));
    fg_peers_put(peers, peer);
    return bad;
}

/* Drops a call, which frees its reply. */
static void drop_call(struct qry_replica_request *request)
{
    if (request->call != NULL)
        qry_calls_drop(fg_take(request->call));
}

static void pass_counts(struct qry_replica_read *read)
{
    /* The core has no metrics of its own: it counts, and the counts are passed on and cleared. */
    for (unsigned i = 0; i < replicas_metric_count; i++) {
        fg_metric_add(read->query->querier->replicas_metrics, i, read->core.counts[i]);
        read->core.counts[i] = 0;
    }
}

/* Does what the core has decided: drops calls and sends requests. */
static enum fg_code perform(struct qry_replica_read *read, struct fg_err *err)
{
    struct qry_replica_read_core *core = &read->core;

    /* Calls of earlier attempts first: their replies hold memory that the new ones need. */
    for (struct qry_replica_request *r = core->past; r != NULL; r = r->next)
        drop_call(r);
    core->past = NULL;
    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        if (r->state == REQUEST_DROPPED)
            drop_call(r);
        if (r->state == REQUEST_LATE && !r->told_late) {
            /* Once for each call: the peer counts as slow for other queries as well. */
            fg_call_is_late(&r->call->call);
            r->told_late = true;
        }
        if (r->state == REQUEST_PLANNED && send_request(read, r, err) != FG_OK)
            return err->code;
    }
    /* Only once it is done: an attempt that is repeated may lack nothing in the end. */
    if (core->state == REPLICA_READ_DONE && core->lacks.len > 0)
        qry_query_lacks(read->query, core->lacks);
    return FG_OK;
}

enum fg_code qry_replica_read_start(struct qry_replica_read *read, struct fg_err *err)
{
    const struct qry_query *query = read->query;
    int64_t now_ns = fg_mono_ns(fg_clock_real()); /* of the machine, as all times of calls */

    read->core = (struct qry_replica_read_core){
        .requests = {.view = query->ring,
                     .has_ingester = query->querier->ingester != NULL,
                     .arena = read->arena,
                     .method = read->method,
                     .first = read->first,
                     .last = read->last,
                     .round_robin = read->round_robin,
                     .is_bad = is_bad,
                     .arg = read},
        .hedge_after_ns = query->querier->hedge_after_ns,
        .begun_mono_ns = now_ns,
        /* From half of the query's time on, a result with what there is is better than none. */
        .give_up_late_mono_ns =
            query->partial
                ? fg_time_add(now_ns, (query->deadline_mono_ns - query->start_mono_ns) / 2)
                : INT64_MAX,
        .partial = query->partial,
        .may_be_partial = qry_query_may_be_partial(query),
        .last_try = read->last_try,
    };
    if (qry_heads_tenant(query, read->tenant, read->head, &read->about, err) != FG_OK ||
        qry_replica_read_core_start(&read->core, fg_wall_ns(query->querier->clock), err) != FG_OK)
        return err->code;
    return perform(read, err);
}

enum fg_code qry_replica_read_step(struct qry_replica_read *read, bool *ret_moved,
                                   struct fg_err *err)
{
    struct qry_replica_read_core *core = &read->core;
    bool moved = false;

    for (struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        const struct fg_call *call;

        if ((r->state != REQUEST_SENT && r->state != REQUEST_LATE) || !qry_calls_has_ended(r->call))
            continue;
        call = &r->call->call;
        /* The reply stays in the call until the request is dropped: the core borrows it. */
        if (call->code == FG_OK)
            qry_replica_read_core_answered(core, r, call->reply_head);
        else
            qry_replica_read_core_failed(core, r, &call->err);
    }
    enum fg_code code = qry_replica_read_core_step(core, fg_mono_ns(fg_clock_real()), &moved, err);
    pass_counts(read); /* before the return: failures count, too */
    if (code != FG_OK || perform(read, err) != FG_OK)
        return err->code;
    *ret_moved = moved || core->news; /* news: a request could not be sent */
    return FG_OK;
}

/* ---- the result ---- */

enum fg_code qry_replica_read_deliver(struct qry_replica_read *read, qry_replicas_reply take,
                                      void *arg, struct fg_err *err)
{
    const struct qry_replica_read_core *core = &read->core;

    /* Counts of replicas overlap, so they cannot be taken one by one. */
    if (read->method == FG_RPC_STATS && core->requests.view != NULL) {
        struct fg_call call = {.method = FG_RPC_STATS};
        Fg__Inner__StatsReply joined;
        uint8_t *bytes;

        if (qry_replica_read_core_stats(core, &joined, err) != FG_OK)
            return err->code;
        bytes = fg_arena_alloc(core->requests.arena,
                               fg__inner__stats_reply__get_packed_size(&joined) + 1);
        if (bytes == NULL)
            return qry_query_too_large(err);
        call.reply_head = fg_bytes(bytes, fg__inner__stats_reply__pack(&joined, bytes));
        return take(read->query, &call, arg, err);
    }
    for (const struct qry_replica_request *r = core->requests.items; r != NULL; r = r->next) {
        uint64_t series = read->query->series;

        if (!qry_replica_read_core_is_part(core, r))
            continue;
        if (take(read->query, &r->call->call, arg, err) != FG_OK)
            return err->code;
        if (r->n_ids > 0)
            read->query->series = series; /* the data of another member has counted them */
    }
    return FG_OK;
}
