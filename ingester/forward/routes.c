#include "ingester/forward/routes.h"

#include "common/access/access.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/base/timespec.h"
#include "common/runtime/log.h"
#include "ingester/forward/page.h"

#define ROOT "/api/forward"

enum {
    ANSWER_MAX_BYTES = 64 * 1024 * 1024,
    ARENA_MAX_BYTES = 64 * 1024 * 1024, /* DEAD_PAGE_MAX entries with the longest labels */
    DETAIL_MAX_BYTES = 64,
    DEAD_PAGE = 100,
    DEAD_PAGE_MAX = 500,
};

/* Of a preview: manifests are read. */
static const int64_t PREVIEW_TIMEOUT_NS = 10 * FG_SECOND_NS;

/* A request on its way. */
struct forward_asking {
    struct fg_job job;
    const struct ing_forward_routes *routes;
    struct fg_http_request *req;
    struct ing_outbox *outbox;
    unsigned target;
    char did[DETAIL_MAX_BYTES]; /* for the audit; "": the path says it */
    struct fg_buf body;
};

/* ---- what is refused for good ---- */

static void put_labels(struct fg_json_writer *json, const struct fg_labels *labels)
{
    fg_json_begin_object(json, "labels");
    for (size_t i = 0; i < labels->count; i++) {
        fg_json_put_key(json, labels->items[i].name);
        fg_json_put_text(json, NULL, labels->items[i].value);
    }
    fg_json_end(json);
}

static void put_profile(struct fg_json_writer *json, const struct ing_outbox_dead *dead)
{
    const struct ing_outbox_entry *entry = &dead->entry;

    fg_buf_printf(fg_json_value(json, "profileId"), "\"%016llx%016llx\"",
                  (unsigned long long)entry->key.id.hi, (unsigned long long)entry->key.id.lo);
    fg_json_put_i64(json, "profileTimeMs", entry->key.time_ns / FG_MS_NS);
    fg_json_put_i64(json, "receivedMs", entry->received_wall_ns / FG_MS_NS);
    fg_json_put_u64(json, "bytes", entry->bytes);
    if (dead->tenant.len > 0)
        fg_json_put_text(json, "tenant", dead->tenant);
    if (dead->labels.count > 0)
        put_labels(json, &dead->labels);
}

static void put_dead(struct fg_json_writer *json, const struct ing_outbox_dead *dead)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_u64(json, "number", dead->seq);
    fg_json_put_i64(json, "refusedMs", dead->died_wall_ns / FG_MS_NS);
    fg_json_put_text(json, "reason", dead->reason);
    if (dead->readable)
        put_profile(json, dead);
    fg_json_end(json);
}

static enum fg_code read_param(struct fg_http_request *req, const char *name, uint64_t max,
                               uint64_t *value, struct fg_err *err)
{
    struct fg_slice text = fg_http_param(req, name);

    if (text.ptr == NULL)
        return FG_OK;
    if (!fg_parse_u64(text, value) || *value > max)
        return fg_fail(err, FG_E_INVALID, "%s \"%.*s\" is not a number up to %llu", name,
                       FG_S(text), (unsigned long long)max);
    return FG_OK;
}

static enum fg_code list_dead(struct forward_asking *asking, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct fg_json_writer json = fg_json_writer(&asking->body);
    uint64_t from = 0, limit = DEAD_PAGE;
    struct ing_outbox_dead *dead;
    size_t n;

    /* Numbers of entries do not come near the greatest one, which ing_outbox_list_dead() lacks. */
    if (read_param(asking->req, "from", UINT64_MAX - 1, &from, err) != FG_OK ||
        read_param(asking->req, "limit", DEAD_PAGE_MAX, &limit, err) != FG_OK ||
        ing_outbox_list_dead(asking->outbox, asking->target, from, limit + 1, arena, &dead, &n,
                             err) != FG_OK)
        return err->code;
    fg_json_begin_object(&json, NULL);
    fg_json_begin_array(&json, "dead");
    for (size_t i = 0; i < n && i < limit; i++)
        put_dead(&json, &dead[i]);
    fg_json_end(&json);
    /* One more than asked for was read: it says where the next page begins. */
    if (n > limit)
        fg_json_put_u64(&json, "next", dead[limit].seq);
    fg_json_end(&json);
    return FG_OK;
}

/* ---- changes ---- */

static void put_name(struct fg_json_writer *json, const struct forward_asking *asking)
{
    fg_json_begin_object(json, NULL);
    fg_json_put_cstr(json, "name", ing_outbox_name(asking->outbox, asking->target));
}

static enum fg_code set_paused(struct forward_asking *asking, bool paused, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&asking->body);

    if (ing_outbox_pause(asking->outbox, asking->target, paused, err) != FG_OK)
        return err->code;
    fg_log_info(paused ? "forwarding is paused" : "forwarding is resumed",
                fg_ls("target", ing_outbox_name(asking->outbox, asking->target)));
    put_name(&json, asking);
    fg_json_put_bool(&json, "paused", paused);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code pause_target(struct forward_asking *asking, struct fg_err *err)
{
    return set_paused(asking, true, err);
}

