#include "common/rpc/context.h"

#include "common/rpc/message.h"
#include "common/rpc/record.h"
#include "common/rpc/secure.h"

#include <pthread.h>

#define CONF(field) FG_CONF_AT(struct fg_rpc_settings, field)

/* clang-format off */
const struct fg_conf_field fg_rpc_fields[] = {
    {"cluster", FG_CONF_STRING, CONF(cluster), .def = "", .max = "200",
     .doc = "Name that all processes of one cluster have. Calls of processes with another one are refused, so that an address that is used again does no harm."},
    {"tls_cert_file", FG_CONF_STRING, CONF(tls_cert_file), .def = "", .max = "4000",
     .doc = "Certificate for calls between services in PEM form, followed by those that lead to its authority. Both sides show it: where it names its uses they have to be both. With it, tls_key_file and tls_ca_file addresses are tls+tcp://HOST:PORT. Changed files are taken over within seconds, for new connections."},
    {"tls_key_file", FG_CONF_STRING, CONF(tls_key_file), .def = "", .max = "4000",
     .doc = "Private key of rpc.tls_cert_file in PEM form, not encrypted."},
    {"tls_ca_file", FG_CONF_STRING, CONF(tls_ca_file), .def = "", .max = "4000",
     .doc = "Certificates in PEM form of the authorities that the other side's certificate has to be from."},
    {"tls_server_name", FG_CONF_STRING, CONF(tls_server_name), .def = "", .max = "250",
     .doc = "Name that has to be in the certificate of who is called; none: the host of the address."},
    {"threads", FG_CONF_UINT, CONF(threads), .def = "2", .min = "2", .max = "64",
     .doc = "Threads of the transport for calls between services."},
    {"answers_max_bytes", FG_CONF_BYTES, CONF(answers_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc = "Memory for large answers whose parts wait to be fetched, all together. Above it callers are refused with resource_exhausted."},
    {"ping_after", FG_CONF_NS, CONF(ping_after_ns), .def = "5s", .min = "10ms", .max = "1h",
     .doc = "After so long without any answer, though there are calls, another service is asked whether it is there at all."},
    {"ping_timeout", FG_CONF_NS, CONF(ping_timeout_ns), .def = "5s", .min = "10ms", .max = "1h",
     .doc = "After so long without an answer to that either the connection is closed and made anew, at the address that its name has by then: a machine that vanishes says no goodbye. Calls under way on it fail."},
};
/* clang-format on */
const size_t fg_rpc_n_fields = FG_COUNT(fg_rpc_fields);

enum { ANSWERS_MAX_BYTES = 256 * 1024 * 1024 }; /* as the default above */

/* clang-format off */
#define RPC_METRICS(M)                                                                                      \
    M(GAUGE, RPC_ANSWERS, "flamegrid_rpc_answers_waiting_bytes", "Large answers whose parts wait to be fetched")
/* clang-format on */
FG_METRICS_ENUM(rpc_metric, RPC_METRICS)
static const struct fg_metric_def rpc_metrics[] = FG_METRICS_DEFS(RPC_METRICS);

/* Beyond it they share one name: labels are for what one can look at. */
enum { PEERS_NAMED_MAX = 256 };

struct fg_rpc {
    const struct fg_rpc_settings *settings;
    uint64_t cluster;
    struct fg_secure *secure;     /* NULL: no TLS */
    struct fg_registry *registry; /* NULL: nothing is counted */
    struct fg_metrics *metrics;
    pthread_mutex_t lock; /* of all below */
    struct fg_peer *peers;
    size_t n_peers;
    struct fg_held *held;
};

static void on_scrape(void *arg)
{
    struct fg_rpc *rpc = arg;

    (void)pthread_mutex_lock(&rpc->lock);
    for (struct fg_peer *peer = rpc->peers; peer != NULL; peer = peer->next_counted)
        fg_record_scrape(peer->record, peer);
    fg_metric_set(rpc->metrics, RPC_ANSWERS,
                  rpc->held == NULL ? 0 : (int64_t)fg_held_bytes(rpc->held));
    (void)pthread_mutex_unlock(&rpc->lock);
}

static void start_counting(struct fg_rpc *rpc)
{
    if (rpc->registry == NULL)
        return;
    rpc->metrics = fg_metrics_register(rpc->registry, rpc_metrics, FG_COUNT(rpc_metrics));
    fg_registry_on_scrape(rpc->registry, on_scrape, rpc);
}

/* Any of the settings asks for TLS, so that none is passed over in silence. */
static enum fg_code start_tls(struct fg_rpc *rpc, struct fg_registry *registry, struct fg_err *err)
{
    const struct fg_rpc_settings *settings = rpc->settings;
    bool cert = fg_rpc_is_set(settings->tls_cert_file), key = fg_rpc_is_set(settings->tls_key_file),
         ca = fg_rpc_is_set(settings->tls_ca_file);

    if (!cert && !key && !ca && !fg_rpc_is_set(settings->tls_server_name))
        return FG_OK;
    if (!cert || !key || !ca)
        return fg_fail(err, FG_E_INVALID,
                       "TLS between services needs all of rpc.tls_cert_file, rpc.tls_key_file and "
                       "rpc.tls_ca_file");
    return fg_secure_create(settings, registry, &rpc->secure, err);
}

enum fg_code fg_rpc_create(const struct fg_rpc_settings *settings, struct fg_registry *registry,
                           struct fg_rpc **ret_rpc, struct fg_err *err)
{
    struct fg_rpc *rpc = fg_new(struct fg_rpc);

    fg_rpc_init((unsigned)settings->threads);
    rpc->settings = settings;
    rpc->registry = registry;
    (void)pthread_mutex_init(&rpc->lock, NULL);
    if (fg_rpc_is_set(settings->cluster))
        rpc->cluster = fg_rpc_cluster_key(settings->cluster);
    if (start_tls(rpc, registry, err) != FG_OK) {
        fg_rpc_destroy(rpc);
        return err->code;
    }
    start_counting(rpc);
    *ret_rpc = rpc;
    return FG_OK;
}

void fg_rpc_destroy(struct fg_rpc *rpc)
{
    if (rpc == NULL)
        return;
    fg_assert(rpc->peers == NULL && rpc->held == NULL);
    fg_secure_destroy(rpc->secure);
    (void)pthread_mutex_destroy(&rpc->lock);
    free(rpc);
}

bool fg_rpc_tls_reload(struct fg_rpc *rpc)
{
    return rpc->secure != NULL && fg_secure_reload(rpc->secure);
}

int64_t fg_rpc_ping_after_ns(const struct fg_rpc *rpc)
{
    return rpc == NULL ? 0 : rpc->settings->ping_after_ns;
}

int64_t fg_rpc_ping_timeout_ns(const struct fg_rpc *rpc)
{
    return rpc == NULL ? 0 : rpc->settings->ping_timeout_ns;
}

struct fg_secure *fg_rpc_secure(const struct fg_rpc *rpc)
{
    return rpc == NULL ? NULL : rpc->secure;
}

uint64_t fg_rpc_cluster(const struct fg_rpc *rpc)
{
    return rpc == NULL ? 0 : rpc->cluster;
}

const char *fg_rpc_cluster_name(const struct fg_rpc *rpc)
{
    return rpc == NULL ? "" : rpc->settings->cluster;
}

uint64_t fg_rpc_answers_max(const struct fg_rpc *rpc)
{
    return rpc == NULL ? ANSWERS_MAX_BYTES : rpc->settings->answers_max_bytes;
}

/* --- peers --- */

static const char *label_of(const char *url)
{
    const char *host = strstr(url, "://");

    return host == NULL ? url : host + 3;
}

void fg_rpc_add_peer(struct fg_rpc *rpc, struct fg_peer *peer, const char *url)
{
    bool named;

    if (rpc == NULL || rpc->registry == NULL)
        return;
    (void)pthread_mutex_lock(&rpc->lock);
    named = rpc->n_peers++ < PEERS_NAMED_MAX;
    (void)pthread_mutex_unlock(&rpc->lock);
    peer->record = fg_record_create(rpc->registry, named ? label_of(url) : "other");
    (void)pthread_mutex_lock(&rpc->lock);
    peer->next_counted = rpc->peers;
    rpc->peers = peer;
    (void)pthread_mutex_unlock(&rpc->lock);
}

void fg_rpc_remove_peer(struct fg_rpc *rpc, struct fg_peer *peer)
{
    if (rpc == NULL || peer->record == NULL)
        return;
    (void)pthread_mutex_lock(&rpc->lock);
    for (struct fg_peer **at = &rpc->peers; *at != NULL; at = &(*at)->next_counted)
        if (*at == peer) {
            *at = peer->next_counted;
            rpc->n_peers--;
            break;
        }
    (void)pthread_mutex_unlock(&rpc->lock);
    fg_record_destroy(fg_take(peer->record));
}

void fg_rpc_show_held(struct fg_rpc *rpc, struct fg_held *held)
{
    if (rpc == NULL)
        return;
    (void)pthread_mutex_lock(&rpc->lock);
    rpc->held = held;
    (void)pthread_mutex_unlock(&rpc->lock);
}
