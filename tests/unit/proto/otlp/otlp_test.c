/*
 * The decoder against requests made by hand. Most are JSON, which reads better; that JSON and
 * protobuf give the same is a test of its own.
 */
#include "common/base/time.h"
#include "proto/otlp/json.h"
#include "proto/otlp/otlp.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/pprof_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

/* ---- requests ---- */

/*
 * The dictionary of most tests: what its entries are called in comments below.
 * stacks: 1 main;work 2 main 3 main;0x1234 4 main;outer;inlined 5 (nothing);main 6 main;0x5678
 * attributes: 1 thread.name=t1 2 service.name=other 3 thread.id=77 4 build id 5 bool 6 array
 */
#define STRINGS                                                                                    \
    "['','samples','count','cpu','nanoseconds','main','work','main.c','inlined','outer'," /* 0 */  \
    "'off_cpu','events','thread.name','service.name','thread.id','flag','list',"          /* 10 */ \
    "'process.executable.build_id.gnu','/bin/app','alloc_space','bytes','space',"         /* 17 */ \
    "'process.executable.build_id.htlhash','t2']"                                         /* 22 */
#define DICTIONARY                                                                                 \
    "{'stringTable':" STRINGS ","                                                                  \
    "'functionTable':[{},{'nameStrindex':5,'filenameStrindex':7,'startLine':'3'},"                 \
    "{'nameStrindex':6,'filenameStrindex':7},{'nameStrindex':8},{'nameStrindex':9}],"              \
    "'mappingTable':[{},{'memoryStart':'4096','memoryLimit':'8192','fileOffset':'16',"             \
    "'filenameStrindex':18,'attributeIndices':[7,4]},"                                             \
    "{'memoryStart':'1','filenameStrindex':18,'attributeIndices':[7]}],"                           \
    "'locationTable':[{},{'lines':[{'functionIndex':1,'line':'10'}]},"                             \
    "{'mappingIndex':1,'address':'4660','lines':[{'functionIndex':2,'line':'20'}]},"               \
    "{'mappingIndex':1,'address':'4660'},"                                                         \
    "{'mappingIndex':1,'address':'9','lines':[{'functionIndex':3},{'functionIndex':4}]},"          \
    "{'mappingIndex':2,'address':'22136','lines':[{'functionIndex':0,'line':'1'}]}],"              \
    "'linkTable':[{},{'traceId':'000102030405060708090a0b0c0d0e0f','spanId':'0100000000000000'}]," \
    "'attributeTable':[{'value':{}},{'keyStrindex':12,'value':{'stringValue':'t1'}},"              \
    "{'keyStrindex':13,'value':{'stringValue':'other'}},"                                          \
    "{'keyStrindex':14,'value':{'intValue':'77'}},{'keyStrindex':17,'value':{'stringValue':'b1'}}" \
    ",{'keyStrindex':15,'value':{'boolValue':true}},{'keyStrindex':16,'value':"                    \
    "{'arrayValue':{'values':[{'stringValue':'one'}]}}},"                                          \
    "{'keyStrindex':22,'value':{'stringValue':'hash'}},"                                           \
    "{'keyStrindex':12,'value':{'stringValueStrindex':23}}],"                                      \
    "'stackTable':[{},{'locationIndices':[2,1]},{'locationIndices':[1]},"                          \
    "{'locationIndices':[3,1]},{'locationIndices':[4,1]},{'locationIndices':[1,0]},"               \
    "{'locationIndices':[5,1]}]}"

#define CPU    "'sampleType':{'typeStrindex':1,'unitStrindex':2},"
#define PERIOD "'periodType':{'typeStrindex':3,'unitStrindex':4},'period':'100',"
#define TIMES  "'timeUnixNano':'5000','durationNano':'50',"

/* A request of these resources and that dictionary. */
#define REQUEST(resources) "{'resourceProfiles':[" resources "],'dictionary':" DICTIONARY "}"
#define RESOURCE(attributes, profiles)                                                             \
    "{'resource':{'attributes':[" attributes "]},'scopeProfiles':[{'profiles':[" profiles "]}]}"
