/*
 * The rules for every TLS connection of ours, HTTPS and calls between services alike: TLS 1.2 or
 * 1.3, ciphers with forward secrecy and authenticated encryption only, no renegotiation and no
 * compression.
 */
#ifndef FG_COMMON_NET_TLS_RULES_H
#define FG_COMMON_NET_TLS_RULES_H

#include <openssl/ssl.h>

/* Applies the rules to a new context. */
void fg_tls_set_rules(SSL_CTX *ctx);

#endif
