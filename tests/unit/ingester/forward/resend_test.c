/* Which tenant of a resend has the next page, while some of them are held; and what a record that
 * has one place only says of all of them. */
#include "common/base/time.h"
#include "ingester/forward/resend.h"
#include "tests/lib/seeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { UNTIL_NS = 1000 };

struct fixture {
    struct ing_resend_tenants tenants;
    struct ing_resend resend; /* what next() gave */
    int64_t now_ns;
};

static struct fixture *make(void)
{
    struct fixture *f = fg_new(struct fixture);

    f->resend = (struct ing_resend){.state = RESEND_READS, .until_ns = UNTIL_NS};
    f->now_ns = FG_HOUR_NS;
    return f;
}

/* Asks for the next page. Returns its tenant; "": none may be read; "after x": one begins. */
static const char *next(struct fixture *f)
{
    static char text[FG_TENANT_MAX_BYTES + 10];

    if (!ing_resend_tenants_next(&f->tenants, f->now_ns, &f->resend))
        return "";
    (void)snprintf(text, sizeof text, "%s%s",
                   ing_resend_is_between_tenants(&f->resend) ? "after " : "", f->resend.tenant);
    return text;
}

/* The page was of this tenant, and has come to this time. */
static void note(struct fixture *f, const char *tenant, int64_t time_ns)
{
    (void)snprintf(f->resend.tenant, sizeof f->resend.tenant, "%s", tenant);
    ing_resend_pass_time(&f->resend, time_ns);
    ing_resend_tenants_note(&f->tenants, &f->resend);
}

static void hold(struct fixture *f, const char *tenant, int64_t for_ns)
{
    ing_resend_tenants_hold(&f->tenants, tenant, f->now_ns + for_ns);
}

static void least_is(const struct fixture *f, const char *tenant, int64_t time_ns)
{
    struct ing_resend least = f->resend;

    ing_resend_tenants_least(&f->tenants, &least);
    assert_string_equal(least.tenant, tenant);
    assert_int_equal(least.time_ns, time_ns);
}

static void tenants_come_one_after_another(void **state)
{
    struct fixture *f = make();

    (void)state;
    least_is(f, "", UNTIL_NS - 1);
    assert_string_equal(next(f), "after ");
    note(f, "a", 5);
    assert_string_equal(next(f), "a");
    assert_int_equal(f->resend.time_ns, 5);
    note(f, "a", 10);
    least_is(f, "a", 10);
    note(f, "a", UNTIL_NS - 1);
    assert_string_equal(next(f), "after a");
    least_is(f, "a", UNTIL_NS - 1);
    note(f, "c", 1);
    assert_string_equal(next(f), "c");
    free(f);
}

/* The last nanosecond may have more than a page. */
static void tenant_is_done_after_its_last_profile(void **state)
{
    struct ing_resend resend = {.tenant = "a", .until_ns = UNTIL_NS, .time_ns = UNTIL_NS - 1};

    (void)state;
    assert_false(ing_resend_is_between_tenants(&resend));
    ing_resend_pass_time(&resend, UNTIL_NS - 1);
    assert_true(ing_resend_is_between_tenants(&resend));
}

static void held_tenant_is_passed_and_comes_back(void **state)
{
    struct fixture *f = make();
    int64_t next_ns;

    (void)state;
    note(f, "a", 5);
    hold(f, "a", FG_MINUTE_NS);
    assert_string_equal(next(f), "after a");
    note(f, "b", 7);
    assert_string_equal(next(f), "b");
    least_is(f, "a", 5);
    note(f, "b", 8);
    hold(f, "b", 2 * FG_MINUTE_NS);
    assert_int_equal(ing_resend_tenants_held(&f->tenants, f->now_ns, &next_ns), 2);
    assert_int_equal(next_ns, f->now_ns + FG_MINUTE_NS);
    assert_string_equal(next(f), "after b");
    ing_resend_tenants_note_all_begun(&f->tenants);
    assert_string_equal(next(f), "");
    f->now_ns += FG_MINUTE_NS;
    assert_string_equal(next(f), "a");
    assert_int_equal(f->resend.time_ns, 5);
    note(f, "a", UNTIL_NS - 1);
    least_is(f, "b", 8);
    assert_string_equal(next(f), "");
    f->now_ns += FG_MINUTE_NS;
    assert_string_equal(next(f), "b");
    note(f, "b", UNTIL_NS - 1);
    least_is(f, "b", UNTIL_NS - 1);
    assert_int_equal(ing_resend_tenants_held(&f->tenants, f->now_ns, &next_ns), 0);
    assert_int_equal(next_ns, INT64_MAX);
    assert_string_equal(next(f), "after b"); /* that page finds that all is done */
    free(f);
}

/* A hold may be shorter than a page takes: the tenant has every other page at most. */
static void tenant_that_is_held_again_and_again_lets_others_pass(void **state)
{
    struct fixture *f = make();
    unsigned of_a = 0, of_b = 0;

    (void)state;
    note(f, "a", 5);
    hold(f, "a", 1);
    for (int64_t i = 0; i < 20; i++) {
        const char *tenant = next(f);

        f->now_ns += FG_SECOND_NS;
        if (strcmp(tenant, "a") == 0) {
            of_a++;
            note(f, "a", 5);
            hold(f, "a", 1);
        } else {
            of_b++;
            note(f, "b", 10 + i);
        }
    }
    assert_in_range(of_a, 9, 11);
    assert_in_range(of_b, 9, 11);
    free(f);
}

