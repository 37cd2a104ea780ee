/*
 * Handles PUSH: a batch from a distributor becomes an item for the committer.
 *
 *   transport thread --> pinned worker: decode, number, encode --> committer --> answer
 *                            |   ^
 *                            v   |  only if a segment may have profiles of the group
 *                        BACKGROUND worker: lookup in the bucket (dedup_index.h)
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
    struct fg_bucket_stop *look_stop; /* ends lookups: their profiles are taken unchecked */
    uint64_t start_id;                /* of this run, told to distributors */
    /* The BACKGROUND worker's, of which there is one. After a failed lookup it does not ask the
     * bucket before no_look_before_mono_ns, unless ing_dedup_count_found() has grown beyond
     * found_before: then the bucket has answered somebody else. 0: the last lookup succeeded. */
    int64_t no_look_before_mono_ns;
    uint64_t found_before;
};

/* Handles a call, for fg_rpc_server_handle(). context: a struct ing_push_context that outlives the
 * server. */
void ing_push_handle(struct fg_rpc_request *req, void *context);

#endif
