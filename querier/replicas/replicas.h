/*
 * The ingesters, which hold what is in no block yet, as one: each profile is with several of them,
 * and in the result once. A fan-out asks first, reads blocks, and takes the result afterwards, so
 * that both go on at the same time.
 *
 * Either a ring says which ingester has what, or one ingester has everything, or there is none.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICAS_H
#define FG_QUERIER_REPLICAS_REPLICAS_H

#include "querier/replicas/replica_read.h"

/* Registers the metrics of replica reads (metrics.h). */
struct fg_metrics *qry_replicas_register(struct fg_registry *registry);

/*
 * Takes the current ring, or keeps the one the query has; fresh: takes another. Call it before the
 * snapshot of manifests is taken: the snapshot has to be at least of the ring's generation, since
 * what members have drained is in that. Does nothing without a ring. Errors: those of
 * fg_ring_watch_latest().
 */
enum fg_code qry_replicas_begin(struct qry_query *query, bool fresh,
                                struct fg_err *err) fg_must_check;

/* Gives up the query's ring, if it has one. */
void qry_replicas_end(struct qry_query *query);

/* The replica reads of a fan-out, one for each tenant of the query. */
struct qry_replica_reads;

/*
 * Starts the reads of all tenants at once. head is borrowed until the end. last_try: a fresher ring
 * or snapshot will not be taken. End *ret_reads with either take or drop.
 */
enum fg_code qry_replicas_ask(struct qry_query *query, enum fg_rpc_method method,
                              const struct qry_replicas_head *head, bool last_try,
                              struct qry_replica_reads **ret_reads,
                              struct fg_err *err) fg_must_check;

/*
 * Waits for the reads, then hands over the replies that the result is made of. Failures: those of
 * qry_replica_read_step(), of take(), and of qry_query_check(). If the query accepts what there is
 * (query->partial), the result may be incomplete, and the query says what it lacks.
 */
enum fg_code qry_replicas_take(struct qry_query *query, struct qry_replica_reads *reads,
                               qry_replicas_reply take, void *arg,
                               struct fg_err *err) fg_must_check;

/* Abandons the reads. Does not wait. */
void qry_replicas_drop(struct qry_replica_reads *reads);

#endif
