/*
 * The ring's object in the bucket: reads it, swaps it, and changes it for operators.
 *
 * Thread: any that may wait; one at a time for a wave.
 */
#ifndef FG_COMMON_CLUSTER_RING_OBJECT_H
#define FG_COMMON_CLUSTER_RING_OBJECT_H

#include "common/cluster/ring/view.h"
#include "common/storage/bucket/bucket.h"

/* All pointers are borrowed. */
struct fg_ring_object {
    struct fg_bucket *bucket;
    struct fg_bucket_wave *wave; /* with nothing under way; cancelling it ends what waits here */
    struct fg_clock *clock;
    int64_t timeout_ns; /* of one request */
    bool whole; /* reads ask for the object even if its etag is the known one: damage of a disk
                 * below the store does not change it */
};

/* What a read tells besides the ring. */
struct fg_ring_read {
    int64_t answered_wall_ns;      /* by the bucket's clock; 0: it does not say */
    struct fg_bucket_etag damaged; /* of the object that was read, if it is no ring; else empty */
};

/* Reads the ring. *view: the ring that was read before, or NULL; replaced only if the object has
 * changed. A missing object is the empty ring. ret: NULL if only the ring is wanted.
 * FG_E_CORRUPT: the object is no ring. */
enum fg_code fg_ring_object_read(const struct fg_ring_object *object, struct fg_ring_view **view,
                                 struct fg_ring_read *ret, struct fg_err *err) fg_must_check;

/*
 * Replaces the object with this etag; an empty one stands for a missing object.
 * FG_E_PRECONDITION: the object has another etag by now. After any other failure the object may
 * have been replaced: the next read tells.
 */
enum fg_code fg_ring_object_swap(const struct fg_ring_object *object, struct fg_slice etag,
                                 const struct fg_ring *to, struct fg_err *err) fg_must_check;

/*
 * Carries a change of an operator to its end: reads, changes, swaps, and reads again until it sees
 * the change. *ret_view: the ring with the change, the caller's reference. FG_E_ABORTED: others
 * changed the ring all the time. Errors of fg_ring_apply(): the change was not made; after other
 * errors it may have been.
 */
enum fg_code fg_ring_object_change(const struct fg_ring_object *object,
                                   const struct fg_ring_change *change,
                                   struct fg_ring_view **ret_view,
                                   struct fg_err *err) fg_must_check;

#endif
