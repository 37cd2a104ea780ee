#include "common/net/rpc/secure.h"

#include "common/base/hash.h"
#include "common/base/time.h"
#include "common/net/pem.h"
#include "common/net/rpc/kinds.h"
#include "common/net/rpc/secret.h"
#include "common/net/rpc/settings.h"
#include "common/net/rpc/tls_engine.h"
#include "common/net/rpc/wire.h"
#include "common/runtime/log.h"
#include "common/runtime/ticker.h"

#include <pthread.h>
#include <strings.h>
#include <time.h>

static const int64_t CHECK_NS = 5 * FG_SECOND_NS; /* as the HTTP server's */

/* clang-format off */
#define SECURE_METRICS(M)                                                                                        \
    M(COUNTER, SECURE_RELOADS, "flamegrid_rpc_tls_reloads_total", "Successful reloads of changed certificate or secret files for calls between services") \
    M(COUNTER, SECURE_RELOADS_FAILED, "flamegrid_rpc_tls_reload_failures_total", "Failed reloads of changed certificate or secret files for calls between services") \
    M(GAUGE, SECURE_RELOAD_FAILED, "flamegrid_reload_failed{file=\"rpc_tls\"}", "1 while the last version of a changed file is invalid and the one before it is in use") \
    M(GAUGE, SECURE_EXPIRY, "flamegrid_rpc_tls_certificate_expiry_timestamp_seconds", "Expiry of the certificate for calls between services, in seconds since the epoch")
/* clang-format on */
FG_METRICS_ENUM(secure_metric, SECURE_METRICS)
FG_METRICS_TABLE(secure_metrics, SECURE_METRICS)

enum { CERT, KEY, CA, SECRET, FILES }; /* the first three, or the last */

/* The files as they were at one moment: complete, and fitting each other. */
struct secure_set {
    struct fg_pem_file files[FILES];
    int64_t end_s; /* of the certificate */
    struct fg_secret secret;
};

struct fg_rpc_secure {
    const struct fg_rpc_settings *settings;
    struct fg_metrics *metrics; /* NULL: nothing is counted */
    struct fg_ticker *ticker;   /* reads changed files */
    pthread_mutex_t lock;       /* of all below */
    struct secure_set set;      /* in use */
    uint64_t tried;             /* hash of the files last looked at, good or bad */
    struct fg_secure_end *ends;
};

/* --- the files --- */

static void set_done(struct secure_set *set)
{
    for (size_t i = 0; i < FILES; i++)
        fg_pem_done(&set->files[i]);
    fg_secret_done(&set->secret);
}

static const char *text_of(const struct secure_set *set, size_t file)
{
    return (const char *)set->files[file].content.ptr;
}

static bool has_secret(const struct secure_set *set)
{
    return set->files[SECRET].path != NULL;
}

static int give_certificates(const struct secure_set *set, const char *server_name,
                             nng_tls_config *config)
{
    int rv = nng_tls_config_auth_mode(config, NNG_TLS_AUTH_MODE_REQUIRED);

    if (rv == 0)
        rv = nng_tls_config_ca_chain(config, text_of(set, CA), NULL);
    if (rv == 0)
        rv = nng_tls_config_own_cert(config, text_of(set, CERT), text_of(set, KEY), NULL);
    if (rv == 0 && server_name != NULL)
        rv = nng_tls_config_server_name(config, server_name);
    return rv;
}

/* A caller uses the first of them. */
static int give_secrets(const struct secure_set *set, bool listens, nng_tls_config *config)
{
    size_t n = listens ? set->secret.n : 1;
    int rv = 0;

    for (size_t i = 0; i < n && rv == 0; i++)
        rv = nng_tls_config_psk(config, set->secret.keys[i].identity, set->secret.keys[i].key,
                                FG_SECRET_KEY_BYTES);
    return rv;
}

