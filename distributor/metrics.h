/* What the distributor counts. */
#ifndef FG_DISTRIBUTOR_METRICS_H
#define FG_DISTRIBUTOR_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define DISTRIBUTOR_METRICS(M)                                                                                  \
    M(COUNTER, DIST_UPLOADS, "flamegrid_distributor_uploads_total", "Uploads received")                        \
    M(COUNTER, DIST_PROFILES, "flamegrid_distributor_profiles_received_total", "Profiles acknowledged, duplicates included") \
    M(COUNTER, DIST_DUPLICATES, "flamegrid_distributor_profiles_duplicate_total", "Profiles that had arrived before") \
    M(COUNTER, DIST_BYTES, "flamegrid_distributor_received_bytes_total", "Bytes of uploads as received")       \
    M(COUNTER, DIST_INFLATED, "flamegrid_distributor_inflated_bytes_total", "Bytes of profiles after decompression") \
    M(COUNTER, DIST_REDEFINED, "flamegrid_distributor_redefined_total", "Batches sent again with definitions the ingester lacked") \
    M(COUNTER, DIST_REFUSED_INVALID, "flamegrid_distributor_uploads_refused_total{reason=\"invalid\"}", "Uploads refused") \
    M(COUNTER, DIST_REFUSED_BUSY, "flamegrid_distributor_uploads_refused_total{reason=\"busy\"}", "Uploads refused") \
    M(COUNTER, DIST_REFUSED_OTHER, "flamegrid_distributor_uploads_refused_total{reason=\"unavailable\"}", "Uploads refused") \
    M(COUNTER, DIST_STACKS_CUT, "flamegrid_distributor_stacks_cut_total", "Stacks cut to the depth limit")     \
    M(COUNTER, DIST_SYMBOLS_CUT, "flamegrid_distributor_symbols_cut_total", "Names cut to the length limit")   \
    M(COUNTER, DIST_SAMPLES_DROPPED, "flamegrid_distributor_samples_dropped_total", "Samples without a value, or negative") \
    M(COUNTER, DIST_SAMPLES_DANGLING, "flamegrid_distributor_samples_dangling_total", "Samples lost since they name a location, function, string or stack that their upload does not have") \
    M(COUNTER, DIST_DROPPED, "flamegrid_distributor_profiles_dropped_total", "Profiles that the tenant's rules drop") \
    M(COUNTER, DIST_TYPES_DROPPED, "flamegrid_distributor_sample_types_dropped_total", "Sample types that the tenant's rules drop") \
    M(COUNTER, DIST_EXPIRED, "flamegrid_distributor_profiles_expired_total", "Profiles that were stored, but are older than limits.retention_period and will not be kept") \
    M(COUNTER, DIST_CLOCKS, "flamegrid_distributor_clocks_repaired_total", "Profiles of 1970, which got the time of their arrival") \
    M(COUNTER, DIST_ACKNOWLEDGED, "flamegrid_distributor_deliveries_total{outcome=\"acknowledged\"}", "Batches by what became of them at the ingesters that own their shard") \
    M(COUNTER, DIST_REFUSED, "flamegrid_distributor_deliveries_total{outcome=\"refused\"}", "Batches by what became of them at the ingesters that own their shard") \
    M(COUNTER, DIST_QUORUM_MISSED, "flamegrid_distributor_deliveries_total{outcome=\"quorum_missed\"}", "Batches by what became of them at the ingesters that own their shard") \
    M(COUNTER, DIST_RETRIED_STALE, "flamegrid_distributor_deliveries_retried_total{reason=\"stale_ring\"}", "Batches sent again after a pause") \
    M(COUNTER, DIST_RETRIED_EARLY, "flamegrid_distributor_deliveries_retried_total{reason=\"ring_not_read\"}", "Batches sent again after a pause") \
    M(COUNTER, DIST_RETRIED_SILENT, "flamegrid_distributor_deliveries_retried_total{reason=\"unreachable\"}", "Batches sent again after a pause") \
    M(COUNTER, DIST_STRAGGLERS_STORED, "flamegrid_distributor_stragglers_total{outcome=\"stored\"}", "Copies of acknowledged batches by what became of them afterwards") \
    M(COUNTER, DIST_STRAGGLERS_FAILED, "flamegrid_distributor_stragglers_total{outcome=\"failed\"}", "Copies of acknowledged batches by what became of them afterwards") \
    M(COUNTER, DIST_STRAGGLERS_DROPPED, "flamegrid_distributor_stragglers_total{outcome=\"dropped\"}", "Copies of acknowledged batches by what became of them afterwards") \
    M(COUNTER, DIST_OTLP_1_8, "flamegrid_otlp_dialect_total{version=\"1.8\"}", "OTLP requests by the release of opentelemetry-proto that they are written in (JSON of 1.9 counts as 1.10: they are the same)") \
    M(COUNTER, DIST_OTLP_1_9, "flamegrid_otlp_dialect_total{version=\"1.9\"}", "OTLP requests by the release of opentelemetry-proto that they are written in (JSON of 1.9 counts as 1.10: they are the same)") \
    M(COUNTER, DIST_OTLP_1_10, "flamegrid_otlp_dialect_total{version=\"1.10\"}", "OTLP requests by the release of opentelemetry-proto that they are written in (JSON of 1.9 counts as 1.10: they are the same)") \
    M(GAUGE, DIST_STRAGGLER_BYTES, "flamegrid_distributor_straggler_bytes", "Memory of copies that go on after their upload was answered") \
    M(GAUGE, DIST_TENANTS, "flamegrid_distributor_tenants", "Tenants that have sent so much lately that their rate is watched") \
    M(GAUGE, DIST_KNOWN_BYTES, "flamegrid_distributor_known_stacks_bytes", "Memory of the ids of stacks that need no definition") \
    M(HISTOGRAM, DIST_DECODE_SECONDS, "flamegrid_distributor_decode_duration_seconds", "Decompressing and decoding one upload")
/* clang-format on */
FG_METRICS_ENUM(distributor_metric, DISTRIBUTOR_METRICS)

#endif
