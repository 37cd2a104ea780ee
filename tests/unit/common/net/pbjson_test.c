#include "common/net/pbjson.h"
#include "proto/querier_v1.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/resource.h>

#include <cmocka.h>

struct fixture {
    struct fg_arena *arena;
    struct fg_buf out;
    struct fg_err err;
};

static int setup(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    f->arena = fg_arena_create((size_t)16 << 20);
    fg_buf_init(&f->out, (size_t)1 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    fg_arena_destroy(f->arena);
    fg_buf_done(&f->out);
    free(f);
    return 0;
}

static const char *written(struct fixture *f, const ProtobufCMessage *message)
{
    fg_buf_clear(&f->out);
    fg_pbjson_write(message, NULL, &f->out);
    fg_buf_putc(&f->out, '\0');
    return (const char *)f->out.ptr;
}

/* --- what is read, shown as what is written --- */

static void reads_every_spelling(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"{}", "{}"},
        {" {} \n", "{}"},
        {"{\"profile_typeID\":\"a\"}", "{\"profileTypeID\":\"a\"}"},
        {"{\"profileTypeID\":\"a\"}", "{\"profileTypeID\":\"a\"}"},
        {"{\"start\":5,\"end\":\"6\"}", "{\"start\":\"5\",\"end\":\"6\"}"},
        {"{\"start\":1e3,\"end\":-2.0}", "{\"start\":\"1000\",\"end\":\"-2\"}"},
        {"{\"start\":9223372036854775807}", "{\"start\":\"9223372036854775807\"}"},
        {"{\"start\":\"-9223372036854775808\"}", "{\"start\":\"-9223372036854775808\"}"},
        {"{\"maxNodes\":null,\"stackTraceSelector\":null}", "{}"},
        {"{\"max_nodes\":0}", "{\"maxNodes\":\"0\"}"}, /* set, though 0 */
        {"{\"format\":1}", "{\"format\":\"PROFILE_FORMAT_FLAMEGRAPH\"}"},
        {"{\"format\":\"PROFILE_FORMAT_TREE\"}", "{\"format\":\"PROFILE_FORMAT_TREE\"}"},
        {"{\"format\":\"PROFILE_FORMAT_OF_TOMORROW\"}", "{}"},
        {"{\"format\":77}", "{\"format\":77}"},
        {"{\"bogus\":[1,{\"x\":null}],\"start\":1}", "{\"start\":\"1\"}"},
        {"{\"spanSelector\":[]}", "{}"},
        {"{\"spanSelector\":[\"a\",\"\"]}", "{\"spanSelector\":[\"a\",\"\"]}"},
        {"{\"stack_trace_selector\":{\"call_site\":[{\"name\":\"main\"},{}]}}",
         "{\"stackTraceSelector\":{\"callSite\":[{\"name\":\"main\"},{}]}}"},
        {"{\"labelSelector\":\"\\u00e4\\n\\\"\"}", "{\"labelSelector\":\"\xc3\xa4\\n\\\"\"}"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        ProtobufCMessage *message;

        print_message("  %s\n", cases[i].in);
        assert_int_equal(fg_pbjson_read(fg_cstr(cases[i].in),
                                        &querier__v1__select_merge_stacktraces_request__descriptor,
                                        f->arena, &message, &f->err),
                         FG_OK);
        assert_string_equal(written(f, message), cases[i].want);
    }
}

static void refuses_what_is_wrong(void **state)
{
    static const char *const cases[] = {
        "",
        "  ",
        "{",
        "[]",
        "1",
        "null",
        "{} {}",
        "{\"start\":\"x\"}",
        "{\"start\":1.5}",
        "{\"start\":1e30}",
        "{\"start\":true}",
        "{\"start\":[1]}",
        "{\"labelSelector\":1}",
        "{\"labelSelector\":\"a\\u0000b\"}",
        "{\"spanSelector\":\"x\"}",
        "{\"spanSelector\":[null]}",
        "{\"format\":{}}",
        "{\"stackTraceSelector\":[]}",
        "{\"stackTraceSelector\":{\"callSite\":[\"x\"]}}",
        "{\"labelSelector\":\"\xff\"}",
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        ProtobufCMessage *message = NULL;

        print_message("  %s\n", cases[i]);
        assert_int_equal(fg_pbjson_read(fg_cstr(cases[i]),
                                        &querier__v1__select_merge_stacktraces_request__descriptor,
                                        f->arena, &message, &f->err),
                         FG_E_INVALID);
        assert_null(message);
        assert_true(f->err.msg[0] != '\0');
    }
}

