/*
 * What an owner tells another of what it has: GROUPS and FETCH (proto/inner.proto). Both are worked
 * on as queries are, with their bounds.
 */
#ifndef FG_INGESTER_REPAIR_HANDLERS_H
#define FG_INGESTER_REPAIR_HANDLERS_H

#include "ingester/query.h"

/* Handlers; arg is a query_context that outlives the server. */
void ing_repair_handle_groups(struct fg_rpc_request *req, void *context);
void ing_repair_handle_fetch(struct fg_rpc_request *req, void *context);

/* Does the member with this store own the shard, by the newest revision? */
bool ing_repair_owns(const struct fg_ring_view *view, struct fg_id store, uint16_t shard);

#endif
