#include "compactor/merge/rollup_impl.h"

enum { ARENA_SHARE = 2 }; /* of the memory: what is kept of series; the rest is sums */

/* ---- sums ---- */

static size_t names_columns(const struct cmp_making *making)
{
    return making->n_columns * making->stride;
}

static int64_t *group_of(const struct cmp_making *making, int64_t *sums, uint32_t group)
{
    return sums + group * names_columns(making);
}

static uint64_t *full_of(const struct cmp_making *making, uint32_t group)
{
    return making->full == NULL
               ? NULL
               : making->full + (size_t)group * making->n_columns * making->n_ranks;
}

/* Sums wrap around at 64 bits, as values do. */
static void add_to(const int64_t *from, size_t count, int64_t *to)
{
    for (size_t i = 0; i < count; i++)
        to[i] = fg_value_add(to[i], from[i]);
}

static void zero(int64_t *sums, size_t count)
{
    memset(sums, 0, count * sizeof *sums);
}

/* Adds the samples of a profile to the column of each of its types: by name to `sums` and
 * `more`, by stack to `full`. */
static void add_samples(const struct cmp_making *making, const struct cmp_source *source,
                        const struct fg_block_sample_set *set, const uint32_t *types, int64_t *sums,
                        int64_t *more, uint64_t *full)
{
    for (uint32_t t = 0; t < set->n_types; t++) {
        uint32_t column = types[t] == FG_MAP_NONE ? FG_MAP_NONE : making->column_of[types[t]];
        const uint64_t *values = set->values + (size_t)t * set->count;

        if (column == FG_MAP_NONE)
            continue;
        for (uint32_t i = 0; i < set->count; i++) {
            uint32_t rank = source->ranks[set->ranks[i]];
            size_t name = column * making->stride + making->name_of[rank];

            sums[name] = fg_value_add(sums[name], (int64_t)values[i]);
            if (more != NULL)
                more[name] = fg_value_add(more[name], (int64_t)values[i]);
        }
        for (uint32_t i = 0; full != NULL && i < set->count; i++)
            fg_value_sum(&full[(size_t)column * making->n_ranks + source->ranks[set->ranks[i]]],
                         values[i]);
    }
}

static bool is_at_hand(const struct cmp_making *making, uint32_t series)
{
    const struct fg_block_series *from = &making->input->series[series];

    for (uint32_t t = 0; t < from->n_types; t++) {
        uint32_t type = making->series[series].types[t];

        if (type != FG_MAP_NONE && making->column_of[type] != FG_MAP_NONE)
            return true;
    }
    return false;
}

/* Adds what a series chunk of a source has in some buckets. grouped: to the sums of its group,
 * too. */
static enum fg_code add_run(struct cmp_making *making, uint32_t number, uint32_t run,
                            struct cmp_stretch stretch, bool grouped, int64_t *sums,
                            struct fg_err *err)
{
    struct cmp_merge_cursor *cursor = &making->input->cursors[number];
    const struct cmp_source *source = &making->sources[number];
    const struct fg_block_index *index = &cursor->part.index;
    uint32_t first = cmp_rollup_first_of(making, source, index, run, stretch.from);
    uint32_t end = cmp_rollup_first_of(making, source, index, run, stretch.to);
    uint32_t merged = cursor->numbers[index->chunks[run].series];
    const struct cmp_series *of = merged == FG_MAP_NONE ? NULL : &making->series[merged];
    uint32_t group;

    if (first == end || of == NULL || !is_at_hand(making, merged))
        return FG_OK;
    group = making->n_groups == 1 ? 0 : of->group;
    for (uint32_t p = first; p < end; p++) {
        struct fg_block_sample_set set;

        if (!cmp_merge_chosen(&cursor->choice, p))
            continue;
        if (cmp_merge_cursor_samples(cursor, p, &set, err) != FG_OK)
            return err->code;
        add_samples(making, source, &set, of->types, sums,
                    grouped ? group_of(making, making->middle, group) : NULL,
                    grouped ? full_of(making, group) : NULL);
    }
    return FG_OK;
}

/* Adds up what all sources have in a bucket, and adds it to the sums of groups. */
static enum fg_code sum_bucket(struct cmp_making *making, uint32_t bucket, int64_t *sums,
                               struct fg_err *err)
{
    const struct cmp_stretch stretch = {bucket, bucket + 1};

    zero(sums, names_columns(making));
    for (uint32_t i = 0; i < making->input->n_cursors; i++)
        for (uint32_t r = 0; r < making->input->cursors[i].part.index.n_chunks; r++)
            if (add_run(making, i, r, stretch, true, sums, err) != FG_OK)
                return err->code;
    return FG_OK;
}