static void says_what_is_wrong(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"{\"start\":\"x\"}", "invalid value for int64 field start: \"x\""},
        {"{\"start\": {\"a\":[1]} ,\"end\":1}", "invalid value for int64 field start: {\"a\":[1]}"},
        {"{\"matchers\":[\"a\" , [2]]}", "invalid value for string field matchers: [2]"},
        {"{\"matchers\":[null]}", "invalid value for string field matchers: null"},
        {"{\"matchers\":[\"\\u0000\"]}", "invalid value for string field matchers: \"\\u0000\""},
        {"{\"start\":[1,}", "byte 12: expected a value"},
        {"{\"start\":1} x", "byte 12: unexpected data after the value"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        ProtobufCMessage *message;

        print_message("  %s\n", cases[i].in);
        assert_int_equal(fg_pbjson_read(fg_cstr(cases[i].in),
                                        &querier__v1__series_request__descriptor, f->arena,
                                        &message, &f->err),
                         FG_E_INVALID);
        assert_string_equal(f->err.msg, cases[i].want);
    }
}

static void names_a_field_that_is_there_twice(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"{\"start\":1,\"start\":2}", "byte 19: field start is there twice"},
        {"{\"start\":1,\n \"start\" :1}", "byte 22: field start is there twice"},
        {"{\"start\":1,\"\\u0073tart\":1}", "byte 24: field start is there twice"},
        /* In its two spellings. */
        {"{\"labelNames\":[],\"start\":1,\"label_names\":[]}",
         "byte 41: field label_names is there twice"},
        {"{\"label_names\":null,\"labelNames\":[\"a\"]}",
         "byte 33: field label_names is there twice"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        ProtobufCMessage *message;

        print_message("  %s\n", cases[i].in);
        assert_int_equal(fg_pbjson_read(fg_cstr(cases[i].in),
                                        &querier__v1__series_request__descriptor, f->arena,
                                        &message, &f->err),
                         FG_E_INVALID);
        assert_string_equal(f->err.msg, cases[i].want);
    }
}

static void stops_at_depth(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *message;
    struct fg_buf deep;

    fg_buf_init(&deep, (size_t)1 << 20);
    for (int i = 0; i < 100000; i++)
        fg_buf_puts(&deep, "{\"a\":");
    assert_int_equal(fg_pbjson_read(fg_buf_slice(&deep), &querier__v1__series_request__descriptor,
                                    f->arena, &message, &f->err),
                     FG_E_INVALID);
    fg_buf_done(&deep);
}

static void stops_at_the_arena(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *message;
    struct fg_arena *small = fg_arena_create(64);

    assert_int_equal(fg_pbjson_read(FG_LIT("{\"matchers\":[\"a\",\"b\",\"c\",\"d\",\"e\"]}"),
                                    &querier__v1__series_request__descriptor, small, &message,
                                    &f->err),
                     FG_E_LIMIT);
    fg_arena_destroy(small);
}

/* A tree of a text of empty objects takes eighty times its size. */
static void takes_no_memory_but_the_arena(void **state)
{
    enum { OBJECTS = 1000000, MOST_KIB = 64 * 1024 };
    struct fixture *f = *state;
    struct rusage before, after;
    ProtobufCMessage *message;
    struct fg_buf text;

    fg_buf_init(&text, (size_t)8 << 20);
    fg_buf_puts(&text, "{\"unknown\":[{}");
    for (unsigned i = 1; i < OBJECTS; i++)
        fg_buf_puts(&text, ",{}");
    fg_buf_puts(&text, "],\"start\":1}");
    assert_false(text.full);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_int_equal(fg_pbjson_read(fg_buf_slice(&text), &querier__v1__series_request__descriptor,
                                    f->arena, &message, &f->err),
                     FG_OK);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    print_message("  %ld KiB more\n", after.ru_maxrss - before.ru_maxrss);
    assert_true(after.ru_maxrss - before.ru_maxrss < MOST_KIB);
    fg_buf_done(&text);
}

