/* What the compactor counts. */
#ifndef FG_COMPACTOR_METRICS_H
#define FG_COMPACTOR_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define COMPACTOR_METRICS(M)                                                                       \
    M(COUNTER, COMPACTOR_JOBS, "flamegrid_compactor_jobs_total", "Compactions committed to a manifest") \
    M(COUNTER, COMPACTOR_FAILURES, "flamegrid_compactor_job_failures_total", "Compactions that failed and will be planned again") \
    M(COUNTER, COMPACTOR_LOST, "flamegrid_compactor_jobs_lost_total", "Compactions discarded because another compactor committed first") \
    M(COUNTER, COMPACTOR_PROFILES, "flamegrid_compactor_profiles_total", "Profiles written into blocks") \
    M(COUNTER, COMPACTOR_DELETED, "flamegrid_compactor_profiles_deleted_total", "Profiles dropped by deletions") \
    M(COUNTER, COMPACTOR_EXPIRED, "flamegrid_compactor_profiles_expired_total", "Profiles dropped by retention") \
    M(COUNTER, COMPACTOR_READ_BYTES, "flamegrid_compactor_read_bytes_total", "Bytes of segments and blocks read") \
    M(COUNTER, COMPACTOR_WRITTEN_BYTES, "flamegrid_compactor_written_bytes_total", "Bytes of blocks uploaded") \
    M(COUNTER, COMPACTOR_BLOCKS_WRITTEN, "flamegrid_compactor_blocks_written_total", "Blocks uploaded") \
    M(COUNTER, COMPACTOR_WITHOUT_ROLLUP, "flamegrid_compactor_services_without_rollups_total", "Services in blocks without rollups because memory was insufficient") \
    M(COUNTER, COMPACTOR_RETIRED, "flamegrid_compactor_segments_retired_total", "Segments removed from the manifest after blocks covered them") \
    M(COUNTER, COMPACTOR_OBJECTS_DELETED, "flamegrid_compactor_objects_deleted_total", "Replaced objects deleted") \
    M(COUNTER, COMPACTOR_ORPHANS, "flamegrid_compactor_orphans_deleted_total", "Orphaned objects deleted (listed in no manifest)") \
    M(COUNTER, COMPACTOR_ADHOC, "flamegrid_compactor_adhoc_expired_total", "Expired ad hoc profiles deleted") \
    M(COUNTER, COMPACTOR_UPLOADS, "flamegrid_compactor_uploads_aborted_total", "Incomplete uploads and stale temporary files removed") \
    M(COUNTER, COMPACTOR_USAGE_DOCUMENTS, "flamegrid_compactor_usage_documents_total", "Documents of usage written") \
    M(COUNTER, COMPACTOR_USAGE_FAILURES, "flamegrid_compactor_usage_failures_total", "Attempts to document a tenant's usage that failed and are repeated") \
    M(COUNTER, COMPACTOR_PASS_FAILURES, "flamegrid_compactor_pass_failures_total", "Aborted passes over all tenants") \
    M(GAUGE, COMPACTOR_UNCOVERED, "flamegrid_compactor_uncovered_segments", "Live segments with data that is in no block yet") \
    M(GAUGE, COMPACTOR_LAG, "flamegrid_compactor_lag_seconds", "Age of the oldest live segment with data that is in no block yet") \
    M(GAUGE, COMPACTOR_TENANTS, "flamegrid_compactor_tenants", "Tenants assigned to this compactor") \
    M(GAUGE, COMPACTOR_MEMBERS, "flamegrid_compactor_compactors", "Compactors that share the tenants of the bucket, this one included") \
    M(GAUGE, COMPACTOR_FAILING, "flamegrid_compactor_tenants_failing", "Tenants whose last compaction failed") \
    M(GAUGE, COMPACTOR_UNBILLED, "flamegrid_compactor_usage_tenants_failing", "Tenants whose usage could not be documented at the last attempt") \
    M(GAUGE, COMPACTOR_ASIDE, "flamegrid_compactor_objects_skipped", "Damaged or missing segments and blocks that compaction skips") \
    M(GAUGE, COMPACTOR_UNLISTED, "flamegrid_compactor_unlisted_segments", "Segments older than a day of cuts that the L0 manifest does not list; they are kept") \
    M(GAUGE, COMPACTOR_HOUR_BLOCKS, "flamegrid_compactor_blocks{level=\"hour\"}", "Blocks in the manifests of tenants at the last pass") \
    M(GAUGE, COMPACTOR_DAY_BLOCKS, "flamegrid_compactor_blocks{level=\"day\"}", "Blocks in the manifests of tenants at the last pass") \
    M(GAUGE, COMPACTOR_OTHER_BLOCKS, "flamegrid_compactor_blocks{level=\"other\"}", "Blocks in the manifests of tenants at the last pass") \
    M(GAUGE, COMPACTOR_BLOCK_BYTES, "flamegrid_compactor_block_bytes", "Size of the blocks in the manifests of tenants at the last pass") \
    M(GAUGE, COMPACTOR_DELETIONS, "flamegrid_compactor_deletions_pending", "Deletions whose data is not removed yet") \
    M(GAUGE, COMPACTOR_OLDEST_DELETION, "flamegrid_compactor_oldest_deletion_seconds", "Time since the oldest of these deletions was requested; 0: none is pending") \
    M(HISTOGRAM, COMPACTOR_SECONDS, "flamegrid_compactor_job_duration_seconds", "Duration of a compaction") \
    M(HISTOGRAM, COMPACTOR_PASS_SECONDS, "flamegrid_compactor_pass_duration_seconds", "Duration of a pass over all tenants")
/* clang-format on */
FG_METRICS_ENUM(compactor_metric, COMPACTOR_METRICS)

#endif
