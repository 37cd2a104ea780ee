#include "common/model/selector.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void selectors_are_parsed_or_refused_with_the_place(void **state)
{
    static const struct {
        const char *in;
        bool good;
        const char *want; /* written again, or the error */
    } cases[] = {
        {"{}", true, "{}"},
        {"up", true, "{__name__=\"up\"}"},
        {"process_cpu:cpu{a=\"b\"}", true, "{__name__=\"process_cpu:cpu\",a=\"b\"}"},
        {"{\"metric\", a='b',}", true, "{__name__=\"metric\",a=\"b\"}"},
        {" { a = `x\\y` , # why\n b!=\"\" } # end", true, "{a=\"x\\\\y\",b!=\"\"}"},
        {"{\"k8s.pod\"=~\"x|y\",b!~'\"'}", true, "{\"k8s.pod\"=~\"x|y\",b!~\"\\\"\"}"},
        {"{a=\"\\x41\\101\\u00e9\\U0001F600\\n\\'\"}", true, "{a=\"AAé😀\\n'\"}"},
        {"{a=\"1\",a=\"2\"}", true, "{a=\"1\",a=\"2\"}"},
        {"{__name__=\"a\",__name__=\"b\"}", true, "{__name__=\"a\",__name__=\"b\"}"},
        {"x{__name__=\"y\"}", true, "{__name__=\"x\",__name__=\"y\"}"},
        {"x{\"y\"}", true, "{__name__=\"x\",__name__=\"y\"}"},
        /* golden cases 104 and 105 */
        {"", false, "unknown position: parse error: unexpected end of input"},
        {"{", false, "1:2: parse error: unexpected end of input inside braces"},
        {"{a}", false,
         "1:3: parse error: unexpected \"}\" in label matching, expected label matching operator"},
        {"{a=\"b}", false, "1:4: parse error: unterminated quoted string"},
        {"{a==\"b\"}", false,
         "1:4: parse error: unexpected \"=\" in label matching, expected string"},
        {"{a=~\"(\"}", false, "1:2: parse error: error parsing regexp: missing ): ("},
        {"{=\"\"}", false,
         "1:2: parse error: unexpected \"=\" in label matching, expected identifier or \"}\""},
        {"x y", false, "1:3: parse error: unexpected identifier \"y\""},
        {"{a=\"b\"}{c=\"d\"}", false, "1:8: parse error: unexpected \"{\""},
        {"{!}", false, "1:2: parse error: unexpected character after '!' inside braces: '}'"},
        {"{a=}", false, "1:4: parse error: unexpected \"}\" in label matching, expected string"},
        {"{a=\"b\" c=\"d\"}", false,
         "1:8: parse error: unexpected identifier \"c\" in label matching, expected \",\" or "
         "\"}\""},
        {"{,}", false,
         "1:2: parse error: unexpected \",\" in label matching, expected identifier or \"}\""},
        {"{\n a=1}", false, "2:4: parse error: unexpected character inside braces: '1'"},
        {"{a=\"\\q\"}", false, "1:5: parse error: unknown escape sequence in quoted string"},
        {"{a=\"\\ud800\"}", false, "1:5: parse error: invalid escape sequence in quoted string"},
        {"{a=\"\\777\"}", false, "1:5: parse error: invalid escape sequence in quoted string"},
        {"{a=\"\\x4", false, "1:4: parse error: unterminated quoted string"},
        {"{a=\"\\", false, "1:4: parse error: unterminated quoted string"},
        {"{a=\"\xff\"}", false, "1:4: parse error: invalid UTF-8 in quoted string"},
        {"{a=`b\n", false, "1:4: parse error: unterminated raw string"},
        {"{\"\"=\"x\"}", false, "1:2: parse error: empty label name"},
        {"\xff", false, "1:1: parse error: unexpected \"\xff\""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
        struct fg_selector selector = {0};
        struct fg_err err;
        struct fg_buf buf;
        bool good = fg_selector_parse(fg_cstr(cases[i].in), arena, &selector, &err) == FG_OK;

        print_message("  %s\n", cases[i].in);
        fg_buf_init(&buf, 4096);
        fg_selector_write(&selector, &buf);
        fg_buf_putc(&buf, '\0');
        assert_int_equal(good, cases[i].good);
        assert_string_equal(good ? (char *)buf.ptr : err.msg, cases[i].want);
        if (!good)
            assert_int_equal(selector.n_matchers, 0);
        fg_buf_done(&buf);
        fg_selector_done(&selector);
    }
}

static void selectors_match_as_in_prometheus(void **state)
{
    static const struct {
        const char *selector;
        bool want;
    } cases[] = {
        {"{}", true},
        {"{env=\"prod\"}", true},
        {"{env=\"pro\"}", false},
        {"{env=~\"pro\"}", false}, /* anchored */
        {"{env=~\"p.*\"}", true},
        {"{env=~\"a|prod\"}", true},
        {"{env!~\"p.*\"}", false},
        {"{none=\"\"}", true}, /* a missing label is the empty value */
        {"{none!=\"x\"}", true},
        {"{none!~\".+\"}", true},
        {"{none=~\"|x\"}", true},
        {"{none!=\"\"}", false},
        {"{lines=~\"a.b\"}", true}, /* '.' is any character */
        {"{env=\"prod\",env!=\"prod\"}", false},
    };
    struct fg_label items[] = {{FG_LIT("env"), FG_LIT("prod")}, {FG_LIT("lines"), FG_LIT("a\nb")}};
    struct fg_labels labels = {items, FG_COUNT(items)};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
        struct fg_selector selector = {0};
        struct fg_err err;

        print_message("  %s\n", cases[i].selector);
        assert_int_equal(fg_selector_parse(fg_cstr(cases[i].selector), arena, &selector, &err),
                         FG_OK);
        assert_int_equal(fg_selector_matches(&selector, &labels), cases[i].want);
        fg_selector_done(&selector);
    }
}

