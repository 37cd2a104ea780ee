/* Pages of a resend: together they have each profile of the time once, in order, whatever is in a
 * slice; a page that was read again from any place has the same. */
#include "common/base/time.h"
#include "ingester/forward/page.h"
#include "tests/unit/ingester/forward/past_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { PROFILES_MAX = 600, LARGE_BYTES = 64 * 1024, PAGES_MAX = 10000 };

static const int64_t start_ns = INT64_C(1700000000) * FG_SECOND_NS;

struct fixture {
    struct past_run run;
    struct past_profile profiles[PROFILES_MAX];
    struct ing_page_reader reader;
    struct ing_resend resend;
    atomic_bool stop;
    /* What came. */
    struct fg_id ids[PROFILES_MAX];
    size_t n;
    unsigned pages, empty;
    size_t largest; /* bytes of a page */
};

static struct fixture *make(const char *const *tenants, size_t n_tenants)
{
    struct fixture *f = fg_new(struct fixture);

    past_run_init(&f->run);
    f->run.tenants = tenants;
    f->run.n_tenants = n_tenants;
    f->run.profiles = f->profiles;
    f->resend = (struct ing_resend){.state = RESEND_COMMITS,
                                    .from_ns = start_ns,
                                    .until_ns = start_ns + 48 * FG_HOUR_NS,
                                    .begun_wall_ns = start_ns};
    return f;
}

static void add(struct fixture *f, const char *tenant, int64_t after_ns, const char *stack)
{
    assert_true(f->run.n < PROFILES_MAX);
    f->profiles[f->run.n++] = (struct past_profile){tenant, start_ns + after_ns, stack};
}

static enum fg_code read_page(struct fixture *f, struct ing_page *page, struct fg_err *err)
{
    return ing_page_read(&f->reader, &f->run.past, &f->resend, start_ns + 99, INT64_MAX, &f->stop,
                         page, err);
}

static void take(struct fixture *f, struct ing_page *page)
{
    size_t bytes = 0;

    for (size_t i = 0; i < page->n; i++) {
        f->ids[f->n++] = page->items[i].id;
        bytes += page->items[i].len;
        assert_true(i == 0 || page->items[i - 1].time_ns <= page->items[i].time_ns);
    }
    f->largest = FG_MAX(f->largest, bytes);
    f->pages += page->n > 0;
    f->empty += page->n == 0;
    f->resend = page->after;
    ing_page_done(page);
}

/* Reads all pages. */
static void read_all(struct fixture *f)
{
    for (unsigned i = 0; f->resend.state != RESEND_DONE; i++) {
        struct ing_page page;
        struct fg_err err;

        assert_true(i < PAGES_MAX);
        assert_int_equal(read_page(f, &page, &err), FG_OK);
        take(f, &page);
    }
    assert_int_equal(f->resend.ended_wall_ns, start_ns + 99);
}

/* Each profile of the resend's time came once, and no other one. */
static void assert_all(const struct fixture *f)
{
    size_t want = 0;

    for (size_t i = 0; i < f->run.n; i++) {
        const struct past_profile *profile = &f->profiles[i];
        const struct fg_id id = past_run_id(profile);
        bool is_wanted =
            profile->time_ns >= f->resend.from_ns && profile->time_ns < f->resend.until_ns;
        unsigned times = 0;

        for (size_t k = 0; k < f->n; k++)
            times += fg_id_eq(f->ids[k], id);
        assert_int_equal(times, is_wanted);
        want += is_wanted;
    }
    assert_int_equal(f->n, want);
}

static void nothing_to_resend_ends(void **state)
{
    struct fixture *f = make(NULL, 0);

    (void)state;
    read_all(f);
    assert_int_equal(f->run.commits, 1);
    assert_int_equal(f->n, 0);
    free(f);
}

