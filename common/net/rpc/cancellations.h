/*
 * Which requests of a server their callers may cancel, by keys that the callers choose, one at a
 * time for each connection. A cancellation may overtake what makes its request known: requests wait
 * for a worker before anyone reads their key. So the table keeps the last cancellations that it
 * found no request for.
 *
 * Thread: any. Memory: the requests', and CANCELLATIONS_PAST cancellations.
 */
#ifndef FG_COMMON_NET_RPC_CANCELLATIONS_H
#define FG_COMMON_NET_RPC_CANCELLATIONS_H

#include "common/net/rpc/request.h"

struct fg_cancellations;

/* Creates an empty table. Never fails. */
struct fg_cancellations *fg_cancellations_create(void);
/* Frees it; it has no requests. NULL is fine. */
void fg_cancellations_destroy(struct fg_cancellations *cancellations);

/* Makes a request known under its caller's key, not 0. Does nothing if it has one. */
void fg_cancellations_add(struct fg_cancellations *cancellations, struct fg_rpc_request *req,
                          uint64_t key);

/* Removes a request, which may not be known, and clears its key and its mark. */
void fg_cancellations_remove(struct fg_cancellations *cancellations, struct fg_rpc_request *req);

/* Marks the request of that connection and key as canceled, now or when it becomes known. */
void fg_cancellations_cancel(struct fg_cancellations *cancellations, uint32_t owner, uint64_t key);

#endif
