#include "common/base/str.h"
#include "common/base/time.h"
#include "common/program/process_metrics.h"
#include "common/program/version.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT_MAX_BYTES = 16384, MAPPED_BYTES = 64 * 1024 * 1024, FILES = 5 };

/* What a scrape says; the next one overwrites it. */
static const char *scrape(struct fg_registry *registry)
{
    static char text[TEXT_MAX_BYTES];
    struct fg_buf buf;

    fg_buf_init(&buf, sizeof text - 1);
    fg_registry_write(registry, &buf);
    assert_false(buf.full);
    if (buf.len > 0)
        memcpy(text, buf.ptr, buf.len);
    text[buf.len] = '\0';
    fg_buf_done(&buf);
    return text;
}

static double value_of(struct fg_registry *registry, const char *name)
{
    char line[128];
    const char *found;

    (void)snprintf(line, sizeof line, "\n%s ", name);
    found = strstr(scrape(registry), line);
    assert_non_null(found);
    return strtod(found + strlen(line), NULL);
}

static void memory_grows_with_what_is_touched(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_process_metrics *process = fg_process_metrics_create(registry, 123456789);
    double before = value_of(registry, "process_resident_memory_bytes");
    char *mapped = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    (void)state;
    assert_true(mapped != MAP_FAILED);
    assert_true(before > 0);
    assert_true(value_of(registry, "process_resident_memory_bytes") >= before + MAPPED_BYTES / 2.0);
    assert_true(value_of(registry, "flamegrid_memory_max_bytes") == 123456789);
    assert_int_equal(munmap(mapped, MAPPED_BYTES), 0);
    fg_process_metrics_destroy(process);
    fg_registry_destroy(registry);
}

static void files_count_while_they_are_open(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_process_metrics *process = fg_process_metrics_create(registry, 1);
    double before = value_of(registry, "process_open_fds");
    int files[FILES];

    (void)state;
    assert_true(before >= 3);
    for (int i = 0; i < FILES; i++)
        assert_true((files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
    assert_true(value_of(registry, "process_open_fds") == before + FILES);
    for (int i = 0; i < FILES; i++)
        assert_int_equal(close(files[i]), 0);
    assert_true(value_of(registry, "process_open_fds") == before);
    assert_true(value_of(registry, "process_max_fds") > before);
    fg_process_metrics_destroy(process);
    fg_registry_destroy(registry);
}

static void processor_time_is_a_counter_of_seconds(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_process_metrics *process = fg_process_metrics_create(registry, 1);
    double before = value_of(registry, "process_cpu_seconds_total");

    (void)state;
    /* Each scrape takes some. */
    while (value_of(registry, "process_cpu_seconds_total") <= before)
        continue;
    assert_non_null(strstr(scrape(registry), "# TYPE process_cpu_seconds_total counter\n"));
    fg_process_metrics_destroy(process);
    fg_registry_destroy(registry);
}

static void build_info_names_the_version(void **state)
{
    struct fg_registry *registry = fg_registry_create();
    struct fg_process_metrics *process = fg_process_metrics_create(registry, 1);
    double now_s = (double)fg_wall_ns(fg_clock_real()) / 1e9;
    char line[200];

    (void)state;
    (void)snprintf(line, sizeof line, "\nflamegrid_build_info{version=\"%s\",revision=\"%s\"} 1\n",
                   fg_program_version(), fg_program_revision());
    assert_non_null(strstr(scrape(registry), line));
    assert_true(value_of(registry, "process_start_time_seconds") > 1.6e9);
    assert_true(value_of(registry, "process_start_time_seconds") <= now_s);
    fg_process_metrics_destroy(process);
    assert_string_equal(scrape(registry), "");
    fg_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_grows_with_what_is_touched),
        cmocka_unit_test(files_count_while_they_are_open),
        cmocka_unit_test(processor_time_is_a_counter_of_seconds),
        cmocka_unit_test(build_info_names_the_version),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
