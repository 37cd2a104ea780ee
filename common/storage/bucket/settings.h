/* Opens the bucket that the settings name: sections "bucket" and "bucket.s3". */
#ifndef FG_COMMON_STORAGE_BUCKET_SETTINGS_H
#define FG_COMMON_STORAGE_BUCKET_SETTINGS_H

#include "common/net/aws/settings.h"
#include "common/runtime/cluster_clock.h"
#include "common/runtime/condition.h"
#include "common/runtime/config.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

enum fg_bucket_type { FG_BUCKET_DIRECTORY, FG_BUCKET_S3 };

struct fg_bucket_settings {
    unsigned type; /* enum fg_bucket_type */
    char *path;    /* "": <data>/bucket */
    uint64_t requests_max, waiting_max;
};

struct fg_bucket_s3_settings {
    char *endpoint, *region, *bucket, *prefix, *ca_file;
    unsigned addressing; /* auto, path, host */
    struct fg_aws_settings keys;
    unsigned sse; /* enum fg_bucket_s3_sse */
    char *kms_key_id, *storage_class;
    int64_t connect_timeout_ns, timeout_ns, backoff_ns;
    uint64_t tries_max, part_bytes, parts_at_once;
};

/* What the process provides to a bucket. */
struct fg_bucket_host {
    const char *data;                 /* folder of the process's data; NULL: none */
    uint64_t disk_reserve_bytes;      /* of a directory's disk (directory.h) */
    struct fg_registry *registry;     /* as in s3.h; NULL: no metrics, damage is not recorded */
    struct fg_cluster_clock *clock;   /* as in s3.h; NULL: none */
    struct fg_conditions *conditions; /* reports damaged objects; NULL: not reported */
};

extern const struct fg_conf_field fg_bucket_fields[];
extern const size_t fg_bucket_n_fields;
extern const struct fg_conf_field fg_bucket_s3_fields[];
extern const size_t fg_bucket_s3_n_fields;

/* Appends the path of a directory bucket; <data>/bucket if the settings have none. */
void fg_bucket_path(const struct fg_bucket_settings *settings, const char *data,
                    struct fg_buf *out);

/*
 * Opens the bucket. Keys and the region may come from the environment
 * (common/net/aws/settings.h).
 *
 * Without a registry (tools) it writes no backup copies of manifests (kept.h). Services call
 * fg_bucket_startup_check() before they use the bucket. host is borrowed for the call only; what
 * its members point to, until the bucket is closed.
 */
enum fg_code fg_bucket_open(const struct fg_bucket_settings *settings,
                            const struct fg_bucket_s3_settings *s3,
                            const struct fg_bucket_host *host, struct fg_bucket **ret_bucket,
                            struct fg_err *err) fg_must_check;

#endif
