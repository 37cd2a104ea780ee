#include "common/net/rpc/context.h"

#include "common/net/rpc/chunked_replies.h"
#include "common/net/rpc/message.h"
#include "common/net/rpc/peer_metrics.h"
#include "common/net/rpc/request.h"
#include "common/net/rpc/secure.h"
#include "common/net/rpc/wire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/resource.h>

/* Of a process without settings, and the bounds of shares of memory_max_bytes. */
enum {
    ANSWERS_MAX_BYTES = 256 * 1024 * 1024,  /* as the default above */
    REQUESTS_MAX_BYTES = 512 * 1024 * 1024, /* a single server, which calls only itself */
    REQUESTS_LEAST_BYTES = 16 * 1024 * 1024,
    CONNECTIONS_MAX = 256, /* as of memory_max_bytes of 4 GiB */
    CONNECTIONS_LEAST = 32,
    CONNECTIONS_MOST = 4096, /* descriptors are counted, too */
    SHARE = 8,               /* of memory_max_bytes, and of open files: an eighth */
};

/* clang-format off */
#define RPC_METRICS(M)                                                                                      \
    M(GAUGE, RPC_ANSWERS, "flamegrid_rpc_answers_waiting_bytes", "Memory of large responses whose chunks wait to be fetched") \
    M(GAUGE, RPC_REQUESTS, "flamegrid_rpc_requests_held_bytes", "Memory of requests from other services that are being received in chunks or processed") \
    M(GAUGE, RPC_CONNECTIONS, "flamegrid_rpc_connections", "Connections from other services")      \
    M(COUNTER, RPC_REFUSED_FIRST, RPC_REFUSED("protocol"), RPC_REFUSED_HELP)                                  \
    M(COUNTER, RPC_REFUSED_CLUSTER, RPC_REFUSED("cluster"), RPC_REFUSED_HELP)                                 \
    M(COUNTER, RPC_REFUSED_METHOD, RPC_REFUSED("method"), RPC_REFUSED_HELP)                                   \
    M(COUNTER, RPC_REFUSED_ROLE, RPC_REFUSED("role"), RPC_REFUSED_HELP)                                       \
    M(COUNTER, RPC_REFUSED_LATE, RPC_REFUSED("late"), RPC_REFUSED_HELP)                                       \
    M(COUNTER, RPC_REFUSED_TOO_LARGE, RPC_REFUSED("too_large"), RPC_REFUSED_HELP)                             \
    M(COUNTER, RPC_REFUSED_BUSY, RPC_REFUSED("busy"), RPC_REFUSED_HELP)                                       \
    M(COUNTER, RPC_REFUSED_CONNECTIONS, RPC_REFUSED("connections"), RPC_REFUSED_HELP)                         \
    M(COUNTER, RPC_REFUSED_ADDRESS, RPC_REFUSED("address"), RPC_REFUSED_HELP)                                 \
    M(COUNTER, RPC_REFUSED_CERTIFICATE, RPC_REFUSED("certificate"), RPC_REFUSED_HELP)                         \
    M(COUNTER, RPC_REFUSED_SHARE, RPC_REFUSED("share"), RPC_REFUSED_HELP)                                     \
    M(COUNTER, RPC_REFUSED_UNREAD, RPC_REFUSED("unread"), RPC_REFUSED_HELP)                                   \
    M(COUNTER, RPC_REFUSED_GREETING, RPC_REFUSED("greeting"), RPC_REFUSED_HELP)
/* clang-format on */
#define RPC_REFUSED(reason) "flamegrid_rpc_refused_total{reason=\"" reason "\"}"
#define RPC_REFUSED_HELP    "Refused calls and connections of other services, by reason"
FG_METRICS_ENUM(rpc_metric, RPC_METRICS)
FG_METRICS_TABLE(rpc_metrics, RPC_METRICS)

/* Of a process without keep-alive: as the defaults of its settings. */
static const int64_t UNREAD_NS = 10 * FG_SECOND_NS;

/* Beyond it they share one name: labels are for what one can look at. */
enum { PEERS_NAMED_MAX = 256 };

