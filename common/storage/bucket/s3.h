/*
 * A bucket in S3, or in a store with its protocol (REST API of 2006-03-01, Signature Version 4)
 * that supports conditions: If-None-Match: * and If-Match of PutObject and CompleteMultipartUpload.
 * fg_bucket_startup_check() checks that.
 *
 * A put has a random number in its metadata, x-amz-meta-flamegrid-tag, which is the same on every
 * try. If the response to a try was lost and the next try fails because of the condition, the
 * number of the stored object tells whether it is our own; then the put has succeeded. If it is the
 * object of another writer, ours may have been stored and replaced. So the result is then
 * FG_E_UNAVAILABLE and unsure instead of FG_E_PRECONDITION.
 *
 * Objects larger than part_bytes are uploaded in parts, several at a time. Each part takes memory.
 *
 * Thread: a loop for the connections, and workers for requests that read files, hash or take
 * several steps (puts, deletes, lists). A get is a message to the loop.
 */
#ifndef FG_COMMON_STORAGE_BUCKET_S3_H
#define FG_COMMON_STORAGE_BUCKET_S3_H

#include "common/net/aws/credentials.h"
#include "common/runtime/cluster_clock.h"
#include "common/runtime/metrics.h"
#include "common/storage/bucket/bucket.h"

enum fg_bucket_s3_sse { FG_BUCKET_S3_SSE_NONE, FG_BUCKET_S3_SSE_S3, FG_BUCKET_S3_SSE_KMS };

/* Texts are copied. They may be NULL or "" unless stated otherwise. */
struct fg_bucket_s3_config {
    const char
        *endpoint; /* "https://host[:port]"; http for tests. None: that of AWS in the region */
    const char *region;
    const char *bucket; /* required; has to exist */
    const char *prefix; /* of all names, separated by '/'; valid for fg_bucket_name_fault() */
    bool path_style;    /* puts the bucket's name into the path instead of the host name */
    const char *ca_file;

    struct fg_aws_sources keys;

    enum fg_bucket_s3_sse sse;
    const char *kms_key_id;
    const char *storage_class;

    int64_t connect_timeout_ns;
    int64_t timeout_ns;    /* of one try; plus a second per 256 KiB */
    unsigned tries_max;    /* of one call, including the first */
    int64_t backoff_ns;    /* maximum pause before the second try, doubled for each further try */
    unsigned requests_max; /* at a time */
    unsigned waiting_max;  /* in addition; more get FG_E_LIMIT */
    uint64_t part_bytes;   /* at least 5 MiB, except in tests */
    unsigned parts_at_once;
    struct fg_registry *registry;   /* NULL: nothing is counted */
    struct fg_cluster_clock *clock; /* gets the time of the store, and gives the time for
                                     * signatures; NULL: the machine's clock is used */
};

/* Opens the bucket without sending a request. FG_E_INVALID: the configuration. */
enum fg_code fg_bucket_s3_open(const struct fg_bucket_s3_config *config,
                               struct fg_bucket **ret_bucket, struct fg_err *err) fg_must_check;

#endif
