/* Makes rollups of a part of a block, over spans and keys drawn at random: answers must not depend
 * on which rollups exist. */
#include "tests/unit/querier/world.h"

#include <stdlib.h>

enum { TYPES_MAX = 8, PART_SERIES_MAX = 16, REPLACES_BYTES = 1 << 24 };

/* The profiles of a part, in order. */
struct merging {
    struct world *world;
    struct world_profile **profiles;
    uint32_t n;
    uint32_t series[PART_SERIES_MAX]; /* of the world, by number in the part */
    uint32_t n_series;
    struct fg_groups groups;
    struct fg_profile_type types[TYPES_MAX];
    uint32_t n_types;
    uint32_t *ranks; /* stack of each */
    uint32_t n_ranks;
    struct fg_rollup_writer *writer;
};

static void find_series(struct merging *merging)
{
    for (uint32_t i = 0; i < merging->n; i++) {
        uint32_t series = merging->profiles[i]->series;

        if (merging->n_series == 0 || merging->series[merging->n_series - 1] != series)
            merging->series[merging->n_series++] = series;
        fg_assert(merging->n_series < PART_SERIES_MAX);
    }
}

static struct fg_profile_type type_of(const struct world *world, uint32_t series, uint32_t t)
{
    struct fg_profile_type type = {0};
    struct fg_err err;

    fg_assert(fg_profile_type_parse(
                  fg_labels_get(&world->series[series].by_type[t], FG_LABEL_PROFILE_TYPE), &type,
                  &err) == FG_OK);
    return type;
}

static bool has_type(const struct world *world, uint32_t series, uint32_t t)
{
    return t < WORLD_TYPES_MAX && world->series[series].by_type[t].items != NULL;
}

static void add_type(struct merging *merging, const struct fg_profile_type *type)
{
    for (uint32_t i = 0; i < merging->n_types; i++)
        if (fg_profile_type_eq(&merging->types[i], type))
            return;
    fg_assert(merging->n_types < TYPES_MAX);
    merging->types[merging->n_types++] = *type;
}

static void find_types(struct merging *merging)
{
    for (uint32_t s = 0; s < merging->n_series; s++)
        for (uint32_t t = 0; has_type(merging->world, merging->series[s], t); t++) {
            struct fg_profile_type type = type_of(merging->world, merging->series[s], t);

            add_type(merging, &type);
        }
}

static void find_groups(struct merging *merging, struct fg_arena *arena)
{
    static const struct fg_slice wanted[] = {FG_LIT("zone")};
    struct fg_labels labels[PART_SERIES_MAX];
    struct fg_err err;

    for (uint32_t i = 0; i < merging->n_series; i++)
        labels[i] = merging->world->series[merging->series[i]].labels;
    fg_assert(fg_groups_choose(labels, merging->n_series, wanted, FG_COUNT(wanted), arena,
                               &merging->groups, &err) == FG_OK);
}

static bool in_key(const struct merging *merging, const struct fg_rollup_key *key,
                   const struct world_profile *profile)
{
    uint32_t number = 0;

    while (merging->series[number] != profile->series)
        number++;
    return profile->time_ns >= key->start_ns && profile->time_ns < key->end_ns &&
           (key->kind == FG_ROLLUP_ALL ||
            (key->kind == FG_ROLLUP_GROUP && merging->groups.of_series[number] == key->number) ||
            (key->kind == FG_ROLLUP_SERIES && number == key->number));
}

static void sum_profile(const struct merging *merging, const struct world_profile *profile,
                        uint32_t type, struct fg_rollup_value *value, uint64_t *sums)
{
    for (uint32_t t = 0; has_type(merging->world, profile->series, t); t++) {
        struct fg_profile_type its = type_of(merging->world, profile->series, t);

        if (!fg_profile_type_eq(&its, &merging->types[type]))
            continue;
        value->count++;
        value->digest = fg_id_add(value->digest, profile->id);
        for (uint32_t i = 0; i < profile->n_samples; i++)
            sums[profile->samples[i].stack] += profile->samples[i].values[t];
    }
}

/* Turns sums by stack into sums by function and by rank. */
static void give_sums(const struct merging *merging, const uint64_t *sums,
                      struct fg_rollup_value *value, struct fg_arena *arena)
{
    const struct fg_function_tree *names = fg_rollup_writer_functions(merging->writer);
    int64_t *self = fg_arena_new(arena, int64_t, names->n_nodes);
    uint64_t *full = fg_arena_new(arena, uint64_t, merging->n_ranks);

    for (uint32_t i = 0; i < merging->world->tree.n_nodes; i++)
        self[names->nodes[i]] += (int64_t)sums[i + 1];
    self[names->no_stack] += (int64_t)sums[0];
    for (uint32_t i = 0; i < merging->n_ranks; i++)
        full[i] = sums[merging->ranks[i]];
    value->self = self;
    value->full = merging->n_ranks == 0 ? NULL : full;
}

