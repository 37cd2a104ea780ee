/*
 * A hash table that keeps its items in the order in which they were added. A removed item costs two
 * words until ing_hash_table_compact().
 *
 * Thread: one at a time. The items are the caller's.
 */
#ifndef FG_INGESTER_CATALOG_HASH_TABLE_H
#define FG_INGESTER_CATALOG_HASH_TABLE_H

#include "common/base/map.h"

struct ing_hash_table_slot {
    uint64_t hash;
    void *item; /* NULL: it was removed */
};

/* A zeroed table is empty. */
struct ing_hash_table {
    struct ing_hash_table_slot *slots;
    uint32_t count, cap; /* of slots */
    uint32_t n_gone;
    struct fg_map map; /* from hash to slot */
};

/* Frees the table, not the items. */
void ing_hash_table_done(struct ing_hash_table *table);

/* Returns the memory of the table in bytes, without the items. */
size_t ing_hash_table_bytes(const struct ing_hash_table *table);

/* Returns by how many bytes the table grows if one more item is added. */
size_t ing_hash_table_growth(const struct ing_hash_table *table);

/* Adds an item at the end. */
void ing_hash_table_add(struct ing_hash_table *table, uint64_t hash, void *item);

/* Removes the item of a slot. */
void ing_hash_table_remove(struct ing_hash_table *table, uint32_t place);

/* Closes the gaps if most slots are free, and returns memory; items move to other slots. An empty
 * table returns all of its memory. */
void ing_hash_table_compact(struct ing_hash_table *table);

/* Returns how many items the table has. */
static inline uint32_t ing_hash_table_items(const struct ing_hash_table *table)
{
    return table->count - table->n_gone;
}

/* Return the slots of items with this hash one after the other, then FG_MAP_NONE. */
static inline uint32_t ing_hash_table_next(const struct ing_hash_table *table,
                                           struct fg_map_walk *walk)
{
    uint32_t place;

    do {
        place = fg_map_next(&table->map, walk);
    } while (place != FG_MAP_NONE && table->slots[place].item == NULL);
    return place;
}

static inline uint32_t ing_hash_table_first(const struct ing_hash_table *table, uint64_t hash,
                                            struct fg_map_walk *walk)
{
    *walk = (struct fg_map_walk){hash, (uint32_t)hash & table->map.mask};
    return ing_hash_table_next(table, walk);
}

#endif
