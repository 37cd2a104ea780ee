#include "common/access/access_impl.h"
#include "common/base/hash.h"
#include "common/runtime/log.h"

/* An unknown token makes the registry be read again if the last time is longer ago. */
#define READ_AGAIN_NS FG_SECOND_NS

/* ---- the decision ---- */

/* The decision about a request, attached to it and in its arena. */
struct attached {
    struct fg_grant grant;               /* first: handlers get it */
    struct fg_access_registry *registry; /* a reference; NULL: none */
    int64_t known_mono_ns;               /* the bucket had this registry then, or later */
    struct fg_person person;             /* zeroed: a token of ours, or nobody */
    struct fg_access *access;
    const struct fg_http_request *req;
};

/* Refusals may come as fast as requests, so equal ones are summed up. The route stands for the
 * path, since a stranger can think of any number of paths. */
static void record_refusal(struct fg_access *access, const struct fg_http_request *req,
                           const char *id, const struct fg_err *err)
{
    fg_audit_count(
        access->config.audit,
        &(struct fg_audit_event){.kind = FG_AUDIT_REFUSED,
                                 .token = fg_cstr(id),
                                 .method = fg_cstr(fg_http_method_name(fg_http_method(req))),
                                 .route = fg_http_route_path(req),
                                 .detail = fg_cstr(err->msg),
                                 .source = fg_http_peer(req),
                                 .status = fg_code_http(err->code)});
}

/* Counts, records and logs a refusal. Too many of one address become 429. */
static void refuse(struct fg_access *access, const struct fg_http_request *req, const char *id,
                   struct fg_err *err)
{
    if (err->code == FG_E_DENIED) {
        fg_metric_add(access->metrics, ACCESS_NO_SCOPE, 1);
    } else if (fg_http_header(req, "Authorization").ptr == NULL) {
        fg_metric_add(access->metrics, ACCESS_NO_CREDENTIALS, 1);
        return; /* every log-in of a person begins like this */
    } else if (!fg_attempts_take(access->attempts, fg_http_peer(req),
                                 fg_mono_ns(access->config.clock))) {
        fg_metric_add(access->metrics, ACCESS_TOO_MANY, 1);
        (void)fg_fail(err, FG_E_LIMIT,
                      "too many requests with wrong credentials from this address "
                      "(access.failures_per_minute)");
        record_refusal(access, req, "", err);
        return;
    } else {
        fg_metric_add(access->metrics, ACCESS_BAD_CREDENTIALS, 1);
    }
    record_refusal(access, req, id, err);
    fg_log_warn("request refused", fg_lb("peer", fg_http_peer(req)),
                fg_lb("path", fg_http_path(req)), fg_ls("token", id), fg_ls("err", err->msg));
}

/* Queries need a registry of today. Pushes go on: losing profiles would help nobody. */
static bool is_too_old(const struct fg_access *access, unsigned scopes)
{
    int64_t age_ns = fg_mono_ns(access->config.clock) -
                     atomic_load_explicit(&access->seen_mono_ns, memory_order_relaxed);

    return access->mode == FG_ACCESS_TOKEN && !(scopes & (FG_SCOPE_PUSH | FG_SCOPE_FORWARD)) &&
           age_ns > access->config.settings->stale_max_ns;
}

/*
 * Returns since when these credentials, or the name of this tenant, have been used without success,
 * or INT64_MIN: for too long to be new. A fixed number of them is remembered, and the first use of
 * each is an attempt of its address: whoever thinks of ever new ones is refused like anybody with
 * wrong ones.
 */
static int64_t stranger_since(struct fg_access *access, const struct fg_http_request *req,
                              struct fg_slice text, int64_t now_ns)
{
    uint64_t key = fg_mix64(fg_hash64(text) ^ access->seed);
    struct stranger *stranger = &access->strangers[key % FG_ACCESS_STRANGERS];
    int64_t since_ns = INT64_MIN;

