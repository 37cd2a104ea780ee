#include "common/access/people/people.h"

#include "common/access/issuer/issuer_settings.h"
#include "common/base/str.h"

#include <openssl/crypto.h>

enum {
    ARENA_MAX_BYTES = 8 * 1024 * 1024, /* of settings of a MiB */
    SECRET_MAX_BYTES = 4096,
};

struct fg_people {
    struct fg_people_config config;
    struct fg_arena *arena; /* of the lists */
    struct fg_issuers *issuers;
    struct fg_session_keys *keys; /* NULL: no log-in */
    struct fg_oidc *oidc;         /* NULL: no log-in */
    struct fg_bindings bindings;  /* of the settings */
    struct fg_key_wrap *master;   /* of the keys of sessions; NULL: none */
    bool started;
};

/* ---- settings ---- */

static enum fg_code read_lists(struct fg_people *people,
                               struct fg_issuer_config issuers[FG_ISSUERS_MAX], size_t *ret_n,
                               struct fg_err *err)
{
    const struct fg_access_settings *settings = people->config.settings;
    struct fg_binding *list = NULL;
    uint32_t n = 0;

    if (fg_issuer_settings_read(fg_cstr(settings->issuers), people->arena, issuers, ret_n, err) !=
            FG_OK ||
        fg_binding_settings_read(fg_cstr(settings->bindings), people->arena, &list, &n, err) !=
            FG_OK)
        return err->code;
    people->bindings = (struct fg_bindings){.list = list, .n = n};
    return FG_OK;
}

static bool has_login(const struct fg_people *people)
{
    return people->config.login->issuer[0] != '\0';
}

/* People log in at one of the issuers, whose document says where. */
static enum fg_code choose_login(const struct fg_people *people, struct fg_issuer_config *list,
                                 size_t n, struct fg_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].issuer, people->config.login->issuer) == 0) {
            list[i].discover = true;
            return FG_OK;
        }
    return fg_fail(err, FG_E_INVALID,
                   "setting access.login.issuer: \"%.200s\" is not among "
                   "access.issuers",
                   people->config.login->issuer);
}

static enum fg_code claims_of(void *arg, const struct fg_jwt_verified *verified,
                              struct fg_arena *arena, struct fg_claim **ret_claims, uint32_t *ret_n,
                              struct fg_err *err);

static enum fg_code create_login(struct fg_people *people, struct fg_err *err)
{
    const struct fg_access_login_settings *login = people->config.login;
    struct fg_buf file, secret;
    enum fg_code code;

    people->keys = fg_session_keys_create(
        &(struct fg_session_keys_config){.clock = people->config.clock,
                                         .conditions = people->config.conditions,
                                         .master = people->master});
    fg_buf_init(&file, SECRET_MAX_BYTES);
    fg_buf_init(&secret, SECRET_MAX_BYTES + 1);
    code = fg_conf_read_file(login->client_secret_file, &file, err);
    if (code == FG_OK) {
        fg_buf_put(&secret, fg_trim(fg_buf_slice(&file)));
        fg_buf_putc(&secret, '\0');
        code = fg_oidc_create(&(struct fg_oidc_config){.issuers = people->issuers,
                                                       .keys = people->keys,
                                                       .clock = people->config.clock,
                                                       .audit = people->config.audit,
                                                       .attempts = people->config.attempts,
                                                       .issuer = login->issuer,
                                                       .client_id = login->client_id,
                                                       .client_secret = (const char *)secret.ptr,
                                                       .scopes = login->scopes,
                                                       .public_url = login->public_url,
                                                       .device_client_id = login->device_client_id,
                                                       .provider_logout = login->provider_logout,
                                                       .claims = claims_of,
                                                       .arg = people},
                              &people->oidc, err);
        /* The log-in has a copy of its own. */
        OPENSSL_cleanse(secret.ptr, secret.cap);
    }
    if (file.ptr != NULL)
        OPENSSL_cleanse(file.ptr, file.cap);
    fg_buf_done(&file);
    fg_buf_done(&secret);
    return code == FG_OK ? FG_OK : fg_wrap(err, "settings access.login");
}

/* ---- life ---- */

static enum fg_code create(struct fg_people *people, struct fg_err *err)
{
    struct fg_issuer_config issuers[FG_ISSUERS_MAX];
    size_t n = 0;

    if (read_lists(people, issuers, &n, err) != FG_OK ||
        (has_login(people) && choose_login(people, issuers, n, err) != FG_OK))
        return err->code;

    const char *path = people->config.settings->master_key_file;

    if (path[0] != '\0' && fg_key_wrap_file(path, &people->master, err) != FG_OK)
        return fg_wrap(err, "setting access.master_key_file");
    if (n == 0)
        return FG_OK;
    if (fg_issuers_create(&(struct fg_issuers_config){.list = issuers,
                                                      .n = n,
                                                      .clock = people->config.clock,
                                                      .registry = people->config.registry,
                                                      .conditions = people->config.conditions},
                          &people->issuers, err) != FG_OK)
        return fg_wrap(err, "setting access.issuers");
    return has_login(people) ? create_login(people, err) : FG_OK;
}

