#include "compactor/merge/merge_parent.h"

#include "common/base/time.h"

#include <stdlib.h>

enum {
    TYPES_MAX = 256, /* of a service: more are left out */
    SHARE_SCRATCH = 2,
    SINGLE_PASSES_MAX = 8, /* over the blocks, for sums of single series */
};

/* The profiles that a column sums up, and the bytes that reading them would take. */
struct parent_counted {
    uint64_t profiles;
    struct fg_id digest;
    uint64_t bytes;
};

struct summing {
    const struct cmp_merge_parent *parent;
    struct fg_block_writer *block;
    struct fg_arena *scratch; /* of one part */
    struct fg_tree named;     /* names of all stacks */
    struct fg_rollup_writer *writers[MERGE_DIVISIONS];
    struct fg_groups groups[MERGE_DIVISIONS]; /* as the part says them: without series */
    bool left_out;

    /* The division at hand. */
    enum cmp_merge_division division;
    struct fg_rollup_writer *writer;
    const struct fg_function_tree *names;

    struct fg_profile_type types[TYPES_MAX];
    uint32_t n_types;
    bool done[TYPES_MAX];

    /* Types at hand. */
    uint32_t columns[TYPES_MAX], n_columns;
    uint32_t first_group, n_groups;  /* that are summed at once */
    size_t stride;                   /* nodes of names */
    int64_t *sums;                   /* [group][column][stride] */
    struct parent_counted *counteds; /* [group][column] */
    int64_t start_ns, end_ns;        /* the span at hand */

    /* The part at hand: of a rank the node of names. */
    const struct cmp_merge_parent_part *part;
    struct fg_block_tree tree;
    uint32_t *name_of;
};

/* ---- groups ---- */

static int compare_labels(const void *left, const void *right)
{
    return fg_labels_cmp(left, right);
}

/* Lists the label sets of all parts, sorted, each once. */
static struct fg_labels *all_labels(const struct cmp_merge_parent *parent, uint32_t *ret_count)
{
    struct fg_labels *labels;
    size_t count = 0, kept = 0;

    for (uint32_t i = 0; i < parent->n_parts; i++)
        count += parent->parts[i].part.index.n_series;
    labels = count > UINT32_MAX ? NULL : fg_arena_new(parent->arena, struct fg_labels, count);
    if (labels == NULL)
        return NULL;
    count = 0;
    for (uint32_t i = 0; i < parent->n_parts; i++)
        for (uint32_t s = 0; s < parent->parts[i].part.index.n_series; s++)
            labels[count++] = parent->parts[i].part.index.series[s].labels;
    if (count > 1)
        qsort(labels, count, sizeof *labels, compare_labels);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || fg_labels_cmp(&labels[kept - 1], &labels[i]) != 0)
            labels[kept++] = labels[i];
    *ret_count = (uint32_t)kept;
    return labels;
}

static bool group_series(const struct cmp_merge_parent *parent, enum cmp_merge_division division,
                         const struct fg_labels *labels, uint32_t count,
                         struct cmp_merge_parent_part *part)
{
    const struct fg_block_index *index = &part->part.index;

    part->groups[division] = fg_arena_new(parent->arena, uint32_t, index->n_series);
    if (part->groups[division] == NULL)
        return false;
    for (uint32_t s = 0; s < index->n_series; s++) {
        const struct fg_labels *found =
            bsearch(&index->series[s].labels, labels, count, sizeof *labels, compare_labels);

        fg_assert(found != NULL); /* all_labels() has those of all parts */
        part->groups[division][s] = parent->groups[division].of_series[found - labels];
    }
    return true;
}

/* ---- can the rollups of a part be added up? ---- */

static uint32_t n_groups_of(const struct fg_rollups *rollups)
{
    return FG_MAX(rollups->groups.n_groups, 1);
}

/* Finds the row of a group over the whole part, including profiles that begin before the block's
 * span. NULL: there is none. */
static const struct fg_rollup_row *find_row(const struct cmp_merge_parent_part *part,
                                            const struct fg_profile_type *type, uint32_t group)
{
    const struct fg_rollups *rollups = &part->rollups;
    bool all = n_groups_of(rollups) == 1;

    for (uint32_t i = 0; i < rollups->n_rows; i++) {
        const struct fg_rollup_row *row = &rollups->rows[i];

        if (row->key.kind == (all ? FG_ROLLUP_ALL : FG_ROLLUP_GROUP) && row->key.number == group &&
            row->key.start_ns <= part->part.part->t_min_ns &&
            row->key.end_ns > part->part.part->t_max_ns &&
            fg_profile_type_eq(&rollups->types[row->type], type))
            return row;
    }
    return NULL;
}

