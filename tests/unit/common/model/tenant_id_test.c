#include "common/model/tenant_id.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define TEN   "tttttttttt"
#define FIFTY TEN TEN TEN TEN TEN

/* clang-format off */
static const struct {
    const char *header;
    enum fg_code code;
    const char *want; /* the ids, each with a blank; or the error */
} cases[] = {
    {"a", FG_OK, "a "},
    {"b|a", FG_OK, "a b "},
    {"a|a", FG_OK, "a "},
    {"a|", FG_OK, "a "},
    {"|a||b|", FG_OK, "a b "},
    {"a:source=x|b", FG_OK, "a b "},
    {"Az09!-_.*'()", FG_OK, "Az09!-_.*'() "},
    {"...", FG_OK, "... "},
    {FIFTY FIFTY FIFTY, FG_OK, FIFTY FIFTY FIFTY " "},
    {"", FG_E_NO_TENANT, "no org id"},
    {"|", FG_E_NO_TENANT, "no org id"},
    {":a", FG_E_NO_TENANT, "no org id"},
    {FIFTY FIFTY FIFTY "t", FG_E_INVALID, "tenant ID is too long: max 150 characters"},
    {".", FG_E_INVALID, "tenant ID is '.' or '..'"},
    {"a|..", FG_E_INVALID, "tenant ID is '.' or '..'"},
    {"a$b", FG_E_INVALID, "tenant ID 'a$b' contains unsupported character '$'"},
    {"../x", FG_E_INVALID, "tenant ID '../x' contains unsupported character '/'"},
    {"a b", FG_E_INVALID, "tenant ID 'a b' contains unsupported character ' '"},
    {"t\xc3\xa9", FG_E_INVALID, "tenant ID 't\xc3\xa9' contains unsupported character '?'"},
};
/* clang-format on */

static void names_of_tenants_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_tenant_ids got;
        char text[512] = "";
        struct fg_err err;

        print_message("  %s\n", cases[i].header);
        assert_int_equal(fg_tenant_ids_parse(fg_cstr(cases[i].header), &got, &err), cases[i].code);
        if (cases[i].code != FG_OK) {
            assert_string_equal(err.msg, cases[i].want);
            continue;
        }
        for (size_t k = 0; k < got.n; k++) {
            size_t len = strlen(text);

            (void)snprintf(text + len, sizeof text - len, "%.*s ", FG_S(got.ids[k]));
        }
        assert_string_equal(text, cases[i].want);
    }
}

static void too_many_tenants_are_refused(void **state)
{
    struct fg_tenant_ids got;
    char header[256] = "";
    struct fg_err err;

    (void)state;
    for (int i = 0; i < FG_TENANT_IDS_MAX; i++) {
        size_t len = strlen(header);

        (void)snprintf(header + len, sizeof header - len, "%d|", 32 - i);
    }
    assert_int_equal(fg_tenant_ids_parse(fg_cstr(header), &got, &err), FG_OK);
    assert_int_equal(got.n, FG_TENANT_IDS_MAX);
    assert_true(fg_slice_is(got.ids[0], "1"));
    assert_true(fg_slice_is(got.ids[31], "9"));
    (void)snprintf(header + strlen(header), 4, "x");
    assert_int_equal(fg_tenant_ids_parse(fg_cstr(header), &got, &err), FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_of_tenants_are_checked),
                                       cmocka_unit_test(too_many_tenants_are_refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
