/* Spans of the outbox: which is taken when, what is left of one that was reported, and sums that
 * agree with a list of all entries, whatever happens in whatever order. */
#include "common/base/hash.h"
#include "ingester/forward/spans.h"
#include "tests/lib/seeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

static void assert_span(const struct ing_span *span, uint64_t first, uint64_t last, uint32_t count)
{
    assert_non_null(span);
    assert_int_equal(span->first, first);
    assert_int_equal(span->last, last);
    assert_int_equal(span->count, count);
}

static void span_ends_at_its_limits(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    for (uint64_t seq = 0; seq <= OUTBOX_SPAN_ENTRIES_MAX; seq++)
        ing_spans_add(&spans, seq, 1, start_ns); /* one more than fits */
    assert_int_equal(ing_spans_count(&spans), 2);
    ing_spans_add(&spans, 1000, OUTBOX_SPAN_MAX_BYTES, start_ns); /* too large for that one */
    assert_int_equal(ing_spans_count(&spans), 3);
    ing_spans_add(&spans, 1001, OUTBOX_SPAN_MAX_BYTES + 1, start_ns); /* by itself */
    assert_int_equal(ing_spans_count(&spans), 4);
    ing_spans_add(&spans, 1002, 1, start_ns);
    ing_spans_add(&spans, 1003, 1, start_ns + FG_MINUTE_NS);
    assert_int_equal(ing_spans_count(&spans), 5);
    ing_spans_add(&spans, 1004, 1, start_ns + FG_MINUTE_NS + 1); /* later than a minute */
    assert_int_equal(ing_spans_count(&spans), 6);
    assert_int_equal(spans.count, OUTBOX_SPAN_ENTRIES_MAX + 6);
    ing_spans_check(&spans);
    ing_spans_done(&spans);
}

static void fresh_spans_go_newest_first_and_the_backlog_oldest_first(void **state)
{
    const int64_t now_ns = start_ns + FG_HOUR_NS;
    struct ing_spans spans = {0};

    (void)state;
    for (uint64_t i = 0; i < 3; i++) /* an hour ago, and now */
        ing_spans_add(&spans, i, 1, start_ns + (int64_t)i * 2 * FG_MINUTE_NS);
    for (uint64_t i = 0; i < 3; i++)
        ing_spans_add(&spans, 10 + i, 1, now_ns - 4 * FG_MINUTE_NS + (int64_t)i * 2 * FG_MINUTE_NS);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, now_ns), 12, 12, 1);
    assert_span(ing_spans_take(&spans, OUTBOX_BACKLOG, now_ns), 0, 0, 1);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, now_ns), 11, 11, 1);
    assert_span(ing_spans_take(&spans, OUTBOX_BACKLOG, now_ns), 1, 1, 1);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, now_ns), 10, 10, 1);
    assert_null(ing_spans_take(&spans, OUTBOX_FRESH, now_ns));
    assert_span(ing_spans_take(&spans, OUTBOX_BACKLOG, now_ns), 2, 2, 1);
    assert_null(ing_spans_take(&spans, OUTBOX_BACKLOG, now_ns));
    ing_spans_check(&spans);
    ing_spans_done(&spans);
}

static void fresh_span_that_nobody_takes_becomes_backlog(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    ing_spans_add(&spans, 1, 1, start_ns);
    assert_null(ing_spans_take(&spans, OUTBOX_BACKLOG, start_ns + OUTBOX_FRESH_NS));
    assert_null(ing_spans_take(&spans, OUTBOX_FRESH, start_ns + OUTBOX_FRESH_NS + 1));
    assert_span(ing_spans_take(&spans, OUTBOX_BACKLOG, start_ns + OUTBOX_FRESH_NS + 1), 1, 1, 1);
    ing_spans_done(&spans);
}

