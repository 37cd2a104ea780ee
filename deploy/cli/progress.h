/*
 * The progress line of a long command on standard error: done, rate, time left. Nothing is written
 * unless standard error is a terminal.
 *
 * Thread: one at a time; several threads need a lock.
 */
#ifndef FG_DEPLOY_CLI_PROGRESS_H
#define FG_DEPLOY_CLI_PROGRESS_H

#include "common/base/def.h"

struct cli_progress {
    const char *what;      /* "files" */
    uint64_t total;        /* 0: unknown, so no time left is shown */
    uint64_t done, bytes;  /* bytes 0: not shown */
    int64_t start_mono_ns; /* 0: nothing is shown */
    int64_t shown_mono_ns; /* last time; 0: never */
};

/* Starts a progress line. what is borrowed. */
void cli_progress_start(struct cli_progress *progress, const char *what, uint64_t total);

/* Counts, and updates the line a few times per second. */
void cli_progress_step(struct cli_progress *progress, uint64_t done, uint64_t bytes);

/* Clears the line: before other output, and at the end. A zeroed progress is fine. */
void cli_progress_clear(struct cli_progress *progress);

enum { CLI_PROGRESS_TEXT_BYTES = 128 };

/* Writes the line as it is after took_ns: "120 of 3000 files, 4.1 MiB/s, 1:20 left". */
void cli_progress_write(const struct cli_progress *progress, int64_t took_ns,
                        char text[CLI_PROGRESS_TEXT_BYTES]);

#endif