#define SHOP       "{'key':'service.name','value':{'stringValue':'shop'}}"
#define ONE(body)  REQUEST(RESOURCE(SHOP, "{" CPU PERIOD TIMES body "}"))
#define SAMPLES(s) "'samples':[" s "]"

struct decoded {
    struct fg_arena *arena;
    struct fg_buf text; /* of all batches */
    struct fg_otlp_result result;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
    unsigned batches, fail_at; /* fail_at: the sink fails at that batch; 0: never */
    enum fg_code fail_code;
};

static enum fg_code on_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct decoded *decoded = arg;

    if (++decoded->batches == decoded->fail_at)
        return fg_fail(err, decoded->fail_code, "the sink says no");
    fg_batch_identify(batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
    batch_describe(batch, &decoded->text);
    return FG_OK;
}

static struct fg_otlp_request plain_request(enum fg_otlp_form form)
{
    return (struct fg_otlp_request){
        .upload = {.time_ns = 7000, .limits = FG_DECODE_LIMITS_DEFAULT},
        .form = form,
    };
}

static void decode_request(struct decoded *out, struct fg_slice in,
                           const struct fg_otlp_request *request)
{
    struct decoded fresh = {.arena = fg_arena_create(ARENA_MAX_BYTES),
                            .fail_at = out->fail_at,
                            .fail_code = out->fail_code};

    *out = fresh;
    out->err.code = FG_OK;
    fg_buf_init(&out->text, SIZE_MAX);
    out->code = fg_otlp_decode(in, request, out->arena, on_batch, out, &out->result, &out->counts,
                               &out->err);
    if (out->code != FG_OK)
        assert_int_equal(out->err.code, out->code);
    fg_buf_putc(&out->text, 0);
}

static void forget(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
    fg_buf_done(&decoded->text);
}

/* JSON with single quotes, so that it can stand in C. */
static char *json_of(const char *text)
{
    size_t len = strlen(text);
    char *json = memcpy(fg_malloc(len + 1), text, len + 1);

    for (size_t i = 0; i < len; i++)
        if (json[i] == '\'')
            json[i] = '"';
    return json;
}

static void decode_limited(struct decoded *out, const char *text,
                           const struct fg_decode_limits *limits)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_JSON);
    char *json = json_of(text);

    request.upload.limits = *limits;
    decode_request(out, fg_cstr(json), &request);
    free(json);
}

static void decode(struct decoded *out, const char *text)
{
    decode_limited(out, text, &(struct fg_decode_limits)FG_DECODE_LIMITS_DEFAULT);
}

static void assert_text(const struct decoded *decoded, const char *want)
{
    if (decoded->code != FG_OK)
        print_message("%s\n", decoded->err.msg);
    assert_int_equal(decoded->code, FG_OK);
    assert_string_equal((const char *)decoded->text.ptr, want);
}

static void assert_decodes(const char *text, const char *want)
{
    struct decoded decoded = {0};

    decode(&decoded, text);
    assert_text(&decoded, want);
    forget(&decoded);
}

static void assert_refused(const char *text, enum fg_code code, const char *why)
{
    struct decoded decoded = {0};

    decode(&decoded, text);
    if (decoded.code != FG_OK && strstr(decoded.err.msg, why) == NULL)
        print_message("\"%s\" is not in \"%s\"\n", why, decoded.err.msg);
    assert_int_equal(decoded.code, code);
    assert_non_null(strstr(decoded.err.msg, why));
    assert_int_equal(decoded.batches, 0);
    forget(&decoded);
}

/* What every profile of ONE() has in front. */
#define HEAD                                                                                       \
    "{__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "                        \
    "service_name=\"shop\"} at 5000 for 50 period cpu/nanoseconds 100\ncpu/nanoseconds\n"

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
        assert_decodes(cases[i].in, cases[i].want);
    }
}

