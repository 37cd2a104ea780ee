/* A table against a plain list, with things that come and go at random. */
#include "common/base/hash.h"
#include "ingester/catalog/hash_table.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { THINGS = 3000, STEPS = 20000 };

struct thing {
    uint64_t hash;
    bool here;
};

static uint32_t place_of(const struct ing_hash_table *table, const struct thing *thing)
{
    struct fg_map_walk walk;

    for (uint32_t i = ing_hash_table_first(table, thing->hash, &walk); i != FG_MAP_NONE;
         i = ing_hash_table_next(table, &walk))
        if (table->slots[i].item == thing)
            return i;
    return FG_MAP_NONE;
}

static void check(const struct ing_hash_table *table, const struct thing *things)
{
    uint32_t here = 0, found = 0;

    for (size_t i = 0; i < THINGS; i++) {
        assert_int_equal(place_of(table, &things[i]) != FG_MAP_NONE, things[i].here);
        here += things[i].here;
    }
    for (uint32_t i = 0; i < table->count; i++)
        found += table->slots[i].item != NULL;
    assert_int_equal(found, here);
    assert_int_equal(ing_hash_table_items(table), here);
}

static void items_are_added_found_and_removed(void **state)
{
    static struct thing things[THINGS];
    struct ing_hash_table table = {0};
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
            ing_hash_table_remove(&table, place_of(&table, thing));
        else if (!thing->here && (step < STEPS / 2) == (random % 4 != 0)) {
            size_t will = ing_hash_table_bytes(&table) + ing_hash_table_growth(&table);

            ing_hash_table_add(&table, thing->hash, thing);
            assert_int_equal(ing_hash_table_bytes(&table), will);
        } else
            continue;
        thing->here = !thing->here;
        if (random >> 8 & 1)
            ing_hash_table_compact(&table);
        if (step % 1000 == 0)
            check(&table, things);
    }
    check(&table, things);
    most = ing_hash_table_bytes(&table);
    for (size_t i = 0; i < THINGS; i++)
        if (things[i].here)
            ing_hash_table_remove(&table, place_of(&table, &things[i]));
    ing_hash_table_compact(&table);
    assert_true(most > 0);
    assert_int_equal(ing_hash_table_bytes(&table), 0); /* an empty one takes nothing */
    assert_int_equal(ing_hash_table_items(&table), 0);
    ing_hash_table_done(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(items_are_added_found_and_removed)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
