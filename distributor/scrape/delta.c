#include "distributor/scrape/delta.h"

#include "common/base/arena.h"
#include "common/base/time.h"

struct dist_delta {
    struct fg_budget *budget;
    uint64_t bytes;
    struct fg_id schema; /* of columns and rules; values of different schemas cannot be compared */
    int64_t time_ns;
    uint32_t n_types, n;
    uint64_t *keys;  /* ascending */
    int64_t *values; /* n_types for each key */
};

/* A sample: its key and where it is in the batch. */
struct delta_row {
    uint64_t key;
    uint32_t profile, sample;
};

struct delta_work {
    struct fg_batch *batch;
    uint32_t columns[KIND_TYPES_MAX]; /* of the cumulative types in the batch */
    uint32_t n_columns;
    struct delta_row *rows; /* ascending by key */
    uint32_t n_rows;
};

/* ---- which types ---- */

static bool is_cumulative(const struct dist_profile_kind *kind, struct fg_slice type)
{
    for (uint32_t i = 0; i < kind->n_cumulative; i++)
        if (fg_slice_is(type, kind->cumulative[i]))
            return true;
    return false;
}

static struct fg_id schema_of(const struct delta_work *work, uint64_t rules)
{
    struct fg_buf names;
    struct fg_id id;

    fg_buf_init(&names, SIZE_MAX);
    for (uint32_t c = 0; c < work->n_columns; c++) {
        fg_buf_lenbytes(&names, work->batch->types[work->columns[c]].type);
        fg_buf_lenbytes(&names, work->batch->types[work->columns[c]].unit);
    }
    fg_buf_le64(&names, rules);
    id = fg_hash128(fg_buf_slice(&names));
    fg_buf_done(&names);
    return id;
}

/* ---- rows ---- */

/* Returns a hash of labels, stack and spans. Samples of equal stacks differ by their spans. Moves
 * *link behind the links of this sample. */
static uint64_t key_of(const struct fg_batch *batch, const struct fg_profile *profile,
                       struct fg_id labels, uint32_t sample, uint32_t *link)
{
    struct fg_id stack = batch->stacks[profile->stacks[sample]].id;
    uint64_t words[6] = {labels.lo, labels.hi, stack.lo, stack.hi};

    for (; *link < profile->n_links && profile->links[*link].sample == sample; (*link)++) {
        const struct fg_link *at = &profile->links[*link];

        words[4] = fg_hash64(fg_bytes(at->trace_id, sizeof at->trace_id)) ^ fg_mix64(words[4]);
        words[5] = at->span_id ^ fg_mix64(words[5]);
    }
    return fg_hash64(fg_bytes(words, sizeof words));
}

static int cmp_rows(const void *a, const void *b)
{
    const struct delta_row *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static enum fg_code make_rows(struct delta_work *work, struct fg_arena *arena, struct fg_err *err)
{
    const struct fg_batch *batch = work->batch;
    size_t n = 0;

    for (uint32_t p = 0; p < batch->n_profiles; p++)
        n += batch->profiles[p].n_samples;
    work->rows = fg_arena_alloc(arena, n * sizeof *work->rows);
    if (work->rows == NULL || n > UINT32_MAX)
        return fg_fail(err, FG_E_TOO_LARGE, "profile needs more memory than decoding may use");
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        const struct fg_profile *profile = &batch->profiles[p];
        struct fg_id labels = fg_labels_hash(&profile->labels);
        uint32_t link = 0;

        for (uint32_t i = 0; i < profile->n_samples; i++)
            work->rows[work->n_rows++] =
                (struct delta_row){key_of(batch, profile, labels, i, &link), p, i};
    }
    /* In the order of keys, so that two scrapes are compared in one pass over both. */
    qsort(work->rows, work->n_rows, sizeof *work->rows, cmp_rows);
    return FG_OK;
}

static int64_t *cell(const struct delta_work *work, const struct delta_row *row, uint32_t column)
{
    struct fg_profile *profile = &work->batch->profiles[row->profile];

    return &profile->values[(size_t)work->columns[column] * profile->n_samples + row->sample];
}

/* ---- what was seen ---- */

void dist_delta_destroy(struct dist_delta *delta)
{
    if (delta == NULL)
        return;
    fg_budget_give(delta->budget, delta->bytes);
    free(delta->keys);
    free(delta->values);
    free(delta);
}

/* Copies the values of this scrape. NULL: the budget is used up. */
static struct dist_delta *remember(const struct delta_work *work,
                                   const struct dist_delta_scrape *scrape)
{
    size_t each = sizeof(uint64_t) + work->n_columns * sizeof(int64_t);
    uint64_t bytes = sizeof(struct dist_delta) + (uint64_t)work->n_rows * each;
    struct dist_delta *delta;

    if (!fg_budget_take(scrape->budget, bytes))
        return NULL;
    delta = fg_new(struct dist_delta);
    *delta = (struct dist_delta){.budget = scrape->budget,
                                 .bytes = bytes,
                                 .schema = schema_of(work, scrape->rules),
                                 .time_ns = scrape->time_ns,
                                 .n_types = work->n_columns,
                                 .n = work->n_rows};
    delta->keys = fg_malloc(FG_MAX(delta->n, 1) * sizeof *delta->keys);
    delta->values = fg_malloc(FG_MAX((size_t)delta->n * delta->n_types, 1) * sizeof *delta->values);
    for (uint32_t i = 0; i < work->n_rows; i++) {
        delta->keys[i] = work->rows[i].key;
        for (uint32_t c = 0; c < work->n_columns; c++)
            delta->values[(size_t)i * work->n_columns + c] = *cell(work, &work->rows[i], c);
    }
    return delta;
}

