/* What is a directory's own: several processes, kill -9, links, leftovers. */
#include "common/storage/bucket/directory.h"
#include "common/storage/bucket/meter.h"
#include "tests/lib/remove_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KILLS = 12, OBJECTS = 8, OBJECT_BYTES = 200000, PROCESSES = 4, ROUNDS = 25 };

struct fixture {
    char dir[64];
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->dir, sizeof f->dir, "/tmp/flamegrid-test.XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    (void)remove_tree(f->dir);
    free(f);
    return 0;
}

static struct fg_bucket *open_bucket(const struct fixture *f, struct fg_registry *registry)
{
    const struct fg_bucket_directory_config config = {
        .path = f->dir, .threads = 2, .queue_max = 1000, .registry = registry};
    struct fg_bucket *bucket = NULL;
    struct fg_err err;

    /* Also in children, where cmocka's own cannot be used. */
    if (fg_bucket_directory_open(&config, &bucket, &err) != FG_OK)
        (void)fprintf(stderr, "%s\n", err.msg);
    fg_assert(bucket != NULL);
    return bucket;
}

static char *path_of(const struct fixture *f, const char *rest, char out[200])
{
    (void)snprintf(out, 200, "%s/%s", f->dir, rest);
    return out;
}

static enum fg_code put(struct fg_bucket *bucket, const char *name, struct fg_slice content)
{
    struct fg_bucket_request request = {.verb = FG_BUCKET_PUT, .name = name, .content = content};

    return fg_bucket_call(bucket, &request);
}

static enum fg_code get(struct fg_bucket *bucket, const char *name, struct fg_buf *ret_body)
{
    struct fg_bucket_request request = {
        .verb = FG_BUCKET_GET, .name = name, .content_max_bytes = 1 << 20};

    (void)fg_bucket_call(bucket, &request);
    if (request.code == FG_OK && ret_body != NULL)
        *ret_body = request.body;
    else
        fg_bucket_clear(&request);
    return request.code;
}

static size_t files_in(const char *dir)
{
    char command[300];
    size_t n = 0;
    FILE *pipe;

    (void)snprintf(command, sizeof command, "find %s -type f | wc -l", dir);
    pipe = popen(command, "re"); /* NOLINT(cert-env33-c): a path of ours */
    assert_non_null(pipe);
    assert_int_equal(fscanf(pipe, "%zu", &n), 1); /* NOLINT(cert-err34-c) */
    (void)pclose(pipe);
    return n;
}

/* ---- kill -9 ---- */

/* Content that tells whether it is whole: the same byte all through, and the length. */
static void write_for_ever(const struct fixture *f)
{
    struct fg_bucket *bucket = open_bucket(f, NULL);
    uint8_t *bytes = fg_malloc(OBJECT_BYTES);

    for (unsigned i = 0;; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "a/%u/b", i % OBJECTS);
        memset(bytes, (int)(i & 0xff), OBJECT_BYTES);
        fg_assert(put(bucket, name, fg_bytes(bytes, OBJECT_BYTES)) == FG_OK);
    }
}

static void expect_whole(struct fg_bucket *bucket)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct fg_buf body = {0};
        char name[32];

        (void)snprintf(name, sizeof name, "a/%u/b", i);
        if (get(bucket, name, &body) == FG_E_NOT_FOUND)
            continue;
        assert_int_equal(body.len, OBJECT_BYTES);
        for (size_t k = 1; k < body.len; k++)
            assert_int_equal(body.ptr[k], body.ptr[0]);
        fg_buf_done(&body);
    }
}

static void objects_are_whole_after_kill(void **state)
{
    struct fixture *f = *state;
    char tmp[200];

    for (unsigned i = 0; i < KILLS; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0)
            write_for_ever(f);
        (void)usleep(20000 + i * 7001);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        struct fg_bucket *bucket = open_bucket(f, NULL);
        expect_whole(bucket);
        assert_int_equal(files_in(path_of(f, "tmp", tmp)), 0);
        fg_bucket_close(bucket);
    }
}

/* ---- several processes ---- */

static void count_up(const struct fixture *f)
{
    struct fg_bucket *bucket = open_bucket(f, NULL);

    for (unsigned won = 0; won < ROUNDS;) {
        struct fg_bucket_request read = {
            .verb = FG_BUCKET_GET, .name = "count", .content_max_bytes = 64};
        struct fg_bucket_request set = {
            .verb = FG_BUCKET_PUT, .name = "count", .condition = FG_BUCKET_IF_MATCH};
        char content[32];

        fg_assert(fg_bucket_call(bucket, &read) == FG_OK);
        fg_buf_putc(&read.body, '\0');
        (void)snprintf(content, sizeof content, "%lu",
                       strtoul((const char *)read.body.ptr, NULL, 10) + 1);
        set.content = fg_cstr(content);
        set.if_etag = read.etag;
        won += fg_bucket_call(bucket, &set) == FG_OK;
        fg_assert(set.code == FG_OK || set.code == FG_E_PRECONDITION);
        fg_bucket_clear(&read);
    }
    fg_bucket_close(bucket);
}

