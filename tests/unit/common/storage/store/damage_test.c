/*
 * A store whose files were damaged between two starts: what was acknowledged is there, or the start
 * says that it is not. Nothing is dropped without a word, and a damaged folder stays as it is.
 */
#include "tests/unit/common/storage/store/numbered_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITES = 60, PADDING_BYTES = NUMBERED_PADDING_BYTES, PATH_BYTES = NUMBERED_PATH_BYTES };

static int set_up(void **state)
{
    numbered_config.accept_loss = "";
    numbered_config.accept_loss_setting = "a.setting";
    return numbered_set_up(state);
}

/*
 * Writes in a process of its own, started again since RocksDB's threads do not survive a fork, and
 * ends it without a close: so what is there is the log, tables, and a MANIFEST that knows of them.
 * The last write comes more than a second after the one before, and so after a mark of it.
 */
static void write_and_die(uint32_t n)
{
    char count[16];
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)snprintf(count, sizeof count, "%u", n);
        (void)execl("/proc/self/exe", "test_store_damage", "writer", numbered_dir, count,
                    (char *)NULL);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int write_all(const char *in_dir, uint32_t n)
{
    struct fg_store *store;
    struct fg_err err;

    (void)snprintf(numbered_dir, sizeof numbered_dir, "%s", in_dir);
    store = numbered_open();
    for (uint32_t nr = 0; nr < n; nr++) {
        if (nr == n - 1)
            (void)usleep(1100 * 1000);
        if (numbered_write(store, nr, PADDING_BYTES, &err) != FG_OK)
            return 1;
    }
    _exit(0);
}

/* ---- its files ---- */

static off_t size_of(const char *path)
{
    struct stat info;

    assert_int_equal(stat(path, &info), 0);
    return info.st_size;
}

static void cut(const char *path, off_t by)
{
    assert_int_equal(truncate(path, size_of(path) - by), 0);
}

static void flip(const char *path, off_t at, unsigned n)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    for (unsigned i = 0; i < n; i++) {
        uint8_t byte;

        assert_int_equal(pread(fd, &byte, 1, at + i), 1);
        byte ^= 0x55;
        assert_int_equal(pwrite(fd, &byte, 1, at + i), 1);
    }
    (void)close(fd);
}

/* Names and sizes of all, to see that nothing changed. */
static uint64_t digest(void)
{
    DIR *folder = opendir(numbered_dir);
    const struct dirent *entry;
    uint64_t sum = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        uint64_t hash = 14695981039346656037U;
        char path[2 * PATH_BYTES];

        if (entry->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", numbered_dir, entry->d_name);
        for (const char *c = entry->d_name; *c != '\0'; c++)
            hash = (hash ^ (uint8_t)*c) * 1099511628211U;
        sum += hash * (uint64_t)(size_of(path) + 1);
    }
    (void)closedir(folder);
    return sum;
}

/* The start says that it is damaged and what to do; twice, since nothing was changed. Returns the
 * number of the damage. */
static const char *expect_corrupt(const char *said)
{
    static char number[9];
    struct fg_store *store = NULL;
    uint64_t before = digest();
    struct fg_err err;

    for (unsigned i = 0; i < 2; i++) {
        const char *at;

        assert_int_equal(numbered_try_open(&store, &err), FG_E_CORRUPT);
        assert_null(store);
        if (strstr(err.msg, said) == NULL)
            fail_msg("\"%s\" is not in: %s", said, err.msg);
        assert_true(digest() == before);
        at = strstr(err.msg, "set a.setting to ");
        assert_non_null(at);
        (void)snprintf(number, sizeof number, "%.8s", at + strlen("set a.setting to "));
    }
    print_message("  %s\n", err.msg);
    return number;
}

/* ---- MANIFEST and CURRENT ---- */

static void a_manifest_that_was_cut_is_found(void **state)
{
    static const off_t cuts[] = {1, 50, 300, 700};

    for (size_t i = 0; i < FG_COUNT(cuts); i++) {
        char path[PATH_BYTES];

        numbered_tear_down(state);
        set_up(state);
        write_and_die(WRITES);
        numbered_find_file("MANIFEST-", "", true, path);
        cut(path, FG_MIN(cuts[i], size_of(path) / 2));
        (void)expect_corrupt("is readable up to byte");
    }
}

static void a_manifest_with_flipped_bytes_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    numbered_find_file("MANIFEST-", "", true, path);
    flip(path, size_of(path) / 2, 3);
    (void)expect_corrupt("MANIFEST-");
}

