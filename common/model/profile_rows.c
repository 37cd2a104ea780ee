#include "common/model/profile_rows.h"

#include "common/base/search.h"
#include "common/base/time.h"
#include "common/base/value.h"

/* Least sizes of an encoded row (set, time, id, value) and of a span; what counts are checked
 * against. */
enum { ROW_MIN_BYTES = 1 + 1 + FG_ID_BYTES + 1, SPAN_BYTES = 8 + FG_ID_BYTES };

static enum fg_code too_large(struct fg_err *err)
{
    return fg_fail(err, FG_E_LIMIT, "query needs too much memory");
}

/* ---- label sets ---- */

/* Returns the number of the set, FG_MAP_NONE: it is not there. */
static uint32_t find_set(const struct fg_profile_rows_sets *sets, const struct fg_labels *labels,
                         uint64_t hash)
{
    struct fg_map_walk walk;
    uint32_t i;

    for (i = fg_map_first(&sets->map, hash, &walk); i != FG_MAP_NONE;
         i = fg_map_next(&sets->map, &walk))
        if (fg_labels_cmp(&sets->items[i], labels) == 0)
            break;
    return i;
}

static enum fg_code take_set(struct fg_profile_rows_sets *sets, const struct fg_labels *labels,
                             struct fg_arena *arena, uint32_t *ret_set, struct fg_err *err)
{
    uint64_t hash = fg_id_table(fg_labels_hash(labels));
    struct fg_labels copy;

    *ret_set = find_set(sets, labels, hash);
    if (*ret_set != FG_MAP_NONE)
        return FG_OK;
    /* A copy in the list's arena: the caller's labels live only for the call. */
    copy = fg_labels_copy(labels, arena);
    if (copy.items == NULL || sets->n >= FG_MAP_NONE / 2)
        return too_large(err);
    if (sets->n == sets->cap) {
        sets->cap = FG_MAX(64, sets->cap * 2);
        sets->items = fg_realloc(sets->items, sets->cap * sizeof *sets->items);
    }
    fg_map_add(&sets->map, hash, sets->n);
    *ret_set = sets->n;
    sets->items[sets->n++] = copy;
    return FG_OK;
}

static void sets_done(struct fg_profile_rows_sets *sets)
{
    free(sets->items);
    fg_map_done(&sets->map);
    *sets = (struct fg_profile_rows_sets){0};
}

enum fg_code fg_profile_rows_set(struct fg_profile_rows *rows, const struct fg_labels *labels,
                                 uint32_t *ret_set, struct fg_err *err)
{
    const struct fg_profile_rows_config *config = &rows->config;
    uint32_t known = rows->sets.n, cap = rows->sets.cap;
    struct fg_labels group;

    if (take_set(&rows->sets, labels, config->arena, ret_set, err) != FG_OK)
        return err->code;
    if (rows->sets.cap != cap)
        rows->group_of = fg_realloc(rows->group_of, rows->sets.cap * sizeof *rows->group_of);
    if (rows->sets.n == known)
        return FG_OK;
    rows->group_of[known] = 0;
    group = fg_labels_group(&rows->sets.items[known], config->group_by, config->n_group_by,
                            config->arena);
    if (group.items == NULL)
        return too_large(err);
    return take_set(&rows->groups, &group, config->arena, &rows->group_of[known], err);
}

/* ---- what is kept ---- */

#define ORDER(a, b)                                                                                \
    do {                                                                                           \
        if ((a) != (b))                                                                            \
            return (a) < (b) ? -1 : 1;                                                             \
    } while (0)

/* Orders rows of one time by their content, so the same rows give the same list no matter which
 * ingester or block sent them first. */
static int compare_ids(const struct fg_profile_row *a, const struct fg_profile_row *b)
{
    int order = fg_id_cmp(a->id, b->id);

    if (order != 0)
        return order;
    ORDER(a->span_id, b->span_id);
    order = memcmp(a->trace_id, b->trace_id, sizeof a->trace_id);
    if (order != 0)
        return order;
    ORDER(a->set, b->set);
    return 0;
}

static int compare_all(const void *left, const void *right)
{
    const struct fg_profile_row *a = left, *b = right;

    ORDER(a->group, b->group);
    ORDER(a->time_ns, b->time_ns);
    return compare_ids(a, b);
}

/* The one to keep comes first: of equal values the earliest, as in Pyroscope. */
static int compare_greatest(const void *left, const void *right)
{
    const struct fg_profile_row *a = left, *b = right;

    ORDER(a->group, b->group);
    ORDER(a->step, b->step);
    ORDER(b->value, a->value);
    ORDER(a->time_ns, b->time_ns);
    return compare_ids(a, b);
}

static int compare_newest(const void *left, const void *right)
{
    const struct fg_profile_row *a = left, *b = right;

    ORDER(b->time_ns, a->time_ns);
    return compare_ids(a, b);
}

