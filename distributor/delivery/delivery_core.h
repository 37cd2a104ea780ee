/*
 * The core of a delivery: which owners of a shard have stored a batch, and whether they are a
 * quorum. It does no I/O, reads no clock and takes no lock; delivery.c sends what it says.
 *
 *     begin --> send --> answer, answer, ... --> end of the round --> result
 *       ^                                                               |
 *       '---------------------- another round --------------------------'
 *
 * Only answers under one revision of the ring count together
 * (common/cluster/README.md#write): a newer revision starts the count over. A round ends as soon as
 * the answers decide its result; answers that arrive later still count while the revision is the
 * same.
 *
 * Thread: the caller's lock.
 */
#ifndef FG_DISTRIBUTOR_DELIVERY_DELIVERY_CORE_H
#define FG_DISTRIBUTOR_DELIVERY_DELIVERY_CORE_H

#include "common/base/err.h"
#include "common/cluster/ring/ring.h"
#include "common/model/limit_of.h"

/* What one owner has done with the batch. */
enum dist_replica_state {
    REPLICA_UNSENT,    /* not under this revision */
    REPLICA_IN_FLIGHT, /* sent, and not answered yet */
    REPLICA_STORED,
    REPLICA_LACKS,        /* lacks definitions, stored nothing */
    REPLICA_STALE,        /* knows a newer revision */
    REPLICA_EARLY,        /* does not know this revision yet */
    REPLICA_UNRESPONSIVE, /* cannot be reached, or did not answer in time */
    REPLICA_REFUSED,
    REPLICA_STATES
};

enum dist_delivery_state {
    DELIVERY_STORED,       /* by a quorum: acknowledged */
    DELIVERY_LACKS,        /* a quorum is possible once definitions are sent */
    DELIVERY_STALE,        /* an owner knows a newer revision of the ring */
    DELIVERY_EARLY,        /* owners have not loaded this revision yet */
    DELIVERY_UNRESPONSIVE, /* too many owners cannot be reached or do not answer */
    DELIVERY_REFUSED,      /* so many refused that the others are no quorum */
};

struct dist_delivery_result {
    enum dist_delivery_state state;
    struct fg_err err; /* unless STORED: the answer to the client if no round follows */
    uint64_t revision; /* STALE: the newest that an owner knows */
    /* STORED: profiles. LACKS: `stored` counts those that an owner has stored meanwhile, which are
     * duplicates when the batch comes again. */
    uint32_t stored, duplicates;
    uint32_t retry_after_s;    /* REFUSED: when the client may come again; 0: not known */
    enum fg_limit_of limit_of; /* REFUSED: unsaid if the owners do not agree */
    /* An owner of this revision has stored the batch, or may have: it did not answer. Without a
     * ring the one ingester's error says that. */
    bool maybe_stored;
};

/* The owners of a shard under one revision. */
struct dist_delivery_owners {
    uint64_t revision; /* 0: there is no ring */
    unsigned quorum, n_owners;
    unsigned n_keys; /* owners that have a peer; the others count as unresponsive */
    uint64_t keys[FG_RING_REPLICAS_MAX];
    struct fg_err err; /* why an owner has no peer; used if n_keys < n_owners */
    /* A refusal waits for the owners that have not answered, so that maybe_stored is false if none
     * of them has stored the batch. */
    bool awaits_all;
};

/* An answer of one owner, or what became of the call. */
struct dist_delivery_answer {
    uint64_t revision; /* that the batch was sent under; 0: there is no ring */
    struct fg_err err; /* err.code: FG_OK for an answer */
    uint64_t newest;   /* revision that the owner knows; 0: it did not say */
    uint32_t stored, duplicates;
    uint32_t retry_after_s;    /* of a refusal; 0: not known */
    enum fg_limit_of limit_of; /* of a refusal */
    bool lacks;                /* definitions */
};

struct dist_delivery_replica {
    uint64_t key;
    uint32_t send; /* number of the newest send to it */
    enum dist_replica_state state;
};

/* Starts zeroed. Only delivery_core.c changes it. */
struct dist_delivery_core {
    uint64_t revision;
    unsigned quorum, n_owners, n_replicas;
    struct dist_delivery_replica replicas[FG_RING_REPLICAS_MAX];
    uint32_t last_send; /* number of the newest send to any replica */
    bool in_round, awaits_all;
    struct fg_err unresponsive; /* of the last owner that could not be reached */
    struct fg_err refused;      /* the first refusal of this round */
    uint32_t retry_after_s;     /* that came with it */
    enum fg_limit_of limit_of;  /* of all refusals of this round, if it is the same */
    uint64_t newest;            /* revision that an owner said it knows */
    uint32_t stored, profiles;  /* the most that one replica stored; of so many */
    uint32_t stored_before;     /* the most that one stored under an earlier revision */
};

/*
 * Prepares a round. Not during a round. Returns true if the count starts over because the revision
 * is another one: the indexes of all replicas are new then. Otherwise replicas keep their indexes,
 * and owners that had no peer before are added.
 */
bool dist_delivery_core_begin(struct dist_delivery_core *core,
                              const struct dist_delivery_owners *owners);

/* Returns the index of the replica with this key, or n_replicas. */
unsigned dist_delivery_core_find(const struct dist_delivery_core *core, uint64_t key);

/* Returns true if the next send goes to this replica: it has neither stored the batch nor is a send
 * to it in flight. */
bool dist_delivery_core_is_due(const struct dist_delivery_core *core, unsigned replica);

/* Starts the round: marks the replicas that are due as in flight and writes their indexes to
 * `replicas`. Returns their number, which may be 0. */
unsigned dist_delivery_core_send(struct dist_delivery_core *core,
                                 unsigned replicas[FG_RING_REPLICAS_MAX]);

/* Returns the state that an answer leads to. Without a ring the one ingester's answer is final. */
enum dist_replica_state dist_replica_state_of(const struct dist_delivery_answer *answer);

/* Takes the answer to a send, by its number. Ignores answers to sends of other revisions. */
void dist_delivery_core_answer(struct dist_delivery_core *core, uint32_t send,
                               const struct dist_delivery_answer *answer);

/* Returns true, once for each round, if the answers so far decide it (and are all, if it is a
 * refusal and awaits_all). */
bool dist_delivery_core_end_round(struct dist_delivery_core *core);

/* Returns the result of a round that has ended. */
void dist_delivery_core_result(const struct dist_delivery_core *core,
                               struct dist_delivery_result *ret_result);

#endif
