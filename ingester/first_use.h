/*
 * Tells a bucket that was never used from one that lost an object. The first ingester of a bucket
 * creates the L0 manifest and the ring, and nothing deletes them. If one of them is missing later,
 * it was lost. Creating it again would hide what the bucket and other ingesters have: answers
 * would claim to be complete.
 *
 * Thread: one that may wait for the bucket. stop: ends the wait with FG_E_CANCELED; NULL: nobody
 * does.
 */
#ifndef FG_INGESTER_FIRST_USE_H
#define FG_INGESTER_FIRST_USE_H

#include "common/base/time.h"
#include "common/storage/bucket/bucket.h"

/*
 * Checks that an L0 manifest may be created. FG_OK: nothing was ever committed to this bucket.
 * FG_E_CORRUPT: the manifest was lost, as the ring says (something was drained), or seen (the
 * greatest generation that this store ever saw; 0: none), or an object of tenants or segments.
 * Other errors: unknown, try again later.
 */
enum fg_code ing_first_use_check_l0(struct fg_bucket *bucket, struct fg_clock *clock, uint64_t seen,
                                    struct fg_bucket_stop *stop, struct fg_err *err) fg_must_check;

/* Checks that a ring may be created. FG_E_CORRUPT: it was lost, since the L0 manifest has writers
 * or is lost, too. Other errors: unknown, try again later. */
enum fg_code ing_first_use_check_ring(struct fg_bucket *bucket, struct fg_clock *clock,
                                      struct fg_bucket_stop *stop,
                                      struct fg_err *err) fg_must_check;

#endif
