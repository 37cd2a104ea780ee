#include "tests/bench/report.h"

#include <ftw.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROC_MAX_BYTES = 8192, FOLDER_FILES_OPEN = 16, BLOCK_BYTES = 512 };

void latencies_add(struct latencies *latencies, int64_t ns)
{
    if (latencies->n == latencies->cap) {
        latencies->cap = latencies->cap == 0 ? 1 << 16 : latencies->cap * 2;
        latencies->us = realloc(latencies->us, latencies->cap * sizeof *latencies->us);
        fg_assert(latencies->us != NULL);
    }
    latencies->us[latencies->n++] = (uint32_t)(ns / 1000);
}

static int compare_us(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return (a > b) - (a < b);
}

void latencies_sort(struct latencies *latencies)
{
    if (latencies->n > 0)
        qsort(latencies->us, latencies->n, sizeof *latencies->us, compare_us);
}

double latencies_ms(const struct latencies *latencies, double quantile)
{
    size_t at;

    if (latencies->n == 0)
        return 0;
    at = (size_t)(quantile * (double)latencies->n);
    return latencies->us[at < latencies->n ? at : latencies->n - 1] / 1000.0;
}

void latencies_free(struct latencies *latencies)
{
    free(latencies->us);
    *latencies = (struct latencies){0};
}

/* A file of /proc as text; empty when it cannot be read. */
static void read_proc(pid_t pid, const char *name, char text[PROC_MAX_BYTES])
{
    char path[64];
    FILE *file;
    size_t n = 0;

    (void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    file = fopen(path, "re");
    if (file != NULL) {
        n = fread(text, 1, PROC_MAX_BYTES - 1, file);
        (void)fclose(file);
    }
    text[n] = '\0';
}

double process_cpu_s(pid_t pid)
{
    enum { FIELDS_AFTER_NAME_BEFORE_UTIME = 11 };
    char text[PROC_MAX_BYTES];
    unsigned long user, system;
    char *at;

    read_proc(pid, "stat", text);
    at = strrchr(text, ')'); /* the name may hold anything, blanks too */
    if (at == NULL)
        return 0;
    for (int i = 0; i <= FIELDS_AFTER_NAME_BEFORE_UTIME; i++) {
        at = strchr(at + 1, ' ');
        if (at == NULL)
            return 0;
    }
    user = strtoul(at, &at, 10);
    system = strtoul(at, &at, 10);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

double process_rss_max_mib(pid_t pid)
{
    char text[PROC_MAX_BYTES];
    const char *at;

    read_proc(pid, "status", text);
    at = strstr(text, "VmHWM:");
    return at == NULL ? 0 : strtod(at + strlen("VmHWM:"), NULL) / 1024;
}

static uint64_t walked_bytes; /* nftw() has no argument for its caller */

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)ftw;
    if (type == FTW_F)
        walked_bytes += (uint64_t)st->st_blocks * BLOCK_BYTES;
    return 0;
}

uint64_t folder_bytes(const char *path)
{
    walked_bytes = 0;
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread */
    (void)nftw(path, add_file, FOLDER_FILES_OPEN, FTW_PHYS);
    return walked_bytes;
}

static double each(double sum, uint64_t count)
{
    return count == 0 ? 0 : sum / (double)count;
}

static double accepted_per_s(const struct report *report)
{
    return report->seconds > 0 ? (double)report->accepted / report->seconds : 0;
}

void report_text(const struct report *report, FILE *out)
{
    const struct latencies *l = &report->latencies;

    (void)fprintf(out, "%s: %.1f s, %.0f bytes a request\n", report->label, report->seconds,
                  report->payload_mean_bytes);
    (void)fprintf(out,
                  "  accepted %.0f/s (%" PRIu64 "), refused %" PRIu64 " (%" PRIu64
                  " of them without Retry-After), failed %" PRIu64 ", never sent %" PRIu64 "\n",
                  accepted_per_s(report), report->accepted, report->refused,
                  report->without_retry_after, report->failed, report->late);
    (void)fprintf(out, "  latency p50 %.1f ms, p90 %.1f ms, p99 %.1f ms, max %.1f ms\n",
                  latencies_ms(l, 0.5), latencies_ms(l, 0.9), latencies_ms(l, 0.99),
                  latencies_ms(l, 1));
    (void)fprintf(
        out, "  server: %.3f ms CPU a profile, %.0f MiB at most, %.0f bytes on disk a profile\n",
        each(report->cpu_s * 1000, report->accepted), report->rss_max_mib,
        each((double)report->disk_bytes, report->stored));
}

void report_row_head(FILE *out)
{
    (void)fputs("| run | accepted/s | refused/s | p50 / p90 / p99 / max ms | CPU ms a profile | "
                "memory max MiB "
                "| bytes on disk a profile |\n|---|---|---|---|---|---|---|\n",
                out);
}

void report_row(const struct report *report, FILE *out)
{
    const struct latencies *l = &report->latencies;

    (void)fprintf(out, "| %s | %.0f | %.0f | %.1f / %.1f / %.1f / %.1f | %.3f | %.0f | %.0f |\n",
                  report->label, accepted_per_s(report),
                  report->seconds > 0 ? (double)report->refused / report->seconds : 0,
                  latencies_ms(l, 0.5), latencies_ms(l, 0.9), latencies_ms(l, 0.99),
                  latencies_ms(l, 1), each(report->cpu_s * 1000, report->accepted),
                  report->rss_max_mib, each((double)report->disk_bytes, report->stored));
}