/* Sums a step bucket by bucket, with a row for each bucket, and adds these up instead of reading
 * the samples again. */
static enum fg_code sum_fine(struct cmp_making *making, struct cmp_stretch step, struct fg_err *err)
{
    const struct fg_rollup_key all = {.kind = FG_ROLLUP_ALL};

    zero(making->step, names_columns(making));
    for (uint32_t b = step.from; b < step.to; b++) {
        if (sum_bucket(making, b, making->fine, err) != FG_OK ||
            cmp_rollup_add_row(making, all, (struct cmp_stretch){b, b + 1}, making->fine, NULL,
                               err) != FG_OK)
            return err->code;
        add_to(making->fine, names_columns(making), making->step);
    }
    return FG_OK;
}

static enum fg_code sum_step(struct cmp_making *making, struct cmp_stretch step, struct fg_err *err)
{
    const struct fg_rollup_key all = {.kind = FG_ROLLUP_ALL};

    if ((step.to - step.from == 1 ? sum_bucket(making, step.from, making->step, err)
                                  : sum_fine(making, step, err)) != FG_OK)
        return err->code;
    if (making->n_buckets == 1 + making->n_early && step.from == making->n_early)
        return FG_OK; /* it is the span */
    return cmp_rollup_add_row(making, all, step, making->step, NULL, err);
}

/* Adds rows of the groups, and of all series, which are the sum of the groups. The sum takes the
 * memory of `step`, and the full sum that of the first group. */
static enum fg_code add_rows(struct cmp_making *making, struct cmp_stretch stretch, int64_t *sums,
                             bool with_full, struct fg_err *err)
{
    struct fg_rollup_key key = {.kind = FG_ROLLUP_GROUP};
    size_t n_full =
        with_full && making->full != NULL ? (size_t)making->n_columns * making->n_ranks : 0;
    uint64_t *first = n_full == 0 ? NULL : making->full;

    for (uint32_t g = 0; g < making->n_groups && making->n_groups > 1; g++) {
        key.number = g;
        if (cmp_rollup_add_row(making, key, stretch, group_of(making, sums, g),
                               n_full == 0 ? NULL : full_of(making, g), err) != FG_OK)
            return err->code;
    }
    zero(making->step, names_columns(making));
    for (uint32_t g = 0; g < making->n_groups; g++) {
        add_to(group_of(making, sums, g), names_columns(making), making->step);
        for (size_t i = 0; g > 0 && i < n_full; i++)
            fg_value_sum(&first[i], full_of(making, g)[i]);
    }
    return cmp_rollup_add_row(making, (struct fg_rollup_key){.kind = FG_ROLLUP_ALL}, stretch,
                              making->step, first, err);
}

static enum fg_code sum_middle(struct cmp_making *making, uint32_t middle, struct fg_err *err)
{
    struct cmp_stretch stretch = cmp_rollup_middle(making, middle);
    size_t count = making->n_groups * names_columns(making);

    zero(making->middle, count);
    for (uint32_t b = stretch.from; b < stretch.to; b += making->n_fine)
        if (sum_step(making, (struct cmp_stretch){b, b + making->n_fine}, err) != FG_OK)
            return err->code;
    if (making->n_middles == 1)
        return FG_OK; /* it is the span */
    add_to(making->middle, count, making->top);
    return add_rows(making, stretch, making->middle, false, err);
}

static bool has_early(const struct cmp_making *making)
{
    for (uint32_t i = 0; i < making->input->n_series && making->n_early > 0; i++)
        if (making->series[i].buckets[0].profiles > 0)
            return true;
    return false;
}

/* Adds rows of the span alone, if profiles begin before it. `sums` has the sums of the span;
 * afterwards they include these profiles. */
static enum fg_code add_early(struct cmp_making *making, int64_t *sums, struct fg_err *err)
{
    size_t count = making->n_groups * names_columns(making);

    if (!has_early(making))
        return FG_OK;
    /* The span without the bucket of profiles that begin before it. */
    if (add_rows(making, (struct cmp_stretch){making->n_early, making->n_buckets}, sums, false,
                 err) != FG_OK)
        return err->code;
    if (sums != making->middle)
        zero(making->middle, count);
    if (sum_step(making, (struct cmp_stretch){0, 1}, err) != FG_OK)
        return err->code;
    if (sums != making->middle)
        add_to(making->middle, count, sums);
    return FG_OK;
}

