/*
 * For doubles that lose and delay what they pass on: draws by seed, and a queue of what waits for
 * its time on the test's clock. The queue does nothing by itself: the test takes what is due.
 *
 * Thread: any.
 */
#ifndef FG_TESTS_LIB_DELAYS_H
#define FG_TESTS_LIB_DELAYS_H

#include "common/base/time.h"

#include <pthread.h>

/* The nr-th draw of what has this seed. */
uint64_t delays_draw(uint64_t seed, unsigned nr);

/* Whether it strikes, with this probability. */
bool delays_strikes(uint64_t seed, unsigned nr, unsigned permille);

/* A time below half of the greatest delay of a way and its way back; 0 without a clock. */
int64_t delays_half(const struct fg_clock *clock, int64_t max_ns, uint64_t seed, unsigned nr);

struct delayed {
    int64_t due_mono_ns;
    struct delayed *next;
};

struct delays {
    pthread_mutex_t lock;
    struct delayed *waiting; /* in the order of their times, then of their coming */
};

void delays_init(struct delays *delays);
/* Nothing waits any more. */
void delays_done(struct delays *delays);

void delays_put(struct delays *delays, struct delayed *item, int64_t due_mono_ns);

/* When something is due next; INT64_MAX: nothing waits. */
int64_t delays_next_mono_ns(struct delays *delays);

/* The next that is due by the clock, which is looked at only if something waits; NULL: none is. The
 * caller owns it. */
struct delayed *delays_take(struct delays *delays, struct fg_clock *clock);

#endif