    (void)pthread_mutex_lock(&access->lock);
    if (stranger->key != key && fg_attempts_take(access->attempts, fg_http_peer(req), now_ns))
        *stranger = (struct stranger){key, now_ns};
    if (stranger->key == key)
        since_ns = stranger->since_mono_ns;
    (void)pthread_mutex_unlock(&access->lock);
    return since_ns;
}

/* Has the registry read again, once a second at most, also while the bucket does not answer. */
static void read_again(struct fg_access *access)
{
    int64_t since_ns = fg_mono_ns(access->config.clock) -
                       atomic_load_explicit(&access->looked_mono_ns, memory_order_relaxed);

    if (since_ns > READ_AGAIN_NS)
        fg_access_wake(access);
    fg_metric_add(access->metrics, ACCESS_NOT_LOADED, 1);
}

/*
 * Returns whether a token that was refused may have been created, or have got its secret, after the
 * registry was read by which it was refused. Agents drop what gets a 401, so such a request is to
 * come again, until the registry was read after its first time. One that is damaged was not read.
 */
static bool may_be_new(struct fg_access *access, const struct fg_http_request *req,
                       const struct attached *attached, const char *id)
{
    /* The mode header refuses requests before it has read any registry. */
    const Access__Token *token = attached->registry == NULL
                                     ? NULL
                                     : fg_access_find_token(attached->registry, fg_cstr(id), NULL);

    if (id[0] == '\0' ||
        (token != NULL && fg_access_token_has_ended(token, fg_access_now_ms(access))))
        return false;
    return attached->known_mono_ns < stranger_since(access, req,
                                                    fg_http_header(req, "Authorization"),
                                                    fg_mono_ns(access->config.clock));
}

/* The same of a tenant: what agents of a new one push before each process has read of it must not
 * get a 403, which they drop. Of struct fg_grant. */
static bool tenant_may_be_new(void *arg, struct fg_slice tenant)
{
    const struct attached *attached = arg;
    struct fg_access *access = attached->access;

    if (attached->known_mono_ns >=
        stranger_since(access, attached->req, tenant, fg_mono_ns(access->config.clock)))
        return false;
    read_again(access);
    return true;
}

/* Finds out whether an issuer or a session vouches for the caller. false: what the request has is
 * not valid, or cannot be judged now. */
static bool identify(struct fg_access *access, struct fg_http_request *req, unsigned scopes,
                     struct attached *attached, struct fg_access_facts *facts, struct fg_err *err)
{
    if (access->people == NULL || access->mode != FG_ACCESS_TOKEN)
        return true;
    switch (fg_people_identify(access->people, req, attached->registry, scopes, &attached->person,
                               err)) {
    case FG_OK:
        facts->identity = &attached->person.identity;
        return true;
    case FG_E_NOT_FOUND:
        return true;
    case FG_E_NO_TENANT:
        if (facts->authorization.ptr != NULL) {
            fg_log_info("a token of an issuer was refused", fg_lb("peer", fg_http_peer(req)),
                        fg_ls("err", err->msg));
            (void)fg_fail(err, FG_E_NO_TENANT, "the credentials are not valid");
        }
        refuse(access, req, "", err);
        return false;
    default:
        fg_metric_add(access->metrics,
                      err->code == FG_E_DENIED ? ACCESS_NO_SCOPE : ACCESS_NOT_LOADED, 1);
        return false;
    }
}

