/*
 * Sends batches to one ingester. If no message is in flight, a batch leaves at once. Otherwise
 * batches collect, and leave in one message when the message in flight is answered, when there are
 * enough for a message of their own, or when the answer takes longer than PEER_QUEUE_COLLECT_NS:
 * the busier the ingester is, the less a batch costs both sides. All batches of a message are under
 * one revision of the ring.
 *
 * If the ingester does not respond (fg_peer_is_bad()), one message at a time probes it; batches
 * that arrive meanwhile, and those that waited, fail at once.
 *
 * Thread: any; locked inside.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_PEER_QUEUE_H
#define FG_DISTRIBUTOR_DELIVERY_PEER_QUEUE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/model/limit_of.h"
#include "common/net/rpc/rpc.h"

/*
 * A batch of one service. The caller fills the upper part and keeps the item until done(), which
 * may run on any thread and must not block.
 */
struct dist_peer_queue_item {
    char *tenant, *service;
    struct fg_slice batch; /* as fg_batch_encode() makes it */
    struct fg_slice via;   /* PushItem.via */
    uint64_t *sizes;       /* [n_sizes], as fg_batch_put_sizes() makes them */
    size_t n_sizes;
    uint16_t shard;    /* of all its profiles */
    uint64_t revision; /* of the ring that says who owns the shard; 0: there is no ring */
    int64_t deadline_mono_ns;
    void (*done)(struct dist_peer_queue_item *item);

    enum fg_code code; /* FG_OK, or the code of err */
    struct fg_err err;
    uint64_t newest;   /* revision that the ingester knows; 0: it did not say */
    uint64_t start_id; /* of the ingester's process */
    uint32_t stored, duplicates;
    uint32_t retry_after_s;    /* of a refusal, as the ingester said; 0: it did not */
    enum fg_limit_of limit_of; /* of FG_E_LIMIT, likewise, or as the queue itself knows */
    bool lacks;                /* the ingester lacks definitions: nothing was stored */

    /* Internal. */
    struct dist_peer_queue_item *next, *previous;
    bool waits;
};

struct dist_peer_queue;

/* Counted per item in addition to its batch, against queue_max_bytes. */
enum { PEER_QUEUE_ITEM_BYTES = 1024 };

struct dist_peer_queue_config {
    struct fg_peer *peer;      /* borrowed */
    struct fg_clock *clock;    /* borrowed; of the items' deadlines */
    const struct fg_id *store; /* that the ingester must have, borrowed; NULL: any */
    uint64_t queue_max_bytes;  /* of items waiting */
    unsigned messages_max;     /* in flight at a time */
    /* Called when batches start to collect: the owner calls dist_peer_queue_flush() after
     * PEER_QUEUE_COLLECT_NS, and again while it returns true. Must not block. NULL: batches wait
     * for the answer in flight. */
    void (*on_collect)(void *arg);
    void *on_collect_arg;
};

/* Batches do not wait longer than this for an answer in flight. */
#define PEER_QUEUE_COLLECT_NS (20 * FG_MS_NS)

/* Creates an empty queue. Never fails. */
struct dist_peer_queue *dist_peer_queue_create(const struct dist_peer_queue_config *config);

/* Queues an item and sends what may leave. done() is called in any case, perhaps before this
 * returns: with FG_E_LIMIT if the queue is full, with the ingester's answer, or with the error of
 * the call. */
void dist_peer_queue_send(struct dist_peer_queue *queue, struct dist_peer_queue_item *item);

/* Sends what has waited long enough. Returns true if more batches wait. */
bool dist_peer_queue_flush(struct dist_peer_queue *queue);

/* Takes back an item whose done() was not called yet. Returns true if it still waited: it is the
 * caller's again, and done() is not called. */
bool dist_peer_queue_cancel(struct dist_peer_queue *queue, struct dist_peer_queue_item *item);

/* Returns true if the ingester did not answer the last calls. */
bool dist_peer_queue_is_unresponsive(const struct dist_peer_queue *queue);

/* Stops sending: items that wait end with FG_E_UNAVAILABLE. Call it before the peer is destroyed.
 */
void dist_peer_queue_stop(struct dist_peer_queue *queue);

/* Returns true if no item waits or is in flight, and the peer is not used any more. */
bool dist_peer_queue_is_idle(struct dist_peer_queue *queue);

/* Frees it, when it is idle or its peer was destroyed. NULL is fine. */
void dist_peer_queue_destroy(struct dist_peer_queue *queue);

#endif
