#include "distributor/distributor.h"

#include "common/net/connect.h"
#include "distributor/ingest/ingest.h"
#include "distributor/otlp.h"
#include "distributor/push_v1.h"
#include "distributor/upload.h"

#define CONF(field) FG_CONF_AT(struct dist_settings, field)

/* clang-format off */
const struct fg_conf_field dist_fields[] = {
    {"body_max_bytes", FG_CONF_BYTES, CONF(body_max_bytes), .def = "32MiB", .min = "64KiB", .max = "1GiB",
     .doc = "Size of an upload as received. Larger uploads are refused with 413."},
    {"upload_max_bytes", FG_CONF_BYTES, CONF(upload_max_bytes), .def = "128MiB", .min = "64KiB", .max = "16GiB",
     .doc = "Total size of the profiles of one push after decompression. Larger pushes are refused."},
    {"decode_max_bytes", FG_CONF_BYTES, CONF(decode_max_bytes), .def = "64MiB", .min = "1MiB", .max = "4GiB",
     .doc = "Memory for decompressing and decoding one upload, in addition to the upload itself."},
    {"known_stacks_max", FG_CONF_UINT, CONF(known_stacks_max), .def = "4000000", .min = "1000",
     .doc = "Entries in the cache of stacks that the ingesters already have (about 16 bytes each)."},
    {"push_queue_max_bytes", FG_CONF_BYTES, CONF(push_queue_max_bytes), .def = "32MiB", .min = "1MiB", .max = "16GiB",
     .doc = "Decoded profiles that may wait for one ingester. Further uploads that need this ingester are refused with 429."},
    {"push_messages_max", FG_CONF_UINT, CONF(push_messages_max), .def = "4", .min = "1", .max = "256",
     .doc = "Concurrent messages to one ingester. Profiles that arrive in the meantime are sent together in the next message."},
    {"push_timeout", FG_CONF_NS, CONF(push_timeout_ns), .def = "8s", .min = "100ms", .max = "5m",
     .doc = "Timeout for ingesters to make a profile durable, retries included. Agents give up after 10 s."},
    {"push_retry", FG_CONF_NS, CONF(push_retry_ns), .def = "3s", .min = "0", .max = "5m",
     .doc = "How long a push is retried while too few of the ingesters of a profile are reachable. After that the upload is refused with 503."},
    {"stragglers_max_bytes", FG_CONF_BYTES, CONF(stragglers_max_bytes), .def = "64MiB", .min = "0", .max = "16GiB",
     .doc = "Memory for copies that still wait for slow ingesters after enough others have acknowledged the profile. Further copies are dropped; the slow ingesters fetch the profile from the others."},
};
/* clang-format on */
const size_t dist_n_fields = FG_COUNT(dist_fields);

static const struct fg_metric_def distributor_metrics[] = FG_METRICS_DEFS(DISTRIBUTOR_METRICS);

static void on_scrape(void *arg)
{
    struct distributor *distributor = arg;

    fg_metric_set(distributor->metrics, DIST_KNOWN_BYTES,
                  (int64_t)dist_known_bytes(distributor->known));
    fg_metric_set(distributor->metrics, DIST_TENANTS, fg_rates_count(distributor->rates));
    fg_metric_set(distributor->metrics, DIST_STRAGGLER_BYTES,
                  (int64_t)atomic_load(&distributor->deliveries.straggler_bytes));
}

struct distributor *dist_create(const struct dist_config *config)
{
    struct distributor *distributor = fg_new(struct distributor);

    distributor->config = *config;
    distributor->rates = fg_rates_create(fg_tenants_max(config->tenants));
    distributor->otlp_senders = dist_otlp_senders_create();
    distributor->known = dist_known_create((size_t)config->settings->known_stacks_max);
    distributor->owners = dist_owners_create(&(struct dist_owners_config){
        .ingester = config->ingester,
        .watch = config->watch,
        .peers = config->peers,
        .clock = config->clock,
        .queue_max_bytes = config->settings->push_queue_max_bytes,
        .messages_max = (unsigned)config->settings->push_messages_max,
    });
    distributor->metrics =
        fg_metrics_register(config->registry, distributor_metrics, FG_COUNT(distributor_metrics));
    distributor->deliveries = (struct dist_deliveries){
        .owners = distributor->owners,
        .known = distributor->known,
        .metrics = distributor->metrics,
        .stragglers_max_bytes = config->settings->stragglers_max_bytes,
    };
    fg_registry_on_scrape(config->registry, on_scrape, distributor);
    (void)pthread_mutex_init(&distributor->lock, NULL);
    return distributor;
}

void dist_stop(struct distributor *distributor)
{
    dist_owners_stop(distributor->owners);
}

void dist_destroy(struct distributor *distributor)
{
    if (distributor == NULL)
        return;
    dist_workspaces_free(distributor);
    dist_owners_destroy(distributor->owners);
    fg_rates_destroy(distributor->rates);
    dist_otlp_senders_destroy(distributor->otlp_senders);
    dist_known_destroy(distributor->known);
    (void)pthread_mutex_destroy(&distributor->lock);
    free(distributor);
}

void dist_routes(struct distributor *distributor, struct fg_http_server *server)
{
    static const char *const paths[] = {"/ingest", "/pyroscope/ingest"};

    struct fg_http_route route = {
        .methods = FG_HTTP_POST,
        .body_max_bytes = distributor->config.settings->body_max_bytes,
        .handler = dist_ingest_handle,
        .arg = distributor,
        .kind = FG_HTTP_CHANGES,
    };

    for (size_t i = 0; i < FG_COUNT(paths); i++) {
        route.path = paths[i];
        fg_http_server_route(server, &route);
    }
    route.path = "/v1development/profiles";
    route.handler = dist_otlp_handle_http;
    fg_http_server_route(server, &route);
    route.methods = FG_CONNECT_METHODS;
    route.path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    route.handler = dist_otlp_handle_rpc;
    fg_http_server_route(server, &route);
    route.path = "/push.v1.PusherService/Push";
    route.handler = dist_push_v1_handle;
    fg_http_server_route(server, &route);
}
