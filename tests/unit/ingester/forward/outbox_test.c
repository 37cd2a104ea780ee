/* The outbox: what was stored is handed out until it is reported, and never after; whatever fails,
 * whatever is restarted, and whatever the other target does. */
#include "tests/unit/ingester/forward/outbox_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- the way of an entry ---- */

static void entry_is_handed_out_with_its_profile_and_deleted_when_it_is_reported(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    const struct ing_head_profile_key key = outbox_key(&f->run, 4);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    outbox_push(f, 1, 4, 1);
    assert_true(outbox_nothing_waits(f, 1));
    span = outbox_take(f, 0);
    assert_int_equal(span.count, 1);
    assert_int_equal(span.bytes, OUTBOX_RECORD_BYTES);
    assert_int_equal(span.oldest_wall_ns, f->clock.wall_ns);
    assert_true(outbox_nothing_waits(f, 0));
    items = outbox_read_span(f, &span, arena, &n);
    assert_int_equal(n, 1);
    assert_int_equal(items[0].outcome, OUTBOX_AGAIN);
    assert_true(fg_id_eq(items[0].entry.key.id, key.id));
    assert_int_equal(items[0].entry.received_wall_ns, f->clock.wall_ns);
    assert_int_equal(items[0].entry.via.n, 1);
    assert_int_equal(items[0].record.len, OUTBOX_RECORD_BYTES);
    assert_true(ing_outbox_pins(f->run.outbox, &key.chunk.group));
    items[0].outcome = OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    assert_false(ing_outbox_pins(f->run.outbox, &key.chunk.group));
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_numbers(f, 0).done, 1);
    assert_int_equal(outbox_numbers(f, 0).oldest_wall_ns, 0);
}

static void reports_are_written_without_being_waited_for(void **state)
{
    struct outbox_fixture *f = *state;
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};

    outbox_push(f, 1, 0, 3);
    (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
    while (outbox_count(f->inner, HEAD_OUTBOX) > 0)
        (void)nanosleep(&pause, NULL);
    while (outbox_numbers(f, 0).pending_profiles > 0) /* the memory follows the store */
        (void)nanosleep(&pause, NULL);
}

static void target_that_never_takes_anything_does_not_hold_up_another(void **state)
{
    struct outbox_fixture *f = *state;
    unsigned seen[600] = {0};

    for (unsigned i = 0; i < 6; i++)
        outbox_push(f, 3, (uint64_t)i * 100, 100);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen), 600);
    for (unsigned i = 0; i < 600; i++)
        assert_int_equal(seen[i], 1);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_numbers(f, 1).pending_profiles, 600);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 600);
    assert_true(ing_outbox_pins(
        f->run.outbox, &(struct ing_head_group_key){outbox_key(&f->run, 0).chunk.group.tenant, 7,
                                                    outbox_key(&f->run, 0).chunk.group.window}));
    outbox_restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 0);
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 600);
}

static void what_is_taken_and_not_reported_comes_again_after_a_restart(void **state)
{
    struct outbox_fixture *f = *state;

    outbox_push(f, 1, 0, 10);
    assert_int_equal(outbox_take(f, 0).count, 10);
    outbox_restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    outbox_restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 0);
}

static void only_what_was_not_sent_of_a_span_comes_again(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    unsigned seen[10] = {0};
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    outbox_push(f, 1, 0, 10);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    assert_int_equal(n, 10);
    for (size_t i = 0; i < n; i++)
        items[i].outcome = i == 2 || i == 3 || i == 6 ? OUTBOX_AGAIN : OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 3);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 3);
    assert_int_equal(outbox_numbers(f, 0).pending_bytes, 3 * OUTBOX_RECORD_BYTES);
    assert_int_equal(outbox_numbers(f, 0).taken_profiles, 0);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen), 3);
    assert_true(seen[2] == 1 && seen[3] == 1 && seen[6] == 1);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

static void span_that_is_put_back_waits_at_once(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    outbox_push(f, 1, 0, 10);
    span = outbox_take(f, 0);
    ing_outbox_put_back(f->run.outbox, &span);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    ing_outbox_report(f->run.outbox, &span, items, n); /* nothing was sent */
    span = outbox_take(f, 0);
    assert_int_equal(span.count, 10);
    assert_int_equal(outbox_numbers(f, 0).taken_profiles, 10);
    ing_outbox_put_back(f->run.outbox, &span);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 10);
}

