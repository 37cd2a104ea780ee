/*
 * One line of standard error that says how far a long command is: done, rate, time left. Only if
 * standard error is a terminal; elsewhere nothing is written.
 *
 * Thread: one at a time; who has several threads holds a lock.
 */
#ifndef FG_DEPLOY_CLI_PROGRESS_H
#define FG_DEPLOY_CLI_PROGRESS_H

#include "common/base/def.h"

struct cli_progress {
    const char *what;      /* "files" */
    uint64_t total;        /* 0: not known, so there is no time left */
    uint64_t done, bytes;  /* bytes 0: they are not counted */
    int64_t start_mono_ns; /* 0: nothing is shown */
    int64_t shown_mono_ns; /* last time; 0: not yet */
};

/* what is borrowed. */
void cli_progress_start(struct cli_progress *progress, const char *what, uint64_t total);

/* Counts, and shows it a few times a second. */
void cli_progress_step(struct cli_progress *progress, uint64_t done, uint64_t bytes);

/* Takes the line away: before other output, and at the end. A zeroed progress is fine. */
void cli_progress_clear(struct cli_progress *progress);

enum { CLI_PROGRESS_TEXT_BYTES = 128 };

/* The line as it is after so many nanoseconds: "120 of 3000 files, 4.1 MiB/s, 1:20 left". */
void cli_progress_write(const struct cli_progress *progress, int64_t took_ns,
                        char text[CLI_PROGRESS_TEXT_BYTES]);

#endif
