#include "common/cluster/manifest/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ID_HEX "0123456789abcdef0011223344556677"
static const struct fg_id id = {.hi = 0x0123456789abcdef, .lo = 0x0011223344556677};

static void names_are_parsed_as_they_are_made(void **state)
{
    const struct fg_segment_id segment = {id, 17, 0xfedcba9876543210};
    char out[FG_NAME_MAX_BYTES];
    struct fg_name name;
    struct fg_err err;

    (void)state;
    fg_name_segment(out, &segment);
    assert_string_equal(out, "segments/" ID_HEX "/0000000000000011-fedcba9876543210");
    assert_true(fg_name_parse(fg_cstr(out), &name));
    assert_int_equal(name.kind, FG_NAME_IS_SEGMENT);
    assert_int_equal(fg_segment_id_cmp(&name.segment, &segment), 0);

    assert_int_equal(fg_name_blocks(out, FG_LIT("team-a"), &err), FG_OK);
    assert_string_equal(out, "tenants/team-a/manifest");
    assert_true(fg_name_parse(fg_cstr(out), &name));
    assert_int_equal(name.kind, FG_NAME_IS_BLOCKS);
    assert_string_equal(name.tenant, "team-a");

    assert_int_equal(fg_name_block(out, FG_LIT(".hidden"), id, &err), FG_OK);
    assert_string_equal(out, "tenants/=2ehidden/blocks/" ID_HEX);
    assert_true(fg_name_parse(fg_cstr(out), &name));
    assert_int_equal(name.kind, FG_NAME_IS_BLOCK);
    assert_string_equal(name.tenant, ".hidden");
    assert_true(fg_id_eq(name.block, id));

    assert_true(fg_name_parse(FG_LIT("manifests/l0"), &name));
    assert_int_equal(name.kind, FG_NAME_IS_L0);
    assert_true(fg_name_parse(FG_LIT("manifests/ring"), &name));
    assert_int_equal(name.kind, FG_NAME_IS_RING);
    assert_true(fg_name_parse(FG_LIT(FG_NAME_COMPACTORS), &name));
    assert_int_equal(name.kind, FG_NAME_IS_COMPACTORS);
    assert_false(fg_name_parse(FG_LIT("manifests/l1"), &name));
}

/* No tenant's name leads out of its folder, or is cut short. */
static void tenants_of_all_characters_have_names(void **state)
{
    static const char *const bad[] = {"", ".", "..", "a/b", "../a", "a b", "=2ea", "a\n", "\xff"};
    char out[FG_NAME_MAX_BYTES], longest[FG_TENANT_MAX_BYTES + 2];
    struct fg_name name;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        print_message("  '%s'\n", bad[i]);
        assert_int_equal(fg_name_blocks(out, fg_cstr(bad[i]), &err), FG_E_INVALID);
        assert_int_equal(fg_name_block(out, fg_cstr(bad[i]), id, &err), FG_E_INVALID);
    }
    memset(longest, '.', sizeof longest);
    assert_int_equal(fg_name_block(out, fg_bytes(longest, FG_TENANT_MAX_BYTES), id, &err), FG_OK);
    assert_int_equal(strlen(out), FG_NAME_MAX_BYTES - 1 - 1);
    assert_true(fg_name_parse(fg_cstr(out), &name));
    assert_int_equal(strlen(name.tenant), FG_TENANT_MAX_BYTES);
    assert_int_equal(fg_name_block(out, fg_bytes(longest, FG_TENANT_MAX_BYTES + 1), id, &err),
                     FG_E_INVALID);
}

static void other_names_are_not_parsed(void **state)
{
    static const char *const names[] = {
        "",
        "manifests",
        "manifests/l0/x",
        "manifests/l1",
        "segments/" ID_HEX,
        "segments/" ID_HEX "/11-fedcba9876543210",
        "segments/" ID_HEX "/0000000000000011-FEDCBA9876543210",
        "segments/" ID_HEX "/0000000000000011-fedcba9876543210x",
        "tenants//manifest",
        "tenants/a",
        "tenants/a/manifest/x",
        "tenants/a/blocks/" ID_HEX "/x",
        "tenants/a/blocks/",
        "tenants/.a/manifest",
        "tenants/=2e/manifest",
        "tenants/=2e./manifest",
        "tenants/a=2e/manifest",
        "tenants/../manifest",
        "proof/x",
    };
    struct fg_name name;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        print_message("  '%s'\n", names[i]);
        assert_false(fg_name_parse(fg_cstr(names[i]), &name));
    }
    assert_false(fg_name_parse(fg_bytes("manifests/l0\0", 13), &name));
    assert_false(fg_name_parse(fg_bytes("tenants/a\0b/manifest", 20), &name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_parsed_as_they_are_made),
        cmocka_unit_test(tenants_of_all_characters_have_names),
        cmocka_unit_test(other_names_are_not_parsed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
