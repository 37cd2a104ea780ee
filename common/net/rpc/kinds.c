#include "common/net/rpc/kinds.h"

#include "common/net/rpc/rpc.h"

#include <strings.h>

enum {
    SMALL_MAX_BYTES = 64 * 1024,        /* heads with a few numbers and names */
    QUERY_MAX_BYTES = 16 * 1024 * 1024, /* deletions, ids and groups at their most are 5 MB */
    FETCH_MAX_BYTES = 4 * 1024 * 1024,  /* ids of profiles */
    PUSH_MAX_BYTES = 128 * 1024 * 1024, /* a batch of one upload, as large as a workspace lets it */
    USE_MAX_BYTES = 256 * 1024, /* of so many tenants as fg_meeting_hear() is told at once */
    PART_MAX_BYTES = FG_RPC_PART_BYTES + SMALL_MAX_BYTES,
};

/* clang-format off */
static const struct fg_rpc_kind kinds[FG_RPC_METHODS] = {
    [FG_RPC_PING]   = {"ping",   FG_RPC_ANY_ROLE,    SMALL_MAX_BYTES},
    [FG_RPC_PUSH]   = {"push",   FG_RPC_DISTRIBUTOR, PUSH_MAX_BYTES},
    [FG_RPC_SELECT] = {"select", FG_RPC_QUERIER,     QUERY_MAX_BYTES},
    [FG_RPC_SERIES] = {"series", FG_RPC_QUERIER,     QUERY_MAX_BYTES},
    [FG_RPC_POINTS] = {"points", FG_RPC_QUERIER,     QUERY_MAX_BYTES},
    [FG_RPC_STATS]  = {"stats",  FG_RPC_QUERIER,     QUERY_MAX_BYTES},
    [FG_RPC_MORE]   = {"more",   FG_RPC_ANY_ROLE,    SMALL_MAX_BYTES},
    [FG_RPC_GROUPS] = {"groups", FG_RPC_INGESTER,    SMALL_MAX_BYTES},
    [FG_RPC_FETCH]  = {"fetch",  FG_RPC_INGESTER,    FETCH_MAX_BYTES},
    [FG_RPC_READ]   = {"read",   FG_RPC_QUERIER,     SMALL_MAX_BYTES},
    [FG_RPC_PART]   = {"part",   FG_RPC_ANY_ROLE,    PART_MAX_BYTES},
    [FG_RPC_ROWS]   = {"rows",   FG_RPC_QUERIER,     QUERY_MAX_BYTES},
    [FG_RPC_USE]    = {"use",    FG_RPC_DISTRIBUTOR | FG_RPC_QUERIER, USE_MAX_BYTES},
    [FG_RPC_QUERY_USE] = {"query_use", FG_RPC_QUERIER, USE_MAX_BYTES},
    [FG_RPC_SETTINGS] = {"settings", FG_RPC_QUERIER, SMALL_MAX_BYTES},
    [FG_RPC_RULES]  = {"rules",  FG_RPC_QUERIER,     SMALL_MAX_BYTES},
    [FG_RPC_CANCEL] = {"cancel", FG_RPC_ANY_ROLE,    SMALL_MAX_BYTES},
};
/* clang-format on */

const struct fg_rpc_kind *fg_rpc_kind_of(unsigned method)
{
    return method < FG_RPC_METHODS && kinds[method].name != NULL ? &kinds[method] : NULL;
}

unsigned fg_rpc_role_of(const char *name, size_t len)
{
    static const struct {
        const char *name;
        unsigned role;
    } roles[] = {
        {"distributor", FG_RPC_DISTRIBUTOR},
        {"ingester", FG_RPC_INGESTER},
        {"querier", FG_RPC_QUERIER},
        {"compactor", FG_RPC_COMPACTOR},
    };

    for (size_t i = 0; i < FG_COUNT(roles); i++)
        if (len == strlen(roles[i].name) && strncasecmp(name, roles[i].name, len) == 0)
            return roles[i].role;
    return 0;
}
