/*
 * forward.v1.ForwardService/Push: what other flamegrid servers forward
 * (distributor/API.md#forward). A request brings batches as distributors send them to ingesters
 * (common/model/batch.h): profiles with their ids, and definitions of those stacks only that the
 * sender has not defined before.
 *
 * The ids are believed, which is why the route has a scope of its own. Everything else is checked
 * as if an agent had sent it: labels by the rules and limits of the tenant, times, and that each
 * stack is the one whose id it has.
 *
 * The answer has a result for each batch, so that the sender knows of every profile whether it is
 * stored, refused for good, or to be sent again.
 */
#ifndef FG_DISTRIBUTOR_FORWARD_H
#define FG_DISTRIBUTOR_FORWARD_H

#include "common/net/http.h"

/* Handles the route. distributor: struct distributor. */
void dist_forward_handle(struct fg_http_request *req, void *distributor);

#endif