static void what_goes_is_counted(void **state)
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
    forget(&decoded);
}

static void links(void **state)
{
    (void)state;
    assert_decodes(ONE(SAMPLES("{'stackIndex':2,'linkIndex':1,'values':[1]},"
                               "{'stackIndex':2,'values':[2]},"
                               "{'stackIndex':2,'linkIndex':1,'values':[3]}")),
                   HEAD "main 600\nspan 1 trace 000102030405060708090a0b0c0d0e0f 400\n");
}

/* ---- labels and services ---- */

#define LABELS(labels) "{" labels "} at 5000 for 50 period cpu/nanoseconds 100\ncpu/nanoseconds\n"
#define CPU_ONE        "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':2,'values':[1]}") "}"

static void labels(void **state)
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
         LABELS(
             "__name__=\"process_cpu\", __otel__=\"true\", list=\"one\", service.name=\"shop\", "
             "service_name=\"shop\", thread.id=\"77\", thread.name=\"t1\"") "main 100\n"
                                                                            "main;work "
                                                                            "400\n" LABELS(
                                                                                "__name__="
                                                                                "\"process_cpu\", "
                                                                                "__otel__=\"true\","
                                                                                " service.name="
                                                                                "\"shop\", "
                                                                                "service_name="
                                                                                "\"shop\", "
                                                                                "thread.name="
                                                                                "\"t2\"") "main "
                                                                                          "200\n"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s\n", cases[i].name);
        assert_decodes(cases[i].in, cases[i].want);
    }
}

#define SERVICE(name)                                                                              \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service_name=\"" name "\"")
#define SERVICE_OF(own, name)                                                                      \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service.name=\"" own                      \
           "\", service_name=\"" name "\"")
#define EXE "{'key':'process.executable.name','value':{'stringValue':'exe'}}"
#define EXE_SERVICE(label, name)                                                                   \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", process.executable.name=\"exe\", " label  \
           "service_name=\"" name "\"")

static void services(void **state)
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
         SERVICE_OF("shop", "other") "main 100\n" LABELS(
             "__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "
             "service_name=\"other\", thread.name=\"t1\"") "main;work 400\n" SERVICE_OF("shop",
                                                                                        "shop") "ma"
                                                                                                "in"
                                                                                                " 1"
                                                                                                "00"
                                                                                                "0"
                                                                                                "\n"},
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
        assert_decodes(cases[i].in, cases[i].want);
    }
}

static void many_resources_share_a_dictionary(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE) "," RESOURCE(
                         "", "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':3,'values':[1]}") "}")));
    assert_text(&decoded,
                HEAD "main 100\n" HEAD "main 100\n" SERVICE("unknown_service") "main;0x1234 100\n");
    assert_int_equal(decoded.batches, 3);
    assert_int_equal(decoded.result.accepted, 3);
    forget(&decoded);
}

static void the_callers_labels_win(void **state)
{
    struct fg_label extra[] = {{FG_LIT("cluster"), FG_LIT("c1")},
                               {FG_LIT("service.name"), FG_LIT("x")}};
    struct fg_otlp_request request = plain_request(FG_OTLP_JSON);
    struct decoded decoded = {0};
    char *json = json_of(REQUEST(RESOURCE(SHOP, CPU_ONE)));

    (void)state;
    request.upload.labels = (struct fg_labels){extra, 2};
    decode_request(&decoded, fg_cstr(json), &request);
    assert_text(&decoded, LABELS("__name__=\"process_cpu\", __otel__=\"true\", cluster=\"c1\", "
                                 "service.name=\"x\", service_name=\"shop\"") "main 100\n");
    forget(&decoded);
    free(json);
}

/* ---- types and times ---- */

#define TYPED(fields) REQUEST(RESOURCE("", "{" fields SAMPLES("{'stackIndex':2,'values':[3]}") "}"))
#define TYPE(type, unit)                                                                           \
    "'sampleType':{'typeStrindex':" #type ",'unitStrindex':" #unit "},'timeUnixNano':'5',"
