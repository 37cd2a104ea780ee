/* The outbox: what was stored is handed out until it is reported, and never after; whatever fails,
 * whatever is restarted, and whatever the other target does. */
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/forward/outbox_run.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 8 << 20, RECORD_BYTES = 100 };

struct fixture {
    struct fg_store *inner;
    struct fg_store_faulty faulty;
    struct outbox_clock clock;
    struct ing_outbox_target targets[2];
    struct outbox_run run;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->inner = fg_store_memory(HEAD_FAMILIES);
    fg_store_faulty_init(&f->faulty, f->inner);
    outbox_clock_init(&f->clock);
    f->targets[0] = outbox_target("central");
    f->targets[1] = outbox_target("other");
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    outbox_run_close(&f->run);
    fg_store_close(f->inner);
    free(f);
    return 0;
}

static void restart(struct fixture *f)
{
    outbox_run_close(&f->run);
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
}

static void push(struct fixture *f, uint32_t targets, uint64_t n, unsigned count)
{
    assert_int_equal(outbox_run_push(&f->run, targets, n, count, RECORD_BYTES), FG_OK);
}

static struct ing_outbox_numbers numbers(struct fixture *f, unsigned target)
{
    return ing_outbox_numbers(f->run.outbox, target);
}

static void fail_write(struct fixture *f, uint64_t at, bool late)
{
    f->faulty.writes = 0;
    f->faulty.fail_at = at;
    f->faulty.fail_late = late;
}

static struct ing_outbox_span take(struct fixture *f, unsigned target)
{
    struct ing_outbox_span span;

    assert_true(ing_outbox_take(f->run.outbox, target, OUTBOX_FRESH, &span) ||
                ing_outbox_take(f->run.outbox, target, OUTBOX_BACKLOG, &span));
    return span;
}

static struct ing_outbox_item *read_span(struct fixture *f, const struct ing_outbox_span *span,
                                         struct fg_arena *arena, size_t *ret_count)
{
    struct ing_outbox_item *items = NULL;
    struct fg_err err;

    assert_int_equal(ing_outbox_read(f->run.outbox, span, arena, &items, ret_count, &err), FG_OK);
    return items;
}

/* The writer tries to heal after each visit. */
static void do_nothing(void *arg)
{
    (void)arg;
}

static bool nothing_waits(struct fixture *f, unsigned target)
{
    struct ing_outbox_span span;

    return !ing_outbox_take(f->run.outbox, target, OUTBOX_FRESH, &span) &&
           !ing_outbox_take(f->run.outbox, target, OUTBOX_BACKLOG, &span);
}

/* ---- the way of an entry ---- */

static void entry_is_handed_out_with_its_profile_and_deleted_when_it_is_reported(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    const struct ing_head_profile_key key = outbox_key(&f->run, 4);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    push(f, 1, 4, 1);
    assert_true(nothing_waits(f, 1));
    span = take(f, 0);
    assert_int_equal(span.count, 1);
    assert_int_equal(span.bytes, RECORD_BYTES);
    assert_int_equal(span.oldest_wall_ns, f->clock.wall_ns);
    assert_true(nothing_waits(f, 0));
    items = read_span(f, &span, arena, &n);
    assert_int_equal(n, 1);
    assert_int_equal(items[0].outcome, OUTBOX_AGAIN);
    assert_true(fg_id_eq(items[0].entry.key.id, key.id));
    assert_int_equal(items[0].entry.received_wall_ns, f->clock.wall_ns);
    assert_int_equal(items[0].entry.via.n, 1);
    assert_int_equal(items[0].record.len, RECORD_BYTES);
    assert_true(ing_outbox_pins(f->run.outbox, &key.chunk.group));
    items[0].outcome = OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    assert_false(ing_outbox_pins(f->run.outbox, &key.chunk.group));
    assert_int_equal(numbers(f, 0).pending_profiles, 0);
    assert_int_equal(numbers(f, 0).done, 1);
    assert_int_equal(numbers(f, 0).oldest_wall_ns, 0);
}

