#include "compactor/merge/nodes.h"

#include "common/base/time.h"
#include "common/flame/crown.h"

enum {
    TYPES_MAX = 256, /* of a service: more have no nodes */
    ARENA_SHARE = 2, /* of the memory: what is kept of series; the rest is sums */
    /* A crown takes 0.85 to 1.1 bytes a node: what is not worth three quarters is not made. */
    CROWN_NODE_BYTES = 3,
    CROWN_NODE_SHARE = 4,
    ZERO_ROW_BYTES = 8,    /* of a row that says there is nothing, packed */
    FINE_STEPS = 6,        /* 10 minutes of an hour */
    FINE_COUNTS_SHARE = 8, /* of the memory */
    /* Of small nodes: a sample has so many nodes of its own at most, or nearly; a node takes two
     * bytes of crown, dictionary and table; so many nodes are gone through as quickly as a sample
     * is written. A stack and a node of the part's tree take so much where it is stored. */
    SMALL_NODES = 4,
    SMALL_NODE_BYTES = 2,
    SMALL_NODES_A_SAMPLE = 8,
    STACK_BYTES = 2,
    TREE_NODE_BYTES = 1,
};

/* Profiles of a series in a bucket of time. */
struct counted {
    uint64_t profiles, samples;
    struct fg_id digest;
};

struct series {
    uint32_t group;
    uint32_t *types;         /* [n_types of its schema]: into making.types; FG_MAP_NONE: not seen */
    struct counted *buckets; /* [n_buckets] */
};

/* What is known of a source. Of its run r the first bucket that may have profiles is that of its
 * least time; of those after it firsts[places[r]] and on say with which profile they begin. */
struct source {
    uint32_t *firsts;
    uint32_t *places;      /* [n_runs + 1] */
    uint32_t at;           /* series that comes next, when they are gone through in order */
    const uint32_t *ranks; /* of a rank: that in the block */
};

struct making {
    const struct merge_nodes_input *input;
    struct fg_arena *arena, *scratch;
    struct fg_nodes_writer *writer;
    const struct fg_name_tree *names;
    uint32_t n_ranks;
    uint32_t *name_of;        /* of a rank of the block: the node of names, or n_nodes */
    struct fg_groups *groups; /* in the caller's arena: the writer of nodes looks at them */
    uint32_t group_sizes[FG_GROUPS_MAX]; /* series */
    bool left_out;

    /* Time: buckets, the first of them for what is early, where anything is (n_early 1); the others
     * are the span. n_fine of them are a step, and some steps a middle span; 1: there is none. */
    int64_t start_ns, bucket_ns;
    uint32_t n_buckets, n_fine, n_middles, n_early;

    struct fg_profile_type types[TYPES_MAX];
    uint32_t n_types;
    struct series *series;
    struct source *sources;
    uint64_t samples, samples_bytes; /* of the part, as stored */

    /* Sums of the types at hand: columns. Those by name have room for what has none, at the end. */
    uint32_t columns[TYPES_MAX], n_columns; /* into types, ascending */
    uint32_t column_of[TYPES_MAX];          /* FG_MAP_NONE: not at hand */
    bool done[TYPES_MAX];
    bool small_groups, small_series; /* have nodes, whatever they are worth */
    uint32_t n_groups;               /* that are summed; 1: all are one */
    size_t stride;                   /* of a column by name */
    int64_t *fine, *step;            /* [column]; fine is NULL where n_fine is 1 */
    int64_t *middle, *top;           /* [group][column] */
    uint64_t *full;                  /* [group][column][n_ranks]; NULL: none */
};

/* ---- spans ---- */

/* Ten minutes by themselves, unless their counts would take the memory of everything else. */
static bool is_fine(const struct making *making)
{
    uint64_t buckets = UINT64_C(24) * FINE_STEPS;
    uint64_t counts = making->input->n_series * buckets * sizeof(struct counted);

    return making->input->fine && counts <= making->input->max_bytes / FINE_COUNTS_SHARE;
}

