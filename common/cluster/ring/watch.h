/*
 * Follows the ring, and makes an ingester a member of it: a thread that carries out what the step
 * cores decide (follow_core.h, member_core.h, widen_core.h). The thread may wait; callers wait only
 * in the functions that say so.
 *
 * A writer (distributor) uses the current copy: fg_ring_watch_get(). If an ingester refuses a write
 * because it knows a newer revision, the writer calls fg_ring_watch_look() for that revision and
 * sends again when it is here; likewise if a member cannot be reached, whose address may have
 * changed. A writer that wants a greater shard factor for a tenant than the copy has calls
 * fg_ring_watch_widen(); a later copy says from which time on it is used.
 *
 * A reader (querier) calls fg_ring_watch_latest() for each question and takes its snapshot of
 * manifests, of ring.generation at least, afterwards. That costs one conditional request, shared by
 * readers that ask at the same time. An old copy could hide what was acknowledged under newer
 * revisions (follow_core.h), so an answer that used one is incomplete.
 *
 * An ingester is a member, and asks fg_ring_watch_admits() about each profile's revision.
 *
 * If the ring is lost, damaged or from a backup, members that have read a newer one put it back:
 * the members are still those of the newer ring, whatever happened to the object. Then members
 * change nothing for a while, so that the newest copy wins. If no member has a copy, no ring is
 * made in a bucket that was used (check_unused()).
 *
 * Thread: any, if a function does not say otherwise.
 */
#ifndef FG_COMMON_CLUSTER_RING_WATCH_H
#define FG_COMMON_CLUSTER_RING_WATCH_H

#include "common/cluster/ring/member_core.h"
#include "common/cluster/ring/view.h"
#include "common/cluster/ring/widen_core.h"
#include "common/runtime/condition.h"
#include "common/storage/bucket/bucket.h"

struct fg_ring_watch;

/* The member that this process is; its fields as ring.h describes them. */
struct fg_ring_watch_member {
    const char *name, *zone, *address, *http; /* zone, http: "": none */
    struct fg_id store;
    unsigned replicas;
    /*
     * Asks the ingester to commit all that came under revisions below this one and to call
     * fg_ring_watch_drained() then. Since before this call fg_ring_watch_admits() refuses older
     * revisions, so nothing more can come under them. It may be called again with a newer revision
     * meanwhile. On the watch's thread: must not wait.
     */
    void (*on_drain)(void *arg, uint64_t revision);
    /*
     * Checks that the bucket was never used, so that a missing ring may be created. FG_OK: it was
     * not; FG_E_CORRUPT: it was used and the ring was lost: a new ring with this member alone would
     * hide what other members hold. On the watch's thread: may wait. NULL: no check is needed.
     */
    enum fg_code (*check_unused)(void *arg, struct fg_err *err);
    /* Returns whether the ingester serves all that is asked of it; its maintenance ends a few
     * seconds after that. On the watch's thread: must not wait. NULL: it does once it is active. */
    bool (*is_ready)(void *arg);
    void *arg;
};

/* Copied; what it points to is borrowed until destroy, with the texts of the member. */
struct fg_ring_watch_config {
    struct fg_bucket *bucket;
    struct fg_clock *clock;
    struct fg_registry *registry;
    struct fg_conditions *conditions; /* NULL: none */
    int64_t poll_ns;                  /* how old the copy may get while the bucket answers: 5 s */
    const struct fg_ring_watch_member *member; /* NULL: only follow the ring */
};

/* Creates a watch, which makes no request yet. FG_E_INVALID: a field of the member is not valid. */
enum fg_code fg_ring_watch_create(const struct fg_ring_watch_config *config,
                                  struct fg_ring_watch **ret_watch,
                                  struct fg_err *err) fg_must_check;
/* Starts the thread. FG_E_UNAVAILABLE: no more threads. */
enum fg_code fg_ring_watch_start(struct fg_ring_watch *watch, struct fg_err *err) fg_must_check;
/* Stops the thread: callers that wait get FG_E_CANCELED, and a request under way is cancelled. The
 * process stays a member. Accepts NULL. */
void fg_ring_watch_stop(struct fg_ring_watch *watch);
/* Stops it if necessary and frees it. Nobody calls it any more. Accepts NULL. */
void fg_ring_watch_destroy(struct fg_ring_watch *watch);

