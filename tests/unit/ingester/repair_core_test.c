/* What a pass of repair asks and fetches; and each link fails once, or for one group always. */
#include "ingester/repair/repair_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { GROUPS = 7, PROFILES = 10, PAGE = 2, TAKEN_AT_A_TIME = 3 };

enum link { NO_LINK, OWN_IDS, IDS, TAKE };

/* The other owner has the profiles 0 .. there[g] of group g, we have 0 .. here[g]. */
struct fake {
    unsigned there[GROUPS], here[GROUPS];
    unsigned asked[GROUPS], taken[GROUPS], failed[GROUPS];
    unsigned pages, calls, fails_at; /* 0: never */
    struct {
        enum link link;
        unsigned group;
        enum fg_code code;
    } bad[2]; /* links that fail for one group, always */
};

static struct fg_id id_of(unsigned group, unsigned profile)
{
    return (struct fg_id){group + 1, profile + 1};
}

static struct ing_group_sum sum_of(unsigned group, unsigned n)
{
    struct ing_group_sum sum = {.count = n};

    for (unsigned i = 0; i < n; i++)
        sum.digest = fg_id_add(sum.digest, id_of(group, i));
    return sum;
}

/* Nothing is called after a failure. */
static bool fails(struct fake *fake, struct fg_err *err)
{
    assert_true(fake->fails_at == 0 || fake->calls < fake->fails_at);
    if (++fake->calls != fake->fails_at)
        return false;
    (void)fg_fail(err, FG_E_UNAVAILABLE, "call %u", fake->calls);
    return true;
}

static bool is_bad(const struct fake *fake, enum link link, unsigned group, struct fg_err *err)
{
    for (size_t i = 0; i < FG_COUNT(fake->bad); i++)
        if (fake->bad[i].link == link && fake->bad[i].group == group) {
            (void)fg_fail(err, fake->bad[i].code, "group %u", group);
            return true;
        }
    return false;
}

static enum fg_code groups(void *arg, const struct ing_repair_group *after, struct fg_arena *arena,
                           struct ing_repair_page *ret_page, struct fg_err *err)
{
    struct fake *fake = arg;
    unsigned next = after == NULL ? 0 : after->window + 1;

    if (fails(fake, err))
        return err->code;
    fake->pages++;
    *ret_page =
        (struct ing_repair_page){.groups = fg_arena_new(arena, struct ing_repair_group, PAGE)};
    for (; next < GROUPS && ret_page->n < PAGE; next++)
        ret_page->groups[ret_page->n++] =
            (struct ing_repair_group){.tenant = FG_LIT("t"),
                                      .shard = (uint16_t)next,
                                      .window = next,
                                      .sum = sum_of(next, fake->there[next])};
    ret_page->more = next < GROUPS;
    return FG_OK;
}

static enum fg_code ids(void *arg, const struct ing_repair_group *group, struct ing_group_ids *out,
                        struct fg_err *err)
{
    struct fake *fake = arg;

    if (fails(fake, err) || is_bad(fake, IDS, group->window, err))
        return err->code;
    fake->asked[group->window]++;
    for (unsigned i = 0; i < fake->there[group->window]; i++)
        ing_group_ids_add(out, id_of(group->window, i));
    return FG_OK;
}

static enum fg_code take(void *arg, const struct ing_repair_group *group, struct fg_id *wanted,
                         size_t *n, struct ing_repair_place *place, struct fg_err *err)
{
    struct fake *fake = arg;
    size_t taken = FG_MIN(*n, TAKEN_AT_A_TIME);

    if (fails(fake, err) || is_bad(fake, TAKE, group->window, err))
        return err->code;
    for (size_t i = 0; i < taken; i++)
        assert_true(fg_id_eq(wanted[i], id_of(group->window, fake->here[group->window]++)));
    assert_int_equal(place->len, fake->taken[group->window]); /* what was said before */
    fake->taken[group->window] += (unsigned)taken;
    place->len = fake->taken[group->window];
    *n -= taken;
    memmove(wanted, wanted + taken, *n * sizeof *wanted);
    return FG_OK;
}

static bool owns(void *arg, uint16_t shard)
{
    (void)arg;
    return shard != 3;
}

static struct ing_group_sum own_sum(void *arg, const struct ing_repair_group *group)
{
    const struct fake *fake = arg;

    return sum_of(group->window, fake->here[group->window]);
}

/* Descending: their order is not promised. */
static enum fg_code own_ids(void *arg, const struct ing_repair_group *group,
                            struct ing_group_ids *out, struct fg_err *err)
{
    struct fake *fake = arg;

    if (fails(fake, err) || is_bad(fake, OWN_IDS, group->window, err))
        return err->code;
    for (unsigned i = fake->here[group->window]; i-- > 0;)
        ing_group_ids_add(out, id_of(group->window, i));
    return FG_OK;
}

static void group_failed(void *arg, const struct ing_repair_group *group)
{
    struct fake *fake = arg;

    fake->failed[group->window]++;
}

static enum fg_code pass(struct fake *fake, struct fg_err *err)
{
    const struct ing_repair_links links = {fake, groups,  ids,     take,
                                           owns, own_sum, own_ids, group_failed};