static void set_spans(struct making *making)
{
    const struct merge_span *span = making->input->span;
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

/* Buckets [from, to). */
struct stretch {
    uint32_t from, to;
};

static struct stretch middle_of(const struct making *making, uint32_t middle)
{
    uint32_t each = (making->n_buckets - making->n_early) / making->n_middles;
    uint32_t from = making->n_early + middle * each;

    return (struct stretch){from, from + each};
}

/* All but what is early. */
static struct stretch span_itself(const struct making *making)
{
    return (struct stretch){making->n_early, making->n_buckets};
}

static struct stretch whole(const struct making *making)
{
    return (struct stretch){0, making->n_buckets};
}

static uint32_t bucket_of(const struct making *making, int64_t time_ns)
{
    uint64_t bucket;

    if (time_ns < making->start_ns)
        return 0;
    bucket = ((uint64_t)time_ns - (uint64_t)making->start_ns) / (uint64_t)making->bucket_ns;
    return (uint32_t)FG_MIN(making->n_early + bucket, making->n_buckets - 1);
}

/* Where a bucket begins; n_buckets: where the last one ends. */
static int64_t bucket_start_ns(const struct making *making, uint32_t bucket)
{
    if (bucket < making->n_early)
        return merge_span_from_ns(making->input->span);
    return making->start_ns + (bucket - making->n_early) * making->bucket_ns;
}

/* ---- types and series ---- */

static struct fg_profile_type type_of(const struct fg_block_series *series, uint32_t type)
{
    return (struct fg_profile_type){
        .name = fg_labels_get(&series->labels, FG_LABEL_NAME),
        .type = series->types[type].type,
        .unit = series->types[type].unit,
        .period_type = series->period_type.type,
        .period_unit = series->period_type.unit,
    };
}

/* Its number, also of one that was not known; FG_MAP_NONE: they are too many. */
static uint32_t find_type(struct making *making, const struct fg_profile_type *type)
{
    for (uint32_t i = 0; i < making->n_types; i++)
        if (fg_profile_type_eq(&making->types[i], type))
            return i;
    if (making->n_types == TYPES_MAX)
        return FG_MAP_NONE;
    making->types[making->n_types] = *type;
    return making->n_types++;
}

static bool set_types(struct making *making, uint32_t number, uint64_t seen)
{
    const struct fg_block_series *from = &making->input->series[number];
    struct series *series = &making->series[number];

    series->types = fg_arena_new(making->arena, uint32_t, from->n_types);
    if (series->types == NULL)
        return false;
    for (uint32_t t = 0; t < from->n_types; t++) {
        struct fg_profile_type type = type_of(from, t);

        series->types[t] = (seen >> t & 1) == 0 ? FG_MAP_NONE : find_type(making, &type);
        if ((seen >> t & 1) != 0 && series->types[t] == FG_MAP_NONE)
            return false;
    }
    return true;
}

static bool set_groups(struct making *making)
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

/* false: no room. Else what is known of the part's series but their counts. */
static bool set_series(struct making *making, const uint64_t *seen)
{
    uint32_t n_series = making->input->n_series;
    struct counted *buckets =
        fg_arena_new(making->arena, struct counted, (size_t)n_series * making->n_buckets);

    making->series = fg_arena_new(making->arena, struct series, n_series);
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
    struct making *making;
    const struct merge_cursor *cursor;
    struct source *source;
    uint32_t *next; /* of its runs: where firsts are known up to */
};

/* The first profile of a run in a bucket or behind it. */
static uint32_t first_of(const struct making *making, const struct source *source,
                         const struct fg_block_index *index, uint32_t run, uint32_t bucket)
{
    uint32_t first = bucket_of(making, index->runs[run].t_min_ns);
    uint32_t count = source->places[run + 1] - source->places[run];

    if (bucket <= first)
        return index->runs[run].first;
    if (bucket - first > count)
        return index->runs[run].first + index->runs[run].count;
    return source->firsts[source->places[run] + bucket - first - 1];
}

static enum fg_code scan_rows(void *arg, const struct merge_rows *page, struct fg_err *err)
{
    struct scanning *scanning = arg;
    const struct making *making = scanning->making;
    const struct fg_block_rows *rows = &page->rows;
    const struct fg_block_index *index = &scanning->cursor->part.index;
    uint32_t r = fg_block_run_of(index, rows->first);

    (void)err;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t profile = rows->first + i, bucket, behind;
        struct counted *counted;

        if (!merge_chosen(&scanning->cursor->choice, profile))
            continue;
        while (profile >= index->runs[r].first + index->runs[r].count)
            r++;
        bucket = bucket_of(making, rows->times_ns[i]);
        behind = bucket - bucket_of(making, index->runs[r].t_min_ns);
        while (scanning->next[r] < scanning->source->places[r] + behind)
            scanning->source->firsts[scanning->next[r]++] = profile;
        counted = &making->series[scanning->cursor->numbers[rows->series[i]]].buckets[bucket];
        counted->profiles++;
        counted->samples += rows->n_samples[i];
        counted->digest = fg_id_add(counted->digest, page->ids[i]);
    }
    return FG_OK;
}

