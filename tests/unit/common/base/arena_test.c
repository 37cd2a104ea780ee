#include "common/base/arena.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void limit_is_exact(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(64);

    (void)state;
    assert_non_null(fg_arena_alloc(arena, 1)); /* counts as 16: everything is aligned */
    assert_int_equal(fg_arena_used_bytes(arena), 16);
    assert_null(fg_arena_alloc(arena, 49));
    assert_int_equal(fg_arena_used_bytes(arena), 16); /* a refusal takes nothing */
    assert_non_null(fg_arena_alloc(arena, 48));
    assert_null(fg_arena_alloc(arena, 1));
    assert_non_null(fg_arena_alloc(arena, 0));
}

static void sizes_that_overflow_are_refused(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

    (void)state;
    assert_null(fg_arena_alloc(arena, SIZE_MAX));
    assert_null(fg_arena_alloc(arena, SIZE_MAX - 15));
    assert_null(fg_arena_calloc(arena, SIZE_MAX / 8, 16));
    assert_null(fg_arena_text(arena, fg_bytes("", SIZE_MAX)));
    assert_int_equal(fg_arena_used_bytes(arena), 0);
}

static void no_limit_does_not_overflow_either(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(SIZE_MAX);

    (void)state;
    assert_null(fg_arena_alloc(arena, SIZE_MAX - 16)); /* with a block's head it would wrap */
    assert_int_equal(fg_arena_used_bytes(arena), 0);
}

/* Pieces of all sizes, each filled with its own byte: none overlaps another, all are aligned. */
static void allocations_do_not_overlap(void **state)
{
    enum { PIECES = 400 };
    fg_auto(fg_arena) *arena = fg_arena_create(64 << 20);
    uint8_t *pieces[PIECES];

    (void)state;
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = fg_arena_alloc(arena, i * 37);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        memset(pieces[i], (int)(i & 0xff), i * 37);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t k = 0; k < i * 37; k++)
            assert_int_equal(pieces[i][k], i & 0xff);
}

static void new_memory_is_zeroed_also_after_reset(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    uint64_t *numbers = fg_arena_new(arena, uint64_t, 100);

    (void)state;
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(numbers[i], 0);
    memset(numbers, 0xff, 800);
    fg_arena_reset(arena);
    assert_int_equal(fg_arena_used_bytes(arena), 0);
    numbers = fg_arena_new(arena, uint64_t, 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(numbers[i], 0);
}

static void reset_gives_the_whole_limit_back(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(8 << 20);

    (void)state;
    fg_arena_reset(arena); /* of an empty one */
    for (int i = 0; i < 3; i++) {
        assert_non_null(fg_arena_alloc(arena, 100));
        assert_non_null(fg_arena_alloc(arena, 6 << 20));
        assert_null(fg_arena_alloc(arena, 2 << 20));
        fg_arena_reset(arena);
    }
}

static void copies_keep_their_bytes(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1024);
    char source[] = "abc";
    struct fg_slice copy = fg_arena_copy(arena, fg_bytes(source, 3));
    char *text = fg_arena_text(arena, fg_bytes(source, 2));

    (void)state;
    source[0] = 'x';
    assert_true(fg_slice_is(copy, "abc"));
    assert_string_equal(text, "ab");
    assert_string_equal(fg_arena_text(arena, fg_bytes(NULL, 0)), "");
    assert_string_equal(fg_arena_printf(arena, "%s-%d", "n", 7), "n-7");
    copy = fg_arena_copy(arena, fg_bytes(NULL, 0));
    assert_non_null(copy.ptr); /* NULL would mean the limit */
    assert_int_equal(copy.len, 0);
    assert_null(fg_arena_printf(arena, "%2000d", 1));
    assert_null(fg_arena_copy(arena, fg_bytes(source, 2000)).ptr);
}

static void arrays_grow_and_keep_their_elements(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(8192);
    uint32_t *numbers = NULL;
    uint32_t count = 0, cap = 0;

    (void)state;
    for (; fg_arena_grow(arena, &numbers, count, 1, &cap, sizeof *numbers); count++)
        numbers[count] = count * 3;
    assert_int_equal(count, 1024); /* 64, 128, ... 1024 of 4 bytes; there is no room for 2048 */
    assert_int_equal(cap, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(numbers[i], i * 3);
    assert_true(fg_arena_grow(arena, &numbers, count, 0, &cap, sizeof *numbers));
    assert_false(fg_arena_grow(arena, &numbers, count, UINT32_MAX, &cap, sizeof *numbers));
    assert_false(fg_arena_grow(arena, &numbers, count, 1, &cap, SIZE_MAX));
    assert_int_equal(cap, count);
}

static void release_frees_allocations_since_the_mark(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_arena_mark nothing = fg_arena_mark(arena), some;
    char *text = fg_arena_text(arena, FG_LIT("kept"));

    (void)state;
    some = fg_arena_mark(arena);
    for (int i = 0; i < 3; i++) {
        assert_non_null(fg_arena_alloc(arena, 100)); /* in the block that is there */
        for (int k = 0; k < 9; k++)
            memset(fg_arena_calloc(arena, 1, 100000), 0xff, 100000);
        assert_null(fg_arena_alloc(arena, 200000));
        fg_arena_release(arena, some);
        assert_int_equal(fg_arena_used_bytes(arena), 16);
    }
    assert_string_equal(text, "kept");
    fg_arena_release(arena, nothing);
    assert_int_equal(fg_arena_used_bytes(arena), 0);
    assert_non_null(fg_arena_alloc(arena, 1000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limit_is_exact),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(no_limit_does_not_overflow_either),
        cmocka_unit_test(allocations_do_not_overlap),
        cmocka_unit_test(new_memory_is_zeroed_also_after_reset),
        cmocka_unit_test(reset_gives_the_whole_limit_back),
        cmocka_unit_test(copies_keep_their_bytes),
        cmocka_unit_test(release_frees_allocations_since_the_mark),
        cmocka_unit_test(arrays_grow_and_keep_their_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
