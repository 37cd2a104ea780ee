#include "distributor/delivery/delivery.h"

#include <pthread.h>

/* ---- encoded batches ---- */

struct dist_encoded_batch {
    _Atomic uint32_t refs;
    size_t bytes;  /* of memory */
    char *service; /* behind the tenant's name */
    struct fg_slice batch;
    struct fg_id *defined;
    uint32_t n_defined;
    uint64_t *sizes; /* [n_sizes], for PushItem.sizes */
    size_t n_sizes;
    char tenant[]; /* then the service's name, then the batch */
};

static uint32_t count_marks(const bool *marks, uint32_t n)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++)
        count += marks[i];
    return count;
}

static void keep_defined(struct dist_encoded_batch *encoded, const struct fg_batch *batch,
                         const bool *define)
{
    uint32_t n = count_marks(define, batch->n_stacks);

    if (n == 0)
        return;
    encoded->defined = fg_calloc(n, sizeof *encoded->defined);
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        if (define[i])
            encoded->defined[encoded->n_defined++] = batch->stacks[i].id;
    encoded->bytes += n * sizeof *encoded->defined;
}

static void keep_sizes(struct dist_encoded_batch *encoded, const struct fg_batch *batch)
{
    encoded->n_sizes = 2 * (size_t)batch->n_profiles;
    encoded->sizes = fg_calloc(encoded->n_sizes, sizeof *encoded->sizes);
    fg_batch_put_sizes(batch, encoded->sizes);
    encoded->bytes += encoded->n_sizes * sizeof *encoded->sizes;
}

static char *put_text(char *out, struct fg_slice text)
{
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return out + text.len + 1;
}

struct dist_encoded_batch *dist_encoded_batch_create(struct fg_slice tenant,
                                                     struct fg_slice service,
                                                     const struct fg_batch *batch,
                                                     const bool *define, struct fg_slice bytes)
{
    size_t size = tenant.len + 1 + service.len + 1 + bytes.len;
    struct dist_encoded_batch *encoded = fg_malloc(sizeof *encoded + size);
    char *rest;

    *encoded = (struct dist_encoded_batch){.refs = 1, .bytes = sizeof *encoded + size};
    encoded->service = put_text(encoded->tenant, tenant);
    rest = put_text(encoded->service, service);
    memcpy(rest, bytes.ptr, bytes.len);
    encoded->batch = fg_bytes(rest, bytes.len);
    keep_defined(encoded, batch, define);
    keep_sizes(encoded, batch);
    return encoded;
}

static struct dist_encoded_batch *encoded_ref(struct dist_encoded_batch *encoded)
{
    (void)atomic_fetch_add(&encoded->refs, 1);
    return encoded;
}

void dist_encoded_batch_unref(struct dist_encoded_batch *encoded)
{
    if (encoded == NULL || atomic_fetch_sub(&encoded->refs, 1) != 1)
        return;
    free(encoded->defined);
    free(encoded->sizes);
    free(encoded);
}

/* ---- what there is ---- */

enum target_state {
    TARGET_NONE,      /* not sent to under this revision */
    TARGET_UNDER_WAY, /* one send, which is the target's `last` */
    TARGET_STORED,
    TARGET_LACKS,
    TARGET_STALE,
    TARGET_EARLY,
    TARGET_UNRESPONSIVE,
    TARGET_REFUSED,
    TARGET_STATES
};

/* What is to become of the batch at one of the owners. */
struct delivery_target {
    struct dist_owner *owner;
    enum target_state state;
    struct replica_send *last;
};

/* An encoded batch on its way to one owner. */
struct replica_send {
    struct dist_peer_queue_item item;
    struct dist_delivery *delivery;
    struct dist_owner *owner;
    struct dist_encoded_batch *encoded;
    struct replica_send *next, *previous; /* of those that are under way */
    uint64_t straggler_bytes;             /* counted; 0: it is none */
};

struct dist_delivery {
    struct dist_deliveries *common;
    uint16_t shard;
    uint64_t service_key;
    void (*on_round)(void *arg);
    void *arg;

    pthread_mutex_t lock; /* of all below */
    unsigned refs;        /* the upload's, and each send's */
    bool in_round;        /* on_round() is owed */
    bool left;
    bool acknowledged;
    uint64_t revision;
    unsigned quorum, n_owners, n_targets;
    struct delivery_target targets[FG_RING_REPLICAS_MAX];
    struct replica_send *under_way;
    struct fg_err unresponsive, refused; /* the last that could not be reached; the first refusal */
    uint64_t newest;                     /* that an ingester said it knows */
    uint32_t stored, profiles;           /* the most that one of them stored; all of them */
};

