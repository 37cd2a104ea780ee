#include "common/rpc/context.h"

#include "common/rpc/message.h"

#define CONF(field) FG_CONF_AT(struct fg_rpc_settings, field)

/* clang-format off */
const struct fg_conf_field fg_rpc_fields[] = {
    {"cluster", FG_CONF_STRING, CONF(cluster), .def = "", .max = "200",
     .doc = "Name that all processes of one cluster have. Calls of processes with another one are refused, so that an address that is used again does no harm."},
    {"threads", FG_CONF_UINT, CONF(threads), .def = "2", .min = "2", .max = "64",
     .doc = "Threads of the transport for calls between services."},
    {"answers_max_bytes", FG_CONF_BYTES, CONF(answers_max_bytes), .def = "256MiB", .min = "1MiB",
     .doc = "Memory for large answers whose parts wait to be fetched, all together. Above it callers are refused with resource_exhausted."},
};
/* clang-format on */
const size_t fg_rpc_n_fields = FG_COUNT(fg_rpc_fields);

enum { ANSWERS_MAX_BYTES = 256 * 1024 * 1024 }; /* as the default above */

struct fg_rpc {
    const struct fg_rpc_settings *settings;
    uint64_t cluster;
};

enum fg_code fg_rpc_create(const struct fg_rpc_settings *settings, struct fg_rpc **ret_rpc,
                           struct fg_err *err)
{
    struct fg_rpc *rpc = fg_new(struct fg_rpc);

    (void)err;
    fg_rpc_init((unsigned)settings->threads);
    rpc->settings = settings;
    rpc->cluster = fg_rpc_cluster_key(settings->cluster);
    *ret_rpc = rpc;
    return FG_OK;
}

void fg_rpc_destroy(struct fg_rpc *rpc)
{
    free(rpc);
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
