/*
 * One answer from the first of several peers that has one, for what all of them could answer.
 */
#ifndef FG_COMMON_RPC_HEDGE_H
#define FG_COMMON_RPC_HEDGE_H

#include "common/rpc/rpc.h"

enum { FG_HEDGE_PEERS_MAX = 8 };

/*
 * Asks one peer, the next when that has not answered after after_ns or has failed where another may
 * not, and so on; those that are bad (fg_peer_is_bad()) come last. The first answer is that of the
 * call, and so is an error that all would give (FG_E_INVALID, say); when all fail, the last
 * failure. INT64_MAX: only a failure brings the next one in.
 *
 * Waits on the calling thread (a worker, never a loop). call as for fg_peer_call(), without
 * on_part; returns its code. fg_call_done() is called with peers[*ret_from], in any case. 1 <= n <=
 * FG_HEDGE_PEERS_MAX.
 *
 * Who was asked in vain goes on until it has answered or the deadline is over, which nobody waits
 * for: its answer is thrown away, the rest of a large one not fetched. So peers live on until their
 * calls are 0 (fg_peers takes care of that). Taking a call back half way would free a slot here,
 * and spare the other side nothing.
 */
enum fg_code fg_call_hedged(struct fg_peer *const *peers, size_t n, int64_t after_ns,
                            struct fg_call *call, size_t *ret_from);

#endif
