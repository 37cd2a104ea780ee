#include "common/storage/cache/cache.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ENTRY_BYTES = 1000, ENTRIES = 100, HEAVY = 1, LIGHT = 2, OTHER = 3 };

static unsigned n_freed;

static void freed(void *value)
{
    (void)value;
    n_freed++;
}

struct world {
    struct fg_clock_manual clock;
    struct fg_cache *cache;
};

/* Room for about ENTRIES entries, less what each costs besides. */
static void world_init(struct world *world)
{
    fg_clock_manual_init(&world->clock, FG_HOUR_NS);
    world->cache = fg_cache_create((uint64_t)ENTRIES * ENTRY_BYTES, &world->clock.clock);
}

/* Uses an entry, which is made if it is not there. Returns whether it was there. */
static bool use(struct world *world, uint64_t owner, uint32_t number)
{
    const struct fg_cache_key key = {.part = (uint32_t)owner, .number = number};
    enum fg_cache_state state;
    bool mine;
    struct fg_cache_entry *entry = fg_cache_open(world->cache, &key, owner, &state, &mine);

    if (mine)
        fg_cache_fill(entry, &n_freed, ENTRY_BYTES, freed);
    fg_cache_unref(entry);
    return !mine;
}

static unsigned count_there(struct world *world, uint64_t owner, uint32_t n)
{
    unsigned there = 0;

    for (uint32_t i = 0; i < n; i++)
        there += use(world, owner, i);
    return there;
}

static void an_owner_alone_fills_the_cache(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    for (uint32_t i = 0; i < 10 * ENTRIES; i++)
        assert_false(use(&world, HEAVY, i));
    assert_in_range(fg_cache_stats(world.cache).entries, ENTRIES * 3 / 4, ENTRIES);
    /* The least recently used ones are gone. */
    assert_true(use(&world, HEAVY, 10 * ENTRIES - 1));
    assert_false(use(&world, HEAVY, 0));
    fg_cache_destroy(world.cache);
}

/* However much another one reads. */
static void an_owner_with_less_than_its_share_loses_nothing(void **state)
{
    enum { FEW = 20 };
    struct world world;

    (void)state;
    world_init(&world);
    assert_int_equal(count_there(&world, LIGHT, FEW), 0);
    for (uint32_t i = 0; i < 100 * ENTRIES; i++)
        (void)use(&world, HEAVY, i);
    assert_int_equal(count_there(&world, LIGHT, FEW), FEW);
    fg_cache_destroy(world.cache);
}

static void owners_that_read_much_get_the_same(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    for (uint32_t i = 0; i < 10 * ENTRIES; i++)
        (void)use(&world, HEAVY, i);
    for (uint32_t i = 0; i < 10 * ENTRIES; i++) {
        (void)use(&world, LIGHT, i);
        (void)use(&world, OTHER, i % 5);
    }
    /* The small one has what it wants, and the other two divide the rest. */
    assert_int_equal(count_there(&world, OTHER, 5), 5);
    for (uint64_t owner = HEAVY; owner <= LIGHT; owner++)
        assert_true(use(&world, owner, 10 * ENTRIES - ENTRIES / 3));
    fg_cache_destroy(world.cache);
}

/* Entries of each owner, as the cache tells owners apart. All are of the same size. */
static unsigned owned[FG_CACHE_OWNERS], n_evicted;
static bool dropping; /* by name, or all: no choice is made */

static unsigned *owned_by(uint64_t owner)
{
    return &owned[fg_mix64(owner) % FG_CACHE_OWNERS];
}

static void evicted(void *value)
{
    unsigned *of = value;

    n_evicted++;
    for (size_t i = 0; !dropping && i < FG_COUNT(owned); i++)
        assert_true(owned[i] <= *of);
    --*of;
}

