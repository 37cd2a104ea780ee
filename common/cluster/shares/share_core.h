/*
 * What one process makes of the answers of the places where it meets the others. Shell:
 * distributor/shares.h.
 *
 * A process asks several places (the owners of a shard, distributor/shares.h) and takes the
 * greatest numbers of their answers: a place that began a moment ago, or that some cannot reach,
 * knows too little and never too much. How many processes there are goes up at once, and down when
 * no place has said more for FG_SHARE_FEWER_NS. While no place answers, it stays as it was.
 *
 * Thread: one at a time. No clock, no I/O.
 */
#ifndef FG_COMMON_CLUSTER_SHARES_SHARE_CORE_H
#define FG_COMMON_CLUSTER_SHARES_SHARE_CORE_H

#include "common/cluster/shares/meeting_core.h"
#include "common/model/tenant_rate.h"

/* In which the members of a new place, or those cut off from it, find the way to it. */
#define FG_SHARE_FEWER_NS (30 * FG_SECOND_NS)

struct fg_share_core {
    uint32_t processes;      /* at least 1 */
    int64_t since_mono_ns;   /* when that was heard last */
    uint32_t heard, answers; /* in this round */
};

/* Begins as the only process that it knows of. */
void fg_share_core_init(struct fg_share_core *core);

/* Begins a round. */
void fg_share_core_begin(struct fg_share_core *core);
/* Takes in how many processes a place knows. */
void fg_share_core_hear(struct fg_share_core *core, uint32_t processes);
/* Ends the round. Returns how many processes there are. */
uint32_t fg_share_core_end(struct fg_share_core *core, int64_t now_mono_ns);

/* Take in what a place says of a tenant: the greatest of what all places say. */
void fg_share_take_demand(struct fg_rate_demand *demand, const struct fg_meeting_use *use);
void fg_share_take_count(struct fg_quota_count *count, const struct fg_meeting_use *use);

#endif
