/* Conditions of forwarding: each holds exactly while its reason does, and names the targets. */
#include "common/runtime/log.h"
#include "ingester/forward/conditions.h"
#include "tests/lib/store_doubles.h"
#include "tests/unit/ingester/forward/outbox_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TEXT_MAX_BYTES = 8192, QUEUE_BYTES = 10000 };

struct fixture {
    struct fg_store *store;
    struct fg_clock_manual clock;
    struct outbox_run run;
    _Atomic bool denied[2], unread[2];
    struct fg_registry *registry;
    struct fg_conditions *list;
    struct ing_forward_conditions *conditions;
};

static bool is_denied(void *arg, unsigned target)
{
    const struct fixture *f = arg;

    return f->denied[target];
}

static bool is_unread(void *arg, unsigned target)
{
    const struct fixture *f = arg;

    return f->unread[target];
}

static int setup(void **state)
{
    struct ing_outbox_target targets[] = {outbox_target("central"), outbox_target("west")};
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    targets[0].queue_max_bytes = QUEUE_BYTES;
    f->store = fg_store_memory(HEAD_FAMILIES);
    outbox_clock_init(&f->clock);
    outbox_run_open(&f->run, f->store, &f->clock, targets, FG_COUNT(targets));
    f->registry = fg_registry_create();
    f->list = fg_conditions_create(f->registry);
    fg_assert(ing_forward_conditions_create(
                  &(struct ing_forward_conditions_config){.outbox = f->run.outbox,
                                                          .denied = is_denied,
                                                          .unread = is_unread,
                                                          .arg = f,
                                                          .conditions = f->list,
                                                          .clock = &f->clock.clock},
                  &f->conditions, &err) == FG_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    ing_forward_conditions_destroy(f->conditions);
    fg_conditions_destroy(f->list);
    fg_registry_destroy(f->registry);
    outbox_run_close(&f->run);
    fg_store_close(f->store);
    free(f);
    return 0;
}

/* Looks, and compares the names of conditions and targets: "forward_late: west\n". */
static void expect(struct fixture *f, const char *names)
{
    struct fg_buf all, got;

    ing_forward_conditions_look(f->conditions);
    fg_buf_init(&all, TEXT_MAX_BYTES);
    fg_buf_init(&got, TEXT_MAX_BYTES);
    fg_conditions_write(f->list, &all);
    fg_buf_putc(&all, '\0');
    for (const char *at = (const char *)all.ptr; *at != '\0'; at = strchr(at, '\n') + 1) {
        const char *rest = strstr(strstr(at, ": ") + 2, ": ");

        assert_true(rest != NULL && rest < strchr(at, '\n'));
        fg_buf_printf(&got, "%.*s\n", (int)(rest - at), at);
    }
    fg_buf_putc(&got, '\0');
    assert_string_equal((const char *)got.ptr, names);
    fg_buf_done(&all);
    fg_buf_done(&got);
}

static void nothing_is_wrong_at_first(void **state)
{
    struct fixture *f = *state;

    expect(f, "");
    assert_int_equal(outbox_run_push(&f->run, 3, 0, 4, 100), FG_OK);
    expect(f, "");
}

static void a_target_that_refuses_credentials_is_named(void **state)
{
    struct fixture *f = *state;

    f->denied[1] = true;
    expect(f, "forward_denied: west\n");
    f->denied[0] = true;
    expect(f, "forward_denied: central, west\n");
    f->denied[0] = false;
    f->denied[1] = false;
    expect(f, "");
}

static void a_target_for_which_nothing_can_be_read_is_named(void **state)
{
    struct fixture *f = *state;

    f->unread[0] = true;
    expect(f, "forward_unread: central\n");
    f->unread[0] = false;
    expect(f, "");
}

static void a_profile_is_late_after_ten_minutes(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(outbox_run_push(&f->run, 2, 0, 1, 100), FG_OK);
    fg_clock_manual_advance(&f->clock, FORWARD_LATE_NS);
    expect(f, "");
    fg_clock_manual_advance(&f->clock, 1);
    expect(f, "forward_late: west\n");
    assert_int_equal(outbox_run_drain(&f->run, 1, OUTBOX_DONE, NULL), 1);
    outbox_run_settle(&f->run);
    expect(f, "");
}

static void a_queue_fills_above_four_fifths(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(outbox_run_push(&f->run, 3, 0, 8, QUEUE_BYTES / 10), FG_OK);
    expect(f, "");
    assert_int_equal(outbox_run_push(&f->run, 3, 8, 1, 1), FG_OK);
    expect(f, "forward_filling: central\n");
    assert_int_equal(outbox_run_drain(&f->run, 0, OUTBOX_DONE, NULL), 9);
    outbox_run_settle(&f->run);
    expect(f, "");
}

static void a_pause_is_told_until_it_ends(void **state)
{
    struct fixture *f = *state;
    struct fg_err err;

    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, true, &err), FG_OK);
    expect(f, "forward_paused: central\n");
    assert_int_equal(ing_outbox_pause(f->run.outbox, 0, false, &err), FG_OK);
    expect(f, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_wrong_at_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_target_that_refuses_credentials_is_named, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_target_for_which_nothing_can_be_read_is_named, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_profile_is_late_after_ten_minutes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queue_fills_above_four_fifths, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pause_is_told_until_it_ends, setup, teardown),
    };

    fg_log_set_level(FG_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
