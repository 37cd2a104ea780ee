/*
 * Handles PUSH: a batch from a distributor becomes an item for the committer.
 *
 *   transport thread --> pinned worker: decode, number, encode --> committer --> answer
 *                            |   ^
 *                            v   |  only if a segment may have profiles of the group
 *                        BACKGROUND worker: lookup in the bucket (dedup_index.h)
 *
 * Agents wait for the answer to each push, and servers that catch up for none in particular: what
 * is forwarded has workers of its own, of a low priority (BULK). A service has one worker of each
 * kind, and a lock keeps these two apart while one of them numbers its stacks.
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

#include <pthread.h>

/* Flows of lookups: a lookup at a time of each. */
enum { ING_LOOKS_OF_AGENTS, ING_LOOKS_OF_SERVERS, ING_LOOKS };

/* Locks of services: one is held from the first stack of a push that is numbered until the push is
 * with the committer, or until it is known to define nothing. So what a record needs is on disk
 * with it or before it. A lock is that of many services, by chance. */
struct ing_push_locks {
    pthread_mutex_t of_services[1024];
};

void ing_push_locks_init(struct ing_push_locks *locks);
void ing_push_locks_done(struct ing_push_locks *locks);

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
    struct ing_push_locks *locks;
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
