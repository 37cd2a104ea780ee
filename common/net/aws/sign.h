/*
 * Signature Version 4 of AWS ("Signature Calculations for the Authorization Header", Amazon S3 API
 * reference). Every header that we set is signed, so that no proxy can remove a condition.
 */
#ifndef FG_COMMON_NET_AWS_SIGN_H
#define FG_COMMON_NET_AWS_SIGN_H

#include "common/base/buf.h"

enum { FG_AWS_DATE_BYTES = 17, FG_AWS_HASH_BYTES = 65 };

struct fg_aws_keys {
    char *access, *secret, *token; /* token "": none */
};
/* Overwrites and frees the keys. Zeroed keys are fine. */
void fg_aws_keys_done(struct fg_aws_keys *keys);

struct fg_aws_header {
    const char *name; /* lower case */
    const char *value;
};

/* The signed parts of a request. path and query are encoded as they are sent (RFC 3986); parameters
 * of the query are sorted and each has a '='. headers are sorted by name and contain x-amz-date. */
struct fg_aws_signable {
    const char *method, *path, *query;
    const struct fg_aws_header *headers;
    size_t n_headers;
    const char *payload_hash;     /* the header x-amz-content-sha256 */
    const char *date;             /* x-amz-date */
    const char *region, *service; /* "s3", "kms" */
};

/* Formats a time as "20130524T000000Z". */
void fg_aws_date(int64_t wall_ns, char out[FG_AWS_DATE_BYTES]);

/* Writes the SHA-256 of a body in hexadecimal digits. */
void fg_aws_payload_hash(struct fg_slice body, char out[FG_AWS_HASH_BYTES]);

/* Appends the value of the header Authorization. */
void fg_aws_sign(const struct fg_aws_signable *what, const struct fg_aws_keys *keys,
                 struct fg_buf *out);

#endif
