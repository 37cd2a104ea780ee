/* What is JSON, what is not, and what the tokens say. */
#include "common/base/buf.h"
#include "common/base/json.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A letter for each token; texts of keys, strings and numbers behind theirs. */
static void write_tokens(struct fg_slice in, struct fg_buf *out)
{
    static const char letters[] = "!.{}[]ksntf0";
    fg_auto(fg_arena) *arena = fg_arena_create(1 << 20);
    struct fg_json json = fg_json(in);
    enum fg_json_token token;

    do {
        token = fg_json_next(&json);
        fg_buf_putc(out, (uint8_t)letters[token]);
        if (token == FG_JSON_KEY || token == FG_JSON_STRING || token == FG_JSON_NUMBER) {
            fg_buf_put(out, fg_json_text(&json, arena));
            fg_buf_putc(out, ' ');
        }
    } while (token != FG_JSON_BAD && token != FG_JSON_END);
    fg_buf_putc(out, 0);
}

static void valid_json_is_read(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"{}", "{}."},
        {" [ ] ", "[]."},
        {"1", "n1 ."},
        {"\"x\"\n", "sx ."},
        {"[true,false,null]", "[tf0]."},
        {"{\"a\":[1,\"x\"],\"b\":{}}", "{ka [n1 sx ]kb {}}."},
        {"[[[]],[{}]]", "[[[]][{}]]."},
        {"[0,-0,10,-1.5,1e9,1E+9,2.5e-3]", "[n0 n-0 n10 n-1.5 n1e9 n1E+9 n2.5e-3 ]."},
        {"\t{ \"a\" :\r\n1 , \"b\" : 2 }", "{ka n1 kb n2 }."},
        {"{\"\":\"\"}", "{k s }."},
        {"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "[s\"\\/\b\f\n\r\t ]."},
        {"[\"\\u0041\\u00e9\\u20AC\\ud83d\\udd25\"]", "[sA\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5 ]."},
        {"[\"a\\ud83db\\udd25\\ud83d\"]", "[sa\xef\xbf\xbd"
                                          "b\xef\xbf\xbd\xef\xbf\xbd ]."},
        {"[\"\\ud83d\\u0041\"]", "[s\xef\xbf\xbd"
                                 "A ]."},
        {"{\"\\u006b\":\"\xf0\x9f\x94\xa5\"}", "{kk s\xf0\x9f\x94\xa5 }."},
    };
    struct fg_buf tokens;

    (void)state;
    fg_buf_init(&tokens, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        fg_buf_clear(&tokens);
        write_tokens(fg_cstr(cases[i].in), &tokens);
        assert_string_equal((const char *)tokens.ptr, cases[i].want);
    }
    fg_buf_done(&tokens);
}

static void invalid_json_is_refused_with_its_place(void **state)
{
    static const struct {
        const char *in, *text;
    } cases[] = {
        {"", "byte 0: the input ends where a value is expected"},
        {"  ", "byte 2: the input ends"},
        {"nul", "byte 0: expected a value"},
        {"True", "byte 0: expected a value"},
        {"[1 2]", "byte 3: expected ',' or the end"},
        {"[1,]", "byte 3: expected a value"},
        {"[,1]", "byte 1: expected a value"},
        {"[1", "byte 2: the input ends inside an object or array"},
        {"[1}", "byte 2: expected ',' or the end"},
        {"{\"a\":1]", "byte 6: expected ',' or the end"},
        {"{\"a\":1,}", "byte 7: expected a member's name"},
        {"{a:1}", "byte 1: expected a member's name"},
        {"{1:1}", "byte 1: expected a member's name"},
        {"{\"a\" 1}", "byte 5: expected ':'"},
        {"{\"a\":}", "byte 5: expected a value"},
        {"{} {}", "byte 3: unexpected data after the value"},
        {"[01]", "byte 1: not a number"},
        {"[-]", "byte 1: not a number"},
        {"[1.]", "byte 1: not a number"},
        {"[1e+]", "byte 1: not a number"},
        {"[.5]", "byte 1: expected a value"},
        {"[+1]", "byte 1: expected a value"},
        {"[NaN]", "byte 1: expected a value"},
        {"[\"a", "byte 3: the input ends inside a string"},
        {"[\"a\\\"]", "byte 6: the input ends inside a string"},
        {"[\"a\nb\"]", "byte 3: a string has a control character"},
        {"[\"\\x\"]", "byte 2: a string has a control character or bad escape"},
        {"[\"\\u12g4\"]", "byte 2: a string has"},
        {"[\"\\u12\"]", "byte 2: a string has"},
        {"[\"\xff\"]", "byte 3: a string is not UTF-8"},
        {"[\"\xed\xa0\x80\"]", "a string is not UTF-8"},
        {"'a'", "byte 0: expected a value"},
        {"// x", "byte 0: expected a value"},
    };
    struct fg_buf tokens;
    struct fg_err err;

    (void)state;
    fg_buf_init(&tokens, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_json json = fg_json(fg_cstr(cases[i].in));
        enum fg_json_token token;

        while ((token = fg_json_next(&json)) != FG_JSON_BAD)
            assert_int_not_equal(token, FG_JSON_END);
        assert_int_equal(fg_json_next(&json), FG_JSON_BAD);
        assert_int_equal(fg_json_fail(&json, "", &err), FG_E_DECODE);
        if (strstr(err.msg, cases[i].text) == NULL)
            print_message("%s: %s\n", cases[i].in, err.msg);
        assert_non_null(strstr(err.msg, cases[i].text));
    }
    fg_buf_done(&tokens);
}

