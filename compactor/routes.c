#include "compactor/routes.h"

#include "common/access/access.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/timespec.h"
#include "common/runtime/log.h"
#include "compactor/deletion.h"
#include "compactor/edit.h"
#include "compactor/ingester_list.h"

#include <sys/random.h>
#include <time.h>

enum {
    ANSWER_MAX_BYTES = 64 * 1024 * 1024, /* a tenant's deletions, with their selectors */
    PAUSE_SLICE_NS = 50 * FG_MS_NS,
};

/* Of a request, with all attempts: it holds a worker, of which queries have few. */
static const int64_t ASKING_TIMEOUT_NS = 30 * FG_SECOND_NS;

/* A request on its way. */
struct asking {
    struct fg_job job;
    struct cmp_routes *routes;
    struct fg_http_request *req;
    struct cmp_env env; /* one for each request, as several may be at work */
    struct fg_slice tenant, selector;
    int64_t start_ns, end_ns;
    struct fg_id id;
    struct fg_buf body;
};

/* Waits on the worker of the request until it is time to end. In slices: a client that leaves wakes
 * nobody. */
static void pause_here(struct cmp_env *env, int64_t ns)
{
    struct fg_err err;

    while (ns > 0 && cmp_env_check(env, &err) == FG_OK) {
        const struct timespec slice = {0, FG_MIN(ns, PAUSE_SLICE_NS)};

        (void)nanosleep(&slice, NULL);
        ns -= PAUSE_SLICE_NS;
    }
}

static bool is_gone(struct cmp_env *env)
{
    return fg_http_gone(fg_container(env, struct asking, env)->req);
}

/* Also the end of the server is not the client's doing. */
static enum fg_code not_the_clients(enum fg_code code, struct fg_err *err)
{
    return code == FG_E_CANCELED ? err->code = FG_E_UNAVAILABLE : code;
}

static void asking_destroy(struct asking *asking)
{
    fg_buf_done(&asking->body);
    free(asking);
}

/* ---- JSON ---- */

/* waits_for: the ingesters; "": none that is known. */
static void put_deletion(struct fg_json_writer *json, const struct fg_blocks_tombstone *tombstone,
                         const char *waits_for)
{
    bool ended = tombstone->ended_wall_ns != 0;

    fg_json_begin_object(json, NULL);
    fg_buf_printf(fg_json_value(json, "id"), "\"%016llx%016llx\"",
                  (unsigned long long)tombstone->id.hi, (unsigned long long)tombstone->id.lo);
    fg_json_put_text(json, "selector", tombstone->selector);
    fg_json_put_i64(json, "start_ms", tombstone->start_ns / FG_MS_NS);
    fg_json_put_i64(json, "end_ms", tombstone->end_ns / FG_MS_NS);
    fg_json_put_i64(json, "asked_ms", tombstone->asked_wall_ns / FG_MS_NS);
    fg_json_put_cstr(json, "state", ended ? "done" : "pending");
    if (ended)
        fg_json_put_i64(json, "ended_ms", tombstone->ended_wall_ns / FG_MS_NS);
    fg_json_put_u64(json, "profiles_removed", tombstone->profiles);
    fg_json_put_u64(json, "rewrites", tombstone->rewrites);
    if (!ended)
        fg_json_put_cstr(json, "waits_for", waits_for);
    fg_json_end(json);
}

/* ---- POST /compactor/delete ---- */

static enum fg_code bury(struct asking *asking, struct fg_err *err)
{
    const struct fg_blocks_tombstone tombstone = {
        .id = cmp_plan_block_id(fg_wall_ns(asking->env.clock), cmp_env_random(&asking->env)),
        .selector = asking->selector,
        .start_ns = asking->start_ns,
        .end_ns = asking->end_ns,
        .asked_wall_ns = fg_wall_ns(asking->env.clock)};
    const struct cmp_edit_task task = {.kind = EDIT_BURY, .tombstone = tombstone};
    const struct cmp_config *config = asking->routes->config;
    struct fg_json_writer json = fg_json_writer(&asking->body);

    /* The answer comes when the manifest has the tombstone: from then on queries leave the profiles
     * out. Their bytes go later. */
    if (cmp_edit_carry_out(&asking->env, asking->tenant, &task, err) != FG_OK)
        return err->code;
    fg_log_info("deletion requested", fg_lb("tenant", asking->tenant),
                fg_lb("selector", asking->selector), fg_li("start_ns", asking->start_ns),
                fg_li("end_ns", asking->end_ns));
    put_deletion(&json, &tombstone, "");
    fg_buf_putc(&asking->body, '\n');
    if (config->on_deletion != NULL)
        config->on_deletion(config->on_deletion_arg);
    /* Otherwise the tenant would wait for its next look. */
    cmp_compaction_wake(asking->routes->compaction, asking->tenant);
    return FG_OK;
}

