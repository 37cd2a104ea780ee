#include "distributor/distributor.h"

#include "common/model/tenant_id.h"
#include "common/net/connect.h"
#include "distributor/forward.h"
#include "distributor/ingest/ingest.h"
#include "distributor/otlp.h"
#include "distributor/push_v1.h"
#include "distributor/state.h"

enum { SHARES_CALLS = 1 }; /* to one ingester at a time (shares.c) */

FG_METRICS_TABLE(distributor_metrics, DISTRIBUTOR_METRICS)

static void on_scrape(void *arg)
{
    struct distributor *distributor = arg;

    fg_metric_set(distributor->metrics, DIST_DEFINITION_CACHE_BYTES,
                  (int64_t)fg_definition_cache_bytes(distributor->definition_cache));
    fg_metric_set(distributor->metrics, DIST_TENANTS, fg_rates_count(distributor->rates));
    fg_metric_set(distributor->metrics, DIST_STRAGGLER_BYTES,
                  (int64_t)atomic_load(&distributor->deliveries.straggler_bytes));
}

unsigned dist_calls_max(const struct dist_settings *settings, unsigned stores)
{
    return stores * dist_owner_messages((unsigned)settings->push_messages_max) + SHARES_CALLS;
}

struct distributor *dist_create(const struct dist_config *config)
{
    struct distributor *distributor = fg_new(struct distributor);

    distributor->settings = config->settings;
    distributor->work = config->work;
    distributor->tenants = config->tenants;
    distributor->clock = config->clock;
    distributor->rates = fg_rates_create(fg_tenants_max(config->tenants));
    distributor->forward_rates = fg_rates_create(fg_tenants_max(config->tenants));
    distributor->quotas = fg_quotas_create("ingestion_limit");
    distributor->otlp_senders = dist_otlp_senders_create();
    distributor->definition_cache =
        fg_definition_cache_create((size_t)config->settings->definition_cache_max);
    distributor->stack_names = dist_stack_names_create(config->settings->forward_stacks_max);
    distributor->owners = dist_owners_create(&(struct dist_owners_config){
        .ingester = config->ingester,
        .watch = config->watch,
        .peers = config->peers,
        .clock = config->clock,
        .queue_max_bytes = config->settings->push_queue_max_bytes,
        .messages_max = (unsigned)config->settings->push_messages_max,
    });
    distributor->shares = dist_shares_create(&(struct dist_shares_config){
        .owners = distributor->owners,
        .rates = distributor->rates,
        .forward_rates = distributor->forward_rates,
        .quotas = distributor->quotas,
        .registry = config->registry,
        .clock = config->clock,
    });
    distributor->metrics =
        fg_metrics_register(config->registry, distributor_metrics, FG_COUNT(distributor_metrics));
    distributor->deliveries = (struct dist_deliveries){
        .owners = distributor->owners,
        .definition_cache = distributor->definition_cache,
        .metrics = distributor->metrics,
        .stragglers_max_bytes = config->settings->stragglers_max_bytes,
    };
    fg_registry_on_scrape(config->registry, on_scrape, distributor);
    dist_workspaces_init(&distributor->workspaces, config->settings->decode_max_bytes);
    return distributor;
}

void dist_stop(struct distributor *distributor)
{
    dist_shares_stop(distributor->shares);
    dist_owners_stop(distributor->owners);
}

void dist_destroy(struct distributor *distributor)
{
    if (distributor == NULL)
        return;
    dist_workspaces_done(&distributor->workspaces);
    dist_shares_destroy(distributor->shares);
    dist_owners_destroy(distributor->owners);
    fg_quotas_destroy(distributor->quotas);
    fg_rates_destroy(distributor->forward_rates);
    fg_rates_destroy(distributor->rates);
    dist_otlp_senders_destroy(distributor->otlp_senders);
    fg_definition_cache_destroy(distributor->definition_cache);
    dist_stack_names_destroy(distributor->stack_names);
    free(distributor);
}

void dist_set_own_store(struct distributor *distributor, struct fg_id store)
{
    distributor->own_store = store;
    atomic_store(&distributor->knows_own_store, true);
}

/* On the loop. */
static void push_own(struct fg_msg *msg)
{
    struct fg_self_profile_push *push = fg_container(msg, struct fg_self_profile_push, msg);
    struct distributor *distributor = push->sink_arg;

    dist_push_v1_own(distributor, distributor->own_loop, distributor->own_tenant, push);
}

static void send_own(void *arg, struct fg_self_profile_push *push)
{
    struct distributor *distributor = arg;

    push->sink_arg = distributor;
    push->msg.run = push_own;
    fg_loop_post(distributor->own_loop, &push->msg);
}

struct fg_self_profile_sink dist_self_profile_sink(struct distributor *distributor,
                                                   struct fg_loop *loop, const char *tenant)
{
    distributor->own_loop = loop;
    distributor->own_tenant =
        fg_cstr(fg_tenants_are_several(distributor->tenants) ? tenant : FG_TENANT_ONLY);
    return (struct fg_self_profile_sink){.send = send_own, .arg = distributor};
}

void dist_routes(struct distributor *distributor, struct fg_http_server *server)
{
    static const char *const paths[] = {"/ingest", "/pyroscope/ingest"};

    struct fg_http_route route = {
        .methods = FG_HTTP_POST,
        .body_max_bytes = distributor->settings->body_max_bytes,
        .handler = dist_ingest_handle,
        .arg = distributor,
        .kind = FG_HTTP_CHANGES,
        .scopes = FG_SCOPE_PUSH | FG_SCOPE_FORWARD,
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
    route.path = "/forward.v1.ForwardService/Push";
    route.handler = dist_forward_handle;
    route.scopes = FG_SCOPE_FORWARD;
    fg_http_server_route(server, &route);
}
