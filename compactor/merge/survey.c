/* Finds the spans of time that have profiles, and counts what deletions take. */
#include "compactor/merge/merge.h"

enum { SHARE = 4 };

struct surveying {
    const struct cmp_merge *merge;
    const struct cmp_merge_survey_options *options;
    struct fg_arena *arena;     /* of bins */
    struct cmp_merge_bin *bins; /* in the order of arrival */
    uint32_t n_bins, cap_bins;
    struct fg_map map; /* start -> bin */
    struct cmp_merge_bin *last;
    struct cmp_merge_survey result;

    /* Of the part at hand. */
    const struct cmp_merge_part *part;
    struct cmp_merge_naming naming;
    struct cmp_merge_factors factors;
    struct fg_usage usage;    /* of the rows so far */
    struct fg_usage_row *row; /* of the service and used_day; NULL: none yet */
    int32_t used_day;
};

static struct cmp_merge_bin *bin_add(struct surveying *surveying, int64_t start_ns, int64_t end_ns,
                                     struct fg_err *err)
{
    struct cmp_merge_bin *bin;

    if (surveying->n_bins == surveying->options->bins_max) {
        (void)fg_fail(err, FG_E_TOO_LARGE, "profiles of more than %u spans of time",
                      surveying->n_bins);
        return NULL;
    }
    if (!fg_arena_grow(surveying->arena, &surveying->bins, surveying->n_bins, 1,
                       &surveying->cap_bins, sizeof *surveying->bins) ||
        !fg_map_add_in(&surveying->map, surveying->arena, fg_mix64((uint64_t)start_ns),
                       surveying->n_bins)) {
        (void)fg_fail(err, FG_E_LIMIT, "no room for %u spans of time", surveying->n_bins);
        return NULL;
    }
    bin = &surveying->bins[surveying->n_bins++];
    *bin = (struct cmp_merge_bin){
        .start_ns = start_ns, .end_ns = end_ns, .t_min_ns = INT64_MAX, .shard_min = UINT16_MAX};
    return bin;
}

/* Finds the bin of a time, or adds it. Rows of a series ascend by time, so it is nearly always
 * the last one found. */
static struct cmp_merge_bin *bin_of(struct surveying *surveying, int64_t time_ns,
                                    struct fg_err *err)
{
    int64_t start_ns, end_ns;
    struct fg_map_walk walk;
    uint32_t found;

    if (surveying->last != NULL &&
        cmp_merge_time_in(time_ns, surveying->last->start_ns, surveying->last->end_ns))
        return surveying->last;
    surveying->options->span_of(surveying->options->arg, time_ns, &start_ns, &end_ns);
    found = fg_map_first(&surveying->map, fg_mix64((uint64_t)start_ns), &walk);
    surveying->last =
        found != FG_MAP_NONE ? &surveying->bins[found] : bin_add(surveying, start_ns, end_ns, err);
    return surveying->last;
}

/* Counts a profile for the day of its time, before anything can leave it out. */
static enum fg_code count_used(struct surveying *surveying, const struct cmp_merge_rows *page,
                               uint32_t i, struct fg_err *err)
{
    struct fg_profile_size size =
        page->sizes == NULL ? (struct fg_profile_size){false, 0, 0} : page->sizes[i];
    int32_t number = fg_usage_day_of(page->rows.times_ns[i]);

    /* Rows of a series ascend by time, so it is nearly always the last one. A row moves only when
     * another one is added, which is then the last one. */
    if (surveying->row == NULL || surveying->used_day != number) {
        struct fg_usage_day *day =
            fg_ledger_open(&surveying->result.used, number, surveying->arena);

        surveying->row =
            day == NULL ? NULL
                        : fg_usage_day_row(day, surveying->part->part->service, surveying->arena);
        if (surveying->row == NULL)
            return fg_fail(err, FG_E_LIMIT, "no room for what %.*s uses",
                           FG_S(surveying->part->part->service));
        surveying->used_day = number;
    }
    surveying->row->profiles++;
    fg_usage_count(&surveying->row->usage, size, page->rows.n_samples[i]);
    fg_usage_count(&surveying->usage, size, page->rows.n_samples[i]);
    return FG_OK;
}

/* Compares the usage in the directory with the sum over the rows. The two have separate checksums,
 * and the bill is made of the directory. */
static enum fg_code check_used(const struct surveying *surveying, struct fg_err *err)
{
    const struct fg_usage *said = &surveying->part->part->usage, *seen = &surveying->usage;

    if (fg_usage_eq(said, seen))
        return FG_OK;
    (void)fg_fail(
        err, FG_E_CORRUPT,
        "%llu profiles of %llu bytes, %llu raw and %llu samples; the directory says %llu, "
        "%llu, %llu, %llu",
        (unsigned long long)seen->profiles, (unsigned long long)seen->wire_bytes,
        (unsigned long long)seen->raw_bytes, (unsigned long long)seen->samples,
        (unsigned long long)said->profiles, (unsigned long long)said->wire_bytes,
        (unsigned long long)said->raw_bytes, (unsigned long long)said->samples);
    return cmp_merge_part_wrap(surveying->part, err);
}