    return ing_repair_core_pass(&links, err);
}

static const struct fake wanting = {
    .there = {PROFILES, PROFILES, PROFILES, PROFILES, 1, 5, 300},
    .here = {PROFILES, 0, 4, 0, 2, 4, 0},
};

static void missing_profiles_are_fetched(void **state)
{
    static const unsigned asked[GROUPS] = {0, 1, 1, 0, 1, 1, 1};
    static const unsigned taken[GROUPS] = {0, PROFILES, PROFILES - 4, 0, 0, 1, 300};
    struct fake fake = wanting;
    struct fg_err err;

    (void)state;
    assert_int_equal(pass(&fake, &err), FG_OK);
    assert_int_equal(fake.pages, (GROUPS + PAGE - 1) / PAGE);
    assert_memory_equal(fake.asked, asked, sizeof asked);
    assert_memory_equal(fake.taken, taken, sizeof taken);
}

static void pass_survives_a_failure_of_each_call(void **state)
{
    unsigned k = 0;
    enum fg_code code;

    (void)state;
    do {
        struct fake fake = wanting;
        struct fg_err err;

        fake.fails_at = ++k;
        code = pass(&fake, &err);
        assert_true(code == FG_OK || code == FG_E_UNAVAILABLE);
        assert_int_equal(fake.calls < k, code == FG_OK);
    } while (code != FG_OK);
    assert_true(k > 100);
}

/* An error of one group: it comes again in each pass, and must not hide what is behind it. */
static void groups_behind_one_that_fails_are_repaired(void **state)
{
    static const struct {
        const char *name;
        enum link link;
        enum fg_code code;
    } cases[] = {
        {"a tenant is at its limit here", TAKE, FG_E_LIMIT},
        {"a record there is damaged", TAKE, FG_E_CORRUPT},
        {"the push is invalid", TAKE, FG_E_INVALID},
        {"the ids there cannot be read", IDS, FG_E_CORRUPT},
        {"the ids here cannot be read", OWN_IDS, FG_E_CORRUPT},
    };
    static const unsigned failed[GROUPS] = {0, 1, 0, 0, 0, 0, 0};
    static const unsigned taken[GROUPS] = {PROFILES, 0, PROFILES, 0, PROFILES, 5, 300};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fake fake = {
            .there = {PROFILES, PROFILES, PROFILES, PROFILES, PROFILES, 5, 300},
            .bad = {{cases[i].link, 1, cases[i].code}},
        };
        struct fg_err err;

        print_message("  %s\n", cases[i].name);
        /* Nobody may conclude that both sides are equal. */
        assert_int_equal(pass(&fake, &err), cases[i].code);
        assert_string_equal(err.msg, "tenant t, shard 1: group 1");
        assert_memory_equal(fake.failed, failed, sizeof failed);
        assert_memory_equal(fake.taken, taken, sizeof taken);
    }
}

static void pass_fails_with_the_first_error_of_a_group(void **state)
{
    struct fake fake = wanting;
    struct fg_err err;

    (void)state;
    fake.bad[0].link = fake.bad[1].link = TAKE;
    fake.bad[0].group = 2;
    fake.bad[0].code = FG_E_CORRUPT;
    fake.bad[1].group = 5;
    fake.bad[1].code = FG_E_LIMIT;
    assert_int_equal(pass(&fake, &err), FG_E_CORRUPT);
    assert_string_equal(err.msg, "tenant t, shard 2: group 2");
    assert_int_equal(fake.failed[2] + fake.failed[5], 2);
    assert_int_equal(fake.taken[6], 300);
}

/* An error that all groups would have: asking on costs as much for each of them. It is reported
 * rather than the error of a group before it. */
static void errors_of_every_group_end_the_pass(void **state)
{
    static const enum fg_code codes[] = {FG_E_UNAVAILABLE,  FG_E_DEADLINE, FG_E_CANCELED,
                                         FG_E_PRECONDITION, FG_E_ABORTED,  FG_E_NO_SPACE};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(codes); i++)
        for (enum link link = OWN_IDS; link <= TAKE; link++) {
            struct fake fake = wanting;
            struct fg_err err;

            fake.bad[0].link = TAKE;
            fake.bad[0].group = 1;
            fake.bad[0].code = FG_E_LIMIT;
            fake.bad[1].link = link;
            fake.bad[1].group = 2;
            fake.bad[1].code = codes[i];
            assert_int_equal(pass(&fake, &err), codes[i]);
            assert_string_equal(err.msg, "group 2");
            assert_int_equal(fake.failed[1], 1);
            assert_int_equal(fake.failed[2], 0);
            for (unsigned group = 3; group < GROUPS; group++)
                assert_int_equal(fake.asked[group], 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_profiles_are_fetched),
        cmocka_unit_test(pass_survives_a_failure_of_each_call),
        cmocka_unit_test(groups_behind_one_that_fails_are_repaired),
        cmocka_unit_test(pass_fails_with_the_first_error_of_a_group),
        cmocka_unit_test(errors_of_every_group_end_the_pass),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
