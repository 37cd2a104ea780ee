/*
 * A shelf keeps things in the order in which they came, and finds them by hash. A thing that was
 * removed costs two words until ing_shelf_tidy().
 *
 * Thread: one at a time. The things are the caller's.
 */
#ifndef FG_INGESTER_SHELF_H
#define FG_INGESTER_SHELF_H

#include "common/base/map.h"

struct ing_shelf_place {
    uint64_t hash;
    void *item; /* NULL: it has left */
};

/* Zeroed: empty. */
struct ing_shelf {
    struct ing_shelf_place *places;
    uint32_t count, cap; /* of places */
    uint32_t n_gone;
    struct fg_map map; /* hash -> place */
};

void ing_shelf_done(struct ing_shelf *shelf);
size_t ing_shelf_bytes(const struct ing_shelf *shelf);

/* Returns by how many bytes the shelf grows when one more thing is added. */
size_t ing_shelf_growth(const struct ing_shelf *shelf);

void ing_shelf_add(struct ing_shelf *shelf, uint64_t hash, void *item);

/* The item leaves its place. */
void ing_shelf_remove(struct ing_shelf *shelf, uint32_t place);

/* Closes the gaps once most places are such, and returns memory: all the others change places. An
 * empty shelf gives back all of it. */
void ing_shelf_tidy(struct ing_shelf *shelf);

static inline uint32_t ing_shelf_items(const struct ing_shelf *shelf)
{
    return shelf->count - shelf->n_gone;
}

/* The places of items with this hash, one after the other; FG_MAP_NONE: no more. */
static inline uint32_t ing_shelf_next(const struct ing_shelf *shelf, struct fg_map_walk *walk)
{
    uint32_t place;

    do {
        place = fg_map_next(&shelf->map, walk);
    } while (place != FG_MAP_NONE && shelf->places[place].item == NULL);
    return place;
}

static inline uint32_t ing_shelf_first(const struct ing_shelf *shelf, uint64_t hash,
                                       struct fg_map_walk *walk)
{
    *walk = (struct fg_map_walk){hash, (uint32_t)hash & shelf->map.mask};
    return ing_shelf_next(shelf, walk);
}

#endif
