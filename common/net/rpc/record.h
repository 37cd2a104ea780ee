/*
 * What is counted of the calls to one peer: metrics with the label peer="host:port", which leave
 * with it.
 *
 * Thread: any. NULL is a record in which nothing is counted.
 */
#ifndef FG_COMMON_NET_RPC_RECORD_H
#define FG_COMMON_NET_RPC_RECORD_H

#include "common/net/rpc/rpc.h"

struct fg_peer_record;

/* label: what stands in the metrics, copied; bytes that would be out of place become '_'. */
struct fg_peer_record *fg_record_create(struct fg_registry *registry, const char *label);
void fg_record_destroy(struct fg_peer_record *record);

void fg_record_call(struct fg_peer_record *record, enum fg_code code, int64_t duration_ns);
void fg_record_sent(struct fg_peer_record *record, size_t bytes);
void fg_record_keepalive_close(struct fg_peer_record *record);
void fg_record_received(struct fg_peer_record *record, size_t bytes);

/* What is read when scraped. */
void fg_record_scrape(struct fg_peer_record *record, const struct fg_peer *peer);

#endif
