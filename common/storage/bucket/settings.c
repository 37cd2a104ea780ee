#include "common/storage/bucket/settings.h"

#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/kept.h"
#include "common/storage/bucket/s3.h"

enum addressing { ADDRESSING_AUTO, ADDRESSING_PATH, ADDRESSING_HOST };

enum { PATH_MAX_BYTES = 4096, DIRECTORY_THREADS_MAX = 16 };

#define CONF(field) FG_CONF_AT(struct fg_bucket_settings, field)

/* clang-format off */
const struct fg_conf_field fg_bucket_fields[] = {
    {"type", FG_CONF_ENUM, CONF(type), .def = "directory", .choices = "directory|s3",
     .doc = "Storage of segments, blocks and coordination objects. directory: a directory of one machine. s3: an object store that implements the S3 protocol and conditional writes (If-None-Match: *, If-Match)."},
    {"path", FG_CONF_STRING, CONF(path), .def = "", .max = "4000",
     .doc = "Directory of the bucket. Its parent must exist, and its file system must store times with microseconds. Empty: bucket in the data directory."},
    {"requests_max", FG_CONF_UINT, CONF(requests_max), .def = "64", .min = "1", .max = "10000",
     .doc = "Concurrent requests, each with its own connection. A directory uses at most 16."},
    {"waiting_max", FG_CONF_UINT, CONF(waiting_max), .def = "10000", .min = "1", .max = "1000000",
     .doc = "Requests that may wait for a free slot. Further requests are refused."},
};

#undef CONF
#define CONF(field) FG_CONF_AT(struct fg_bucket_s3_settings, field)
#define KEYS(field) CONF(keys.field)