static enum fg_code resume_target(struct forward_asking *asking, struct fg_err *err)
{
    return set_paused(asking, false, err);
}

static enum fg_code drop_pending(struct forward_asking *asking, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&asking->body);
    uint64_t n;

    if (ing_outbox_drop(asking->outbox, asking->target, &n, err) != FG_OK)
        return err->code;
    fg_log_info("pending profiles are dropped",
                fg_ls("target", ing_outbox_name(asking->outbox, asking->target)),
                fg_lu("profiles", n));
    (void)snprintf(asking->did, sizeof asking->did, "%llu profiles", (unsigned long long)n);
    put_name(&json, asking);
    fg_json_put_u64(&json, "droppedProfiles", n);
    fg_json_end(&json);
    return FG_OK;
}

/* ---- resends ---- */

/* As text, since what a time means depends on how it is written (timespec.h). */
static enum fg_code read_time(const struct forward_asking *asking, const char *name,
                              int64_t *ret_ns, struct fg_err *err)
{
    struct fg_slice text = fg_http_param(asking->req, name);

    if (text.len == 0)
        return fg_fail(err, FG_E_INVALID, "%s is missing", name);
    if (!fg_timespec_parse(text, fg_wall_ns(fg_clock_real()), ret_ns))
        return fg_fail(err, FG_E_INVALID, "%s \"%.*s\" is no time", name, FG_S(text));
    return FG_OK;
}

/* Reads the range of a resend. *ret_past: what it would read. */
static enum fg_code read_range(const struct forward_asking *asking,
                               const struct ing_past **ret_past, int64_t *ret_from_ns,
                               int64_t *ret_until_ns, struct fg_err *err)
{
    *ret_past = ing_past(atomic_load(&asking->routes->ingester));
    if (*ret_past == NULL)
        return fg_fail(err, FG_E_PRECONDITION,
                       "this server keeps no blocks, so it has nothing to resend");
    if (read_time(asking, "from", ret_from_ns, err) != FG_OK ||
        read_time(asking, "until", ret_until_ns, err) != FG_OK)
        return err->code;
    return *ret_from_ns < *ret_until_ns ? FG_OK
                                        : fg_fail(err, FG_E_INVALID, "from is not before until");
}

static void put_range(struct fg_json_writer *json, const struct forward_asking *asking,
                      int64_t from_ns, int64_t until_ns)
{
    put_name(json, asking);
    fg_json_put_i64(json, "fromMs", from_ns / FG_MS_NS);
    fg_json_put_i64(json, "untilMs", until_ns / FG_MS_NS);
}

/* Writes how many profiles a resend of a range of time would send. */
static enum fg_code preview(struct forward_asking *asking, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&asking->body);
    int64_t from_ns = 0, until_ns = 0;
    struct ing_past_counts counts;
    const struct ing_past *past;

    if (read_range(asking, &past, &from_ns, &until_ns, err) != FG_OK ||
        ing_page_count(past, from_ns, until_ns,
                       fg_time_add(fg_mono_ns(fg_clock_real()), PREVIEW_TIMEOUT_NS), &counts,
                       err) != FG_OK)
        return err->code;
    put_range(&json, asking, from_ns, until_ns);
    fg_json_put_u64(&json, "profiles", counts.profiles);
    fg_json_put_u64(&json, "lostProfiles", counts.lost);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code resend(struct forward_asking *asking, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&asking->body);
    int64_t from_ns = 0, until_ns = 0;
    const struct ing_past *past;

    if (read_range(asking, &past, &from_ns, &until_ns, err) != FG_OK ||
        ing_outbox_resend(asking->outbox, asking->target, from_ns, until_ns, err) != FG_OK)
        return err->code;
    (void)snprintf(asking->did, sizeof asking->did, "from %lld until %lld ms",
                   (long long)(from_ns / FG_MS_NS), (long long)(until_ns / FG_MS_NS));
    fg_log_info("profiles are resent",
                fg_ls("target", ing_outbox_name(asking->outbox, asking->target)),
                fg_li("from_ms", from_ns / FG_MS_NS), fg_li("until_ms", until_ns / FG_MS_NS));
    put_range(&json, asking, from_ns, until_ns);
    fg_json_end(&json);
    return FG_OK;
}

static enum fg_code end_resend(struct forward_asking *asking, struct fg_err *err)
{
    struct fg_json_writer json = fg_json_writer(&asking->body);

    if (ing_outbox_end_resend(asking->outbox, asking->target, err) != FG_OK)
        return err->code;
    put_name(&json, asking);
    fg_json_put_bool(&json, "resending", false);
    fg_json_end(&json);
    return FG_OK;
}

/* ---- requests ---- */

typedef enum fg_code (*forward_action)(struct forward_asking *asking, struct fg_err *err);

/* What the paths below a target do. */
static const struct {
    const char *verb;
    bool changes;
    forward_action act;
} actions[] = {
    {"/dead", false, list_dead},       {"/pause", true, pause_target},
    {"/resume", true, resume_target},  {"/drop", true, drop_pending},
    {"/resend", false, preview},       {"/resend", true, resend},
    {"/end-resend", true, end_resend},
};

