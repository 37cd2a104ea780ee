/*
 * A file of the store that the disk does not give, for a moment or for good; and disks that give
 * nothing, or take nothing, which are no damage however long that lasts.
 */
#include "common/storage/store/unread.h"
#include "tests/lib/faulty_disk.h"
#include "tests/unit/common/storage/store/numbered_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    WRITES = 60,
    RULES_BYTES = 512,
    AT = 3 * NUMBERED_PADDING_BYTES + 1000, /* in the fourth block of a table of large values */
};

struct fixture {
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_clock_manual clock;
    struct fg_unread *unread;
};

/* As of a process that has just started. */
static void begin(struct fixture *f)
{
    fg_unread_destroy(f->unread);
    f->unread = fg_unread_create(&(struct fg_unread_config){
        numbered_dir, FG_UNREAD_PATIENCE_NS, f->registry, f->conditions, &f->clock.clock});
    numbered_config.unread = f->unread;
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_store *store;
    struct fg_err err;

    f->registry = fg_registry_create();
    f->conditions = fg_conditions_create(f->registry);
    fg_clock_manual_init(&f->clock, 0);
    *state = f;
    if (numbered_set_up(NULL) != 0)
        return 1;
    begin(f);
    numbered_config.accept_loss = "";
    numbered_config.accept_loss_setting = "a.setting";
    store = numbered_open();
    for (uint32_t nr = 0; nr < WRITES; nr++)
        assert_int_equal(numbered_write(store, nr, NUMBERED_PADDING_BYTES, &err), FG_OK);
    fg_store_close(store);
    faulty_disk_set(numbered_dir);
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    faulty_disk_rules("");
    fg_unread_destroy(f->unread);
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->registry);
    free(f);
    return numbered_tear_down(NULL);
}

/* ---- words ---- */

static const char *name_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

/* A sector of a table is lost, and what else the rules say. */
static void lose_sector(const char *table, const char *more)
{
    char rules[RULES_BYTES];

    (void)snprintf(rules, sizeof rules, "read EIO name=%.40s at=%d\n%s", name_of(table), AT, more);
    faulty_disk_rules(rules);
}

/* Reads all keys of the second family. Returns the number of those that cannot be read, all with
 * this code; *ret_last: the last of them. */
static uint32_t find_unread(struct fg_store *store, enum fg_code code, uint32_t *ret_last)
{
    uint32_t n = 0;

    for (uint32_t nr = 0; nr < WRITES; nr++) {
        struct fg_buf value;
        struct fg_err err;
        bool found = false;
        char key[16];

        fg_buf_init(&value, 1 << 20);
        if (fg_store_get(store, 1, numbered_key(nr, key), &value, &found, &err) == FG_OK) {
            assert_true(found);
        } else {
            assert_int_equal(err.code, code);
            *ret_last = nr;
            n++;
        }
        fg_buf_done(&value);
    }
    return n;
}

static uint32_t count_unread(struct fg_store *store, enum fg_code code)
{
    uint32_t last;

    return find_unread(store, code, &last);
}

