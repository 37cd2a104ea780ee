/*
 * The distributor takes profiles from agents: it decodes every format into batches in normal form,
 * sends each to the ingesters that own it, and answers the agent when it is durable at a quorum of
 * them. It keeps nothing of its own but what ingesters are known to know.
 *
 * Thread: requests arrive on loops; decoding is a job on the INGEST lane; the answer goes out on
 * the request's own loop.
 */
#ifndef FG_DISTRIBUTOR_DISTRIBUTOR_H
#define FG_DISTRIBUTOR_DISTRIBUTOR_H

#include "common/base/time.h"
#include "common/cluster/ring/watch.h"
#include "common/model/tenant_limits.h"
#include "common/net/http.h"
#include "common/net/rpc/peers.h"
#include "common/runtime/work.h"
#include "distributor/settings.h"

struct distributor;

/* Everything named is borrowed and outlives the distributor. */
struct dist_config {
    const struct dist_settings *settings;
    struct fg_peer *ingester;    /* the only one there is; NULL: they are in a ring */
    struct fg_ring_watch *watch; /* with peers, else NULL */
    struct fg_peers *peers;
    struct fg_work *work; /* its INGEST lane */
    struct fg_tenants *tenants;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

struct distributor *dist_create(const struct dist_config *config);

/* Sends nothing more. No request is under way any more, nor a worker; before the peers are
 * destroyed. In a ring it returns when nothing is under way to ingesters any more: some have copies
 * still to store of what others have acknowledged. */
void dist_stop(struct distributor *distributor);

/* After the ingester's peer was destroyed, and before `peers` are. NULL is fine. */
void dist_destroy(struct distributor *distributor);

/* Adds its routes to a server that has not started yet. */
void dist_routes(struct distributor *distributor, struct fg_http_server *server);

#endif
