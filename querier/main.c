#include "common/cluster/ring/route.h"
#include "common/cluster/ring/settings.h"
#include "common/program/program.h"
#include "common/storage/bucket/settings.h"
#include "querier/adhoc/adhoc.h"
#include "querier/limit_use.h"
#include "querier/member_settings.h"
#include "querier/querier.h"
#include "querier/share/share.h"

/* Static, since main()'s table of sections points to them before there is a service. */
static struct qry_settings settings;
static struct qry_ingester_settings ingesters;
static struct qry_share_settings share;
static struct fg_ring_settings ring;
static struct fg_rpc_settings rpc;
static struct fg_bucket_settings bucket;
static struct fg_bucket_s3_settings bucket_s3;

enum { PEERS_MAX = FG_RING_MEMBERS_MAX }; /* one for each ingester that a ring can have */

/* So long a start waits for connections: more than a handshake takes on a busy machine. */
static const int64_t CONNECT_NS = 2 * FG_SECOND_NS;

struct querier_service {
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk;
    struct fg_rpc *rpc;
    struct fg_peers *peers;
    struct fg_ring_watch *watch;
    struct qry_share *share; /* NULL: there are no other queriers */
    struct fg_rpc_server *server;
    struct querier *querier;
    struct fg_admin_api admin_api;
    struct qry_member_settings members;
};

static enum fg_code open_ring(struct querier_service *service, struct fg_program *program,
                              struct fg_err *err)
{
    const struct fg_ring_watch_config config = {
        .bucket = service->bucket,
        .clock = program->clock,
        .registry = program->registry,
        .conditions = program->conditions,
        .poll_ns = ring.poll_ns,
    };

    if (fg_ring_watch_create(&config, &service->watch, err) != FG_OK)
        return err->code;
    service->peers = fg_peers_create(&(struct fg_peers_config){
        .rpc = service->rpc,
        .calls_max = (unsigned)ingesters.calls_max,
        .peers_max = PEERS_MAX,
        .idle_ns = FG_PEERS_IDLE_NS,
    });
    fg_ring_route(program->admin, service->watch);
    return FG_OK;
}

/* Creates the share, if there are other queriers. */
static enum fg_code open_share(struct querier_service *service, struct fg_program *program,
                               struct fg_err *err)
{
    const struct qry_share_config config = {
        .settings = &share,
        .bucket = service->bucket,
        .disk = service->disk,
        .rpc = service->rpc,
        .registry = program->registry,
        .clock = program->clock,
    };

    if (share.queriers[0] == '\0')
        return FG_OK;
    if (qry_share_create(&config, &service->share, err) != FG_OK)
        return err->code;
    /* Twice: a server gives a caller two thirds, and one querier alone may send requests_max. How
     * many are worked on, the queue of qry_share bounds. */
    service->server = fg_rpc_server_create(service->rpc, 2 * (unsigned)share.requests_max);
    qry_share_serve(service->share, service->server);
    return FG_OK;
}

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct querier_service *service = fg_new(struct querier_service);
    const struct fg_bucket_host host = fg_program_bucket_host(program, NULL);

    /* At once: if a step fails, stop() frees what was made until then. */
    program->service = service;
    fg_rpc_share(&rpc, program->settings.memory_max_bytes);
    qry_share(&settings, program->settings.memory_max_bytes);
    if (fg_bucket_open(&bucket, &bucket_s3, &host, &service->bucket, err) != FG_OK ||
        fg_program_start_access(program, service->bucket, NULL, err) != FG_OK ||
        qry_open_disk_cache(&settings, NULL, program, &service->disk, err) != FG_OK ||
        fg_rpc_create(&rpc, program->registry, &service->rpc, err) != FG_OK ||
        open_ring(service, program, err) != FG_OK || open_share(service, program, err) != FG_OK)
        return err->code;
    service->querier = qry_create(&(struct qry_config){
        .ring = service->watch,
        .peers = service->peers,
        .hedge_after_ns = ingesters.hedge_after_ns,
        .work = program->work,
        .audit = program->audit,
        .tenants = program->tenants,
        .registry = program->registry,
        .conditions = program->conditions,
        .clock = program->clock,
        .timeout_ns = settings.timeout_ns,
        .answer_max_bytes = settings.answer_max_bytes,
        .bucket = service->share == NULL ? service->bucket : qry_share_bucket(service->share),
        .cache_max_bytes = settings.cache_max_bytes,
        .fetch_max_bytes = settings.fetch_max_bytes,
        .refine_max_bytes = settings.refine_max_bytes,
        .adhoc_upload_max_bytes = settings.adhoc_upload_max_bytes,
        .adhoc_decode_max_bytes = settings.adhoc_decode_max_bytes,
        .adhoc_memory_max_bytes = settings.adhoc_memory_max_bytes,
        .uploads =
            fg_program_uploads(program, qry_adhoc_body_max_bytes(settings.adhoc_upload_max_bytes)),
        .instance_labels = settings.instance_labels,
        .embed_origins = settings.embed_origins,
        .manifest_age_ns = settings.manifest_age_ns,
        .rules_delay_ns = settings.rules_delay_ns,
        .disk = service->share == NULL ? service->disk : NULL, /* else the share caches on it */
        .usage_interval_ns = settings.usage_interval_ns,
        .usage_spool = settings.usage_spool[0] != '\0' ? settings.usage_spool : NULL,
    });
    /* Without the addresses of the others it cannot know whether it is the only one. */
    if (service->share != NULL && qry_start(service->querier, service->share, service->server,
                                            program->registry, err) != FG_OK)
        return err->code;
    qry_routes(service->querier, program->http);
    service->admin_api = fg_program_admin_api(program, service->bucket);
    service->admin_api.use = qry_limit_use;
    service->admin_api.use_arg = service->querier;
    fg_admin_api_routes(&service->admin_api, program->http);
    if (fg_program_admins_server(program) != NULL)
        fg_admin_api_routes(&service->admin_api, fg_program_admins_server(program));
    fg_access_routes(program->access, program->http);
    service->members = (struct qry_member_settings){
        .querier = service->querier, .bucket = service->bucket, .routes = &program->routes};
    program->routes.answer_settings = qry_member_settings_answer;
    program->routes.answer_arg = &service->members;
    fg_program_routes_add_settings(&program->routes);
    return FG_OK;
}

