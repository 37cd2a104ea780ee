#include "common/net/rpc/tls_engine.h"

#include "common/base/def.h"
#include "common/net/pem.h"
#include "common/net/rpc/secret.h"
#include "common/net/tls_rules.h"

#include <nng/nng.h>
#include <nng/supplemental/tls/engine.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>

/* nng allocates both, zeroed. */
struct nng_tls_engine_config {
    SSL_CTX *ctx;
    bool dials;
    char *server_name; /* to be said to the server; NULL: none, or an address */
    struct fg_secret secret;
};

struct nng_tls_engine_conn {
    SSL *ssl;
    bool secret; /* both sides have to prove that they know one */
    bool failed; /* nothing more may be asked of ssl */
};

/* --- the BIO: OpenSSL's reads and writes are nng's, whose connection is its data --- */

static int bio_read(BIO *bio, char *out, size_t size, size_t *ret_len)
{
    int rv = nng_tls_engine_recv(BIO_get_data(bio), (uint8_t *)out, &size);

    BIO_clear_retry_flags(bio);
    if (rv == NNG_EAGAIN)
        BIO_set_retry_read(bio);
    *ret_len = rv == 0 ? size : 0;
    return rv == 0;
}

static int bio_write(BIO *bio, const char *bytes, size_t len, size_t *ret_len)
{
    int rv = nng_tls_engine_send(BIO_get_data(bio), (const uint8_t *)bytes, &len);

    BIO_clear_retry_flags(bio);
    if (rv == NNG_EAGAIN)
        BIO_set_retry_write(bio);
    *ret_len = rv == 0 ? len : 0;
    return rv == 0;
}

/* --- configurations --- */

static int config_init(nng_tls_engine_config *config, nng_tls_mode mode)
{
    config->dials = mode == NNG_TLS_MODE_CLIENT;
    config->ctx = SSL_CTX_new(config->dials ? TLS_client_method() : TLS_server_method());
    if (config->ctx == NULL)
        return NNG_ENOMEM;
    fg_tls_set_rules(config->ctx);
    /* Connections last; nobody resumes one. */
    (void)SSL_CTX_set_options(config->ctx, SSL_OP_NO_TICKET);
    fg_assert(SSL_CTX_set_num_tickets(config->ctx, 0) == 1);
    SSL_CTX_set_verify(config->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    fg_assert(X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(config->ctx),
                                          X509_V_FLAG_PARTIAL_CHAIN) == 1);
    return 0;
}

static void config_fini(nng_tls_engine_config *config)
{
    SSL_CTX_free(config->ctx);
    free(config->server_name);
    fg_secret_done(&config->secret);
}

/* Changes nothing: the configuration demands all from the start, and nng's transport asks for less
 * before its owner can ask for all. */
static int config_auth(nng_tls_engine_config *config, nng_tls_auth_mode mode)
{
    (void)config;
    (void)mode;
    return 0;
}

static int config_server(nng_tls_engine_config *config, const char *name)
{
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(config->ctx);

    free(config->server_name);
    config->server_name = NULL;
    /* Either takes back the other, of an earlier name. */
    if (X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1)
        return X509_VERIFY_PARAM_set1_host(param, NULL, 0) == 1 ? 0 : NNG_EINVAL;
    ERR_clear_error();
    if (X509_VERIFY_PARAM_set1_ip(param, NULL, 0) != 1 ||
        X509_VERIFY_PARAM_set1_host(param, name, 0) != 1)
        return NNG_EINVAL;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    config->server_name = fg_strdup(name);
    return 0;
}

static int config_ca_chain(nng_tls_engine_config *config, const char *pem, const char *revoked)
{
    X509_STORE *store = SSL_CTX_get_cert_store(config->ctx);
    BIO *bio;
    X509 *cert;
    unsigned n = 0;
    bool added = true;

    if (revoked != NULL)
        return NNG_ENOTSUP;
    ERR_clear_error();
    bio = BIO_new_mem_buf(pem, -1);
    if (bio == NULL)
        return NNG_ENOMEM;
    while (added && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        added = X509_STORE_add_cert(store, cert) == 1;
        X509_free(cert);
        n++;
    }
    BIO_free(bio);
    if (!added || n == 0)
        return NNG_ECRYPTO;
    ERR_clear_error(); /* the end of the text */
    return 0;
}

/* The first certificate is ours, those after it lead to the authority. */
static bool use_certs(SSL_CTX *ctx, BIO *bio)
{
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    bool used = cert != NULL && SSL_CTX_use_certificate(ctx, cert) == 1;

    X509_free(cert);
    while (used && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        used = SSL_CTX_add1_chain_cert(ctx, cert) == 1;
        X509_free(cert);
    }
    return used;
}

static bool use_key(SSL_CTX *ctx, BIO *bio)
{
    bool encrypted = false;
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, fg_pem_no_password, &encrypted);
    bool used = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    return used;
}