/* Of ten thousand owners, some of which have most entries, in any order. */
static void the_largest_owner_gives(void **state)
{
    enum { OWNERS = 10000, ROOM = 5000, ADDED = 20000 };
    struct fg_clock_manual clock;
    struct fg_cache *cache;
    uint64_t random = 1;

    (void)state;
    fg_clock_manual_init(&clock, FG_HOUR_NS);
    cache = fg_cache_create((uint64_t)ROOM * ENTRY_BYTES, &clock.clock);
    memset(owned, 0, sizeof owned);
    n_evicted = 0;
    dropping = false;
    for (uint32_t i = 0; i < ADDED; i++) {
        const struct fg_cache_key key = {.number = i};
        enum fg_cache_state loading;
        bool mine;
        uint64_t owner = fg_mix64(random++) % OWNERS;

        if (random % 3 > 0)
            owner %= 1 + random % 30;
        struct fg_cache_entry *entry = fg_cache_open(cache, &key, owner, &loading, &mine);
        ++*owned_by(owner);
        fg_cache_fill(entry, owned_by(owner), ENTRY_BYTES, evicted);
        fg_cache_unref(entry);
        if (i % 100 == 99) { /* an entry goes that is not chosen, so that owners shrink otherwise */
            const struct fg_cache_key other = {.number = (uint32_t)(fg_mix64(random) % i)};

            dropping = true;
            fg_cache_drop(cache, &other);
            dropping = false;
        }
    }
    assert_true(n_evicted > ADDED / 2);
    dropping = true;
    fg_cache_destroy(cache);
    for (size_t i = 0; i < FG_COUNT(owned); i++)
        assert_int_equal(owned[i], 0);
}

/* An owner that has left does not keep its share. */
static void unused_objects_are_evicted_first(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    assert_int_equal(count_there(&world, LIGHT, 20), 0);
    fg_clock_manual_advance(&world.clock, FG_CACHE_STALE_NS + 1);
    for (uint32_t i = 0; i < 2 * ENTRIES; i++)
        (void)use(&world, HEAVY, i);
    assert_int_equal(count_there(&world, LIGHT, 20), 0);
    fg_cache_destroy(world.cache);
}

/* What the largest owner has is in use: something else has to go. */
/* Spared entries outlive any number of others, and spared ones do not take more than half. */
static void spared_entries_are_evicted_last(void **state)
{
    struct world world;

    (void)state;
    world_init(&world);
    for (uint32_t i = 0; i < 10 * ENTRIES; i++) {
        const struct fg_cache_key key = {.part = HEAVY, .number = i % 10};
        enum fg_cache_state found;
        bool mine;
        struct fg_cache_entry *entry;

        assert_false(use(&world, HEAVY, ENTRIES + i));
        if (i >= 10)
            continue;
        entry = fg_cache_open(world.cache, &key, HEAVY, &found, &mine);
        assert_true(mine);
        fg_cache_fill(entry, &n_freed, ENTRY_BYTES, freed);
        fg_cache_spare(entry);
        fg_cache_unref(entry);
    }
    assert_int_equal(count_there(&world, HEAVY, 10), 10);
    for (uint32_t i = 0; i < 10 * ENTRIES; i++) {
        const struct fg_cache_key key = {.part = OTHER, .number = i};
        enum fg_cache_state found;
        bool mine;
        struct fg_cache_entry *entry = fg_cache_open(world.cache, &key, HEAVY, &found, &mine);

        fg_cache_fill(entry, &n_freed, ENTRY_BYTES, freed);
        fg_cache_spare(entry);
        fg_cache_unref(entry);
    }
    for (uint32_t i = 1; i <= ENTRIES / 3; i++)
        assert_true(use(&world, HEAVY, 11 * ENTRIES - i));
    fg_cache_destroy(world.cache);
}

static void referenced_entries_stay(void **state)
{
    const struct fg_cache_key key = {.part = HEAVY};
    struct fg_cache_entry *held;
    enum fg_cache_state is;
    struct world world;
    bool mine;

    (void)state;
    world_init(&world);
    held = fg_cache_open(world.cache, &key, HEAVY, &is, &mine);
    fg_cache_fill(held, &n_freed, (size_t)ENTRIES * ENTRY_BYTES * 9 / 10, freed);
    for (uint32_t i = 0; i < ENTRIES; i++)
        (void)use(&world, LIGHT, i);
    assert_true(fg_cache_stats(world.cache).bytes <= (uint64_t)ENTRIES * ENTRY_BYTES);
    assert_ptr_equal(fg_cache_value(held), &n_freed);
    fg_cache_unref(held);
    fg_cache_destroy(world.cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_owner_alone_fills_the_cache),
        cmocka_unit_test(an_owner_with_less_than_its_share_loses_nothing),
        cmocka_unit_test(owners_that_read_much_get_the_same),
        cmocka_unit_test(the_largest_owner_gives),
        cmocka_unit_test(unused_objects_are_evicted_first),
        cmocka_unit_test(spared_entries_are_evicted_last),
        cmocka_unit_test(referenced_entries_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
