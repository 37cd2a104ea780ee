#include "common/base/map.h"

enum { MAP_MIN_SLOTS = 16 };

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

static void put(struct fg_map *map, uint64_t hash, uint32_t value)
{
    uint32_t i = (uint32_t)hash & map->mask;

    while (map->slots[i].value != FG_MAP_NONE)
        i = (i + 1) & map->mask;
    map->slots[i] = (struct fg_map_slot){hash, value};
}

static void grow(struct fg_map *map, uint32_t slots)
{
    struct fg_map old = *map;

    map->slots = fg_malloc(slots * sizeof *map->slots);
    map->mask = slots - 1;
    for (uint32_t i = 0; i < slots; i++)
        map->slots[i].value = FG_MAP_NONE;
    for (uint32_t i = 0; old.slots != NULL && i <= old.mask; i++)
        if (old.slots[i].value != FG_MAP_NONE)
            put(map, old.slots[i].hash, old.slots[i].value);
    free(old.slots);
}

void fg_map_reserve(struct fg_map *map, uint32_t count)
{
    uint32_t slots = map->slots == NULL ? MAP_MIN_SLOTS : map->mask + 1;

    fg_assert(count < UINT32_MAX / 4);
    while (slots / 4 * 3 < count)
        slots *= 2;
    if (map->slots == NULL || slots > map->mask + 1)
        grow(map, slots);
}

void fg_map_add(struct fg_map *map, uint64_t hash, uint32_t value)
{
    fg_assert(value != FG_MAP_NONE);
    fg_map_reserve(map, map->count + 1);
    put(map, hash, value);
    map->count++;
}
