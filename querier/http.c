#include "querier/http.h"

#include "common/access/access.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "querier/adhoc/adhoc.h"
#include "querier/api.h"
#include "querier/audited.h"
#include "querier/blocks/blocks.h"
#include "querier/compare/compare.h"
#include "querier/fanout.h"
#include "querier/functions.h"
#include "querier/label_list.h"
#include "querier/profile_list.h"
#include "querier/progress.h"
#include "querier/query_flow.h"
#include "querier/query_quota.h"
#include "querier/render.h"
#include "querier/reply.h"
#include "querier/rules/rules.h"
#include "querier/status.h"
#include "querier/together.h"
#include "querier/usage.h"

enum {
    REQUEST_MAX_BYTES = 1024 * 1024, /* a selector has hundreds of bytes */
    KEY_MAX_BYTES = 16 * 1024,       /* of a request that others may join; dashboards send less */
};

enum { ENCODE_COST = 4 };              /* compressing a byte takes as long as reading four */
static const double SCRAPE_PART = 0.9; /* of a scrape's timeout, for the answer */

#define QUERIER_METRICS(M)                                                                         \
    M(COUNTER, QUERIER_QUERIES, "flamegrid_querier_queries_total",                                 \
      "Completed queries, errors included")                                                        \
    M(COUNTER, QUERIER_JOINED, "flamegrid_querier_queries_joined_total",                           \
      "Queries that wait for the answer of another one, which asks the same, instead of a worker") \
    M(COUNTER, QUERIER_REFUSED, "flamegrid_querier_queries_refused_total",                         \
      "Queries refused with 429 because the queue, or the share of the tenant, was full")          \
    M(COUNTER, QUERIER_FAILED, "flamegrid_querier_queries_failed_total",                           \
      "Queries that failed with a server error (5xx)")                                             \
    M(COUNTER, QUERIER_INCOMPLETE, "flamegrid_querier_answers_incomplete_total",                   \
      "Query responses marked incomplete")                                                         \
    M(COUNTER, QUERIER_PROFILES, "flamegrid_querier_profiles_read_total",                          \
      "Profiles read by queries")                                                                  \
    M(HISTOGRAM, QUERIER_SECONDS, "flamegrid_querier_query_duration_seconds", "Duration of queries")
FG_METRICS_ENUM(querier_metric, QUERIER_METRICS)
FG_METRICS_TABLE(querier_metrics, QUERIER_METRICS)

struct fg_metrics *qry_http_register(struct fg_registry *registry)
{
    return fg_metrics_register(registry, querier_metrics, FG_COUNT(querier_metrics));
}

/* --- one query --- */

/* What a handler needs, since the server passes one pointer. Lives as long as the querier. */
struct qry_http_binding {
    struct querier *querier;
    const struct qry_endpoint *endpoint;
    uint64_t body_max_bytes;
    bool scraped, streams, together;
    enum fg_audit_kind change; /* what requests are that do not read; READ: all do */
};

static void query_destroy(struct qry_query *query)
{
    qry_fanout_end(query); /* before the arena, which has what it frees */
    qry_flow_bill(query);
    qry_progress_destroy(query);
    fg_buf_done(&query->missing);
    fg_buf_done(&query->body);
    fg_arena_destroy(query->arena);
    free(query);
}

/* Says whose query ran out of time, and which setting allowed it how much. */
static enum fg_code name_timeout(const struct qry_query *query, struct fg_err *err)
{
    int64_t allowed_ns = query->deadline_mono_ns - query->start_mono_ns;

    return fg_wrap(err, "query of tenant %.*s took longer than %lld ms (%s)",
                   FG_S(query->tenants.ids[0]), (long long)(allowed_ns / FG_MS_NS),
                   allowed_ns < query->querier->timeout_ns ? "timeout of the client"
                                                           : "querier.timeout");
}

static enum fg_code answer(struct qry_query *query, struct fg_err *err)
{
    ProtobufCMessage *in = NULL;
    uint64_t bytes;

