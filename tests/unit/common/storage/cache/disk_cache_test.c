/* The disk cache may forget; what it gives is what was put, whatever became of its files. */
#include "common/base/str.h"
#include "common/storage/cache/disk_cache.h"
#include "tests/lib/faulty_disk.h"
#include "tests/lib/remove_tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    CACHE_BYTES = 1024 * 1024, /* the least: files of 16 KiB */
    CONTENT_MAX_BYTES = 4096,
};

struct fixture {
    char folder[64];
    struct fg_registry *registry;
    struct fg_disk_cache *cache;
};

static void open_cache(struct fixture *f, uint64_t max_bytes, uint64_t free_min_bytes)
{
    struct fg_err err;

    f->registry = fg_registry_create(); /* counters begin again */
    if (fg_disk_cache_open(&(struct fg_disk_cache_config){.path = f->folder,
                                                          .max_bytes = max_bytes,
                                                          .free_min_bytes = free_min_bytes,
                                                          .registry = f->registry},
                           &f->cache, &err) != FG_OK)
        fail_msg("%s", err.msg);
    fg_disk_cache_settle(f->cache);
}

static void close_cache(struct fixture *f)
{
    fg_disk_cache_close(f->cache);
    fg_registry_destroy(f->registry);
}

static void restart(struct fixture *f)
{
    close_cache(f);
    open_cache(f, CACHE_BYTES, 0);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    (void)snprintf(f->folder, sizeof f->folder, "/tmp/flamegrid-disk-test.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    open_cache(f, CACHE_BYTES, 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    close_cache(f);
    (void)remove_tree(f->folder);
    free(f);
    return 0;
}

/* ---- contents that tell whose they are ---- */

static struct fg_disk_key key_of(uint64_t number)
{
    return (struct fg_disk_key){{fg_mix64(number), number / 7},
                                number * 1000,
                                1 + fg_mix64(number + 1) % CONTENT_MAX_BYTES};
}

static struct fg_slice content_of(uint64_t number, uint8_t bytes[CONTENT_MAX_BYTES])
{
    uint64_t len = key_of(number).len;

    for (uint64_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)fg_mix64(number * CONTENT_MAX_BYTES + i);
    return fg_bytes(bytes, len);
}

static void put(struct fg_disk_cache *cache, uint64_t number)
{
    uint8_t bytes[CONTENT_MAX_BYTES];
    struct fg_disk_key key = key_of(number);

    fg_disk_cache_put(cache, &key, content_of(number, bytes));
}

/* true: it is there, and then it is right. */
static bool get(struct fg_disk_cache *cache, uint64_t number)
{
    uint8_t bytes[CONTENT_MAX_BYTES];
    struct fg_disk_key key = key_of(number);
    struct fg_buf found;
    bool there;

    fg_buf_init(&found, CONTENT_MAX_BYTES);
    there = fg_disk_cache_get(cache, &key, &found);
    if (there)
        assert_true(fg_slice_eq(fg_buf_slice(&found), content_of(number, bytes)));
    fg_buf_done(&found);
    return there;
}

static unsigned count_there(struct fg_disk_cache *cache, uint64_t first, uint64_t count)
{
    unsigned there = 0;

    for (uint64_t i = first; i < first + count; i++)
        there += get(cache, i);
    return there;
}

static void put_all(struct fixture *f, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++)
        put(f->cache, i);
    fg_disk_cache_settle(f->cache);
}

/* ---- tests ---- */

static void entries_survive_a_restart(void **state)
{
    struct fixture *f = *state;
    struct fg_disk_key other = key_of(3);

    put_all(f, 0, 50);
    put_all(f, 0, 50); /* which changes nothing */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(count_there(f->cache, 0, 50), 50);
        assert_int_equal(count_there(f->cache, 50, 50), 0);
        assert_int_equal(fg_disk_cache_stats(f->cache).entries, 50);
        assert_int_equal(fg_disk_cache_stats(f->cache).hits, 50);
        assert_int_equal(fg_disk_cache_stats(f->cache).misses, 50);
        assert_int_equal(fg_disk_cache_stats(f->cache).faults, 0);
        restart(f);
    }
    other.len++;
    assert_false(fg_disk_cache_get(f->cache, &other, &(struct fg_buf){.max_bytes = 4096}));
    fg_disk_cache_drop(f->cache, &(struct fg_disk_key){key_of(3).object, 3000, key_of(3).len});
    assert_false(get(f->cache, 3));
    put_all(f, 3, 1);
    assert_true(get(f->cache, 3));
}

