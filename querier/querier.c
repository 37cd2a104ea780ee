#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/runtime/log.h"
#include "querier/blocks/blocks.h"
#include "querier/replicas/replicas.h"

enum {
    REQUEST_MAX_BYTES = 1024 * 1024, /* of a request; selectors are hundreds of bytes */
    ANSWER_MAX_BYTES_DEFAULT = 256 * 1024 * 1024,
};

/* Reads of the ring and of manifests take milliseconds. Waiting a few seconds for a complete answer
 * is better than an answer from old copies, which is better than none. */
static const int64_t BUCKET_PATIENCE_NS = 3 * FG_SECOND_NS;

#define QUERIER_METRICS(M)                                                                         \
    M(COUNTER, QUERIER_QUERIES, "flamegrid_querier_questions_total",                               \
      "Completed queries, errors included")                                                        \
    M(COUNTER, QUERIER_REFUSED, "flamegrid_querier_questions_refused_total",                       \
      "Queries refused with 429 because the queue, or the share of the tenant, was full")          \
    M(COUNTER, QUERIER_FAILED, "flamegrid_querier_questions_failed_total",                         \
      "Queries that failed with a server error (5xx)")                                             \
    M(COUNTER, QUERIER_INCOMPLETE, "flamegrid_querier_answers_incomplete_total",                   \
      "Query responses marked incomplete")                                                         \
    M(COUNTER, QUERIER_PROFILES, "flamegrid_querier_profiles_read_total",                          \
      "Profiles read by queries")                                                                  \
    M(HISTOGRAM, QUERIER_SECONDS, "flamegrid_querier_question_duration_seconds",                   \
      "Duration of queries")
FG_METRICS_ENUM(querier_metric, QUERIER_METRICS)
static const struct fg_metric_def querier_metrics[] = FG_METRICS_DEFS(QUERIER_METRICS);

struct querier *qry_create(const struct qry_config *config)
{
    struct querier *querier = fg_new(struct querier);

    querier->ring = config->ring;
    querier->peers = config->peers;
    querier->ingester = config->ingester;
    querier->hedge_after_ns = config->hedge_after_ns;
    qry_calls_pending_init(&querier->pending);
    querier->work = config->work;
    querier->tenants = config->tenants;
    querier->clock = config->clock;
    querier->metrics =
        fg_metrics_register(config->registry, querier_metrics, FG_COUNT(querier_metrics));
    querier->replicas_metrics = qry_replicas_register(config->registry);
    querier->timeout_ns = config->timeout_ns > 0 ? config->timeout_ns : 60 * FG_SECOND_NS;
    querier->answer_max_bytes =
        config->answer_max_bytes > 0 ? config->answer_max_bytes : ANSWER_MAX_BYTES_DEFAULT;
    querier->refine_max_bytes = config->refine_max_bytes;
    if (config->bucket != NULL)
        querier->blocks = qry_blocks_create(&(struct qry_blocks_config){
            .bucket = config->bucket,
            .clock = config->clock,
            .registry = config->registry,
            .conditions = config->conditions,
            .cache_max_bytes = config->cache_max_bytes,
            .fetch_max_bytes = config->fetch_max_bytes,
            .memory_max_bytes = querier->answer_max_bytes,
            .manifest_age_ns = config->manifest_age_ns,
            .disk = config->disk,
        });
    return querier;
}

void qry_destroy(struct querier *querier)
{
    if (querier == NULL)
        return;
    qry_calls_pending_done(&querier->pending);
    qry_blocks_destroy(querier->blocks);
    free(querier->bindings);
    free(querier);
}

void qry_refresh(struct querier *querier)
{
    if (querier->blocks != NULL)
        qry_blocks_refresh(querier->blocks);
}

/* --- one query --- */

static void query_destroy(struct qry_query *query)
{
    qry_deletions_drop(query);
    qry_blocks_end(query);
    qry_blocks_forget(query);
    qry_replicas_end(query);
    fg_buf_done(&query->missing);
    fg_buf_done(&query->body);
    fg_arena_destroy(query->arena);
    free(query);
}

