/*
 * Calls to one peer, one after another: large requests (split.c) and large answers (reply_fetch.c)
 * come in parts.
 *
 *   prepare --> send --> answer --> go_on --true--> prepare --> ...
 *                                        \--false--> over
 *
 * A peer may answer from within send. Sending the next call from there would nest as deep as there
 * are calls, so whichever comes second, the return of send or the answer, continues.
 *
 * Thread: the one that calls fg_chain_run(), then those on which answers arrive; one at a time.
 */
#ifndef FG_COMMON_NET_RPC_CHAIN_H
#define FG_COMMON_NET_RPC_CHAIN_H

#include "common/net/rpc/rpc.h"

#include <stdatomic.h>

struct fg_chain {
    struct fg_peer *peer;
    struct fg_call call; /* the one in flight */

    /* Fills in chain->call, whose done is the chain's. */
    void (*prepare)(struct fg_chain *chain);
    /* Uses the answer in chain->call, and releases it with fg_call_done(). Returns false if there
     * is no further call; the chain may be freed then. */
    bool (*go_on)(struct fg_chain *chain);

    atomic_bool one_came; /* internal: send has returned, or the answer has come */
};

/* Sends the first call. The caller has set peer, prepare and go_on, and zeroed the rest. May call
 * go_on(). */
void fg_chain_run(struct fg_chain *chain);

#endif
