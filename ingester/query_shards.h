/*
 * What a query asks of one of several replicas (proto/inner.proto, Shards): the data of some shards
 * and sums of others; and those sums.
 *
 * Sums and data come from one scan, so from one moment: a sum counts exactly the profiles of the
 * data. A profile counts once, whichever of its types matched.
 *
 * Thread: the query's.
 */
#ifndef FG_INGESTER_QUERY_SHARDS_H
#define FG_INGESTER_QUERY_SHARDS_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "ingester/keys.h"
#include "proto/inner.pb-c.h"

enum {
    QUERY_MAP_MAX_BYTES = 65536 / 8, /* a bit for each shard */
    QUERY_GROUPS_MAX = 65536, /* that are named; a query that wants more asks for the ids of all */
    QUERY_IDS_MAX = 65536,    /* of only_ids */
};

struct ing_query_shards {
    bool all; /* the query names none: data of all, no sums */
    uint32_t first;
    struct fg_slice data, sums; /* maps, borrowed */
    int64_t ids_since_ns;
    uint64_t *ids_of; /* sorted: shard, then window */
    size_t n_ids_of;
};

/* Reads which shards a query asks for. from NULL: all. FG_E_INVALID: a map is too long or goes
 * beyond the last shard, or there are too many groups; FG_E_LIMIT: the arena is full. */
enum fg_code ing_query_shards_read(const Fg__Inner__Shards *from, struct fg_arena *arena,
                                   struct ing_query_shards *ret_shards,
                                   struct fg_err *err) fg_must_check;

/* Returns true if the query asks for the data of the shard. */
bool ing_query_shards_data(const struct ing_query_shards *shards, uint16_t shard);

/* Returns true if the query asks for the sums of the shard. */
bool ing_query_shards_sums(const struct ing_query_shards *shards, uint16_t shard);

/* The ids of the profiles that a query asks for. */
struct ing_query_ids {
    struct fg_id *items; /* sorted; NULL: any id */
    size_t n;
};

/* Reads ids. FG_E_INVALID: not whole ids, or too many; FG_E_LIMIT: the arena is full. */
enum fg_code ing_query_ids_read(ProtobufCBinaryData from, struct fg_arena *arena,
                                struct ing_query_ids *ret_ids, struct fg_err *err) fg_must_check;

/* Returns the index of an id in items; SIZE_MAX: it is not there. */
size_t ing_query_ids_find(const struct ing_query_ids *ids, struct fg_id id);

/* Returns true if the query asks for the id. */
bool ing_query_ids_have(const struct ing_query_ids *ids, struct fg_id id);

/* The sums of a scan, group after group in ascending order; in the arena. */
struct ing_query_sums {
    const struct ing_query_shards *shards;
    struct fg_arena *arena;
    Fg__Inner__GroupSum **items;
    uint32_t n, cap;
    /* Of the current group. */
    bool open, by_ids;
    uint16_t shard;
    uint32_t window;
    uint64_t count;
    struct fg_id digest;
    struct fg_buf ids; /* as struct fg_id */
};

/* Initializes an empty list. max_bytes: memory for the ids of one group. */
void ing_query_sums_init(struct ing_query_sums *sums, const struct ing_query_shards *shards,
                         struct fg_arena *arena, uint64_t max_bytes);

/* Frees what is not in the arena. */
void ing_query_sums_done(struct ing_query_sums *sums);

/* Begins a group, unless it is the current one. FG_E_LIMIT. */
enum fg_code ing_query_sums_group(struct ing_query_sums *sums,
                                  const struct ing_head_group_key *group,
                                  struct fg_err *err) fg_must_check;

/* Counts a profile of the current group. FG_E_LIMIT. */
enum fg_code ing_query_sums_add(struct ing_query_sums *sums, int64_t time_ns, struct fg_id id,
                                struct fg_err *err) fg_must_check;

/* Counts many profiles at once. digest: the sum of their ids. */
void ing_query_sums_add_all(struct ing_query_sums *sums, uint64_t count, struct fg_id digest);

/* Ends the last group and completes the list. FG_E_LIMIT. */
enum fg_code ing_query_sums_finish(struct ing_query_sums *sums, struct fg_err *err) fg_must_check;

/* Takes a profile that was counted out of the complete list. FG_E_LIMIT. */
enum fg_code ing_query_sums_remove(struct ing_query_sums *sums,
                                   const struct ing_head_group_key *group, int64_t time_ns,
                                   struct fg_id id, struct fg_err *err) fg_must_check;

#endif
