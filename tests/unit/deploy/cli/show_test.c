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
        cmocka_unit_test(control_characters_in_names_are_replaced),
        cmocka_unit_test(tables_are_sorted_by_self),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
