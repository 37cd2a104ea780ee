/*
 * The distributor takes profiles from agents. It decodes every format into batches in normal form,
 * sends each batch to the ingesters that own its shard, and answers the agent when a quorum of them
 * has made it durable. It keeps no data except a cache of the stacks that ingesters already have.
 *
 * Thread: requests arrive on loops; decoding is a job on the INGEST lane; the answer leaves on the
 * request's loop.
 */
#ifndef FG_DISTRIBUTOR_DISTRIBUTOR_H
#define FG_DISTRIBUTOR_DISTRIBUTOR_H

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/net/rpc/peers.h"
#include "common/runtime/work.h"
#include "common/self_profile/self_profile.h"
#include "distributor/settings.h"

struct distributor;

/* Everything is borrowed and outlives the distributor. */
struct dist_config {
    const struct dist_settings *settings;
    struct fg_peer *ingester;    /* the only ingester; NULL: ingesters are in a ring */
    struct fg_ring_watch *watch; /* with peers, else NULL */
    struct fg_peers *peers;
    struct fg_work *work; /* its INGEST lane */
    struct fg_tenants *tenants;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

/* Returns how many calls a distributor may have in flight to one address, if so many stores are
 * sent to there. A peer with fewer refuses what the queues have taken. */
unsigned dist_calls_max(const struct dist_settings *settings, unsigned stores);

/* Creates a distributor. Never fails. */
struct distributor *dist_create(const struct dist_config *config);

/*
 * Stops sending. Call it when no request and no worker runs any more, and before the peers are
 * destroyed. In a ring it returns when no call to an ingester is in flight: ingesters may still
 * have to store copies of what others have acknowledged.
 */
void dist_stop(struct distributor *distributor);

/* Frees it: after the ingester's peer was destroyed, and before `peers` are. NULL is fine. */
void dist_destroy(struct distributor *distributor);

/* Sets the id of the store in which forwarded profiles end: the server's own, which forwards them
 * in turn, so that profiles which have been there are refused. Once; any thread. */
void dist_set_own_store(struct distributor *distributor, struct fg_id store);

/*
 * Returns a sink that stores this process's own profiles, for `tenant` (borrowed) or, without
 * tenancy, for the only one there is. loop: its uploads begin and end there. Once.
 */
struct fg_self_profile_sink dist_self_profile_sink(struct distributor *distributor,
                                                   struct fg_loop *loop, const char *tenant);

/* Adds its routes to a server that has not started yet. */
void dist_routes(struct distributor *distributor, struct fg_http_server *server);

#endif
