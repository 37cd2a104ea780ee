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

/* Every bit of an id is in its text, and texts of ids sort like numbers. */
static void ids_of_files_keep_all_bits(void **state)
{
    static const struct {
        struct fg_id bits;
        const char *want;
    } cases[] = {
        {{.lo = 0}, "00000000000000000000000000"},
        {{.lo = 31}, "0000000000000000000000000Z"},
        {{.lo = 32}, "00000000000000000000000010"},
        {{UINT64_MAX, UINT64_MAX}, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
        {{.hi = UINT64_C(1) << 63}, "40000000000000000000000000"},
        {{.hi = 1}, "0000000000000G000000000000"},
    };
    static const char *const bad[] = {"",
                                      "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                      "7ZZZZZZZZZZZZZZZZZZZZZZZZ",
                                      "7ZZZZZZZZZZZZZZZZZZZZZZZZZZ",
                                      "7ZZZZZZZZZZZZZZZZZZZZZZZZU",
                                      "7zzzzzzzzzzzzzzzzzzzzzzzzz",
                                      "7ZZZZZZZZZZZZ/ZZZZZZZZZZZZ"};
    char out[FG_ADHOC_ID_CHARS + 1];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_adhoc_id_write(cases[i].bits, out);
        assert_string_equal(out, cases[i].want);
        assert_true(fg_adhoc_id_is_valid(fg_cstr(out)));
    }
    for (size_t i = 0; i < FG_COUNT(bad); i++)
        assert_false(fg_adhoc_id_is_valid(fg_cstr(bad[i])));
    assert_false(fg_adhoc_id_is_valid(fg_bytes("7ZZZZZZZZZZZZZZZZZZZZZZZZ\0", 26)));
}

#define FILE_ID "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"
#define FILE_AT "000001a20bbe73b3-309a0421"

static void names_of_files_are_parsed_as_they_are_made(void **state)
{
    static const struct fg_adhoc_name whole = {.tenant = ".hidden",
                                               .id = FILE_ID,
                                               .uploaded_ms = 0x1a20bbe73b3,
                                               .crc = 0x309a0421,
                                               .file = "x-1.pb.gz"};
    static const char *const bad[] = {
        "tenants/a/adhoc/",
        "tenants/a/adhoc/" FILE_ID,
        "tenants/a/adhoc/" FILE_ID "-" FILE_AT,
        "tenants/a/adhoc/" FILE_ID "-" FILE_AT "-",
        "tenants/a/adhoc/" FILE_ID "-" FILE_AT "-a/b",
        "tenants/a/adhoc/" FILE_ID "-" FILE_AT "-a b",
        "tenants/a/adhoc/" FILE_ID "-000001A20BBE73B3-309a0421-x",
        "tenants/a/adhoc/" FILE_ID "-800001a20bbe73b3-309a0421-x",
        "tenants/a/adhoc/8" FILE_ID "-" FILE_AT "-x",
        "tenants/.a/adhoc/" FILE_ID "-" FILE_AT "-x",
        "tenants/a/blocks/" FILE_ID "-" FILE_AT "-x",
        "adhoc/a/" FILE_ID "-" FILE_AT "-x",
    };
    char out[FG_NAME_ADHOC_MAX_BYTES], all[FG_NAME_ADHOC_MAX_BYTES], *longest;
    struct fg_adhoc_name name;
    struct fg_name other;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_name_adhoc(out, &whole, &err), FG_OK);
    assert_string_equal(out, "tenants/=2ehidden/adhoc/" FILE_ID "-" FILE_AT "-x-1.pb.gz");
    assert_true(fg_name_parse_adhoc(fg_cstr(out), &name));
    assert_string_equal(name.tenant, ".hidden");
    assert_string_equal(name.id, FILE_ID);
    assert_int_equal(name.uploaded_ms, whole.uploaded_ms);
    assert_int_equal(name.crc, whole.crc);
    assert_string_equal(name.file, "x-1.pb.gz");
    assert_int_equal(fg_name_adhoc_all(all, FG_LIT(".hidden"), &err), FG_OK);
    assert_true(fg_slice_starts(fg_cstr(out), all));
    /* Whoever deletes what no manifest lists does not know it. */
    assert_false(fg_name_parse(fg_cstr(out), &other));
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        print_message("  '%s'\n", bad[i]);
        assert_false(fg_name_parse_adhoc(fg_cstr(bad[i]), &name));
    }

    memset(name.tenant, '.', FG_TENANT_MAX_BYTES);
    name.tenant[FG_TENANT_MAX_BYTES] = '\0';
    fg_adhoc_file_write(fg_cstr(memset(longest = calloc(1, 301), 'x', 300)), name.file);
    assert_int_equal(strlen(name.file), FG_ADHOC_FILE_MAX_BYTES);
    free(longest);
    assert_int_equal(fg_name_adhoc(out, &name, &err), FG_OK);
    assert_true(fg_name_parse_adhoc(fg_cstr(out), &name));
    assert_int_equal(fg_name_adhoc_all(all, FG_LIT("../x"), &err), FG_E_INVALID);
}

