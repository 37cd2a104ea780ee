#include "distributor/delivery/delivery.h"

#include <pthread.h>

/* An encoded batch on its way to one owner. */
struct replica_send {
    struct dist_peer_queue_item item;
    struct dist_delivery *delivery;
    struct dist_owner *owner;
    struct dist_encoded_batch *encoded;
    uint32_t number;                      /* the core's */
    struct replica_send *next, *previous; /* in delivery->in_flight */
    uint64_t straggler_bytes;             /* counted in straggler_bytes; 0: it is no straggler */
};

struct dist_delivery {
    struct dist_deliveries *common;
    uint16_t shard;
    uint64_t service_key;
    bool awaits_all;
    void (*on_round)(void *arg);
    void *arg;

    pthread_mutex_t lock; /* of all below; answers arrive on any thread */
    unsigned refs;        /* the upload's, and each send's */
    bool left;            /* the upload has called dist_delivery_leave() */
    bool acknowledged;
    struct dist_delivery_core core;
    struct dist_owner *owners[FG_RING_REPLICAS_MAX]; /* [core.n_replicas] */
    struct replica_send *in_flight;
};

struct dist_delivery *dist_delivery_create(struct dist_deliveries *deliveries, uint16_t shard,
                                           uint64_t service_key, bool awaits_all,
                                           void (*on_round)(void *arg), void *arg)
{
    struct dist_delivery *delivery = fg_new(struct dist_delivery);

    delivery->common = deliveries;
    delivery->shard = shard;
    delivery->service_key = service_key;
    delivery->awaits_all = awaits_all;
    delivery->on_round = on_round;
    delivery->arg = arg;
    delivery->refs = 1;
    (void)pthread_mutex_init(&delivery->lock, NULL);
    return delivery;
}

static void release_owners(struct dist_delivery *delivery)
{
    for (unsigned i = 0; i < FG_COUNT(delivery->owners); i++)
        if (delivery->owners[i] != NULL)
            dist_owner_unref(fg_take(delivery->owners[i]));
}

/* Locked, and unlocks. */
static void unref_and_unlock(struct dist_delivery *delivery)
{
    bool last;

    fg_assert(delivery->refs > 0);
    last = --delivery->refs == 0;
    /* Each send in flight has a reference, and so has the upload until it leaves. */
    fg_assert(!last || (delivery->left && delivery->in_flight == NULL));
    (void)pthread_mutex_unlock(&delivery->lock);
    if (!last)
        return;
    release_owners(delivery);
    (void)pthread_mutex_destroy(&delivery->lock);
    free(delivery);
}

/* The definition cache's key for this service at this owner. */
static uint64_t cache_key(const struct dist_delivery *delivery, const struct dist_owner *owner)
{
    return delivery->service_key ^ owner->key;
}

void dist_delivery_result(struct dist_delivery *delivery, struct dist_delivery_result *ret_result)
{
    (void)pthread_mutex_lock(&delivery->lock);
    dist_delivery_core_result(&delivery->core, ret_result);
    delivery->acknowledged |= ret_result->state == DELIVERY_STORED;
    (void)pthread_mutex_unlock(&delivery->lock);
}

/* ---- answers ---- */

static void unlink_send(struct dist_delivery *delivery, struct replica_send *send)
{
    if (send->previous == NULL)
        delivery->in_flight = send->next;
    else
        send->previous->next = send->next;
    if (send->next != NULL)
        send->next->previous = send->previous;
}

static void send_free(struct replica_send *send)
{
    if (send->straggler_bytes > 0)
        (void)atomic_fetch_sub(&send->delivery->common->straggler_bytes, send->straggler_bytes);
    dist_owner_unref(send->owner);
    dist_encoded_batch_unref(send->encoded);
    free(send);
}

/* Learns about the ingester and the ring from an answer, even if no upload waits for it any more.
 */
static void learn(const struct replica_send *send, enum dist_replica_state state)
{
    const struct dist_peer_queue_item *item = &send->item;
    const struct dist_encoded_batch *encoded = send->encoded;
    struct dist_deliveries *common = send->delivery->common;
    uint64_t key = cache_key(send->delivery, send->owner);

    /* The ingester has lost its dictionary, or retired a part of it. Drop all entries of the
     * service there: which of the others are gone, too, is unknown. */
    if (state == REPLICA_LACKS)
        fg_definition_cache_forget(common->definition_cache, key);
    else if (state == REPLICA_STORED && encoded->n_defined > 0)
        fg_definition_cache_add(common->definition_cache, key, item->start_id, encoded->defined,
                                encoded->n_defined);
    else if (state == REPLICA_STALE)
        /* Start to read the ring now, so that it is there at the end of the pause before the next
         * round. */
        dist_owners_learn_revision(common->owners, item->newest);
    else if (state == REPLICA_UNRESPONSIVE)
        dist_owners_unreachable(common->owners);
}

