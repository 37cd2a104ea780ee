#include "common/model/usage_day.h"

#include "common/base/envelope.h"
#include "common/base/search.h"

#include <time.h>

/* The least row has a length and seven varints. */
enum { ROW_MIN_BYTES = 1 + 7, RECORD_MAX_BYTES = 64 * 1024 * 1024 };

int64_t fg_usage_day_start_ns(int32_t day)
{
    int64_t start_ns;

    if (__builtin_mul_overflow((int64_t)day, FG_USAGE_DAY_NS, &start_ns))
        return day < 0 ? INT64_MIN : INT64_MAX;
    return start_ns;
}

void fg_usage_day_write(int32_t day, char out[FG_USAGE_DATE_BYTES])
{
    /* Days of an int64_t of nanoseconds are in the years 1677 to 2262. */
    int64_t start_ns = fg_usage_day_start_ns(day);
    time_t seconds = (time_t)fg_usage_day_of(start_ns) * FG_USAGE_DAY_S;
    struct tm tm;

    (void)gmtime_r(&seconds, &tm);
    (void)strftime(out, FG_USAGE_DATE_BYTES, "%Y-%m-%d", &tm);
}

bool fg_usage_day_parse(struct fg_slice text, int32_t *ret_day)
{
    char again[FG_USAGE_DATE_BYTES];
    struct tm tm = {0};
    int numbers[3] = {0, 0, 0};
    int64_t days;

    if (text.len != sizeof again - 1)
        return false;
    for (size_t i = 0, part = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];

        if (i == 4 || i == 7) {
            if (c != '-')
                return false;
            part++;
        } else if (c < '0' || c > '9') {
            return false;
        } else {
            numbers[part] = numbers[part] * 10 + (c - '0');
        }
    }
    tm.tm_year = numbers[0] - 1900;
    tm.tm_mon = numbers[1] - 1;
    tm.tm_mday = numbers[2];
    if (numbers[0] < 1677 || numbers[0] > 2262 || numbers[1] < 1 || numbers[1] > 12)
        return false;
    days = (int64_t)timegm(&tm) / FG_USAGE_DAY_S;
    fg_usage_day_write((int32_t)days, again); /* refuses February 30 */
    if (!fg_slice_is(text, again))
        return false;
    *ret_day = (int32_t)days;
    return true;
}

void fg_usage_stored_add(struct fg_usage_stored *stored, uint64_t bytes, uint64_t seconds)
{
    /* 128 bits: 106 TB for a day are more than 63 bits of byte seconds. */
    unsigned __int128 sum = (unsigned __int128)bytes * seconds + stored->byte_seconds;
    unsigned __int128 days = sum / FG_USAGE_DAY_S;

    stored->byte_days =
        fg_usage_sum(stored->byte_days, (uint64_t)FG_MIN(days, (unsigned __int128)INT64_MAX));
    stored->byte_seconds = (uint64_t)(sum % FG_USAGE_DAY_S);
}

void fg_usage_queries_add(struct fg_usage_queries *queries, const struct fg_usage_queries *more)
{
    queries->queries = fg_usage_sum(queries->queries, more->queries);
    queries->requests = fg_usage_sum(queries->requests, more->requests);
    queries->read_bytes = fg_usage_sum(queries->read_bytes, more->read_bytes);
    queries->cpu_us = fg_usage_sum(queries->cpu_us, more->cpu_us);
}

bool fg_usage_day_is_empty(const struct fg_usage_day *day)
{
    return day->n_rows == 0 && day->stored.byte_days == 0 && day->stored.byte_seconds == 0 &&
           day->writes == 0 && day->queries.queries == 0 && day->queries.requests == 0 &&
           day->queries.read_bytes == 0 && day->queries.cpu_us == 0;
}

/* ---- rows ---- */

struct fg_usage_row *fg_usage_day_row(struct fg_usage_day *day, struct fg_slice service,
                                      struct fg_arena *arena)
{
    uint32_t at =
        fg_lower_bound(i, 0, day->n_rows, fg_slice_cmp(day->rows[i].service, service) < 0);
    struct fg_slice name;

    if (at < day->n_rows && fg_slice_eq(day->rows[at].service, service))
        return &day->rows[at];
    name = fg_arena_copy(arena, service);
    if (name.ptr == NULL ||
        !fg_arena_grow(arena, &day->rows, day->n_rows, 1, &day->cap_rows, sizeof *day->rows))
        return NULL;
    memmove(&day->rows[at + 1], &day->rows[at], (day->n_rows - at) * sizeof *day->rows);
    day->rows[at] = (struct fg_usage_row){.service = name};
    day->n_rows++;
    return &day->rows[at];
}

