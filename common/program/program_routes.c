#include "common/program/program_routes.h"

#include "common/access/registry/registry.h"
#include "common/base/json_writer.h"
#include "common/base/time.h"
#include "common/net/connect.h"
#include "common/program/health_v1.pb-c.h"
#include "common/program/version.h"

enum {
    ADMIN_ANSWER_MAX_BYTES = 16 * 1024 * 1024,
    HEALTH_MAX_BYTES = 4096, /* of a request: the name of a service */
};

static void get_ready(struct fg_http_request *req, void *arg)
{
    const struct fg_program_routes *routes = arg;
    struct fg_buf text, conditions;
    bool fault;

    fg_buf_init(&text, ADMIN_ANSWER_MAX_BYTES);
    fg_buf_init(&conditions, ADMIN_ANSWER_MAX_BYTES);
    fg_buf_puts(&text, "not ready: ");
    /* On a loop, so unready() must not wait. */
    fault = routes->unready(routes->arg, &text);
    if (fault) {
        fg_buf_putc(&text, '\n');
    } else {
        fg_buf_clear(&text);
        fg_buf_puts(&text, "ready");
    }
    /* Conditions are listed, too, but do not make the service unready: a load balancer would
     * take away what still works. */
    fg_conditions_write(routes->conditions, &conditions);
    if (conditions.len > 0 && !fault)
        fg_buf_putc(&text, '\n');
    fg_buf_put(&text, fg_buf_slice(&conditions));
    fg_buf_done(&conditions);
    fg_http_respond(req, fault ? 503 : 200, "text/plain", &text);
}

/* The loop answers, so it is alive; liveness must not depend on the bucket or on other services. */
static void get_healthz(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    fg_buf_puts(&body, "ok\n");
    fg_http_respond(req, 200, "text/plain", &body);
}

/* What /ready says, for clients of gRPC. It takes no worker: those may all be busy. */
static void check_health(struct fg_http_request *req, void *arg)
{
    const struct fg_program_routes *routes = arg;
    Grpc__Health__V1__HealthCheckResponse out = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct fg_arena *arena;
    struct fg_connect_call call;
    struct fg_buf why, body;
    ProtobufCMessage *in;
    struct fg_err err;

    /* The limit of time has no use: the answer is made at once, on the loop. */
    if (!fg_connect_accept(req, fg_mono_ns(fg_clock_real()), FG_MINUTE_NS, &call))
        return;
    arena = fg_arena_create(ADMIN_ANSWER_MAX_BYTES);
    if (fg_connect_read(&call, &grpc__health__v1__health_check_request__descriptor,
                        HEALTH_MAX_BYTES, arena, &in, &err) != FG_OK) {
        fg_connect_refuse(req, &call, &err);
    } else {
        fg_buf_init(&why, ADMIN_ANSWER_MAX_BYTES);
        fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
        out.status = routes->unready(routes->arg, &why)
                         ? GRPC__HEALTH__V1__SERVING_STATUS__SERVING_STATUS_NOT_SERVING
                         : GRPC__HEALTH__V1__SERVING_STATUS__SERVING_STATUS_SERVING;
        fg_connect_write(&call, &out.base, NULL, &body);
        fg_connect_respond(req, &call, &body);
        fg_buf_done(&body);
        fg_buf_done(&why);
    }
    fg_arena_destroy(arena);
}

/* A client that gets this goes on without watching, as the protocol wants it (gRPC Health Checking
 * Protocol), so it holds no stream open here. */
static void watch_health(struct fg_http_request *req, void *arg)
{
    struct fg_connect_call call;
    struct fg_err err;

    (void)arg;
    if (!fg_connect_accept(req, fg_mono_ns(fg_clock_real()), FG_MINUTE_NS, &call))
        return;
    (void)fg_fail(&err, FG_E_UNIMPLEMENTED, "health is not watched here: ask Check");
    fg_connect_refuse(req, &call, &err);
}

/* Pyroscope's clients get JSON for a path that is not there. */
static void get_nothing(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;

    (void)arg;
    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    fg_buf_puts(&body, "{\"code\":5,\"message\":\"Not Found\",\"details\":[]}");
    fg_http_respond(req, 404, "application/json", &body);
}

