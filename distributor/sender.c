#include "distributor/sender.h"

#include "proto/inner.pb-c.h"

#include <pthread.h>

enum {
    MESSAGE_ITEMS_MAX = 256, /* answers of a message come together: keep them prompt */
    MESSAGE_BYTES_MAX = 1024 * 1024,
};

struct sender {
    struct fg_peer *peer;
    uint64_t queue_max_bytes;
    unsigned messages_max;

    pthread_mutex_t lock;
    struct sender_item *first, *last;
    uint64_t queued_bytes;
    unsigned under_way;
    bool stopped;
};

/* Items that travel together. */
struct message {
    struct fg_call call;
    struct sender *sender;
    struct sender_item *items;
    size_t n_items;
};

struct sender *sender_create(struct fg_peer *peer, uint64_t queue_max_bytes, unsigned messages_max)
{
    struct sender *sender = fg_new(struct sender);

    sender->peer = peer;
    sender->queue_max_bytes = queue_max_bytes;
    sender->messages_max = messages_max;
    (void)pthread_mutex_init(&sender->lock, NULL);
    return sender;
}

void sender_destroy(struct sender *sender)
{
    if (sender == NULL)
        return;
    fg_assert(sender->under_way == 0 && sender->first == NULL);
    (void)pthread_mutex_destroy(&sender->lock);
    free(sender);
}

/* ---- answers ---- */

static void fail(struct sender_item *item, enum fg_code code, const char *why)
{
    (void)fg_fail(&item->err, code, "%s", why);
    item->code = code;
    item->done(item);
}

static void fail_all(struct sender_item *items, enum fg_code code, const char *why)
{
    while (items != NULL) {
        struct sender_item *item = items;

        items = item->next;
        fail(item, code, why);
    }
}

static void finish(struct sender_item *item, const Fg__Inner__PushResult *result, uint64_t start_id)
{
    if (result->code != 0) {
        fail(item, fg_code_from_grpc(result->code), result->message);
        return;
    }
    item->code = FG_OK;
    item->start_id = start_id;
    item->stored = result->stored;
    item->duplicates = result->duplicates;
    item->n_undefined = result->n_undefined;
    if (result->n_undefined > 0) {
        item->undefined = fg_calloc(result->n_undefined, sizeof *item->undefined);
        memcpy(item->undefined, result->undefined, result->n_undefined * sizeof *item->undefined);
    }
    item->done(item);
}

static void finish_all(struct message *message)
{
    struct fg_slice bytes = message->call.reply_head;
    Fg__Inner__PushReply *reply = fg__inner__push_reply__unpack(NULL, bytes.len, bytes.ptr);
    struct sender_item *item = message->items;

    if (reply == NULL || reply->n_results != message->n_items) {
        fail_all(item, FG_E_INTERNAL, "ingester's answer cannot be read");
    } else {
        for (size_t i = 0; i < reply->n_results; i++) {
            struct sender_item *next = item->next;

            finish(item, reply->results[i], reply->start_id);
            item = next;
        }
    }
    fg__inner__push_reply__free_unpacked(reply, NULL);
}

static void send_next(struct sender *sender);

static void on_reply(struct fg_call *call)
{
    struct message *message = fg_container(call, struct message, call);
    struct sender *sender = message->sender;

    (void)pthread_mutex_lock(&sender->lock);
    sender->under_way--;
    (void)pthread_mutex_unlock(&sender->lock);
    send_next(sender); /* first: the ingester need not wait for us */
    if (call->code == FG_OK)
        finish_all(message);
    else
        fail_all(message->items, call->code, call->err.msg);
    fg_call_done(sender->peer, call);
    free(message);
}

/* ---- messages ---- */

static uint64_t item_bytes(const struct sender_item *item)
{
    return SENDER_ITEM_BYTES + item->batch.len;
}

/* What is to leave now, as a message; NULL: nothing, or not now. */
static struct message *take(struct sender *sender)
{
    struct message *message = NULL;
    struct sender_item *end = NULL;
    uint64_t bytes = 0;

