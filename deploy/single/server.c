#include "deploy/single/server.h"

#include "common/program/program.h"
#include "common/storage/store/unread.h"
#include "compactor/compactor.h"
#include "deploy/single/agent.h"
#include "deploy/single/past.h"
#include "distributor/distributor.h"
#include "distributor/scrape/scrape_manager.h"
#include "ingester/forward/routes.h"
#include "ingester/head_seal.h"
#include "ingester/ingester.h"
#include "ingester/keys.h"
#include "ingester/member.h"
#include "ingester/routes.h"
#include "querier/adhoc/adhoc.h"
#include "querier/limit_use.h"
#include "querier/querier.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PATH_MAX_BYTES = 4096, /* PATH_MAX of Linux */
    QUERY_CALLS_MAX = 64,  /* calls of the querier in flight */
    TRANSPORT_THREADS = 2, /* calls stay in the process: copies of memory, no network */
    /* Tokens and the audit of an agent: a read or write now and then. */
    AGENT_BUCKET_REQUESTS = 2,
    AGENT_BUCKET_WAITING = 64,
};

/* Within one process a connection takes milliseconds: a longer wait would not help. */
static const int64_t CONNECT_TIMEOUT_NS = 10 * FG_SECOND_NS;

static const char url[] = "inproc://ingester";

struct single_settings single_settings;
struct fg_bucket_settings single_bucket;
struct fg_bucket_s3_settings single_bucket_s3;
static struct dist_settings distributor_settings;
static struct dist_scrape_settings scrape_settings;
static struct dist_scrape_kubernetes_settings scrape_kubernetes_settings;
static struct ing_settings ingester_settings;
static struct ing_segments_settings segments_settings;
static struct ing_forward_settings forward_settings;
static struct cmp_settings compactor_settings;
struct qry_settings single_querier;

static const struct fg_conf_field server_fields[] = {
    {"data", FG_CONF_STRING, FG_CONF_AT(struct single_settings, data), .def = "./data", .min = "1",
     .max = "4000",
     .doc = "Data directory. It is created, with its parents, if it does not exist."},
};

struct server {
    bool agent;                      /* no querier and compactor, and no segments */
    int lock_fd;                     /* of the data folder: one server at a time; -1: none */
    const struct fg_disk *data_disk; /* of the data folder */
    struct fg_unread *unread;        /* of the store */
    struct fg_store *store;
    struct fg_key_store *keys;        /* of the head; NULL: none */
    struct cmp_local_store own_store; /* its id */
    struct fg_bucket *bucket;         /* of an agent: of tokens and the audit only */
    char head[PATH_MAX_BYTES];        /* folder of the store */
    char scratch[PATH_MAX_BYTES], compaction[PATH_MAX_BYTES]; /* folders for files on their way to
                                                               * the bucket */
    struct ing_forward_targets *forward_targets;
    struct ingester *ingester;
    struct ing_routes ingester_routes;
    struct ing_forward_routes forward_routes;
    struct single_past *past; /* what forwarding may resend */
    struct fg_rpc_server *rpc;
    struct fg_peer *push_peer, *query_peer;
    struct distributor *distributor;
    struct dist_scrape_manager *scrape_manager;
    struct fg_disk_cache *disk;
    char usage_spool[PATH_MAX_BYTES];
    struct querier *querier;
    struct fg_admin_api admin_api;
    struct compactor *compactor;
};

/* ---- the folder ---- */

static enum fg_code make_folder(const char *path, struct fg_err *err)
{
    if (mkdir(path, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "data folder %s", path);
    return FG_OK;
}

/* Makes a folder, and the missing folders above it. */
static enum fg_code make_folders(const char *path, struct fg_err *err)
{
    char above[PATH_MAX_BYTES];

    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        (void)snprintf(above, sizeof above, "%.*s", (int)i, path);
        if (make_folder(above, err) != FG_OK)
            return err->code;
    }
    return make_folder(path, err);
}

/* Locks the data folder: two servers on one folder would both acknowledge profiles that the other
 * one overwrites. The lock ends with the process, however it ends. */