static void get_config(struct fg_http_request *req, void *arg)
{
    const struct fg_program_routes *routes = arg;
    struct fg_buf body;

    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    fg_conf_write_yaml(routes->conf, &body);
    fg_http_respond(req, 200, "text/plain; charset=utf-8", &body);
}

static void put_setting(void *arg, const struct fg_conf_setting *setting)
{
    struct fg_json_writer *json = arg;
    const char *def = setting->field->def;

    fg_json_begin_object(json, NULL);
    fg_json_put_text(json, "name", setting->name);
    fg_json_put_text(json, "value", setting->value);
    fg_json_put_cstr(json, "default", def == NULL ? "" : def);
    fg_json_put_bool(json, "differs", setting->differs);
    fg_json_put_cstr(json, "meaning", setting->field->doc);
    fg_json_end(json);
}

void fg_program_routes_write_settings(const struct fg_program_routes *routes,
                                      void (*put_more)(void *arg, struct fg_json_writer *json),
                                      void *arg, struct fg_buf *out)
{
    struct fg_json_writer json = fg_json_writer(out);

    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "program", routes->program);
    fg_json_put_cstr(&json, "version", fg_program_version());
    fg_json_put_cstr(&json, "revision", fg_program_revision());
    fg_json_put_i64(&json, "startedMs", routes->started_ms);
    fg_json_begin_array(&json, "settings");
    fg_conf_each(routes->conf, put_setting, &json);
    fg_json_end(&json);
    if (put_more != NULL)
        put_more(arg, &json);
    fg_json_end(&json);
    fg_buf_putc(out, '\n');
}

/* Settings name files, addresses and tenants, so they are for admins. */
static void get_settings(struct fg_http_request *req, void *arg)
{
    const struct fg_program_routes *routes = arg;
    struct fg_slice member = fg_http_param(req, "member");
    struct fg_buf body;
    struct fg_err err;

    /* Settings are for admins, and a cache may be read by others. */
    fg_http_add_header(req, "Cache-Control", "no-store");
    if (routes->answer_settings != NULL) {
        routes->answer_settings(routes->answer_arg, member, req);
        return;
    }
    if (member.len > 0) {
        (void)fg_fail(&err, FG_E_NOT_FOUND, "this program is the only member");
        fg_http_respond_error(req, &err);
        return;
    }
    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    fg_program_routes_write_settings(routes, NULL, NULL, &body);
    fg_http_respond(req, 200, "application/json", &body);
}

/* "read,rules"; "open" and "known" as of enum fg_scope. */
static void put_scopes(struct fg_json_writer *json, unsigned scopes)
{
    struct fg_buf names;

    fg_buf_init(&names, ADMIN_ANSWER_MAX_BYTES);
    if (scopes == (unsigned)FG_SCOPE_OPEN)
        fg_buf_puts(&names, "open");
    else if (scopes == FG_SCOPE_KNOWN)
        fg_buf_puts(&names, "known");
    else
        fg_access_write_scopes(scopes, &names);
    fg_json_put_text(json, "scopes", fg_buf_slice(&names));
    fg_buf_done(&names);
}

static void put_routes(struct fg_json_writer *json, const char *name,
                       const struct fg_http_server *server)
{
    static const char *const kinds[] = {[FG_HTTP_PROBE] = "probe",
                                        [FG_HTTP_READS] = "reads",
                                        [FG_HTTP_CHANGES] = "changes",
                                        [FG_HTTP_OPERATES] = "operates"};
    size_t n;
    const struct fg_http_route *routes = fg_http_server_routes(server, &n);

    fg_json_begin_array(json, name);
    for (size_t i = 0; i < n; i++) {
        fg_json_begin_object(json, NULL);
        fg_json_put_cstr(json, "path", routes[i].path);
        fg_json_put_bool(json, "prefix", routes[i].prefix);
        fg_json_begin_array(json, "methods");
        for (unsigned method = FG_HTTP_GET; method <= FG_HTTP_OPTIONS; method <<= 1)
            if (routes[i].methods & method)
                fg_json_put_cstr(json, NULL, fg_http_method_name((enum fg_http_method)method));
        fg_json_end(json);
        fg_json_put_cstr(json, "kind", kinds[routes[i].kind]);
        put_scopes(json, routes[i].scopes);
        fg_json_end(json);
    }
    fg_json_end(json);
}