/* Locked, and unlocks. on_round() may free the upload, so nothing is touched after it. */
static void end_round(struct dist_delivery *delivery)
{
    void (*on_round)(void *arg) = delivery->on_round;
    void *arg = delivery->arg;
    bool over = dist_delivery_core_end_round(&delivery->core);

    unref_and_unlock(delivery);
    if (over)
        on_round(arg);
}

/* Any thread. */
static void on_sent(struct dist_peer_queue_item *item)
{
    struct replica_send *send = fg_container(item, struct replica_send, item);
    struct dist_delivery *delivery = send->delivery;
    const struct dist_delivery_answer answer = {
        .revision = item->revision,
        .err = item->code == FG_OK ? (struct fg_err){.code = FG_OK} : item->err,
        .newest = item->newest,
        .stored = item->stored,
        .duplicates = item->duplicates,
        .retry_after_s = item->retry_after_s,
        .limit_of = item->limit_of,
        .lacks = item->lacks,
    };
    enum dist_replica_state state = dist_replica_state_of(&answer);

    learn(send, state); /* before the lock: the cache and the owners have their own */
    (void)pthread_mutex_lock(&delivery->lock);
    unlink_send(delivery, send);
    dist_delivery_core_answer(&delivery->core, send->number, &answer);
    if (delivery->acknowledged && delivery->left)
        fg_metric_add(delivery->common->metrics,
                      state == REPLICA_STORED ? DIST_STRAGGLERS_STORED : DIST_STRAGGLERS_FAILED, 1);
    send_free(send);
    end_round(delivery);
}

/* ---- rounds (worker) ---- */

enum fg_code dist_delivery_begin(struct dist_delivery *delivery, struct fg_err *err)
{
    struct dist_delivery_core *core = &delivery->core;
    struct dist_delivery_owners owners;
    struct dist_owner_set set;

    /* Before the lock: creating a peer may take long, and answers need the delivery's lock. */
    if (dist_owners_of(delivery->common->owners, delivery->shard, &set, err) != FG_OK)
        return err->code;
    owners = (struct dist_delivery_owners){.revision = set.revision,
                                           .quorum = set.quorum,
                                           .n_owners = set.n_owners,
                                           .n_keys = set.n_with_peer,
                                           .err = set.err,
                                           .awaits_all = delivery->awaits_all};
    for (unsigned i = 0; i < set.n_with_peer; i++)
        owners.keys[i] = set.with_peer[i]->key;
    (void)pthread_mutex_lock(&delivery->lock);
    /* The core's replicas have new indexes then, by which the owners are stored here. */
    if (dist_delivery_core_begin(core, &owners))
        release_owners(delivery);
    /* Under the same revision, too, an owner may have another address, and so another peer. */
    for (unsigned i = 0; i < set.n_with_peer; i++) {
        struct dist_owner **at = &delivery->owners[dist_delivery_core_find(core, owners.keys[i])];

        if (*at != NULL)
            dist_owner_unref(*at);
        *at = dist_owner_ref(set.with_peer[i]);
    }
    (void)pthread_mutex_unlock(&delivery->lock);
    dist_owner_set_done(&set);
    return FG_OK;
}

void dist_delivery_define(struct dist_delivery *delivery, const struct fg_batch *batch,
                          bool *define)
{
    uint64_t keys[FG_RING_REPLICAS_MAX];
    unsigned n = 0;

    (void)pthread_mutex_lock(&delivery->lock);
    for (unsigned i = 0; i < delivery->core.n_replicas; i++)
        /* No definitions for the sake of an owner that does not respond: the others have them. If
         * it answers after all, it says that it lacks them. */
        if (dist_delivery_core_is_due(&delivery->core, i) &&
            !dist_peer_queue_is_unresponsive(delivery->owners[i]->queue))
            keys[n++] = cache_key(delivery, delivery->owners[i]);
    (void)pthread_mutex_unlock(&delivery->lock);
    /* The cache's own locks are taken without the delivery's lock, which answers need. */
    for (unsigned i = 0; i < n; i++)
        fg_definition_cache_look_up(delivery->common->definition_cache, keys[i], batch, define);
}

