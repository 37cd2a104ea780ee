#include "distributor/delivery/peer_queue.h"

#include "proto/inner.pb-c.h"

#include <pthread.h>

enum {
    MESSAGE_ITEMS_MAX = 256, /* all answers of a message come together: keep them prompt */
    MESSAGE_BYTES_MAX = 1024 * 1024,
    MESSAGE_ITEMS_ENOUGH = 32, /* shared by so many, a further message costs each little */
};

struct dist_peer_queue {
    struct dist_peer_queue_config config;
    uint8_t store[FG_ID_BYTES];
    size_t store_len; /* 0: any */

    pthread_mutex_t lock; /* of all below; not held while a message is made or sent */
    struct dist_peer_queue_item *first, *last;
    uint64_t queued_bytes; /* of the items, with PEER_QUEUE_ITEM_BYTES each */
    size_t queued_items;
    int64_t sent_mono_ns; /* when the last message left */
    unsigned under_way;   /* messages without an answer */
    unsigned calls;       /* these, and those whose answers are being read */
    bool stopped;
};

/* Items that travel together. */
struct peer_message {
    struct fg_call call;
    struct dist_peer_queue *queue;
    struct dist_peer_queue_item *items;
    size_t n_items, payload_len;
};

struct dist_peer_queue *dist_peer_queue_create(const struct dist_peer_queue_config *config)
{
    struct dist_peer_queue *queue = fg_new(struct dist_peer_queue);

    queue->config = *config;
    queue->config.store = NULL; /* borrowed for this call only; copied below */
    if (config->store != NULL) {
        fg_id_put(queue->store, *config->store);
        queue->store_len = FG_ID_BYTES;
    }
    (void)pthread_mutex_init(&queue->lock, NULL);
    return queue;
}

bool dist_peer_queue_is_idle(struct dist_peer_queue *queue)
{
    bool idle;

    (void)pthread_mutex_lock(&queue->lock);
    idle = queue->calls == 0 && queue->first == NULL;
    (void)pthread_mutex_unlock(&queue->lock);
    return idle;
}

bool dist_peer_queue_is_unresponsive(const struct dist_peer_queue *queue)
{
    return fg_peer_is_bad(queue->config.peer, fg_mono_ns(fg_clock_real()));
}

