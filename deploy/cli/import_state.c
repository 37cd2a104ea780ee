#include "deploy/cli/import_state.h"

#include "common/base/str.h"

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

/* ids are in the order of their bytes. */
static bool read_series(struct fg_slice line, struct cli_import_done *done)
{
    uint8_t id[FG_ID_BYTES];

    if (!fg_parse_i64(take_word(&line), &done->window_ms) ||
        !fg_parse_hex(take_word(&line), id, sizeof id) ||
        !fg_parse_u64(take_word(&line), &done->profiles) ||
        !fg_parse_u64(take_word(&line), &done->bytes))
        return false;
    done->series = fg_id_get(id);
    return true;
}

/* A window ends in the range; a line of another place would make the import skip what was never
 * imported. */
static bool is_inside(const struct cli_import_state *state, int64_t ms)
{
    return ms >= state->range.start_ms && ms <= state->range.end_ms;
}

static bool read_line(struct cli_import_state *state, struct fg_slice line)
{
    struct fg_slice key = take_word(&line);
    struct cli_import_done done = {0};
    int64_t open_ms;

    if (fg_slice_is(key, "range"))
        return fg_parse_i64(take_word(&line), &state->range.start_ms) &&
               fg_parse_i64(take_word(&line), &state->range.end_ms) &&
               state->range.start_ms < state->range.end_ms;
    if (fg_slice_is(key, "next"))
        return fg_parse_i64(take_word(&line), &state->next_ms) && is_inside(state, state->next_ms);
    if (fg_slice_is(key, "sent"))
        return fg_parse_u64(take_word(&line), &state->profiles) &&
               fg_parse_u64(take_word(&line), &state->bytes);
    if (fg_slice_is(key, "open") && fg_parse_i64(take_word(&line), &open_ms)) {
        add_open(state, open_ms);
        return is_inside(state, open_ms) && open_ms < state->next_ms;
    }
    if (fg_slice_is(key, "series") && read_series(line, &done)) {
        cli_import_state_note(state, &done);
        return true;
    }
    return false;
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
    struct cli_import_state read = {0};
    struct fg_slice line;
    bool good = true;

    if (!take_line(&text, &line) || !fg_slice_is(line, title))
        return fg_fail(err, FG_E_INVALID, "is no state of an import");
    if (!take_line(&text, &line) || !fg_slice_starts(line, "job ") ||
        !fg_slice_eq(fg_slice_sub(line, 4, SIZE_MAX), fg_buf_slice(&state->job)))
        return fg_fail(err, FG_E_INVALID,
                       "is of an import with other options; repeat those, or name another file");
    cli_import_state_init(&read, fg_buf_slice(&state->job), &state->range);
    while (good && take_line(&text, &line))
        good = read_line(&read, line);
    if (!good) {
        cli_import_state_done(&read);
        return fg_fail(err, FG_E_INVALID, "has a line that cannot be read: %.*s", FG_S(line));
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

static void close_open(struct cli_import_state *state, int64_t window_ms)
{
    size_t kept = 0;

    for (size_t i = 0; i < state->n_open; i++)
        if (state->open[i] != window_ms)
            state->open[kept++] = state->open[i];
    state->n_open = kept;
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
    close_open(state, window->start_ms);
    if (good)
        count_window(state, window->start_ms);
    else
        add_open(state, window->start_ms);
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
