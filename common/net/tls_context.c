/* Certificates: read at the start, and again whenever their files have changed. */
#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/net/pem.h"
#include "common/net/tls_impl.h"
#include "common/net/tls_rules.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <openssl/err.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <time.h>

enum { CERT, KEY, CLIENT_CA, FILES };

enum { FILE_MAX_BYTES = 1024 * 1024 }; /* all of the world's authorities are a fifth of it */

/* The protocols that we speak, in the order we like them (RFC 7301, 3.1). */
static const unsigned char protocols[] = "\x02h2\x08http/1.1";

FG_METRICS_TABLE(tls_metrics, TLS_METRICS)

struct fg_tls_context {
    char *files[FILES]; /* "": none */
    enum fg_tls_client_auth client_auth;
    int64_t check_ns;
    struct fg_metrics *metrics;
    uint64_t hashes[FILES];   /* of what was last tried, good or bad; of the reloading thread */
    struct fg_ticker *ticker; /* reads changed files; NULL: nobody does */
    pthread_mutex_t lock;     /* of `current`; held for taking a reference */
    SSL_CTX *current;
};

/* --- reading one set --- */

static enum fg_code fail(struct fg_err *err, const char *what, const char *file)
{
    return fg_fail(err, FG_E_INVALID, "%s \"%s\": %s", what, file, fg_pem_why());
}

static int choose_protocol(SSL *ssl, const unsigned char **ret_chosen, unsigned char *ret_len,
                           const unsigned char *offered, unsigned offered_len, void *arg)
{
    unsigned char *chosen;

    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&chosen, ret_len, protocols, sizeof protocols - 1, offered,
                              offered_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL; /* RFC 7301, 3.2 */
    *ret_chosen = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static enum fg_code load_clients_ca(struct fg_tls_context *context, SSL_CTX *ctx,
                                    struct fg_err *err)
{
    const char *file = context->files[CLIENT_CA];
    STACK_OF(X509_NAME) * names;

    if (context->client_auth == FG_TLS_CLIENT_NONE)
        return FG_OK;
    names = SSL_load_client_CA_file(file);
    if (names == NULL || SSL_CTX_load_verify_file(ctx, file) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail(err, "tls_client_ca_file", file);
    }
    SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL); /* one that is missing is no failure here */
    return FG_OK;
}

static enum fg_code load_files(struct fg_tls_context *context, SSL_CTX *ctx, struct fg_err *err)
{
    bool encrypted = false;

    ERR_clear_error();
    SSL_CTX_set_default_passwd_cb(ctx, fg_pem_no_password);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &encrypted);
    if (SSL_CTX_use_certificate_chain_file(ctx, context->files[CERT]) != 1)
        return fail(err, "tls_cert_file", context->files[CERT]);
    if (SSL_CTX_use_PrivateKey_file(ctx, context->files[KEY], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(ctx) != 1)
        return encrypted ? fg_fail(err, FG_E_INVALID, "tls_key_file \"%s\": the key is encrypted",
                                   context->files[KEY])
                         : fail(err, "tls_key_file", context->files[KEY]);
    return load_clients_ca(context, ctx, err);
}

static enum fg_code load(struct fg_tls_context *context, SSL_CTX **ret_ctx, struct fg_err *err)
{
    static const unsigned char id[] = "flamegrid";
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    fg_assert(ctx != NULL);
    fg_tls_set_rules(ctx);
    /* Tickets hold what a session needs; resuming one wants this id where clients are asked for
     * certificates. */
    fg_assert(SSL_CTX_set_session_id_context(ctx, id, sizeof id - 1) == 1);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    if (load_files(context, ctx, err) != FG_OK) {
        SSL_CTX_free(ctx);
        return err->code;
    }
    *ret_ctx = ctx;
    return FG_OK;
}

/* --- taking it over --- */

static time_t end_of(SSL_CTX *ctx)
{
    struct tm tm;

    if (ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(ctx)), &tm) != 1)
        return 0;
    return timegm(&tm);
}

static void take_over(struct fg_tls_context *context, SSL_CTX *ctx)
{
    time_t end_s = end_of(ctx);
    SSL_CTX *old;

    pthread_mutex_lock(&context->lock);
    old = context->current;
    context->current = ctx;
    pthread_mutex_unlock(&context->lock);
    SSL_CTX_free(old);
    if (context->metrics != NULL)
        fg_metric_set(context->metrics, TLS_EXPIRY, (int64_t)end_s);
    if (end_s < time(NULL))
        fg_log_warn("TLS certificate has expired", fg_ls("file", context->files[CERT]),
                    fg_li("end_s", (int64_t)end_s));
}

SSL_CTX *fg_tls_context_current(struct fg_tls_context *context)
{
    SSL_CTX *ctx;

    pthread_mutex_lock(&context->lock);
    ctx = context->current;
    fg_assert(SSL_CTX_up_ref(ctx) == 1);
    pthread_mutex_unlock(&context->lock);
    return ctx;
}

bool fg_tls_context_requires_client(const struct fg_tls_context *context)
{
    return context->client_auth == FG_TLS_CLIENT_REQUIRE;
}

