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

/* Makes a BIO method whose reads and writes are these functions, which OpenSSL's manual describes
 * (BIO_meth_new(3)). It lives as long as the process. Never fails. */
BIO_METHOD *fg_tls_make_bio_method(const char *name,
                                   int (*read)(BIO *bio, char *out, size_t size, size_t *ret_len),
                                   int (*write)(BIO *bio, const char *bytes, size_t len,
                                                size_t *ret_len));

#endif
