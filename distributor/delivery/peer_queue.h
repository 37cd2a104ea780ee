/*
 * Sends batches to one ingester. When no message is under way a batch leaves at once; else batches
 * collect, and leave together when a message was answered, when they are enough for one of their
 * own, or when the answer takes long (PEER_QUEUE_COLLECT_NS): the busier the ingester is, the less
 * a batch costs both sides. A message is under one revision of the ring.
 *
 * An ingester that does not answer (fg_peer_is_bad()) keeps nobody waiting: one message at a time
 * finds out whether it is back, and what comes meanwhile, or was waiting, fails at once.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_PEER_QUEUE_H
#define FG_DISTRIBUTOR_DELIVERY_PEER_QUEUE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/net/rpc/rpc.h"

/*
 * A batch for one service. The owner fills the upper part and keeps the whole until done(), which
 * is called on whatever thread the answer arrived on and must not block.
 */
struct dist_peer_queue_item {
    char *tenant, *service;
    struct fg_slice batch; /* as fg_batch_encode() makes it */
    uint64_t *sizes;       /* [n_sizes], as fg_batch_put_sizes() makes them */
    size_t n_sizes;
    uint16_t shard;    /* of all its profiles */
    uint64_t revision; /* of the ring, under which the ingester is its owner; 0: there is none */
    int64_t deadline_mono_ns;
    void (*done)(struct dist_peer_queue_item *item);

    enum fg_code code; /* FG_OK, or that of err */
    struct fg_err err;
    uint64_t newest;   /* revision that the ingester knows; 0: it did not say */
    uint64_t start_id; /* of the ingester's run */
    uint32_t stored, duplicates;
    bool lacks; /* the ingester lacks definitions: nothing was stored */

    /* Internal. */
    struct dist_peer_queue_item *next, *previous;
    bool waits;
};

struct dist_peer_queue;

/* What an item takes beside its batch, for the queue's limit. */
enum { PEER_QUEUE_ITEM_BYTES = 1024 };

struct dist_peer_queue_config {
    struct fg_peer *peer;      /* borrowed */
    struct fg_clock *clock;    /* borrowed; of the items' deadlines */
    const struct fg_id *store; /* that the ingester is to have; NULL: any */
    uint64_t queue_max_bytes;  /* of items waiting */
    unsigned messages_max;     /* under way at a time */
    /* Batches collect: dist_peer_queue_flush() PEER_QUEUE_COLLECT_NS later, and again as long as it
     * says so. Must not block. NULL: nobody looks, and they wait for the answer. */
    void (*on_collect)(void *arg);
    void *on_collect_arg;
};

/* An answer that has not come by then takes long. */
#define PEER_QUEUE_COLLECT_NS (20 * FG_MS_NS)

struct dist_peer_queue *dist_peer_queue_create(const struct dist_peer_queue_config *config);

/* done() says how it went: FG_E_LIMIT when the queue is full, what the ingester said, or what
 * became of the call. */
void dist_peer_queue_send(struct dist_peer_queue *queue, struct dist_peer_queue_item *item);

/* Sends what has waited long enough. Does more wait? */
bool dist_peer_queue_flush(struct dist_peer_queue *queue);

/* Takes back an item that was sent and is not done. true: it waited still, is the caller's again,
 * and done() is not called. */
bool dist_peer_queue_cancel(struct dist_peer_queue *queue, struct dist_peer_queue_item *item);

/* Does the ingester not answer, by the last calls? What it knows matters to nobody meanwhile. */
bool dist_peer_queue_is_unresponsive(const struct dist_peer_queue *queue);

/* Ends the sending: what waits is done, FG_E_UNAVAILABLE. Before the peer is destroyed. */
void dist_peer_queue_stop(struct dist_peer_queue *queue);

/* Nothing waits or is under way, and nothing touches the peer any more. */
bool dist_peer_queue_is_idle(struct dist_peer_queue *queue);

/* When it is idle, or the peer was destroyed. NULL is fine. */
void dist_peer_queue_destroy(struct dist_peer_queue *queue);

#endif
