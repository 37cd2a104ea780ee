/* The settings table of calls between services; struct fg_rpc_settings is in rpc.h. */
#ifndef FG_COMMON_NET_RPC_SETTINGS_H
#define FG_COMMON_NET_RPC_SETTINGS_H

#include "common/net/rpc/rpc.h"

/* Returns true if a text setting is given and not empty. text may be NULL. */
static inline bool fg_rpc_is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

#endif
