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

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH; /* the rest is questions about sockets */
}

BIO_METHOD *fg_tls_make_bio_method(const char *name,
                                   int (*read)(BIO *bio, char *out, size_t size, size_t *ret_len),
                                   int (*write)(BIO *bio, const char *bytes, size_t len,
                                                size_t *ret_len))
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);

    fg_assert(method != NULL && BIO_meth_set_read_ex(method, read) == 1 &&
              BIO_meth_set_write_ex(method, write) == 1 &&
              BIO_meth_set_ctrl(method, bio_ctrl) == 1);
    return method;
}