#define PERIOD_OF(type, unit, value)                                                               \
    "'periodType':{'typeStrindex':" #type ",'unitStrindex':" #unit "},'period':'" #value "',"
#define NAMED(name, rest)                                                                          \
    "{__name__=\"" name "\", __otel__=\"true\", service_name=\"unknown_service\"} at 5 for "       \
    "10000000000 period " rest

static void types(void **state)
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
        assert_decodes(cases[i].in, cases[i].want);
    }
}

static void times_that_are_missing(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_JSON);
    struct decoded decoded = {0};
    char *json =
        json_of(REQUEST(RESOURCE(SHOP, "{" CPU SAMPLES("{'stackIndex':2,'values':[3]}") "}")));

    (void)state;
    decode_request(&decoded, fg_cstr(json), &request);
    assert_non_null(strstr((char *)decoded.text.ptr, " at 7000 for 10000000000 "));
    forget(&decoded);
    request.upload.duration_ns = 33;
    decode_request(&decoded, fg_cstr(json), &request);
    assert_non_null(strstr((char *)decoded.text.ptr, " at 7000 for 33 "));
    forget(&decoded);
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

static void addresses_stay_where_there_are_no_names(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_JSON);
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    char *json = json_of(REQUEST(RESOURCE(
        SHOP, "{" CPU SAMPLES(
                  "{'stackIndex':3,'values':[1]},"
                  "{'stackIndex':1,'values':[1]},"
                  "{'stackIndex':4,'values':[1]},"
                  "{'stackIndex':6,'values':[1]}") "},"
                                                   "{" CPU SAMPLES(
                                                       "{'stackIndex':2,'values':[1]}") "}")));
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

/* ---- what is wrong ---- */

#define BAD(strings, tables)                                                                       \
    "{'resourceProfiles':[" RESOURCE(                                                              \
        SHOP, CPU_ONE_OF("1")) "],'dictionary':{'stringTable':"                                    \
                               "['','samples','count','cpu','nanoseconds'" strings "]," tables     \
                               "}}"
#define CPU_ONE_OF(stack) "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':" stack ",'values':[1]}") "}"

static void wrong_profiles(void **state)
{
    static const struct {
        const char *in, *why;
    } cases[] = {
        {ONE(SAMPLES("{'stackIndex':7,'values':[1]}")),
         "resource 0, scope 0, profile 0: sample 0: stack index 7 out of bounds (7 in the"},
        {ONE(SAMPLES("{'stackIndex':1,'values':[1]},{'stackIndex':-5,'values':[1]}")),
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
        {"{'resourceProfiles':[" RESOURCE(
             SHOP,
             "{" CPU SAMPLES(
                 "{'attributeIndices':[1],'values':[1]}") "}") "],'dictionary':{"
                                                               "'stringTable':['','a','b'],'"
                                                               "attributeTable':[{},{'keyStrindex':"
                                                               "9,'value':{'intValue':1}}"
                                                               "]}}",
         "attribute 1 of the dictionary: its key is out of bounds"},
        {"{'resourceProfiles':[" RESOURCE(
             SHOP,
             "{" CPU SAMPLES(
                 "{'attributeIndices':[1],'values':[1]}") "}") "],'dictionary':{"
                                                               "'stringTable':['','a','b'],'"
                                                               "attributeTable':[{},{'keyStrindex':"
                                                               "1,'value':"
                                                               "{'stringValueStrindex':7}}]}}",
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
        assert_refused(cases[i].in, FG_E_INVALID, cases[i].why);
}

static void one_wrong_profile_leaves_the_others(void **state)
{
    struct decoded decoded = {0};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE_OF("50") "," CPU_ONE) "," RESOURCE(
                         "{'key':'a','value':{'stringValueStrindex':70}}",
                         CPU_ONE "," CPU_ONE) "," RESOURCE("", CPU_ONE)));
    assert_text(&decoded,
                HEAD "main 100\n" HEAD "main 100\n" SERVICE("unknown_service") "main 100\n");
    assert_int_equal(decoded.result.accepted, 3);
    assert_int_equal(decoded.result.rejected, 3);
    assert_string_equal(decoded.result.message,
                        "resource 0, scope 0, profile 1: sample 0: stack index 50 out of bounds "
                        "(7 in the dictionary)");
    forget(&decoded);
}

