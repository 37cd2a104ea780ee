/* Labels: whose attributes they are, and which service is named by them. */
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Of samples in threads t1 and t2. */
#define LABELS_T1                                                                                  \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", list=\"one\", service.name=\"shop\", "    \
           "service_name=\"shop\", thread.id=\"77\", thread.name=\"t1\"")
#define LABELS_T2                                                                                  \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "                  \
           "service_name=\"shop\", thread.name=\"t2\"")

static void attributes_become_labels(void **state)
{
    static const struct {
        const char *name, *in, *want;
    } cases[] = {
        {"all kinds of attributes",
         REQUEST(RESOURCE(
             SHOP ",{'key':'pid','value':{'intValue':'42'}},{'key':'b','value':{'boolValue':true}},"
                  "{'key':'d','value':{'doubleValue':1.5}},{'key':'x','value':{'bytesValue':'AA=='}"
                  "},{'key':'l','value':{'arrayValue':{'values':[{'intValue':-7}]}}},"
                  "{'key':'l2','value':{'arrayValue':{'values':[{'intValue':1},{'intValue':2}]}}},"
                  "{'key':'l3','value':{'arrayValue':{'values':[{'arrayValue':{'values':"
                  "[{'intValue':1}]}}]}}},{'key':'e','value':{'stringValue':''}},{'key':'n'},"
                  "{'key':'k','value':{'kvlistValue':{'values':[{'key':'z','value':{'intValue':1}}]"
                  "}}},{'value':{'stringValue':'no key'}},"
                  "{'keyStrindex':23,'value':{'stringValueStrindex':20}}",
             CPU_ONE)),
         LABELS("__name__=\"process_cpu\", __otel__=\"true\", l=\"-7\", pid=\"42\", "
                "service.name=\"shop\", service_name=\"shop\", t2=\"bytes\"") "main 100\n"},
        {"the first of equal names",
         REQUEST(RESOURCE(SHOP ",{'key':'a','value':{'stringValue':'1'}},"
                               "{'key':'a','value':{'stringValue':'2'}}",
                          CPU_ONE)),
         LABELS("__name__=\"process_cpu\", __otel__=\"true\", a=\"1\", service.name=\"shop\", "
                "service_name=\"shop\"") "main 100\n"},
        {"the resource before the scope",
         REQUEST("{'resource':{'attributes':[" SHOP ",{'key':'a','value':{'stringValue':'1'}}]},"
                 "'scopeProfiles':[{'scope':{'name':'s','version':'1','attributes':["
                 "{'key':'a','value':{'stringValue':'2'}},{'key':'b','value':{'stringValue':'3'}}"
                 "]},'profiles':[" CPU_ONE "]}]}"),
         LABELS("__name__=\"process_cpu\", __otel__=\"true\", a=\"1\", b=\"3\", "
                "service.name=\"shop\", service_name=\"shop\"") "main 100\n"},
        {"names that are ours",
         REQUEST(RESOURCE(SHOP ",{'key':'__name__','value':{'stringValue':'x'}},"
                               "{'key':'service_name','value':{'stringValue':'y'}}",
                          CPU_ONE)),
         LABELS("__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "
                "service_name=\"shop\"") "main 100\n"},
        {"of samples",
         ONE(SAMPLES("{'stackIndex':2,'attributeIndices':[1,3,5,6,0],'values':[1]},"
                     "{'stackIndex':2,'attributeIndices':[8],'values':[2]},"
                     "{'stackIndex':1,'attributeIndices':[6,3,1],'values':[4]}")),
         LABELS_T1 "main 100\nmain;work 400\n" LABELS_T2 "main 200\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        decode_expect_text(cases[i].in, cases[i].want);
    }
}

#define SERVICE_OF(own, name)                                                                      \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service.name=\"" own                      \
           "\", service_name=\"" name "\"")
#define EXE "{'key':'process.executable.name','value':{'stringValue':'exe'}}"
#define EXE_SERVICE(label, name)                                                                   \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", process.executable.name=\"exe\", " label  \
           "service_name=\"" name "\"")
#define OTHER_T1                                                                                   \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "                  \
           "service_name=\"other\", thread.name=\"t1\"")

static void the_service_is_named_by_the_resource_or_the_program(void **state)
{
    static const struct {
        const char *name, *in, *want;
    } cases[] = {
        {"none", REQUEST(RESOURCE("", CPU_ONE)), SERVICE("unknown_service") "main 100\n"},
        {"no resource", REQUEST("{'scopeProfiles':[{'profiles':[" CPU_ONE "]}]}"),
         SERVICE("unknown_service") "main 100\n"},
        {"a program", REQUEST(RESOURCE(EXE, CPU_ONE)),
         EXE_SERVICE("", "unknown_service:exe") "main 100\n"},
        {"a program and a name", REQUEST(RESOURCE(EXE "," SHOP, CPU_ONE)),
         EXE_SERVICE("service.name=\"shop\", ", "shop") "main 100\n"},
        {"a number", REQUEST(RESOURCE("{'key':'service.name','value':{'intValue':'42'}}", CPU_ONE)),
         SERVICE_OF("42", "42") "main 100\n"},
        {"of samples: one batch for each",
         ONE(SAMPLES("{'stackIndex':2,'attributeIndices':[2],'values':[1]},"
                     "{'stackIndex':2,'values':[2]},"
                     "{'stackIndex':1,'attributeIndices':[2,1],'values':[4]},"
                     "{'stackIndex':2,'values':[8]}")),
         SERVICE_OF("shop", "other") "main 100\n" OTHER_T1 "main;work 400\n" HEAD "main 1000\n"},
        {"of samples, and the resource's is the same",
         REQUEST(RESOURCE(
             "{'key':'service.name','value':{'stringValue':'other'}}",
             "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':2,'attributeIndices':[2],'values':[1]},"
                                          "{'stackIndex':2,'values':[2]}") "}")),
         SERVICE_OF("other", "other") "main 300\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        decode_expect_text(cases[i].in, cases[i].want);
    }
}

static void many_resources_share_a_dictionary(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE) "," RESOURCE(
                         "", "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':3,'values':[1]}") "}")));
    decoded_expect_text(&decoded, HEAD "main 100\n" HEAD
                                       "main 100\n" SERVICE("unknown_service") "main;0x1234 100\n");
    assert_int_equal(decoded.batches, 3);
    assert_int_equal(decoded.result.accepted, 3);
    decoded_done(&decoded);
}

static void the_callers_labels_win(void **state)
{
    struct fg_label extra[] = {{FG_LIT("cluster"), FG_LIT("c1")},
                               {FG_LIT("service.name"), FG_LIT("x")}};
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_JSON);
    struct decoded decoded = {0};
    char *json = decode_json_of(REQUEST(RESOURCE(SHOP, CPU_ONE)));

    (void)state;
    request.upload.labels = (struct fg_labels){extra, 2};
    decode_by(&decoded, fg_cstr(json), &request);
    decoded_expect_text(&decoded,
                        LABELS("__name__=\"process_cpu\", __otel__=\"true\", cluster=\"c1\", "
                               "service.name=\"x\", service_name=\"shop\"") "main 100\n");
    decoded_done(&decoded);
    free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_become_labels),
        cmocka_unit_test(the_service_is_named_by_the_resource_or_the_program),
        cmocka_unit_test(many_resources_share_a_dictionary),
        cmocka_unit_test(the_callers_labels_win),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
