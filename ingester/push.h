/*
 * Handles PUSH: a batch from a distributor becomes an item for the committer.
 *
 *   transport thread --> pinned worker: decode, number, encode --> committer --> answer
 *                            |   ^
 *                            v   |  only if a segment may have profiles of the group
 *                        BACKGROUND worker: lookup in the bucket (dedup_index.h)
 *
 * Agents' profiles are late, too, soon after a segment was cut early. Lookups of what other servers
 * forward are a flow of their own, and each flow has a worker: a server that catches up, all of
 * whose profiles are late, holds up no agent.
 */
#ifndef FG_INGESTER_PUSH_H
#define FG_INGESTER_PUSH_H

#include "common/model/tenant_limits.h"
#include "common/net/rpc/rpc.h"
#include "common/runtime/work.h"
#include "ingester/committer.h"
#include "ingester/dedup_index.h"
#include "ingester/forward/outbox.h"
#include "ingester/intake.h"
#include "ingester/member.h"
#include "ingester/segments/segments.h"

/* Flows of lookups: a lookup at a time of each. */
enum { ING_LOOKS_OF_AGENTS, ING_LOOKS_OF_SERVERS, ING_LOOKS };

struct ing_push_context {
    struct ing_catalog *catalog;
    struct ing_head_chunks *chunks;
    struct ing_dict_table *dicts;
    struct ing_committer *committer;
    struct ing_segments *segments;
    struct ing_dedup *dedup;
    const struct ing_member *member;
    struct ing_intake *intake;
    struct ing_outbox *outbox; /* NULL: nothing is forwarded */
    struct fg_work *work;
    struct fg_tenants *tenants;
    /* They end lookups: their profiles are taken unchecked. */
    struct fg_bucket_stop *look_stops[ING_LOOKS];
    uint64_t start_id; /* of this run, told to distributors */
    /* Of the BACKGROUND workers. After a failed lookup they do not ask the bucket before
     * no_look_before_mono_ns, unless ing_dedup_count_found() has grown beyond found_before: then
     * the bucket has answered somebody else. 0: the last lookup succeeded. Of two lookups that end
     * at a time either may be the last one: found_before is written first, so that a success that
     * it has not counted is noticed. */
    _Atomic int64_t no_look_before_mono_ns;
    _Atomic uint64_t found_before;
};

/* Handles a call, for fg_rpc_server_handle(). context: a struct ing_push_context that outlives the
 * server. */
void ing_push_handle(struct fg_rpc_request *req, void *context);

#endif
