/*
 * /ingest, the interface of the SDKs: query parameters and a body in one of many formats become
 * batches (distributor/API.md#ingest).
 *
 * Statuses: 400 for an invalid name and for invalid series of text formats, 422 for input that
 * cannot be decoded and for a refused pprof, 429 and 503 if a retry can help.
 */
#ifndef FG_DISTRIBUTOR_INGEST_INGEST_H
#define FG_DISTRIBUTOR_INGEST_INGEST_H

#include "common/net/http.h"

/* Handles the routes. distributor: struct distributor. */
void dist_ingest_handle(struct fg_http_request *req, void *distributor);

#endif
