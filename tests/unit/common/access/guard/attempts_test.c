/* How many wrong credentials an address may send, and that nobody else pays for it. */
#include "common/access/guard/attempts.h"
#include "common/base/time.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { PER_MINUTE = 20 };

static int set_up(void **state)
{
    *state = fg_attempts_create(PER_MINUTE, 42);
    return 0;
}

static int tear_down(void **state)
{
    fg_attempts_destroy(*state);
    return 0;
}

/* Takes until one is refused; at most a thousand. */
static unsigned takes(struct fg_attempts *attempts, const char *peer, int64_t now_ns)
{
    unsigned n = 0;

    while (n < 1000 && fg_attempts_take(attempts, fg_cstr(peer), now_ns))
        n++;
    return n;
}

static void an_address_has_so_many_a_minute(void **state)
{
    assert_int_equal(takes(*state, "192.0.2.1", 0), PER_MINUTE);
    assert_false(fg_attempts_are_left(*state, FG_LIT("192.0.2.1"), 0));
    /* One comes back every three seconds. */
    assert_false(fg_attempts_are_left(*state, FG_LIT("192.0.2.1"), 3 * FG_SECOND_NS - FG_MS_NS));
    assert_int_equal(takes(*state, "192.0.2.1", 3 * FG_SECOND_NS + FG_MS_NS), 1);
    assert_int_equal(takes(*state, "192.0.2.1", 33 * FG_SECOND_NS + 2 * FG_MS_NS), 10);
    /* They do not add up. */
    assert_int_equal(takes(*state, "192.0.2.1", 24 * FG_HOUR_NS), PER_MINUTE);
}

static void to_look_takes_none(void **state)
{
    for (unsigned i = 0; i < 10 * PER_MINUTE; i++)
        assert_true(fg_attempts_are_left(*state, FG_LIT("192.0.2.1"), 0));
    assert_int_equal(takes(*state, "192.0.2.1", 0), PER_MINUTE);
}

static void a_stranger_locks_nobody_else(void **state)
{
    (void)takes(*state, "192.0.2.1", 0);
    assert_int_equal(takes(*state, "192.0.2.2", 0), PER_MINUTE);
    assert_int_equal(takes(*state, "2001:db8::1", 0), PER_MINUTE);
}

/* Whoever has one IPv6 address has 2^64 of them. */
static void a_64_of_ipv6_is_one_source(void **state)
{
    assert_int_equal(takes(*state, "2001:db8:0:1::1", 0), PER_MINUTE);
    assert_int_equal(takes(*state, "2001:db8:0:1:ffff:ffff:ffff:ffff", 0), 0);
    assert_int_equal(takes(*state, "2001:db8:0:2::1", 0), PER_MINUTE);
}

static void ipv4_in_ipv6_is_not_one_source(void **state)
{
    assert_int_equal(takes(*state, "::ffff:192.0.2.1", 0), PER_MINUTE);
    assert_int_equal(takes(*state, "::ffff:192.0.2.2", 0), PER_MINUTE);
}

static void an_address_that_is_none_is_a_source_too(void **state)
{
    static const char *const odd[] = {
        "", "unix", "a name that is much longer than any address of the internet can ever be"};

    for (size_t i = 0; i < FG_COUNT(odd); i++)
        assert_int_equal(takes(*state, odd[i], 0), PER_MINUTE);
}

/* The table has a fixed size. Those with the fewest attempts left are forgotten last. */
static void a_flood_of_addresses_does_not_make_it_forget(void **state)
{
    char peer[32];

    (void)takes(*state, "192.0.2.1", 0);
    for (unsigned i = 0; i < 100000; i++) {
        (void)snprintf(peer, sizeof peer, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        assert_true(fg_attempts_take(*state, fg_cstr(peer), 0));
    }
    assert_int_equal(takes(*state, "192.0.2.1", 0), 0);
}

/* Even if all places are taken by addresses that have none left. */
static void a_full_table_refuses_no_new_address(void **state)
{
    char peer[32];

    for (unsigned i = 0; i < 20000; i++) {
        (void)snprintf(peer, sizeof peer, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        (void)takes(*state, peer, 0);
    }
    for (unsigned i = 0; i < 1000; i++) {
        (void)snprintf(peer, sizeof peer, "192.168.%u.%u", i >> 8, i & 255);
        assert_true(fg_attempts_are_left(*state, fg_cstr(peer), 0));
        assert_true(fg_attempts_take(*state, fg_cstr(peer), 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_has_so_many_a_minute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(to_look_takes_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stranger_locks_nobody_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_64_of_ipv6_is_one_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ipv4_in_ipv6_is_not_one_source, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_address_that_is_none_is_a_source_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_of_addresses_does_not_make_it_forget, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_table_refuses_no_new_address, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
