#include "deploy/cli/progress.h"

#include "common/base/time.h"

#include <stdio.h>
#include <unistd.h>

static const int64_t SHOW_EVERY_NS = FG_SECOND_NS / 5; /* nobody reads faster */

void cli_progress_start(struct cli_progress *progress, const char *what, uint64_t total)
{
    *progress = (struct cli_progress){.what = what, .total = total};
    /* Only on a terminal: in a log file the line would be written thousands of times. */
    if (isatty(STDERR_FILENO) == 1)
        progress->start_mono_ns = fg_mono_ns(fg_clock_real());
}

void cli_progress_write(const struct cli_progress *progress, int64_t took_ns,
                        char text[CLI_PROGRESS_TEXT_BYTES])
{
    /* At least a nanosecond, so that a first step at once does not divide by zero. */
    double seconds = (double)FG_MAX(took_ns, 1) / FG_SECOND_NS;
    double per_s = (double)progress->done / seconds;
    int len;

    if (progress->total > 0)
        len = snprintf(text, CLI_PROGRESS_TEXT_BYTES, "%llu of %llu %s",
                       (unsigned long long)progress->done, (unsigned long long)progress->total,
                       progress->what);
    else
        len = snprintf(text, CLI_PROGRESS_TEXT_BYTES, "%llu %s", (unsigned long long)progress->done,
                       progress->what);
    /* Bytes per second if they are known, since files and objects differ much in size. */
    if (progress->bytes > 0)
        len += snprintf(text + len, (size_t)(CLI_PROGRESS_TEXT_BYTES - len), ", %.1f MiB/s",
                        (double)progress->bytes / seconds / 0x1p20);
    else
        len += snprintf(text + len, (size_t)(CLI_PROGRESS_TEXT_BYTES - len), ", %.0f/s", per_s);
    if (progress->total > progress->done && progress->done > 0) {
        uint64_t left_s = (uint64_t)((double)(progress->total - progress->done) / per_s);

        (void)snprintf(text + len, (size_t)(CLI_PROGRESS_TEXT_BYTES - len), ", %llu:%02llu left",
                       (unsigned long long)left_s / 60, (unsigned long long)left_s % 60);
    }
}

void cli_progress_step(struct cli_progress *progress, uint64_t done, uint64_t bytes)
{
    char text[CLI_PROGRESS_TEXT_BYTES];
    int64_t now_ns;

    progress->done += done;
    progress->bytes += bytes;
    /* Not on a terminal: nothing is ever shown. */
    if (progress->start_mono_ns == 0)
        return;
    now_ns = fg_mono_ns(fg_clock_real());
    if (now_ns - progress->shown_mono_ns < SHOW_EVERY_NS)
        return;
    progress->shown_mono_ns = now_ns;
    cli_progress_write(progress, now_ns - progress->start_mono_ns, text);
    fprintf(stderr, "\r\x1b[K%s", text); /* ECMA-48 8.3.41: erase to the end of the line */
    (void)fflush(stderr);
}

void cli_progress_clear(struct cli_progress *progress)
{
    if (progress->shown_mono_ns == 0)
        return;
    fputs("\r\x1b[K", stderr);
    (void)fflush(stderr);
    progress->shown_mono_ns = 0;
}