static void reports_are_written_without_being_waited_for(void **state)
{
    struct fixture *f = *state;
    const struct timespec pause = {.tv_nsec = 10 * FG_MS_NS};

    push(f, 1, 0, 3);
    (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
    while (outbox_count(f->inner, HEAD_OUTBOX) > 0)
        (void)nanosleep(&pause, NULL);
    while (numbers(f, 0).pending_profiles > 0) /* the memory follows the store */
        (void)nanosleep(&pause, NULL);
}

static void target_that_never_takes_anything_does_not_hold_up_another(void **state)
{
    struct fixture *f = *state;
    unsigned seen[600] = {0};

    for (unsigned i = 0; i < 6; i++)
        push(f, 3, (uint64_t)i * 100, 100);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen), 600);
    for (unsigned i = 0; i < 600; i++)
        assert_int_equal(seen[i], 1);
    outbox_run_settle(&f->run);
    assert_int_equal(numbers(f, 0).pending_profiles, 0);
    assert_int_equal(numbers(f, 1).pending_profiles, 600);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 600);
    assert_true(ing_outbox_pins(
        f->run.outbox, &(struct ing_head_group_key){outbox_key(&f->run, 0).chunk.group.tenant, 7,
                                                    outbox_key(&f->run, 0).chunk.group.window}));
    restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 0);
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 600);
}

static void what_is_taken_and_not_reported_comes_again_after_a_restart(void **state)
{
    struct fixture *f = *state;

    push(f, 1, 0, 10);
    assert_int_equal(take(f, 0).count, 10);
    restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 0);
}

static void only_what_was_not_sent_of_a_span_comes_again(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    unsigned seen[10] = {0};
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    push(f, 1, 0, 10);
    span = take(f, 0);
    items = read_span(f, &span, arena, &n);
    assert_int_equal(n, 10);
    for (size_t i = 0; i < n; i++)
        items[i].outcome = i == 2 || i == 3 || i == 6 ? OUTBOX_AGAIN : OUTBOX_DONE;
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 3);
    assert_int_equal(numbers(f, 0).pending_profiles, 3);
    assert_int_equal(numbers(f, 0).pending_bytes, 3 * RECORD_BYTES);
    assert_int_equal(numbers(f, 0).taken_profiles, 0);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen), 3);
    assert_true(seen[2] == 1 && seen[3] == 1 && seen[6] == 1);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

static void span_that_is_put_back_waits_at_once(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    size_t n;

    push(f, 1, 0, 10);
    span = take(f, 0);
    ing_outbox_put_back(f->run.outbox, &span);
    span = take(f, 0);
    items = read_span(f, &span, arena, &n);
    ing_outbox_report(f->run.outbox, &span, items, n); /* nothing was sent */
    span = take(f, 0);
    assert_int_equal(span.count, 10);
    assert_int_equal(numbers(f, 0).taken_profiles, 10);
    ing_outbox_put_back(f->run.outbox, &span);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 10);
}

static void after_an_outage_current_profiles_come_first(void **state)
{
    struct fixture *f = *state;
    struct ing_outbox_span span;

    for (uint64_t i = 0; i < 3; i++) {
        push(f, 1, i * 10, 10);
        outbox_clock_advance(&f->clock, FG_HOUR_NS);
    }
    push(f, 1, 30, 10);
    outbox_clock_advance(&f->clock, 2 * FG_MINUTE_NS);
    push(f, 1, 40, 10);
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
    struct fixture *f = *state;
    uint64_t last = 0;

    for (unsigned i = 0; i < 4; i++) {
        struct ing_outbox_span span;

        push(f, 1, i, 1);
        span = take(f, 0);
        assert_true(i == 0 || span.first > last);
        last = span.last;
        ing_outbox_put_back(f->run.outbox, &span);
        (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
        restart(f);
    }
}

/* ---- faults ---- */

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
        struct fixture *f;
        void *state;

        print_message("  write %llu\n", (unsigned long long)k);
        (void)set_up(&state);
        f = state;
        fail_write(f, k, late);
        for (unsigned i = 0; i < PUSHES; i++) {
            struct fg_err err;

            stored[i] =
                outbox_run_push(&f->run, 1, (uint64_t)i * EACH, EACH, RECORD_BYTES) == FG_OK;
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
        } while (numbers(f, 0).pending_profiles > 0);
        for (unsigned i = 0; i < PUSHES * EACH; i++)
            assert_int_equal(seen[i], stored[i / EACH]);
        assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
        restart(f);
        assert_true(nothing_waits(f, 0));
        (void)tear_down(&state);
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
    struct fixture *f = *state;

    push(f, 1, 0, 10);
    atomic_store(&f->faulty.full, true);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    outbox_run_close(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 10);
    /* A store that takes no writes does not fail the start. */
    outbox_run_open(&f->run, &f->faulty.store, &f->clock, f->targets, 2);
    assert_int_equal(numbers(f, 0).pending_profiles, 10);
    assert_true(nothing_waits(f, 0)); /* no report could be written */
    atomic_store(&f->faulty.full, false);
    restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
}

