#include "ingester/segments/table.h"

#include <stdlib.h>

void ing_table_init(struct ing_table *table)
{
    *table = (struct ing_table){0};
    fg_map_init(&table->group_map);
    fg_map_init(&table->round_map);
}

void ing_table_done(struct ing_table *table)
{
    for (uint32_t i = 0; i < table->n_groups; i++)
        free(table->groups[i]);
    for (uint32_t i = 0; i < table->n_rounds; i++)
        free(table->rounds[i]);
    free(table->groups);
    free(table->rounds);
    fg_map_done(&table->group_map);
    fg_map_done(&table->round_map);
}

/* Shards and windows are what strangers choose, so the hash has a part that they do not know. */
static uint64_t hash_group(const struct ing_head_group_key *key)
{
    return fg_mix64(fg_mix64((uint64_t)key->tenant << 32 | key->window) ^ key->shard ^
                    fg_hash_seed());
}

static uint64_t hash_round(const struct ing_head_group_key *key, uint32_t number)
{
    return fg_mix64(hash_group(key) + number);
}

static bool same_group(const struct ing_head_group_key *a, const struct ing_head_group_key *b)
{
    return a->tenant == b->tenant && a->shard == b->shard && a->window == b->window;
}

struct ing_table_group *ing_table_group(const struct ing_table *table,
                                        const struct ing_head_group_key *key)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&table->group_map, hash_group(key), &walk); i != FG_MAP_NONE;
         i = fg_map_next(&table->group_map, &walk))
        if (same_group(&table->groups[i]->key, key))
            return table->groups[i];
    return NULL;
}

/* Its place in the array, or FG_MAP_NONE. */
static uint32_t round_place(const struct ing_table *table, const struct ing_head_group_key *key,
                            uint32_t number)
{
    struct fg_map_walk walk;

    for (uint32_t i = fg_map_first(&table->round_map, hash_round(key, number), &walk);
         i != FG_MAP_NONE; i = fg_map_next(&table->round_map, &walk))
        if (table->rounds[i]->number == number && same_group(&table->rounds[i]->group, key))
            return i;
    return FG_MAP_NONE;
}

struct ing_segments_round *ing_table_round(const struct ing_table *table,
                                           const struct ing_head_group_key *key, uint32_t number)
{
    uint32_t place = round_place(table, key, number);

    return place == FG_MAP_NONE ? NULL : table->rounds[place];
}

/* A place behind the last element of an array of pointers. */
static void *grow(void *array, uint32_t count, uint32_t *cap)
{
    if (count < *cap)
        return array;
    *cap = FG_MAX(64, *cap * 2);
    return fg_realloc(array, *cap * sizeof(void *));
}

struct ing_table_group *ing_table_add_group(struct ing_table *table,
                                            const struct ing_head_group_key *key)
{
    struct ing_table_group *group = fg_new(struct ing_table_group);

    group->key = *key;
    table->groups = grow(table->groups, table->n_groups, &table->cap_groups);
    fg_map_add(&table->group_map, hash_group(key), table->n_groups);
    table->groups[table->n_groups++] = group;
    return group;
}

/* Into the sums (sign 1), or out of them. */
static void sum(struct ing_table *table, const struct ing_segments_round *round, int sign)
{
    uint64_t bytes = sign > 0 ? round->bytes : -round->bytes;

    table->by_state[round->state] += (uint32_t)sign;
    if (round->state == ROUND_OPEN)
        table->open_bytes += bytes;
    if (round->state == ROUND_OPEN && round->rank == 0)
        table->first_bytes += bytes;
    if (round->state == ROUND_SEALED)
        table->sealed_bytes += bytes;
    if (round->state == ROUND_ASIDE) {
        table->aside_bytes += bytes;
        table->aside_profiles += sign > 0 ? round->profiles : -round->profiles;
    }
    if (round->state == ROUND_UNCHECKED) {
        table->unchecked_bytes += bytes;
        table->unchecked_profiles += sign > 0 ? round->profiles : -round->profiles;
    }
}

