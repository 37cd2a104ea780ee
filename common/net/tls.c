/*
 * Sessions: OpenSSL reads from and writes to a BIO of ours, which is the input that we were fed and
 * a buffer for the output. Both ends of it are memory, so no call of OpenSSL's ever waits.
 */
#include "common/net/tls_impl.h"
#include "common/net/tls_rules.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <pthread.h>

enum {
    INPUT_MAX_BYTES = 64 * 1024,    /* one read of the socket */
    OUTPUT_MAX_BYTES = 1024 * 1024, /* a chain of certificates, or a peer that only asks */
};

struct fg_tls {
    SSL *ssl;
    struct fg_metrics *metrics;
    struct fg_slice in; /* not used yet; of the caller's, or of `kept` */
    struct fg_buf kept;
    struct fg_buf out;
    bool needs_client; /* a certificate of the client's */
    bool ready, failed;
};

static void count(const struct fg_tls *tls, enum tls_metric metric)
{
    if (tls->metrics != NULL)
        fg_metric_add(tls->metrics, metric, 1);
}

/* --- the BIO --- */

static int bio_read(BIO *bio, char *out, size_t size, size_t *ret_len)
{
    struct fg_tls *tls = BIO_get_data(bio);
    size_t len = FG_MIN(size, tls->in.len);

    BIO_clear_retry_flags(bio);
    if (len == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    memcpy(out, tls->in.ptr, len);
    tls->in = fg_slice_sub(tls->in, len, tls->in.len);
    *ret_len = len;
    return 1;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *ret_len)
{
    struct fg_tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    fg_buf_append(&tls->out, bytes, len);
    if (tls->out.full)
        return 0;
    *ret_len = len;
    return 1;
}

/* One for the process. */
static pthread_once_t method_once = PTHREAD_ONCE_INIT;
static BIO_METHOD *method;

static void make_method(void)
{
    method = fg_tls_make_bio_method("flamegrid", bio_read, bio_write);
}

/* --- beginning and end --- */

struct fg_tls *fg_tls_create(struct fg_tls_context *context)
{
    struct fg_tls *tls = fg_new(struct fg_tls);
    SSL_CTX *ctx = fg_tls_context_current(context);
    BIO *bio;

    (void)pthread_once(&method_once, make_method);
    bio = BIO_new(method);
    tls->ssl = SSL_new(ctx);
    SSL_CTX_free(ctx); /* the session has a reference of its own */
    fg_assert(bio != NULL && tls->ssl != NULL);
    tls->metrics = fg_tls_context_metrics(context);
    tls->needs_client = fg_tls_context_requires_client(context);
    fg_buf_init(&tls->kept, INPUT_MAX_BYTES);
    fg_buf_init(&tls->out, OUTPUT_MAX_BYTES);
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio); /* takes it over */
    SSL_set_accept_state(tls->ssl);
    return tls;
}

bool fg_tls_has_certificate(const struct fg_tls *tls)
{
    return SSL_get0_peer_certificate(tls->ssl) != NULL;
}

bool fg_tls_needs_certificate(const struct fg_tls *tls)
{
    return tls->needs_client;
}

void fg_tls_destroy(struct fg_tls *tls)
{
    if (tls == NULL)
        return;
    SSL_free(tls->ssl);
    fg_buf_done(&tls->kept);
    fg_buf_done(&tls->out);
    free(tls);
}

/* --- from the peer --- */

void fg_tls_feed(struct fg_tls *tls, struct fg_slice bytes)
{
    fg_assert(tls->in.len == 0);
    fg_buf_done(&tls->kept);
    tls->in = bytes;
}

void fg_tls_keep(struct fg_tls *tls)
{
    struct fg_buf kept;

    if (tls->in.len == 0) {
        fg_buf_done(&tls->kept);
        return;
    }
    if (tls->kept.ptr != NULL)
        return; /* it is there already */
    fg_buf_init(&kept, INPUT_MAX_BYTES);
    fg_buf_put(&kept, tls->in);
    fg_assert(!kept.full);
    tls->kept = kept;
    tls->in = fg_buf_slice(&tls->kept);
}

static enum tls_metric reason_of(unsigned long error)
{
    switch (ERR_GET_REASON(error)) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return TLS_FAILED_CLEARTEXT;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        return TLS_FAILED_CERTIFICATE;
    default:
        return TLS_FAILED_OTHER;
    }
}

/* Maps the result of an operation of OpenSSL that did not succeed. */
static enum fg_tls_status status_of(struct fg_tls *tls, int result)
{
    int error = SSL_get_error(tls->ssl, result);
    enum tls_metric reason;

    if (error == SSL_ERROR_WANT_READ)
        return FG_TLS_WANT_INPUT;
    if (error == SSL_ERROR_ZERO_RETURN)
        return FG_TLS_END;
    reason = reason_of(ERR_peek_error());
    ERR_clear_error();
    tls->failed = true;
    tls->in = fg_bytes(NULL, 0);
    if (tls->ready)
        return FG_TLS_FAILED;
    count(tls, reason);
    return reason == TLS_FAILED_CLEARTEXT ? FG_TLS_CLEARTEXT : FG_TLS_FAILED;
}

static enum fg_tls_status handshake(struct fg_tls *tls)
{
    int result = SSL_do_handshake(tls->ssl);

    if (result != 1)
        return status_of(tls, result);
    tls->ready = true;
    count(tls, SSL_version(tls->ssl) == TLS1_2_VERSION ? TLS_HANDSHAKES_12 : TLS_HANDSHAKES_13);
    return FG_TLS_READY;
}

enum fg_tls_status fg_tls_read(struct fg_tls *tls, void *out, size_t size, size_t *ret_len)
{
    int result;

    if (tls->failed)
        return FG_TLS_FAILED;
    ERR_clear_error();
    if (!tls->ready)
        return handshake(tls);
    result = SSL_read_ex(tls->ssl, out, size, ret_len);
    return result == 1 ? FG_TLS_OK : status_of(tls, result);
}

bool fg_tls_is_http2(const struct fg_tls *tls)
{
    const unsigned char *name;
    unsigned len;

    SSL_get0_alpn_selected(tls->ssl, &name, &len);
    return fg_slice_is(fg_bytes(name, len), "h2");
}

void fg_tls_gave_up(struct fg_tls *tls, bool timeout)
{
    if (!tls->ready && !tls->failed)
        count(tls, timeout ? TLS_FAILED_TIMEOUT : TLS_FAILED_CLOSED);
    tls->failed = true;
}

/* --- to the peer --- */

bool fg_tls_write(struct fg_tls *tls, struct fg_slice plain)
{
    size_t written;

    if (tls->failed || !tls->ready)
        return false;
    ERR_clear_error();
    if (SSL_write_ex(tls->ssl, plain.ptr, plain.len, &written) == 1)
        return true;
    ERR_clear_error();
    tls->failed = true;
    return false;
}

void fg_tls_shutdown(struct fg_tls *tls)
{
    if (tls->failed || !tls->ready)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

size_t fg_tls_output_len(const struct fg_tls *tls)
{
    return tls->out.len;
}

void fg_tls_take_output(struct fg_tls *tls, struct fg_buf *buf)
{
    struct fg_buf taken = tls->out;

    fg_assert(buf->len == 0);
    tls->out = *buf;
    tls->out.max_bytes = OUTPUT_MAX_BYTES;
    *buf = taken;
}