/* --- writing --- */

static void writes_doubles(void **state)
{
    static const struct {
        double value;
        const char *want;
    } cases[] = {
        {1, "1"},
        {-2.5, "-2.5"},
        {0.1, "0.1"},
        {3e9, "3000000000"},
        {1e300, "1e+300"},
        {1.0 / 3, "0.3333333333333333"},
        {0x1p60, "1152921504606846976"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        Types__V1__Point point;

        types__v1__point__init(&point);
        point.value = cases[i].value;
        print_message("  %s\n", cases[i].want);
        const char *text = written(f, &point.base);
        assert_true(strncmp(text, "{\"value\":", 9) == 0);
        assert_true(strtod(text + 9, NULL) == cases[i].value);
        if (cases[i].value < 1e15 || cases[i].value > 1e20)
            assert_true(strncmp(text + 9, cases[i].want, strlen(cases[i].want)) == 0);
    }
}

static void keeps_bytes(void **state)
{
    static const char *const cases[] = {"\"\"",     "\"AA==\"", "\"AAE=\"",
                                        "\"AAEC\"", "\"_-8\"",  "\"/+8=\""};
    struct fixture *f = *state;
    char json[64];

    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        ProtobufCMessage *message;

        (void)snprintf(json, sizeof json, "{\"tree\":%s}", cases[i]);
        assert_int_equal(fg_pbjson_read(fg_cstr(json),
                                        &querier__v1__select_merge_stacktraces_response__descriptor,
                                        f->arena, &message, &f->err),
                         FG_OK);
        const char *text = written(f, message);
        if (i == 0)
            assert_string_equal(text, "{}");
        else if (i >= 4) /* the URL alphabet, and without padding: the same bytes */
            assert_string_equal(text, "{\"tree\":\"/+8=\"}");
        else
            assert_string_equal(text, json);
    }
}

/* --- the binary form --- */

static void binary_is_the_same_message(void **state)
{
    struct fixture *f = *state;
    ProtobufCMessage *message, *again;
    struct fg_buf bytes;

    assert_int_equal(
        fg_pbjson_read(FG_LIT("{\"profileTypeID\":\"p\",\"start\":1,\"max_nodes\":\"300\","
                              "\"spanSelector\":[\"x\",\"y\"]}"),
                       &querier__v1__select_merge_stacktraces_request__descriptor, f->arena,
                       &message, &f->err),
        FG_OK);
    fg_buf_init(&bytes, 1024);
    fg_pb_write(message, &bytes);
    assert_int_equal(fg_pb_read(fg_buf_slice(&bytes),
                                &querier__v1__select_merge_stacktraces_request__descriptor,
                                f->arena, &again, &f->err),
                     FG_OK);
    assert_string_equal(written(f, again),
                        "{\"profileTypeID\":\"p\",\"start\":\"1\",\"maxNodes\":\"300\","
                        "\"spanSelector\":[\"x\",\"y\"]}");
    for (size_t len = 1; len < bytes.len; len++) /* cut anywhere: refused or shorter, never worse */
        (void)!fg_pb_read(fg_slice_sub(fg_buf_slice(&bytes), 0, len),
                          &querier__v1__select_merge_stacktraces_request__descriptor, f->arena,
                          &again, &f->err);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_every_spelling, setup, teardown),
        cmocka_unit_test_setup_teardown(refuses_what_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(says_what_is_wrong, setup, teardown),
        cmocka_unit_test_setup_teardown(names_a_field_that_is_there_twice, setup, teardown),
        cmocka_unit_test_setup_teardown(stops_at_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(stops_at_the_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_no_memory_but_the_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_doubles, setup, teardown),
        cmocka_unit_test_setup_teardown(keeps_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(binary_is_the_same_message, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
