/*
 * Evaluates recording rules each minute, without being asked, and lets queriers share the work: one
 * querier owns a tenant's rules, by rendezvous hashing over the queriers of the share
 * (querier/share/share.h), and the others pass scrapes on to it.
 *
 *   each minute:  rules/scraped --> tenants --> own? --> job in the QUERY lane --> cache
 *   a scrape:     own? -- yes ----> cache, or evaluation
 *                    \--- no -----> RULES --> its cache, or evaluation
 *                            \--(no answer)--> evaluation here
 *
 * Only tenants whose metrics somebody scraped in the last hour are evaluated (scraped_tenants.h).
 * Ownership is not exact: two queriers that disagree compute the same values twice, and a minute
 * that nobody evaluated is computed by the scrape. So no death, and no partition, loses or changes
 * a value.
 *
 * A thread asks the other queriers every few seconds whether they are there, so that the tenants of
 * one that is not have another owner before its next minute. Evaluations are jobs of the flows of
 * scrapes (querier/query_flow.h), a few at a time, so that they take no more from people's queries
 * than scrapes do.
 *
 * Thread: as each function says.
 */
#ifndef FG_QUERIER_RULES_RULE_EVALUATOR_H
#define FG_QUERIER_RULES_RULE_EVALUATOR_H

#include "querier/query.h"

struct qry_rule_evaluator;
struct qry_share;

/* Borrowed. */
struct qry_rule_evaluator_config {
    struct querier *querier;
    struct qry_share *share;      /* NULL: this is the only querier */
    struct fg_rpc_server *server; /* for the other queriers, not started yet; with a share */
    struct fg_registry *registry;
};

/* Creates it and its thread. FG_E_LIMIT: no more threads. */
enum fg_code qry_rule_evaluator_create(const struct qry_rule_evaluator_config *config,
                                       struct qry_rule_evaluator **ret_evaluator,
                                       struct fg_err *err) fg_must_check;

/* Ends the thread: no evaluation of this querier's own begins any more. Those under way end with
 * the querier (qry_stop()). Before the pool of workers is destroyed. Accepts NULL. */
void qry_rule_evaluator_stop(struct qry_rule_evaluator *evaluator);

/* Frees it after the pool and the server have ended. Accepts NULL. */
void qry_rule_evaluator_destroy(struct qry_rule_evaluator *evaluator);

/* Notes that somebody scrapes the metrics of a tenant. Any thread. Accepts NULL. */
void qry_rule_evaluator_scraped(struct qry_rule_evaluator *evaluator, struct fg_slice tenant);

/*
 * Asks the owner of the query's tenant for the metrics of a minute. Returns true if query->body has
 * them. Returns false if the caller has to evaluate them: it is the owner, or the owner did not
 * answer in half of the query's time, or could not read something, or the query's client has
 * disconnected, and then the owner's work is canceled. evaluator NULL: false. Worker.
 */
bool qry_rule_evaluator_ask(struct qry_rule_evaluator *evaluator, struct qry_query *query,
                            int64_t minute_ns) fg_must_check;

#endif
