/* Shares of a room: who has little finds some before who has much. */
#include "common/base/def.h"
#include "common/model/tenant_share.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ROOM = 1000000, TENANTS = 4 };

static void fill(double share, uint64_t *used, uint64_t *left)
{
    while (*left > 0 && fg_share_allows(share, *used, *left)) {
        (*used)++;
        (*left)--;
    }
}

static void each_tenant_gets_its_share_of_the_rest(void **state)
{
    static const double shares[] = {0.1, 0.5, 0.9};

    (void)state;
    for (size_t s = 0; s < FG_COUNT(shares); s++) {
        uint64_t left = ROOM;

        for (int t = 0; t < TENANTS; t++) {
            uint64_t used = 0, before = left;

            fill(shares[s], &used, &left);
            assert_in_range(used, (uint64_t)(shares[s] * (double)before),
                            (uint64_t)(shares[s] * (double)before) + 2);
        }
        assert_true(left > 0);
        assert_true(fg_share_allows(shares[s], 0, left));
    }
}

static void tenants_that_grow_together_get_equal_shares(void **state)
{
    uint64_t used[2] = {0}, left = ROOM;

    (void)state;
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t t = 0; t < FG_COUNT(used); t++)
            if (fg_share_allows(0.5, used[t], left)) {
                used[t]++;
                left--;
                grew = true;
            }
    }
    for (size_t t = 0; t < FG_COUNT(used); t++)
        assert_in_range(used[t], ROOM / 3, ROOM / 3 + 2);
}

static void a_share_of_one_takes_everything(void **state)
{
    uint64_t used = 0, left = ROOM;

    (void)state;
    fill(1, &used, &left);
    assert_int_equal(used, ROOM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tenant_gets_its_share_of_the_rest),
        cmocka_unit_test(tenants_that_grow_together_get_equal_shares),
        cmocka_unit_test(a_share_of_one_takes_everything),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
