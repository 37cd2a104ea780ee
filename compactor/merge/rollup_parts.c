#include "common/base/time.h"
#include "compactor/merge/rollup_impl.h"

enum {
    FINE_STEPS = 6,        /* 10 minutes of an hour */
    FINE_COUNTS_SHARE = 8, /* of the memory */
};

/* ---- spans ---- */

/* True if rows of 10 minutes are built. Not if their counts would take too much of the memory. */
static bool is_fine(const struct cmp_making *making)
{
    uint64_t buckets = UINT64_C(24) * FINE_STEPS;
    uint64_t counts = making->input->n_series * buckets * sizeof(struct cmp_counted);

    return making->input->fine && counts <= making->input->max_bytes / FINE_COUNTS_SHARE;
}

void cmp_rollup_set_spans(struct cmp_making *making)
{
    const struct cmp_merge_span *span = making->input->span;
    uint64_t len = (uint64_t)span->end_ns - (uint64_t)span->start_ns;

    making->start_ns = span->start_ns;
    making->n_buckets = making->n_fine = making->n_middles = 1;
    if (len == (uint64_t)FG_HOUR_NS) {
        making->n_buckets = 12;
    } else if (len == UINT64_C(24) * FG_HOUR_NS) {
        making->n_fine = is_fine(making) ? FINE_STEPS : 1;
        making->n_buckets = 24 * making->n_fine;
        making->n_middles = 4;
    }
    making->bucket_ns = (int64_t)(len / making->n_buckets);
    making->n_early = span->early_ns > 0;
    making->n_buckets += making->n_early;
}

struct cmp_stretch cmp_rollup_middle(const struct cmp_making *making, uint32_t middle)
{
    uint32_t each = (making->n_buckets - making->n_early) / making->n_middles;
    uint32_t from = making->n_early + middle * each;

    fg_assert(middle < making->n_middles && from + each <= making->n_buckets);
    return (struct cmp_stretch){from, from + each};
}

struct cmp_stretch cmp_rollup_whole(const struct cmp_making *making)
{
    return (struct cmp_stretch){0, making->n_buckets};
}

static uint32_t bucket_of(const struct cmp_making *making, int64_t time_ns)
{
    uint64_t bucket;

    if (time_ns < making->start_ns)
        return 0;
    bucket = ((uint64_t)time_ns - (uint64_t)making->start_ns) / (uint64_t)making->bucket_ns;
    return (uint32_t)FG_MIN(making->n_early + bucket, making->n_buckets - 1);
}

int64_t cmp_rollup_bucket_start_ns(const struct cmp_making *making, uint32_t bucket)
{
    if (bucket < making->n_early)
        return cmp_merge_span_from_ns(making->input->span);
    return making->start_ns + (bucket - making->n_early) * making->bucket_ns;
}

/* ---- types and series ---- */

/* Returns the number of a type, which is added if it is new; FG_MAP_NONE: there are too many. */
static uint32_t find_type(struct cmp_making *making, const struct fg_profile_type *type)
{
    for (uint32_t i = 0; i < making->n_types; i++)
        if (fg_profile_type_eq(&making->types[i], type))
            return i;
    if (making->n_types == ROLLUP_TYPES_MAX)
        return FG_MAP_NONE;
    making->types[making->n_types] = *type;
    return making->n_types++;
}

static bool set_types(struct cmp_making *making, uint32_t number, uint64_t seen)
{
    const struct fg_block_series *from = &making->input->series[number];
    struct cmp_series *series = &making->series[number];

    series->types = fg_arena_new(making->arena, uint32_t, from->n_types);
    if (series->types == NULL)
        return false;
    for (uint32_t t = 0; t < from->n_types; t++) {
        struct fg_profile_type type = fg_block_series_type(from, t);

        series->types[t] = (seen >> t & 1) == 0 ? FG_MAP_NONE : find_type(making, &type);
        if ((seen >> t & 1) != 0 && series->types[t] == FG_MAP_NONE)
            return false;
    }
    return true;
}

