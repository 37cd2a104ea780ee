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

/* A chunk, or what the page has of it, from row `from` of the page. */
struct rows_chunk {
    const struct fg_block_index *index;
    struct fg_cur *cur;
    struct fg_arena *arena;
    struct fg_block_rows *rows;
    bool all;
    const struct fg_block_chunk *of;
    uint32_t from, count;
    /* Scratch of the page: a page may have thousands of chunks of one row. */
    uint64_t *numbers;              /* [rows->count] */
    int64_t *scratch;               /* [rows->count]; NULL: not all */
    uint64_t *columns, cap_columns; /* [cap_columns] */
};

static bool scratch_alloc(struct rows_chunk *chunk)
{
    chunk->numbers = fg_arena_alloc(chunk->arena, chunk->rows->count * sizeof *chunk->numbers);
    if (!chunk->all)
        return chunk->numbers != NULL;
    chunk->scratch = fg_arena_alloc(chunk->arena, chunk->rows->count * sizeof *chunk->scratch);
    return chunk->numbers != NULL && chunk->scratch != NULL;
}

static bool get_times(struct rows_chunk *chunk)
{
    int64_t *times_ns = chunk->rows->times_ns + chunk->from;
    int64_t step_ns = 0;

    fg_cur_varints(chunk->cur, chunk->numbers, chunk->count);
    for (uint32_t i = 0; i < chunk->count; i++) {
        int64_t number = fg_unzigzag(chunk->numbers[i]);

        if (i == 0) {
            times_ns[0] = number;
        } else {
            step_ns = fg_wrap_add(step_ns, number);
            times_ns[i] = fg_wrap_add(times_ns[i - 1], step_ns);
            if (times_ns[i] < times_ns[i - 1])
                return false;
        }
        /* Queries choose chunks by their span, so that a time outside of it would be in no
         * answer, or in a wrong one. */
        if (times_ns[i] < chunk->of->t_min_ns || times_ns[i] > chunk->of->t_max_ns)
            return false;
    }
    return !chunk->cur->bad;
}

/* Differences, each to the number before; out becomes the numbers. */
static void get_steps(struct rows_chunk *chunk, int64_t *out)
{
    int64_t now = 0;

    fg_cur_varints(chunk->cur, chunk->numbers, chunk->count);
    for (uint32_t i = 0; i < chunk->count; i++) {
        now = fg_wrap_add(now, fg_unzigzag(chunk->numbers[i]));
        out[i] = now;
    }
}

static bool get_places(struct rows_chunk *chunk)
{
    int64_t *scratch = chunk->scratch;
    uint64_t wrong = 0;

    get_steps(chunk, scratch);
    for (uint32_t i = 0; i < chunk->count; i++) {
        wrong |= (uint64_t)scratch[i] >> 16;
        chunk->rows->shards[chunk->from + i] = (uint16_t)scratch[i];
    }
    get_steps(chunk, scratch);
    for (uint32_t i = 0; i < chunk->count; i++) {
        wrong |= (uint64_t)scratch[i] >> 32;
        chunk->rows->windows[chunk->from + i] = (uint32_t)scratch[i];
    }
    fg_cur_varints(chunk->cur, chunk->numbers, chunk->count);
    for (uint32_t i = 0; i < chunk->count; i++) {
        wrong |= chunk->numbers[i] >> 32;
        chunk->rows->n_samples[chunk->from + i] = (uint32_t)chunk->numbers[i];
    }
    return wrong == 0 && !chunk->cur->bad;
}

/* Reads the columns between times and totals, or skips them. */
static bool get_beside(struct rows_chunk *chunk)
{
    if (!chunk->all) {
        fg_cur_skip_varints(chunk->cur, (uint64_t)COLUMNS_BESIDE * chunk->count);
        return !chunk->cur->bad;
    }
    get_steps(chunk, chunk->rows->durations_ns + chunk->from);
    get_steps(chunk, chunk->rows->periods + chunk->from);
    return get_places(chunk);
}