void dist_peer_queue_destroy(struct dist_peer_queue *queue)
{
    if (queue == NULL)
        return;
    fg_assert(queue->calls == 0 && queue->first == NULL);
    (void)pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* ---- the queue (locked) ---- */

/* Holds after each change of the queue or of the calls. */
static void queue_check(const struct dist_peer_queue *queue)
{
    fg_assert((queue->queued_items == 0) == (queue->first == NULL));
    fg_assert((queue->first == NULL) == (queue->last == NULL));
    fg_assert((queue->queued_bytes == 0) == (queue->first == NULL)); /* no item counts nothing */
    fg_assert(queue->under_way <= queue->calls);
    fg_assert(queue->under_way <= queue->config.messages_max);
}

static uint64_t item_bytes(const struct dist_peer_queue_item *item)
{
    return PEER_QUEUE_ITEM_BYTES + item->batch.len + item->n_sizes * sizeof *item->sizes;
}

static void add_item(struct dist_peer_queue *queue, struct dist_peer_queue_item *item)
{
    item->next = NULL;
    item->previous = queue->last;
    if (queue->last == NULL)
        queue->first = item;
    else
        queue->last->next = item;
    queue->last = item;
    queue->queued_bytes += item_bytes(item);
    queue->queued_items++;
    item->waits = true;
    queue_check(queue);
}

static void take_out(struct dist_peer_queue *queue, struct dist_peer_queue_item *item)
{
    if (item->previous == NULL)
        queue->first = item->next;
    else
        item->previous->next = item->next;
    if (item->next == NULL)
        queue->last = item->previous;
    else
        item->next->previous = item->previous;
    queue->queued_bytes -= item_bytes(item);
    queue->queued_items--;
    item->waits = false;
    item->next = NULL;
    queue_check(queue);
}

/* Takes all waiting items, as a list by next. */
static struct dist_peer_queue_item *take_all(struct dist_peer_queue *queue)
{
    struct dist_peer_queue_item *items = queue->first;

    for (struct dist_peer_queue_item *item = items; item != NULL; item = item->next)
        item->waits = false;
    queue->first = queue->last = NULL;
    queue->queued_bytes = 0;
    queue->queued_items = 0;
    queue_check(queue);
    return items;
}

/* ---- answers ---- */

/* limit_of: of FG_E_LIMIT. */
static void refuse(struct dist_peer_queue_item *item, enum fg_code code, enum fg_limit_of limit_of,
                   const char *why)
{
    (void)fg_fail(&item->err, code, "%s", why);
    item->code = code;
    item->limit_of = code == FG_E_LIMIT ? limit_of : FG_LIMIT_OF_UNSAID;
    item->done(item);
}

/* Fails an item for a reason of the queue or of the transport, which know no tenants. */
static void fail(struct dist_peer_queue_item *item, enum fg_code code, const char *why)
{
    refuse(item, code, FG_LIMIT_OF_SERVER, why);
}

static void fail_all(struct dist_peer_queue_item *items, enum fg_code code, const char *why)
{
    while (items != NULL) {
        struct dist_peer_queue_item *item = items;

        items = item->next;
        fail(item, code, why);
    }
}

static void finish(struct dist_peer_queue_item *item, const Fg__Inner__PushResult *result,
                   const Fg__Inner__PushReply *reply)
{
    item->newest = reply->revision;
    if (result->code != 0) {
        item->retry_after_s = result->retry_after_s;
        refuse(item, fg_code_from_grpc(result->code), fg_limit_of_number(result->limit_of),
               result->message);
        return;
    }
    item->code = FG_OK;
    item->start_id = reply->start_id;
    item->stored = result->stored;
    item->duplicates = result->duplicates;
    item->lacks = result->n_undefined > 0;
    item->done(item);
}

static void finish_all(struct peer_message *message)
{
    struct fg_slice bytes = message->call.reply_head;
    Fg__Inner__PushReply *reply = fg__inner__push_reply__unpack(NULL, bytes.len, bytes.ptr);
    struct dist_peer_queue_item *item = message->items;

    /* Results come in the order of the items. If their number differs, none can be told apart, so
     * none counts as stored. */
    if (reply == NULL || reply->n_results != message->n_items) {
        fail_all(item, FG_E_INTERNAL, "the response of the ingester cannot be read");
    } else {
        for (size_t i = 0; i < reply->n_results; i++) {
            /* done() may free the item. */
            struct dist_peer_queue_item *next = item->next;

            finish(item, reply->results[i], reply);
            item = next;
        }
    }
    fg__inner__push_reply__free_unpacked(reply, NULL);
}

static void send_next(struct dist_peer_queue *queue);

static void on_reply(struct fg_call *call)
{
    struct peer_message *message = fg_container(call, struct peer_message, call);
    struct dist_peer_queue *queue = message->queue;

    /* Fails the batches that wait, too, if the ingester does not respond: each of them would wait
     * for a timeout of its own, while its other owners may long be a quorum. Before under_way is
     * counted down: while it is not 0, dist_peer_queue_send() refuses batches for an ingester that
     * does not respond. In the other order a batch could come in between and be failed here, though
     * it should have been the next probe. */
    if (call->code != FG_OK) {
        struct dist_peer_queue_item *waiting = NULL;

        (void)pthread_mutex_lock(&queue->lock);
        if (dist_peer_queue_is_unresponsive(queue))
            waiting = take_all(queue);
        (void)pthread_mutex_unlock(&queue->lock);
        /* Without the lock: done() may send another item to this queue. */
        fail_all(waiting, call->code, call->err.msg);
    }
    (void)pthread_mutex_lock(&queue->lock);
    fg_assert(queue->under_way > 0 && queue->calls >= queue->under_way);
    queue->under_way--;
    (void)pthread_mutex_unlock(&queue->lock);
    send_next(queue); /* first: the ingester need not wait for us */
    if (call->code == FG_OK)
        finish_all(message);
    else
        fail_all(message->items, call->code, call->err.msg);
    fg_call_done(queue->config.peer, call);
    free(message);
    (void)pthread_mutex_lock(&queue->lock);
    /* Last: from here on the queue may be idle, and its owner may free it and the peer. */
    queue->calls--;
    queue_check(queue);
    (void)pthread_mutex_unlock(&queue->lock);
}

/* ---- messages ---- */

/* Takes the items at the front whose deadline has passed, as a list by next. Items behind one that
 * has time left stay: they are found when they come to the front. */
static struct dist_peer_queue_item *take_late(struct dist_peer_queue *queue, int64_t now_ns)
{
    struct dist_peer_queue_item *late = NULL;

    while (queue->first != NULL && queue->first->deadline_mono_ns <= now_ns) {
        struct dist_peer_queue_item *item = queue->first;

        take_out(queue, item);
        item->next = late;
        late = item;
    }
    return late;
}

static bool fits(const struct peer_message *message, uint64_t bytes,
                 const struct dist_peer_queue_item *item)
{
    /* The first item always fits: a batch is at most half of what a message may have (workspace.c).
     */
    return message->n_items == 0 ||
           (message->n_items < MESSAGE_ITEMS_MAX && bytes + item_bytes(item) <= MESSAGE_BYTES_MAX &&
            item->revision == message->items->revision);
}

/* Takes items from the front as one message, at least one. The queue is not empty. */
static struct peer_message *take_front(struct dist_peer_queue *queue, int64_t now_ns)
{
    struct peer_message *message = fg_new(struct peer_message);
    struct dist_peer_queue_item **end = &message->items;
    uint64_t bytes = 0;

    message->queue = queue;
    while (queue->first != NULL && fits(message, bytes, queue->first)) {
        struct dist_peer_queue_item *item = queue->first;

        take_out(queue, item);
        bytes += item_bytes(item);
        message->payload_len += item->batch.len;
        *end = item;
        end = &item->next;
        message->n_items++;
    }
    queue->sent_mono_ns = now_ns;
    queue->under_way++;
    queue->calls++;
    fg_assert(message->n_items > 0);
    queue_check(queue);
    return message;
}

/*
 * Returns true if a message leaves now. While another one is in flight it has to be worth it,
 * because each message wakes several threads on both sides. But a message whose answer takes long,
 * for example because of a late profile, does not hold up the batches behind it.
 */
static bool is_time(const struct dist_peer_queue *queue, int64_t now_ns)
{
    if (queue->first == NULL || queue->under_way >= queue->config.messages_max)
        return false;
    return queue->under_way == 0 || queue->queued_items >= MESSAGE_ITEMS_ENOUGH ||
           now_ns - queue->sent_mono_ns >= PEER_QUEUE_COLLECT_NS;
}

/* Takes the items that leave now, as a message; NULL: none. */
static struct peer_message *take_message(struct dist_peer_queue *queue)
{
    int64_t now_ns = fg_mono_ns(queue->config.clock);
    struct peer_message *message = NULL;
    struct dist_peer_queue_item *late = NULL;

    (void)pthread_mutex_lock(&queue->lock);
    if (is_time(queue, now_ns)) {
        late = take_late(queue, now_ns);
        if (queue->first != NULL)
            message = take_front(queue, now_ns);
    }
    (void)pthread_mutex_unlock(&queue->lock);
    /* Without the lock: done() may send another item to this queue. */
    fail_all(late, FG_E_DEADLINE, "ingester is busy: no response in time");
    return message;
}

/* Builds head and payload from the items. The call's deadline is the latest of the items'. */
static void put_together(struct peer_message *message, struct fg_buf *head, struct fg_buf *payload)
{
    Fg__Inner__PushItem *items = fg_calloc(message->n_items, sizeof *items);
    Fg__Inner__PushItem **pointers = fg_calloc(message->n_items, sizeof(Fg__Inner__PushItem *));
    Fg__Inner__PushHead out;
    size_t n = 0;

    fg__inner__push_head__init(&out);
    fg_buf_reserve(payload, message->payload_len);
    for (struct dist_peer_queue_item *item = message->items; item != NULL; item = item->next) {
        fg__inner__push_item__init(&items[n]);
        items[n].tenant = item->tenant;
        items[n].service = item->service;
        items[n].bytes = (uint32_t)item->batch.len; /* it fits a message */
        items[n].shard = item->shard;
        items[n].via = (ProtobufCBinaryData){item->via.len, (uint8_t *)(uintptr_t)item->via.ptr};
        items[n].sizes = item->sizes;
        items[n].n_sizes = item->n_sizes;
        out.revision = item->revision; /* that of all */
        pointers[n] = &items[n];
        n++;
        fg_buf_put(payload, item->batch);
        message->call.deadline_mono_ns =
            FG_MAX(message->call.deadline_mono_ns, item->deadline_mono_ns);
    }
    out.items = pointers;
    out.n_items = n;
    out.store = (ProtobufCBinaryData){message->queue->store_len, message->queue->store};
    fg_buf_reserve(head, fg__inner__push_head__get_packed_size(&out));
    head->len = fg__inner__push_head__pack(&out, head->ptr);
    free(pointers);
    free(items);
}

static void send_message(struct peer_message *message)
{
    struct fg_buf head, payload;

    fg_buf_init(&head, FG_RPC_MESSAGE_MAX_BYTES / 4);
    fg_buf_init(&payload, FG_RPC_MESSAGE_MAX_BYTES);
    put_together(message, &head, &payload);
    message->call.method = FG_RPC_PUSH;
    message->call.head = fg_buf_slice(&head);
    message->call.payload = fg_buf_slice(&payload);
    message->call.done = on_reply;
    fg_peer_send(message->queue->config.peer,
                 &message->call); /* it may be answered and gone by now */
    fg_buf_done(&head);
    fg_buf_done(&payload);
}

static void send_next(struct dist_peer_queue *queue)
{
    struct peer_message *message;

    while ((message = take_message(queue)) != NULL)
        send_message(message);
}

static bool collects(struct dist_peer_queue *queue)
{
    bool collects;

    (void)pthread_mutex_lock(&queue->lock);
    collects = queue->first != NULL;
    (void)pthread_mutex_unlock(&queue->lock);
    return collects;
}

bool dist_peer_queue_flush(struct dist_peer_queue *queue)
{
    send_next(queue);
    return collects(queue);
}

void dist_peer_queue_send(struct dist_peer_queue *queue, struct dist_peer_queue_item *item)
{
    bool stopped, unresponsive, full;

    (void)pthread_mutex_lock(&queue->lock);
    stopped = queue->stopped;
    /* If nothing is in flight, this batch is the probe that finds out whether the ingester is back.
     */
    unresponsive = queue->under_way > 0 && dist_peer_queue_is_unresponsive(queue);
    /* An empty queue takes anything: what is larger than the limit must get out some day. */
    full = queue->queued_bytes > 0 &&
           queue->queued_bytes + item_bytes(item) > queue->config.queue_max_bytes;
    if (!stopped && !unresponsive && !full)
        add_item(queue, item);
    (void)pthread_mutex_unlock(&queue->lock);
    if (stopped)
        fail(item, FG_E_UNAVAILABLE, "server is stopping");
    else if (unresponsive)
        fail(item, FG_E_UNAVAILABLE, "ingester does not respond");
    else if (full)
        fail(item, FG_E_LIMIT, "ingester is busy: too many profiles wait for it, try again");
    if (stopped || unresponsive || full)
        return;
    send_next(queue);
    /* If batches collect, the owner flushes them later. */
    if (queue->config.on_collect != NULL && collects(queue))
        queue->config.on_collect(queue->config.on_collect_arg);
}

bool dist_peer_queue_cancel(struct dist_peer_queue *queue, struct dist_peer_queue_item *item)
{
    bool waits;

    (void)pthread_mutex_lock(&queue->lock);
    waits = item->waits;
    if (waits)
        take_out(queue, item);
    (void)pthread_mutex_unlock(&queue->lock);
    return waits;
}

void dist_peer_queue_stop(struct dist_peer_queue *queue)
{
    struct dist_peer_queue_item *items;

    (void)pthread_mutex_lock(&queue->lock);
    queue->stopped = true;
    items = take_all(queue);
    (void)pthread_mutex_unlock(&queue->lock);
    fail_all(items, FG_E_UNAVAILABLE, "server is stopping");
}
