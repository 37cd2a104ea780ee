/* What RocksDB keeps through the ends of a process: closed, killed, out of disk. */
#include "tests/unit/common/storage/store/numbered_store.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void expect_nrs(struct fg_store *store, uint32_t n)
{
    for (uint32_t nr = 0; nr < n; nr++) {
        assert_true(numbered_has(store, 0, nr));
        assert_true(numbered_has(store, 1, nr));
    }
}

static void data_survives_reopening(void **state)
{
    struct fg_store *store = numbered_open();
    struct fg_err err;

    (void)state;
    for (uint32_t nr = 0; nr < 10; nr++)
        assert_int_equal(numbered_write(store, nr, 100, &err), FG_OK);
    fg_store_close(store);
    store = numbered_open();
    expect_nrs(store, 10);
    assert_true(fg_store_disk_bytes(store) > 0);
    fg_store_close(store);
}

static void a_store_is_opened_by_one_process(void **state)
{
    struct fg_store *store = numbered_open(), *second = NULL;
    struct fg_err err;

    (void)state;
    assert_int_equal(numbered_try_open(&second, &err), FG_E_PRECONDITION);
    assert_null(second);
    fg_store_close(store);
}

static void a_new_family_can_be_added(void **state)
{
    struct fg_store *store = numbered_open();
    const char *const more[] = {"default", "index", "new"};
    struct fg_err err;
    bool found = true;

    (void)state;
    assert_int_equal(numbered_write(store, 0, 100, &err), FG_OK);
    fg_store_close(store);
    assert_int_equal(fg_store_open(numbered_dir, more, 3, &numbered_config, &store, &err), FG_OK);
    expect_nrs(store, 1);
    assert_int_equal(fg_store_contains(store, 2, FG_LIT("00000000"), &found, &err), FG_OK);
    assert_false(found);
    fg_store_close(store);
}

/* An older version opens a store that has no use for a new family, and one that has is opened by
 * the newer version only. */
static void spare_family_is_not_created_before_it_is_needed(void **state)
{
    const char *const more[] = {"default", "index", "new"};
    struct fg_store_config config = numbered_config;
    struct fg_store *store = NULL;
    struct fg_store_batch batch;
    struct fg_err err;
    bool found = false;

    (void)state;
    config.spare_families = 1;
    for (unsigned i = 0; i < 2; i++) { /* a new store, and one that is there */
        assert_int_equal(fg_store_open(numbered_dir, more, 3, &config, &store, &err), FG_OK);
        assert_int_equal(numbered_write(store, i, 100, &err), FG_OK);
        fg_store_close(store);
    }
    store = numbered_open();
    expect_nrs(store, 2);
    fg_store_close(store);
    config.spare_families = 0;
    assert_int_equal(fg_store_open(numbered_dir, more, 3, &config, &store, &err), FG_OK);
    fg_store_batch_init(&batch);
    fg_store_put(&batch, 2, FG_LIT("key"), FG_LIT("value"));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_store_close(store);
    config.spare_families = 1;
    assert_int_equal(fg_store_open(numbered_dir, more, 3, &config, &store, &err), FG_OK);
    assert_int_equal(fg_store_contains(store, 2, FG_LIT("key"), &found, &err), FG_OK);
    assert_true(found);
    fg_store_close(store);
    store = NULL;
    assert_int_not_equal(numbered_try_open(&store, &err), FG_OK);
    assert_null(store);
    print_message("  %s\n", err.msg);
}

/* The writer is this program started again: RocksDB's threads do not survive a fork. */
static int write_for_ever(const char *in_dir, int out)
{
    struct fg_store *store;
    struct fg_err err;

    (void)snprintf(numbered_dir, sizeof numbered_dir, "%s", in_dir);
    store = numbered_open();
    for (uint32_t nr = 0;; nr++)
        if (numbered_write(store, nr, 5000, &err) != FG_OK ||
            write(out, &nr, sizeof nr) != sizeof nr)
            return 1;
}

