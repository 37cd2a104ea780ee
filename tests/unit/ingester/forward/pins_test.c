/* Pins: a group is pinned while an entry that names it is pending for any target, and not for long
 * after; and groups that nothing names any more take no memory. */
#include "ingester/forward/pins.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct ing_head_group_key groups[] = {{1, 2, 3}, {1, 2, 4}, {1, 3, 3}, {2, 2, 3}};

struct fixture {
    struct ing_spans of[2];
    const struct ing_spans *spans[2];
    struct ing_pins pins;
};

static void init(struct fixture *f)
{
    *f = (struct fixture){.spans = {&f->of[0], &f->of[1]}};
}

static void done(struct fixture *f)
{
    ing_spans_done(&f->of[0]);
    ing_spans_done(&f->of[1]);
    ing_pins_done(&f->pins);
}

static void add(struct fixture *f, unsigned target, uint64_t seq,
                const struct ing_head_group_key *group)
{
    ing_spans_add(&f->of[target], seq, OUTBOX_SPAN_MAX_BYTES, 0); /* each is a span */
    ing_pins_add(&f->pins, group, target, seq, f->spans);
}

static void take_away(struct fixture *f, unsigned target)
{
    const struct ing_span *span = ing_spans_take(&f->of[target], OUTBOX_BACKLOG, FG_HOUR_NS);

    assert_non_null(span);
    ing_spans_remove(&f->of[target], ing_spans_find(&f->of[target], span->first));
}

static void group_is_pinned_while_any_target_waits_for_it(void **state)
{
    struct fixture f;

    (void)state;
    init(&f);
    add(&f, 0, 1, &groups[0]);
    add(&f, 1, 1, &groups[0]);
    for (size_t i = 0; i < FG_COUNT(groups); i++)
        assert_int_equal(ing_pins_has(&f.pins, &groups[i], f.spans), i == 0);
    take_away(&f, 0);
    assert_true(ing_pins_has(&f.pins, &groups[0], f.spans));
    take_away(&f, 1);
    assert_false(ing_pins_has(&f.pins, &groups[0], f.spans));
    done(&f);
}

static void group_is_pinned_by_its_own_entries_only(void **state)
{
    struct fixture f;

    (void)state;
    init(&f);
    add(&f, 0, 1, &groups[0]);
    add(&f, 0, 2, &groups[1]);
    take_away(&f, 0);
    assert_false(ing_pins_has(&f.pins, &groups[0], f.spans));
    assert_true(ing_pins_has(&f.pins, &groups[1], f.spans));
    /* It comes again: not from its first entry on, which is gone. */
    add(&f, 0, 3, &groups[0]);
    take_away(&f, 0);
    assert_true(ing_pins_has(&f.pins, &groups[0], f.spans));
    assert_false(ing_pins_has(&f.pins, &groups[1], f.spans));
    take_away(&f, 0);
    assert_false(ing_pins_has(&f.pins, &groups[0], f.spans));
    done(&f);
}

static void memory_is_that_of_groups_that_wait(void **state)
{
    struct fixture f;

    (void)state;
    init(&f);
    for (uint32_t i = 0; i < 100000; i++) {
        const struct ing_head_group_key group = {1, 2, i};

        add(&f, 0, i, &group);
        if (i >= 50)
            take_away(&f, 0);
        assert_true(ing_pins_has(&f.pins, &group, f.spans));
    }
    assert_true(f.pins.cap <= 256);
    for (uint32_t i = 100000 - 60; i < 100000; i++)
        assert_int_equal(ing_pins_has(&f.pins, &(struct ing_head_group_key){1, 2, i}, f.spans),
                         i >= 100000 - 50);
    done(&f);
}

/* A look has found that of the entries 1 to 3 only the second one is left; 4 and 5 came meanwhile.
 */
static void narrowed_pins_hold_what_was_found_and_what_came_since(void **state)
{
    struct ing_pins found = {0};
    struct fixture f;

    (void)state;
    init(&f);
    for (uint64_t seq = 1; seq <= 3; seq++)
        add(&f, 0, seq, &groups[seq == 2 ? 1 : 0]);
    add(&f, 1, 1, &groups[2]);
    ing_pins_add(&found, &groups[1], 0, 2, f.spans);
    add(&f, 0, 4, &groups[3]);
    ing_pins_narrow(&f.pins, 0, &found, 4);
    assert_false(ing_pins_has(&f.pins, &groups[0], f.spans));
    for (size_t i = 1; i < FG_COUNT(groups); i++)
        assert_true(ing_pins_has(&f.pins, &groups[i], f.spans));
    add(&f, 0, 5, &groups[0]);
    assert_true(ing_pins_has(&f.pins, &groups[0], f.spans));
    for (int i = 0; i < 4; i++)
        take_away(&f, 0);
    for (size_t i = 0; i < FG_COUNT(groups); i++) /* of the last one, and of the other target */
        assert_int_equal(ing_pins_has(&f.pins, &groups[i], f.spans), i == 0 || i == 2);
    ing_pins_done(&found);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(group_is_pinned_while_any_target_waits_for_it),
        cmocka_unit_test(group_is_pinned_by_its_own_entries_only),
        cmocka_unit_test(memory_is_that_of_groups_that_wait),
        cmocka_unit_test(narrowed_pins_hold_what_was_found_and_what_came_since),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