static bool has_series_type(const struct fg_block_series_row *series,
                            const struct fg_profile_type *type)
{
    for (uint32_t t = 0; t < series->schema->n_types; t++) {
        struct fg_profile_type has = fg_block_profile_type(series, t);

        if ((series->seen >> t & 1) != 0 && fg_profile_type_eq(&has, type))
            return true;
    }
    return false;
}

/* Counts the group's profiles of the type, according to its series. */
static uint64_t profiles_of(const struct cmp_merge_parent_part *part,
                            const struct fg_profile_type *type, uint32_t group)
{
    const struct fg_block_index *index = &part->part.index;
    uint64_t count = 0;

    for (uint32_t s = 0; s < index->n_series; s++)
        if (part->rollups.groups.of_series[s] == group && has_series_type(&index->series[s], type))
            count += index->series[s].n_profiles;
    return count;
}

/* True if each type of the group has a full rollup. Crowns cannot be added up exactly: they
 * leave out light nodes. */
static bool has_full_rollups(const struct cmp_merge_parent_part *part, uint32_t group)
{
    const struct fg_block_index *index = &part->part.index;

    for (uint32_t s = 0; s < index->n_series; s++) {
        const struct fg_block_series_row *series = &index->series[s];

        for (uint32_t t = 0;
             part->rollups.groups.of_series[s] == group && t < series->schema->n_types; t++) {
            struct fg_profile_type type = fg_block_profile_type(series, t);
            const struct fg_rollup_row *row;

            if ((series->seen >> t & 1) == 0)
                continue;
            row = find_row(part, &type, group);
            if (row == NULL || row->places[FG_ROLLUP_FULL].bytes == 0)
                return false;
        }
    }
    return true;
}

/* Returns the group of the span that has all series of a part's group. FG_MAP_NONE: they are in
 * several, since groups are chosen by what the whole span has. */
static uint32_t new_group(const struct cmp_merge_parent_part *part,
                          enum cmp_merge_division division, uint32_t group)
{
    const uint32_t *groups = part->groups[division];
    uint32_t found = FG_MAP_NONE;

    for (uint32_t s = 0; s < part->part.index.n_series; s++) {
        if (part->rollups.groups.of_series[s] != group)
            continue;
        if (found != FG_MAP_NONE && found != groups[s])
            return FG_MAP_NONE;
        found = groups[s];
    }
    return found;
}

static bool rollups_serve(const struct cmp_merge_parent_part *part,
                          enum cmp_merge_division division)
{
    if (part->rollups.n_rows == 0 || part->rollups.groups.n_series != part->part.index.n_series)
        return false;
    for (uint32_t g = 0; g < n_groups_of(&part->rollups); g++)
        if (new_group(part, division, g) == FG_MAP_NONE || !has_full_rollups(part, g))
            return false;
    return true;
}

static enum fg_code divide(struct cmp_merge_parent *parent, enum cmp_merge_division division,
                           const struct fg_labels *labels, uint32_t count, struct fg_err *err)
{
    for (uint32_t i = 0; i < parent->n_parts; i++) {
        struct cmp_merge_parent_part *part = &parent->parts[i];

        if (!group_series(parent, division, labels, count, part))
            return fg_fail(err, FG_E_LIMIT, "no room for the series of a span");
        part->raw[division] = !rollups_serve(part, division);
    }
    return FG_OK;
}

/* Keeps sums of single series only if there are more series than groups. */
static enum fg_code divide_single(struct cmp_merge_parent *parent, const struct fg_labels *labels,
                                  uint32_t count, struct fg_err *err)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    struct fg_groups *groups = &parent->groups[MERGE_SINGLE];

    if (parent->rollup_only)
        return FG_OK;
    if (fg_groups_single(labels, count, wanted, FG_COUNT(wanted), parent->arena, groups, err) !=
        FG_OK)
        return err->code;
    if (groups->n_groups <= FG_MAX(parent->groups[MERGE_GROUPS].n_groups, 1))
        groups->n_groups = 0;
    return groups->n_groups == 0 || parent->only_list_single
               ? FG_OK
               : divide(parent, MERGE_SINGLE, labels, count, err);
}