static atomic_uint n_ready;

static void on_ready(void *arg, unsigned target)
{
    (void)arg;
    (void)target;
    (void)atomic_fetch_add(&n_ready, 1);
}

static void sender_is_told_once_until_it_finds_nothing(void **state)
{
    struct fixture *f = *state;
    struct ing_outbox_span span;

    atomic_store(&n_ready, 0);
    push(f, 1, 0, 1);
    ing_outbox_on_ready(f->run.outbox, on_ready, NULL); /* something waits already */
    assert_int_equal(atomic_load(&n_ready), 1);
    push(f, 1, 1, 1);
    assert_int_equal(atomic_load(&n_ready), 1);
    span = take(f, 0);
    assert_true(nothing_waits(f, 0));
    push(f, 1, 2, 1);
    assert_int_equal(atomic_load(&n_ready), 2);
    push(f, 2, 2, 1); /* another target */
    assert_int_equal(atomic_load(&n_ready), 3);
    ing_outbox_put_back(f->run.outbox, &span);
    ing_outbox_on_ready(f->run.outbox, NULL, NULL);
    while (!nothing_waits(f, 0))
        (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL);
    push(f, 1, 3, 1);
    assert_int_equal(atomic_load(&n_ready), 3);
}

static void sender_is_told_when_the_store_takes_writes_again(void **state)
{
    struct fixture *f = *state;
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};

    push(f, 1, 0, 1);
    atomic_store(&n_ready, 0);
    ing_outbox_on_ready(f->run.outbox, on_ready, NULL);
    atomic_store(&f->faulty.full, true);
    assert_int_not_equal(outbox_run_push(&f->run, 1, 1, 1, RECORD_BYTES), FG_OK);
    assert_true(nothing_waits(f, 0));
    atomic_store(&n_ready, 0);
    atomic_store(&f->faulty.full, false);
    while (atomic_load(&n_ready) == 0) {
        (void)nanosleep(&pause, NULL);
        outbox_run_visit(&f->run, do_nothing, NULL);
    }
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 1);
    ing_outbox_on_ready(f->run.outbox, NULL, NULL);
}

/* ---- what is not sent ---- */

static void refused_entries_are_kept_with_their_reasons_for_a_day(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    const struct timespec pause = {.tv_nsec = 20 * FG_MS_NS};
    struct ing_outbox_dead *dead;
    struct fg_err err;
    size_t n;

    push(f, 1, 0, 5);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_REFUSED, NULL), 5);
    outbox_run_settle(&f->run);
    for (unsigned i = 0; i < 2; i++) { /* at once, and after a restart */
        assert_int_equal(numbers(f, 0).dead, 5);
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
            assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_REFUSED], 5);
            restart(f);
        }
    }
    assert_true(nothing_waits(f, 0));
    outbox_clock_advance(&f->clock, OUTBOX_DEAD_KEPT_NS);
    push(f, 1, 5, 1);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_REFUSED, NULL), 1);
    outbox_clock_advance(&f->clock, FG_HOUR_NS);
    while (outbox_count(f->inner, HEAD_OUTBOX_DEAD) != 1) /* the ticker finds them old */
        (void)nanosleep(&pause, NULL);
    assert_int_equal(numbers(f, 0).dead, 1);
}