/* True if the series is not the only one of its group, or of the part: otherwise the group's row
 * says the same. */
static bool is_one_of_many(const struct cmp_making *making, uint32_t series)
{
    return making->n_groups == 1 ? making->input->n_series > 1
                                 : making->group_sizes[making->series[series].group] > 1;
}

/* Adds the profiles that all sources have of a merged series. Numbers of merged series ascend in
 * each source, so each source is walked once. */
static enum fg_code add_everywhere(struct cmp_making *making, uint32_t merged, struct fg_err *err)
{
    for (uint32_t i = 0; i < making->input->n_cursors; i++) {
        const struct cmp_merge_cursor *cursor = &making->input->cursors[i];
        const struct fg_block_series_row *row;
        uint32_t *at = &making->sources[i].at, n = cursor->part.index.n_series;

        while (*at < n && (cursor->numbers[*at] == FG_MAP_NONE || cursor->numbers[*at] < merged))
            ++*at;
        if (*at == n || cursor->numbers[*at] != merged)
            continue;
        row = &cursor->part.index.series[*at];
        for (uint32_t c = 0; c < row->n_chunks; c++)
            if (add_run(making, i, row->chunks[c], cmp_rollup_whole(making), false, making->step,
                        err) != FG_OK)
                return err->code;
    }
    return FG_OK;
}

static enum fg_code sum_series(struct cmp_making *making, uint32_t merged, struct fg_err *err)
{
    const struct fg_rollup_key key = {.kind = FG_ROLLUP_SERIES, .number = merged};
    struct cmp_counted counted = {0};

    cmp_rollup_count_series(making, merged, cmp_rollup_whole(making), &counted);
    if (!is_at_hand(making, merged) || !is_one_of_many(making, merged) ||
        cmp_rollup_replaced_bytes(making, FG_ROLLUP_SERIES, counted.samples) == 0)
        return FG_OK;
    zero(making->step, names_columns(making));
    if (add_everywhere(making, merged, err) != FG_OK)
        return err->code;
    return cmp_rollup_add_row(making, key, cmp_rollup_whole(making), making->step, NULL, err);
}

static enum fg_code sum_columns(struct cmp_making *making, struct fg_err *err)
{
    int64_t *sums = making->n_middles > 1 ? making->top : making->middle;

