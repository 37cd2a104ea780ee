/* Checks a request before its handler sees it: route, expectation, length, memory, speed. */
#include "common/net/http/impl.h"

enum {
    BODY_FIRST_BYTES = 4096, /* room for the first piece of a body of unknown length */
};

#define BODY_GRACE_NS (5 * FG_SECOND_NS) /* a slow start of TCP is no slow sender */

static enum fg_http_refusal check_expectation(struct fg_http_request *req)
{
    struct fg_slice expect = fg_http_header(req, "Expect");

    if (expect.ptr == NULL || req->http10) /* RFC 9110, 10.1.1: ignored in HTTP/1.0 */
        return HTTP_ACCEPTED;
    if (!fg_slice_is_nocase(expect, "100-continue"))
        return HTTP_BAD_EXPECTATION;
    req->want_continue = true;
    return HTTP_ACCEPTED;
}

static bool take_budget(struct fg_http_request *req, uint64_t bytes)
{
    if (req->bodies != NULL && bytes > 0 && !fg_budget_take(req->bodies, bytes))
        return false;
    req->admitted_bytes += bytes;
    return true;
}

static enum fg_http_refusal admit_body(struct fg_http_request *req, uint64_t body_len)
{
    if (body_len == HTTP_LENGTH_UNKNOWN) {
        fg_buf_init(&req->body, (size_t)req->body_max_bytes);
        return HTTP_ACCEPTED;
    }
    if (body_len > req->body_max_bytes)
        return HTTP_BODY_TOO_LARGE;
    if (!take_budget(req, body_len))
        return HTTP_NO_BUDGET;
    fg_buf_init(&req->body, (size_t)body_len);
    fg_assert(fg_buf_reserve(&req->body, (size_t)body_len));
    return HTTP_ACCEPTED;
}

/* Asks the guard. A path that is not there demands no more than to be known, or a stranger would
 * learn which routes exist. */
static enum fg_http_refusal ask_guard(struct fg_http_request *req)
{
    const struct fg_http_guard *guard = req->conn->owner->lent.guard;
    unsigned scopes = req->route == NULL ? FG_SCOPE_KNOWN : req->route->scopes;
    struct fg_err err, *kept;

    if (guard == NULL || scopes == (unsigned)FG_SCOPE_OPEN ||
        guard->admit(guard->arg, req, scopes, &err))
        return HTTP_ACCEPTED;
    kept = fg_arena_alloc(req->arena, sizeof *kept);
    if (kept == NULL)
        return HTTP_NO_BUDGET;
    *kept = err;
    req->denial = kept;
    return HTTP_DENIED;
}

bool fg_http_log_in(struct fg_http_request *req)
{
    const struct fg_http_guard *guard = req->conn->owner->lent.guard;

    return guard != NULL && guard->log_in != NULL && guard->log_in(guard->arg, req);
}

enum fg_http_refusal fg_http_request_admit(struct fg_http_request *req, uint64_t body_len)
{
    enum fg_http_refusal found = fg_http_server_match(req->conn->owner->server, req), why;
    /* A gateway in front of us may have checked one of two such headers, and we would use the
     * other. */
    static const char *const names[] = {"X-Scope-OrgID", "Authorization"};

    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_http_header_count(req, names[i]) > 1)
            return HTTP_AMBIGUOUS;
    /* A client that may not call a route must not learn which routes exist either. */
    why = fg_http_doors_check(req, req->route == NULL ? FG_HTTP_READS : req->route->kind);
    if (why == HTTP_ACCEPTED)
        why = ask_guard(req);
    if (why == HTTP_ACCEPTED)
        why = found;
    if (why == HTTP_ACCEPTED)
        why = check_expectation(req);
    if (why == HTTP_ACCEPTED)
        why = admit_body(req, body_len);
    return why;
}

enum fg_http_refusal fg_http_request_grow(struct fg_http_request *req, size_t len)
{
    struct fg_buf *body = &req->body;
    size_t want;

    if (len <= body->cap - body->len)
        return HTTP_ACCEPTED;
    if (len > body->max_bytes - body->len)
        return HTTP_BODY_TOO_LARGE;
    want = FG_MAX(body->cap * 2, BODY_FIRST_BYTES);
    want = FG_MAX(want, body->len + len);
    want = FG_MIN(want, body->max_bytes);
    if (!take_budget(req, want - body->cap))
        return HTTP_NO_BUDGET;
    fg_assert(fg_buf_reserve(body, want - body->len));
    return HTTP_ACCEPTED;
}

void fg_http_request_work(struct fg_http_request *req)
{
    const struct fg_http_route *route = req->route;

    req->state = HTTP_WORKING;
    fg_http_stats_inflight(req->conn->owner->stats, 1);
    route->handler(req, route->arg);
}

bool fg_http_body_too_slow(const struct fg_http_conn *conn, int64_t since_mono_ns, uint64_t bytes)
{
    const struct fg_http_config *config = &conn->owner->config;
    int64_t took_ns = conn->now_mono_ns - since_mono_ns;

    return took_ns > BODY_GRACE_NS && (double)bytes < (double)config->body_min_per_s *
                                                          ((double)took_ns / (double)FG_SECOND_NS);
}
