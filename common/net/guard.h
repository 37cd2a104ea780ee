/*
 * Scopes, which say what a caller may do, and the guard, which the HTTP server asks about each
 * request before it reads the body. The guard that decides by tokens, sessions and networks is
 * common/access.
 */
#ifndef FG_COMMON_NET_GUARD_H
#define FG_COMMON_NET_GUARD_H

#include "common/base/err.h"

struct fg_http_request;

/* Bits: a caller has any number of them. The numbers are stored with tokens and never change. */
enum fg_scope {
    FG_SCOPE_PUSH = 1U << 0,         /* send profiles */
    FG_SCOPE_READ = 1U << 1,         /* query */
    FG_SCOPE_FORWARD = 1U << 2,      /* send profiles whose ids another server gave */
    FG_SCOPE_DEBUGINFO = 1U << 3,    /* upload debug information */
    FG_SCOPE_RULES = 1U << 4,        /* change recording rules and settings */
    FG_SCOPE_SHARE = 1U << 5,        /* store ad hoc profiles and share them */
    FG_SCOPE_DELETE = 1U << 6,       /* delete profiles */
    FG_SCOPE_TENANT_ADMIN = 1U << 7, /* tokens, limits and usage of its tenants */
    FG_SCOPE_ADMIN = 1U << 8,        /* tenants, and all that operators do */
    FG_SCOPE_METRICS = 1U << 9,      /* scrape /metrics of the servers */
    FG_SCOPES_ALL = (1U << 10) - 1,

    /* Of routes only. */
    FG_SCOPE_KNOWN = 1U << 30, /* whoever has proved who it is */
    FG_SCOPE_OPEN = INT32_MIN, /* everybody: probes, the files of the page, log-in */
};

/*
 * What a server asks. Runs on the loop of the connection, so it must not wait.
 *
 * admit() returns true if the caller of the request may use a route that demands one of these
 * scopes. It may attach what it found out with fg_http_set_grant(); release() gets that back when
 * the request is answered, on the loop. It returns false with an error that the request is answered
 * with: FG_E_NO_TENANT (401), FG_E_DENIED (403), FG_E_LIMIT (429) or FG_E_UNAVAILABLE (503).
 */
struct fg_http_guard {
    bool (*admit)(void *arg, struct fg_http_request *req, unsigned scopes, struct fg_err *err);
    void (*release)(void *arg, void *grant);
    /* Answers a request for a page by sending its browser to the log-in, and returns true; false if
     * nobody has to log in for that, and the request is as before. NULL: there is no log-in. */
    bool (*log_in)(void *arg, struct fg_http_request *req);
    void *arg;
    /* The path where people log in, which bodies of 401 name as `login` for pages; NULL: none. */
    const char *log_in_path;
};

#endif
