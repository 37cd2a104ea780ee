#include "proto/flamebearer.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static enum fg_code decode(struct fg_slice in, uint32_t samples_max, struct fg_arena *arena,
                           struct fg_batch *batch, struct fg_err *err)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("file")},
                                       {FG_LIT("service_name"), FG_LIT("file")}};
    struct fg_flamebearer_request request = {
        .upload = {.labels = {labels, 2}, .time_ns = 5, .limits = FG_DECODE_LIMITS_DEFAULT},
        .untyped = {FG_LIT("saved"), FG_LIT("")}};
    struct fg_decode_counts counts = {0};

    request.upload.limits.samples_max = samples_max;
    return fg_flamebearer_decode(in, &request, arena, batch, &counts, err);
}

#define GRAPH(names, levels) "\"flamebearer\":{\"names\":[" names "],\"levels\":[" levels "]}"

static void bars_become_stacks(void **state)
{
    static const struct {
        const char *name, *in, *type, *want;
    } cases[] = {
        {"as we answer: callees begin behind self",
         "{\"version\":1," GRAPH(
             "\"total\",\"m\",\"w\",\"h\"",
             "[0,60,0,0],[0,60,10,1],[10,50,20,2],[30,30,30,3]") ","
                                                                 "\"metadata\":{\"units\":"
                                                                 "\"samples\",\"sampleRate\":"
                                                                 "1000000000,\"name\":\"cpu\"}}",
         "cpu/nanoseconds", "m 10\nm;w 20\nm;w;h 30\n"},
        {"callees begin with their caller",
         "{" GRAPH("\"total\",\"a\",\"b\"", "[0,9,0,0],[0,5,2,1,1,3,3,2],[0,3,3,2]") "}", "saved/",
         "a 2\na;b 3\nb 3\n"},
        {"equal stacks add up", "{" GRAPH("\"total\",\"a\"", "[0,9,0,0],[0,4,4,1,0,5,5,1]") "}",
         "saved/", "a 9\n"},
        {"bars of nothing",
         "{" GRAPH("\"total\",\"a\",\"b\"", "[0,4,0,0],[0,0,0,9,0,4,4,2],[0,0,0,1]") "}", "saved/",
         "b 4\n"},
        {"levels before names, and units of Pyroscope",
         "{\"metadata\":{\"name\":\"inuse_objects\",\"units\":\"objects\"},\"flamebearer\":"
         "{\"levels\":[[0,1,0,0],[0,1,1,1]],\"names\":[\"total\",\"\\u00e9\"]}}",
         "inuse_objects/count", "\xc3\xa9 1\n"},
        {"units of bytes",
         "{" GRAPH("\"total\",\"a\"",
                   "[0,1,0,0],[0,1,1,1]") ",\"metadata\":{\"name\":\"space\",\"units\":\"bytes\"}}",
         "space/bytes", "a 1\n"},
        {"no bars", "{" GRAPH("", "") "}", "saved/", ""},
        {"no values", "{" GRAPH("\"total\"", "[0,0,0,0]") "}", "saved/", ""},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 24);
        struct fg_batch batch;
        struct fg_err err;
        struct fg_buf text;

        print_message("  %s\n", cases[i].name);
        assert_true(fg_flamebearer_is(fg_cstr(cases[i].in)));
        if (decode(fg_cstr(cases[i].in), 1000, arena, &batch, &err) != FG_OK)
            fail_msg("%s", err.msg);
        fg_buf_init(&text, SIZE_MAX);
        fg_buf_printf(&text, "%.*s/%.*s", FG_S(batch.types[0].type), FG_S(batch.types[0].unit));
        assert_true(fg_slice_is(fg_buf_slice(&text), cases[i].type));
        fg_buf_clear(&text);
        batch_folded(&batch, 0, &text);
        fg_buf_putc(&text, '\0');
        assert_string_equal((const char *)text.ptr, cases[i].want);
        fg_buf_done(&text);
        fg_arena_destroy(arena);
    }
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"[]", "not a JSON object"},
        {"{", "byte 1"},
        {"{} x", "byte 3"},
        {"{}", "no names or no levels"},
        {"{\"flamebearer\":[]}", "flamebearer is not an object"},
        {"{\"flamebearer\":{\"names\":{}}}", "names are not an array"},
        {"{\"metadata\":{\"format\":\"double\"}}", "a comparison"},
        {"{\"metadata\":{\"sampleRate\":\"x\"}}", "a sample rate is not a number"},
        {"{" GRAPH("1", "") "}", "a name is not a string"},
        {"{" GRAPH("\"t\"", "1") "}", "a level is not an array"},
        {"{" GRAPH("\"t\"", "[0,1,1]") "}", "level 0: byte"},
        {"{" GRAPH("\"t\"", "[0,1,-1,0]") "}", "whole numbers"},
        {"{" GRAPH("\"t\"", "[0,1,0.5,0]") "}", "whole numbers"},
        {"{" GRAPH("\"t\"", "[0,1,2,0]") "}", "self exceeds its total"},
        {"{" GRAPH("\"t\"", "[0,1,1,1]") "}", "a name that is not there"},
        {"{" GRAPH("\"t\"", "[0,5,0,0],[0,3,0,0],[3,1,1,0]") "}", "level 2: byte"},
        {"{" GRAPH("\"t\"", "[0,5,0,0],[0,6,0,0]") "}", "not below one of the level above"},
        {"{" GRAPH("\"t\"", "[0,5,0,0],[],[0,1,1,0]") "}", "not below one of the level above"},
        {"{" GRAPH("\"t\"", "[9223372036854775807,1,1,0]") "}", "64 bits"},
        {"{" GRAPH("\"a\",\"b\"", "[0,2,0,0],[0,1,1,0,0,1,1,1]") "}", "sample"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 24);
        struct fg_batch batch;
        struct fg_err err = {0};

        print_message("  %s\n", cases[i].in);
        /* The last case has two. */
        assert_true(decode(fg_cstr(cases[i].in), 1, arena, &batch, &err) != FG_OK);
        assert_true(err.code == FG_E_DECODE || err.code == FG_E_INVALID);
        if (strstr(err.msg, cases[i].want) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].want);
        fg_arena_destroy(arena);
    }
}

/* A chain of bars of which each has a value costs the square of its length. */
static void chains_have_a_limit(void **state)
{
    enum { DEEP = 9000 };
    struct fg_arena *arena = fg_arena_create(1 << 28);
    struct fg_batch batch;
    struct fg_err err;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    fg_buf_puts(&in, "{\"flamebearer\":{\"names\":[\"t\"],\"levels\":[");
    for (int i = 0; i < DEEP; i++)
        fg_buf_printf(&in, "%s[0,%d,1,0]", i == 0 ? "" : ",", DEEP - i);
    fg_buf_puts(&in, "]}}");
    assert_int_equal(decode(fg_buf_slice(&in), 100000, arena, &batch, &err), FG_E_TOO_LARGE);
    assert_non_null(strstr(err.msg, "frames together"));
    fg_buf_done(&in);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bars_become_stacks),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(chains_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