/* Says on the pipe what was acknowledged, until killed. */
static pid_t start_writer(int *ret_acks)
{
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        (void)execl("/proc/self/exe", "test_store_durable", "writer", numbered_dir, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    *ret_acks = ends[0];
    return pid;
}

/* Kills in the middle of the writing. Returns how many were acknowledged. */
static uint32_t run_and_kill(uint32_t at_least)
{
    uint32_t nr, acknowledged = 0;
    int acks, status;
    pid_t pid = start_writer(&acks);

    while (read(acks, &nr, sizeof nr) == sizeof nr) {
        acknowledged = nr + 1;
        if (acknowledged == at_least)
            assert_int_equal(kill(pid, SIGKILL), 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    close(acks);
    return acknowledged;
}

static void data_survives_kill(void **state)
{
    (void)state;
    for (uint32_t round = 1; round <= 3; round++) {
        uint32_t acknowledged = run_and_kill(round * 200), beyond;
        struct fg_store *store = numbered_open();

        assert_true(acknowledged >= round * 200);
        expect_nrs(store, acknowledged);
        /* The one that was under way is there in both families or in none. Later ones may be older
         * rounds' leftovers. */
        beyond = acknowledged;
        assert_int_equal(numbered_has(store, 0, beyond), numbered_has(store, 1, beyond));
        fg_store_close(store);
    }
}

static off_t cut_newest_log(off_t by)
{
    char command[256], path[128] = "";
    struct stat info;
    FILE *list;

    (void)snprintf(command, sizeof command, "ls -t %s/*.log | head -n 1", numbered_dir);
    list = popen(command, "r");
    assert_non_null(list);
    assert_int_equal(fscanf(list, "%127s", path), 1);
    pclose(list);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - by), 0);
    return info.st_size;
}

/* A power cut that leaves half of the last record costs the last record and nothing else. */
static void data_survives_a_torn_log(void **state)
{
    uint32_t acknowledged = run_and_kill(50);
    struct fg_store *store;

    (void)state;
    assert_true(cut_newest_log(3000) > 3000);
    store = numbered_open();
    expect_nrs(store, acknowledged - 1);
    fg_store_close(store);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = FG_MIN(bytes, limit.rlim_max);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Heals and writes until it works. */
static bool write_comes_back(struct fg_store *store, uint32_t nr)
{
    struct fg_err err;

    for (unsigned tries = 0; tries < 10; tries++) {
        if (fg_store_heal(store, &err) == FG_OK && numbered_write(store, nr, 50000, &err) == FG_OK)
            return true;
        usleep(10000);
    }
    print_error("%s\n", err.msg);
    return false;
}

/* A limit on file sizes breaks the log's write as a broken disk does (EFBIG; ENOSPC needs a disk).
 */
static void data_survives_a_broken_disk(void **state)
{
    struct fg_store *store = numbered_open();
    struct fg_err err = {0};
    uint32_t nr = 0;

    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    limit_file_size(300000);
    while (numbered_write(store, nr, 50000, &err) == FG_OK)
        nr++;
    assert_int_equal(err.code, FG_E_UNAVAILABLE);
    expect_nrs(store, nr); /* reading goes on */
    assert_false(numbered_has(store, 0, nr));
    limit_file_size(RLIM_INFINITY);

    struct fg_store_iter *iter = fg_store_iter_create(store, 0, FG_LIT(""), FG_LIT(""));
    assert_int_equal(numbered_write(store, nr, 50000, &err),
                     FG_E_UNAVAILABLE); /* RocksDB remembers */
    assert_true(iter->valid);
    fg_store_iter_destroy(iter);

    assert_true(write_comes_back(store, nr));
    expect_nrs(store, nr + 1);
    fg_store_close(store);
}

int main(int argc, char **argv)
{
    /* So that fifty writes stay in one log, the newest, which a power cut tears. */
    numbered_config.write_buffer_bytes = 1 << 20;
    if (argc == 3 && strcmp(argv[1], "writer") == 0)
        return write_for_ever(argv[2], STDOUT_FILENO);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(data_survives_reopening, numbered_set_up,
                                        numbered_tear_down),
        cmocka_unit_test_setup_teardown(a_store_is_opened_by_one_process, numbered_set_up,
                                        numbered_tear_down),
        cmocka_unit_test_setup_teardown(a_new_family_can_be_added, numbered_set_up,
                                        numbered_tear_down),
        cmocka_unit_test_setup_teardown(spare_family_is_not_created_before_it_is_needed,
                                        numbered_set_up, numbered_tear_down),
        cmocka_unit_test_setup_teardown(data_survives_kill, numbered_set_up, numbered_tear_down),
        cmocka_unit_test_setup_teardown(data_survives_a_torn_log, numbered_set_up,
                                        numbered_tear_down),
        cmocka_unit_test_setup_teardown(data_survives_a_broken_disk, numbered_set_up,
                                        numbered_tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
