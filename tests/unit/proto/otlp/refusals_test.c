/* Requests and profiles that are refused, and what is not looked at. */
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BAD(strings, tables)                                                                       \
    REQUEST_WITH("{'stringTable':['','samples','count','cpu','nanoseconds'" strings "]," tables    \
                 "}",                                                                              \
                 RESOURCE(SHOP, CPU_ONE_OF("1")))
#define BAD_ATTRIBUTE(attribute)                                                                   \
    REQUEST_WITH("{'stringTable':['','a','b'],'attributeTable':[{}," attribute "]}",               \
                 RESOURCE(SHOP, "{" CPU SAMPLES("{'attributeIndices':[1],'values':[1]}") "}"))

static void malformed_profiles_are_rejected(void **state)
{
    static const struct {
        const char *in, *why;
    } cases[] = {
        {ONE(SAMPLES("{'stackIndex':7,'values':[1]}")),
         "resource 0, scope 0, profile 0: sample 0: stack index 7 out of bounds (7 in the"},
        {ONE(SAMPLES("{'stackIndex':99,'values':[1]},{'stackIndex':-5,'values':[1]}")),
         "sample 1: stack index -5 is negative"},
        {ONE(SAMPLES("{'stackIndex':1,'attributeIndices':[99],'values':[1]}")),
         "attribute index 99 out of bounds"},
        {ONE(SAMPLES("{'stackIndex':1,'linkIndex':2,'values':[1]}")), "link index 2 out of bounds"},
        {ONE(SAMPLES("{'stackIndex':1,'values':['9223372036854775807',1]}")), "exceeds 64 bits"},
        {ONE(SAMPLES("{'stackIndex':1,'values':['922337203685477580']}")), "exceeds 64 bits"},
        {ONE(SAMPLES("{'stackIndex':1,'values':['92233720368547758']},"
                     "{'stackIndex':1,'values':['92233720368547758']}")),
         "sum of a stack's values exceeds 64 bits"},
        {TYPED(""), "sample type is missing"},
        {TYPED("'sampleType':{},"), "sample type is missing"},
        {TYPED(TYPE(99, 2)), "string index 99 out of bounds"},
        {TYPED(TYPE(1, 99)), "string index 99 out of bounds"},
        {TYPED(TYPE(1, 2) PERIOD_OF(99, 4, 1)), "string index 99 out of bounds"},
        {BAD("", "'stackTable':[{},{'locationIndices':[9]}]"),
         "stack 1: location index 9 out of bounds (1 in"},
        {BAD("", "'stackTable':[{},{'locationIndices':[1]}],'locationTable':[{},{'mappingIndex':3,"
                 "'address':1}]"),
         "stack 1: location 1: mapping index 3 out of bounds"},
        {BAD("", "'stackTable':[{},{'locationIndices':[1]}],'locationTable':[{},{'lines':["
                 "{'functionIndex':5}]}]"),
         "stack 1: location 1: function index 5 out of bounds"},
        {BAD("", "'stackTable':[{},{'locationIndices':[1]}],'locationTable':[{},{'lines':["
                 "{'functionIndex':1}]}],'functionTable':[{},{'nameStrindex':50}]"),
         "location 1: function 1: string index 50 out of bounds"},
        {BAD("", "'stackTable':[{},{'locationIndices':[1]}],'locationTable':[{},{'mappingIndex':1,"
                 "'address':1}],'mappingTable':[{},{'attributeIndices':[4]}]"),
         "mapping 1: attribute index 4 out of bounds"},
        {BAD("", "'stackTable':[{},{'locationIndices':[1]}],'locationTable':[{},{'mappingIndex':1,"
                 "'address':1}],'mappingTable':[{},{'filenameStrindex':40}]"),
         "mapping 1: string index 40 out of bounds"},
        {BAD_ATTRIBUTE("{'keyStrindex':9,'value':{'intValue':1}}"),
         "attribute 1 of the dictionary: its key is out of bounds"},
        {BAD_ATTRIBUTE("{'keyStrindex':1,'value':{'stringValueStrindex':7}}"),
         "attribute 1 of the dictionary: the string of its value is out of bounds"},
        {REQUEST(RESOURCE("{'key':'a','value':{'stringValueStrindex':70}}", CPU_ONE)),
         "profile 0: an attribute: the string of its value is out of bounds"},
        {REQUEST(
             "{'scopeProfiles':[{'scope':{'attributes':[{'keyStrindex':70}]},'profiles':[" CPU_ONE
             "]}]}"),
         "an attribute: its key is out of bounds"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        decode_expect_error(cases[i].in, FG_E_INVALID, cases[i].why);
}

static void one_wrong_profile_leaves_the_others(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE_OF("50") "," CPU_ONE) "," RESOURCE(
                         "{'key':'a','value':{'stringValueStrindex':70}}",
                         CPU_ONE "," CPU_ONE) "," RESOURCE("", CPU_ONE)));
    decoded_expect_text(&decoded, HEAD "main 100\n" HEAD
                                       "main 100\n" SERVICE("unknown_service") "main 100\n");
    assert_int_equal(decoded.result.accepted, 3);
    assert_int_equal(decoded.result.rejected, 3);
    assert_string_equal(decoded.result.message,
                        "resource 0, scope 0, profile 1: sample 0: stack index 50 out of bounds "
                        "(7 in the dictionary)");
    decoded_done(&decoded);
}