/* Bytes of the folder's files; *largest: the path of the largest one. */
static struct {
    uint64_t bytes, files;
    off_t largest;
    char path[256];
} folder;

static int look(const char *path, const struct stat *stat_buf, int kind, struct FTW *at)
{
    (void)at;
    if (kind != FTW_F || !fg_slice_ends(fg_cstr(path), ".cache"))
        return 0;
    folder.bytes += (uint64_t)stat_buf->st_size;
    folder.files++;
    if (stat_buf->st_size >= folder.largest) {
        folder.largest = stat_buf->st_size;
        (void)snprintf(folder.path, sizeof folder.path, "%s", path);
    }
    return 0;
}

static void look_at(const struct fixture *f)
{
    memset(&folder, 0, sizeof folder);
    assert_int_equal(nftw(f->folder, look, 16, FTW_PHYS), 0);
}

static void it_has_an_end(void **state)
{
    struct fixture *f = *state;

    for (uint64_t round = 0; round < 100; round++) {
        put_all(f, round * 50, 50);
        assert_true(get(f->cache, 7)); /* used in each round, it stays */
        look_at(f);
        assert_true(folder.bytes <= CACHE_BYTES);
        assert_int_equal(folder.bytes, fg_disk_cache_stats(f->cache).bytes);
    }
    assert_true(folder.bytes > CACHE_BYTES * 9 / 10);
    assert_true(folder.files <= DISK_FILES_MAX);
    assert_true(fg_disk_cache_stats(f->cache).evicted > 2000);
    assert_true(fg_disk_cache_stats(f->cache).kept > 0);
    assert_int_equal(fg_disk_cache_stats(f->cache).dropped, 0);
    assert_int_equal(count_there(f->cache, 4900, 100), 100);
    restart(f);
    assert_int_equal(count_there(f->cache, 4900, 100), 100);
    assert_int_equal(fg_disk_cache_stats(f->cache).faults, 0);
}

/* More is there than there may be: the oldest goes. */
static void a_smaller_end_after_a_restart(void **state)
{
    struct fixture *f = *state;

    close_cache(f);
    open_cache(f, 4 * (uint64_t)CACHE_BYTES, 0);
    put_all(f, 0, 4000);
    look_at(f);
    assert_true(folder.bytes > CACHE_BYTES);
    restart(f);
    look_at(f);
    assert_true(folder.bytes <= CACHE_BYTES);
    assert_true(get(f->cache, 3999));
    assert_false(get(f->cache, 0));
}

static void change_byte(const char *path, off_t at)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    (void)close(fd);
}

/* Whichever it is: while we run, and before a start, when an entry may end what can be read. */
static void a_byte_that_changes(void **state)
{
    struct fixture *f = *state;

    put_all(f, 0, 5);
    look_at(f);
    for (off_t at = 0, last = folder.largest; at < last; at += at < 500 ? 1 : 97) {
        look_at(f);
        change_byte(folder.path, at % folder.largest);
        (void)count_there(f->cache, 0, 5);
        put_all(f, 0, 5); /* those that were found out are written again */
        assert_int_equal(count_there(f->cache, 0, 5), 5);
        look_at(f);
        change_byte(folder.path, at % folder.largest);
        restart(f);
        (void)count_there(f->cache, 0, 5);
        put_all(f, 0, 5);
        assert_int_equal(count_there(f->cache, 0, 5), 5);
        restart(f);
        (void)count_there(f->cache, 0, 5);
    }
}

