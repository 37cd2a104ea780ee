/*
 * Ad hoc profiles: files that somebody uploads to look at them and to share them, by the service
 * adhocprofiles.v1 and by plain routes below /api/adhoc (querier/API.md#ad-hoc-profiles).
 *
 * Thread: the query's worker.
 */
#ifndef FG_QUERIER_ADHOC_ADHOC_H
#define FG_QUERIER_ADHOC_ADHOC_H

#include "querier/query.h"

/* What requests of a route may do besides reading. */
enum qry_adhoc_kind {
    QRY_ADHOC_READS,
    QRY_ADHOC_UPLOADS, /* Connect, or POST besides GET; the body is a file, or has one in base64 */
    QRY_ADHOC_DELETES, /* DELETE besides GET; needs the header X-Flamegrid-Action */
};

struct qry_adhoc_endpoint {
    struct qry_endpoint endpoint;
    enum qry_adhoc_kind kind;
};

extern const struct qry_adhoc_endpoint qry_adhoc_endpoints[];
extern const size_t qry_n_adhoc_endpoints;

/* Returns the size of the largest body with a file of so many bytes: in base64, with what is around
 * it. */
uint64_t qry_adhoc_body_max_bytes(uint64_t file_max_bytes);

#endif