static void keep_greatest(struct fg_profile_rows *rows)
{
    size_t kept = 0;

    qsort(rows->items, rows->n, sizeof *rows->items, compare_greatest);
    for (size_t i = 0; i < rows->n; i++)
        if (kept == 0 || rows->items[kept - 1].group != rows->items[i].group ||
            rows->items[kept - 1].step != rows->items[i].step)
            rows->items[kept++] = rows->items[i];
    rows->n = kept;
}

/* Drops what the configuration does not keep. Rows may come in any order, so the list decides over
 * all that it has so far. */
static void settle(struct fg_profile_rows *rows)
{
    if (rows->n == 0)
        return;
    switch (rows->config.keep) {
    case FG_ROWS_ALL:
        break;
    case FG_ROWS_GREATEST:
        keep_greatest(rows);
        break;
    case FG_ROWS_NEWEST:
        qsort(rows->items, rows->n, sizeof *rows->items, compare_newest);
        rows->n = FG_MIN(rows->n, rows->config.n_newest);
        break;
    }
}

static enum fg_code make_room(struct fg_profile_rows *rows, struct fg_err *err)
{
    size_t max = rows->config.max_bytes / sizeof *rows->items;

    if (rows->n < rows->cap)
        return FG_OK;
    settle(rows);
    /* Grow unless half is free: else the next rows would sort everything again. */
    if (rows->cap > 0 && rows->n <= rows->cap / 2)
        return FG_OK;
    if (rows->cap >= max)
        return fg_fail(err, FG_E_LIMIT,
                       "query gives more than %zu profiles or spans, narrow its time range or its "
                       "selector",
                       max);
    /* Doubles, up to the limit of a query. */
    rows->cap = FG_MIN(FG_MAX(256, rows->cap * 2), max);
    rows->items = fg_realloc(rows->items, rows->cap * sizeof *rows->items);
    return FG_OK;
}

static bool is_wanted(const struct fg_profile_rows *rows, const struct fg_profile_row *row)
{
    const struct fg_profile_rows_config *config = &rows->config;

    if (config->keep == FG_ROWS_GREATEST)
        return row->step <= config->last_step;
    if (!config->has_before)
        return true;
    /* Newest first, then by id: the page that continues after a row begins behind it in this
     * order. */
    return row->time_ns < config->before_ns ||
           (row->time_ns == config->before_ns && fg_id_cmp(row->id, config->before_id) > 0);
}

enum fg_code fg_profile_rows_add(struct fg_profile_rows *rows, const struct fg_profile_row *row,
                                 struct fg_err *err)
{
    const struct fg_profile_rows_config *config = &rows->config;
    struct fg_profile_row added = *row;

    fg_assert(row->set < rows->sets.n);
    added.group = rows->group_of[row->set];
    added.step = config->keep == FG_ROWS_GREATEST
                     ? fg_time_grid(fg_time_ms_end(config->start_ns), config->step_ns, row->time_ns)
                     : 0;
    if (!is_wanted(rows, &added))
        return FG_OK;
    if (make_room(rows, err) != FG_OK)
        return err->code;
    rows->items[rows->n++] = added;
    return FG_OK;
}

void fg_profile_rows_finish(struct fg_profile_rows *rows)
{
    settle(rows);
    if (rows->config.keep == FG_ROWS_ALL && rows->n > 0)
        qsort(rows->items, rows->n, sizeof *rows->items, compare_all);
}

uint32_t fg_profile_rows_group(const struct fg_profile_rows *rows, const struct fg_labels *labels)
{
    return find_set(&rows->groups, labels, fg_id_table(fg_labels_hash(labels)));
}

const struct fg_profile_row *fg_profile_rows_find(const struct fg_profile_rows *rows,
                                                  uint32_t group, uint64_t step)
{
    const struct fg_profile_row *items = rows->items;
    size_t at = fg_lower_bound(
        i, 0, rows->n, items[i].group < group || (items[i].group == group && items[i].step < step));

    return at < rows->n && items[at].group == group && items[at].step == step ? &items[at] : NULL;
}

/* ---- life ---- */

void fg_profile_rows_init(struct fg_profile_rows *rows, const struct fg_profile_rows_config *config)
{
    *rows = (struct fg_profile_rows){.config = *config};
}

void fg_profile_rows_done(struct fg_profile_rows *rows)
{
    sets_done(&rows->sets);
    sets_done(&rows->groups);
    free(rows->group_of);
    free(rows->items);
    *rows = (struct fg_profile_rows){.config = rows->config};
}

/* ---- the encoded form ---- */