struct dist_delivery *dist_delivery_create(struct dist_deliveries *deliveries, uint16_t shard,
                                           uint64_t service_key, void (*on_round)(void *arg),
                                           void *arg)
{
    struct dist_delivery *delivery = fg_new(struct dist_delivery);

    delivery->common = deliveries;
    delivery->shard = shard;
    delivery->service_key = service_key;
    delivery->on_round = on_round;
    delivery->arg = arg;
    delivery->refs = 1;
    (void)pthread_mutex_init(&delivery->lock, NULL);
    return delivery;
}

/* Locked, and unlocks. */
static void unref_and_unlock(struct dist_delivery *delivery)
{
    bool last = --delivery->refs == 0;

    (void)pthread_mutex_unlock(&delivery->lock);
    if (!last)
        return;
    for (unsigned i = 0; i < delivery->n_targets; i++)
        dist_owner_unref(delivery->targets[i].owner);
    (void)pthread_mutex_destroy(&delivery->lock);
    free(delivery);
}

static uint64_t key_at(const struct dist_delivery *delivery, const struct dist_owner *owner)
{
    return delivery->service_key ^ owner->key;
}

/* ---- how it stands (locked) ---- */

struct delivery_tally {
    unsigned n[TARGET_STATES];
};

static struct delivery_tally count(const struct dist_delivery *delivery)
{
    struct delivery_tally tally = {{0}};

    for (unsigned i = 0; i < delivery->n_targets; i++)
        tally.n[delivery->targets[i].state]++;
    /* Owners that there is no peer for. */
    tally.n[TARGET_UNRESPONSIVE] += delivery->n_owners - delivery->n_targets;
    return tally;
}

/*
 * What those that have answered make of it; false: it depends on those that have not. Each kind of
 * target that may store it yet, once something was done about it, counts for the quorum.
 */
static bool decide(const struct dist_delivery *delivery, enum dist_delivery_state *ret_state)
{
    const struct delivery_tally tally = count(delivery);
    unsigned with = tally.n[TARGET_STORED];

    fg_assert(delivery->quorum > 0);
    if (with >= delivery->quorum) {
        *ret_state = DELIVERY_STORED;
        return true;
    }
    if (tally.n[TARGET_STALE] > 0) { /* the sooner under the new one the better */
        *ret_state = DELIVERY_STALE;
        return true;
    }
    with += tally.n[TARGET_LACKS];
    if (with >= delivery->quorum) {
        *ret_state = DELIVERY_LACKS;
        return true;
    }
    with += tally.n[TARGET_UNDER_WAY];
    if (with >= delivery->quorum)
        return false;
    with += tally.n[TARGET_EARLY];
    if (with >= delivery->quorum)
        *ret_state = DELIVERY_EARLY;
    else
        *ret_state = with + tally.n[TARGET_UNRESPONSIVE] >= delivery->quorum ? DELIVERY_UNRESPONSIVE
                                                                             : DELIVERY_REFUSED;
    return true;
}

static void say_stale(const struct dist_delivery *delivery, struct fg_err *err)
{
    (void)fg_fail(
        err, FG_E_UNAVAILABLE,
        "the ring has changed: revision %llu has ended, and revision %llu is not loaded yet",
        (unsigned long long)delivery->revision, (unsigned long long)delivery->newest);
}

static void say_early(const struct dist_delivery *delivery, struct fg_err *err)
{
    (void)fg_fail(err, FG_E_UNAVAILABLE,
                  "the ring has changed: ingesters have not loaded revision %llu yet",
                  (unsigned long long)delivery->revision);
}

static void say_unresponsive(const struct dist_delivery *delivery, struct fg_err *err)
{
    const struct delivery_tally tally = count(delivery);

    (void)fg_fail(err, FG_E_UNAVAILABLE,
                  "%u of the %u ingesters that own this series must acknowledge, %u did: %s",
                  delivery->quorum, delivery->n_owners,
                  delivery->n_owners - tally.n[TARGET_UNRESPONSIVE] - tally.n[TARGET_UNDER_WAY],
                  delivery->unresponsive.msg);
}

