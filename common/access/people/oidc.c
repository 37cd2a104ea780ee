/*
 *   loop of the request           loop of the issuers
 *   callback: state, code ------> exchange: POST to the token endpoint
 *   callback_end <--------------- done
 *     ID token, session, cookie
 */
#include "common/access/people/oidc.h"

#include "common/access/audit/audit.h"
#include "common/access/guard/attempts.h"
#include "common/access/guard/decide.h"
#include "common/access/people/oidc_core.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/runtime/log.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

enum {
    URL_MAX_BYTES = 8 * 1024,
    COOKIE_LINE_MAX_BYTES = FG_COOKIE_MAX_BYTES + 256,
    FORM_MAX_BYTES = 4096, /* of a log-out */
    WHO_MAX_BYTES = 256,   /* of a record of the audit */
    CODE_MAX_BYTES = 4096, /* of the provider; the known ones are below 2 KiB */
    EXCHANGE_ARENA_BYTES = 1024 * 1024,
    /* At a time: fewer than the client runs (issuer.c), so that log-ins with a slow provider do not
     * hold up the keys by which tokens are checked. */
    EXCHANGES_MAX = 24,
};

static const int64_t CONNECT_TIMEOUT_NS = 5 * FG_SECOND_NS;
static const int64_t TIMEOUT_NS = 10 * FG_SECOND_NS;

#define CALLBACK_PATH "/auth/callback"
#define RESOURCE_PATH "/.well-known/oauth-protected-resource"
#define CSRF_HEADER   "X-Flamegrid-Csrf"

struct fg_oidc {
    struct fg_oidc_config config;
    char *issuer, *client_id, *client_secret, *scopes, *public_url, *redirect_url,
        *device_client_id;
    struct fg_oidc_client client;
    const char *session_cookie, *login_cookie, *attributes;

    /* The issuers' loop's. */
    struct exchange *exchanges; /* under way */
    unsigned n_exchanges;
    bool stopped;
};

/* A code on its way to the provider. */
struct exchange {
    struct fg_oidc *oidc;
    struct fg_http_request *req;
    struct fg_loop *home;
    struct fg_msg msg;
    struct fg_client_request request;
    struct fg_buf body, authorization;
    const char *headers[4];
    char *url;
    struct fg_login login; /* its path is in the request's arena */
    struct exchange *before, *next;
};

/* ---- answers ---- */

static int64_t now_s(const struct fg_oidc *oidc)
{
    return fg_wall_ns(oidc->config.clock) / FG_SECOND_NS;
}

static void redirect(struct fg_http_request *req, const char *url)
{
    fg_http_add_header(req, "Cache-Control", "no-store");
    fg_http_add_header(req, "Location", url);
    fg_http_respond(req, 303, NULL, NULL);
}

static void fail(struct fg_http_request *req, const struct fg_err *err)
{
    fg_http_add_header(req, "Cache-Control", "no-store");
    fg_http_respond_error(req, err);
}

/* value "": the browser forgets the cookie. */
static void set_cookie(const struct fg_oidc *oidc, struct fg_http_request *req, const char *name,
                       struct fg_slice value, int64_t max_age_s)
{
    char line[COOKIE_LINE_MAX_BYTES];

    (void)snprintf(line, sizeof line, "%s=%.*s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Lax%s",
                   name, FG_S(value), (long long)max_age_s, oidc->attributes);
    fg_http_add_header(req, "Set-Cookie", line);
}

static void random_bytes(void *out, size_t len)
{
    fg_assert(RAND_bytes(out, (int)len) == 1);
}

static enum fg_code set_session(struct fg_oidc *oidc, struct fg_http_request *req,
                                const struct fg_session *session, struct fg_err *err)
{
    struct fg_cookie_keys keys = fg_session_keys_get(oidc->config.keys);
    uint8_t nonce[FG_COOKIE_NONCE_BYTES];
    struct fg_buf cookie;
    enum fg_code code;

    random_bytes(nonce, sizeof nonce);
    fg_buf_init(&cookie, FG_COOKIE_MAX_BYTES);
    code = fg_session_seal(session, &keys, nonce, &cookie, err);
    if (code == FG_OK)
        set_cookie(oidc, req, oidc->session_cookie, fg_buf_slice(&cookie),
                   session->issued_s + FG_SESSION_MAX_S - now_s(oidc));
    fg_buf_done(&cookie);
    return code;
}