struct fg_rpc {
    const struct fg_rpc_settings *settings;
    uint64_t cluster;
    struct fg_rpc_secure *secure; /* NULL: no TLS */
    struct fg_registry *registry; /* NULL: nothing is counted */
    struct fg_metrics *metrics;
    pthread_mutex_t lock; /* of all below */
    struct fg_peer *peers;
    size_t n_peers;
    struct fg_rpc_server *server; /* whose load is shown; NULL: none */
};

static void on_scrape(void *arg)
{
    struct fg_rpc *rpc = arg;

    (void)pthread_mutex_lock(&rpc->lock);
    for (struct fg_peer *peer = rpc->peers; peer != NULL; peer = peer->next_counted)
        fg_peer_metrics_scrape(peer->metrics, peer);
    if (rpc->server != NULL) {
        fg_metric_set(
            rpc->metrics, RPC_ANSWERS,
            (int64_t)fg_chunked_replies_bytes(fg_rpc_server_chunked_replies(rpc->server)));
        fg_metric_set(rpc->metrics, RPC_REQUESTS,
                      (int64_t)fg_rpc_server_request_bytes(rpc->server));
        fg_metric_set(rpc->metrics, RPC_CONNECTIONS, fg_rpc_server_connections(rpc->server));
        fg_metric_set_total(rpc->metrics, RPC_REFUSED_GREETING, fg_wire_greetings_refused());
    }
    (void)pthread_mutex_unlock(&rpc->lock);
}

/* Any one of the settings asks for TLS, so that none of them is ignored silently. */
static enum fg_code start_tls(struct fg_rpc *rpc, struct fg_registry *registry, struct fg_err *err)
{
    const struct fg_rpc_settings *settings = rpc->settings;
    bool cert = fg_rpc_is_set(settings->tls_cert_file), key = fg_rpc_is_set(settings->tls_key_file),
         ca = fg_rpc_is_set(settings->tls_ca_file), secret = fg_rpc_is_set(settings->secret_file);
    bool any = cert || key || ca || fg_rpc_is_set(settings->tls_server_name);

    if (!any && !secret)
        return FG_OK;
    if (any && secret)
        return fg_fail(err, FG_E_INVALID,
                       "rpc.secret_file excludes rpc.tls_cert_file, rpc.tls_key_file, "
                       "rpc.tls_ca_file and rpc.tls_server_name: set only one kind");
    if (secret)
        return fg_secure_create(settings, registry, &rpc->secure, err);
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
    if (rpc->registry != NULL) {
        rpc->metrics = fg_metrics_register(rpc->registry, rpc_metrics, FG_COUNT(rpc_metrics));
        fg_registry_on_scrape(rpc->registry, on_scrape, rpc);
    }
    *ret_rpc = rpc;
    return FG_OK;
}