static void describe(const struct dist_delivery *delivery, struct dist_delivery_result *result)
{
    switch (result->state) {
    case DELIVERY_STORED:
        result->stored = delivery->stored;
        result->duplicates = delivery->profiles - delivery->stored;
        break;
    case DELIVERY_LACKS:
        (void)fg_fail(&result->err, FG_E_UNAVAILABLE, "ingester keeps asking for definitions");
        break;
    case DELIVERY_STALE:
        result->revision = delivery->newest;
        say_stale(delivery, &result->err);
        break;
    case DELIVERY_EARLY:
        say_early(delivery, &result->err);
        break;
    case DELIVERY_UNRESPONSIVE:
        say_unresponsive(delivery, &result->err);
        break;
    case DELIVERY_REFUSED:
        result->err = delivery->refused;
        break;
    }
}

void dist_delivery_result(struct dist_delivery *delivery, struct dist_delivery_result *ret_result)
{
    struct dist_delivery_result result = {0};
    bool over;

    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->in_round);
    /* What came since the round was over counts as well, and leaves it over. */
    over = decide(delivery, &result.state);
    fg_assert(over);
    describe(delivery, &result);
    delivery->acknowledged |= result.state == DELIVERY_STORED;
    (void)pthread_mutex_unlock(&delivery->lock);
    *ret_result = result;
}

/* ---- answers ---- */

static void link_send(struct dist_delivery *delivery, struct replica_send *send)
{
    send->next = delivery->under_way;
    if (send->next != NULL)
        send->next->previous = send;
    delivery->under_way = send;
    delivery->refs++;
}

static void unlink_send(struct dist_delivery *delivery, struct replica_send *send)
{
    if (send->previous == NULL)
        delivery->under_way = send->next;
    else
        send->previous->next = send->next;
    if (send->next != NULL)
        send->next->previous = send->previous;
}

static void send_free(struct replica_send *send)
{
    if (send->straggler_bytes > 0)
        (void)atomic_fetch_sub(&send->delivery->common->straggler_bytes,
                               send->straggler_bytes);
    dist_owner_unref(send->owner);
    dist_encoded_batch_unref(send->encoded);
    free(send);
}

/* Which state an answer leads to. Where there is no ring there is nobody else and nothing to wait
 * for: what the one ingester says is the answer. */
static enum target_state state_of(const struct dist_peer_queue_item *item)
{
    if (item->code == FG_OK)
        return item->lacks ? TARGET_LACKS : TARGET_STORED;
    if (item->revision == 0)
        return TARGET_REFUSED;
    switch (item->code) {
    case FG_E_PRECONDITION:
        return TARGET_STALE;
    case FG_E_ABORTED:
        return TARGET_EARLY;
    case FG_E_UNAVAILABLE:
    case FG_E_DEADLINE:
    case FG_E_CANCELED:
        return TARGET_UNRESPONSIVE;
    default:
        return TARGET_REFUSED;
    }
}

/* What it says of the ingester and the ring, whoever still waits for it. */
static void learn(const struct replica_send *send, enum target_state state)
{
    const struct dist_peer_queue_item *item = &send->item;
    const struct dist_encoded_batch *encoded = send->encoded;
    struct dist_deliveries *common = send->delivery->common;
    uint64_t key = key_at(send->delivery, send->owner);

    if (state == TARGET_LACKS)
        dist_definition_cache_forget(common->definition_cache, key);
    else if (state == TARGET_STORED && encoded->n_defined > 0)
        dist_definition_cache_add(common->definition_cache, key, item->start_id, encoded->defined,
                                  encoded->n_defined);
    else if (state == TARGET_STALE)
        dist_owners_learn_revision(common->owners, FG_MAX(item->newest, item->revision + 1));
    else if (state == TARGET_UNRESPONSIVE)
        dist_owners_unreachable(common->owners);
}

static struct delivery_target *target_of(struct dist_delivery *delivery,
                                         const struct replica_send *send)
{
    for (unsigned i = 0; i < delivery->n_targets; i++)
        if (delivery->targets[i].last == send)
            return &delivery->targets[i];
    return NULL; /* of another revision */
}

