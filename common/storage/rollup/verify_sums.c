/*
 * Computes what rollups should be from the profiles of their part: the slow way, row by row.
 */
#include "common/model/labels.h"
#include "common/storage/rollup/verify.h"

struct sums_verifying {
    const struct fg_block_part *part;
    struct fg_slice file;
    struct fg_arena *arena;
    struct fg_block_index index;
    struct fg_block_tree tree;
    struct fg_rollup_ranges ranges;
    struct fg_rollups rollups;
    struct fg_function_tree dict; /* as stored */
    int64_t *times_ns;            /* of all profiles */
    struct fg_id *ids;
    struct fg_block_samples *samples;
    uint32_t page; /* of samples, opened; FG_MAP_NONE: none */

    struct fg_function_tree names; /* of all stacks, by rank */
    struct fg_function_values values;
    uint32_t *nodes_of; /* of the dictionary: the node of names */
    uint32_t *names_of; /* of its names: that of names */
    uint64_t *sums;     /* of the current row, by rank */
};

static enum fg_code no_room(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "no memory to rebuild rollups");
}

static struct fg_slice range_of(const struct sums_verifying *verifying, struct fg_block_range range)
{
    return fg_slice_sub(verifying->file, (size_t)range.offset, (size_t)range.len);
}

static struct fg_slice page_of(const struct sums_verifying *verifying, uint32_t kind, uint32_t page)
{
    const struct fg_block_page *said = &verifying->index.pages[kind].pages[page];

    return fg_slice_sub(verifying->file, (size_t)said->offset, said->bytes);
}

/* ---- what there is ---- */

static enum fg_code read_rows(struct sums_verifying *verifying, struct fg_err *err)
{
    uint32_t count = verifying->part->n_profiles;

    verifying->times_ns = fg_arena_new(verifying->arena, int64_t, count);
    verifying->ids = fg_arena_new(verifying->arena, struct fg_id, count);
    if (verifying->times_ns == NULL || verifying->ids == NULL)
        return no_room(err);
    for (uint32_t i = 0; i < verifying->index.pages[FG_BLOCK_IDX].count; i++) {
        struct fg_arena_mark mark = fg_arena_mark(verifying->arena);
        struct fg_block_rows rows;
        struct fg_id *ids;

        if (fg_block_rows_parse(&verifying->index, i, page_of(verifying, FG_BLOCK_IDX, i),
                                verifying->arena, &rows, err) != FG_OK ||
            fg_block_ids_parse(&verifying->index, i, page_of(verifying, FG_BLOCK_PID, i),
                               verifying->arena, &ids, err) != FG_OK)
            return err->code;
        memcpy(verifying->times_ns + rows.first, rows.times_ns, rows.count * sizeof(int64_t));
        memcpy(verifying->ids + rows.first, ids, rows.count * sizeof *ids);
        fg_arena_release(verifying->arena, mark);
    }
    return FG_OK;
}

static enum fg_code read_rollups(struct sums_verifying *verifying, struct fg_err *err)
{
    struct fg_slice crn = range_of(verifying, verifying->ranges.crn);
    struct fg_rollups *rollups = &verifying->rollups;

    if (fg_rollups_parse(verifying->part, range_of(verifying, verifying->ranges.nod),
                         verifying->arena, rollups, err) != FG_OK)
        return err->code;
    return fg_rollup_functions_parse(rollups, fg_slice_sub(crn, 0, rollups->names.bytes),
                                     fg_slice_sub(crn, rollups->names.bytes, rollups->dict.bytes),
                                     verifying->arena, &verifying->dict, err);
}

static enum fg_code read_part(struct sums_verifying *verifying, struct fg_err *err)
{
    const struct fg_block_part *part = verifying->part;

    if (fg_block_part_parse(part,
                            range_of(verifying, fg_block_part_range(part, FG_BLOCK_WANT_SERIES)),
                            verifying->arena, &verifying->index, err) != FG_OK ||
        fg_block_tree_parse(&verifying->index,
                            range_of(verifying, fg_block_part_range(part, FG_BLOCK_WANT_TREE)),
                            verifying->arena, &verifying->tree, err) != FG_OK ||
        read_rows(verifying, err) != FG_OK || read_rollups(verifying, err) != FG_OK)
        return err->code;
    verifying->sums = fg_arena_new(verifying->arena, uint64_t, part->n_stacks);
    verifying->nodes_of = fg_arena_new(verifying->arena, uint32_t, verifying->dict.n_nodes);
    verifying->names_of = fg_arena_new(verifying->arena, uint32_t, verifying->dict.n_names);
    return verifying->sums != NULL && verifying->nodes_of != NULL && verifying->names_of != NULL
               ? FG_OK
               : no_room(err);
}

