/* Limits of a request, and what a hostile one is stopped by. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void an_exceeded_limit_is_named(void **state)
{
    static const char request[] =
        REQUEST(RESOURCE(SHOP ",{'key':'a','value':{'stringValue':'1234567890'}}",
                         "{" CPU SAMPLES("{'stackIndex':1,'attributeIndices':[1,3],'values':[1]},"
                                         "{'stackIndex':2,'values':[1]}") "}"));
    static const struct {
        struct fg_decode_limits limits;
        const char *why;
    } cases[] = {
        {{.samples_max = 1}, "samples count limit (max_profile_stacktrace_samples, actual: 2"},
        {{.sample_labels_max = 1}, "sample 0: profile exceeds the sample labels limit"},
        {{.label_names_max = 1}, "resource has 2 attributes; limit 1"},
        {{.label_names_max = 3}, "profile series has"},
        {{.label_name_max_bytes = 10}, "an attribute: label name too long"},
        {{.label_value_max_bytes = 9}, "an attribute: label value too long"},
    };
    struct decoded decoded = {0};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        decode_limited(&decoded, request, &cases[i].limits);
        if (decoded.code == FG_OK || strstr(decoded.err.msg, cases[i].why) == NULL)
            print_message("%zu: %s\n", i, decoded.err.msg);
        assert_int_equal(decoded.code, FG_E_INVALID);
        assert_non_null(strstr(decoded.err.msg, cases[i].why));
        decoded_done(&decoded);
    }
    decode_limited(&decoded, request,
                   &(struct fg_decode_limits){.stack_depth_max = 1, .symbol_max_bytes = 8});
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.stacks_cut, 1);
    decoded_done(&decoded);
    decode_limited(&decoded, request, &(struct fg_decode_limits){.symbol_max_bytes = 3});
    assert_int_equal(decoded.code, FG_OK);
    assert_non_null(strstr((char *)decoded.text.ptr, "ain;ork 1\n"));
    assert_true(decoded.counts.symbols_cut > 2);
    decoded_done(&decoded);
}

static void memory_is_bounded(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_JSON);
    char *json = decode_json_of(ONE(SAMPLES("{'stackIndex':1,'values':[1]}")));
    enum fg_code code = FG_E_TOO_LARGE;
    struct decoded decoded;

    (void)state;
    for (size_t limit = 0; code != FG_OK; limit += 64) {
        struct fg_arena *arena = fg_arena_create(limit);

        decoded = (struct decoded){0};
        fg_buf_init(&decoded.text, SIZE_MAX);
        code = fg_otlp_decode(fg_cstr(json), &request, arena, decoded_on_batch, &decoded,
                              &decoded.result, &decoded.counts, &decoded.err);
        assert_true(code == FG_OK || code == FG_E_TOO_LARGE);
        fg_buf_done(&decoded.text);
        fg_arena_destroy(arena);
    }
    free(json);
}

/* Thousands of small profiles of one stack that is not small: their product is not worked off. */
static void shared_stacks_are_bounded(void **state)
{
    enum { FRAMES = 40000, PROFILES = 4000 };
    struct decoded decoded = {0};
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_puts(&text, "{'dictionary':{'stringTable':['','a'],'locationTable':[{},{'address':1}],"
                       "'stackTable':[{},{'locationIndices':[1");
    for (int i = 1; i < FRAMES; i++)
        fg_buf_puts(&text, ",1");
    fg_buf_puts(&text, "]}]},'resourceProfiles':[{'scopeProfiles':[{'profiles':[{}");
    for (int i = 0; i < PROFILES; i++)
        fg_buf_puts(&text, ",{'sampleType':{'typeStrindex':1},'samples':[{'stackIndex':1,"
                           "'values':[1]}]}");
    fg_buf_puts(&text, "]}]}]}");
    fg_buf_putc(&text, 0);
    decode(&decoded, (char *)text.ptr);
    assert_int_equal(decoded.code, FG_OK);
    assert_true(decoded.result.accepted > 100 && decoded.result.accepted < PROFILES);
    assert_int_equal(decoded.result.accepted + decoded.result.rejected, PROFILES + 1);
    decoded_done(&decoded);
    fg_buf_done(&text);
}

/* More batches than anybody sends are rejected, whatever they come from. */
static void batches_are_bounded(void **state)
{
    enum { PROFILES = 65536 + 10 };
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);
    struct fg_buf profile, scope, resources, bytes;
    struct decoded decoded = {0};

    (void)state;
    fg_buf_init(&profile, SIZE_MAX);
    fg_buf_init(&scope, SIZE_MAX);
    fg_buf_init(&resources, SIZE_MAX);
    fg_buf_init(&bytes, SIZE_MAX);
    make_bytes(&profile, 1, FG_LIT("\x08\x01"));
    make_bytes(&profile, 2, FG_LIT("\x22\x01\x01"));
    for (int i = 0; i < PROFILES; i++)
        make_bytes(&scope, 2, fg_buf_slice(&profile));
    make_message(&resources, 2, &scope);
    make_message(&bytes, 1, &resources);
    make_bytes(&bytes, 2, FG_LIT("\x2a\x00\x2a\x01x"));
    decode_by(&decoded, fg_buf_slice(&bytes), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.batches, 65536);
    assert_int_equal(decoded.result.rejected, 10);
    assert_non_null(strstr(decoded.result.message, "more than 65536 profiles"));
    decoded_done(&decoded);
    fg_buf_done(&profile);
    fg_buf_done(&scope);
    fg_buf_done(&resources);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exceeded_limit_is_named),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(shared_stacks_are_bounded),
        cmocka_unit_test(batches_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
