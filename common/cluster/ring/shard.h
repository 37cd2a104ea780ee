/*
 * Which shard a series belongs to (common/cluster/README.md#words): 16 bits, the upper ones from a
 * hash of tenant and service, the lower ones, as many as the shard factor, from a hash of the label
 * set. So the series of a service are in at most 2^shard_factor shards next to each other.
 *
 * The results decide where stored profiles are, so they never change.
 */
#ifndef FG_COMMON_CLUSTER_RING_SHARD_H
#define FG_COMMON_CLUSTER_RING_SHARD_H

#include "common/base/hash.h"

enum {
    FG_SHARD_FACTOR_MAX = 12,
    FG_SEED_SHARD = 0x73686172, /* a hash domain of its own */
};

/* Returns the first shard of a service. */
static inline uint16_t fg_shard_first(struct fg_slice tenant, struct fg_slice service,
                                      unsigned shard_factor)
{
    struct fg_id parts[2] = {fg_hash128_seed(tenant, FG_SEED_SHARD), fg_hash128(service)};
    uint64_t hash = fg_hash64(fg_bytes(parts, sizeof parts));

    return (uint16_t)((uint16_t)hash >> shard_factor << shard_factor);
}

/* Returns the shard of one series. labels: the hash of its label set. */
static inline uint16_t fg_shard_of(struct fg_slice tenant, struct fg_slice service,
                                   struct fg_id labels, unsigned shard_factor)
{
    uint16_t low = (uint16_t)(labels.lo & ((1u << shard_factor) - 1));

    return (uint16_t)(fg_shard_first(tenant, service, shard_factor) | low);
}

#endif
