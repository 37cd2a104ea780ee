/*
 * The program. Two phases: start() opens what needs no data, so that the operator routes answer at
 * once; ready() opens the store, waits for the bucket, loads the head and joins the ring.
 */
#include "common/cluster/ring/settings.h"
#include "common/program/program.h"
#include "common/runtime/log.h"
#include "common/storage/bucket/settings.h"
#include "common/storage/store/unread.h"
#include "ingester/first_use.h"
#include "ingester/head_seal.h"
#include "ingester/ingester.h"
#include "ingester/keys.h"
#include "ingester/maintenance.h"
#include "ingester/routes.h"
#include "ingester/scale_down.h"

#include <errno.h>
#include <sys/stat.h>

struct ingester_place {
    char *data;
    char *rpc_listen;
    uint64_t requests_max;
    int64_t leave_timeout_ns;
};

static struct ing_settings settings;
static struct ing_segments_settings segments;
static struct fg_bucket_settings bucket;
static struct fg_bucket_s3_settings bucket_s3;
static struct ingester_place place;
static struct fg_rpc_settings rpc;
static struct fg_ring_settings ring;
static struct ing_repair_settings repair;
static struct ing_scale_down_settings scale_down;
static const struct fg_conf_field place_fields[] = {
    {"data", FG_CONF_STRING, FG_CONF_AT(struct ingester_place, data), .def = "./head", .min = "1",
     .doc = "Directory of the head. It is created if it does not exist."},
    {"rpc_listen", FG_CONF_STRING, FG_CONF_AT(struct ingester_place, rpc_listen),
     .def = "tcp://127.0.0.1:4101", .min = "1",
     .doc = "Listen address for calls of other services."},
    {"requests_max", FG_CONF_UINT, FG_CONF_AT(struct ingester_place, requests_max), .def = "576",
     .min = "1", .max = "65536",
     .doc =
         "Concurrent calls of other services. A caller alone has two thirds of them at most, all "
         "callers at one address four fifths; the more callers there are, the smaller their "
         "shares. Calls beyond that are refused, and callers retry."},
    {"leave_timeout", FG_CONF_NS, FG_CONF_AT(struct ingester_place, leave_timeout_ns), .def = "10m",
     .min = "1s", .max = "1d",
     .doc = "How long a shutdown after POST /ingester/prepare-shutdown waits until all profiles "
            "are committed and the ingester has left the ring. After it, the ingester stops as for "
            "a restart and keeps its place in the ring and its data."},
};

enum {
    PATH_MAX_BYTES = 4096,            /* PATH_MAX of Linux */
    SETTINGS_MAX_BYTES = 1024 * 1024, /* some hundred settings; the longest are lists of rules */
};

struct ingester_service {
    struct fg_unread *unread; /* of the store */
    struct fg_store *store;
    struct fg_key_store *keys;  /* of the head; NULL: none */
    const struct fg_disk *disk; /* of the head */
    struct fg_bucket *bucket;
    char scratch[PATH_MAX_BYTES];
    struct fg_ring_watch *watch;
    struct fg_bucket_stop *check_stop; /* of check_unused(), which runs on the watch's thread */
    struct ingester *ingester;
    struct ing_routes routes;
    struct fg_rpc *rpc;
    struct fg_rpc_server *server;
    struct fg_peers *peers; /* the other members */
    bool may_ask;           /* the API about the StatefulSet */
};

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct ingester_service *service = fg_new(struct ingester_service);

    program->service = service;
    service->check_stop = fg_bucket_stop_create();
    service->routes.work = program->work;
    ing_routes(&service->routes, program->admin);
    ing_ring_routes(&service->routes, program->admin);
    fg_rpc_share(&rpc, program->settings.memory_max_bytes);
    if (fg_rpc_create(&rpc, program->registry, &service->rpc, err) != FG_OK)
        return err->code;
    service->peers = fg_peers_create(&(struct fg_peers_config){.rpc = service->rpc,
                                                               .calls_max = 2,
                                                               .peers_max = FG_RING_MEMBERS_MAX,
                                                               .idle_ns = FG_PEERS_IDLE_NS});
    return FG_OK;
}

static enum fg_code open_bucket(struct ingester_service *service, struct fg_program *program,
                                struct fg_err *err)
{
    const struct fg_bucket_host host = fg_program_bucket_host(program, place.data);

