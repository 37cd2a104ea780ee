/*
 * The requests of one attempt of a replica read (replica_read_core.h): which ingester is asked for
 * the data of which shards, which for sums, and which failover replica gives the data of one that
 * failed or is late. replica_read_core.c decides when; replica_read.c sends.
 *
 * Shell: querier/replicas/replica_read.h.
 *
 * A pure value: no I/O, no clock; memory in the arena. Thread: one at a time.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICA_REQUESTS_CORE_H
#define FG_QUERIER_REPLICAS_REPLICA_REQUESTS_CORE_H

#include "common/base/bits.h"
#include "common/cluster/ring/reads_core.h"
#include "common/net/rpc/rpc.h"
#include "querier/replicas/replica_compare.h"

struct qry_sent_call;

/*
 *    PLANNED --> SENT ----------> ANSWERED
 *       |         |  `--> LATE --'  |
 *       |         |        |        |
 *       `---------+--------+--> FAILED, DROPPED
 */
enum qry_replica_request_state {
    REQUEST_PLANNED, /* the shell has to send it */
    REQUEST_SENT,
    REQUEST_LATE, /* sent; failover replicas are asked for its data, but it may still answer */
    REQUEST_ANSWERED,
    REQUEST_FAILED,
    REQUEST_DROPPED, /* its reply is not wanted any more; the shell has to drop the call */
};

struct qry_replica_request {
    struct qry_replica_request *next;
    enum qry_replica_request_state state;
    uint32_t member;                 /* FG_RING_NO_MEMBER: the only ingester, without a ring */
    struct qry_shard_map data, sums; /* the shards it is to give data and sums of */
    struct fg_slice ids;             /* fetches these profiles and nothing else; empty: no fetch */
    uint64_t n_ids;
    struct qry_replica_request *failover_of; /* whose data it gives; NULL: it was asked at first */
    bool failed_over;                        /* failover replicas were looked for */
    bool uncovered;                          /* and not found for all of its data */
    int64_t sent_mono_ns;
    struct fg_slice reply; /* ANSWERED: the head of the reply; borrowed from the shell */
    struct fg_err err;     /* FAILED */

    /* The shell's own. */
    struct qry_sent_call *call; /* NULL: not sent, or dropped */
    bool told_late;             /* the RPC layer knows that it is late */
};

/* What all attempts of a read share, and the requests of the current one. */
struct qry_replica_requests {
    /* Set by the owner; borrowed. */
    const struct fg_ring_view *view; /* NULL: one ingester, or none */
    bool has_ingester;               /* without a view: there is one */
    struct fg_arena *arena;
    enum fg_rpc_method method;
    uint16_t first, last; /* shards, inclusive */
    uint32_t round_robin; /* another number prefers other members */
    /* Returns true if the last calls to a member failed. */
    bool (*is_bad)(void *arg, uint32_t member);
    void *arg;

    struct fg_ring_reads reads;
    struct qry_replica_request *items;  /* of this attempt, newest first */
    uint64_t down[FG_RING_READS_WORDS]; /* members that failed: not to be asked; bits by member */
    uint64_t slow[FG_RING_READS_WORDS]; /* late or bad members: asked only if needs_slow */
    bool needs_slow;                    /* the quorum cannot be had without them */
};

/* Returns true if no single member gives the data: all give what they have, and the caller unites
 * it (SERIES), or takes the greatest counts (STATS). */
bool qry_replica_requests_unite(enum fg_rpc_method method);

/* Plans the requests of an attempt: for each shard one member's data, and sums of all owners that
 * the quorum needs. Skips members that are down, and slow ones if the quorum does not need them.
 * FG_E_LIMIT. */
enum fg_code qry_replica_requests_plan(struct qry_replica_requests *requests,
                                       struct fg_err *err) fg_must_check;

/* Plans requests to failover replicas for members that failed or are late by now; to slow members,
 * too, once the quorum needs them. *ret_replaced: how many members with data they replace.
 * FG_E_LIMIT. */
enum fg_code qry_replica_requests_fail_over(struct qry_replica_requests *requests,
                                            unsigned *ret_replaced,
                                            struct fg_err *err) fg_must_check;

/* Plans requests for single profiles by their ids; answers[i] is the request that `from` i of the
 * missing profiles refers to. FG_E_LIMIT. */
enum fg_code qry_replica_requests_fetch(struct qry_replica_requests *requests,
                                        struct qry_replica_request *const *answers,
                                        const struct qry_replica_compare_result *missing,
                                        struct fg_err *err) fg_must_check;

/* Returns true if enough members have answered, and the data of all shards is there. */
bool qry_replica_requests_are_enough(const struct qry_replica_requests *requests);

/* Returns true if the request's data is part of the result. If a late member answers after all, its
 * data counts, and that of its failover replicas does not. */
bool qry_replica_request_counts(const struct qry_replica_request *request);

/* Returns true if the request may still get a reply that is wanted. */
static inline bool qry_replica_request_is_open(const struct qry_replica_request *request)
{
    return request->state == REQUEST_PLANNED || request->state == REQUEST_SENT ||
           request->state == REQUEST_LATE;
}

#endif
