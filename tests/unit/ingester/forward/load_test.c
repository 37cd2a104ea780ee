/* The start of the outbox: targets that come and go, entries that cannot be read, and as many
 * entries as there may be, in little memory. */
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/forward/outbox_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 8 << 20, RECORD_BYTES = 100 };

struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct fg_clock_manual clock;
    struct outbox_run run;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    outbox_clock_init(&f->clock);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_store_close(f->inner);
    free(f);
    return 0;
}

/* Opens with up to two targets. */
static void open_with(struct fixture *f, const char *first, const char *second)
{
    struct ing_outbox_target targets[2];
    unsigned n = 0;

    if (first != NULL)
        targets[n++] = outbox_target(first);
    if (second != NULL)
        targets[n++] = outbox_target(second);
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, targets, n);
}

static uint64_t pending(struct fixture *f, unsigned target)
{
    return ing_outbox_numbers(f->run.outbox, target).pending_profiles;
}

static void write_one(struct fixture *f, enum ing_head_family family, struct fg_slice key,
                      struct fg_slice value)
{
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, family, key, value);
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_store_batch_done(&batch);
}

static void write_entry(struct fixture *f, uint16_t number, uint64_t seq, struct fg_slice value)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    ing_outbox_put_key(&key, number, seq);
    write_one(f, HEAD_OUTBOX, fg_buf_slice(&key), value);
    fg_buf_done(&key);
}

/* Sets the record of a target in META. */
static void write_meta(struct fixture *f, const char *name, struct fg_slice value)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    ing_outbox_put_meta_key(&key, fg_cstr(name));
    write_one(f, HEAD_META, fg_buf_slice(&key), value);
    fg_buf_done(&key);
}

