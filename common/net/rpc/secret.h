/*
 * Turns the secret that all services of a cluster share into keys for TLS 1.3 (RFC 8446 2.2,
 * pre-shared keys). In the handshake each side proves that it knows a key. The proof covers random
 * bytes that the other side chose for this connection, so a recorded handshake cannot be replayed.
 * The handshake also does a Diffie-Hellman exchange, so someone who learns the secret later cannot
 * decrypt recorded connections.
 *
 * The file has one secret per line, at most FG_SECRETS_MAX; empty lines and lines that begin with
 * '#' are ignored. A caller uses the first secret, a server accepts any of them. To change the
 * secret, add the new one as the second line everywhere, then make it the first, then remove the
 * old one.
 *
 * Neither the secret nor its key is ever sent; the key's identity is. An attacker who records a
 * handshake can test guesses offline, as with any pre-shared key of TLS, so short secrets are
 * refused. A key is HMAC-SHA256(secret, "flamegrid rpc key 1"), its identity the first 8 bytes of
 * HMAC-SHA256(secret, "flamegrid rpc identity 1") in hexadecimal.
 */
#ifndef FG_COMMON_NET_RPC_SECRET_H
#define FG_COMMON_NET_RPC_SECRET_H

#include "common/net/pem.h"

enum {
    FG_SECRETS_MAX = 4,       /* a rotation needs two; each is tried in a handshake */
    FG_SECRET_MIN_BYTES = 32, /* "openssl rand -hex 32" has 64 */
    FG_SECRET_KEY_BYTES = 32,
    FG_SECRET_IDENTITY_BYTES = 17, /* with its NUL */
};

struct fg_secret_key {
    char identity[FG_SECRET_IDENTITY_BYTES];
    uint8_t key[FG_SECRET_KEY_BYTES];
};

struct fg_secret {
    size_t n;
    struct fg_secret_key keys[FG_SECRETS_MAX];
};

/* Derives the keys of a file's secrets. FG_E_INVALID: the file has no secret, too many, or one that
 * is too short; the error names the setting and the file, and never quotes the content. */
enum fg_code fg_secret_read(const struct fg_pem_file *file, struct fg_secret *ret_secret,
                            struct fg_err *err) fg_must_check;

/* Wipes the keys. */
void fg_secret_done(struct fg_secret *secret);

#endif
