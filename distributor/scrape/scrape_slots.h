/*
 * Places for scrapes that are under way: so many at a time, so that neither connections nor memory
 * grow with the number of targets. Who finds none waits in order.
 *
 * Those whose last scrape failed may have a quarter of the places and no more: hosts that are down
 * hold theirs until they time out, and however many they are, the others go on.
 *
 * Thread: the loop's.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_SCRAPE_SLOTS_H
#define FG_DISTRIBUTOR_SCRAPE_SCRAPE_SLOTS_H

#include "common/base/def.h"

/* Embedded in who wants a place; zeroed. */
struct dist_scrape_slot {
    bool failing;                                   /* it failed last time; set before it asks */
    void (*on_slot)(struct dist_scrape_slot *slot); /* it has one now */

    struct dist_scrape_slot *before, *after; /* internal, as the rest */
    bool waits, has, counted_failing;
};

struct dist_scrape_slots_queue {
    struct dist_scrape_slot *first, *last;
    unsigned n;
};

struct dist_scrape_slots {
    unsigned max, failing_max; /* doubtful_max of the max */
    unsigned taken, failing_taken;
    struct dist_scrape_slots_queue healthy, failing;
};

void dist_scrape_slots_init(struct dist_scrape_slots *slots, unsigned max);

/* on_slot() comes, now or later. */
void dist_scrape_slots_request(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot);

/* Gives up what it has or waits for; the next in line gets it, now. Nothing happens to one that has
 * nothing. */
void dist_scrape_slots_release(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot);

#endif
