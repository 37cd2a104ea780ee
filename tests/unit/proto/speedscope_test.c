/* speedscope files made by hand: what becomes of them, and every refusal. */
#include "proto/speedscope.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

/* A file of these profiles; with single quotes, so that it can stand in C. */
#define SCHEMA            "'$schema':'https://www.speedscope.app/file-format-schema.json'"
#define FRAMES            "'shared':{'frames':[{'name':'a'},{'name':'b','file':'x','line':7},{'name':'c'}]}"
#define FILE_OF(profiles) "{" SCHEMA "," FRAMES ",'profiles':[" profiles "]}"
#define SAMPLED(unit, samples, weights)                                                            \
    "{'type':'sampled','name':'p','unit':'" unit "','startValue':0,'endValue':9,"                  \
    "'samples':[" samples "],'weights':[" weights "]}"
#define EVENTED(unit, events)                                                                      \
    "{'type':'evented','name':'p','unit':'" unit "','startValue':0,'events':[" events "]}"
#define OPEN(frame, at)  "{'type':'O','frame':" #frame ",'at':" #at "}"
#define CLOSE(frame, at) "{'type':'C','frame':" #frame ",'at':" #at "}"

struct decoded {
    struct fg_arena *arena;
    struct fg_buf text; /* of all batches, each after what the namer was asked */
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
    unsigned batches;
    bool timed; /* the series is in nanoseconds */
    bool namer_fails, sink_fails;
};

/* As the distributor does: time becomes wall, the rest is counted in samples of 10 ms. */
static enum fg_code name_series(const struct fg_speedscope_profile *profile, void *arg,
                                struct fg_speedscope_series *ret_series, struct fg_err *err)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("wall")},
                                       {FG_LIT("service_name"), FG_LIT("shop")}};
    struct decoded *decoded = arg;

    fg_buf_printf(&decoded->text, "%.*s unit %d suffix '%s'\n", FG_S(profile->name),
                  (int)profile->unit, profile->suffix);
    *ret_series = (struct fg_speedscope_series){
        .labels = {labels, 2},
        .type = {FG_LIT("wall"), FG_LIT("nanoseconds")},
        .period_type = {FG_LIT("cpu"), FG_LIT("nanoseconds")},
        .period = 10000000,
        .factor = 10000000,
    };
    if (!decoded->timed) {
        ret_series->type = (struct fg_value_type){FG_LIT("samples"), FG_LIT("count")};
        ret_series->factor = 1;
    }
    return decoded->namer_fails ? fg_fail(err, FG_E_INVALID, "unknown profile type: x") : FG_OK;
}

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    decoded->batches++;
    batch_describe(batch, &decoded->text);
    return decoded->sink_fails ? fg_fail(err, FG_E_UNAVAILABLE, "the sink is closed") : FG_OK;
}

static void decode_limited(struct decoded *out, const char *text,
                           const struct fg_decode_limits *limits)
{
    struct fg_speedscope_request request = {
        .upload = {.time_ns = 5, .duration_ns = 6, .limits = *limits},
        .namer = name_series,
        .namer_arg = out,
    };
    size_t len = strlen(text);
    char *json = memcpy(fg_malloc(len + 1), text, len + 1);

    for (size_t i = 0; i < len; i++)
        if (json[i] == '\'')
            json[i] = '"';
    out->arena = fg_arena_create(ARENA_MAX_BYTES);
    fg_buf_init(&out->text, SIZE_MAX);
    out->code = fg_speedscope_decode(fg_bytes(json, len), &request, out->arena, on_batch, out,
                                     &out->counts, &out->err);
    fg_buf_putc(&out->text, 0);
    free(json);
}

static void decode(struct decoded *out, const char *text)
{
    decode_limited(out, text, &(struct fg_decode_limits)FG_DECODE_LIMITS_DEFAULT);
}

static void forget(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
    fg_buf_done(&decoded->text);
}

#define HEAD                                                                                       \
    "{__name__=\"wall\", profile_name=\"p\", service_name=\"shop\"} at 5 for 6 period "            \
    "cpu/nanoseconds 10000000\n"
#define WALL  HEAD "wall/nanoseconds\n"
#define COUNT HEAD "samples/count\n"

