/*
 * The secret that all services of a cluster share, as keys for TLS 1.3 (RFC 8446 2.2, pre-shared
 * keys). Both sides prove that they know a key before any message is sent, against what the other
 * side made up for this connection: nothing that was recorded is of use later. With it comes a
 * Diffie-Hellman exchange, so the secret does not open recorded connections either.
 *
 * A file has a secret on each line, up to FG_SECRETS_MAX; lines that are empty or begin with '#'
 * are passed over. A caller uses the first one, a server takes any: to change the secret, add the
 * new one as the second line everywhere, then make it the first, then remove the old one.
 *
 * A secret never travels, and neither does its key. Its identity does; as with any secret of TLS,
 * whoever sees a handshake can try guesses at leisure, so short secrets are refused. A key is
 * HMAC-SHA256(secret, "flamegrid rpc key 1"), its identity the first 8 bytes of HMAC-SHA256(secret,
 * "flamegrid rpc identity 1") in hexadecimal.
 */
#ifndef FG_COMMON_RPC_SECRET_H
#define FG_COMMON_RPC_SECRET_H

#include "common/net/pem.h"

enum {
    FG_SECRETS_MAX = 4,
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

/* Derives the keys of a file's secrets. FG_E_INVALID: it has none, too many, or one that is too
 * short; the error names the setting and the file, and nothing of the content. */
enum fg_code fg_secret_read(const struct fg_pem_file *file, struct fg_secret *ret_secret,
                            struct fg_err *err) fg_must_check;

/* Wipes the keys. */
void fg_secret_done(struct fg_secret *secret);

#endif
