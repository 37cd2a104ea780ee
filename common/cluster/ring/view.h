/*
 * The ring as it was read from the bucket, with its etag and a table of owners for each of its
 * revisions. Never changed; shared by counting, any thread.
 *
 * For those who write: fg_ring_view_owners() of the newest revision, and that revision's number
 * goes with each profile. For those who read: reads.h. For an ingester: the number of the newest
 * revision is what it refuses older ones by (stale-ring-reject).
 */
#ifndef FG_COMMON_CLUSTER_RING_VIEW_H
#define FG_COMMON_CLUSTER_RING_VIEW_H

#include "common/cluster/ring/owners.h"

struct fg_ring_view {
    _Atomic uint32_t refs;
    struct fg_arena *arena;
    struct fg_ring ring;
    struct fg_slice etag; /* empty: there is no object, the first swap makes it */
    /* Those of ring.revisions. */
    struct fg_ring_table *tables[FG_RING_REVISIONS_MAX];
};

/*
 * etag empty: there is no object. before: an older view, whose tables serve for the
 * revisions that both have; NULL: none. The caller's reference. Errors as of fg_ring_decode().
 */
enum fg_code fg_ring_view_create(struct fg_slice bytes, struct fg_slice etag,
                                 const struct fg_ring_view *before, struct fg_ring_view **ret_view,
                                 struct fg_err *err) fg_must_check;
struct fg_ring_view *fg_ring_view_ref(struct fg_ring_view *view); /* NULL is fine */
void fg_ring_view_unref(struct fg_ring_view *view);               /* NULL is fine */
FG_AUTO(fg_ring_view, fg_ring_view_unref)

/* One owner of a shard under ring.revisions[revision]; nth < tables[revision]->n_owners. */
static inline uint32_t fg_ring_view_owner(const struct fg_ring_view *view, uint32_t revision,
                                          uint16_t shard, unsigned nth)
{
    return view->ring.revisions[revision].places[view->tables[revision]->owners[shard][nth]].member;
}

/* The owners of a shard under the newest revision, highest first. How many there are; 0 where there
 * is no member. Valid as long as the view. */
unsigned fg_ring_view_owners(const struct fg_ring_view *view, uint16_t shard,
                             const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX]);

/* How many of them have to have a profile before it is acknowledged; 0: there is no revision. */
unsigned fg_ring_view_writes(const struct fg_ring_view *view);

/* How many shards each member owns under the newest revision; counts[ring.n_members]. */
void fg_ring_view_count(const struct fg_ring_view *view, uint32_t *counts);

#endif