enum fg_code cmp_merge_parent_plan(struct cmp_merge_parent *parent, struct fg_err *err)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    uint32_t count = 0;
    struct fg_labels *labels = all_labels(parent, &count);

    if (labels == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for the series of a span");
    if (fg_groups_choose(labels, count, wanted, FG_COUNT(wanted), parent->arena,
                         &parent->groups[MERGE_GROUPS], err) != FG_OK ||
        divide(parent, MERGE_GROUPS, labels, count, err) != FG_OK)
        return err->code;
    return divide_single(parent, labels, count, err);
}

/* ---- names ---- */

/* Parses the tree of the part and names its stacks; *ret_nodes and *ret_no_stack as
 * fg_tree_name_all() returns them. */
static enum fg_code name_part(struct summing *summing, const struct cmp_merge_parent_part *part,
                              uint32_t **ret_nodes, uint32_t *ret_no_stack, struct fg_err *err)
{
    const struct cmp_merge_part *of = &part->part;
    struct fg_block_range range = fg_block_part_range(of->part, FG_BLOCK_WANT_TREE);
    uint32_t *nodes;

    fg_arena_reset(summing->scratch);
    if (fg_block_tree_parse(&of->index, cmp_merge_part_range(of, range), summing->scratch,
                            &summing->tree, err) != FG_OK)
        return cmp_merge_part_wrap(of, err);
    nodes = fg_arena_new(summing->scratch, uint32_t, summing->tree.tree.n_nodes);
    if (nodes == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for the names of %u nodes",
                       summing->tree.tree.n_nodes);
    fg_tree_name_all(&summing->tree.tree, &summing->named, nodes, ret_no_stack);
    if (fg_tree_bytes(&summing->named) > summing->parent->max_bytes)
        return fg_fail(err, FG_E_LIMIT, "names of more than %zu bytes", summing->parent->max_bytes);
    *ret_nodes = nodes;
    return FG_OK;
}

static enum fg_code open_part(struct summing *summing, const struct cmp_merge_parent_part *part,
                              struct fg_err *err)
{
    uint32_t *nodes = NULL, no_stack = FG_TREE_ROOT;

    if (name_part(summing, part, &nodes, &no_stack, err) != FG_OK)
        return err->code;
    fg_assert(nodes != NULL);
    summing->part = part;
    summing->name_of = fg_arena_new(summing->scratch, uint32_t, summing->tree.n_stacks);
    if (summing->name_of == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u stacks", summing->tree.n_stacks);
    for (uint32_t r = 0; r < summing->tree.n_stacks; r++) {
        uint32_t stack = summing->tree.nodes[r];

        summing->name_of[r] = summing->names->nodes[stack == 0 ? no_stack : nodes[stack - 1]];
    }
    return FG_OK;
}

/* ---- types ---- */

static void add_type(struct summing *summing, const struct fg_profile_type *type)
{
    for (uint32_t i = 0; i < summing->n_types; i++)
        if (fg_profile_type_eq(&summing->types[i], type))
            return;
    if (summing->n_types == TYPES_MAX)
        summing->left_out = true;
    else
        summing->types[summing->n_types++] = *type;
}

static void find_types(struct summing *summing)
{
    for (uint32_t i = 0; i < summing->parent->n_parts; i++) {
        const struct fg_block_index *index = &summing->parent->parts[i].part.index;

        for (uint32_t s = 0; s < index->n_series; s++)
            for (uint32_t t = 0; t < index->series[s].schema->n_types; t++) {
                struct fg_profile_type type = fg_block_profile_type(&index->series[s], t);

                if ((index->series[s].seen >> t & 1) != 0)
                    add_type(summing, &type);
            }
    }
}

/* FG_MAP_NONE: not at hand. */
static uint32_t column_of(const struct summing *summing, const struct fg_profile_type *type)
{
    for (uint32_t c = 0; c < summing->n_columns; c++)
        if (fg_profile_type_eq(&summing->types[summing->columns[c]], type))
            return c;
    return FG_MAP_NONE;
}

/* Chooses types that profiles have together: one may be a multiple of another, which the rollup
 * stores as a factor. */
static bool next_columns(struct summing *summing)
{
    const struct fg_profile_type *first = NULL;

    summing->n_columns = 0;
    for (uint32_t i = 0; i < summing->n_types; i++) {
        const struct fg_profile_type *type = &summing->types[i];

        if (summing->done[i] ||
            (first != NULL && !(fg_slice_eq(type->name, first->name) &&
                                fg_slice_eq(type->period_type, first->period_type) &&
                                fg_slice_eq(type->period_unit, first->period_unit))))
            continue;
        first = type;
        summing->done[i] = true;
        summing->columns[summing->n_columns++] = i;
    }
    return first != NULL;
}

/* ---- sums ---- */

static int64_t *sums_of(const struct summing *summing, uint32_t group, uint32_t column)
{
    return summing->sums + ((size_t)group * summing->n_columns + column) * summing->stride;
}

/* If there was no room for groups, the sums of all are in the first place. FG_MAP_NONE: the single
 * series is not summed in this pass. */
static uint32_t place_of(const struct summing *summing, uint32_t group)
{
    if (summing->division == MERGE_GROUPS)
        return summing->n_groups == 1 ? 0 : group;
    return group >= summing->first_group && group - summing->first_group < summing->n_groups
               ? group - summing->first_group
               : FG_MAP_NONE;
}

static uint64_t sample_bytes(const struct cmp_merge_part *part)
{
    const struct fg_block_pages *pages = &part->index.pages[FG_BLOCK_SMP];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < pages->count; i++)
        bytes += pages->pages[i].bytes;
    return bytes;
}

