#include "common/program/program.h"
#include "common/runtime/log.h"
#include "querier/querier.h"

#include <errno.h>
#include <sys/stat.h>

#define CONF(field) FG_CONF_AT(struct qry_settings, field)

const struct fg_conf_field qry_fields[] = {
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "60s", .min = "100ms", .max = "1h",
     .doc = "Timeout of queries that carry no earlier deadline."},
    {"answer_max_bytes", FG_CONF_BYTES, CONF(answer_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc = "Maximum size of a response. A query with a larger response fails with 429. It also "
            "limits the memory for the sums and the stacks of a query."},
    {"cache_max_bytes", FG_CONF_BYTES, CONF(cache_max_bytes), .def = "0", .min = "0",
     .doc = "Memory for the cache of segment and block data. 0: a third of `memory_max_bytes`, at "
            "least 256MiB."},
    {"fetch_max_bytes", FG_CONF_BYTES, CONF(fetch_max_bytes), .def = "32MiB", .min = "1MiB",
     .doc = "Bytes of segments and blocks that one query may have in flight."},
    {"refine_max_bytes", FG_CONF_BYTES, CONF(refine_max_bytes), .def = "256MiB", .min = "0",
     .doc = "Maximum bytes of samples to read for an exact flame graph. A flame graph is first "
            "computed from the heaviest stacks of each part. If that is inexact and the samples "
            "are not larger than this, all samples are read; otherwise the response states the "
            "error bound (X-Flamegrid-Bound)."},
    {"manifest_age", FG_CONF_NS, CONF(manifest_age_ns), .def = "10s", .min = "0s", .max = "1m",
     .doc = "Maximum age of cached lists of segments and blocks. A larger value costs fewer "
            "requests and does not change results, except that deletions take effect that much "
            "later if the compactor is another process."},
    {"instance_labels", FG_CONF_STRING, CONF(instance_labels), .def = QRY_INSTANCE_LABELS_DEFAULT,
     .max = "1000",
     .doc = "Labels that may name an instance of a service, separated by commas, at most 8. "
            "Comparisons (/api/compare) take the first one that both sides have."},
    {"embed_origins", FG_CONF_STRING, CONF(embed_origins), .def = "", .max = "1000",
     .doc =
         "Origins of web pages that may show a flame graph of this server in a frame (/embed), "
         "separated by spaces, for example https://wiki.example https://*.example. Empty: none."},
    {"rules_delay", FG_CONF_NS, CONF(rules_delay_ns), .def = "2m", .min = "0s", .max = "1h",
     .doc =
         "How long after its end a minute is evaluated by recording rules. Profiles of the minute "
         "that arrive later are missing in the metrics. All queriers should have the same value."},
    {"adhoc_upload_max_bytes", FG_CONF_BYTES, CONF(adhoc_upload_max_bytes), .def = "16MiB",
     .min = "0", .max = "256MiB",
     .doc = "Size of an ad hoc profile, a file that is uploaded to look at it, as received. Larger "
            "files are refused. 0: no ad hoc profiles."},
    {"adhoc_decode_max_bytes", FG_CONF_BYTES, CONF(adhoc_decode_max_bytes), .def = "128MiB",
     .min = "1MiB", .max = "4GiB",
     .doc = "Memory for decompressing and decoding one ad hoc profile and for its flame graph, in "
            "addition to the file itself. Files that need more are refused."},
    {"adhoc_memory_max_bytes", FG_CONF_BYTES, CONF(adhoc_memory_max_bytes), .def = "384MiB",
     .min = "1MiB",
     .doc = "Memory for all ad hoc profiles that are read and decoded at one moment. Requests "
            "beyond it get 429. At least what a comparison of two files needs is allowed: twice "
            "`querier.adhoc_decode_max_bytes` and three times `querier.adhoc_upload_max_bytes`."},
    {"usage_interval", FG_CONF_NS, CONF(usage_interval_ns), .def = "1h", .min = "1s", .max = "1h",
     .doc =
         "How often the numbers of queries, of bytes they read and of their CPU time are written "
         "to the bucket, for each tenant's usage. A crash loses those of one interval."},
    {"usage_spool", FG_CONF_STRING, CONF(usage_spool), .def = "", .max = "4000",
     .doc =
         "Directory of this process alone, where the costs of queries wait until the bucket takes "
         "them. Empty: in the data directory of a single server, in memory in a querier."},
    {"disk_cache", FG_CONF_STRING, CONF(disk_cache), .def = "", .max = "4000",
     .doc =
         "Directory for the disk cache of segment and block data, which survives restarts. Empty: "
         "cache in the data directory if the bucket is an object store, else no disk cache."},
    {"disk_cache_max_bytes", FG_CONF_BYTES, CONF(disk_cache_max_bytes), .def = "10GiB", .min = "0",
     .doc = "Maximum size of the disk cache. It uses at most half of the disk space that is free "
            "at the start, or becomes free later. 0: no disk cache."},
};
const size_t qry_n_fields = FG_COUNT(qry_fields);

#define INGESTER_CONF(field) FG_CONF_AT(struct qry_ingester_settings, field)

const struct fg_conf_field qry_ingester_fields[] = {
    {"calls_max", FG_CONF_UINT, INGESTER_CONF(calls_max), .def = "64", .min = "1", .max = "65536",
     .doc = "Concurrent calls to one ingester. Further calls go to its replicas."},
    {"hedge_after", FG_CONF_NS, INGESTER_CONF(hedge_after_ns), .def = "2s", .min = "10ms",
     .max = "1h",
     .doc = "How long a querier waits for an ingester before it also asks the replicas."},
};
const size_t qry_n_ingester_fields = FG_COUNT(qry_ingester_fields);

enum { CACHE_LEAST_BYTES = 256 * 1024 * 1024 }; /* the trees of a day of forty services */

void qry_share(struct qry_settings *settings, uint64_t memory_max_bytes)
{
    if (settings->cache_max_bytes == 0)
        settings->cache_max_bytes = FG_MAX(memory_max_bytes / 3, (uint64_t)CACHE_LEAST_BYTES);
}

/* Left free on the disk of the cache, which an ingester's data directory may share. */
static const uint64_t DISK_FREE_MIN_BYTES = UINT64_C(1) << 30;

static enum fg_code open_cache(struct fg_disk_cache_config *config, struct fg_program *program,
                               struct fg_disk_cache **ret_disk, struct fg_err *err)
{
    /* Only the last folder: a misspelled path fails instead of growing a tree. */
    if (mkdir(config->path, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "disk cache %s", config->path);
    if (fg_program_disk(program, config->path, "cache", &config->disk, err) != FG_OK)
        return err->code;
    return fg_disk_cache_open(config, ret_disk, err);
}

enum fg_code qry_open_disk_cache(const struct qry_settings *settings, const char *otherwise,
                                 struct fg_program *program, struct fg_disk_cache **ret_disk,
                                 struct fg_err *err)
{
    struct fg_disk_cache_config config = {
        /* The setting first; the caller's folder is a default for single servers. */
        .path = settings->disk_cache[0] != '\0' ? settings->disk_cache : otherwise,
        .max_bytes = settings->disk_cache_max_bytes,
        .free_min_bytes = DISK_FREE_MIN_BYTES,
        .registry = program->registry,
    };

    *ret_disk = NULL;
    if (config.path == NULL || config.max_bytes == 0 ||
        open_cache(&config, program, ret_disk, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_NO_SPACE)
        return err->code;
    /* A cache is not worth a failed start. */
    fg_log_warn("disk full, disk cache disabled until the next start", fg_ls("err", err->msg));
    return FG_OK;
}