static int config_own_cert(nng_tls_engine_config *config, const char *cert_pem, const char *key_pem,
                           const char *password)
{
    BIO *certs, *key;
    bool used;

    if (password != NULL)
        return NNG_ENOTSUP;
    ERR_clear_error();
    certs = BIO_new_mem_buf(cert_pem, -1);
    key = BIO_new_mem_buf(key_pem, -1);
    used = certs != NULL && key != NULL && use_certs(config->ctx, certs);
    if (used) {
        ERR_clear_error(); /* the end of the certificates */
        used = use_key(config->ctx, key);
    }
    BIO_free(certs);
    BIO_free(key);
    return used ? 0 : NNG_ECRYPTO;
}

/* --- secrets --- */

/* OpenSSL treats a pre-shared key as a session that is resumed. */
static SSL_SESSION *make_session(SSL *ssl, const struct fg_secret_key *key)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01}; /* RFC 8446 B.4 */
    SSL_SESSION *session = SSL_SESSION_new();

    if (session != NULL &&
        (SSL_SESSION_set1_master_key(session, key->key, sizeof key->key) != 1 ||
         SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, aes_128_gcm_sha256)) != 1 ||
         SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1)) {
        SSL_SESSION_free(session);
        session = NULL;
    }
    return session;
}

static const struct fg_secret *secret_of(SSL *ssl)
{
    const nng_tls_engine_config *config = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    return &config->secret;
}

/* For callers: uses the first secret. md: of the cipher that the server has chosen, if it has. */
static int use_secret(SSL *ssl, const EVP_MD *md, const unsigned char **ret_identity,
                      size_t *ret_len, SSL_SESSION **ret_session)
{
    const struct fg_secret_key *key = &secret_of(ssl)->keys[0];
    SSL_SESSION *session = NULL;

    if (md == NULL || EVP_MD_is_a(md, "SHA256"))
        session = make_session(ssl, key);
    *ret_session = session;
    *ret_identity = (const unsigned char *)key->identity;
    *ret_len = strlen(key->identity);
    return session != NULL;
}

/* For servers: finds the caller's secret. Without one there is no session, and without
 * certificates no other way in. */
static int find_secret(SSL *ssl, const unsigned char *identity, size_t len,
                       SSL_SESSION **ret_session)
{
    const struct fg_secret *secret = secret_of(ssl);

    *ret_session = NULL;
    for (size_t i = 0; i < secret->n && *ret_session == NULL; i++)
        if (fg_slice_is(fg_bytes(identity, len), secret->keys[i].identity))
            *ret_session = make_session(ssl, &secret->keys[i]);
    return 1;
}

/* Adds a secret: TLS 1.3 and no certificates from now on. A dialer trusts no authority then, so
 * a server that shows a certificate is refused. */
