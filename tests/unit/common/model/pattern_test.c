#include "common/model/pattern.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* The text as the template makes it, NULL when the pattern does not match. In the arena. */
static const char *expand(const char *regex, const char *text, const char *template,
                          struct fg_arena *arena)
{
    struct fg_slice groups[FG_REGEX_GROUPS_MAX], out;
    struct fg_template parsed;
    struct fg_pattern pattern;
    const char *result = NULL;
    struct fg_err err;

    assert_int_equal(fg_pattern_init(&pattern, fg_cstr(regex), arena, &err), FG_OK);
    assert_int_equal(fg_template_init(&parsed, fg_cstr(template), &pattern, arena, &err), FG_OK);
    if (fg_pattern_match(&pattern, fg_cstr(text), groups, parsed.n_groups)) {
        out = fg_template_expand(&parsed, groups, arena);
        assert_non_null(out.ptr);
        result = fg_arena_text(arena, out);
    }
    fg_pattern_done(&pattern);
    return result;
}

/* What regexp.Expand of Go 1.22 gives for "^(?s:" regex ")$". */
static void templates_expand_as_in_go(void **state)
{
    static const struct {
        const char *regex, *text, *template, *want; /* want NULL: no match */
    } cases[] = {
        /* plain patterns */
        {"(.*)", "a\nb", "<$1>", "<a\nb>"},
        {"(.*)", "", "<$1>", "<>"},
        {"(.+)", "", "$1", NULL},
        {"(.+)", "x", "$1$1", "xx"},
        {".*", "abc", "$1", ""}, /* no group */
        {".*", "abc", "$0", "abc"},
        {".+", "", "$0", NULL},
        {"", "", "x", "x"},
        {"", "a", "x", NULL},
        {"abc", "abc", "$0", "abc"},
        {"abc", "abcd", "x", NULL},
        {"abc", "ab", "x", NULL},
        {"godeltaprof_(.*)", "godeltaprof_memory", "$1", "memory"},
        {"godeltaprof_(.*)", "godeltaprof_", "<$1>", "<>"},
        {"godeltaprof_(.*)", "memory", "$1", NULL},
        {"a_(.+)", "a_", "$1", NULL},
        {"a_.*", "a_b", "$0-$1", "a_b-"},
        {"(.*)", "\xff", "$1", "\xff"}, /* no UTF-8: as in Go, and unlike in RE2 itself */
        /* regular expressions */
        {"(a)(b)?", "a", "<$1|$2|$3>", "<a||>"},
        {"(a|ab)(c|bcd)(d*)", "abcd", "$1,$2,$3", "a,bcd,"}, /* the leftmost way, not the longest */
        {"foo.bar", "foo\nbar", "$0", "foo\nbar"},
        {"a|b", "ab", "x", NULL}, /* anchored as a whole */
        {"x.*", "yx", "x", NULL},
        {"^a$", "a", "x", "x"},
        {"(?i)ABC(.*)", "abcd", "$1", "d"},
        {"(é+)(.)", "ééß", "$2$1", "ßéé"},
        {"(?P<first>[^-]+)-(?P<second_1>.*)", "a-b", "$second_1$first", "ba"},
        {"(?P<first>[^-]+)-(?P<second_1>.*)", "a-b", "${first}x", "ax"},
        {"(?P<first>[^-]+)-(?P<second_1>.*)", "a-b", "$firstx", ""},
        {"(a*)", "", "<$1>", "<>"},
        {"(a(b)?)*", "aba", "$1,$2", "a,b"},
        /* templates */
        {"(a)(b)", "ab", "$1x", ""}, /* a group called 1x */
        {"(a)(b)", "ab", "$1_", ""},
        {"(a)(b)", "ab", "$1-$2", "a-b"},
        {"(a)(b)", "ab", "${1}x", "ax"},
        {"(a)(b)", "ab", "$$1", "$1"},
        {"(a)(b)", "ab", "$$$1", "$a"},
        {"(a)(b)", "ab", "$", "$"},
        {"(a)(b)", "ab", "a$", "a$"},
        {"(a)(b)", "ab", "$-", "$-"},
        {"(a)(b)", "ab", "${", "${"},
        {"(a)(b)", "ab", "${}", "${}"},
        {"(a)(b)", "ab", "${1", "${1"},
        {"(a)(b)", "ab", "${1 }", "${1 }"},
        {"(a)(b)", "ab", "${$1}", "${a}"},
        {"(a)(b)", "ab", "$01", ""}, /* a name, for numbers do not begin with 0 */
        {"(a)(b)", "ab", "$0", "ab"},
        {"(a)(b)", "ab", "$3$99999999999999999999", ""},
        {"(a)(b)", "ab", "", ""},
        {"(.*)", "x", "$name-$1", "-x"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
        const char *got = expand(cases[i].regex, cases[i].text, cases[i].template, arena);

        print_message("  %s ~ %s -> %s\n", cases[i].text, cases[i].regex, cases[i].template);
        if (cases[i].want == NULL)
            assert_null(got);
        else
            assert_string_equal(got, cases[i].want);
    }
}

/* Plain patterns answer as RE2 does with the same pattern written so that it is not plain. */
static void plain_patterns_match_as_regular_expressions(void **state)
{
    static const char *const patterns[] = {"",    "a",    ".*",    ".+",   "(.*)",
                                           "a.+", "ab.*", "a(.*)", "(.+)", "ab(.+)"};
    static const char *const texts[] = {"", "a", "b", "ab", "aba", "a\n", "abé"};
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);

    (void)state;
    for (size_t p = 0; p < FG_COUNT(patterns); p++) {
        const char *slow = fg_arena_printf(arena, "(?:%s)", patterns[p]);
        struct fg_pattern plain, regex;
        struct fg_err err;

        assert_int_equal(fg_pattern_init(&plain, fg_cstr(patterns[p]), arena, &err), FG_OK);
        assert_int_equal(fg_pattern_init(&regex, fg_cstr(slow), arena, &err), FG_OK);
        assert_null(plain.regex);
        assert_non_null(regex.regex);
        for (size_t t = 0; t < FG_COUNT(texts); t++) {
            struct fg_slice a[3], b[3];
            bool matches = fg_pattern_match(&plain, fg_cstr(texts[t]), a, 3);

            print_message("  %s ~ %s\n", texts[t], patterns[p]);
            assert_int_equal(fg_pattern_match(&regex, fg_cstr(texts[t]), b, 3), matches);
            for (size_t g = 0; matches && g < 3; g++)
                assert_true(fg_slice_eq(a[g], b[g]));
        }
        fg_pattern_done(&plain);
        fg_pattern_done(&regex);
    }
}