static void no_more_tenants_begin_than_there_is_room_for(void **state)
{
    struct fixture *f = make();
    char name[16];

    (void)state;
    for (unsigned i = 0; i < RESEND_TENANTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "t%03u", i);
        assert_string_equal(strncmp(next(f), "after", 5) == 0 ? "after" : "", "after");
        note(f, name, 5);
        hold(f, name, FG_MINUTE_NS + i);
    }
    assert_string_equal(next(f), "");
    f->now_ns += FG_MINUTE_NS;
    assert_string_equal(next(f), "t000");
    note(f, "t000", UNTIL_NS - 1);
    assert_string_equal(next(f), "after t063");
    hold(f, "nobody", FG_MINUTE_NS);
    free(f);
}

/* ---- any order of pages and holds ---- */

enum { TENANTS = 6, STEPS = 5, TIME_NS = 100 };

struct model {
    int64_t time_ns[TENANTS]; /* -1: it has not begun; UNTIL_NS - 1: it is done */
    uint64_t random;
};

static uint64_t below(struct model *model, uint64_t limit)
{
    model->random += 0x9e3779b97f4a7c15u;
    return fg_mix64(model->random) % limit;
}

/* The tenant that the page begins: the least one that has not begun. -1: there is none. */
static int begins(const struct model *model)
{
    for (int i = 0; i < TENANTS; i++)
        if (model->time_ns[i] < 0)
            return i;
    return -1;
}

static bool all_done(const struct model *model)
{
    for (int i = 0; i < TENANTS; i++)
        if (model->time_ns[i] != UNTIL_NS - 1)
            return false;
    return true;
}

/* Nothing that comes before the least place is still to be sent. */
static void check_least(const struct fixture *f, const struct model *model)
{
    struct ing_resend least = f->resend;

    ing_resend_tenants_least(&f->tenants, &least);
    for (int i = 0; i < TENANTS; i++) {
        const char name[2] = {(char)('a' + i), '\0'};
        int order = strcmp(name, least.tenant);

        if (order < 0)
            assert_int_equal(model->time_ns[i], UNTIL_NS - 1);
        else if (order == 0)
            assert_int_equal(model->time_ns[i], least.time_ns);
    }
}

/* One page. Returns false if it found that all is done. */
static bool run_page(struct fixture *f, struct model *model)
{
    int i;

    if (!ing_resend_tenants_next(&f->tenants, f->now_ns, &f->resend)) {
        int64_t next_ns;

        assert_true(ing_resend_tenants_held(&f->tenants, f->now_ns, &next_ns) > 0);
        f->now_ns = next_ns;
        return true;
    }
    if (!ing_resend_is_between_tenants(&f->resend)) {
        i = f->resend.tenant[0] - 'a';
        fg_assert(i >= 0 && i < TENANTS);
        assert_int_equal(f->resend.time_ns, model->time_ns[i]); /* it goes on where it was */
        model->time_ns[i] += TIME_NS / STEPS;
        if (model->time_ns[i] >= TIME_NS)
            model->time_ns[i] = UNTIL_NS - 1;
    } else {
        i = begins(model);
        if (i < 0) {
            ing_resend_tenants_note_all_begun(&f->tenants);
            return f->tenants.n > 0;
        }
        model->time_ns[i] = 0;
    }
    note(f, (char[]){(char)('a' + i), '\0'}, model->time_ns[i]);
    if (below(model, 3) == 0)
        hold(f, (char[]){(char)('a' + i), '\0'}, (int64_t)below(model, 5));
    f->now_ns += (int64_t)below(model, 3);
    return true;
}

/* As after a version that knows the least place only: what is beyond it is sent again. */
static void forget(struct fixture *f, struct model *model)
{
    struct ing_resend least = f->resend;
    int from;

    ing_resend_tenants_least(&f->tenants, &least);
    ing_resend_tenants_set(&f->tenants, &least);
    from = least.tenant[0] == '\0' ? -1 : least.tenant[0] - 'a';
    for (int i = from + 1; i < TENANTS; i++)
        model->time_ns[i] = -1;
}

static void every_tenant_is_done_once_whatever_is_held(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= test_seeds(2000); seed++) {
        struct model model = {{-1, -1, -1, -1, -1, -1}, seed};
        struct fixture *f = make();
        unsigned pages = 0;

        while (run_page(f, &model)) {
            check_least(f, &model);
            if (below(&model, 20) == 0)
                forget(f, &model);
            assert_true(++pages < 10000);
        }
        assert_true(all_done(&model));
        free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenants_come_one_after_another),
        cmocka_unit_test(tenant_is_done_after_its_last_profile),
        cmocka_unit_test(held_tenant_is_passed_and_comes_back),
        cmocka_unit_test(tenant_that_is_held_again_and_again_lets_others_pass),
        cmocka_unit_test(no_more_tenants_begin_than_there_is_room_for),
        cmocka_unit_test(every_tenant_is_done_once_whatever_is_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