static void good_files(void **state)
{
    static const struct {
        const char *name, *in, *want;
        bool timed;
    } cases[] = {
        {"sampled", FILE_OF(SAMPLED("seconds", "[0,1],[0,1,2],[0],[0,1]", "1,2,3,4")),
         "p unit 4 suffix ''\n" WALL "a 3000000000\na;b 5000000000\na;b;c 2000000000\n", true},
        {"fractions", FILE_OF(SAMPLED("seconds", "[0],[0],[1]", "0.01,0.02,1e-9")),
         "p unit 4 suffix ''\n" WALL "a 30000000\nb 1\n", true},
        {"milliseconds", FILE_OF(SAMPLED("milliseconds", "[0]", "2.5")),
         "p unit 3 suffix ''\n" WALL "a 2500000\n", true},
        {"microseconds", FILE_OF(SAMPLED("microseconds", "[0]", "3")),
         "p unit 2 suffix ''\n" WALL "a 3000\n", true},
        {"nanoseconds", FILE_OF(SAMPLED("nanoseconds", "[0]", "3")),
         "p unit 1 suffix ''\n" WALL "a 3\n", true},
        {"samples", FILE_OF(SAMPLED("none", "[0]", "3")),
         "p unit 0 suffix ''\n" WALL "a 30000000\n", true},
        {"bytes", FILE_OF(SAMPLED("bytes", "[0]", "9007199254740993")),
         "p unit 5 suffix ''\n" COUNT "a 9007199254740993\n", false},
        {"time that is counted", FILE_OF(SAMPLED("seconds", "[0]", "2.6")),
         "p unit 4 suffix ''\n" COUNT "a 3\n", false},
        {"the empty stack", FILE_OF(SAMPLED("none", "[],[0]", "3,0")),
         "p unit 0 suffix ''\n" COUNT " 3\n", false},
        {"evented",
         FILE_OF(EVENTED("milliseconds", OPEN(0, 0) "," OPEN(1, 3) "," CLOSE(1, 6) "," OPEN(
                                             2, 6) "," CLOSE(2, 10) "," CLOSE(0, 10.5))),
         "p unit 3 suffix ''\n" WALL "a 3500000\na;b 3000000\na;c 4000000\n", true},
        {"time when nothing is open",
         FILE_OF(EVENTED("none", OPEN(0, -5) "," CLOSE(0, 1) "," OPEN(0, 7) "," CLOSE(0, 8))),
         "p unit 0 suffix ''\n" COUNT "a 7\n", false},
        {"times are rounded, not intervals",
         FILE_OF(EVENTED("none", OPEN(0, 0) "," OPEN(1, 0.4) "," CLOSE(1, 0.8) "," OPEN(
                                     1, 1.2) "," CLOSE(1, 1.6) "," CLOSE(0, 2))),
         "p unit 0 suffix ''\n" COUNT "a;b 2\n", false},
        {"members in any order, and more of them",
         "{'profiles':[{'weights':[1],'unit':'none','samples':[[0]],'x':{'y':[1,{}]},'type':"
         "'sampled','name':'p'}],'exporter':null,'shared':{'z':[],'frames':[{'col':1,'name':'a'}]},"
         "'n\\u0061me':'x'," SCHEMA "}",
         "p unit 0 suffix ''\n" COUNT "a 1\n", false},
        {"equal profiles are one",
         FILE_OF(SAMPLED("none", "[0]", "1") "," SAMPLED("none", "[1],[0]", "2,3")),
         "p unit 0 suffix ''\n" COUNT "a 4\nb 2\n", false},
        {"one name, two types",
         FILE_OF(SAMPLED("seconds", "[0]", "1") "," EVENTED("seconds", OPEN(1, 0) "," CLOSE(1, 1))),
         "p unit 4 suffix '.seconds'\n" WALL "a 1000000000\nb 1000000000\n", true},
        {"two units", FILE_OF(SAMPLED("seconds", "[0]", "1") "," SAMPLED("none", "[2,1]", "1")),
         "p unit 0 suffix ''\n" WALL "c;b 10000000\n"
         "p unit 4 suffix '.seconds'\n" WALL "a 1000000000\n",
         true},
        {"no name",
         "{" SCHEMA "," FRAMES ",'profiles':[{'type':'sampled','unit':'none',"
         "'samples':[[0]],'weights':[1]}]}",
         " unit 0 suffix ''\n{__name__=\"wall\", service_name=\"shop\"} at 5 for 6 period "
         "cpu/nanoseconds 10000000\nsamples/count\na 1\n",
         false},
        {"no samples", FILE_OF(SAMPLED("none", "", "")), "p unit 0 suffix ''\n", false},
        {"no events", FILE_OF("{'type':'evented','unit':'none','name':'p'}"),
         "p unit 0 suffix ''\n", false},
        {"no profiles", FILE_OF(""), "", false},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {.timed = cases[i].timed};

        print_message("  %s\n", cases[i].name);
        decode(&decoded, cases[i].in);
        if (decoded.code != FG_OK)
            print_message("%s\n", decoded.err.msg);
        assert_int_equal(decoded.code, FG_OK);
        assert_string_equal((const char *)decoded.text.ptr, cases[i].want);
        forget(&decoded);
    }
}