/* A broken entry that nobody uses harms nobody. */
static void what_is_not_used_is_not_looked_at(void **state)
{
    (void)state;
    assert_decodes(
        "{'resourceProfiles':[" RESOURCE(
            SHOP,
            CPU_ONE_OF(
                "1")) "],'dictionary':{"
                      "'stringTable':['','samples','count','cpu','nanoseconds'],"
                      "'functionTable':[{},{'nameStrindex':3},{'nameStrindex':500}],"
                      "'locationTable':[{},{'lines':[{'functionIndex':1}]},{'mappingIndex':9}],"
                      "'attributeTable':[{},{'keyStrindex':77}],"
                      "'stackTable':[{},{'locationIndices':[1]},{'locationIndices':[2]}]}}",
        HEAD "cpu 100\n");
}

static void wrong_requests(void **state)
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
        {"{'dictionary':{}} x", "byte 18: something follows", FG_E_DECODE},
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
        assert_refused(cases[i].in, cases[i].code, cases[i].why);
}

static void requests_without_profiles_are_fine(void **state)
{
    (void)state;
    assert_decodes("{'dictionary':{}}", "");
    assert_decodes("{'dictionary':{},'resourceProfiles':[{},{'scopeProfiles':[{}]}]}", "");
}

static void the_sinks_errors(void **state)
{
    struct decoded decoded = {.fail_at = 2, .fail_code = FG_E_UNAVAILABLE};

    (void)state;
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE "," CPU_ONE)));
    assert_int_equal(decoded.code, FG_E_UNAVAILABLE);
    assert_string_equal(decoded.err.msg, "the sink says no");
    assert_int_equal(decoded.batches, 2);
    forget(&decoded);

    decoded = (struct decoded){.fail_at = 2, .fail_code = FG_E_INVALID};
    decode(&decoded, REQUEST(RESOURCE(SHOP, CPU_ONE "," CPU_ONE "," CPU_ONE)));
    assert_text(&decoded, HEAD "main 100\n" HEAD "main 100\n");
    assert_int_equal(decoded.result.accepted, 2);
    assert_int_equal(decoded.result.rejected, 1);
    assert_string_equal(decoded.result.message, "resource 0, scope 0, profile 1: the sink says no");
    forget(&decoded);
}

/* ---- JSON ---- */

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
        /* the dictionary first, and the same once more */
        "{'dictionary':{'stringTable':['','samples','count','cpu','nanoseconds','main'],"
        "'linkTable':[{},{'traceId':'000102030405060708090A0b0c0d0e0f','spanId':'0100000000000000'}"
        "],'functionTable':[{},{'nameStrindex':'5'}],'locationTable':[{},{'lines':["
        "{'functionIndex':1}]}],'stackTable':[{},{'locationIndices':['1']}]},"
        "'resourceProfiles':[{'scopeProfiles':[{'profiles':[{" CPU PERIOD TIMES
        "'samples':[{'stackInd\\u0065x':9,'stackIndex':1,'linkIndex':1,'values':[1]}]}]}],"
        "'resource':{'attributes':[" SHOP "]}}]}",
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(texts); i++)
        assert_decodes(texts[i],
                       HEAD "main 100\nspan 1 trace 000102030405060708090a0b0c0d0e0f 100\n");
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
    assert_refused((char *)text.ptr, FG_E_DECODE, "messages are nested too deep");
    fg_buf_done(&text);
}

/* ---- protobuf ---- */

