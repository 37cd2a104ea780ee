/*
 * People log in at an identity provider: the authorization code flow with PKCE, as a confidential
 * client (OpenID Connect Core 1.0, RFC 6749, RFC 7636).
 *
 * - GET /auth/login?return=PATH: 303 to the provider, with a sealed cookie that lives ten minutes
 *   (state, nonce, verifier, and the path to come back to).
 * - GET /auth/callback: compares the state, exchanges the code, verifies the ID token; 303 to that
 *   path with the cookie of a session. An exchange that fails is an attempt of its address
 *   (attempts.h), since each is a request to the provider.
 * - POST /auth/logout: takes the cookie of the session from the browser, with its csrf value
 *   (X-Flamegrid-Csrf, or csrf in a form); 303 to the provider's log-out. A script cannot see where
 *   a redirect leads: with Accept: application/json the address is in the answer, and the page goes
 *   there. Copies of the cookie are good until it expires, or until the subject's sessions are
 *   revoked.
 * - GET /.well-known/oauth-protected-resource: which issuers' tokens this server takes (RFC 9728).
 *
 * Cookies are HttpOnly and SameSite=Lax. Under https they are Secure and named __Host-…, so no
 * other host of the domain can set them; without https only a loopback address has log-ins.
 *
 * Any process with the same bucket can complete a log-in that another began, since they share keys.
 *
 * Thread: routes run on the loops of their requests, exchanges on the loop of the issuers; create,
 * stop and destroy from the owner's.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_OIDC_H
#define FG_COMMON_ACCESS_PEOPLE_OIDC_H

#include "common/access/issuer/issuer.h"
#include "common/access/people/session_keys.h"
#include "common/net/http.h"

struct fg_attempts;
struct fg_audit;

#define FG_OIDC_LOGIN_PATH "/auth/login"

struct fg_oidc;

/* Texts are copied, the rest is borrowed. */
struct fg_oidc_config {
    struct fg_issuers *issuers;
    struct fg_session_keys *keys;
    struct fg_clock *clock;
    struct fg_audit *audit; /* records who logs in and out; NULL: nobody does */
    struct fg_attempts *attempts;
    const char *issuer; /* one of the issuers', with `discover` */
    const char *client_id;
    const char *client_secret;
    const char *scopes;           /* "openid profile email" */
    const char *device_client_id; /* "": commands have no log-in */
    const char *public_url;       /* of this server, without a path */
    bool provider_logout;         /* a log-out ends the session at the provider, too */
    /* Makes the claims of a session out of those of an ID token: those that bindings ask for. On
     * the loop of a request. Slices are in the arena. */
    enum fg_code (*claims)(void *arg, const struct fg_jwt_verified *verified,
                           struct fg_arena *arena, struct fg_claim **ret_claims, uint32_t *ret_n,
                           struct fg_err *err);
    void *arg;
};

/* Creates it. FG_E_INVALID: a setting is wrong. */
enum fg_code fg_oidc_create(const struct fg_oidc_config *config, struct fg_oidc **ret_oidc,
                            struct fg_err *err) fg_must_check;
/* Cancels exchanges under way: their requests get 503. After the servers have stopped, before the
 * issuers do. */
void fg_oidc_stop(struct fg_oidc *oidc);
void fg_oidc_destroy(struct fg_oidc *oidc); /* accepts NULL */

/* Adds the routes. */
void fg_oidc_routes(struct fg_oidc *oidc, struct fg_http_server *server);

/* Answers a request for a page with 303 to the log-in, which comes back to the same address. */
void fg_oidc_go_log_in(struct fg_http_request *req);

/* Adds the header WWW-Authenticate that names the document of this resource (RFC 9728, 5.1). */
void fg_oidc_challenge(struct fg_oidc *oidc, struct fg_http_request *req);

/* Opens the session of a request. FG_E_NOT_FOUND: it has no cookie of one. Other errors are those
 * of fg_session_open(), FG_E_DENIED also for a key that is not known. On the request's loop. */
enum fg_code fg_oidc_session(struct fg_oidc *oidc, struct fg_http_request *req,
                             struct fg_session *ret_session, struct fg_err *err) fg_must_check;

/* Answers a request in a session that is due with a new cookie. On the request's loop. */
void fg_oidc_renew(struct fg_oidc *oidc, struct fg_http_request *req,
                   const struct fg_session *session);

/*
 * Returns whether a page of this server sent the request: its browser says so (Sec-Fetch-Site:
 * same-origin, which no page can set), or it has the csrf value of the session.
 */
bool fg_oidc_is_ours(const struct fg_http_request *req, const struct fg_session *session);

#endif
