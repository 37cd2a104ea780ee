/*
 * Compares the answers of replicas: which profiles do others have that the data of one lacks? An
 * answer says what it holds of each group (a shard and ten minutes) by a count and the sum of the
 * ids, or by the ids themselves (proto/inner.proto, GroupSum).
 *
 * Of each shard the data of one answer counts. The sums of that answer say what its data is made
 * of, since both are of one moment. If counts and sums are equal, nothing is missing. Ids that
 * others have and the data does not are missing. If counts or sums differ, ids are needed first.
 *
 * A pure value: no I/O, memory in the arena. Thread: any.
 */
#ifndef FG_QUERIER_REPLICAS_REPLICA_COMPARE_H
#define FG_QUERIER_REPLICAS_REPLICA_COMPARE_H

#include "common/base/arena.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "proto/inner.pb-c.h"

/* A set of shards: bit i, the lowest of byte 0 first, is the shard first + i. */
struct qry_shard_map {
    uint16_t first;
    struct fg_slice bits;
};

/* Returns true if the set has the shard. */
static inline bool qry_shard_map_has(const struct qry_shard_map *map, uint16_t shard)
{
    size_t bit = (size_t)shard - map->first;

    return shard >= map->first && bit / 8 < map->bits.len &&
           (map->bits.ptr[bit / 8] >> bit % 8 & 1) != 0;
}

struct qry_replica_compare_sum {
    uint16_t shard;
    uint32_t window;
    uint64_t count;
    struct fg_id digest;
    struct fg_slice ids; /* as on the wire, ascending */
};

struct qry_replica_compare_answer {
    struct qry_replica_compare_sum *sums; /* ascending by shard, then window */
    size_t n;
    struct qry_shard_map data;   /* shards of which its data counts; no other answer's does */
    struct qry_shard_map summed; /* of which it was asked for sums */
};

/* Reads and checks the sums of a reply that was asked for the shards `summed`. The ids are borrowed
 * from the message. FG_E_CORRUPT, FG_E_LIMIT. */
enum fg_code qry_replica_compare_read(Fg__Inner__GroupSum *const *sums, size_t n,
                                      const struct qry_shard_map *summed, struct fg_arena *arena,
                                      struct qry_replica_compare_answer *ret_answer,
                                      struct fg_err *err) fg_must_check;

struct qry_replica_compare_group {
    uint16_t shard;
    uint32_t window;
};

/* A profile that is missing in the data, and the number of an answer that has it. */
struct qry_replica_compare_missing {
    uint32_t from;
    uint16_t shard;
    struct fg_id id;
};

struct qry_replica_compare_result {
    struct qry_replica_compare_group *differ; /* groups of which ids are needed; ascending */
    uint32_t n_differ, cap_differ;
    struct qry_replica_compare_missing
        *missing; /* profiles of all other groups; by `from`, no id twice in a group */
    uint32_t n_missing, cap_missing;
};

/* Compares answers. The result is in the arena. FG_E_LIMIT. */
enum fg_code qry_replica_compare_answers(const struct qry_replica_compare_answer *answers,
                                         uint32_t n, struct fg_arena *arena,
                                         struct qry_replica_compare_result *ret_result,
                                         struct fg_err *err) fg_must_check;

/* Adds up the greatest count of each group that any answer has: at least the profiles of any one
 * answer, at most those of all together. FG_E_LIMIT. */
enum fg_code qry_replica_compare_greatest(const struct qry_replica_compare_answer *answers,
                                          uint32_t n, struct fg_arena *arena, uint64_t *ret_count,
                                          struct fg_err *err) fg_must_check;

#endif