/* Locked. */
static void take_over(struct dist_delivery *delivery, struct delivery_target *target,
                      const struct dist_peer_queue_item *item, enum target_state state)
{
    target->state = state;
    target->last = NULL;
    if (state == TARGET_STORED) {
        delivery->stored = FG_MAX(delivery->stored, item->stored);
        delivery->profiles = FG_MAX(delivery->profiles, item->stored + item->duplicates);
    } else if (state == TARGET_STALE) {
        delivery->newest = FG_MAX(delivery->newest, FG_MAX(item->newest, item->revision + 1));
    } else if (state == TARGET_UNRESPONSIVE) {
        delivery->unresponsive = item->err;
    } else if (state == TARGET_REFUSED && delivery->refused.code == FG_OK) {
        delivery->refused = item->err;
    }
}

static void count_straggler(const struct dist_delivery *delivery, enum target_state state)
{
    if (delivery->acknowledged && delivery->left)
        fg_metric_add(delivery->common->metrics,
                      state == TARGET_STORED ? DIST_STRAGGLERS_STORED : DIST_STRAGGLERS_FAILED, 1);
}

/* Locked, and unlocks. What is called is not ours any more afterwards. */
static void end_round(struct dist_delivery *delivery)
{
    enum dist_delivery_state state;
    void (*on_round)(void *arg) = delivery->on_round;
    void *arg = delivery->arg;
    bool over = delivery->in_round && decide(delivery, &state);

    if (over)
        delivery->in_round = false;
    unref_and_unlock(delivery);
    if (over)
        on_round(arg);
}

/* Any thread. */
static void on_sent(struct dist_peer_queue_item *item)
{
    struct replica_send *send = fg_container(item, struct replica_send, item);
    struct dist_delivery *delivery = send->delivery;
    enum target_state state = state_of(item);
    struct delivery_target *target;

    learn(send, state);
    (void)pthread_mutex_lock(&delivery->lock);
    unlink_send(delivery, send);
    target = target_of(delivery, send);
    if (target != NULL)
        take_over(delivery, target, item, state);
    count_straggler(delivery, state);
    send_free(send);
    end_round(delivery);
}

/* ---- rounds (worker) ---- */

/* Starts over under this revision: nothing that was stored under another one counts. */
static void go_by(struct dist_delivery *delivery, struct dist_owner_set *set)
{
    for (unsigned i = 0; i < delivery->n_targets; i++)
        dist_owner_unref(delivery->targets[i].owner);
    delivery->revision = set->revision;
    delivery->quorum = set->quorum;
    delivery->n_owners = set->n_owners;
    delivery->n_targets = set->n_there;
    delivery->stored = delivery->profiles = 0;
    for (unsigned i = 0; i < set->n_there; i++)
        delivery->targets[i] = (struct delivery_target){.owner = dist_owner_ref(set->there[i])};
}

static struct delivery_target *target_at(struct dist_delivery *delivery,
                                         const struct dist_owner *owner)
{
    for (unsigned i = 0; i < delivery->n_targets; i++)
        if (delivery->targets[i].owner->key == owner->key)
            return &delivery->targets[i];
    return NULL;
}

/* The owners of a revision stay, but one may have another address, or a peer by now. */
static void update(struct dist_delivery *delivery, struct dist_owner_set *set)
{
    for (unsigned i = 0; i < set->n_there; i++) {
        struct dist_owner *owner = set->there[i];
        struct delivery_target *target = target_at(delivery, owner);

        if (target == NULL) {
            fg_assert(delivery->n_targets < FG_RING_REPLICAS_MAX);
            delivery->targets[delivery->n_targets++] =
                (struct delivery_target){.owner = dist_owner_ref(owner)};
        } else if (target->owner != owner) {
            dist_owner_unref(target->owner);
            target->owner = dist_owner_ref(owner);
        }
    }
}

enum fg_code dist_delivery_begin(struct dist_delivery *delivery, struct fg_err *err)
{
    struct dist_owner_set set;

    if (dist_owners_of(delivery->common->owners, delivery->shard, &set, err) != FG_OK)
        return err->code;
    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->in_round);
    if (delivery->n_owners == 0 || set.revision != delivery->revision)
        go_by(delivery, &set);
    else
        update(delivery, &set);
    delivery->refused = (struct fg_err){.code = FG_OK};
    if (set.n_there < set.n_owners)
        delivery->unresponsive = set.err;
    (void)pthread_mutex_unlock(&delivery->lock);
    dist_owner_set_done(&set);
    return FG_OK;
}

/* Locked. */
static bool gets_it(const struct delivery_target *target)
{
    return target->state != TARGET_STORED && target->state != TARGET_UNDER_WAY;
}