/* ---- GET /auth/login ---- */

static enum fg_code begin_login(struct fg_oidc *oidc, struct fg_http_request *req,
                                struct fg_buf *url, struct fg_err *err)
{
    struct fg_cookie_keys keys = fg_session_keys_get(oidc->config.keys);
    struct fg_discovery discovery = {.authorization = NULL};
    uint8_t nonce[FG_COOKIE_NONCE_BYTES];
    struct fg_login login = {.begun_s = now_s(oidc)};
    struct fg_buf cookie;
    enum fg_code code;

    if (fg_issuers_discovery(oidc->config.issuers, oidc->issuer, fg_http_arena(req), &discovery,
                             err) != FG_OK)
        return err->code;
    if (discovery.authorization == NULL || discovery.token == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "%.200s has no log-in for people", oidc->issuer);
    random_bytes(nonce, sizeof nonce);
    random_bytes(login.state, sizeof login.state);
    random_bytes(login.nonce, sizeof login.nonce);
    random_bytes(login.verifier, sizeof login.verifier);
    login.return_path = fg_oidc_return_path(fg_http_param(req, "return"));
    fg_oidc_authorization_url(&discovery, &oidc->client, oidc->scopes, &login, url);
    fg_buf_putc(url, '\0');
    if (url->full)
        return fg_fail(err, FG_E_UNAVAILABLE, "the URL of the log-in is too long");
    fg_buf_init(&cookie, FG_COOKIE_MAX_BYTES);
    code = fg_login_seal(&login, &keys, nonce, &cookie, err);
    if (code == FG_OK)
        set_cookie(oidc, req, oidc->login_cookie, fg_buf_slice(&cookie), FG_LOGIN_MAX_S);
    fg_buf_done(&cookie);
    return code;
}

static void on_login(struct fg_http_request *req, void *arg)
{
    struct fg_oidc *oidc = arg;
    struct fg_buf url;
    struct fg_err err;

    fg_buf_init(&url, URL_MAX_BYTES);
    if (begin_login(oidc, req, &url, &err) == FG_OK)
        redirect(req, (const char *)url.ptr);
    else
        fail(req, &err);
    fg_buf_done(&url);
}

void fg_oidc_go_log_in(struct fg_http_request *req)
{
    struct fg_slice query = fg_http_query(req);
    struct fg_buf url, back;

    fg_buf_init(&url, URL_MAX_BYTES);
    fg_buf_init(&back, FG_LOGIN_RETURN_MAX_BYTES);
    fg_buf_put(&back, fg_http_path(req));
    if (query.len > 0)
        fg_buf_printf(&back, "?%.*s", FG_S(query));
    fg_buf_puts(&url, FG_OIDC_LOGIN_PATH "?return=");
    if (!back.full) /* else to the start page */
        fg_buf_url(&url, fg_buf_slice(&back));
    fg_buf_putc(&url, '\0');
    redirect(req, (const char *)url.ptr);
    fg_buf_done(&url);
    fg_buf_done(&back);
}

/* ---- GET /auth/callback: the exchange ---- */

static void exchange_free(struct exchange *exchange)
{
    fg_client_clear(&exchange->request);
    if (exchange->authorization.ptr != NULL)
        OPENSSL_cleanse(exchange->authorization.ptr, exchange->authorization.cap);
    if (exchange->body.ptr != NULL)
        OPENSSL_cleanse(exchange->body.ptr, exchange->body.cap);
    fg_buf_done(&exchange->authorization);
    fg_buf_done(&exchange->body);
    OPENSSL_cleanse(&exchange->login, sizeof exchange->login);
    free(exchange->url);
    free(exchange);
}

/* Records a log-in or its end; session NULL: of nobody. Strangers can make log-ins fail, so these
 * are summed up. */
static void record(struct fg_oidc *oidc, const struct fg_http_request *req,
                   const struct fg_session *session, const char *detail, unsigned status)
{
    char who[WHO_MAX_BYTES];
    struct fg_audit_event event = {
        .kind = FG_AUDIT_LOGIN,
        .who = FG_LIT("nobody"),
        .session = session == NULL ? FG_LIT("") : session->subject,
        .issuer = session == NULL ? FG_LIT("") : session->issuer,
        .method = fg_cstr(fg_http_method_name(fg_http_method(req))),
        .route = fg_http_path(req),
        .detail = fg_cstr(detail),
        .source = fg_http_peer(req),
        .status = status,
    };

    if (session != NULL) {
        fg_person_describe(session->issuer, session->subject, who, sizeof who);
        event.who = fg_cstr(who);
    }
    if (status < 400)
        fg_audit_note(oidc->config.audit, &event);
    else
        fg_audit_count(oidc->config.audit, &event);
}

