#include "common/base/hash.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/*
 * Hashes are on disk and in ring positions: they must never change, whatever libxxhash is
 * installed. XXH3 is frozen since libxxhash 0.8.0.
 */
static void hashes_are_those_of_xxh3(void **state)
{
    struct fg_id id = fg_hash128(FG_LIT("abc"));

    (void)state;
    assert_true(fg_hash64(fg_bytes(NULL, 0)) == UINT64_C(0x2d06800538d394c2));
    assert_true(fg_hash64(FG_LIT("abc")) == UINT64_C(0x78af5f94892f3950));
    assert_true(id.hi == UINT64_C(0x06b05ab6733a6185));
    assert_true(id.lo == UINT64_C(0x78af5f94892f3950));
    id = fg_hash128(fg_bytes(NULL, 0));
    assert_true(id.hi == UINT64_C(0x99aa06d3014798d8));
    assert_true(id.lo == UINT64_C(0x6001c324468d497f));
}

static void seeds_separate_domains(void **state)
{
    struct fg_id plain = fg_hash128(FG_LIT("abc"));

    (void)state;
    assert_true(fg_id_eq(fg_hash128_seed(FG_LIT("abc"), 0), plain));
    assert_false(fg_id_eq(fg_hash128_seed(FG_LIT("abc"), 1), plain));
}

static void ids_add_with_carry(void **state)
{
    static const struct {
        struct fg_id a, b, sum;
    } cases[] = {
        {{1, 0}, {2, 0}, {3, 0}},
        {{UINT64_MAX, 0}, {1, 0}, {0, 1}},
        {{UINT64_MAX, UINT64_MAX}, {1, 0}, {0, 0}}, /* modulo 2^128 */
        {{5, 7}, {UINT64_MAX, 1}, {4, 9}},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        assert_true(fg_id_eq(fg_id_add(cases[i].a, cases[i].b), cases[i].sum));
        assert_true(fg_id_eq(fg_id_add(cases[i].b, cases[i].a), cases[i].sum));
        assert_true(fg_id_eq(fg_id_sub(cases[i].sum, cases[i].b), cases[i].a));
        assert_true(fg_id_eq(fg_id_sub(cases[i].sum, cases[i].a), cases[i].b));
    }
}

static void ids_compare_as_numbers(void **state)
{
    static const struct fg_id sorted[] = {{0, 0}, {1, 0}, {UINT64_MAX, 0}, {0, 1}, {1, 1}, {0, 2}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(sorted); i++) {
        assert_int_equal(fg_id_is_zero(sorted[i]), i == 0);
        for (size_t k = 0; k < FG_COUNT(sorted); k++)
            assert_int_equal(fg_id_cmp(sorted[i], sorted[k]), (i > k) - (i < k));
    }
}

static void ids_are_read_back_from_bytes(void **state)
{
    static const char want[] = "\x08\x07\x06\x05\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11";
    struct fg_id id = {UINT64_C(0x0102030405060708), UINT64_C(0x1112131415161718)};
    uint8_t bytes[FG_ID_BYTES];

    (void)state;
    fg_id_put(bytes, id);
    assert_memory_equal(bytes, want, FG_ID_BYTES);
    assert_true(fg_id_eq(fg_id_get(bytes), id));
}

static void mix_is_splitmix64s(void **state)
{
    (void)state;
    assert_true(fg_mix64(0) == 0);
    /* The first number of SplitMix64 with seed 0: the finaliser of the golden gamma. */
    assert_true(fg_mix64(UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0xe220a8397b1dcdaf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_those_of_xxh3),     cmocka_unit_test(seeds_separate_domains),
        cmocka_unit_test(ids_add_with_carry),           cmocka_unit_test(ids_compare_as_numbers),
        cmocka_unit_test(ids_are_read_back_from_bytes), cmocka_unit_test(mix_is_splitmix64s),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