static enum fg_code lock_folder(const char *path, int *ret_fd, struct fg_err *err)
{
    char file[PATH_MAX_BYTES];
    int fd;

    (void)snprintf(file, sizeof file, "%s/LOCK", path);
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0640);
    if (fd < 0)
        return fg_fail_errno(err, errno, "%s", file);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return fg_fail(err, FG_E_UNAVAILABLE, "data folder %s is in use by another server", path);
    }
    *ret_fd = fd;
    return FG_OK;
}

static enum fg_code open_folder(struct server *server, struct fg_program *program,
                                struct fg_err *err)
{
    (void)snprintf(server->scratch, sizeof server->scratch, "%s/scratch", single_settings.data);
    (void)snprintf(server->compaction, sizeof server->compaction, "%s/compaction",
                   single_settings.data);
    if (make_folders(single_settings.data, err) != FG_OK ||
        lock_folder(single_settings.data, &server->lock_fd, err) != FG_OK ||
        fg_program_disk(program, single_settings.data, "data", &server->data_disk, err) != FG_OK)
        return err->code;
    return make_folder(server->scratch, err);
}

static enum fg_code seal_head(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct server *server = arg;

    (void)deadline_mono_ns; /* each request for a key has its own */
    return ing_head_seal(&server->store, server->keys, err);
}

static enum fg_code open_head(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct server *server = arg;
    const struct fg_store_config config =
        ing_store_config(&ingester_settings, server->forward_targets->n > 0, server->unread);

    (void)deadline_mono_ns; /* a disk does not know of any */
    return fg_store_open(server->head, ing_head_families, HEAD_FAMILIES, &config, &server->store,
                         err);
}

static enum fg_code open_store(struct server *server, struct fg_program *program,
                               struct fg_err *err)
{
    server->keys = fg_access_keys(program->access);
    (void)snprintf(server->head, sizeof server->head, "%s/head", single_settings.data);
    server->unread = fg_unread_create(
        &(struct fg_unread_config){server->head, FG_UNREAD_PATIENCE_NS, program->registry,
                                   program->conditions, program->clock});
    if (fg_program_await(program, FG_PROGRAM_DISK, open_head, server, err) != FG_OK ||
        fg_program_await(program, FG_PROGRAM_KEYS, seal_head, server, err) != FG_OK ||
        ing_member_find_store(server->store, &server->own_store.id, err) != FG_OK)
        return err->code;
    atomic_store(&server->own_store.known, true);
    dist_set_own_store(server->distributor, server->own_store.id);
    return FG_OK;
}

/* ---- services ---- */

static enum fg_code load_head(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    const struct fg_program *program = arg;
    struct server *server = program->service;
    const struct ing_forward forward = {server->forward_targets->queues,
                                        server->forward_targets->n};
    const struct ing_config config = {
        .settings = &ingester_settings,
        .segments = server->agent ? &single_agent_segments : &segments_settings,
        .store = server->store,
        .bucket = server->agent ? NULL : server->bucket,
        .disk = server->data_disk,
        .scratch = server->agent ? NULL : server->scratch,
        .tenants = program->tenants,
        .forward = &forward,
        .access = program->access,
        .registry = program->registry,
        .conditions = program->conditions,
        .clock = program->clock,
    };

    (void)deadline_mono_ns;
    return ing_create(&config, &server->ingester, err);
}

static enum fg_code start_ingester(struct server *server, struct fg_program *program,
                                   struct fg_err *err)
{
    if (fg_program_await(program, FG_PROGRAM_DISK, load_head, program, err) != FG_OK)
        return err->code;
    server->rpc =
        fg_rpc_server_create(NULL, dist_calls_max(&distributor_settings, 1) + QUERY_CALLS_MAX);
    ing_serve(server->ingester, server->rpc);
    atomic_store(&server->ingester_routes.ingester, server->ingester);
    return fg_rpc_server_start(server->rpc, url, err);
}

