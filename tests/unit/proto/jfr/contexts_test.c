/* Labels, spans and traces of events: their contexts come with the recording. */
#include "tests/lib/jfr_make.h"
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CONTEXTS = 1, STRINGS = 2, LABELS = 1, KEY = 1, VALUE = 2 };

static void put_map(struct fg_buf *out, unsigned field, uint64_t key, struct fg_slice value)
{
    struct fg_buf entry;

    fg_buf_init(&entry, SIZE_MAX);
    make_int(&entry, KEY, key);
    make_bytes(&entry, VALUE, value);
    make_bytes(out, field, fg_buf_slice(&entry));
    fg_buf_done(&entry);
}

static void put_string(struct fg_buf *out, uint64_t id, const char *text)
{
    put_map(out, STRINGS, id, fg_cstr(text));
}

/* Labels are pairs of ids, ended by 0. */
static void put_context(struct fg_buf *out, uint64_t id, const uint64_t *labels)
{
    struct fg_buf context, entry;

    fg_buf_init(&context, SIZE_MAX);
    fg_buf_init(&entry, SIZE_MAX);
    for (; *labels != 0; labels += 2) {
        fg_buf_clear(&entry);
        make_int(&entry, KEY, labels[0]);
        make_int(&entry, VALUE, labels[1]);
        make_bytes(&context, LABELS, fg_buf_slice(&entry));
    }
    put_map(out, CONTEXTS, id, fg_buf_slice(&context));
    fg_buf_done(&context);
    fg_buf_done(&entry);
}

static void put_snapshot(struct fg_buf *out)
{
    static const uint64_t zone_a[] = {1, 2, 0}, zone_b[] = {1, 3, 4, 5, 0}, unknown[] = {77, 1, 0};
    static const uint64_t override[] = {6, 2, 0}, span[] = {7, 8, 9, 10, 1, 2, 0}, none[] = {0};

    make_int(out, 9, 1); /* a field of tomorrow */
    put_context(out, 100, zone_a);
    put_context(out, 1u << 30, zone_b);
    put_context(out, 102, unknown);
    put_context(out, 103, override);
    put_context(out, 104, span);
    put_context(out, 105, none);
    put_string(out, 1, "zone");
    put_string(out, 2, "a");
    put_string(out, 3, "b");
    put_string(out, 4, "user");
    put_string(out, 5, "me");
    put_string(out, 6, "service_name");
    put_string(out, 7, "span_id");
    put_string(out, 8, "00000000000000ff");
    put_string(out, 9, "trace_id");
    put_string(out, 10, "000102030405060708090a0b0c0d0e0f");
    put_string(out, 11, "GET /");
}

static const struct {
    const char *name, *first, *second; /* values of the events; NULL: none */
    const char *want;
} labelled[] = {
    {"none", "", "", " {" SHOP "A.main;A.work 2\n"},
    {"of a context", "contextId=100", "contextId=0x40000000",
     " {service_name=\"shop\", zone=\"a\"}\nA.main;A.work 1\n"
     "# memory:live:count:objects:count "
     "{service_name=\"shop\", user=\"me\", zone=\"b\"}\nA.main;A.work 1\n"},
    {"of contexts that say nothing", "contextId=105", "contextId=999",
     " {" SHOP "A.main;A.work 2\n"},
    {"names nobody knows", "contextId=102", "contextId=102", " {" SHOP "A.main;A.work 2\n"},
    {"the upload's win", "contextId=103", "", " {" SHOP "A.main;A.work 2\n"},
    {"a span", "spanId=0x1122334455667788", "",
     " {" SHOP "A.main;A.work 2\n@1122334455667788/00000000000000000000000000000000 1\n"},
    {"a trace", "traceIdHi=0x0102030405060708 traceIdLo=9",
     "traceIdLo=9 traceIdHi=0x0102030405060708",
     " {" SHOP "A.main;A.work 2\n@0000000000000000/01020304050607080000000000000009 2\n"},
    {"two spans", "spanId=1", "spanId=2",
     " {" SHOP "A.main;A.work 2\n@0000000000000001/00000000000000000000000000000000 1\n"
     "@0000000000000002/00000000000000000000000000000000 1\n"},
    {"a span's name", "spanId=1 spanName=11", NULL,
     " {service_name=\"shop\", span_name=\"GET /\"}\nA.main;A.work 1\n"
     "@0000000000000001/00000000000000000000000000000000 1\n"},
    {"a span's name nobody knows", "spanName=12", NULL, " {" SHOP "A.main;A.work 1\n"},
    {"a span in the labels", "contextId=104", NULL,
     " {service_name=\"shop\", zone=\"a\"}\nA.main;A.work 1\n"
     "@00000000000000ff/000102030405060708090a0b0c0d0e0f 1\n"},
    {"a span in labels and event", "contextId=104 spanId=5", NULL,
     " {service_name=\"shop\", zone=\"a\"}\nA.main;A.work 1\n"
     "@0000000000000005/000102030405060708090a0b0c0d0e0f 1\n"},
};

