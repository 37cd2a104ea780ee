/* Pages of IDX and PID; what is stored is said where it is written (write_rows.c). */
#include "common/storage/block/reader_impl.h"

enum {
    ROW_MIN_BYTES = 6,
    SIZE_MIN_BYTES = 2,
    COLUMNS_BESIDE = 5, /* durations, periods, shards, windows, samples */
};

/* all: not only what totals over time need. */
static bool rows_alloc(struct fg_block_rows *rows, bool all, struct fg_arena *arena)
{
    uint32_t count = rows->count;

    rows->series = fg_arena_new(arena, uint32_t, count);
    rows->times_ns = fg_arena_new(arena, int64_t, count);
    rows->totals = fg_arena_new(arena, uint64_t *, count);
    if (!all)
        return rows->series != NULL && rows->times_ns != NULL && rows->totals != NULL;
    rows->durations_ns = fg_arena_new(arena, int64_t, count);
    rows->periods = fg_arena_new(arena, int64_t, count);
    rows->n_samples = fg_arena_new(arena, uint32_t, count);
    rows->shards = fg_arena_new(arena, uint16_t, count);
    rows->windows = fg_arena_new(arena, uint32_t, count);
    return rows->series != NULL && rows->times_ns != NULL && rows->durations_ns != NULL &&
           rows->periods != NULL && rows->n_samples != NULL && rows->shards != NULL &&
           rows->windows != NULL && rows->totals != NULL;
}

/* A run, or what the page has of it, from row `from` of the page. */
struct rows_run {
    const struct fg_block_index *index;
    struct fg_cur *cur;
    struct fg_arena *arena;
    struct fg_block_rows *rows;
    bool all;
    const struct fg_block_run *of;
    uint32_t from, count;
    uint64_t *numbers; /* [count] */
};

static bool get_times(struct rows_run *run)
{
    int64_t *times_ns = run->rows->times_ns + run->from;
    int64_t step_ns = 0;

    fg_cur_varints(run->cur, run->numbers, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        int64_t number = fg_unzigzag(run->numbers[i]);

        if (i == 0) {
            times_ns[0] = number;
        } else {
            step_ns = fg_wrap_add(step_ns, number);
            times_ns[i] = fg_wrap_add(times_ns[i - 1], step_ns);
            if (times_ns[i] < times_ns[i - 1])
                return false;
        }
        if (times_ns[i] < run->of->t_min_ns || times_ns[i] > run->of->t_max_ns)
            return false;
    }
    return !run->cur->bad;
}

/* Differences, each to the number before; out becomes the numbers. */
static void get_steps(struct rows_run *run, int64_t *out)
{
    int64_t now = 0;

    fg_cur_varints(run->cur, run->numbers, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        now = fg_wrap_add(now, fg_unzigzag(run->numbers[i]));
        out[i] = now;
    }
}

static bool get_places(struct rows_run *run, int64_t *scratch)
{
    uint64_t wrong = 0;

    get_steps(run, scratch);
    for (uint32_t i = 0; i < run->count; i++) {
        wrong |= (uint64_t)scratch[i] >> 16;
        run->rows->shards[run->from + i] = (uint16_t)scratch[i];
    }
    get_steps(run, scratch);
    for (uint32_t i = 0; i < run->count; i++) {
        wrong |= (uint64_t)scratch[i] >> 32;
        run->rows->windows[run->from + i] = (uint32_t)scratch[i];
    }
    fg_cur_varints(run->cur, run->numbers, run->count);
    for (uint32_t i = 0; i < run->count; i++) {
        wrong |= run->numbers[i] >> 32;
        run->rows->n_samples[run->from + i] = (uint32_t)run->numbers[i];
    }
    return wrong == 0 && !run->cur->bad;
}

/* What stands between times and totals. */
static bool get_beside(struct rows_run *run, int64_t *scratch)
{
    if (!run->all) {
        fg_cur_skip_varints(run->cur, (uint64_t)COLUMNS_BESIDE * run->count);
        return !run->cur->bad;
    }
    get_steps(run, run->rows->durations_ns + run->from);
    get_steps(run, run->rows->periods + run->from);
    return get_places(run, scratch);
}