struct ing_segments_round *ing_table_add_round(struct ing_table *table,
                                               struct ing_table_group *group,
                                               const struct ing_segments_round *round)
{
    struct ing_segments_round *copy = fg_new(struct ing_segments_round);

    *copy = *round;
    table->rounds = grow(table->rounds, table->n_rounds, &table->cap_rounds);
    fg_map_add(&table->round_map, hash_round(&copy->group, copy->number), table->n_rounds);
    table->rounds[table->n_rounds++] = copy;
    group->n_rounds++;
    group->next = FG_MAX(group->next, copy->number + 1);
    if (copy->state == ROUND_OPEN) {
        fg_assert(group->open == NULL);
        group->open = copy;
    }
    if (copy->state == ROUND_UNCHECKED)
        group->unchecked = copy;
    sum(table, copy, 1);
    return copy;
}

static void let_go(struct ing_table_group *group, const struct ing_segments_round *round)
{
    if (group->open == round)
        group->open = NULL;
    if (group->unchecked == round)
        group->unchecked = NULL;
}

void ing_table_set_state(struct ing_table *table, struct ing_segments_round *round,
                         enum ing_round_state state)
{
    static const unsigned moves[ROUND_STATES] = {
        [ROUND_OPEN] = 1 << ROUND_SEALED | 1 << ROUND_COMMITTED | 1 << ROUND_UNCHECKED,
        [ROUND_SEALED] = 1 << ROUND_COMMITTED | 1 << ROUND_ASIDE | 1 << ROUND_UNCHECKED,
        [ROUND_ASIDE] = 1 << ROUND_SEALED | 1 << ROUND_COMMITTED | 1 << ROUND_UNCHECKED,
        [ROUND_UNCHECKED] = 1 << ROUND_ASIDE | 1 << ROUND_COMMITTED,
    };
    struct ing_table_group *group = ing_table_group(table, &round->group);

    fg_assert((moves[round->state] >> state & 1) != 0);
    let_go(group, round);
    sum(table, round, -1);
    round->state = state;
    sum(table, round, 1);
    if (state == ROUND_UNCHECKED)
        group->unchecked = round;
}

void ing_table_set_rank(struct ing_table *table, struct ing_segments_round *round, uint8_t rank)
{
    sum(table, round, -1);
    round->rank = rank;
    sum(table, round, 1);
}

void ing_table_count(struct ing_table *table, struct ing_segments_round *round, int64_t profiles,
                     int64_t bytes)
{
    sum(table, round, -1);
    round->profiles += (uint64_t)profiles;
    round->bytes += (uint64_t)bytes;
    sum(table, round, 1);
}

static void rebuild_maps(struct ing_table *table)
{
    fg_map_clear(&table->group_map);
    fg_map_clear(&table->round_map);
    for (uint32_t i = 0; i < table->n_groups; i++)
        fg_map_add(&table->group_map, hash_group(&table->groups[i]->key), i);
    for (uint32_t i = 0; i < table->n_rounds; i++)
        fg_map_add(&table->round_map,
                   hash_round(&table->rounds[i]->group, table->rounds[i]->number), i);
}

/* Lets go of one; its place stays empty. */
static void drop(struct ing_table *table, struct ing_segments_round *round)
{
    struct ing_table_group *group = ing_table_group(table, &round->group);

    table->rounds[round_place(table, &round->group, round->number)] = NULL;
    let_go(group, round);
    group->n_rounds--;
    sum(table, round, -1);
}

void ing_table_remove(struct ing_table *table, struct ing_segments_round *const *rounds,
                      uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++)
        drop(table, rounds[i]);
    for (uint32_t i = 0; i < count; i++)
        free(rounds[i]);
    for (uint32_t i = 0; i < table->n_rounds; i++)
        if (table->rounds[i] != NULL)
            table->rounds[kept++] = table->rounds[i];
    table->n_rounds = kept;
    kept = 0;
    for (uint32_t i = 0; i < table->n_groups; i++) {
        if (table->groups[i]->n_rounds == 0)
            free(table->groups[i]);
        else
            table->groups[kept++] = table->groups[i];
    }
    table->n_groups = kept;
    rebuild_maps(table); /* they forget nothing by themselves */
}