static void profiles_come_tenant_by_tenant_once_each(void **state)
{
    static const char *const tenants[] = {"a", "b", "c"};
    struct fixture *f = make(tenants, FG_COUNT(tenants));

    (void)state;
    f->run.twice = true;
    f->run.lost = 7;
    for (unsigned i = 0; i < 60; i++) {
        add(f, "a", (int64_t)i * FG_MINUTE_NS, NULL);
        add(f, "c", (int64_t)i * FG_HOUR_NS + 7, NULL); /* also beyond the end */
    }
    add(f, "a", -1, NULL);
    add(f, "c", 48 * FG_HOUR_NS - 1, NULL);
    add(f, "c", 48 * FG_HOUR_NS, NULL);
    read_all(f);
    assert_all(f);
    assert_int_equal(f->resend.lost, 21);
    assert_false(f->resend.incomplete);
    free(f);
}

/* Profiles of one nanosecond are told apart by their ids. */
static void place_is_exact(void **state)
{
    static const char *const tenants[] = {"a"};
    struct fixture *f = make(tenants, 1);
    char stacks[40][LARGE_BYTES / 16];

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(stacks[i], sizeof stacks[i], "a;b%u", i);
        add(f, "a", 5, stacks[i]);
        add(f, "a", FG_MS_NS, stacks[i]);
        add(f, "a", 48 * FG_HOUR_NS - 1, stacks[i]); /* the last one of all */
    }
    f->resend.state = RESEND_READS;
    for (unsigned i = 0; f->resend.state != RESEND_DONE; i++) {
        struct ing_page page;
        struct fg_err err;

        assert_int_equal(read_page(f, &page, &err), FG_OK);
        if (page.n > 3) { /* only three of them are sent */
            const struct ing_resend before = page.before;

            for (size_t k = 0; k < 3; k++)
                f->ids[f->n++] = page.items[k].id;
            f->resend = before;
            ing_page_pass(&page.items[2], &f->resend);
            ing_page_done(&page);
        } else {
            take(f, &page);
        }
    }
    assert_all(f);
    free(f);
}

/* A slice that has more than a page is read in several, of bounded size. */
static void page_is_bounded(void **state)
{
    static const char *const tenants[] = {"a"};
    struct fixture *f = make(tenants, 1);
    char *stacks = fg_malloc((size_t)300 * LARGE_BYTES);

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        char *stack = stacks + (size_t)i * LARGE_BYTES;

        memset(stack, 'x', LARGE_BYTES - 1);
        (void)snprintf(stack, 16, "%u", i);
        stack[strlen(stack)] = ';';
        stack[LARGE_BYTES - 1] = '\0';
        add(f, "a", (int64_t)i * FG_SECOND_NS, stack); /* half of them in the first slice */
    }
    read_all(f);
    assert_all(f);
    assert_true(f->largest <= (size_t)5 << 20);
    assert_in_range(f->pages, 4, 40);
    free(stacks);
    free(f);
}

/* Long times without profiles are passed in few reads. */
static void nothing_for_years_is_passed(void **state)
{
    static const char *const tenants[] = {"a"};
    struct fixture *f = make(tenants, 1);

    (void)state;
    f->resend.from_ns = start_ns - 2 * 365 * 24 * FG_HOUR_NS;
    add(f, "a", 0, NULL);
    read_all(f);
    assert_all(f);
    assert_in_range(f->run.visits, 1, 800);
    assert_in_range(f->empty, 1, 20); /* progress is noted meanwhile */
    free(f);
}