/* ---- comparing ---- */

/* Sums of one type, as doubles: a target may send values whose sum exceeds int64_t. */
struct delta_sums {
    double before, now, gone;
};

static void sum_column(const struct dist_delta *before, const struct dist_delta *seen, uint32_t c,
                       struct delta_sums *ret_sums)
{
    struct delta_sums sums = {0};
    uint32_t n = before->n_types, j = 0;

    for (uint32_t i = 0; i < seen->n; i++)
        sums.now += (double)seen->values[(size_t)i * n + c];
    for (uint32_t i = 0; i < before->n; i++) {
        int64_t then = before->values[(size_t)i * n + c], now = 0;

        while (j < seen->n && seen->keys[j] < before->keys[i])
            j++;
        if (j < seen->n && seen->keys[j] == before->keys[i])
            now = seen->values[(size_t)j * n + c];
        sums.before += (double)then;
        sums.gone += now < then ? (double)(then - now) : 0;
    }
    *ret_sums = sums;
}

/* Returns true if the target has restarted; delta.h says when that is assumed. */
static bool has_restarted(const struct dist_delta *before, const struct dist_delta *seen)
{
    bool any = false;

    for (uint32_t c = 0; c < before->n_types; c++) {
        struct delta_sums sums;

        sum_column(before, seen, c, &sums);
        if (sums.before <= 0)
            continue;
        if (sums.now >= sums.before && 2 * sums.gone <= sums.before)
            return false;
        any = true;
    }
    return any;
}

/* Replaces values by their growth. before NULL: all growth is zero, because there is nothing to
 * compare with. */
static void subtract(const struct delta_work *work, const struct dist_delta *before)
{
    uint32_t j = 0;

    for (uint32_t i = 0; i < work->n_rows; i++) {
        const struct delta_row *row = &work->rows[i];
        bool known;

        while (before != NULL && j < before->n && before->keys[j] < row->key)
            j++;
        known = before != NULL && j < before->n && before->keys[j] == row->key;
        for (uint32_t c = 0; c < work->n_columns; c++) {
            int64_t *value = cell(work, row, c);
            int64_t then = known ? before->values[(size_t)j * work->n_columns + c] : 0;

            /* A single value that fell is Go's estimate, not negative growth. */
            if (before == NULL || *value < then)
                then = *value;
            *value -= then;
        }
    }
}

/* ---- the batch afterwards ---- */

static bool is_zero(const struct fg_batch *batch, const struct fg_profile *profile, uint32_t sample)
{
    for (uint32_t t = 0; t < batch->n_types; t++)
        if (profile->values[(size_t)t * profile->n_samples + sample] != 0)
            return false;
    return true;
}

/* Removes samples whose values are all zero. Values are stored by column, so all columns move. */
static void drop_zeros(const struct fg_batch *batch, struct fg_profile *profile)
{
    uint32_t n = profile->n_samples, kept = 0, link = 0;

    for (uint32_t i = 0; i < n; i++) {
        bool keep = !is_zero(batch, profile, i);

        for (; link < profile->n_links && profile->links[link].sample == i; link++)
            profile->links[link].sample = keep ? kept : UINT32_MAX;
        if (!keep)
            continue;
        profile->stacks[kept] = profile->stacks[i];
        for (uint32_t t = 0; t < batch->n_types; t++)
            profile->values[(size_t)t * n + kept] = profile->values[(size_t)t * n + i];
        kept++;
    }
    /* Columns are n_samples apart, which is smaller now. */
    for (uint32_t t = 1; t < batch->n_types; t++)
        memmove(profile->values + (size_t)t * kept, profile->values + (size_t)t * n,
                kept * sizeof *profile->values);
    profile->n_samples = kept;
    kept = 0;
    for (uint32_t i = 0; i < profile->n_links; i++)
        if (profile->links[i].sample != UINT32_MAX)
            profile->links[kept++] = profile->links[i];
    profile->n_links = kept;
}

static void finish_batch(struct fg_batch *batch, int64_t duration_ns)
{
    uint32_t kept = 0;

    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        struct fg_profile *profile = &batch->profiles[p];

        drop_zeros(batch, profile);
        if (profile->duration_ns == 0 && duration_ns > 0)
            profile->duration_ns = duration_ns;
        if (profile->n_samples > 0)
            batch->profiles[kept++] = *profile;
    }
    batch->n_profiles = kept;
}

/* Values before a restart: none, so that all of the values are growth. */
static const struct dist_delta nothing;

enum fg_code dist_delta_apply(const struct dist_delta *before,
                              const struct dist_delta_scrape *scrape, struct fg_batch *batch,
                              struct fg_arena *arena, struct dist_delta_result *ret_result,
                              struct fg_err *err)
{
    struct delta_work work = {.batch = batch};
    struct dist_delta_result result = {0};

    for (uint32_t t = 0; t < batch->n_types && work.n_columns < KIND_TYPES_MAX; t++)
        if (is_cumulative(scrape->kind, batch->types[t].type))
            work.columns[work.n_columns++] = t;
    if (work.n_columns > 0) {
        if (make_rows(&work, arena, err) != FG_OK)
            return err->code;
        result.seen = remember(&work, scrape);
        result.forgotten = result.seen == NULL;
        result.first =
            before == NULL || result.seen == NULL || !fg_id_eq(before->schema, result.seen->schema);
        result.reset = !result.first && has_restarted(before, result.seen);
        if (result.first)
            before = NULL;
        subtract(&work, result.reset ? &nothing : before);
        finish_batch(batch, before == NULL ? 0 : scrape->time_ns - before->time_ns);
    }
    *ret_result = result;
    return FG_OK;
}
