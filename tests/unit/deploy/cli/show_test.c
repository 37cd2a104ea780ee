#include "deploy/cli/show.h"
#include "tests/lib/slow_stacks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void assert_text(struct fg_buf *buf, const char *want)
{
    fg_buf_putc(buf, '\0');
    assert_string_equal((const char *)buf->ptr, want);
    fg_buf_done(buf);
}

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
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;

        fg_buf_init(&out, SIZE_MAX);
        cli_show_value(cases[i].value, fg_cstr(cases[i].unit), &out);
        assert_text(&out, cases[i].want);
    }
}

static void control_characters_in_names_are_replaced(void **state)
{
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, SIZE_MAX);
    cli_show_text(FG_LIT("a\x1b[31m\r\n\x7f\xc3\xa4"), &out);
    assert_text(&out, "a [31m   \xc3\xa4");
}

static void tables_are_sorted_by_self(void **state)
{
    struct fg_tree tree;
    struct fg_buf out;

    (void)state;
    fg_tree_init(&tree);
    slow_tree_add(&tree, "main;a", 3 << 20);
    slow_tree_add(&tree, "main;b", 4 << 20);
    slow_tree_add(&tree, "main", 1 << 20);
    fg_buf_init(&out, SIZE_MAX);
    cli_show_table(&tree, FG_LIT("bytes"), false, 2, &out);
    assert_text(&out, "        SELF              TOTAL           FUNCTION\n"
                      "     4.00MiB  50.00%       4.00MiB  50.00%  b\n"
                      "     3.00MiB  37.50%       3.00MiB  37.50%  a\n"
                      "1 more functions; --limit 0 shows all\n");
    fg_buf_init(&out, SIZE_MAX);
    cli_show_table(&tree, FG_LIT("count"), false, 0, &out);
    assert_true(fg_slice_ends(fg_buf_slice(&out), " 8388608 100.00%  main\n"));
    fg_buf_done(&out);
    fg_tree_done(&tree);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_units),
        cmocka_unit_test(control_characters_in_names_are_replaced),
        cmocka_unit_test(tables_are_sorted_by_self),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