static void without_targets_there_is_no_outbox(void **state)
{
    struct fixture *f = *state;

    open_with(f, NULL, NULL);
    assert_null(f->run.outbox);
    outbox_run_close(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

static void queue_belongs_to_the_name_of_its_target(void **state)
{
    struct fixture *f = *state;

    open_with(f, "one", "two");
    assert_int_equal(ing_outbox_find(f->run.outbox, FG_LIT("two")), 1);
    assert_int_equal(ing_outbox_find(f->run.outbox, FG_LIT("three")), -1);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 3, RECORD_BYTES), FG_OK);
    assert_int_equal(outbox_run_push(&f->run, 2, 3, 5, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    open_with(f, "two", "one"); /* the settings are in another order now */
    assert_int_equal(pending(f, 0), 5);
    assert_int_equal(pending(f, 1), 3);
    assert_string_equal(ing_outbox_name(f->run.outbox, 0), "two");
    assert_int_equal(ing_outbox_count(f->run.outbox), 2);
    outbox_run_close(&f->run);
}

static void removed_target_leaves_nothing_and_its_number_is_not_given_again(void **state)
{
    struct fixture *f = *state;

    open_with(f, "one", "two");
    assert_int_equal(outbox_run_push(&f->run, 3, 0, 5, RECORD_BYTES), FG_OK);
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_REFUSED, NULL), 5);
    assert_int_equal(outbox_run_push(&f->run, 3, 5, 5, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 15);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX_DEAD), 5);
    open_with(f, "one", "three");
    assert_int_equal(pending(f, 0), 10);
    assert_int_equal(pending(f, 1), 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 10);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX_DEAD), 0);
    assert_int_equal(outbox_run_push(&f->run, 3, 10, 1, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    open_with(f, "two", NULL); /* it is new now; "one" and "three" are gone */
    assert_int_equal(pending(f, 0), 0);
    assert_int_equal(outbox_run_push(&f->run, 1, 11, 1, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    {
        fg_auto(fg_store_iter) *iter =
            fg_store_iter_create(f->inner, HEAD_OUTBOX, FG_LIT(""), FG_LIT(""));
        uint16_t number = 0;
        uint64_t seq;

        assert_true(iter->valid && ing_outbox_get_key(iter->key, &number, &seq));
        assert_int_equal(number, 3); /* after those of one, two, and three */
    }
    open_with(f, NULL, NULL);
    assert_null(f->run.outbox);
    outbox_run_close(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

static void removed_target_is_deleted_later_if_the_store_takes_no_writes(void **state)
{
    struct fixture *f = *state;

    open_with(f, "one", NULL);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 5, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    atomic_store(&f->faulty.full, true);
    open_with(f, "two", NULL);
    assert_int_equal(pending(f, 0), 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 5);
    outbox_run_close(&f->run);
    atomic_store(&f->faulty.full, false);
    open_with(f, "two", NULL);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    outbox_run_close(&f->run);
}

static void damaged_entries_are_set_aside_and_the_others_are_sent(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_dead *dead;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    open_with(f, "one", NULL);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 5, RECORD_BYTES), FG_OK);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    outbox_run_close(&f->run);
    write_entry(f, 0, span.first + 1, FG_LIT("damaged"));
    write_entry(f, 0, span.first + 3, FG_LIT(""));
    write_one(f, HEAD_OUTBOX, FG_LIT("short"), FG_LIT("key"));
    open_with(f, "one", NULL);
    assert_int_equal(f->run.damage.set_aside, 3);
    assert_int_equal(pending(f, 0), 3);
    assert_int_equal(ing_outbox_numbers(f->run.outbox, 0).dead, 2);
    assert_int_equal(ing_outbox_list_dead(f->run.outbox, 0, 0, 10, arena, &dead, &n, &err), FG_OK);
    assert_int_equal(n, 2);
    assert_false(dead[0].readable);
    assert_int_equal(dead[0].seq, span.first + 1);
    assert_true(fg_slice_is(dead[0].reason, "the entry cannot be read"));
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 3);
    outbox_run_close(&f->run);
    open_with(f, "one", NULL);
    assert_int_equal(f->run.damage.set_aside, 1); /* the key, which stays */
    assert_int_equal(ing_outbox_numbers(f->run.outbox, 0).dead, 2);
    outbox_run_close(&f->run);
}

/* Damage that comes after the start is found when the entry is read. */
static void entry_damaged_later_is_set_aside_when_it_is_read(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    open_with(f, "one", NULL);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 3, RECORD_BYTES), FG_OK);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    write_entry(f, 0, span.first + 1, FG_LIT("damaged"));
    assert_int_equal(ing_outbox_read(f->run.outbox, &span, arena, &items, &n, &err), FG_OK);
    assert_int_equal(n, 3);
    assert_int_equal(items[1].outcome, OUTBOX_DAMAGED);
    items[0].outcome = items[2].outcome = OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX_DEAD), 1);
    assert_int_equal(ing_outbox_numbers(f->run.outbox, 0).dropped[OUTBOX_BY_REFUSED], 1);
    outbox_run_close(&f->run);
}

/* A key that begins as a good one does, and goes on. */
static void write_longer(struct fixture *f, enum ing_head_family family, uint64_t seq)
{
    struct fg_buf key;

    fg_buf_init(&key, SIZE_MAX);
    ing_outbox_put_key(&key, 0, seq);
    fg_buf_putc(&key, 0);
    write_one(f, family, fg_buf_slice(&key), FG_LIT("what is this?"));
    fg_buf_done(&key);
}

static void a_longer_key_between_two_good_ones_belongs_to_nobody(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_dead *dead;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    open_with(f, "one", NULL);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 5, RECORD_BYTES), FG_OK);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    outbox_run_close(&f->run);
    write_longer(f, HEAD_OUTBOX, span.first + 1);
    write_longer(f, HEAD_OUTBOX_DEAD, span.first + 1);
    open_with(f, "one", NULL);
    assert_int_equal(f->run.damage.set_aside, 2);
    assert_int_equal(pending(f, 0), 5);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_REFUSED, NULL), 5);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_list_dead(f->run.outbox, 0, 0, 10, arena, &dead, &n, &err), FG_OK);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(dead[i].seq, span.first + i);
    outbox_run_close(&f->run);
}

