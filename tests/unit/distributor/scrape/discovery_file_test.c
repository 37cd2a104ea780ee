/* Tests discovery from files that are added, changed, damaged and removed while they are watched.
 * Nothing is scraped: the interval is a day. */
#include "common/runtime/log.h"
#include "distributor/scrape/discovery_file.h"
#include "tests/unit/distributor/scrape/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct room *room;
    struct dist_file_discovery *files;
    char folder[64], yaml_pattern[96], json_pattern[96];
    const char *patterns[3];
    sem_t stopped;
};

static void start_on_loop(void *arg)
{
    struct fixture *f = arg;

    f->files = dist_file_discovery_start(&(struct dist_file_discovery_config){
        .loop = f->room->loop,
        .work = f->room->work,
        .targets = f->room->targets,
        .metrics = f->room->metrics,
        .patterns = f->patterns,
        .n_patterns = 3,
        .look_ns = 5 * FG_MS_NS,
    });
}

static void on_stopped(void *arg)
{
    (void)sem_post(arg);
}

static void stop_on_loop(void *arg)
{
    struct fixture *f = arg;

    dist_file_discovery_stop(f->files, on_stopped, &f->stopped);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    fg_log_set_level(FG_LOG_ERROR);
    (void)snprintf(f->folder, sizeof f->folder, "/tmp/flamegrid-test.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    (void)snprintf(f->yaml_pattern, sizeof f->yaml_pattern, "%s/*.yaml", f->folder);
    (void)snprintf(f->json_pattern, sizeof f->json_pattern, "%s/*.json", f->folder);
    f->patterns[0] = f->yaml_pattern;
    f->patterns[1] = f->json_pattern;
    f->patterns[2] = f->json_pattern; /* a file that matches two patterns is read once */
    f->room = room_create(24 * FG_HOUR_NS, 4);
    assert_int_equal(sem_init(&f->stopped, 0, 0), 0);
    fg_loop_call(f->room->loop, start_on_loop, f);
    *state = f;
    return 0;
}

static void path_of(const struct fixture *f, const char *name, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/%s", f->folder, name);
}

static int tear_down(void **state)
{
    static const char *const names[] = {"a.yaml", "b.json", "c.yaml", "d.txt", "new"};
    struct fixture *f = *state;
    char path[128];

    fg_loop_call(f->room->loop, stop_on_loop, f);
    while (sem_wait(&f->stopped) != 0)
        continue;
    room_destroy(f->room);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        path_of(f, names[i], path, sizeof path);
        (void)remove(path);
    }
    assert_int_equal(rmdir(f->folder), 0);
    free(f);
    return 0;
}

/* Replaces the file by a rename, as careful programs do. */
static void put_file(const struct fixture *f, const char *name, const char *text)
{
    char path[128], new[128];
    FILE *file;

    path_of(f, name, path, sizeof path);
    path_of(f, "new", new, sizeof new);
    file = fopen(new, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(new, path), 0);
}

static void remove_file(const struct fixture *f, const char *name)
{
    char path[128];

    path_of(f, name, path, sizeof path);
    assert_int_equal(unlink(path), 0);
}

#define ALL_A "a:80{instance=\"a:80\", service_name=\"unspecified\"}"
#define ALL_B "b:80{instance=\"b:80\", service_name=\"unspecified\"}"
#define ALL_C "c:80{instance=\"c:80\", service_name=\"unspecified\"}"

static void added_changed_and_removed_files_change_targets(void **state)
{
    struct fixture *f = *state;

    put_file(f, "a.yaml", "[{targets: [a]}]");
    room_wait_targets(f->room, ALL_A);
    put_file(f, "b.json", "[{\"targets\": [\"b\"]}]");
    put_file(f, "d.txt", "[{\"targets\": [\"d\"]}]"); /* matches no pattern */
    room_wait_targets(f->room, ALL_A " " ALL_B);
    put_file(f, "a.yaml", "[{targets: [a, c]}]");
    room_wait_targets(f->room, ALL_A " " ALL_C " " ALL_B);
    remove_file(f, "a.yaml");
    room_wait_targets(f->room, ALL_B);
    put_file(f, "b.json", "[]");
    room_wait_targets(f->room, "");
}

static void a_target_in_two_files_is_scraped_once(void **state)
{
    struct fixture *f = *state;

    put_file(f, "a.yaml", "[{targets: [a, b]}]");
    put_file(f, "c.yaml", "[{targets: [a]}]");
    room_wait_metric(f->room, SCRAPE_FILE_READS, 2);
    room_wait_targets(f->room, ALL_A " " ALL_B);
    remove_file(f, "a.yaml"); /* the other file still has the target */
    room_wait_targets(f->room, ALL_A);
}

