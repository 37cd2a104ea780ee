/*
 * Limits the number of scrapes in progress, so that connections and memory do not grow with the
 * number of targets. Scrapes beyond the limit wait in order.
 *
 * Scrapes whose last attempt failed may use at most a quarter of the slots. Dead hosts hold a slot
 * until they time out; however many there are, the others go on.
 *
 * Pure: no I/O, no clock. Thread: the loop's.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_SCRAPE_SLOTS_H
#define FG_DISTRIBUTOR_SCRAPE_SCRAPE_SLOTS_H

#include "common/base/def.h"

/* Embedded in the object that needs a slot; starts zeroed. */
struct dist_scrape_slot {
    bool failing; /* the last scrape failed; set before the request */
    void (*on_slot)(struct dist_scrape_slot *slot); /* called when it has a slot */

    struct dist_scrape_slot *before, *after; /* internal, as the rest */
    bool waits, has, counted_failing;
};

struct dist_scrape_slots_queue {
    struct dist_scrape_slot *first, *last;
    unsigned n;
};

struct dist_scrape_slots {
    unsigned max, failing_max; /* slots in all, and those for scrapes that failed last time */
    unsigned taken, failing_taken;
    struct dist_scrape_slots_queue healthy, failing;
};

void dist_scrape_slots_init(struct dist_scrape_slots *slots, unsigned max);

/* Requests a slot. on_slot() is called now or later. */
void dist_scrape_slots_request(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot);

/* Releases the slot, or stops waiting for one; the next in the queue gets it at once. Does nothing
 * if the object has neither. */
void dist_scrape_slots_release(struct dist_scrape_slots *slots, struct dist_scrape_slot *slot);

#endif