void fg_rpc_destroy(struct fg_rpc *rpc)
{
    if (rpc == NULL)
        return;
    fg_assert(rpc->peers == NULL && rpc->server == NULL);
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

int64_t fg_rpc_unread_ns(const struct fg_rpc *rpc)
{
    return rpc == NULL || rpc->settings->ping_after_ns == 0
               ? UNREAD_NS
               : rpc->settings->ping_after_ns + rpc->settings->ping_timeout_ns;
}

struct fg_rpc_secure *fg_rpc_secure(const struct fg_rpc *rpc)
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

uint64_t fg_rpc_requests_max(const struct fg_rpc *rpc)
{
    return rpc == NULL || rpc->settings->requests_max_bytes == 0
               ? REQUESTS_MAX_BYTES
               : rpc->settings->requests_max_bytes;
}

unsigned fg_rpc_connections_max(const struct fg_rpc *rpc)
{
    return rpc == NULL || rpc->settings->connections_max == 0
               ? CONNECTIONS_MAX
               : (unsigned)rpc->settings->connections_max;
}

unsigned fg_rpc_connections_per_address_max(const struct fg_rpc *rpc)
{
    return rpc == NULL || rpc->settings->connections_per_address_max == 0
               ? FG_MAX(fg_rpc_connections_max(rpc) / 2, 1u)
               : (unsigned)rpc->settings->connections_per_address_max;
}

void fg_rpc_share(struct fg_rpc_settings *settings, uint64_t memory_max_bytes)
{
    uint64_t share = memory_max_bytes / SHARE, connections = share / FG_RPC_WHOLE_MAX_BYTES;
    struct rlimit files;

    /* HTTP's have half of them (program.c), and 256 are for greetings (deploy/deps). */
    fg_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    connections = FG_MIN(connections, (uint64_t)files.rlim_cur / SHARE);

    if (settings->requests_max_bytes == 0)
        settings->requests_max_bytes = FG_MAX(share, (uint64_t)REQUESTS_LEAST_BYTES);
    if (settings->connections_max == 0)
        settings->connections_max =
            FG_MIN(FG_MAX(connections, (uint64_t)CONNECTIONS_LEAST), (uint64_t)CONNECTIONS_MOST);
}

/* True if "HOST:PORT" is a loopback address. A name other than localhost may be any address. */
static bool is_loopback(struct fg_slice address)
{
    const uint8_t *colon = memrchr(address.ptr, ':', address.len);
    size_t len = colon == NULL ? address.len : (size_t)(colon - address.ptr);
    char host[INET6_ADDRSTRLEN + 2];
    struct in6_addr six;
    struct in_addr four;

    if (len >= sizeof host)
        return false;
    memcpy(host, address.ptr, len);
    host[len] = '\0';
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    if (len > 2 && host[0] == '[') {
        host[len - 1] = '\0';
        return inet_pton(AF_INET6, host + 1, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
    }
    return strcmp(host, "localhost") == 0;
}

enum fg_code fg_rpc_check_listen(const struct fg_rpc *rpc, const char *url, struct fg_err *err)
{
    static const char scheme[] = "tcp";
    struct fg_slice address = fg_cstr(url);
    size_t at = fg_slice_search(address, "://");

    if (!fg_slice_starts(address, scheme) || at == SIZE_MAX ||
        is_loopback(fg_slice_sub(address, at + strlen("://"), SIZE_MAX)) ||
        (rpc != NULL && rpc->settings->insecure))
        return FG_OK;
    return fg_fail(err, FG_E_INVALID,
                   "anybody could call this service at this address: set rpc.secret_file, or "
                   "rpc.tls_cert_file, rpc.tls_key_file and rpc.tls_ca_file; set rpc.insecure: "
                   "true only if the network is trusted");
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
    peer->metrics = fg_peer_metrics_create(rpc->registry, named ? label_of(url) : "other");
    (void)pthread_mutex_lock(&rpc->lock);
    peer->next_counted = rpc->peers;
    rpc->peers = peer;
    (void)pthread_mutex_unlock(&rpc->lock);
}

void fg_rpc_remove_peer(struct fg_rpc *rpc, struct fg_peer *peer)
{
    if (rpc == NULL || peer->metrics == NULL)
        return;
    (void)pthread_mutex_lock(&rpc->lock);
    for (struct fg_peer **at = &rpc->peers; *at != NULL; at = &(*at)->next_counted)
        if (*at == peer) {
            *at = peer->next_counted;
            rpc->n_peers--;
            break;
        }
    (void)pthread_mutex_unlock(&rpc->lock);
    fg_peer_metrics_destroy(fg_take(peer->metrics));
}

void fg_rpc_show_server(struct fg_rpc *rpc, struct fg_rpc_server *server)
{
    if (rpc == NULL)
        return;
    (void)pthread_mutex_lock(&rpc->lock);
    rpc->server = server;
    (void)pthread_mutex_unlock(&rpc->lock);
}

void fg_rpc_count_refusal(struct fg_rpc *rpc, enum fg_rpc_refusal why)
{
    if (rpc != NULL && rpc->metrics != NULL)
        fg_metric_add(rpc->metrics, RPC_REFUSED_FIRST + why, 1);
}
