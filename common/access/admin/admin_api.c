#include "common/access/admin/admin_api_impl.h"
#include "common/base/hash.h"
#include "common/base/str.h"
#include "common/net/pbjson.h"

enum {
    ANSWER_MAX_BYTES = 64 * 1024 * 1024, /* 65,536 tokens of a KiB */
    ARENA_MAX_BYTES = 8 * 1024 * 1024,   /* a body of a MiB, as JSON and as messages */
    SEARCHES_QUEUED_MAX = 8, /* of the audit, of a flow: people ask for page after page */
};

/* Makes ids of flows that are not those of queries. */
static const uint64_t GOVERNING = UINT64_C(0x676f7665726e), SEARCHES = UINT64_C(0x736561726368);

/* Time for some tries, while others change the registry and a client waits. */
#define SWAP_TIMEOUT_NS (20 * FG_SECOND_NS)

#define TENANTS  "/api/tenants"
#define TOKENS   "/api/tokens"
#define BINDINGS "/api/bindings"
#define SESSIONS "/api/sessions"
#define AUDIT    "/api/audit"

/* ---- what callers may see and do ---- */

bool fg_admin_is_admin(const struct fg_admin_call *call)
{
    return (fg_grant_scopes(call->grant, FG_LIT("*")) & FG_SCOPE_ADMIN) != 0;
}

/* Returns whether the caller governs a tenant. */
bool fg_admin_governs(const struct fg_admin_call *call, const char *tenant)
{
    /* "*" is no tenant that one could govern: it stands for all of them. */
    return fg_admin_is_admin(call) ||
           (strcmp(tenant, "*") != 0 &&
            (fg_grant_scopes(call->grant, fg_cstr(tenant)) & FG_SCOPE_TENANT_ADMIN));
}

enum fg_code fg_admin_denied(const struct fg_admin_call *call, const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_DENIED, "%s may not %s", call->who, what);
}

enum fg_code fg_admin_need_admin(const struct fg_admin_call *call, const char *what,
                                 struct fg_err *err)
{
    return fg_admin_is_admin(call) ? FG_OK : fg_admin_denied(call, what, err);
}

/* ---- requests and answers ---- */

/* Lists leave out tenants that the caller does not govern. A request that names one is refused, in
 * the same words whether it exists or not, as everywhere. */
enum fg_code fg_admin_read_tenant(struct fg_admin_call *call, struct fg_slice *ret_tenant,
                                  struct fg_err *err)
{
    struct fg_slice tenant = FG_LIT("");
    char id[FG_TENANT_MAX_BYTES + 1];

    if (fg_http_params(call->req, "tenant", &tenant, 1) > 1)
        return fg_fail(err, FG_E_INVALID, "the request has several parameters tenant");
    if (tenant.len > FG_TENANT_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "parameter tenant: max %d characters",
                       FG_TENANT_MAX_BYTES);
    (void)snprintf(id, sizeof id, "%.*s", FG_S(tenant));
    if (tenant.len > 0 && !fg_admin_governs(call, id))
        return fg_fail(err, FG_E_DENIED, "%s has no access to tenant \"%s\"", call->who, id);
    *ret_tenant = tenant;
    return FG_OK;
}

void fg_admin_put_scopes(struct fg_json_writer *json, unsigned scopes)
{
    struct fg_buf names;
    struct fg_slice rest;

    fg_buf_init(&names, FG_ADMIN_WHO_MAX_BYTES);
    fg_access_write_scopes(scopes, &names);
    rest = fg_buf_slice(&names);
    fg_json_begin_array(json, "scopes");
    while (rest.len > 0) {
        size_t comma = FG_MIN(fg_slice_find(rest, ','), rest.len);

        fg_json_put_text(json, NULL, fg_slice_sub(rest, 0, comma));
        rest = fg_slice_sub(rest, comma + 1, SIZE_MAX);
    }
    fg_json_end(json);
    fg_buf_done(&names);
}

