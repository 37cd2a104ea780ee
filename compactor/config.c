#include "compactor/config.h"

#include "common/storage/block/format.h"

enum {
    MEMORY_SHARE =
        4, /* of the process's budget: of 1 GiB that is enough for a day of 20 instances */
    MEMORY_MIN_BYTES = 64 * 1024 * 1024,
};

#define CONF(field) FG_CONF_AT(struct cmp_settings, field)

/* clang-format off */
const struct fg_conf_field cmp_fields[] = {
    {"interval", FG_CONF_NS, CONF(interval_ns), .def = "30s", .min = "1s", .max = "1h",
     .doc = "Pause between two passes over all tenants."},
    {"hour_delay", FG_CONF_NS, CONF(hour_delay_ns), .def = "10m", .min = "0s", .max = "1d",
     .doc = "How long after the end of an hour its segments are compacted into blocks."},
    {"day_delay", FG_CONF_NS, CONF(day_delay_ns), .def = "2h", .min = "0s", .max = "7d",
     .doc = "How long after the end of a day (UTC) its hourly blocks are compacted into daily blocks."},
    {"fold_after", FG_CONF_NS, CONF(fold_after_ns), .def = "1d", .min = "1m", .max = "365d",
     .doc = "How long late data stays in separate blocks if it is less than 1 % of its day."},
    {"fold_quiet", FG_CONF_NS, CONF(fold_quiet_ns), .def = "1h", .min = "0s", .max = "7d",
     .doc = "How long a day must receive no late data before late data of more than 1 % of the day is merged into it."},
    {"job_max_bytes", FG_CONF_BYTES, CONF(job_max_bytes), .def = "1GiB", .min = "4MiB", .max = "64GiB",
     .doc = "Maximum input of one compaction, and so the size of blocks. Larger days are split by shard. The scratch directory needs room for three times as much beyond `disk_reserve_bytes`."},
    {"job_max_sources", FG_CONF_UINT, CONF(job_max_sources), .def = "96", .min = "2", .max = "1024",
     .doc = "Maximum number of segments or blocks per compaction."},
    {"rollup_min_bytes", FG_CONF_BYTES, CONF(rollup_min_bytes), .def = "1MiB", .max = "64GiB",
     .doc = "Minimum total size of blocks for which rollups over 6 hours, a day, 7 days and 28 days are built. Hourly blocks of 6 hours that are smaller are merged."},
    {"memory_max_bytes", FG_CONF_BYTES, CONF(memory_max_bytes), .def = "0", .max = "64GiB",
     .doc = "Memory for compaction. 0: a quarter of the top-level `memory_max_bytes`, at least 64MiB."},
    {"retire_after", FG_CONF_NS, CONF(retire_after_ns), .def = "5m", .min = "0s", .max = "1d",
     .doc = "Minimum time that segments stay in the manifest, so that ingesters that follow it miss none."},
    {"grace", FG_CONF_NS, CONF(grace_ns), .def = "1h", .min = "1m", .max = "7d",
     .doc = "How long replaced objects are kept for queries that still read them."},
    {"orphan_after", FG_CONF_NS, CONF(orphan_after_ns), .def = "1d", .min = "2h", .max = "365d",
     .doc = "Age at which objects that no manifest lists are deleted."},
    {"deletion_wait", FG_CONF_NS, CONF(deletion_wait_ns), .def = "3h", .min = "0s", .max = "7d",
     .doc = "Minimum time for which a deletion also covers profiles that still arrive. The deletion ends after that, when no ingester holds any earlier profile."},
    {"block_version", FG_CONF_ENUM, CONF(block_version), .def = "newest", .choices = FG_BLOCK_VERSION_CHOICES,
     .doc = "Format version of new blocks. While programs of an older version read the bucket, set a version that they support (deploy/operations/upgrade.md)."},
};
/* clang-format on */
const size_t cmp_n_fields = FG_COUNT(cmp_fields);

void cmp_share(struct cmp_settings *settings, uint64_t memory_max_bytes)
{
    if (settings->memory_max_bytes == 0)
        settings->memory_max_bytes =
            FG_MAX(memory_max_bytes / MEMORY_SHARE, (uint64_t)MEMORY_MIN_BYTES);
}
