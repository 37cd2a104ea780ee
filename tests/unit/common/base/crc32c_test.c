#include "common/base/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* RFC 3720, B.4, read as numbers. */
static void crc32c_matches_the_standard(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32];

    (void)state;
    memset(ones, 0xff, sizeof ones);
    for (uint8_t i = 0; i < 32; i++)
        up[i] = i;
    assert_int_equal(fg_crc32c(FG_LIT("")), 0);
    assert_int_equal(fg_crc32c(FG_LIT("123456789")), 0xe3069283);
    assert_int_equal(fg_crc32c(fg_bytes(zeros, 32)), 0x8a9136aa);
    assert_int_equal(fg_crc32c(fg_bytes(ones, 32)), 0x62a8ab43);
    assert_int_equal(fg_crc32c(fg_bytes(up, 32)), 0x46dd794e);
}

static void crc32c_is_equal_in_pieces_and_without_the_instruction(void **state)
{
    uint8_t bytes[100];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 37 + 11);
    for (size_t len = 0; len <= sizeof bytes; len++) {
        uint32_t whole = fg_crc32c(fg_bytes(bytes, len));

        assert_int_equal(fg_crc32c_table(0, fg_bytes(bytes, len)), whole);
        for (size_t cut = 0; cut <= len; cut++) {
            uint32_t front = fg_crc32c(fg_bytes(bytes, cut));

            assert_int_equal(fg_crc32c_more(front, fg_bytes(bytes + cut, len - cut)), whole);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_matches_the_standard),
        cmocka_unit_test(crc32c_is_equal_in_pieces_and_without_the_instruction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