void dist_delivery_define(struct dist_delivery *delivery, const struct fg_batch *batch,
                          bool *define)
{
    uint64_t keys[FG_RING_REPLICAS_MAX];
    unsigned n = 0;

    (void)pthread_mutex_lock(&delivery->lock);
    for (unsigned i = 0; i < delivery->n_targets; i++)
        if (gets_it(&delivery->targets[i]) &&
            !dist_peer_queue_is_unresponsive(delivery->targets[i].owner->queue))
            keys[n++] = key_at(delivery, delivery->targets[i].owner);
    (void)pthread_mutex_unlock(&delivery->lock);
    for (unsigned i = 0; i < n; i++)
        dist_definition_cache_look_up(delivery->common->definition_cache, keys[i], batch, define);
}

static struct replica_send *send_create(struct dist_delivery *delivery,
                                        struct delivery_target *target,
                                        struct dist_encoded_batch *encoded,
                                        int64_t deadline_mono_ns)
{
    struct replica_send *send = fg_new(struct replica_send);

    send->item.tenant = encoded->tenant;
    send->item.service = encoded->service;
    send->item.batch = encoded->batch;
    send->item.sizes = encoded->sizes;
    send->item.n_sizes = encoded->n_sizes;
    send->item.shard = delivery->shard;
    send->item.revision = delivery->revision;
    send->item.deadline_mono_ns = deadline_mono_ns;
    send->item.done = on_sent;
    send->delivery = delivery;
    send->owner = dist_owner_ref(target->owner);
    send->encoded = encoded_ref(encoded);
    target->state = TARGET_UNDER_WAY;
    target->last = send;
    link_send(delivery, send);
    return send;
}

void dist_delivery_send(struct dist_delivery *delivery, struct dist_encoded_batch *encoded,
                        int64_t deadline_mono_ns)
{
    struct replica_send *sends[FG_RING_REPLICAS_MAX];
    struct dist_peer_queue *queues[FG_RING_REPLICAS_MAX];
    unsigned n = 0;

    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->in_round && !delivery->left);
    delivery->in_round = true;
    delivery->refs++;
    for (unsigned i = 0; i < delivery->n_targets; i++)
        if (gets_it(&delivery->targets[i])) {
            queues[n] = delivery->targets[i].owner->queue;
            sends[n++] = send_create(delivery, &delivery->targets[i], encoded, deadline_mono_ns);
        }
    (void)pthread_mutex_unlock(&delivery->lock);
    /* All are under way by now: one that fails at once does not end the round of the others. */
    for (unsigned i = 0; i < n; i++)
        dist_peer_queue_send(queues[i], &sends[i]->item);
    (void)pthread_mutex_lock(&delivery->lock);
    end_round(delivery);
}

/* ---- leaving ---- */

/* Locked. Takes those back that were not sent yet; a list by next. */
static struct replica_send *take_back(struct dist_delivery *delivery)
{
    struct replica_send *taken = NULL, *next;

    for (struct replica_send *send = delivery->under_way; send != NULL;
         send = next) {
        next = send->next;
        if (!dist_peer_queue_cancel(send->owner->queue, &send->item))
            continue;
        unlink_send(delivery, send);
        delivery->refs--; /* the upload's is there still */
        send->next = taken;
        taken = send;
    }
    return taken;
}

/* Locked. */
static bool stragglers_are_too_many(struct dist_delivery *delivery)
{
    struct dist_deliveries *common = delivery->common;
    uint64_t bytes = 0;

    for (struct replica_send *send = delivery->under_way; send != NULL;
         send = send->next) {
        send->straggler_bytes = sizeof *send + send->encoded->bytes;
        bytes += send->straggler_bytes;
    }
    return atomic_fetch_add(&common->straggler_bytes, bytes) + bytes > common->stragglers_max_bytes;
}

void dist_delivery_leave(struct dist_delivery *delivery)
{
    struct replica_send *taken = NULL;

    if (delivery == NULL)
        return;
    (void)pthread_mutex_lock(&delivery->lock);
    fg_assert(!delivery->in_round);
    delivery->left = true;
    if (delivery->under_way != NULL && stragglers_are_too_many(delivery))
        taken = take_back(delivery);
    while (taken != NULL) {
        struct replica_send *next = taken->next;

        fg_metric_add(delivery->common->metrics, DIST_STRAGGLERS_DROPPED, 1);
        send_free(taken);
        taken = next;
    }
    unref_and_unlock(delivery);
}
