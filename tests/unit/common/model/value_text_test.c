#include "common/model/drawing.h"
#include "common/model/value_text.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void values_have_units(void **state)
{
    static const struct {
        int64_t value;
        const char *unit, *want;
    } cases[] = {
        {0, "nanoseconds", "0ns"},
        {999, "nanoseconds", "999ns"},
        {1500, "nanoseconds", "1.50us"},
        {2000000, "nanoseconds", "2.00ms"},
        {90000000000, "nanoseconds", "90.00s"},
        {-1500000000, "nanoseconds", "-1.50s"},
        {1023, "bytes", "1023B"},
        {1536, "bytes", "1.50KiB"},
        {3 << 20, "bytes", "3.00MiB"},
        {INT64_C(5) << 30, "bytes", "5.00GiB"},
        {INT64_C(1) << 40, "bytes", "1.00TiB"},
        {1234567, "count", "1234567"},
        {42, "", "42"},
        {INT64_MIN, "count", "-9223372036854775808"},
        {INT64_MIN, "bytes", "-8388608.00TiB"},
        {2500, "milliseconds", "2.50s"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;

        fg_buf_init(&out, SIZE_MAX);
        fg_value_scaled(cases[i].value, fg_cstr(cases[i].unit), &out);
        fg_buf_putc(&out, '\0');
        assert_string_equal((const char *)out.ptr, cases[i].want);
        fg_buf_done(&out);
    }
}

/* People read the picture. */
static void pictures_show_values_that_can_be_read(void **state)
{
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main;a", 231139938);
    fg_buf_init(&out, SIZE_MAX);
    fg_drawing_svg(&tree, FG_LIT("heap"), FG_LIT("bytes"), 0, &out);
    fg_buf_putc(&out, '\0');
    assert_non_null(strstr((const char *)out.ptr, "heap, total 220.43MiB<"));
    assert_non_null(strstr((const char *)out.ptr, "<title>a (220.43MiB, 100.00%)<"));
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_units),
        cmocka_unit_test(pictures_show_values_that_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
