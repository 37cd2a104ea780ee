#include "common/cluster/ring/route.h"
#include "common/cluster/ring/settings.h"
#include "common/program/program.h"
#include "common/storage/bucket/settings.h"
#include "distributor/distributor.h"
#include "distributor/query_proxy.h"
#include "distributor/scrape/scrape_manager.h"

enum {
    PEERS_MAX = 2 * FG_RING_MEMBERS_MAX, /* members that moved have two addresses for a while */
    PEER_OWNERS = 2, /* an address may have another store: two senders share its peer then */
};

static const int64_t PEER_IDLE_NS =
    FG_MINUTE_NS; /* until the peer of a member that left is closed */

static struct dist_settings settings;
static struct dist_scrape_settings scrape_settings;
static struct dist_scrape_kubernetes_settings scrape_kubernetes_settings;
static struct dist_query_proxy_settings query_proxy_settings;
static struct fg_rpc_settings rpc;
static struct fg_bucket_settings bucket;
static struct fg_bucket_s3_settings bucket_s3;
static struct fg_ring_settings ring;

struct distributor_service {
    struct fg_bucket *bucket;
    struct fg_ring_watch *watch;
    struct fg_rpc *rpc;
    struct fg_peers *peers;
    struct distributor *distributor;
    struct dist_scrape_manager *scrape_manager;
    struct dist_query_proxy *query_proxy;
};

static enum fg_code make_scrape_manager(struct distributor_service *service,
                                        struct fg_program *program, struct fg_err *err)
{
    const struct dist_scrape_manager_config config = {
        .settings = &scrape_settings,
        .kubernetes = &scrape_kubernetes_settings,
        .memory_max_bytes = program->settings.memory_max_bytes,
        .distributor = service->distributor,
        .bodies = &program->budget,
        .work = program->work,
        .registry = program->registry,
        .clock = program->clock,
    };

    if (dist_scrape_manager_create(&config, &service->scrape_manager, err) != FG_OK)
        return err->code;
    dist_scrape_manager_routes(service->scrape_manager, program->http,
                               dist_query_proxy_is_on(service->query_proxy));
    if (fg_program_admins_server(program) != NULL)
        dist_scrape_manager_routes(service->scrape_manager, fg_program_admins_server(program),
                                   true);
    return FG_OK;
}

static enum fg_code make_query_proxy(struct distributor_service *service,
                                     struct fg_program *program, struct fg_err *err)
{
    const struct dist_query_proxy_config config = {
        .settings = &query_proxy_settings,
        .memory_max_bytes = program->settings.memory_max_bytes,
        .uploads = fg_program_uploads(program, query_proxy_settings.upload_max_bytes),
        .tenants = program->tenants,
        .registry = program->registry,
    };

    if (dist_query_proxy_create(&config, &service->query_proxy, err) != FG_OK)
        return err->code;
    dist_query_proxy_routes(service->query_proxy, program->http);
    return dist_query_proxy_start(service->query_proxy, err);
}

static enum fg_code open_ring(struct distributor_service *service, struct fg_program *program,
                              struct fg_err *err)
{
    const struct fg_bucket_host host = fg_program_bucket_host(program, NULL);

    if (fg_bucket_open(&bucket, &bucket_s3, &host, &service->bucket, err) != FG_OK ||
        fg_program_start_access(program, service->bucket, NULL, err) != FG_OK)
        return err->code;
    return fg_ring_watch_create(&(struct fg_ring_watch_config){.bucket = service->bucket,
                                                               .clock = program->clock,
                                                               .registry = program->registry,
                                                               .conditions = program->conditions,
                                                               .poll_ns = ring.poll_ns},
                                &service->watch, err);
}

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct distributor_service *service = fg_new(struct distributor_service);

    program->service = service;
    if (open_ring(service, program, err) != FG_OK ||
        fg_rpc_create(&rpc, program->registry, &service->rpc, err) != FG_OK)
        return err->code;
    service->peers = fg_peers_create(&(struct fg_peers_config){
        .rpc = service->rpc,
        .calls_max = dist_calls_max(&settings, PEER_OWNERS),
        .peers_max = PEERS_MAX,
        .idle_ns = PEER_IDLE_NS,
    });
    service->distributor = dist_create(&(struct dist_config){
        .settings = &settings,
        .watch = service->watch,
        .peers = service->peers,
        .work = program->work,
        .tenants = program->tenants,
        .registry = program->registry,
        .clock = program->clock,
    });
    program->self_profile_sink = dist_self_profile_sink(service->distributor, program->loops[0],
                                                        program->self_profiling.tenant);
    fg_ring_route(program->admin, service->watch);
    dist_routes(service->distributor, program->http);
    if (make_query_proxy(service, program, err) != FG_OK)
        return err->code;
    return make_scrape_manager(service, program, err);
}

static enum fg_code read_ring(void *watch, int64_t deadline_mono_ns, struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = NULL;

    return fg_ring_watch_fresh(watch, deadline_mono_ns, &view, err);
}

/* Waits for the ring, which says where a profile goes. Does not check the bucket by writing to it:
 * a larger shard factor in the ring is all that a distributor writes, and one that may only read
 * goes on with the smaller factor. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct distributor_service *service = program->service;

    if (fg_ring_watch_start(service->watch, err) != FG_OK ||
        fg_program_await(program, FG_PROGRAM_BUCKET, read_ring, service->watch, err) != FG_OK)
        return err->code;
    fg_program_announce(program, service->bucket, "distributor", NULL);
    return dist_scrape_manager_start(service->scrape_manager, err);
}

static void stop(struct fg_program *program)
{
    struct distributor_service *service = program->service;

    if (service == NULL)
        return;
    dist_query_proxy_stop(service->query_proxy);
    dist_scrape_manager_stop(service->scrape_manager);
    /* Uploads first: their jobs use all that is destroyed below. Their sends end in dist_stop(),
     * which needs the peers and the transport. */
    fg_work_destroy(program->work);
    program->work = NULL;
    if (service->distributor != NULL)
        dist_stop(service->distributor);
    dist_query_proxy_destroy(service->query_proxy);
    dist_scrape_manager_destroy(service->scrape_manager);
    dist_destroy(service->distributor);
    fg_peers_destroy(service->peers);
    fg_rpc_destroy(service->rpc);
    fg_ring_watch_destroy(service->watch);
    fg_program_unannounce(program);
    fg_program_stop_access(program);
    fg_bucket_close(service->bucket);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"rpc", fg_rpc_fields, fg_rpc_n_fields, &rpc},
        {"ring", fg_ring_follower_fields, fg_ring_n_follower_fields, &ring},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &bucket_s3},
        {"distributor", dist_fields, dist_n_fields, &settings},
        {"query_proxy", dist_query_proxy_fields, dist_query_proxy_n_fields, &query_proxy_settings},
        {"scrape", dist_scrape_fields, dist_scrape_n_fields, &scrape_settings},
        {"scrape.kubernetes", dist_scrape_kubernetes_fields, dist_scrape_n_kubernetes_fields,
         &scrape_kubernetes_settings},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-distributor",
        .what = "receives profiles from agents and sends them to the ingesters that own them",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
