/*
 * What a log-in sends and believes, as values (OpenID Connect Core 1.0, RFC 6749, RFC 7636). Pure.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_OIDC_CORE_H
#define FG_COMMON_ACCESS_PEOPLE_OIDC_CORE_H

#include "common/access/jwt/discovery.h"
#include "common/access/people/sealed_cookie.h"

enum {
    FG_OIDC_ANSWER_MAX_BYTES = 64 * 1024, /* of the token endpoint */
    FG_OIDC_NAME_MAX_BYTES = 200,
};

/* What a provider knows us by. */
struct fg_oidc_client {
    const char *id, *secret;
    const char *redirect_url; /* of /auth/callback */
};

/*
 * Returns the path that a person comes back to after the log-in, "/" unless the text is a path on
 * this server: it begins with one slash, and has no backslash, which browsers take for a slash, and
 * no control character. So nobody can send people elsewhere through our log-in.
 */
struct fg_slice fg_oidc_return_path(struct fg_slice text);

/* Appends the URL of the provider that a log-in goes to. */
void fg_oidc_authorization_url(const struct fg_discovery *discovery,
                               const struct fg_oidc_client *client, const char *scopes,
                               const struct fg_login *login, struct fg_buf *out);

/* Appends the body of the request that exchanges a code, and the value of its header Authorization;
 * the latter stays empty if the secret is in the body. */
void fg_oidc_token_request(const struct fg_discovery *discovery,
                           const struct fg_oidc_client *client, const struct fg_login *login,
                           struct fg_slice code, struct fg_buf *body, struct fg_buf *authorization);

/* Finds the ID token in the answer of the token endpoint. FG_E_DENIED: the provider refuses the
 * code, with its reason. FG_E_UNAVAILABLE: the answer is none. FG_E_LIMIT: the arena is full. */
enum fg_code fg_oidc_id_token(unsigned status, struct fg_slice answer, struct fg_arena *arena,
                              struct fg_slice *ret_token, struct fg_err *err) fg_must_check;

/* Appends the URL that logs a person out of the provider (OpenID Connect RP-Initiated Logout 1.0);
 * nothing if the provider has none. */
void fg_oidc_logout_url(const struct fg_discovery *discovery, const struct fg_oidc_client *client,
                        const char *back_url, struct fg_buf *out);

/* Returns what to call a person: the claim name, preferred_username or email, else "". */
struct fg_slice fg_oidc_name(struct fg_slice claims, struct fg_arena *arena);

/* Returns whether the text is the state of the log-in. */
bool fg_oidc_is_state(const struct fg_login *login, struct fg_slice text);

/* Appends the nonce of the log-in as the ID token has it. */
void fg_oidc_nonce(const struct fg_login *login, struct fg_buf *out);

#endif
