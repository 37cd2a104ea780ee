#include "common/cluster/ring/route.h"

#include "common/cluster/ring/page.h"

enum { ANSWER_MAX_BYTES = 64 * 1024 * 1024 }; /* the largest ring there can be has less */

static bool wants_json(struct fg_http_request *req)
{
    struct fg_slice format = fg_http_param(req, "format");
    struct fg_slice accept = fg_http_header(req, "Accept");

    if (format.ptr != NULL)
        return fg_slice_is(format, "json");
    /* Browsers accept anything, but name text/html: they get the page. */
    return fg_slice_search(accept, "application/json") != SIZE_MAX &&
           fg_slice_search(accept, "text/html") == SIZE_MAX;
}

void fg_ring_respond(struct fg_http_request *req, struct fg_ring_watch *watch)
{
    fg_auto(fg_ring_view) *view = watch == NULL ? NULL : fg_ring_watch_get(watch);
    bool json = wants_json(req);
    struct fg_buf body;
    struct fg_err err;

    /* 503 and not an empty ring, which would look as if no ingester had joined. */
    if (view == NULL) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "the ring has not been read yet");
        fg_http_respond_error(req, &err);
        return;
    }
    fg_buf_init(&body, ANSWER_MAX_BYTES);
    if (json)
        fg_ring_json(&view->ring, &body);
    else
        fg_ring_write_html(view, &body);
    if (body.full) {
        fg_buf_done(&body);
        (void)fg_fail(&err, FG_E_TOO_LARGE, "the ring is larger than %d bytes", ANSWER_MAX_BYTES);
        fg_http_respond_error(req, &err);
        return;
    }
    /* Members choose names and addresses: no browser may take them for a script. */
    fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    if (!json)
        fg_http_add_header(req, "Content-Security-Policy",
                           "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    fg_http_respond(req, 200, json ? "application/json" : "text/html; charset=utf-8", &body);
}

static void get_ring(struct fg_http_request *req, void *arg)
{
    fg_ring_respond(req, arg);
}

void fg_ring_route(struct fg_http_server *server, struct fg_ring_watch *watch)
{
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                         .path = "/ring",
                                                         .handler = get_ring,
                                                         .arg = watch,
                                                         .kind = FG_HTTP_READS,
                                                         .scopes = FG_SCOPE_ADMIN});
}