static void entry_whose_profile_is_gone_is_not_sent(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    const struct ing_head_profile_key key = outbox_key(&f->run, 1);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;
    size_t n;

    push(f, 1, 0, 3);
    fg_store_batch_init(&batch);
    fg_buf_init(&bytes, SIZE_MAX);
    ing_head_put_profile_key(&bytes, &key);
    fg_store_delete(&batch, HEAD_PROFILES, fg_buf_slice(&bytes));
    assert_int_equal(fg_store_write(f->inner, &batch, &err), FG_OK);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
    span = take(f, 0);
    items = read_span(f, &span, arena, &n);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, i == 1 ? OUTBOX_GONE : OUTBOX_AGAIN);
        if (i != 1)
            items[i].outcome = OUTBOX_DONE;
    }
    ing_outbox_report(f->run.outbox, &span, items, n);
    outbox_run_settle(&f->run);
    assert_int_equal(numbers(f, 0).done, 2);
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_GONE], 1);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
}

/* As a comparison with the bucket does it. */
static void profile_that_moved_to_another_chunk_is_found(void **state)
{
    static const uint32_t chunks[] = {0, 2, 9, UINT32_MAX};
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;
    size_t n;

    push(f, 1, 0, FG_COUNT(chunks));
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
    span = take(f, 0);
    items = read_span(f, &span, arena, &n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(items[i].outcome, OUTBOX_AGAIN);
        assert_int_equal(items[i].entry.key.chunk.number, chunks[i]);
        assert_true(fg_slice_is(items[i].record, "moved"));
    }
    ing_outbox_put_back(f->run.outbox, &span);
}

static void unreadable_store_leaves_the_span_to_be_put_back(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_item *items;
    struct ing_outbox_span span;
    struct fg_err err;
    size_t n;

    push(f, 1, 0, 3);
    span = take(f, 0);
    f->faulty.fail_reads = true;
    assert_int_equal(ing_outbox_read(f->run.outbox, &span, arena, &items, &n, &err),
                     FG_E_UNAVAILABLE);
    f->faulty.fail_reads = false;
    ing_outbox_put_back(f->run.outbox, &span);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 3);
}

/* ---- operators ---- */

static void pause_holds_and_survives_a_restart(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    push(f, 3, 0, 5);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    assert_true(nothing_waits(f, 0));
    restart(f);
    assert_true(numbers(f, 0).paused && !numbers(f, 1).paused);
    assert_true(nothing_waits(f, 0));
    push(f, 3, 5, 5); /* it goes on to grow */
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 10);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    restart(f);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
}

static void failed_pause_says_so_and_holds(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    push(f, 1, 0, 5);
    fail_write(f, 1, false);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_E_UNAVAILABLE);
    assert_true(numbers(f, 0).paused);
    assert_true(nothing_waits(f, 0));
}

/* ---- resending ---- */

static struct ing_resend resending(struct fixture *f)
{
    struct ing_resend resend;

    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    return resend;
}

/* As soon as the store takes writes again. */
static struct ing_resend resending_later(struct fixture *f)
{
    struct ing_resend resend;

    while (!ing_outbox_get_resending(f->run.outbox, 0, &resend))
        outbox_run_settle(&f->run);
    return resend;
}

static struct ing_resend step(const struct ing_resend *before, int64_t time_ns)
{
    struct ing_resend now = *before;

    now.state = RESEND_READS;
    (void)snprintf(now.tenant, sizeof now.tenant, "team-a");
    now.time_ns = time_ns;
    now.sent++;
    return now;
}

static void resend_goes_on_after_a_restart_where_it_was(void **state)
{
    struct fixture *f = *state;
    struct ing_resend before, now, other;
    struct fg_err err;

    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &before));
    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 1, 2, &err), FG_E_EXISTS);
    restart(f);
    before = resending(f);
    assert_int_equal(before.state, RESEND_COMMITS);
    assert_int_equal(before.from_ns, 10);
    assert_int_equal(before.until_ns, 90);
    assert_false(ing_outbox_get_resending(f->run.outbox, 1, &other));
    now = step(&before, 20);
    ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
    outbox_run_settle(&f->run);
    restart(f);
    now = resending(f);
    assert_string_equal(now.tenant, "team-a");
    assert_int_equal(now.time_ns, 20);
    assert_int_equal(now.sent, 1);
    /* A note from another place belongs to a resend that an operator has ended. */
    other = step(&before, 30);
    ing_outbox_note_resend(f->run.outbox, 0, &before, &other);
    assert_int_equal(resending(f).time_ns, 20);
}

