/* What a bench measures, and how it is written down: latencies, and the server's use of the
 * machine. */
#ifndef FG_TESTS_BENCH_REPORT_H
#define FG_TESTS_BENCH_REPORT_H

#include "common/base/def.h"

#include <stdio.h>
#include <sys/types.h>

struct latencies {
    uint32_t *us; /* owned */
    size_t n, cap;
};

void latencies_add(struct latencies *latencies, int64_t ns);
void latencies_sort(struct latencies *latencies); /* before the quantiles */
double latencies_ms(const struct latencies *latencies, double quantile);
void latencies_free(struct latencies *latencies);

/* Of another process, from /proc. 0 when it is not there. */
double process_cpu_s(pid_t pid);
double process_rss_max_mib(pid_t pid);

/* What files of a folder take on the disk. 0 when it is not there. */
uint64_t folder_bytes(const char *path);

struct report {
    const char *label;
    double seconds;
    uint64_t accepted, refused, failed; /* in these seconds: 200; 429 and 503; all else */
    uint64_t without_retry_after;       /* of the refused */
    uint64_t late;                      /* due, but never sent */
    struct latencies latencies;         /* of the accepted */
    double cpu_s, rss_max_mib;          /* 0: not asked for */
    uint64_t disk_bytes, stored;        /* profiles on the disk, in all */
    double payload_mean_bytes;
};

void report_text(const struct report *report, FILE *out);
void report_row_head(FILE *out);
void report_row(const struct report *report, FILE *out);

#endif