    cmp_rollup_judge_small(making);
    for (uint32_t m = 0; m < making->n_middles; m++)
        if (sum_middle(making, m, err) != FG_OK)
            return err->code;
    if (add_early(making, sums, err) != FG_OK ||
        add_rows(making, cmp_rollup_whole(making), sums, true, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < making->input->n_cursors; i++)
        making->sources[i].at = 0;
    for (uint32_t i = 0; i < making->input->n_series; i++)
        if (sum_series(making, i, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- memory ---- */

static uint64_t sums_bytes(const struct cmp_making *making, uint32_t n_groups, bool full)
{
    uint64_t levels = making->n_middles > 1 ? 2 : 1;
    uint64_t names = ((making->n_fine > 1 ? 2 : 1) + levels * n_groups) * making->stride;

    return (names + (full ? (uint64_t)n_groups * making->n_ranks : 0)) * making->n_columns *
           sizeof(int64_t);
}

static void take_sums(struct cmp_making *making, uint32_t n_groups, bool full)
{
    size_t count = names_columns(making);

    fg_assert(making->step == NULL && making->full == NULL); /* drop_sums() */
    /* calloc(): pages of sums that stay zero are never touched, so sparse columns cost no
     * memory. */
    making->n_groups = n_groups;
    making->step = fg_calloc(count, sizeof *making->step);
    if (making->n_fine > 1)
        making->fine = fg_calloc(count, sizeof *making->fine);
    making->middle = fg_calloc(count * n_groups, sizeof *making->middle);
    if (making->n_middles > 1)
        making->top = fg_calloc(count * n_groups, sizeof *making->top);
    if (full)
        making->full = fg_calloc((size_t)n_groups * making->n_columns * FG_MAX(making->n_ranks, 1),
                                 sizeof *making->full);
}

static void drop_sums(struct cmp_making *making)
{
    free(making->fine);
    free(making->step);
    free(making->middle);
    free(making->top);
    free(making->full);
    making->fine = making->step = making->middle = making->top = NULL;
    making->full = NULL;
}

/* Takes memory for the sums, as many as fit: full trees are given up first, then groups. Returns
 * false if nothing fits. */
static bool make_room(struct cmp_making *making)
{
    uint64_t max_bytes = making->input->max_bytes - making->input->max_bytes / ARENA_SHARE;
    const struct {
        uint32_t n_groups;
        bool full;
    } tries[] = {
        {making->groups->n_groups, true}, {making->groups->n_groups, false}, {1, true}, {1, false}};

    for (size_t i = 0; i < FG_COUNT(tries); i++)
        if (sums_bytes(making, tries[i].n_groups, tries[i].full) <= max_bytes) {
            making->left_out = making->left_out || i > 0;
            take_sums(making, tries[i].n_groups, tries[i].full);
            return true;
        }
    making->left_out = true;
    return false;
}

/* ---- all types ---- */

static bool are_kin(const struct fg_profile_type *a, const struct fg_profile_type *b)
{
    return fg_slice_eq(a->name, b->name) && fg_slice_eq(a->period_type, b->period_type) &&
           fg_slice_eq(a->period_unit, b->period_unit);
}

/* Chooses types that profiles have together. They are summed together, because one may be a
 * multiple of another, which the rollup stores as a factor. */
static bool next_columns(struct cmp_making *making)
{
    uint32_t first = 0;

    while (first < making->n_types && making->done[first])
        first++;
    if (first == making->n_types)
        return false;
    making->n_columns = 0;
    for (uint32_t i = 0; i < making->n_types; i++) {
        making->column_of[i] = FG_MAP_NONE;
        if (making->done[i] || !are_kin(&making->types[i], &making->types[first]))
            continue;
        making->done[i] = true;
        making->column_of[i] = making->n_columns;
        making->columns[making->n_columns++] = i;
    }
    return true;
}

static enum fg_code create_writer(struct cmp_making *making, struct fg_err *err)
{
    const struct fg_rollup_options options = {.tree = making->input->tree,
                                              .groups = making->groups,
                                              .types = making->types,
                                              .n_types = making->n_types,
                                              .named = making->input->named,
                                              .n_ranks = making->n_ranks};

    if (fg_rollup_writer_create(&options, &making->writer, err) != FG_OK)
        return err->code;
    making->names = fg_rollup_writer_functions(making->writer);
    return FG_OK;
}

/* *ret_fits false: there is not enough memory, so the service gets no rollups. */
static enum fg_code prepare(struct cmp_making *making, bool *ret_fits, struct fg_err *err)
{
    uint32_t n_series = making->input->n_series;
    uint64_t *seen = fg_calloc(FG_MAX(n_series, 1), sizeof *seen);
    enum fg_code code = fg_block_part_close(making->input->block, seen, n_series, &making->samples,
                                            &making->samples_bytes, err);

    *ret_fits = code == FG_OK && cmp_rollup_set_series(making, seen);
    free(seen);
    if (*ret_fits)
        code = cmp_rollup_scan_sources(making, ret_fits, err);
    return code;
}

static enum fg_code make_rollups(struct cmp_making *making, struct fg_err *err)
{
    bool fits;

    if (prepare(making, &fits, err) != FG_OK)
        return err->code;
    if (fits)
        fits = create_writer(making, err) == FG_OK && cmp_rollup_map_sources(making);
    making->left_out = !fits;
    if (!fits)
        return FG_OK;
    making->stride = making->names->n_nodes;
    while (next_columns(making)) {
        enum fg_code code = make_room(making) ? sum_columns(making, err) : FG_OK;

        drop_sums(making);
        if (code != FG_OK)
            return code;
    }
    return FG_OK;
}

enum fg_code cmp_merge_rollup_make(const struct cmp_merge_rollup_input *input,
                                   struct fg_rollup_writer **ret_rollup, bool *ret_left_out,
                                   struct fg_err *err)
{
    struct cmp_making *making = fg_new(struct cmp_making);
    enum fg_code code = FG_OK;

    making->input = input;
    making->n_ranks = fg_block_part_n_stacks(input->block);
    making->arena = fg_arena_create(input->max_bytes / ARENA_SHARE);
    making->scratch = fg_arena_create(input->max_bytes);
    cmp_rollup_set_spans(making);
    if (input->span->start_ns != INT64_MIN && input->span->end_ns != INT64_MAX)
        code = make_rollups(making, err);
    *ret_rollup = NULL;
    if (code == FG_OK) {
        *ret_rollup = making->writer;
        *ret_left_out = making->left_out;
    } else {
        fg_rollup_writer_destroy(making->writer);
    }
    fg_arena_destroy(making->arena);
    fg_arena_destroy(making->scratch);
    free(making);
    return code;
}
