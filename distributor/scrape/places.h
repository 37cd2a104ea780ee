/*
 * Places for scrapes that are under way: so many at a time, so that neither connections nor memory
 * grow with the number of targets. Who finds none waits in order.
 *
 * Those whose last scrape failed may have a quarter of the places and no more: hosts that are down
 * hold theirs until they time out, and however many they are, the others go on.
 *
 * Thread: the loop's.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_PLACES_H
#define FG_DISTRIBUTOR_SCRAPE_PLACES_H

#include "common/base/def.h"

/* Embedded in who wants a place; zeroed. */
struct dist_place {
    bool doubtful;                              /* it failed last time; set before it asks */
    void (*on_place)(struct dist_place *place); /* it has one now */

    struct dist_place *before, *after; /* internal, as the rest */
    bool waits, has, counted_doubtful;
};

struct dist_places_line {
    struct dist_place *first, *last;
    unsigned n;
};

struct dist_places {
    unsigned max, doubtful_max; /* doubtful_max of the max */
    unsigned taken, doubtful_taken;
    struct dist_places_line sound, doubtful;
};

void dist_places_init(struct dist_places *places, unsigned max);

/* on_place() comes, now or later. */
void dist_places_ask(struct dist_places *places, struct dist_place *place);

/* Gives up what it has or waits for; the next in line gets it, now. Nothing happens to one that has
 * nothing. */
void dist_places_leave(struct dist_places *places, struct dist_place *place);

#endif