/* What a query for profiles reads of the part's stacks. */
static uint64_t stack_bytes(const struct cmp_merge_part *part)
{
    uint64_t bytes = fg_block_part_range(part->part, FG_BLOCK_WANT_FUNCTION_TREE).len;

    return bytes > 0 ? bytes : fg_block_part_range(part->part, FG_BLOCK_WANT_TREE).len;
}

static void count_profiles(const struct summing *summing, uint32_t group, uint32_t column,
                           uint64_t profiles, struct fg_id digest)
{
    const struct cmp_merge_part *part = &summing->part->part;
    struct parent_counted *counted = &summing->counteds[group * summing->n_columns + column];

    counted->profiles += profiles;
    counted->digest = fg_id_add(counted->digest, digest);
    counted->bytes +=
        (uint64_t)((double)sample_bytes(part) * (double)profiles / (double)part->part->n_profiles);
    /* However few profiles a query reads of a single series, it reads all stacks. */
    if (summing->division == MERGE_SINGLE)
        counted->bytes += stack_bytes(part);
}

/* ---- from full rollups ---- */

static enum fg_code add_full(struct summing *summing, const struct fg_rollup_row *row,
                             uint32_t group, uint32_t column, struct fg_err *err)
{
    const struct cmp_merge_parent_part *part = summing->part;
    struct fg_arena_mark mark = fg_arena_mark(summing->scratch);
    uint32_t n_stacks = summing->tree.n_stacks;
    uint64_t *full = fg_arena_new(summing->scratch, uint64_t, n_stacks);
    int64_t *sums = sums_of(summing, group, column), total = 0;
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_FULL];
    struct fg_block_range range = {fg_rollup_ranges(part->part.part).ful.offset + place->offset,
                                   place->bytes};
    enum fg_code code;

    if (full == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u stacks", n_stacks);
    code = fg_rollup_full_add(row, cmp_merge_part_range(&part->part, range), 1, summing->scratch,
                              full, n_stacks, err);
    for (uint32_t r = 0; code == FG_OK && r < n_stacks; r++) {
        uint32_t name = summing->name_of[r];

        sums[name] = fg_value_add(sums[name], (int64_t)full[r]);
        total = fg_value_add(total, (int64_t)full[r]);
    }
    fg_arena_release(summing->scratch, mark);
    /* Checksums find damaged bytes; this finds a full rollup and a row that do not belong
     * together. */
    if (code == FG_OK && total != row->total && part->rollups.version == FG_ROLLUP_VERSION)
        code = fg_fail(err, FG_E_CORRUPT, "a full rollup adds up to %lld, not %lld",
                       (long long)total, (long long)row->total);
    return code;
}

static enum fg_code add_rollups(struct summing *summing, struct fg_err *err)
{
    const struct cmp_merge_parent_part *part = summing->part;

    for (uint32_t g = 0; g < n_groups_of(&part->rollups); g++)
        for (uint32_t c = 0; c < summing->n_columns; c++) {
            const struct fg_profile_type *type = &summing->types[summing->columns[c]];
            uint64_t profiles = profiles_of(part, type, g);
            uint32_t group = place_of(summing, new_group(part, summing->division, g));
            const struct fg_rollup_row *row;

            if (profiles == 0 || group == FG_MAP_NONE)
                continue;
            row = find_row(part, type, g);
            fg_assert(row != NULL && group < summing->n_groups); /* rollups_serve() */
            /* The parent would be wrong for ever: its blocks may be dropped after it was built. */
            if (row->count != profiles)
                return fg_fail(err, FG_E_CORRUPT, "a rollup of %llu profiles, its series have %llu",
                               (unsigned long long)row->count, (unsigned long long)profiles);
            if (add_full(summing, row, group, c, err) != FG_OK)
                return err->code;
            count_profiles(summing, group, c, row->count, row->digest);
        }
    return FG_OK;
}

