#include "distributor/scrape/scrape_slots.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WANTS = 32 };

struct want {
    struct dist_scrape_slot slot;
    unsigned served; /* position in the order of service, from 1 */
};

static struct dist_scrape_slots slots;
static struct want wants[WANTS];
static unsigned n_served;

static void on_slot(struct dist_scrape_slot *slot)
{
    fg_container(slot, struct want, slot)->served = ++n_served;
}

static void begin(unsigned max)
{
    memset(wants, 0, sizeof wants);
    for (size_t i = 0; i < WANTS; i++)
        wants[i].slot.on_slot = on_slot;
    n_served = 0;
    dist_scrape_slots_init(&slots, max);
}

static void ask(size_t i, bool failing)
{
    wants[i].slot.failing = failing;
    dist_scrape_slots_request(&slots, &wants[i].slot);
}

static void slots_are_limited_and_given_in_order(void **state)
{
    (void)state;
    begin(2);
    for (size_t i = 0; i < 5; i++)
        ask(i, false);
    assert_int_equal(n_served, 2);
    assert_int_equal(slots.healthy.n, 3);
    dist_scrape_slots_release(&slots, &wants[3].slot); /* gives up waiting */
    dist_scrape_slots_release(&slots, &wants[1].slot);
    assert_int_equal(wants[2].served, 3);
    dist_scrape_slots_release(&slots, &wants[0].slot);
    assert_int_equal(wants[4].served, 4);
    assert_int_equal(wants[3].served, 0);
    dist_scrape_slots_release(&slots, &wants[2].slot);
    dist_scrape_slots_release(&slots, &wants[4].slot);
    dist_scrape_slots_release(&slots, &wants[4].slot); /* has no slot and does not wait */
    assert_int_equal(slots.taken, 0);
}

static void failing_scrapes_have_a_quarter_of_the_slots(void **state)
{
    (void)state;
    begin(8);
    for (size_t i = 0; i < 10; i++)
        ask(i, true);
    assert_int_equal(slots.taken, 2);
    for (size_t i = 10; i < 20; i++)
        ask(i, false);
    assert_int_equal(slots.taken, 8);
    assert_int_equal(slots.failing_taken, 2);
    dist_scrape_slots_release(&slots, &wants[0].slot); /* working targets come first */
    assert_int_equal(slots.failing_taken, 1);
    assert_int_equal(slots.healthy.n, 3);
    for (size_t i = 10; i < 20; i++)
        dist_scrape_slots_release(&slots, &wants[i].slot);
    assert_int_equal(slots.taken, 2);
    for (size_t i = 1; i < 10; i++)
        dist_scrape_slots_release(&slots, &wants[i].slot);
    assert_int_equal(slots.taken + slots.failing_taken + slots.failing.n, 0);
}

/* A target may begin or stop to fail while it holds a slot. */
static void a_released_slot_leaves_the_count_it_was_taken_from(void **state)
{
    (void)state;
    begin(1);
    ask(0, false);
    wants[0].slot.failing = true;
    dist_scrape_slots_release(&slots, &wants[0].slot);
    assert_int_equal(slots.failing_taken, 0);
    ask(0, true);
    assert_int_equal(slots.failing_taken, 1); /* one failing target always gets a slot */
    wants[0].slot.failing = false;
    dist_scrape_slots_release(&slots, &wants[0].slot);
    assert_int_equal(slots.failing_taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_limited_and_given_in_order),
        cmocka_unit_test(failing_scrapes_have_a_quarter_of_the_slots),
        cmocka_unit_test(a_released_slot_leaves_the_count_it_was_taken_from),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
