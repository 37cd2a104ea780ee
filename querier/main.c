#include "common/bucket/settings.h"
#include "common/program/program.h"
#include "querier/querier.h"

/* Where the ingester is; the ring takes this place once there are several. */
struct peers {
    char *ingester;
    uint64_t calls_max;
};

static struct fg_querier_settings settings;
static struct peers peers;
static struct fg_rpc_settings rpc;
static struct fg_bucket_settings bucket;
static struct fg_bucket_s3_settings bucket_s3;
static const struct fg_conf_field peers_fields[] = {
    {"ingester", FG_CONF_STRING, FG_CONF_AT(struct peers, ingester), .def = "tcp://127.0.0.1:4101",
     .min = "1", .doc = "Address of the ingester."},
    {"calls_max", FG_CONF_UINT, FG_CONF_AT(struct peers, calls_max), .def = "64", .min = "1",
     .max = "65536", .doc = "Calls to the ingester under way at a time."},
};

static const int64_t PROOF_TIMEOUT_NS = 30 * FG_SECOND_NS;

struct service {
    struct fg_bucket *bucket;
    struct fg_disk_cache *disk;
    struct fg_rpc *rpc;
    struct fg_peer *ingester;
    struct fg_querier *querier;
};

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct service *service = fg_new(struct service);

    program->service = service;
    if (fg_bucket_open(&bucket, &bucket_s3, NULL, program->registry, &service->bucket, err) !=
            FG_OK ||
        fg_querier_open_disk_cache(&settings, NULL, program->registry, &service->disk, err) !=
            FG_OK ||
        fg_rpc_create(&rpc, program->registry, &service->rpc, err) != FG_OK ||
        fg_peer_dial(service->rpc, peers.ingester, (unsigned)peers.calls_max, &service->ingester,
                     err) != FG_OK)
        return err->code;
    service->querier = fg_querier_create(&(struct fg_querier_config){
        .ingesters = &service->ingester,
        .n_ingesters = 1,
        .work = program->work,
        .tenants = program->tenants,
        .registry = program->registry,
        .clock = program->clock,
        .timeout_ns = settings.timeout_ns,
        .answer_max_bytes = settings.answer_max_bytes,
        .bucket = service->bucket,
        .cache_max_bytes = settings.cache_max_bytes,
        .fetch_max_bytes = settings.fetch_max_bytes,
        .refine_max_bytes = settings.refine_max_bytes,
        .manifest_age_ns = settings.manifest_age_ns,
        .disk = service->disk,
    });
    fg_querier_routes(service->querier, program->http);
    return FG_OK;
}

/* The bucket may be slow to answer. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct service *service = program->service;

    return fg_bucket_prove(service->bucket, fg_mono_ns(program->clock) + PROOF_TIMEOUT_NS, err);
}

static void stop(struct fg_program *program)
{
    struct service *service = program->service;

    if (service == NULL)
        return;
    fg_work_destroy(program->work);
    program->work = NULL;
    fg_querier_destroy(service->querier);
    fg_peer_destroy(service->ingester);
    fg_disk_cache_close(service->disk);
    fg_rpc_destroy(service->rpc);
    fg_bucket_close(service->bucket);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"peers", peers_fields, FG_COUNT(peers_fields), &peers},
        {"rpc", fg_rpc_fields, fg_rpc_n_fields, &rpc},
        {"querier", fg_querier_fields, fg_querier_n_fields, &settings},
        {"bucket", fg_bucket_fields, fg_bucket_n_fields, &bucket},
        {"bucket.s3", fg_bucket_s3_fields, fg_bucket_s3_n_fields, &bucket_s3},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-querier",
        .what = "answers questions about profiles, and serves the page",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