static void after_an_outage_current_profiles_come_first(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_outbox_span span;

    for (uint64_t i = 0; i < 3; i++) {
        outbox_push(f, 1, i * 10, 10);
        fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    }
    outbox_push(f, 1, 30, 10);
    fg_clock_manual_advance(&f->clock, 2 * FG_MINUTE_NS);
    outbox_push(f, 1, 40, 10);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    assert_int_equal(span.first, 40);
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    assert_int_equal(span.first, 30);
    assert_false(ing_outbox_take(f->run.outbox, 0, OUTBOX_FRESH, &span));
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_BACKLOG, &span));
        assert_int_equal(span.first, i * 10);
    }
    assert_false(ing_outbox_take(f->run.outbox, 0, OUTBOX_BACKLOG, &span));
}

static void number_of_an_entry_is_never_given_again(void **state)
{
    struct outbox_fixture *f = *state;
    uint64_t last = 0;

    for (unsigned i = 0; i < 4; i++) {
        struct ing_outbox_span span;

        outbox_push(f, 1, i, 1);
        span = outbox_take(f, 0);
        assert_true(i == 0 || span.first > last);
        last = span.last;
        ing_outbox_put_back(f->run.outbox, &span);
        (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
        outbox_restart(f);
    }
}

/* ---- writes that fail ---- */

/* Pushes, reports and a pause, of which the k-th write fails. Each profile that was acknowledged is
 * handed out until it is reported; one that was not is handed out never, or the write would have
 * been half done. */
static void every_write_fails(bool late)
{
    enum { PUSHES = 6, EACH = 10, WRITES_MAX = 20 /* more than there are */ };

    for (uint64_t k = 1; k <= WRITES_MAX; k++) {
        unsigned seen[PUSHES * EACH] = {0};
        bool stored[PUSHES] = {false};
        unsigned failed = 0;
        struct outbox_fixture *f;
        void *state;

        print_message("  write %llu\n", (unsigned long long)k);
        (void)outbox_set_up(&state);
        f = state;
        outbox_fail_write(f, k, late);
        for (unsigned i = 0; i < PUSHES; i++) {
            struct fg_err err;

            stored[i] =
                outbox_run_push(&f->run, 1, (uint64_t)i * EACH, EACH, OUTBOX_RECORD_BYTES) == FG_OK;
            failed += !stored[i];
            if (i != 3)
                continue;
            (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen);
            failed += ing_outbox_pause(f->run.outbox, 0, false, &err) != FG_OK;
        }
        assert_true(failed <= 1);
        do { /* nothing is taken while the store fails, for a second at most */
            (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen);
            outbox_run_settle(&f->run);
        } while (outbox_numbers(f, 0).pending_profiles > 0);
        for (unsigned i = 0; i < PUSHES * EACH; i++)
            assert_int_equal(seen[i], stored[i / EACH]);
        assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
        outbox_restart(f);
        assert_true(outbox_nothing_waits(f, 0));
        (void)outbox_tear_down(&state);
    }
}

static void every_write_fails_and_nothing_is_lost(void **state)
{
    (void)state;
    every_write_fails(false);
}

static void every_write_is_done_but_reported_failed_and_nothing_is_lost(void **state)
{
    (void)state;
    every_write_fails(true);
}

/* A crash after a report whose write failed: the entries come again, all of them. */
static void report_that_was_not_written_comes_again_after_a_restart(void **state)
{
    struct outbox_fixture *f = *state;

    outbox_push(f, 1, 0, 10);
    atomic_store(&f->faulty.full, true);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    outbox_run_close(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 10);
    /* A store that takes no writes does not fail the start. */
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 10);
    assert_true(outbox_nothing_waits(f, 0)); /* no report could be written */
    atomic_store(&f->faulty.full, false);
    outbox_restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
}

/* ---- the sender is told ---- */

static atomic_uint n_ready;

static void on_ready(void *arg, unsigned target)
{
    (void)arg;
    (void)target;
    (void)atomic_fetch_add(&n_ready, 1);
}