/* Creates a configuration. server_name NULL: for a listener. */
static enum fg_code make_config(const struct secure_set *set, const char *server_name,
                                nng_tls_config **ret_config, struct fg_err *err)
{
    nng_tls_config *config = NULL;
    bool listens = server_name == NULL;
    int rv = nng_tls_config_alloc(&config, listens ? NNG_TLS_MODE_SERVER : NNG_TLS_MODE_CLIENT);

    if (rv == 0)
        rv = has_secret(set) ? give_secrets(set, listens, config)
                             : give_certificates(set, server_name, config);
    if (rv == 0) {
        *ret_config = config;
        return FG_OK;
    }
    if (config != NULL)
        nng_tls_config_free(config);
    if (has_secret(set))
        return fg_fail(err, FG_E_INVALID, "rpc.secret_file \"%s\": %s", set->files[SECRET].path,
                       nng_strerror(rv));
    return fg_fail(err, FG_E_INVALID,
                   "rpc.tls_cert_file \"%s\", rpc.tls_key_file, rpc.tls_ca_file: %s: %s",
                   set->files[CERT].path, nng_strerror(rv), fg_pem_why());
}

static enum fg_code check_certificates(struct secure_set *set, struct fg_err *err)
{
    if (fg_pem_check_pair(&set->files[CERT], &set->files[KEY], &set->end_s, err) != FG_OK)
        return err->code;
    return fg_pem_check_certs(&set->files[CA], err);
}

static enum fg_code check_files(struct secure_set *set, struct fg_err *err)
{
    nng_tls_config *config = NULL;

    if ((has_secret(set) ? fg_secret_read(&set->files[SECRET], &set->secret, err)
                         : check_certificates(set, err)) != FG_OK ||
        make_config(set, NULL, &config, err) != FG_OK)
        return err->code;
    nng_tls_config_free(config);
    return FG_OK;
}

/* Reads the files into *ret_set, also if it fails; set_done() frees them. */
static enum fg_code read_set(const struct fg_rpc_settings *settings, struct secure_set *ret_set,
                             struct fg_err *err)
{
    const struct {
        const char *setting, *path;
    } files[FILES] = {
        [CERT] = {"rpc.tls_cert_file", settings->tls_cert_file},
        [KEY] = {"rpc.tls_key_file", settings->tls_key_file},
        [CA] = {"rpc.tls_ca_file", settings->tls_ca_file},
        [SECRET] = {"rpc.secret_file", settings->secret_file},
    };