enum fg_code fg_admin_read_body(struct fg_admin_call *call, const ProtobufCMessageDescriptor *type,
                                ProtobufCMessage **ret_message, struct fg_err *err)
{
    struct fg_slice body = fg_http_body(call->req);

    /* No body is an object without members. */
    if (body.len == 0)
        body = FG_LIT("{}");
    return fg_pbjson_read(body, type, call->arena, ret_message, err) == FG_OK
               ? FG_OK
               : fg_wrap(err, "body");
}

/* text "": `otherwise`. */
enum fg_code fg_admin_read_duration(const char *text, const char *name, int64_t otherwise_ns,
                                    int64_t *ret_ms, struct fg_err *err)
{
    int64_t ns = otherwise_ns;
    const char *fault = text[0] == '\0' ? NULL : fg_conf_read_duration(fg_cstr(text), &ns);

    if (fault != NULL || ns < 0)
        return fg_fail(err, FG_E_INVALID, "%s \"%.100s\": %s", name, text,
                       fault != NULL ? fault : "is negative");
    *ret_ms = ns / FG_MS_NS;
    return FG_OK;
}

/* Makes a change in the bucket and in what this process knows. */
enum fg_code fg_admin_swap(struct fg_admin_call *call, fg_access_edit edit, void *arg,
                           struct fg_err *err)
{
    const struct fg_access_writer writer = {.bucket = call->api->bucket,
                                            .by = call->who,
                                            .now_ms = call->now_ms,
                                            .deadline_mono_ns =
                                                fg_mono_ns(fg_clock_real()) + SWAP_TIMEOUT_NS,
                                            .known = call->registry->message->generation,
                                            .bounded = !fg_admin_is_admin(call)};
    enum fg_code code = fg_access_swap(&writer, edit, arg, err);

    /* Waits until this process knows the change, so that the next request of the caller sees it. */
    if (code == FG_OK)
        fg_access_refresh(call->api->access);
    return code;
}

/* ---- who asks ---- */

static enum fg_code whoami(struct fg_admin_call *call, struct fg_err *err)
{
    static const char *const modes[] = {"auto", "none", "header", "token"};
    static const char *const kinds[] = {"anyone", "token", "person"};
    struct fg_json_writer json = fg_json_writer(&call->body);
    const struct fg_grant *grant = call->grant;
    unsigned scopes = 0;

    (void)err;
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "mode", modes[fg_access_mode(call->api->access)]);
    fg_json_put_cstr(&json, "kind", kinds[grant->kind]);
    if (grant->kind == FG_GRANT_IDENTITY) {
        fg_json_put_text(&json, "subject", grant->identity.subject);
        fg_json_put_text(&json, "issuer", grant->identity.issuer);
    } else {
        fg_json_put_cstr(&json, "subject", call->who);
    }
    fg_json_begin_array(&json, "tenants");
    for (size_t i = 0; call->registry != NULL && i < call->registry->message->n_tenants; i++) {
        const Access__Tenant *tenant = call->registry->message->tenants[i];

        if (fg_grant_scopes(grant, fg_cstr(tenant->id)) != 0 &&
            tenant->state == ACCESS__TENANT__STATE__ACTIVE) {
            fg_json_put_cstr(&json, NULL, tenant->id);
            scopes |= fg_grant_scopes(grant, fg_cstr(tenant->id));
        }
    }
    fg_json_end(&json);
    fg_json_put_bool(&json, "tenancy", fg_tenants_are_several(call->api->tenants));
    fg_admin_put_scopes(&json, grant->kind == FG_GRANT_IDENTITY ? scopes
                               : grant->kind == FG_GRANT_TOKEN
                                   ? grant->token->scopes
                                   : fg_grant_scopes(grant, FG_LIT("*")));
    if (grant->kind == FG_GRANT_TOKEN) {
        if (grant->token->matchers[0] != '\0')
            fg_json_put_cstr(&json, "matchers", grant->token->matchers);
        fg_json_put_i64(&json, "expiresMs", grant->token->expires_ms);
    }

    const struct fg_session *session = fg_access_session(call->req);

    /* The page sends the csrf value with requests that change something. */
    if (session != NULL) {
        fg_json_put_text(&json, "name", session->name);
        fg_json_put_i64(&json, "expiresMs", (session->issued_s + FG_SESSION_MAX_S) * 1000);
        fg_buf_putc(fg_json_value(&json, "csrf"), '"');
        fg_buf_hex(json.out, session->csrf, sizeof session->csrf);
        fg_buf_putc(json.out, '"');
    }
    fg_json_end(&json);
    return FG_OK;
}

