/*
 * An ingester as one of several: which store it has, and what the ring lets it take. One that is
 * alone has no ring, and takes everything.
 *
 * Thread: any, but as said.
 */
#ifndef FG_INGESTER_MEMBER_H
#define FG_INGESTER_MEMBER_H

#include "common/cluster/ring/watch.h"
#include "common/storage/store/store.h"

struct ing_member {
    struct fg_id store;          /* born with its disk; it writes segments under it, too */
    struct fg_ring_watch *watch; /* borrowed; NULL: there is no ring */
};

/* The store's id, made at the first time. FG_E_UNAVAILABLE, FG_E_CORRUPT: the store. */
enum fg_code ing_member_find_store(struct fg_store *store, struct fg_id *ret_id,
                                   struct fg_err *err) fg_must_check;

/* Is it this store that is meant (16 bytes as of fg_id_put())? Empty means whoever is alone.
 * FG_E_PRECONDITION. */
enum fg_code ing_member_check_store(const struct ing_member *member, struct fg_slice store,
                                    struct fg_err *err) fg_must_check;

/*
 * May a profile be taken that comes under this revision (stale-ring-reject)? Without a ring: yes.
 * FG_E_PRECONDITION: a newer one is known here; FG_E_ABORTED: it is not known here yet, and is
 * being read; FG_E_UNAVAILABLE: there is no seat in the ring.
 */
enum fg_code ing_member_admits(const struct ing_member *member, uint64_t revision,
                               struct fg_err *err) fg_must_check;

/* The newest revision that is known; 0: none, or no ring. */
uint64_t ing_member_revision(const struct ing_member *member);

#endif
