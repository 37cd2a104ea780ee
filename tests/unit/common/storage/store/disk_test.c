/* RocksDB on a disk that is full, broken or read-only for a while: reading goes on, nothing
 * acknowledged is lost, and writing comes back. */
#include "tests/lib/faulty_disk.h"
#include "tests/unit/common/storage/store/numbered_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

enum { WRITES = 40 };

static const char full_disk[] = "write,create,mkdir,truncate,space ENOSPC\n";

static int set_up(void **state)
{
    if (numbered_set_up(state) != 0)
        return 1;
    faulty_disk_set(numbered_dir);
    return 0;
}

static int tear_down(void **state)
{
    faulty_disk_rules("");
    return numbered_tear_down(state);
}

/* ---- words ---- */

static uint32_t write_many(struct fg_store *store, uint32_t from, uint32_t n)
{
    struct fg_err err;

    for (uint32_t nr = from; nr < from + n; nr++)
        if (numbered_write(store, nr, NUMBERED_PADDING_BYTES, &err) != FG_OK)
            fail_msg("write %u: %s", nr, err.msg);
    return from + n;
}

/* As whoever writes does it: heal, then the write again; an earlier fault of a flush may show then.
 */
static uint32_t write_healing(struct fg_store *store, uint32_t nr)
{
    struct fg_err err;

    for (unsigned tries = 0; tries < 3; tries++)
        if (fg_store_heal(store, &err) == FG_OK &&
            numbered_write(store, nr, NUMBERED_PADDING_BYTES, &err) == FG_OK)
            return nr + 1;
    fail_msg("write %u: %s", nr, err.msg);
    return nr;
}

/* ---- a full disk ---- */

static void writes_fail_and_reads_continue_on_a_full_disk(void **state)
{
    struct fg_store *store = numbered_open();
    uint32_t n = write_many(store, 0, WRITES);
    struct fg_err err;

    (void)state;
    faulty_disk_rules(full_disk);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(numbered_write(store, n, NUMBERED_PADDING_BYTES, &err), FG_E_NO_SPACE);
        assert_int_not_equal(fg_store_heal(store, &err), FG_OK);
        assert_int_equal(numbered_expect(store, n), n);
    }
    assert_true(faulty_disk_hits() > 0);
    faulty_disk_rules("");
    n = write_healing(store, n);
    assert_int_equal(numbered_expect(store, n), n);
    fg_store_close(store);
    store = numbered_open();
    assert_int_equal(numbered_expect(store, n), n);
    fg_store_close(store);
}

/* Nothing but heal() is called, as where nobody pushes; it is full again while it is opened again.
 */
static void a_disk_that_fills_up_again_heals_later(void **state)
{
    struct fg_store *store = numbered_open();
    uint32_t n = write_many(store, 0, WRITES);
    struct fg_err err;

    (void)state;
    for (unsigned call = 1; call < 30; call++) {
        char rules[128];

        faulty_disk_rules(full_disk);
        assert_int_not_equal(numbered_write(store, n, NUMBERED_PADDING_BYTES, &err), FG_OK);
        (void)snprintf(rules, sizeof rules, "write,create,truncate ENOSPC from=%u\n", call);
        faulty_disk_rules(rules);
        (void)fg_store_heal(store, &err);
        assert_int_equal(numbered_expect(store, n), n);
        faulty_disk_rules("");
        n = write_healing(store, n);
        assert_int_equal(numbered_expect(store, n), n);
    }
    fg_store_close(store);
}

static void a_start_on_a_full_disk_can_be_read(void **state)
{
    struct fg_store *store = numbered_open();
    uint32_t n = write_many(store, 0, WRITES);
    struct fg_err err;

    (void)state;
    fg_store_close(store);
    faulty_disk_rules(full_disk);
    store = numbered_open();
    assert_int_equal(numbered_expect(store, n), n);
    assert_int_equal(numbered_write(store, n, NUMBERED_PADDING_BYTES, &err), FG_E_NO_SPACE);
    assert_non_null(strstr(err.msg, "store is read-only"));
    assert_non_null(strstr(err.msg, "No space left on device"));
    assert_int_equal(fg_store_heal(store, &err), FG_E_NO_SPACE);
    assert_int_equal(numbered_expect(store, n), n);
    faulty_disk_rules("");
    n = write_healing(store, n);
    assert_int_equal(numbered_expect(store, n), n);
    fg_store_close(store);
}

/* There is nothing to read, and nothing can be promised. */
static void a_new_store_on_a_full_disk_is_an_error(void **state)
{
    struct fg_store *store = NULL;
    struct fg_err err;

    (void)state;
    faulty_disk_rules(full_disk);
    assert_int_equal(numbered_try_open(&store, &err), FG_E_NO_SPACE);
    assert_null(store);
}

/* ---- readers meanwhile ---- */

