/* Conditions: what /ready and the metrics say of what is wrong. */
#include "common/runtime/condition.h"
#include "common/runtime/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_buf text;
    int log[2]; /* a pipe */
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->registry = fg_registry_create();
    f->conditions = fg_conditions_create(f->registry);
    fg_buf_init(&f->text, SIZE_MAX);
    assert_int_equal(pipe(f->log), 0);
    fg_log_set_fd(f->log[1]);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_log_set_fd(STDERR_FILENO);
    (void)close(f->log[0]);
    (void)close(f->log[1]);
    fg_buf_done(&f->text);
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->registry);
    free(f);
    return 0;
}

static void assert_listed(struct fixture *f, const char *want)
{
    fg_buf_clear(&f->text);
    fg_conditions_write(f->conditions, &f->text);
    fg_buf_putc(&f->text, '\0');
    assert_string_equal((const char *)f->text.ptr, want);
}

static void assert_metric(struct fixture *f, const char *want)
{
    fg_buf_clear(&f->text);
    fg_registry_write(f->registry, &f->text);
    fg_buf_putc(&f->text, '\0');
    if (strstr((const char *)f->text.ptr, want) == NULL)
        fail_msg("no %s in %s", want, f->text.ptr);
}

/* Lines of the log since the last call. */
static unsigned count_logged(struct fixture *f)
{
    static char text[16384];
    unsigned lines = 0;
    ssize_t n;

    assert_int_equal(write(f->log[1], "", 1), 1); /* so that reading ends */
    n = read(f->log[0], text, sizeof text);
    assert_true(n > 0 && text[n - 1] == '\0');
    for (ssize_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    return lines;
}

static void a_raised_condition_is_listed_counted_and_logged_once(void **state)
{
    struct fixture *f = *state;
    struct fg_condition *head = fg_condition_create(f->conditions, "head_damaged");
    struct fg_condition *cut = fg_condition_create(f->conditions, "cut_stuck");

    assert_listed(f, "");
    assert_metric(f, "flamegrid_condition{condition=\"head_damaged\"} 0\n");
    for (int i = 0; i < 3; i++)
        fg_condition_raise(head, "%d records", 3);
    fg_condition_raise(cut, "upload fails");
    assert_int_equal(count_logged(f), 2);
    assert_listed(f, "cut_stuck: upload fails\nhead_damaged: 3 records\n");
    assert_metric(f, "flamegrid_condition{condition=\"head_damaged\"} 1\n");

    fg_condition_raise(head, "4 records");
    assert_int_equal(count_logged(f), 1);
    assert_listed(f, "cut_stuck: upload fails\nhead_damaged: 4 records\n");

    fg_condition_clear(head);
    fg_condition_clear(head);
    assert_int_equal(count_logged(f), 1);
    assert_listed(f, "cut_stuck: upload fails\n");
    assert_metric(f, "flamegrid_condition{condition=\"head_damaged\"} 0\n");
    fg_condition_destroy(head);
    fg_condition_destroy(cut);
    assert_listed(f, "");
}

static void a_long_sentence_is_cut(void **state)
{
    struct fixture *f = *state;
    struct fg_condition *condition = fg_condition_create(f->conditions, "long");
    char sentence[2 * FG_CONDITION_TEXT_MAX_BYTES];

    memset(sentence, 'x', sizeof sentence);
    sentence[sizeof sentence - 1] = '\0';
    fg_condition_raise(condition, "%s", sentence);
    fg_buf_clear(&f->text);
    fg_conditions_write(f->conditions, &f->text);
    assert_int_equal(f->text.len, strlen("long: ") + FG_CONDITION_TEXT_MAX_BYTES - 1 + 1);
    fg_condition_destroy(condition);
}

static void without_a_list_conditions_are_ignored(void **state)
{
    struct fixture *f = *state;
    struct fg_condition *condition = fg_condition_create(NULL, "none");

    assert_null(condition);
    fg_condition_raise(condition, "wrong");
    fg_condition_clear(condition);
    fg_condition_destroy(condition);
    fg_conditions_write(NULL, &f->text);
    assert_int_equal(f->text.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_raised_condition_is_listed_counted_and_logged_once,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_sentence_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_list_conditions_are_ignored, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