    /* It may have waited in the queue until its client had gone: then it costs nothing more. */
    if (qry_query_check(query, err) != FG_OK)
        return err->code == FG_E_DEADLINE ? name_timeout(query, err) : err->code;
    if (query->endpoint->type != NULL &&
        fg_connect_read(&query->call, query->endpoint->type, query->request_max_bytes, query->arena,
                        &in, err) != FG_OK)
        return err->code;
    qry_audited_asks(query, in);
    if (qry_audited_begin(query, err) != FG_OK)
        return err->code;
    enum fg_code code = query->endpoint->answer(query, in, err);
    if (code == FG_OK && query->progress != NULL)
        code = qry_progress_frame(query, err);
    /* Compresses the answer in the same job, so the tenant pays for it, and its queries that wait
     * do not hold up its answers. Frames have a coding of their own. */
    bytes = query->body.len;
    if (code == FG_OK && (query->endpoint->type == NULL || query->call.protocol == FG_CONNECT) &&
        (query->progress != NULL ? qry_progress_encode(query)
                                 : fg_http_encode(query->req, &query->body)))
        fg_work_charge(query->querier->work, FG_LANE_QUERY, &query->job, bytes * ENCODE_COST);
    return code == FG_E_DEADLINE ? name_timeout(query, err) : code;
}

/* Worker. */
static enum fg_code query_run(struct fg_job *job, struct fg_err *err)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    int64_t begun_ns = fg_thread_cpu_ns();
    enum fg_code code;

    qry_together_begin(query);
    code = answer(query, err);
    qry_blocks_settle(query);
    query->cpu_ns += fg_thread_cpu_ns() - begun_ns;
    qry_together_end(query, code, err);
    return code;
}

/* Warns operators of server errors and of incomplete responses. Code "unknown" is the client's
 * fault, as in Pyroscope. */
static void complain(const struct qry_query *query, int64_t took_ns)
{
    enum fg_code code = query->job.code;

    if (fg_code_http(code) >= 500 && code != FG_E_UNIMPLEMENTED && code != FG_E_UNKNOWN)
        fg_log_warn("query failed", fg_lb("tenant", query->tenants.ids[0]),
                    fg_ls("path", query->endpoint->path), fg_ls("code", fg_code_name(code)),
                    fg_ls("err", query->job.err.msg), fg_li("millis", took_ns / FG_MS_NS));
    else if (code == FG_OK && query->incomplete)
        fg_log_warn("query response is incomplete", fg_lb("tenant", query->tenants.ids[0]),
                    fg_ls("path", query->endpoint->path),
                    fg_lb("missing", fg_buf_slice(&query->missing)),
                    fg_li("millis", took_ns / FG_MS_NS));
}

static void account(struct qry_query *query, int64_t took_ns)
{
    struct fg_metrics *metrics = query->querier->metrics;
    bool failed = query->job.code != FG_OK;

    fg_metric_add(metrics, QUERIER_QUERIES, 1);
    fg_metric_add(metrics, QUERIER_PROFILES, query->together.joined ? 0 : query->profiles);
    fg_metric_add(metrics, QUERIER_INCOMPLETE, !failed && query->incomplete);
    fg_metric_observe_ns(metrics, QUERIER_SECONDS, took_ns);
    if (failed && fg_code_http(query->job.code) >= 500)
        fg_metric_add(metrics, QUERIER_FAILED, 1);
    complain(query, took_ns);
    fg_log_debug("query completed", fg_lb("tenant", query->tenants.ids[0]),
                 fg_lu("tenants", query->tenants.n), fg_ls("path", query->endpoint->path),
                 fg_ls("code", fg_code_name(query->job.code)),
                 fg_ls("err", failed ? query->job.err.msg : ""),
                 fg_lbool("complete", !failed && !query->incomplete),
                 fg_lbool("exact", !query->inexact), fg_lbool("joined", query->together.joined),
                 fg_lu("profiles", query->profiles), fg_lu("bytes", query->bytes),
                 fg_lu("series", query->series), fg_lu("objects", query->objects),
                 fg_lu("nodes", query->rollups), fg_lu("requests", query->requests),
                 fg_lu("cache_hits", query->cache_hits), fg_lu("disk_hits", query->disk_hits),
                 fg_lu("answer_bytes", query->body.len), fg_li("millis", took_ns / FG_MS_NS));
}