/* Whatever the clock does, each span is in one of the lanes: or it would wait forever. */
static void clock_that_is_set_holds_up_nothing(void **state)
{
    static const int64_t steps_ns[] = {-FG_HOUR_NS, FG_HOUR_NS, -2 * FG_MINUTE_NS,
                                       -7 * FG_MINUTE_NS, 7 * FG_MINUTE_NS};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(steps_ns); i++) {
        struct ing_spans spans = {0};
        int64_t now_ns = start_ns;

        print_message("  %lld min\n", (long long)(steps_ns[i] / FG_MINUTE_NS));
        for (uint64_t seq = 0; seq < 10; seq++) {
            ing_spans_add(&spans, seq, 1, now_ns);
            now_ns += seq == 4 ? steps_ns[i] : 2 * FG_MINUTE_NS;
        }
        while (spans.count > spans.taken_count) {
            if (ing_spans_take(&spans, OUTBOX_FRESH, now_ns) == NULL)
                assert_non_null(ing_spans_take(&spans, OUTBOX_BACKLOG, now_ns));
        }
        ing_spans_done(&spans);
    }
}

static void taken_span_does_not_grow(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    ing_spans_add(&spans, 1, 1, start_ns);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 1, 1, 1);
    ing_spans_add(&spans, 2, 1, start_ns);
    assert_span(ing_spans_find(&spans, 1), 1, 1, 1);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 2, 2, 1);
    ing_spans_done(&spans);
}

static void what_is_left_of_a_span_waits_again(void **state)
{
    const struct ing_span left = {.first = 3,
                                  .last = 7,
                                  .count = 2,
                                  .bytes = 20,
                                  .oldest_wall_ns = start_ns,
                                  .newest_wall_ns = start_ns};
    struct ing_spans spans = {0};

    (void)state;
    for (uint64_t seq = 0; seq < 10; seq++)
        ing_spans_add(&spans, seq, 10, start_ns);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 0, 9, 10);
    assert_int_equal(spans.taken_count, 10);
    ing_spans_put_back(&spans, ing_spans_find(&spans, 0), &left);
    assert_int_equal(spans.count, 2);
    assert_int_equal(spans.bytes, 20);
    assert_int_equal(spans.taken_count, 0);
    assert_true(ing_spans_meet(&spans, 7, 9));
    assert_false(ing_spans_meet(&spans, 0, 2));
    assert_false(ing_spans_meet(&spans, 8, 9));
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 3, 7, 2);
    ing_spans_check(&spans);
    ing_spans_done(&spans);
}

/* A target that is away for long, and tried for each profile, must not cost a span for each. */
static void small_spans_that_come_back_become_one(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    for (uint64_t seq = 0; seq < 1000; seq++) {
        struct ing_span left;

        ing_spans_add(&spans, seq, 1, start_ns + (int64_t)seq * FG_MS_NS);
        left = *ing_spans_take(&spans, OUTBOX_FRESH, start_ns + FG_SECOND_NS);
        ing_spans_put_back(&spans, ing_spans_find(&spans, left.first), &left);
        ing_spans_check(&spans);
    }
    assert_int_equal(ing_spans_count(&spans), 4); /* of 256 */
    ing_spans_done(&spans);
}

static void first_spans_that_wait_are_dropped_and_taken_ones_stay(void **state)
{
    struct ing_spans spans = {0};
    struct ing_span dropped;

    (void)state;
    for (uint64_t seq = 0; seq < 3; seq++)
        ing_spans_add(&spans, seq, OUTBOX_SPAN_MAX_BYTES, start_ns);
    assert_span(ing_spans_take(&spans, OUTBOX_BACKLOG, start_ns + FG_HOUR_NS), 0, 0, 1);
    assert_true(ing_spans_drop_first(&spans, &dropped));
    assert_span(&dropped, 1, 1, 1);
    assert_true(ing_spans_drop_first(&spans, &dropped));
    assert_span(&dropped, 2, 2, 1);
    assert_false(ing_spans_drop_first(&spans, &dropped));
    assert_int_equal(spans.count, 1);
    ing_spans_add(&spans, 3, 1, start_ns);
    ing_spans_check(&spans);
    ing_spans_done(&spans);
}