/* Finds each node of the dictionary in the tree of all stacks. Both are in one order, with
 * parents before children, so that one pass is enough. */
static enum fg_code place_dict(struct sums_verifying *verifying, struct fg_err *err)
{
    const struct fg_function_tree *names = &verifying->names, *dict = &verifying->dict;
    uint32_t at = 0;

    for (uint32_t i = 0; i < names->n_names && at < dict->n_names; i++)
        if (fg_slice_eq(names->names[i], dict->names[at]))
            verifying->names_of[at++] = i;
    if (at < dict->n_names)
        return fg_fail(err, FG_E_CORRUPT, "rollups: a name that no stack has");
    at = 0;
    for (uint32_t i = 0; i < names->n_nodes && at < dict->n_nodes; i++) {
        uint32_t parent = dict->parents[at];

        if (names->parents[i] ==
                (parent == FG_TREE_ROOT ? FG_TREE_ROOT : verifying->nodes_of[parent]) &&
            names->functions[i] == verifying->names_of[dict->functions[at]])
            verifying->nodes_of[at++] = i;
    }
    if (at < dict->n_nodes)
        return fg_fail(err, FG_E_CORRUPT, "rollups: a path that no stack has");
    return FG_OK;
}

/* ---- groups ---- */

static struct fg_slice value_of(const struct fg_labels *labels, struct fg_slice name)
{
    size_t at;

    return fg_labels_find(labels, name, &at) ? labels->items[at].value : FG_LIT("");
}

static bool is_grouped_well(const struct fg_groups *groups, const struct fg_labels *labels,
                            uint32_t group)
{
    for (uint32_t i = 0; i < groups->n_names; i++)
        if (!fg_slice_eq(value_of(labels, groups->names[i]),
                         groups->values[(size_t)group * groups->n_names + i]))
            return false;
    for (size_t i = 0; i < groups->common.count; i++)
        if (!fg_slice_eq(value_of(labels, groups->common.items[i].name),
                         groups->common.items[i].value))
            return false;
    return true;
}

static enum fg_code check_groups(const struct sums_verifying *verifying, struct fg_err *err)
{
    const struct fg_groups *groups = &verifying->rollups.groups;

    if (groups->n_series != verifying->part->n_series)
        return fg_fail(err, FG_E_CORRUPT, "rollups: groups of %u series, but there are %u",
                       groups->n_series, verifying->part->n_series);
    for (uint32_t i = 0; i < groups->n_series; i++)
        if (!is_grouped_well(groups, &verifying->index.series[i].labels, groups->of_series[i]))
            return fg_fail(err, FG_E_CORRUPT, "rollups: group of series %u", i);
    return FG_OK;
}

/* ---- sums ---- */