/* ---- requests ---- */

/* The action of each path, chosen by the method and by the text behind the id. verb NULL: the path
 * has no id. */
static const struct {
    const char *path;
    unsigned method;
    const char *verb;
    fg_admin_action act;
} actions[] = {
    {TENANTS, FG_HTTP_GET, NULL, fg_admin_list_tenants},
    {TENANTS, FG_HTTP_POST, NULL, fg_admin_create_tenant},
    {TENANTS, FG_HTTP_GET, "", fg_admin_get_tenant},
    {TENANTS, FG_HTTP_POST, ":suspend", fg_admin_suspend_tenant},
    {TENANTS, FG_HTTP_POST, ":resume", fg_admin_resume_tenant},
    {TENANTS, FG_HTTP_DELETE, "", fg_admin_delete_tenant},
    {TENANTS, FG_HTTP_GET, "/limits", fg_admin_get_limits},
    {TENANTS, FG_HTTP_PUT, "/limits", fg_admin_set_limits},
    {TOKENS, FG_HTTP_GET, NULL, fg_admin_list_tokens},
    {TOKENS, FG_HTTP_POST, NULL, fg_admin_create_token},
    {TOKENS, FG_HTTP_GET, "", fg_admin_get_token},
    {TOKENS, FG_HTTP_POST, ":rotate", fg_admin_rotate_token},
    {TOKENS, FG_HTTP_POST, ":revoke", fg_admin_revoke_token},
    {BINDINGS, FG_HTTP_GET, NULL, fg_admin_list_bindings},
    {BINDINGS, FG_HTTP_POST, NULL, fg_admin_create_binding},
    {BINDINGS, FG_HTTP_DELETE, "", fg_admin_delete_binding},
    {SESSIONS ":revoke", FG_HTTP_POST, NULL, fg_admin_revoke_sessions},
    {AUDIT, FG_HTTP_GET, NULL, fg_admin_list_audit},
    {"/api/whoami", FG_HTTP_GET, NULL, whoami},
};

/* Splits /api/tenants/ID:verb and /api/tenants/ID/verb. Returns false if there is no id. */
static bool split_path(struct fg_admin_call *call, const char *root)
{
    struct fg_slice rest = fg_slice_sub(fg_http_path(call->req), strlen(root), SIZE_MAX);
    size_t end = 0;

    if (!fg_slice_starts(rest, "/"))
        return false;
    rest = fg_slice_sub(rest, 1, SIZE_MAX);
    while (end < rest.len && rest.ptr[end] != ':' && rest.ptr[end] != '/')
        end++;
    call->id = fg_slice_sub(rest, 0, end);
    call->verb = fg_slice_sub(rest, end, SIZE_MAX);
    return true;
}

static fg_admin_action find_action(struct fg_admin_call *call)
{
    unsigned method = (unsigned)fg_http_method(call->req);

    if (method == FG_HTTP_HEAD)
        method = FG_HTTP_GET;
    for (size_t i = 0; i < FG_COUNT(actions); i++) {
        struct fg_slice path = fg_http_path(call->req);
        size_t len = strlen(actions[i].path);
        bool has_id;

        if (actions[i].method != method || !fg_slice_starts(path, actions[i].path) ||
            (path.len > len && path.ptr[len] != '/'))
            continue;
        has_id = split_path(call, actions[i].path);
        if (actions[i].verb == NULL ? !has_id : has_id && fg_slice_is(call->verb, actions[i].verb))
            return actions[i].act;
    }
    return NULL;
}

