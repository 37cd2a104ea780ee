/*
 * Room that tenants share: how much of it one of them may fill, so that others find some, too.
 *
 * A tenant may grow as long as it has at most share / (1 - share) times what is still free. So the
 * first that takes all it can get has `share` of the room, the next one `share` of what that one
 * left, and two that grow at the same time get the same, share / (1 + share). There is always some
 * room left, and who has little gets it before who has much. (Dynamic thresholds, as switches
 * divide their memory among ports: Choudhury and Hahne, 1998.)
 */
#ifndef FG_COMMON_TENANT_SHARE_H
#define FG_COMMON_TENANT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether a tenant that has `used` may take more of a room of which `left` is free.
 * 0 < share; 1 and above: all that is left. */
static inline bool fg_share_allows(double share, uint64_t used, uint64_t left)
{
    return share >= 1 || (1 - share) * (double)used <= share * (double)left;
}

#endif
