/*
 * What tests of parcels (parcel_run.h) answer, and what they expect.
 */
#ifndef FG_TESTS_UNIT_INGESTER_FORWARD_PARCEL_EXPECT_H
#define FG_TESTS_UNIT_INGESTER_FORWARD_PARCEL_EXPECT_H

#include "tests/unit/ingester/forward/parcel_run.h"

/* Opens a run with so many profiles. */
void parcel_run_open_with(struct parcel_run *run, const char *target, unsigned n_profiles);

/* Checks that so many are done, dead and pending. end_with: ends the parcel and the run. */
void parcel_run_assert_numbers(struct ing_outbox_numbers numbers, uint64_t done, uint64_t refused,
                               uint64_t pending);
void parcel_run_end_with(struct parcel_run *run, uint64_t done, uint64_t refused, uint64_t pending);

/* Checks that a profile is dead, and why. */
void parcel_run_assert_dead(struct parcel_run *run, struct fg_id id, const char *reason);

/* Results that say that a batch is refused as a whole, also for a limit, that its stacks are to be
 * defined, or to come with whole ids; and a refusal of one of its profiles. */
Forward__V1__Result parcel_run_failed(enum fg_code code, char *message);
Forward__V1__Result parcel_run_beyond(Forward__V1__LimitOf limit_of, uint32_t retry_after_s);
Forward__V1__Result parcel_run_define(void);
Forward__V1__Result parcel_run_expand(void);
Forward__V1__Refusal parcel_run_refusal(uint32_t profile, char *message);

/* Answers a request that was built: all of it is stored. */
void parcel_run_store_all(struct parcel_run *run);

/* Reads a request of push.v1, in the arena. */
void parcel_run_read_push(struct fg_slice body, struct fg_arena *arena, struct fg_batch *ret_batch);

#endif