/* A broken entry that nobody uses harms nobody. */
static void unused_entries_are_not_read(void **state)
{
    (void)state;
    decode_expect_text(
        REQUEST_WITH("{'stringTable':['','samples','count','cpu','nanoseconds'],"
                     "'functionTable':[{},{'nameStrindex':3},{'nameStrindex':500}],"
                     "'locationTable':[{},{'lines':[{'functionIndex':1}]},{'mappingIndex':9}],"
                     "'attributeTable':[{},{'keyStrindex':77}],"
                     "'stackTable':[{},{'locationIndices':[1]},{'locationIndices':[2]}]}",
                     RESOURCE(SHOP, CPU_ONE_OF("1"))),
        HEAD "cpu 100\n");
}

static void malformed_requests_are_refused(void **state)
{
    static const struct {
        const char *in, *why;
        enum fg_code code;
    } cases[] = {
        {"{'resourceProfiles':[]}", "missing profile metadata dictionary", FG_E_INVALID},
        {"{'resourceProfiles':[" RESOURCE(SHOP, CPU_ONE) "]}", "missing profile metadata",
         FG_E_INVALID},
        {"{}", "missing profile metadata dictionary", FG_E_INVALID},
        {"{'resourceSpans':[]}", "not an ExportProfilesServiceRequest", FG_E_DECODE},
        {"", "byte 0: the input ends", FG_E_DECODE},
        {"[]", "byte 1: not a JSON object", FG_E_DECODE},
        {"{'dictionary':{}} x", "byte 18: unexpected data after the value", FG_E_DECODE},
        {"{'dictionary':[]}", "byte 15: dictionary is not an object", FG_E_DECODE},
        {"{'resourceProfiles':{}}", "resourceProfiles is not an array", FG_E_DECODE},
        {"{'resourceProfiles':[1]}", "resourceProfiles is not an object", FG_E_DECODE},
        {"{'resourceProfiles':[null]}", "resourceProfiles is not an object", FG_E_DECODE},
        {"{'dictionary':{'stringTable':[1]}}", "stringTable is not a string", FG_E_DECODE},
        {"{'dictionary':{'stackTable':[{'locationIndices':[true]}]}}",
         "locationIndices is not an integer", FG_E_DECODE},
        {"{'dictionary':{'stackTable':[{'locationIndices':[1.5]}]}}",
         "locationIndices is not an integer of 64 bits", FG_E_DECODE},
        {"{'dictionary':{'stackTable':[{'locationIndices':['x']}]}}",
         "locationIndices is not an integer of 64 bits", FG_E_DECODE},
        {"{'dictionary':{'linkTable':[{'spanId':'xyz!'}]}}", "spanId is not an id in hex or base64",
         FG_E_DECODE},
        {"{'dictionary':{'linkTable':[{'spanId':'00000000000000000000000000000000000000000'}]}}",
         "spanId is not an id in hex or base64", FG_E_DECODE},
        {"{'dictionary':{'functionTable':[{'startLine':'1'", "the input ends inside", FG_E_DECODE},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        decode_expect_error(cases[i].in, cases[i].code, cases[i].why);
}

static void requests_without_profiles_are_fine(void **state)
{
    (void)state;
    decode_expect_text("{'dictionary':{}}", "");
    decode_expect_text("{'dictionary':{},'resourceProfiles':[{},{'scopeProfiles':[{}]}]}", "");
}

static void errors_of_the_sink_are_passed_on(void **state)
{
    struct decoded decoded = {.fail_at = 2, .fail_code = FG_E_UNAVAILABLE};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE "," CPU_ONE)));
    assert_int_equal(decoded.code, FG_E_UNAVAILABLE);
    assert_string_equal(decoded.err.msg, "the sink says no");
    assert_int_equal(decoded.batches, 2);
    decoded_done(&decoded);

    decoded = (struct decoded){.fail_at = 2, .fail_code = FG_E_INVALID};
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE "," CPU_ONE)));
    decoded_expect_text(&decoded, HEAD "main 100\n" HEAD "main 100\n");
    assert_int_equal(decoded.result.accepted, 2);
    assert_int_equal(decoded.result.rejected, 1);
    assert_string_equal(decoded.result.message, "resource 0, scope 0, profile 1: the sink says no");
    decoded_done(&decoded);
}

