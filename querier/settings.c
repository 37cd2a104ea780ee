#include "common/program/program.h"
#include "common/runtime/log.h"
#include "querier/querier.h"

#include <errno.h>
#include <sys/stat.h>

#define CONF(field) FG_CONF_AT(struct qry_settings, field)

const struct fg_conf_field qry_fields[] = {
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "60s", .min = "100ms", .max = "1h",
     .doc = "How long a query may take that brings no earlier deadline."},
    {"answer_max_bytes", FG_CONF_BYTES, CONF(answer_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc =
         "Largest answer; beyond it the query fails with 429. Also the most memory for a query's "
         "sums and stacks."},
    {"cache_max_bytes", FG_CONF_BYTES, CONF(cache_max_bytes), .def = "256MiB", .min = "0",
     .doc = "Memory for what was read of segments and blocks and may be asked for again."},
    {"fetch_max_bytes", FG_CONF_BYTES, CONF(fetch_max_bytes), .def = "32MiB", .min = "1MiB",
     .doc = "Bytes of segments and blocks that are under way for one query at a time."},
    {"refine_max_bytes", FG_CONF_BYTES, CONF(refine_max_bytes), .def = "256MiB", .min = "0",
     .doc = "Flame graphs are made from the heaviest stacks of each part first. Where that cannot "
            "give the exact picture, all samples are read if they are no more bytes than this; "
            "else the answer says how far it may be off (X-Flamegrid-Bound)."},
    {"manifest_age", FG_CONF_NS, CONF(manifest_age_ns), .def = "10s", .min = "0s", .max = "1m",
     .doc = "The lists of segments and blocks are asked for again when they are older. Answers are "
            "the same with any value, but for deletions, which act that much later where the "
            "compactor is another process; a larger one costs fewer requests."},
    {"disk_cache", FG_CONF_STRING, CONF(disk_cache), .def = "", .max = "4000",
     .doc = "Folder for what was read of segments and blocks, also after a restart. Empty: the "
            "folder cache in the data folder where the bucket is an object store, else none."},
    {"disk_cache_max_bytes", FG_CONF_BYTES, CONF(disk_cache_max_bytes), .def = "10GiB", .min = "0",
     .doc =
         "Largest size of that folder, which takes no more than half of what is free of its disk "
         "at the start. 0: no such folder."},
};
const size_t qry_n_fields = FG_COUNT(qry_fields);

#define INGESTER_CONF(field) FG_CONF_AT(struct qry_ingester_settings, field)

const struct fg_conf_field qry_ingester_fields[] = {
    {"calls_max", FG_CONF_UINT, INGESTER_CONF(calls_max), .def = "64", .min = "1", .max = "65536",
     .doc = "Calls to one ingester under way at a time; further ones are asked of its replicas."},
    {"hedge_after", FG_CONF_NS, INGESTER_CONF(hedge_after_ns), .def = "2s", .min = "10ms",
     .max = "1h",
     .doc = "When an ingester has not answered for so long its replicas are asked as well."},
};
const size_t qry_n_ingester_fields = FG_COUNT(qry_ingester_fields);

/* Of the disk is left to others: the data folder may be on it. */
static const uint64_t DISK_FREE_MIN_BYTES = UINT64_C(1) << 30;

static enum fg_code open_cache(struct fg_disk_cache_config *config, struct fg_program *program,
                               struct fg_disk_cache **ret_disk, struct fg_err *err)
{
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
    fg_log_warn("no disk cache until the next start: the disk is full", fg_ls("err", err->msg));
    return FG_OK;
}
