#include "common/base/map.h"

enum { MAP_MIN_SLOTS = 16 }; /* most maps of a request stay small */

void fg_map_init(struct fg_map *map)
{
    *map = (struct fg_map){0};
}

void fg_map_done(struct fg_map *map)
{
    free(map->slots);
    *map = (struct fg_map){0};
}

void fg_map_clear(struct fg_map *map)
{
    for (size_t i = 0; map->slots != NULL && i <= map->mask; i++)
        map->slots[i].value = FG_MAP_NONE;
    map->count = 0;
}

/* Linear probing. At most three quarters of the slots are used, so a probe ends. */
static void put(struct fg_map *map, uint64_t hash, uint32_t value)
{
    uint32_t i = (uint32_t)hash & map->mask;

    while (map->slots[i].value != FG_MAP_NONE)
        i = (i + 1) & map->mask;
    map->slots[i] = (struct fg_map_slot){hash, value};
}

/* Fills the new table, which map has already, with what was in the old one. */
static void take_over(struct fg_map *map, const struct fg_map *old)
{
    for (uint32_t i = 0; i <= map->mask; i++)
        map->slots[i].value = FG_MAP_NONE;
    for (uint32_t i = 0; old->slots != NULL && i <= old->mask; i++)
        if (old->slots[i].value != FG_MAP_NONE)
            put(map, old->slots[i].hash, old->slots[i].value);
}

/* Returns the slots of a table of so many values; 0: the map's own are enough. */
static uint32_t slots_for(const struct fg_map *map, uint32_t count)
{
    uint32_t slots = map->slots == NULL ? MAP_MIN_SLOTS : map->mask + 1;

    fg_assert(count < UINT32_MAX / 4);
    /* Three quarters: beyond that linear probing gets slow (a miss visits 8.5 slots at three
     * quarters, 50 at nine tenths). */
    while (slots / 4 * 3 < count)
        slots *= 2;
    return map->slots == NULL || slots > map->mask + 1 ? slots : 0;
}

size_t fg_map_growth(const struct fg_map *map)
{
    uint32_t slots = slots_for(map, map->count + 1);

    return slots == 0 ? 0 : slots * sizeof *map->slots - fg_map_bytes(map);
}

void fg_map_reserve(struct fg_map *map, uint32_t count)
{
    uint32_t slots = slots_for(map, count);
    struct fg_map old = *map;

    if (slots == 0)
        return;
    map->slots = fg_malloc(slots * sizeof *map->slots);
    map->mask = slots - 1;
    take_over(map, &old);
    free(old.slots);
}

void fg_map_add(struct fg_map *map, uint64_t hash, uint32_t value)
{
    fg_assert(value != FG_MAP_NONE);
    fg_map_reserve(map, map->count + 1);
    put(map, hash, value);
    map->count++;
}

bool fg_map_reserve_in(struct fg_map *map, struct fg_arena *arena, uint32_t count)
{
    uint32_t slots = slots_for(map, count);
    struct fg_map old = *map;
    struct fg_map_slot *table;

    if (slots == 0)
        return true;
    /* The arena cannot free the old table, hence the other path than fg_map_reserve(). */
    table = fg_arena_alloc(arena, slots * sizeof *table);
    if (table == NULL)
        return false;
    /* The old table stays in the arena: doubling keeps all of them together below twice the
     * newest one. */
    map->slots = table;
    map->mask = slots - 1;
    take_over(map, &old);
    return true;
}

bool fg_map_add_in(struct fg_map *map, struct fg_arena *arena, uint64_t hash, uint32_t value)
{
    fg_assert(value != FG_MAP_NONE);
    if (!fg_map_reserve_in(map, arena, map->count + 1))
        return false;
    put(map, hash, value);
    map->count++;
    return true;
}