static bool decide(struct fg_access *access, struct fg_http_request *req, bool operators,
                   unsigned scopes, struct attached *attached, struct fg_err *err)
{
    struct fg_access_facts facts = {
        .mode = access->mode,
        .trusted =
            access->mode == FG_ACCESS_HEADER &&
            (fg_http_has_certificate(req) || fg_networks_have(&access->trusted, fg_http_peer(req))),
        .operators = operators,
        .authorization = fg_http_header(req, "Authorization"),
        .scopes = scopes,
        .now_ms = fg_access_now_ms(access),
    };
    char id[FG_TOKEN_ID_CHARS + 1];

    if (access->mode == FG_ACCESS_TOKEN &&
        (attached->registry == NULL || is_too_old(access, scopes))) {
        fg_metric_add(access->metrics, ACCESS_NOT_LOADED, 1);
        (void)fg_fail(err, FG_E_UNAVAILABLE,
                      "the registry of access cannot be read from the bucket, try again");
        return false;
    }
    if (!identify(access, req, scopes, attached, &facts, err))
        return false;
    if (fg_access_decide(&facts, attached->registry, &attached->grant, id, err) == FG_OK) {
        fg_token_use_note(attached->grant.use, facts.now_ms);
        attached->grant.may_be_new = tenant_may_be_new;
        attached->grant.arg = attached;
        return true;
    }
    if (err->code == FG_E_NO_TENANT && may_be_new(access, req, attached, id)) {
        read_again(access);
        (void)fg_fail(err, FG_E_UNAVAILABLE,
                      "the token may be new: the registry is read again, try again");
        return false;
    }
    refuse(access, req, id, err);
    return false;
}

static bool admit(struct fg_access *access, struct fg_http_request *req, bool operators,
                  unsigned scopes, struct fg_err *err)
{
    struct attached *attached = fg_arena_alloc(fg_http_arena(req), sizeof *attached);

    if (attached == NULL) {
        (void)fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
        return false;
    }
    attached->access = access;
    attached->req = req;
    /* Before the registry, which is of that time or later: a new one that comes in between must not
     * make this one look as new. */
    attached->known_mono_ns = atomic_load_explicit(&access->known_mono_ns, memory_order_acquire);
    attached->registry = fg_access_registry(access);
    attached->person = (struct fg_person){.verified = NULL};
    if (!decide(access, req, operators, scopes, attached, err)) {
        if (err->code == FG_E_NO_TENANT)
            fg_people_challenge(access->people, req);
        fg_person_done(&attached->person);
        fg_access_registry_unref(attached->registry);
        return false;
    }
    fg_http_set_grant(req, attached);
    return true;
}

static bool admit_client(void *arg, struct fg_http_request *req, unsigned scopes,
                         struct fg_err *err)
{
    return admit(arg, req, false, scopes, err);
}

static bool admit_operator(void *arg, struct fg_http_request *req, unsigned scopes,
                           struct fg_err *err)
{
    return admit(arg, req, true, scopes, err);
}

static void release(void *arg, void *grant)
{
    struct attached *attached = grant;

    (void)arg;
    fg_person_done(&attached->person);
    fg_access_registry_unref(attached->registry);
}

static bool log_in(void *arg, struct fg_http_request *req)
{
    struct fg_access *access = arg;

    return access->mode == FG_ACCESS_TOKEN && fg_people_log_in(access->people, req);
}

struct fg_http_guard fg_access_make_guard(struct fg_access *access, bool operators)
{
    return (struct fg_http_guard){operators ? admit_operator : admit_client, release, log_in,
                                  access, NULL};
}

const struct fg_grant *fg_access_grant(const struct fg_http_request *req)
{
    static const struct fg_grant anyone = {.kind = FG_GRANT_ANYONE, .demanded = FG_SCOPE_KNOWN};
    const struct attached *attached = fg_http_grant(req);

    return attached == NULL ? &anyone : &attached->grant;
}

const struct fg_session *fg_access_session(const struct fg_http_request *req)
{
    const struct attached *attached = fg_http_grant(req);

    return attached == NULL || attached->person.session.subject.ptr == NULL
               ? NULL
               : &attached->person.session;
}

void fg_access_routes(struct fg_access *access, struct fg_http_server *server)
{
    fg_people_routes(access->people, server);
}

