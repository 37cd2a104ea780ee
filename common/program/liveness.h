/*
 * Decides whether the parts of a program move: its loops and its lanes of workers. A part is stuck
 * if something waits for it and it has ended nothing since it was last found to move. Pure.
 */
#ifndef FG_COMMON_PROGRAM_LIVENESS_H
#define FG_COMMON_PROGRAM_LIVENESS_H

#include "common/base/def.h"

/* The counters of a part at one time. */
struct fg_liveness_sight {
    uint64_t ended; /* what it has ended since the start: messages, jobs */
    bool waits;     /* something waits for it */
};

/* The counters of a part at the last look; zero at the start. */
struct fg_liveness {
    uint64_t ended;
};

/*
 * Returns the first part that is stuck, or n if none is. In that case it remembers what has ended:
 * so each part has moved at least once between two times at which this returned n, if something
 * waited for it.
 */
size_t fg_liveness_stuck(struct fg_liveness *parts, const struct fg_liveness_sight *sights,
                         size_t n);

#endif