static enum fg_code start_distributor(struct server *server, struct fg_program *program,
                                      struct fg_err *err)
{
    if (fg_peer_dial(NULL, url, dist_calls_max(&distributor_settings, 1), &server->push_peer,
                     err) != FG_OK)
        return err->code;
    server->distributor = dist_create(&(struct dist_config){
        .settings = &distributor_settings,
        .ingester = server->push_peer,
        .work = program->work,
        .tenants = program->tenants,
        .registry = program->registry,
        .clock = program->clock,
    });
    program->self_profile_sink = dist_self_profile_sink(server->distributor, program->loops[0],
                                                        program->self_profiling.tenant);
    dist_routes(server->distributor, program->http);
    return FG_OK;
}

static enum fg_code make_scrape_manager(struct server *server, struct fg_program *program,
                                        struct fg_err *err)
{
    const struct dist_scrape_manager_config config = {
        .settings = &scrape_settings,
        .kubernetes = &scrape_kubernetes_settings,
        .memory_max_bytes = program->settings.memory_max_bytes,
        .distributor = server->distributor,
        .bodies = &program->budget,
        .work = program->work,
        .registry = program->registry,
        .clock = program->clock,
    };

    if (dist_scrape_manager_create(&config, &server->scrape_manager, err) != FG_OK)
        return err->code;
    dist_scrape_manager_routes(server->scrape_manager, program->http, true);
    if (fg_program_admins_server(program) != NULL)
        dist_scrape_manager_routes(server->scrape_manager, fg_program_admins_server(program), true);
    return FG_OK;
}

static enum fg_code start_querier(struct server *server, struct fg_program *program,
                                  struct fg_err *err)
{
    char cache[PATH_MAX_BYTES];

    (void)snprintf(server->usage_spool, sizeof server->usage_spool, "%s/usage",
                   single_settings.data);
    /* A disk cache only for a bucket that is an object store: a directory is as fast as a cache of
     * it. */
    (void)snprintf(cache, sizeof cache, "%s/cache", single_settings.data);
    if (qry_open_disk_cache(&single_querier, single_bucket.type == FG_BUCKET_S3 ? cache : NULL,
                            program, &server->disk, err) != FG_OK ||
        fg_peer_dial(NULL, url, QUERY_CALLS_MAX, &server->query_peer, err) != FG_OK)
        return err->code;
    server->querier = qry_create(&(struct qry_config){
        .ingester = server->query_peer,
        .work = program->work,
        .audit = program->audit,
        .tenants = program->tenants,
        .registry = program->registry,
        .conditions = program->conditions,
        .clock = program->clock,
        .timeout_ns = single_querier.timeout_ns,
        .answer_max_bytes = single_querier.answer_max_bytes,
        .bucket = server->bucket,
        .cache_max_bytes = single_querier.cache_max_bytes,
        .fetch_max_bytes = single_querier.fetch_max_bytes,
        .refine_max_bytes = single_querier.refine_max_bytes,
        .adhoc_upload_max_bytes = single_querier.adhoc_upload_max_bytes,
        .adhoc_decode_max_bytes = single_querier.adhoc_decode_max_bytes,
        .adhoc_memory_max_bytes = single_querier.adhoc_memory_max_bytes,
        .uploads = fg_program_uploads(
            program, qry_adhoc_body_max_bytes(single_querier.adhoc_upload_max_bytes)),
        .instance_labels = single_querier.instance_labels,
        .embed_origins = single_querier.embed_origins,
        .manifest_age_ns = single_querier.manifest_age_ns,
        .rules_delay_ns = single_querier.rules_delay_ns,
        .disk = server->disk,
        .usage_interval_ns = single_querier.usage_interval_ns,
        .usage_spool = single_querier.usage_spool[0] != '\0' ? single_querier.usage_spool
                                                             : server->usage_spool,
    });
    if (qry_start(server->querier, NULL, NULL, program->registry, err) != FG_OK)
        return err->code;
    qry_routes(server->querier, program->http);
    fg_access_routes(program->access, program->http);
    return FG_OK;
}

