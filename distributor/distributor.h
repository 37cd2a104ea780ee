/*
 * The distributor takes profiles from agents: it decodes every format into batches in normal form,
 * sends each to the ingester that owns it, and answers the agent when it is durable there. It keeps
 * nothing of its own but what the ingester is known to know.
 *
 * Thread: requests arrive on loops; decoding is a job on the INGEST lane; the answer goes out on
 * the request's own loop.
 */
#ifndef FG_DISTRIBUTOR_DISTRIBUTOR_H
#define FG_DISTRIBUTOR_DISTRIBUTOR_H

#include "common/base/time.h"
#include "common/net/http.h"
#include "common/rpc/rpc.h"
#include "common/run/config.h"
#include "common/run/work.h"
#include "common/tenant/limits.h"

/* Settings, section "distributor". */
struct distributor_settings {
    uint64_t body_max_bytes;   /* of a request, as received */
    uint64_t upload_max_bytes; /* of all profiles of an upload, decompressed */
    uint64_t decode_max_bytes; /* memory of one decoder */
    uint64_t known_stacks_max; /* ids of stacks the ingesters are known to have */
    uint64_t push_queue_max_bytes, push_messages_max;
    int64_t push_timeout_ns; /* for an answer of the ingester */
};
extern const struct fg_conf_field distributor_fields[];
extern const size_t distributor_n_fields;

struct distributor;

/* Everything named is borrowed and outlives the distributor. */
struct distributor_config {
    const struct distributor_settings *settings;
    struct fg_peer *ingester;
    struct fg_work *work; /* its INGEST lane */
    struct fg_tenants *tenants;
    struct fg_registry *registry;
    struct fg_clock *clock;
};

struct distributor *distributor_create(const struct distributor_config *config);

/* Sends nothing more to the ingester. No request is under way any more, nor a worker; before the
 * peer is destroyed. */
void distributor_stop(struct distributor *distributor);

/* After the peer was destroyed. NULL is fine. */
void distributor_destroy(struct distributor *distributor);

/* Adds its routes to a server that has not started yet. */
void distributor_routes(struct distributor *distributor, struct fg_http_server *server);

#endif
