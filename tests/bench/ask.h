/*
 * Asks a querier that has nothing in its caches for the flame graph of the last 1, 7, 30, 90 and
 * 365 days, of the service that stream.h makes and of one of its pods, and sums up what that costs
 * in requests: once for each moment at which it is told to ask.
 */
#ifndef FG_TESTS_BENCH_ASK_H
#define FG_TESTS_BENCH_ASK_H

#include "common/base/time.h"
#include "common/storage/bucket/bucket.h"

struct ask;

/* The bucket and the clock are borrowed. */
struct ask *ask_create(struct fg_bucket *bucket, struct fg_clock *clock);
void ask_destroy(struct ask *ask);

/* Asks all questions that reach back from now to no time before the first profile. Ends the program
 * if one is refused. */
void ask_now(struct ask *ask, int64_t first_ns, int64_t now_ns);

/* Prints a table in Markdown. */
void ask_show(const struct ask *ask);

#endif
