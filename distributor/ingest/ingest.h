/*
 * /ingest, the interface of the SDKs: query parameters and a body in one of many formats become
 * batches (ingest.md, 2).
 *
 * Statuses (2.7): 400 for the name and for the series of text formats, 422 for what cannot be read
 * and for a pprof that is refused, 429 and 503 where trying again helps.
 */
#ifndef FG_DISTRIBUTOR_INGEST_INGEST_H
#define FG_DISTRIBUTOR_INGEST_INGEST_H

#include "common/net/http.h"

/* Handler of the routes; arg is the distributor. */
void dist_ingest_handle(struct fg_http_request *req, void *distributor);

#endif
