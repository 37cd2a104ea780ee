/*
 * A replica read: runs its state machine (replica_read_core.h) against real ingesters. It packs and
 * sends the requests, hands replies to the core, and delivers the result.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICA_READ_H
#define FG_QUERIER_REPLICAS_REPLICA_READ_H

#include "querier/replicas/calls.h"
#include "querier/replicas/heads.h"
#include "querier/replicas/replica_read_core.h"

struct qry_replica_read {
    /* Set before qry_replica_read_start(); borrowed. */
    struct qry_query *query;
    struct qry_calls *calls;
    struct fg_arena *arena;
    enum fg_rpc_method method;
    const struct qry_replicas_head *head;
    size_t tenant;        /* of the query */
    uint16_t first, last; /* shards, inclusive */
    uint32_t round_robin; /* another number prefers other members */
    bool last_try;        /* a fresher ring or snapshot will not be taken */

    struct qry_heads_tenant about;
    struct qry_replica_read_core core;
};

/* Sends the first requests. FG_E_LIMIT. */
enum fg_code qry_replica_read_start(struct qry_replica_read *read,
                                    struct fg_err *err) fg_must_check;

/* Makes all progress that needs no waiting. *ret_moved: something has happened, so step again.
 * Failures: those of qry_replica_read_core_step(). */
enum fg_code qry_replica_read_step(struct qry_replica_read *read, bool *ret_moved,
                                   struct fg_err *err) fg_must_check;

/* Receives a reply; its slices are gone after the call. */
typedef enum fg_code (*qry_replicas_reply)(struct qry_query *query, const struct fg_call *call,
                                           void *arg, struct fg_err *err);

/* Hands over the replies that the result is made of. The read is DONE. */
enum fg_code qry_replica_read_deliver(struct qry_replica_read *read, qry_replicas_reply take,
                                      void *arg, struct fg_err *err) fg_must_check;

#endif
