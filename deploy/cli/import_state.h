/*
 * How far an import is, as the text of a file. Pure: deploy/cli/importing.c has the file.
 *
 *   flamegrid import pyroscope 1
 *   job <what is imported, from where, to where>
 *   range <start ms> <end ms>
 *   next <start ms of a window>          all windows before it are done, except those in `open`
 *   sent <profiles> <bytes>              in windows that are done
 *   open <start ms of a window>          something of it could not be imported
 *   series <window ms> <id> <profiles> <bytes>    of a window that is not done; this series of it
 * is
 *
 * The lines `series` are appended one by one. What the last line lacks after a crash is imported
 * again, and counts once.
 */
#ifndef FG_DEPLOY_CLI_IMPORT_STATE_H
#define FG_DEPLOY_CLI_IMPORT_STATE_H

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/hash.h"
#include "deploy/cli/selection.h"

struct cli_import_done {
    int64_t window_ms;
    struct fg_id series;
    uint64_t profiles, bytes;
};

struct cli_import_state {
    struct fg_buf job;                /* a line */
    struct cli_selection_range range; /* aligned to steps */
    int64_t next_ms;
    uint64_t profiles, bytes; /* of windows that are done */
    int64_t *open;
    size_t n_open, cap_open;
    struct cli_import_done *done;
    size_t n_done, cap_done;
};

/* Initialises the state of an import that has not begun. job: a line without its end. */
void cli_import_state_init(struct cli_import_state *state, struct fg_slice job,
                           const struct cli_selection_range *range);
void cli_import_state_done(struct cli_import_state *state);

/* Reads the text into a state, which was initialised. FG_E_INVALID: it is of another job, or no
 * such text; the state is as before. */
enum fg_code cli_import_state_read(struct cli_import_state *state, struct fg_slice text,
                                   struct fg_err *err) fg_must_check;

/* Appends the whole text; a line `series`. */
void cli_import_state_write(const struct cli_import_state *state, struct fg_buf *out);
void cli_import_state_write_series(const struct cli_import_done *done, struct fg_buf *out);

/* Returns whether the series of the window is done. */
bool cli_import_state_has(const struct cli_import_state *state, int64_t window_ms,
                          struct fg_id series);

/* Notes a series as done. */
void cli_import_state_note(struct cli_import_state *state, const struct cli_import_done *done);

/* Ends a window. good: all of it was imported; then its series are forgotten, and counted. Windows
 * from `next` on end in their order; an open one at any time. */
void cli_import_state_end(struct cli_import_state *state, const struct cli_selection_range *window,
                          bool good);

/* Returns how many profiles and bytes were imported so far. */
void cli_import_state_sent(const struct cli_import_state *state, uint64_t *ret_profiles,
                           uint64_t *ret_bytes);

#endif