enum fg_code fg_people_create(const struct fg_people_config *config, struct fg_people **ret_people,
                              struct fg_err *err)
{
    struct fg_people *people = fg_new(struct fg_people);

    people->config = *config;
    people->arena = fg_arena_create(ARENA_MAX_BYTES);
    if (create(people, err) != FG_OK) {
        fg_people_destroy(people);
        return err->code;
    }
    if (people->issuers == NULL) {
        fg_people_destroy(people);
        people = NULL;
    }
    *ret_people = people;
    return FG_OK;
}

void fg_people_destroy(struct fg_people *people)
{
    if (people == NULL)
        return;
    fg_assert(!people->started);
    /* The log-in uses the keys and the issuers, and the keys of sessions the master key: users go
     * first. */
    fg_oidc_destroy(people->oidc);
    fg_session_keys_destroy(people->keys);
    fg_key_wrap_destroy(people->master);
    fg_issuers_destroy(people->issuers);
    fg_arena_destroy(people->arena);
    OPENSSL_cleanse(people, sizeof *people);
    free(people);
}

enum fg_code fg_people_start(struct fg_people *people, struct fg_bucket *bucket, struct fg_err *err)
{
    if (people == NULL)
        return FG_OK;
    if (fg_issuers_start(people->issuers, err) != FG_OK)
        return err->code;
    /* Before the keys: if these cannot start, fg_people_stop() still ends the issuers. */
    people->started = true;
    if (people->oidc == NULL)
        return FG_OK;
    return fg_session_keys_start(people->keys, bucket, err);
}

void fg_people_stop(struct fg_people *people)
{
    if (people == NULL || !people->started)
        return;
    if (people->oidc != NULL) {
        /* Exchanges run on the loop of the issuers, so they end first. */
        fg_oidc_stop(people->oidc);
        fg_session_keys_stop(people->keys);
    }
    fg_issuers_stop(people->issuers);
    people->started = false;
}

void fg_people_routes(struct fg_people *people, struct fg_http_server *server)
{
    if (people != NULL && people->oidc != NULL)
        fg_oidc_routes(people->oidc, server);
}

/* ---- who it is ---- */

/* All bindings: those of the registry, and behind them those of the settings. */
static struct fg_bindings bindings_of(const struct fg_people *people,
                                      const struct fg_access_registry *registry)
{
    struct fg_bindings all = {.n = 0};

    if (registry != NULL)
        all = *registry->bindings;
    all.more = &people->bindings;
    return all;
}

static enum fg_code claims_of(void *arg, const struct fg_jwt_verified *verified,
                              struct fg_arena *arena, struct fg_claim **ret_claims, uint32_t *ret_n,
                              struct fg_err *err)
{
    struct fg_people *people = arg;
    struct fg_access_registry *registry = people->config.known(people->config.arg);
    struct fg_bindings all = bindings_of(people, registry);
    enum fg_code code =
        fg_bindings_claims(&all, verified->issuer, verified->claims, arena, ret_claims, ret_n, err);

    /* Paths are the registry's, which may go. */
    for (uint32_t i = 0; code == FG_OK && i < *ret_n; i++) {
        (*ret_claims)[i].path = fg_arena_copy(arena, (*ret_claims)[i].path);
        if ((*ret_claims)[i].path.ptr == NULL)
            code = fg_fail(err, FG_E_LIMIT, "no memory left for requests, try again");
    }
    fg_access_registry_unref(registry);
    return code;
}

static enum fg_code identify_token(struct fg_people *people, struct fg_slice token,
                                   const struct fg_bindings *all, struct fg_person *person,
                                   struct fg_err *err)
{
    int64_t now_s = fg_wall_ns(people->config.clock) / FG_SECOND_NS;
    struct fg_identity *verified = NULL;

    if (fg_issuers_verify(people->issuers, token, all, now_s, &verified, err) != FG_OK) {
        /* 401 and not 403: with another token the request may succeed. */
        if (err->code == FG_E_DENIED)
            err->code = FG_E_NO_TENANT;
        return err->code;
    }
    person->verified = verified;
    person->identity = (struct fg_access_identity){verified->issuer, verified->subject,
                                                   verified->roles, verified->n_roles};
    return FG_OK;
}

/* Somebody ended all sessions of this person that began before a time. */
static bool is_revoked(const struct fg_access_registry *registry, const struct fg_session *session)
{
    for (size_t i = 0; registry != NULL && i < registry->message->n_revoked_sessions; i++) {
        const Access__RevokedSession *revoked = registry->message->revoked_sessions[i];

        if (fg_slice_is(session->subject, revoked->subject) &&
            session->issued_s * 1000 <= revoked->before_ms)
            return true;
    }
    return false;
}