static void add_admin_routes(struct server *server, struct fg_program *program)
{
    server->admin_api = fg_program_admin_api(program, server->bucket);
    if (server->querier != NULL) {
        server->admin_api.use = qry_limit_use;
        server->admin_api.use_arg = server->querier;
    }
    fg_admin_api_routes(&server->admin_api, program->http);
    if (fg_program_admins_server(program) != NULL)
        fg_admin_api_routes(&server->admin_api, fg_program_admins_server(program));
    fg_program_routes_add_settings(&program->routes);
}

/* Makes queries read the manifests again. Querier and compactor are in this process, so a deletion
 * is in effect before it is answered. What waits to be forwarded is looked through soon. */
static void on_deletion(void *arg)
{
    struct server *server = arg;

    qry_refresh(server->querier);
    ing_drop_deleted(atomic_load(&server->forward_routes.ingester)); /* NULL: not started yet */
}

static enum fg_code make_compactor(struct server *server, struct fg_program *program,
                                   struct fg_err *err)
{
    const struct cmp_config config = {
        .settings = &compactor_settings,
        .bucket = server->bucket,
        .scratch = server->compaction,
        .disk = server->data_disk,
        .store = &server->own_store,
        .work = program->work,
        .audit = program->audit,
        .access = program->access,
        .tenants = program->tenants,
        .registry = program->registry,
        .conditions = program->conditions,
        .clock = fg_cluster_clock_earlier(program->cluster_clock),
        .on_deletion = on_deletion,
        .on_deletion_arg = server,
    };

    if (cmp_create(&config, &server->compactor, err) != FG_OK)
        return err->code;
    cmp_routes(server->compactor, program->admin);
    return FG_OK;
}

/* Ingesters leave a quarter of the memory to everything else, and the cache of a querier has a
 * third. */
static void share_memory(const struct server *server, uint64_t memory_max_bytes)
{
    bool cached = !server->agent && single_querier.cache_max_bytes == 0;

    qry_share(&single_querier, memory_max_bytes);
    ing_share(&ingester_settings, memory_max_bytes - (cached ? memory_max_bytes / 12 : 0));
}

/* Starts what a server and an agent have. bucket: where tokens and the audit are. */
static enum fg_code start_both(struct server *server, struct fg_program *program,
                               const struct fg_bucket_settings *bucket, struct fg_err *err)
{
    const struct fg_bucket_host host = fg_program_bucket_host(program, single_settings.data);

    server->lock_fd = -1; /* stop() runs after a failed start as well */
    program->service = server;
    share_memory(server, program->settings.memory_max_bytes);
    fg_rpc_init(TRANSPORT_THREADS);
    /* Routes exist before the server listens, and get the ingester once it runs. */
    server->forward_routes.work = program->work;
    server->forward_routes.audit = program->audit;
    ing_forward_routes(&server->forward_routes, program->http);
    if (fg_program_admins_server(program) != NULL)
        ing_forward_routes(&server->forward_routes, fg_program_admins_server(program));
    if (ing_forward_targets_read(forward_settings.targets, &server->forward_targets, err) !=
            FG_OK ||
        (server->agent && single_agent_check(server->forward_targets, err) != FG_OK) ||
        open_folder(server, program, err) != FG_OK ||
        fg_bucket_open(bucket, &single_bucket_s3, &host, &server->bucket, err) != FG_OK ||
        fg_program_start_access(program, server->bucket, single_settings.data, err) != FG_OK ||
        start_distributor(server, program, err) != FG_OK)
        return err->code;
    return make_scrape_manager(server, program, err);
}

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct server *server = fg_new(struct server);

    cmp_share(&compactor_settings, program->settings.memory_max_bytes);
    server->ingester_routes.work = program->work;
    ing_routes(&server->ingester_routes, program->admin);
    if (start_both(server, program, &single_bucket, err) != FG_OK ||
        start_querier(server, program, err) != FG_OK)
        return err->code;
    add_admin_routes(server, program);
    return make_compactor(server, program, err);
}