/* --- functions that never wait --- */

/* Returns the current copy, the caller's reference. NULL: the ring was not read yet. */
struct fg_ring_view *fg_ring_watch_get(struct fg_ring_watch *watch);

/* Returns the newest revision of the copy; 0: the ring was not read yet, or has no revision. */
uint64_t fg_ring_watch_revision(const struct fg_ring_watch *watch);

enum fg_ring_admission {
    FG_RING_ADMITS,
    FG_RING_ADMITS_NOT_OLDER, /* the sender needs a newer ring: fg_ring_watch_revision() */
    FG_RING_ADMITS_NOT_YET,   /* we need a newer ring: fg_ring_watch_look(); the sender retries */
    FG_RING_ADMITS_NOTHING,   /* this process is not a member yet, or not any more */
};
/*
 * Decides if a member may take a profile that comes under this revision. Check it last, in the same
 * step as the insertion (stale-ring-reject).
 */
enum fg_ring_admission fg_ring_watch_admits(const struct fg_ring_watch *watch,
                                            uint64_t revision) fg_must_check;

/* Makes the thread read the ring soon. revision: the caller has heard of it; 0: there is another
 * reason. */
void fg_ring_watch_look(struct fg_ring_watch *watch, uint64_t revision);

/*
 * Asks for a greater shard factor of a tenant. The watch carries out one such wish at a time and
 * ignores others meanwhile, so call it again as long as the copy has a smaller factor.
 */
void fg_ring_watch_widen(struct fg_ring_watch *watch, struct fg_slice tenant,
                         unsigned shard_factor);

/* Reports that all that came under revisions below this one is committed, at this generation of the
 * L0 manifest or before. */
void fg_ring_watch_drained(struct fg_ring_watch *watch, uint64_t revision, uint64_t generation);

/* Makes the member leave the ring permanently. */
void fg_ring_watch_leave(struct fg_ring_watch *watch);

/* Asks for maintenance, so that the member may stop for a while; it goes on serving meanwhile.
 * anyway: even while another member is in maintenance. */
void fg_ring_watch_pause(struct fg_ring_watch *watch, bool anyway);

/* Returns the state of the member. */
enum fg_ring_member_state fg_ring_watch_member_state(const struct fg_ring_watch *watch);

/* --- functions that wait; they return the caller's reference to the ring --- */

/* Waits until the copy is at least at `revision`. FG_E_DEADLINE: with the last error of a read;
 * FG_E_CANCELED: the watch was stopped. */
enum fg_code fg_ring_watch_until(struct fg_ring_watch *watch, uint64_t revision,
                                 int64_t deadline_mono_ns, struct fg_ring_view **ret_view,
                                 struct fg_err *err) fg_must_check;

/* Waits for a copy that was read after this call. FG_E_UNAVAILABLE and others: the ring could not
 * be read; FG_E_DEADLINE, FG_E_CANCELED. */
enum fg_code fg_ring_watch_fresh(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                 struct fg_ring_view **ret_view, struct fg_err *err) fg_must_check;

/*
 * Returns a copy that was read after this call or, if the ring cannot be read, the copy that was
 * read *ret_age_ns ago (0: it is fresh) with the reason in *ret_why. Waits until deadline_mono_ns
 * at most; does not wait if the last read has failed, but starts the next one. Errors of
 * fg_ring_watch_fresh(), but only if there is no copy yet.
 */
enum fg_code fg_ring_watch_latest(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                  struct fg_ring_view **ret_view, int64_t *ret_age_ns,
                                  struct fg_err *ret_why) fg_must_check;

/* Waits until the member is in this state. FG_E_PRECONDITION: it is in another, final state.
 * FG_E_DEADLINE, FG_E_CANCELED. */
enum fg_code fg_ring_watch_wait_member(struct fg_ring_watch *watch, enum fg_ring_member_state state,
                                       int64_t deadline_mono_ns, struct fg_err *err) fg_must_check;

/* Waits until the member is in maintenance, which fg_ring_watch_pause() has asked for.
 * FG_E_PRECONDITION: it is not in the ring any more; FG_E_DEADLINE, FG_E_CANCELED. */
enum fg_code fg_ring_watch_wait_paused(struct fg_ring_watch *watch, int64_t deadline_mono_ns,
                                       struct fg_err *err) fg_must_check;

#endif