static enum fg_code make_session(struct exchange *exchange, struct fg_slice token,
                                 struct fg_arena *arena, struct fg_err *err)
{
    struct fg_oidc *oidc = exchange->oidc;
    struct fg_jwt_verified verified = {.expires_s = 0};
    struct fg_session session = {.issued_s = now_s(oidc), .used_s = now_s(oidc)};
    struct fg_buf nonce;
    enum fg_code code;

    fg_buf_init(&nonce, SIZE_MAX);
    fg_oidc_nonce(&exchange->login, &nonce);
    code = fg_issuers_verify_login(oidc->config.issuers, oidc->issuer, token, oidc->client_id,
                                   fg_buf_slice(&nonce), now_s(oidc), arena, &verified, err);
    fg_buf_done(&nonce);
    if (code != FG_OK)
        return code;
    session.issuer = verified.issuer;
    session.subject = verified.subject;
    session.name = fg_oidc_name(verified.claims, arena);
    random_bytes(session.csrf, sizeof session.csrf);
    if (oidc->config.claims(oidc->config.arg, &verified, arena, &session.claims, &session.n_claims,
                            err) != FG_OK)
        return err->code;
    if (set_session(oidc, exchange->req, &session, err) != FG_OK)
        return err->code;
    fg_log_info("somebody has logged in", fg_lb("subject", session.subject),
                fg_lb("peer", fg_http_peer(exchange->req)));
    record(oidc, exchange->req, &session, "logged in", 303);
    return FG_OK;
}

static enum fg_code end_exchange(struct exchange *exchange, struct fg_arena *arena,
                                 struct fg_err *err)
{
    struct fg_slice token = fg_bytes(NULL, 0);

    if (exchange->request.code != FG_OK) {
        (void)fg_fail(err, FG_E_UNAVAILABLE, "%.400s", exchange->request.err.msg);
        return err->code;
    }
    if (fg_oidc_id_token(exchange->request.status, fg_buf_slice(&exchange->request.answer), arena,
                         &token, err) != FG_OK)
        return err->code;
    return make_session(exchange, token, arena, err);
}

/* On the loop of the request. */
static void on_home(struct fg_msg *msg)
{
    struct exchange *exchange = fg_container(msg, struct exchange, msg);
    struct fg_arena *arena = fg_arena_create(EXCHANGE_ARENA_BYTES);
    struct fg_oidc *oidc = exchange->oidc;
    char *path = fg_arena_text(arena, exchange->login.return_path);
    struct fg_err err;

    fg_assert(path != NULL);
    set_cookie(oidc, exchange->req, oidc->login_cookie, FG_LIT(""), 0);
    if (end_exchange(exchange, arena, &err) == FG_OK) {
        redirect(exchange->req, path);
    } else {
        if (err.code != FG_E_UNAVAILABLE)
            (void)fg_attempts_take(oidc->config.attempts, fg_http_peer(exchange->req),
                                   fg_mono_ns(oidc->config.clock));
        fg_log_warn("log-in refused", fg_lb("peer", fg_http_peer(exchange->req)),
                    fg_ls("err", err.msg));
        record(oidc, exchange->req, NULL, err.msg, fg_code_http(err.code));
        fail(exchange->req, &err);
    }
    exchange_free(exchange);
    fg_arena_destroy(arena);
}

/* Takes it off the list, and sends it home. */
static void go_home(struct exchange *exchange)
{
    struct fg_oidc *oidc = exchange->oidc;

    if (exchange->before != NULL)
        exchange->before->next = exchange->next;
    else
        oidc->exchanges = exchange->next;
    if (exchange->next != NULL)
        exchange->next->before = exchange->before;
    oidc->n_exchanges--;
    exchange->msg.run = on_home;
    fg_loop_post(exchange->home, &exchange->msg);
}

static void on_exchanged(struct fg_client_request *request)
{
    go_home(fg_container(request, struct exchange, request));
}

