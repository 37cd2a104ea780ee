/*
 * Pages of samples; what is stored is said where it is written (write_samples.c).
 *
 * A page is unpacked whole. Its heads are read once, and say of every profile and type where its
 * numbers are; so any profile can be read by itself, except columns that are differences to the
 * profile before: those need that one first, and so back to one without differences. `now` and
 * `before` are the profile read last and the one before it, each with the types that were needed.
 * Read in order, every profile is read once.
 */
#include "common/storage/block/numbers.h"
#include "common/storage/block/reader_impl.h"

/* A profile of the page. */
struct head {
    uint32_t count, n_types;
    uint32_t bits_at, ranks_at, ranks_bytes; /* in the page */
    uint32_t columns;                        /* first of its columns */
    bool has_delta, continues;               /* continues: of the chunk of the profile before */
};

/* A type of a profile. */
struct column {
    struct fg_block_column how;
    uint32_t bits_at, at, bytes; /* in the page, of its numbers */
};

struct samples_set {
    uint32_t profile; /* of the page; FG_MAP_NONE: nothing here */
    uint64_t types;   /* bit t: those there are */
    uint32_t count;
    uint32_t *ranks;  /* [count] */
    uint64_t *values; /* [n_types][count] */
    size_t cap_ranks, cap_values;
};

struct fg_block_samples {
    size_t max_bytes;
    struct fg_block_unpacker *unpacker;

    const struct fg_block_index *index;
    uint32_t page, first, count; /* profiles [first, first + count) */
    struct fg_slice raw;
    uint8_t *unpacked;
    struct head *heads;
    struct column *columns;
    size_t cap_unpacked, cap_heads, cap_columns;
    uint64_t *numbers; /* of a column */
    size_t cap_numbers;
    struct samples_set now, before;
};

struct fg_block_samples *fg_block_samples_create(size_t max_bytes)
{
    struct fg_block_samples *samples = fg_new(struct fg_block_samples);

    samples->max_bytes = max_bytes;
    samples->unpacker = fg_block_unpacker_create();
    return samples;
}

void fg_block_samples_destroy(struct fg_block_samples *samples)
{
    if (samples == NULL)
        return;
    fg_block_unpacker_destroy(samples->unpacker);
    free(samples->unpacked);
    free(samples->heads);
    free(samples->columns);
    free(samples->numbers);
    free(samples->now.ranks);
    free(samples->now.values);
    free(samples->before.ranks);
    free(samples->before.values);
    free(samples);
}

/* Room for count elements, one at least, in *array, the address of the pointer to it; what is there
 * goes. */
static bool room(struct fg_block_samples *samples, void *array, size_t count, size_t *cap,
                 size_t size)
{
    size_t wanted, held;
    void *old;

    count = FG_MAX(count, 1);
    wanted = FG_MAX(count, *cap + *cap / 2);
    if (count <= *cap)
        return true;
    held = samples->cap_unpacked + samples->cap_heads * sizeof *samples->heads +
           samples->cap_columns * sizeof *samples->columns +
           samples->cap_numbers * sizeof *samples->numbers +
           (samples->now.cap_ranks + samples->before.cap_ranks) * sizeof(uint32_t) +
           (samples->now.cap_values + samples->before.cap_values) * sizeof(uint64_t) - *cap * size;
    if (held > samples->max_bytes || count > (samples->max_bytes - held) / size)
        return false;
    wanted = FG_MIN(wanted, (samples->max_bytes - held) / size);
    memcpy(&old, array, sizeof old);
    free(old);
    old = fg_malloc(wanted * size);
    memcpy(array, &old, sizeof old);
    *cap = wanted;
    return true;
}

static enum fg_code too_large(struct fg_block_samples *samples, struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "samples need more than %zu bytes", samples->max_bytes);
}

/* ---- opening a page ---- */

/* What is left of the numbers in a pair of streams (numbers.h). */
struct stream {
    uint32_t bits_at, bits_left, at, left;
};

/* Where the streams of a page are. */
struct layout {
    struct fg_cur heads;
    struct stream ranks;
    uint32_t n_types;
    struct stream values[FG_BATCH_TYPES_MAX];
};

static bool get_stream(struct fg_cur *cur, struct fg_slice raw, struct stream *stream)
{
    uint64_t bits_bytes = fg_cur_varint(cur), bytes = fg_cur_varint(cur);

    if (bits_bytes > raw.len || bytes > raw.len)
        return false;
    stream->bits_left = (uint32_t)bits_bytes;
    stream->left = (uint32_t)bytes;
    return true;
}

