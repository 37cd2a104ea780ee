#include "common/storage/rollup/whole.h"

#include "common/storage/rollup/crown.h"

enum {
    /* So many samples for a node of the tree: names of nodes are most of what it costs, and take a
     * tenth of the time that writing so many samples does. 200 instances have 4.5 in ten minutes,
     * 20 have 1.6. */
    SAMPLES_A_NODE = 3,
    /* And so many: fewer are read as quickly as a crown. */
    SAMPLES_MIN = 100 * 1000,
    TYPES_MAX = 64,
    SUMS_MAX_BYTES = 64 * 1024 * 1024,
    ARENA_MAX_BYTES = 64 * 1024 * 1024, /* of groups and of what is kept for each series */
};

struct whole_series {
    uint32_t columns[FG_BATCH_TYPES_MAX]; /* into types */
    uint64_t count;
    struct fg_id digest;
};

struct fg_rollup_whole {
    struct fg_arena *arena;
    struct fg_block_writer *block;
    const struct fg_tree *tree;
    const struct fg_block_series *series;
    struct whole_series *of; /* [n_series] */
    uint32_t n_series;
    struct fg_profile_type types[TYPES_MAX];
    uint32_t n_types;
    struct fg_groups groups;
    struct fg_rollup_writer *writer; /* at the end */
    uint32_t n_ranks;
    uint64_t *sums; /* [n_types][n_ranks] */
    int64_t *named; /* [n_types][nodes of names]; at the end */
    int64_t t_min_ns, t_max_ns;
    uint64_t count;
};

/* ---- types ---- */

/* Returns false for too many types, or one that is twice in a series, of which only one would
 * count. */
static bool set_types(struct fg_rollup_whole *whole, uint32_t number)
{
    const struct fg_block_series *from = &whole->series[number];
    struct whole_series *series = &whole->of[number];

    for (uint32_t t = 0; t < from->n_types; t++) {
        struct fg_profile_type type = fg_block_series_type(from, t);
        uint32_t i = 0;

        while (i < whole->n_types && !fg_profile_type_eq(&whole->types[i], &type))
            i++;
        if (i == whole->n_types && i < TYPES_MAX)
            whole->types[whole->n_types++] = type;
        series->columns[t] = i;
        if (series->columns[t] == TYPES_MAX)
            return false;
        for (uint32_t k = 0; k < t; k++)
            if (series->columns[k] == series->columns[t])
                return false;
    }
    return true;
}

/* ---- create ---- */

static bool choose_groups(struct fg_rollup_whole *whole)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    struct fg_labels *labels = fg_arena_new(whole->arena, struct fg_labels, whole->n_series);
    struct fg_err err;

    if (labels == NULL)
        return false;
    for (uint32_t i = 0; i < whole->n_series; i++)
        labels[i] = whole->series[i].labels;
    return fg_groups_choose(labels, whole->n_series, wanted, FG_COUNT(wanted), whole->arena,
                            &whole->groups, &err) == FG_OK;
}

/* Returns false if the sums would need too much memory: then there is no rollup. */
static bool make_sums(struct fg_rollup_whole *whole)
{
    size_t count;

    whole->of = fg_arena_new(whole->arena, struct whole_series, whole->n_series);
    if (whole->of == NULL)
        return false;
    for (uint32_t i = 0; i < whole->n_series; i++)
        if (!set_types(whole, i))
            return false;
    if (!choose_groups(whole))
        return false;
    whole->n_ranks = fg_block_part_n_stacks(whole->block);
    count = (size_t)whole->n_types * whole->n_ranks;
    if (count * sizeof *whole->sums > SUMS_MAX_BYTES)
        return false;
    whole->sums = fg_calloc(count, sizeof *whole->sums);
    return true;
}

struct fg_rollup_whole *fg_rollup_whole_create(struct fg_block_writer *block,
                                               const struct fg_tree *tree, const uint32_t *uses,
                                               const struct fg_block_series *series,
                                               uint32_t n_series)
{
    struct fg_rollup_whole *whole;
    uint64_t samples = 0;

    for (uint32_t i = 0; i <= tree->n_nodes; i++)
        samples += uses[i];
    if (samples < SAMPLES_MIN || samples < (uint64_t)tree->n_nodes * SAMPLES_A_NODE)
        return NULL;
    whole = fg_new(struct fg_rollup_whole);
    whole->arena = fg_arena_create(ARENA_MAX_BYTES);
    whole->block = block;
    whole->tree = tree;
    whole->series = series;
    whole->n_series = n_series;
    if (make_sums(whole))
        return whole;
    fg_rollup_whole_destroy(whole);
    return NULL;
}

void fg_rollup_whole_destroy(struct fg_rollup_whole *whole)
{
    if (whole == NULL)
        return;
    fg_rollup_writer_destroy(whole->writer);
    free(whole->sums);
    free(whole->named);
    fg_arena_destroy(whole->arena);
    free(whole);
}

/* ---- sums ---- */

