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
    uint8_t kind; /* method of a request, gRPC number of a reply */
    uint64_t
        key; /* a request's cluster (fg_rpc_cluster_key()); what a reply's rest is asked with */
    uint64_t left; /* milliseconds to a request's deadline; bytes of a reply's payload to come */
    struct fg_slice head, payload;
};

/* Bytes of the whole; 0: more than FG_RPC_MESSAGE_MAX_BYTES. */
size_t fg_rpc_frame_size(const struct fg_rpc_frame *frame);

/* Writes fg_rpc_frame_size() bytes. */
void fg_rpc_frame_encode(const struct fg_rpc_frame *frame, uint8_t *out);

/*
 * Borrows from bytes. FG_E_UNIMPLEMENTED: a message of another version, or with flags that we do
 * not know; FG_E_INVALID: none of ours.
 */
enum fg_code fg_rpc_frame_decode(struct fg_slice bytes, struct fg_rpc_frame *ret_frame,
                                 struct fg_err *err) fg_must_check;

/* What stands in a frame for a cluster's name; 0 for "". */
uint64_t fg_rpc_cluster_key(const char *name);

#endif
