/* A shelf against a plain list, with things that come and go at random. */
#include "common/base/hash.h"
#include "ingester/catalog/shelf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { THINGS = 3000, STEPS = 20000 };

struct thing {
    uint64_t hash;
    bool here;
};

static uint32_t place_of(const struct ing_shelf *shelf, const struct thing *thing)
{
    struct fg_map_walk walk;

    for (uint32_t i = ing_shelf_first(shelf, thing->hash, &walk); i != FG_MAP_NONE;
         i = ing_shelf_next(shelf, &walk))
        if (shelf->places[i].item == thing)
            return i;
    return FG_MAP_NONE;
}

static void check(const struct ing_shelf *shelf, const struct thing *things)
{
    uint32_t here = 0, found = 0;

    for (size_t i = 0; i < THINGS; i++) {
        assert_int_equal(place_of(shelf, &things[i]) != FG_MAP_NONE, things[i].here);
        here += things[i].here;
    }
    for (uint32_t i = 0; i < shelf->count; i++)
        found += shelf->places[i].item != NULL;
    assert_int_equal(found, here);
    assert_int_equal(ing_shelf_items(shelf), here);
}

static void things_come_and_go(void **state)
{
    static struct thing things[THINGS];
    struct ing_shelf shelf = {0};
    uint64_t random = 1;
    size_t most;

    (void)state;
    for (size_t i = 0; i < THINGS; i++)
        things[i].hash = fg_mix64(i / 2); /* two of each */
    for (int step = 0; step < STEPS; step++) {
        struct thing *thing;

        random = fg_mix64(random + 1);
        /* In the first half most come, in the second most go. */
        thing = &things[(random >> 8) % THINGS];
        if (thing->here && (step < STEPS / 2) == (random % 4 == 0))
            ing_shelf_remove(&shelf, place_of(&shelf, thing));
        else if (!thing->here && (step < STEPS / 2) == (random % 4 != 0)) {
            size_t will = ing_shelf_bytes(&shelf) + ing_shelf_growth(&shelf);

            ing_shelf_add(&shelf, thing->hash, thing);
            assert_int_equal(ing_shelf_bytes(&shelf), will);
        } else
            continue;
        thing->here = !thing->here;
        if (random >> 8 & 1)
            ing_shelf_tidy(&shelf);
        if (step % 1000 == 0)
            check(&shelf, things);
    }
    check(&shelf, things);
    most = ing_shelf_bytes(&shelf);
    for (size_t i = 0; i < THINGS; i++)
        if (things[i].here)
            ing_shelf_remove(&shelf, place_of(&shelf, &things[i]));
    ing_shelf_tidy(&shelf);
    assert_true(most > 0);
    assert_int_equal(ing_shelf_bytes(&shelf), 0); /* an empty one takes nothing */
    assert_int_equal(ing_shelf_items(&shelf), 0);
    ing_shelf_done(&shelf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(things_come_and_go)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