static void damaged_records_of_targets_do_not_stop_a_start(void **state)
{
    struct fixture *f = *state;

    open_with(f, "one", "two");
    assert_int_equal(outbox_run_push(&f->run, 3, 0, 5, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    write_meta(f, "one", FG_LIT("damaged"));
    write_meta(f, "", FG_LIT("\xff"));
    open_with(f, "one", "two");
    assert_int_equal(f->run.damage.set_aside, 1);
    assert_int_equal(f->run.damage.repaired, 1);
    assert_int_equal(pending(f, 0), 0); /* nothing tells whose entries they were */
    assert_int_equal(pending(f, 1), 5);
    assert_int_equal(outbox_run_push(&f->run, 1, 5, 1, RECORD_BYTES), FG_OK);
    outbox_run_close(&f->run);
    open_with(f, "one", "two");
    assert_int_equal(f->run.damage.set_aside, 0);
    assert_int_equal(pending(f, 0), 1);
    assert_int_equal(pending(f, 1), 5);
    outbox_run_close(&f->run);
}

static void unreadable_store_fails_the_start(void **state)
{
    struct fixture *f = *state;
    const struct ing_outbox_target target = outbox_target("one");
    const struct ing_forward forward = {&target, 1};
    struct ing_outbox *outbox = NULL;
    struct fg_err err;

    open_with(f, "one", NULL);
    f->faulty.fail_reads = true;
    assert_int_equal(ing_outbox_create(&(struct ing_outbox_config){.forward = &forward,
                                                                   .store = &f->faulty.store,
                                                                   .writer = f->run.writer,
                                                                   .catalog = f->run.catalog,
                                                                   .tenants = f->run.tenants,
                                                                   .damage = &f->run.damage,
                                                                   .clock = &f->clock.clock,
                                                                   .groups_max = 1},
                                       &outbox, &err),
                     FG_E_UNAVAILABLE);
    assert_null(outbox);
    f->faulty.fail_reads = false;
    outbox_run_close(&f->run);
}

static void entry_older_than_its_tenant_keeps_profiles_is_not_sent(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    open_with(f, "one", NULL);
    assert_int_equal(outbox_run_push(&f->run, 1, 0, 3, RECORD_BYTES), FG_OK);
    fg_clock_manual_advance(&f->clock, OUTBOX_RUN_KEPT_NS);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_BACKLOG, &span));
    assert_int_equal(ing_outbox_read(f->run.outbox, &span, arena, &items, &n, &err), FG_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(items[i].outcome, OUTBOX_EXPIRED);
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_numbers(f->run.outbox, 0).dropped[OUTBOX_BY_EXPIRED], 3);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    outbox_run_close(&f->run);
}

/* ---- many ---- */

enum { MANY = 1000000 };

/* A store with MANY entries of target 0, which takes no memory for them. */
struct many {
    struct fg_store store;
    struct fg_store *inner;
};

struct many_iter {
    struct fg_store_iter iter;
    uint64_t seq;
    struct fg_buf key, value;
};

static void show(struct many_iter *at)
{
    struct ing_outbox_entry entry = {
        .key = {.chunk = {{0, (uint16_t)(at->seq % 10), (uint32_t)(at->seq / 10000)}, 1},
                .time_ns = (int64_t)at->seq},
        .received_wall_ns = (int64_t)(at->seq * 10 * FG_MS_NS),
        .bytes = 1000,
    };

    at->iter.valid = at->seq < MANY;
    fg_buf_clear(&at->key);
    fg_buf_clear(&at->value);
    ing_outbox_put_key(&at->key, 0, at->seq);
    ing_outbox_put_entry(&at->value, &entry);
    at->iter.key = fg_buf_slice(&at->key);
    at->iter.value = fg_buf_slice(&at->value);
}

static void many_seek(struct fg_store_iter *iter, struct fg_slice key)
{
    struct many_iter *at = fg_container(iter, struct many_iter, iter);
    uint16_t number;

    fg_assert(ing_outbox_get_key(key, &number, &at->seq));
    show(at);
}

static void many_next(struct fg_store_iter *iter)
{
    struct many_iter *at = fg_container(iter, struct many_iter, iter);

    at->seq++;
    show(at);
}