static void groups_beyond_the_last_one_are_refused(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    char regex[3 * 70 + 1];
    struct fg_template template;
    struct fg_pattern pattern;
    struct fg_slice groups[FG_REGEX_GROUPS_MAX], text;
    struct fg_err err;

    (void)state;
    for (size_t i = 0; i < 70; i++)
        memcpy(regex + 3 * i, "(.)", 4);
    assert_int_equal(fg_pattern_init(&pattern, fg_cstr(regex), arena, &err), FG_OK);
    assert_int_equal(fg_template_init(&template, FG_LIT("$63"), &pattern, arena, &err), FG_OK);
    text = fg_cstr("0123456789012345678901234567890123456789012345678901234567890123456789");
    assert_true(fg_pattern_match(&pattern, text, groups, template.n_groups));
    assert_true(fg_slice_is(fg_template_expand(&template, groups, arena), "2"));
    assert_int_equal(fg_template_init(&template, FG_LIT("$64"), &pattern, arena, &err),
                     FG_E_INVALID);
    assert_string_equal(err.msg, "group 64 is beyond 63");
    assert_int_equal(fg_template_init(&template, FG_LIT("$71"), &pattern, arena, &err), FG_OK);
    fg_pattern_done(&pattern);
}

static void a_full_arena_is_an_error(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(100);
    fg_auto(fg_arena) *tiny = fg_arena_create(4);
    struct fg_slice groups[2], text = FG_LIT("abc");
    struct fg_template template;
    struct fg_pattern pattern;
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_pattern_init(&pattern, FG_LIT("abcdef"), tiny, &err), FG_E_LIMIT);
    assert_int_equal(fg_pattern_init(&pattern, FG_LIT("(.*)"), arena, &err), FG_OK);
    assert_int_equal(fg_template_init(&template, FG_LIT("$1$1"), &pattern, tiny, &err), FG_E_LIMIT);
    assert_int_equal(fg_template_init(&template, FG_LIT("$1$1"), &pattern, arena, &err),
                     FG_E_LIMIT);
    fg_arena_reset(arena);
    assert_true(fg_pattern_match(&pattern, text, groups, 2));
    template = (struct fg_template){
        .parts = (struct fg_template_part[]){{.group = 1}, {.group = 1}}, .n_parts = 2};
    assert_null(fg_template_expand(&template, groups, tiny).ptr);
    fg_pattern_done(&pattern);
}

static void bad_patterns_are_refused_with_the_reason(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_pattern pattern = {0};
    char longer[FG_REGEX_PATTERN_MAX_BYTES + 2];
    struct fg_err err;

    (void)state;
    fg_pattern_done(&pattern);
    assert_int_equal(fg_pattern_init(&pattern, FG_LIT("a("), arena, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "missing ): a(");
    assert_int_equal(fg_pattern_init(&pattern, FG_LIT("a**"), arena, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "bad repetition operator: **");
    assert_int_equal(fg_pattern_init(&pattern, FG_LIT("(a)\\1"), arena, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "invalid escape sequence: \\1");
    memset(longer, '.', sizeof longer);
    assert_int_equal(fg_pattern_init(&pattern, fg_bytes(longer, sizeof longer), arena, &err),
                     FG_E_INVALID);
    assert_string_equal(err.msg, "pattern of 65538 bytes is longer than 65536");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_expand_as_in_go),
        cmocka_unit_test(plain_patterns_match_as_regular_expressions),
        cmocka_unit_test(groups_beyond_the_last_one_are_refused),
        cmocka_unit_test(a_full_arena_is_an_error),
        cmocka_unit_test(bad_patterns_are_refused_with_the_reason),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