/* The header has room for some. */
void qry_query_lacks(struct qry_query *query, struct fg_slice why)
{
    struct fg_buf *missing = &query->missing;
    bool said = missing->len > 0 && memmem(missing->ptr, missing->len, why.ptr, why.len) != NULL;

    query->incomplete = true;
    if (said || missing->max_bytes - missing->len <= why.len + 2)
        return;
    if (missing->len > 0)
        fg_buf_puts(missing, "; ");
    fg_buf_put(missing, why);
}

void qry_query_lacks_since(struct qry_query *query, const char *what, int64_t age_ns,
                           const struct fg_err *why)
{
    char text[FG_ERR_MSG_MAX_BYTES + 64];

    (void)snprintf(text, sizeof text, "%s of %lld s ago: %s", what,
                   (long long)(age_ns / FG_SECOND_NS), why->msg);
    qry_query_lacks(query, fg_cstr(text));
}

int64_t qry_query_patience_mono_ns(const struct qry_query *query)
{
    return FG_MIN(query->deadline_mono_ns,
                  fg_time_add(fg_mono_ns(query->querier->clock), BUCKET_PATIENCE_NS));
}

enum fg_code qry_query_check(struct qry_query *query, struct fg_err *err)
{
    if (query->req != NULL && fg_http_gone(query->req))
        return fg_fail(err, FG_E_CANCELED, "client has disconnected");
    if (fg_mono_ns(query->querier->clock) >= query->deadline_mono_ns)
        return fg_fail(err, FG_E_DEADLINE, "query took too long");
    return FG_OK;
}

enum fg_code qry_query_reply(struct qry_query *query, const ProtobufCMessage *message,
                             struct fg_err *err)
{
    fg_connect_write(&query->call, message, &query->body);
    if (query->body.full)
        return fg_fail(err, FG_E_LIMIT,
                       "the response exceeds %llu bytes (querier.answer_max_bytes)",
                       (unsigned long long)query->querier->answer_max_bytes);
    return FG_OK;
}

/* Worker. */
static enum fg_code query_run(struct fg_job *job, struct fg_err *err)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    ProtobufCMessage *in = NULL;

    if (qry_query_check(query, err) != FG_OK)
        return err->code;
    if (query->endpoint->type != NULL &&
        fg_connect_read(&query->call, query->endpoint->type, REQUEST_MAX_BYTES, query->arena, &in,
                        err) != FG_OK)
        return err->code;
    return query->endpoint->answer(query, in, err);
}

static void add_number(struct fg_http_request *req, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    fg_http_add_header(req, name, text);
}

/* How far a flame graph may be off stands beside it; what is exact says only that. */
static void add_verdict(struct qry_query *query)
{
    fg_http_add_header(query->req, "X-Flamegrid-Exact", query->inexact ? "no" : "yes");
    if (query->inexact)
        add_number(query->req, "X-Flamegrid-Bound", query->bound);
}

/* What was answered where that is more than was asked for: rollups do not tell moments apart.
 */
enum { RANGES_MAX_BYTES = QUERY_SIDES_MAX * 48 };

static void add_ranges(struct qry_query *query)
{
    char text[RANGES_MAX_BYTES] = "";
    size_t len = 0;

    for (unsigned i = 0; i < query->n_wide; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld-%lld", i == 0 ? "" : ", ",
                                (long long)(query->wide[i].start_ns / FG_MS_NS),
                                (long long)(query->wide[i].end_ns / FG_MS_NS));
    if (len > 0)
        fg_http_add_header(query->req, "X-Flamegrid-Range", text);
}

/* Errors of others stand in a header: nothing of them may look like its end. */
static void add_missing(struct qry_query *query)
{
    struct fg_buf *missing = &query->missing;

    for (size_t i = 0; i < missing->len; i++)
        if (missing->ptr[i] < ' ' || missing->ptr[i] > '~')
            missing->ptr[i] = '?';
    fg_buf_append(missing, "", 1);
    fg_http_add_header(query->req, "X-Flamegrid-Missing", (const char *)missing->ptr);
}

static void add_completeness(struct qry_query *query)
{
    fg_http_add_header(query->req, "X-Flamegrid-Complete", query->incomplete ? "false" : "true");
    if (query->incomplete)
        add_missing(query);
}