/* Totals come type by type and are kept row by row. columns: [n_types][count]. */
static bool get_totals(struct rows_run *run, uint64_t *columns, uint64_t *rows, uint32_t n_types)
{
    for (uint32_t t = 0; t < n_types; t++) {
        uint64_t *values = columns + (size_t)t * run->count;
        struct fg_block_column column;

        if (!fg_block_column_get_head(run->cur, t, false, &column) || column.wide)
            return false;
        if (column.kind == FG_BLOCK_COLUMN_SCALED) {
            fg_cur_varints(run->cur, values, run->count);
            fg_block_column_values(&column, run->count, values, values);
        } else if (column.kind == FG_BLOCK_COLUMN_MULTIPLE) {
            for (uint32_t i = 0; i < run->count; i++)
                values[i] = column.scale * columns[(size_t)column.earlier * run->count + i];
        }
    }
    for (uint32_t i = 0; i < run->count; i++) {
        run->rows->totals[run->from + i] = rows + (size_t)i * n_types;
        for (uint32_t t = 0; t < n_types; t++)
            rows[(size_t)i * n_types + t] = columns[(size_t)t * run->count + i];
    }
    return !run->cur->bad;
}

static enum fg_code parse_run(struct rows_run *run, struct fg_err *err)
{
    uint32_t n_types = run->index->series[run->of->series].schema->n_types;
    uint64_t *rows = fg_arena_new(run->arena, uint64_t, (size_t)run->count * n_types);
    struct fg_arena_mark mark = fg_arena_mark(run->arena);
    uint64_t *columns = fg_arena_new(run->arena, uint64_t, (size_t)run->count * n_types);
    int64_t *scratch = fg_arena_new(run->arena, int64_t, run->count);
    bool good;

    run->numbers = fg_arena_new(run->arena, uint64_t, run->count);
    if (rows == NULL || columns == NULL || scratch == NULL || run->numbers == NULL)
        return fg_block_no_room(err, "profiles");
    for (uint32_t i = 0; i < run->count; i++)
        run->rows->series[run->from + i] = run->of->series;
    good = get_times(run) && get_beside(run, scratch) && get_totals(run, columns, rows, n_types);
    fg_arena_release(run->arena, mark);
    return good ? FG_OK : fg_fail(err, FG_E_CORRUPT, "profiles of series %u", run->of->series);
}

/* SER has said which runs there are. */
static enum fg_code parse_runs(struct rows_run *run, struct fg_err *err)
{
    const struct fg_block_rows *rows = run->rows;

    run->of = &run->index->runs[fg_block_run_of(run->index, rows->first)];
    for (run->from = 0; run->from < rows->count; run->from += run->count, run->of++) {
        uint32_t left = run->of->first + run->of->count - (rows->first + run->from);

        run->count = FG_MIN(left, rows->count - run->from);
        if (parse_run(run, err) != FG_OK)
            return err->code;
    }
    return fg_cur_end(run->cur) ? FG_OK : fg_fail(err, FG_E_CORRUPT, "bytes left over");
}

static enum fg_code parse_page(const struct fg_block_index *index, uint32_t page,
                               struct fg_slice bytes, bool all, struct fg_arena *arena,
                               struct fg_block_rows *ret_rows, struct fg_err *err)
{
    const struct fg_block_page *row;
    struct fg_block_rows rows;
    struct fg_slice raw;
    struct fg_cur cur;
    struct rows_run run = {.index = index, .cur = &cur, .arena = arena, .rows = &rows, .all = all};

    if (fg_block_page_open(index, FG_BLOCK_IDX, page, bytes, arena, &raw, err) != FG_OK)
        return fg_block_page_wrap(err, FG_BLOCK_IDX, page);
    row = &index->pages[FG_BLOCK_IDX].pages[page];
    rows = (struct fg_block_rows){.first = row->first, .count = row->items};
    cur = fg_cur(raw);
    if (rows.count > raw.len / ROW_MIN_BYTES)
        (void)fg_fail(err, FG_E_CORRUPT, "%u profiles in %zu bytes", rows.count, raw.len);
    else if (!rows_alloc(&rows, all, arena))
        (void)fg_block_no_room(err, "profiles");
    else if (parse_runs(&run, err) == FG_OK) {
        *ret_rows = rows;
        return FG_OK;
    }
    return fg_block_page_wrap(err, FG_BLOCK_IDX, page);
}