const struct fg_conf_field fg_bucket_s3_fields[] = {
    {"endpoint", FG_CONF_STRING, CONF(endpoint), .def = "", .max = "300",
     .doc = "URL of the object store, https://HOST[:PORT]; use http:// only for tests. Empty: the AWS endpoint of the region."},
    {"region", FG_CONF_STRING, CONF(region), .def = "", .max = "100",
     .doc = "Region for which requests are signed. Empty: AWS_REGION, else AWS_DEFAULT_REGION, else us-east-1."},
    {"bucket", FG_CONF_STRING, CONF(bucket), .def = "", .max = "255",
     .doc = "Name of the bucket, which must exist."},
    {"prefix", FG_CONF_STRING, CONF(prefix), .def = "", .max = "200",
     .doc = "Prefix of all object names in the bucket, without the '/' that follows it. Clusters that share a bucket need different prefixes."},
    {"addressing", FG_CONF_ENUM, CONF(addressing), .def = "auto", .choices = "auto|path|host",
     .doc = "Position of the bucket name in URLs. path: in the path. host: in the host name. auto: path if `endpoint` is set or the name contains dots, else host."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify the certificate of the object store. Empty: the CA certificates of the system."},
    FG_AWS_FIELDS(KEYS),
    {"sse", FG_CONF_ENUM, CONF(sse), .def = "none", .choices = "none|s3|kms",
     .doc = "Server-side encryption to request. s3: with keys of the object store (SSE-S3). kms: with keys of its key management service (SSE-KMS). none: the default of the bucket."},
    {"kms_key_id", FG_CONF_STRING, CONF(kms_key_id), .def = "", .max = "2048",
     .doc = "Key of the key management service. Empty: its default key."},
    {"storage_class", FG_CONF_STRING, CONF(storage_class), .def = "", .max = "100",
     .doc = "Storage class of objects. Empty: the default of the object store."},
    {"connect_timeout", FG_CONF_NS, CONF(connect_timeout_ns), .def = "5s", .min = "10ms", .max = "5m",
     .doc = "Timeout of name resolution, connect and TLS handshake together."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "20s", .min = "10ms", .max = "10m",
     .doc = "Timeout of one attempt. Each 256 KiB of data adds a second."},
    {"tries_max", FG_CONF_UINT, CONF(tries_max), .def = "5", .min = "1", .max = "20",
     .doc = "Attempts per request, the first included. All retries share a budget: a tenth of the successful requests plus two per second, saved up to 100."},
    {"backoff", FG_CONF_NS, CONF(backoff_ns), .def = "100ms", .min = "1ms", .max = "10s",
     .doc = "Maximum wait before the second attempt. It doubles with each further attempt; the actual wait is random."},
    {"part_size", FG_CONF_BYTES, CONF(part_bytes), .def = "16MiB", .min = "5MiB", .max = "1GiB",
     .doc = "Part size of multipart uploads. Larger objects are uploaded in parts."},
    {"parts_at_once", FG_CONF_UINT, CONF(parts_at_once), .def = "4", .min = "1", .max = "64",
     .doc = "Concurrent parts of one upload. Each part is held in memory."},
};
/* clang-format on */

const size_t fg_bucket_n_fields = FG_COUNT(fg_bucket_fields);
const size_t fg_bucket_s3_n_fields = FG_COUNT(fg_bucket_s3_fields);

static bool is_set(const char *text)
{
    return text[0] != '\0';
}

/* ---- directory ---- */

void fg_bucket_path(const struct fg_bucket_settings *settings, const char *data, struct fg_buf *out)
{
    if (is_set(settings->path))
        fg_buf_puts(out, settings->path);
    else
        fg_buf_printf(out, "%s/bucket", data == NULL ? "." : data);
}

static enum fg_code open_directory(const struct fg_bucket_settings *settings,
                                   const struct fg_bucket_host *host, struct fg_bucket **ret_bucket,
                                   struct fg_err *err)
{
    struct fg_bucket_directory_config config = {
        .threads = (unsigned)FG_MIN(settings->requests_max, (uint64_t)DIRECTORY_THREADS_MAX),
        .queue_max = (unsigned)settings->waiting_max,
        .reserve_bytes = host->disk_reserve_bytes,
        .registry = host->registry,
    };
    struct fg_buf path;
    enum fg_code code;

    fg_buf_init(&path, PATH_MAX_BYTES);
    fg_bucket_path(settings, host->data, &path);
    fg_buf_putc(&path, '\0');
    config.path = (const char *)path.ptr;
    code = path.full ? fg_fail(err, FG_E_INVALID, "bucket: the path is too long")
                     : fg_bucket_directory_open(&config, ret_bucket, err);
    fg_buf_done(&path);
    return code;
}

/* ---- S3 ---- */

static enum fg_code open_s3(const struct fg_bucket_settings *settings,
                            const struct fg_bucket_s3_settings *s3,
                            const struct fg_bucket_host *host, struct fg_bucket **ret_bucket,
                            struct fg_err *err)
{
    struct fg_bucket_s3_config config = {
        .endpoint = s3->endpoint,
        .region = fg_aws_region(s3->region),
        .bucket = s3->bucket,
        .prefix = s3->prefix,
        .path_style = s3->addressing != ADDRESSING_AUTO
                          ? s3->addressing == ADDRESSING_PATH
                          : is_set(s3->endpoint) || strchr(s3->bucket, '.') != NULL,
        .ca_file = s3->ca_file,
        .keys = fg_aws_sources(&s3->keys),
        .sse = (enum fg_bucket_s3_sse)s3->sse,
        .kms_key_id = s3->kms_key_id,
        .storage_class = s3->storage_class,
        .connect_timeout_ns = s3->connect_timeout_ns,
        .timeout_ns = s3->timeout_ns,
        .tries_max = (unsigned)s3->tries_max,
        .backoff_ns = s3->backoff_ns,
        .requests_max = (unsigned)settings->requests_max,
        .waiting_max = (unsigned)settings->waiting_max,
        .part_bytes = s3->part_bytes,
        .parts_at_once = (unsigned)s3->parts_at_once,
        .registry = host->registry,
        .clock = host->clock,
    };

    if (!is_set(s3->bucket))
        return fg_fail(err, FG_E_INVALID, "bucket.s3.bucket is not set");
    if (fg_slice_starts(fg_cstr(s3->endpoint), "http://"))
        fg_log_warn("connections to the bucket do not use TLS", fg_ls("endpoint", s3->endpoint));
    return fg_bucket_s3_open(&config, ret_bucket, err);
}

enum fg_code fg_bucket_open(const struct fg_bucket_settings *settings,
                            const struct fg_bucket_s3_settings *s3,
                            const struct fg_bucket_host *host, struct fg_bucket **ret_bucket,
                            struct fg_err *err)
{
    enum fg_code code = settings->type == FG_BUCKET_S3
                            ? open_s3(settings, s3, host, ret_bucket, err)
                            : open_directory(settings, host, ret_bucket, err);

    if (code == FG_OK && host->registry != NULL) {
        (*ret_bucket)->damage = fg_damage_create(host->conditions, host->registry, fg_clock_real());
        fg_kept_attach(*ret_bucket, host->registry, fg_clock_real());
    }
    return code;
}
