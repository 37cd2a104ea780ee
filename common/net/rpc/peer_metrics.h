/*
 * The metrics of one peer, with the label peer="host:port". They are removed with the peer.
 *
 * Thread: any. All functions accept NULL as the metrics and then do nothing.
 */
#ifndef FG_COMMON_NET_RPC_PEER_METRICS_H
#define FG_COMMON_NET_RPC_PEER_METRICS_H

#include "common/net/rpc/rpc.h"

struct fg_peer_metrics;

/* Registers the metrics. label is copied; bytes that a label must not have become '_'. */
struct fg_peer_metrics *fg_peer_metrics_create(struct fg_registry *registry, const char *label);
void fg_peer_metrics_destroy(struct fg_peer_metrics *metrics);

/* Count a call with its result, bytes, and a connection that the keep-alive closed. */
void fg_peer_metrics_call(struct fg_peer_metrics *metrics, enum fg_code code, int64_t duration_ns);
void fg_peer_metrics_sent(struct fg_peer_metrics *metrics, size_t bytes);
void fg_peer_metrics_keepalive_close(struct fg_peer_metrics *metrics);
void fg_peer_metrics_received(struct fg_peer_metrics *metrics, size_t bytes);

/* Sets the gauges from the peer, before a scrape. */
void fg_peer_metrics_scrape(struct fg_peer_metrics *metrics, const struct fg_peer *peer);

#endif
