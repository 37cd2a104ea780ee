#include "proto/ids.h"

enum {
    DIRECT_PER_ID = 4, /* at most so many places for each id: less memory than the map's slots */
    DIRECT_MIN = 64,
    SLOTS_MIN = 16,
    COUNT_MAX = UINT32_MAX / 8, /* so that all that is counted here fits 32 bits */
};

void fg_ids_clear(struct fg_ids *ids)
{
    ids->count = 0;
    ids->largest = 0;
    ids->counted = true;
}

bool fg_ids_reserve(struct fg_ids *ids, struct fg_arena *arena, uint32_t more)
{
    uint64_t want = FG_MAX((uint64_t)ids->count + more, 2 * (uint64_t)ids->cap);
    uint64_t *grown;

    if (ids->count == 0)
        fg_ids_clear(ids);
    if (more <= ids->cap - ids->count && ids->ids != NULL)
        return true;
    if (want > COUNT_MAX)
        return false;
    grown = fg_arena_alloc(arena, want * sizeof *grown);
    if (grown == NULL)
        return false;
    if (ids->count > 0)
        memcpy(grown, ids->ids, ids->count * sizeof *grown);
    ids->ids = grown;
    ids->cap = (uint32_t)want;
    return true;
}

/* Seeded: ids are the sender's choice, so it must not know which of them meet in the map. */
static uint64_t id_hash(const struct fg_ids *ids, uint64_t id)
{
    return fg_mix64(id ^ ids->seed);
}

static bool make_direct(struct fg_ids *ids, struct fg_arena *arena)
{
    uint32_t places = (uint32_t)ids->largest + 1;

    if (ids->cap_direct < places) {
        ids->direct = fg_arena_alloc(arena, places * sizeof *ids->direct);
        if (ids->direct == NULL)
            return false;
        ids->cap_direct = places;
    }
    memset(ids->direct, 0xff, places * sizeof *ids->direct);
    /* From the last to the first: of equal ids the first one counts. */
    for (uint32_t i = ids->count; i > 0; i--)
        ids->direct[ids->ids[i - 1]] = i - 1;
    return true;
}

static bool make_map(struct fg_ids *ids, struct fg_arena *arena)
{
    uint32_t slots = SLOTS_MIN;

    /* At most half full, so that walks stay short. */
    while (slots / 2 < ids->count)
        slots *= 2;
    if (ids->cap_slots < slots) {
        ids->map.slots = fg_arena_alloc(arena, slots * sizeof *ids->map.slots);
        if (ids->map.slots == NULL)
            return false;
        ids->cap_slots = slots;
    }
    ids->map.mask = slots - 1;
    fg_map_clear(&ids->map);
    ids->seed = fg_hash_seed();
    for (uint32_t i = 0; i < ids->count; i++)
        if (!fg_map_add_in(&ids->map, arena, id_hash(ids, ids->ids[i]), i))
            return false;
    return true;
}

bool fg_ids_ready(struct fg_ids *ids, struct fg_arena *arena)
{
    if (ids->counted || ids->count == 0)
        return true;
    /* Most senders number their things from 1: then an array does, without hashing. */
    ids->close = ids->largest < DIRECT_PER_ID * (uint64_t)ids->count + DIRECT_MIN;
    return ids->close ? make_direct(ids, arena) : make_map(ids, arena);
}

uint32_t fg_ids_search(const struct fg_ids *ids, uint64_t id)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&ids->map, id_hash(ids, id), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&ids->map, &walk))
        if (ids->ids[i] == id)
            return i;
    return FG_IDS_NONE;
}
