#include "common/program/process_metrics.h"

#include "common/base/str.h"
#include "common/base/time.h"
#include "common/program/version.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BUILD_NAME_MAX_BYTES = 160, NS_PER_US = 1000 };

/* clang-format off */
#define PROCESS_METRICS(M) \
    M(FRACTION_TOTAL, PROCESS_CPU, "process_cpu_seconds_total", "Processor time of the process, in user and system mode") \
    M(GAUGE, PROCESS_MEMORY, "process_resident_memory_bytes", "Physical memory of the process") \
    M(GAUGE, PROCESS_FDS, "process_open_fds", "Open file descriptors of the process") \
    M(GAUGE, PROCESS_FDS_MAX, "process_max_fds", "File descriptors that the process may have") \
    M(FRACTION, PROCESS_START, "process_start_time_seconds", "Start of the process, in seconds since the epoch") \
    M(GAUGE, PROCESS_MEMORY_MAX, "flamegrid_memory_max_bytes", "Memory budget of the process: the setting memory_max_bytes")

#define BUILD_NAME "flamegrid_build_info{version=\"%s\",revision=\"%s\"}"
#define BUILD_METRICS(M) M(GAUGE, BUILD_INFO, BUILD_NAME, "1; the labels say which version runs")
/* clang-format on */
FG_METRICS_ENUM(process_metric, PROCESS_METRICS)
FG_METRICS_TABLE(process_metrics, PROCESS_METRICS)
FG_METRICS_TABLE(build_metrics, BUILD_METRICS) /* a template */

struct fg_process_metrics {
    struct fg_registry *registry;
    struct fg_metrics *metrics, *build;
    struct fg_metric_def build_def;
    char build_name[BUILD_NAME_MAX_BYTES];
};

/* proc(5), statm: size, resident, ... in pages. Returns 0 if it cannot be read. */
static int64_t resident_bytes(void)
{
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    const char *resident;

    if (file == NULL)
        return 0;
    resident = fgets(text, sizeof text, file) == NULL ? NULL : strchr(text, ' ');
    (void)fclose(file);
    return resident == NULL ? 0 : (int64_t)strtoull(resident, NULL, 10) * sysconf(_SC_PAGESIZE);
}

static int64_t open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int64_t count = 0;

    if (dir == NULL)
        return 0;
    while (readdir(dir) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        count++;
    (void)closedir(dir);
    return count - 3; /* ".", "..", and the folder itself */
}

static void on_scrape(void *arg)
{
    struct fg_process_metrics *process = arg;
    struct rusage usage;

    fg_assert(getrusage(RUSAGE_SELF, &usage) == 0);
    fg_metric_set_fraction(process->metrics, PROCESS_CPU,
                           (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * FG_SECOND_NS +
                               (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US);
    fg_metric_set(process->metrics, PROCESS_MEMORY, resident_bytes());
    fg_metric_set(process->metrics, PROCESS_FDS, open_fds());
}

struct fg_process_metrics *fg_process_metrics_create(struct fg_registry *registry,
                                                     uint64_t memory_max_bytes)
{
    struct fg_process_metrics *process = fg_new(struct fg_process_metrics);
    struct rlimit files;

    process->registry = registry;
    process->metrics = fg_metrics_register(registry, process_metrics, FG_COUNT(process_metrics));
    (void)snprintf(process->build_name, sizeof process->build_name, BUILD_NAME,
                   fg_program_version(), fg_program_revision());
    process->build_def = build_metrics[0];
    process->build_def.name = process->build_name;
    process->build = fg_metrics_register(registry, &process->build_def, 1);
    fg_metric_set(process->build, 0, 1);
    fg_assert(getrlimit(RLIMIT_NOFILE, &files) == 0);
    fg_metric_set(process->metrics, PROCESS_FDS_MAX,
                  (int64_t)FG_MIN(files.rlim_cur, (rlim_t)INT64_MAX));
    fg_metric_set(process->metrics, PROCESS_MEMORY_MAX, (int64_t)memory_max_bytes);
    fg_metric_set_fraction(process->metrics, PROCESS_START, fg_wall_ns(fg_clock_real()));
    fg_registry_on_scrape(registry, on_scrape, process);
    return process;
}

void fg_process_metrics_destroy(struct fg_process_metrics *process)
{
    if (process == NULL)
        return;
    fg_registry_off_scrape(process->registry, process);
    fg_metrics_unregister(process->registry, process->build);
    fg_metrics_unregister(process->registry, process->metrics);
    free(process);
}
