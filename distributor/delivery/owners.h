/*
 * Who owns a shard, and how each owner is reached: the members of the ring, or one fixed ingester
 * that owns everything. A member's peer is created when it is first needed, and dropped when a
 * newer ring lacks the member, or has it at another address or with another store.
 *
 * Memory: a queue for each member that was sent to, and for members that left until their calls
 * have ended.
 *
 * Thread: any; locked inside. Functions that may create a peer say so.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_OWNERS_H
#define FG_DISTRIBUTOR_DELIVERY_OWNERS_H

#include "common/cluster/ring/watch.h"
#include "common/net/rpc/peers.h"
#include "distributor/delivery/peer_queue.h"

#include <stdatomic.h>

struct dist_owners;

/* One owner, with a reference count. These fields never change. */
struct dist_owner {
    struct dist_peer_queue *queue;
    /* Of what other servers forward. Late profiles are looked up in the bucket, and what a server
     * sends that catches up is late: in messages of their own, and not of all that may be in
     * flight, they do not hold up what agents send. */
    struct dist_peer_queue *forwards;
    uint64_t key; /* well distributed: of its store; 0 without a ring */
    /* Internal to owners.c. */
    _Atomic uint32_t refs;
    struct dist_owner *next;
    struct fg_peer *peer;
    struct fg_id store;
    char *name, *address;
};

/* The owners of a shard under one revision. */
struct dist_owner_set {
    uint64_t revision; /* 0: there is no ring */
    unsigned quorum;   /* how many must store a profile, all under this revision */
    unsigned n_owners;
    unsigned n_with_peer; /* of them: those whose address can be called */
    struct dist_owner *with_peer[FG_RING_REPLICAS_MAX];
    struct fg_err err; /* why one has no peer */
};

/* Everything is borrowed and outlives the owners. */
struct dist_owners_config {
    struct fg_peer *ingester;    /* that owns everything; NULL: the ring says who owns what */
    struct fg_ring_watch *watch; /* with peers, else NULL */
    struct fg_peers *peers;
    struct fg_clock *clock;
    uint64_t queue_max_bytes; /* waiting for one ingester */
    unsigned messages_max;    /* of agents' profiles, in flight to one ingester */
};

/* Creates it, and its thread that flushes the queues. Never fails. */
struct dist_owners *dist_owners_create(const struct dist_owners_config *config);

/*
 * Returns the owners of a shard by the newest ring. Release them with dist_owner_set_done(). May
 * create a peer (peers.h): call it on a worker. FG_E_UNAVAILABLE: the ring was not read yet, or has
 * fewer members than a quorum.
 */
enum fg_code dist_owners_of(struct dist_owners *owners, uint16_t shard,
                            struct dist_owner_set *ret_set, struct fg_err *err) fg_must_check;
void dist_owner_set_done(struct dist_owner_set *set);

/*
 * Returns the ring that says which shard factor a tenant's profiles have, by their time
 * (fg_ring_shard_factor_at()); the caller releases it. NULL without a ring: the factor is 0. If the
 * tenant's limit `wanted` is larger than the factor in the ring, asks for a wider one. Never waits.
 * FG_E_UNAVAILABLE: the ring was not read yet.
 */
enum fg_code dist_owners_ring(struct dist_owners *owners, struct fg_slice tenant, unsigned wanted,
                              struct fg_ring_view **ret_view, struct fg_err *err) fg_must_check;

/* Returns how many messages to one owner may be in flight: messages_max of agents' profiles, and
 * half as many of forwarded ones. */
unsigned dist_owner_messages(unsigned messages_max);

struct dist_owner *dist_owner_ref(struct dist_owner *owner);
void dist_owner_unref(struct dist_owner *owner);

/* Returns true if the ring was read, or there is none. */
bool dist_owners_are_loaded(struct dist_owners *owners);

/* Starts reading the ring if it is older than this revision, which an ingester said it knows. */
void dist_owners_learn_revision(struct dist_owners *owners, uint64_t revision);

/* Returns true if the ring has this revision or a newer one. */
bool dist_owners_have_revision(struct dist_owners *owners, uint64_t revision);

/* Starts reading the ring, at most once a second: a member cannot be reached, and may have another
 * address by now. */
void dist_owners_unreachable(struct dist_owners *owners);

/* Stops sending, when dist_owners_of() is not called any more. With a ring it waits until no call
 * is in flight, at the latest until the deadlines of the calls. */
void dist_owners_stop(struct dist_owners *owners);

/* Frees it: after dist_owners_stop(), and after the fixed ingester's peer was destroyed. NULL is
 * fine. */
void dist_owners_destroy(struct dist_owners *owners);

#endif
