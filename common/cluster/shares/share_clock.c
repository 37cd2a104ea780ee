#include "common/cluster/shares/share_clock.h"

#include "common/cluster/shares/meeting_core.h"
#include "common/runtime/log.h"

#include <stdlib.h>

void fg_share_clock_begin(struct fg_share_clock *clock)
{
    clock->heard = false;
}

void fg_share_clock_hear(struct fg_share_clock *clock, int64_t own_s, int64_t place_s)
{
    int64_t ahead_s;

    if (place_s <= 0)
        return;
    ahead_s = own_s - place_s;
    /* If one place has the same time, the clock of another one is wrong. */
    if (!clock->heard || llabs(ahead_s) < llabs(clock->ahead_s))
        clock->ahead_s = ahead_s;
    clock->heard = true;
}

bool fg_share_clock_end(struct fg_share_clock *clock)
{
    bool apart = llabs(clock->ahead_s) > FG_MEETING_AHEAD_MAX_S;

    if (!clock->heard || apart == clock->apart)
        return clock->apart;
    if (apart)
        fg_log_warn("the clock of this machine is not that of the ingesters: limits of a period "
                    "hold for this process alone around the end of each period",
                    fg_li("ahead_s", clock->ahead_s));
    else
        fg_log_info("the clock of this machine is that of the ingesters again");
    clock->apart = apart;
    return apart;
}
