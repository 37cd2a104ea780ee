/* Metrics of replica reads. Those of each peer are in common/net/rpc/peer_metrics.h. */
#ifndef FG_QUERIER_REPLICAS_METRICS_H
#define FG_QUERIER_REPLICAS_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define REPLICAS_METRICS(M)                                                                                    \
    M(COUNTER, REPLICAS_ANSWERED, "flamegrid_querier_replica_calls_total{outcome=\"answered\"}", "Calls to ingesters by outcome") \
    M(COUNTER, REPLICAS_FAILED, "flamegrid_querier_replica_calls_total{outcome=\"failed\"}", "Calls to ingesters by outcome") \
    M(COUNTER, REPLICAS_DROPPED, "flamegrid_querier_replica_calls_total{outcome=\"not_needed\"}", "Calls to ingesters by outcome") \
    M(COUNTER, REPLICAS_LATE, "flamegrid_querier_replica_calls_late_total", "Calls to ingesters without a response after querier.ingesters.hedge_after") \
    M(COUNTER, REPLICAS_REPLACED, "flamegrid_querier_replica_owners_replaced_total", "Failed or slow ingesters replaced by their replicas in a query") \
    M(COUNTER, REPLICAS_EQUAL, "flamegrid_querier_replica_comparisons_total{outcome=\"equal\"}", "Comparisons of the profile lists of replicas, by outcome") \
    M(COUNTER, REPLICAS_MISSING, "flamegrid_querier_replica_comparisons_total{outcome=\"missing\"}", "Comparisons of the profile lists of replicas, by outcome") \
    M(COUNTER, REPLICAS_DIFFERENT, "flamegrid_querier_replica_comparisons_total{outcome=\"different\"}", "Comparisons of the profile lists of replicas, by outcome") \
    M(COUNTER, REPLICAS_FETCHED, "flamegrid_querier_replica_profiles_fetched_total", "Profiles missing on one replica and fetched from another") \
    M(COUNTER, REPLICAS_INCOMPLETE, "flamegrid_querier_replica_answers_total{outcome=\"incomplete\"}", "Queries that lacked required ingesters, by outcome") \
    M(COUNTER, REPLICAS_REFUSED, "flamegrid_querier_replica_answers_total{outcome=\"refused\"}", "Queries that lacked required ingesters, by outcome")
/* clang-format on */
FG_METRICS_ENUM(replicas_metric, REPLICAS_METRICS)

#endif
