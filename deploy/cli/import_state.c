#include "deploy/cli/import_state.h"

#include "common/base/str.h"
#include "common/base/time.h"

static const char title[] = "flamegrid import pyroscope 1";

void cli_import_state_init(struct cli_import_state *state, struct fg_slice job,
                           const struct cli_selection_range *range)
{
    *state = (struct cli_import_state){.range = *range, .next_ms = range->start_ms};
    fg_buf_init(&state->job, SIZE_MAX);
    fg_buf_put(&state->job, job);
}

void cli_import_state_done(struct cli_import_state *state)
{
    fg_buf_done(&state->job);
    free(state->open);
    free(state->done);
}

static void add_open(struct cli_import_state *state, int64_t window_ms)
{
    if (state->n_open == state->cap_open) {
        state->cap_open = FG_MAX(16, state->cap_open * 2);
        state->open = fg_realloc(state->open, state->cap_open * sizeof *state->open);
    }
    state->open[state->n_open++] = window_ms;
}

void cli_import_state_note(struct cli_import_state *state, const struct cli_import_done *done)
{
    if (state->n_done == state->cap_done) {
        state->cap_done = FG_MAX(256, state->cap_done * 2);
        state->done = fg_realloc(state->done, state->cap_done * sizeof *state->done);
    }
    state->done[state->n_done++] = *done;
}

/* ---- text ---- */

/* Takes the next word of a line. */
static struct fg_slice take_word(struct fg_slice *line)
{
    size_t end = FG_MIN(fg_slice_find(*line, ' '), line->len);
    struct fg_slice word = fg_slice_sub(*line, 0, end);

    *line = fg_slice_sub(*line, end + 1, SIZE_MAX);
    return word;
}

/* Takes the key that the line has to begin with. */
static bool take_key(struct fg_slice *line, const char *key)
{
    return fg_slice_is(take_word(line), key);
}

/* Takes a time whose nanoseconds fit 64 bits, since that is what it becomes. */
static bool take_ms(struct fg_slice *line, int64_t *ms)
{
    return fg_parse_i64(take_word(line), ms) && *ms >= 0 && *ms <= INT64_MAX / FG_MS_NS;
}

static bool take_u64(struct fg_slice *line, uint64_t *number)
{
    return fg_parse_u64(take_word(line), number);
}

static bool read_range(struct cli_import_state *state, struct fg_slice line)
{
    return take_key(&line, "range") && take_ms(&line, &state->range.start_ms) &&
           take_ms(&line, &state->range.end_ms) && line.len == 0 &&
           state->range.start_ms < state->range.end_ms;
}

/* A window of another place would make the import skip what was never imported. */
static bool read_next(struct cli_import_state *state, struct fg_slice line)
{
    return take_key(&line, "next") && take_ms(&line, &state->next_ms) && line.len == 0 &&
           state->next_ms >= state->range.start_ms && state->next_ms <= state->range.end_ms;
}

static bool read_sent(struct cli_import_state *state, struct fg_slice line)
{
    return take_key(&line, "sent") && take_u64(&line, &state->profiles) &&
           take_u64(&line, &state->bytes) && line.len == 0;
}

/* An open window was begun, so it is before `next`. */
static bool read_open(struct cli_import_state *state, struct fg_slice line)
{
    int64_t open_ms;

    if (!take_key(&line, "open") || !take_ms(&line, &open_ms) || line.len > 0 ||
        open_ms < state->range.start_ms || open_ms >= state->next_ms)
        return false;
    add_open(state, open_ms);
    return true;
}

static bool read_series(struct cli_import_state *state, struct fg_slice line)
{
    struct cli_import_done done;
    uint8_t id[FG_ID_BYTES];

    if (!take_key(&line, "series") || !take_ms(&line, &done.window_ms) ||
        !fg_parse_hex(take_word(&line), id, sizeof id) || !take_u64(&line, &done.profiles) ||
        !take_u64(&line, &done.bytes) || line.len > 0)
        return false;
    done.series = fg_id_get(id);
    cli_import_state_note(state, &done);
    return true;
}

/* Takes the next whole line. Returns false if there is none. */
static bool take_line(struct fg_slice *text, struct fg_slice *ret_line)
{
    size_t end = fg_slice_find(*text, '\n');

    if (end == SIZE_MAX)
        return false;
    *ret_line = fg_slice_sub(*text, 0, end);
    *text = fg_slice_sub(*text, end + 1, SIZE_MAX);
    return true;
}