/* Loop. */
static void query_done(struct fg_job *job)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    struct fg_http_request *req = query->req;
    int64_t took_ns = fg_mono_ns(query->querier->clock) - query->start_mono_ns;
    char disposition[256];

    qry_together_take(query);
    /* Before the answer, which frees the request and takes the body. */
    account(query, took_ns);
    qry_audited_end(query);
    if (query->progress != NULL) {
        qry_progress_finish(query);
        query_destroy(query);
        return;
    }
    qry_reply_headers(query, took_ns);
    qry_quota_headers(query);
    if (query->together.joined)
        fg_http_set_coding(req, query->together.coding);
    /* The response is a file, and nothing that a browser may show as a page of ours. */
    if (job->code == FG_OK && query->file_name != NULL) {
        (void)snprintf(disposition, sizeof disposition, "attachment; filename=\"%s\"",
                       query->file_name);
        fg_http_add_header(req, "Content-Disposition", disposition);
        fg_http_add_header(req, "X-Content-Type-Options", "nosniff");
    }
    if (job->code != FG_OK)
        fg_connect_refuse(req, &query->call, &job->err);
    else if (query->endpoint->type != NULL)
        fg_connect_respond(req, &query->call, &query->body);
    else
        fg_http_respond(req, 200,
                        query->content_type != NULL ? query->content_type : "application/json",
                        &query->body);
    query_destroy(query);
}

static struct qry_query *query_create(const struct qry_http_binding *binding,
                                      struct fg_http_request *req)
{
    struct querier *querier = binding->querier;
    struct qry_query *query = fg_new(struct qry_query);

    query->querier = querier;
    query->req = req;
    query->endpoint = binding->endpoint;
    query->request_max_bytes = binding->body_max_bytes;
    query->accept = fg_http_header(req, "accept");
    query->refine = fg_slice_is(fg_http_header(req, "x-flamegrid-refine"), "true");
    /* The header is for programs, the parameter for URLs that people type. */
    query->partial = fg_slice_is(fg_http_header(req, "x-flamegrid-partial"), "true") ||
                     fg_slice_is(fg_http_param(req, "partial"), "true");
    query->statistics = fg_slice_is(fg_http_header(req, "x-flamegrid-statistics"), "true") ||
                        fg_slice_is(fg_http_param(req, "statistics"), "true");
    query->audited.kind = FG_AUDIT_READ;
    if (binding->endpoint->type != NULL || !(fg_http_method(req) & (FG_HTTP_GET | FG_HTTP_HEAD)))
        query->audited.kind = binding->change;
    query->start_mono_ns = fg_mono_ns(querier->clock);
    query->deadline_mono_ns = query->start_mono_ns + querier->timeout_ns;
    query->arena = fg_arena_create(querier->answer_max_bytes);
    query->job.home = fg_http_loop(req);
    query->job.run = query_run;
    query->job.done = query_done;
    fg_buf_init(&query->body, querier->answer_max_bytes);
    fg_buf_init(&query->missing, MISSING_MAX_BYTES);
    return query;
}

/* A caller that may see some series only gets answers that select series, and no others. */
static enum fg_code restrict_to_caller(struct qry_query *query, struct fg_err *err)
{
    const struct fg_grant *grant = fg_access_grant(query->req);

    if (grant->kind != FG_GRANT_TOKEN || grant->token->matchers[0] == '\0')
        return FG_OK;
    if (query->endpoint->whole)
        return fg_fail(err, FG_E_DENIED,
                       "token %s may see profiles with %s only, and this answer is about all",
                       grant->token->id, grant->token->matchers);
    query->restriction = grant->token->matchers;
    return FG_OK;
}