static void a_file_that_is_cut(void **state)
{
    struct fixture *f = *state;

    put_all(f, 0, 5);
    look_at(f);
    for (off_t len = folder.largest; len >= 0; len -= 13) {
        unsigned left;

        close_cache(f);
        assert_int_equal(truncate(folder.path, len), 0);
        open_cache(f, CACHE_BYTES, 0);
        left = count_there(f->cache, 0, 5);
        assert_true(left <= 5);
        assert_int_equal(fg_disk_cache_stats(f->cache).faults, 0); /* the scan has seen it */
        put_all(f, 100, 1);                                        /* behind what is whole */
        restart(f);
        assert_int_equal(count_there(f->cache, 0, 5), left);
        assert_true(get(f->cache, 100));
    }
}

static void foreign_files_stay(void **state)
{
    static const char *const names[] = {"readme.txt", "123.cache", "000000000000000g.cache",
                                        "0000000000000001.cache.old"};
    struct fixture *f = *state;
    char path[256];

    for (size_t i = 0; i < FG_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        assert_int_equal(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), 0);
    }
    (void)snprintf(path, sizeof path, "%s/%016x.cache", f->folder, 7);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    restart(f);
    put_all(f, 0, 3000);
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f->folder, names[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void a_disk_that_others_need(void **state)
{
    struct fixture *f = *state;

    put_all(f, 0, 5);
    close_cache(f);
    open_cache(f, CACHE_BYTES, UINT64_MAX / 2);
    assert_int_equal(count_there(f->cache, 0, 5), 5);
    put_all(f, 1000, 500);
    assert_true(fg_disk_cache_stats(f->cache).dropped > 400);
    (void)count_there(f->cache, 0, 1500);
}

static void a_folder_that_is_taken_away(void **state)
{
    struct fixture *f = *state;

    put_all(f, 0, 5);
    (void)remove_tree(f->folder);
    assert_int_equal(count_there(f->cache, 0, 5), 5); /* it is open */
    put_all(f, 100, 1000);
    assert_true(fg_disk_cache_stats(f->cache).dropped > 0);
    (void)count_there(f->cache, 0, 1100);
    restart(f);
    assert_int_equal(count_there(f->cache, 0, 1100), 0);
    put_all(f, 0, 5);
    assert_int_equal(count_there(f->cache, 0, 5), 5);
}

static void entries_that_are_too_large_are_dropped(void **state)
{
    const struct fg_disk_key key = {{1, 2}, 0, CACHE_BYTES / 64 - DISK_ENTRY_BYTES + 1};
    uint8_t *bytes = fg_calloc(1, key.len);
    struct fixture *f = *state;

    fg_disk_cache_put(f->cache, &key, fg_bytes(bytes, key.len));
    fg_disk_cache_settle(f->cache);
    assert_int_equal(fg_disk_cache_stats(f->cache).dropped, 1);
    assert_int_equal(fg_disk_cache_stats(f->cache).entries, 0);
    free(bytes);
}

/* Others need the room more: all of it goes, and nothing new is written until there is some. */
static void gives_way_when_the_disk_is_short_of_room(void **state)
{
    struct fixture *f = *state;
    struct fg_disk_cache_config config = {.path = f->folder, .max_bytes = CACHE_BYTES};
    struct fg_disk_cache_stats stats;
    struct fg_disk *disk;
    struct fg_err err;

    for (uint64_t number = 0; number < 50; number++)
        put(f->cache, number);
    fg_disk_cache_settle(f->cache);
    assert_true(fg_disk_cache_stats(f->cache).bytes > 0);
    fg_disk_cache_close(f->cache);

    assert_int_equal(fg_disk_watch(&(struct fg_disk_config){.path = f->folder,
                                                            .role = "short",
                                                            .reserve_bytes = UINT64_C(1) << 60},
                                   &disk, &err),
                     FG_OK);
    config.registry = f->registry;
    config.disk = disk;
    assert_int_equal(fg_disk_cache_open(&config, &f->cache, &err), FG_OK);
    put(f->cache, 100);
    fg_disk_cache_settle(f->cache);
    stats = fg_disk_cache_stats(f->cache);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.entries, 0);
    assert_true(stats.dropped > 0);
    assert_false(get(f->cache, 1));
    assert_false(get(f->cache, 100));
    fg_disk_cache_close(f->cache);
    fg_disk_unwatch(disk);

    config.disk = NULL;
    assert_int_equal(fg_disk_cache_open(&config, &f->cache, &err), FG_OK);
    put(f->cache, 100);
    fg_disk_cache_settle(f->cache);
    assert_true(get(f->cache, 100));
}

