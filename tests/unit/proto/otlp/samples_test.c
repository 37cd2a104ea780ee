/* Samples: their values, stacks, types and times, and what they take from the dictionary. */
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- samples ---- */

static void values_and_timestamps(void **state)
{
    static const struct {
        const char *name, *in, *want;
    } cases[] = {
        {"a value", ONE(SAMPLES("{'stackIndex':1,'values':['3']}")), HEAD "main;work 300\n"},
        {"timestamps alone", ONE(SAMPLES("{'stackIndex':2,'timestampsUnixNano':['1','2']}")),
         HEAD "main 200\n"},
        {"a value for each",
         ONE(SAMPLES("{'stackIndex':2,'timestampsUnixNano':['1','2'],'values':[3,4]}")),
         HEAD "main 700\n"},
        {"equal stacks",
         ONE(SAMPLES("{'stackIndex':2,'values':[1]},{'stackIndex':2,'values':[2]}")),
         HEAD "main 300\n"},
        {"neither", ONE(SAMPLES("{'stackIndex':2},{'stackIndex':1,'values':[1]}")),
         HEAD "main;work 100\n"},
        {"zero and negative",
         ONE(SAMPLES("{'stackIndex':2,'values':[0]},{'stackIndex':2,'values':[-4]},"
                     "{'stackIndex':1,'values':[1]}")),
         HEAD "main;work 100\n"},
        {"no sample", ONE(SAMPLES("")), ""},
        {"the empty stack", ONE(SAMPLES("{'values':[2]}")), HEAD " 200\n"},
        {"an address", ONE(SAMPLES("{'stackIndex':3,'values':[2]}")), HEAD "main;0x1234 200\n"},
        {"inlined", ONE(SAMPLES("{'stackIndex':4,'values':[2]}")), HEAD "main;outer;inlined 200\n"},
        {"a frame of nothing goes, its sample stays", ONE(SAMPLES("{'stackIndex':5,'values':[2]}")),
         HEAD "main 200\n"},
        {"a function without a name", ONE(SAMPLES("{'stackIndex':6,'values':[2]}")),
         HEAD "main;0x5678 200\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        decode_expect_text(cases[i].in, cases[i].want);
    }
}

static void dropped_items_are_counted(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    decode(&decoded, ONE(SAMPLES("{'stackIndex':2},{'stackIndex':2,'values':[-4]},"
                                 "{'stackIndex':5,'values':[1]}")));
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.samples_dropped, 2);
    assert_int_equal(decoded.counts.locations_dropped, 1);
    assert_int_equal(decoded.result.accepted, 1);
    assert_int_equal(decoded.result.rejected, 0);
    assert_string_equal(decoded.result.message, "");
    decoded_done(&decoded);
}

#define MAIN "{'stackIndex':1,'values':[1]}"

/* A sample that refers to what is not there goes alone, and again each time. */
static void only_dangling_samples_are_dropped(void **state)
{
    static const struct {
        const char *in, *want;
        uint64_t dangling;
    } cases[] = {
        {ONE(SAMPLES(MAIN ",{'stackIndex':7,'values':[1]},{'stackIndex':7,'values':[1]}")),
         "main;work 100\n", 2},
        {ONE(SAMPLES("{'stackIndex':-5,'values':[1]}," MAIN)), "main;work 100\n", 1},
        {ONE(SAMPLES(MAIN ",{'stackIndex':1,'attributeIndices':[99],'values':[1]}")),
         "main;work 100\n", 1},
        {ONE(SAMPLES("{'stackIndex':1,'linkIndex':2,'values':[1]}," MAIN)), "main;work 100\n", 1},
        {REQUEST_WITH(
             "{'stringTable':['','samples','count','cpu','nanoseconds','main'],"
             "'functionTable':[{},{'nameStrindex':5},{'nameStrindex':50}],"
             "'locationTable':[{},{'lines':[{'functionIndex':1}]},"
             "{'lines':[{'functionIndex':1},{'functionIndex':2}]},"
             "{'lines':[{'functionIndex':9}]},{'address':1,'mappingIndex':3}],"
             "'stackTable':[{},{'locationIndices':[1]},{'locationIndices':[1,2]},"
             "{'locationIndices':[1,3]},{'locationIndices':[4,1]},"
             "{'locationIndices':[1,9]}]}",
             RESOURCE(SHOP, "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':2,'values':[1]},"
                                                         "{'stackIndex':3,'values':[1]}," MAIN
                                                         ",{'stackIndex':4,'values':[1]},"
                                                         "{'stackIndex':5,'values':[1]},"
                                                         "{'stackIndex':2,'values':[1]}") "}")),
         "main 100\n", 5},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {0};
        char text[300];

        (void)snprintf(text, sizeof text, HEAD "%s", cases[i].want);
        decode(&decoded, cases[i].in);
        decoded_expect_text(&decoded, text);
        assert_int_equal(decoded.counts.samples_dangling, cases[i].dangling);
        assert_int_equal(decoded.result.rejected, 0);
        decoded_done(&decoded);
    }
}

static void samples_of_one_link_are_summed(void **state)
{
    (void)state;
    decode_expect_text(ONE(SAMPLES("{'stackIndex':2,'linkIndex':1,'values':[1]},"
                                   "{'stackIndex':2,'values':[2]},"
                                   "{'stackIndex':2,'linkIndex':1,'values':[3]}")),
                       HEAD "main 600\nspan 1 trace 000102030405060708090a0b0c0d0e0f 400\n");
}

/* ---- types and times ---- */

#define NAMED(name, rest)                                                                          \
    "{__name__=\"" name "\", __otel__=\"true\", service_name=\"unknown_service\"} at 5 for "       \
    "10000000000 period " rest

