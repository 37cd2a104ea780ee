/*
 * Chunks and groups are pieces of memory of their own, so pointers to them stay valid while the
 * arrays grow; lists of the core keep such pointers. The maps find places in the arrays.
 */
#include "ingester/segments/chunk_table.h"

#include <stdlib.h>

void ing_chunk_table_init(struct ing_chunk_table *table)
{
    *table = (struct ing_chunk_table){0};
    fg_map_init(&table->group_map);
    fg_map_init(&table->chunk_map);
}

void ing_chunk_table_done(struct ing_chunk_table *table)
{
    for (uint32_t i = 0; i < table->n_groups; i++)
        free(table->groups[i]);
    for (uint32_t i = 0; i < table->n_chunks; i++)
        free(table->chunks[i]);
    free(table->groups);
    free(table->chunks);
    fg_map_done(&table->group_map);
    fg_map_done(&table->chunk_map);
}

/* Clients choose shards and windows, so the hash has a seed that they do not know. */
static uint64_t hash_group(const struct ing_head_group_key *key)
{
    return fg_mix64(fg_mix64((uint64_t)key->tenant << 32 | key->window) ^ key->shard ^
                    fg_hash_seed());
}

static uint64_t hash_chunk(const struct ing_head_group_key *key, uint32_t number)
{
    return fg_mix64(hash_group(key) + number);
}

static bool same_group(const struct ing_head_group_key *a, const struct ing_head_group_key *b)
{
    return a->tenant == b->tenant && a->shard == b->shard && a->window == b->window;
}

struct ing_chunk_table_group *ing_chunk_table_group(const struct ing_chunk_table *table,
                                                    const struct ing_head_group_key *key)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&table->group_map, hash_group(key), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&table->group_map, &walk))
        if (same_group(&table->groups[i]->key, key))
            return table->groups[i];
    return NULL;
}

/* Returns the place of a chunk in the array, or FG_MAP_NONE. */
static uint32_t chunk_place(const struct ing_chunk_table *table,
                            const struct ing_head_group_key *key, uint32_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&table->chunk_map, hash_chunk(key, number), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&table->chunk_map, &walk))
        if (table->chunks[i]->number == number && same_group(&table->chunks[i]->group, key))
            return i;
    return FG_MAP_NONE;
}

struct ing_segments_chunk *ing_chunk_table_chunk(const struct ing_chunk_table *table,
                                                 const struct ing_head_group_key *key,
                                                 uint32_t number)
{
    uint32_t place = chunk_place(table, key, number);

    return place == FG_MAP_NONE ? NULL : table->chunks[place];
}

/* Returns the array with room for one more pointer. */
static void *grow(void *array, uint32_t count, uint32_t *cap)
{
    if (count < *cap)
        return array;
    *cap = FG_MAX(64, *cap * 2);
    return fg_realloc(array, *cap * sizeof(void *));
}

struct ing_chunk_table_group *ing_chunk_table_add_group(struct ing_chunk_table *table,
                                                        const struct ing_head_group_key *key)
{
    struct ing_chunk_table_group *group = fg_new(struct ing_chunk_table_group);

    group->key = *key;
    table->groups = grow(table->groups, table->n_groups, &table->cap_groups);
    fg_map_add(&table->group_map, hash_group(key), table->n_groups);
    table->groups[table->n_groups++] = group;
    return group;
}

/* Adds a chunk to the sums (sign 1), or removes it (-1). */
static void sum(struct ing_chunk_table *table, const struct ing_segments_chunk *chunk, int sign)
{
    /* The sums are unsigned: adding the complement subtracts. */
    uint64_t bytes = sign > 0 ? chunk->bytes : -chunk->bytes;

    table->by_state[chunk->state] += (uint32_t)sign;
    if (chunk->state == CHUNK_OPEN)
        table->open_bytes += bytes;
    if (chunk->state == CHUNK_OPEN && chunk->rank == 0)
        table->first_bytes += bytes;
    if (chunk->state == CHUNK_SEALED)
        table->sealed_bytes += bytes;
    if (chunk->state == CHUNK_ASIDE) {
        table->aside_bytes += bytes;
        table->aside_profiles += sign > 0 ? chunk->profiles : -chunk->profiles;
    }
    if (chunk->state == CHUNK_UNCHECKED) {
        table->unchecked_bytes += bytes;
        table->unchecked_profiles += sign > 0 ? chunk->profiles : -chunk->profiles;
    }
}

struct ing_segments_chunk *ing_chunk_table_add_chunk(struct ing_chunk_table *table,
                                                     struct ing_chunk_table_group *group,
                                                     const struct ing_segments_chunk *chunk)
{
    struct ing_segments_chunk *copy = fg_new(struct ing_segments_chunk);

    *copy = *chunk;
    table->chunks = grow(table->chunks, table->n_chunks, &table->cap_chunks);
    fg_map_add(&table->chunk_map, hash_chunk(&copy->group, copy->number), table->n_chunks);
    table->chunks[table->n_chunks++] = copy;
    group->n_chunks++;
    /* Numbers only grow while the group is known. A group that is removed has no chunk in the store
     * either, so its numbers may be given again. */
    group->next = FG_MAX(group->next, copy->number + 1);
    if (copy->state == CHUNK_OPEN) {
        /* Two open chunks would split the profiles of a group, and a duplicate could be in the
         * other one. */
        fg_assert(group->open == NULL);
        group->open = copy;
    }
    /* There may be several, since a COMPARE that is unsure makes sealed chunks unchecked, too.
     * Profiles go into the one that became unchecked last. */
    if (copy->state == CHUNK_UNCHECKED)
        group->unchecked = copy;
    sum(table, copy, 1);
    return copy;
}

