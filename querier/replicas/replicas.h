/*
 * The ingesters that hold what is in no block yet, as one: each profile is with several of them,
 * and in the answer once. A query asks while it reads blocks, and takes the answer afterwards.
 *
 * Either there is a ring, which says who has what, or one ingester that has all.
 *
 * Thread: the query's.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICAS_H
#define FG_QUERIER_REPLICAS_REPLICAS_H

#include "querier/replicas/replica_read.h"

struct fg_metrics *qry_replicas_register(struct fg_registry *registry); /* metrics.h */

/*
 * Takes the ring as it is now, or keeps the one the query has; fresh: another one. Before the
 * snapshot of manifests, which has to be of its generation at least: what members have drained is
 * in that. Without a ring there is nothing to take. Errors as of fg_ring_watch_fresh().
 */
enum fg_code qry_replicas_begin(struct qry_query *query, bool fresh,
                                struct fg_err *err) fg_must_check;
void qry_replicas_end(struct qry_query *query);

struct qry_replica_reads;

/*
 * Asks for all tenants of the query at once. head is borrowed until the end. last_try: a fresher
 * ring or snapshot will not be taken. *ret_reads ends with take or drop, one of them.
 */
enum fg_code qry_replicas_ask(struct qry_query *query, enum fg_rpc_method method,
                              const struct qry_replicas_head *head, bool last_try,
                              struct qry_replica_reads **ret_reads,
                              struct fg_err *err) fg_must_check;

/*
 * Waits, then hands over what the answer is made of. Failures as of qry_reading_step(), take(), and
 * qry_query_check(). A query that takes what there is (query->partial) may be incomplete
 * afterwards, and says what is missing.
 */
enum fg_code qry_replicas_take(struct qry_query *query, struct qry_replica_reads *reads,
                               qry_replicas_reply take, void *arg,
                               struct fg_err *err) fg_must_check;

/* Nobody wants the answer. Does not wait. */
void qry_replicas_drop(struct qry_replica_reads *reads);

#endif
