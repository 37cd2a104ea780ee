/* Base64url has one text for each sequence of bytes, and no other text passes. */
#include "common/base/base64url.h"
#include "common/base/str.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void bytes_survive_and_agree_with_the_lenient_reader(void **state)
{
    struct fg_buf text;
    uint8_t bytes[64], strict[64], lenient[66];
    size_t len;

    (void)state;
    fg_buf_init(&text, 100);
    for (size_t n = 0; n < sizeof bytes; n++) {
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)(251 * i + 89 * n + (i << 3));
        fg_buf_clear(&text);
        fg_base64url_put(&text, fg_bytes(bytes, n));
        assert_int_equal(fg_base64url_size(text.len), n);
        assert_true(fg_base64url_parse(fg_buf_slice(&text), strict));
        assert_memory_equal(strict, bytes, n);
        assert_true(fg_parse_base64(fg_buf_slice(&text), lenient, &len));
        assert_int_equal(len, n);
        assert_memory_equal(lenient, bytes, n);
    }
    fg_buf_done(&text);
}

static void other_text_is_refused(void **state)
{
    static const char *const cases[] = {"A",    "AAAAA", "AA==",   "AAA=",     "A A",
                                        "AA\n", "+AAA",  "/AAA",   "AAA.",     "AB",
                                        "AAB",  "_-8x9", "AAAAA=", "\xc3\xa9g"};
    uint8_t out[16];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i]);
        assert_false(fg_base64url_parse(fg_cstr(cases[i]), out));
    }
}

/* Of all texts of two and three characters exactly one stands for each byte or pair. */
static void no_two_texts_have_the_same_bytes(void **state)
{
    bool seen[256] = {false};
    unsigned n = 0;

    (void)state;
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++) {
            uint8_t text[2] = {(uint8_t)a, (uint8_t)b}, byte;

            if (!fg_base64url_parse(fg_bytes(text, 2), &byte))
                continue;
            assert_false(seen[byte]);
            seen[byte] = true;
            n++;
        }
    assert_int_equal(n, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_survive_and_agree_with_the_lenient_reader),
        cmocka_unit_test(other_text_is_refused),
        cmocka_unit_test(no_two_texts_have_the_same_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
