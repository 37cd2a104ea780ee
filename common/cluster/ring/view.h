/*
 * The ring as it was read from the bucket, with its etag and a table of owners for each of its
 * revisions. Never changed; shared by counting.
 *
 * Writers use fg_ring_view_owners() of the newest revision and send that revision's number with
 * each profile. Readers use reads_core.h. An ingester refuses writes under revisions older than the
 * newest one it has (stale-ring-reject).
 *
 * Thread: any.
 */
#ifndef FG_COMMON_CLUSTER_RING_VIEW_H
#define FG_COMMON_CLUSTER_RING_VIEW_H

#include "common/cluster/ring/owners.h"

struct fg_ring_view {
    _Atomic uint32_t refs;
    struct fg_arena *arena;
    struct fg_ring ring;
    struct fg_slice etag; /* empty: there is no object; the first swap creates it */
    /* [ring.n_revisions] */
    struct fg_ring_table *tables[FG_RING_REVISIONS_MAX];
};

/*
 * Decodes the object and computes its tables. etag empty: there is no object. before: an older
 * view, whose tables are used for the revisions that both have; NULL: none. *ret_view: the caller's
 * reference. Errors of fg_ring_decode().
 */
enum fg_code fg_ring_view_create(struct fg_slice bytes, struct fg_slice etag,
                                 const struct fg_ring_view *before, struct fg_ring_view **ret_view,
                                 struct fg_err *err) fg_must_check;
/* Adds a reference; returns the view. Accepts NULL. */
struct fg_ring_view *fg_ring_view_ref(struct fg_ring_view *view);
/* Releases a reference. Accepts NULL. */
void fg_ring_view_unref(struct fg_ring_view *view);
FG_AUTO(fg_ring_view, fg_ring_view_unref)

/* Returns the number of the nth owner of a shard under ring.revisions[revision]; nth <
 * tables[revision]->n_owners. */
static inline uint32_t fg_ring_view_owner(const struct fg_ring_view *view, uint32_t revision,
                                          uint16_t shard, unsigned nth)
{
    return view->ring.revisions[revision].places[view->tables[revision]->owners[shard][nth]].member;
}

/* Lists the owners of a shard under the newest revision, highest first. Returns how many; 0 if
 * there is no member. They are valid as long as the view. */
unsigned fg_ring_view_owners(const struct fg_ring_view *view, uint16_t shard,
                             const struct fg_ring_member *owners[FG_RING_REPLICAS_MAX]);

/* Returns how many owners must have a profile before it is acknowledged; 0: there is no revision.
 */
unsigned fg_ring_view_writes(const struct fg_ring_view *view);

/* Counts the shards that each member owns under the newest revision into counts[ring.n_members]. */
void fg_ring_view_count(const struct fg_ring_view *view, uint32_t *counts);

#endif