static void many_destroy(struct fg_store_iter *iter)
{
    struct many_iter *at = fg_container(iter, struct many_iter, iter);

    fg_buf_done(&at->key);
    fg_buf_done(&at->value);
    free(at);
}

static struct fg_store_iter *many_iter(struct fg_store *store, unsigned family,
                                       struct fg_slice from, struct fg_slice to)
{
    static const struct fg_store_iter_ops ops = {
        .seek = many_seek, .next = many_next, .destroy = many_destroy};
    struct many_iter *at;

    if (family != HEAD_OUTBOX)
        return fg_store_iter_create(fg_container(store, struct many, store)->inner, family, from,
                                    to);
    at = fg_new(struct many_iter);
    at->iter.ops = &ops;
    fg_buf_init(&at->key, SIZE_MAX);
    fg_buf_init(&at->value, SIZE_MAX);
    show(at);
    return &at->iter;
}

static enum fg_code many_write(struct fg_store *store, struct fg_store_batch *batch,
                               struct fg_err *err)
{
    return fg_store_write(fg_container(store, struct many, store)->inner, batch, err);
}

static enum fg_code many_heal(struct fg_store *store, struct fg_err *err)
{
    return fg_store_heal(fg_container(store, struct many, store)->inner, err);
}

static enum fg_code many_get(struct fg_store *store, unsigned family, struct fg_slice key,
                             struct fg_buf *out, bool *ret_found, struct fg_err *err)
{
    return fg_store_get(fg_container(store, struct many, store)->inner, family, key, out, ret_found,
                        err);
}

static enum fg_code many_contains(struct fg_store *store, unsigned family, struct fg_slice key,
                                  bool *ret_found, struct fg_err *err)
{
    return fg_store_contains(fg_container(store, struct many, store)->inner, family, key, ret_found,
                             err);
}

static uint64_t no_bytes(struct fg_store *store)
{
    (void)store;
    return 0;
}

static void many_entries_take_a_span_for_each_256(void **state)
{
    static const struct fg_store_ops ops = {
        many_write, many_heal, many_get, many_contains, many_iter, no_bytes, no_bytes, NULL, NULL};
    struct fixture *f = *state;
    struct many many = {.store = {.ops = &ops}, .inner = f->inner};
    const struct ing_outbox_target target = outbox_target("one");
    struct ing_outbox_numbers numbers;
    struct fg_buf meta;

    fg_buf_init(&meta, SIZE_MAX);
    ing_outbox_put_meta(&meta, &(struct ing_outbox_meta){.number = 0, .reserved = MANY});
    write_meta(f, "one", fg_buf_slice(&meta));
    fg_buf_done(&meta);
    outbox_run_open(&f->run, &many.store, &f->clock, &target, 1);
    numbers = ing_outbox_numbers(f->run.outbox, 0);
    assert_int_equal(numbers.pending_profiles, MANY);
    assert_int_equal(numbers.pending_bytes, (uint64_t)MANY * 1000);
    /* Of 48 bytes each: 190 kB for a million entries. */
    assert_true(numbers.spans <= MANY / OUTBOX_SPAN_ENTRIES_MAX + 1);
    assert_true(ing_outbox_pins(f->run.outbox, &(struct ing_head_group_key){0, 9, 99}));
    assert_false(ing_outbox_pins(f->run.outbox, &(struct ing_head_group_key){0, 9, 100}));
    outbox_run_close(&f->run);
}

/* ---- what is resent to a new target ---- */

static void open_since(struct fixture *f, const char *name, int64_t since_ns)
{
    struct ing_outbox_target target = outbox_target(name);

    target.since_ns = since_ns;
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, &target, 1);
}

static void new_target_gets_the_past_once(void **state)
{
    struct fixture *f = *state;
    int64_t now_ns = f->clock.wall_ns;
    struct ing_resend resend;

    open_since(f, "one", now_ns - 100);
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(resend.from_ns, now_ns - 100);
    assert_int_equal(resend.until_ns, now_ns);
    outbox_run_settle(&f->run);
    outbox_run_close(&f->run);
    fg_clock_manual_advance(f->run.clock, FG_HOUR_NS);
    open_since(f, "one", now_ns - 500); /* it is old now: the setting does not matter */
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(resend.from_ns, now_ns - 100);
    assert_int_equal(resend.until_ns, now_ns);
    outbox_run_close(&f->run);
    open_since(f, "two", 0); /* start */
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    outbox_run_settle(&f->run);
    outbox_run_close(&f->run);
    open_since(f, "one", 0); /* it was removed: nothing of its resend is left */
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    outbox_run_close(&f->run);
}

