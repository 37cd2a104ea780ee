#include "common/net/tls_rules.h"

#include "common/base/def.h"

/* Forward secrecy and authenticated encryption only; those of TLS 1.3 all are. */
static const char ciphers_of_12[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

void fg_tls_set_rules(SSL_CTX *ctx)
{
    fg_assert(SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1);
    fg_assert(SSL_CTX_set_cipher_list(ctx, ciphers_of_12) == 1);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
    /* Idle connections give back their buffers of 16 KiB each. */
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
}