static void get_routes(struct fg_http_request *req, void *arg)
{
    const struct fg_program_routes *routes = arg;
    struct fg_buf body;
    struct fg_json_writer json = fg_json_writer(&body);

    /* The writer took the address only, so the buffer may be initialised after it. */
    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    fg_json_begin_object(&json, NULL);
    put_routes(&json, "listen", routes->clients);
    put_routes(&json, "admin_listen", routes->operators);
    fg_json_end(&json);
    fg_buf_putc(&body, '\n');
    fg_http_respond(req, 200, "application/json", &body);
}

static void get_buildinfo(struct fg_http_request *req, void *arg)
{
    struct fg_buf body;
    struct fg_json_writer json = fg_json_writer(&body);

    (void)arg;
    fg_buf_init(&body, ADMIN_ANSWER_MAX_BYTES);
    /* The shape and the names are Pyroscope's; goVersion is what its clients print as the tool
     * chain. */
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "status", "success");
    fg_json_begin_object(&json, "data");
    fg_json_put_cstr(&json, "version", fg_program_version());
    fg_json_put_cstr(&json, "revision", fg_program_revision());
    fg_json_put_cstr(&json, "branch", "");
    fg_json_put_cstr(&json, "buildUser", "");
    fg_json_put_cstr(&json, "buildDate", "");
    fg_json_put_cstr(&json, "goVersion", "");
    fg_json_end(&json);
    fg_json_end(&json);
    fg_buf_putc(&body, '\n');
    fg_http_respond(req, 200, "application/json", &body);
}

static void add_routes(struct fg_program_routes *routes, struct fg_http_server *server,
                       const struct fg_http_route *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct fg_http_route route = list[i];

        /* Most routes are GET; the table says so only for others. */
        if (route.methods == 0)
            route.methods = FG_HTTP_GET;
        route.arg = routes;
        fg_http_server_route(server, &route);
    }
}

void fg_program_routes_add(struct fg_program_routes *routes, struct fg_http_server *clients,
                           struct fg_http_server *operators)
{
    const struct fg_http_route for_all[] = {
        /* Probes name no scopes, which makes them open: whatever asks them has no token. */
        {.path = "/ready", .handler = get_ready, .kind = FG_HTTP_PROBE},
        {.path = "/healthz", .handler = get_healthz, .kind = FG_HTTP_PROBE},
        {.path = "/buildinfo",
         .handler = get_buildinfo,
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_KNOWN},
        {.path = "/api/v1/status/buildinfo",
         .handler = get_buildinfo,
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_KNOWN},
        {.path = "/api/v1/",
         .prefix = true,
         .handler = get_nothing,
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_KNOWN},
        {.methods = FG_CONNECT_METHODS,
         .path = "/grpc.health.v1.Health/Check",
         .body_max_bytes = HEALTH_MAX_BYTES,
         .handler = check_health,
         .kind = FG_HTTP_PROBE},
        {.methods = FG_CONNECT_METHODS,
         .path = "/grpc.health.v1.Health/Watch",
         .body_max_bytes = HEALTH_MAX_BYTES,
         .handler = watch_health,
         .kind = FG_HTTP_PROBE},
    };
    const struct fg_http_route for_operators[] = {
        /* Not for clients: settings name files, addresses and tenants. Secrets are hidden
         * everywhere. */
        {.path = "/config", .handler = get_config, .kind = FG_HTTP_READS, .scopes = FG_SCOPE_ADMIN},
        {.path = "/api/v1/status/config",
         .handler = get_config,
         .kind = FG_HTTP_READS,
         .scopes = FG_SCOPE_ADMIN},
        {.path = "/routes", .handler = get_routes, .kind = FG_HTTP_READS, .scopes = FG_SCOPE_ADMIN},
    };

    routes->clients = clients;
    routes->operators = operators;

    add_routes(routes, clients, for_all, FG_COUNT(for_all));
    add_routes(routes, operators, for_all, FG_COUNT(for_all));
    add_routes(routes, operators, for_operators, FG_COUNT(for_operators));
}

void fg_program_routes_add_settings(struct fg_program_routes *routes)
{
    const struct fg_http_route route = {.path = "/api/settings",
                                        .handler = get_settings,
                                        .kind = FG_HTTP_READS,
                                        .scopes = FG_SCOPE_ADMIN};

    add_routes(routes, routes->clients, &route, 1);
}