/* A message into a field of another, and its buffer is empty again. */
static void embed(struct fg_buf *out, unsigned field, struct fg_buf *message)
{
    make_bytes(out, field, fg_buf_slice(message));
    fg_buf_clear(message);
}

static void make_fixed64(struct fg_buf *out, unsigned field, uint64_t value)
{
    fg_buf_varint(out, field << 3 | 1);
    fg_buf_le64(out, value);
}

/* An AnyValue of text under `value`, with a key before it. */
static void make_text_attribute(struct fg_buf *out, unsigned field, const char *key,
                                const char *value)
{
    struct fg_buf any, attribute;

    fg_buf_init(&any, SIZE_MAX);
    fg_buf_init(&attribute, SIZE_MAX);
    make_bytes(&any, 1, fg_cstr(value));
    make_bytes(&attribute, 1, fg_cstr(key));
    embed(&attribute, 2, &any);
    embed(out, field, &attribute);
    fg_buf_done(&any);
    fg_buf_done(&attribute);
}

static void make_strings_of(struct fg_buf *dictionary, const char *const *strings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        make_bytes(dictionary, 5, fg_cstr(strings[i]));
}

/* The profile: two samples, one of them with everything not packed. */
static void make_profile(struct fg_buf *scope)
{
    struct fg_buf inner, profile;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&profile, SIZE_MAX);
    make_int(&inner, 1, 1);
    make_int(&inner, 2, 2);
    embed(&profile, 1, &inner);
    make_int(&inner, 1, 1);
    make_bytes(&inner, 2, FG_LIT("\x01"));
    make_bytes(&inner, 4, FG_LIT("\x02\x03"));
    make_bytes(&inner, 77, FG_LIT("unknown"));
    embed(&profile, 2, &inner);
    make_fixed64(&profile, 3, 5000);
    make_int(&profile, 4, 50);
    make_int(&inner, 1, 1);
    make_int(&inner, 2, 1);
    make_int(&inner, 4, 1);
    make_int(&inner, 4, 1);
    make_fixed64(&inner, 5, 1);
    embed(&profile, 2, &inner);
    make_int(&inner, 1, 2);
    make_fixed64(&inner, 5, 1);
    make_fixed64(&inner, 5, 2);
    make_bytes(&inner, 5, FG_LIT("1234567812345678"));
    embed(&profile, 2, &inner);
    make_int(&inner, 1, 3);
    make_int(&inner, 2, 4);
    embed(&profile, 5, &inner);
    make_int(&profile, 6, 100);
    embed(scope, 2, &profile);
    fg_buf_done(&inner);
    fg_buf_done(&profile);
}

/* The tables, in two parts as protobuf allows: the second has the stacks. */
static void make_dictionary(struct fg_buf *request)
{
    static const char *const strings[] = {"",     "samples", "count", "cpu", "nanoseconds",
                                          "main", "k"};
    struct fg_buf inner, entry, table;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&entry, SIZE_MAX);
    fg_buf_init(&table, SIZE_MAX);
    make_strings_of(&table, strings, FG_COUNT(strings));
    embed(&table, 3, &entry);
    make_int(&entry, 1, 5);
    embed(&table, 3, &entry);
    embed(&table, 2, &entry);
    make_int(&inner, 1, 1);
    embed(&entry, 3, &inner);
    embed(&table, 2, &entry);
    embed(&table, 6, &entry);
    make_int(&entry, 1, 6); /* the key; then value, then unit, which is no key */
    make_int(&inner, 3, 7);
    embed(&entry, 2, &inner);
    make_int(&entry, 3, 1);
    embed(&table, 6, &entry);
    embed(request, 2, &table);
    embed(&table, 7, &entry);
    make_bytes(&entry, 1, FG_LIT("\x01\x01"));
    embed(&table, 7, &entry);
    make_int(&entry, 1, 1);
    embed(&table, 7, &entry);
    embed(request, 2, &table);
    fg_buf_done(&inner);
    fg_buf_done(&entry);
    fg_buf_done(&table);
}

