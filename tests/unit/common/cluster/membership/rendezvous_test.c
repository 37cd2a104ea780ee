/* Rendezvous hashing: numbers that must never change, fair shares, and what a leaving member moves.
 */
#include "common/cluster/membership/rendezvous.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { MEMBERS = 7, KEYS = 70000 };

/* The ring places stored profiles by these numbers, and versions of a cluster agree by them. */
static void drawn_numbers_never_change(void **state)
{
    static const struct {
        uint64_t member_hash, key, want;
    } cases[] = {
        {1, 1, UINT64_C(0x83ec686c1600460a)},
        {UINT64_C(0x0123456789abcdef), 65536, UINT64_C(0x4ec6109b34b87f7f)},
        {UINT64_MAX, UINT64_C(0x9e3779b97f4a7c15), UINT64_C(0xf2c27ef86a95b080)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(fg_rendezvous_draw(cases[i].member_hash, fg_rendezvous_key(cases[i].key)) ==
                    cases[i].want);
}

/* The owner among members [0, n) without `left`. */
static unsigned owner_of(uint64_t key, unsigned left)
{
    uint64_t prepared = fg_rendezvous_key(key), highest = 0;
    unsigned owner = MEMBERS;

    for (unsigned i = 0; i < MEMBERS; i++) {
        char name[8];
        uint64_t drawn;

        (void)snprintf(name, sizeof name, "m-%u", i);
        drawn = fg_rendezvous_draw(fg_hash64(fg_cstr(name)), prepared);
        if (i != left && (owner == MEMBERS || drawn > highest)) {
            owner = i;
            highest = drawn;
        }
    }
    return owner;
}

static void members_own_equal_shares(void **state)
{
    unsigned counts[MEMBERS] = {0};

    (void)state;
    for (uint64_t key = 1; key <= KEYS; key++)
        counts[owner_of(key, MEMBERS)]++;
    for (unsigned i = 0; i < MEMBERS; i++) /* 10,000 each, 6 standard deviations of 93 */
        assert_in_range(counts[i], KEYS / MEMBERS - 560, KEYS / MEMBERS + 560);
}

static void a_leaving_member_moves_only_its_own_keys(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= KEYS; key++) {
        unsigned before = owner_of(key, MEMBERS), after = owner_of(key, 3);

        assert_int_not_equal(after, 3);
        if (before != 3)
            assert_int_equal(after, before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_numbers_never_change),
        cmocka_unit_test(members_own_equal_shares),
        cmocka_unit_test(a_leaving_member_moves_only_its_own_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