    (void)pthread_mutex_lock(&sender->lock);
    if (sender->first != NULL && sender->under_way < sender->messages_max) {
        message = fg_new(struct message);
        message->sender = sender;
        message->items = sender->first;
        while (sender->first != NULL && message->n_items < MESSAGE_ITEMS_MAX &&
               (bytes == 0 || bytes + item_bytes(sender->first) <= MESSAGE_BYTES_MAX)) {
            end = sender->first;
            bytes += item_bytes(end);
            sender->first = end->next;
            message->n_items++;
        }
        fg_assert(end != NULL);
        end->next = NULL;
        if (sender->first == NULL)
            sender->last = NULL;
        sender->queued_bytes -= bytes;
        sender->under_way++;
    }
    (void)pthread_mutex_unlock(&sender->lock);
    return message;
}

/* Head and payload of the items; the call's deadline is that of the most patient. */
static void put_together(struct message *message, struct fg_buf *head, struct fg_buf *payload)
{
    Fg__Inner__PushItem *items = fg_calloc(message->n_items, sizeof *items);
    Fg__Inner__PushItem **pointers = fg_calloc(message->n_items, sizeof(Fg__Inner__PushItem *));
    Fg__Inner__PushHead out;
    size_t n = 0;

    fg__inner__push_head__init(&out);
    for (struct sender_item *item = message->items; item != NULL; item = item->next) {
        fg__inner__push_item__init(&items[n]);
        items[n].tenant = item->tenant;
        items[n].service = item->service;
        items[n].bytes = (uint32_t)item->batch.len; /* it fits a message */
        pointers[n] = &items[n];
        n++;
        fg_buf_put(payload, item->batch);
        message->call.deadline_mono_ns =
            FG_MAX(message->call.deadline_mono_ns, item->deadline_mono_ns);
    }
    out.items = pointers;
    out.n_items = n;
    fg_buf_reserve(head, fg__inner__push_head__get_packed_size(&out));
    head->len = fg__inner__push_head__pack(&out, head->ptr);
    free(pointers);
    free(items);
}

static void send_message(struct message *message)
{
    struct fg_buf head, payload;

    fg_buf_init(&head, FG_RPC_MESSAGE_MAX_BYTES / 4);
    fg_buf_init(&payload, FG_RPC_MESSAGE_MAX_BYTES);
    put_together(message, &head, &payload);
    message->call.method = FG_RPC_PUSH;
    message->call.head = fg_buf_slice(&head);
    message->call.payload = fg_buf_slice(&payload);
    message->call.done = on_reply;
    fg_peer_send(message->sender->peer, &message->call); /* it may be answered and gone by now */
    fg_buf_done(&head);
    fg_buf_done(&payload);
}

static void send_next(struct sender *sender)
{
    struct message *message;

    while ((message = take(sender)) != NULL)
        send_message(message);
}

void sender_send(struct sender *sender, struct sender_item *item)
{
    bool stopped, fits;

    item->next = NULL;
    (void)pthread_mutex_lock(&sender->lock);
    stopped = sender->stopped;
    /* An empty queue takes anything: what is larger than the limit must get out some day. */
    fits = sender->queued_bytes == 0 ||
           sender->queued_bytes + item_bytes(item) <= sender->queue_max_bytes;
    if (!stopped && fits) {
        if (sender->last == NULL)
            sender->first = item;
        else
            sender->last->next = item;
        sender->last = item;
        sender->queued_bytes += item_bytes(item);
    }
    (void)pthread_mutex_unlock(&sender->lock);
    if (stopped)
        fail(item, FG_E_UNAVAILABLE, "server is stopping");
    else if (!fits)
        fail(item, FG_E_LIMIT, "ingester is busy: too many profiles wait for it, try again");
    else
        send_next(sender);
}

void sender_stop(struct sender *sender)
{
    struct sender_item *items;

    (void)pthread_mutex_lock(&sender->lock);
    sender->stopped = true;
    items = sender->first;
    sender->first = sender->last = NULL;
    sender->queued_bytes = 0;
    (void)pthread_mutex_unlock(&sender->lock);
    fail_all(items, FG_E_UNAVAILABLE, "server is stopping");
}
