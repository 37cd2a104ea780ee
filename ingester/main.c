#include "common/program/program.h"
#include "ingester/ingester.h"
#include "ingester/keys.h"

struct place {
    char *data;
    char *rpc_listen;
    uint64_t requests_max;
};

static struct ingester_settings settings;
static struct place place;
static const struct fg_conf_field place_fields[] = {
    {"data", FG_CONF_STRING, FG_CONF_AT(struct place, data), .def = "./head", .min = "1",
     .doc = "Folder of the head; made when it is not there."},
    {"rpc_listen", FG_CONF_STRING, FG_CONF_AT(struct place, rpc_listen),
     .def = "tcp://127.0.0.1:4101", .min = "1", .doc = "Address for calls of other services."},
    {"requests_max", FG_CONF_UINT, FG_CONF_AT(struct place, requests_max), .def = "576", .min = "1",
     .max = "65536", .doc = "Calls worked on at a time."},
};

struct service {
    struct fg_store *store;
    struct ingester *ingester;
    struct fg_rpc_server *rpc;
};

static enum fg_code start(struct fg_program *program, struct fg_err *err)
{
    (void)err;
    program->service = fg_new(struct service);
    return FG_OK;
}

/* Reading what the last run left may take a while. */
static enum fg_code ready(struct fg_program *program, struct fg_err *err)
{
    struct service *service = program->service;
    struct fg_store_config store_config;

    ingester_share(&settings, program->settings.memory_max_bytes);
    store_config = ingester_store_config(&settings);
    if (fg_store_open(place.data, head_families, HEAD_FAMILIES, &store_config, &service->store,
                      err) != FG_OK)
        return err->code;
    if (ingester_create(&(struct ingester_config){.settings = &settings,
                                                  .store = service->store,
                                                  .tenants = program->tenants,
                                                  .registry = program->registry,
                                                  .clock = program->clock},
                        &service->ingester, err) != FG_OK)
        return err->code;
    service->rpc = fg_rpc_server_create((unsigned)place.requests_max);
    ingester_serve(service->ingester, service->rpc);
    return fg_rpc_server_start(service->rpc, place.rpc_listen, err);
}

static void stop(struct fg_program *program)
{
    struct service *service = program->service;

    if (service == NULL)
        return;
    if (service->rpc != NULL)
        fg_rpc_server_stop(service->rpc);
    ingester_destroy(service->ingester);
    if (service->rpc != NULL)
        fg_rpc_server_destroy(service->rpc);
    fg_store_close(service->store);
    free(service);
}

int main(int argc, char **argv)
{
    const struct fg_conf_section sections[] = {
        {"", place_fields, FG_COUNT(place_fields), &place},
        {"ingester", ingester_fields, ingester_n_fields, &settings},
    };
    const struct fg_program_def def = {
        .name = "flamegrid-ingester",
        .what = "makes profiles durable and serves them until they are in blocks",
        .sections = sections,
        .n_sections = FG_COUNT(sections),
        .start = start,
        .ready = ready,
        .stop = stop,
    };

    return fg_program_run(&def, argc - 1, argv + 1);
}