/* Finds the tenants of the request, and their limits. */
static enum fg_code identify(struct qry_query *query, struct fg_err *err)
{
    const struct fg_tenants *tenants = query->querier->tenants;

    if (fg_access_tenants(query->req, fg_tenants_are_several(tenants), &query->tenants, err) !=
        FG_OK) {
        if (err->code == FG_E_INVALID) /* as Pyroscope answers a bad name */
            err->code = FG_E_NO_TENANT;
        return err->code;
    }
    /* Copies the names: they are of the request or of the registry of access, which the answer
     * frees, and what the query took is counted after it. */
    for (size_t i = 0; i < query->tenants.n; i++) {
        query->tenants.ids[i] = fg_arena_copy(query->arena, query->tenants.ids[i]);
        if (query->tenants.ids[i].ptr == NULL)
            return fg_fail(err, FG_E_LIMIT, "no memory left for the query");
    }
    if (restrict_to_caller(query, err) != FG_OK)
        return err->code;
    return qry_flow_limit(query, err);
}

enum fg_code qry_http_submit(struct qry_query *query, struct fg_err *err)
{
    switch (qry_flow_submit(query)) {
    case FG_SUBMIT_QUEUED:
        return FG_OK;
    case FG_SUBMIT_FLOW_FULL:
        fg_metric_add(query->querier->metrics, QUERIER_REFUSED, 1);
        return fg_fail(err, FG_E_LIMIT,
                       "tenant %.*s has %u queries that wait, as many as it may, try again "
                       "(limits.max_queued_queries)",
                       FG_S(query->tenants.ids[0]), query->flow.queued_max);
    case FG_SUBMIT_LANE_FULL:
        break;
    }
    fg_metric_add(query->querier->metrics, QUERIER_REFUSED, 1);
    return fg_fail(err, FG_E_LIMIT,
                   "too many queries of tenant %.*s are waiting, try again (query_queue_max)",
                   FG_S(query->tenants.ids[0]));
}

/* --- what it asks --- */

static void put_number(struct fg_buf *out, int64_t number)
{
    fg_buf_append(out, &number, sizeof number);
}

/* Writes all that the answer depends on besides data and time, so that queries with the same bytes
 * get the same answer. Each part says where it ends. */
static void put_key(const struct qry_query *query, struct fg_buf *out)
{
    const struct fg_http_request *req = query->req;
    const struct fg_slice parts[] = {
        fg_http_path(req),
        fg_http_query(req),
        fg_http_body(req),
        query->accept,
        fg_http_header(req, "accept-encoding"),
        query->call.content_type,
        fg_cstr(query->restriction != NULL ? query->restriction : ""),
    };

    fg_buf_putc(out, (uint8_t)fg_http_method(req));
    fg_buf_putc(out, (uint8_t)query->call.protocol);
    fg_buf_putc(out, (uint8_t)(query->call.json | query->call.gzip << 1 | query->refine << 2 |
                               query->partial << 3 | query->statistics << 4));
    put_number(out, query->length_max_ns);
    put_number(out, query->lookback_ns);
    put_number(out, (int64_t)query->bytes_max);
    put_number(out, (int64_t)query->tenants.n);
    for (size_t i = 0; i < query->tenants.n; i++) {
        fg_buf_lenbytes(out, query->tenants.ids[i]);
        put_number(out, query->retention_ns[i]);
    }
    for (size_t i = 0; i < FG_COUNT(parts); i++)
        fg_buf_lenbytes(out, parts[i]);
}

/* Lets the query join others, and others join it. One that reports its progress is answered alone.
 */
static void answer_together(struct qry_query *query)
{
    struct fg_buf key;

    if (query->progress != NULL)
        return;
    fg_buf_init(&key, KEY_MAX_BYTES);
    put_key(query, &key);
    if (!key.full)
        query->together.key = fg_arena_copy(query->arena, fg_buf_slice(&key));
    fg_buf_done(&key);
}

