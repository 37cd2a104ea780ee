/* Damaged objects: told once each, with their names, until nobody has met them for an hour. */
#include "common/storage/bucket/damage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct fixture {
    struct fg_registry *registry;
    struct fg_conditions *conditions;
    struct fg_clock_manual clock;
    struct fg_damage *damage;
    struct fg_buf text;
};

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->registry = fg_registry_create();
    f->conditions = fg_conditions_create(f->registry);
    fg_clock_manual_init(&f->clock, 0);
    f->damage = fg_damage_create(f->conditions, f->registry, &f->clock.clock);
    fg_buf_init(&f->text, SIZE_MAX);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_damage_destroy(f->damage);
    fg_conditions_destroy(f->conditions);
    fg_registry_destroy(f->registry);
    fg_buf_done(&f->text);
    free(f);
    return 0;
}

static const char *scrape(struct fixture *f)
{
    fg_buf_clear(&f->text);
    fg_registry_write(f->registry, &f->text);
    fg_buf_putc(&f->text, 0);
    return (const char *)f->text.ptr;
}

static const char *conditions(struct fixture *f)
{
    fg_buf_clear(&f->text);
    fg_conditions_write(f->conditions, &f->text);
    fg_buf_putc(&f->text, 0);
    return (const char *)f->text.ptr;
}

static void objects_are_named_until_nobody_meets_them(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(conditions(f), "");
    fg_damage_met(f->damage, "segments/a", FG_E_CORRUPT, "checksum of a page");
    fg_damage_met(f->damage, "segments/a", FG_E_CORRUPT, "checksum of a page");
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_objects 1\n"));
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_reads_total 2\n"));
    f->clock.mono_ns += 40 * FG_MINUTE_NS;
    fg_damage_met(f->damage, "tenants/t/blocks/b", FG_E_NOT_FOUND, "not there");
    assert_non_null(strstr(conditions(f), "objects_damaged: 2 objects"));
    assert_non_null(strstr(conditions(f), "tenants/t/blocks/b: not there; segments/a: checksum"));
    f->clock.mono_ns += 40 * FG_MINUTE_NS;
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_objects 1\n"));
    assert_null(strstr(conditions(f), "segments/a"));
    f->clock.mono_ns += 40 * FG_MINUTE_NS;
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_objects 0\n"));
    assert_string_equal(conditions(f), "");
}

/* Nothing is wrong with them: an operator is not to give them up. */
static void unreadable_objects_are_not_damaged(void **state)
{
    struct fixture *f = *state;

    fg_damage_met(f->damage, "segments/a", FG_E_UNIMPLEMENTED, "encrypted with key 7");
    fg_damage_met(f->damage, "segments/b", FG_E_CORRUPT, "checksum of a page");
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_objects 1\n"));
    assert_non_null(strstr(scrape(f), "\nflamegrid_unreadable_objects 1\n"));
    assert_non_null(strstr(scrape(f), "\nflamegrid_unreadable_reads_total 1\n"));
    assert_non_null(strstr(conditions(f),
                           "objects_unreadable: 1 objects of the bucket require a newer "
                           "version of this program"));
    assert_non_null(strstr(conditions(f), "segments/a: encrypted with key 7"));
    f->clock.mono_ns += 61 * FG_MINUTE_NS;
    assert_non_null(strstr(scrape(f), "\nflamegrid_unreadable_objects 0\n"));
    assert_string_equal(conditions(f), "");
}

static void their_number_is_bounded(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 1000; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "segments/%u", i);
        fg_damage_met(f->damage, name, FG_E_NOT_FOUND, "not there");
    }
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_objects 256\n"));
    assert_non_null(strstr(scrape(f), "\nflamegrid_damaged_reads_total 1000\n"));
    assert_non_null(strstr(conditions(f), "; ..."));
}

static void damage_is_classified_without_a_log(void **state)
{
    (void)state;
    fg_damage_met(NULL, "segments/a", FG_E_NOT_FOUND, "not there");
    assert_true(fg_damage_is(FG_E_CORRUPT) && fg_damage_is(FG_E_NOT_FOUND));
    assert_false(fg_damage_is(FG_E_UNAVAILABLE) || fg_damage_is(FG_E_LIMIT));
    assert_true(fg_damage_unusable(FG_E_UNIMPLEMENTED) && fg_damage_unusable(FG_E_CORRUPT));
    assert_false(fg_damage_is(FG_E_UNIMPLEMENTED) || fg_damage_unusable(FG_E_UNAVAILABLE));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(objects_are_named_until_nobody_meets_them),
        TEST(unreadable_objects_are_not_damaged),
        TEST(their_number_is_bounded),
        cmocka_unit_test(damage_is_classified_without_a_log),
    };
#undef TEST

    return cmocka_run_group_tests(tests, NULL, NULL);
}