static void nesting_is_limited(void **state)
{
    char text[2 * (FG_JSON_DEPTH_MAX + 1) + 1];
    struct fg_err err;

    (void)state;
    for (size_t depth = FG_JSON_DEPTH_MAX; depth <= FG_JSON_DEPTH_MAX + 1; depth++) {
        struct fg_json json;
        enum fg_json_token token;

        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        json = fg_json(fg_bytes(text, 2 * depth));
        do
            token = fg_json_next(&json);
        while (token != FG_JSON_END && token != FG_JSON_BAD);
        assert_int_equal(token == FG_JSON_END, depth == FG_JSON_DEPTH_MAX);
        if (token == FG_JSON_BAD)
            fg_json_fail(&json, "", &err);
    }
    assert_string_equal(err.msg, "byte 129: objects and arrays are nested too deep");
}

static void values_are_skipped(void **state)
{
    static const char text[] = "{\"a\": {\"x\": [[1, {}], \"}\"]}, \"b\": 5, \"c\": [] }";
    struct fg_json json = fg_json(fg_cstr(text)), again;

    (void)state;
    assert_int_equal(fg_json_next(&json), FG_JSON_OBJECT);
    for (int key = 'a'; key <= 'c'; key++) {
        assert_int_equal(fg_json_next(&json), FG_JSON_KEY);
        assert_int_equal(json.text.ptr[0], key);
        again = json;
        fg_json_skip(&json, fg_json_next(&json));
    }
    assert_int_equal(fg_json_next(&json), FG_JSON_OBJECT_END);
    assert_int_equal(fg_json_next(&json), FG_JSON_END);
    /* A copy reads again what came after it was made. */
    assert_int_equal(fg_json_next(&again), FG_JSON_ARRAY);
    assert_int_equal(fg_json_next(&again), FG_JSON_ARRAY_END);
    /* What is cut ends the skipping too. */
    json = fg_json(FG_LIT("[[[1, 2"));
    fg_json_skip(&json, fg_json_next(&json));
    assert_int_equal(fg_json_next(&json), FG_JSON_BAD);
}

static void whole_numbers_are_read_in_every_form(void **state)
{
    static const struct {
        const char *in;
        bool signed_ok, unsigned_ok;
        int64_t want;
        uint64_t want_unsigned;
    } cases[] = {
        {"12", true, true, 12, 12},
        {"\"12\"", true, true, 12, 12},
        {"12.0", true, true, 12, 12},
        {"1.2e1", true, true, 12, 12},
        {"-3", true, false, -3, 0},
        {"9223372036854775807", true, true, INT64_MAX, INT64_MAX},
        {"-9223372036854775808", true, false, INT64_MIN, 0},
        {"\"18446744073709551615\"", false, true, 0, UINT64_MAX},
        {"18446744073709551616", false, false, 0, 0},
        {"1e20", false, false, 0, 0},
        {"1.5", false, false, 0, 0},
        {"\"x\"", false, false, 0, 0},
        {"\"\"", false, false, 0, 0},
        {"1e999", false, false, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_json json = fg_json(fg_cstr(cases[i].in));
        uint64_t u = 0;
        int64_t n = 0;

        print_message("  %s\n", cases[i].in);
        (void)fg_json_next(&json);
        assert_int_equal(fg_json_i64(&json, &n), cases[i].signed_ok);
        assert_int_equal(fg_json_u64(&json, &u), cases[i].unsigned_ok);
        if (cases[i].signed_ok)
            assert_int_equal(n, cases[i].want);
        if (cases[i].unsigned_ok)
            assert_int_equal(u, cases[i].want_unsigned);
    }
}

static void fractions_are_read(void **state)
{
    struct fg_json json = fg_json(FG_LIT("[0.25, 1e400]"));
    double value;

    (void)state;
    (void)fg_json_next(&json);
    (void)fg_json_next(&json);
    assert_true(fg_json_f64(&json, &value));
    assert_true(value == 0.25);
    (void)fg_json_next(&json);
    assert_false(fg_json_f64(&json, &value));
}

static void text_needs_room_only_for_escapes(void **state)
{
    fg_auto(fg_arena) *arena = fg_arena_create(0);
    struct fg_json json = fg_json(FG_LIT("[\"plain\", \"\", \"\\n\"]"));

    (void)state;
    (void)fg_json_next(&json);
    (void)fg_json_next(&json);
    assert_true(fg_slice_is(fg_json_text(&json, arena), "plain"));
    (void)fg_json_next(&json);
    assert_non_null(fg_json_text(&json, arena).ptr);
    (void)fg_json_next(&json);
    assert_null(fg_json_text(&json, arena).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_json_is_read),
        cmocka_unit_test(invalid_json_is_refused_with_its_place),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(values_are_skipped),
        cmocka_unit_test(whole_numbers_are_read_in_every_form),
        cmocka_unit_test(fractions_are_read),
        cmocka_unit_test(text_needs_room_only_for_escapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
