/*
 * Sessions of people live in cookies that only we can read and make: AES-256-GCM (NIST SP 800-38D)
 * with keys that all queriers share (session_keys.h). So no querier keeps a session, and any can
 * take the next request.
 *
 *     base64url:  version 1 byte, purpose 1 byte, key id le32    authenticated
 *                 nonce 12 bytes
 *                 content                                        encrypted
 *                 tag 16 bytes
 *
 * The purpose keeps a cookie of a log-in from being taken for a session. A nonce is random, and a
 * key seals for a week: far from the 2^32 messages after which random nonces of 96 bits may repeat.
 *
 *     session   version 1 byte, then issuer, subject, name (varint length, bytes each),
 *               varint issued / s, varint used / s, csrf 16 bytes,
 *               list of claims: varint count, then path and value (varint length, bytes each)
 *     log-in    version 1 byte, then state 16 bytes, nonce 16 bytes, verifier 32 bytes,
 *               varint begun / s, return path (varint length, bytes)
 *
 * A session ends after 8 h without a request, and 24 h after the log-in. A request in a session
 * that was sealed more than 5 min ago gets a new cookie with a later `used`.
 *
 * Pure: time, nonces and keys come from outside. Errors say nothing about keys and contents.
 */
#ifndef FG_COMMON_ACCESS_PEOPLE_SEALED_COOKIE_H
#define FG_COMMON_ACCESS_PEOPLE_SEALED_COOKIE_H

#include "common/access/registry/bindings.h"
#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/storage/seal/seal.h"

enum {
    FG_COOKIE_MAX_BYTES = 3584, /* browsers take 4,096 with name and attributes (RFC 6265, 6.1) */
    FG_COOKIE_NONCE_BYTES = FG_SEAL_NONCE_BYTES,
    FG_COOKIE_KEYS_MAX = 2,       /* this week's and the one before it */
    FG_SESSION_CSRF_BYTES = 16,   /* 128 random bits cannot be guessed */
    FG_LOGIN_RANDOM_BYTES = 16,   /* likewise */
    FG_LOGIN_VERIFIER_BYTES = 32, /* 43 characters in base64url, the least of RFC 7636 */
    FG_LOGIN_RETURN_MAX_BYTES = 1024,
    FG_SESSION_IDLE_MAX_S = 8 * 3600, /* a working day */
    FG_SESSION_MAX_S = 24 * 3600,     /* then the provider says again who it is */
    FG_SESSION_RENEW_S = 300,
    FG_LOGIN_MAX_S = 600,     /* time for typing a password and a second factor */
    FG_SESSION_LEEWAY_S = 60, /* clocks of servers differ */
};

struct fg_cookie_key {
    uint32_t id;
    struct fg_seal_key key;
};

/* The first seals; all open. */
struct fg_cookie_keys {
    struct fg_cookie_key list[FG_COOKIE_KEYS_MAX];
    unsigned n;
};

struct fg_session {
    struct fg_slice issuer, subject, name; /* name: for people, "" if the issuer gives none */
    int64_t issued_s, used_s;
    uint8_t csrf[FG_SESSION_CSRF_BYTES];
    struct fg_claim *claims; /* that bindings asked for */
    uint32_t n_claims;
};

struct fg_login {
    uint8_t state[FG_LOGIN_RANDOM_BYTES], nonce[FG_LOGIN_RANDOM_BYTES];
    uint8_t verifier[FG_LOGIN_VERIFIER_BYTES];
    int64_t begun_s;
    struct fg_slice return_path;
};

/* Appends the cookie's value. nonce is random and used once. FG_E_UNAVAILABLE: there is no key.
 * FG_E_TOO_LARGE: the cookie would have more than FG_COOKIE_MAX_BYTES. */
enum fg_code fg_session_seal(const struct fg_session *session, const struct fg_cookie_keys *keys,
                             const uint8_t nonce[FG_COOKIE_NONCE_BYTES], struct fg_buf *out,
                             struct fg_err *err) fg_must_check;
enum fg_code fg_login_seal(const struct fg_login *login, const struct fg_cookie_keys *keys,
                           const uint8_t nonce[FG_COOKIE_NONCE_BYTES], struct fg_buf *out,
                           struct fg_err *err) fg_must_check;

/* Opens a cookie's value. Slices are in the arena. FG_E_DENIED: it is none of ours, or has ended.
 * FG_E_NOT_FOUND: its key is unknown; a newer one may be in the bucket. FG_E_LIMIT: the arena is
 * full.
 */
enum fg_code fg_session_open(struct fg_slice cookie, const struct fg_cookie_keys *keys,
                             int64_t now_s, struct fg_arena *arena, struct fg_session *ret_session,
                             struct fg_err *err) fg_must_check;
enum fg_code fg_login_open(struct fg_slice cookie, const struct fg_cookie_keys *keys, int64_t now_s,
                           struct fg_arena *arena, struct fg_login *ret_login,
                           struct fg_err *err) fg_must_check;

/* Returns whether the session should be sealed again. */
bool fg_session_is_due(const struct fg_session *session, int64_t now_s);

/* Returns whether the text, hexadecimal, is the session's csrf value, in a time that does not
 * depend on it. */
bool fg_session_has_csrf(const struct fg_session *session, struct fg_slice text);

#endif
