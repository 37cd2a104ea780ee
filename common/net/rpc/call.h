/* How a call goes from its caller to a transport and back; for the transports. */
#ifndef FG_COMMON_NET_RPC_CALL_H
#define FG_COMMON_NET_RPC_CALL_H

#include "common/net/rpc/message.h"

/* Milliseconds from now to the deadline, rounded up; 0: it is over. */
uint64_t fg_rpc_left_ms(int64_t deadline_mono_ns);

/* The deadline that a request's milliseconds mean here, whatever a stranger wrote there. */
int64_t fg_rpc_deadline_from(uint64_t left_ms);

/* The frame of the call's request. */
struct fg_rpc_frame fg_call_frame(const struct fg_call *call, uint64_t cluster);

/* Reads the reply in bytes, which belong to call->transport, into the call. */
void fg_call_read_reply(struct fg_call *call, struct fg_slice bytes);

/* The transport is through with a call whose result is filled in. */
void fg_call_finish(struct fg_call *call);

/* The same without a reply. */
void fg_call_fail(struct fg_call *call, enum fg_code code, const char *text);

/* It was not even tried, which says nothing about the peer. */
void fg_call_refuse(struct fg_call *call, enum fg_code code, const char *text);

/* done() at its home, or here. */
void fg_call_end(struct fg_call *call);

/* Continues a call whose reply is filled in: requests the rest of the answer, or ends the call. */
void fg_call_deliver(struct fg_call *call);

/* --- split.c --- */

/* Sends a frame that is too large for one message, in parts. Copies the frame. */
void fg_split_send(struct fg_call *call, const struct fg_rpc_frame *frame);
void fg_split_free(struct fg_split *split); /* NULL is fine */

/* --- reply_fetch.c --- */

/* Asks for the rest of the payload, if there is any, and ends the call; hands parts over as they
 * come, or puts them together. */
void fg_reply_fetch_start(struct fg_call *call);
void fg_reply_fetch_free(struct fg_reply_fetch *fetch); /* NULL is fine */

#endif
