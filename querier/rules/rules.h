/*
 * Recording rules: settings.v1.RecordingRulesService, and the metrics that rules make of profiles,
 * at GET /api/metrics (querier/API.md#recording-rules).
 *
 * A rule is a question about a minute that is over, so each querier can answer it, and all get the
 * same integers. A querier evaluates the rules of a tenant when it is asked for the metrics. There
 * is no owner, no timer and nothing to hand over: a querier that dies loses nothing, and tenants
 * whose metrics nobody scrapes cost nothing. The values of a minute are kept in a cache, so
 * that a second scraper costs little.
 *
 * Thread: answers run on workers. The cache may be used by any. Memory: see CACHE_MAX_BYTES.
 */
#ifndef FG_QUERIER_RULES_RULES_H
#define FG_QUERIER_RULES_RULES_H

#include "querier/query.h"

extern const struct qry_endpoint qry_rule_endpoints[];
extern const size_t qry_n_rule_endpoints;

/* GET /api/metrics. */
extern const struct qry_endpoint qry_scraped_endpoints[];
extern const size_t qry_n_scraped_endpoints;

struct qry_rules;

/* Creates what the rules of all tenants share. delay_ns: so long ago has a minute ended before it
 * is evaluated. Destroy accepts NULL. */
struct qry_rules *qry_rules_create(struct fg_registry *registry, int64_t delay_ns);
void qry_rules_destroy(struct qry_rules *rules);

#endif