/* Adds the samples of profiles [first, end) to sums. */
static enum fg_code add_profiles(struct sums_verifying *verifying, uint32_t first, uint32_t end,
                                 uint32_t type, struct fg_err *err)
{
    const struct fg_block_pages *pages = &verifying->index.pages[FG_BLOCK_SMP];

    for (uint32_t i = fg_block_page_of(pages, first);
         i < pages->count && pages->pages[i].first < end; i++) {
        if (verifying->page != i) {
            verifying->page = FG_MAP_NONE;
            if (fg_block_samples_open(verifying->samples, &verifying->index, i,
                                      page_of(verifying, FG_BLOCK_SMP, i), err) != FG_OK)
                return err->code;
            verifying->page = i;
        }
        if (fg_block_samples_sum(verifying->samples, first, end - first, type, verifying->sums,
                                 err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

struct counted {
    uint64_t count;
    struct fg_id digest;
};

/* Adds what a chunk has of a type in the time of the key. */
static enum fg_code add_chunk(struct sums_verifying *verifying, const struct fg_rollup_key *key,
                              const struct fg_block_chunk *chunk, uint32_t type,
                              struct counted *counted, struct fg_err *err)
{
    uint32_t first = chunk->first, end = chunk->first + chunk->count;

    while (first < end && verifying->times_ns[first] < key->start_ns)
        first++;
    while (first < end && verifying->times_ns[end - 1] >= key->end_ns)
        end--;
    for (uint32_t i = first; i < end; i++) {
        counted->count++;
        counted->digest = fg_id_add(counted->digest, verifying->ids[i]);
    }
    return add_profiles(verifying, first, end, type, err);
}

static enum fg_code add_series(struct sums_verifying *verifying, const struct fg_rollup_key *key,
                               uint32_t series, uint32_t type, struct counted *counted,
                               struct fg_err *err)
{
    const struct fg_block_series_row *row = &verifying->index.series[series];

    for (uint32_t i = 0; i < row->n_chunks; i++)
        if (add_chunk(verifying, key, &verifying->index.chunks[row->chunks[i]], type, counted,
                      err) != FG_OK)
            return err->code;
    return FG_OK;
}

static bool is_of(const struct sums_verifying *verifying, const struct fg_rollup_key *key,
                  uint32_t series)
{
    return key->kind == FG_ROLLUP_ALL || (key->kind == FG_ROLLUP_SERIES && key->number == series) ||
           (key->kind == FG_ROLLUP_GROUP &&
            verifying->rollups.groups.of_series[series] == key->number);
}

static enum fg_code sum_row(struct sums_verifying *verifying, const struct fg_rollup_row *row,
                            struct counted *counted, struct fg_err *err)
{
    const struct fg_profile_type *type = &verifying->rollups.types[row->type];

    memset(verifying->sums, 0, verifying->part->n_stacks * sizeof *verifying->sums);
    for (uint32_t s = 0; s < verifying->index.n_series; s++) {
        const struct fg_block_series_row *series = &verifying->index.series[s];

        for (uint32_t t = 0; is_of(verifying, &row->key, s) && t < series->schema->n_types; t++) {
            struct fg_profile_type has = fg_block_profile_type(series, t);

            if ((series->seen >> t & 1) == 0 || !fg_profile_type_eq(&has, type))
                continue;
            if (add_series(verifying, &row->key, s, t, counted, err) != FG_OK)
                return err->code;
            break; /* a type that is there twice is looked at once */
        }
    }
    return FG_OK;
}

/* ---- comparing ---- */

static struct fg_slice bytes_of(const struct sums_verifying *verifying,
                                struct fg_block_range section, const struct fg_rollup_place *place)
{
    return fg_slice_sub(range_of(verifying, section), (size_t)place->offset, place->bytes);
}

static bool same_crown(const struct sums_verifying *verifying, const struct fg_crown *crown,
                       const struct fg_crown *want)
{
    if (crown->n_nodes != want->n_nodes || crown->cut_max != want->cut_max ||
        crown->root_rest != want->root_rest || crown->has_negatives != want->has_negatives)
        return false;
    for (uint32_t i = 0; i < crown->n_nodes; i++)
        if (verifying->nodes_of[crown->nodes[i]] != want->nodes[i] ||
            crown->self[i] != want->self[i] || crown->rest[i] != want->rest[i])
            return false;
    return true;
}

static enum fg_code check_crown(struct sums_verifying *verifying, const struct fg_rollup_row *row,
                                struct fg_err *err)
{
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_CROWN];
    struct fg_crown crown, want;
    bool same;

    if (fg_rollup_crown_parse(row, &verifying->dict,
                              bytes_of(verifying, verifying->ranges.crn, place), verifying->arena,
                              &crown, err) != FG_OK)
        return err->code;
    fg_crown_make(&verifying->names, &verifying->values, crown.n_nodes, &want);
    same = same_crown(verifying, &crown, &want);
    fg_crown_done(&want);
    return same ? FG_OK : fg_fail(err, FG_E_CORRUPT, "crown");
}

static enum fg_code check_table(struct sums_verifying *verifying, const struct fg_rollup_row *row,
                                struct fg_err *err)
{
    const struct fg_rollup_place *place = &row->places[FG_ROLLUP_TOTALS];
    const struct fg_function_values *values = &verifying->values;
    uint32_t n_names = verifying->dict.n_names;
    int64_t *self = fg_arena_new(verifying->arena, int64_t, n_names);
    int64_t *totals = fg_arena_new(verifying->arena, int64_t, n_names);

    if (self == NULL || totals == NULL)
        return no_room(err);
    if (fg_rollup_totals_add(row, &verifying->dict,
                             bytes_of(verifying, verifying->ranges.ftb, place), 1, verifying->arena,
                             self, totals, err) != FG_OK)
        return err->code;
    /* A name in no table has no value. */
    for (uint32_t i = 0; i < n_names; i++) {
        uint32_t name = verifying->names_of[i];

        if (self[i] != values->function_self[name] || totals[i] != values->function_totals[name])
            return fg_fail(err, FG_E_CORRUPT, "table: %.*s", FG_S(verifying->dict.names[i]));
        values->function_self[name] = values->function_totals[name] = 0;
    }
    for (uint32_t i = 0; i < verifying->names.n_names; i++)
        if (values->function_self[i] != 0 || values->function_totals[i] != 0)
            return fg_fail(err, FG_E_CORRUPT, "table without %.*s",
                           FG_S(verifying->names.names[i]));
    return FG_OK;
}

static enum fg_code check_full(struct sums_verifying *verifying, const struct fg_rollup_row *row,
                               struct fg_err *err)
{
    uint32_t n_stacks = verifying->part->n_stacks;
    uint64_t *sums = fg_arena_new(verifying->arena, uint64_t, n_stacks);

    if (sums == NULL)
        return no_room(err);
    if (fg_rollup_full_add(row,
                           bytes_of(verifying, verifying->ranges.ful, &row->places[FG_ROLLUP_FULL]),
                           1, verifying->arena, sums, n_stacks, err) != FG_OK)
        return err->code;
    return memcmp(sums, verifying->sums, n_stacks * sizeof *sums) == 0
               ? FG_OK
               : fg_fail(err, FG_E_CORRUPT, "full rollup");
}

/* False for version 1, whose names this program can no longer make. */
static bool has_our_names(const struct sums_verifying *verifying)
{
    return verifying->rollups.version == FG_ROLLUP_VERSION;
}

static enum fg_code check_row(struct sums_verifying *verifying, const struct fg_rollup_row *row,
                              struct fg_err *err)
{
    struct counted counted = {0};

    if (sum_row(verifying, row, &counted, err) != FG_OK)
        return err->code;
    if (counted.count != row->count || !fg_id_eq(counted.digest, row->digest))
        return fg_fail(err, FG_E_CORRUPT, "%llu profiles, but there should be %llu, or they differ",
                       (unsigned long long)row->count, (unsigned long long)counted.count);
    if (row->count == 0)
        return FG_OK;
    if (row->places[FG_ROLLUP_FULL].bytes > 0 && check_full(verifying, row, err) != FG_OK)
        return err->code;
    if (!has_our_names(verifying))
        return FG_OK;
    fg_function_values_set(&verifying->values, &verifying->names, (const int64_t *)verifying->sums);
    if (row->total != verifying->values.all)
        return fg_fail(err, FG_E_CORRUPT, "total of %lld, should be %lld", (long long)row->total,
                       (long long)verifying->values.all);
    if ((row->places[FG_ROLLUP_CROWN].bytes > 0 && check_crown(verifying, row, err) != FG_OK) ||
        (row->places[FG_ROLLUP_TOTALS].bytes > 0 && check_table(verifying, row, err) != FG_OK))
        return err->code;
    return FG_OK;
}

static enum fg_code check_rows(struct sums_verifying *verifying, struct fg_err *err)
{
    for (uint32_t i = 0; i < verifying->rollups.n_rows; i++) {
        struct fg_arena_mark mark = fg_arena_mark(verifying->arena);
        enum fg_code code = check_row(verifying, &verifying->rollups.rows[i], err);

        fg_arena_release(verifying->arena, mark);
        if (code != FG_OK)
            return fg_wrap(err, "rollup %u", i);
    }
    return FG_OK;
}

static enum fg_code check_all(struct sums_verifying *verifying, struct fg_err *err)
{
    enum fg_code code;

    if (read_part(verifying, err) != FG_OK || check_groups(verifying, err) != FG_OK)
        return err->code;
    fg_block_tree_functions(&verifying->tree, &verifying->names);
    fg_function_values_init(&verifying->values, &verifying->names);
    code = has_our_names(verifying) ? place_dict(verifying, err) : FG_OK;
    if (code == FG_OK)
        code = check_rows(verifying, err);
    fg_function_values_done(&verifying->values);
    fg_function_tree_done(&verifying->names);
    return code;
}

enum fg_code fg_rollup_verify_sums(const struct fg_block_part *part, struct fg_slice file,
                                   size_t max_bytes, struct fg_err *err)
{
    fg_auto(fg_arena) *arena = fg_arena_create(max_bytes);
    fg_auto(fg_block_samples) *samples = fg_block_samples_create(max_bytes);
    struct sums_verifying verifying = {.part = part,
                                       .file = file,
                                       .arena = arena,
                                       .ranges = fg_rollup_ranges(part),
                                       .samples = samples,
                                       .page = FG_MAP_NONE};

    if (part->n_series == 0 || verifying.ranges.nod.len == 0)
        return FG_OK;
    if (check_all(&verifying, err) != FG_OK)
        return fg_wrap(err, "part %.*s/%.*s", FG_S(part->tenant), FG_S(part->service));
    return FG_OK;
}