/* A change is not made unless the audit has it. */
static enum fg_code act_on_record(struct fg_admin_call *call, fg_admin_action act,
                                  struct fg_err *err)
{
    enum fg_code code;

    if (fg_slice_starts(fg_http_path(call->req), TENANTS))
        call->event.tenant = call->id;
    call->event.detail = fg_slice_sub(fg_http_body(call->req), 0, FG_AUDIT_TEXT_MAX_BYTES);
    if (fg_audit_begin(call->api->audit, &call->event, err) != FG_OK)
        return err->code;
    code = act(call, err);
    /* The first record says what was asked for, the second one what was made. */
    call->event.detail = call->made;
    if (fg_slice_starts(fg_http_path(call->req), TENANTS))
        call->event.tenant = call->id; /* of one that was created */
    fg_audit_result(call->api->audit, &call->event, code, err);
    return code;
}

static enum fg_code run(struct fg_job *job, struct fg_err *err)
{
    struct fg_admin_call *call = fg_container(job, struct fg_admin_call, job);
    fg_admin_action act = find_action(call);

    if (act == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "there is nothing like that");
    if (call->registry == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "the registry of access was not read yet");
    if ((fg_http_method(call->req) & (FG_HTTP_GET | FG_HTTP_HEAD)
             ? act(call, err)
             : act_on_record(call, act, err)) != FG_OK)
        return err->code;
    fg_buf_putc(&call->body, '\n');
    return call->body.full ? fg_fail(err, FG_E_TOO_LARGE, "the answer is too large") : FG_OK;
}

static void done(struct fg_job *job)
{
    struct fg_admin_call *call = fg_container(job, struct fg_admin_call, job);

    /* Answers may have a secret, which no cache may keep. */
    fg_http_add_header(call->req, "Cache-Control", "no-store");
    if (job->code != FG_OK) {
        fg_http_respond_error(call->req, &job->err);
    } else {
        fg_http_respond(call->req, 200, "application/json", &call->body);
    }
    fg_buf_done(&call->body);
    fg_access_registry_unref(call->registry);
    fg_arena_destroy(call->arena);
    free(call);
}

/* Returns the tenant, or the pattern of tenants, that the caller governs; empty: none. Of several
 * tenants the first one, whatever token is used. */
static struct fg_slice governed(const struct fg_grant *grant)
{
    if (grant->kind == FG_GRANT_TOKEN)
        return fg_cstr(grant->token->tenants[0]);
    for (size_t i = 0; grant->kind == FG_GRANT_IDENTITY && i < grant->identity.n_roles; i++)
        if (grant->identity.roles[i].scopes & FG_SCOPE_TENANT_ADMIN)
            return grant->identity.roles[i].tenants;
    return FG_LIT("");
}

/*
 * Those with the scope admin are a flow, and so are the tenant-admins of each tenant: whatever
 * these send, a revocation finds a worker. Searches of the audit, which read for a minute, are
 * flows apart from all else, and take one worker each.
 */
static struct fg_flow flow_of(const struct fg_admin_call *call)
{
    struct fg_flow flow = {.id = GOVERNING};

    if (!fg_admin_is_admin(call))
        flow.id = fg_mix64(GOVERNING ^ fg_hash64_table(governed(call->grant)));
    if (fg_slice_is(fg_http_path(call->req), AUDIT))
        flow = (struct fg_flow){.id = fg_mix64(flow.id ^ SEARCHES),
                                .queued_max = SEARCHES_QUEUED_MAX,
                                .running_max = 1};
    return flow;
}

