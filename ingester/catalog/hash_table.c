#include "ingester/catalog/hash_table.h"

/* Below GONE_KEPT_MIN a rebuild gains nothing. */
enum { SLOTS_MIN = 16, GONE_KEPT_MIN = 64 };

void ing_hash_table_done(struct ing_hash_table *table)
{
    fg_map_done(&table->map);
    free(table->slots);
    *table = (struct ing_hash_table){0};
}

size_t ing_hash_table_bytes(const struct ing_hash_table *table)
{
    return table->cap * sizeof *table->slots + fg_map_bytes(&table->map);
}

static uint32_t cap_after(const struct ing_hash_table *table)
{
    return table->count < table->cap ? table->cap : FG_MAX(SLOTS_MIN, table->cap * 2);
}

size_t ing_hash_table_growth(const struct ing_hash_table *table)
{
    return (cap_after(table) - table->cap) * sizeof *table->slots + fg_map_growth(&table->map);
}

void ing_hash_table_add(struct ing_hash_table *table, uint64_t hash, void *item)
{
    if (table->count == table->cap) {
        table->cap = cap_after(table);
        table->slots = fg_realloc(table->slots, table->cap * sizeof *table->slots);
    }
    fg_map_add(&table->map, hash, table->count);
    table->slots[table->count++] = (struct ing_hash_table_slot){hash, item};
}

void ing_hash_table_remove(struct ing_hash_table *table, uint32_t place)
{
    fg_assert(table->slots[place].item != NULL);
    /* The slot stays, so places of other items do not change: a sweep and the map go by them. */
    table->slots[place].item = NULL;
    table->n_gone++;
}

/* A fg_map cannot delete, so a new one is made. */
void ing_hash_table_compact(struct ing_hash_table *table)
{
    struct ing_hash_table compacted = {.cap = FG_MAX(SLOTS_MIN, ing_hash_table_items(table))};

    if (ing_hash_table_items(table) == 0) {
        ing_hash_table_done(table); /* an idle tenant's takes nothing */
        return;
    }
    if (table->n_gone <= GONE_KEPT_MIN || table->n_gone <= table->count / 2)
        return;
    compacted.slots = fg_malloc(compacted.cap * sizeof *compacted.slots);
    fg_map_reserve(&compacted.map, ing_hash_table_items(table));
    for (uint32_t i = 0; i < table->count; i++)
        if (table->slots[i].item != NULL)
            ing_hash_table_add(&compacted, table->slots[i].hash, table->slots[i].item);
    ing_hash_table_done(table);
    *table = compacted;
}
