#include "ingester/routes.h"

#include "common/base/time.h"
#include "common/cluster/ring/route.h"
#include "common/runtime/log.h"

/* As long as an upload may take (segments/publish.c). */
static const int64_t FLUSH_TIMEOUT_NS = 10 * FG_MINUTE_NS;

/* A flush or a salvage. */
struct flush {
    struct fg_job job;
    bool salvage;
    struct ingester *ingester;
    struct fg_http_request *req;
};

static enum fg_code run_flush(struct fg_job *job, struct fg_err *err)
{
    struct flush *flush = fg_container(job, struct flush, job);
    int64_t deadline_mono_ns = fg_mono_ns(fg_clock_real()) + FLUSH_TIMEOUT_NS;

    return flush->salvage ? ing_salvage(flush->ingester, deadline_mono_ns, err)
                          : ing_flush(flush->ingester, deadline_mono_ns, err);
}

static void flush_done(struct fg_job *job)
{
    struct flush *flush = fg_container(job, struct flush, job);
    struct fg_buf body;

    if (job->code == FG_OK) {
        fg_buf_init(&body, 64);
        fg_buf_puts(&body, "committed\n");
        fg_http_respond(flush->req, 200, "text/plain", &body);
    } else {
        fg_http_respond_error(flush->req, &job->err);
    }
    free(flush);
}

static void submit_flush(struct fg_http_request *req, struct ing_routes *routes, bool salvage)
{
    /* The routes are there before the head is loaded. */
    struct ingester *ingester = atomic_load(&routes->ingester);
    struct flush *flush;
    struct fg_err err;

    if (ingester == NULL) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "the ingester has not started yet");
        fg_http_respond_error(req, &err);
        return;
    }
    flush = fg_new(struct flush);
    *flush = (struct flush){
        .job = {.home = fg_http_loop(req), .run = run_flush, .done = flush_done},
        .salvage = salvage,
        .ingester = ingester,
        .req = req,
    };
    /* On the workers of the program, not of the ingester: a flush blocks its worker for minutes,
     * and queries need theirs. */
    if (fg_work_submit(routes->work, FG_LANE_QUERY, &flush->job))
        return;
    free(flush);
    (void)fg_fail(&err, FG_E_LIMIT, "too many requests are waiting");
    fg_http_respond_error(req, &err);
}

static void post_flush(struct fg_http_request *req, void *arg)
{
    submit_flush(req, arg, false);
}

static void post_salvage(struct fg_http_request *req, void *arg)
{
    submit_flush(req, arg, true);
}

static void get_ring(struct fg_http_request *req, void *arg)
{
    struct ing_routes *routes = arg;

    fg_ring_respond(req, atomic_load(&routes->watch));
}

static void respond_leaves(struct fg_http_request *req, const struct ing_routes *routes)
{
    struct fg_buf body;

    fg_buf_init(&body, 64);
    fg_buf_puts(&body, atomic_load(&routes->leaves) ? "set\n" : "unset\n");
    fg_http_respond(req, 200, "text/plain", &body);
}

static void set_leaves(struct fg_http_request *req, struct ing_routes *routes, bool leaves)
{
    if (atomic_exchange(&routes->leaves, leaves) != leaves)
        fg_log_info(leaves ? "shutdown will leave the ring" : "shutdown will stay in the ring",
                    fg_ls("asked_by", "/ingester/prepare-shutdown"));
    respond_leaves(req, routes);
}

static void get_leaves(struct fg_http_request *req, void *arg)
{
    respond_leaves(req, arg);
}

static void post_leaves(struct fg_http_request *req, void *arg)
{
    set_leaves(req, arg, true);
}

static void delete_leaves(struct fg_http_request *req, void *arg)
{
    set_leaves(req, arg, false);
}

void ing_ring_routes(struct ing_routes *routes, struct fg_http_server *server)
{
    static const char prepare[] = "/ingester/prepare-shutdown";
    const struct fg_http_route list[] = {
        {FG_HTTP_GET, "/ring", .handler = get_ring, .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_ADMIN},
        {FG_HTTP_GET, prepare, .handler = get_leaves, .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_ADMIN},
        {FG_HTTP_POST, prepare, .handler = post_leaves, .kind = FG_HTTP_OPERATES,
         .scopes = FG_SCOPE_ADMIN},
        {FG_HTTP_DELETE, prepare, .handler = delete_leaves, .kind = FG_HTTP_OPERATES,
         .scopes = FG_SCOPE_ADMIN},
    };

    for (size_t i = 0; i < FG_COUNT(list); i++) {
        struct fg_http_route route = list[i];

        route.arg = routes;
        fg_http_server_route(server, &route);
    }
}

void ing_routes(struct ing_routes *routes, struct fg_http_server *server)
{
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_POST,
                                                         .path = "/ingester/flush",
                                                         .handler = post_flush,
                                                         .arg = routes,
                                                         .kind = FG_HTTP_OPERATES,
                                                         .scopes = FG_SCOPE_ADMIN});
    fg_http_server_route(server, &(struct fg_http_route){.methods = FG_HTTP_POST,
                                                         .path = "/ingester/salvage",
                                                         .handler = post_salvage,
                                                         .arg = routes,
                                                         .kind = FG_HTTP_OPERATES,
                                                         .scopes = FG_SCOPE_ADMIN});
}
