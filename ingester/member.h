/*
 * This ingester as a member of the ring: the id of its store, and which pushes the ring lets it
 * take. A single ingester has no ring and takes everything.
 *
 * Thread: any.
 */
#ifndef FG_INGESTER_MEMBER_H
#define FG_INGESTER_MEMBER_H

#include "common/cluster/ring/watch.h"
#include "common/storage/store/store.h"

struct ing_member {
    struct fg_id store;          /* born with its disk; it writes segments under it, too */
    struct fg_ring_watch *watch; /* borrowed; NULL: there is no ring */
};

/* Reads the id of the store; creates it if the store is new. FG_E_UNAVAILABLE, FG_E_CORRUPT: the
 * store. Call it at the start. */
enum fg_code ing_member_find_store(struct fg_store *store, struct fg_id *ret_id,
                                   struct fg_err *err) fg_must_check;

/* Checks that a call is for this store. store: 16 bytes as of fg_id_put(); empty: a single
 * ingester. FG_E_PRECONDITION: it is for another one. */
enum fg_code ing_member_check_store(const struct ing_member *member, struct fg_slice store,
                                    struct fg_err *err) fg_must_check;

/*
 * Checks that a profile may be taken that comes under this revision (stale-ring-reject). Without a
 * ring it always may. FG_E_PRECONDITION: this ingester knows a newer revision. FG_E_ABORTED: it
 * does not know the revision yet and is reading it. FG_E_UNAVAILABLE: it is not in the ring.
 */
enum fg_code ing_member_admits(const struct ing_member *member, uint64_t revision,
                               struct fg_err *err) fg_must_check;

/* Returns the newest revision known; 0: none, or no ring. */
uint64_t ing_member_revision(const struct ing_member *member);

#endif