static void query_submit(struct qry_query *query, const struct qry_http_binding *binding)
{
    struct fg_err err = {.code = FG_OK};
    bool joined;

    if (identify(query, &err) == FG_OK) {
        if (binding->together)
            answer_together(query);
        if (qry_together_submit(query, &joined, &err) == FG_OK) {
            fg_metric_add(query->querier->metrics, QUERIER_JOINED, joined);
            if (query->progress != NULL)
                qry_progress_start(query);
            return;
        }
    }
    qry_quota_headers(query);
    fg_connect_refuse(query->req, &query->call, &err); /* 429 brings its Retry-After */
    query_destroy(query);
}

/* --- routes --- */

static void on_connect(struct fg_http_request *req, void *arg)
{
    struct qry_http_binding *binding = arg;
    struct qry_query *query = query_create(binding, req);

    if (!fg_connect_accept(req, query->start_mono_ns, binding->querier->timeout_ns, &query->call)) {
        query_destroy(query);
        return;
    }
    query->deadline_mono_ns = query->call.deadline_mono_ns;
    query_submit(query, binding);
}

/* Sets the deadline of a query that Prometheus sends: an answer that it does not wait for is lost,
 * so what is there by then has to be on its way before. */
static void keep_to_scrape(struct qry_query *query)
{
    double timeout_s;

    if (!fg_parse_f64(fg_http_header(query->req, "x-prometheus-scrape-timeout-seconds"),
                      &timeout_s) ||
        !(timeout_s > 0))
        return;
    timeout_s = FG_MIN(timeout_s * SCRAPE_PART, (double)query->querier->timeout_ns / FG_SECOND_NS);
    query->deadline_mono_ns =
        FG_MIN(query->deadline_mono_ns,
               fg_time_add(query->start_mono_ns, (int64_t)(timeout_s * FG_SECOND_NS)));
}

static void on_plain(struct fg_http_request *req, void *arg)
{
    struct qry_http_binding *binding = arg;
    struct qry_query *query = query_create(binding, req);

    query->scraped = binding->scraped;
    if (query->scraped)
        keep_to_scrape(query);
    qry_render_read_params(req, &query->params);
    if (binding->streams && fg_http_can_stream(req) && qry_progress_wanted(req) &&
        !qry_render_is_binary(&query->params))
        qry_progress_create(query);
    query_submit(query, binding);
}

/* Adds a route. `wanted` has what depends on the endpoint's kind: methods, the size of bodies and
 * who may call it. */
static void add_route(struct querier *querier, struct fg_http_server *server,
                      struct qry_http_binding *binding, const struct qry_endpoint *endpoint,
                      struct fg_http_route wanted)
{
    bool connect = endpoint->type != NULL;

    if (endpoint->changes != 0) {
        wanted.scopes = endpoint->changes;
        wanted.kind = FG_HTTP_CHANGES;
    }
    *binding = (struct qry_http_binding){.querier = querier,
                                         .endpoint = endpoint,
                                         .body_max_bytes = wanted.body_max_bytes,
                                         .change = endpoint->changes != 0 ? FG_AUDIT_CHANGE
                                                                          : FG_AUDIT_READ};
    wanted.path = endpoint->path;
    wanted.prefix = endpoint->path[strlen(endpoint->path) - 1] == '/';
    wanted.handler = connect ? on_connect : on_plain;
    wanted.arg = binding;
    wanted.name = endpoint->name;
    fg_http_server_route(server, &wanted);
}

/* plain: the methods of a plain route. */
static void add_query_route(struct querier *querier, struct fg_http_server *server,
                            struct qry_http_binding *binding, const struct qry_endpoint *endpoint,
                            unsigned plain)
{
    bool connect = endpoint->type != NULL;
    bool posts = connect || (plain & FG_HTTP_POST) != 0;

    add_route(querier, server, binding, endpoint,
              (struct fg_http_route){.methods = connect ? FG_CONNECT_METHODS : plain,
                                     .body_max_bytes = posts ? REQUEST_MAX_BYTES : 0,
                                     .kind = FG_HTTP_READS,
                                     .scopes = FG_SCOPE_READ});
}

