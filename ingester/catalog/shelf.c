#include "ingester/catalog/shelf.h"

enum { PLACES_MIN = 16, GONE_KEPT_MIN = 64 };

void ing_shelf_done(struct ing_shelf *shelf)
{
    fg_map_done(&shelf->map);
    free(shelf->places);
    *shelf = (struct ing_shelf){0};
}

size_t ing_shelf_bytes(const struct ing_shelf *shelf)
{
    return shelf->cap * sizeof *shelf->places + fg_map_bytes(&shelf->map);
}

static uint32_t cap_after(const struct ing_shelf *shelf)
{
    return shelf->count < shelf->cap ? shelf->cap : FG_MAX(PLACES_MIN, shelf->cap * 2);
}

size_t ing_shelf_growth(const struct ing_shelf *shelf)
{
    return (cap_after(shelf) - shelf->cap) * sizeof *shelf->places + fg_map_growth(&shelf->map);
}

void ing_shelf_add(struct ing_shelf *shelf, uint64_t hash, void *item)
{
    if (shelf->count == shelf->cap) {
        shelf->cap = cap_after(shelf);
        shelf->places = fg_realloc(shelf->places, shelf->cap * sizeof *shelf->places);
    }
    fg_map_add(&shelf->map, hash, shelf->count);
    shelf->places[shelf->count++] = (struct ing_shelf_place){hash, item};
}

void ing_shelf_remove(struct ing_shelf *shelf, uint32_t place)
{
    fg_assert(shelf->places[place].item != NULL);
    shelf->places[place].item = NULL;
    shelf->n_gone++;
}

/* The map forgets nothing, so it is made anew. */
void ing_shelf_tidy(struct ing_shelf *shelf)
{
    struct ing_shelf tidy = {.cap = FG_MAX(PLACES_MIN, ing_shelf_items(shelf))};

    if (ing_shelf_items(shelf) == 0) {
        ing_shelf_done(shelf); /* an idle tenant's takes nothing */
        return;
    }
    if (shelf->n_gone <= GONE_KEPT_MIN || shelf->n_gone <= shelf->count / 2)
        return;
    tidy.places = fg_malloc(tidy.cap * sizeof *tidy.places);
    fg_map_reserve(&tidy.map, ing_shelf_items(shelf));
    for (uint32_t i = 0; i < shelf->count; i++)
        if (shelf->places[i].item != NULL)
            ing_shelf_add(&tidy, shelf->places[i].hash, shelf->places[i].item);
    ing_shelf_done(shelf);
    *shelf = tidy;
}