static void let_go(struct ing_chunk_table_group *group, const struct ing_segments_chunk *chunk)
{
    if (group->open == chunk)
        group->open = NULL;
    if (group->unchecked == chunk)
        group->unchecked = NULL;
}

void ing_chunk_table_set_state(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                               enum ing_chunk_state state)
{
    struct ing_chunk_table_group *group = ing_chunk_table_group(table, &chunk->group);

    fg_assert(ing_chunk_may_become(chunk->state, state));
    /* First out of the group and the sums as they were, then in again as it is. */
    let_go(group, chunk);
    sum(table, chunk, -1);
    chunk->state = state;
    sum(table, chunk, 1);
    if (state == CHUNK_UNCHECKED)
        group->unchecked = chunk;
}

void ing_chunk_table_set_rank(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                              uint8_t rank)
{
    sum(table, chunk, -1);
    chunk->rank = rank;
    sum(table, chunk, 1);
}

void ing_chunk_table_count(struct ing_chunk_table *table, struct ing_segments_chunk *chunk,
                           int64_t profiles, int64_t bytes)
{
    sum(table, chunk, -1);
    chunk->profiles += (uint64_t)profiles;
    chunk->bytes += (uint64_t)bytes;
    sum(table, chunk, 1);
}

void ing_chunk_table_remove(struct ing_chunk_table *table, struct ing_segments_chunk *const *chunks,
                            uint32_t count)
{
    uint32_t kept = 0;

    /* Drop all before freeing any: finding a chunk compares it with others in the map. */
    for (uint32_t i = 0; i < count; i++) {
        struct ing_segments_chunk *chunk = chunks[i];
        struct ing_chunk_table_group *group = ing_chunk_table_group(table, &chunk->group);

        table->chunks[chunk_place(table, &chunk->group, chunk->number)] = NULL;
        let_go(group, chunk);
        group->n_chunks--;
        sum(table, chunk, -1);
    }
    for (uint32_t i = 0; i < count; i++)
        free(chunks[i]);
    for (uint32_t i = 0; i < table->n_chunks; i++)
        if (table->chunks[i] != NULL)
            table->chunks[kept++] = table->chunks[i];
    table->n_chunks = kept;
    kept = 0;
    for (uint32_t i = 0; i < table->n_groups; i++) {
        if (table->groups[i]->n_chunks == 0)
            free(table->groups[i]);
        else
            table->groups[kept++] = table->groups[i];
    }
    table->n_groups = kept;
    /* A fg_map cannot delete, so both are built again. */
    fg_map_clear(&table->group_map);
    fg_map_clear(&table->chunk_map);
    for (uint32_t i = 0; i < table->n_groups; i++)
        fg_map_add(&table->group_map, hash_group(&table->groups[i]->key), i);
    for (uint32_t i = 0; i < table->n_chunks; i++)
        fg_map_add(&table->chunk_map,
                   hash_chunk(&table->chunks[i]->group, table->chunks[i]->number), i);
}

void ing_chunk_table_check(const struct ing_chunk_table *table)
{
    struct ing_chunk_table again = {0}; /* sums alone */
    uint32_t n_grouped = 0;

    for (uint32_t i = 0; i < table->n_chunks; i++) {
        const struct ing_segments_chunk *chunk = table->chunks[i];
        const struct ing_chunk_table_group *group = ing_chunk_table_group(table, &chunk->group);

        fg_assert(group != NULL && chunk->number < group->next);
        fg_assert(ing_chunk_table_chunk(table, &chunk->group, chunk->number) == chunk);
        fg_assert((chunk->state == CHUNK_OPEN) == (group->open == chunk));
        fg_assert(group->unchecked != chunk || chunk->state == CHUNK_UNCHECKED);
        sum(&again, chunk, 1);
    }
    for (uint32_t i = 0; i < table->n_groups; i++)
        n_grouped += table->groups[i]->n_chunks;
    fg_assert(n_grouped == table->n_chunks);
    fg_assert(memcmp(again.by_state, table->by_state, sizeof again.by_state) == 0);
    fg_assert(again.open_bytes == table->open_bytes && again.first_bytes == table->first_bytes);
    fg_assert(again.sealed_bytes == table->sealed_bytes && again.aside_bytes == table->aside_bytes);
    fg_assert(again.aside_profiles == table->aside_profiles);
    fg_assert(again.unchecked_bytes == table->unchecked_bytes);
    fg_assert(again.unchecked_profiles == table->unchecked_profiles);
}