/* ---- from profiles ---- */

struct parent_reading {
    struct summing *summing;
    struct fg_block_samples *samples;
    struct fg_id *digests; /* [n_series]: of its profiles */
};

static enum fg_code add_ids(void *arg, const struct cmp_merge_rows *rows, struct fg_err *err)
{
    struct parent_reading *reading = arg;

    (void)err;
    for (uint32_t i = 0; i < rows->rows.count; i++) {
        struct fg_id *digest = &reading->digests[rows->rows.series[i]];

        *digest = fg_id_add(*digest, rows->ids[i]);
    }
    return FG_OK;
}

/* Finds the column of each type of a series. If a type is there twice, only the first one
 * counts. */
static bool columns_of(const struct summing *summing, const struct fg_block_series_row *series,
                       uint32_t columns[FG_BATCH_TYPES_MAX])
{
    bool any = false;

    for (uint32_t t = 0; t < series->schema->n_types; t++) {
        struct fg_profile_type type = fg_block_profile_type(series, t);

        columns[t] = (series->seen >> t & 1) != 0 ? column_of(summing, &type) : FG_MAP_NONE;
        for (uint32_t k = 0; k < t; k++)
            if (columns[k] == columns[t])
                columns[t] = FG_MAP_NONE;
        any = any || columns[t] != FG_MAP_NONE;
    }
    return any;
}

static void add_set(const struct summing *summing, const struct fg_block_sample_set *set,
                    const uint32_t *columns, uint32_t group)
{
    for (uint32_t t = 0; t < set->n_types; t++) {
        const uint64_t *values = set->values + (size_t)t * set->count;
        int64_t *sums;

        if (columns[t] == FG_MAP_NONE)
            continue;
        sums = sums_of(summing, group, columns[t]);
        for (uint32_t i = 0; i < set->count; i++) {
            uint32_t name = summing->name_of[set->ranks[i]];

            sums[name] = fg_value_add(sums[name], (int64_t)values[i]);
        }
    }
}

static enum fg_code add_profile(struct parent_reading *reading, uint32_t profile, uint32_t *page,
                                const uint32_t *columns, uint32_t group, struct fg_err *err)
{
    const struct cmp_merge_part *part = &reading->summing->part->part;
    uint32_t wanted = cmp_merge_part_page_of(part, FG_BLOCK_SMP, profile);
    struct fg_block_sample_set set;

    if (*page != wanted &&
        fg_block_samples_open(reading->samples, &part->index, wanted,
                              cmp_merge_part_page(part, FG_BLOCK_SMP, wanted), err) != FG_OK)
        return err->code;
    *page = wanted;
    if (fg_block_samples_read(reading->samples, profile, &set, err) != FG_OK)
        return err->code;
    add_set(reading->summing, &set, columns, group);
    return FG_OK;
}

static enum fg_code add_all(struct parent_reading *reading, struct fg_err *err)
{
    struct summing *summing = reading->summing;
    const struct fg_block_index *index = &summing->part->part.index;
    uint32_t columns[FG_BATCH_TYPES_MAX] = {0}, page = FG_MAP_NONE;