static void add_statistics(struct qry_query *query, int64_t took_ns)
{
    if (query->job.code == FG_OK)
        add_completeness(query);
    add_verdict(query);
    add_ranges(query);
    add_number(query->req, "X-Flamegrid-Profiles", query->profiles);
    add_number(query->req, "X-Flamegrid-Bytes", query->bytes);
    add_number(query->req, "X-Flamegrid-Series", query->series);
    if (query->querier->blocks != NULL) {
        add_number(query->req, "X-Flamegrid-Objects", query->objects);
        add_number(query->req, "X-Flamegrid-Nodes", query->rollups);
        add_number(query->req, "X-Flamegrid-Requests", query->requests);
        add_number(query->req, "X-Flamegrid-Cache-Hits", query->cache_hits);
        add_number(query->req, "X-Flamegrid-Disk-Hits", query->disk_hits);
    }
    add_number(query->req, "X-Flamegrid-Millis", (uint64_t)(took_ns / FG_MS_NS));
}

/* What an operator should know of: errors of ours, and answers with less than all. Unknown is the
 * client's, as in Pyroscope. */
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
    fg_metric_add(metrics, QUERIER_PROFILES, query->profiles);
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
                 fg_lbool("exact", !query->inexact), fg_lu("profiles", query->profiles),
                 fg_lu("bytes", query->bytes), fg_lu("series", query->series),
                 fg_lu("objects", query->objects), fg_lu("nodes", query->rollups),
                 fg_lu("requests", query->requests), fg_lu("cache_hits", query->cache_hits),
                 fg_lu("disk_hits", query->disk_hits), fg_lu("answer_bytes", query->body.len),
                 fg_li("millis", took_ns / FG_MS_NS));
}