static bool set_groups(struct cmp_making *making)
{
    static const struct fg_slice wanted[] = FG_GROUPS_DEFAULT;
    uint32_t n_series = making->input->n_series;
    struct fg_labels *labels = fg_arena_new(making->arena, struct fg_labels, n_series);
    struct fg_err err;

    making->groups = fg_arena_new(making->input->arena, struct fg_groups, 1);
    if (labels == NULL || making->groups == NULL)
        return false;
    for (uint32_t i = 0; i < n_series; i++)
        labels[i] = making->input->series[i].labels;
    if (fg_groups_choose(labels, n_series, wanted, FG_COUNT(wanted), making->input->arena,
                         making->groups, &err) != FG_OK)
        return false;
    for (uint32_t i = 0; i < n_series; i++) {
        making->series[i].group = making->groups->of_series[i];
        making->group_sizes[making->series[i].group]++;
    }
    return true;
}

bool cmp_rollup_set_series(struct cmp_making *making, const uint64_t *seen)
{
    uint32_t n_series = making->input->n_series;
    struct cmp_counted *buckets =
        fg_arena_new(making->arena, struct cmp_counted, (size_t)n_series * making->n_buckets);

    making->series = fg_arena_new(making->arena, struct cmp_series, n_series);
    if (buckets == NULL || making->series == NULL)
        return false;
    for (uint32_t i = 0; i < n_series; i++) {
        making->series[i].buckets = buckets + (size_t)i * making->n_buckets;
        if (!set_types(making, i, seen[i]))
            return false;
    }
    return set_groups(making);
}

/* ---- sources ---- */

struct scanning {
    struct cmp_making *making;
    const struct cmp_merge_cursor *cursor;
    struct cmp_source *source;
    uint32_t *next; /* of its runs: where firsts are known up to */
};

uint32_t cmp_rollup_first_of(const struct cmp_making *making, const struct cmp_source *source,
                             const struct fg_block_index *index, uint32_t run, uint32_t bucket)
{
    uint32_t first = bucket_of(making, index->chunks[run].t_min_ns);
    uint32_t count = source->places[run + 1] - source->places[run];

    /* A chunk keeps a first profile only for buckets after its own first one; before and behind
     * these the answer is the chunk's start or end. */
    if (bucket <= first)
        return index->chunks[run].first;
    if (bucket - first > count)
        return index->chunks[run].first + index->chunks[run].count;
    return source->firsts[source->places[run] + bucket - first - 1];
}

static enum fg_code scan_rows(void *arg, const struct cmp_merge_rows *page, struct fg_err *err)
{
    struct scanning *scanning = arg;
    const struct cmp_making *making = scanning->making;
    const struct fg_block_rows *rows = &page->rows;
    const struct fg_block_index *index = &scanning->cursor->part.index;
    uint32_t r = fg_block_chunk_of(index, rows->first);

    (void)err;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t profile = rows->first + i, bucket, behind;
        struct cmp_counted *counted;

        if (!cmp_merge_chosen(&scanning->cursor->choice, profile))
            continue;
        while (profile >= index->chunks[r].first + index->chunks[r].count)
            r++;
        bucket = bucket_of(making, rows->times_ns[i]);
        behind = bucket - bucket_of(making, index->chunks[r].t_min_ns);
        while (scanning->next[r] < scanning->source->places[r] + behind)
            scanning->source->firsts[scanning->next[r]++] = profile;
        counted = &making->series[scanning->cursor->numbers[rows->series[i]]].buckets[bucket];
        counted->profiles++;
        counted->samples += rows->n_samples[i];
        counted->digest = fg_id_add(counted->digest, page->ids[i]);
    }
    return FG_OK;
}

/* Reserves room for the first profile of each bucket in each series chunk. Returns false if
 * there is none. */
static bool set_places(const struct cmp_making *making, const struct fg_block_index *index,
                       struct cmp_source *source)
{
    uint64_t place = 0;

