/*
 * Sends batches to one ingester. While few messages are under way a batch leaves at once; while the
 * ingester is busy with as many as it may have, batches collect and leave together in the next one:
 * the busier it is, the less a batch costs both sides.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_SENDER_H
#define FG_DISTRIBUTOR_SENDER_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/rpc/rpc.h"

/*
 * A batch for one service. The owner fills the upper part and keeps the whole until done(), which
 * is called on whatever thread the answer arrived on and must not block.
 */
struct sender_item {
    char *tenant, *service;
    struct fg_slice batch; /* as fg_batch_encode() makes it */
    int64_t deadline_mono_ns;
    void (*done)(struct sender_item *item);

    enum fg_code code; /* FG_OK, or that of err */
    struct fg_err err;
    uint64_t start_id; /* of the ingester's run */
    uint32_t stored, duplicates;
    uint32_t *undefined; /* stacks the ingester lacks: then nothing was stored; owned by the item */
    size_t n_undefined;

    struct sender_item *next; /* internal */
};

struct sender;

/* What an item takes beside its batch, for the queue's limit. */
enum { SENDER_ITEM_BYTES = 1024 };

/* peer is borrowed. queue_max_bytes: of items waiting. messages_max: under way at a time. */
struct sender *sender_create(struct fg_peer *peer, uint64_t queue_max_bytes, unsigned messages_max);

/* done() says how it went: FG_E_LIMIT when the queue is full, what the ingester said, or what
 * became of the call. */
void sender_send(struct sender *sender, struct sender_item *item);

/* Ends the sending: what waits is done, FG_E_UNAVAILABLE. Before the peer is destroyed. */
void sender_stop(struct sender *sender);

/* After the peer was destroyed: nothing is under way any more. NULL is fine. */
void sender_destroy(struct sender *sender);

#endif
