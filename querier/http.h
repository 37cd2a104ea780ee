/*
 * HTTP routes of the querier: a request's way to a worker and back. A route's handler reads headers
 * and parameters on the loop, makes a query and queues it in the QUERY lane; the worker runs the
 * endpoint (api.h, render.h); back on the loop the response gets its statistics (reply.h), metrics
 * are counted, and the query is logged.
 *
 * Thread: loops, except for the endpoints.
 */
#ifndef FG_QUERIER_HTTP_H
#define FG_QUERIER_HTTP_H

#include "querier/query.h"

/* Registers the metrics of queries. */
struct fg_metrics *qry_http_register(struct fg_registry *registry);

/* Puts a query into the QUERY lane: qry_submit. FG_E_LIMIT: the lane is full, or the tenant's part
 * of it. */
enum fg_code qry_http_submit(struct qry_query *query, struct fg_err *err) fg_must_check;

/* Adds the routes of querier.v1.QuerierService and the plain GET routes to a server that has not
 * started yet. Once for a querier. */
void qry_http_routes(struct querier *querier, struct fg_http_server *server);

#endif