/* ---- against a list of all entries ---- */

enum { ENTRIES = 20000, TAKEN_MAX = 8 };

struct model {
    struct ing_spans spans;
    bool pending[ENTRIES];
    uint64_t bytes[ENTRIES];
    int64_t received_ns[ENTRIES];
    uint64_t next;
    int64_t now_ns;
    uint64_t random;
    struct ing_span taken[TAKEN_MAX];
    unsigned n_taken;
};

static uint64_t draw(struct model *model, uint64_t below)
{
    model->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(model->random) % below;
}

static void check_model(const struct model *model)
{
    uint64_t count = 0, bytes = 0;

    for (uint64_t seq = 0; seq < model->next; seq++) {
        count += model->pending[seq];
        bytes += model->pending[seq] ? model->bytes[seq] : 0;
        /* An entry that is pending is in a span; one that is not may be between two that are. */
        assert_true(!model->pending[seq] || ing_spans_meet(&model->spans, seq, seq));
    }
    assert_int_equal(model->spans.count, count);
    assert_int_equal(model->spans.bytes, bytes);
    ing_spans_check(&model->spans);
}

static void add(struct model *model)
{
    model->next += draw(model, 10) == 0 ? draw(model, 5) : 0; /* numbers of writes that failed */
    if (model->next >= ENTRIES)
        return;
    model->pending[model->next] = true;
    model->bytes[model->next] = draw(model, 3000);
    model->received_ns[model->next] = model->now_ns;
    ing_spans_add(&model->spans, model->next, model->bytes[model->next], model->now_ns);
    model->next++;
}

static void take(struct model *model)
{
    enum ing_outbox_lane lane = draw(model, 2) == 0 ? OUTBOX_FRESH : OUTBOX_BACKLOG;
    const struct ing_span *span = NULL;

    if (model->n_taken < TAKEN_MAX)
        span = ing_spans_take(&model->spans, lane, model->now_ns);
    if (span != NULL)
        model->taken[model->n_taken++] = *span;
}

/* Reports a taken span: all of it is done, none of it, or some. */
static void report(struct model *model)
{
    uint64_t done_of = draw(model, 3);
    struct ing_span span, left = {0};

    if (model->n_taken == 0)
        return;
    span = model->taken[draw(model, model->n_taken)];
    for (uint64_t seq = span.first; seq <= span.last; seq++) {
        if (!model->pending[seq])
            continue;
        if (done_of == 2 || (done_of == 1 && draw(model, 2) == 0)) {
            model->pending[seq] = false;
            continue;
        }
        if (left.count++ == 0)
            left = (struct ing_span){.first = seq,
                                     .count = 1,
                                     .oldest_wall_ns = model->received_ns[seq],
                                     .newest_wall_ns = model->received_ns[seq]};
        left.last = seq;
        left.bytes += model->bytes[seq];
        left.newest_wall_ns = FG_MAX(left.newest_wall_ns, model->received_ns[seq]);
    }
    if (left.count > 0)
        ing_spans_put_back(&model->spans, ing_spans_find(&model->spans, span.first), &left);
    else
        ing_spans_remove(&model->spans, ing_spans_find(&model->spans, span.first));
    for (unsigned i = 0; i < model->n_taken; i++)
        if (model->taken[i].first == span.first) {
            model->taken[i] = model->taken[--model->n_taken];
            break;
        }
}

static void drop(struct model *model)
{
    struct ing_span span;

    if (!ing_spans_drop_first(&model->spans, &span))
        return;
    for (uint64_t seq = span.first; seq <= span.last; seq++)
        model->pending[seq] = false;
}