/* Writes the label sets of rows, each once, and numbers them in that order. */
static uint32_t *encode_sets(const struct fg_profile_rows *rows, struct fg_buf *out)
{
    uint32_t *numbers = fg_calloc(FG_MAX(rows->sets.n, 1), sizeof *numbers), n = 0;
    struct fg_buf texts, labels;

    fg_buf_init(&texts, SIZE_MAX);
    fg_buf_init(&labels, SIZE_MAX);
    for (size_t i = 0; i < rows->n; i++) {
        uint32_t set = rows->items[i].set;

        if (numbers[set] != 0) /* 1 + the number */
            continue;
        numbers[set] = ++n;
        fg_buf_clear(&labels);
        fg_labels_encode(&rows->sets.items[set], &labels);
        fg_buf_lenbytes(&texts, fg_buf_slice(&labels));
    }
    fg_buf_varint(out, n);
    fg_buf_put(out, fg_buf_slice(&texts));
    fg_buf_done(&labels);
    fg_buf_done(&texts);
    return numbers;
}

void fg_profile_rows_encode(const struct fg_profile_rows *rows, struct fg_buf *out)
{
    uint32_t *numbers = encode_sets(rows, out);
    int64_t before_ns = 0;

    fg_buf_varint(out, rows->n);
    for (size_t i = 0; i < rows->n; i++) {
        const struct fg_profile_row *row = &rows->items[i];
        uint8_t id[FG_ID_BYTES];

        fg_id_put(id, row->id);
        fg_buf_varint(out, numbers[row->set] - 1);
        /* The difference to the row before: small for sorted rows. It wraps around, so that any two
         * times have one. */
        fg_buf_zigzag(out, fg_wrap_sub(row->time_ns, before_ns));
        fg_buf_append(out, id, sizeof id);
        fg_buf_zigzag(out, row->value);
        if (rows->config.spans) {
            fg_buf_le64(out, row->span_id);
            fg_buf_append(out, row->trace_id, sizeof row->trace_id);
        }
        before_ns = row->time_ns;
    }
    free(numbers);
}

static enum fg_code decode_sets(struct fg_profile_rows *rows, struct fg_cur *cur,
                                struct fg_arena *arena, uint32_t **ret_numbers, uint64_t *ret_n,
                                struct fg_err *err)
{
    uint64_t n = fg_cur_count(cur, 1);
    uint32_t *numbers = fg_arena_new(arena, uint32_t, n);

    if (numbers == NULL)
        return too_large(err);
    for (uint64_t i = 0; i < n && !cur->bad; i++) {
        struct fg_slice bytes = fg_cur_lenbytes(cur);
        struct fg_labels labels;

        if (cur->bad)
            break;
        if (fg_labels_decode(bytes, arena, &labels, err) != FG_OK ||
            fg_profile_rows_set(rows, &labels, &numbers[i], err) != FG_OK)
            return err->code;
    }
    *ret_numbers = numbers;
    *ret_n = n;
    return FG_OK;
}

static void decode_row(struct fg_cur *cur, bool spans, struct fg_profile_row *row)
{
    struct fg_slice bytes;

    row->time_ns = fg_wrap_add(row->time_ns, fg_cur_zigzag(cur));
    bytes = fg_cur_take(cur, FG_ID_BYTES);
    if (!cur->bad)
        row->id = fg_id_get(bytes.ptr);
    row->value = fg_cur_zigzag(cur);
    if (!spans)
        return;
    row->span_id = fg_cur_le64(cur);
    bytes = fg_cur_take(cur, FG_ID_BYTES);
    if (!cur->bad)
        memcpy(row->trace_id, bytes.ptr, FG_ID_BYTES);
}

static enum fg_code decode(struct fg_profile_rows *rows, struct fg_cur *cur, struct fg_arena *arena,
                           struct fg_err *err)
{
    struct fg_profile_row row = {0};
    uint32_t *numbers = NULL;
    uint64_t n_sets = 0, n;

    if (decode_sets(rows, cur, arena, &numbers, &n_sets, err) != FG_OK)
        return err->code;
    /* Refuses a number of rows for which the message is too short. */
    n = fg_cur_count(cur, ROW_MIN_BYTES + (rows->config.spans ? SPAN_BYTES : 0));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t set = fg_cur_varint(cur);

        decode_row(cur, rows->config.spans, &row);
        if (set >= n_sets)
            fg_cur_fail(cur);
        if (cur->bad)
            break;
        row.set = numbers[set];
        /* Merges: the same limits hold for rows of peers as for our own. */
        if (fg_profile_rows_add(rows, &row, err) != FG_OK)
            return err->code;
    }
    if (!fg_cur_end(cur))
        return fg_fail(err, FG_E_CORRUPT, "profiles cut short");
    return FG_OK;
}

enum fg_code fg_profile_rows_decode(struct fg_profile_rows *rows, struct fg_slice in,
                                    struct fg_err *err)
{
    /* Of this message alone; sets that stay are copied by fg_profile_rows_set(). */
    fg_auto(fg_arena) *arena = fg_arena_create(rows->config.max_bytes);
    struct fg_cur cur = fg_cur(in);

    if (in.len == 0)
        return FG_OK;
    return decode(rows, &cur, arena, err);
}