enum fg_code cli_import_state_read(struct cli_import_state *state, struct fg_slice text,
                                   struct fg_err *err)
{
    static bool (*const head[])(struct cli_import_state *,
                                struct fg_slice) = {read_range, read_next, read_sent};
    struct cli_import_state read = {0};
    struct fg_slice line;
    bool good = true;

    if (!take_line(&text, &line) || !fg_slice_is(line, title))
        return fg_fail(err, FG_E_INVALID, "is no state of an import");
    if (!take_line(&text, &line) || !fg_slice_starts(line, "job ") ||
        !fg_slice_eq(fg_slice_sub(line, 4, SIZE_MAX), fg_buf_slice(&state->job)))
        return fg_fail(err, FG_E_INVALID,
                       "is of an import with other options; repeat those, or name another file");
    /* Into another state, so that the old one stays if a line is bad. The range of the file
     * replaces ours: "now" has moved on since. */
    cli_import_state_init(&read, fg_buf_slice(&state->job), &state->range);
    for (size_t i = 0; good && i < FG_COUNT(head); i++)
        good = take_line(&text, &line) && head[i](&read, line);
    /* A last line without its end was cut by a crash: its series is imported again, and counts
     * once. */
    while (good && take_line(&text, &line))
        good = read_open(&read, line) || read_series(&read, line);
    if (!good) {
        cli_import_state_done(&read);
        return fg_fail(err, FG_E_INVALID,
                       "ends too early or has a line that cannot be read, after: %.*s", FG_S(line));
    }
    cli_import_state_done(state);
    *state = read;
    return FG_OK;
}

void cli_import_state_write_series(const struct cli_import_done *done, struct fg_buf *out)
{
    uint8_t id[FG_ID_BYTES];

    fg_id_put(id, done->series);
    fg_buf_printf(out, "series %lld ", (long long)done->window_ms);
    fg_buf_hex(out, id, sizeof id);
    fg_buf_printf(out, " %llu %llu\n", (unsigned long long)done->profiles,
                  (unsigned long long)done->bytes);
}

void cli_import_state_write(const struct cli_import_state *state, struct fg_buf *out)
{
    fg_buf_printf(out, "%s\njob %.*s\n", title, FG_S(fg_buf_slice(&state->job)));
    fg_buf_printf(out, "range %lld %lld\nnext %lld\nsent %llu %llu\n",
                  (long long)state->range.start_ms, (long long)state->range.end_ms,
                  (long long)state->next_ms, (unsigned long long)state->profiles,
                  (unsigned long long)state->bytes);
    for (size_t i = 0; i < state->n_open; i++)
        fg_buf_printf(out, "open %lld\n", (long long)state->open[i]);
    for (size_t i = 0; i < state->n_done; i++)
        cli_import_state_write_series(&state->done[i], out);
}

/* ---- windows ---- */

/* From the end: the lines of the window at hand are there. */
bool cli_import_state_has(const struct cli_import_state *state, int64_t window_ms,
                          struct fg_id series)
{
    for (size_t i = state->n_done; i > 0; i--)
        if (state->done[i - 1].window_ms == window_ms &&
            fg_id_eq(state->done[i - 1].series, series))
            return true;
    return false;
}

/* Counts the series of the window, and forgets them. */
static void count_window(struct cli_import_state *state, int64_t window_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->n_done; i++) {
        if (state->done[i].window_ms == window_ms) {
            state->profiles += state->done[i].profiles;
            state->bytes += state->done[i].bytes;
        } else {
            state->done[kept++] = state->done[i];
        }
    }
    state->n_done = kept;
}

void cli_import_state_end(struct cli_import_state *state, const struct cli_selection_range *window,
                          bool good)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->n_open; i++)
        if (state->open[i] != window->start_ms)
            state->open[kept++] = state->open[i];
    state->n_open = kept;
    if (good)
        count_window(state, window->start_ms);
    else
        add_open(state, window->start_ms);
    /* Also after a failure: the window is among the open ones, which the next run tries first. */
    state->next_ms = FG_MAX(state->next_ms, window->end_ms);
}

void cli_import_state_sent(const struct cli_import_state *state, uint64_t *ret_profiles,
                           uint64_t *ret_bytes)
{
    *ret_profiles = state->profiles;
    *ret_bytes = state->bytes;
    for (size_t i = 0; i < state->n_done; i++) {
        *ret_profiles += state->done[i].profiles;
        *ret_bytes += state->done[i].bytes;
    }
}