static void add_row(struct fg_usage_row *row, const struct fg_usage_row *more)
{
    row->profiles = fg_usage_sum(row->profiles, more->profiles);
    fg_usage_add(&row->usage, &more->usage);
    row->series = FG_MAX(row->series, more->series);
}

bool fg_usage_day_add_row(struct fg_usage_day *day, const struct fg_usage_row *row,
                          struct fg_arena *arena)
{
    struct fg_usage_row *into = fg_usage_day_row(day, row->service, arena);

    if (into == NULL)
        return false;
    add_row(into, row);
    return true;
}

uint64_t fg_usage_day_bytes(const struct fg_usage_day *day)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < day->n_rows; i++)
        bytes += FG_USAGE_ROW_BYTES + day->rows[i].service.len;
    return bytes;
}

/* Rows of two days on their way into one list. */
struct merging {
    struct fg_usage_row *rows; /* rows[0] is for the service "", the first one in order, */
    bool has_rest;             /* ... if anything counts for it */
    uint32_t n;
    uint64_t bytes, max_bytes;
    struct fg_arena *arena;
};

/* Takes a row of a service that is not in the day. Returns false if the arena is full. */
static bool merge_new(struct merging *merging, const struct fg_usage_row *row)
{
    uint64_t bytes = FG_USAGE_ROW_BYTES + row->service.len;

    if (row->service.len == 0 || bytes > merging->max_bytes - merging->bytes) {
        add_row(&merging->rows[0], row);
        merging->has_rest = true;
        return true;
    }
    merging->rows[merging->n] = *row;
    merging->rows[merging->n].service = fg_arena_copy(merging->arena, row->service);
    merging->bytes += bytes;
    return merging->rows[merging->n++].service.ptr != NULL;
}

/* Both lists are in order, so one walk finds what they share: lists are long where services have
 * names at random. */
static bool merge_rows(struct fg_usage_day *day, const struct fg_usage_day *more,
                       uint64_t rows_max_bytes, struct fg_arena *arena)
{
    struct merging merging = {.has_rest = day->n_rows > 0 && day->rows[0].service.len == 0,
                              .n = 1,
                              .bytes = fg_usage_day_bytes(day),
                              .arena = arena};
    uint32_t at = 0, cap = day->n_rows + more->n_rows + 1;
    bool fits = true;

    if (more->n_rows == 0)
        return true;
    merging.rows = fg_arena_new(arena, struct fg_usage_row, cap);
    if (merging.rows == NULL)
        return false;
    /* Not less than what is there: the difference in merge_new() must not wrap around. */
    merging.max_bytes = FG_MAX(rows_max_bytes, merging.bytes);
    merging.rows[0] =
        merging.has_rest ? day->rows[at++] : (struct fg_usage_row){.service = FG_LIT("")};
    for (uint32_t i = 0; i < more->n_rows && fits; i++) {
        const struct fg_usage_row *row = &more->rows[i];

        while (at < day->n_rows && fg_slice_cmp(day->rows[at].service, row->service) < 0)
            merging.rows[merging.n++] = day->rows[at++];
        if (at < day->n_rows && fg_slice_eq(day->rows[at].service, row->service)) {
            merging.rows[merging.n] = day->rows[at++];
            add_row(&merging.rows[merging.n++], row);
        } else {
            fits = merge_new(&merging, row);
        }
    }
    while (at < day->n_rows)
        merging.rows[merging.n++] = day->rows[at++];
    day->rows = merging.rows + !merging.has_rest;
    day->n_rows = merging.n - !merging.has_rest;
    day->cap_rows = cap - !merging.has_rest;
    return fits;
}

bool fg_usage_day_add_within(struct fg_usage_day *day, const struct fg_usage_day *more,
                             uint64_t rows_max_bytes, struct fg_arena *arena)
{
    if (!merge_rows(day, more, rows_max_bytes, arena))
        return false;
    /* One byte for so many seconds: this carries whole days over. */
    fg_usage_stored_add(&day->stored, 1, more->stored.byte_seconds);
    day->stored.byte_days = fg_usage_sum(day->stored.byte_days, more->stored.byte_days);
    day->writes = fg_usage_sum(day->writes, more->writes);
    fg_usage_queries_add(&day->queries, &more->queries);
    return true;
}

bool fg_usage_day_add(struct fg_usage_day *day, const struct fg_usage_day *more,
                      struct fg_arena *arena)
{
    return fg_usage_day_add_within(day, more, UINT64_MAX, arena);
}

struct fg_usage_row fg_usage_day_total(const struct fg_usage_day *day)
{
    struct fg_usage_row total = {.service = FG_LIT("")};

    for (uint32_t i = 0; i < day->n_rows; i++) {
        uint64_t series = fg_usage_sum(total.series, day->rows[i].series);

        add_row(&total, &day->rows[i]);
        total.series = series; /* a series belongs to one service */
    }
    return total;
}