    source->places = fg_arena_new(making->arena, uint32_t, (size_t)index->n_chunks + 1);
    if (source->places == NULL)
        return false;
    for (uint32_t r = 0; r < index->n_chunks; r++) {
        source->places[r] = (uint32_t)place;
        place += bucket_of(making, index->chunks[r].t_max_ns) -
                 bucket_of(making, index->chunks[r].t_min_ns);
        if (place > UINT32_MAX)
            return false;
    }
    source->places[index->n_chunks] = (uint32_t)place;
    source->firsts = fg_arena_new(making->arena, uint32_t, place);
    return source->firsts != NULL;
}

/* Finds the first profile of each bucket in each series chunk, and counts profiles by series and
 * bucket. *ret_fits false: no room. */
static enum fg_code scan_source(struct cmp_making *making, uint32_t number, bool *ret_fits,
                                struct fg_err *err)
{
    struct cmp_merge_cursor *cursor = &making->input->cursors[number];
    const struct fg_block_index *index = &cursor->part.index;
    struct cmp_source *source = &making->sources[number];
    struct scanning scanning = {.making = making, .cursor = cursor, .source = source};
    const struct cmp_merge_scan scan = {.start_ns = INT64_MIN,
                                        .end_ns = INT64_MAX,
                                        .ids = true,
                                        .each = scan_rows,
                                        .arg = &scanning};

    scanning.next = fg_arena_new(making->arena, uint32_t, index->n_chunks);
    *ret_fits = set_places(making, index, source) && scanning.next != NULL;
    if (!*ret_fits)
        return FG_OK;
    memcpy(scanning.next, source->places, index->n_chunks * sizeof *scanning.next);
    if (cmp_merge_part_scan(&cursor->part, &scan, making->scratch, err) != FG_OK)
        return err->code;
    for (uint32_t r = 0; r < index->n_chunks; r++)
        while (scanning.next[r] < source->places[r + 1])
            source->firsts[scanning.next[r]++] = index->chunks[r].first + index->chunks[r].count;
    return FG_OK;
}

bool cmp_rollup_map_sources(struct cmp_making *making)
{
    uint32_t *stacks = fg_arena_new(making->arena, uint32_t, making->n_ranks);
    uint32_t *rank_of;

    if (stacks == NULL)
        return false;
    rank_of = fg_calloc((size_t)making->input->tree->n_nodes + 1, sizeof *rank_of);
    fg_block_part_stacks(making->input->block, stacks);
    for (uint32_t i = 0; i < making->n_ranks; i++)
        rank_of[stacks[i]] = i;
    /* From stacks of the merged tree to ranks of the block: in place, since a source may have
     * millions. */
    for (uint32_t i = 0; i < making->input->n_cursors; i++) {
        const struct cmp_merge_cursor *cursor = &making->input->cursors[i];

        for (uint32_t r = 0; r < cursor->part.part->n_stacks; r++)
            if (cursor->stacks[r] != FG_MAP_NONE) /* else of nobody who was chosen */
                cursor->stacks[r] = rank_of[cursor->stacks[r]];
        making->sources[i].ranks = cursor->stacks;
    }
    free(rank_of);
    /* From stacks to nodes of the function tree. */
    for (uint32_t i = 0; i < making->n_ranks; i++)
        stacks[i] = stacks[i] == 0 ? making->names->no_stack : making->names->nodes[stacks[i] - 1];
    making->name_of = stacks;
    return true;
}

enum fg_code cmp_rollup_scan_sources(struct cmp_making *making, bool *ret_fits, struct fg_err *err)
{
    making->sources = fg_arena_new(making->arena, struct cmp_source, making->input->n_cursors);
    *ret_fits = making->sources != NULL;
    for (uint32_t i = 0; i < making->input->n_cursors && *ret_fits; i++)
        if (scan_source(making, i, ret_fits, err) != FG_OK)
            return err->code;
    return FG_OK;
}