/* On the issuers' loop. */
static void on_exchange(struct fg_msg *msg)
{
    struct exchange *exchange = fg_container(msg, struct exchange, msg);
    struct fg_oidc *oidc = exchange->oidc;
    size_t n = 0;

    exchange->next = oidc->exchanges;
    if (exchange->next != NULL)
        exchange->next->before = exchange;
    oidc->exchanges = exchange;
    oidc->n_exchanges++;
    exchange->headers[n++] = "Accept: application/json";
    exchange->headers[n++] = "Content-Type: application/x-www-form-urlencoded";
    if (exchange->authorization.len > 0)
        exchange->headers[n++] = (const char *)exchange->authorization.ptr;
    exchange->request = (struct fg_client_request){
        .method = "POST",
        .url = exchange->url,
        .headers = exchange->headers,
        .body = fg_buf_slice(&exchange->body),
        .tls = fg_issuers_tls(oidc->config.issuers, oidc->issuer),
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .timeout_ns = TIMEOUT_NS,
        .body_max_bytes = FG_OIDC_ANSWER_MAX_BYTES,
        .once = true, /* a code is good for one exchange */
        .done = on_exchanged,
    };
    if (oidc->stopped || oidc->n_exchanges > EXCHANGES_MAX) {
        exchange->request.code = fg_fail(&exchange->request.err, FG_E_UNAVAILABLE,
                                         "too many log-ins at a time, try again");
        go_home(exchange);
        return;
    }
    fg_client_send(fg_issuers_client(oidc->config.issuers), &exchange->request);
}

/* ---- GET /auth/callback: what the browser brings ---- */

static enum fg_code open_login(struct fg_oidc *oidc, struct fg_http_request *req,
                               struct fg_login *ret_login, struct fg_err *err)
{
    struct fg_cookie_keys keys = fg_session_keys_get(oidc->config.keys);
    struct fg_slice cookie = fg_http_cookie(req, oidc->login_cookie);
    enum fg_code code = FG_E_DENIED;

    if (cookie.ptr != NULL && keys.n == 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the keys of sessions are not known yet, try again");
    if (cookie.ptr != NULL)
        code = fg_login_open(cookie, &keys, now_s(oidc), fg_http_arena(req), ret_login, err);
    if (code == FG_E_NOT_FOUND) {
        /* Another process may have made the key a moment ago. */
        fg_session_keys_want(oidc->config.keys);
        return fg_fail(err, FG_E_UNAVAILABLE,
                       "the key of this log-in is not known yet: try again, or begin again at "
                       "/auth/login");
    }
    if (code == FG_E_DENIED)
        return fg_fail(err, FG_E_INVALID,
                       "this log-in has ended, or was begun in another browser; begin again at "
                       "/auth/login");
    return code;
}

/* The provider may say no, and may name itself (RFC 9207). */
static enum fg_code check_callback(struct fg_oidc *oidc, struct fg_http_request *req,
                                   const struct fg_login *login, struct fg_slice *ret_code,
                                   struct fg_err *err)
{
    struct fg_slice issuer = fg_http_param(req, "iss"), error = fg_http_param(req, "error");

    if (!fg_oidc_is_state(login, fg_http_param(req, "state")))
        return fg_fail(err, FG_E_INVALID,
                       "this answer is not that to the log-in of this browser; begin again at "
                       "/auth/login");
    if (issuer.ptr != NULL && !fg_slice_is(issuer, oidc->issuer))
        return fg_fail(err, FG_E_INVALID, "the log-in was answered by another issuer");
    if (error.ptr != NULL)
        return fg_fail(err, FG_E_DENIED, "the identity provider says: %.*s",
                       FG_S(fg_slice_sub(error, 0, 100)));
    *ret_code = fg_http_param(req, "code");
    if (ret_code->len == 0 || ret_code->len > CODE_MAX_BYTES)
        return fg_fail(err, FG_E_INVALID, "the answer to the log-in has no code");
    return FG_OK;
}

static enum fg_code begin_exchange(struct fg_oidc *oidc, struct fg_http_request *req,
                                   struct fg_err *err)
{
    struct fg_discovery discovery = {.token = NULL};
    struct fg_login login = {.begun_s = 0};
    struct fg_slice code = fg_bytes(NULL, 0);
    struct exchange *exchange;