/* On a loop, so it only takes references: run() does all that waits. */
static void on_request(struct fg_http_request *req, void *arg)
{
    struct fg_admin_api *api = arg;
    struct fg_admin_call *call = fg_new(struct fg_admin_call);
    enum fg_submit submitted;
    struct fg_flow flow;

    call->api = api;
    call->req = req;
    call->grant = fg_access_grant(req);
    call->registry = fg_access_registry(api->access);
    call->arena = fg_arena_create(ARENA_MAX_BYTES);
    call->now_ms = fg_wall_ns(api->clock) / FG_MS_NS;
    call->job.home = fg_http_loop(req);
    call->job.run = run;
    call->job.done = done;
    fg_grant_describe(call->grant, call->who, sizeof call->who);
    call->event = fg_access_audit_event(req, FG_AUDIT_ADMIN, &call->audited);
    fg_buf_init(&call->body, ANSWER_MAX_BYTES);
    flow = flow_of(call);
    submitted = fg_work_submit_flow(api->work, FG_LANE_QUERY, &flow, &call->job);
    if (submitted == FG_SUBMIT_QUEUED)
        return;
    /* No worker has the call, so it ends here, on the loop. */
    call->job.code =
        fg_fail(&call->job.err, FG_E_LIMIT, "too many %s are waiting, try again",
                submitted == FG_SUBMIT_FLOW_FULL ? "searches of the audit" : "requests");
    done(&call->job);
}

void fg_admin_api_routes(struct fg_admin_api *api, struct fg_http_server *server)
{
    const unsigned govern = FG_SCOPE_TENANT_ADMIN | FG_SCOPE_ADMIN;
    const struct fg_http_route routes[] = {
        {.methods = FG_HTTP_GET,
         .path = "/api/whoami",
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_KNOWN,
         .name = "whoami"},
        {.methods = FG_HTTP_GET,
         .path = AUDIT,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "audit"},
        {.methods = FG_HTTP_GET,
         .path = TENANTS,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tenants"},
        {.methods = FG_HTTP_POST,
         .path = TENANTS,
         .kind = FG_HTTP_CHANGES,
         .scopes = FG_SCOPE_ADMIN,
         .name = "tenants"},
        {.methods = FG_HTTP_GET,
         .path = TENANTS "/",
         .prefix = true,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tenant"},
        {.methods = FG_HTTP_POST | FG_HTTP_PUT | FG_HTTP_DELETE,
         .path = TENANTS "/",
         .prefix = true,
         .kind = FG_HTTP_CHANGES,
         .scopes = FG_SCOPE_ADMIN,
         .name = "tenant"},
        {.methods = FG_HTTP_GET,
         .path = TOKENS,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "tokens"},
        {.methods = FG_HTTP_POST,
         .path = TOKENS,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "tokens"},
        {.methods = FG_HTTP_GET,
         .path = TOKENS "/",
         .prefix = true,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "token"},
        {.methods = FG_HTTP_POST,
         .path = TOKENS "/",
         .prefix = true,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "token"},
        {.methods = FG_HTTP_GET,
         .path = BINDINGS,
         .kind = FG_HTTP_READS,
         .scopes = govern,
         .name = "bindings"},
        {.methods = FG_HTTP_POST,
         .path = BINDINGS,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "bindings"},
        {.methods = FG_HTTP_DELETE,
         .path = BINDINGS "/",
         .prefix = true,
         .kind = FG_HTTP_CHANGES,
         .scopes = govern,
         .name = "binding"},
        {.methods = FG_HTTP_POST,
         .path = SESSIONS ":revoke",
         .kind = FG_HTTP_CHANGES,
         .scopes = FG_SCOPE_ADMIN,
         .name = "sessions"},
    };

    for (size_t i = 0; i < FG_COUNT(routes); i++) {
        struct fg_http_route route = routes[i];

        route.handler = on_request;
        route.arg = api;
        route.body_max_bytes = route.kind == FG_HTTP_READS ? 0 : FG_ADMIN_BODY_MAX_BYTES;
        fg_http_server_route(server, &route);
    }
}