static void make_request(struct fg_buf *request)
{
    struct fg_buf inner, scope, resource;

    fg_buf_init(&inner, SIZE_MAX);
    fg_buf_init(&scope, SIZE_MAX);
    fg_buf_init(&resource, SIZE_MAX);
    make_profile(&scope);
    embed(&resource, 2, &scope);
    make_text_attribute(&inner, 1, "service.name", "shop");
    embed(&resource, 1, &inner);
    embed(request, 1, &resource);
    make_dictionary(request);
    fg_buf_done(&inner);
    fg_buf_done(&scope);
    fg_buf_done(&resource);
}

static void protobuf(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_PROTOBUF);
    struct decoded decoded = {0};
    struct fg_buf bytes;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    decode_request(&decoded, fg_buf_slice(&bytes), &request);
    assert_text(&decoded,
                LABELS("__name__=\"process_cpu\", __otel__=\"true\", k=\"7\", "
                       "service.name=\"shop\", service_name=\"shop\"") "main;main 700\n" HEAD
                                                                       "main 400\n");
    forget(&decoded);
    fg_buf_done(&bytes);
}

/* Cut anywhere it is refused, or what came before is there; and nothing is read beyond the cut. */
static void every_cut_is_refused(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_PROTOBUF);
    struct fg_buf bytes;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    for (size_t len = 0; len < bytes.len; len++) {
        struct decoded decoded = {0};
        uint8_t *copy = fg_malloc(len + 1);

        memcpy(copy, bytes.ptr, len);
        copy = fg_realloc(copy, FG_MAX(len, 1)); /* so that the sanitizer sees one byte more */
        decode_request(&decoded, fg_bytes(copy, len), &request);
        assert_int_not_equal(decoded.code, FG_OK);
        forget(&decoded);
        free(copy);
    }
    fg_buf_done(&bytes);
}

/* Inside a profile a cut is that profile's fault. */
static void what_cannot_be_read(void **state)
{
    static const struct {
        const char *path; /* fields from the request down, then what stands there */
        const char *bytes, *why;
    } cases[] = {
        {"\x01", "\x0a\x05", "profiles cannot be read"},
        {"\x01\x02", "\x12\x05", "profiles cannot be read"},
        {"\x02", "\x0a\x05", "the dictionary cannot be read"},
        {"\x01\x02\x02", "\x08", "resource 0, scope 0, profile 0: cannot be read"},
        {"\x01\x02\x02\x01", "\x08", "its type cannot be read"},
        {"\x01\x02\x02\x05", "\x08", "its type cannot be read"},
    };
    struct fg_otlp_request request = plain_request(FG_OTLP_PROTOBUF);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct decoded decoded = {0};
        struct fg_buf bytes, outer;

        fg_buf_init(&bytes, SIZE_MAX);
        fg_buf_init(&outer, SIZE_MAX);
        fg_buf_puts(&bytes, cases[i].bytes);
        for (size_t k = strlen(cases[i].path); k > 0; k--) {
            fg_buf_clear(&outer);
            make_bytes(&outer, (unsigned)cases[i].path[k - 1], fg_buf_slice(&bytes));
            fg_buf_clear(&bytes);
            fg_buf_put(&bytes, fg_buf_slice(&outer));
        }
        if (cases[i].path[0] == 1)
            make_bytes(&bytes, 2, FG_LIT(""));
        decode_request(&decoded, fg_buf_slice(&bytes), &request);
        assert_int_equal(decoded.code, FG_E_DECODE);
        if (strstr(decoded.err.msg, cases[i].why) == NULL)
            print_message("%zu: %s\n", i, decoded.err.msg);
        assert_non_null(strstr(decoded.err.msg, cases[i].why));
        forget(&decoded);
        fg_buf_done(&bytes);
        fg_buf_done(&outer);
    }
}