static void bad_files(void **state)
{
    static const struct {
        const char *in, *text;
    } cases[] = {
        {"", "byte 0: the input ends"},
        {"[]", "byte 1: not a JSON object"},
        {"{" SCHEMA "," FRAMES ",'profiles':[]", "byte 158: the input ends inside"},
        {FILE_OF("") " x", "unexpected data after"},
        {"{'$schema':'x'," FRAMES ",'profiles':[]}", "Unknown schema: x"},
        {"{" FRAMES ",'profiles':[]}", "Unknown schema: "},
        {"{'$schema':7}", "$schema is not a string"},
        {"{" SCHEMA "," FRAMES "}", "no profiles"},
        {"{" SCHEMA ",'profiles':{}}", "profiles are not an array"},
        {"{" SCHEMA ",'profiles':[7]}", "a profile is not an object"},
        {"{" SCHEMA ",'shared':[]}", "shared is not an object"},
        {"{" SCHEMA ",'shared':{'frames':{}}}", "frames are not an array"},
        {"{" SCHEMA ",'shared':{'frames':['a']},'profiles':[]}", "a frame is not an object"},
        {"{" SCHEMA ",'shared':{'frames':[{'name':1}]},'profiles':[]}",
         "a frame's name is not a string"},
        {FILE_OF("{'type':'sampled'}"), "profile 0: byte"},
        {FILE_OF("{'type':'sampled'}"), "a profile has no type or unit"},
        {FILE_OF("{'unit':'none'}"), "a profile has no type or unit"},
        {FILE_OF("{'type':'x','unit':'none'}"), "a profile is neither sampled nor evented"},
        {FILE_OF("{'type':null,'unit':'none'}"), "a profile is neither sampled nor evented"},
        {FILE_OF(SAMPLED("years", "[0]", "1")), "unknown unit of a profile"},
        {FILE_OF("{'unit':5}"), "a unit is not a string"},
        {FILE_OF("{'name':5}"), "a profile's name is not a string"},
        {FILE_OF("{'startValue':'5'}"), "a start value is not a number"},
        {FILE_OF("{'samples':5}"), "samples are not an array"},
        {FILE_OF("{'weights':{}}"), "weights are not an array"},
        {FILE_OF("{'events':{}}"), "events are not an array"},
        {FILE_OF("{'type':'sampled','unit':'none','samples':[[0]]}"), "samples without weights"},
        {FILE_OF(SAMPLED("none", "[0],[1]", "1")), "there are fewer weights than samples"},
        {FILE_OF(SAMPLED("none", "[0]", "1,2")), "there are more weights than samples"},
        {FILE_OF(SAMPLED("none", "0", "1")), "a sample is not an array"},
        {FILE_OF(SAMPLED("none", "[0]", "'1'")), "a weight is not a number"},
        {FILE_OF(SAMPLED("none", "[0]", "-1")), "a weight is negative"},
        {FILE_OF(SAMPLED("none", "[0]", "1e300")), "a value exceeds 63 bits"},
        {FILE_OF(SAMPLED("none", "[0]", "9223372036854775807")), "a value exceeds 63 bits"},
        {FILE_OF(SAMPLED("none", "[0]", "1e999")), "a value is beyond all numbers"},
        {FILE_OF(SAMPLED("none", "[1.5]", "1")), "a frame is not an index"},
        {FILE_OF(SAMPLED("none", "['1']", "1")), "a frame is not an index"},
        {FILE_OF(SAMPLED("none", "[-1]", "1")), "a frame is not an index"},
        {FILE_OF(SAMPLED("none", "[3]", "1")), "a frame is not among the shared frames"},
        {FILE_OF(EVENTED("none", "5")), "an event is not an object"},
        {FILE_OF(EVENTED("none", "{}")), "an event lacks its type, time or frame"},
        {FILE_OF(EVENTED("none", "{'type':'O','at':5}")), "an event lacks its type, time or frame"},
        {FILE_OF(EVENTED("none", "{'type':'X','at':5}")), "an event is neither O nor C"},
        {FILE_OF(EVENTED("none", "{'type':'O','at':'5'}")), "an event's time is not a number"},
        {FILE_OF(EVENTED("none", OPEN(7, 0))), "a frame is not among the shared frames"},
        {FILE_OF(EVENTED("none", OPEN(0, 5) "," CLOSE(0, 4))), "events go back in time"},
        {FILE_OF(EVENTED("none", CLOSE(0, 4))), "a frame is closed that is not on top"},
        {FILE_OF(EVENTED("none", OPEN(0, 1) "," OPEN(1, 1) "," CLOSE(0, 4))),
         "a frame is closed that is not on top"},
        {FILE_OF(EVENTED("none", OPEN(0, 1))), "frames are open at the end"},
        {FILE_OF(EVENTED("none", OPEN(0, -900000000000) "," CLOSE(0, 900000000000))),
         "time between two events exceeds 63 bits"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {.timed = true};

        decode(&decoded, cases[i].in);
        if (decoded.code != FG_OK && strstr(decoded.err.msg, cases[i].text) == NULL)
            print_message("\"%s\" is not in \"%s\"\n", cases[i].text, decoded.err.msg);
        assert_int_equal(decoded.code, FG_E_DECODE);
        assert_non_null(strstr(decoded.err.msg, cases[i].text));
        assert_int_equal(decoded.batches, 0);
        forget(&decoded);
    }
}

static void other_errors_of_the_sink_end_the_decoding(void **state)
{
    struct decoded decoded = {.namer_fails = true};

    (void)state;
    decode(&decoded, FILE_OF(SAMPLED("none", "[0]", "1")));
    assert_int_equal(decoded.code, FG_E_INVALID);
    assert_string_equal(decoded.err.msg, "unknown profile type: x");
    forget(&decoded);
    decoded = (struct decoded){.sink_fails = true};
    decode(&decoded, FILE_OF(SAMPLED("none", "[0]", "1")));
    assert_int_equal(decoded.code, FG_E_UNAVAILABLE);
    assert_string_equal(decoded.err.msg, "the sink is closed");
    forget(&decoded);
}

static void limits_refuse_samples_and_cut_stacks(void **state)
{
    static const char file[] = FILE_OF(SAMPLED("none", "[0,1,2],[0]", "1,2"));
    struct decoded decoded = {0};

    (void)state;
    decode_limited(&decoded, file, &(struct fg_decode_limits){.samples_max = 1});
    assert_int_equal(decoded.code, FG_E_INVALID);
    assert_non_null(strstr(decoded.err.msg, "max_profile_stacktrace_samples, limit: 1"));
    forget(&decoded);
    decoded = (struct decoded){0};
    decode_limited(&decoded, file, &(struct fg_decode_limits){.stack_depth_max = 2});
    assert_int_equal(decoded.code, FG_OK);
    assert_non_null(strstr((char *)decoded.text.ptr, "a 2\na;b 1\n"));
    assert_int_equal(decoded.counts.stacks_cut, 1);
    forget(&decoded);
    decoded = (struct decoded){0};
    decode_limited(&decoded, file, &(struct fg_decode_limits){.label_value_max_bytes = 3});
    assert_int_equal(decoded.code, FG_E_INVALID);
    forget(&decoded);
}

static void memory_is_bounded(void **state)
{
    static const char file[] =
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{"
        "\"fr\\u0061mes\":[{\"name\":\"a\\n\"}]},\"profiles\":[{\"type\":\"sampled\",\"unit\":"
        "\"none\",\"samples\":[[0,0]],\"weights\":[3]}]}";
    struct decoded decoded = {0};
    enum fg_code code = FG_E_TOO_LARGE;

    (void)state;
    fg_buf_init(&decoded.text, SIZE_MAX);
    for (size_t limit = 0; code != FG_OK; limit += 64) {
        struct fg_speedscope_request request = {
            .upload = {.limits = FG_DECODE_LIMITS_DEFAULT},
            .namer = name_series,
            .namer_arg = &decoded,
        };
        struct fg_arena *arena = fg_arena_create(limit);

        code = fg_speedscope_decode(fg_cstr(file), &request, arena, on_batch, &decoded,
                                    &decoded.counts, &decoded.err);
        assert_true(code == FG_OK || code == FG_E_TOO_LARGE);
        fg_arena_destroy(arena);
    }
    fg_buf_done(&decoded.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(other_errors_of_the_sink_end_the_decoding),
        cmocka_unit_test(limits_refuse_samples_and_cut_stacks),
        cmocka_unit_test(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
