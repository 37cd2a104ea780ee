/*
 * Rendezvous hashing (highest random weight, Thaler and Ravishankar 1998): each member draws a
 * number for a key, from its own hash and the key alone, and the highest numbers own the key. All
 * who know the same members find the same owners without talking. A member that joins or leaves
 * moves only the keys that it owns; all others stay where they are.
 *
 * The one draw of flamegrid: owners of shards (ring/owners.h), compactors of tenants
 * (membership_core.h), queriers of cached objects (peer_directory.h). Members of different versions
 * must agree on it, and it decides where stored data is, so the numbers never change:
 * rendezvous_test.c has some of them.
 *
 * Thread: any; no state.
 */
#ifndef FG_COMMON_CLUSTER_MEMBERSHIP_RENDEZVOUS_H
#define FG_COMMON_CLUSTER_MEMBERSHIP_RENDEZVOUS_H

#include "common/base/hash.h"

/* Prepares a key for draws: mixes it once, however many members draw for it. A key of 0 stays 0 and
 * so must not be used where keys are small numbers. */
static inline uint64_t fg_rendezvous_key(uint64_t key)
{
    return fg_mix64(key);
}

/* Returns the number that a member draws for a key. member_hash: fg_hash64() of its name or
 * address. */
static inline uint64_t fg_rendezvous_draw(uint64_t member_hash, uint64_t prepared_key)
{
    return fg_mix64(member_hash ^ prepared_key);
}

#endif