static void an_older_current_is_found(void **state)
{
    char manifest[PATH_BYTES], current[PATH_BYTES], old[PATH_BYTES];
    int fd;

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open()); /* each start begins a new MANIFEST */
    numbered_find_file("MANIFEST-", "", true, manifest);
    (void)snprintf(old, sizeof old, "%s/MANIFEST-000001", numbered_dir);
    assert_int_equal(rename(manifest, old), 0);
    (void)snprintf(current, sizeof current, "%s/CURRENT", numbered_dir);
    fd = open(current, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_int_equal(write(fd, "MANIFEST-000001\n", 16), 16);
    (void)close(fd);
    (void)expect_corrupt("CURRENT names MANIFEST-000001");
}

/* RocksDB would begin a new store. */
static void a_current_that_is_missing_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    numbered_find_file("CURRENT", "", true, path);
    assert_int_equal(unlink(path), 0);
    (void)expect_corrupt("CURRENT is missing");
    numbered_find_file("MARK", "", true, path); /* likewise without a mark: there are tables */
    assert_int_equal(unlink(path), 0);
    (void)expect_corrupt("CURRENT is missing");
}

static void an_empty_current_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    numbered_find_file("CURRENT", "", true, path);
    assert_int_equal(truncate(path, 0), 0);
    (void)expect_corrupt("CURRENT names no MANIFEST");
}

/* ---- logs ---- */

static void a_log_cut_behind_what_was_synced_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(5); /* the mark knows of four */
    numbered_find_file("", ".log", true, path);
    cut(path, 2 * PADDING_BYTES);
    (void)expect_corrupt("were synced");
}

static void a_log_damaged_in_the_middle_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(5);
    numbered_find_file("MARK", "", true, path); /* by its records alone */
    assert_int_equal(unlink(path), 0);
    numbered_find_file("", ".log", true, path);
    flip(path, size_of(path) / 2, 1);
    (void)expect_corrupt("is damaged at byte");
}

static void a_log_that_is_missing_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(5);
    numbered_find_file("", ".log", true, path);
    assert_int_equal(unlink(path), 0);
    (void)expect_corrupt("is missing although");
}

/* As a power cut leaves it: part of the last record, which nobody was told of. */
static void a_torn_end_is_no_damage(void **state)
{
    static const off_t cuts[] = {1, 5000, PADDING_BYTES};

    for (size_t i = 0; i < FG_COUNT(cuts); i++) {
        struct fg_store *store;
        char path[PATH_BYTES];
        struct fg_err err;

        numbered_tear_down(state);
        set_up(state);
        write_and_die(5);
        numbered_find_file("MARK", "", true, path); /* which knows that it was synced */
        assert_int_equal(unlink(path), 0);
        numbered_find_file("", ".log", true, path);
        cut(path, cuts[i]);
        store = numbered_open();
        assert_int_equal(numbered_expect(store, 4), 4);
        assert_int_equal(numbered_write(store, 4, PADDING_BYTES, &err), FG_OK);
        fg_store_close(store);
        store = numbered_open();
        assert_int_equal(numbered_expect(store, 5), 5);
        fg_store_close(store);
    }
}

/* ---- tables ---- */

static void a_table_that_is_missing_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open());
    numbered_find_file("", ".sst", false, path);
    assert_int_equal(unlink(path), 0);
    (void)expect_corrupt("Corruption");
}

static void a_table_that_was_cut_is_found(void **state)
{
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open());
    numbered_find_file("", ".sst", false, path);
    cut(path, 100);
    (void)expect_corrupt("Corruption");
}

/* One block cannot be read: who asks for it is told so, and all else goes on. */
static void a_rotten_block_is_an_error_of_what_it_holds(void **state)
{
    uint32_t readable = 0, broken = 0;
    struct fg_store *store;
    char path[PATH_BYTES];
    struct fg_err err;

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open());
    numbered_find_table(true, path);
    flip(path, 1000, 1);
    store = numbered_open();
    for (uint32_t nr = 0; nr < WRITES; nr++) {
        struct fg_buf value;
        bool found = false;
        char key[16];

        fg_buf_init(&value, 1 << 20);
        if (fg_store_get(store, 1, numbered_key(nr, key), &value, &found, &err) == FG_OK) {
            assert_true(found);
            assert_int_equal(value.len, PADDING_BYTES);
            readable++;
        } else {
            assert_int_equal(err.code, FG_E_CORRUPT);
            broken++;
        }
        fg_buf_done(&value);
    }
    assert_int_equal(broken, 1);
    assert_int_equal(readable, WRITES - 1);
    assert_int_equal(numbered_write(store, WRITES, PADDING_BYTES, &err), FG_OK);
    fg_store_close(store);
}

