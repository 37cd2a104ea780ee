/*
 * A thread that keeps a copy of the ring, and an ingester's seat in it: carries out what the step
 * cores decide (follow.h, seat.h). It may wait; nobody waits for it who does not want to.
 *
 * Who writes (a distributor) takes the copy there is: fg_ring_watch_get(). When an ingester refuses
 * a write since it knows a newer revision: fg_ring_watch_look() for it, and again when it is here.
 * When a member cannot be reached: the same, its address may be another one.
 *
 * A wider shard factor than the copy has for a tenant is asked for with fg_ring_watch_widen(); the
 * copy says from which time on it is used.
 *
 * Who reads (a querier) takes fg_ring_watch_latest() for each question, before its snapshot of
 * manifests, which is of ring.generation at least: one conditional request, shared by those who
 * ask at the same time. An old copy could hide what was acknowledged under newer revisions
 * (follow.h), so what is answered with one is not complete.
 *
 * An ingester has a seat, and asks fg_ring_watch_admits() of each profile's revision.
 *
 * A ring that is lost, or from a backup, is put back by the ingesters that have read a newer one:
 * it says who there is, and that has not changed because an object has. Nobody changes it for a
 * while then, so that the newest copy of all wins. If nobody has a copy, no ring is made in a
 * bucket that was used (check_unused()).
 *
 * Thread: any, but as said.
 */
#ifndef FG_COMMON_CLUSTER_RING_WATCH_H
#define FG_COMMON_CLUSTER_RING_WATCH_H

#include "common/cluster/ring/member_core.h"
#include "common/cluster/ring/view.h"
#include "common/cluster/ring/widen_core.h"
#include "common/runtime/condition.h"
#include "common/storage/bucket/bucket.h"

struct fg_ring_watch;

/* A seat in the ring, by what is said in ring.h. */
struct fg_ring_watch_member {
    const char *name, *zone, *address, *http; /* zone, http: "" where there is none */
    struct fg_id store;
    unsigned replicas;
    /*
     * Commit all that came under revisions below this one; when it is done
     * fg_ring_watch_drained(). From before this call on fg_ring_watch_admits() refuses older ones;
     * so it is all that is in the head, or about to be. It may come again with another one
     * meanwhile. On the watch's thread: must not wait.
     */
    void (*on_drain)(void *arg, uint64_t revision);
    /*
     * Says whether the bucket has never been used, so that a ring may be made if there is none.
     * FG_OK: it has not; FG_E_CORRUPT: it has, and the ring was lost: one that begins with this
     * member alone would hide what the others hold. On the watch's thread: may wait. NULL: it is
     * known.
     */
    enum fg_code (*check_unused)(void *arg, struct fg_err *err);
    void *arg;
};

/* Copied; what it points to is borrowed until destroy, the texts of the seat too. */
struct fg_ring_watch_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    int64_t poll_ns;                  /* how old the copy may be, while the bucket is there: 5 s */
    const struct fg_ring_watch_member *member; /* NULL: only follows */
};

/* Makes no request yet. FG_E_INVALID: of the seat, what ring.h does not allow. */
enum fg_code fg_ring_watch_create(const struct fg_ring_watch_config *config,
                                  struct fg_ring_watch **ret_watch,
                                  struct fg_err *err) fg_must_check;
enum fg_code fg_ring_watch_start(struct fg_ring_watch *watch, struct fg_err *err) fg_must_check;
/* Who waits gets FG_E_CANCELED; a request that is under way is given up. Keeps the seat. */
void fg_ring_watch_stop(struct fg_ring_watch *watch);
/* NULL is fine. Nobody calls any more. */
void fg_ring_watch_destroy(struct fg_ring_watch *watch);

/* --- never waits --- */

/* The copy there is; the caller's reference. NULL: it was not read yet. */
struct fg_ring_view *fg_ring_watch_get(struct fg_ring_watch *watch);

/* The newest revision of the copy; 0: it was not read yet, or nobody ever joined. */
uint64_t fg_ring_watch_revision(const struct fg_ring_watch *watch);

enum fg_ring_admission {
    FG_RING_ADMITS,
    FG_RING_ADMITS_NOT_OLDER, /* the sender has to take a newer ring: fg_ring_watch_revision() */
    FG_RING_ADMITS_NOT_YET,   /* we have to: fg_ring_watch_look(), and the sender sends again */
    FG_RING_ADMITS_NOTHING,   /* there is no seat: not yet, or not any more */
};
/*
 * May an ingester with a seat take a profile that comes under this revision? Checked last, in the
 * same step as the insertion (stale-ring-reject).
 */
enum fg_ring_admission fg_ring_watch_admits(const struct fg_ring_watch *watch,
                                            uint64_t revision) fg_must_check;

/* Read the ring soon; because somebody knows of this revision (0: for another reason). */
void fg_ring_watch_look(struct fg_ring_watch *watch, uint64_t revision);

/*
 * Have a tenant's shard factor in the ring made as wide as this, some day. One wish at a time:
 * others are passed over while it is carried out, so who has one asks again as long as the copy is
 * narrower.
 */
void fg_ring_watch_widen(struct fg_ring_watch *watch, struct fg_slice tenant,
                         unsigned shard_factor);

/* All that came under revisions below this one is committed, at this generation of the L0 manifest
 * or before. */
void fg_ring_watch_drained(struct fg_ring_watch *watch, uint64_t revision, uint64_t generation);

/* Leave the ring, for good. */
void fg_ring_watch_leave(struct fg_ring_watch *watch);

enum fg_ring_member_state fg_ring_watch_member_state(const struct fg_ring_watch *watch);

/* --- waits; the caller's reference to the ring --- */

/* A ring whose newest revision is not less. FG_E_DEADLINE, with what went wrong last;
 * FG_E_CANCELED.
 */
enum fg_code fg_ring_watch_until(struct fg_ring_watch *watch, uint64_t revision,
                                 int64_t deadline_mono_ns, struct fg_ring_view **ret_view,
                                 struct fg_err *err) fg_must_check;

/* The ring as it is now or later. FG_E_UNAVAILABLE and others: it could not be read; FG_E_DEADLINE,
 * FG_E_CANCELED. */
enum fg_code fg_ring_watch_fresh(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                 struct fg_ring_view **ret_view, struct fg_err *err) fg_must_check;

/*
 * Returns the ring as it is now or later; or, where it cannot be read, the copy that was read
 * *ret_age_ns ago (0: it is fresh) with the reason in *ret_why. Waits until deadline_mono_ns at
 * most, and not at all while the last read has failed: the next one begins all the same. Errors as
 * of fg_ring_watch_fresh(), where there is no copy.
 */
enum fg_code fg_ring_watch_latest(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_ring_view **ret_view, int64_t *ret_age_ns,
                                  struct fg_err *ret_why) fg_must_check;

/* Until the seat is in this state; until it has left, say. FG_E_PRECONDITION: it has ended in
 * another one. FG_E_DEADLINE, FG_E_CANCELED. */
enum fg_code fg_ring_watch_wait_member(struct fg_ring_watch *watch, enum fg_ring_member_state state,
                                       int64_t deadline_mono_ns, struct fg_err *err) fg_must_check;

#endif
