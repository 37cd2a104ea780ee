#include "querier/blocks/loads.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ENOUGH = 1000 };

/* Sends as much as a query of the tenant may that has some under way, and returns how much that is.
 */
static unsigned fill(struct qry_loads *loads, uint64_t tenant)
{
    unsigned n = 0;

    for (; n < ENOUGH && qry_loads_may_send(loads, tenant, 1); n++)
        qry_loads_add(loads, tenant, 1);
    return n;
}

static void no_tenant_takes_all_requests(void **state)
{
    struct qry_loads loads = {.shared = true};

    (void)state;
    assert_int_equal(fill(&loads, 1), LOADS_MAX / 2);
    assert_int_equal(fill(&loads, 2), LOADS_MAX / 4);
    assert_int_equal(fill(&loads, 1), 0);
    assert_true(qry_loads_may_send(&loads, 3, 1));
    qry_loads_remove(&loads, 2, LOADS_MAX / 4);
    assert_int_equal(fill(&loads, 1), 0);
    qry_loads_remove(&loads, 1, LOADS_MAX / 2);
    assert_int_equal(fill(&loads, 2), LOADS_MAX / 2);
    qry_loads_remove(&loads, 2, LOADS_MAX / 2);
    assert_int_equal(atomic_load(&loads.all), 0);
}

/* However many queries of however many tenants there are. */
static void each_query_has_a_request(void **state)
{
    struct qry_loads loads = {.shared = true};

    (void)state;
    for (uint64_t tenant = 0; tenant < ENOUGH; tenant++) {
        assert_true(qry_loads_may_send(&loads, tenant, 0));
        qry_loads_add(&loads, tenant, 1);
        assert_true(tenant < LOADS_MAX || !qry_loads_may_send(&loads, tenant, 1));
    }
}

static void a_tenant_without_others_has_no_limit(void **state)
{
    struct qry_loads loads = {.shared = false};

    (void)state;
    assert_int_equal(fill(&loads, 1), ENOUGH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_tenant_takes_all_requests),
        cmocka_unit_test(each_query_has_a_request),
        cmocka_unit_test(a_tenant_without_others_has_no_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