    (void)snprintf(service->scratch, sizeof service->scratch, "%s/scratch", place.data);
    if (mkdir(service->scratch, 0750) != 0 && errno != EEXIST)
        return fg_fail_errno(err, errno, "%s", service->scratch);
    if (fg_program_disk(program, place.data, "data", &service->disk, err) != FG_OK ||
        fg_bucket_open(&bucket, &bucket_s3, &host, &service->bucket, err) != FG_OK ||
        fg_program_start_access(program, service->bucket, place.data, err) != FG_OK)
        return err->code;
    service->keys = fg_access_keys(program->access);
    return fg_program_check_bucket(program, service->bucket, err);
}

static enum fg_code check_unused(void *arg, struct fg_err *err)
{
    struct ingester_service *service = arg;

    return ring.allow_new ? FG_OK
                          : ing_first_use_check_ring(service->bucket, fg_clock_real(),
                                                     service->check_stop, err);
}

static void on_drain(void *arg, uint64_t revision)
{
    struct ingester_service *service = arg;

    ing_drain(service->ingester, revision);
}

static bool is_ready(void *arg)
{
    const struct ingester_service *service = arg;

    return ing_is_ready(service->ingester);
}

/* Creates the watch. Its membership belongs to the store, so it needs the store only; it reads the
 * ring from the end of ready() on. */
static enum fg_code make_watch(struct ingester_service *service, const struct fg_program *program,
                               struct fg_err *err)
{
    struct fg_ring_watch_config config = {
        .bucket = service->bucket,
        .clock = program->clock,
        .registry = program->registry,
        .conditions = program->conditions,
        .poll_ns = ring.poll_ns,
    };
    struct fg_ring_watch_member member;
    struct fg_id store;

    if (ing_member_find_store(service->store, &store, err) != FG_OK ||
        fg_ring_settings_member(&ring, place.rpc_listen, program->settings.listen, store, &member,
                                err) != FG_OK)
        return err->code;
    member.on_drain = on_drain;
    member.check_unused = check_unused;
    member.is_ready = is_ready;
    member.arg = service;
    config.member = &member;
    return fg_ring_watch_create(&config, &service->watch, err);
}

static enum fg_code seal_head(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct ingester_service *service = arg;

    (void)deadline_mono_ns; /* each request for a key has its own */
    return ing_head_seal(&service->store, service->keys, err);
}

static void handle_settings(struct fg_rpc_request *req, void *routes)
{
    struct fg_buf settings_text;

    fg_buf_init(&settings_text, SETTINGS_MAX_BYTES);
    fg_program_routes_write_settings(routes, NULL, NULL, &settings_text);
    fg_rpc_reply_take(req, fg_bytes(NULL, 0), &settings_text);
}

static enum fg_code open_store(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    struct ingester_service *service = arg;
    const struct fg_store_config config = ing_store_config(&settings, false, service->unread);

    (void)deadline_mono_ns; /* a disk does not know of any */
    return fg_store_open(place.data, ing_head_families, HEAD_FAMILIES, &config, &service->store,
                         err);
}

static enum fg_code load_head(void *arg, int64_t deadline_mono_ns, struct fg_err *err)
{
    const struct fg_program *program = arg;
    struct ingester_service *service = program->service;

    (void)deadline_mono_ns;
    return ing_create(&(struct ing_config){.settings = &settings,
                                           .segments = &segments,
                                           .store = service->store,
                                           .disk = service->disk,
                                           .bucket = service->bucket,
                                           .scratch = service->scratch,
                                           .tenants = program->tenants,
                                           .watch = service->watch,
                                           .peers = service->peers,
                                           .repair = &repair,
                                           .registry = program->registry,
                                           .conditions = program->conditions,
                                           .clock = program->clock},
                      &service->ingester, err);
}

/* Reading what the last run left may take a while. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct ingester_service *service = program->service;

    ing_share(&settings, program->settings.memory_max_bytes);
    service->unread = fg_unread_create(&(struct fg_unread_config){
        place.data, FG_UNREAD_PATIENCE_NS, program->registry, program->conditions, program->clock});
    /* The store before the bucket: a damaged disk is told at once, even while the bucket is
     * unreachable. */
    if (fg_program_await(program, FG_PROGRAM_DISK, open_store, service, err) != FG_OK ||
        open_bucket(service, program, err) != FG_OK ||
        fg_program_await(program, FG_PROGRAM_KEYS, seal_head, service, err) != FG_OK ||
        make_watch(service, program, err) != FG_OK ||
        fg_program_await(program, FG_PROGRAM_DISK, load_head, program, err) != FG_OK)
        return err->code;
    service->server = fg_rpc_server_create(service->rpc, (unsigned)place.requests_max);
    ing_serve(service->ingester, service->server);
    fg_rpc_server_handle(service->server, FG_RPC_SETTINGS, handle_settings, &program->routes);
    /* From here on operators can flush; before, the routes answer 503. */
    atomic_store(&service->routes.ingester, service->ingester);
    if (fg_rpc_server_start(service->server, place.rpc_listen, err) != FG_OK)
        return err->code;
    /* The server listens before the ring has the address: other members may call as soon as they
     * read it. */
    atomic_store(&service->routes.watch, service->watch);
    if (fg_ring_watch_start(service->watch, err) != FG_OK)
        return err->code;
    service->may_ask = ing_scale_down_may_ask(&scale_down, ring.name);
    return FG_OK;
}