/* Sooner or later it is to be merged with others, which fails each time. Writes go on without. */
static void a_rotten_table_does_not_stop_writes_for_good(void **state)
{
    unsigned failed = 0;
    struct fg_store *store;
    char path[PATH_BYTES];
    struct fg_err err;

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open());
    numbered_find_table(true, path);
    flip(path, 1000, 1);
    store = numbered_open();
    for (uint32_t nr = WRITES; nr < 6 * WRITES; nr++) {
        /* What is there already, so that tables overlap. */
        if (numbered_write(store, nr % WRITES, PADDING_BYTES, &err) == FG_OK)
            continue;
        assert_int_equal(err.code, FG_E_CORRUPT);
        failed++;
        assert_int_equal(fg_store_heal(store, &err), FG_OK);
        assert_int_equal(numbered_write(store, nr % WRITES, PADDING_BYTES, &err), FG_OK);
    }
    assert_true(failed > 0);
    assert_true(failed <= 2); /* one that was under way already */
    assert_true(fg_store_is_damaged(store));
    fg_store_close(store);
}

/* Walks over the second family and passes damage. Returns how many keys can be read; *ret_lost: the
 * last one that cannot. */
static uint32_t count_readable(struct fg_store *store, uint32_t *ret_lost)
{
    fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, 1, FG_LIT(""), FG_LIT(""));
    uint32_t n = 0, next = 0;
    struct fg_buf last;
    char key[16];

    fg_buf_init(&last, 64);
    while (iter->valid ||
           (iter->err.code == FG_E_CORRUPT && fg_store_iter_pass(iter, fg_buf_slice(&last)))) {
        for (; iter->valid; fg_store_iter_next(iter)) {
            fg_buf_clear(&last);
            fg_buf_put(&last, iter->key);
            for (; !fg_slice_eq(iter->key, numbered_key(next, key)); next++)
                *ret_lost = next;
            next++;
            n++;
        }
        if (iter->err.code == FG_OK)
            break;
    }
    assert_int_equal(iter->err.code, FG_OK);
    fg_buf_done(&last);
    for (; next < WRITES; next++)
        *ret_lost = next;
    return n;
}

/* Deletes all behind the key before it. RocksDB may come to merge the table at any time, which
 * fails once. */
static void delete_range(struct fg_store *store, uint32_t nr)
{
    struct fg_slice from = FG_LIT("");
    struct fg_store_batch batch;
    char key[16], next[16];
    struct fg_err err;

    if (nr > 0) {
        from = numbered_key(nr - 1, key);
        from.len++; /* with the NUL: the first key behind it */
    }
    fg_store_batch_init(&batch);
    fg_store_delete_range(&batch, 1, from, numbered_key(nr + 1, next));
    if (fg_store_write(store, &batch, &err) != FG_OK) {
        assert_int_equal(err.code, FG_E_CORRUPT);
        assert_int_equal(fg_store_heal(store, &err), FG_OK);
        assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    }
    fg_store_batch_done(&batch);
}

static void a_rotten_block_is_passed(void **state)
{
    static const unsigned places[] = {0, 3, 6, 10}; /* blocks of a table, of about twelve */

    for (size_t i = 0; i < FG_COUNT(places); i++) {
        struct fg_store *store;
        char path[PATH_BYTES];
        struct fg_err err;
        uint32_t lost = 0;

        numbered_tear_down(state);
        set_up(state);
        write_and_die(WRITES);
        fg_store_close(numbered_open());
        numbered_find_table(true, path);
        flip(path, (off_t)places[i] * PADDING_BYTES + 1000, 1);
        store = numbered_open();
        assert_int_equal(count_readable(store, &lost), WRITES - 1);

        /* Once it is deleted it is in nobody's way, and the same keys can be written again. */
        delete_range(store, lost);
        for (unsigned k = 0; k < 2; k++) {
            fg_auto(fg_store_iter) *iter = fg_store_iter_create(store, 1, FG_LIT(""), FG_LIT(""));
            uint32_t n = 0;

            for (; iter->valid; fg_store_iter_next(iter))
                n++;
            assert_int_equal(iter->err.code, FG_OK);
            assert_int_equal(n, WRITES - 1 + k);
            fg_store_iter_destroy(fg_take(iter)); /* before healing, which may wait for it */
            if (k == 0 && numbered_write(store, lost, 100, &err) != FG_OK) {
                assert_int_equal(fg_store_heal(store, &err), FG_OK);
                assert_int_equal(numbered_write(store, lost, 100, &err), FG_OK);
            }
        }
        fg_store_close(store);
        store = numbered_open();
        assert_int_equal(numbered_expect(store, WRITES), WRITES);
        fg_store_close(store);
    }
}