static void place(struct stream *stream, uint64_t *at)
{
    stream->bits_at = (uint32_t)*at;
    *at += stream->bits_left;
    stream->at = (uint32_t)*at;
    *at += stream->left;
}

/* Reads the lengths in front and computes where the streams are. Together they have to be the
 * page. */
static bool get_layout(struct fg_slice raw, struct layout *layout)
{
    struct fg_cur cur = fg_cur(raw);
    uint64_t heads_bytes = fg_cur_varint(&cur), n_types, at;

    if (!get_stream(&cur, raw, &layout->ranks))
        return false;
    n_types = fg_cur_varint(&cur);
    if (n_types > FG_BATCH_TYPES_MAX)
        return false;
    layout->n_types = (uint32_t)n_types;
    for (uint32_t t = 0; t < n_types; t++)
        if (!get_stream(&cur, raw, &layout->values[t]))
            return false;
    layout->heads = fg_cur(fg_cur_take(&cur, heads_bytes));
    if (cur.bad)
        return false;
    at = raw.len - cur.left;
    place(&layout->ranks, &at);
    for (uint32_t t = 0; t < n_types; t++)
        place(&layout->values[t], &at);
    return at == raw.len;
}

static bool all_taken(const struct stream *stream)
{
    return stream->bits_left == 0 && stream->left == 0;
}

/* Takes count numbers of so many bytes off the stream. */
static bool take_numbers(struct stream *stream, uint32_t count, uint64_t bytes)
{
    size_t bits = fg_block_bits_bytes(count);

    if (bits > stream->bits_left || bytes > stream->left)
        return false;
    stream->bits_at += (uint32_t)bits;
    stream->bits_left -= (uint32_t)bits;
    stream->at += (uint32_t)bytes;
    stream->left -= (uint32_t)bytes;
    return true;
}

static bool get_columns(struct layout *layout, struct head *head, struct column *columns)
{
    for (uint32_t t = 0; t < head->n_types; t++) {
        struct column *column = &columns[t];
        uint64_t bytes;

        if (!fg_block_column_get_head(&layout->heads, t, head->continues, &column->how))
            return false;
        head->has_delta = head->has_delta || column->how.kind == FG_BLOCK_COLUMN_DELTA;
        if (!fg_block_column_has_numbers(&column->how))
            continue;
        bytes = fg_cur_varint(&layout->heads);
        column->bits_at = layout->values[t].bits_at;
        column->at = layout->values[t].at;
        column->bytes = (uint32_t)bytes;
        if (t >= layout->n_types || !take_numbers(&layout->values[t], head->count, bytes))
            return false;
    }
    return true;
}

static bool get_head(struct layout *layout, struct head *head)
{
    uint64_t count = fg_cur_varint(&layout->heads), bytes = fg_cur_varint(&layout->heads);

    head->count = (uint32_t)count;
    head->bits_at = layout->ranks.bits_at;
    head->ranks_at = layout->ranks.at;
    head->ranks_bytes = (uint32_t)bytes;
    return !layout->heads.bad && count <= FG_BLOCK_ITEMS_MAX &&
           take_numbers(&layout->ranks, head->count, bytes);
}

/* Counts the columns of all profiles of the page, from the index alone: memory is taken before
 * the page is parsed. */
static uint64_t count_columns(const struct fg_block_index *index, uint32_t first, uint32_t count)
{
    uint64_t columns = 0, end = (uint64_t)first + count;

    for (uint32_t r = fg_block_chunk_of(index, first);
         r < index->n_chunks && index->chunks[r].first < end; r++) {
        const struct fg_block_chunk *chunk = &index->chunks[r];
        uint64_t from = FG_MAX(chunk->first, first);
        uint64_t to = FG_MIN((uint64_t)chunk->first + chunk->count, end);

        columns += (to - from) * index->series[chunk->series].schema->n_types;
    }
    return columns;
}

static bool get_heads(struct fg_block_samples *samples, struct layout *layout)
{
    const struct fg_block_index *index = samples->index;
    uint32_t r = fg_block_chunk_of(index, samples->first), columns = 0;

    for (uint32_t i = 0; i < samples->count; i++) {
        uint32_t profile = samples->first + i;
        struct head *head = &samples->heads[i];

        while (profile >= index->chunks[r].first + index->chunks[r].count)
            r++;
        *head = (struct head){.n_types = index->series[index->chunks[r].series].schema->n_types,
                              .columns = columns,
                              .continues = i > 0 && profile > index->chunks[r].first};
        if (!get_head(layout, head) || !get_columns(layout, head, samples->columns + columns))
            return false;
        columns += head->n_types;
    }
    for (uint32_t t = 0; t < layout->n_types; t++)
        /* Every byte belongs to a profile, or the page is damaged in a way that its checksum
         * does not show (a faulty writer). */
        if (!all_taken(&layout->values[t]))
            return false;
    return fg_cur_end(&layout->heads) && all_taken(&layout->ranks);
}

