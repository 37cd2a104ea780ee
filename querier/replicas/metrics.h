/* What is counted of the calls to ingesters and of what they said. Of each peer:
 * common/net/rpc/record.h.
 */
#ifndef FG_QUERIER_REPLICAS_METRICS_H
#define FG_QUERIER_REPLICAS_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define REPLICAS_METRICS(M)                                                                                    \
    M(COUNTER, REPLICAS_ANSWERED, "flamegrid_querier_replica_calls_total{outcome=\"answered\"}", "Calls to ingesters by what became of them") \
    M(COUNTER, REPLICAS_FAILED, "flamegrid_querier_replica_calls_total{outcome=\"failed\"}", "Calls to ingesters by what became of them") \
    M(COUNTER, REPLICAS_DROPPED, "flamegrid_querier_replica_calls_total{outcome=\"not_needed\"}", "Calls to ingesters by what became of them") \
    M(COUNTER, REPLICAS_LATE, "flamegrid_querier_replica_calls_late_total", "Calls to ingesters that had no answer after querier.ingesters.hedge_after") \
    M(COUNTER, REPLICAS_REPLACED, "flamegrid_querier_replica_owners_replaced_total", "Ingesters that failed or were late, and whose data others were asked for") \
    M(COUNTER, REPLICAS_EQUAL, "flamegrid_querier_replica_comparisons_total{outcome=\"equal\"}", "What ingesters said they have, compared") \
    M(COUNTER, REPLICAS_MISSING, "flamegrid_querier_replica_comparisons_total{outcome=\"missing\"}", "What ingesters said they have, compared") \
    M(COUNTER, REPLICAS_DIFFERENT, "flamegrid_querier_replica_comparisons_total{outcome=\"different\"}", "What ingesters said they have, compared") \
    M(COUNTER, REPLICAS_FETCHED, "flamegrid_querier_replica_profiles_fetched_total", "Profiles that one ingester lacked and another was asked for") \
    M(COUNTER, REPLICAS_INCOMPLETE, "flamegrid_querier_replica_answers_total{outcome=\"incomplete\"}", "Answers without some ingesters that were needed, given or refused") \
    M(COUNTER, REPLICAS_REFUSED, "flamegrid_querier_replica_answers_total{outcome=\"refused\"}", "Answers without some ingesters that were needed, given or refused")
/* clang-format on */
FG_METRICS_ENUM(replicas_metric, REPLICAS_METRICS)

#endif
