/* The headers of a signed request. No I/O. */
#ifndef FG_COMMON_NET_AWS_REQUEST_H
#define FG_COMMON_NET_AWS_REQUEST_H

#include "common/base/arena.h"
#include "common/net/aws/sign.h"

enum {
    FG_AWS_HEADERS_MAX = 20, /* with those that signing adds */
    FG_AWS_HEADERS_ADDED = 4,
};

/* Texts are borrowed. */
struct fg_aws_request {
    const char *method;
    const char *path, *query; /* as in fg_aws_signable */
    const char *host;         /* with the port, unless it is the default one */
    const char *region, *service;
    const struct fg_aws_header *headers; /* in any order; at most FG_AWS_HEADERS_MAX less ADDED */
    size_t n_headers;
    const char *payload_hash; /* SHA-256 in hexadecimal digits; S3 also takes UNSIGNED-PAYLOAD */
};

/*
 * Makes all headers of a request for fg_client_request: its own, host, x-amz-date,
 * x-amz-content-sha256, x-amz-security-token if the keys have one, and authorization. wall_ns: now,
 * from which the service's clock may differ by 5 minutes (S3: 15). Returns lines in the arena,
 * after them NULL. The arena has to have room for them.
 */
const char *const *fg_aws_request_headers(const struct fg_aws_request *request,
                                          const struct fg_aws_keys *keys, int64_t wall_ns,
                                          struct fg_arena *arena);

#endif
