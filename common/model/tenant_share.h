/*
 * Divides a limited resource among tenants, so that one tenant cannot use all of it.
 *
 * A tenant may grow while it has at most share / (1 - share) times what is free. So a tenant that
 * takes all it can get has `share` of the total, the next one `share` of the rest, and two that
 * grow at the same time get share / (1 + share) each. Some of the resource is always free, and
 * tenants that have little can take it before those that have much. (Dynamic thresholds, as
 * switches divide their memory among ports: Choudhury and Hahne, 1998.)
 */
#ifndef FG_COMMON_MODEL_TENANT_SHARE_H
#define FG_COMMON_MODEL_TENANT_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if a tenant that has `used` may take more while `left` is free. 0 < share; from 1 on
 * it may take everything. */
static inline bool fg_share_allows(double share, uint64_t used, uint64_t left)
{
    return share >= 1 || (1 - share) * (double)used <= share * (double)left;
}

#endif