bool fg_usage_day_copy(struct fg_usage_day *ret_copy, const struct fg_usage_day *day,
                       struct fg_arena *arena)
{
    struct fg_usage_row *rows = fg_arena_new(arena, struct fg_usage_row, day->n_rows);

    if (rows == NULL)
        return false;
    if (day->n_rows > 0)
        memcpy(rows, day->rows, day->n_rows * sizeof *rows);
    *ret_copy = *day;
    ret_copy->rows = rows;
    ret_copy->cap_rows = day->n_rows;
    return true;
}

/* ---- bytes ---- */

static void put_row(struct fg_buf *out, const struct fg_usage_row *row)
{
    fg_buf_lenbytes(out, row->service);
    fg_buf_varint(out, row->profiles);
    fg_usage_put(out, &row->usage);
    fg_buf_varint(out, row->series);
}

void fg_usage_day_put(struct fg_buf *out, const struct fg_usage_day *day)
{
    struct fg_buf record, body;

    fg_buf_init(&record, FG_USAGE_SERVICE_MAX_BYTES + 128);
    fg_buf_init(&body, RECORD_MAX_BYTES);
    fg_buf_zigzag(&body, day->day);
    fg_buf_varint(&body, day->n_rows);
    for (uint32_t i = 0; i < day->n_rows; i++) {
        fg_buf_clear(&record);
        put_row(&record, &day->rows[i]);
        fg_buf_lenbytes(&body, fg_buf_slice(&record));
    }
    fg_buf_varint(&body, day->stored.byte_days);
    fg_buf_varint(&body, day->stored.byte_seconds);
    fg_buf_varint(&body, day->writes);
    fg_buf_varint(&body, day->queries.queries);
    fg_buf_varint(&body, day->queries.requests);
    fg_buf_varint(&body, day->queries.read_bytes);
    fg_buf_varint(&body, day->queries.cpu_us);
    fg_buf_lenbytes(out, fg_buf_slice(&body));
    /* The caller looks at `out` only: a row that was cut must not look whole. */
    out->full |= record.full || body.full;
    fg_buf_done(&body);
    fg_buf_done(&record);
}

/* Reads a number that was not above what sums may reach. */
static uint64_t get_number(struct fg_cur *cur)
{
    uint64_t number = fg_cur_varint(cur);

    if (number > (uint64_t)INT64_MAX)
        fg_cur_fail(cur);
    return cur->bad ? 0 : number;
}

static struct fg_usage_row get_row(struct fg_cur *from, struct fg_arena *arena)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(from));
    struct fg_slice service = fg_cur_lenbytes(&cur);
    struct fg_usage_row row = {.service = fg_arena_copy(arena, service)};

    row.profiles = get_number(&cur);
    row.usage = fg_usage_get(&cur);
    row.series = get_number(&cur);
    if (cur.bad || row.service.ptr == NULL || service.len > FG_USAGE_SERVICE_MAX_BYTES ||
        row.usage.profiles > row.profiles)
        fg_cur_fail(from);
    return row;
}

static void get_rows(struct fg_cur *cur, struct fg_usage_day *day, struct fg_arena *arena)
{
    day->rows = fg_envelope_list(cur, arena, ROW_MIN_BYTES, FG_USAGE_ROWS_MAX, sizeof *day->rows,
                                 &day->n_rows);
    day->cap_rows = day->n_rows;
    for (uint32_t i = 0; i < day->n_rows && !cur->bad; i++) {
        day->rows[i] = get_row(cur, arena);
        if (i > 0 && fg_slice_cmp(day->rows[i - 1].service, day->rows[i].service) >= 0)
            fg_cur_fail(cur);
    }
}

struct fg_usage_day fg_usage_day_get(struct fg_cur *from, struct fg_arena *arena)
{
    struct fg_cur cur = fg_cur(fg_cur_lenbytes(from));
    int64_t number = fg_cur_zigzag(&cur);
    struct fg_usage_day day = {.day = (int32_t)number};

    get_rows(&cur, &day, arena);
    day.stored.byte_days = get_number(&cur);
    day.stored.byte_seconds = get_number(&cur);
    day.writes = get_number(&cur);
    day.queries.queries = get_number(&cur);
    day.queries.requests = get_number(&cur);
    day.queries.read_bytes = get_number(&cur);
    day.queries.cpu_us = get_number(&cur);
    /* A number beyond 32 bits would become another day. */
    if (cur.bad || number != day.day || day.stored.byte_seconds >= FG_USAGE_DAY_S)
        fg_cur_fail(from);
    return from->bad ? (struct fg_usage_day){0} : day;
}
