/* What the distributor counts. */
#ifndef FG_DISTRIBUTOR_METRICS_H
#define FG_DISTRIBUTOR_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define DISTRIBUTOR_METRICS(M)                                                                                  \
    M(COUNTER, DIST_UPLOADS, "flamegrid_distributor_uploads_total", "Uploads received")                        \
    M(COUNTER, DIST_PROFILES, "flamegrid_distributor_profiles_received_total", "Profiles acknowledged, duplicates included") \
    M(COUNTER, DIST_DUPLICATES, "flamegrid_distributor_profiles_duplicate_total", "Duplicate profiles") \
    M(COUNTER, DIST_BYTES, "flamegrid_distributor_received_bytes_total", "Upload bytes as received") \
    M(COUNTER, DIST_INFLATED, "flamegrid_distributor_inflated_bytes_total", "Profile bytes after decompression") \
    M(COUNTER, DIST_REDEFINED, "flamegrid_distributor_redefined_total", "Batches resent with definitions that the ingester lacked") \
    M(COUNTER, DIST_REFUSED_INVALID, "flamegrid_distributor_uploads_refused_total{reason=\"invalid\"}", "Uploads refused, by reason") \
    M(COUNTER, DIST_REFUSED_BUSY, "flamegrid_distributor_uploads_refused_total{reason=\"busy\"}", "Uploads refused, by reason") \
    M(COUNTER, DIST_REFUSED_OTHER, "flamegrid_distributor_uploads_refused_total{reason=\"unavailable\"}", "Uploads refused, by reason") \
    M(COUNTER, DIST_STACKS_CUT, "flamegrid_distributor_stacks_cut_total", "Stacks truncated to limits.max_profile_stacktrace_depth") \
    M(COUNTER, DIST_STACKS_COMPLETED, "flamegrid_distributor_stacks_completed_total", "Stacks of Go that its profiler had truncated and that were completed from others of the profile") \
    M(COUNTER, DIST_SYMBOLS_CUT, "flamegrid_distributor_symbols_cut_total", "Names truncated to limits.max_profile_symbol_value_length") \
    M(COUNTER, DIST_SAMPLES_DROPPED, "flamegrid_distributor_samples_dropped_total", "Samples dropped because all values are zero or a value is negative") \
    M(COUNTER, DIST_SAMPLES_DANGLING, "flamegrid_distributor_samples_dangling_total", "Samples dropped because they refer to a location, function, string or stack that the upload does not contain") \
    M(COUNTER, DIST_DROPPED, "flamegrid_distributor_profiles_dropped_total", "Profiles dropped by relabeling rules") \
    M(COUNTER, DIST_TYPES_DROPPED, "flamegrid_distributor_sample_types_dropped_total", "Sample types dropped by relabeling rules") \
    M(COUNTER, DIST_EXPIRED, "flamegrid_distributor_profiles_expired_total", "Profiles stored although they are older than limits.retention_period; they will be deleted") \
    M(COUNTER, DIST_CLOCKS, "flamegrid_distributor_clocks_repaired_total", "Profiles dated 1970 whose time was replaced with the time of arrival") \
    M(COUNTER, DIST_ACKNOWLEDGED, "flamegrid_distributor_deliveries_total{outcome=\"acknowledged\"}", "Batches sent to the owners of their shard, by outcome") \
    M(COUNTER, DIST_REFUSED, "flamegrid_distributor_deliveries_total{outcome=\"refused\"}", "Batches sent to the owners of their shard, by outcome") \
    M(COUNTER, DIST_QUORUM_MISSED, "flamegrid_distributor_deliveries_total{outcome=\"quorum_missed\"}", "Batches sent to the owners of their shard, by outcome") \
    M(COUNTER, DIST_RETRIED_STALE, "flamegrid_distributor_deliveries_retried_total{reason=\"stale_ring\"}", "Batches resent after a pause, by reason") \
    M(COUNTER, DIST_RETRIED_EARLY, "flamegrid_distributor_deliveries_retried_total{reason=\"ring_not_read\"}", "Batches resent after a pause, by reason") \
    M(COUNTER, DIST_RETRIED_UNRESPONSIVE, "flamegrid_distributor_deliveries_retried_total{reason=\"unreachable\"}", "Batches resent after a pause, by reason") \
    M(COUNTER, DIST_STRAGGLERS_STORED, "flamegrid_distributor_stragglers_total{outcome=\"stored\"}", "Copies of acknowledged batches for slow ingesters, by outcome") \
    M(COUNTER, DIST_STRAGGLERS_FAILED, "flamegrid_distributor_stragglers_total{outcome=\"failed\"}", "Copies of acknowledged batches for slow ingesters, by outcome") \
    M(COUNTER, DIST_STRAGGLERS_DROPPED, "flamegrid_distributor_stragglers_total{outcome=\"dropped\"}", "Copies of acknowledged batches for slow ingesters, by outcome") \
    M(COUNTER, DIST_OTLP_1_8, "flamegrid_otlp_dialect_total{version=\"1.8\"}", "OTLP requests by release of opentelemetry-proto (JSON of 1.9 counts as 1.10 because they are identical)") \
    M(COUNTER, DIST_OTLP_1_9, "flamegrid_otlp_dialect_total{version=\"1.9\"}", "OTLP requests by release of opentelemetry-proto (JSON of 1.9 counts as 1.10 because they are identical)") \
    M(COUNTER, DIST_OTLP_1_10, "flamegrid_otlp_dialect_total{version=\"1.10\"}", "OTLP requests by release of opentelemetry-proto (JSON of 1.9 counts as 1.10 because they are identical)") \
    M(GAUGE, DIST_STRAGGLER_BYTES, "flamegrid_distributor_straggler_bytes", "Memory of copies for slow ingesters whose upload is already acknowledged") \
    M(GAUGE, DIST_TENANTS, "flamegrid_distributor_tenants", "Tenants with recent uploads that the rate limiter tracks") \
    M(GAUGE, DIST_DEFINITION_CACHE_BYTES, "flamegrid_distributor_definition_cache_bytes", "Memory of the cache of stacks that the ingesters already have") \
    M(COUNTER, DIST_FORWARD_EXPANDED, "flamegrid_distributor_forward_expanded_total", "Batches of other servers that had to come again with whole ids of stacks, since their short ones were not known here") \
    M(HISTOGRAM, DIST_DECODE_SECONDS, "flamegrid_distributor_decode_duration_seconds", "Duration of decompressing and decoding an upload")
/* clang-format on */
FG_METRICS_ENUM(distributor_metric, DISTRIBUTOR_METRICS)

#endif
