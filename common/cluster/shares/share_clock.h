/*
 * Tells in the log if the clock of this process is not that of the places where it meets the
 * others: it is in another period than they are for a while before or after the end of each, and
 * then counts alone.
 *
 * Thread: one at a time.
 */
#ifndef FG_COMMON_CLUSTER_SHARES_SHARE_CLOCK_H
#define FG_COMMON_CLUSTER_SHARES_SHARE_CLOCK_H

#include "common/base/time.h"

/* Starts zeroed. */
struct fg_share_clock {
    bool heard;      /* in this round */
    int64_t ahead_s; /* by the place that agrees best; negative: behind */
    bool apart;      /* as it was told last */
};

/* Begins a round. */
void fg_share_clock_begin(struct fg_share_clock *clock);
/* Takes in the time of a place, next to the time here. place_s 0: the place does not say it. */
void fg_share_clock_hear(struct fg_share_clock *clock, int64_t own_s, int64_t place_s);
/* Ends the round and logs a change. Returns true if the clock is more than FG_MEETING_AHEAD_MAX_S
 * ahead of the clocks of all places that answered, or behind them; without an answer nothing
 * changes. */
bool fg_share_clock_end(struct fg_share_clock *clock);

#endif
