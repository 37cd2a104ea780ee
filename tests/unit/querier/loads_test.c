#include "querier/blocks/loads.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Sends as much as the tenant may and returns how much that is. */
static unsigned fill(struct qry_loads *loads, uint64_t tenant)
{
    unsigned n = 0;

    for (; qry_loads_have_room(loads, tenant); n++)
        qry_loads_add(loads, tenant, 1);
    return n;
}

static void no_tenant_takes_all_requests(void **state)
{
    struct qry_loads loads = {0};

    (void)state;
    assert_int_equal(fill(&loads, 1), LOADS_MAX / 2);
    assert_int_equal(fill(&loads, 2), LOADS_MAX / 4);
    assert_int_equal(fill(&loads, 1), 0);
    assert_true(qry_loads_have_room(&loads, 3));
    qry_loads_remove(&loads, 2, LOADS_MAX / 4);
    assert_int_equal(fill(&loads, 1), 0);
    qry_loads_remove(&loads, 1, LOADS_MAX / 2);
    assert_int_equal(fill(&loads, 2), LOADS_MAX / 2);
    qry_loads_remove(&loads, 2, LOADS_MAX / 2);
    assert_int_equal(atomic_load(&loads.all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_tenant_takes_all_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