static void sender_is_told_once_until_it_finds_nothing(void **state)
{
    struct outbox_fixture *f = *state;
    struct ing_outbox_span span;

    atomic_store(&n_ready, 0);
    outbox_push(f, 1, 0, 1);
    ing_outbox_on_ready(f->run.outbox, on_ready, NULL); /* something waits already */
    assert_int_equal(atomic_load(&n_ready), 1);
    outbox_push(f, 1, 1, 1);
    assert_int_equal(atomic_load(&n_ready), 1);
    span = outbox_take(f, 0);
    assert_true(outbox_nothing_waits(f, 0));
    outbox_push(f, 1, 2, 1);
    assert_int_equal(atomic_load(&n_ready), 2);
    outbox_push(f, 2, 2, 1); /* another target */
    assert_int_equal(atomic_load(&n_ready), 3);
    ing_outbox_put_back(f->run.outbox, &span);
    ing_outbox_on_ready(f->run.outbox, NULL, NULL);
    while (!outbox_nothing_waits(f, 0))
        (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
    outbox_push(f, 1, 3, 1);
    assert_int_equal(atomic_load(&n_ready), 3);
}

/* The writer tries to heal after each visit. */
static void do_nothing(void *arg)
{
    (void)arg;
}

static void sender_is_told_when_the_store_takes_writes_again(void **state)
{
    struct outbox_fixture *f = *state;
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};

    outbox_push(f, 1, 0, 1);
    atomic_store(&n_ready, 0);
    ing_outbox_on_ready(f->run.outbox, on_ready, NULL);
    atomic_store(&f->faulty.full, true);
    assert_int_not_equal(outbox_run_push(&f->run, 1, 1, 1, OUTBOX_RECORD_BYTES), FG_OK);
    assert_true(outbox_nothing_waits(f, 0));
    atomic_store(&n_ready, 0);
    atomic_store(&f->faulty.full, false);
    while (atomic_load(&n_ready) == 0) {
        (void)nanosleep(&pause, NULL);
        outbox_run_visit(&f->run, do_nothing, NULL);
    }
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 1);
    ing_outbox_on_ready(f->run.outbox, NULL, NULL);
}

/* ---- what cannot be sent ---- */

static void refused_entries_are_kept_with_their_reasons_for_a_day(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};
    struct ing_outbox_dead *dead;
    struct fg_err err;
    size_t n;

    outbox_push(f, 1, 0, 5);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_REFUSED, NULL), 5);
    outbox_run_settle(&f->run);
    for (unsigned i = 0; i < 2; i++) { /* at once, and after a restart */
        assert_int_equal(outbox_numbers(f, 0).dead, 5);
        assert_int_equal(ing_outbox_list_dead(f->run.outbox, 0, 0, 3, arena, &dead, &n, &err),
                         FG_OK);
        assert_int_equal(n, 3);
        assert_true(dead[0].readable);
        assert_true(fg_slice_is(dead[0].reason, "no room for it"));
        assert_int_equal(dead[0].died_wall_ns, f->clock.wall_ns);
        assert_int_equal(dead[0].entry.key.id.lo, 0);
        assert_int_equal(
            ing_outbox_list_dead(f->run.outbox, 0, dead[2].seq + 1, 3, arena, &dead, &n, &err),
            FG_OK);
        assert_int_equal(n, 2);
        if (i == 0) {
            assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_REFUSED], 5);
            outbox_restart(f);
        }
    }
    assert_true(outbox_nothing_waits(f, 0));
    fg_clock_manual_advance(&f->clock, OUTBOX_DEAD_KEPT_NS);
    outbox_push(f, 1, 5, 1);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_REFUSED, NULL), 1);
    fg_clock_manual_advance(&f->clock, FG_HOUR_NS);
    while (outbox_count(f->inner, HEAD_OUTBOX_DEAD) != 1) /* the ticker finds them old */
        (void)nanosleep(&pause, NULL);
    assert_int_equal(outbox_numbers(f, 0).dead, 1);
}

static void entry_whose_profile_is_gone_is_not_sent(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    const struct ing_head_profile_key key = outbox_key(&f->run, 1);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;
    size_t n;

    outbox_push(f, 1, 0, 3);
    fg_store_batch_init(&batch);
    fg_buf_init(&bytes, SIZE_MAX);
    ing_head_put_profile_key(&bytes, &key);
    fg_store_delete(&batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, i == 1 ? OUTBOX_GONE : OUTBOX_AGAIN);
        if (i != 1)
            items[i].outcome = OUTBOX_DONE;
    }
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_numbers(f, 0).done, 2);
    assert_int_equal(outbox_numbers(f, 0).dropped[OUTBOX_BY_GONE], 1);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