/* A page of one that has little says nothing of how long a slice of the other one may be. */
static void tenants_take_turns_without_reading_in_vain(void **state)
{
    static const char *const tenants[] = {"a", "b"};
    struct fixture *f = make(tenants, 2);
    char *stacks = fg_malloc((size_t)300 * LARGE_BYTES);
    struct ing_resend places[2];
    struct ing_page page;
    struct fg_err err;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        char *stack = stacks + (size_t)i * LARGE_BYTES;

        memset(stack, 'x', LARGE_BYTES - 1);
        (void)snprintf(stack, 16, "%u", i);
        stack[strlen(stack)] = ';';
        stack[LARGE_BYTES - 1] = '\0';
        add(f, "a", (int64_t)i * 12 * FG_SECOND_NS, stack); /* an hour */
    }
    for (unsigned i = 0; i < 40; i++)
        add(f, "b", (int64_t)i * FG_HOUR_NS, NULL);
    f->resend.state = RESEND_READS;
    for (unsigned i = 0; i < 2; i++) {
        places[i] = f->resend;
        (void)snprintf(places[i].tenant, sizeof places[i].tenant, "%s", tenants[i]);
        ing_resend_pass_time(&places[i], f->resend.from_ns - 1);
    }
    for (unsigned turn = 0; !ing_resend_is_between_tenants(&places[0]); turn++) {
        struct ing_resend *place = &places[turn % 2];

        assert_true(turn < 200);
        if (ing_resend_is_between_tenants(place))
            ing_resend_pass_time(place, f->resend.from_ns - 1); /* b has as much once more */
        f->resend = *place;
        assert_int_equal(read_page(f, &page, &err), FG_OK);
        *place = page.after;
        f->n += turn % 2 == 0 ? page.n : 0;
        ing_page_done(&page);
    }
    assert_int_equal(f->n, 300);
    assert_in_range(f->run.visited, 300, 400); /* each about once */
    free(stacks);
    free(f);
}

static void bucket_that_is_away_is_read_later(void **state)
{
    static const char *const tenants[] = {"a"};
    struct fixture *f = make(tenants, 1);
    struct ing_page page;
    struct fg_err err;

    (void)state;
    add(f, "a", 0, NULL);
    f->run.commit = FG_E_DEADLINE;
    assert_int_equal(read_page(f, &page, &err), FG_E_DEADLINE);
    f->run.commit = FG_OK;
    assert_int_equal(read_page(f, &page, &err), FG_OK);
    take(f, &page);
    assert_int_equal(f->resend.state, RESEND_READS);
    assert_int_equal(read_page(f, &page, &err), FG_OK); /* the tenant */
    take(f, &page);
    f->run.fails = 2;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(read_page(f, &page, &err), FG_E_UNAVAILABLE);
    read_all(f);
    assert_all(f);
    assert_false(f->resend.incomplete);
    free(f);
}

/* Unreadable and uncommitted profiles are left out, and the resend says so. */
static void damage_is_left_out_and_told(void **state)
{
    static const char *const tenants[] = {"a"};

    (void)state;
    for (unsigned commits = 0; commits < 2; commits++) {
        struct fixture *f = make(tenants, 1);

        for (unsigned i = 0; i < 10; i++)
            add(f, "a", (int64_t)i * FG_HOUR_NS, NULL);
        if (commits)
            f->run.commit = FG_E_CORRUPT;
        else
            f->run.damaged_ns = start_ns + 3 * FG_HOUR_NS;
        read_all(f);
        assert_int_equal(f->n, commits ? 10 : 9);
        assert_true(f->resend.incomplete);
        assert_int_equal(f->run.partials, !commits); /* of the damaged slice only */
        free(f);
    }
}

static void stop_ends_a_read(void **state)
{
    static const char *const tenants[] = {"a"};
    struct fixture *f = make(tenants, 1);
    struct ing_page page;
    struct fg_err err;

    (void)state;
    add(f, "a", 0, NULL);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(read_page(f, &page, &err), FG_OK);
        take(f, &page);
    }
    atomic_store(&f->stop, true);
    assert_int_equal(read_page(f, &page, &err), FG_E_CANCELED);
    atomic_store(&f->stop, false);
    read_all(f);
    assert_all(f);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_to_resend_ends),
        cmocka_unit_test(profiles_come_tenant_by_tenant_once_each),
        cmocka_unit_test(place_is_exact),
        cmocka_unit_test(page_is_bounded),
        cmocka_unit_test(nothing_for_years_is_passed),
        cmocka_unit_test(tenants_take_turns_without_reading_in_vain),
        cmocka_unit_test(bucket_that_is_away_is_read_later),
        cmocka_unit_test(damage_is_left_out_and_told),
        cmocka_unit_test(stop_ends_a_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
