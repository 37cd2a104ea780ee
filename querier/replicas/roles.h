/*
 * Which of the members that are asked (common/cluster/ring/reads_core.h) take part in reading a
 * shard, and which of them gives its data; the others give sums. All take part that own the shard
 * under a revision they have neither drained nor lost. The owner under the most revisions gives the
 * data, since it is likely to have the most; among equals the order of the newest revision decides,
 * which spreads shards evenly.
 *
 * A pure function of the ring. Thread: any.
 */
#ifndef FG_QUERIER_REPLICAS_ROLES_H
#define FG_QUERIER_REPLICAS_ROLES_H

#include "common/cluster/ring/reads_core.h"

enum { ROLES_MAX = FG_RING_REVISIONS_MAX * FG_RING_REPLICAS_MAX };

struct qry_roles {
    uint32_t members[ROLES_MAX]; /* the first gives the data */
    unsigned n;
};

/* Finds the roles for a shard. among: bits by member; all others are ignored. */
void qry_roles_of(const struct fg_ring_view *view, uint16_t shard,
                  const uint64_t among[FG_RING_READS_WORDS], struct qry_roles *ret_roles);

#endif
