/*
 * The frame of a message, without its transport. See rpc.h for the bytes.
 */
#ifndef FG_COMMON_NET_RPC_MESSAGE_H
#define FG_COMMON_NET_RPC_MESSAGE_H

#include "common/net/rpc/rpc.h"

enum {
    FG_RPC_FRAME_BYTES = 28,    /* before the head */
    FG_RPC_FRAME_METHOD_AT = 4, /* where a request has its method */
};

struct fg_rpc_frame {
    uint8_t kind;  /* method of a request, gRPC number of a reply */
    uint64_t key;  /* request: its cluster (fg_rpc_cluster_key()); reply: the key of its rest */
    uint64_t left; /* request: milliseconds to the deadline; reply: bytes of its rest */
    struct fg_slice head, payload;
};

/* Returns the size of the encoded frame; 0: more than FG_RPC_MESSAGE_MAX_BYTES. */
size_t fg_rpc_frame_size(const struct fg_rpc_frame *frame);

/* Encodes a frame into fg_rpc_frame_size() bytes. */
void fg_rpc_frame_encode(const struct fg_rpc_frame *frame, uint8_t *out);

/*
 * Decodes a frame; its slices are borrowed from bytes. FG_E_UNIMPLEMENTED: the message has another
 * version or unknown flags; FG_E_INVALID: it is not one of this protocol.
 */
enum fg_code fg_rpc_frame_decode(struct fg_slice bytes, struct fg_rpc_frame *ret_frame,
                                 struct fg_err *err) fg_must_check;

/* Returns the key of a cluster's name in frames; 0 for "". */
uint64_t fg_rpc_cluster_key(const char *name);

#endif
