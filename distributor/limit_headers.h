/*
 * Tells senders how near they are to the limits of their tenant (common/net/limit_fields.h): from
 * four fifths of a limit on, and when an upload is refused for one. The rate is of bytes of
 * decompressed profiles.
 *
 * Thread: the request's loop.
 */
#ifndef FG_DISTRIBUTOR_LIMIT_HEADERS_H
#define FG_DISTRIBUTOR_LIMIT_HEADERS_H

#include "common/model/tenant_rate.h"
#include "common/net/http.h"

/* What an upload found out about its tenant's limits; zeros: nothing. */
struct dist_limit_use {
    double rate_used;          /* of the rate, 1 is all of it */
    struct fg_quota_use quota; /* of ingestion_limit */
    int64_t debt_ns;           /* the upload was refused for so long; 0: it was not */
    bool over_quota;           /* the upload was refused for it */
    uint32_t retry_after_s;    /* an ingester has refused it for so long; 0: it did not say */
};

/* rate: the one that the upload takes from. Adds the header fields, and Retry-After if the upload
 * was refused and it is known for how long. */
void dist_limit_headers(struct fg_http_request *req, const struct fg_limits *limits,
                        const struct fg_rate_limit *rate, const struct dist_limit_use *use,
                        int64_t now_wall_ns);

#endif
