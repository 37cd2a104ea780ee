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
    {"access_key", FG_CONF_STRING, CONF(access_key), .def = "", .max = "1000",
     .doc = "Access key. If no key is set in this section, the environment supplies it as for AWS clients: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE."},
    {"secret_key", FG_CONF_SECRET, CONF(secret_key), .def = "", .max = "1000",
     .doc = "Secret key."},
    {"session_token", FG_CONF_SECRET, CONF(session_token), .def = "", .max = "8000",
     .doc = "Session token, if the keys require one."},
    {"access_key_file", FG_CONF_STRING, CONF(access_key_file), .def = "", .max = "4000",
     .doc = "File with the access key. Changed key files are reloaded."},
    {"secret_key_file", FG_CONF_STRING, CONF(secret_key_file), .def = "", .max = "4000",
     .doc = "File with the secret key."},
    {"session_token_file", FG_CONF_STRING, CONF(session_token_file), .def = "", .max = "4000",
     .doc = "File with the session token."},
    {"role_arn", FG_CONF_STRING, CONF(role_arn), .def = "", .max = "2048",
     .doc = "Role to assume through STS with the token in `web_identity_token_file`. Its keys are renewed before they expire."},
    {"web_identity_token_file", FG_CONF_STRING, CONF(web_identity_token_file), .def = "", .max = "4000",
     .doc = "File with the web identity token, for example one that Kubernetes writes."},
    {"role_session_name", FG_CONF_STRING, CONF(role_session_name), .def = "flamegrid", .min = "2", .max = "64",
     .doc = "Session name for the logs of the object store."},
    {"sts_endpoint", FG_CONF_STRING, CONF(sts_endpoint), .def = "", .max = "400",
     .doc = "URL of STS. Empty: the AWS endpoint of the region."},
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

/* Returns "" if it is not set. */
static const char *environment(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): no thread sets it */

    return value == NULL ? "" : value;
}

static bool is_set(const char *text)
{
    return text[0] != '\0';
}

static const char *region_of(const struct fg_bucket_s3_settings *s3)
{
    const char *const from[] = {s3->region, environment("AWS_REGION"),
                                environment("AWS_DEFAULT_REGION")};

    for (size_t i = 0; i < FG_COUNT(from); i++)
        if (is_set(from[i]))
            return from[i];
    return "us-east-1";
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

static bool names_keys(const struct fg_bucket_s3_settings *s3)
{
    return is_set(s3->access_key) || is_set(s3->secret_key) || is_set(s3->access_key_file) ||
           is_set(s3->secret_key_file) || is_set(s3->role_arn) ||
           is_set(s3->web_identity_token_file);
}

static void take_keys(const struct fg_bucket_s3_settings *s3, struct fg_bucket_s3_config *config)
{
    config->role_session_name = s3->role_session_name;
    if (!names_keys(s3)) {
        config->access_key = environment("AWS_ACCESS_KEY_ID");
        config->secret_key = environment("AWS_SECRET_ACCESS_KEY");
        config->session_token = environment("AWS_SESSION_TOKEN");
        config->role_arn = environment("AWS_ROLE_ARN");
        config->web_identity_token_file = environment("AWS_WEB_IDENTITY_TOKEN_FILE");
        if (is_set(environment("AWS_ROLE_SESSION_NAME")))
            config->role_session_name = environment("AWS_ROLE_SESSION_NAME");
        return;
    }
    config->access_key = s3->access_key;
    config->secret_key = s3->secret_key;
    config->session_token = s3->session_token;
    config->access_key_file = s3->access_key_file;
    config->secret_key_file = s3->secret_key_file;
    config->session_token_file = s3->session_token_file;
    config->role_arn = s3->role_arn;
    config->web_identity_token_file = s3->web_identity_token_file;
}

static bool is_path_style(const struct fg_bucket_s3_settings *s3)
{
    if (s3->addressing != ADDRESSING_AUTO)
        return s3->addressing == ADDRESSING_PATH;
    return is_set(s3->endpoint) || strchr(s3->bucket, '.') != NULL;
}

static enum fg_code open_s3(const struct fg_bucket_settings *settings,
                            const struct fg_bucket_s3_settings *s3,
                            const struct fg_bucket_host *host, struct fg_bucket **ret_bucket,
                            struct fg_err *err)
{
    struct fg_bucket_s3_config config = {
        .endpoint = s3->endpoint,
        .region = region_of(s3),
        .bucket = s3->bucket,
        .prefix = s3->prefix,
        .path_style = is_path_style(s3),
        .ca_file = s3->ca_file,
        .sts_endpoint = s3->sts_endpoint,
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
    take_keys(s3, &config);
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