/* Loop. */
static void query_done(struct fg_job *job)
{
    struct qry_query *query = fg_container(job, struct qry_query, job);
    struct fg_http_request *req = query->req;
    int64_t took_ns = fg_mono_ns(query->querier->clock) - query->start_mono_ns;

    account(query, took_ns);
    add_statistics(query, took_ns);
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

static struct qry_query *query_create(struct querier *querier, struct fg_http_request *req,
                                      const struct qry_endpoint *endpoint)
{
    struct qry_query *query = fg_new(struct qry_query);

    query->querier = querier;
    query->req = req;
    query->endpoint = endpoint;
    query->accept = fg_http_header(req, "accept");
    query->refine = fg_slice_is(fg_http_header(req, "x-flamegrid-refine"), "true");
    query->partial = fg_slice_is(fg_http_header(req, "x-flamegrid-partial"), "true") ||
                     fg_slice_is(fg_http_param(req, "partial"), "true");
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

/* The least that is set: 0 is none. */
static int64_t least(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return FG_MAX(a, b);
    return FG_MIN(a, b);
}

/* Whose data it is, and what they may ask for. */
static enum fg_code identify(struct qry_query *query, struct fg_err *err)
{
    struct fg_tenants *tenants = query->querier->tenants;

    if (fg_tenants_identify(tenants, fg_http_header(query->req, FG_TENANT_HEADER), &query->tenants,
                            err) != FG_OK) {
        err->code = FG_E_NO_TENANT;
        return err->code;
    }
    for (size_t i = 0; i < query->tenants.n; i++) {
        struct fg_limits *limits = fg_tenants_limits(tenants, query->tenants.ids[i]);

        query->length_max_ns = least(query->length_max_ns, limits->values.max_query_length_ns);
        query->lookback_ns = least(query->lookback_ns, limits->values.max_query_lookback_ns);
        query->retention_ns[i] = fg_limits_longest_kept_ns(&limits->values);
        fg_limits_unref(limits);
    }
    return FG_OK;
}

/* With several tenants each is a flow, so that none waits for all queries of another one. One
 * that reads the data of several is of the first of them. */
static bool enqueue(struct qry_query *query)
{
    const struct querier *querier = query->querier;

    if (!fg_tenants_are_several(querier->tenants))
        return fg_work_submit(querier->work, FG_LANE_QUERY, &query->job);
    return fg_work_submit_flow(querier->work, FG_LANE_QUERY, fg_hash64_table(query->tenants.ids[0]),
                               &query->job);
}

static void query_submit(struct qry_query *query)
{
    struct fg_err err;

    if (identify(query, &err) != FG_OK) {
        fg_connect_refuse(query->req, &query->call, &err);
        query_destroy(query);
        return;
    }
    if (enqueue(query))
        return;
    fg_metric_add(query->querier->metrics, QUERIER_REFUSED, 1);
    fg_fail(&err, FG_E_LIMIT,
            "too many queries of tenant %.*s are waiting, try again (query_queue_max)",
            FG_S(query->tenants.ids[0]));
    fg_connect_refuse(query->req, &query->call, &err); /* 429 brings its Retry-After */
    query_destroy(query);
}

/* --- routes --- */

/* What a handler needs: the server passes one pointer. Lives as long as the querier. */
struct binding {
    struct querier *querier;
    const struct qry_endpoint *endpoint;
};

static void on_connect(struct fg_http_request *req, void *arg)
{
    struct binding *binding = arg;
    struct qry_query *query = query_create(binding->querier, req, binding->endpoint);

    if (!fg_connect_accept(req, query->start_mono_ns, binding->querier->timeout_ns, &query->call)) {
        query_destroy(query);
        return;
    }
    query->deadline_mono_ns = query->call.deadline_mono_ns;
    query_submit(query);
}

/* "maxNodes" wins over "max-nodes". */
static void read_params(struct fg_http_request *req, struct qry_render_params *params)
{
    const struct {
        const char *name;
        struct fg_slice *into;
    } wanted[] = {
        {"query", &params->query},
        {"from", &params->from},
        {"until", &params->until},
        {"max-nodes", &params->max_nodes},
        {"format", &params->format},
        {"leftQuery", &params->left_query},
        {"leftFrom", &params->left_from},
        {"leftUntil", &params->left_until},
        {"rightQuery", &params->right_query},
        {"rightFrom", &params->right_from},
        {"rightUntil", &params->right_until},
        {"label", &params->label},
    };

    for (size_t i = 0; i < FG_COUNT(wanted); i++)
        *wanted[i].into = fg_http_param(req, wanted[i].name);
    while (params->n_group_by < RENDER_GROUPS_MAX) {
        struct fg_slice label = fg_http_param_at(req, "groupBy", params->n_group_by);

        if (label.ptr == NULL)
            break;
        params->group_by[params->n_group_by++] = label;
    }
    struct fg_slice max_nodes = fg_http_param(req, "maxNodes");
    if (max_nodes.ptr != NULL)
        params->max_nodes = max_nodes;
}

static void on_get(struct fg_http_request *req, void *arg)
{
    struct binding *binding = arg;
    struct qry_query *query = query_create(binding->querier, req, binding->endpoint);

    read_params(req, &query->params);
    query_submit(query);
}

static void add_route(struct querier *querier, struct fg_http_server *server,
                      struct binding *binding, const struct qry_endpoint *endpoint)
{
    bool connect = endpoint->type != NULL;

    *binding = (struct binding){querier, endpoint};
    fg_http_server_route(server, &(struct fg_http_route){
                                     .methods = connect ? FG_CONNECT_METHODS : FG_HTTP_GET,
                                     .path = endpoint->path,
                                     .body_max_bytes = connect ? REQUEST_MAX_BYTES : 0,
                                     .handler = connect ? on_connect : on_get,
                                     .arg = binding,
                                     .name = endpoint->name,
                                     .kind = FG_HTTP_READS,
                                 });
}

void qry_routes(struct querier *querier, struct fg_http_server *server)
{
    fg_assert(querier->bindings == NULL);
    querier->bindings =
        fg_calloc(qry_n_api_endpoints + qry_n_render_endpoints, sizeof(struct binding));
    for (size_t i = 0; i < qry_n_api_endpoints; i++)
        add_route(querier, server, &querier->bindings[i], &qry_api_endpoints[i]);
    for (size_t i = 0; i < qry_n_render_endpoints; i++)
        add_route(querier, server, &querier->bindings[qry_n_api_endpoints + i],
                  &qry_render_endpoints[i]);
    qry_ui_routes(server);
}
