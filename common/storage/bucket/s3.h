/*
 * The bucket in S3, or a store that speaks its protocol (REST API of 2006-03-01, Signature Version
 * 4) and keeps conditions: If-None-Match: * and If-Match of PutObject and CompleteMultipartUpload.
 * fg_bucket_startup_check() finds out.
 *
 * A put carries a random number in its metadata, x-amz-meta-flamegrid-tag, the same on every try.
 * When the answer to a try was lost and the next one hears that the condition does not hold, the
 * number tells whether what is there is our own: then the put has succeeded. If it is another's
 * nobody can tell what became of ours (it may have been there and been replaced), so that is not
 * FG_E_PRECONDITION but FG_E_UNAVAILABLE and unsure.
 *
 * Puts of more than a part's size are uploaded in parts, some at a time. Each costs memory.
 *
 * Thread: one loop for the connections; workers for what has to be read, hashed or done in several
 * steps (puts, deletes, lists). A get is a message to the loop.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_H
#define FG_COMMON_STORAGE_BUCKET_S3_H

#include "common/runtime/cluster_clock.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

enum fg_bucket_s3_sse { FG_BUCKET_S3_SSE_NONE, FG_BUCKET_S3_SSE_S3, FG_BUCKET_S3_SSE_KMS };

/* Texts may be NULL or "" where nothing else is said; all are copied. */
struct fg_bucket_s3_config {
    const char *endpoint; /* "https://host[:port]"; http for tests. None: AWS's own of the region */
    const char *region;
    const char *bucket; /* is there already */
    const char *prefix; /* of all names in it, with '/' between; a name as fg_bucket_name_fault() */
    bool path_style;    /* the bucket's name in the path, not in the host's name */
    const char *ca_file;

    /* The keys: these; else what the files hold, read again when they change; else those of the
     * role, by way of STS. */
    const char *access_key, *secret_key, *session_token;
    const char *access_key_file, *secret_key_file, *session_token_file;
    const char *role_arn, *web_identity_token_file, *role_session_name, *sts_endpoint;

    enum fg_bucket_s3_sse sse;
    const char *kms_key_id;
    const char *storage_class;

    int64_t connect_timeout_ns;
    int64_t timeout_ns;    /* of one try, and a second more for every 256 KiB */
    unsigned tries_max;    /* of one call, the first included */
    int64_t backoff_ns;    /* before the second try up to this, doubled for each further one */
    unsigned requests_max; /* at a time */
    unsigned waiting_max;  /* beyond them; then FG_E_LIMIT */
    uint64_t part_bytes;   /* at least 5 MiB, but for tests */
    unsigned parts_at_once;
    struct fg_registry *registry;   /* NULL: nothing is counted */
    struct fg_cluster_clock *clock; /* hears what time the store has, and says it for signatures;
                                     * NULL: the machine's does */
};

/* Asks nothing yet. FG_E_INVALID: the configuration. */
enum fg_code fg_bucket_s3_open(const struct fg_bucket_s3_config *config,
                               struct fg_bucket **ret_bucket, struct fg_err *err) fg_must_check;

#endif