/* Nothing is deleted that the audit does not have. */
static enum fg_code bury_on_record(struct fg_job *job, struct fg_err *err)
{
    struct asking *asking = fg_container(job, struct asking, job);
    struct fg_audit *audit = asking->routes->config->audit;
    struct fg_access_who who;
    struct fg_audit_event event = fg_access_audit_event(asking->req, FG_AUDIT_DELETE, &who);
    enum fg_code code;

    event.tenant = asking->tenant;
    event.detail = asking->selector;
    event.from_ms = asking->start_ns / FG_MS_NS;
    event.to_ms = asking->end_ns / FG_MS_NS;
    if (fg_audit_begin(audit, &event, err) != FG_OK)
        return err->code;
    code = not_the_clients(bury(asking, err), err);
    fg_audit_result(audit, &event, code, err);
    return code;
}

/* ---- GET /compactor/deletions ---- */

/* What a list of deletions is written from. */
struct routes_listing {
    struct fg_manifest *blocks;
    /* Set if a pending deletion waits for ingesters; else NULL. */
    struct fg_manifest *l0;
    const struct cmp_ingesters *known;
    struct cmp_ingester_list ingesters;
};

static void put_list(struct fg_json_writer *json, const struct routes_listing *listing,
                     const struct fg_blocks_tombstone *tombstones, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char waits_for[COMPLETION_TEXT_MAX_BYTES] = "";

        if (listing->known != NULL && tombstones[i].awaits > 0)
            cmp_completion_waits_for(listing->known, &listing->l0->l0, tombstones[i].awaits,
                                     waits_for);
        put_deletion(json, &tombstones[i], waits_for);
    }
}

static enum fg_code read_listing(struct asking *asking, struct routes_listing *listing,
                                 struct fg_err *err)
{
    bool any = false;

    if (cmp_env_read_manifest(&asking->env, asking->tenant, &listing->blocks, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < listing->blocks->blocks.n_tombstones; i++)
        any = any || listing->blocks->blocks.tombstones[i].awaits > 0;
    /* Only a deletion that waits for ingesters needs the two further reads. */
    if (!any)
        return FG_OK;
    if (cmp_env_read_manifest(&asking->env, FG_LIT(""), &listing->l0, err) != FG_OK)
        return err->code;
    return cmp_ingester_list_get(&listing->ingesters, &asking->env, &listing->known, err);
}

static enum fg_code list_deletions(struct fg_job *job, struct fg_err *err)
{
    struct asking *asking = fg_container(job, struct asking, job);
    struct routes_listing listing = {.blocks = NULL};
    enum fg_code code;

    cmp_ingester_list_init(&listing.ingesters, asking->routes->config->store);
    code = read_listing(asking, &listing, err);
    if (code == FG_OK) {
        const struct fg_blocks *blocks = &listing.blocks->blocks;
        struct fg_json_writer json = fg_json_writer(&asking->body);

        fg_json_begin_object(&json, NULL);
        fg_json_begin_array(&json, "deletions");
        put_list(&json, &listing, blocks->tombstones, blocks->n_tombstones);
        put_list(&json, &listing, blocks->ended, blocks->n_ended);
        fg_json_end(&json);
        fg_json_end(&json);
        fg_buf_putc(&asking->body, '\n');
    }
    cmp_ingester_list_done(&listing.ingesters);
    fg_manifest_unref(listing.l0);
    fg_manifest_unref(listing.blocks);
    return not_the_clients(code, err);
}

/* ---- handlers ---- */

static void done(struct fg_job *job)
{
    struct asking *asking = fg_container(job, struct asking, job);

    if (job->code != FG_OK)
        fg_http_respond_error(asking->req, &job->err);
    else
        fg_http_respond(asking->req, 200, "application/json", &asking->body);
    asking_destroy(asking);
}

static enum fg_code param_time(struct fg_http_request *req, const char *name, int64_t now_ns,
                               int64_t *ret_ns, struct fg_err *err)
{
    struct fg_slice text = fg_http_param(req, name);

    if (text.len == 0)
        return fg_fail(err, FG_E_INVALID, "%s is missing: a time, such as now-1h or 1700000000",
                       name);
    if (!fg_timespec_parse(text, now_ns, ret_ns))
        return fg_fail(err, FG_E_INVALID, "%s: not a time: %.*s", name, FG_S(text));
    return FG_OK;
}

/* Times of requests are inclusive, those of tombstones end before end_ns. */
static enum fg_code read_deletion(struct asking *asking, struct fg_err *err)
{
    int64_t now_ns = fg_wall_ns(asking->env.clock);

