/*
 * Whether a bucket has ever been used. Two objects are made by the first ingester of a bucket and
 * never deleted: the L0 manifest and the ring. If one of them is missing later, it was lost, and
 * making another one that begins again would hide what the bucket and other ingesters hold: answers
 * would say that they are complete, and are not.
 *
 * Thread: one that may wait.
 */
#ifndef FG_INGESTER_FIRST_USE_H
#define FG_INGESTER_FIRST_USE_H

#include "common/base/time.h"
#include "common/storage/bucket/bucket.h"

/*
 * May an L0 manifest be made? FG_OK: nothing was ever committed here. FG_E_CORRUPT: it was lost;
 * which says: the ring (something was drained), seen (the greatest generation that this store ever
 * saw; 0: none), or an object of tenants or segments. FG_E_UNAVAILABLE and others: not known now.
 */
enum fg_code ing_first_use_check_l0(struct fg_bucket *bucket, struct fg_clock *clock, uint64_t seen,
                                    struct fg_err *err) fg_must_check;

/* May a ring be made? FG_E_CORRUPT: it was lost, since the L0 manifest has writers, or is lost too.
 * Others as above. */
enum fg_code ing_first_use_check_ring(struct fg_bucket *bucket, struct fg_clock *clock,
                                      struct fg_err *err) fg_must_check;

#endif