/* Where firsts of runs begin. false: no room. */
static bool set_places(const struct making *making, const struct fg_block_index *index,
                       struct source *source)
{
    uint64_t place = 0;

    source->places = fg_arena_new(making->arena, uint32_t, (size_t)index->n_runs + 1);
    if (source->places == NULL)
        return false;
    for (uint32_t r = 0; r < index->n_runs; r++) {
        source->places[r] = (uint32_t)place;
        place +=
            bucket_of(making, index->runs[r].t_max_ns) - bucket_of(making, index->runs[r].t_min_ns);
        if (place > UINT32_MAX)
            return false;
    }
    source->places[index->n_runs] = (uint32_t)place;
    source->firsts = fg_arena_new(making->arena, uint32_t, place);
    return source->firsts != NULL;
}

/* Fills in firsts, and counts. *ret_fits false: no room. */
static enum fg_code scan_source(struct making *making, uint32_t number, bool *ret_fits,
                                struct fg_err *err)
{
    struct merge_cursor *cursor = &making->input->cursors[number];
    const struct fg_block_index *index = &cursor->part.index;
    struct source *source = &making->sources[number];
    struct scanning scanning = {.making = making, .cursor = cursor, .source = source};
    const struct merge_scan scan = {.start_ns = INT64_MIN,
                                    .end_ns = INT64_MAX,
                                    .ids = true,
                                    .each = scan_rows,
                                    .arg = &scanning};

    scanning.next = fg_arena_new(making->arena, uint32_t, index->n_runs);
    *ret_fits = set_places(making, index, source) && scanning.next != NULL;
    if (!*ret_fits)
        return FG_OK;
    memcpy(scanning.next, source->places, index->n_runs * sizeof *scanning.next);
    if (merge_part_scan(&cursor->part, &scan, making->scratch, err) != FG_OK)
        return err->code;
    for (uint32_t r = 0; r < index->n_runs; r++)
        while (scanning.next[r] < source->places[r + 1])
            source->firsts[scanning.next[r]++] = index->runs[r].first + index->runs[r].count;
    return FG_OK;
}

/* The stacks of a source become ranks of the block: in their place, since there may be millions.
 * rank_of: of a stack of the tree. */
static void map_source(struct making *making, uint32_t number, const uint32_t *rank_of)
{
    struct merge_cursor *cursor = &making->input->cursors[number];

    for (uint32_t r = 0; r < cursor->part.part->n_stacks; r++)
        if (cursor->stacks[r] != FG_MAP_NONE) /* else of nobody who was chosen */
            cursor->stacks[r] = rank_of[cursor->stacks[r]];
    making->sources[number].ranks = cursor->stacks;
}

/* Stacks become names, in their place. */
static void name_stacks(const struct making *making, uint32_t *stacks)
{
    for (uint32_t i = 0; i < making->n_ranks; i++) {
        uint32_t name = stacks[i] == 0 ? FG_TREE_ROOT : making->names->nodes[stacks[i] - 1];

        stacks[i] = name == FG_TREE_ROOT ? making->names->n_nodes : name;
    }
}