static void paused_or_failing_target_is_not_resent_to(void **state)
{
    struct fixture *f = *state;
    struct ing_resend resend;
    struct fg_err err;

    assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    assert_true(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    atomic_store(&f->faulty.full, true);
    assert_true(outbox_run_push(&f->run, 1, 0, 1, RECORD_BYTES) != FG_OK);
    assert_false(ing_outbox_get_resending(f->run.outbox, 0, &resend));
    atomic_store(&f->faulty.full, false);
    (void)resending_later(f);
}

static void ended_resend_stays_ended(void **state)
{
    struct fixture *f = *state;
    struct ing_resend before, now;
    struct fg_err err;
    uint64_t dropped;

    for (unsigned drops = 0; drops < 2; drops++) {
        assert_int_equal(ing_outbox_resend(f->run.outbox, 0, 10, 90, &err), FG_OK);
        before = resending(f);
        if (drops)
            assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &dropped, &err), FG_OK);
        else
            assert_int_equal(ing_outbox_end_resend(f->run.outbox, 0, &err), FG_OK);
        now = step(&before, 20);
        ing_outbox_note_resend(f->run.outbox, 0, &before, &now); /* of a page under way */
        assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
        restart(f);
        assert_false(ing_outbox_get_resending(f->run.outbox, 0, &now));
        assert_int_equal(now.state, RESEND_DONE);
        assert_true(now.incomplete);
        assert_int_equal(now.ended_wall_ns, f->clock.wall_ns);
    }
    assert_int_equal(ing_outbox_end_resend(f->run.outbox, 0, &err), FG_OK); /* none is under way */
}

/* Whatever write fails, a crash never goes back behind what was written, nor forward beyond what
 * was noted: each step comes after the one before it. */
static void every_write_of_a_resend_fails(bool late)
{
    enum { STEPS = 5, WRITES_MAX = 10 /* more than there are */ };

    for (uint64_t k = 1; k <= WRITES_MAX; k++) {
        struct ing_resend before, now;
        struct fixture *f;
        struct fg_err err;
        void *state;

        (void)set_up(&state);
        f = state;
        fail_write(f, k, late);
        while (ing_outbox_resend(f->run.outbox, 0, 10, 90, &err) == FG_E_UNAVAILABLE)
            outbox_run_settle(&f->run);
        outbox_run_settle(&f->run);
        for (int64_t i = 1; i <= STEPS; i++) {
            before = resending_later(f);
            now = step(&before, 10 * i);
            ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
            if (i % 2 == 0) {
                restart(f); /* at once: the last step may not be written */
                before = resending_later(f);
                assert_in_range(before.time_ns, 10 * (i - 2), 10 * i);
                now = step(&before, 10 * i);
                ing_outbox_note_resend(f->run.outbox, 0, &before, &now);
            }
            outbox_run_settle(&f->run);
        }
        restart(f);
        now = resending_later(f);
        assert_int_equal(now.time_ns, 10 * STEPS);
        assert_int_equal(now.from_ns, 10);
        (void)tear_down(&state);
    }
}

static void every_write_of_a_resend_fails_and_it_goes_on(void **state)
{
    (void)state;
    every_write_of_a_resend_fails(false);
}

static void every_write_of_a_resend_is_done_but_reported_failed_and_it_goes_on(void **state)
{
    (void)state;
    every_write_of_a_resend_fails(true);
}

static void drop_takes_what_waits_and_later_what_is_taken(void **state)
{
    struct fixture *f = *state;
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct ing_outbox_span span, middle;
    struct ing_outbox_item *items;
    uint64_t profiles;
    struct fg_err err;
    size_t n;

    for (uint64_t i = 0; i < 5; i++) {
        push(f, 3, i * 10, 10);
        outbox_clock_advance(&f->clock, 2 * FG_MINUTE_NS);
    }
    span = take(f, 0);
    middle = take(f, 0);
    items = read_span(f, &span, arena, &n);
    items[0].outcome = OUTBOX_DONE;
    assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &profiles, &err), FG_OK);
    assert_int_equal(profiles, 30);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 50 + 20);
    ing_outbox_report(f->run.outbox, &span, items, n); /* the others are not sent again */
    ing_outbox_put_back(f->run.outbox, &middle);
    outbox_run_settle(&f->run);
    assert_true(nothing_waits(f, 0));
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 50);
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_OPERATOR], 49);
    assert_int_equal(numbers(f, 0).done, 1);
    assert_int_equal(numbers(f, 0).pending_profiles, 0);
    assert_int_equal(numbers(f, 1).pending_profiles, 50);
    /* With nothing to drop there is nothing to wait for. */
    assert_int_equal(ing_outbox_drop(f->run.outbox, 0, &profiles, &err), FG_OK);
    assert_int_equal(profiles, 0);
    restart(f);
    assert_true(nothing_waits(f, 0));
}