static enum fg_code unpack(struct fg_block_samples *samples, const struct fg_block_page *page,
                           struct fg_slice bytes, struct fg_err *err)
{
    const struct fg_seal_part seal = fg_block_seal_of_part(samples->index->part);
    struct fg_block_stored said = fg_block_stored_of(page, FG_BLOCK_SMP, samples->page);
    uint32_t raw_bytes = fg_block_content_bytes(said);

    if (bytes.len != page->bytes)
        return fg_fail(err, FG_E_CORRUPT, "%zu bytes, should be %u", bytes.len, page->bytes);
    if (fg_block_check_bytes(bytes, said, err) != FG_OK)
        return err->code;
    if (!room(samples, &samples->unpacked, (size_t)raw_bytes + FG_BLOCK_NUMBERS_BEHIND,
              &samples->cap_unpacked, 1))
        return too_large(samples, err);
    /* The decoder of numbers reads whole words, up to so many bytes behind the page. */
    memset(samples->unpacked + raw_bytes, 0, FG_BLOCK_NUMBERS_BEHIND);
    if (fg_block_unpack(&seal, samples->unpacker, bytes, said, samples->unpacked, err) != FG_OK)
        return err->code;
    samples->raw = fg_bytes(samples->unpacked, raw_bytes);
    return FG_OK;
}

static enum fg_code open_page(struct fg_block_samples *samples, const struct fg_block_page *page,
                              struct fg_slice bytes, struct fg_err *err)
{
    uint64_t n_columns = count_columns(samples->index, page->first, page->items);
    struct layout layout = {.n_types = 0};

    if (unpack(samples, page, bytes, err) != FG_OK)
        return err->code;
    /* A profile takes two bytes, a column one: what a file says is bounded by what it has. */
    if (n_columns + 2 * (uint64_t)page->items > samples->raw.len)
        return fg_fail(err, FG_E_CORRUPT, "%u profiles in %zu bytes", page->items,
                       samples->raw.len);
    if (!room(samples, &samples->heads, page->items, &samples->cap_heads, sizeof *samples->heads) ||
        !room(samples, &samples->columns, n_columns, &samples->cap_columns,
              sizeof *samples->columns))
        return too_large(samples, err);
    samples->first = page->first;
    samples->count = page->items;
    if (!get_layout(samples->raw, &layout) || !get_heads(samples, &layout))
        return fg_fail(err, FG_E_CORRUPT, "heads of profiles");
    return FG_OK;
}

enum fg_code fg_block_samples_open(struct fg_block_samples *samples,
                                   const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_err *err)
{
    fg_assert(page < index->pages[FG_BLOCK_SMP].count);
    samples->index = index;
    samples->page = page;
    samples->count = 0;
    samples->now.profile = samples->before.profile = FG_MAP_NONE;
    if (open_page(samples, &index->pages[FG_BLOCK_SMP].pages[page], bytes, err) != FG_OK) {
        samples->count = 0;
        return fg_block_page_wrap(err, FG_BLOCK_SMP, page);
    }
    return FG_OK;
}

/* ---- reading a profile ---- */

static const struct column *column_of(const struct fg_block_samples *samples, uint32_t profile,
                                      uint32_t type)
{
    return &samples->columns[samples->heads[profile].columns + type];
}

static enum fg_code bad_profile(const struct fg_block_samples *samples, uint32_t profile,
                                const char *what, struct fg_err *err)
{
    return fg_fail(err, FG_E_CORRUPT, "SMP page %u: %s of its profile %u", samples->page, what,
                   profile);
}

/* Loads the ranks of a profile into `now`. */
static enum fg_code load_ranks(struct fg_block_samples *samples, uint32_t profile,
                               struct fg_err *err)
{
    const struct head *head = &samples->heads[profile];
    struct samples_set *now = &samples->now;
    struct fg_slice bits =
        fg_slice_sub(samples->raw, head->bits_at, fg_block_bits_bytes(head->count));
    struct fg_slice bytes = fg_slice_sub(samples->raw, head->ranks_at, head->ranks_bytes);