/* profiler.LiveObject with the fields of contexts, which it does not have so far. */
static const struct jfr_make_class *live_with_context(void)
{
    static struct jfr_make_class classes[40];
    size_t n = 0;

    for (; jfr_make_usual[n].name != NULL; n++) {
        classes[n] = jfr_make_usual[n];
        if (classes[n].id == JFR_MAKE_LIVE)
            classes[n].fields = "stackTrace:jdk.types.StackTrace* contextId:long spanId:long "
                                "spanName:long traceIdHi:long traceIdLo:long";
    }
    return classes;
}

static void contexts_are_labels(void **state)
{
    struct fg_buf snapshot;

    (void)state;
    fg_buf_init(&snapshot, SIZE_MAX);
    put_snapshot(&snapshot);
    for (size_t i = 0; i < FG_COUNT(labelled); i++) {
        struct jfr_make make;
        struct run run;
        char text[200];

        print_message("  %s\n", labelled[i].name);
        jfr_make_init(&make);
        make.classes = live_with_context();
        jfr_make_usual_chunk(&make);
        (void)snprintf(text, sizeof text, "stackTrace=1 %s", labelled[i].first);
        jfr_make_event(&make, JFR_MAKE_LIVE, text);
        if (labelled[i].second != NULL) {
            (void)snprintf(text, sizeof text, "stackTrace=1 %s", labelled[i].second);
            jfr_make_event(&make, JFR_MAKE_LIVE, text);
        }
        jfr_make_chunk_end(&make);
        run_init(&run);
        run.request.labels = fg_buf_slice(&snapshot);
        if (run_decode(&run, jfr_make_slice(&make)) != FG_OK)
            fail_msg("%s", run.err.msg);
        fg_buf_putc(&run.out, '\0');
        assert_string_equal((char *)run.out.ptr + strlen("# memory:live:count:objects:count"),
                            labelled[i].want);
        run_done(&run);
        jfr_make_done(&make);
    }
    fg_buf_done(&snapshot);
}

static void bad_labels_are_refused(void **state)
{
    static const uint64_t three[] = {1, 2, 3, 4, 5, 6, 0};
    static const char *const texts[] = {"n1", "n2", "n3", "n4", "n5", "n6"};
    struct fg_buf snapshot;
    struct jfr_make make;
    struct run run;

    (void)state;
    fg_buf_init(&snapshot, SIZE_MAX);
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1 contextId=100");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.labels = FG_LIT("no message");
    run_expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "LabelsSnapshot");
    put_context(&snapshot, 100, three);
    for (uint64_t i = 1; i <= 6; i++)
        put_string(&snapshot, i, texts[i - 1]);
    run.request.labels = fg_buf_slice(&snapshot);
    run.request.upload.limits.sample_labels_max = 2;
    run_expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "sample labels limit");
    run.request.upload.limits.sample_labels_max = 3;
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    put_map(&snapshot, CONTEXTS, 100, FG_LIT("\x0a\x05zz"));
    put_map(&snapshot, CONTEXTS, 101, FG_LIT("\x0a\x05zz"));
    run.request.labels = fg_buf_slice(&snapshot);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK); /* nobody looks at it */
    fg_buf_clear(&snapshot);
    put_map(&snapshot, CONTEXTS, 100, FG_LIT("\x0a\x05zz"));
    run.request.labels = fg_buf_slice(&snapshot);
    run_expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "labels of context 100");
    fg_buf_done(&snapshot);
    run_done(&run);
    jfr_make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_labels),
        cmocka_unit_test(bad_labels_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
