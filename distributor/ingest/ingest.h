/*
 * /ingest, the interface of the SDKs: query parameters and a body in one of many formats become
 * batches (distributor/API.md#ingest).
 *
 * Statuses: 400 for the name and for the series of text formats, 422 for input that cannot be read
 * and for a pprof that is refused, 429 and 503 if trying again can help.
 */
#ifndef FG_DISTRIBUTOR_INGEST_INGEST_H
#define FG_DISTRIBUTOR_INGEST_INGEST_H

#include "common/net/http.h"

/* Handler of the routes; arg is the distributor. */
void dist_ingest_handle(struct fg_http_request *req, void *distributor);

#endif
