/*
 * What one of several replicas is asked for (proto/inner.proto, Shards): of which shards the answer
 * is made, of which sums are given, and those sums.
 *
 * Sums and data come out of one scan, so of one moment: what a sum counts is what the data was made
 * of. A profile counts once, whichever of its types matched.
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
    QUERY_GROUPS_MAX = 65536,        /* that are named; who wants more takes all by their ids */
    QUERY_IDS_MAX = 65536,           /* of only_ids */
};

struct ing_query_shards {
    bool all; /* nothing was said: data of all, no sums */
    uint32_t first;
    struct fg_slice data, sums; /* maps, borrowed */
    int64_t ids_since_ns;
    uint64_t *ids_of; /* sorted: shard, then window */
    size_t n_ids_of;
};

/* from NULL: all. FG_E_INVALID: maps that are too long or go beyond the last shard, too many
 * groups; FG_E_LIMIT. */
enum fg_code ing_query_shards_read(const Fg__Inner__Shards *from, struct fg_arena *arena,
                                   struct ing_query_shards *ret_shards,
                                   struct fg_err *err) fg_must_check;

bool ing_query_shards_data(const struct ing_query_shards *shards, uint16_t shard);
bool ing_query_shards_sums(const struct ing_query_shards *shards, uint16_t shard);

/* Profiles that are asked for by their ids. */
struct ing_query_ids {
    struct fg_id *items; /* sorted; NULL: all are */
    size_t n;
};

/* FG_E_INVALID: not a number of whole ids, or too many; FG_E_LIMIT. */
enum fg_code ing_query_ids_read(ProtobufCBinaryData from, struct fg_arena *arena,
                                struct ing_query_ids *ret_ids, struct fg_err *err) fg_must_check;
/* The number of an id in items; SIZE_MAX: it is not there, or there are none. */
size_t ing_query_ids_find(const struct ing_query_ids *ids, struct fg_id id);
/* True of all where there are none. */
bool ing_query_ids_have(const struct ing_query_ids *ids, struct fg_id id);

/* The sums of a scan, group after group in ascending order; in the arena. */
struct ing_query_sums {
    const struct ing_query_shards *shards;
    struct fg_arena *arena;
    Fg__Inner__GroupSum **items;
    uint32_t n, cap;
    /* Of the group that is being summed up. */
    bool open, by_ids;
    uint16_t shard;
    uint32_t window;
    uint64_t count;
    struct fg_id digest;
    struct fg_buf ids; /* as struct fg_id */
};

/* max_bytes: memory for ids of one group. ing_query_sums_done() in any case. */
void ing_query_sums_init(struct ing_query_sums *sums, const struct ing_query_shards *shards,
                         struct fg_arena *arena, uint64_t max_bytes);
void ing_query_sums_done(struct ing_query_sums *sums);

/* What comes from now on is of this group. It does not change while the group is the same. */
enum fg_code ing_query_sums_group(struct ing_query_sums *sums,
                                  const struct ing_head_group_key *group,
                                  struct fg_err *err) fg_must_check;
enum fg_code ing_query_sums_add(struct ing_query_sums *sums, int64_t time_ns, struct fg_id id,
                                struct fg_err *err) fg_must_check;
/* So many at once, with the sum of their ids. */
void ing_query_sums_add_all(struct ing_query_sums *sums, uint64_t count, struct fg_id digest);

/* The last group is complete, and the list too. */
enum fg_code ing_query_sums_finish(struct ing_query_sums *sums, struct fg_err *err) fg_must_check;

#endif
