#include "proto/ids.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct shape {
    const char *name;
    uint64_t first, step; /* ids are first + i * step, modulo 2^64 */
    uint32_t count;
    bool backwards;
    bool counted, close; /* how they are found */
};

static const struct shape shapes[] = {
    {"none", 0, 0, 0, false, true, false},
    {"counted", 1, 1, 100, false, true, false},
    {"one", 1, 1, 1, false, true, false},
    {"from zero", 0, 1, 100, false, false, true},
    {"counted backwards", 1, 1, 100, true, false, true},
    {"with gaps", 1, 3, 100, false, false, true},
    {"with large gaps", 1, 5, 1000, false, false, false},
    {"far up", 1u << 24, 1, 1000, false, false, false},
    {"up to the largest", UINT64_MAX - 999, 1, 1000, false, false, false},
    {"the largest alone", UINT64_MAX, 1, 1, false, false, false},
    {"spread", 7, UINT64_C(0x9e3779b97f4a7c15), 2000, false, false, false},
    {"all on one place of a table", 0, UINT64_C(1) << 32, 2000, false, false, false},
};

static uint64_t id_at(const struct shape *shape, uint32_t number)
{
    uint32_t i = shape->backwards ? shape->count - 1 - number : number;

    return shape->first + i * shape->step;
}

static void fill(struct fg_ids *ids, struct fg_arena *arena, const struct shape *shape)
{
    fg_ids_clear(ids);
    assert_true(fg_ids_reserve(ids, arena, shape->count / 2));
    for (uint32_t i = 0; i < shape->count; i++) {
        if (i == shape->count / 2)
            assert_true(fg_ids_reserve(ids, arena, shape->count - i));
        fg_ids_add(ids, id_at(shape, i));
    }
    assert_true(fg_ids_ready(ids, arena));
}

static void check(const struct fg_ids *ids, const struct shape *shape)
{
    static const uint64_t absent[] = {2, 101, 3000, UINT64_C(1) << 40, UINT64_MAX - 5000};

    for (uint32_t i = 0; i < shape->count; i++)
        assert_int_equal(fg_ids_find(ids, id_at(shape, i)), i);
    for (size_t a = 0; a < FG_COUNT(absent); a++) {
        bool there = false;

        for (uint32_t i = 0; i < shape->count; i++)
            there |= id_at(shape, i) == absent[a];
        if (!there)
            assert_true(fg_ids_find(ids, absent[a]) == FG_IDS_NONE);
    }
}

static void every_shape_is_found(void **state)
{
    (void)state;
    for (size_t s = 0; s < FG_COUNT(shapes); s++) {
        struct fg_arena *arena = fg_arena_create(1 << 20);
        struct fg_ids ids = {0};

        print_message("  %s\n", shapes[s].name);
        fill(&ids, arena, &shapes[s]);
        check(&ids, &shapes[s]);
        assert_int_equal(ids.counted, shapes[s].counted);
        if (!ids.counted)
            assert_int_equal(ids.close, shapes[s].close);
        fg_arena_destroy(arena);
    }
}

/* One after the other in the same memory, each after each. */
static void memory_is_reused(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_ids ids = {0};
    size_t used = 0;

    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        for (size_t s = 0; s < FG_COUNT(shapes); s++) {
            fill(&ids, arena, &shapes[(s * 5 + round) % FG_COUNT(shapes)]);
            check(&ids, &shapes[(s * 5 + round) % FG_COUNT(shapes)]);
        }
        if (round == 12)
            used = fg_arena_used_bytes(arena);
    }
    assert_int_equal(fg_arena_used_bytes(arena), used);
    fg_arena_destroy(arena);
}

static void of_equal_ids_the_first_counts(void **state)
{
    static const uint64_t some[] = {5, 1, 5, 1, 9}, far[] = {1u << 20, 7, 1u << 20, 7, 1u << 30};
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_ids ids = {0};

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        const uint64_t *all = round == 0 ? some : far;

        fg_ids_clear(&ids);
        assert_true(fg_ids_reserve(&ids, arena, FG_COUNT(some)));
        for (size_t i = 0; i < FG_COUNT(some); i++)
            fg_ids_add(&ids, all[i]);
        assert_true(fg_ids_ready(&ids, arena));
        for (size_t i = 0; i < FG_COUNT(some); i++)
            assert_int_equal(fg_ids_find(&ids, all[i]), i == 4 ? 4 : i % 2);
    }
    fg_arena_destroy(arena);
}

static void the_arena_sets_the_limit(void **state)
{
    struct fg_arena *arena = fg_arena_create(1024);
    struct fg_ids ids = {0};

    (void)state;
    assert_false(fg_ids_reserve(&ids, arena, 1000));
    assert_false(fg_ids_reserve(&ids, arena, UINT32_MAX));
    assert_true(fg_ids_reserve(&ids, arena, 100));
    for (uint32_t i = 0; i < 100; i++)
        fg_ids_add(&ids, i << 20);
    assert_false(fg_ids_ready(&ids, arena)); /* a map of 256 slots */
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_is_found),
        cmocka_unit_test(memory_is_reused),
        cmocka_unit_test(of_equal_ids_the_first_counts),
        cmocka_unit_test(the_arena_sets_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