/* Reads totals, which come type by type, and stores them row by row. */
static bool get_totals(struct rows_chunk *chunk, uint64_t *rows, uint32_t n_types)
{
    uint64_t *columns = chunk->columns; /* [n_types][count] */

    for (uint32_t t = 0; t < n_types; t++) {
        uint64_t *values = columns + (size_t)t * chunk->count;
        struct fg_block_column column;

        if (!fg_block_column_get_head(chunk->cur, t, false, &column) || column.wide)
            return false;
        if (column.kind == FG_BLOCK_COLUMN_SCALED) {
            fg_cur_varints(chunk->cur, values, chunk->count);
            fg_block_column_values(&column, chunk->count, values, values);
        } else if (column.kind == FG_BLOCK_COLUMN_MULTIPLE) {
            for (uint32_t i = 0; i < chunk->count; i++)
                values[i] = column.scale * columns[(size_t)column.earlier * chunk->count + i];
        } else {
            memset(values, 0, chunk->count * sizeof *values);
        }
    }
    for (uint32_t i = 0; i < chunk->count; i++) {
        chunk->rows->totals[chunk->from + i] = rows + (size_t)i * n_types;
        for (uint32_t t = 0; t < n_types; t++)
            rows[(size_t)i * n_types + t] = columns[(size_t)t * chunk->count + i];
    }
    return !chunk->cur->bad;
}

/* Makes room for the columns of the chunk. */
static bool columns_alloc(struct rows_chunk *chunk, uint64_t n)
{
    if (n <= chunk->cap_columns)
        return true;
    /* Doubling, since what becomes too small stays in the arena. */
    chunk->cap_columns = FG_MAX(n, chunk->cap_columns * 2);
    chunk->columns = fg_arena_alloc(chunk->arena, chunk->cap_columns * sizeof *chunk->columns);
    return chunk->columns != NULL;
}

static enum fg_code parse_chunk(struct rows_chunk *chunk, struct fg_err *err)
{
    uint32_t n_types = chunk->index->series[chunk->of->series].schema->n_types;
    uint64_t n = (uint64_t)chunk->count * n_types;
    uint64_t *rows = fg_arena_alloc(chunk->arena, n * sizeof *rows);

    if (rows == NULL || !columns_alloc(chunk, n))
        return fg_block_no_room(err, "profiles");
    for (uint32_t i = 0; i < chunk->count; i++)
        chunk->rows->series[chunk->from + i] = chunk->of->series;
    if (get_times(chunk) && get_beside(chunk) && get_totals(chunk, rows, n_types))
        return FG_OK;
    return fg_fail(err, FG_E_CORRUPT, "profiles of series %u", chunk->of->series);
}

/* The chunks of the page are known from SER. */
static enum fg_code parse_chunks(struct rows_chunk *chunk, struct fg_err *err)
{
    const struct fg_block_rows *rows = chunk->rows;

    chunk->of = &chunk->index->chunks[fg_block_chunk_of(chunk->index, rows->first)];
    for (chunk->from = 0; chunk->from < rows->count; chunk->from += chunk->count, chunk->of++) {
        uint32_t left = chunk->of->first + chunk->of->count - (rows->first + chunk->from);

        chunk->count = FG_MIN(left, rows->count - chunk->from);
        if (parse_chunk(chunk, err) != FG_OK)
            return err->code;
    }
    return fg_cur_end(chunk->cur) ? FG_OK : fg_fail(err, FG_E_CORRUPT, "bytes left over");
}

static enum fg_code parse_page(const struct fg_block_index *index, uint32_t page,
                               struct fg_slice bytes, bool all, struct fg_arena *arena,
                               struct fg_block_rows *ret_rows, struct fg_err *err)
{
    const struct fg_block_page *row;
    struct fg_block_rows rows;
    struct fg_slice raw;
    struct fg_cur cur;
    struct rows_chunk chunk = {
        .index = index, .cur = &cur, .arena = arena, .rows = &rows, .all = all};

    if (fg_block_page_open(index, FG_BLOCK_IDX, page, bytes, arena, &raw, err) != FG_OK)
        return fg_block_page_wrap(err, FG_BLOCK_IDX, page);
    row = &index->pages[FG_BLOCK_IDX].pages[page];
    rows = (struct fg_block_rows){.first = row->first, .count = row->items};
    cur = fg_cur(raw);
    /* Before memory is taken: the count is the file's. */
    if (rows.count > raw.len / ROW_MIN_BYTES)
        (void)fg_fail(err, FG_E_CORRUPT, "%u profiles in %zu bytes", rows.count, raw.len);
    else if (!rows_alloc(&rows, all, arena) || !scratch_alloc(&chunk))
        (void)fg_block_no_room(err, "profiles");
    else if (parse_chunks(&chunk, err) == FG_OK) {
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

/* Reads a column of steps from one number to the next. Returns false unless each number is
 * between 0 and max. */
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