enum fg_code fg_block_rows_parse(const struct fg_block_index *index, uint32_t page,
                                 struct fg_slice bytes, struct fg_arena *arena,
                                 struct fg_block_rows *ret_rows, struct fg_err *err)
{
    return parse_page(index, page, bytes, true, arena, ret_rows, err);
}

enum fg_code fg_block_totals_parse(const struct fg_block_index *index, uint32_t page,
                                   struct fg_slice bytes, struct fg_arena *arena,
                                   struct fg_block_rows *ret_rows, struct fg_err *err)
{
    return parse_page(index, page, bytes, false, arena, ret_rows, err);
}

enum fg_code fg_block_ids_parse(const struct fg_block_index *index, uint32_t page,
                                struct fg_slice bytes, struct fg_arena *arena,
                                struct fg_id **ret_ids, struct fg_err *err)
{
    struct fg_id *ids;
    struct fg_slice raw;
    uint32_t count;

    if (fg_block_page_open(index, FG_BLOCK_PID, page, bytes, arena, &raw, err) != FG_OK)
        return fg_block_page_wrap(err, FG_BLOCK_PID, page);
    count = index->pages[FG_BLOCK_PID].pages[page].items;
    if (raw.len != (size_t)count * FG_ID_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "PID page %u: %u ids in %zu bytes", page, count, raw.len);
    ids = fg_arena_new(arena, struct fg_id, count);
    if (ids == NULL)
        return fg_block_no_room(err, "ids");
    for (uint32_t i = 0; i < count; i++)
        ids[i] = fg_id_get(raw.ptr + (size_t)i * FG_ID_BYTES);
    *ret_ids = ids;
    return FG_OK;
}

/* Numbers of a column: steps from one to the next, each at most `max`. */
static bool get_bytes(struct fg_cur *cur, uint32_t count, int64_t max, int64_t *out)
{
    int64_t now = 0;

    for (uint32_t i = 0; i < count; i++) {
        now = fg_wrap_add(now, fg_cur_zigzag(cur));
        if (now < 0 || now > max)
            return false;
        out[i] = now;
    }
    return !cur->bad;
}

static enum fg_code parse_sizes(struct fg_slice raw, uint32_t count, struct fg_arena *arena,
                                struct fg_profile_size **ret_sizes, struct fg_err *err)
{
    struct fg_cur cur = fg_cur(raw);
    struct fg_profile_size *sizes;
    int64_t *wire, *bytes;

    if (count > raw.len / SIZE_MIN_BYTES)
        return fg_fail(err, FG_E_CORRUPT, "%u profiles in %zu bytes", count, raw.len);
    sizes = fg_arena_new(arena, struct fg_profile_size, count);
    wire = fg_arena_new(arena, int64_t, count);
    bytes = fg_arena_new(arena, int64_t, count);
    if (sizes == NULL || wire == NULL || bytes == NULL)
        return fg_block_no_room(err, "sizes");
    if (!get_bytes(&cur, count, (int64_t)UINT32_MAX + 1, wire) ||
        !get_bytes(&cur, count, UINT32_MAX, bytes) || !fg_cur_end(&cur))
        return fg_fail(err, FG_E_CORRUPT, "sizes of profiles");
    for (uint32_t i = 0; i < count; i++) {
        if (wire[i] == 0 && bytes[i] != 0)
            return fg_fail(err, FG_E_CORRUPT, "profile %u has half a size", i);
        if (wire[i] > 0)
            sizes[i] = (struct fg_profile_size){true, (uint32_t)(wire[i] - 1), (uint32_t)bytes[i]};
    }
    *ret_sizes = sizes;
    return FG_OK;
}

enum fg_code fg_block_sizes_parse(const struct fg_block_index *index, uint32_t page,
                                  struct fg_slice bytes, struct fg_arena *arena,
                                  struct fg_profile_size **ret_sizes, struct fg_err *err)
{
    struct fg_slice raw;

    if (fg_block_page_open(index, FG_BLOCK_USE, page, bytes, arena, &raw, err) != FG_OK ||
        parse_sizes(raw, index->pages[FG_BLOCK_USE].pages[page].items, arena, ret_sizes, err) !=
            FG_OK)
        return fg_block_page_wrap(err, FG_BLOCK_USE, page);
    return FG_OK;
}
