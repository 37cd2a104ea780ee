/*
 * The metrics of one peer, with the label peer="host:port". They are removed with the peer.
 *
 * Thread: any. All functions accept NULL as the record and then do nothing.
 */
#ifndef FG_COMMON_NET_RPC_RECORD_H
#define FG_COMMON_NET_RPC_RECORD_H

#include "common/net/rpc/rpc.h"

struct fg_peer_record;

/* Registers the metrics. label is copied; bytes that a label must not have become '_'. */
struct fg_peer_record *fg_record_create(struct fg_registry *registry, const char *label);
void fg_record_destroy(struct fg_peer_record *record);

/* Count a call with its result, bytes, and a connection that the keep-alive closed. */
void fg_record_call(struct fg_peer_record *record, enum fg_code code, int64_t duration_ns);
void fg_record_sent(struct fg_peer_record *record, size_t bytes);
void fg_record_keepalive_close(struct fg_peer_record *record);
void fg_record_received(struct fg_peer_record *record, size_t bytes);

/* Sets the gauges from the peer, before a scrape. */
void fg_record_scrape(struct fg_peer_record *record, const struct fg_peer *peer);

#endif