static int config_psk(nng_tls_engine_config *config, const char *identity, const uint8_t *key,
                      size_t key_len)
{
    struct fg_secret *secret = &config->secret;

    if (secret->n == FG_SECRETS_MAX || key_len != FG_SECRET_KEY_BYTES ||
        strlen(identity) != FG_SECRET_IDENTITY_BYTES - 1)
        return NNG_EINVAL;
    memcpy(secret->keys[secret->n].identity, identity, FG_SECRET_IDENTITY_BYTES);
    memcpy(secret->keys[secret->n].key, key, key_len);
    secret->n++;
    if (SSL_CTX_set_min_proto_version(config->ctx, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set_ciphersuites(config->ctx, "TLS_AES_128_GCM_SHA256") != 1)
        return NNG_ECRYPTO;
    (void)SSL_CTX_set_app_data(config->ctx, config);
    SSL_CTX_set_psk_use_session_callback(config->ctx, use_secret);
    SSL_CTX_set_psk_find_session_callback(config->ctx, find_secret);
    if (!config->dials)
        SSL_CTX_set_verify(config->ctx, SSL_VERIFY_NONE, NULL);
    return 0;
}

static int config_version(nng_tls_engine_config *config, nng_tls_version min, nng_tls_version max)
{
    (void)config;
    (void)min;
    (void)max;
    return NNG_ENOTSUP;
}

/* --- connections: nng has them locked --- */

static BIO_METHOD *bio_method; /* made with the engine */

static int conn_init(nng_tls_engine_conn *conn, void *link, nng_tls_engine_config *config)
{
    BIO *bio = BIO_new(bio_method);

    conn->ssl = SSL_new(config->ctx);
    if (bio == NULL || conn->ssl == NULL) {
        BIO_free(bio);
        return NNG_ENOMEM;
    }
    conn->secret = config->secret.n > 0;
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    SSL_set_bio(conn->ssl, bio, bio); /* takes it over */
    if (!config->dials) {
        SSL_set_accept_state(conn->ssl);
        return 0;
    }
    SSL_set_connect_state(conn->ssl);
    if (config->server_name != NULL &&
        SSL_set_tlsext_host_name(conn->ssl, config->server_name) != 1)
        return NNG_EADDRINVAL; /* too long for a name */
    return 0;
}

/* Also of one that was never initialised. */
static void conn_fini(nng_tls_engine_conn *conn)
{
    SSL_free(conn->ssl);
}

/* Says what is wrong with the other side's certificate, or what else OpenSSL reports. */
static const char *why(const nng_tls_engine_conn *conn)
{
    long verified = SSL_get_verify_result(conn->ssl);

    return verified == X509_V_OK ? fg_pem_why() : X509_verify_cert_error_string(verified);
}

/* Returns nng's error for an operation of OpenSSL that failed or must wait. */
static int result_of(nng_tls_engine_conn *conn, int result)
{
    int error = SSL_get_error(conn->ssl, result);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        return NNG_EAGAIN;
    conn->failed = true;
    if (error != SSL_ERROR_SSL)
        return NNG_ECLOSED; /* by the other side, or nng has closed what is below */
    nng_log_warn("NNG-TLS-FAIL", "%s%s",
                 conn->secret ? "the other side has a different secret or none (rpc.secret_file): "
                              : "",
                 conn->secret ? fg_pem_why() : why(conn));
    ERR_clear_error();
    return NNG_ECRYPTO;
}

static int conn_handshake(nng_tls_engine_conn *conn)
{
    int result;

    if (conn->failed)
        return NNG_ECLOSED;
    ERR_clear_error();
    result = SSL_do_handshake(conn->ssl);
    if (result != 1)
        return result_of(conn, result);
    /* The rules above leave no other way in. Checked again, because a mistake there would open a
     * door. */
    conn->failed = conn->secret && SSL_session_reused(conn->ssl) != 1;
    return conn->failed ? NNG_EPEERAUTH : 0;
}

static int conn_recv(nng_tls_engine_conn *conn, uint8_t *out, size_t *len)
{
    int result;

    if (conn->failed)
        return NNG_ECLOSED;
    ERR_clear_error();
    result = SSL_read_ex(conn->ssl, out, *len, len);
    return result == 1 ? 0 : result_of(conn, result);
}

static int conn_send(nng_tls_engine_conn *conn, const uint8_t *bytes, size_t *len)
{
    int result;

    if (conn->failed)
        return NNG_ECLOSED;
    ERR_clear_error();
    result = SSL_write_ex(conn->ssl, bytes, *len, len);
    return result == 1 ? 0 : result_of(conn, result);
}

static void conn_close(nng_tls_engine_conn *conn)
{
    if (conn->ssl == NULL || conn->failed || !SSL_is_init_finished(conn->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(conn->ssl);
    ERR_clear_error();
    conn->failed = true;
}

static bool conn_verified(nng_tls_engine_conn *conn)
{
    return SSL_is_init_finished(conn->ssl) &&
           (conn->secret || SSL_get_verify_result(conn->ssl) == X509_V_OK);
}

static char *common_name(nng_tls_engine_conn *conn)
{
    (void)conn;
    return NULL; /* unused: services are named in the certificate's extension */
}

/* Returns the DNS names of the other side's certificate, a list that ends with NULL; the caller
 * frees it and each name. NULL: the other side has shown no certificate. */
static char **alt_names(nng_tls_engine_conn *conn)
{
    X509 *cert = SSL_get0_peer_certificate(conn->ssl);
    GENERAL_NAMES *names =
        cert == NULL ? NULL : X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    int n = names == NULL ? 0 : sk_GENERAL_NAME_num(names);
    char **found = fg_calloc((size_t)n + 1, sizeof *found);
    size_t n_found = 0;

    for (int i = 0; i < n; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *text;
        size_t len;

        if (name->type != GEN_DNS)
            continue;
        text = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
        len = (size_t)ASN1_STRING_length(name->d.dNSName);
        if (memchr(text, '\0', len) != NULL)
            continue; /* says less than it has */
        found[n_found] = fg_calloc(1, len + 1);
        memcpy(found[n_found++], text, len);
    }
    GENERAL_NAMES_free(names);
    return found;
}

/* --- the engine --- */

static nng_tls_engine_config_ops config_ops = {
    .size = sizeof(nng_tls_engine_config),
    .init = config_init,
    .fini = config_fini,
    .server = config_server,
    .auth = config_auth,
    .ca_chain = config_ca_chain,
    .own_cert = config_own_cert,
    .psk = config_psk,
    .version = config_version,
};

static nng_tls_engine_conn_ops conn_ops = {
    .size = sizeof(nng_tls_engine_conn),
    .init = conn_init,
    .fini = conn_fini,
    .close = conn_close,
    .handshake = conn_handshake,
    .recv = conn_recv,
    .send = conn_send,
    .verified = conn_verified,
    .peer_cn = common_name,
    .peer_alt_names = alt_names,
};

static const nng_tls_engine engine = {
    .version = NNG_TLS_ENGINE_VERSION,
    .config_ops = &config_ops,
    .conn_ops = &conn_ops,
    .name = "OpenSSL",
    .description = OPENSSL_VERSION_TEXT,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int registered; /* what nng said */

static void make_engine(void)
{
    bio_method = fg_tls_make_bio_method("nng", bio_read, bio_write);
    registered = nng_tls_engine_register(&engine);
}

enum fg_code fg_tls_engine_register(struct fg_err *err)
{
    (void)pthread_once(&once, make_engine);
    return registered == 0 ? FG_OK
                           : fg_fail(err, FG_E_UNIMPLEMENTED, "tls+tcp: nng was built without TLS");
}