static void an_iterator_holds_what_it_reads_while_the_store_is_opened_anew(void **state)
{
    struct fg_store *store = numbered_open();
    uint32_t n = write_many(store, 0, WRITES), seen = 0;
    struct fg_store_iter *iter;
    struct fg_err err;

    (void)state;
    faulty_disk_rules("sync EIO name=.log count=1\n");
    iter = fg_store_iter_create(store, 0, FG_LIT(""), FG_LIT(""));
    assert_int_equal(numbered_write(store, n, NUMBERED_PADDING_BYTES, &err), FG_E_UNAVAILABLE);
    assert_int_equal(fg_store_heal(store, &err), FG_E_UNAVAILABLE); /* for the iterator */
    assert_non_null(strstr(err.msg, "waits for queries"));
    assert_int_equal(numbered_write(store, n, NUMBERED_PADDING_BYTES, &err), FG_E_UNAVAILABLE);
    for (; iter->valid; fg_store_iter_next(iter))
        seen++;
    assert_int_equal(iter->err.code, FG_OK);
    assert_int_equal(seen, n);
    fg_store_iter_destroy(iter);

    /* One that came meanwhile reads what cannot be written to, and does not hold it up. */
    iter = fg_store_iter_create(store, 1, FG_LIT(""), FG_LIT(""));
    assert_true(iter->valid);
    n = write_healing(store, n);
    fg_store_iter_next(iter);
    assert_true(iter->valid);
    fg_store_iter_destroy(iter);
    assert_int_equal(numbered_expect(store, n), n);
    fg_store_close(store);
}

/* ---- a broken disk ---- */

/*
 * Each kind of call fails once, at each point that there is while data is written, flushed and
 * merged; then it is healed. Nothing acknowledged is lost, and nothing aborts.
 */
static void a_call_that_fails_loses_nothing(void **state)
{
    static const char *const kinds[] = {"write", "sync", "create", "truncate"};
    static const char *const faults[] = {"EIO", "ENOSPC"};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(kinds) * FG_COUNT(faults); i++) {
        const char *kind = kinds[i / 2], *fault = faults[i % 2];
        unsigned from = 1, hit = 0;
        unsigned long before;
        uint32_t n = 0;

        tear_down(NULL);
        set_up(NULL);
        struct fg_store *store = numbered_open();
        do {
            struct fg_err err = {.code = FG_OK};
            char rules[128];

            (void)snprintf(rules, sizeof rules, "%s %s from=%u count=1\n", kind, fault, from);
            before = faulty_disk_hits();
            faulty_disk_rules(rules);
            for (uint32_t i_write = 0; i_write < WRITES / 2; i_write++) {
                if (numbered_write(store, n, NUMBERED_PADDING_BYTES, &err) == FG_OK) {
                    n++;
                    continue;
                }
                /* It was asked for once; anything else was RocksDB's remembering it. */
                for (unsigned tries = 0; tries < 3 && fg_store_heal(store, &err) != FG_OK; tries++)
                    ;
            }
            hit += faulty_disk_hits() > before;
            faulty_disk_rules("");
            n = write_healing(store, n);
            assert_int_equal(numbered_expect(store, n), n);
            from += 1 + from / 2;
        } while (from < 40);
        fg_store_close(store);
        store = numbered_open();
        assert_int_equal(numbered_expect(store, n), n);
        fg_store_close(store);
        print_message("  %s %s: %u points hit, %u writes\n", kind, fault, hit, n);
        assert_true(hit > 0);
    }
}

/* As long as the fault lasts a start is an error, or a store that can be read; never an end. */
static void a_start_on_a_broken_disk_does_not_abort(void **state)
{
    static const char *const kinds[] = {"open",   "read",   "write",    "sync",
                                        "create", "rename", "truncate", "any"};
    struct fg_store *store = numbered_open();
    uint32_t n = write_many(store, 0, WRITES);

    (void)state;
    fg_store_close(store);
    for (size_t i = 0; i < FG_COUNT(kinds); i++)
        for (unsigned from = 1; from < 40; from += 1 + from / 2) {
            struct fg_err err = {.code = FG_OK};
            char rules[128];

            (void)snprintf(rules, sizeof rules, "%s EIO from=%u\n", kinds[i], from);
            faulty_disk_rules(rules);
            store = NULL;
            if (numbered_try_open(&store, &err) == FG_OK) {
                (void)numbered_write(store, n, NUMBERED_PADDING_BYTES, &err);
                (void)fg_store_heal(store, &err);
                fg_store_close(store);
            } else {
                assert_true(err.msg[0] != '\0');
            }
            faulty_disk_rules("");
            store = numbered_open();
            n = write_many(store, numbered_expect(store, n), 1);
            fg_store_close(store);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_fail_and_reads_continue_on_a_full_disk, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_disk_that_fills_up_again_heals_later, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_on_a_full_disk_can_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_store_on_a_full_disk_is_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_iterator_holds_what_it_reads_while_the_store_is_opened_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_call_that_fails_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_start_on_a_broken_disk_does_not_abort, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
