/*
 * Which shard a series belongs to (common/cluster/README.md#words): 16 bits, the upper ones from
 * the service, the lower `shard factor` ones from the label set. A service's series so occupy at
 * most 2^shard_factor shards.
 */
#ifndef FG_COMMON_CLUSTER_RING_SHARD_H
#define FG_COMMON_CLUSTER_RING_SHARD_H

#include "common/base/hash.h"

enum {
    FG_SHARD_FACTOR_MAX = 12,
    FG_SEED_SHARD = 0x73686172, /* a hash domain of its own */
};

static inline uint16_t fg_shard_first(struct fg_slice tenant, struct fg_slice service,
                                      unsigned shard_factor)
{
    struct fg_id parts[2] = {fg_hash128_seed(tenant, FG_SEED_SHARD), fg_hash128(service)};
    uint64_t hash = fg_hash64(fg_bytes(parts, sizeof parts));

    return (uint16_t)((uint16_t)hash >> shard_factor << shard_factor);
}

static inline uint16_t fg_shard_of(struct fg_slice tenant, struct fg_slice service,
                                   struct fg_id labels, unsigned shard_factor)
{
    uint16_t low = (uint16_t)(labels.lo & ((1u << shard_factor) - 1));

    return (uint16_t)(fg_shard_first(tenant, service, shard_factor) | low);
}

#endif