struct fg_audit_event fg_access_audit_event(const struct fg_http_request *req,
                                            enum fg_audit_kind kind, struct fg_access_who *who)
{
    const struct fg_grant *grant = fg_access_grant(req);

    fg_grant_describe(grant, who->text, sizeof who->text);
    return (struct fg_audit_event){
        .kind = kind,
        .who = fg_cstr(who->text),
        .token = grant->kind == FG_GRANT_TOKEN ? fg_cstr(grant->token->id) : FG_LIT(""),
        .session = grant->kind == FG_GRANT_IDENTITY ? grant->identity.subject : FG_LIT(""),
        .issuer = grant->kind == FG_GRANT_IDENTITY ? grant->identity.issuer : FG_LIT(""),
        .method = fg_cstr(fg_http_method_name(fg_http_method(req))),
        .route = kind == FG_AUDIT_REFUSED ? fg_http_route_path(req) : fg_http_path(req),
        .source = fg_http_peer(req),
    };
}

/* Writes those of the tenants that exist, as "a|b": a stranger can think of any number of others.
 * The texts of what is counted are cut anyway. */
static struct fg_slice known_tenants(const struct fg_access_registry *registry,
                                     struct fg_slice names, char *out, size_t size)
{
    struct fg_tenant_ids ids;
    struct fg_err ignored;
    size_t len = 0;

    out[0] = '\0';
    if (registry == NULL || fg_tenant_ids_parse(names, &ids, &ignored) != FG_OK)
        return fg_cstr(out);
    for (size_t i = 0; i < ids.n; i++)
        if (fg_access_find_tenant(registry, ids.ids[i]) != NULL && len + ids.ids[i].len + 2 < size)
            len += (size_t)snprintf(out + len, size - len, "%s%.*s", len == 0 ? "" : "|",
                                    FG_S(ids.ids[i]));
    return fg_cstr(out);
}

/* Records that a caller asked for a tenant that it has no access to. */
static enum fg_code record_denied(const struct fg_http_request *req, struct fg_tenant_names names,
                                  enum fg_code code, const struct fg_err *err)
{
    const struct attached *attached = fg_http_grant(req);
    struct fg_access_who who;
    struct fg_audit_event event;
    char tenants[2 * (FG_TENANT_MAX_BYTES + 1)];

    if (code != FG_E_DENIED || attached == NULL)
        return code;
    event = fg_access_audit_event(req, FG_AUDIT_REFUSED, &who);
    event.tenant =
        known_tenants(attached->registry, names.header.len > 0 ? names.header : names.param,
                      tenants, sizeof tenants);
    event.detail = fg_cstr(err->msg);
    event.status = fg_code_http(code);
    fg_audit_count(attached->access->config.audit, &event);
    return code;
}

static enum fg_code read_names(struct fg_http_request *req, struct fg_tenant_names *ret_names,
                               struct fg_err *err)
{
    *ret_names = (struct fg_tenant_names){.header = fg_http_header(req, FG_TENANT_HEADER)};
    return fg_http_params(req, "tenant", &ret_names->param, 1) <= 1
               ? FG_OK
               : fg_fail(err, FG_E_DENIED, "the request has several parameters tenant");
}

enum fg_code fg_access_tenants(struct fg_http_request *req, bool several,
                               struct fg_tenant_ids *ret_ids, struct fg_err *err)
{
    struct fg_tenant_names names;
    enum fg_code code = read_names(req, &names, err);

    if (code == FG_OK)
        code = fg_grant_tenants(fg_access_grant(req), several, names, ret_ids, err);
    return record_denied(req, names, code, err);
}

enum fg_code fg_access_tenant(struct fg_http_request *req, bool several, struct fg_slice *ret_id,
                              struct fg_err *err)
{
    struct fg_tenant_names names;
    enum fg_code code = read_names(req, &names, err);

    if (code == FG_OK)
        code = fg_grant_tenant(fg_access_grant(req), several, names, ret_id, err);
    return record_denied(req, names, code, err);
}