static void add_adhoc_route(struct querier *querier, struct fg_http_server *server,
                            struct qry_http_binding *binding,
                            const struct qry_adhoc_endpoint *adhoc)
{
    const uint64_t file_max = querier->adhoc_upload_max_bytes;
    bool connect = adhoc->endpoint.type != NULL;
    struct fg_http_route wanted = {.kind = FG_HTTP_CHANGES, .scopes = FG_SCOPE_SHARE};

    /* A plain path reads with GET, which asks less of the caller than what changes something. */
    if (!connect || adhoc->kind == QRY_ADHOC_READS)
        add_query_route(querier, server, binding, &adhoc->endpoint, FG_HTTP_GET);
    switch (adhoc->kind) {
    case QRY_ADHOC_READS:
        return;
    case QRY_ADHOC_UPLOADS:
        wanted.bodies = querier->uploads;
        wanted.methods = connect ? FG_CONNECT_METHODS : FG_HTTP_POST;
        wanted.body_max_bytes = connect ? qry_adhoc_body_max_bytes(file_max) : file_max;
        break;
    case QRY_ADHOC_DELETES:
        wanted.methods = FG_HTTP_DELETE;
        wanted.kind = FG_HTTP_OPERATES;
        break;
    }
    add_route(querier, server, binding, &adhoc->endpoint, wanted);
    binding->change = adhoc->kind == QRY_ADHOC_DELETES ? FG_AUDIT_DELETE : FG_AUDIT_SHARE;
}

void qry_http_routes(struct querier *querier, struct fg_http_server *server)
{
    const struct {
        const struct qry_endpoint *endpoints;
        size_t n;
        unsigned plain;                  /* methods of plain routes */
        bool scraped, streams, together; /* as of bindings */
    } tables[] = {
        {qry_api_endpoints, qry_n_api_endpoints, FG_HTTP_GET, false, false, true},
        {qry_service_endpoints, qry_n_service_endpoints, FG_HTTP_GET, false, false, false},
        {qry_file_endpoints, qry_n_file_endpoints, FG_HTTP_POST, false, false, false},
        {qry_render_endpoints, qry_n_render_endpoints, FG_HTTP_GET, false, true, true},
        {qry_profile_endpoints, qry_n_profile_endpoints, FG_HTTP_GET, false, false, true},
        {qry_function_endpoints, qry_n_function_endpoints, FG_HTTP_GET, false, true, true},
        {qry_label_endpoints, qry_n_label_endpoints, FG_HTTP_GET, false, true, true},
        {qry_status_endpoints, qry_n_status_endpoints, FG_HTTP_GET, false, false, false},
        {qry_usage_endpoints, qry_n_usage_endpoints, FG_HTTP_GET, false, false, false},
        /* Two selectors may be too long for a URL. */
        {qry_change_endpoints, qry_n_change_endpoints, FG_HTTP_GET | FG_HTTP_POST, false, true,
         true},
        {qry_rule_endpoints, qry_n_rule_endpoints, FG_HTTP_GET, false, false, false},
        {qry_scraped_endpoints, qry_n_scraped_endpoints, FG_HTTP_GET, true, false, false},
    };
    struct qry_http_binding *binding;
    size_t n = qry_n_adhoc_endpoints;

    fg_assert(querier->bindings == NULL);
    for (size_t t = 0; t < FG_COUNT(tables); t++)
        n += tables[t].n;
    binding = querier->bindings = fg_calloc(n, sizeof *querier->bindings);
    for (size_t t = 0; t < FG_COUNT(tables); t++)
        for (size_t i = 0; i < tables[t].n; i++, binding++) {
            add_query_route(querier, server, binding, &tables[t].endpoints[i], tables[t].plain);
            binding->scraped = tables[t].scraped;
            binding->streams = tables[t].streams;
            binding->together = tables[t].together;
        }
    for (size_t i = 0; i < qry_n_adhoc_endpoints; i++, binding++)
        add_adhoc_route(querier, server, binding, &qry_adhoc_endpoints[i]);
}
