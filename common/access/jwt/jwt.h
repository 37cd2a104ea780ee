/*
 * Verifies JSON Web Tokens: a JWS in its compact form (RFC 7515) with claims (RFC 7519), by the
 * rules of RFC 8725, with OpenSSL.
 *
 *     base64url(header) . base64url(claims) . base64url(signature)
 *
 * The signature: RS256, PS256 (salt of 32 bytes), ES256 (64 bytes, r then s) or EdDSA (Ed25519).
 * The header says which, and has to agree with the key, which decides (jwks.h). "none" and HS256 do
 * not exist here. The header cannot bring a key or say where one is: jwk, jku, x5u and x5c are
 * ignored. Refused are crit and b64 (extensions that change what is signed), a typ other than JWT
 * and at+jwt, a name twice in an object of header or claims, and base64url that is not strict.
 *
 * An ES256 signature has a second valid form (r, n - s), as the standard has it. So the text of a
 * token is no name for it.
 *
 *     fg_jwt_parse()   what the token says, for choosing the issuer's keys
 *     fg_jwt_verify()  whether it is true
 *
 * Pure. Errors say which rule was broken and are for the log, never for the client; they contain
 * neither signature nor claims.
 */
#ifndef FG_COMMON_ACCESS_JWT_JWT_H
#define FG_COMMON_ACCESS_JWT_JWT_H

#include "common/access/jwt/jwks.h"
#include "common/base/arena.h"

enum {
    FG_JWT_MAX_BYTES = 8 * 1024,     /* what proxies pass on in a header line */
    FG_JWT_HEADER_MAX_BYTES = 1024,  /* decoded */
    FG_JWT_LEEWAY_S = 60,            /* clocks differ */
    FG_JWT_SUBJECT_MAX_BYTES = 512,  /* OpenID Connect allows 255 characters */
    FG_JWT_ARENA_BYTES = 256 * 1024, /* always enough for one token */
};

/* What a token says. Nothing of it is proved. Slices are in the token or in the arena. */
struct fg_jwt {
    unsigned algorithm;      /* one of enum fg_jwt_algorithm */
    struct fg_slice kid;     /* ptr NULL: none */
    struct fg_slice content; /* what is signed */
    struct fg_slice signature;
    struct fg_slice claims; /* JSON that fg_claims_check() has passed */
    struct fg_slice issuer;
};

/* Returns whether a text has the form of a token: three parts of base64url's characters. */
bool fg_jwt_is_form(struct fg_slice text);

/* Parses a token. FG_E_DENIED: malformed, or one of those that are refused. FG_E_LIMIT: the arena
 * is too small. */
enum fg_code fg_jwt_parse(struct fg_slice token, struct fg_arena *arena, struct fg_jwt *ret_jwt,
                          struct fg_err *err) fg_must_check;

struct fg_jwt_rules {
    const char *issuer;    /* iss has to be this */
    const char *audience;  /* aud has to contain this; if it has others, azp has to be this */
    struct fg_slice nonce; /* of a login (OpenID Connect Core, 2): also azp has to be ours if there
                            * is one. ptr NULL: no ID token */
    int64_t now_s;         /* wall time */
};

/* What a verified token says. Slices as in fg_jwt. */
struct fg_jwt_verified {
    struct fg_slice subject, issuer, claims;
    int64_t expires_s; /* by the token; the leeway is not in it */
};

/*
 * Verifies a token. FG_E_NOT_FOUND: no key has its kid; the issuer may have new ones. FG_E_DENIED:
 * the signature is wrong, or a rule is broken.
 */
enum fg_code fg_jwt_verify(const struct fg_jwt *jwt, const struct fg_jwks *keys,
                           const struct fg_jwt_rules *rules, struct fg_arena *arena,
                           struct fg_jwt_verified *ret_verified, struct fg_err *err) fg_must_check;

#endif