    for (uint32_t s = 0; s < index->n_series; s++) {
        const struct fg_block_series_row *series = &index->series[s];
        uint32_t group = place_of(summing, summing->part->groups[summing->division][s]);

        if (group == FG_MAP_NONE || !columns_of(summing, series, columns))
            continue;
        for (uint32_t t = 0; t < series->schema->n_types; t++)
            if (columns[t] != FG_MAP_NONE)
                count_profiles(summing, group, columns[t], series->n_profiles, reading->digests[s]);
    }
    for (uint32_t r = 0; r < index->n_chunks; r++) {
        const struct fg_block_chunk *run = &index->chunks[r];
        uint32_t group = place_of(summing, summing->part->groups[summing->division][run->series]);

        if (group == FG_MAP_NONE || !columns_of(summing, &index->series[run->series], columns))
            continue;
        for (uint32_t i = 0; i < run->count; i++)
            if (add_profile(reading, run->first + i, &page, columns, group, err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code add_raw(struct summing *summing, struct fg_err *err)
{
    const struct cmp_merge_part *part = &summing->part->part;
    fg_auto(fg_block_samples) *samples = fg_block_samples_create(summing->parent->max_bytes);
    fg_auto(fg_arena) *arena = fg_arena_create(summing->parent->max_bytes);
    struct parent_reading reading = {.summing = summing, .samples = samples};
    const struct cmp_merge_scan scan = {
        .start_ns = INT64_MIN, .end_ns = INT64_MAX, .ids = true, .each = add_ids, .arg = &reading};

    reading.digests = fg_arena_new(summing->scratch, struct fg_id, part->index.n_series);
    if (reading.digests == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u series", part->index.n_series);
    if (cmp_merge_part_scan(part, &scan, arena, err) != FG_OK)
        return err->code;
    return add_all(&reading, err);
}

/* ---- rows ---- */

/* bytes: by column; NULL: those that reading the group's profiles would take. */
static enum fg_code add_row(struct summing *summing, enum fg_rollup_kind kind, uint32_t group,
                            const uint64_t *bytes, struct fg_err *err)
{
    const struct fg_rollup_key key = {kind,
                                      kind == FG_ROLLUP_ALL ? 0 : summing->first_group + group,
                                      summing->start_ns, summing->end_ns};
    struct fg_rollup_value values[TYPES_MAX];

    for (uint32_t c = 0; c < summing->n_columns; c++) {
        const struct parent_counted *counted = &summing->counteds[group * summing->n_columns + c];

        values[c] =
            (struct fg_rollup_value){.type = summing->columns[c],
                                     .self = sums_of(summing, group, c),
                                     .count = counted->profiles,
                                     .digest = counted->digest,
                                     .replaces_bytes = bytes == NULL ? counted->bytes : bytes[c]};
    }
    return fg_rollup_add(summing->writer, &key, values, summing->n_columns, err);
}

/* Adds all groups up, in the place of the first group. */
static void unite_groups(struct summing *summing)
{
    size_t count = summing->n_columns * summing->stride;

    for (uint32_t g = 1; g < summing->n_groups; g++) {
        const int64_t *from = sums_of(summing, g, 0);

        for (size_t i = 0; i < count; i++)
            summing->sums[i] = fg_value_add(summing->sums[i], from[i]);
        for (uint32_t c = 0; c < summing->n_columns; c++) {
            const struct parent_counted *more = &summing->counteds[g * summing->n_columns + c];
            struct parent_counted *all = &summing->counteds[c];

            all->profiles += more->profiles;
            all->digest = fg_id_add(all->digest, more->digest);
        }
    }
}

static enum fg_code add_rows(struct summing *summing, struct fg_err *err)
{
    uint64_t bytes[TYPES_MAX] = {0};

    if (summing->division == MERGE_SINGLE) {
        for (uint32_t g = 0; g < summing->n_groups; g++)
            if (add_row(summing, FG_ROLLUP_GROUP, g, NULL, err) != FG_OK)
                return err->code;
        return FG_OK;
    }
    /* Estimates the bytes that a query reads without these rollups. If a group is missing in the
     * parent rollup, each filter that matches the group reads the blocks instead, whatever the
     * size of the group; so each group counts as much as all of them. */
    for (uint32_t g = 0; g < summing->n_groups; g++)
        for (uint32_t c = 0; c < summing->n_columns; c++)
            bytes[c] += summing->counteds[g * summing->n_columns + c].bytes;
    for (uint32_t g = 0; g < summing->n_groups && summing->n_groups > 1; g++)
        if (add_row(summing, FG_ROLLUP_GROUP, g, bytes, err) != FG_OK)
            return err->code;
    unite_groups(summing);
    return add_row(summing, FG_ROLLUP_ALL, 0, bytes, err);
}

/* Sums the parts that lie in the span at hand. */
static enum fg_code sum_parts(struct summing *summing, struct fg_err *err)
{
    for (uint32_t i = 0; i < summing->parent->n_parts; i++) {
        const struct cmp_merge_parent_part *part = &summing->parent->parts[i];

        /* Daily blocks have only profiles of their day (job.c), so a part lies in one day. */
        if (part->part.part->t_min_ns < summing->start_ns ||
            part->part.part->t_max_ns >= summing->end_ns)
            continue;
        if (open_part(summing, part, err) != FG_OK ||
            (part->raw[summing->division] ? add_raw : add_rollups)(summing, err) != FG_OK)
            return cmp_merge_part_wrap(&part->part, err);
    }
    return add_rows(summing, err);
}

/* ---- all of it ---- */

/* Decides how many groups are summed at once. Returns false if there is no room for their sums. */
static bool choose_groups(struct summing *summing)
{
    size_t column = summing->stride * sizeof *summing->sums * summing->n_columns;
    size_t room = summing->parent->max_bytes / FG_MAX(column, 1);
    uint32_t n_groups = FG_MAX(summing->groups[summing->division].n_groups, 1);

    if (summing->division == MERGE_SINGLE) {
        summing->n_groups = (uint32_t)FG_MIN(room, n_groups);
        if (summing->parent->single_at_once > 0)
            summing->n_groups = FG_MIN(summing->n_groups, summing->parent->single_at_once);
        return room >= (n_groups + SINGLE_PASSES_MAX - 1) / SINGLE_PASSES_MAX;
    }
    summing->left_out = summing->left_out || n_groups > room;
    summing->n_groups = n_groups > room ? 1 : n_groups;
    return room > 0;
}

static enum fg_code sum_span(struct summing *summing, int64_t start_ns, int64_t end_ns,
                             struct fg_err *err)
{
    size_t values = (size_t)summing->n_groups * summing->n_columns;

    memset(summing->sums, 0, values * summing->stride * sizeof *summing->sums);
    memset(summing->counteds, 0, values * sizeof *summing->counteds);
    summing->start_ns = start_ns;
    summing->end_ns = end_ns;
    return sum_parts(summing, err);
}

/* Sums the whole span, and then each of the spans into which it is divided. */
static enum fg_code sum_spans(struct summing *summing, struct fg_err *err)
{
    const struct cmp_merge_parent *parent = summing->parent;
    enum fg_code code = sum_span(summing, parent->start_ns, parent->end_ns, err);

    if (parent->parts_ns == 0)
        return code;
    for (int64_t at = parent->start_ns; code == FG_OK && at < parent->end_ns;
         at = fg_time_add(at, parent->parts_ns))
        code =
            sum_span(summing, at, FG_MIN(fg_time_add(at, parent->parts_ns), parent->end_ns), err);
    return code;
}

/* Sums up the groups, as many at a time as there is room for. */
static enum fg_code sum_groups(struct summing *summing, struct fg_err *err)
{
    uint32_t n_groups = FG_MAX(summing->groups[summing->division].n_groups, 1);
    uint32_t at_once = summing->n_groups;
    enum fg_code code = FG_OK;

    summing->first_group = 0;
    if (summing->division == MERGE_GROUPS)
        return sum_spans(summing, err);
    for (; code == FG_OK && summing->first_group < n_groups; summing->first_group += at_once) {
        summing->n_groups = FG_MIN(at_once, n_groups - summing->first_group);
        code = sum_spans(summing, err);
    }
    return code;
}

static enum fg_code sum_types(struct summing *summing, struct fg_err *err)
{
    enum fg_code code = FG_OK;
    size_t cells;

    summing->stride = summing->names->n_nodes;
    memset(summing->done, 0, sizeof summing->done);
    while (code == FG_OK && next_columns(summing)) {
        if (!choose_groups(summing)) {
            if (summing->parent->rollup_only)
                return fg_fail(err, FG_E_LIMIT, "no room for sums of %zu names", summing->stride);
            continue;
        }
        fg_assert(summing->sums == NULL && summing->counteds == NULL);
        cells = (size_t)summing->n_groups * summing->n_columns;
        summing->sums = fg_calloc(cells, FG_MAX(summing->stride, 1) * sizeof *summing->sums);
        summing->counteds = fg_calloc(cells, sizeof *summing->counteds);
        code = sum_groups(summing, err);
        free(summing->sums);
        free(summing->counteds);
        summing->sums = NULL;
        summing->counteds = NULL;
    }
    return code;
}

static enum fg_code create_writer(struct summing *summing, enum cmp_merge_division division,
                                  struct fg_err *err)
{
    const struct cmp_merge_parent *parent = summing->parent;
    struct fg_id *ids = fg_arena_new(parent->arena, struct fg_id, parent->n_parts);
    struct fg_rollup_options options = {.tree = &summing->named,
                                        .groups = &summing->groups[division],
                                        .types = summing->types,
                                        .n_types = summing->n_types,
                                        .derived_from = ids,
                                        .n_derived_from = parent->n_parts,
                                        .all = parent->rollup_only,
                                        .single = division == MERGE_SINGLE};

    if (ids == NULL)
        return fg_fail(err, FG_E_LIMIT, "no room for %u blocks", parent->n_parts);
    for (uint32_t i = 0; i < parent->n_parts; i++)
        ids[i] = parent->parts[i].id;
    summing->groups[division] = parent->groups[division];
    summing->groups[division].n_series = 0; /* parent rollups have none by series */
    if (fg_rollup_writer_create(&options, &summing->writers[division], err) != FG_OK)
        return err->code;
    summing->division = division;
    summing->writer = summing->writers[division];
    summing->names = fg_rollup_writer_functions(summing->writer);
    return FG_OK;
}

static enum fg_code write_part(struct summing *summing, struct fg_err *err)
{
    const struct cmp_merge_parent *parent = summing->parent;
    struct fg_block_derived made = {.t_min_ns = INT64_MAX, .t_max_ns = INT64_MIN};
    struct fg_rollup_writer *single = summing->writers[MERGE_SINGLE];
    uint64_t read_bytes = 0;
    enum fg_code code;

    for (uint32_t i = 0; i < parent->n_parts; i++) {
        const struct fg_block_part *part = parent->parts[i].part.part;

        if (part->n_profiles > UINT32_MAX - made.n_profiles)
            return fg_fail(err, FG_E_LIMIT, "more profiles than a part may have");
        made.n_profiles += part->n_profiles;
        made.t_min_ns = FG_MIN(made.t_min_ns, part->t_min_ns);
        made.t_max_ns = FG_MAX(made.t_max_ns, part->t_max_ns);
        made.digest = fg_id_add(made.digest, part->digest);
        fg_usage_add(&made.usage, &part->usage);
        read_bytes += sample_bytes(&parent->parts[i].part) + stack_bytes(&parent->parts[i].part);
    }
    if (fg_block_part_begin_derived(summing->block, parent->tenant, parent->service, &made, err) !=
        FG_OK)
        return err->code;
    code = fg_rollup_write(summing->writers[MERGE_GROUPS], summing->block, err);
    /* The rollups of all single series may take, as all rollups, a share of what is read
     * instead. */
    if (code == FG_OK && single != NULL)
        code = fg_rollup_write_single(single, read_bytes / FG_ROLLUP_WORTH, summing->block, err);
    if (code != FG_OK) {
        if (code != FG_E_LIMIT || parent->rollup_only)
            return code;
        /* Its rows exceed a page: it would have no rollups, so it is left out. */
        summing->left_out = true;
    }
    return fg_block_part_end(summing->block, err);
}

static enum fg_code write_parent(struct summing *summing, struct fg_err *err)
{
    uint32_t *nodes, no_stack;

    /* Names of all parts first: the function tree has to be complete before anything is summed. */
    for (uint32_t i = 0; i < summing->parent->n_parts; i++)
        if (name_part(summing, &summing->parent->parts[i], &nodes, &no_stack, err) != FG_OK)
            return err->code;
    find_types(summing);
    if (summing->parent->rollup_only && summing->left_out)
        return fg_fail(err, FG_E_LIMIT, "more than %d profile types", TYPES_MAX);
    if (create_writer(summing, MERGE_GROUPS, err) != FG_OK || sum_types(summing, err) != FG_OK)
        return err->code;
    if (summing->parent->groups[MERGE_SINGLE].n_groups > 0 &&
        (create_writer(summing, MERGE_SINGLE, err) != FG_OK ||
         (!summing->parent->only_list_single && sum_types(summing, err) != FG_OK)))
        return err->code;
    return write_part(summing, err);
}

enum fg_code cmp_merge_parent_write(const struct cmp_merge_parent *parent,
                                    struct fg_block_writer *block, bool *ret_left_out,
                                    struct fg_err *err)
{
    struct summing *summing = fg_new(struct summing);
    enum fg_code code;

    summing->parent = parent;
    summing->block = block;
    summing->scratch = fg_arena_create(parent->max_bytes / SHARE_SCRATCH);
    fg_tree_init(&summing->named);
    code = write_parent(summing, err);
    if (code == FG_OK)
        *ret_left_out = summing->left_out;
    free(summing->sums);
    free(summing->counteds);
    for (unsigned i = 0; i < MERGE_DIVISIONS; i++)
        fg_rollup_writer_destroy(summing->writers[i]);
    fg_tree_done(&summing->named);
    fg_arena_destroy(summing->scratch);
    free(summing);
    return code == FG_OK ? FG_OK : fg_wrap(err, "service %.*s", FG_S(parent->service));
}