static void names_of_uploads_become_harmless(void **state)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"", "profile"},          {"cpu.pb.gz", "cpu.pb.gz"},
        {"x y", "x_y"},           {"../../etc/passwd", ".._.._etc_passwd"},
        {"a\"\r\nb\\", "a___b_"}, {"\xc3\xa4.folded", "__.folded"},
    };
    char out[FG_ADHOC_FILE_MAX_BYTES + 1];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_adhoc_file_write(fg_cstr(cases[i].name), out);
        assert_string_equal(out, cases[i].want);
    }
    fg_adhoc_file_write(fg_bytes("a\0b", 3), out);
    assert_string_equal(out, "a_b");
}

static void names_of_processes_are_parsed_as_they_are_made(void **state)
{
    static const char *const names[] = {
        "members/distributor/host-1_4040/1768478400000_0.1.0_a1b2c3d",
        "members/compactor/c/0_0.1.0_",
        "members/querier/q.example/9223372036854775807_1_2_3",
    };
    static const char *const bad[] = {"members/distributor/host/01_0.1.0_x",
                                      "members/distributor/host/-1_0.1.0_x",
                                      "members/distributor/host/9223372036854775808_0.1.0_x",
                                      "members/distributor/host/1_0.1.0",
                                      "members/distributor//1_0.1.0_x",
                                      "members//host/1_0_x",
                                      "members/distributor/host/1_0.1.0_x/y",
                                      "members/distributor/h st/1_0.1.0_x",
                                      "member/distributor/host/1_0.1.0_x",
                                      "members/distributor",
                                      ""};
    char out[FG_NAME_PRESENCE_MAX_BYTES];
    struct fg_presence_name name;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(names); i++) {
        assert_true(fg_name_parse_presence(fg_cstr(names[i]), &name));
        assert_int_equal(fg_name_presence(out, &name, &err), FG_OK);
        assert_string_equal(out, names[i]);
    }
    for (size_t i = 0; i < FG_COUNT(bad); i++) {
        print_message("  '%s'\n", bad[i]);
        assert_false(fg_name_parse_presence(fg_cstr(bad[i]), &name));
    }
    name = (struct fg_presence_name){.started_ms = INT64_MAX};
    memset(name.role, 'r', FG_PRESENCE_ROLE_MAX_BYTES);
    memset(name.name, 'n', FG_MEMBER_NAME_MAX_BYTES);
    memset(name.version, 'v', FG_PRESENCE_VERSION_MAX_BYTES);
    memset(name.revision, 'w', FG_PRESENCE_VERSION_MAX_BYTES);
    assert_int_equal(fg_name_presence(out, &name, &err), FG_OK);
    assert_true(fg_name_parse_presence(fg_cstr(out), &name));
    (void)snprintf(name.version, sizeof name.version, "1_2");
    assert_int_equal(fg_name_presence(out, &name, &err), FG_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_parsed_as_they_are_made),
        cmocka_unit_test(tenants_of_all_characters_have_names),
        cmocka_unit_test(other_names_are_not_parsed),
        cmocka_unit_test(ids_of_files_keep_all_bits),
        cmocka_unit_test(names_of_files_are_parsed_as_they_are_made),
        cmocka_unit_test(names_of_uploads_become_harmless),
        cmocka_unit_test(names_of_processes_are_parsed_as_they_are_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
