/* What the compactor counts. */
#ifndef FG_COMPACTOR_METRICS_H
#define FG_COMPACTOR_METRICS_H

#include "common/runtime/metrics.h"

/* clang-format off */
#define COMPACTOR_METRICS(M)                                                                       \
    M(COUNTER, COMPACTOR_JOBS, "flamegrid_compactor_jobs_total", "Jobs that were carried out and swapped in") \
    M(COUNTER, COMPACTOR_FAILURES, "flamegrid_compactor_job_failures_total", "Jobs that failed and are planned again") \
    M(COUNTER, COMPACTOR_LOST, "flamegrid_compactor_jobs_lost_total", "Jobs that somebody else was faster with") \
    M(COUNTER, COMPACTOR_PROFILES, "flamegrid_compactor_profiles_total", "Profiles written into blocks") \
    M(COUNTER, COMPACTOR_DELETED, "flamegrid_compactor_profiles_deleted_total", "Profiles left out because a deletion names them") \
    M(COUNTER, COMPACTOR_EXPIRED, "flamegrid_compactor_profiles_expired_total", "Profiles dropped by retention") \
    M(COUNTER, COMPACTOR_READ_BYTES, "flamegrid_compactor_read_bytes_total", "Bytes of segments and blocks that were read") \
    M(COUNTER, COMPACTOR_WRITTEN_BYTES, "flamegrid_compactor_written_bytes_total", "Bytes of blocks that were uploaded") \
    M(COUNTER, COMPACTOR_BLOCKS_WRITTEN, "flamegrid_compactor_blocks_written_total", "Blocks that were uploaded") \
    M(COUNTER, COMPACTOR_WITHOUT_NODES, "flamegrid_compactor_services_without_nodes_total", "Services of blocks that lack merged nodes because there was no memory for them") \
    M(COUNTER, COMPACTOR_RETIRED, "flamegrid_compactor_segments_retired_total", "Segments that left the manifest, covered by blocks") \
    M(COUNTER, COMPACTOR_OBJECTS_DELETED, "flamegrid_compactor_objects_deleted_total", "Objects deleted after they were replaced") \
    M(COUNTER, COMPACTOR_ORPHANS, "flamegrid_compactor_orphans_deleted_total", "Objects deleted that no manifest knew") \
    M(COUNTER, COMPACTOR_UPLOADS, "flamegrid_compactor_uploads_aborted_total", "Uploads removed that nobody completed, and temporary files of writers that died") \
    M(COUNTER, COMPACTOR_PASS_FAILURES, "flamegrid_compactor_pass_failures_total", "Rounds over all tenants that were broken off") \
    M(GAUGE, COMPACTOR_UNCOVERED, "flamegrid_compactor_uncovered_segments", "Live segments with data of some tenant that is in no block yet") \
    M(GAUGE, COMPACTOR_LAG, "flamegrid_compactor_lag_seconds", "Age of the oldest of these") \
    M(GAUGE, COMPACTOR_TENANTS, "flamegrid_compactor_tenants", "Tenants that are this compactor's") \
    M(GAUGE, COMPACTOR_MATES, "flamegrid_compactor_compactors", "Compactors that share the bucket's tenants, this one among them") \
    M(GAUGE, COMPACTOR_FAILING, "flamegrid_compactor_tenants_failing", "Tenants whose last job failed") \
    M(GAUGE, COMPACTOR_ASIDE, "flamegrid_compactor_objects_aside", "Damaged or missing segments and blocks that compaction goes on without") \
    M(GAUGE, COMPACTOR_UNHEARD, "flamegrid_compactor_unheard_segments", "Segments older than a day of cuts that the L0 manifest has not heard of; they are not deleted") \
    M(GAUGE, COMPACTOR_HOUR_BLOCKS, "flamegrid_compactor_blocks{level=\"hour\"}", "Blocks in the manifests of tenants, when they were last looked at") \
    M(GAUGE, COMPACTOR_DAY_BLOCKS, "flamegrid_compactor_blocks{level=\"day\"}", "Blocks in the manifests of tenants, when they were last looked at") \
    M(GAUGE, COMPACTOR_OTHER_BLOCKS, "flamegrid_compactor_blocks{level=\"other\"}", "Blocks in the manifests of tenants, when they were last looked at") \
    M(GAUGE, COMPACTOR_BLOCK_BYTES, "flamegrid_compactor_block_bytes", "Bytes of these") \
    M(GAUGE, COMPACTOR_DELETIONS, "flamegrid_compactor_deletions_pending", "Deletions whose bytes are not gone yet") \
    M(HISTOGRAM, COMPACTOR_SECONDS, "flamegrid_compactor_job_duration_seconds", "Time of one job") \
    M(HISTOGRAM, COMPACTOR_PASS_SECONDS, "flamegrid_compactor_pass_duration_seconds", "Time of one round over all tenants")
/* clang-format on */
FG_METRICS_ENUM(compactor_metric, COMPACTOR_METRICS)

#endif