static bool map_sources(struct making *making)
{
    uint32_t *stacks = fg_arena_new(making->arena, uint32_t, making->n_ranks);
    uint32_t *rank_of;

    if (stacks == NULL)
        return false;
    rank_of = fg_calloc((size_t)making->input->tree->n_nodes + 1, sizeof *rank_of);
    fg_block_part_stacks(making->input->block, stacks);
    for (uint32_t i = 0; i < making->n_ranks; i++)
        rank_of[stacks[i]] = i;
    for (uint32_t i = 0; i < making->input->n_cursors; i++)
        map_source(making, i, rank_of);
    free(rank_of);
    name_stacks(making, stacks);
    making->name_of = stacks;
    return true;
}

static enum fg_code scan_sources(struct making *making, bool *ret_fits, struct fg_err *err)
{
    making->sources = fg_arena_new(making->arena, struct source, making->input->n_cursors);
    *ret_fits = making->sources != NULL;
    for (uint32_t i = 0; i < making->input->n_cursors && *ret_fits; i++)
        if (scan_source(making, i, ret_fits, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- rows ---- */

static bool has_column(const struct making *making, uint32_t series, uint32_t column)
{
    const struct fg_block_series *from = &making->input->series[series];

    for (uint32_t t = 0; t < from->n_types; t++)
        if (making->series[series].types[t] == making->columns[column])
            return true;
    return false;
}

static bool is_of(const struct making *making, uint32_t series, const struct fg_nodes_key *key)
{
    return key->kind == FG_NODES_ALL ||
           (key->kind == FG_NODES_GROUP && making->series[series].group == key->number) ||
           (key->kind == FG_NODES_SERIES && series == key->number);
}

static void count_series(const struct making *making, uint32_t series, struct stretch stretch,
                         struct counted *sum)
{
    for (uint32_t b = stretch.from; b < stretch.to; b++) {
        const struct counted *counted = &making->series[series].buckets[b];

        sum->profiles += counted->profiles;
        sum->samples += counted->samples;
        sum->digest = fg_id_add(sum->digest, counted->digest);
    }
}

static struct counted count_key(const struct making *making, const struct fg_nodes_key *key,
                                struct stretch stretch, uint32_t column)
{
    struct counted sum = {0};
    bool one = key->kind == FG_NODES_SERIES;

    for (uint32_t i = one ? key->number : 0; i < (one ? key->number + 1 : making->input->n_series);
         i++)
        if (is_of(making, i, key) && has_column(making, i, column))
            count_series(making, i, stretch, &sum);
    return sum;
}

static uint64_t bytes_of(const struct making *making, uint64_t samples)
{
    return (uint64_t)((double)samples * (double)making->samples_bytes /
                      (double)FG_MAX(making->samples, 1));
}

/* Could a crown of so many samples be worth what it takes the place of? Spares making it. */
static bool is_promising(const struct making *making, uint64_t samples)
{
    uint64_t nodes = FG_MIN(FG_MIN(samples / 2, making->names->n_nodes), FG_CROWN_NODES);

    return fg_nodes_worth(nodes * CROWN_NODE_BYTES / CROWN_NODE_SHARE, bytes_of(making, samples));
}

/* Is it worth saying where there is nothing? Of days, where that takes little beside the samples.
 */
static bool says_nothing(const struct making *making, const struct fg_nodes_key *key,
                         uint32_t column)
{
    const struct fg_nodes_key all = {.kind = FG_NODES_ALL};
    uint64_t rows = making->n_buckets + (uint64_t)making->n_middles * (1 + making->n_groups);
    struct counted counted;

    if (key->kind == FG_NODES_SERIES || making->n_middles == 1)
        return false;
    counted = count_key(making, &all, whole(making), column);
    return fg_nodes_worth(rows * ZERO_ROW_BYTES, bytes_of(making, counted.samples));
}

/* ---- small ones ---- */

/*
 * Whoever reads profiles as they are, if only a few, needs all stacks of the part; and a filter
 * that a small group matches reads them for that one alone. So groups and series that are not
 * worth a node by their samples have one if all such together are worth the part's bytes, and the
 * time that making them takes.
 */
struct small {
    uint64_t rows, bytes;
};

/* Of the part as it is stored: samples, and about what stacks take. */
static uint64_t part_bytes(const struct making *making)
{
    return making->samples_bytes + (uint64_t)making->input->tree->n_nodes * TREE_NODE_BYTES +
           (uint64_t)making->n_ranks * STACK_BYTES;
}

/* What a node of so many samples takes, at most or nearly. */
static uint64_t most_bytes(const struct making *making, uint64_t samples)
{
    uint64_t nodes = FG_MIN(making->names->n_nodes, FG_CROWN_NODES);

    return FG_MIN(nodes, samples * SMALL_NODES) * SMALL_NODE_BYTES;
}

static bool is_small(const struct making *making, uint64_t samples)
{
    return !fg_nodes_worth(most_bytes(making, samples), bytes_of(making, samples));
}

static void add_small(const struct making *making, struct fg_nodes_key key, struct stretch stretch,
                      struct small *small)
{
    for (uint32_t c = 0; c < making->n_columns; c++) {
        struct counted counted = count_key(making, &key, stretch, c);

        if (counted.profiles == 0 || !is_small(making, counted.samples))
            continue;
        small->rows++;
        small->bytes += most_bytes(making, counted.samples);
    }
}

static bool are_worth_it(const struct making *making, const struct small *small)
{
    return fg_nodes_worth(small->bytes, part_bytes(making)) &&
           small->rows * making->names->n_nodes <= making->samples * SMALL_NODES_A_SAMPLE;
}

/* Of the types at hand. */
static void judge_small(struct making *making)
{
    struct fg_nodes_key key = {.kind = FG_NODES_GROUP};
    struct small small = {0, 0};

    for (; key.number < making->n_groups && making->n_groups > 1; key.number++) {
        add_small(making, key, whole(making), &small);
        for (uint32_t m = 0; m < making->n_middles && making->n_middles > 1; m++)
            add_small(making, key, middle_of(making, m), &small);
    }
    making->small_groups = are_worth_it(making, &small);
    key = (struct fg_nodes_key){.kind = FG_NODES_SERIES};
    for (; key.number < making->input->n_series; key.number++)
        add_small(making, key, whole(making), &small);
    making->small_series = are_worth_it(making, &small);
}

/* What a node of the key takes the place of; 0: it is not worth making. */
static uint64_t replaced_bytes(const struct making *making, enum fg_nodes_kind kind,
                               uint64_t samples)
{
    uint64_t bytes = bytes_of(making, samples);

    if (is_small(making, samples) && ((kind == FG_NODES_GROUP && making->small_groups) ||
                                      (kind == FG_NODES_SERIES && making->small_series)))
        return part_bytes(making);
    return is_promising(making, samples) ? bytes : 0;
}

/* ---- rows that are kept ---- */

/* self, full: by column. */
static enum fg_code add_row(struct making *making, struct fg_nodes_key key, struct stretch stretch,
                            const int64_t *self, const uint64_t *full, struct fg_err *err)
{
    struct fg_nodes_value values[TYPES_MAX];
    uint32_t n = 0;

    key.start_ns = bucket_start_ns(making, stretch.from);
    key.end_ns = bucket_start_ns(making, stretch.to);
    for (uint32_t c = 0; c < making->n_columns; c++) {
        struct counted counted = count_key(making, &key, stretch, c);
        uint64_t bytes = replaced_bytes(making, key.kind, counted.samples);

        if (counted.profiles == 0 ? !says_nothing(making, &key, c) : bytes == 0)
            continue;
        values[n++] = (struct fg_nodes_value){
            .type = making->columns[c],
            .self = self + c * making->stride,
            .full = full == NULL ? NULL : full + (size_t)c * making->n_ranks,
            .count = counted.profiles,
            .digest = counted.digest,
            .replaces_bytes = bytes,
        };
    }
    if (n == 0 || fg_nodes_add(making->writer, &key, values, n, err) == FG_OK)
        return FG_OK;
    if (err->code != FG_E_LIMIT)
        return err->code;
    making->left_out = true; /* more rows than there may be */
    return FG_OK;
}

/* ---- sums ---- */

static size_t names_columns(const struct making *making)
{
    return making->n_columns * making->stride;
}

static int64_t *group_of(const struct making *making, int64_t *sums, uint32_t group)
{
    return sums + group * names_columns(making);
}

static uint64_t *full_of(const struct making *making, uint32_t group)
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

/* Samples of a profile, into the column of each of its types. */
static void add_samples(const struct making *making, const struct source *source,
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
            full[(size_t)column * making->n_ranks + source->ranks[set->ranks[i]]] += values[i];
    }
}

static bool is_at_hand(const struct making *making, uint32_t series)
{
    const struct fg_block_series *from = &making->input->series[series];

    for (uint32_t t = 0; t < from->n_types; t++) {
        uint32_t type = making->series[series].types[t];

        if (type != FG_MAP_NONE && making->column_of[type] != FG_MAP_NONE)
            return true;
    }
    return false;
}

/* What a source has of a run in some buckets. grouped: into those of its group too. */
static enum fg_code add_run(struct making *making, uint32_t number, uint32_t run,
                            struct stretch stretch, bool grouped, int64_t *sums, struct fg_err *err)
{
    struct merge_cursor *cursor = &making->input->cursors[number];
    const struct source *source = &making->sources[number];
    const struct fg_block_index *index = &cursor->part.index;
    uint32_t first = first_of(making, source, index, run, stretch.from);
    uint32_t end = first_of(making, source, index, run, stretch.to);
    uint32_t merged = cursor->numbers[index->runs[run].series];
    const struct series *of = merged == FG_MAP_NONE ? NULL : &making->series[merged];
    uint32_t group;

    if (first == end || of == NULL || !is_at_hand(making, merged))
        return FG_OK;
    group = making->n_groups == 1 ? 0 : of->group;
    for (uint32_t p = first; p < end; p++) {
        struct fg_block_sample_set set;

        if (!merge_chosen(&cursor->choice, p))
            continue;
        if (merge_cursor_samples(cursor, p, &set, err) != FG_OK)
            return err->code;
        add_samples(making, source, &set, of->types, sums,
                    grouped ? group_of(making, making->middle, group) : NULL,
                    grouped ? full_of(making, group) : NULL);
    }
    return FG_OK;
}

/* What all sources have in a bucket; also into the sums of groups. */
static enum fg_code sum_bucket(struct making *making, uint32_t bucket, int64_t *sums,
                               struct fg_err *err)
{
    const struct stretch stretch = {bucket, bucket + 1};

    zero(sums, names_columns(making));
    for (uint32_t i = 0; i < making->input->n_cursors; i++)
        for (uint32_t r = 0; r < making->input->cursors[i].part.index.n_runs; r++)
            if (add_run(making, i, r, stretch, true, sums, err) != FG_OK)
                return err->code;
    return FG_OK;
}

/* Buckets of a step, which have rows of their own. */
static enum fg_code sum_fine(struct making *making, struct stretch step, struct fg_err *err)
{
    const struct fg_nodes_key all = {.kind = FG_NODES_ALL};

    zero(making->step, names_columns(making));
    for (uint32_t b = step.from; b < step.to; b++) {
        if (sum_bucket(making, b, making->fine, err) != FG_OK ||
            add_row(making, all, (struct stretch){b, b + 1}, making->fine, NULL, err) != FG_OK)
            return err->code;
        add_to(making->fine, names_columns(making), making->step);
    }
    return FG_OK;
}

static enum fg_code sum_step(struct making *making, struct stretch step, struct fg_err *err)
{
    const struct fg_nodes_key all = {.kind = FG_NODES_ALL};

    if ((step.to - step.from == 1 ? sum_bucket(making, step.from, making->step, err)
                                  : sum_fine(making, step, err)) != FG_OK)
        return err->code;
    if (making->n_buckets == 1 + making->n_early && step.from == making->n_early)
        return FG_OK; /* it is the span */
    return add_row(making, all, step, making->step, NULL, err);
}

/* Rows of groups, and of all, which is the sum of them: by name in the place of a step, in full
 * in that of the first. */
static enum fg_code add_rows(struct making *making, struct stretch stretch, int64_t *sums,
                             bool with_full, struct fg_err *err)
{
    struct fg_nodes_key key = {.kind = FG_NODES_GROUP};
    size_t n_full =
        with_full && making->full != NULL ? (size_t)making->n_columns * making->n_ranks : 0;
    uint64_t *first = n_full == 0 ? NULL : making->full;

    for (uint32_t g = 0; g < making->n_groups && making->n_groups > 1; g++) {
        key.number = g;
        if (add_row(making, key, stretch, group_of(making, sums, g),
                    n_full == 0 ? NULL : full_of(making, g), err) != FG_OK)
            return err->code;
    }
    zero(making->step, names_columns(making));
    for (uint32_t g = 0; g < making->n_groups; g++) {
        add_to(group_of(making, sums, g), names_columns(making), making->step);
        for (size_t i = 0; g > 0 && i < n_full; i++)
            first[i] += full_of(making, g)[i];
    }
    return add_row(making, (struct fg_nodes_key){.kind = FG_NODES_ALL}, stretch, making->step,
                   first, err);
}

static enum fg_code sum_middle(struct making *making, uint32_t middle, struct fg_err *err)
{
    struct stretch stretch = middle_of(making, middle);
    size_t count = making->n_groups * names_columns(making);

    zero(making->middle, count);
    for (uint32_t b = stretch.from; b < stretch.to; b += making->n_fine)
        if (sum_step(making, (struct stretch){b, b + making->n_fine}, err) != FG_OK)
            return err->code;
    if (making->n_middles == 1)
        return FG_OK; /* it is the span */
    add_to(making->middle, count, making->top);
    return add_rows(making, stretch, making->middle, false, err);
}

static bool has_early(const struct making *making)
{
    for (uint32_t i = 0; i < making->input->n_series && making->n_early > 0; i++)
        if (making->series[i].buckets[0].profiles > 0)
            return true;
    return false;
}

/* Rows of the span, of which sums are known; these become sums of what is early as well. */
static enum fg_code add_early(struct making *making, int64_t *sums, struct fg_err *err)
{
    size_t count = making->n_groups * names_columns(making);

    if (!has_early(making))
        return FG_OK;
    if (add_rows(making, span_itself(making), sums, false, err) != FG_OK)
        return err->code;
    if (sums != making->middle)
        zero(making->middle, count);
    if (sum_step(making, (struct stretch){0, 1}, err) != FG_OK)
        return err->code;
    if (sums != making->middle)
        add_to(making->middle, count, sums);
    return FG_OK;
}

/* Is it more than its group, or than all are? */
static bool is_one_of_many(const struct making *making, uint32_t series)
{
    return making->n_groups == 1 ? making->input->n_series > 1
                                 : making->group_sizes[making->series[series].group] > 1;
}

static enum fg_code add_series(struct making *making, uint32_t number, uint32_t series,
                               struct fg_err *err)
{
    const struct fg_block_series_row *row =
        &making->input->cursors[number].part.index.series[series];

    for (uint32_t i = 0; i < row->n_runs; i++)
        if (add_run(making, number, row->runs[i], whole(making), false, making->step, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Series of sources are in the order of those they become. */
static enum fg_code add_everywhere(struct making *making, uint32_t merged, struct fg_err *err)
{
    for (uint32_t i = 0; i < making->input->n_cursors; i++) {
        const struct merge_cursor *cursor = &making->input->cursors[i];
        uint32_t *at = &making->sources[i].at, n = cursor->part.index.n_series;

        while (*at < n && (cursor->numbers[*at] == FG_MAP_NONE || cursor->numbers[*at] < merged))
            ++*at;
        if (*at < n && cursor->numbers[*at] == merged && add_series(making, i, *at, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

static enum fg_code sum_series(struct making *making, uint32_t merged, struct fg_err *err)
{
    const struct fg_nodes_key key = {.kind = FG_NODES_SERIES, .number = merged};
    struct counted counted = {0};

    count_series(making, merged, whole(making), &counted);
    if (!is_at_hand(making, merged) || !is_one_of_many(making, merged) ||
        replaced_bytes(making, FG_NODES_SERIES, counted.samples) == 0)
        return FG_OK;
    zero(making->step, names_columns(making));
    if (add_everywhere(making, merged, err) != FG_OK)
        return err->code;
    return add_row(making, key, whole(making), making->step, NULL, err);
}

static enum fg_code sum_columns(struct making *making, struct fg_err *err)
{
    int64_t *sums = making->n_middles > 1 ? making->top : making->middle;

    judge_small(making);
    for (uint32_t m = 0; m < making->n_middles; m++)
        if (sum_middle(making, m, err) != FG_OK)
            return err->code;
    if (add_early(making, sums, err) != FG_OK ||
        add_rows(making, whole(making), sums, true, err) != FG_OK)
        return err->code;
    for (uint32_t i = 0; i < making->input->n_cursors; i++)
        making->sources[i].at = 0;
    for (uint32_t i = 0; i < making->input->n_series; i++)
        if (sum_series(making, i, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* ---- memory ---- */

static uint64_t sums_bytes(const struct making *making, uint32_t n_groups, bool full)
{
    uint64_t levels = making->n_middles > 1 ? 2 : 1;
    uint64_t names = ((making->n_fine > 1 ? 2 : 1) + levels * n_groups) * making->stride;

    return (names + (full ? (uint64_t)n_groups * making->n_ranks : 0)) * making->n_columns *
           sizeof(int64_t);
}

static void take_sums(struct making *making, uint32_t n_groups, bool full)
{
    size_t count = names_columns(making);

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

static void drop_sums(struct making *making)
{
    free(making->fine);
    free(making->step);
    free(making->middle);
    free(making->top);
    free(making->full);
    making->fine = making->step = making->middle = making->top = NULL;
    making->full = NULL;
}

/* The most that fits: full nodes and groups are given up in that order. false: nothing does. */
static bool make_room(struct making *making)
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

/* Types that profiles have together are summed together: one may be a multiple of another. */
static bool next_columns(struct making *making)
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

static enum fg_code make_all(struct making *making, struct fg_err *err)
{
    making->stride = (size_t)making->names->n_nodes + 1;
    while (next_columns(making)) {
        enum fg_code code = make_room(making) ? sum_columns(making, err) : FG_OK;

        drop_sums(making);
        if (code != FG_OK)
            return code;
    }
    return FG_OK;
}

static enum fg_code create_writer(struct making *making, struct fg_err *err)
{
    const struct fg_nodes_options options = {.tree = making->input->tree,
                                             .groups = making->groups,
                                             .types = making->types,
                                             .n_types = making->n_types,
                                             .n_ranks = making->n_ranks};

    if (fg_nodes_writer_create(&options, &making->writer, err) != FG_OK)
        return err->code;
    making->names = fg_nodes_writer_names(making->writer);
    return FG_OK;
}

/* *ret_fits false: the service is to do without. */
static enum fg_code prepare(struct making *making, bool *ret_fits, struct fg_err *err)
{
    uint32_t n_series = making->input->n_series;
    uint64_t *seen = fg_calloc(FG_MAX(n_series, 1), sizeof *seen);
    enum fg_code code = fg_block_part_close(making->input->block, seen, n_series, &making->samples,
                                            &making->samples_bytes, err);

    *ret_fits = code == FG_OK && set_series(making, seen);
    free(seen);
    if (*ret_fits)
        code = scan_sources(making, ret_fits, err);
    return code;
}

static enum fg_code make(struct making *making, struct fg_err *err)
{
    bool fits;

    if (prepare(making, &fits, err) != FG_OK)
        return err->code;
    if (fits)
        fits = create_writer(making, err) == FG_OK && map_sources(making);
    making->left_out = !fits;
    return fits ? make_all(making, err) : FG_OK;
}

enum fg_code merge_nodes_make(const struct merge_nodes_input *input,
                              struct fg_nodes_writer **ret_nodes, bool *ret_left_out,
                              struct fg_err *err)
{
    struct making *making = fg_new(struct making);
    enum fg_code code = FG_OK;

    making->input = input;
    making->n_ranks = fg_block_part_n_stacks(input->block);
    making->arena = fg_arena_create(input->max_bytes / ARENA_SHARE);
    making->scratch = fg_arena_create(input->max_bytes);
    set_spans(making);
    if (input->span->start_ns != INT64_MIN && input->span->end_ns != INT64_MAX)
        code = make(making, err);
    *ret_nodes = NULL;
    if (code == FG_OK) {
        *ret_nodes = making->writer;
        *ret_left_out = making->left_out;
    } else {
        fg_nodes_writer_destroy(making->writer);
    }
    fg_arena_destroy(making->arena);
    fg_arena_destroy(making->scratch);
    free(making);
    return code;
}