/* Returns the queue of a batch: a batch that another server forwards names the servers it came
 * through. */
static struct dist_peer_queue *queue_of(const struct dist_owner *owner,
                                        const struct dist_encoded_batch *encoded)
{
    return encoded->via.len > 0 ? owner->forwards : owner->queue;
}

/* Locked. */
static struct replica_send *send_create(struct dist_delivery *delivery, unsigned replica,
                                        struct dist_encoded_batch *encoded,
                                        int64_t deadline_mono_ns)
{
    struct replica_send *send = fg_new(struct replica_send);

    send->item = (struct dist_peer_queue_item){
        .tenant = encoded->tenant,
        .service = encoded->service,
        .batch = encoded->batch,
        .via = encoded->via,
        .sizes = encoded->sizes,
        .n_sizes = encoded->n_sizes,
        .shard = delivery->shard,
        .revision = delivery->core.revision,
        .deadline_mono_ns = deadline_mono_ns,
        .done = on_sent,
    };
    send->delivery = delivery;
    send->owner = dist_owner_ref(delivery->owners[replica]);
    send->encoded = dist_encoded_batch_ref(encoded);
    send->number = delivery->core.replicas[replica].send;
    fg_assert(send->number > 0); /* the core has numbered it before: 0 is no send */
    send->next = delivery->in_flight;
    if (send->next != NULL)
        send->next->previous = send;
    delivery->in_flight = send;
    delivery->refs++; /* until on_sent() */
    return send;
}

void dist_delivery_send(struct dist_delivery *delivery, struct dist_encoded_batch *encoded,
                        int64_t deadline_mono_ns)
{
    struct replica_send *sends[FG_RING_REPLICAS_MAX];
    struct dist_peer_queue *queues[FG_RING_REPLICAS_MAX];
    unsigned replicas[FG_RING_REPLICAS_MAX], n;

    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->left);
    delivery->refs++; /* ours, for end_round(): the answers may come before this returns */
    n = dist_delivery_core_send(&delivery->core, replicas);
    for (unsigned i = 0; i < n; i++) {
        queues[i] = queue_of(delivery->owners[replicas[i]], encoded);
        sends[i] = send_create(delivery, replicas[i], encoded, deadline_mono_ns);
    }
    (void)pthread_mutex_unlock(&delivery->lock);
    /* Without the lock, which on_sent() takes. All are in flight for the core by now, so that one
     * that fails at once does not end the round of the others. */
    for (unsigned i = 0; i < n; i++)
        dist_peer_queue_send(queues[i], &sends[i]->item);
    (void)pthread_mutex_lock(&delivery->lock);
    end_round(delivery);
}

/* ---- leaving ---- */

/* Locked. Counts what is in flight as stragglers. Returns true if all of them together exceed the
 * limit. */
static bool count_stragglers(struct dist_delivery *delivery)
{
    struct dist_deliveries *common = delivery->common;
    uint64_t bytes = 0;

    /* The memory of an encoded batch that several sends share counts once for each: an upper bound
     * is enough for a limit. */
    for (struct replica_send *send = delivery->in_flight; send != NULL; send = send->next) {
        send->straggler_bytes = sizeof *send + send->encoded->bytes;
        bytes += send->straggler_bytes;
    }
    return atomic_fetch_add(&common->straggler_bytes, bytes) + bytes > common->stragglers_max_bytes;
}

void dist_delivery_leave(struct dist_delivery *delivery)
{
    struct replica_send *next;

    if (delivery == NULL)
        return;
    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->core.in_round);
    delivery->left = true;
    if (delivery->in_flight != NULL && count_stragglers(delivery))
        /* Drop what still waits in a queue; what was sent keeps its memory until it is answered. */
        for (struct replica_send *send = delivery->in_flight; send != NULL; send = next) {
            next = send->next;
            if (!dist_peer_queue_cancel(queue_of(send->owner, send->encoded), &send->item))
                continue;
            unlink_send(delivery, send);
            delivery->refs--; /* not the last: the upload's is still there */
            fg_metric_add(delivery->common->metrics, DIST_STRAGGLERS_DROPPED, 1);
            send_free(send);
        }
    unref_and_unlock(delivery);
}
