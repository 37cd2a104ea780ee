/*
 * A table keeps things in the order in which they came, and finds them by hash. A thing that was
 * removed costs two words until ing_hash_table_compact().
 *
 * Thread: one at a time. The things are the caller's.
 */
#ifndef FG_INGESTER_CATALOG_HASH_TABLE_H
#define FG_INGESTER_CATALOG_HASH_TABLE_H

#include "common/base/map.h"

struct ing_hash_table_slot {
    uint64_t hash;
    void *item; /* NULL: it has left */
};

/* Zeroed: empty. */
struct ing_hash_table {
    struct ing_hash_table_slot *slots;
    uint32_t count, cap; /* of slots */
    uint32_t n_gone;
    struct fg_map map; /* hash -> place */
};

void ing_hash_table_done(struct ing_hash_table *table);
size_t ing_hash_table_bytes(const struct ing_hash_table *table);

/* Returns by how many bytes the table grows when one more thing is added. */
size_t ing_hash_table_growth(const struct ing_hash_table *table);

void ing_hash_table_add(struct ing_hash_table *table, uint64_t hash, void *item);

/* The item leaves its place. */
void ing_hash_table_remove(struct ing_hash_table *table, uint32_t place);

/* Closes the gaps once most slots are free, and returns memory: all the others change places. An
 * empty table gives back all of it. */
void ing_hash_table_compact(struct ing_hash_table *table);

static inline uint32_t ing_hash_table_items(const struct ing_hash_table *table)
{
    return table->count - table->n_gone;
}

/* The slots of items with this hash, one after the other; FG_MAP_NONE: no more. */
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