static void types_are_named_by_value_and_period(void **state)
{
    static const struct {
        const char *name, *in, *want;
    } cases[] = {
        {"samples of CPU", TYPED(TYPE(1, 2) PERIOD_OF(3, 4, 7)),
         NAMED("process_cpu", "cpu/nanoseconds 7\ncpu/nanoseconds\n") "main 21\n"},
        {"CPU in nanoseconds", TYPED(TYPE(3, 4) PERIOD_OF(3, 4, 7)),
         NAMED("cpu", "cpu/nanoseconds 7\ncpu/nanoseconds\n") "main 3\n"},
        {"a heap", TYPED(TYPE(19, 20) PERIOD_OF(21, 20, 524288)),
         NAMED("space", "space/bytes 524288\nalloc_space/bytes\n") "main 3\n"},
        {"off CPU", TYPED(TYPE(10, 4)), NAMED("off_cpu", "/ 0\noff_cpu/nanoseconds\n") "main 3\n"},
        {"no period", TYPED(TYPE(11, 2)), NAMED("events", "/ 0\nevents/count\n") "main 3\n"},
        {"a period of 0", TYPED(TYPE(1, 2) PERIOD_OF(3, 4, 0)),
         NAMED("samples", "/ 0\nsamples/count\n") "main 3\n"},
        {"a period without a type", TYPED(TYPE(1, 2) "'period':'9',"),
         NAMED("samples", "/ 9\nsamples/count\n") "main 3\n"},
        {"no unit", TYPED(TYPE(11, 0)), NAMED("events", "/ 0\nevents/\n") "main 3\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        decode_expect_text(cases[i].in, cases[i].want);
    }
}

static void times_that_are_missing(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_JSON);
    struct decoded decoded = {0};
    char *json = decode_json_of(
        REQUEST(RESOURCE(SHOP, "{" CPU SAMPLES("{'stackIndex':2,'values':[3]}") "}")));

    (void)state;
    decode_by(&decoded, fg_cstr(json), &request);
    assert_non_null(strstr((char *)decoded.text.ptr, " at 7000 for 10000000000 "));
    decoded_done(&decoded);
    request.upload.duration_ns = 33;
    decode_by(&decoded, fg_cstr(json), &request);
    assert_non_null(strstr((char *)decoded.text.ptr, " at 7000 for 33 "));
    decoded_done(&decoded);
    free(json);
}

/* ---- what a batch takes from the dictionary ---- */

static enum fg_code on_mappings(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct fg_buf *out = arg;

    (void)err;
    for (uint32_t i = 0; i < batch->n_mappings; i++) {
        const struct fg_batch_mapping *mapping = &batch->mappings[i];

        fg_buf_printf(out, "%llx-%llx@%llx %.*s %.*s %u\n", (unsigned long long)mapping->start,
                      (unsigned long long)mapping->limit, (unsigned long long)mapping->offset,
                      FG_S(mapping->filename), FG_S(mapping->build_id), mapping->flags);
    }
    for (uint32_t i = 0; i < batch->n_locations; i++)
        fg_buf_printf(out, "%llx in %d\n", (unsigned long long)batch->locations[i].address,
                      (int)batch->locations[i].mapping);
    for (uint32_t i = 0; i < batch->n_functions; i++)
        fg_buf_printf(out, "%.*s %.*s %lld\n", FG_S(batch->functions[i].name),
                      FG_S(batch->functions[i].filename),
                      (long long)batch->functions[i].start_line);
    fg_buf_putc(out, '.');
    return FG_OK;
}

#define FOUR_STACKS                                                                                \
    "{" CPU SAMPLES("{'stackIndex':3,'values':[1]},"                                               \
                    "{'stackIndex':1,'values':[1]},"                                               \
                    "{'stackIndex':4,'values':[1]},"                                               \
                    "{'stackIndex':6,'values':[1]}") "}"
#define ONE_STACK "{" CPU SAMPLES("{'stackIndex':2,'values':[1]}") "}"

static void addresses_stay_where_there_are_no_names(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_JSON);
    struct fg_arena *arena = fg_arena_create(DECODE_ARENA_MAX_BYTES);
    char *json = decode_json_of(REQUEST(RESOURCE(SHOP, FOUR_STACKS "," ONE_STACK)));
    struct fg_decode_counts counts = {0};
    struct fg_otlp_result result;
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    assert_int_equal(
        fg_otlp_decode(fg_cstr(json), &request, arena, on_mappings, &text, &result, &counts, &err),
        FG_OK);
    fg_buf_putc(&text, 0);
    /* One mapping in three forms, and one of which GNU's build id is missing. */
    assert_string_equal((char *)text.ptr, "1000-2000@10 /bin/app b1 0\n"
                                          "0-0@0 /bin/app b1 7\n"
                                          "0-0@0 /bin/app b1 1\n"
                                          "1-0@0 /bin/app hash 0\n"
                                          "1234 in 0\n0 in -1\n0 in 1\n0 in 2\n5678 in 3\n"
                                          "main main.c 3\nwork main.c 0\ninlined  0\nouter  0\n."
                                          /* The next batch has nothing of that. */
                                          "0 in -1\nmain main.c 3\n.");
    fg_buf_done(&text);
    free(json);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_timestamps),
        cmocka_unit_test(dropped_items_are_counted),
        cmocka_unit_test(only_dangling_samples_are_dropped),
        cmocka_unit_test(samples_of_one_link_are_summed),
        cmocka_unit_test(types_are_named_by_value_and_period),
        cmocka_unit_test(times_that_are_missing),
        cmocka_unit_test(addresses_stay_where_there_are_no_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