/* As a comparison with the bucket does it. */
static void profile_that_moved_to_another_chunk_is_found(void **state)
{
    static const uint32_t chunks[] = {0, 2, 9, UINT32_MAX};
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;
    size_t n;

    outbox_push(f, 1, 0, FG_COUNT(chunks));
    fg_store_batch_init(&batch);
    fg_buf_init(&bytes, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(chunks); i++) {
        struct ing_head_profile_key key = outbox_key(&f->run, i);

        fg_buf_clear(&bytes);
        ing_head_put_profile_key(&bytes, &key);
        fg_store_delete(&batch, HEAD_PROFILES, fg_buf_slice(&bytes));
        key.chunk.number = chunks[i];
        fg_buf_clear(&bytes);
        ing_head_put_profile_key(&bytes, &key);
        fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT("moved"));
    }
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, OUTBOX_AGAIN);
        assert_int_equal(items[i].entry.key.chunk.number, chunks[i]);
        assert_true(fg_slice_is(items[i].record, "moved"));
    }
    ing_outbox_put_back(f->run.outbox, &span);
}

static void unreadable_store_leaves_the_span_to_be_put_back(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    outbox_push(f, 1, 0, 3);
    span = outbox_take(f, 0);
    f->faulty.fail_reads = true;
    assert_int_equal(ing_outbox_read(f->run.outbox, &span, arena, &items, &n, &err),
                     FG_E_UNAVAILABLE);
    f->faulty.fail_reads = false;
    ing_outbox_put_back(f->run.outbox, &span);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 3);
}

static void damaged_profile_is_refused_and_holds_up_no_other(void **state)
{
    struct outbox_fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_head_profile_key key;
    struct ing_outbox_item *items;
    struct ing_outbox_dead *dead;
    struct ing_outbox_span span;
    struct fg_buf bytes;
    struct fg_err err;
    size_t n;

    outbox_push(f, 1, 0, 5);
    key = outbox_key(&f->run, 2);
    fg_buf_init(&bytes, SIZE_MAX);
    ing_head_put_profile_key(&bytes, &key);
    f->faulty.damaged = fg_buf_slice(&bytes);
    span = outbox_take(f, 0);
    items = outbox_read_span(f, &span, arena, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, i == 2 ? OUTBOX_REFUSED : OUTBOX_AGAIN);
        if (i != 2)
            items[i].outcome = OUTBOX_DONE;
    }
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    f->faulty.damaged = (struct fg_slice){NULL, 0};
    fg_buf_done(&bytes);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_numbers(f, 0).done, 4);
    assert_int_equal(ing_outbox_list_dead(f->run.outbox, 0, 0, 10, arena, &dead, &n, &err), FG_OK);
    assert_int_equal(n, 1);
    assert_int_not_equal(fg_slice_search(dead[0].reason, "cannot be read here: iterate: a damaged"),
                         SIZE_MAX);
}

/* ---- many threads ---- */

enum { WORKERS = 3, SHARED_PUSHES = 60, SHARED_EACH = 20 };

struct shared {
    struct outbox_fixture *f;
    atomic_uint done[SHARED_PUSHES * SHARED_EACH];
    atomic_uint n_done;
};

struct worker {
    pthread_t thread;
    struct shared *shared;
    uint64_t random;
};

static uint64_t draw(struct worker *worker, uint64_t below)
{
    worker->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(worker->random) % below;
}

/* Sends half of what it takes; of the rest, some spans were not even read. */
static void send_some(struct worker *worker, const struct ing_outbox_span *span)
{
    struct ing_outbox *outbox = worker->shared->f->run.outbox;
    fg_auto(fg_arena) *arena = fg_arena_create(OUTBOX_ARENA_BYTES);
    struct ing_outbox_item *items;
    struct fg_err err;
    size_t n;

    if (draw(worker, 4) == 0) {
        ing_outbox_put_back(outbox, span);
        return;
    }
    fg_assert(ing_outbox_read(outbox, span, arena, &items, &n, &err) == FG_OK);
    for (size_t i = 0; i < n; i++) {
        fg_assert(items[i].outcome == OUTBOX_AGAIN);
        if (draw(worker, 2) == 0)
            continue;
        items[i].outcome = OUTBOX_DONE;
        (void)atomic_fetch_add(&worker->shared->done[items[i].entry.key.id.lo], 1);
        (void)atomic_fetch_add(&worker->shared->n_done, 1);
    }
    ing_outbox_report(outbox, span, items, n);
}

