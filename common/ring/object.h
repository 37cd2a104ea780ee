/*
 * The ring's object in the bucket: read, swapped, and changed by who is no member of it.
 *
 * Thread: any that may wait; one at a time for a wave.
 */
#ifndef FG_COMMON_RING_OBJECT_H
#define FG_COMMON_RING_OBJECT_H

#include "common/bucket/bucket.h"
#include "common/ring/view.h"

/* All borrowed. */
struct fg_ring_object {
    struct fg_bucket *bucket;
    struct fg_bucket_wave *wave; /* with nothing under way; cancelling it ends what waits here */
    struct fg_clock *clock;
    int64_t timeout_ns; /* of one request */
};

/* What there is now. *view: what was known before, or NULL; replaced only if it has changed. What
 * is not there is the empty ring. *ret_wall_ns: when the bucket answered, by its clock; 0: it does
 * not say. NULL: nobody wants to know. */
enum fg_code fg_ring_object_read(const struct fg_ring_object *object, struct fg_ring_view **view,
                                 int64_t *ret_wall_ns, struct fg_err *err) fg_must_check;

/*
 * Puts `to` in the place of what was read as `from`. FG_E_PRECONDITION: there is another one by
 * now. After any failure but that nobody knows whether it was done: the next read tells.
 */
enum fg_code fg_ring_object_swap(const struct fg_ring_object *object,
                                 const struct fg_ring_view *from, const struct fg_ring *to,
                                 struct fg_err *err) fg_must_check;

/*
 * Carries a change to its end, for an operator: read, change, swap, and read again until it is seen
 * to be there. *ret_view: the ring with it. FG_E_ABORTED: others changed the ring all the time.
 * After other errors than those of fg_ring_apply() it may be there.
 */
enum fg_code fg_ring_object_change(const struct fg_ring_object *object,
                                   const struct fg_ring_change *change,
                                   struct fg_ring_view **ret_view,
                                   struct fg_err *err) fg_must_check;

#endif