/* Why a tenant gets nothing, while others get theirs. */
static const enum fg_code refusals[] = {FG_E_DENIED, FG_E_LIMIT};

/* One sender has what belongs to several. */
static void a_denied_batch_leaves_the_others(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    for (unsigned i = 0; i < 3 * FG_COUNT(refusals); i++) {
        decoded = (struct decoded){.fail_at = 1 + i % 3, .fail_code = refusals[i / 3]};
        decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE) "," RESOURCE(SHOP, CPU_ONE "," CPU_ONE)));
        decoded_expect_text(&decoded, HEAD "main 100\n" HEAD "main 100\n");
        assert_int_equal(decoded.result.accepted, 2);
        assert_int_equal(decoded.result.rejected, 1);
        assert_non_null(strstr(decoded.result.message, "the sink says no"));
        decoded_done(&decoded);
    }
}

/* A profile with services of two is rejected, and what belongs to the sender is taken. */
static void services_of_a_profile_are_denied_one_by_one(void **state)
{
    static const char two[] = ONE(SAMPLES("{'stackIndex':2,'values':[1]},"
                                          "{'stackIndex':2,'attributeIndices':[2],'values':[1]}"));

    (void)state;
    for (unsigned i = 0; i < 3 * FG_COUNT(refusals); i++) {
        unsigned denied = i % 3;
        struct decoded decoded = {.fail_at = denied, .fail_code = refusals[i / 3]};

        decode(&decoded, two);
        assert_int_equal(decoded.code, FG_OK);
        assert_int_equal(decoded.batches, 2);
        assert_int_equal(decoded.result.rejected, denied > 0);
        assert_int_equal(strstr((const char *)decoded.text.ptr, "service_name=\"shop\"") != NULL,
                         denied != 2);
        assert_int_equal(strstr((const char *)decoded.text.ptr, "service_name=\"other\"") != NULL,
                         denied != 1);
        decoded_done(&decoded);
    }
}

static void a_request_of_which_everything_is_denied_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(refusals); i++) {
        struct decoded decoded = {.fail_at = 1, .fail_code = refusals[i]};

        decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE)));
        assert_int_equal(decoded.code, refusals[i]);
        decoded_done(&decoded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_profiles_are_rejected),
        cmocka_unit_test(one_wrong_profile_leaves_the_others),
        cmocka_unit_test(unused_entries_are_not_read),
        cmocka_unit_test(malformed_requests_are_refused),
        cmocka_unit_test(requests_without_profiles_are_fine),
        cmocka_unit_test(errors_of_the_sink_are_passed_on),
        cmocka_unit_test(a_denied_batch_leaves_the_others),
        cmocka_unit_test(services_of_a_profile_are_denied_one_by_one),
        cmocka_unit_test(a_request_of_which_everything_is_denied_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
