/*
 * The issuers of JSON Web Tokens that a server believes: fetches their keys, and verifies tokens.
 *
 * A thread of its own, a loop, asks each issuer for its discovery document and its keys, every 10
 * minutes and when a token has a kid that is not known (issuer_core.h). What an issuer answers is
 * bounded: 64 KiB and 64 keys in 10 s. A token file, such as that of a Kubernetes service account,
 * is sent with requests to the origin that the settings name, and to no other.
 *
 * Verifying does not wait for any of that: without keys it fails with FG_E_UNAVAILABLE, which is
 * 503 and not 401, because the caller may be right. A token that was verified is remembered for up
 * to 10 minutes (verified.h), so with each further request it costs one hash; until the issuer has
 * other keys, because the one that signed it may be withdrawn.
 *
 * Thread: create, start, stop and destroy from the owner's; verify from any.
 */
#ifndef FG_COMMON_ACCESS_ISSUER_ISSUER_H
#define FG_COMMON_ACCESS_ISSUER_ISSUER_H

#include "common/access/issuer/verified.h"
#include "common/access/jwt/discovery.h"
#include "common/access/jwt/jwt.h"
#include "common/base/time.h"
#include "common/net/client.h"
#include "common/runtime/condition.h"
#include "common/runtime/metrics.h"

enum { FG_ISSUERS_MAX = 16 }; /* each has a connection and a list of keys */

/* Texts; "": none. */
struct fg_issuer_config {
    const char *issuer;     /* as in the claim iss */
    const char *audience;   /* that a token has to have */
    const char *keys_url;   /* "": by discovery */
    const char *ca_file;    /* "": the system's */
    const char *token_file; /* bearer token for requests to the issuer */
    const char
        *tenant_claim; /* path of a claim that names the tenant that the bearer may send for */
    bool discover;     /* the discovery document is needed even with keys_url: people log in */
};

struct fg_issuers_config {
    const struct fg_issuer_config *list;
    size_t n;
    struct fg_clock *clock;           /* borrowed */
    struct fg_registry *registry;     /* borrowed */
    struct fg_conditions *conditions; /* borrowed; NULL: none */
};

struct fg_issuers;

/* Creates them; the list is copied. FG_E_INVALID names the setting and its fault. */
enum fg_code fg_issuers_create(const struct fg_issuers_config *config,
                               struct fg_issuers **ret_issuers, struct fg_err *err) fg_must_check;
/* Frees them, after fg_issuers_stop() and the last fg_issuers_verify(). Accepts NULL. */
void fg_issuers_destroy(struct fg_issuers *issuers);
FG_AUTO(fg_issuers, fg_issuers_destroy)

/* Starts to fetch keys. FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_issuers_start(struct fg_issuers *issuers, struct fg_err *err) fg_must_check;
/* Ends that, after the servers that verify have stopped, and the owners of requests of
 * fg_issuers_client() have cancelled theirs. Does nothing if it was not begun. */
void fg_issuers_stop(struct fg_issuers *issuers);

/*
 * Verifies a token and finds out what the bindings allow its bearer. bindings: borrowed for the
 * call; a token that was verified under another generation of them gets its roles again.
 * *ret_identity is a reference of the caller's. Does not wait. FG_E_DENIED: the token is not valid;
 * the sentence is for the log. FG_E_UNAVAILABLE: the keys of its issuer are not known, or are about
 * to be fetched because of its kid. FG_E_LIMIT: it has too many roles.
 */
enum fg_code fg_issuers_verify(struct fg_issuers *issuers, struct fg_slice token,
                               const struct fg_bindings *bindings, int64_t now_s,
                               struct fg_identity **ret_identity, struct fg_err *err) fg_must_check;

/* Verifies the ID token of a log-in at an issuer, with the client id as audience. Slices are in the
 * arena. Errors as above. */
enum fg_code fg_issuers_verify_login(struct fg_issuers *issuers, const char *issuer,
                                     struct fg_slice token, const char *client_id,
                                     struct fg_slice nonce, int64_t now_s, struct fg_arena *arena,
                                     struct fg_jwt_verified *ret_verified,
                                     struct fg_err *err) fg_must_check;

/* Returns what an issuer publishes; copied to the arena. FG_E_UNAVAILABLE: it is not known yet. */
enum fg_code fg_issuers_discovery(struct fg_issuers *issuers, const char *issuer,
                                  struct fg_arena *arena, struct fg_discovery *ret_discovery,
                                  struct fg_err *err) fg_must_check;

/* Return the loop, and its client, for other requests to an issuer. After start. */
struct fg_loop *fg_issuers_loop(struct fg_issuers *issuers);
struct fg_client *fg_issuers_client(struct fg_issuers *issuers);

/* Returns whether tokens of an issuer are taken. Any thread. */
bool fg_issuers_have(const struct fg_issuers *issuers, struct fg_slice name);

/* Returns the TLS settings for requests to an issuer, valid until destroy. */
const struct fg_client_tls *fg_issuers_tls(struct fg_issuers *issuers, const char *issuer);

#endif
