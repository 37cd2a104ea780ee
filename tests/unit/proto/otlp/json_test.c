/* Requests in JSON: what may be spelled in more than one way, and how deep it may nest. */
#include "tests/unit/proto/otlp/decoded.h"
#include "tests/unit/proto/otlp/request.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void json_spellings(void **state)
{
    static const char *const texts[] = {
        /* snake case, numbers as numbers, fields nobody knows, null, escaped names */
        "{'resource_profiles':[{'resource':{'attributes':[" SHOP "],'dropped_attributes_count':1},"
        "'schema_url':'x','entity':[{'a':[1,{}]}],'scope_profiles':[{'scope':null,'profiles':["
        "{'sample_type':{'type_strindex':1,'unit_strindex':2},'time_unix_nano':5000,"
        "'duration_nano':50,'period_type':{'type_strindex':3,'unit_strindex':4},'period':100.0,"
        "'profile_id':'526ced883c5df14a9397def932dd5d88','original_payload':null,'samples':["
        "{'stack_index':1,'link_index':1,'values':['1'],'timestamps_unix_nano':[1e3]}]}]}]}],"
        "'dictionary':{'string_table':['','samples','count','cpu','nanoseconds','m\\u0061in'],"
        "'mapping_table':[],'link_table':[{},{'trace_id':'AAECAwQFBgcICQoLDA0ODw==','span_id':"
        "'AQAAAAAAAAA='}],'function_table':[{},{'name_strindex':5}],"
        "'location_table':[{},{'lines':[{'function_index':1,'column':7}]}],"
        "'attribute_table':null,'stack_table':[{},{'location_indices':[1]}]}}",
        /* the dictionary first */
        "{'dictionary':{'stringTable':['','samples','count','cpu','nanoseconds','main'],"
        "'linkTable':[{},{'traceId':'000102030405060708090A0b0c0d0e0f','spanId':'0100000000000000'}"
        "],'functionTable':[{},{'nameStrindex':'5'}],'locationTable':[{},{'lines':["
        "{'functionIndex':1}]}],'stackTable':[{},{'locationIndices':['1']}]},"
        "'resourceProfiles':[{'scopeProfiles':[{'profiles':[{" CPU PERIOD TIMES
        "'samples':[{'stackInd\\u0065x':1,'linkIndex':1,'values':[1]}]}]}],"
        "'resource':{'attributes':[" SHOP "]}}]}",
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(texts); i++)
        decode_expect_text(texts[i],
                           HEAD "main 100\nspan 1 trace 000102030405060708090a0b0c0d0e0f 100\n");
}

/* 1.8 has two names of its own; of the others nothing tells which release they are of. */
static void names_of_older_versions(void **state)
{
    static const struct {
        const char *samples, *lines;
        enum fg_otlp_version version;
    } cases[] = {
        {"samples", "lines", FG_OTLP_1_10},
        {"sample", "lines", FG_OTLP_1_8},
        {"samples", "line", FG_OTLP_1_8},
        {"sample", "line", FG_OTLP_1_8},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {0};
        struct fg_buf text;

        fg_buf_init(&text, SIZE_MAX);
        fg_buf_printf(&text,
                      "{'resourceProfiles':[{'resource':{'attributes':[" SHOP "]},'scopeProfiles':"
                      "[{'profiles':[{" CPU PERIOD TIMES "'%s':[{'stackIndex':1,'values':[1],"
                      "'attributeIndices':[]},{'attributeIndices':[0]}]}]}]}],"
                      "'dictionary':{'stringTable':['','samples','count','cpu','nanoseconds',"
                      "'main'],'functionTable':[{},{'nameStrindex':5}],'locationTable':[{},"
                      "{'%s':[{'functionIndex':1,'line':10}]}],"
                      "'stackTable':[{},{'locationIndices':[1]}]}}",
                      cases[i].samples, cases[i].lines);
        fg_buf_putc(&text, 0);
        decode(&decoded, (char *)text.ptr);
        decoded_expect_text(&decoded, HEAD "main 100\n");
        assert_int_equal(decoded.result.version, cases[i].version);
        decoded_done(&decoded);
        fg_buf_done(&text);
    }
}

static void duplicate_keys_are_refused(void **state)
{
    (void)state;
    decode_expect_error("{'dictionary':{'stringTable':[''],'string_table':['']}}", FG_E_DECODE,
                        "byte 49: key \"stringTable\" is there twice");
    decode_expect_error("{'dictionary':{},\n'dictionary':null}", FG_E_DECODE,
                        "byte 31: key \"dictionary\" is there twice");
    decode_expect_error("{'dictionary':{'linkTable':[{'spanId':'','spanI\\u0064':''}]}}",
                        FG_E_DECODE, "key \"spanId\" is there twice");
}

static void json_nests_only_so_deep(void **state)
{
    struct fg_buf text;

    (void)state;
    fg_buf_init(&text, SIZE_MAX);
    fg_buf_puts(&text, "{'dictionary':{'attributeTable':[{'value':");
    for (int i = 0; i < 20; i++)
        fg_buf_puts(&text, "{'arrayValue':{'values':[");
    fg_buf_putc(&text, 0);
    decode_expect_error((char *)text.ptr, FG_E_DECODE, "messages are nested too deep");
    fg_buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_spellings),
        cmocka_unit_test(names_of_older_versions),
        cmocka_unit_test(duplicate_keys_are_refused),
        cmocka_unit_test(json_nests_only_so_deep),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