static void run_model(uint64_t seed)
{
    struct model *model = fg_new(struct model);
    uint64_t step = 0;

    model->random = seed;
    model->now_ns = start_ns;
    while (model->next < ENTRIES) {
        uint64_t what = draw(model, 100);

        if (what < 80)
            add(model);
        else if (what < 88)
            take(model);
        else if (what < 96)
            report(model);
        else if (what < 97)
            drop(model);
        else
            model->now_ns += (int64_t)draw(model, 20) * FG_SECOND_NS;
        if (step++ % 500 == 0)
            check_model(model);
    }
    check_model(model);
    /* Everything can be taken and reported in the end. */
    while (model->spans.count > 0) {
        model->now_ns += FG_HOUR_NS;
        take(model);
        report(model);
    }
    check_model(model);
    ing_spans_done(&model->spans);
    free(model);
}

static void sums_agree_with_a_list_of_all_entries(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(5); seed++) {
        print_message("  seed %llu\n", (unsigned long long)seed);
        run_model(seed);
    }
}

/* The rest of a span, of one tenant or (0) of several. */
static void put_back_of(struct ing_spans *spans, uint64_t seq, uint32_t of_tenant)
{
    struct ing_span *span = ing_spans_find(spans, seq), left = *span;

    left.of_tenant = of_tenant;
    ing_spans_put_back(spans, span, &left);
    ing_spans_check(spans);
}

static void held_spans_are_in_nobodys_way(void **state)
{
    static const enum ing_outbox_lane lanes[] = {OUTBOX_FRESH, OUTBOX_BACKLOG};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(lanes); i++) {
        int64_t now_ns = start_ns + (lanes[i] == OUTBOX_FRESH ? 0 : FG_HOUR_NS);
        struct ing_spans spans = {0};
        struct ing_span dropped;

        for (uint64_t seq = 0; seq < 4; seq++) /* too large to become one */
            ing_spans_add(&spans, seq, OUTBOX_SPAN_MAX_BYTES, start_ns);
        while (ing_spans_take(&spans, lanes[i], now_ns) != NULL)
            continue;
        assert_true(ing_spans_hold(&spans, 5, 100));
        put_back_of(&spans, 0, 5 + 1);
        put_back_of(&spans, 1, 0);
        put_back_of(&spans, 2, 7 + 1); /* not held any more */
        put_back_of(&spans, 3, 5 + 1);
        assert_true(ing_spans_holds(&spans, 5));
        assert_false(ing_spans_holds(&spans, 6));
        assert_int_equal(ing_spans_release(&spans, 99), 100);
        assert_non_null(ing_spans_take(&spans, lanes[i], now_ns));
        assert_non_null(ing_spans_take(&spans, lanes[i], now_ns));
        assert_null(ing_spans_take(&spans, lanes[i], now_ns));
        assert_int_equal(spans.taken_count, 2);
        assert_int_equal(ing_spans_find(&spans, 1)->state, SPAN_TAKEN);
        assert_int_equal(ing_spans_find(&spans, 2)->state, SPAN_TAKEN);
        /* A full queue drops them all the same, the oldest first. */
        assert_true(ing_spans_drop_first(&spans, &dropped));
        assert_int_equal(dropped.first, 0);
        assert_int_equal(ing_spans_release(&spans, 100), INT64_MAX);
        assert_span(ing_spans_take(&spans, lanes[i], now_ns), 3, 3, 1);
        ing_spans_check(&spans);
        ing_spans_done(&spans);
    }
}

/* Puts an entry of each of these tenants back, which are held. */
static void put_back_held(struct ing_spans *spans, const uint32_t *tenants, uint32_t n)
{
    struct ing_span *span = ing_spans_find(spans, 0), left = *span;

    left.of_tenant = 0;
    for (left.count = 0; left.count < n; left.count++)
        ing_spans_note_held(spans, tenants[left.count], &left);
    ing_spans_put_back(spans, span, &left);
    ing_spans_check(spans);
}