static void text_that_is_not_utf8(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_PROTOBUF);
    struct decoded decoded = {0};
    struct fg_buf bytes;
    uint8_t *main_name;

    (void)state;
    fg_buf_init(&bytes, SIZE_MAX);
    make_request(&bytes);
    main_name = memmem(bytes.ptr, bytes.len, "main", 4);
    main_name[1] = 0xff;
    decode_request(&decoded, fg_buf_slice(&bytes), &request);
    assert_int_equal(decoded.code, FG_E_INVALID);
    assert_non_null(strstr(decoded.err.msg, "function 1: string 5 of the dictionary is not UTF-8"));
    forget(&decoded);
    fg_buf_done(&bytes);
}

/* ---- limits ---- */

static void limits(void **state)
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
        forget(&decoded);
    }
    decode_limited(&decoded, request,
                   &(struct fg_decode_limits){.stack_depth_max = 1, .symbol_max_bytes = 8});
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.stacks_cut, 1);
    forget(&decoded);
    decode_limited(&decoded, request, &(struct fg_decode_limits){.symbol_max_bytes = 3});
    assert_int_equal(decoded.code, FG_OK);
    assert_non_null(strstr((char *)decoded.text.ptr, "ain;ork 1\n"));
    assert_true(decoded.counts.symbols_cut > 2);
    forget(&decoded);
}

static void memory_is_bounded(void **state)
{
    struct fg_otlp_request request = plain_request(FG_OTLP_JSON);
    char *json = json_of(ONE(SAMPLES("{'stackIndex':1,'values':[1]}")));
    enum fg_code code = FG_E_TOO_LARGE;
    struct decoded decoded;

    (void)state;
    for (size_t limit = 0; code != FG_OK; limit += 64) {
        struct fg_arena *arena = fg_arena_create(limit);

        decoded = (struct decoded){0};
        fg_buf_init(&decoded.text, SIZE_MAX);
        code = fg_otlp_decode(fg_cstr(json), &request, arena, on_batch, &decoded, &decoded.result,
                              &decoded.counts, &decoded.err);
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
    forget(&decoded);
    fg_buf_done(&text);
}

/* More batches than anybody sends are rejected, whatever they come from. */
static void batches_are_bounded(void **state)
{
    enum { PROFILES = 65536 + 10 };
    struct fg_otlp_request request = plain_request(FG_OTLP_PROTOBUF);
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
    embed(&resources, 2, &scope);
    embed(&bytes, 1, &resources);
    make_bytes(&bytes, 2, FG_LIT("\x2a\x00\x2a\x01x"));
    decode_request(&decoded, fg_buf_slice(&bytes), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.batches, 65536);
    assert_int_equal(decoded.result.rejected, 10);
    assert_non_null(strstr(decoded.result.message, "more than 65536 profiles"));
    forget(&decoded);
    fg_buf_done(&profile);
    fg_buf_done(&scope);
    fg_buf_done(&resources);
    fg_buf_done(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_timestamps),
        cmocka_unit_test(what_goes_is_counted),
        cmocka_unit_test(links),
        cmocka_unit_test(labels),
        cmocka_unit_test(services),
        cmocka_unit_test(many_resources_share_a_dictionary),
        cmocka_unit_test(the_callers_labels_win),
        cmocka_unit_test(types),
        cmocka_unit_test(times_that_are_missing),
        cmocka_unit_test(addresses_stay_where_there_are_no_names),
        cmocka_unit_test(wrong_profiles),
        cmocka_unit_test(one_wrong_profile_leaves_the_others),
        cmocka_unit_test(what_is_not_used_is_not_looked_at),
        cmocka_unit_test(wrong_requests),
        cmocka_unit_test(requests_without_profiles_are_fine),
        cmocka_unit_test(the_sinks_errors),
        cmocka_unit_test(json_spellings),
        cmocka_unit_test(json_nests_only_so_deep),
        cmocka_unit_test(protobuf),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(what_cannot_be_read),
        cmocka_unit_test(text_that_is_not_utf8),
        cmocka_unit_test(limits),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(shared_stacks_are_bounded),
        cmocka_unit_test(batches_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