static enum fg_code read_ring(void *watch, int64_t deadline_mono_ns, struct fg_err *err)
{
    fg_auto(fg_ring_view) *view = NULL;

    return fg_ring_watch_fresh(watch, deadline_mono_ns, &view, err);
}

/* Dials all members and waits a moment for their answers: a call waits for a connection much
 * shorter, so without it the first queries after a start would be 503. Members that do not answer
 * are dialed on; queries do without them or fail by the rules of replicas. */
static void dial_members(struct querier_service *service)
{
    fg_auto(fg_ring_view) *view = fg_ring_watch_get(service->watch);
    int64_t deadline_ns = fg_mono_ns(fg_clock_real()) + CONNECT_NS;
    uint32_t n = view == NULL ? 0 : view->ring.n_members;
    struct fg_peer **peers = fg_calloc(FG_MAX(n, 1), sizeof(struct fg_peer *));
    struct fg_err unused;

    /* All first: they connect while the first one is waited for. */
    for (uint32_t i = 0; i < n; i++) {
        struct fg_slice address = view->ring.members[i].address;
        char url[FG_RING_ADDRESS_MAX_BYTES + 1];

        (void)snprintf(url, sizeof url, "%.*s", FG_S(address));
        /* A wrong scheme is told by the queries that need the member. */
        if (fg_peers_get(service->peers, url, &peers[i], &unused) != FG_OK)
            peers[i] = NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t left_ns = deadline_ns - fg_mono_ns(fg_clock_real());

        if (peers[i] == NULL)
            continue;
        if (left_ns > 0)
            (void)!fg_peer_wait(peers[i], left_ns, &unused);
        fg_peers_put(service->peers, peers[i]);
    }
    free(peers);
}

/* Waits for the ring, since the bucket may be slow and no query can be answered without it. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct querier_service *service = program->service;

    if (fg_program_check_bucket(program, service->bucket, err) != FG_OK ||
        fg_ring_watch_start(service->watch, err) != FG_OK ||
        fg_program_await(program, FG_PROGRAM_BUCKET, read_ring, service->watch, err) != FG_OK)
        return err->code;
    dial_members(service);
    fg_program_announce(program, service->bucket, "querier", NULL);
    return service->server == NULL ? FG_OK
                                   : fg_rpc_server_start(service->server, share.listen, err);
}

static void stop(struct fg_program *program)
{
    struct querier_service *service = program->service;

    if (service == NULL)
        return;
    if (service->watch != NULL)
        fg_ring_watch_stop(service->watch); /* ends the wait of queries for the ring */
    /* Before the workers, to which it brings evaluations of rules, and before the server, which
     * waits for those that other queriers have asked for. */
    qry_stop(service->querier);
    if (service->server != NULL)
        /* Before the workers: it brings reads of other queriers to the share. */
        fg_rpc_server_stop(service->server);
    /* Waits for the queries that run; they use everything below. */
    fg_work_destroy(program->work);
    program->work = NULL;
    /* Before the peers and the share: it waits for calls and frees the caches. */
    qry_destroy(service->querier);
    fg_rpc_server_destroy(service->server);
    qry_share_destroy(service->share);
    fg_peers_destroy(service->peers);
    fg_ring_watch_destroy(service->watch);
    fg_disk_cache_close(service->disk);
    fg_rpc_destroy(service->rpc);
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
        {"querier", qry_fields, qry_n_fields, &settings},
        {"querier.share", qry_share_fields, qry_share_n_fields, &share},
        {"querier.ingesters", qry_ingester_fields, qry_n_ingester_fields, &ingesters},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &bucket_s3},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-querier",
        .what = "answers queries and serves the web UI",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