static void *work(void *arg)
{
    const struct timespec pause = {.tv_nsec = FG_MS_NS};
    struct worker *worker = arg;
    struct ing_outbox *outbox = worker->shared->f->run.outbox;

    while (atomic_load(&worker->shared->n_done) < SHARED_PUSHES * SHARED_EACH) {
        struct ing_outbox_span span;

        if (ing_outbox_take(outbox, 0, draw(worker, 2) == 0 ? OUTBOX_FRESH : OUTBOX_BACKLOG, &span))
            send_some(worker, &span);
        else
            (void)nanosleep(&pause, NULL);
        (void)ing_outbox_pins(outbox, &(struct ing_head_group_key){0, 7, 2830000});
        (void)ing_outbox_numbers(outbox, 0);
    }
    return NULL;
}

static void each_profile_is_done_once_by_whatever_thread(void **state)
{
    struct outbox_fixture *f = *state;
    struct shared *shared = fg_new(struct shared);
    struct worker workers[WORKERS];
    struct fg_err err;

    shared->f = f;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.shared = shared, .random = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < SHARED_PUSHES; i++) {
        outbox_push(f, 1, (uint64_t)i * SHARED_EACH, SHARED_EACH);
        fg_clock_manual_advance(&f->clock, 10 * FG_SECOND_NS);
        if (i % 20 == 10)
            assert_int_equal(ing_outbox_pause(f->run.outbox, 0, i == 10, &err), FG_OK);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    outbox_run_settle(&f->run);
    for (unsigned n = 0; n < SHARED_PUSHES * SHARED_EACH; n++)
        assert_int_equal(atomic_load(&shared->done[n]), 1);
    assert_int_equal(outbox_numbers(f, 0).done, SHARED_PUSHES * SHARED_EACH);
    assert_int_equal(outbox_numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    free(shared);
}

static void no_outbox_wants_and_pins_nothing(void **state)
{
    struct fg_err err;

    (void)state;
    assert_int_equal(ing_outbox_wants(NULL, FG_LIT("tenant")), 0);
    assert_int_equal(ing_outbox_admits(NULL, FG_LIT("tenant"), &err), FG_OK);
    assert_int_equal(ing_outbox_added(NULL), 0);
    ing_outbox_end(NULL, true);
    ing_outbox_settle(NULL);
    assert_false(ing_outbox_pins(NULL, &(struct ing_head_group_key){1, 2, 3}));
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, outbox_set_up, outbox_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(entry_is_handed_out_with_its_profile_and_deleted_when_it_is_reported),
        TEST(reports_are_written_without_being_waited_for),
        TEST(target_that_never_takes_anything_does_not_hold_up_another),
        TEST(what_is_taken_and_not_reported_comes_again_after_a_restart),
        TEST(only_what_was_not_sent_of_a_span_comes_again),
        TEST(span_that_is_put_back_waits_at_once),
        TEST(after_an_outage_current_profiles_come_first),
        TEST(number_of_an_entry_is_never_given_again),
        cmocka_unit_test(every_write_fails_and_nothing_is_lost),
        cmocka_unit_test(every_write_is_done_but_reported_failed_and_nothing_is_lost),
        TEST(report_that_was_not_written_comes_again_after_a_restart),
        TEST(sender_is_told_once_until_it_finds_nothing),
        TEST(sender_is_told_when_the_store_takes_writes_again),
        TEST(refused_entries_are_kept_with_their_reasons_for_a_day),
        TEST(entry_whose_profile_is_gone_is_not_sent),
        TEST(profile_that_moved_to_another_chunk_is_found),
        TEST(unreadable_store_leaves_the_span_to_be_put_back),
        TEST(damaged_profile_is_refused_and_holds_up_no_other),
        TEST(each_profile_is_done_once_by_whatever_thread),
        cmocka_unit_test(no_outbox_wants_and_pins_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