static const char *member_fault(const struct ingester_service *service)
{
    switch (fg_ring_watch_member_state(service->watch)) {
    case FG_RING_MEMBER_ACTIVE:
        return NULL;
    case FG_RING_MEMBER_LEAVING:
    case FG_RING_MEMBER_LEFT:
        return "leaves the ring";
    case FG_RING_MEMBER_REPLACED:
        return "another store has joined the ring with this name";
    default:
        return "joins the ring";
    }
}

static bool unready(struct fg_program *program, struct fg_buf *why)
{
    const struct ingester_service *service = program->service;
    const char *fault = member_fault(service);

    if (fault == NULL)
        return ing_refuses(service->ingester, why);
    fg_buf_puts(why, fault);
    return true;
}

/* Leaves the ring. Other members are served until everything is committed and the ring says so. */
static void leave(struct ingester_service *service, const struct fg_program *program)
{
    struct fg_err err;

    fg_ring_watch_leave(service->watch);
    if (fg_ring_watch_wait_member(service->watch, FG_RING_MEMBER_LEFT,
                                  fg_mono_ns(program->clock) + place.leave_timeout_ns,
                                  &err) != FG_OK)
        fg_log_error("could not leave the ring: the member stays and its disk is still needed",
                     fg_ls("err", err.msg));
}

/* Everything still works: others read from here until all is committed, or until no other ingester
 * is away. */
static void wind_down(struct fg_program *program)
{
    struct ingester_service *service = program->service;
    enum ing_pod_fate fate = ING_POD_GOES;

    if (!atomic_load(&service->routes.leaves))
        fate = ing_scale_down_ask(&scale_down, ring.name, service->may_ask);
    if (fate == ING_POD_GOES)
        leave(service, program);
    else if (fate == ING_POD_RETURNS && ring.maintenance_wait_ns > 0 &&
             fg_ring_watch_member_state(service->watch) == FG_RING_MEMBER_ACTIVE)
        ing_maintenance_begin(&(struct ing_maintenance){.watch = service->watch,
                                                        .peers = service->peers,
                                                        .name = fg_cstr(ring.name),
                                                        .wait_ns = ring.maintenance_wait_ns});
}

static void stop(struct fg_program *program)
{
    struct ingester_service *service = program->service;

    if (service == NULL)
        return;
    /* First the watch, which calls the ingester (on_drain()). Then end the waits, so that the
     * server finds no call that waits for the bucket; and only then stop the server and destroy
     * what it feeds. */
    fg_bucket_stop_all(service->check_stop);
    fg_ring_watch_stop(service->watch);
    ing_hurry(service->ingester);
    if (service->server != NULL)
        fg_rpc_server_stop(service->server);
    ing_destroy(service->ingester);
    fg_ring_watch_destroy(service->watch);
    fg_bucket_stop_destroy(service->check_stop);
    fg_rpc_server_destroy(service->server);
    fg_peers_destroy(service->peers);
    fg_rpc_destroy(service->rpc);
    fg_program_stop_access(program);
    fg_bucket_close(service->bucket);
    fg_store_close(service->store);
    fg_unread_destroy(service->unread);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"", place_fields, FG_COUNT(place_fields), &place},
        {"rpc", fg_rpc_fields, fg_rpc_n_fields, &rpc},
        {"ring", fg_ring_member_fields, fg_ring_n_member_fields, &ring},
        {"ingester", ing_fields, ing_n_fields, &settings},
        {"ingester.segments", ing_segments_fields, ing_segments_n_fields, &segments},
        {"ingester.kubernetes", ing_scale_down_fields, ing_scale_down_n_fields, &scale_down},
        {"ingester.repair", ing_repair_fields, ing_repair_n_fields, &repair},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &bucket_s3},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-ingester",
        .what = "stores profiles durably and serves them until they are in blocks",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .unready = unready,
        .wind_down = wind_down,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
