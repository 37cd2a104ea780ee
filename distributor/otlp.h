/*
 * OTLP profiles, the interface of OpenTelemetry's collectors and eBPF profiler
 * (distributor/API.md#otlp): POST /v1development/profiles with protobuf or JSON, and
 * ProfilesService/Export by gRPC.
 *
 * A profile that is wrong is rejected and told of in the answer's partial success; the others are
 * stored.
 */
#ifndef FG_DISTRIBUTOR_OTLP_H
#define FG_DISTRIBUTOR_OTLP_H

#include "common/net/http.h"

/* Handlers of the routes; arg is the distributor. */
void dist_otlp_handle_http(struct fg_http_request *req, void *distributor);
void dist_otlp_handle_rpc(struct fg_http_request *req, void *distributor);

#endif
