/* Lists of networks, and which addresses they have. */
#include "common/access/guard/networks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void addresses_are_in_the_networks_that_have_them(void **state)
{
    static const struct {
        const char *list, *address;
        bool in;
    } cases[] = {
        {"10.0.0.0/8", "10.0.0.0", true},
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.0.0.0/8", "9.255.255.255", false},
        {"192.0.2.128/25", "192.0.2.127", false},
        {"192.0.2.128/25", "192.0.2.128", true},
        {"192.0.2.7", "192.0.2.7", true},
        {"192.0.2.7", "192.0.2.6", false},
        {"192.0.2.7/32", "192.0.2.7", true},
        {"0.0.0.0/0", "203.0.113.9", true},
        {"0.0.0.0/0", "2001:db8::1", false}, /* all of IPv4 only */
        {"::/0", "2001:db8::1", true},
        {"::/0", "203.0.113.9", true}, /* as ::ffff:203.0.113.9 */
        {"fd00::/8", "fd12:3456::1", true},
        {"fd00::/8", "fe80::1", false},
        {"2001:db8::/33", "2001:db8:7fff::1", true},
        {"2001:db8::/33", "2001:db8:8000::1", false},
        {"2001:db8::5", "2001:db8:0:0:0:0:0:5", true},
        /* A server that listens on [::] sees IPv4 clients like this. */
        {"10.0.0.0/8", "::ffff:10.1.2.3", true},
        {"10.0.0.0/8", "::ffff:11.1.2.3", false},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"10.0.0.0/8, 192.168.0.0/16 ,fd00::/8", "192.168.9.9", true},
        {"10.0.0.0/8, 192.168.0.0/16 ,fd00::/8", "172.16.0.1", false},
        {"", "127.0.0.1", false},
        {"::/0", "", false},
        {"::/0", "10.1.2", false},
        {"::/0", "010.1.2.3", false},
        {"::/0", "10.1.2.3 ", false},
        {"::/0", "localhost", false},
        {"::/0", "fe80::1%eth0", false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_networks networks;
        struct fg_err err;

        print_message("  %s in %s\n", cases[i].address, cases[i].list);
        assert_int_equal(fg_networks_read(fg_cstr(cases[i].list), &networks, &err), FG_OK);
        assert_int_equal(fg_networks_have(&networks, fg_cstr(cases[i].address)), cases[i].in);
    }
}

static void wrong_items_are_named(void **state)
{
    static const char *const wrong[][2] = {
        {"10.0.0.0/33", "\"10.0.0.0/33\""},
        {"fd00::/129", "\"fd00::/129\""},
        {"10.0.0.0/-1", "\"10.0.0.0/-1\""},
        {"10.0.0.0/", "\"10.0.0.0/\""},
        {"10.0.0.0/8/8", "\"10.0.0.0/8/8\""},
        {"10.0.0.0/8x", "\"10.0.0.0/8x\""},
        {"10.0.0/8", "\"10.0.0/8\""},
        {"256.0.0.0/8", "\"256.0.0.0/8\""},
        {"gateway.example.com", "\"gateway.example.com\""},
        {"10.0.0.0/8,,10.1.0.0/16", "\"\""},
        {"/8", "\"/8\""},
        /* Somebody meant another network, or one address. */
        {"10.0.0.1/8", "\"10.0.0.1/8\""},
        {"2001:db8::1/64", "\"2001:db8::1/64\""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(wrong); i++) {
        struct fg_networks networks;
        struct fg_err err;

        print_message("  %s\n", wrong[i][0]);
        assert_int_equal(fg_networks_read(fg_cstr(wrong[i][0]), &networks, &err), FG_E_INVALID);
        assert_non_null(strstr(err.msg, wrong[i][1]));
    }
}

static void a_list_has_an_end(void **state)
{
    struct fg_networks networks;
    char text[16 * (FG_NETWORKS_MAX + 1)] = "";
    struct fg_err err;
    size_t len = 0;

    (void)state;
    for (unsigned i = 0; i < FG_NETWORKS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "10.0.%u.0/24,", i);
    text[len - 1] = '\0';
    assert_int_equal(fg_networks_read(fg_cstr(text), &networks, &err), FG_OK);
    assert_int_equal(networks.n, FG_NETWORKS_MAX);
    (void)snprintf(text + len - 1, sizeof text - len, ",10.1.0.0/24");
    assert_int_equal(fg_networks_read(fg_cstr(text), &networks, &err), FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_in_the_networks_that_have_them),
        cmocka_unit_test(wrong_items_are_named),
        cmocka_unit_test(a_list_has_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
