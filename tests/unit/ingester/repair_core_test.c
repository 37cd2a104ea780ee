/* What a pass of repair asks and fetches; and each link fails once. */
#include "ingester/repair/repair_core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { GROUPS = 7, PROFILES = 10, PAGE = 2, TAKEN_AT_A_TIME = 3 };

/* The other owner has the profiles 0 .. there[g] of group g, we have 0 .. here[g]. */
struct fake {
    unsigned there[GROUPS], here[GROUPS];
    unsigned asked[GROUPS], taken[GROUPS];
    unsigned pages, calls, fails_at; /* 0: never */
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
        ret_page->groups[ret_page->n++] = (struct ing_repair_group){
            .shard = (uint16_t)next, .window = next, .sum = sum_of(next, fake->there[next])};
    ret_page->more = next < GROUPS;
    return FG_OK;
}

static enum fg_code ids(void *arg, const struct ing_repair_group *group, struct ing_group_ids *out,
                        struct fg_err *err)
{
    struct fake *fake = arg;

    if (fails(fake, err))
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

    if (fails(fake, err))
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

    if (fails(fake, err))
        return err->code;
    for (unsigned i = fake->here[group->window]; i-- > 0;)
        ing_group_ids_add(out, id_of(group->window, i));
    return FG_OK;
}

static enum fg_code pass(struct fake *fake, struct fg_err *err)
{
    const struct ing_repair_links links = {fake, groups, ids, take, owns, own_sum, own_ids};

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_profiles_are_fetched),
        cmocka_unit_test(pass_survives_a_failure_of_each_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
