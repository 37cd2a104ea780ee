/*
 * The stop of an ingester that comes back, as in an update: so that several that are told to stop
 * at the same time stop one after the other, and none while another one is dead.
 *
 * The ring knows which members were stopped and are not back (common/cluster/ring/member_core.h).
 * A member that has died is in the ring as before, so all are asked first. That closes no race: one
 * may die the moment after it has answered.
 */
#ifndef FG_INGESTER_MAINTENANCE_H
#define FG_INGESTER_MAINTENANCE_H

#include "common/cluster/ring/watch.h"
#include "common/net/rpc/peers.h"

struct ing_maintenance {
    struct fg_ring_watch *watch; /* of a member in state ACTIVE */
    struct fg_peers *peers;      /* the other members */
    struct fg_slice name;        /* of this member */
    int64_t wait_ns;             /* see ring.maintenance_wait in deploy/settings.md */
};

/*
 * Takes the member into maintenance once every other member is there, or is in the same zone where
 * a whole zone may be away. When the time is over, takes it there anyway, and logs why. The member
 * has to serve meanwhile. Returns at the latest a few seconds after the time. Any thread that may
 * wait.
 */
void ing_maintenance_begin(const struct ing_maintenance *maintenance);

#endif