static forward_action find_action(struct fg_slice verb, bool changes)
{
    for (size_t i = 0; i < FG_COUNT(actions); i++)
        if (actions[i].changes == changes && fg_slice_is(verb, actions[i].verb))
            return actions[i].act;
    return NULL;
}

/* A change is not made unless the audit has it. */
static enum fg_code act_on_record(struct forward_asking *asking, forward_action act,
                                  struct fg_err *err)
{
    struct fg_access_who who;
    struct fg_audit_event event = fg_access_audit_event(asking->req, FG_AUDIT_ADMIN, &who);
    enum fg_code code;

    if (fg_audit_begin(asking->routes->audit, &event, err) != FG_OK)
        return err->code;
    code = act(asking, err);
    /* Known only now: how much was dropped, or which time is resent. */
    event.detail = fg_cstr(asking->did);
    fg_audit_result(asking->routes->audit, &event, code, err);
    return code;
}

/* Does what /api/forward/TARGET/VERB says. A name may have a slash, a verb has none. */
static enum fg_code act_on_target(struct forward_asking *asking, struct fg_err *err)
{
    struct fg_slice rest = fg_slice_sub(fg_http_path(asking->req), strlen(ROOT "/"), SIZE_MAX);
    bool changes = fg_http_method(asking->req) == FG_HTTP_POST;
    struct fg_slice name = rest;
    forward_action act;
    int target;

    while (name.len > 0 && !fg_slice_ends(name, "/"))
        name.len--;
    name.len -= name.len > 0;
    act = find_action(fg_slice_sub(rest, name.len, SIZE_MAX), changes);
    if (act == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "there is nothing like that");
    target = asking->outbox == NULL ? -1 : ing_outbox_find(asking->outbox, name);
    if (target < 0)
        return fg_fail(err, FG_E_NOT_FOUND, "no target of forwarding is called %.*s", FG_S(name));
    asking->target = (unsigned)target;
    /* A GET changes nothing and is not recorded. */
    return changes ? act_on_record(asking, act, err) : act(asking, err);
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct forward_asking *asking = fg_container(job, struct forward_asking, job);
    /* The routes are there before the head is loaded. */
    struct ingester *ingester = atomic_load(&asking->routes->ingester);

    if (ingester == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the server has not started yet");
    asking->outbox = ing_outbox(ingester);
    if (fg_slice_is(fg_http_path(asking->req), ROOT)) {
        struct fg_json_writer json = fg_json_writer(&asking->body);

        fg_json_begin_object(&json, NULL);
        fg_json_begin_array(&json, "targets");
        ing_write_forwarding(ingester, &json);
        fg_json_end(&json);
        fg_json_end(&json);
    } else if (act_on_target(asking, err) != FG_OK) {
        return err->code;
    }
    fg_buf_putc(&asking->body, '\n');
    return asking->body.full ? fg_fail(err, FG_E_TOO_LARGE, "the answer is too large") : FG_OK;
}

static void done(struct fg_job *job)
{
    struct forward_asking *asking = fg_container(job, struct forward_asking, job);

    fg_http_add_header(asking->req, "Cache-Control", "no-store");
    if (job->code != FG_OK)
        fg_http_respond_error(asking->req, &job->err);
    else
        fg_http_respond(asking->req, 200, "application/json", &asking->body);
    fg_buf_done(&asking->body);
    free(asking);
}

/* On a loop: run() reads the store and the bucket on a worker. */
static void on_request(struct fg_http_request *req, void *arg)
{
    const struct ing_forward_routes *routes = arg;
    struct forward_asking *asking = fg_new(struct forward_asking);

    *asking = (struct forward_asking){
        .job = {.home = fg_http_loop(req), .run = run, .done = done},
        .routes = routes,
        .req = req,
    };
    fg_buf_init(&asking->body, ANSWER_MAX_BYTES);
    if (fg_work_submit(routes->work, FG_LANE_QUERY, &asking->job))
        return;
    /* No worker has it, so it ends here, on the loop. */
    asking->job.code =
        fg_fail(&asking->job.err, FG_E_LIMIT, "too many requests are waiting, try again");
    done(&asking->job);
}

void ing_forward_routes(struct ing_forward_routes *routes, struct fg_http_server *server)
{
    const struct fg_http_route list[] = {
        {.methods = FG_HTTP_GET, .path = ROOT, .kind = FG_HTTP_READS, .name = "forward"},
        {.methods = FG_HTTP_GET,
         .path = ROOT "/",
         .prefix = true,
         .kind = FG_HTTP_READS,
         .name = "forward_target"},
        {.methods = FG_HTTP_POST,
         .path = ROOT "/",
         .prefix = true,
         .kind = FG_HTTP_OPERATES,
         .name = "forward_target"},
    };

    for (size_t i = 0; i < FG_COUNT(list); i++) {
        struct fg_http_route route = list[i];

        route.scopes = FG_SCOPE_ADMIN;
        route.handler = on_request;
        route.arg = routes;
        fg_http_server_route(server, &route);
    }
}
