/*
 * OTLP profiles, the interface of OpenTelemetry's collectors and eBPF profiler
 * (distributor/API.md#otlp): POST /v1development/profiles with protobuf or JSON, and
 * ProfilesService/Export by gRPC.
 *
 * Invalid profiles are rejected and reported in the partial success of the answer; the others are
 * stored.
 */
#ifndef FG_DISTRIBUTOR_OTLP_H
#define FG_DISTRIBUTOR_OTLP_H

#include "common/net/http.h"

/* Handle the routes. distributor: struct distributor. */
void dist_otlp_handle_http(struct fg_http_request *req, void *distributor);
void dist_otlp_handle_rpc(struct fg_http_request *req, void *distributor);

#endif
