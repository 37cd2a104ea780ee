/*
 * Who owns a shard, and how each of them is reached: the members of a ring, whose peers are made on
 * demand and dropped when a ring comes that has them no more, or has them at another address or
 * with another store; or one fixed ingester, which owns all.
 *
 * Memory: a queue for each member that was sent to, and for those that are gone until what is
 * under way to them has ended.
 *
 * Thread: any; locked inside. What may take a peer's making says so.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_OWNERS_H
#define FG_DISTRIBUTOR_DELIVERY_OWNERS_H

#include "common/cluster/ring/watch.h"
#include "common/net/rpc/peers.h"
#include "distributor/delivery/peer_queue.h"

#include <stdatomic.h>

struct dist_owners;

/* Counted; what is here never changes. */
struct dist_owner {
    struct dist_peer_queue *queue;
    uint64_t key; /* well spread: of its store; 0 where there is no ring */
    /* owners.c's own. */
    _Atomic uint32_t refs;
    struct dist_owner *next;
    struct fg_peer *peer;
    struct fg_id store;
    char *name, *address;
};

/* Those of a shard under one revision. */
struct dist_owner_set {
    uint64_t revision; /* 0: there is no ring */
    unsigned quorum;   /* so many have to have a profile, all under this revision */
    unsigned n_owners;
    unsigned n_with_peer; /* of them, those that there is a peer for */
    struct dist_owner *with_peer[FG_RING_REPLICAS_MAX];
    struct fg_err err; /* of one for which there is none */
};

/* Everything is borrowed and outlives the owners. */
struct dist_owners_config {
    struct fg_peer *ingester;    /* that owns all; NULL: the ring says who owns what */
    struct fg_ring_watch *watch; /* with peers, else NULL */
    struct fg_peers *peers;
    struct fg_clock *clock;
    uint64_t queue_max_bytes; /* of what waits for one ingester */
    unsigned messages_max;    /* under way to one */
};

struct dist_owners *dist_owners_create(const struct dist_owners_config *config);

/*
 * The owners by the newest ring there is; dist_owner_set_done() lets go of them. May take a peer's
 * making (peers.h): on a worker. FG_E_UNAVAILABLE: the ring was not read yet, or has fewer members
 * than a quorum.
 */
enum fg_code dist_owners_of(struct dist_owners *owners, uint16_t shard,
                            struct dist_owner_set *ret_set, struct fg_err *err) fg_must_check;
void dist_owner_set_done(struct dist_owner_set *set);

/*
 * The ring that says which spread a tenant's profiles have, by their time
 * (fg_ring_shard_factor_at()); NULL: there is none, and they have none. The caller's reference. A
 * wider one is asked for where the tenant's limit is `wanted`. Never waits. FG_E_UNAVAILABLE: the
 * ring was not read yet.
 */
enum fg_code dist_owners_ring(struct dist_owners *owners, struct fg_slice tenant, unsigned wanted,
                              struct fg_ring_view **ret_view, struct fg_err *err) fg_must_check;

struct dist_owner *dist_owner_ref(struct dist_owner *owner);
void dist_owner_unref(struct dist_owner *owner);

/* Was the ring read? Always true where there is none. */
bool dist_owners_are_loaded(struct dist_owners *owners);

/* Somebody refused what came under a revision: he knows this newer one. */
void dist_owners_learn_revision(struct dist_owners *owners, uint64_t revision);
/* Is that revision here by now? */
bool dist_owners_have_revision(struct dist_owners *owners, uint64_t revision);
/* A member cannot be reached: it may have another address. */
void dist_owners_unreachable(struct dist_owners *owners);

/* Sends nothing more. Members of a ring: returns when nothing is under way to them any more, at
 * their calls' deadlines at the latest. Nobody calls dist_owners_of() any more. */
void dist_owners_stop(struct dist_owners *owners);

/* After dist_owners_stop(), and after the fixed ingester's peer was destroyed. NULL is fine. */
void dist_owners_destroy(struct dist_owners *owners);

#endif
