#include "distributor/scrape/places.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WANTS = 32 };

struct want {
    struct dist_place place;
    unsigned served; /* the how manieth it was */
};

static struct dist_places places;
static struct want wants[WANTS];
static unsigned n_served;

static void on_place(struct dist_place *place)
{
    fg_container(place, struct want, place)->served = ++n_served;
}

static void begin(unsigned max)
{
    memset(wants, 0, sizeof wants);
    for (size_t i = 0; i < WANTS; i++)
        wants[i].place.on_place = on_place;
    n_served = 0;
    dist_places_init(&places, max);
}

static void ask(size_t i, bool doubtful)
{
    wants[i].place.doubtful = doubtful;
    dist_places_ask(&places, &wants[i].place);
}

static void so_many_have_one_and_others_wait_in_order(void **state)
{
    (void)state;
    begin(2);
    for (size_t i = 0; i < 5; i++)
        ask(i, false);
    assert_int_equal(n_served, 2);
    assert_int_equal(places.sound.n, 3);
    dist_places_leave(&places, &wants[3].place); /* does not want it any more */
    dist_places_leave(&places, &wants[1].place);
    assert_int_equal(wants[2].served, 3);
    dist_places_leave(&places, &wants[0].place);
    assert_int_equal(wants[4].served, 4);
    assert_int_equal(wants[3].served, 0);
    dist_places_leave(&places, &wants[2].place);
    dist_places_leave(&places, &wants[4].place);
    dist_places_leave(&places, &wants[4].place); /* has none */
    assert_int_equal(places.taken, 0);
}

static void those_that_failed_have_a_quarter(void **state)
{
    (void)state;
    begin(8);
    for (size_t i = 0; i < 10; i++)
        ask(i, true);
    assert_int_equal(places.taken, 2);
    for (size_t i = 10; i < 20; i++)
        ask(i, false);
    assert_int_equal(places.taken, 8);
    assert_int_equal(places.doubtful_taken, 2);
    dist_places_leave(&places, &wants[0].place); /* the sound ones come first */
    assert_int_equal(places.doubtful_taken, 1);
    assert_int_equal(places.sound.n, 3);
    for (size_t i = 10; i < 20; i++)
        dist_places_leave(&places, &wants[i].place);
    assert_int_equal(places.taken, 2);
    for (size_t i = 1; i < 10; i++)
        dist_places_leave(&places, &wants[i].place);
    assert_int_equal(places.taken + places.doubtful_taken + places.doubtful.n, 0);
}

/* It may have become another one while it held a place. */
static void a_place_is_given_back_as_it_was_taken(void **state)
{
    (void)state;
    begin(1);
    ask(0, false);
    wants[0].place.doubtful = true;
    dist_places_leave(&places, &wants[0].place);
    assert_int_equal(places.doubtful_taken, 0);
    ask(0, true);
    assert_int_equal(places.doubtful_taken, 1); /* at least one may */
    wants[0].place.doubtful = false;
    dist_places_leave(&places, &wants[0].place);
    assert_int_equal(places.doubtful_taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(so_many_have_one_and_others_wait_in_order),
        cmocka_unit_test(those_that_failed_have_a_quarter),
        cmocka_unit_test(a_place_is_given_back_as_it_was_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
