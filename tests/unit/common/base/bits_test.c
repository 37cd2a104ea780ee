/* A set of bits has what was added to it and was not removed, and nothing else. */
#include "common/base/bits.h"
#include "common/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NUMBERS = 130 }; /* two words and two bits */

static void words_suffice_for_the_last_number(void **state)
{
    (void)state;
    assert_int_equal(FG_BITS_WORDS(0), 0);
    assert_int_equal(FG_BITS_WORDS(1), 1);
    assert_int_equal(FG_BITS_WORDS(64), 1);
    assert_int_equal(FG_BITS_WORDS(65), 2);
    assert_int_equal(FG_BITS_WORDS(NUMBERS), 3);
}

static void random_changes_equal_those_of_an_array(void **state)
{
    uint64_t bits[FG_BITS_WORDS(NUMBERS)] = {0};
    bool want[NUMBERS] = {0};

    (void)state;
    for (uint64_t step = 0; step < 2000; step++) {
        size_t number = fg_mix64(step) % NUMBERS;

        want[number] = (fg_mix64(~step) & 1) != 0;
        if (want[number])
            fg_bits_set(bits, number);
        else
            fg_bits_clear(bits, number);
        for (size_t i = 0; i < NUMBERS; i++)
            assert_int_equal(fg_bits_has(bits, i), want[i]);
    }
}

static void ranks_count_what_is_before(void **state)
{
    uint64_t bits[FG_BITS_WORDS(NUMBERS)] = {0};
    uint32_t ranks[FG_BITS_WORDS(NUMBERS)] = {0}, want = 0;

    (void)state;
    for (size_t i = 0; i < NUMBERS; i++)
        if (fg_mix64(i) % 3 == 0)
            fg_bits_set(bits, i);
    for (size_t w = 1; w < FG_COUNT(ranks); w++)
        ranks[w] = ranks[w - 1] + (uint32_t)__builtin_popcountll(bits[w - 1]);
    for (size_t i = 0; i < NUMBERS; i++) {
        assert_int_equal(fg_bits_rank(bits, ranks, i), want);
        want += fg_bits_has(bits, i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_suffice_for_the_last_number),
        cmocka_unit_test(ranks_count_what_is_before),
        cmocka_unit_test(random_changes_equal_those_of_an_array),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
