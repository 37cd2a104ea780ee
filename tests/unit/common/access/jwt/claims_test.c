/* Which objects are refused, and what a path finds. */
#include "common/access/jwt/claims.h"
#include "common/base/buf.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_BYTES = 256 * 1024 };

static void objects_with_a_name_twice_are_refused(void **state)
{
    static const struct {
        const char *text, *why; /* NULL: it passes */
    } cases[] = {
        {"{}", NULL},
        {"{\"a\":1,\"b\":{\"a\":1},\"c\":[{\"a\":1},{\"a\":1}]}", NULL},
        {"{\"a\":1,\"A\":1,\"\":1}", NULL},
        {"{\"a\":[[[[[[[]]]]]]]}", NULL},
        {"{\"a\":1,\"a\":1}", "two members"},
        {"{\"a\":1,\"b\":2,\"\\u0061\":1}", "two members"},
        {"{\"\":1,\"\":1}", "two members"},
        {"{\"b\":{\"a\":1,\"c\":2,\"a\":1}}", "two members"},
        {"{\"b\":[1,{\"a\":{},\"a\":[]}]}", "two members"},
        {"{\"a\":[[[[[[[[]]]]]]]]}", "too deep"},
        {"[]", "object"},
        {"\"a\"", "object"},
        {"", "value"},
        {"{\"a\":1}{}", "after"},
        {"{\"a\":1", "ends"},
        {"{\"a\"}", "':'"},
    };
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        enum fg_code code = fg_claims_check(fg_cstr(cases[i].text), arena, &err);

        print_message("  %s\n", cases[i].text);
        assert_int_equal(code, cases[i].why == NULL ? FG_OK : FG_E_DECODE);
        if (cases[i].why != NULL)
            assert_non_null(strstr(err.msg, cases[i].why));
    }
}

/* The sender chooses how many objects there are, but not how much memory they need. */
static void many_objects_need_the_memory_of_one(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(16 * 1024);
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, 1 << 20);
    fg_buf_puts(&text, "{\"a\":[{}");
    for (unsigned i = 0; i < 8000; i++)
        fg_buf_puts(&text, ",{\"x\":{\"y\":1}}");
    fg_buf_puts(&text, "]}");
    assert_int_equal(fg_claims_check(fg_buf_slice(&text), arena, &err), FG_OK);
    assert_int_equal(fg_arena_used_bytes(arena), 0);
    fg_buf_done(&text);
}

static void a_full_arena_is_no_fault_of_the_text(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(16);
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_claims_check(FG_LIT("{\"a\":{\"b\":{\"c\":1}}}"), arena, &err), FG_E_LIMIT);
}

static const char claims[] =
    "{\"sub\":\"u\\u0031\",\"groups\":[\"dev\",7,\"o\\\"ps\",null,[\"no\"],{\"no\":1},true],"
    "\"realm_access\":{\"roles\":[\"r1\"]},\"realm_access.roles\":\"flat\","
    "\"kubernetes.io\":{\"namespace\":\"acme\"},\"https://e.org/roles\":\"viewer\","
    "\"a/b\":{\"c~d\":\"slash\",\"\":\"empty\"},\"verified\":false,\"none\":null,\"n\":7,"
    "\"o\":{},\"list\":[]}";

