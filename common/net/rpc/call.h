/* The steps of a call that all transports share. Only transports include this. */
#ifndef FG_COMMON_NET_RPC_CALL_H
#define FG_COMMON_NET_RPC_CALL_H

#include "common/net/rpc/message.h"

/* Returns the milliseconds from now to the deadline, rounded up; 0: it has passed. */
uint64_t fg_rpc_left_ms(int64_t deadline_mono_ns);

/* Returns the deadline for the milliseconds of a request, which come from outside: at most
 * FG_RPC_DEADLINE_MAX_MS from now. */
int64_t fg_rpc_deadline_from(uint64_t left_ms);

/* Returns the frame of the call's request. */
struct fg_rpc_frame fg_call_frame(const struct fg_call *call, uint64_t cluster);

/* Reads a reply into the call. The bytes belong to call->transport. */
void fg_call_read_reply(struct fg_call *call, struct fg_slice bytes);

/* Completes a call whose result is filled in: the last step of a transport. */
void fg_call_finish(struct fg_call *call);

/* Completes a call that got no reply. */
void fg_call_fail(struct fg_call *call, enum fg_code code, const char *text);

/* Completes a call that was not sent. The peer's health does not change. */
void fg_call_refuse(struct fg_call *call, enum fg_code code, const char *text);

/* Calls done(), on its home loop or here. */
void fg_call_end(struct fg_call *call);

/* Continues a call whose reply is filled in: requests the rest of the answer, or ends the call. */
void fg_call_deliver(struct fg_call *call);

/* --- split.c --- */

/* Sends a frame that is too large for one message, in parts. Copies the frame. */
void fg_split_send(struct fg_call *call, const struct fg_rpc_frame *frame);
void fg_split_free(struct fg_split *split); /* NULL is fine */

/* --- reply_fetch.c --- */

/* Fetches the rest of a chunked reply, if there is any, and ends the call: passes parts on as they
 * arrive, or assembles them. */
void fg_reply_fetch_start(struct fg_call *call);
void fg_reply_fetch_free(struct fg_reply_fetch *fetch); /* NULL is fine */

#endif