/* Nothing is free at the start, and then there is: the cache is on without a restart. */
static void grows_when_the_disk_has_room_again(void **state)
{
    struct fixture *f = *state;
    bool there = false;

    close_cache(f);
    faulty_disk_set(f->folder);
    faulty_disk_rules("space ENOSPC\n");
    open_cache(f, CACHE_BYTES, 0);
    put_all(f, 0, 5);
    assert_int_equal(count_there(f->cache, 0, 5), 0);
    assert_int_equal(fg_disk_cache_stats(f->cache).dropped, 5);
    faulty_disk_rules("");
    for (int i = 0; i < 3000 && !there; i++) { /* it looks once a second */
        (void)usleep(10 * 1000);
        put_all(f, 0, 1);
        there = get(f->cache, 0);
    }
    assert_true(there);
    put_all(f, 100, 100); /* more than the files of a small cache have room for */
    assert_int_equal(count_there(f->cache, 100, 100), 100);
}

static void a_cache_in_use_or_too_small_does_not_open(void **state)
{
    struct fixture *f = *state;
    struct fg_disk_cache_config config = {
        .path = f->folder, .max_bytes = CACHE_BYTES, .registry = f->registry};
    struct fg_disk_cache *cache;
    struct fg_err err;

    assert_int_equal(fg_disk_cache_open(&config, &cache, &err), FG_E_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "is in use by another process"));
    config.max_bytes = FG_DISK_CACHE_MIN_BYTES - 1;
    assert_int_equal(fg_disk_cache_open(&config, &cache, &err), FG_E_INVALID);
    config.max_bytes = CACHE_BYTES;
    config.path = "/dev/null/cache";
    assert_int_not_equal(fg_disk_cache_open(&config, &cache, &err), FG_OK);
    assert_non_null(strstr(err.msg, "/dev/null/cache"));
}

struct user {
    struct fg_disk_cache *cache;
    uint64_t random, hits;
};

static void *use(void *arg)
{
    struct user *user = arg;

    for (unsigned i = 0; i < 4000; i++) {
        uint64_t number = fg_mix64(user->random++) % 3000;
        struct fg_disk_key key = key_of(number);

        if (get(user->cache, number))
            user->hits++;
        else
            put(user->cache, number);
        if (i % 500 == 0)
            fg_disk_cache_drop(user->cache, &key);
    }
    return NULL;
}

static void many_users_at_once(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[4];
    struct user users[4];
    uint64_t hits = 0;

    for (size_t i = 0; i < FG_COUNT(users); i++) {
        users[i] = (struct user){f->cache, i << 32, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (size_t i = 0; i < FG_COUNT(users); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        hits += users[i].hits;
    }
    fg_disk_cache_settle(f->cache);
    assert_true(hits > 0);
    assert_int_equal(fg_disk_cache_stats(f->cache).hits, hits);
    look_at(f);
    assert_true(folder.bytes <= CACHE_BYTES);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(entries_survive_a_restart),
        TEST(it_has_an_end),
        TEST(a_smaller_end_after_a_restart),
        TEST(a_byte_that_changes),
        TEST(a_file_that_is_cut),
        TEST(foreign_files_stay),
        TEST(a_disk_that_others_need),
        TEST(a_folder_that_is_taken_away),
        TEST(entries_that_are_too_large_are_dropped),
        TEST(gives_way_when_the_disk_is_short_of_room),
        TEST(grows_when_the_disk_has_room_again),
        TEST(a_cache_in_use_or_too_small_does_not_open),
        TEST(many_users_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