static bool is_kept(const char *name)
{
    char path[NUMBERED_PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/unread/%.63s", numbered_dir, name);
    return access(path, F_OK) == 0;
}

static void assert_told(struct fixture *f, unsigned files)
{
    char metric[64];
    struct fg_buf text;

    (void)snprintf(metric, sizeof metric, "flamegrid_store_unread_files %u\n", files);
    fg_buf_init(&text, SIZE_MAX);
    fg_registry_write(f->registry, &text);
    fg_conditions_write(f->conditions, &text);
    fg_buf_putc(&text, '\0');
    assert_non_null(strstr((const char *)text.ptr, metric));
    assert_true((strstr((const char *)text.ptr, "\nhead_unread: ") != NULL) == (files > 0));
    fg_buf_done(&text);
}

static void wait_out(struct fixture *f)
{
    fg_clock_manual_advance(&f->clock, FG_UNREAD_PATIENCE_NS);
}

/* ---- a sector ---- */

static void a_sector_that_stays_lost_is_damage(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store;
    char table[NUMBERED_PATH_BYTES];
    struct stat before;
    struct fg_err err;

    numbered_find_table(true, table);
    assert_int_equal(stat(table, &before), 0);
    lose_sector(table, "");
    store = numbered_open();
    assert_int_equal(count_unread(store, FG_E_UNAVAILABLE), 1);
    fg_clock_manual_advance(&f->clock, FG_UNREAD_PATIENCE_NS - 1);
    assert_int_equal(count_unread(store, FG_E_UNAVAILABLE), 1);
    assert_told(f, 0);
    assert_false(is_kept(name_of(table)));
    fg_clock_manual_advance(&f->clock, 1);
    assert_int_equal(count_unread(store, FG_E_CORRUPT), 1);
    assert_told(f, 1);
    assert_true(is_kept(name_of(table)));
    assert_int_equal(numbered_write(store, WRITES, 100, &err), FG_OK);
    fg_store_close(store);

    /* A later start waits no more. */
    begin(f);
    store = numbered_open();
    assert_int_equal(count_unread(store, FG_E_CORRUPT), 1);
    fg_store_close(store);
}

/* The disk came back before it was given up: each read fails once, and not when it is tried. */
static void a_sector_that_is_read_in_the_end_is_no_damage(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store;
    char table[NUMBERED_PATH_BYTES], rules[RULES_BYTES];

    numbered_find_table(true, table);
    lose_sector(table, "");
    store = numbered_open();
    assert_int_equal(count_unread(store, FG_E_UNAVAILABLE), 1);
    (void)snprintf(rules, sizeof rules, "read EIO name=%.40s at=%d count=1\n", name_of(table), AT);
    for (unsigned i = 0; i < 3; i++) {
        wait_out(f);
        faulty_disk_rules(rules);
        assert_int_equal(count_unread(store, FG_E_UNAVAILABLE), 1);
    }
    assert_int_equal(count_unread(store, FG_OK), 0);
    assert_told(f, 0);
    assert_false(is_kept(name_of(table)));
    fg_store_close(store);
}

/* The sector is in a range that was deleted. The next process has never seen it fail, and steps
 * over it at once. */
static void a_deleted_sector_is_in_nobodys_way(void **state)
{
    struct fixture *f = *state;
    struct fg_store_batch batch;
    struct fg_store_iter *iter;
    struct fg_store *store;
    char table[NUMBERED_PATH_BYTES], key[16], next[16];
    uint32_t n = 0, lost = 0;
    struct fg_slice from;
    struct fg_err err;

    numbered_find_table(true, table);
    lose_sector(table, "");
    store = numbered_open();
    assert_int_equal(find_unread(store, FG_E_UNAVAILABLE, &lost), 1);
    assert_true(lost > 0);
    faulty_disk_rules("");
    from = numbered_key(lost - 1, key);
    from.len++; /* with the NUL: the first key behind it */
    fg_store_batch_init(&batch);
    fg_store_delete_range(&batch, 1, from, numbered_key(lost + 1, next));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
    fg_store_close(store);
    lose_sector(table, "");
    begin(f);
    store = numbered_open();
    iter = fg_store_iter_create(store, 1, FG_LIT(""), FG_LIT(""));
    for (; iter->valid; fg_store_iter_next(iter))
        n++;
    assert_int_equal(iter->err.code, FG_OK);
    assert_int_equal(n, WRITES - 1);
    fg_store_iter_destroy(iter);
    fg_store_close(store);
}

/* Merging stops for good when it meets the sector; writes go on. */
static void a_lost_sector_does_not_stop_writes_for_good(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store;
    char table[NUMBERED_PATH_BYTES];
    struct fg_err err;
    unsigned failed = 0;

    numbered_find_table(true, table);
    lose_sector(table, "");
    store = numbered_open();
    for (uint32_t nr = WRITES; nr < 6 * WRITES; nr++) {
        if (numbered_write(store, nr % WRITES, NUMBERED_PADDING_BYTES, &err) == FG_OK)
            continue;
        assert_true(err.code == FG_E_CORRUPT || err.code == FG_E_UNAVAILABLE);
        failed++;
        wait_out(f); /* whoever writes heals and fails until it is given up */
        assert_int_equal(fg_store_heal(store, &err), FG_OK);
    }
    assert_in_range(failed, 1, 4);
    assert_true(fg_store_is_damaged(store));
    assert_true(is_kept(name_of(table)));
    fg_store_close(store);
}

/* ---- files that are needed at the start ---- */

static void a_mark_or_an_identity_that_is_lost_costs_nothing(void **state)
{
    struct fixture *f = *state;
    struct fg_store *store = NULL;
    struct fg_err err;

    faulty_disk_rules("read EIO name=/MARK\n");
    assert_int_equal(numbered_try_open(&store, &err), FG_E_UNAVAILABLE);
    wait_out(f);
    store = numbered_open(); /* for reading: the sector of MARK is in `unread` now */
    assert_true(is_kept("MARK"));
    assert_told(f, 1);
    assert_int_equal(numbered_expect(store, WRITES), WRITES);
    faulty_disk_rules("read EIO name=/IDENTITY\n");
    assert_int_equal(fg_store_heal(store, &err), FG_E_UNAVAILABLE);
    wait_out(f);
    assert_int_equal(fg_store_heal(store, &err), FG_E_UNAVAILABLE);
    assert_true(is_kept("IDENTITY"));
    assert_told(f, 2);
    faulty_disk_rules("");
    assert_int_equal(fg_store_heal(store, &err), FG_OK);
    assert_int_equal(numbered_write(store, WRITES, NUMBERED_PADDING_BYTES, &err), FG_OK);
    assert_int_equal(numbered_expect(store, WRITES + 1), WRITES + 1);
    fg_store_close(store);
}

/* As if their checksums were wrong: an operator has to decide, and can. */
static void a_start_without_what_it_needs_asks_an_operator(void **state)
{
    static const char *const names[] = {"CURRENT", "MANIFEST-", ".log", "first family"};

    for (unsigned i = 0; i < FG_COUNT(names); i++) {
        struct fixture *f = *state;
        bool is_table = i == FG_COUNT(names) - 1;
        char path[NUMBERED_PATH_BYTES], rules[RULES_BYTES], number[16];
        char kept[64];
        struct fg_store *store = NULL;
        struct fg_err err;
        const char *at;

        numbered_find_table(false, path);
        (void)snprintf(rules, sizeof rules, "read EIO name=%.40s\n",
                       is_table ? name_of(path) : names[i]);
        faulty_disk_rules(rules);
        assert_int_equal(numbered_try_open(&store, &err), FG_E_UNAVAILABLE);
        wait_out(f);
        assert_int_equal(numbered_try_open(&store, &err), FG_E_CORRUPT);
        at = strstr(err.msg, "set a.setting to ");
        assert_non_null(at);
        (void)snprintf(number, sizeof number, "%.8s", at + strlen("set a.setting to "));
        begin(f); /* with the setting */
        numbered_config.accept_loss = number;
        if (!is_table) { /* which is known to be damaged */
            assert_int_equal(numbered_try_open(&store, &err), FG_E_UNAVAILABLE);
            wait_out(f);
        }
        /* The files of the new store have such names, too. */
        if (numbered_try_open(&store, &err) != FG_OK) {
            assert_int_equal(err.code, FG_E_UNAVAILABLE);
            faulty_disk_rules("");
            store = numbered_open();
        }
        assert_int_equal(numbered_expect(store, 0), 0);
        fg_store_close(store);
        if (is_table) { /* the next store may have a table of this number */
            (void)snprintf(kept, sizeof kept, "unread/%.40s", name_of(path));
            assert_false(is_kept(name_of(path)));
            numbered_find_file("lost-", "", true, path);
            (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", kept);
            assert_int_equal(access(path, F_OK), 0);
        }
        print_message("  %s: %s\n", names[i], number);
        (void)tear_down(state);
        (void)set_up(state);
    }
}

/* ---- a disk that fails as a whole ---- */

static void a_disk_that_fails_loses_nothing(void **state)
{
    static const struct {
        const char *rules, *said;
    } faults[] = {
        {"any EIO\n", ""},
        {"read EIO\n", ""},
        {"read EIO name=.sst\n", "more than 3 files"},
        {"sync EIO\n", "unread.probe"},
        {"write EIO\n", "unread.probe"},
        {"write,create,truncate ENOSPC\n", "No space left on device"},
        {"create EIO\n", "unread.probe"},
        {"mkdir EIO\n", "unread"},
    };
    struct fixture *f = *state;
    char table[NUMBERED_PATH_BYTES];
    struct fg_store *store;
    struct fg_err unheeded;
    uint32_t lost = 0;

    for (uint32_t nr = WRITES; nr < WRITES + 2; nr++) { /* more tables, two at a time */
        store = numbered_open();
        assert_int_equal(numbered_write(store, nr, 100, &unheeded), FG_OK);
        fg_store_close(store);
    }
    numbered_find_table(true, table);
    lose_sector(table, "");
    store = numbered_open();
    assert_int_equal(find_unread(store, FG_E_UNAVAILABLE, &lost), 1);
    faulty_disk_rules("");
    fg_store_close(store);
    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        unsigned said = 0;

        begin(f);
        store = numbered_open();
        lose_sector(table, faults[i].rules);
        for (unsigned tries = 0; tries < 5; tries++) {
            struct fg_buf value;
            struct fg_err err;
            bool found;
            char key[16];

            fg_buf_init(&value, 1 << 20);
            assert_int_equal(fg_store_get(store, 1, numbered_key(lost, key), &value, &found, &err),
                             FG_E_UNAVAILABLE);
            said += strstr(err.msg, "the disk fails (") != NULL &&
                    strstr(err.msg, faults[i].said) != NULL;
            fg_buf_done(&value);
            wait_out(f);
        }
        if (faults[i].said[0] != '\0')
            assert_true(said > 0);
        assert_told(f, 0);
        assert_false(is_kept(name_of(table)));
        faulty_disk_rules("");
        assert_int_equal(count_unread(store, FG_OK), 0);
        fg_store_close(store);
    }
}

/* Writes that fail are not taken for damage of what they write to, nor for one of many files that
 * cannot be read. */
static void a_disk_that_takes_nothing_loses_nothing(void **state)
{
    static const char *const faults[] = {"write EIO\n", "sync EIO\n", "create EIO\n"};
    struct fixture *f = *state;
    char table[NUMBERED_PATH_BYTES];
    struct fg_store *store;
    uint32_t n = WRITES;

    for (size_t i = 0; i < FG_COUNT(faults); i++) {
        struct fg_err err;

        store = numbered_open();
        for (unsigned tries = 0; tries < 20; tries++) {
            faulty_disk_rules(faults[i]);
            if (numbered_write(store, n, NUMBERED_PADDING_BYTES, &err) == FG_OK)
                n++;
            else
                assert_int_equal(err.code, FG_E_UNAVAILABLE);
            assert_int_not_equal(fg_store_heal(store, &err), FG_E_CORRUPT);
            fg_clock_manual_advance(&f->clock, FG_UNREAD_PATIENCE_NS / 10);
        }
        faulty_disk_rules("");
        (void)fg_store_heal(store, &err);
        n = numbered_expect(store, n);
        assert_told(f, 0);
        fg_store_close(store);
    }
    numbered_find_table(true, table);
    lose_sector(table, "");
    store = numbered_open();
    assert_int_equal(count_unread(store, FG_E_UNAVAILABLE), 1);
    wait_out(f);
    assert_int_equal(count_unread(store, FG_E_CORRUPT), 1);
    fg_store_close(store);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_sector_that_stays_lost_is_damage),
        TEST(a_sector_that_is_read_in_the_end_is_no_damage),
        TEST(a_deleted_sector_is_in_nobodys_way),
        TEST(a_lost_sector_does_not_stop_writes_for_good),
        TEST(a_mark_or_an_identity_that_is_lost_costs_nothing),
        TEST(a_start_without_what_it_needs_asks_an_operator),
        TEST(a_disk_that_fails_loses_nothing),
        TEST(a_disk_that_takes_nothing_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
