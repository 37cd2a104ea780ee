/*
 * Which shard a series belongs to (common/cluster/README.md#words): 16 bits, the upper ones from
 * the service, the lower `spread` ones from the label set. A service's series so occupy at most
 * 2^spread shards.
 */
#ifndef FG_COMMON_CLUSTER_RING_SHARD_H
#define FG_COMMON_CLUSTER_RING_SHARD_H

#include "common/base/hash.h"

enum {
    FG_SHARD_SPREAD_MAX = 12,
    FG_SEED_SHARD = 0x73686172, /* a hash domain of its own */
};

static inline uint16_t fg_shard_first(struct fg_slice tenant, struct fg_slice service,
                                      unsigned spread)
{
    struct fg_id parts[2] = {fg_hash128_seed(tenant, FG_SEED_SHARD), fg_hash128(service)};
    uint64_t hash = fg_hash64(fg_bytes(parts, sizeof parts));

    return (uint16_t)((uint16_t)hash >> spread << spread);
}

static inline uint16_t fg_shard_of(struct fg_slice tenant, struct fg_slice service,
                                   struct fg_id labels, unsigned spread)
{
    uint16_t low = (uint16_t)(labels.lo & ((1u << spread) - 1));

    return (uint16_t)(fg_shard_first(tenant, service, spread) | low);
}

#endif