static void paths_find_what_they_name(void **state)
{
    static const struct {
        const char *path, *values; /* NULL: absent; "!": something else */
    } cases[] = {
        {"sub", "u1 "},
        {"groups", "dev o\"ps true "},
        {"/groups", "dev o\"ps true "},
        {"/realm_access/roles", "r1 "},
        {"realm_access.roles", "flat "},
        {"/kubernetes.io/namespace", "acme "},
        {"kubernetes.io.namespace", NULL},
        {"https://e.org/roles", "viewer "},
        {"/https:~1~1e.org~1roles", "viewer "},
        {"a/b", "!"},
        {"/a~1b/c~0d", "slash "},
        {"/a~1b/", "empty "},
        {"/a/b", NULL},
        {"verified", "false "},
        {"none", NULL},
        {"/none/x", NULL},
        {"n", "!"},
        {"o", "!"},
        {"list", ""},
        {"/groups/0", NULL},
        {"/sub/x", NULL},
        {"", NULL},
        {"/", NULL},
        {"absent", NULL},
    };
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_buf found;
    struct fg_err err;

    (void)state;
    fg_buf_init(&found, 1000);
    assert_int_equal(fg_claims_check(fg_cstr(claims), arena, &err), FG_OK);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_slice *values;
        uint32_t n = 0;
        enum fg_claim_found got =
            fg_claim_values(fg_cstr(claims), fg_cstr(cases[i].path), arena, &values, &n);

        print_message("  %s\n", cases[i].path);
        fg_buf_clear(&found);
        for (uint32_t k = 0; got == FG_CLAIM_FOUND && k < n; k++)
            fg_buf_printf(&found, "%.*s ", FG_S(values[k]));
        fg_buf_putc(&found, 0);
        if (cases[i].values == NULL) {
            assert_int_equal(got, FG_CLAIM_ABSENT);
        } else if (strcmp(cases[i].values, "!") == 0) {
            assert_int_equal(got, FG_CLAIM_OTHER);
        } else {
            assert_int_equal(got, FG_CLAIM_FOUND);
            assert_string_equal((const char *)found.ptr, cases[i].values);
        }
    }
    fg_buf_done(&found);
}

static void members_have_the_type_that_was_asked_for(void **state)
{
    static const char text[] = "{\"t\":\"x\",\"n\":12.9,\"neg\":-1,\"far\":1e12,\"s\":\"12\","
                               "\"o\":{\"a\":[1]},\"l\":[{}],\"z\":null}";
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct fg_slice in = fg_cstr(text), found;
    int64_t seconds = 0;

    (void)state;
    assert_int_equal(fg_claim_text(in, "t", arena, &found), FG_CLAIM_FOUND);
    assert_true(fg_slice_is(found, "x"));
    assert_int_equal(fg_claim_text(in, "n", arena, &found), FG_CLAIM_OTHER);
    assert_int_equal(fg_claim_text(in, "z", arena, &found), FG_CLAIM_ABSENT);
    assert_int_equal(fg_claim_time(in, "n", arena, &seconds), FG_CLAIM_FOUND);
    assert_int_equal(seconds, 12);
    assert_int_equal(fg_claim_time(in, "neg", arena, &seconds), FG_CLAIM_OTHER);
    assert_int_equal(fg_claim_time(in, "far", arena, &seconds), FG_CLAIM_OTHER);
    assert_int_equal(fg_claim_time(in, "s", arena, &seconds), FG_CLAIM_OTHER);
    assert_int_equal(fg_claim_nested(in, "o", arena, &found), FG_CLAIM_FOUND);
    assert_true(fg_slice_is(found, "{\"a\":[1]}"));
    assert_int_equal(fg_claim_nested(in, "l", arena, &found), FG_CLAIM_FOUND);
    assert_true(fg_slice_is(found, "[{}]"));
    assert_int_equal(fg_claim_nested(in, "t", arena, &found), FG_CLAIM_OTHER);
    assert_true(fg_claim_is_there(in, "z", arena));
    assert_false(fg_claim_is_there(in, "y", arena));
}

static void faults_of_paths_are_named(void **state)
{
    char path[FG_CLAIM_PATH_MAX_BYTES + 2];

    (void)state;
    memset(path, 'a', sizeof path);
    assert_null(fg_claim_path_fault(FG_LIT("a~b")));
    assert_null(fg_claim_path_fault(FG_LIT("/a~0b~1")));
    assert_non_null(fg_claim_path_fault(FG_LIT("")));
    assert_non_null(fg_claim_path_fault(FG_LIT("/a~b")));
    assert_non_null(fg_claim_path_fault(FG_LIT("/a~")));
    assert_null(fg_claim_path_fault(fg_bytes(path, FG_CLAIM_PATH_MAX_BYTES)));
    assert_non_null(fg_claim_path_fault(fg_bytes(path, FG_CLAIM_PATH_MAX_BYTES + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_with_a_name_twice_are_refused),
        cmocka_unit_test(many_objects_need_the_memory_of_one),
        cmocka_unit_test(a_full_arena_is_no_fault_of_the_text),
        cmocka_unit_test(paths_find_what_they_name),
        cmocka_unit_test(members_have_the_type_that_was_asked_for),
        cmocka_unit_test(faults_of_paths_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