static enum fg_code start_agent(struct fg_program *program, struct fg_err *err)
{
    /* Always the folder that a single server has by default, so that tokens stay those that they
     * were if one becomes the other. */
    static char none[] = "";
    const struct fg_bucket_settings bucket = {.type = FG_BUCKET_DIRECTORY,
                                              .path = none,
                                              .requests_max = AGENT_BUCKET_REQUESTS,
                                              .waiting_max = AGENT_BUCKET_WAITING};
    struct server *server = fg_new(struct server);

    server->agent = true;
    if (start_both(server, program, &bucket, err) != FG_OK)
        return err->code;
    add_admin_routes(server, program);
    single_agent_routes(server->forward_targets, program->http);
    return FG_OK;
}

static enum fg_code start_forwarding(struct server *server, struct fg_program *program,
                                     struct fg_err *err)
{
    if (server->forward_targets->n > 0) {
        if (!server->agent) /* which has no blocks */
            server->past = single_past_create(server->ingester, server->bucket, program->access,
                                              &single_querier);
        if (ing_start_forwarding(server->ingester, server->forward_targets, &program->budget,
                                 distributor_settings.definition_cache_max,
                                 single_past_reader(server->past), err) != FG_OK)
            return err->code;
    }
    atomic_store(&server->forward_routes.ingester, server->ingester);
    return FG_OK;
}

/* Opens the store and starts the services in the background: reading what the last run has left may
 * take a while, in which uploads and queries get 503. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct server *server = program->service;

    /* The check before the ingester: it commits to the bucket as soon as it runs. A store without
     * conditional writes would lose commits of two writers in silence. */
    if (open_store(server, program, err) != FG_OK ||
        fg_program_check_bucket(program, server->bucket, err) != FG_OK ||
        start_ingester(server, program, err) != FG_OK ||
        fg_peer_wait(server->push_peer, CONNECT_TIMEOUT_NS, err) != FG_OK ||
        (!server->agent && (fg_peer_wait(server->query_peer, CONNECT_TIMEOUT_NS, err) != FG_OK ||
                            cmp_start(server->compactor, err) != FG_OK)) ||
        start_forwarding(server, program, err) != FG_OK)
        return err->code;
    /* Pull mode last: its profiles need a running ingester. */
    return dist_scrape_manager_start(server->scrape_manager, err);
}

static bool unready(struct fg_program *program, struct fg_buf *why)
{
    const struct server *server = program->service;

    return ing_refuses(server->ingester, why);
}

/* Stops in the order of the data: pull mode first, then the ingester's server, which waits for the
 * calls in flight, so that every sender gets its answer. */
static void stop(struct fg_program *program)
{
    struct server *server = program->service;

    if (server == NULL)
        return;
    dist_scrape_manager_stop(server->scrape_manager);
    ing_stop_forwarding(server->ingester);
    ing_hurry(server->ingester);
    cmp_stop(server->compactor);
    if (server->rpc != NULL)
        fg_rpc_server_stop(server->rpc);
    qry_stop(server->querier); /* before the workers: it brings them evaluations of rules */
    /* Waits for the uploads and queries that run: they use everything below. */
    fg_work_destroy(program->work);
    program->work = NULL;
    cmp_destroy(server->compactor);
    /* Before the peers, whose calls it waits for. */
    qry_destroy(server->querier);
    single_past_destroy(server->past);
    fg_disk_cache_close(server->disk);
    if (server->distributor != NULL)
        dist_stop(server->distributor);
    fg_peer_destroy(server->query_peer);
    fg_peer_destroy(server->push_peer);
    dist_scrape_manager_destroy(server->scrape_manager);
    dist_destroy(server->distributor);
    ing_destroy(server->ingester);
    ing_forward_targets_destroy(server->forward_targets);
    if (server->rpc != NULL)
        fg_rpc_server_destroy(server->rpc);
    fg_program_stop_access(program);
    fg_bucket_close(server->bucket);
    /* After the ingester, which writes to both until its end. */
    fg_store_close(server->store);
    fg_unread_destroy(server->unread);
    /* The lock last: until here this server writes to the folder. */
    if (server->lock_fd >= 0)
        (void)close(server->lock_fd);
    free(server);
}