struct seen_errors {
    struct fixture *f;
    char text[512];
    unsigned n;
};

static void note_error(const char *path, const char *error, void *arg)
{
    struct seen_errors *seen = arg;

    (void)path;
    seen->n++;
    (void)snprintf(seen->text, sizeof seen->text, "%s", error);
}

static void errors_on_loop(void *arg)
{
    struct seen_errors *seen = arg;

    dist_file_discovery_each_error(seen->f->files, note_error, seen);
}

static void an_unreadable_file_keeps_its_old_targets(void **state)
{
    struct fixture *f = *state;
    struct seen_errors seen = {.f = f};

    put_file(f, "a.yaml", "[{targets: [a]}]");
    room_wait_targets(f->room, ALL_A);
    put_file(f, "a.yaml", "[{targets: [a, b]");
    room_wait_metric(f->room, SCRAPE_FILE_FAILURES, 1);
    while (seen.n == 0) /* a job may own the list at the moment */
        fg_loop_call(f->room->loop, errors_on_loop, &seen);
    assert_non_null(strstr(seen.text, "a.yaml:"));
    room_wait_targets(f->room, ALL_A);
    put_file(f, "a.yaml", "[{targets: [a, b]}]");
    room_wait_targets(f->room, ALL_A " " ALL_B);
    put_file(f, "a.yaml", "[{targets: [a]}]");
    room_wait_targets(f->room, ALL_A);
}

static void a_file_that_is_too_large_is_reported(void **state)
{
    struct fixture *f = *state;
    struct seen_errors seen = {.f = f};
    size_t size = 3 << 20;
    char *large = fg_malloc(size);

    memset(large, '#', size - 1);
    large[size - 1] = '\0';
    put_file(f, "a.yaml", large);
    free(large);
    room_wait_metric(f->room, SCRAPE_FILE_FAILURES, 1);
    while (seen.n == 0)
        fg_loop_call(f->room->loop, errors_on_loop, &seen);
    assert_non_null(strstr(seen.text, "larger than 1 MiB"));
}

/* Opening a pipe would block. */
static void other_than_regular_files_are_skipped(void **state)
{
    struct fixture *f = *state;
    char path[128];

    path_of(f, "c.yaml", path, sizeof path);
    assert_int_equal(mkfifo(path, 0600), 0);
    put_file(f, "a.yaml", "[{targets: [a]}]");
    room_wait_targets(f->room, ALL_A);
}

static void invalid_targets_are_shown_with_the_reason(void **state)
{
    struct fixture *f = *state;

    put_file(f, "a.yaml", "[{targets: [a, \"b:x\"]}]");
    room_wait_targets(f->room, ALL_A " dropped: address \"b:x\" has an invalid port");
    room_wait_metric(f->room, SCRAPE_DROPPED, 1);
    put_file(f, "a.yaml", "[{targets: [a]}]");
    room_wait_targets(f->room, ALL_A);
    assert_int_equal(fg_metric_get(f->room->metrics, SCRAPE_DROPPED), 0);
}

static void targets_beyond_the_maximum_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct fg_buf text;

    fg_buf_init(&text, 65536);
    fg_buf_puts(&text, "- targets: [");
    for (int i = 0; i < 105; i++)
        fg_buf_printf(&text, "a%d,", i);
    fg_buf_puts(&text, "]");
    fg_buf_putc(&text, '\0');
    put_file(f, "a.yaml", (const char *)text.ptr);
    fg_buf_done(&text);
    room_wait_metric(f->room, SCRAPE_DROPPED, 5);
    assert_int_equal(fg_metric_get(f->room->metrics, SCRAPE_TARGETS), 100);
}

static void file_patterns_end_in_json_or_yaml(void **state)
{
    struct fg_err err;

    (void)state;
    assert_int_equal(dist_file_discovery_check_pattern("/x/*.json", &err), FG_OK);
    assert_int_equal(dist_file_discovery_check_pattern("/x/*.yml", &err), FG_OK);
    assert_int_equal(dist_file_discovery_check_pattern("/x/*", &err), FG_E_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(added_changed_and_removed_files_change_targets),
        TEST(a_target_in_two_files_is_scraped_once),
        TEST(an_unreadable_file_keeps_its_old_targets),
        TEST(a_file_that_is_too_large_is_reported),
        TEST(other_than_regular_files_are_skipped),
        TEST(invalid_targets_are_shown_with_the_reason),
        TEST(targets_beyond_the_maximum_are_dropped),
        cmocka_unit_test(file_patterns_end_in_json_or_yaml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