    /* Borrowed from the request, like the tenant: both live until the answer. */
    asking->selector = fg_http_param(asking->req, "selector");
    if (asking->selector.len == 0)
        return fg_fail(err, FG_E_INVALID,
                       "selector is missing: {service_name=\"my-app\"}, in the URL's query");
    if (param_time(asking->req, "start", now_ns, &asking->start_ns, err) != FG_OK ||
        param_time(asking->req, "end", now_ns, &asking->end_ns, err) != FG_OK)
        return err->code;
    asking->end_ns = fg_time_add(asking->end_ns, 1);
    return cmp_deletion_check(asking->selector, asking->start_ns, asking->end_ns, err);
}

static struct asking *asking_create(struct cmp_routes *routes, struct fg_http_request *req)
{
    struct asking *asking = fg_new(struct asking);

    asking->routes = routes;
    asking->req = req;
    asking->job.home = fg_http_loop(req);
    asking->job.done = done;
    fg_buf_init(&asking->body, ANSWER_MAX_BYTES);
    asking->env = (struct cmp_env){.bucket = routes->config->bucket,
                                   .clock = routes->config->clock,
                                   .stop = cmp_compaction_bucket_stop(routes->compaction),
                                   .gone = is_gone,
                                   .pause = pause_here};
    asking->env.deadline_mono_ns = cmp_env_deadline(&asking->env, ASKING_TIMEOUT_NS);
    /* The number is for names and pauses, and guards nothing: the time will do. */
    if (getrandom(&asking->env.random, sizeof asking->env.random, 0) != sizeof asking->env.random)
        asking->env.random = (uint64_t)fg_mono_ns(fg_clock_real());
    return asking;
}

static enum fg_code submit(struct asking *asking, struct fg_err *err)
{
    if (fg_work_submit(asking->routes->config->work, FG_LANE_QUERY, &asking->job))
        return FG_OK;
    return fg_fail(err, FG_E_LIMIT, "too many requests are waiting, try again");
}

static enum fg_code identify(struct asking *asking, struct fg_err *err)
{
    return fg_access_tenant(asking->req, fg_tenants_are_several(asking->routes->config->tenants),
                            &asking->tenant, err);
}

static void refuse(struct asking *asking, const struct fg_err *err)
{
    fg_http_respond_error(asking->req, err);
    asking_destroy(asking);
}

static void on_delete(struct fg_http_request *req, void *arg)
{
    struct asking *asking = asking_create(arg, req);
    struct fg_err err;

    asking->job.run = bury_on_record;
    /* A request that is not submitted gets no done(), so it is answered here. */
    if (identify(asking, &err) != FG_OK || read_deletion(asking, &err) != FG_OK ||
        submit(asking, &err) != FG_OK)
        refuse(asking, &err);
}

static void on_deletions(struct fg_http_request *req, void *arg)
{
    struct asking *asking = asking_create(arg, req);
    struct fg_err err;

    asking->job.run = list_deletions;
    if (identify(asking, &err) != FG_OK || submit(asking, &err) != FG_OK)
        refuse(asking, &err);
}

/* On the loop: the compaction holds the lock of its status only for copies. */
static void on_status(struct fg_http_request *req, void *arg)
{
    struct cmp_routes *routes = arg;
    struct fg_buf body;

    fg_buf_init(&body, ANSWER_MAX_BYTES);
    cmp_compaction_status(routes->compaction, &body);
    fg_http_respond(req, 200, "application/json", &body);
}

void cmp_routes_add(struct cmp_routes *routes, struct fg_http_server *server)
{
    const struct fg_http_route added[] = {
        {FG_HTTP_GET, "/compactor/status", .handler = on_status, .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_ADMIN},
        {FG_HTTP_GET, "/compactor/deletions", .handler = on_deletions, .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_DELETE | FG_SCOPE_TENANT_ADMIN | FG_SCOPE_ADMIN},
        {FG_HTTP_POST, "/compactor/delete", .handler = on_delete, .kind = FG_HTTP_OPERATES,
         .scopes = FG_SCOPE_DELETE | FG_SCOPE_ADMIN},
    };

    for (size_t i = 0; i < FG_COUNT(added); i++) {
        struct fg_http_route route = added[i];

        route.arg = routes;
        fg_http_server_route(server, &route);
    }
}