    if (!room(samples, &now->ranks, (size_t)head->count + FG_BLOCK_NUMBERS_SPARE, &now->cap_ranks,
              sizeof *now->ranks) ||
        !room(samples, &now->values, (size_t)head->count * head->n_types, &now->cap_values,
              sizeof *now->values))
        return too_large(samples, err);
    if (!fg_block_ranks_get(bits, bytes, head->count, samples->index->part->n_stacks, now->ranks))
        return bad_profile(samples, profile, "ranks", err);
    now->profile = profile;
    now->types = 0;
    now->count = head->count;
    return FG_OK;
}

/* Adds the values of the profile before for stacks that it has as well. Both are sorted by rank. */
static void add_before(const struct samples_set *now, const struct samples_set *before,
                       uint32_t type, uint64_t *values)
{
    const uint64_t *old = before->values + (size_t)type * before->count;
    uint32_t k = 0;

    for (uint32_t i = 0; i < now->count; i++) {
        while (k < before->count && before->ranks[k] < now->ranks[i])
            k++;
        if (k < before->count && before->ranks[k] == now->ranks[i])
            values[i] += old[k++];
    }
}

/* Loads the numbers of a column of the profile in `now` into samples->numbers. */
static enum fg_code load_numbers(struct fg_block_samples *samples, const struct column *column,
                                 struct fg_err *err)
{
    uint32_t count = samples->now.count;
    struct fg_slice bits = fg_slice_sub(samples->raw, column->bits_at, fg_block_bits_bytes(count));
    struct fg_slice bytes = fg_slice_sub(samples->raw, column->at, column->bytes);

    if (!room(samples, &samples->numbers, (size_t)count + FG_BLOCK_NUMBERS_SPARE,
              &samples->cap_numbers, sizeof *samples->numbers))
        return too_large(samples, err);
    if (!fg_block_numbers_get(bits, bytes, count, column->how.wide, samples->numbers))
        return bad_profile(samples, samples->now.profile, "values", err);
    return FG_OK;
}

/* Computes the values of one type into `now`, which has the ranks. What they are computed from
 * is there. */
static enum fg_code load_type(struct fg_block_samples *samples, uint32_t type, struct fg_err *err)
{
    struct samples_set *now = &samples->now;
    const struct column *column = column_of(samples, now->profile, type);
    uint64_t *values = now->values + (size_t)type * now->count;

    switch (column->how.kind) {
    case FG_BLOCK_COLUMN_ZERO:
        if (now->count > 0)
            memset(values, 0, now->count * sizeof *values);
        break;
    case FG_BLOCK_COLUMN_MULTIPLE:
        for (uint32_t i = 0; i < now->count; i++)
            values[i] =
                column->how.scale * now->values[(size_t)column->how.earlier * now->count + i];
        break;
    case FG_BLOCK_COLUMN_SCALED:
    case FG_BLOCK_COLUMN_DELTA:
        if (load_numbers(samples, column, err) != FG_OK)
            return err->code;
        fg_block_column_values(&column->how, now->count, samples->numbers, values);
        if (column->how.kind == FG_BLOCK_COLUMN_DELTA)
            add_before(now, &samples->before, type, values);
        break;
    }
    now->types |= UINT64_C(1) << type;
    return FG_OK;
}

static void swap_sets(struct fg_block_samples *samples)
{
    struct samples_set before = samples->before;

    samples->before = samples->now;
    samples->now = before;
    samples->now.profile = FG_MAP_NONE;
}

/* Loads all types of a profile into `now`. If it has differences, `before` has the types of the
 * profile before. */
static enum fg_code load_all(struct fg_block_samples *samples, uint32_t profile, struct fg_err *err)
{
    swap_sets(samples);
    if (load_ranks(samples, profile, err) != FG_OK)
        return err->code;
    for (uint32_t t = 0; t < samples->heads[profile].n_types; t++)
        if (load_type(samples, t, err) != FG_OK)
            return err->code;
    return FG_OK;
}

/* Loads profile - 1 into `now`, beginning with the last profile before it that needs no other
 * one. */
static enum fg_code rewind_to(struct fg_block_samples *samples, uint32_t profile,
                              struct fg_err *err)
{
    uint32_t from = profile - 1;

    while (samples->heads[from].has_delta) /* the first of a series in a page has none */
        from--;
    for (; from < profile; from++)
        if (load_all(samples, from, err) != FG_OK)
            return err->code;
    return FG_OK;
}