/* Nothing of the other families means anything without it: a start asks an operator. */
static void a_rotten_block_of_the_first_family_is_found_at_the_start(void **state)
{
    struct fg_store *store = NULL;
    char path[PATH_BYTES], number[16];
    struct fg_err err;
    const char *at;

    (void)state;
    write_and_die(WRITES);
    fg_store_close(numbered_open());
    numbered_find_table(false, path);
    flip(path, 10, 1);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(numbered_try_open(&store, &err), FG_E_CORRUPT);
        assert_non_null(strstr(err.msg, "default: "));
    }
    at = strstr(err.msg, "set a.setting to ");
    assert_non_null(at);
    (void)snprintf(number, sizeof number, "%.8s", at + strlen("set a.setting to "));
    numbered_config.accept_loss = number;
    store = numbered_open();
    assert_int_equal(numbered_expect(store, 0), 0);
    fg_store_close(store);
}

/* ---- what is none ---- */

/* A start that was killed before there was a CURRENT has promised nothing. */
static void a_store_that_never_was_begins(void **state)
{
    struct fg_store *store;
    char path[PATH_BYTES];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/MANIFEST-000001", numbered_dir);
    (void)close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    store = numbered_open();
    assert_int_equal(numbered_expect(store, 0), 0);
    fg_store_close(store);
}

/* A version of before marks has left none; one slot is torn where a power cut came while it was
 * written. */
static void a_store_without_a_mark_opens(void **state)
{
    struct fg_store *store;
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    numbered_find_file("MARK", "", true, path);
    flip(path, 20, 1);
    store = numbered_open();
    assert_int_equal(numbered_expect(store, WRITES), WRITES);
    fg_store_close(store);
    assert_int_equal(unlink(path), 0);
    store = numbered_open();
    assert_int_equal(numbered_expect(store, WRITES), WRITES);
    fg_store_close(store);
}

/* ---- accepting it ---- */

static void an_accepted_loss_sets_the_store_aside(void **state)
{
    struct fg_store *store;
    char path[PATH_BYTES], number[9];
    struct fg_err err;

    (void)state;
    write_and_die(WRITES);
    numbered_find_file("CURRENT", "", true, path);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(number, sizeof number, "%s", expect_corrupt("CURRENT is missing"));
    numbered_config.accept_loss = "00000000"; /* of another damage */
    (void)expect_corrupt("CURRENT is missing");
    numbered_config.accept_loss = number;
    store = numbered_open();
    assert_int_equal(numbered_expect(store, 0), 0);
    assert_int_equal(numbered_write(store, 0, PADDING_BYTES, &err), FG_OK);
    fg_store_close(store);
    numbered_find_file("lost-", "", true, path);
    (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/MARK");
    assert_true(size_of(path) > 0);

    /* The setting is still there, and so is what came since. */
    store = numbered_open();
    assert_int_equal(numbered_expect(store, 1), 1);
    fg_store_close(store);
}

/* The move was interrupted: it is ended, and nothing of it comes into the new store. */
static void setting_aside_is_taken_up_again(void **state)
{
    struct fg_store *store;
    char path[PATH_BYTES];

    (void)state;
    write_and_die(WRITES);
    (void)snprintf(path, sizeof path, "%s/lost.moving", numbered_dir);
    assert_int_equal(mkdir(path, 0700), 0);
    store = numbered_open();
    assert_int_equal(numbered_expect(store, 0), 0);
    fg_store_close(store);
    numbered_find_file("lost-", "", true, path);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "writer") == 0)
        return write_all(argv[2], (uint32_t)strtoul(argv[3], NULL, 10));

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, numbered_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_manifest_that_was_cut_is_found),
        TEST(a_manifest_with_flipped_bytes_is_found),
        TEST(an_older_current_is_found),
        TEST(a_current_that_is_missing_is_found),
        TEST(an_empty_current_is_found),
        TEST(a_log_cut_behind_what_was_synced_is_found),
        TEST(a_log_damaged_in_the_middle_is_found),
        TEST(a_log_that_is_missing_is_found),
        TEST(a_torn_end_is_no_damage),
        TEST(a_table_that_is_missing_is_found),
        TEST(a_table_that_was_cut_is_found),
        TEST(a_rotten_block_is_an_error_of_what_it_holds),
        TEST(a_rotten_table_does_not_stop_writes_for_good),
        TEST(a_rotten_block_is_passed),
        TEST(a_rotten_block_of_the_first_family_is_found_at_the_start),
        TEST(a_store_that_never_was_begins),
        TEST(a_store_without_a_mark_opens),
        TEST(an_accepted_loss_sets_the_store_aside),
        TEST(setting_aside_is_taken_up_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
