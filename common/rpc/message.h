/*
 * The frame of a message, without its transport. See rpc.h for the bytes.
 */
#ifndef FG_COMMON_RPC_MESSAGE_H
#define FG_COMMON_RPC_MESSAGE_H

#include "common/rpc/rpc.h"

enum { FG_RPC_FRAME_BYTES = 20 }; /* before the head */

struct fg_rpc_frame {
    uint8_t kind;    /* method of a request, gRPC number of a reply */
    int64_t left_ms; /* to the deadline; 0 in a reply */
    struct fg_slice head, payload;
};

/* Bytes of the whole; 0: more than FG_RPC_MESSAGE_MAX_BYTES. */
size_t fg_rpc_frame_size(const struct fg_rpc_frame *frame);

/* Writes fg_rpc_frame_size() bytes. */
void fg_rpc_frame_encode(const struct fg_rpc_frame *frame, uint8_t *out);

/* Borrows from bytes. FG_E_INVALID: not a message of this version. */
enum fg_code fg_rpc_frame_decode(struct fg_slice bytes, struct fg_rpc_frame *ret_frame,
                                 struct fg_err *err) fg_must_check;

/* Milliseconds from now to the deadline, rounded up; 0 or less: it is over. */
int64_t fg_rpc_left_ms(int64_t deadline_mono_ns);

/* The deadline that a request's left_ms means here, whatever a stranger wrote there. */
int64_t fg_rpc_deadline_from(int64_t left_ms);

/* Ends a call whose fields are filled in: done() at its home, or here. */
void fg_call_finish(struct fg_call *call);

/* The same without a reply. */
void fg_call_fail(struct fg_call *call, enum fg_code code, const char *text);

/* Reads the reply in bytes, which belong to call->transport, into the call. */
void fg_call_read_reply(struct fg_call *call, struct fg_slice bytes);

#endif
