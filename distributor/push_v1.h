/*
 * push.v1.PusherService/Push, the interface of Alloy and of the SDKs in Rust, Python, Ruby and
 * .NET: series with pprofs, by Connect, gRPC or gRPC-web (distributor/API.md#push).
 *
 * Every profile is tried. If some are refused, the others are stored, and the answer is the error
 * of the first refused one.
 */
#ifndef FG_DISTRIBUTOR_PUSH_V1_H
#define FG_DISTRIBUTOR_PUSH_V1_H

#include "common/net/http.h"
#include "common/self_profile/self_profile.h"

struct distributor;

/* Handles the route. distributor: struct distributor. */
void dist_push_v1_handle(struct fg_http_request *req, void *distributor);

/* Takes a push of this process's own profiles for a tenant, whose limits and rules apply. On the
 * loop `home`, where push->done() comes, too. tenant: borrowed until then. */
void dist_push_v1_own(struct distributor *distributor, struct fg_loop *home, struct fg_slice tenant,
                      struct fg_self_profile_push *push);

#endif