int single_with_def(int (*with)(const struct fg_program_def *def, int argc, char **argv), int argc,
                    char **argv)
{
    const struct fg_conf_section sections[] = {
        {"", server_fields, FG_COUNT(server_fields), &single_settings},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &single_bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &single_bucket_s3},
        {"distributor", dist_fields, dist_n_fields, &distributor_settings},
        {"scrape", dist_scrape_fields, dist_scrape_n_fields, &scrape_settings},
        {"scrape.kubernetes", dist_scrape_kubernetes_fields, dist_scrape_n_kubernetes_fields,
         &scrape_kubernetes_settings},
        {"ingester", ing_fields, ing_n_fields, &ingester_settings},
        {"compactor", cmp_fields, cmp_n_fields, &compactor_settings},
        {"ingester.segments", ing_segments_fields, ing_segments_n_fields, &segments_settings},
        {"forward", ing_forward_fields, ing_n_forward_fields, &forward_settings},
        {"querier", qry_fields, qry_n_fields, &single_querier},
    };
    const struct fg_program_def def = {
        .name = "flamegrid server",
        .what = "continuous profiling on one machine, all services in one process",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .unready = unready,
        .stop = stop,
    };

    return with(&def, argc, argv);
}

/* Opens the bucket of the settings. Refuses a missing directory, which opening would create: a
 * mistyped path would look like an empty bucket. */
enum fg_code single_open_bucket(struct fg_bucket **ret_bucket, struct fg_err *err)
{
    struct fg_buf path;
    bool missing = false;

    if (single_bucket.type == FG_BUCKET_DIRECTORY) {
        fg_buf_init(&path, PATH_MAX_BYTES);
        fg_bucket_path(&single_bucket, single_settings.data, &path);
        fg_buf_putc(&path, '\0');
        missing = !path.full && access((const char *)path.ptr, F_OK) != 0;
        if (missing)
            (void)fg_fail(err, FG_E_NOT_FOUND, "no bucket at %.400s", path.ptr);
        fg_buf_done(&path);
    }
    if (missing)
        return err->code;
    return fg_bucket_open(&single_bucket, &single_bucket_s3,
                          &(struct fg_bucket_host){.data = single_settings.data}, ret_bucket, err);
}

enum fg_code single_make_bucket(struct fg_bucket **ret_bucket, struct fg_err *err)
{
    if (single_bucket.type == FG_BUCKET_DIRECTORY &&
        make_folders(single_settings.data, err) != FG_OK)
        return err->code;
    return fg_bucket_open(&single_bucket, &single_bucket_s3,
                          &(struct fg_bucket_host){.data = single_settings.data}, ret_bucket, err);
}

int single_run(int argc, char **argv)
{
    return single_with_def(fg_program_run, argc, argv);
}

int single_run_agent(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"", server_fields, FG_COUNT(server_fields), &single_settings},
        {"distributor", dist_fields, dist_n_fields, &distributor_settings},
        {"scrape", dist_scrape_fields, dist_scrape_n_fields, &scrape_settings},
        {"scrape.kubernetes", dist_scrape_kubernetes_fields, dist_scrape_n_kubernetes_fields,
         &scrape_kubernetes_settings},
        {"ingester", ing_fields, ing_n_fields, &ingester_settings},
        {"forward", ing_forward_fields, ing_n_forward_fields, &forward_settings},
    };
    const struct fg_program_def def = {
        .name = "flamegrid agent",
        .what = "takes profiles and forwards them to other servers; keeps them no longer than that",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .defaults = single_agent_defaults,
        .n_defaults = single_agent_n_defaults,
        .small = true,
        .start = start_agent,
        .ready = ready,
        .unready = unready,
        .stop = stop,
    };

    return fg_program_run(&def, argc, argv);
}