void fg_rollup_whole_add(struct fg_rollup_whole *whole, uint32_t series,
                         const struct fg_block_profile *profile)
{
    struct fg_block_added added;

    if (whole == NULL)
        return;
    added = fg_block_profile_added(whole->block);
    for (uint32_t t = 0; t < added.n_types; t++) {
        uint64_t *sums = whole->sums + (size_t)whole->of[series].columns[t] * whole->n_ranks;
        const uint64_t *values = added.values + (size_t)t * added.count;

        for (uint32_t i = 0; i < added.count; i++)
            fg_value_sum(&sums[added.ranks[i]], values[i]);
    }
    whole->of[series].count++;
    whole->of[series].digest = fg_id_add(whole->of[series].digest, profile->id);
    whole->t_min_ns =
        whole->count == 0 ? profile->time_ns : FG_MIN(whole->t_min_ns, profile->time_ns);
    whole->t_max_ns =
        whole->count == 0 ? profile->time_ns : FG_MAX(whole->t_max_ns, profile->time_ns);
    whole->count++;
}

/* ---- the rollup ---- */

/* Counts the profiles of series that have a value of the type, as in all rollups. */
static struct fg_rollup_value value_of(const struct fg_rollup_whole *whole, uint32_t type,
                                       const uint64_t *seen, uint64_t replaces_bytes)
{
    uint32_t n_names = fg_rollup_writer_functions(whole->writer)->n_nodes;
    struct fg_rollup_value value = {.type = type,
                                    .self = whole->named + (size_t)type * n_names,
                                    .replaces_bytes = replaces_bytes};

    for (uint32_t i = 0; i < whole->n_series; i++)
        for (uint32_t t = 0; t < whole->series[i].n_types; t++) {
            if (whole->of[i].columns[t] != type || (seen[i] >> t & 1) == 0)
                continue;
            value.count += whole->of[i].count;
            value.digest = fg_id_add(value.digest, whole->of[i].digest);
        }
    return value;
}

/* Turns sums of stacks into sums of names. */
static void name_sums(struct fg_rollup_whole *whole)
{
    const struct fg_function_tree *names = fg_rollup_writer_functions(whole->writer);
    uint32_t *stacks = fg_calloc(FG_MAX(whole->n_ranks, 1), sizeof *stacks);

    fg_block_part_stacks(whole->block, stacks);
    whole->named = fg_calloc((size_t)whole->n_types * names->n_nodes + 1, sizeof *whole->named);
    for (uint32_t r = 0; r < whole->n_ranks; r++) {
        uint32_t name = stacks[r] == 0 ? names->no_stack : names->nodes[stacks[r] - 1];

        for (uint32_t t = 0; t < whole->n_types; t++) {
            int64_t *sum = &whole->named[(size_t)t * names->n_nodes + name];

            *sum = fg_value_add(*sum, (int64_t)whole->sums[(size_t)t * whole->n_ranks + r]);
        }
    }
    free(stacks);
}

static enum fg_code add_rollup(struct fg_rollup_whole *whole, const uint64_t *seen,
                               uint64_t replaces_bytes, struct fg_err *err)
{
    const struct fg_rollup_key key = {
        .kind = FG_ROLLUP_ALL, .start_ns = whole->t_min_ns, .end_ns = whole->t_max_ns + 1};
    struct fg_rollup_value values[TYPES_MAX];
    uint32_t n = 0;

    for (uint32_t t = 0; t < whole->n_types; t++) {
        values[n] = value_of(whole, t, seen, replaces_bytes);
        n += values[n].count > 0;
    }
    return n == 0 ? FG_OK : fg_rollup_add(whole->writer, &key, values, n, err);
}

static enum fg_code write_rollup(struct fg_rollup_whole *whole, const uint64_t *seen,
                                 uint64_t bytes, struct fg_err *err)
{
    const struct fg_rollup_options options = {.tree = whole->tree,
                                              .groups = &whole->groups,
                                              .types = whole->types,
                                              .n_types = whole->n_types};

    if (fg_rollup_writer_create(&options, &whole->writer, err) != FG_OK)
        return err->code;
    name_sums(whole);
    if (add_rollup(whole, seen, bytes, err) != FG_OK)
        return err->code;
    return fg_rollup_write(whole->writer, whole->block, err);
}

enum fg_code fg_rollup_whole_write(struct fg_rollup_whole *whole, struct fg_err *err)
{
    uint64_t *seen, samples, bytes;
    enum fg_code code;

    if (whole == NULL || whole->t_max_ns == INT64_MAX) /* no time is behind it */
        return FG_OK;
    seen = fg_calloc(FG_MAX(whole->n_series, 1), sizeof *seen);
    code = fg_block_part_close(whole->block, seen, whole->n_series, &samples, &bytes, err);
    if (code == FG_OK) {
        code = write_rollup(whole, seen, bytes, err);
        code = code == FG_E_LIMIT ? FG_OK : code; /* more than a page can hold: it does without */
    }
    free(seen);
    return code;
}