static bool has(const struct samples_set *set, uint32_t profile, uint64_t types)
{
    return set->profile == profile && (set->types & types) == types;
}

/* Loads the values of one type, which is no multiple of another one, into `now`. */
static enum fg_code load_one(struct fg_block_samples *samples, uint32_t profile, uint32_t type,
                             struct fg_err *err)
{
    bool delta = column_of(samples, profile, type)->how.kind == FG_BLOCK_COLUMN_DELTA;
    uint64_t bit = UINT64_C(1) << type;

    if (has(&samples->now, profile, bit))
        return FG_OK;
    if (samples->now.profile != profile || (delta && !has(&samples->before, profile - 1, bit))) {
        if (delta && !has(&samples->now, profile - 1, bit) &&
            rewind_to(samples, profile, err) != FG_OK)
            return err->code;
        swap_sets(samples);
        if (load_ranks(samples, profile, err) != FG_OK)
            return err->code;
    }
    return load_type(samples, type, err);
}

/* ---- what callers want ---- */

/* Sums a scaled column, which most are. Its numbers are used once, so they are not turned into
 * values first. */
static enum fg_code sum_scaled(struct fg_block_samples *samples, uint32_t profile,
                               const struct column *column, uint64_t factor, uint64_t *sums,
                               struct fg_err *err)
{
    struct samples_set *now = &samples->now;
    const uint64_t *numbers;

    factor *= column->how.scale;
    if (now->profile != profile) {
        swap_sets(samples);
        if (load_ranks(samples, profile, err) != FG_OK)
            return err->code;
    }
    if (load_numbers(samples, column, err) != FG_OK)
        return err->code;
    numbers = samples->numbers;
    for (uint32_t i = 0; i < now->count; i++)
        fg_value_sum(&sums[now->ranks[i]], factor * fg_block_swap_0_1(numbers[i]));
    return FG_OK;
}

static enum fg_code sum_profile(struct fg_block_samples *samples, uint32_t profile, uint32_t type,
                                uint64_t *sums, struct fg_err *err)
{
    const struct column *column = column_of(samples, profile, type);
    uint64_t factor = 1;
    const uint64_t *values;

    for (; column->how.kind == FG_BLOCK_COLUMN_MULTIPLE;
         column = column_of(samples, profile, type)) {
        factor *= column->how.scale;
        type = column->how.earlier;
    }
    if (column->how.kind == FG_BLOCK_COLUMN_ZERO)
        return FG_OK;
    if (column->how.kind == FG_BLOCK_COLUMN_SCALED)
        return sum_scaled(samples, profile, column, factor, sums, err);
    if (load_one(samples, profile, type, err) != FG_OK)
        return err->code;
    values = samples->now.values + (size_t)type * samples->now.count;
    for (uint32_t i = 0; i < samples->now.count; i++)
        fg_value_sum(&sums[samples->now.ranks[i]], factor * values[i]);
    return FG_OK;
}

enum fg_code fg_block_samples_sum(struct fg_block_samples *samples, uint32_t first, uint32_t count,
                                  uint32_t type, uint64_t *sums, struct fg_err *err)
{
    uint64_t from = FG_MAX(first, samples->first);
    uint64_t to = FG_MIN((uint64_t)first + count, (uint64_t)samples->first + samples->count);

    for (uint64_t i = from; i < to; i++) {
        uint32_t profile = (uint32_t)(i - samples->first);

        if (type < samples->heads[profile].n_types &&
            sum_profile(samples, profile, type, sums, err) != FG_OK)
            return err->code;
    }
    return FG_OK;
}

enum fg_code fg_block_samples_read(struct fg_block_samples *samples, uint32_t profile,
                                   struct fg_block_sample_set *ret_set, struct fg_err *err)
{
    uint32_t at = profile - samples->first, n_types;
    uint64_t all;

    fg_assert(profile >= samples->first && at < samples->count);
    n_types = samples->heads[at].n_types;
    all = n_types == 64 ? UINT64_MAX : (UINT64_C(1) << n_types) - 1;
    if (!has(&samples->now, at, all)) {
        if (samples->heads[at].has_delta && !has(&samples->now, at - 1, all) &&
            rewind_to(samples, at, err) != FG_OK)
            return err->code;
        if (load_all(samples, at, err) != FG_OK)
            return err->code;
    }
    *ret_set = (struct fg_block_sample_set){samples->now.ranks, samples->now.values,
                                            samples->now.count, n_types};
    return FG_OK;
}
