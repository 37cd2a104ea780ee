/*
 * The keys of an issuer of tokens: a JSON Web Key Set (RFC 7517) as a value.
 *
 *     {"keys": [{"kty": "RSA", "kid": "2026-01", "use": "sig", "n": "…", "e": "AQAB"}, …]}
 *
 * The key, never the token, says which algorithms it verifies, by its type and its `alg`. A key of
 * each type has to pass checks:
 *
 *     RSA           RS256, PS256   2,048 to 8,192 bits, odd exponent from 3 to 2^32,
 *                                  passes OpenSSL's check
 *     EC, P-256     ES256          the point is on the curve
 *     OKP, Ed25519  EdDSA          the point is on the curve, and is none of the few that
 *                                  verify signatures of anybody
 *
 * Other types, symmetric keys above all, and keys that `use` or `key_ops` reserve for something
 * other than verifying, are skipped. So are keys that fail a check, and those that are published
 * with their private part, since anybody can sign with them: one such key must not take the others
 * out of service. Two keys may have one kid if they are for different algorithms (RFC 7517, 4.5);
 * of keys with one kid for the same algorithm the first counts.
 *
 * Pure. A set does not change. It has a counter of references; any thread.
 */
#ifndef FG_COMMON_ACCESS_JWT_JWKS_H
#define FG_COMMON_ACCESS_JWT_JWKS_H

#include "common/base/err.h"
#include "common/base/slice.h"

#include <openssl/evp.h>

enum {
    FG_JWKS_MAX_BYTES = 64 * 1024, /* providers publish 1 to 6 KiB */
    FG_JWKS_KEYS_MAX = 64,         /* in the text, also those that are skipped */
    FG_JWK_ID_MAX_BYTES = 256,
};

/* Bits: a key may verify several. */
enum fg_jwt_algorithm {
    FG_JWT_RS256 = 1 << 0,
    FG_JWT_PS256 = 1 << 1,
    FG_JWT_ES256 = 1 << 2,
    FG_JWT_EDDSA = 1 << 3,
};

/* Returns the algorithm of that name ("RS256"), 0 for all that are not supported. */
unsigned fg_jwt_algorithm(struct fg_slice name);

struct fg_jwk {
    struct fg_slice kid;
    unsigned algorithms; /* bits of enum fg_jwt_algorithm */
    EVP_PKEY *key;
};

struct fg_jwks;

/*
 * Parses a set. The reference is the caller's. FG_E_DECODE: it is no set, has too many keys, or a
 * name twice in an object. FG_E_TOO_LARGE. A set without a usable key is FG_E_DECODE, too: *err
 * says why its first key was skipped.
 */
enum fg_code fg_jwks_parse(struct fg_slice text, struct fg_jwks **ret_keys,
                           struct fg_err *err) fg_must_check;

struct fg_jwks *fg_jwks_ref(struct fg_jwks *keys);
void fg_jwks_unref(struct fg_jwks *keys); /* accepts NULL */
FG_AUTO(fg_jwks, fg_jwks_unref)

/* Returns how many keys can be used, and how many were skipped. */
unsigned fg_jwks_count(const struct fg_jwks *keys);
unsigned fg_jwks_skipped(const struct fg_jwks *keys);

/* Returns a key that can be used, by its number from 0. */
const struct fg_jwk *fg_jwks_at(const struct fg_jwks *keys, unsigned number);

/*
 * Finds the key for a token: the one with that kid that verifies the algorithm. Without a kid (ptr
 * NULL) it is the only key for the algorithm. Returns NULL if there is none, or several.
 */
const struct fg_jwk *fg_jwks_find(const struct fg_jwks *keys, struct fg_slice kid,
                                  unsigned algorithm) fg_must_check;

#endif
