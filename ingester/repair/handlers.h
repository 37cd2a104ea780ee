/*
 * Handles GROUPS and FETCH (proto/inner.proto): tells another owner which profiles this head has,
 * and sends them. Both run as queries do, with their limits.
 */
#ifndef FG_INGESTER_REPAIR_HANDLERS_H
#define FG_INGESTER_REPAIR_HANDLERS_H

#include "ingester/query.h"

/* Handle calls, for fg_rpc_server_handle(). context: a struct ing_query_context that outlives the
 * server. */
void ing_repair_handle_groups(struct fg_rpc_request *req, void *context);
void ing_repair_handle_fetch(struct fg_rpc_request *req, void *context);

/* Returns true if the member with this store owns the shard in the newest revision. */
bool ing_repair_owns(const struct fg_ring_view *view, struct fg_id store, uint16_t shard);

#endif
