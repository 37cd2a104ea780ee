/*
 * Recording rules: settings.v1.RecordingRulesService, and the metrics that rules make of profiles,
 * at GET /api/metrics (querier/API.md#recording-rules).
 *
 * Thread: answers run on workers.
 */
#ifndef FG_QUERIER_RULES_RULES_H
#define FG_QUERIER_RULES_RULES_H

#include "querier/query.h"

extern const struct qry_endpoint qry_rule_endpoints[];
extern const size_t qry_n_rule_endpoints;

/* GET /api/metrics. */
extern const struct qry_endpoint qry_scraped_endpoints[];
extern const size_t qry_n_scraped_endpoints;

#endif