static void held_tenant_waits_for_no_other(void **state)
{
    static const uint32_t both[] = {5, 6}, one[] = {5, 5};
    int64_t begin_ns = FG_HOUR_NS, end_ns = begin_ns + 20 * FG_SECOND_NS;
    struct ing_spans spans = {0};

    (void)state;
    ing_spans_add(&spans, 0, 1, start_ns);
    ing_spans_add(&spans, 1, 1, start_ns);
    (void)ing_spans_release(&spans, begin_ns);
    assert_true(ing_spans_hold(&spans, 5, begin_ns + FG_HOUR_NS));
    assert_true(ing_spans_hold(&spans, 6, end_ns));
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 0, 1, 2);
    put_back_held(&spans, both, 2);
    (void)ing_spans_release(&spans, end_ns - 1);
    assert_null(ing_spans_take(&spans, OUTBOX_FRESH, start_ns));
    /* Another span has asked for the tenant meanwhile. */
    assert_true(ing_spans_hold(&spans, 6, end_ns + FG_MINUTE_NS));
    (void)ing_spans_release(&spans, end_ns + FG_SECOND_NS);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 0, 1, 2);
    /* Both are still held: nobody reads it again at once. */
    put_back_held(&spans, both, 2);
    assert_null(ing_spans_take(&spans, OUTBOX_FRESH, start_ns));
    (void)ing_spans_release(&spans, end_ns + 2 * FG_MINUTE_NS);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 0, 1, 2);
    put_back_held(&spans, one, 2);
    (void)ing_spans_release(&spans, begin_ns + FG_HOUR_NS - 1);
    assert_null(ing_spans_take(&spans, OUTBOX_FRESH, start_ns));
    (void)ing_spans_release(&spans, begin_ns + FG_HOUR_NS);
    assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), 0, 1, 2);
    ing_spans_done(&spans);
}

static void spans_of_different_tenants_stay_apart(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    for (uint64_t seq = 0; seq < 4; seq++) {
        ing_spans_add(&spans, seq, 1, start_ns);
        assert_span(ing_spans_take(&spans, OUTBOX_FRESH, start_ns), seq, seq, 1);
    }
    put_back_of(&spans, 0, 1);
    put_back_of(&spans, 1, 1);
    assert_int_equal(ing_spans_count(&spans), 3); /* joined */
    put_back_of(&spans, 2, 2);
    put_back_of(&spans, 3, 0);
    assert_int_equal(ing_spans_count(&spans), 3);
    ing_spans_done(&spans);
}

static void holds_are_bounded(void **state)
{
    struct ing_spans spans = {0};

    (void)state;
    for (uint32_t tenant = 0; tenant < OUTBOX_HOLDS_MAX; tenant++)
        assert_true(ing_spans_hold(&spans, tenant, 100 + tenant));
    assert_false(ing_spans_hold(&spans, OUTBOX_HOLDS_MAX, 1000));
    assert_true(ing_spans_hold(&spans, 3, 1000)); /* it is held already */
    assert_int_equal(spans.n_holds, OUTBOX_HOLDS_MAX);
    assert_int_equal(ing_spans_release(&spans, 100 + OUTBOX_HOLDS_MAX), 1000);
    assert_int_equal(spans.n_holds, 1);
    assert_true(ing_spans_holds(&spans, 3));
    assert_false(ing_spans_holds(&spans, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(span_ends_at_its_limits),
        cmocka_unit_test(fresh_spans_go_newest_first_and_the_backlog_oldest_first),
        cmocka_unit_test(fresh_span_that_nobody_takes_becomes_backlog),
        cmocka_unit_test(clock_that_is_set_holds_up_nothing),
        cmocka_unit_test(taken_span_does_not_grow),
        cmocka_unit_test(what_is_left_of_a_span_waits_again),
        cmocka_unit_test(small_spans_that_come_back_become_one),
        cmocka_unit_test(first_spans_that_wait_are_dropped_and_taken_ones_stay),
        cmocka_unit_test(sums_agree_with_a_list_of_all_entries),
        cmocka_unit_test(held_spans_are_in_nobodys_way),
        cmocka_unit_test(spans_of_different_tenants_stay_apart),
        cmocka_unit_test(held_tenant_waits_for_no_other),
        cmocka_unit_test(holds_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
