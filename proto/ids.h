/*
 * Maps the ids of a table's entries in the input to their numbers 0, 1, 2, ... Nearly all producers
 * count ids up, so a lookup is an index into an array. Other ids go through a map, which hashes
 * them with a seed of the process, because the sender chooses them.
 *
 * Use: reserve, add all, make ready, find. Memory: in the arena; clearing keeps it for reuse.
 */
#ifndef FG_PROTO_IDS_H
#define FG_PROTO_IDS_H

#include "common/base/hash.h"
#include "common/base/map.h"

struct fg_ids {
    uint64_t *ids; /* [count], by number */
    uint32_t count, cap;
    uint64_t largest;
    bool counted;     /* ids[i] == i + 1 for all */
    bool close;       /* else, the largest is not far above the count: direct has the numbers */
    uint32_t *direct; /* [largest + 1], by id */
    uint32_t cap_direct;
    struct fg_map map; /* else: hash of the id -> number */
    uint32_t cap_slots;
    uint64_t seed;
};

enum { FG_IDS_NONE = UINT32_MAX };

/* Removes all ids. */
void fg_ids_clear(struct fg_ids *ids);

/* Reserves memory for `more` ids. Returns false if the arena is full. ids may be zeroed. */
bool fg_ids_reserve(struct fg_ids *ids, struct fg_arena *arena, uint32_t more) fg_must_check;

/* Adds the id of the next entry, for which memory is reserved. */
static inline void fg_ids_add(struct fg_ids *ids, uint64_t id)
{
    fg_assert(ids->count < ids->cap);
    ids->ids[ids->count++] = id;
    ids->largest = FG_MAX(ids->largest, id);
    ids->counted = ids->counted && id == ids->count;
}

/* Builds the index when all ids were added. Of equal ids the first counts. Returns false if the
 * arena is full. */
bool fg_ids_ready(struct fg_ids *ids, struct fg_arena *arena) fg_must_check;

/* Internal to fg_ids_find(). */
uint32_t fg_ids_search(const struct fg_ids *ids, uint64_t id);

/* Returns the number of the entry with that id, or FG_IDS_NONE. */
static inline uint32_t fg_ids_find(const struct fg_ids *ids, uint64_t id)
{
    if (ids->counted)
        return id - 1 < ids->count ? (uint32_t)(id - 1) : FG_IDS_NONE;
    if (id > ids->largest || ids->count == 0)
        return FG_IDS_NONE;
    return ids->close ? ids->direct[id] : fg_ids_search(ids, id);
}

#endif