/* ---- the bound ---- */

static void full_queue_drops_the_oldest_that_are_not_taken(void **state)
{
    struct fixture *f = *state;
    struct ing_outbox_span span;

    f->targets[0].queue_max_bytes = 25 * (uint64_t)RECORD_BYTES;
    restart(f);
    for (uint64_t i = 0; i < 2; i++) {
        push(f, 3, i * 10, 10);
        outbox_clock_advance(&f->clock, FG_HOUR_NS);
    }
    assert_true(ing_outbox_take(f->run.outbox, 0, OUTBOX_BACKLOG, &span));
    push(f, 3, 20, 10); /* 30 of 25: the second ten go, the first are taken */
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_FULL], 10);
    assert_int_equal(numbers(f, 0).pending_profiles, 20);
    assert_int_equal(numbers(f, 1).pending_profiles, 30);
    ing_outbox_put_back(f->run.outbox, &span);
    outbox_run_settle(&f->run);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 20 + 30);
    outbox_clock_advance(&f->clock, FG_HOUR_NS);
    push(f, 3, 30, 10);
    outbox_run_settle(&f->run);
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_FULL], 20);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 20 + 40);
    /* A smaller bound holds at the start. */
    f->targets[0].queue_max_bytes = 15 * (uint64_t)RECORD_BYTES;
    restart(f);
    assert_int_equal(numbers(f, 0).pending_profiles, 10);
}

static bool wants_one(void *arg, struct fg_slice tenant)
{
    return fg_slice_is(tenant, arg);
}

static void full_queue_refuses_pushes_of_its_tenants_until_it_has_room(void **state)
{
    static char name[] = "tenant";
    struct fixture *f = *state;
    struct fg_err err;

    f->targets[0].queue_max_bytes = 10 * (uint64_t)RECORD_BYTES;
    f->targets[0].when_full = OUTBOX_REFUSE;
    f->targets[0].wants = wants_one;
    f->targets[0].arg = name;
    restart(f);
    assert_int_equal(ing_outbox_wants(f->run.outbox, FG_LIT("tenant")), 3);
    assert_int_equal(ing_outbox_wants(f->run.outbox, FG_LIT("another")), 2);
    push(f, 3, 0, 9);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    push(f, 3, 9, 1);
    for (unsigned i = 0; i < 2; i++) { /* also after a restart */
        assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_E_LIMIT);
        assert_non_null(strstr(err.msg, "central"));
        assert_non_null(strstr(err.msg, "queue_max_bytes"));
        assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("another"), &err), FG_OK);
        assert_int_equal(numbers(f, 0).refused_pushes, 1);
        if (i == 0)
            restart(f);
    }
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 10);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_FULL], 0);
}

/* Each group that is pinned takes memory of the head: a target that is away must not use it up. */
static void too_many_groups_drop_the_oldest(void **state)
{
    enum { GROUPS = 100, OF_GROUP = 20, GROUPS_MAX = 32 };
    struct fixture *f = *state;
    unsigned seen[GROUPS * OF_GROUP] = {0};

    outbox_run_groups_max = GROUPS_MAX;
    restart(f);
    for (unsigned i = 0; i < GROUPS; i++) {
        push(f, 1, (uint64_t)i * OF_GROUP, OF_GROUP);
        outbox_clock_advance(&f->clock, 2 * FG_MINUTE_NS);
        assert_true(numbers(f, 0).pending_profiles <= (uint64_t)GROUPS_MAX * OF_GROUP);
    }
    assert_true(numbers(f, 0).pending_profiles >= (uint64_t)GROUPS_MAX / 2 * OF_GROUP);
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_FULL] + numbers(f, 0).pending_profiles,
                     GROUPS * OF_GROUP);
    /* Another start with less room drops more. */
    outbox_run_groups_max = GROUPS_MAX / 2;
    restart(f);
    assert_true(numbers(f, 0).pending_profiles <= (uint64_t)GROUPS_MAX / 2 * OF_GROUP);
    (void)outbox_run_drain(&f->run, 0, OUTBOX_DONE, seen);
    for (unsigned n = 1; n < GROUPS * OF_GROUP; n++)
        assert_true(seen[n - 1] <= seen[n]); /* the newest are there */
    assert_int_equal(seen[GROUPS * OF_GROUP - 1], 1);
    outbox_run_groups_max = UINT32_MAX;
}