    if (open_login(oidc, req, &login, err) != FG_OK ||
        check_callback(oidc, req, &login, &code, err) != FG_OK ||
        fg_issuers_discovery(oidc->config.issuers, oidc->issuer, fg_http_arena(req), &discovery,
                             err) != FG_OK)
        return err->code;
    if (discovery.token == NULL)
        return fg_fail(err, FG_E_UNAVAILABLE, "%.200s has no log-in for people", oidc->issuer);
    if (!fg_attempts_are_left(oidc->config.attempts, fg_http_peer(req),
                              fg_mono_ns(oidc->config.clock)))
        return fg_fail(err, FG_E_LIMIT,
                       "too many log-ins from this address have failed "
                       "(access.failures_per_minute)");
    exchange = fg_new(struct exchange);
    exchange->oidc = oidc;
    exchange->req = req;
    exchange->home = fg_http_loop(req);
    exchange->login = login;
    exchange->url = fg_strdup(discovery.token);
    exchange->msg.run = on_exchange;
    fg_buf_init(&exchange->body, SIZE_MAX);
    fg_buf_init(&exchange->authorization, SIZE_MAX);
    if (!discovery.secret_in_body)
        fg_buf_puts(&exchange->authorization, "Authorization: ");
    fg_oidc_token_request(&discovery, &oidc->client, &login, code, &exchange->body,
                          &exchange->authorization);
    if (!discovery.secret_in_body)
        fg_buf_putc(&exchange->authorization, '\0');
    fg_loop_post(fg_issuers_loop(oidc->config.issuers), &exchange->msg);
    return FG_OK;
}

static void on_callback(struct fg_http_request *req, void *arg)
{
    struct fg_oidc *oidc = arg;
    struct fg_err err;

    if (begin_exchange(oidc, req, &err) == FG_OK)
        return;
    if (err.code != FG_E_UNAVAILABLE && err.code != FG_E_LIMIT) /* else the browser may try again */
        set_cookie(oidc, req, oidc->login_cookie, FG_LIT(""), 0);
    fail(req, &err);
}

/* ---- sessions ---- */

enum fg_code fg_oidc_session(struct fg_oidc *oidc, struct fg_http_request *req,
                             struct fg_session *ret_session, struct fg_err *err)
{
    struct fg_slice cookie = fg_http_cookie(req, oidc->session_cookie);
    struct fg_cookie_keys keys;
    enum fg_code code;

