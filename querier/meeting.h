/*
 * Asks the ingesters at which queriers and distributors meet (common/cluster/shares) what tenants
 * use of their limits.
 *
 * Thread: any that may wait.
 */
#ifndef FG_QUERIER_MEETING_H
#define FG_QUERIER_MEETING_H

#include "common/base/slice.h"
#include "common/net/rpc/rpc.h"
#include "proto/inner.pb-c.h"

struct querier;

/*
 * Sends a message to all places at once, waits timeout_ns at most, and calls hear() with each
 * answer, which is freed after it; one that has another number of uses is no answer.
 * FG_E_UNAVAILABLE: no place has answered.
 */
enum fg_code qry_meeting_ask(struct querier *querier, enum fg_rpc_method method,
                             const Fg__Inner__UseHead *head, int64_t timeout_ns,
                             void (*hear)(void *arg, const Fg__Inner__UseReply *reply), void *arg,
                             struct fg_err *err);

#endif
