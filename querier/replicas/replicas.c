#include "querier/replicas/replicas.h"

#include "common/cluster/ring/shard.h"
#include "common/cluster/ring/watch.h"
#include "querier/replicas/metrics.h"
#include "querier/selection.h"

struct qry_replica_reads {
    struct fg_arena *arena;
    struct qry_calls *calls;
    struct qry_replica_read *items; /* of each tenant */
    size_t n;
};

FG_METRICS_TABLE(metrics, REPLICAS_METRICS)

struct fg_metrics *qry_replicas_register(struct fg_registry *registry)
{
    return fg_metrics_register(registry, metrics, FG_COUNT(metrics));
}

/* Interval at which a wait checks that the client is still there. */
static const int64_t LOOK_EVERY_NS = 200 * FG_MS_NS;

/* ---- the ring ---- */

enum fg_code qry_replicas_begin(struct qry_query *query, bool fresh, struct fg_err *err)
{
    struct querier *querier = query->querier;
    int64_t age_ns;

    if (querier->ring == NULL || (query->ring != NULL && !fresh))
        return FG_OK;
    qry_replicas_end(query);
    if (fg_ring_watch_latest(querier->ring, qry_query_patience_mono_ns(query), &query->ring,
                             &age_ns, err) != FG_OK)
        return fg_wrap(err, "ring");
    if (age_ns > 0)
        qry_query_lacks_since(query, "ring", age_ns, err);
    return FG_OK;
}

void qry_replicas_end(struct qry_query *query)
{
    fg_ring_view_unref(fg_take(query->ring));
}

/* ---- which shards ---- */

/*
 * Finds the shards to ask: for one service all that it may ever have had, not only those of the
 * tenant's current limit. Limits change in distributors at other moments than here, and profiles
 * written under a larger shard factor may be in no block for hours. The ring has the largest factor
 * so far: whatever was acknowledged before this query came was sent when that was in the ring
 * (spread-before-use), and the query's ring was read later (fresh-ring).
 */
static void find_shards(const struct qry_query *query, const struct qry_replicas_head *head,
                        struct qry_replica_read *read)
{
    struct fg_slice tenant = query->tenants.ids[read->tenant];
    struct fg_slice service = qry_selection_service(head->selector);
    unsigned factor;

    read->first = 0;
    read->last = UINT16_MAX;
    if (service.len == 0 || query->ring == NULL)
        return;
    factor = fg_ring_shard_factor(&query->ring->ring, tenant);
    read->first = fg_shard_first(tenant, service, factor);
    read->last = (uint16_t)(read->first + (1u << factor) - 1);
}

/* ---- asking ---- */

void qry_replicas_drop(struct qry_replica_reads *reads)
{
    /* The arena may go although calls are in flight: heads were copied when they were sent. */
    qry_calls_leave(reads->calls);
    fg_arena_destroy(reads->arena); /* with itself */
}

static struct qry_replica_reads *create(const struct qry_query *query)
{
    struct fg_arena *arena = fg_arena_create(query->querier->answer_max_bytes);
    struct qry_replica_reads *reads = fg_arena_new(arena, struct qry_replica_reads, 1);

    fg_assert(reads != NULL);
    reads->arena = arena;
    reads->calls = qry_calls_create(&query->querier->pending);
    reads->n = query->tenants.n;
    reads->items = fg_arena_new(arena, struct qry_replica_read, reads->n);
    fg_assert(reads->items != NULL); /* a few tenants; answer_max_bytes is at least 1 MiB */
    return reads;
}

enum fg_code qry_replicas_ask(struct qry_query *query, enum fg_rpc_method method,
                              const struct qry_replicas_head *head, bool last_try,
                              struct qry_replica_reads **ret_reads, struct fg_err *err)
{
    uint32_t round_robin = atomic_fetch_add(&query->querier->round_robin, 1);
    struct qry_replica_reads *reads;

    if (qry_query_check(query, err) != FG_OK)
        return err->code;
    reads = create(query);
    for (size_t i = 0; i < reads->n; i++) {
        struct qry_replica_read *read = &reads->items[i];

        *read = (struct qry_replica_read){
            .query = query,
            .calls = reads->calls,
            .arena = reads->arena,
            .method = method,
            .head = head,
            .tenant = i,
            .round_robin = round_robin,
            .last_try = last_try,
        };
        find_shards(query, head, read);
        if (qry_replica_read_start(read, err) != FG_OK) {
            qry_replicas_drop(reads);
            return err->code;
        }
    }
    *ret_reads = reads;
    return FG_OK;
}

/* ---- waiting ---- */

/* Steps all reads until each has to wait. *ret_wake_mono_ns: when to step again at the latest. */
static enum fg_code step_all(struct qry_replica_reads *reads, bool *ret_done,
                             int64_t *ret_wake_mono_ns, struct fg_err *err)
{
    bool done = true;
    int64_t wake_ns = INT64_MAX;

    for (size_t i = 0; i < reads->n; i++) {
        struct qry_replica_read *read = &reads->items[i];
        bool moved = true;

        while (moved)
            if (qry_replica_read_step(read, &moved, err) != FG_OK)
                return err->code;
        done = done && read->core.state == REPLICA_READ_DONE;
        wake_ns = FG_MIN(wake_ns, qry_replica_read_core_wake_mono_ns(&read->core));
    }
    *ret_done = done;
    *ret_wake_mono_ns = wake_ns;
    return FG_OK;
}

static enum fg_code wait_for_all(struct qry_query *query, struct qry_replica_reads *reads,
                                 struct fg_err *err)
{
    for (;;) {
        /* Before any call is looked at: one that ends after the look makes the wait return. */
        size_t ended = qry_calls_ended(reads->calls);
        int64_t wake_ns = INT64_MAX;
        bool done = false;

        if (step_all(reads, &done, &wake_ns, err) != FG_OK)
            return err->code;
        if (done)
            return FG_OK;
        if (qry_query_check(query, err) != FG_OK)
            return err->code;
        qry_calls_wait(reads->calls, ended,
                       FG_MIN(wake_ns, fg_mono_ns(fg_clock_real()) + LOOK_EVERY_NS));
    }
}

enum fg_code qry_replicas_take(struct qry_query *query, struct qry_replica_reads *reads,
                               qry_replicas_reply take, void *arg, struct fg_err *err)
{
    enum fg_code code = wait_for_all(query, reads, err);

    for (size_t i = 0; i < reads->n && code == FG_OK; i++)
        code = qry_replica_read_deliver(&reads->items[i], take, arg, err);
    qry_replicas_drop(reads);
    return code;
}
