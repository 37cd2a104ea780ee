#include "common/base/hash.h"
#include "common/base/map.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PAIRS_MAX = 3000 };

/* The slow and obvious map: all pairs in a row. */
struct slow {
    uint64_t hashes[PAIRS_MAX];
    uint32_t count; /* values are 0, 1, 2 ... */
};

/* How many values of that hash there are, and their sum and sum of squares: equal sets agree. */
struct summary {
    uint64_t count, sum, squares;
};

static void note(struct summary *summary, uint64_t value)
{
    summary->count++;
    summary->sum += value;
    summary->squares += value * value;
}

static struct summary ask_slow(const struct slow *slow, uint64_t hash)
{
    struct summary summary = {0};

    for (uint32_t i = 0; i < slow->count; i++)
        if (slow->hashes[i] == hash)
            note(&summary, i);
    return summary;
}

static struct summary ask_map(const struct fg_map *map, uint64_t hash)
{
    struct summary summary = {0};
    struct fg_map_walk walk;

    for (uint32_t value = fg_map_first(map, hash, &walk); value != FG_MAP_NONE;
         value = fg_map_next(map, &walk))
        note(&summary, value);
    return summary;
}

/* Few different hashes that agree in their low bits: long probes, wrap-around, many of one hash. */
static uint64_t some_hash(uint64_t *random, bool clustered)
{
    *random = fg_mix64(*random + UINT64_C(0x9e3779b97f4a7c15));
    return clustered ? (*random % 13) << 32 | UINT64_C(0xfffffff0) | (*random >> 60) : *random;
}

static void map_equals_the_slow_map(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct slow slow = {.count = 0};
        uint64_t random = seed;
        struct fg_map map;

        print_message("  seed %llu\n", (unsigned long long)seed);
        fg_map_init(&map);
        for (uint32_t i = 0; i < 100 * seed; i++) {
            uint64_t hash = some_hash(&random, seed % 2 == 0);

            size_t will = fg_map_bytes(&map) + fg_map_growth(&map);

            slow.hashes[slow.count] = hash;
            fg_map_add(&map, hash, slow.count++);
            assert_int_equal(fg_map_bytes(&map), will);
        }
        assert_int_equal(map.count, slow.count);
        for (uint32_t i = 0; i < 200; i++) {
            uint64_t hash = i < 100 ? slow.hashes[i] : some_hash(&random, seed % 2 == 0);
            struct summary want = ask_slow(&slow, hash), got = ask_map(&map, hash);

            assert_memory_equal(&got, &want, sizeof want);
        }
        fg_map_done(&map);
    }
}

static void empty_map_has_no_values(void **state)
{
    struct fg_map_walk walk;
    struct fg_map map;

    (void)state;
    fg_map_init(&map);
    assert_int_equal(fg_map_bytes(&map), 0);
    assert_true(fg_map_first(&map, 7, &walk) == FG_MAP_NONE);
    fg_map_prefetch(&map, 7);
    fg_map_clear(&map);
    fg_map_done(&map);
}

static void clear_keeps_the_table(void **state)
{
    struct fg_map_walk walk;
    struct fg_map map;
    size_t bytes;

    (void)state;
    fg_map_init(&map);
    for (uint32_t i = 0; i < 100; i++)
        fg_map_add(&map, fg_mix64(i + 1), i);
    bytes = fg_map_bytes(&map);
    fg_map_clear(&map);
    assert_int_equal(map.count, 0);
    assert_int_equal(fg_map_bytes(&map), bytes);
    for (uint32_t i = 0; i < 100; i++)
        assert_true(fg_map_first(&map, fg_mix64(i + 1), &walk) == FG_MAP_NONE);
    fg_map_add(&map, 5, 9);
    assert_int_equal(fg_map_first(&map, 5, &walk), 9);
    fg_map_done(&map);
}

static void reserved_room_is_enough(void **state)
{
    static const uint32_t counts[] = {0, 1, 12, 13, 24, 25, 1000, 3072, 3073};

    (void)state;
    for (size_t c = 0; c < FG_COUNT(counts); c++) {
        struct fg_map map;
        const struct fg_map_slot *table;

        fg_map_init(&map);
        fg_map_reserve(&map, counts[c]);
        table = map.slots;
        for (uint32_t i = 0; i < counts[c]; i++)
            fg_map_add(&map, fg_mix64(i), i);
        assert_ptr_equal(map.slots, table); /* did not grow on the way */
        assert_true((uint64_t)map.count * 4 <= ((uint64_t)map.mask + 1) * 3);
        fg_map_done(&map);
    }
}

static void in_an_arena_it_grows_to_the_limit(void **state)
{
    struct fg_arena *arena = fg_arena_create(40 * 1024);
    struct fg_map map = {0};
    struct fg_map_walk walk;
    uint32_t added = 0;

    (void)state;
    assert_true(fg_map_reserve_in(&map, arena, 100));
    while (fg_map_add_in(&map, arena, fg_mix64(added), added))
        added++;
    /* Tables of 256, 512 and 1024 slots of 16 bytes fit, one of 2048 does not. */
    assert_int_equal(added, 768);
    assert_int_equal(map.count, added);
    for (uint32_t i = 0; i < added; i++)
        assert_int_equal(fg_map_first(&map, fg_mix64(i), &walk), i);
    assert_true(fg_map_first(&map, fg_mix64(added), &walk) == FG_MAP_NONE);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_equals_the_slow_map),
        cmocka_unit_test(empty_map_has_no_values),
        cmocka_unit_test(clear_keeps_the_table),
        cmocka_unit_test(reserved_room_is_enough),
        cmocka_unit_test(in_an_arena_it_grows_to_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