static enum fg_code survey_rows(void *arg, const struct cmp_merge_rows *page, struct fg_err *err)
{
    struct surveying *surveying = arg;
    const struct fg_block_rows *rows = &page->rows;

    for (uint32_t i = 0; i < rows->count; i++) {
        struct fg_deletion *deletion = cmp_merge_naming_find(&surveying->naming, surveying->part,
                                                             rows->series[i], rows->times_ns[i]);
        struct cmp_merge_bin *bin;
        bool has_end;

        if (surveying->options->used && count_used(surveying, page, i, err) != FG_OK)
            return err->code;
        if (cmp_merge_is_without(&surveying->merge->without, page->ids[i]))
            continue;
        if (deletion != NULL) {
            deletion->profiles++;
            surveying->result.deleted++;
            continue;
        }
        bin = bin_of(surveying, rows->times_ns[i], err);
        if (bin == NULL)
            return err->code;
        has_end = bin->end_ns != INT64_MAX;
        if (has_end && bin->end_ns <= surveying->options->keep_from_ns) {
            surveying->result.expired++;
            continue;
        }
        bin->profiles++;
        bin->spilling +=
            has_end && fg_time_add(rows->times_ns[i],
                                   FG_MIN(rows->durations_ns[i], MERGE_SPILL_NS)) >= bin->end_ns;
        bin->t_min_ns = FG_MIN(bin->t_min_ns, rows->times_ns[i]);
        bin->shard_min = FG_MIN(bin->shard_min, rows->shards[i]);
        bin->shard_max = FG_MAX(bin->shard_max, rows->shards[i]);
        cmp_merge_tally_row(&surveying->result.kept, &surveying->factors, surveying->part, page, i);
    }
    return FG_OK;
}

static enum fg_code survey_part(struct surveying *surveying, const struct cmp_merge_source *source,
                                uint32_t number, struct fg_arena *arena, struct fg_arena *scratch,
                                struct fg_err *err)
{
    const struct cmp_merge_scan scan = {.start_ns = INT64_MIN,
                                        .end_ns = INT64_MAX,
                                        .ids = true,
                                        .sizes = surveying->options->used,
                                        .each = survey_rows,
                                        .arg = surveying};
    struct cmp_merge_part part;

    fg_arena_reset(arena);
    if (cmp_merge_part_open(source, number, arena, &part, err) != FG_OK)
        return err->code;
    surveying->part = &part;
    surveying->factors.series = FG_MAP_NONE;
    surveying->usage = (struct fg_usage){0};
    surveying->row = NULL;
    surveying->result.n_profiles += part.part->n_profiles;
    if (!cmp_merge_naming_init(&surveying->naming, &surveying->merge->deletions, arena))
        return fg_fail(err, FG_E_LIMIT, "no room for %u deletions",
                       surveying->merge->deletions.count);
    if (cmp_merge_part_scan(&part, &scan, scratch, err) != FG_OK)
        return err->code;
    return surveying->options->used ? check_used(surveying, err) : FG_OK;
}

static int by_start(const void *a, const void *b)
{
    const struct cmp_merge_bin *left = a, *right = b;

    return (left->start_ns > right->start_ns) - (left->start_ns < right->start_ns);
}

enum fg_code cmp_merge_survey(struct cmp_merge *merge,
                              const struct cmp_merge_survey_options *options,
                              struct fg_arena *arena, struct cmp_merge_survey *ret_survey,
                              struct fg_err *err)
{
    fg_auto(fg_arena) *part_arena = fg_arena_create(merge->memory_max_bytes / SHARE);
    fg_auto(fg_arena) *scratch = fg_arena_create(merge->memory_max_bytes / SHARE);
    struct surveying surveying = {.merge = merge, .options = options, .arena = arena};

    for (uint32_t i = 0; i < merge->deletions.count; i++)
        merge->deletions.items[i].profiles = 0;
    for (uint32_t i = 0; i < merge->n_sources; i++)
        for (uint32_t p = 0; p < merge->sources[i].n_parts; p++)
            if (survey_part(&surveying, &merge->sources[i], p, part_arena, scratch, err) != FG_OK)
                return err->code;
    if (surveying.n_bins > 1)
        qsort(surveying.bins, surveying.n_bins, sizeof *surveying.bins, by_start);
    surveying.result.bins = surveying.bins;
    for (uint32_t i = 0; i < surveying.n_bins; i++) /* without those of which nothing is kept */
        if (surveying.bins[i].profiles > 0)
            surveying.bins[surveying.result.n_bins++] = surveying.bins[i];
    *ret_survey = surveying.result;
    return FG_OK;
}
