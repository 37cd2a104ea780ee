/*
 * A hash map from a 64-bit hash to a 32-bit number, which usually is an index into an array of the
 * caller's. Open addressing with linear probing; tables have a power of two of slots and are at
 * most 3/4 full. Values cannot be removed.
 *
 * The map has hashes, not keys. If two keys may have the same 64-bit hash, the caller compares
 * them, and walks over all values of a hash with fg_map_first() and fg_map_next(). Hashes have to
 * be spread evenly (fg_hash64, fg_mix64).
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

/* Makes an empty map without a table. */
void fg_map_init(struct fg_map *map);
/* Frees the table. */
void fg_map_done(struct fg_map *map);

/* Removes all values and keeps the table. */
void fg_map_clear(struct fg_map *map);

/* Makes room for count values in total. */
void fg_map_reserve(struct fg_map *map, uint32_t count);

/* Adds a value, even if the hash has one already. value is not FG_MAP_NONE. */
void fg_map_add(struct fg_map *map, uint64_t hash, uint32_t value);

/*
 * Do the same with the table in an arena. Such a map starts zeroed instead of initialised, is not
 * freed, and is used with these two functions only. They return false at the limit of the arena and
 * leave the map unchanged then.
 */
bool fg_map_reserve_in(struct fg_map *map, struct fg_arena *arena, uint32_t count) fg_must_check;
bool fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash,
                   uint32_t value) fg_must_check;

/* Returns the size of the table in bytes. */
static inline size_t fg_map_bytes(const struct fg_map *map)
{
    return map->slots == NULL ? 0 : ((size_t)map->mask + 1) * sizeof *map->slots;
}

/* Returns by how many bytes the table grows when one more value is added. */
size_t fg_map_growth(const struct fg_map *map);

/* The position of a walk over the values of one hash. */
struct fg_map_walk {
    uint64_t hash;
    uint32_t slot;
};

/* Returns the next value of the walk, or FG_MAP_NONE. */
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

/* Begins a walk. Returns the first value of the hash, or FG_MAP_NONE. */
static inline uint32_t fg_map_first(const struct fg_map *map, uint64_t hash,
                                    struct fg_map_walk *walk)
{
    walk->hash = hash;
    walk->slot = (uint32_t)hash & map->mask;
    return fg_map_next(map, walk);
}

/* Loads the slot of a hash into the processor's cache before it is used. */
static inline void fg_map_prefetch(const struct fg_map *map, uint64_t hash)
{
    if (map->slots != NULL)
        __builtin_prefetch(&map->slots[(uint32_t)hash & map->mask]);
}

#endif
