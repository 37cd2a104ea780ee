/* Tests that profiles become files of a folder and that any labels are read back from them. */
#include "common/base/str.h"
#include "deploy/cli/export_dir.h"
#include "deploy/cli/series_file.h"
#include "tests/lib/remove_tree.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILE_MAX_BYTES = 1 << 20, ARENA_BYTES = 1 << 20 };

static char *make_folder(char path[64])
{
    (void)snprintf(path, 64, "/tmp/flamegrid-export-test.XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void remove_folder(const char *path)
{
    (void)remove_tree(path);
}

static void must(enum fg_code code, const struct fg_err *err)
{
    if (code != FG_OK)
        fail_msg("%s", err->msg);
}

static void labels_in_an_exported_file_are_read_back(void **state)
{
    struct fg_label items[] = {{FG_LIT("__name__"), FG_LIT("mutex")},
                               {FG_LIT("pod"), FG_LIT("a \"b\", {c=d}\n\\ \xc3\xbc")},
                               {FG_LIT("service_name"), FG_LIT("../../etc/\x01")}};
    const struct fg_labels labels = {items, FG_COUNT(items)};
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    char folder[64], path[128];
    struct fg_labels read;
    struct fg_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/" SERIES_FILE, make_folder(folder));
    must(cli_series_file_write(path, &labels, &err), &err);
    must(cli_series_file_read(path, arena, &read, &err), &err);
    assert_int_equal(fg_labels_cmp(&read, &labels), 0);
    fg_arena_destroy(arena);
    remove_folder(folder);
}

static void write_text(const char *path, const char *text, size_t times)
{
    FILE *file = fopen(path, "wbe");

    assert_non_null(file);
    for (size_t i = 0; i < times; i++)
        assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void errors_in_labels_are_named(void **state)
{
    static const struct {
        const char *text, *want;
        size_t times;
    } cases[] = {
        {"", "parse error", 1},
        {"{service_name=\"a\"", "parse error", 1},
        {"{service_name=~\"a\"}", "with =: service_name", 1},
        {"{a=\"b\"}", "it lacks service_name", 1},
        {"aaaaaaaaaaaaaaaaaaaa", "larger than 65536 bytes", 10000},
    };
    struct fg_arena *arena = fg_arena_create(ARENA_BYTES);
    char folder[64], path[128];
    struct fg_labels read;
    struct fg_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/" SERIES_FILE, make_folder(folder));
    assert_int_equal(cli_series_file_read(path, arena, &read, &err), FG_E_NOT_FOUND);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        write_text(path, cases[i].text, cases[i].times);
        assert_int_not_equal(cli_series_file_read(path, arena, &read, &err), FG_OK);
        if (strstr(err.msg, cases[i].want) == NULL)
            fail_msg("%s", err.msg);
    }
    fg_arena_destroy(arena);
    remove_folder(folder);
}

static void add(struct cli_export_dir *dir, const char *service, int64_t time_ns, uint64_t id)
{
    struct fg_label label = {FG_LIT("service_name"), fg_cstr(service)};
    const struct fg_labels labels = {&label, 1};
    struct fg_err err;

    must(cli_export_dir_add(
             dir,
             &(struct qry_export_profile){
                 .labels = &labels, .id = {id, 0}, .time_ns = time_ns, .pprof = FG_LIT("bytes")},
             &err),
         &err);
}

/* What nftw() has found; nftw() has no argument for its callback. */
static struct fg_buf found;

static int list_one(const char *path, const struct stat *stat_buf, int kind, struct FTW *at)
{
    (void)at;
    if (kind == FTW_F)
        fg_buf_printf(&found, "%s\n", path);
    assert_true(kind != FTW_F || stat_buf->st_size > 0);
    return 0;
}

static void assert_found(const char *part, size_t times)
{
    struct fg_slice rest = fg_buf_slice(&found);

    for (size_t i = 0; i < times; i++) {
        size_t at = fg_slice_search(rest, part);

        if (at == SIZE_MAX)
            fail_msg("%s is not there: %.*s", part, FG_S(fg_buf_slice(&found)));
        rest = fg_slice_sub(rest, at + 1, rest.len);
    }
    assert_int_equal(fg_slice_search(rest, part), SIZE_MAX);
}

static void file_names_cannot_leave_their_folder(void **state)
{
    char long_name[600];
    char folder[64];
    struct cli_export_dir dir = {.path = make_folder(folder)};

    (void)state;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    add(&dir, "..", 0, 1);
    add(&dir, "a/../b", 1700000000250 * FG_MS_NS, 0xabc);
    add(&dir, "a/../b", 1700000000250 * FG_MS_NS, 0xabc); /* again */
    add(&dir, "a/../b", -1, 2);
    add(&dir, long_name, INT64_MAX, 3);
    add(&dir, "", INT64_MIN, 4);
    fg_buf_init(&found, FILE_MAX_BYTES);
    assert_int_equal(nftw(folder, list_one, 16, FTW_PHYS), 0);
    assert_found("/a_.._b-", 3);
    assert_found("/2023-11-14/221320.250-0000000000000abc.pb.gz\n", 1);
    assert_found("/1969-12-31/235959.999-0000000000000002.pb.gz\n", 1);
    assert_found("/2262-04-11/234716.854-0000000000000003.pb.gz\n", 1);
    assert_found("/1677-09-21/001243.145-0000000000000004.pb.gz\n", 1);
    assert_found("/_.-", 2);
    assert_found("/.series\n", 4);
    assert_found(".pb.gz\n", 5);
    fg_buf_done(&found);
    remove_folder(folder);
}

static void system_errors_are_passed_on(void **state)
{
    struct cli_export_dir dir = {.path = "/dev/null"};
    struct fg_label label = {FG_LIT("service_name"), FG_LIT("a")};
    const struct fg_labels labels = {&label, 1};
    struct fg_err err;

    (void)state;
    assert_int_not_equal(
        cli_export_dir_add(&dir, &(struct qry_export_profile){.labels = &labels}, &err), FG_OK);
    assert_non_null(strstr(err.msg, "/dev/null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_in_an_exported_file_are_read_back),
        cmocka_unit_test(errors_in_labels_are_named),
        cmocka_unit_test(file_names_cannot_leave_their_folder),
        cmocka_unit_test(system_errors_are_passed_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