static void add_key(const struct merging *merging, const struct fg_rollup_key *key)
{
    struct fg_arena *arena = fg_arena_create(SIZE_MAX);
    struct fg_rollup_value values[TYPES_MAX];
    struct fg_err err;

    for (uint32_t type = 0; type < merging->n_types; type++) {
        uint64_t *sums = fg_arena_new(arena, uint64_t, (size_t)merging->world->tree.n_nodes + 1);

        values[type] = (struct fg_rollup_value){.type = type, .replaces_bytes = REPLACES_BYTES};
        for (uint32_t i = 0; i < merging->n; i++)
            if (in_key(merging, key, merging->profiles[i]))
                sum_profile(merging, merging->profiles[i], type, &values[type], sums);
        give_sums(merging, sums, &values[type], arena);
    }
    fg_assert(fg_rollup_add(merging->writer, key, values, merging->n_types, &err) == FG_OK);
    fg_arena_destroy(arena);
}

static bool chance(struct world *world)
{
    return world_random(world, 1000) < world->rollups_permille;
}

static void add_span(struct merging *merging, int64_t start_ns, int64_t end_ns)
{
    struct fg_rollup_key key = {FG_ROLLUP_ALL, 0, start_ns, end_ns};

    if (chance(merging->world))
        add_key(merging, &key);
    key.kind = FG_ROLLUP_GROUP;
    for (key.number = 0; key.number < merging->groups.n_groups; key.number++)
        if (chance(merging->world))
            add_key(merging, &key);
    key.kind = FG_ROLLUP_SERIES;
    for (key.number = 0; key.number < merging->n_series; key.number++)
        if (chance(merging->world))
            add_key(merging, &key);
}

/* Spans: the whole time, its halves and its tenths. */
static void add_spans(struct merging *merging)
{
    static const int64_t parts[] = {1, 2, 10};
    const struct world *world = merging->world;

    for (size_t i = 0; i < FG_COUNT(parts); i++)
        for (int64_t k = 0; k < parts[i]; k++) {
            int64_t step_ns = FG_HOUR_NS / parts[i];
            bool last = k + 1 == parts[i];

            add_span(merging, world->start_ns + k * step_ns,
                     last ? world->end_ns + 1 : world->start_ns + (k + 1) * step_ns);
        }
}

/* Makes a group of each series. Rollups of some of them may be missing, and all of them may be more
 * than there may be bytes. */
static struct fg_rollup_writer *add_single(struct merging *merging,
                                           struct fg_rollup_options options,
                                           struct fg_block_writer *block, struct fg_arena *arena)
{
    const struct world *world = merging->world;
    struct fg_rollup_key key = {FG_ROLLUP_GROUP, 0, world->start_ns, world->end_ns + 1};
    struct fg_groups *groups = fg_arena_new(arena, struct fg_groups, 1);
    struct fg_labels labels[PART_SERIES_MAX];
    uint64_t max_bytes =
        world_random(merging->world, 1000) < world->rollups_permille ? SIZE_MAX : 0;
    struct fg_err err;

    for (uint32_t i = 0; i < merging->n_series; i++)
        labels[i] = world->series[merging->series[i]].labels;
    fg_assert(fg_groups_single(labels, merging->n_series, NULL, 0, arena, groups, &err) == FG_OK);
    fg_assert(groups->n_groups > 0);
    merging->groups = *groups;
    groups->n_series = 0;
    options.groups = groups;
    options.single = true;
    fg_assert(fg_rollup_writer_create(&options, &merging->writer, &err) == FG_OK);
    for (; key.number < groups->n_groups; key.number++)
        if (chance(merging->world))
            add_key(merging, &key);
    if (fg_rollup_write_single(merging->writer, max_bytes, block, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    return merging->writer;
}

struct world_rollup_writers world_rollups(struct world *world, struct world_profile **profiles,
                                          uint32_t n, struct fg_block_writer *block,
                                          const struct fg_id *derived_from, uint32_t n_derived_from,
                                          struct fg_arena *arena)
{
    struct merging merging = {.world = world, .profiles = profiles, .n = n};
    struct world_rollup_writers writers = {NULL, NULL};
    struct fg_groups *groups = fg_arena_new(arena, struct fg_groups, 1);
    struct fg_rollup_options options = {
        .tree = &world->tree,
        .groups = groups,
        .types = merging.types,
        .derived_from = derived_from,
        .n_derived_from = n_derived_from,
        .named = derived_from == NULL && world_random(world, 2) == 0,
        .crown_nodes = world_random(world, 3) > 0 ? 0 : 1 + (uint32_t)world_random(world, 40),
    };
    struct fg_err err;

    if (derived_from == NULL && world_random(world, 2) == 0) {
        merging.n_ranks = options.n_ranks = fg_block_part_n_stacks(block);
        merging.ranks = fg_arena_new(arena, uint32_t, merging.n_ranks);
        fg_block_part_stacks(block, merging.ranks);
    }
    find_series(&merging);
    find_types(&merging);
    find_groups(&merging, arena);
    *groups = merging.groups;
    options.n_types = merging.n_types;
    fg_assert(fg_rollup_writer_create(&options, &merging.writer, &err) == FG_OK);
    add_spans(&merging);
    if (fg_rollup_write(merging.writer, block, &err) != FG_OK)
        fg_assert_failed(err.msg, __FILE__, __LINE__);
    writers.all = merging.writer;
    if (derived_from != NULL && chance(world))
        writers.single = add_single(&merging, options, block, arena);
    return writers;
}
