/* The table finds each name that its tenant added, until it is full and evicts; other tenants do
 * not find it. */
#include "distributor/stack_names.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { STACKS = 1000 };

static uint64_t short_of(struct fg_id id)
{
    return id.lo & ((UINT64_C(1) << 8 * FG_STACK_SHORT_BYTES) - 1);
}

static struct fg_id id_of(uint64_t n)
{
    return (struct fg_id){fg_mix64(2 * n), fg_mix64(2 * n + 1)};
}

static void add(struct dist_stack_names *names, uint64_t key, uint64_t n)
{
    dist_stack_names_add(names, key, &(struct fg_wire_stack){.id = id_of(n)}, 1);
}

static bool knows(struct dist_stack_names *names, uint64_t key, uint64_t n)
{
    uint64_t short_id = short_of(id_of(n));
    struct fg_id id;

    if (!dist_stack_names_find(names, key, &short_id, 1, &id))
        return false;
    assert_true(fg_id_eq(id, id_of(n)));
    return true;
}

static void ids_are_found_by_their_tenant(void **state)
{
    struct dist_stack_names *names = dist_stack_names_create(4 * STACKS);
    uint64_t a = dist_stack_names_key(FG_LIT("a")), b = dist_stack_names_key(FG_LIT("b"));
    struct fg_wire_stack stacks[STACKS] = {0};
    uint64_t shorts[STACKS];
    struct fg_id ids[STACKS];

    (void)state;
    for (unsigned i = 0; i < STACKS; i++) {
        stacks[i].id = id_of(i);
        shorts[i] = short_of(id_of(i));
    }
    assert_false(dist_stack_names_find(names, a, shorts, 1, ids));
    dist_stack_names_add(names, a, stacks, STACKS / 2);
    dist_stack_names_add(names, a, stacks, STACKS / 2); /* no second time */
    assert_true(dist_stack_names_find(names, a, shorts, 10, ids));
    for (unsigned i = 0; i < 10; i++)
        assert_true(fg_id_eq(ids[i], id_of(i)));
    assert_false(dist_stack_names_find(names, a, shorts, STACKS, ids));
    assert_false(dist_stack_names_find(names, b, shorts, 10, ids));
    assert_true(dist_stack_names_find(names, b, shorts, 0, ids));
    dist_stack_names_destroy(names);
    dist_stack_names_destroy(NULL);
}

static void new_ids_replace_old_ones(void **state)
{
    struct dist_stack_names *names = dist_stack_names_create(STACKS);
    unsigned n_new = 0, n_old = 0;

    (void)state;
    for (unsigned i = 0; i < 20 * STACKS; i++)
        add(names, 5, i);
    for (unsigned i = 0; i < STACKS / 4; i++) {
        n_old += knows(names, 5, i);
        n_new += knows(names, 5, 20 * STACKS - 1 - i);
    }
    assert_int_equal(n_old, 0);
    assert_in_range(n_new, STACKS / 4 * 9 / 10, STACKS / 4);
    dist_stack_names_destroy(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_found_by_their_tenant),
        cmocka_unit_test(new_ids_replace_old_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