    if (cookie.ptr == NULL)
        return fg_fail(err, FG_E_NOT_FOUND, "the request has no session");
    keys = fg_session_keys_get(oidc->config.keys);
    if (keys.n == 0)
        return fg_fail(err, FG_E_UNAVAILABLE, "the keys of sessions are not known yet, try again");
    code = fg_session_open(cookie, &keys, now_s(oidc), fg_http_arena(req), ret_session, err);
    if (code == FG_E_NOT_FOUND) {
        fg_session_keys_want(oidc->config.keys);
        return fg_fail(err, FG_E_DENIED, "the key of the session is not known");
    }
    return code;
}

void fg_oidc_renew(struct fg_oidc *oidc, struct fg_http_request *req,
                   const struct fg_session *session)
{
    struct fg_session renewed = *session;
    struct fg_err err;

    if (!fg_session_is_due(session, now_s(oidc)))
        return;
    renewed.used_s = now_s(oidc);
    if (set_session(oidc, req, &renewed, &err) != FG_OK)
        fg_log_warn("a session could not be renewed", fg_ls("err", err.msg));
}

bool fg_oidc_is_ours(const struct fg_http_request *req, const struct fg_session *session)
{
    return fg_slice_is(fg_http_header(req, "Sec-Fetch-Site"), "same-origin") ||
           fg_session_has_csrf(session, fg_http_header(req, CSRF_HEADER));
}

/* ---- POST /auth/logout ---- */

/* "csrf=…" in a form without script. */
static bool form_has_csrf(const struct fg_http_request *req, const struct fg_session *session)
{
    struct fg_slice rest = fg_http_body(req);

    while (rest.len > 0) {
        struct fg_slice pair = fg_slice_sub(rest, 0, fg_slice_find(rest, '&'));

        if (fg_slice_starts(pair, "csrf="))
            return fg_session_has_csrf(session, fg_slice_sub(pair, 5, pair.len));
        rest = fg_slice_sub(rest, pair.len + 1, rest.len);
    }
    return false;
}

/* Appends where the browser goes to end the session at the provider; nothing if it stays there. */
static void put_logout_url(struct fg_oidc *oidc, struct fg_http_request *req, struct fg_buf *url)
{
    struct fg_discovery discovery = {.end_session = NULL};
    struct fg_err err;

    if (oidc->config.provider_logout &&
        fg_issuers_discovery(oidc->config.issuers, oidc->issuer, fg_http_arena(req), &discovery,
                             &err) == FG_OK)
        fg_oidc_logout_url(&discovery, &oidc->client, oidc->public_url, url);
    if (url->full)
        fg_buf_clear(url);
}

static bool is_of_a_script(const struct fg_http_request *req)
{
    return fg_http_accept_weight(req, "application/json") > 0;
}

static void tell_location(struct fg_http_request *req, const struct fg_buf *url)
{
    struct fg_json_writer json;
    struct fg_buf body;

    fg_buf_init(&body, (size_t)2 * URL_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    if (url->len > 0)
        fg_json_put_text(&json, "location", fg_buf_slice(url));
    fg_json_end(&json);
    fg_http_add_header(req, "Cache-Control", "no-store");
    fg_http_respond(req, 200, "application/json", &body);
    fg_buf_done(&body);
}

static void on_logout(struct fg_http_request *req, void *arg)
{
    struct fg_oidc *oidc = arg;
    struct fg_session session = {.n_claims = 0};
    struct fg_buf url;
    struct fg_err err;

    if (fg_oidc_session(oidc, req, &session, &err) == FG_OK && !fg_oidc_is_ours(req, &session) &&
        !form_has_csrf(req, &session)) {
        (void)fg_fail(&err, FG_E_DENIED,
                      "the csrf value of the session is missing (" CSRF_HEADER ")");
        fail(req, &err);
        return;
    }
    if (session.subject.len > 0)
        record(oidc, req, &session, "logged out", is_of_a_script(req) ? 200 : 303);
    /* A caller without a session any more is logged out, too. */
    fg_buf_init(&url, URL_MAX_BYTES);
    put_logout_url(oidc, req, &url);
    set_cookie(oidc, req, oidc->session_cookie, FG_LIT(""), 0);
    if (is_of_a_script(req)) {
        tell_location(req, &url);
    } else {
        if (url.len == 0)
            fg_buf_puts(&url, "/");
        fg_buf_putc(&url, '\0');
        redirect(req, (const char *)url.ptr);
    }
    fg_buf_done(&url);
}

/* ---- GET /.well-known/oauth-protected-resource ---- */

static void on_resource(struct fg_http_request *req, void *arg)
{
    struct fg_oidc *oidc = arg;
    struct fg_json_writer json;
    struct fg_buf body;

    fg_buf_init(&body, URL_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "resource", oidc->public_url);
    fg_json_begin_array(&json, "authorization_servers");
    fg_json_put_cstr(&json, NULL, oidc->issuer);
    fg_json_end(&json);
    fg_json_begin_array(&json, "bearer_methods_supported");
    fg_json_put_cstr(&json, NULL, "header");
    fg_json_end(&json);
    fg_json_put_cstr(&json, "resource_name", "flamegrid");
    if (oidc->device_client_id[0] != '\0') { /* what `flamegrid login` needs */
        fg_json_put_cstr(&json, "flamegrid_device_client_id", oidc->device_client_id);
        fg_json_put_cstr(&json, "flamegrid_scopes", oidc->scopes);
    }
    fg_json_end(&json);
    fg_http_respond(req, 200, "application/json", &body);
}

void fg_oidc_challenge(struct fg_oidc *oidc, struct fg_http_request *req)
{
    char value[FG_ACCESS_URL_MAX_BYTES + 128];

    (void)snprintf(value, sizeof value, "Bearer resource_metadata=\"%s%s\"", oidc->public_url,
                   RESOURCE_PATH);
    fg_http_add_header(req, "WWW-Authenticate", value);
}

/* ---- routes ---- */

void fg_oidc_routes(struct fg_oidc *oidc, struct fg_http_server *server)
{
    const struct fg_http_route routes[] = {
        {.methods = FG_HTTP_GET,
         .path = FG_OIDC_LOGIN_PATH,
         .handler = on_login,
         .kind = FG_HTTP_READS,
         .name = "login"},
        {.methods = FG_HTTP_GET,
         .path = CALLBACK_PATH,
         .handler = on_callback,
         .kind = FG_HTTP_READS,
         .name = "login_callback"},
        {.methods = FG_HTTP_POST,
         .path = "/auth/logout",
         .handler = on_logout,
         .kind = FG_HTTP_CHANGES,
         .body_max_bytes = FORM_MAX_BYTES,
         .name = "logout"},
        {.methods = FG_HTTP_GET,
         .path = RESOURCE_PATH,
         .handler = on_resource,
         .kind = FG_HTTP_READS,
         .name = "oauth_protected_resource"},
    };

    for (size_t i = 0; i < FG_COUNT(routes); i++) {
        struct fg_http_route route = routes[i];

        route.arg = oidc;
        route.scopes = (unsigned)FG_SCOPE_OPEN;
        fg_http_server_route(server, &route);
    }
}

/* ---- life ---- */

static enum fg_code check_config(const struct fg_oidc_config *config, struct fg_err *err)
{
    struct fg_slice url = fg_cstr(config->public_url);
    const char *fault = fg_access_url_fault(url);
    size_t host = fg_slice_search(url, "://");

    if (fault != NULL)
        return fg_fail(err, FG_E_INVALID, "public_url \"%.200s\" %s", config->public_url, fault);
    if (fg_slice_find(fg_slice_sub(url, host + 3, url.len), '/') != SIZE_MAX ||
        fg_slice_find(url, '?') != SIZE_MAX)
        return fg_fail(err, FG_E_INVALID, "public_url \"%.200s\" has a path; expected https://HOST",
                       config->public_url);
    if (config->client_id[0] == '\0' || config->client_secret[0] == '\0')
        return fg_fail(err, FG_E_INVALID, "client_id and client_secret_file are needed");
    return FG_OK;
}

enum fg_code fg_oidc_create(const struct fg_oidc_config *config, struct fg_oidc **ret_oidc,
                            struct fg_err *err)
{
    struct fg_oidc *oidc;
    size_t size;

    if (check_config(config, err) != FG_OK)
        return err->code;
    oidc = fg_new(struct fg_oidc);
    oidc->config = *config;
    oidc->issuer = fg_strdup(config->issuer);
    oidc->client_id = fg_strdup(config->client_id);
    oidc->client_secret = fg_strdup(config->client_secret);
    oidc->scopes = fg_strdup(config->scopes);
    oidc->public_url = fg_strdup(config->public_url);
    oidc->device_client_id = fg_strdup(config->device_client_id);
    size = strlen(config->public_url) + sizeof CALLBACK_PATH;
    oidc->redirect_url = fg_malloc(size);
    (void)snprintf(oidc->redirect_url, size, "%s%s", config->public_url, CALLBACK_PATH);
    oidc->client =
        (struct fg_oidc_client){oidc->client_id, oidc->client_secret, oidc->redirect_url};
    if (fg_slice_starts(fg_cstr(config->public_url), "https://")) {
        oidc->session_cookie = "__Host-flamegrid";
        oidc->login_cookie = "__Host-flamegrid-login";
        oidc->attributes = "; Secure";
    } else {
        oidc->session_cookie = "flamegrid";
        oidc->login_cookie = "flamegrid-login";
        oidc->attributes = "";
    }
    *ret_oidc = oidc;
    return FG_OK;
}

static void stop_on_loop(void *arg)
{
    struct fg_oidc *oidc = arg;

    oidc->stopped = true;
    while (oidc->exchanges != NULL) {
        struct exchange *exchange = oidc->exchanges;

        fg_client_cancel(&exchange->request);
        exchange->request.code =
            fg_fail(&exchange->request.err, FG_E_UNAVAILABLE, "the server is stopping");
        go_home(exchange);
    }
}

void fg_oidc_stop(struct fg_oidc *oidc)
{
    fg_loop_call(fg_issuers_loop(oidc->config.issuers), stop_on_loop, oidc);
}

void fg_oidc_destroy(struct fg_oidc *oidc)
{
    if (oidc == NULL)
        return;
    OPENSSL_cleanse(oidc->client_secret, strlen(oidc->client_secret));
    free(oidc->issuer);
    free(oidc->client_id);
    free(oidc->client_secret);
    free(oidc->scopes);
    free(oidc->public_url);
    free(oidc->device_client_id);
    free(oidc->redirect_url);
    free(oidc);
}
