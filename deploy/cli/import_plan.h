/*
 * What an import from a Pyroscope asks for, and what it makes of the answers. Pure.
 *
 * The source tells its profiles only by merges over a range of milliseconds, whose ends are both
 * included and are compared in nanoseconds: [a, b] has what is at b.000000 and nothing later. So
 *
 *   windows   an hour of the clock each. Cuts do not depend on --from and --until.
 *   points    SelectSeries with steps of a millisecond: when the series has profiles, and their sum
 *   units     the points that become one profile: those of one millisecond, or of one longer step.
 *             Its time is the beginning of its step, and its id depends on series, time and step
 *             alone, so whoever imports it again stores nothing twice.
 *   answers   the merge of [first, last + 1] of a unit. Its sum has to be that of the points. If it
 *             is more, it also has what is at the very beginning of the next millisecond. Usually
 *             [first, last] is right then: the profiles have times in full milliseconds. Otherwise
 *             the source cannot tell the two apart, and the units become one profile.
 */
#ifndef FG_DEPLOY_CLI_IMPORT_PLAN_H
#define FG_DEPLOY_CLI_IMPORT_PLAN_H

#include "common/model/labels.h"
#include "deploy/cli/selection.h"

enum { CLI_IMPORT_WINDOW_MS = 3600 * 1000 };

/* ---- windows ---- */

/* Returns the window that begins at start_ms: up to the next full hour, or the end of the range. A
 * window, as the range, has its start and not its end. start_ms < end_ms. */
struct cli_selection_range cli_import_window(const struct cli_selection_range *range,
                                             int64_t start_ms);

/* Returns how many minutes of a window are done, for a line of progress, when so many of its series
 * are. */
uint64_t cli_import_minutes(const struct cli_selection_range *window, size_t n_done, size_t n);

/* Returns the range with both ends moved back to a step: a step is imported whole or not at all. */
struct cli_selection_range cli_import_align(const struct cli_selection_range *range,
                                            int64_t step_ms);

/* ---- series ---- */

/* A series of one profile type. */
struct cli_import_series {
    struct fg_slice type;    /* process_cpu:cpu:nanoseconds:cpu:nanoseconds */
    struct fg_labels labels; /* as listed, without the type */
    struct fg_labels pushed; /* without those that a server makes itself */
    struct fg_id id;         /* of type, labels, step and the source's tenant */
};

struct cli_import_list {
    struct cli_import_series *items;
    size_t count;
    struct fg_slice *names; /* of all labels of all series, sorted */
    size_t n_names;
};

/* What ids depend on besides series and time. */
struct cli_import_scope {
    struct fg_slice tenant; /* of the source; empty: none */
    int64_t step_ms;
};

/* Makes the list of the label sets of an answer, in the arena, from which it borrows. Sorts the
 * sets. FG_E_DECODE: a series has no profile type, or one that is none. FG_E_LIMIT: the arena is
 * full. */
enum fg_code cli_import_list_make(struct fg_labels *sets, size_t n_sets,
                                  const struct cli_import_scope *scope, struct fg_arena *arena,
                                  struct cli_import_list *ret_list,
                                  struct fg_err *err) fg_must_check;

/* Appends the selector that matches this series of the list alone: labels that it lacks and others
 * have are demanded to be empty. */
void cli_import_write_selector(const struct cli_import_list *list,
                               const struct cli_import_series *series, struct fg_buf *out);

/* ---- units ---- */

struct cli_import_point {
    int64_t ms;
    double value; /* of all profiles of the millisecond */
};

struct cli_import_unit {
    int64_t time_ms; /* of the profile that it becomes: where its step begins */
    int64_t first_ms, last_ms;
    double value;
};

/* Groups points, which ascend, into units; *ret_n of them in the arena. FG_E_DECODE: they do not
 * ascend, or have no positive value. FG_E_LIMIT: the arena is full. */
enum fg_code cli_import_units(const struct cli_import_point *points, size_t n_points,
                              int64_t step_ms, struct fg_arena *arena,
                              struct cli_import_unit **ret_units, size_t *ret_n,
                              struct fg_err *err) fg_must_check;

enum { CLI_IMPORT_ID_BYTES = 37 };

/* Writes the id of a unit as a UUID (RFC 9562, version 8). */
void cli_import_id(const struct cli_import_series *series, const struct cli_import_unit *unit,
                   char id[CLI_IMPORT_ID_BYTES]);

/* ---- answers ---- */

/* A unit whose content is being asked for, with those after it that the source cannot tell from
 * it. */
struct cli_import_group {
    struct cli_import_unit unit;
    size_t n; /* units in it */
    /* Private. */
    const struct cli_import_unit *units;
    size_t n_units;
    bool narrow; /* asks without the millisecond after it */
};

/* Begins with the first of the units, which are borrowed. n > 0. */
struct cli_import_group cli_import_group(const struct cli_import_unit *units, size_t n);

/* Returns what to ask for; both ends are included. */
struct cli_selection_range cli_import_group_range(const struct cli_import_group *group);

enum cli_import_verdict {
    IMPORT_TAKE,    /* the answer is the content of the group */
    IMPORT_ASK,     /* ask for what is the range of the group now */
    IMPORT_CHANGED, /* the source has changed since it told the units */
};
/* Takes the sum of the answer. */
enum cli_import_verdict cli_import_group_answer(struct cli_import_group *group, double sum);

/*
 * Returns from which unit on to look at the content to find what begins at start_ms or later: those
 * before it in one row, a millisecond after the other, may have become one with it. n: there is
 * nothing from start_ms on.
 */
size_t cli_import_first(const struct cli_import_unit *units, size_t n, int64_t start_ms);

#endif
