#include "common/program/program.h"
#include "distributor/distributor.h"
#include "distributor/scrape/scraper.h"

/* Where the ingester is; the ring takes this place once there are several. */
struct peers {
    char *ingester;
};

static struct distributor_settings settings;
static struct scraper_settings scraper_settings;
static struct scraper_kubernetes_settings scraper_kubernetes_settings;
static struct peers peers;
static struct fg_rpc_settings rpc;
static const struct fg_conf_field peers_fields[] = {
    {"ingester", FG_CONF_STRING, FG_CONF_AT(struct peers, ingester), .def = "tcp://127.0.0.1:4101",
     .min = "1", .doc = "Address of the ingester."},
};

struct service {
    struct fg_rpc *rpc;
    struct fg_peer *ingester;
    struct distributor *distributor;
    struct scraper *scraper;
};

static enum fg_code make_scraper(struct service *service, struct fg_program *program,
                                 struct fg_err *err)
{
    const struct scraper_config config = {
        .settings = &scraper_settings,
        .kubernetes = &scraper_kubernetes_settings,
        .memory_max_bytes = program->settings.memory_max_bytes,
        .distributor = service->distributor,
        .bodies = &program->budget,
        .work = program->work,
        .registry = program->registry,
        .clock = program->clock,
    };

    if (scraper_create(&config, &service->scraper, err) != FG_OK)
        return err->code;
    scraper_routes(service->scraper, program->http);
    return FG_OK;
}

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    struct service *service = fg_new(struct service);

    program->service = service;
    if (fg_rpc_create(&rpc, program->registry, &service->rpc, err) != FG_OK ||
        fg_peer_dial(service->rpc, peers.ingester, (unsigned)settings.push_messages_max,
                     &service->ingester, err) != FG_OK)
        return err->code;
    service->distributor = distributor_create(&(struct distributor_config){
        .settings = &settings,
        .ingester = service->ingester,
        .work = program->work,
        .tenants = program->tenants,
        .registry = program->registry,
        .clock = program->clock,
    });
    distributor_routes(service->distributor, program->http);
    return make_scraper(service, program, err);
}

static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct service *service = program->service;

    return scraper_start(service->scraper, err);
}

static void stop(struct fg_program *program)
{
    struct service *service = program->service;

    if (service == NULL)
        return;
    scraper_stop(service->scraper);
    fg_work_destroy(program->work);
    program->work = NULL;
    if (service->distributor != NULL)
        distributor_stop(service->distributor);
    fg_peer_destroy(service->ingester);
    scraper_destroy(service->scraper);
    distributor_destroy(service->distributor);
    fg_rpc_destroy(service->rpc);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"peers", peers_fields, FG_COUNT(peers_fields), &peers},
        {"rpc", fg_rpc_fields, fg_rpc_n_fields, &rpc},
        {"distributor", distributor_fields, distributor_n_fields, &settings},
        {"scrape", scraper_fields, scraper_n_fields, &scraper_settings},
        {"scrape.kubernetes", scraper_kubernetes_fields, scraper_n_kubernetes_fields,
         &scraper_kubernetes_settings},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-distributor",
        .what = "takes profiles from agents and hands them to ingesters",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
