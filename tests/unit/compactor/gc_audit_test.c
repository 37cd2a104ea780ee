/* The compactor deletes old objects of the audit, and the chains still verify. */
#include "compactor/gc.h"
#include "tests/lib/audit_look.h"
#include "tests/lib/bucket_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const int64_t DAY_NS = 24 * FG_HOUR_NS;

struct fixture {
    struct fg_bucket *inner;
    struct fg_bucket_faulty *faulty;
    struct fg_clock_manual clock;
    struct fg_registry *registry;
    struct fg_audit_settings settings;
    struct fg_audit *audit;
    struct cmp_env env;
    struct audit_look look;
};

static void note_and_store(struct fixture *f)
{
    fg_audit_note(f->audit, &(struct fg_audit_event){.kind = FG_AUDIT_ADMIN});
    fg_audit_turn(f->audit);
    fg_clock_manual_advance(&f->clock, f->settings.flush_ns);
    fg_audit_turn(f->audit);
}

/* Stores an object now, by the clock of the bucket in memory, and another one ten days later. */
static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);
    struct fg_err err;

    f->inner = fg_bucket_memory();
    f->faulty = fg_bucket_faulty_create(f->inner, &(struct fg_bucket_faults){.seed = 1});
    fg_clock_manual_init(&f->clock, fg_wall_ns(fg_clock_real()));
    f->registry = fg_registry_create();
    f->settings =
        (struct fg_audit_settings){.flush_ns = FG_MINUTE_NS, .retention_ns = 400 * DAY_NS};
    f->audit = fg_audit_create(&(struct fg_audit_config){.settings = &f->settings,
                                                         .program = "flamegrid-compactor",
                                                         .clock = &f->clock.clock,
                                                         .registry = f->registry});
    f->env =
        (struct cmp_env){.bucket = fg_bucket_faulty_bucket(f->faulty), .clock = &f->clock.clock};
    audit_look_init(&f->look);
    assert_int_equal(fg_audit_open(f->audit, f->env.bucket, "", &err), FG_OK);
    note_and_store(f);
    fg_clock_manual_advance(&f->clock, 10 * DAY_NS);
    note_and_store(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_audit_destroy(f->audit);
    audit_look_done(&f->look);
    fg_registry_destroy(f->registry);
    fg_bucket_close(f->env.bucket);
    fg_bucket_close(f->inner);
    free(f);
    return 0;
}

static enum fg_code sweep(struct fixture *f)
{
    struct fg_err err;

    return cmp_gc_sweep_audit(&f->env, f->audit, &err);
}

static void nothing_goes_before_its_time(void **state)
{
    struct fixture *f = *state;

    fg_clock_manual_advance(&f->clock, 389 * DAY_NS);
    assert_int_equal(sweep(f), FG_OK);
    assert_int_equal(audit_look(&f->look, f->inner, "admin"), 2);
    assert_int_equal(audit_look(&f->look, f->inner, "retention"), 0);
}

static void expired_objects_go_and_a_record_says_so(void **state)
{
    struct fixture *f = *state;

    fg_clock_manual_advance(&f->clock, 395 * DAY_NS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sweep(f), FG_OK);
        assert_int_equal(audit_look(&f->look, f->inner, "admin"), 1);
        assert_int_equal(audit_look(&f->look, f->inner, "\"retention\""), 1);
        assert_string_equal(audit_look_faults(&f->look), "");
    }
}

/* Counts objects of the audit by the hours in their names. */
struct counts {
    int64_t old_ms, horizon_ms;
    unsigned old, expired;
};

static bool count_object(const struct fg_bucket_entry *entry, void *arg)
{
    struct counts *counts = arg;
    struct fg_audit_name name;

    assert_true(fg_audit_read_name(fg_cstr(entry->name), &name));
    counts->old += name.hour_ms == counts->old_ms;
    counts->expired += name.hour_ms != counts->old_ms && name.hour_ms < counts->horizon_ms;
    return true;
}

/* More of them than a page of the list has, in front of what has expired. */
static void objects_of_a_clock_that_was_late_hold_up_nothing(void **state)
{
    enum { LATE = FG_BUCKET_PAGE_MAX + 1 };
    struct fixture *f = *state;
    struct counts counts = {.old_ms = fg_audit_hour_ms(INT64_C(1000000000000))}; /* 2001 */
    char text[FG_AUDIT_NAME_MAX_BYTES];
    struct fg_err err;

    fg_clock_manual_advance(&f->clock, 395 * DAY_NS);
    fg_bucket_memory_tell_time(f->inner, &f->clock.clock); /* they are stored today */
    for (uint64_t i = 1; i <= LATE; i++) {
        struct fg_bucket_request put = {
            .verb = FG_BUCKET_PUT, .name = text, .content = FG_LIT("something")};

        fg_audit_write_name("late", i, counts.old_ms, text);
        assert_int_equal(fg_bucket_call(f->inner, &put), FG_OK);
        fg_bucket_clear(&put);
    }
    assert_int_equal(sweep(f), FG_OK);
    counts.horizon_ms = (f->clock.wall_ns - f->settings.retention_ns) / FG_MS_NS - 3600 * 1000;
    assert_int_equal(
        fg_bucket_each(f->inner, FG_AUDIT_PREFIX, false, 0, count_object, &counts, &err), FG_OK);
    assert_int_equal(counts.old, LATE);
    assert_int_equal(counts.expired, 0);
    /* They stay for their time, and go. */
    fg_clock_manual_advance(&f->clock, 402 * DAY_NS);
    assert_int_equal(sweep(f), FG_OK);
    counts.old = 0;
    assert_int_equal(
        fg_bucket_each(f->inner, FG_AUDIT_PREFIX, false, 0, count_object, &counts, &err), FG_OK);
    assert_int_equal(counts.old, 0);
}

static void nothing_goes_without_a_record(void **state)
{
    struct fixture *f = *state;

    fg_clock_manual_advance(&f->clock, 395 * DAY_NS);
    fg_bucket_faulty_fail(f->faulty, 2, false); /* the list succeeds, the put of the record fails */
    assert_int_equal(sweep(f), FG_E_UNAVAILABLE);
    assert_int_equal(audit_look(&f->look, f->inner, "admin"), 2);
}

static void zero_keeps_everything(void **state)
{
    struct fixture *f = *state;

    f->settings.retention_ns = 0;
    fg_clock_manual_advance(&f->clock, 4000 * DAY_NS);
    assert_int_equal(sweep(f), FG_OK);
    assert_int_equal(audit_look(&f->look, f->inner, "admin"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_goes_before_its_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(expired_objects_go_and_a_record_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(objects_of_a_clock_that_was_late_hold_up_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_goes_without_a_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(zero_keeps_everything, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
