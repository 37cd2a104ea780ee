/*
 * Tells clients how near they are to limits, in the header fields RateLimit and RateLimit-Policy
 * (draft-ietf-httpapi-ratelimit-headers-10):
 *
 *   RateLimit-Policy: "ingestion_rate_mb";q=8388608;qu="content-bytes";w=1
 *   RateLimit: "ingestion_rate_mb";r=838860;t=1
 *
 * q: bytes in w seconds; r: bytes that are left; t: seconds until there are q again.
 *
 * Thread: the request's loop.
 */
#ifndef FG_COMMON_NET_LIMIT_FIELDS_H
#define FG_COMMON_NET_LIMIT_FIELDS_H

#include "common/net/http.h"

#define FG_LIMIT_NEAR 0.8 /* of a limit; from there on clients are told */

/* One limit that is near. */
struct fg_limit_field {
    const char *name;     /* of the setting, without "limits." */
    uint64_t limit, left; /* bytes */
    int64_t span_s, left_s;
};

/* Adds both header fields; n 0: none. */
void fg_limit_fields_add(struct fg_http_request *req, const struct fg_limit_field *near, size_t n);

/* Adds Retry-After to the refusal because of a limit that lasts for left_s: an hour at most, since
 * the limit may be raised. */
void fg_limit_retry_add(struct fg_http_request *req, int64_t left_s);

#endif
