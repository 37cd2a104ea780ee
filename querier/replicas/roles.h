/*
 * Who of the members that are asked (common/cluster/ring/reads_core.h) takes part in reading a
 * shard, and who of them gives its data; the others give sums. All that own it under a revision
 * they have neither drained nor lost take part. Data is given by who owns it under the most
 * revisions, since that one is likely to have the most of it; else by the order of the newest one,
 * which spreads shards evenly.
 *
 * A pure function of the ring. Thread: any.
 */
#ifndef FG_QUERIER_REPLICAS_ROLES_H
#define FG_QUERIER_REPLICAS_ROLES_H

#include "common/cluster/ring/reads_core.h"

enum { ROLES_MAX = FG_RING_REVISIONS_MAX * FG_RING_REPLICAS_MAX };

struct qry_roles {
    uint32_t members[ROLES_MAX]; /* the first gives data */
    unsigned n;
};

/* among: bits by member; others are as if they were not there. */
void qry_roles_of(const struct fg_ring_view *view, uint16_t shard,
                  const uint64_t among[FG_RING_READS_WORDS], struct qry_roles *ret_roles);

#endif