static void too_many_groups_refuse_pushes_only_if_nothing_may_be_dropped(void **state)
{
    enum { OF_GROUP = 20, GROUPS_MAX = 32 };
    struct fixture *f = *state;
    struct fg_err err;
    uint64_t n = 0;

    outbox_run_groups_max = GROUPS_MAX;
    f->targets[0].when_full = OUTBOX_REFUSE;
    restart(f);
    while (ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err) == FG_OK) {
        push(f, 3, n, OF_GROUP);
        outbox_clock_advance(&f->clock, 2 * FG_MINUTE_NS);
        n += OF_GROUP;
    }
    assert_non_null(strstr(err.msg, "ingester.catalog_max_bytes"));
    /* All of the other target went first. */
    assert_int_equal(numbers(f, 0).dropped[OUTBOX_BY_FULL], 0);
    assert_int_equal(numbers(f, 0).pending_profiles, n);
    assert_int_equal(numbers(f, 1).pending_profiles, 0);
    assert_true(n >= (uint64_t)(GROUPS_MAX - 4) * OF_GROUP);
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), n);
    outbox_run_settle(&f->run);
    assert_int_equal(ing_outbox_admits(f->run.outbox, FG_LIT("tenant"), &err), FG_OK);
    outbox_run_groups_max = UINT32_MAX;
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

/* ---- threads ---- */

enum { WORKERS = 3, SHARED_PUSHES = 60, SHARED_EACH = 20 };

struct shared {
    struct fixture *f;
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
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_MAX_BYTES);
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
    struct fixture *f = *state;
    struct shared *shared = fg_new(struct shared);
    struct worker workers[WORKERS];
    struct fg_err err;

    shared->f = f;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.shared = shared, .random = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < SHARED_PUSHES; i++) {
        push(f, 1, (uint64_t)i * SHARED_EACH, SHARED_EACH);
        outbox_clock_advance(&f->clock, 10 * FG_SECOND_NS);
        if (i % 20 == 10)
            assert_int_equal(ing_outbox_pause(f->run.outbox, 0, i == 10, &err), FG_OK);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    outbox_run_settle(&f->run);
    for (unsigned n = 0; n < SHARED_PUSHES * SHARED_EACH; n++)
        assert_int_equal(atomic_load(&shared->done[n]), 1);
    assert_int_equal(numbers(f, 0).done, SHARED_PUSHES * SHARED_EACH);
    assert_int_equal(numbers(f, 0).pending_profiles, 0);
    assert_int_equal(outbox_count(f->inner, HEAD_OUTBOX), 0);
    free(shared);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
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
        TEST(pause_holds_and_survives_a_restart),
        TEST(failed_pause_says_so_and_holds),
        TEST(resend_goes_on_after_a_restart_where_it_was),
        TEST(paused_or_failing_target_is_not_resent_to),
        TEST(ended_resend_stays_ended),
        cmocka_unit_test(every_write_of_a_resend_fails_and_it_goes_on),
        cmocka_unit_test(every_write_of_a_resend_is_done_but_reported_failed_and_it_goes_on),
        TEST(drop_takes_what_waits_and_later_what_is_taken),
        TEST(full_queue_drops_the_oldest_that_are_not_taken),
        TEST(full_queue_refuses_pushes_of_its_tenants_until_it_has_room),
        TEST(too_many_groups_drop_the_oldest),
        TEST(too_many_groups_refuse_pushes_only_if_nothing_may_be_dropped),
        TEST(each_profile_is_done_once_by_whatever_thread),
        cmocka_unit_test(no_outbox_wants_and_pins_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