/* The record that makes a target old has its resend: whatever writes it, and whichever write
 * fails. */
static void new_target_gets_the_past_whatever_write_fails(void **state)
{
    for (uint64_t k = 1; k <= 4; k++) {
        struct ing_resend resend;
        struct fixture *f;

        (void)set_up(state);
        f = *state;
        open_with(f, NULL, NULL); /* the writes of a new store */
        outbox_run_close(&f->run);
        f->faulty.writes = 0;
        f->faulty.fail_at = k;
        open_since(f, "one", 1000);
        (void)outbox_run_push(&f->run, 1, 0, 5, RECORD_BYTES);
        outbox_run_close(&f->run);
        open_since(f, "one", 1000);
        resend = ing_outbox_numbers(f->run.outbox, 0).resend; /* which waits while writes fail */
        assert_int_equal(resend.state, RESEND_COMMITS);
        assert_int_equal(resend.from_ns, 1000);
        outbox_run_close(&f->run);
        (void)tear_down(state);
    }
}

static void damaged_record_of_a_resend_ends_it(void **state)
{
    struct fixture *f = *state;
    struct ing_resend resend;
    struct fg_buf key;

    open_since(f, "one", 1000);
    outbox_run_settle(&f->run);
    outbox_run_close(&f->run);
    fg_buf_init(&key, SIZE_MAX);
    ing_outbox_put_resend_key(&key, FG_LIT("one"));
    write_one(f, HEAD_META, fg_buf_slice(&key), FG_LIT("nonsense"));
    fg_buf_done(&key);
    open_since(f, "one", 1000);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(f->run.damage.repaired, 1);
    outbox_run_close(&f->run);
}

/* Only what is beyond the least place is sent again. */
static void damaged_places_of_a_resend_cost_no_profile(void **state)
{
    struct fixture *f = *state;
    struct ing_resend before, now;
    struct fg_buf key;

    open_since(f, "one", 1000);
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &before));
    now = before;
    now.state = RESEND_READS;
    now.tenant[0] = 'a';
    now.time_ns = 2000;
    (void)ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
    outbox_run_settle(&f->run);
    outbox_run_close(&f->run);
    fg_buf_init(&key, SIZE_MAX);
    ing_outbox_put_resend_tenants_key(&key, FG_LIT("one"));
    write_one(f, HEAD_META, fg_buf_slice(&key), FG_LIT("nonsense"));
    fg_buf_done(&key);
    open_since(f, "one", 1000);
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &now));
    assert_int_equal(now.time_ns, 2000);
    assert_string_equal(now.tenant, "a");
    assert_int_equal(f->run.damage.repaired, 1);
    outbox_run_close(&f->run);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(without_targets_there_is_no_outbox),
        TEST(queue_belongs_to_the_name_of_its_target),
        TEST(removed_target_leaves_nothing_and_its_number_is_not_given_again),
        TEST(removed_target_is_deleted_later_if_the_store_takes_no_writes),
        TEST(damaged_entries_are_set_aside_and_the_others_are_sent),
        TEST(entry_damaged_later_is_set_aside_when_it_is_read),
        TEST(a_longer_key_between_two_good_ones_belongs_to_nobody),
        TEST(damaged_records_of_targets_do_not_stop_a_start),
        TEST(unreadable_store_fails_the_start),
        TEST(entry_older_than_its_tenant_keeps_profiles_is_not_sent),
        TEST(new_target_gets_the_past_once),
        cmocka_unit_test(new_target_gets_the_past_whatever_write_fails),
        TEST(damaged_record_of_a_resend_ends_it),
        TEST(damaged_places_of_a_resend_cost_no_profile),
        TEST(many_entries_take_a_span_for_each_256),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
