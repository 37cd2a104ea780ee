#include "common/storage/bucket/settings.h"

#include "common/base/str.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/s3.h"

enum addressing { ADDRESSING_AUTO, ADDRESSING_PATH, ADDRESSING_HOST };

enum { PATH_MAX_BYTES = 4096, DIRECTORY_THREADS_MAX = 16 };

#define CONF(field) FG_CONF_AT(struct fg_bucket_settings, field)

/* clang-format off */
const struct fg_conf_field fg_bucket_fields[] = {
    {"type", FG_CONF_ENUM, CONF(type), .def = "directory", .choices = "directory|s3",
     .doc = "Where segments, blocks and what coordinates services are kept: a directory of one machine, or an object store that speaks S3's protocol and keeps conditions (If-None-Match: *, If-Match)."},
    {"path", FG_CONF_STRING, CONF(path), .def = "", .max = "4000",
     .doc = "The directory, on a file system with times to the microsecond; its parent is there. Empty: bucket in the data folder."},
    {"requests_max", FG_CONF_UINT, CONF(requests_max), .def = "64", .min = "1", .max = "10000",
     .doc = "Requests, and so connections, at a time; of a directory at most 16."},
    {"waiting_max", FG_CONF_UINT, CONF(waiting_max), .def = "10000", .min = "1", .max = "1000000",
     .doc = "Requests that wait for their turn. Above it they are refused."},
};

#undef CONF
#define CONF(field) FG_CONF_AT(struct fg_bucket_s3_settings, field)

const struct fg_conf_field fg_bucket_s3_fields[] = {
    {"endpoint", FG_CONF_STRING, CONF(endpoint), .def = "", .max = "300",
     .doc = "https://HOST[:PORT] of the store; http:// is for tests. Empty: that of AWS for the region."},
    {"region", FG_CONF_STRING, CONF(region), .def = "", .max = "100",
     .doc = "Region that requests are signed for. Empty: AWS_REGION, AWS_DEFAULT_REGION, else us-east-1."},
    {"bucket", FG_CONF_STRING, CONF(bucket), .def = "", .max = "255",
     .doc = "Name of the bucket, which is there already."},
    {"prefix", FG_CONF_STRING, CONF(prefix), .def = "", .max = "200",
     .doc = "What all names in the bucket begin with, without the '/' that follows it. Clusters that share a bucket need different ones."},
    {"addressing", FG_CONF_ENUM, CONF(addressing), .def = "auto", .choices = "auto|path|host",
     .doc = "Whether the bucket's name goes into the path or before the host's name; auto: the path where endpoint is set or the name has dots."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "Certificates in PEM form of the authorities that the store's has to be from. Empty: the system's."},
    {"access_key", FG_CONF_STRING, CONF(access_key), .def = "", .max = "1000",
     .doc = "Access key. Without any key here the environment is asked, as by AWS's own clients: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE."},
    {"secret_key", FG_CONF_SECRET, CONF(secret_key), .def = "", .max = "1000",
     .doc = "Secret key."},
    {"session_token", FG_CONF_SECRET, CONF(session_token), .def = "", .max = "8000",
     .doc = "Session token, where the keys need one."},
    {"access_key_file", FG_CONF_STRING, CONF(access_key_file), .def = "", .max = "4000",
     .doc = "File with the access key. These files are read again when they change."},
    {"secret_key_file", FG_CONF_STRING, CONF(secret_key_file), .def = "", .max = "4000",
     .doc = "File with the secret key."},
    {"session_token_file", FG_CONF_STRING, CONF(session_token_file), .def = "", .max = "4000",
     .doc = "File with the session token."},
    {"role_arn", FG_CONF_STRING, CONF(role_arn), .def = "", .max = "2048",
     .doc = "Role whose keys STS gives for the token in web_identity_token_file; they are renewed ahead of their end."},
    {"web_identity_token_file", FG_CONF_STRING, CONF(web_identity_token_file), .def = "", .max = "4000",
     .doc = "File with the token, such as Kubernetes writes it."},
    {"role_session_name", FG_CONF_STRING, CONF(role_session_name), .def = "flamegrid", .min = "2", .max = "64",
     .doc = "Name of the session, for the store's logs."},
    {"sts_endpoint", FG_CONF_STRING, CONF(sts_endpoint), .def = "", .max = "400",
     .doc = "URL of STS. Empty: that of AWS for the region."},
    {"sse", FG_CONF_ENUM, CONF(sse), .def = "none", .choices = "none|s3|kms",
     .doc = "Encryption that the store is asked for: with keys of its own (SSE-S3) or of its key management (SSE-KMS). none: what the bucket has as its default."},
    {"kms_key_id", FG_CONF_STRING, CONF(kms_key_id), .def = "", .max = "2048",
     .doc = "Key of the key management. Empty: its default key."},
    {"storage_class", FG_CONF_STRING, CONF(storage_class), .def = "", .max = "100",
     .doc = "Storage class of objects. Empty: the store's default."},
    {"connect_timeout", FG_CONF_NS, CONF(connect_timeout_ns), .def = "5s", .min = "10ms", .max = "5m",
     .doc = "Longest time for name, connection and TLS."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "20s", .min = "10ms", .max = "10m",
     .doc = "Longest time for one try, and a second more for every 256 KiB."},
    {"tries_max", FG_CONF_UINT, CONF(tries_max), .def = "5", .min = "1", .max = "20",
     .doc = "Tries of a request, the first included. All together have a budget: a tenth of what succeeds, two a second, 100 saved up."},
    {"backoff", FG_CONF_NS, CONF(backoff_ns), .def = "100ms", .min = "1ms", .max = "10s",
     .doc = "Longest wait before the second try, doubled for each one after it; how long is drawn."},
    {"part_size", FG_CONF_BYTES, CONF(part_bytes), .def = "16MiB", .min = "5MiB", .max = "1GiB",
     .doc = "Larger objects are uploaded in parts of this size."},
    {"parts_at_once", FG_CONF_UINT, CONF(parts_at_once), .def = "4", .min = "1", .max = "64",
     .doc = "Parts of one upload under way at a time, each with its size in memory."},
};
/* clang-format on */

const size_t fg_bucket_n_fields = FG_COUNT(fg_bucket_fields);
const size_t fg_bucket_s3_n_fields = FG_COUNT(fg_bucket_s3_fields);

/* "" where there is none. */
static const char *environment(const char *name)
{
    const char *value = getenv(name); /* NOLINT(concurrency-mt-unsafe): nobody sets it */

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
    code = path.full ? fg_fail(err, FG_E_INVALID, "bucket: its path is too long")
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
        fg_log_warn("the bucket is spoken to without TLS", fg_ls("endpoint", s3->endpoint));
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
        (*ret_bucket)->kept = fg_kept_create(*ret_bucket, host->registry, fg_clock_real());
    }
    return code;
}