/* Whether another site's page would gain from having a browser send this. */
static bool needs_csrf(const struct fg_http_request *req, unsigned scopes)
{
    const unsigned reading = FG_SCOPE_READ | FG_SCOPE_METRICS | FG_SCOPE_KNOWN;
    const unsigned safe = FG_HTTP_GET | FG_HTTP_HEAD | FG_HTTP_OPTIONS;

    return (scopes & ~reading) != 0 && ((unsigned)fg_http_method(req) & safe) == 0;
}

static enum fg_code identify_session(struct fg_people *people, struct fg_http_request *req,
                                     const struct fg_access_registry *registry,
                                     const struct fg_bindings *all, unsigned scopes,
                                     struct fg_person *person, struct fg_err *err)
{
    const struct fg_session *session = &person->session;
    struct fg_access_role *roles = NULL;
    uint32_t n_roles = 0;
    enum fg_code code = fg_oidc_session(people->oidc, req, &person->session, err);

    if (code == FG_E_DENIED || (code == FG_OK && is_revoked(registry, session)))
        return fg_fail(err, FG_E_NO_TENANT, "the session has ended; log in again at /auth/login");
    if (code != FG_OK)
        return code;
    if (needs_csrf(req, scopes) && !fg_oidc_is_ours(req, session))
        return fg_fail(err, FG_E_DENIED,
                       "a request that changes something in a session needs the session's csrf "
                       "value (header X-Flamegrid-Csrf; GET /api/whoami has it)");
    /* The cookie has claims and not roles, so a changed binding counts for sessions that began
     * before. */
    if (fg_bindings_roles(all, session->issuer, session->claims, session->n_claims,
                          fg_http_arena(req), &roles, &n_roles, err) != FG_OK)
        return err->code;
    person->identity =
        (struct fg_access_identity){session->issuer, session->subject, roles, n_roles};
    /* Last: a request that is refused above prolongs nothing. */
    fg_oidc_renew(people->oidc, req, session);
    return FG_OK;
}

enum fg_code fg_people_identify(struct fg_people *people, struct fg_http_request *req,
                                const struct fg_access_registry *registry, unsigned scopes,
                                struct fg_person *ret_person, struct fg_err *err)
{
    struct fg_slice authorization = fg_http_header(req, "Authorization");
    struct fg_slice bearer = fg_credentials_of(authorization, "Bearer");
    struct fg_bindings all = bindings_of(people, registry);

    *ret_person = (struct fg_person){.verified = NULL};
    /* Tokens of this server are no JSON Web Tokens: fg_access_decide() looks at them. */
    if (bearer.ptr != NULL && fg_jwt_is_form(bearer))
        return identify_token(people, bearer, &all, ret_person, err);
    /* Only without the header: a cookie never stands in for credentials that were sent. */
    if (authorization.ptr == NULL && people->oidc != NULL)
        return identify_session(people, req, registry, &all, scopes, ret_person, err);
    return fg_fail(err, FG_E_NOT_FOUND, "no token of an issuer, and no session");
}

/* Whether a person looks at it: not a program, not a frame in a page of others. */
static bool is_navigation(const struct fg_http_request *req)
{
    struct fg_slice into = fg_http_header(req, "Sec-Fetch-Dest");

    return fg_http_method(req) == FG_HTTP_GET && fg_http_header(req, "Authorization").ptr == NULL &&
           fg_http_accept_weight(req, "text/html") > 0 &&
           (into.ptr == NULL || fg_slice_is(into, "document"));
}

bool fg_people_have_issuer(const struct fg_people *people, struct fg_slice issuer)
{
    return people != NULL && fg_issuers_have(people->issuers, issuer);
}

const char *fg_people_log_in_path(const struct fg_people *people)
{
    return people != NULL && people->oidc != NULL ? FG_OIDC_LOGIN_PATH : NULL;
}

bool fg_people_log_in(struct fg_people *people, struct fg_http_request *req)
{
    struct fg_session session;
    struct fg_err err;
    enum fg_code code;

    if (people == NULL || people->oidc == NULL || !is_navigation(req))
        return false;
    code = fg_oidc_session(people->oidc, req, &session, &err);
    if (code != FG_E_NOT_FOUND && code != FG_E_DENIED)
        return false; /* a session; or its keys are not known, and the page says so */
    fg_oidc_go_log_in(req);
    return true;
}

void fg_people_challenge(struct fg_people *people, struct fg_http_request *req)
{
    if (people != NULL && people->oidc != NULL)
        fg_oidc_challenge(people->oidc, req);
}

void fg_person_done(struct fg_person *person)
{
    fg_identity_unref(person->verified);
    person->verified = NULL;
}
