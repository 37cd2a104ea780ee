/*
 * Open-addressing hash maps from a 64-bit hash to a dense 32-bit number, the number of a thing that
 * the caller keeps in an array. Linear probing, power-of-two tables, at most 3/4 full; nothing is
 * removed.
 *
 * The map knows hashes, not things: where two things may share a 64-bit hash the caller compares,
 * by walking with fg_map_first()/fg_map_next(). Hashes have to be well spread (fg_hash64,
 * fg_mix64).
 */
#ifndef FG_COMMON_BASE_MAP_H
#define FG_COMMON_BASE_MAP_H

#include "common/base/arena.h"

enum { FG_MAP_NONE = UINT32_MAX }; /* "not there"; never a value */

struct fg_map_slot {
    uint64_t hash;
    uint32_t value; /* FG_MAP_NONE: empty */
};

struct fg_map {
    struct fg_map_slot *slots;
    uint32_t mask; /* slots - 1; 0 when nothing is allocated */
    uint32_t count;
};

void fg_map_init(struct fg_map *map);
void fg_map_done(struct fg_map *map);

/* Forgets all values, keeps the table. */
void fg_map_clear(struct fg_map *map);

/* Makes room for count values in all. */
void fg_map_reserve(struct fg_map *map, uint32_t count);

/* Adds, also when a value of that hash is there already. value is not FG_MAP_NONE. */
void fg_map_add(struct fg_map *map, uint64_t hash, uint32_t value);

/*
 * The same two with the table in an arena, where its limit holds and nobody has to free it: a map
 * is made by one pair or by the other, and one of an arena is zeroed, not initialised. false: the
 * arena is at its limit, the map is as before.
 */
bool fg_map_reserve_in(struct fg_map *map, struct fg_arena *arena, uint32_t count) fg_must_check;
bool fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash,
                   uint32_t value) fg_must_check;

static inline size_t fg_map_bytes(const struct fg_map *map)
{
    return map->slots == NULL ? 0 : ((size_t)map->mask + 1) * sizeof *map->slots;
}

/* Returns by how many bytes the table grows when one more value is added. */
size_t fg_map_growth(const struct fg_map *map);

/* Where a walk over the values of one hash is. */
struct fg_map_walk {
    uint64_t hash;
    uint32_t slot;
};

static inline uint32_t fg_map_next(const struct fg_map *map, struct fg_map_walk *walk)
{
    if (map->slots == NULL)
        return FG_MAP_NONE;
    for (;;) {
        const struct fg_map_slot *slot = &map->slots[walk->slot];

        if (slot->value == FG_MAP_NONE)
            return FG_MAP_NONE;
        walk->slot = (walk->slot + 1) & map->mask;
        if (slot->hash == walk->hash)
            return slot->value;
    }
}

/* The first value of the hash, or FG_MAP_NONE. */
static inline uint32_t fg_map_first(const struct fg_map *map, uint64_t hash,
                                    struct fg_map_walk *walk)
{
    walk->hash = hash;
    walk->slot = (uint32_t)hash & map->mask;
    return fg_map_next(map, walk);
}

/* Brings the slot of a hash into the cache ahead of its use. */
static inline void fg_map_prefetch(const struct fg_map *map, uint64_t hash)
{
    if (map->slots != NULL)
        __builtin_prefetch(&map->slots[(uint32_t)hash & map->mask]);
}

#endif