static void processes_lose_no_update(void **state)
{
    struct fixture *f = *state;
    pid_t children[PROCESSES];
    struct fg_buf body = {0};
    int status;

    struct fg_bucket *bucket = open_bucket(f, NULL);
    assert_int_equal(put(bucket, "count", FG_LIT("0")), FG_OK);
    fg_bucket_close(bucket);
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            count_up(f);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    bucket = open_bucket(f, NULL);
    assert_int_equal(get(bucket, "count", &body), FG_OK);
    assert_true(fg_slice_is(fg_buf_slice(&body), "100"));
    fg_buf_done(&body);
    fg_bucket_close(bucket);
}

/* Folders come and go under those who put into them. */
static void folders_may_vanish(void **state)
{
    struct fixture *f = *state;
    pid_t child = fork();

    assert_true(child >= 0);
    struct fg_bucket *bucket = open_bucket(f, NULL);
    for (unsigned i = 0; i < 300; i++) {
        struct fg_bucket_request delete = {.verb = FG_BUCKET_DELETE,
                                           .name = child == 0 ? "a/b/c" : "a/b/d"};

        fg_assert(put(bucket, delete.name, FG_LIT("x")) == FG_OK);
        fg_assert(get(bucket, delete.name, NULL) == FG_OK);
        fg_assert(fg_bucket_call(bucket, &delete) == FG_OK);
    }
    fg_bucket_close(bucket);
    if (child == 0)
        _exit(0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- what others leave in it ---- */

static void follows_no_links(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = open_bucket(f, NULL);
    struct fg_bucket_request list = {.verb = FG_BUCKET_LIST, .name = ""};
    char path[200];

    assert_int_equal(put(bucket, "real/a", FG_LIT("x")), FG_OK);
    assert_int_equal(symlink("/etc/passwd", path_of(f, "objects/link", path)), 0);
    assert_int_equal(symlink("/etc", path_of(f, "objects/folder", path)), 0);
    assert_int_equal(symlink("real", path_of(f, "objects/near", path)), 0);
    assert_int_equal(mkfifo(path_of(f, "objects/fifo", path), 0600), 0);
    assert_int_equal(get(bucket, "link", NULL), FG_E_NOT_FOUND);
    assert_int_equal(get(bucket, "folder/passwd", NULL), FG_E_NOT_FOUND);
    assert_int_equal(get(bucket, "near/a", NULL), FG_E_NOT_FOUND);
    assert_int_equal(get(bucket, "fifo", NULL), FG_E_NOT_FOUND);
    assert_int_equal(put(bucket, "folder/evil", FG_LIT("x")), FG_E_INVALID);
    assert_int_equal(fg_bucket_call(bucket, &list), FG_OK);
    assert_int_equal(list.n_entries, 1);
    assert_string_equal(list.entries[0].name, "real/a");
    fg_bucket_clear(&list);
    assert_int_equal(put(bucket, "link", FG_LIT("mine")), FG_OK); /* in the link's place */
    assert_int_equal(get(bucket, "link", NULL), FG_OK);
    fg_bucket_close(bucket);
}

static void keeps_objects_and_folders_apart(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = open_bucket(f, NULL);
    char tmp[200];

    assert_int_equal(put(bucket, "a/b", FG_LIT("x")), FG_OK);
    assert_int_equal(put(bucket, "a", FG_LIT("x")), FG_E_INVALID);
    assert_int_equal(put(bucket, "a/b/c", FG_LIT("x")), FG_E_INVALID);
    assert_int_equal(files_in(path_of(f, "tmp", tmp)), 0);
    fg_bucket_close(bucket);
}

static void tidies_what_the_dead_left(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket = open_bucket(f, NULL);
    struct fg_bucket_request tidy = {.verb = FG_BUCKET_CLEAN_UP};
    char path[200];
    int dead, alive;

    dead = open(path_of(f, "tmp/1-2-3", path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    alive = open(path_of(f, "tmp/1-2-4", path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(dead >= 0 && alive >= 0);
    assert_int_equal(flock(alive, LOCK_EX), 0);
    assert_int_equal(fg_bucket_call(bucket, &tidy), FG_OK);
    assert_int_equal(tidy.size_bytes, 1);
    assert_int_equal(access(path_of(f, "tmp/1-2-3", path), F_OK), -1);
    assert_int_equal(access(path_of(f, "tmp/1-2-4", path), F_OK), 0);
    assert_int_equal(close(alive) | close(dead), 0);
    fg_bucket_close(bucket);
    fg_bucket_close(open_bucket(f, NULL)); /* opening tidies as well */
    assert_int_equal(files_in(path_of(f, "tmp", path)), 0);
}

/* An object that somebody copied in, with any time. */
static void versions_only_go_up(void **state)
{
    struct fixture *f = *state;
    const struct timespec future[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 8000000000}};
    struct fg_bucket *bucket = open_bucket(f, NULL);
    struct fg_bucket_request head = {.verb = FG_BUCKET_HEAD, .name = "a"};
    struct fg_bucket_request set = {
        .verb = FG_BUCKET_PUT, .name = "a", .condition = FG_BUCKET_IF_MATCH};
    char path[200];

    assert_int_equal(put(bucket, "a", FG_LIT("x")), FG_OK);
    assert_int_equal(utimensat(AT_FDCWD, path_of(f, "objects/a", path), future, 0), 0);
    assert_int_equal(fg_bucket_call(bucket, &head), FG_OK);
    set.if_etag = head.etag;
    assert_int_equal(fg_bucket_call(bucket, &set), FG_OK);
    assert_true(strcmp(set.etag.text, head.etag.text) != 0);
    assert_int_equal(fg_bucket_call(bucket, &set), FG_E_PRECONDITION);
    assert_int_equal(fg_bucket_call(bucket, &head), FG_OK);
    assert_true(head.modified_wall_ns > future[1].tv_sec * FG_SECOND_NS);
    fg_bucket_close(bucket);
}

/* A limit on file sizes stands for a full disk: the write fails in the middle. */
static void a_failed_write_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    const struct rlimit small = {100000, RLIM_INFINITY};
    struct rlimit before;
    struct fg_bucket *bucket = open_bucket(f, NULL);
    uint8_t *bytes = fg_calloc(1, OBJECT_BYTES);
    char path[200];

    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(put(bucket, "a", fg_bytes(bytes, OBJECT_BYTES)), FG_E_UNAVAILABLE);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(get(bucket, "a", NULL), FG_E_NOT_FOUND);
    assert_int_equal(files_in(path_of(f, "tmp", path)), 0);
    free(bytes);
    fg_bucket_close(bucket);
}

static void opens_only_folders(void **state)
{
    struct fixture *f = *state;
    struct fg_bucket *bucket;
    struct fg_err err;
    char path[200];
    int fd = open(path_of(f, "file", path), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_int_equal(close(fd), 0);
    assert_int_equal(
        fg_bucket_directory_open(
            &(struct fg_bucket_directory_config){.path = path, .threads = 1, .queue_max = 1},
            &bucket, &err),
        FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(
        fg_bucket_directory_open(
            &(struct fg_bucket_directory_config){
                .path = path_of(f, "no/such/parent", path), .threads = 1, .queue_max = 1},
            &bucket, &err),
        FG_E_UNAVAILABLE);
}

static void calls_and_failures_are_counted(void **state)
{
    struct fixture *f = *state;
    struct fg_registry *registry = fg_registry_create();
    struct fg_bucket *bucket = open_bucket(f, registry);
    struct fg_buf text;

    assert_int_equal(put(bucket, "a", FG_LIT("12345")), FG_OK);
    assert_int_equal(get(bucket, "a", NULL), FG_OK);
    assert_int_equal(get(bucket, "b", NULL), FG_E_NOT_FOUND);
    assert_int_equal(put(bucket, "a/b", FG_LIT("12345")), FG_E_INVALID);
    fg_bucket_close(bucket);
    fg_buf_init(&text, 1 << 20);
    fg_registry_write(registry, &text);
    fg_buf_putc(&text, '\0');
    static const char *const lines[] = {
        "\nflamegrid_bucket_requests_total{op=\"put\"} 2\n",
        "\nflamegrid_bucket_requests_total{op=\"get\"} 2\n",
        "\nflamegrid_bucket_errors_total{op=\"put\"} 1\n",
        "\nflamegrid_bucket_errors_total{op=\"get\"} 0\n",
        "\nflamegrid_bucket_store_requests_total{class=\"A\"} 2\n",
        "\nflamegrid_bucket_store_requests_total{class=\"B\"} 2\n",
        "\nflamegrid_bucket_read_bytes_total 5\n",
        "\nflamegrid_bucket_written_bytes_total 5\n",
        "\nflamegrid_bucket_request_duration_seconds_count{op=\"put\"} 2\n",
    };
    for (size_t i = 0; i < FG_COUNT(lines); i++)
        if (strstr((char *)text.ptr, lines[i]) == NULL)
            fail_msg("no %s in %s", lines[i], (char *)text.ptr);
    fg_buf_done(&text);
    fg_registry_destroy(registry);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(objects_are_whole_after_kill),
        TEST(processes_lose_no_update),
        TEST(folders_may_vanish),
        TEST(follows_no_links),
        TEST(keeps_objects_and_folders_apart),
        TEST(tidies_what_the_dead_left),
        TEST(versions_only_go_up),
        TEST(a_failed_write_leaves_nothing),
        TEST(opens_only_folders),
        TEST(calls_and_failures_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
