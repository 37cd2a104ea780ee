/*
 * Tokens that were verified, by the SHA-256 of their text, so that a signature is checked once and
 * not with every request. The table has a fixed size: 512 sets of 8. A new token replaces the one
 * of its set that ends first.
 *
 * Only tokens with a right signature get in, so a stranger cannot fill it. A hash is no key to
 * anything: finding a token takes its whole text.
 *
 * Thread: any. A lookup holds a lock of a few sets for a few comparisons.
 */
#ifndef FG_COMMON_ACCESS_ISSUER_VERIFIED_H
#define FG_COMMON_ACCESS_ISSUER_VERIFIED_H

#include "common/access/registry/bindings.h"

enum {
    FG_VERIFIED_HASH_BYTES = 32,
    FG_VERIFIED_MAX_S = 600, /* a token is looked at again after that, by then perhaps other keys */
};

/* Whom an issuer vouches for, and what bindings allow. It does not change; references are counted.
 */
struct fg_identity {
    struct fg_slice issuer, subject, json; /* json: all claims */
    const struct fg_access_role *roles;
    uint32_t n_roles;
    int64_t expires_s;
    uint64_t generation; /* of the bindings */
    uint64_t keys;       /* that its issuer had when the token was verified */
    _Atomic unsigned refs;
};

/* Creates an identity with one reference. Everything is copied. */
struct fg_identity *fg_identity_create(const struct fg_identity *of);
struct fg_identity *fg_identity_ref(struct fg_identity *identity);
void fg_identity_unref(struct fg_identity *identity); /* accepts NULL */
FG_AUTO(fg_identity, fg_identity_unref)

struct fg_verified;

struct fg_verified *fg_verified_create(void);
void fg_verified_destroy(struct fg_verified *verified); /* accepts NULL */

/* Returns the identity of a token with a reference of its own; NULL: not there, or its time is
 * over. */
struct fg_identity *fg_verified_get(struct fg_verified *verified,
                                    const uint8_t hash[FG_VERIFIED_HASH_BYTES], int64_t now_s);

/* Keeps an identity until its token expires, at most for FG_VERIFIED_MAX_S after `now_s`. It
 * replaces one with the same hash, which keeps its time. */
void fg_verified_put(struct fg_verified *verified, const uint8_t hash[FG_VERIFIED_HASH_BYTES],
                     struct fg_identity *identity, int64_t now_s);

#endif