    *ret_set = (struct secure_set){0};
    for (size_t i = 0; i < FILES; i++) {
        if (!fg_rpc_is_set(files[i].path))
            continue;
        ret_set->files[i].setting = files[i].setting;
        ret_set->files[i].path = files[i].path;
        if (fg_pem_read(&ret_set->files[i], err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

/* Compares files by content: their times are coarse, and Kubernetes changes what a name points
 * to. */
static uint64_t hash_of(const struct secure_set *set)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < FILES; i++)
        hash = fg_mix64(hash ^ fg_hash64(fg_buf_slice(&set->files[i].content)));
    return hash;
}

/* --- ends --- */

/* Locked. */
static enum fg_code give_config(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                                struct fg_err *err)
{
    nng_tls_config *config = NULL;
    int rv;

    if (make_config(&secure->set, end->listens ? NULL : end->server_name, &config, err) != FG_OK)
        return err->code;
    rv = end->listens ? nng_listener_set_ptr(end->listener, NNG_OPT_TLS_CONFIG, config)
                      : nng_dialer_set_ptr(end->dialer, NNG_OPT_TLS_CONFIG, config);
    if (rv != 0) {
        nng_tls_config_free(config);
        return fg_fail(err, fg_wire_code(rv), "TLS: %s", nng_strerror(rv));
    }
    if (end->previous != NULL)
        nng_tls_config_free(end->previous);
    end->previous = end->current;
    end->current = config;
    return FG_OK;
}

static bool is_tls(const char *url)
{
    return fg_slice_starts(fg_cstr(url), "tls+tcp");
}

enum fg_code fg_secure_check_url(const struct fg_rpc_secure *secure, const char *url,
                                 struct fg_err *err)
{
    if (is_tls(url) && secure == NULL)
        return fg_fail(err, FG_E_INVALID,
                       "needs rpc.secret_file, or rpc.tls_cert_file, rpc.tls_key_file and "
                       "rpc.tls_ca_file");
    if (secure != NULL && fg_slice_starts(fg_cstr(url), "tcp"))
        return fg_fail(err, FG_E_INVALID,
                       "address is cleartext although rpc.%s_file is set; use tls+%s",
                       fg_rpc_is_set(secure->settings->secret_file) ? "secret" : "tls_cert", url);
    return FG_OK;
}

bool fg_secure_demands_roles(const struct fg_rpc_secure *secure)
{
    return secure != NULL && !fg_rpc_is_set(secure->settings->secret_file) &&
           fg_rpc_is_set(secure->settings->tls_role_domain);
}

unsigned fg_secure_roles(const struct fg_rpc_secure *secure, nng_pipe pipe)
{
    unsigned roles = 0;
    void *found = NULL;

    if (nng_pipe_get_ptr(pipe, NNG_OPT_TLS_PEER_ALT_NAMES, &found) != 0 || found == NULL)
        return 0;
    for (char **name = found; *name != NULL; name++) {
        /* "ingester.DOMAIN". Names in certificates are not case-sensitive. */
        const char *dot = strchr(*name, '.');

        roles |= dot != NULL && strcasecmp(dot + 1, secure->settings->tls_role_domain) == 0
                     ? fg_rpc_role_of(*name, (size_t)(dot - *name))
                     : 0;
        free(*name);
    }
    free(found);
    return roles;
}

static enum fg_code add_end(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                            struct fg_err *err)
{
    enum fg_code code;

    (void)pthread_mutex_lock(&secure->lock);
    code = give_config(secure, end, err);
    end->next = secure->ends;
    secure->ends = end;
    (void)pthread_mutex_unlock(&secure->lock);
    return code;
}

static enum fg_code name_of(const struct fg_rpc_secure *secure, const char *url, char **ret_name,
                            struct fg_err *err)
{
    nng_url *parsed;
    int rv = nng_url_parse(&parsed, url);

    if (rv != 0)
        return fg_fail(err, fg_wire_code(rv), "%s: %s", url, nng_strerror(rv));
    *ret_name = fg_strdup(fg_rpc_is_set(secure->settings->tls_server_name)
                              ? secure->settings->tls_server_name
                              : parsed->u_hostname);
    nng_url_free(parsed);
    return FG_OK;
}

enum fg_code fg_secure_add_dialer(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                                  nng_dialer dialer, const char *url, struct fg_err *err)
{
    if (!is_tls(url))
        return FG_OK;
    end->dialer = dialer;
    if (name_of(secure, url, &end->server_name, err) != FG_OK)
        return err->code;
    return add_end(secure, end, err);
}

enum fg_code fg_secure_add_listener(struct fg_rpc_secure *secure, struct fg_secure_end *end,
                                    nng_listener listener, const char *url, struct fg_err *err)
{
    if (!is_tls(url))
        return FG_OK;
    end->listens = true;
    end->listener = listener;
    return add_end(secure, end, err);
}

void fg_secure_remove(struct fg_rpc_secure *secure, struct fg_secure_end *end)
{
    if (secure == NULL)
        return;
    (void)pthread_mutex_lock(&secure->lock);
    for (struct fg_secure_end **at = &secure->ends; *at != NULL; at = &(*at)->next)
        if (*at == end) {
            *at = end->next;
            break;
        }
    (void)pthread_mutex_unlock(&secure->lock);
    if (end->current != NULL)
        nng_tls_config_free(end->current);
    if (end->previous != NULL)
        nng_tls_config_free(end->previous);
    free(end->server_name);
    *end = (struct fg_secure_end){0};
}

/* --- changes --- */

static void count(const struct fg_rpc_secure *secure, enum secure_metric metric)
{
    if (secure->metrics != NULL)
        fg_metric_add(secure->metrics, metric, 1);
}

static void say_end(const struct fg_rpc_secure *secure)
{
    if (has_secret(&secure->set))
        return;
    if (secure->metrics != NULL)
        fg_metric_set(secure->metrics, SECURE_EXPIRY, secure->set.end_s);
    if (secure->set.end_s < time(NULL))
        fg_log_warn("certificate for calls between services has expired",
                    fg_ls("file", secure->settings->tls_cert_file),
                    fg_li("end_s", secure->set.end_s));
}

/* Locked. Uses a good set from now on. An end that nng has closed meanwhile does not take it. */
static void take_over(struct fg_rpc_secure *secure, struct secure_set *set)
{
    struct fg_err ignored;

    set_done(&secure->set);
    secure->set = *set;
    *set = (struct secure_set){0};
    for (struct fg_secure_end *end = secure->ends; end != NULL; end = end->next)
        (void)give_config(secure, end, &ignored);
    count(secure, SECURE_RELOADS);
    if (has_secret(&secure->set))
        fg_log_info("loaded new secrets for calls between services",
                    fg_ls("file", secure->settings->secret_file),
                    fg_lu("secrets", secure->set.secret.n));
    else
        fg_log_info("loaded a new certificate for calls between services",
                    fg_ls("file", secure->settings->tls_cert_file),
                    fg_li("end_s", secure->set.end_s));
    say_end(secure);
}

bool fg_secure_reload(struct fg_rpc_secure *secure)
{
    bool taken = false;
    struct secure_set set;
    struct fg_err err;
    enum fg_code code;

    (void)pthread_mutex_lock(&secure->lock);
    code = read_set(secure->settings, &set, &err);
    if (hash_of(&set) != secure->tried) {
        secure->tried = hash_of(&set);
        if (code == FG_OK)
            code = check_files(&set, &err);
        taken = code == FG_OK;
        if (taken) {
            take_over(secure, &set);
        } else {
            count(secure, SECURE_RELOADS_FAILED);
            fg_log_error("changed certificate or secret files for calls between services are "
                         "invalid, keeping the old ones",
                         fg_ls("err", err.msg));
        }
        if (secure->metrics != NULL)
            fg_metric_set(secure->metrics, SECURE_RELOAD_FAILED, !taken);
    }
    (void)pthread_mutex_unlock(&secure->lock);
    set_done(&set);
    return taken;
}

static void tick(void *arg)
{
    (void)fg_secure_reload(arg);
}

/* --- beginning and end --- */

enum fg_code fg_secure_create(const struct fg_rpc_settings *settings, struct fg_registry *registry,
                              struct fg_rpc_secure **ret_secure, struct fg_err *err)
{
    struct fg_ticker_config ticker = {.name = "rpc-tls-files", .period_ns = CHECK_NS, .tick = tick};
    struct fg_rpc_secure *secure;
    struct secure_set set;

    if (fg_tls_engine_register(err) != FG_OK)
        return err->code;
    if (read_set(settings, &set, err) != FG_OK || check_files(&set, err) != FG_OK) {
        set_done(&set);
        return err->code;
    }
    secure = fg_new(struct fg_rpc_secure);
    secure->settings = settings;
    secure->tried = hash_of(&set);
    secure->set = set;
    if (registry != NULL)
        secure->metrics = fg_metrics_register(registry, secure_metrics, FG_COUNT(secure_metrics));
    say_end(secure);
    (void)pthread_mutex_init(&secure->lock, NULL);
    ticker.arg = secure;
    if (fg_ticker_create(&ticker, &secure->ticker, err) != FG_OK) {
        fg_secure_destroy(secure);
        return err->code;
    }
    *ret_secure = secure;
    return FG_OK;
}

void fg_secure_destroy(struct fg_rpc_secure *secure)
{
    if (secure == NULL)
        return;
    fg_assert(secure->ends == NULL);
    fg_ticker_destroy(secure->ticker);
    set_done(&secure->set);
    (void)pthread_mutex_destroy(&secure->lock);
    free(secure);
}