static void several_texts_combine_and_a_failure_adds_nothing(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_selector selector = {0};
    struct fg_err err;

    (void)state;
    assert_int_equal(fg_selector_parse(FG_LIT("{a=\"1\"}"), arena, &selector, &err), FG_OK);
    assert_int_equal(fg_selector_parse(FG_LIT("{b=~\"2\",c"), arena, &selector, &err),
                     FG_E_INVALID);
    assert_int_equal(selector.n_matchers, 1);
    assert_int_equal(fg_selector_add(&selector, arena, FG_MATCH_EQ, FG_LIT("d"), FG_LIT(""), &err),
                     FG_OK);
    assert_int_equal(selector.n_matchers, 2);
    fg_selector_done(&selector);
}

static void sizes_are_limited(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20), *small = fg_arena_create(64);
    struct fg_selector selector = {0};
    struct fg_err err;
    struct fg_buf buf;

    (void)state;
    fg_buf_init(&buf, 1 << 20);
    fg_buf_puts(&buf, "{a=~\"");
    for (int i = 0; i < 80000; i++)
        fg_buf_putc(&buf, 'x');
    fg_buf_puts(&buf, "\"}");
    assert_int_equal(fg_selector_parse(fg_buf_slice(&buf), arena, &selector, &err), FG_E_INVALID);
    assert_int_equal(
        fg_selector_parse(FG_LIT("{a=~\"((a{100}){100}){100}\"}"), arena, &selector, &err),
        FG_E_INVALID);
    assert_int_equal(
        fg_selector_parse(FG_LIT("{a=\"1\",b=\"2\",c=\"3\",d=\"4\"}"), small, &selector, &err),
        FG_E_LIMIT);
    for (size_t i = 0; i < FG_SELECTOR_MATCHERS_MAX; i++)
        assert_int_equal(
            fg_selector_add(&selector, arena, FG_MATCH_RE, FG_LIT("a"), FG_LIT("b"), &err), FG_OK);
    assert_int_equal(fg_selector_add(&selector, arena, FG_MATCH_RE, FG_LIT("a"), FG_LIT("b"), &err),
                     FG_E_INVALID);
    fg_selector_done(&selector);
    fg_buf_done(&buf);
}

/* Dashboards write "All" of a variable as the names of all pods. */
static void a_choice_of_many_values_matches_each(void **state)
{
    enum { PODS = 1000 };
    struct fg_arena *arena = fg_arena_create(1 << 20);
    struct fg_selector selector = {0};
    char pod[64];
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, 1 << 16);
    fg_buf_puts(&text, "{pod=~\"");
    for (unsigned i = 0; i < PODS; i++)
        fg_buf_printf(&text, "%scheckout-7d9f8b6c5d-service-with-a-name-%05u", i == 0 ? "" : "|",
                      i);
    fg_buf_puts(&text, "\"}");
    assert_false(text.full);
    assert_int_equal(fg_selector_parse(fg_buf_slice(&text), arena, &selector, &err), FG_OK);
    for (unsigned i = 0; i <= PODS; i++) {
        (void)snprintf(pod, sizeof pod, "checkout-7d9f8b6c5d-service-with-a-name-%05u", i);
        assert_int_equal(fg_matcher_matches(&selector.matchers[0], fg_cstr(pod)), i < PODS);
    }
    fg_selector_done(&selector);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selectors_are_parsed_or_refused_with_the_place),
        cmocka_unit_test(selectors_match_as_in_prometheus),
        cmocka_unit_test(several_texts_combine_and_a_failure_adds_nothing),
        cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(a_choice_of_many_values_matches_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