struct fg_metrics *fg_tls_context_metrics(const struct fg_tls_context *context)
{
    return context->metrics;
}

/* --- changes --- */

/* By content: times are coarse, and Kubernetes changes what a name points to. 0: not to be read. */
static uint64_t hash_of(const char *file)
{
    struct fg_buf content;
    struct fg_err err;
    uint64_t hash = 0;

    fg_buf_init(&content, FILE_MAX_BYTES);
    if (file[0] != '\0' && fg_conf_read_file(file, &content, &err) == FG_OK)
        hash = fg_hash64(fg_buf_slice(&content));
    if (content.len > 0)
        OPENSSL_cleanse(content.ptr, content.len); /* it may be the key */
    fg_buf_done(&content);
    return hash;
}

/* true: something is not as it was the last time. */
static bool files_changed(struct fg_tls_context *context)
{
    bool changed = false;

    for (size_t i = 0; i < FILES; i++) {
        uint64_t hash = hash_of(context->files[i]);

        changed |= hash != context->hashes[i];
        context->hashes[i] = hash;
    }
    return changed;
}

static void count(const struct fg_tls_context *context, enum tls_metric metric, bool failed)
{
    if (context->metrics == NULL)
        return;
    fg_metric_add(context->metrics, metric, 1);
    fg_metric_set(context->metrics, TLS_RELOAD_FAILED, failed);
}

/*
 * The look comes before the files are read for good: what changes meanwhile looks new the next
 * time. So a certificate that is there before its key is an error once, and right a moment later.
 */
bool fg_tls_context_reload(struct fg_tls_context *context)
{
    struct fg_err err;
    SSL_CTX *ctx = NULL;

    if (!files_changed(context))
        return false;
    if (load(context, &ctx, &err) != FG_OK) {
        fg_log_error("changed TLS files are invalid, keeping the old certificate",
                     fg_ls("err", err.msg));
        count(context, TLS_RELOADS_FAILED, true);
        return false;
    }
    take_over(context, ctx);
    count(context, TLS_RELOADS, false);
    fg_log_info("loaded a new TLS certificate", fg_ls("file", context->files[CERT]),
                fg_li("end_s", (int64_t)end_of(ctx)));
    return true;
}

static void tick(void *arg)
{
    (void)fg_tls_context_reload(arg);
}

/* --- beginning and end --- */

static void free_context(struct fg_tls_context *context)
{
    for (size_t i = 0; i < FILES; i++)
        free(context->files[i]);
    SSL_CTX_free(context->current);
    (void)pthread_mutex_destroy(&context->lock);
    free(context);
}

static char *copy_name(const char *name)
{
    return fg_strdup(name == NULL ? "" : name);
}

static struct fg_tls_context *new_context(const struct fg_tls_config *config,
                                          struct fg_registry *registry)
{
    struct fg_tls_context *context = fg_new(struct fg_tls_context);

    context->files[CERT] = copy_name(config->cert_file);
    context->files[KEY] = copy_name(config->key_file);
    context->files[CLIENT_CA] = copy_name(config->client_ca_file);
    context->client_auth = config->client_auth;
    context->check_ns = config->check_ns;
    if (registry != NULL)
        context->metrics = fg_metrics_register(registry, tls_metrics, FG_COUNT(tls_metrics));
    fg_assert(pthread_mutex_init(&context->lock, NULL) == 0);
    return context;
}

/* Refuses settings that do not go together. */
static enum fg_code check_settings(const struct fg_tls_context *context, struct fg_err *err)
{
    bool has_ca = context->files[CLIENT_CA][0] != '\0';

    if (context->files[CERT][0] == '\0' || context->files[KEY][0] == '\0')
        return fg_fail(err, FG_E_INVALID, "TLS needs both tls_cert_file and tls_key_file");
    if (context->client_auth != FG_TLS_CLIENT_NONE && !has_ca)
        return fg_fail(err, FG_E_INVALID, "tls_client_auth needs tls_client_ca_file");
    if (context->client_auth == FG_TLS_CLIENT_NONE && has_ca)
        return fg_fail(err, FG_E_INVALID,
                       "tls_client_ca_file has no effect while tls_client_auth is none");
    return FG_OK;
}

enum fg_code fg_tls_context_create(const struct fg_tls_config *config, struct fg_registry *registry,
                                   struct fg_tls_context **ret_context, struct fg_err *err)
{
    struct fg_tls_context *context = new_context(config, registry);
    const struct fg_ticker_config ticker = {
        .name = "tls-files", .period_ns = context->check_ns, .tick = tick, .arg = context};
    SSL_CTX *ctx = NULL;

    (void)files_changed(context);
    if (check_settings(context, err) != FG_OK || load(context, &ctx, err) != FG_OK) {
        free_context(context);
        return err->code;
    }
    take_over(context, ctx);
    if (context->check_ns > 0 && fg_ticker_create(&ticker, &context->ticker, err) != FG_OK) {
        free_context(context);
        return err->code;
    }
    *ret_context = context;
    return FG_OK;
}

void fg_tls_context_destroy(struct fg_tls_context *context)
{
    if (context == NULL)
        return;
    fg_ticker_destroy(context->ticker);
    free_context(context);
}
