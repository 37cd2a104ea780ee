/*
 * The HTTP interface to tenants, tokens and people: /api/whoami, /api/tenants, /api/tokens,
 * /api/bindings, /api/sessions, /api/audit (querier/API.md#access). Changes are made in the bucket
 * by compare-and-swap. This process sees them at once, the others within access.poll.
 *
 * A change is recorded in the audit before it is made, and what came of it afterwards.
 *
 * A caller with the scope tenant-admin of a tenant may see and make tokens of that tenant, but none
 * with the scopes admin and metrics, and bindings to that tenant by its name. One with admin may do
 * all.
 *
 * Requests of those with admin do not wait for those of tenant-admins, and these not for others of
 * other tenants. Of searches of the audit one of a tenant's admins runs at a time.
 *
 * Thread: fg_admin_api_routes() before the server starts; handlers run on loops and workers.
 */
#ifndef FG_COMMON_ACCESS_ADMIN_ADMIN_API_H
#define FG_COMMON_ACCESS_ADMIN_ADMIN_API_H

#include "common/access/access.h"
#include "common/access/audit/audit.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/runtime/work.h"

/* Bytes in a period. */
struct fg_admin_period_use {
    uint64_t bytes;
    struct fg_quota_span span; /* set by the caller */
};

/* What a tenant uses of its limits, all processes together. */
struct fg_admin_limit_use {
    bool known;                        /* false: nobody could say */
    double bytes_per_s;                /* of profiles that are sent; 0: next to nothing */
    struct fg_admin_period_use stored; /* of profiles */
    struct fg_admin_period_use read;   /* by queries */
    uint64_t series;                   /* on the ingester that has most */
};

/* Everything is borrowed and outlives the server. */
struct fg_admin_api {
    struct fg_access *access;
    struct fg_audit *audit;
    struct fg_bucket *bucket;
    struct fg_tenants *tenants;
    struct fg_work *work;
    struct fg_clock *clock;
    /* Says what a tenant uses, in the periods that *use names; all else in it is zeroed. On a
     * worker, may wait. NULL: nobody knows. */
    void (*use)(void *arg, struct fg_slice tenant, struct fg_admin_limit_use *use);
    void *use_arg;
};

/* Adds the routes. */
void fg_admin_api_routes(struct fg_admin_api *api, struct fg_http_server *server);

#endif
