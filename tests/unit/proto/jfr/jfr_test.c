/*
 * The JFR decoder with recordings made for it: each has the whole of what comes out as text,
 *
 *     # process_cpu:cpu:nanoseconds:cpu:nanoseconds {jfr_event="cpu", service_name="shop"}
 *     A.main;A.work 10000000
 *
 * a block for each profile and sample type, with "@span/trace" where a sample has them.
 */
#include "proto/jfr/jfr.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/jfr_make.h"
#include "tests/lib/pprof_make.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024, BATCHES_MAX = 9 };

#define CPU  "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define WALL "wall:wall:nanoseconds:wall:nanoseconds"
#define SHOP "service_name=\"shop\"}\n"

/* ---- running the decoder ---- */

struct run {
    struct fg_jfr_request request;
    struct fg_decode_counts counts;
    struct fg_err err;
    struct fg_buf out;
    size_t arena_max_bytes, used_bytes;
    uint32_t n_batches;
    bool refuse; /* the sink does */
};

static struct fg_label series[] = {{FG_LIT("service_name"), FG_LIT("shop")}};

static void run_init(struct run *run)
{
    *run = (struct run){
        .request = {.upload = {.labels = {series, 1},
                               .time_ns = 5,
                               .duration_ns = 6,
                               .limits = FG_DECODE_LIMITS_DEFAULT},
                    .sample_rate = 100},
        .arena_max_bytes = ARENA_MAX_BYTES,
    };
    fg_buf_init(&run->out, SIZE_MAX);
}

static void put_links(const struct fg_profile *profile, struct fg_buf *out)
{
    for (uint32_t i = 0; i < profile->n_links; i++) {
        fg_buf_printf(out, "@%016" PRIx64 "/", __builtin_bswap64(profile->links[i].span_id));
        for (size_t b = 0; b < FG_ID_BYTES; b++)
            fg_buf_printf(out, "%02x", profile->links[i].trace_id[b]);
        fg_buf_printf(out, " %" PRId64 "\n", profile->values[profile->links[i].sample]);
    }
}

static enum fg_code take_batch(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    struct run *run = arg;

    if (run->refuse)
        return fg_fail(err, FG_E_UNAVAILABLE, "no place");
    assert_true(batch->n_profiles > 0);
    for (uint32_t p = 0; p < batch->n_profiles; p++) {
        struct fg_profile *profile = &batch->profiles[p];
        struct fg_labels labels = {profile->labels.items + 1, profile->labels.count - 1};

        assert_true(fg_slice_is(profile->labels.items[0].name, "__name__"));
        assert_int_equal(profile->time_ns, 5);
        assert_int_equal(profile->duration_ns, 6);
        for (uint32_t t = 0; t < batch->n_types; t++) {
            const struct fg_profile_type type = {
                profile->labels.items[0].value, batch->types[t].type,    batch->types[t].unit,
                batch->period_type.type,        batch->period_type.unit,
            };

            fg_buf_puts(&run->out, "# ");
            fg_profile_type_write(&type, &run->out);
            fg_buf_putc(&run->out, ' ');
            fg_labels_write(&labels, &run->out);
            fg_buf_putc(&run->out, '\n');
            profile_folded(batch, profile, t, &run->out);
        }
        put_links(profile, &run->out);
    }
    run->n_batches++;
    return FG_OK;
}

static enum fg_code run_decode(struct run *run, struct fg_slice in)
{
    struct fg_arena *arena = fg_arena_create(run->arena_max_bytes);
    enum fg_code code;

    fg_buf_clear(&run->out);
    run->n_batches = 0;
    run->counts = (struct fg_decode_counts){0};
    code = fg_jfr_decode(in, &run->request, arena, take_batch, run, &run->counts, &run->err);
    run->used_bytes = fg_arena_used_bytes(arena);
    fg_arena_destroy(arena);
    return code;
}

static void expect_text(struct run *run, struct fg_slice in, const char *want)
{
    if (run_decode(run, in) != FG_OK)
        fail_msg("%s", run->err.msg);
    fg_buf_putc(&run->out, '\0');
    assert_string_equal((const char *)run->out.ptr, want);
}

static void expect_error(struct run *run, struct fg_slice in, enum fg_code code, const char *text)
{
    assert_int_equal(run_decode(run, in), code);
    if (strstr(run->err.msg, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, run->err.msg);
    assert_int_equal(run->n_batches, 0);
}

/* The recording, which is done with, as that text. */
static void check(struct jfr_make *make, const char *want)
{
    struct run run;

    run_init(&run);
    expect_text(&run, jfr_make_slice(make), want);
    fg_buf_done(&run.out);
    jfr_make_done(make);
}

static void check_error(struct jfr_make *make, enum fg_code code, const char *text)
{
    struct run run;

    run_init(&run);
    expect_error(&run, jfr_make_slice(make), code, text);
    fg_buf_done(&run.out);
    jfr_make_done(make);
}

static void begin(struct jfr_make *make)
{
    jfr_make_init(make);
    jfr_make_usual_chunk(make);
}

/* ---- the table of events ---- */

static const struct {
    const char *name;
    uint64_t class;
    const char *values, *want;
} events[] = {
    {"CPU", JFR_MAKE_EXECUTION, "stackTrace=1 state=1",
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"CPU of a thread in another state", JFR_MAKE_EXECUTION, "stackTrace=1 state=3",
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"a thread that sleeps", JFR_MAKE_EXECUTION, "stackTrace=1 state=2", ""},
    {"a thread in no state", JFR_MAKE_EXECUTION, "stackTrace=1 state=7", ""},
    {"wall clock", JFR_MAKE_WALL_CLOCK, "stackTrace=2 state=1 samples=3 timeSpan=9",
     "# " WALL " {" SHOP "A.main;A.work;B.leaf 30000000\n"},
    {"new TLAB", JFR_MAKE_IN_TLAB, "stackTrace=1 allocationSize=7 tlabSize=1048576",
     "# memory:alloc_in_new_tlab_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_in_new_tlab_bytes:bytes:space:bytes {" SHOP "A.main;A.work 1048576\n"},
    {"outside TLAB", JFR_MAKE_OUTSIDE_TLAB, "stackTrace=1 allocationSize=7",
     "# memory:alloc_outside_tlab_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_outside_tlab_bytes:bytes:space:bytes {" SHOP "A.main;A.work 7\n"},
    {"allocation sample", JFR_MAKE_ALLOC_SAMPLE, "stackTrace=1 weight=4294967296",
     "# memory:alloc_sample_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_sample_bytes:bytes:space:bytes {" SHOP "A.main;A.work 4294967296\n"},
    {"monitor", JFR_MAKE_MONITOR, "stackTrace=2 duration=12345",
     "# mutex:contentions:count:mutex:count {" SHOP "A.main;A.work;B.leaf 1\n"
     "# mutex:delay:nanoseconds:mutex:count {" SHOP "A.main;A.work;B.leaf 12345\n"},
    {"park", JFR_MAKE_PARK, "stackTrace=2 duration=54321 timeout=3",
     "# block:contentions:count:block:count {" SHOP "A.main;A.work;B.leaf 1\n"
     "# block:delay:nanoseconds:block:count {" SHOP "A.main;A.work;B.leaf 54321\n"},
    {"live object", JFR_MAKE_LIVE, "stackTrace=1 allocationSize=99",
     "# memory:live:count:objects:count {" SHOP "A.main;A.work 1\n"},
    {"malloc", JFR_MAKE_MALLOC, "stackTrace=1 size=512 address=7",
     "# memory:malloc_objects:count:: {" SHOP "A.main;A.work 1\n"
     "# memory:malloc_bytes:bytes:: {" SHOP "A.main;A.work 512\n"},
    {"nothing of ours", JFR_MAKE_OTHER, "startTime=7", ""},
};

static void each_event_makes_its_profile(void **state)
{
    (void)state;
    for (unsigned fixed = 0; fixed < 2; fixed++) {
        for (size_t i = 0; i < FG_COUNT(events); i++) {
            struct jfr_make make;

            print_message("  %s%s\n", events[i].name, fixed ? ", numbers in full width" : "");
            jfr_make_init(&make);
            make.fixed = fixed;
            jfr_make_usual_chunk(&make);
            jfr_make_event(&make, events[i].class, events[i].values);
            jfr_make_chunk_end(&make);
            check(&make, events[i].want);
        }
    }
}

static void kinds_come_in_order_and_sums(void **state)
{
    struct jfr_make make;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=5");
    for (unsigned i = 0; i < 3; i++) {
        jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
        jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1 startTime=77777777777");
    }
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=7");
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=0x8000000000000000"); /* negative */
    jfr_make_chunk_end(&make);
    check(&make, "# " CPU " {" SHOP "A.main;A.work 30000000\nA.main;A.work;B.leaf 30000000\n"
                 "# block:contentions:count:block:count {" SHOP "A.main;A.work 2\n"
                 "# block:delay:nanoseconds:block:count {" SHOP "A.main;A.work 12\n");
}

static void the_rate_is_the_upload_s(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_event(&make, JFR_MAKE_WALL_CLOCK, "stackTrace=1 state=1 samples=2");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.sample_rate = 1000;
    expect_text(&run, jfr_make_slice(&make),
                "# " CPU " {" SHOP "A.main;A.work 1000000\n"
                "# " WALL " {" SHOP "A.main;A.work 2000000\n");
    run.request.sample_rate = 0;
    expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "sampleRate is 0");
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* ---- settings ---- */

#define SETTING(value)                                                                             \
    {                                                                                              \
        JFR_MAKE_SETTING, "name=event value=" value                                                \
    }
#define EXECUTION(state)                                                                           \
    {                                                                                              \
        JFR_MAKE_EXECUTION, "stackTrace=1 state=" state                                            \
    }
#define CLOCK(state)                                                                               \
    {                                                                                              \
        JFR_MAKE_WALL_CLOCK, "stackTrace=1 samples=2 state=" state                                 \
    }
#define JFR(value) "{jfr_event=\"" value "\", " SHOP

static const struct {
    const char *name;
    struct {
        uint64_t class;
        const char *values;
    } events[4];
    const char *want;
} settings[] = {
    {"the event is a label",
     {SETTING("itimer"), EXECUTION("1")},
     "# " CPU " " JFR("itimer") "A.main;A.work 10000000\n"},
    {"other settings are not",
     {{JFR_MAKE_SETTING, "name=interval value=10000000"}, EXECUTION("1")},
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"the last is the label of all",
     {SETTING("cpu"), EXECUTION("1"), SETTING("ctimer")},
     "# " CPU " " JFR("ctimer") "A.main;A.work 10000000\n"},
    {"an empty one is no label",
     {SETTING("cpu"), EXECUTION("1"), SETTING("")},
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"wall: a running thread is both",
     {SETTING("wall"), EXECUTION("1")},
     "# " CPU " " JFR("wall") "A.main;A.work 10000000\n# " WALL
                              " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: a sleeping thread",
     {SETTING("wall"), EXECUTION("2")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: a thread in no state",
     {SETTING("wall"), EXECUTION("9")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: clock of a running thread",
     {SETTING("wall"), CLOCK("1")},
     "# " CPU " " JFR("wall") "A.main;A.work 20000000\n# " WALL
                              " " JFR("wall") "A.main;A.work 20000000\n"},
    {"wall: clock of another thread",
     {SETTING("wall"), CLOCK("3")},
     "# " WALL " " JFR("wall") "A.main;A.work 20000000\n"},
    {"no more wall: what follows is CPU",
     {SETTING("wall"), EXECUTION("1"), SETTING("cpu"), EXECUTION("1")},
     "# " CPU " " JFR("cpu") "A.main;A.work 20000000\n# " WALL
                             " " JFR("cpu") "A.main;A.work 10000000\n"},
    {"the first holds for what stands before it",
     {EXECUTION("2"), SETTING("wall")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
};

static void settings_say_what_samples_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(settings); i++) {
        struct jfr_make make;

        print_message("  %s\n", settings[i].name);
        begin(&make);
        for (size_t e = 0; e < 4 && settings[i].events[e].values != NULL; e++)
            jfr_make_event(&make, settings[i].events[e].class, settings[i].events[e].values);
        jfr_make_chunk_end(&make);
        check(&make, settings[i].want);
    }
}

/* ---- chunks and constants ---- */

static void constants_may_come_last(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    jfr_make_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=cpu");
    jfr_make_usual_constants(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
    jfr_make_metadata(&make);
    jfr_make_chunk_end(&make);
    check(&make, "# " CPU " " JFR("cpu") "A.main;A.work 10000000\nA.main;A.work;B.leaf 10000000\n");
}

/* As the JDK writes: what one event with constants needs is in another, and some come twice. */
static void constants_may_be_spread(void **state)
{
    static const uint64_t frames[] = {7, 1};
    struct jfr_make make;

    (void)state;
    begin(&make);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 900, frames, 1);
    jfr_make_stack(&make, 1, frames, 1); /* was there: the first counts */
    jfr_make_pool(&make, JFR_MAKE_STATE, 0);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=900 state=1");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 1);
    jfr_make_method(&make, 7, 2, 66000);
    jfr_make_end(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 1);
    jfr_make_symbol(&make, 66000, "late");
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    check(&make, "# " CPU " {" SHOP "A.main;A.work 10000000\nB.late 10000000\n");
}

/* A chunk whose constants have the same ids as the usual ones and mean something else. */
static void other_chunk(struct jfr_make *make, const char *method)
{
    static const uint64_t frames[] = {1, 5};

    jfr_make_chunk(make);
    jfr_make_metadata(make);
    jfr_make_constants(make, 4);
    jfr_make_pool(make, JFR_MAKE_STACK, 1);
    jfr_make_stack(make, 1, frames, 1);
    jfr_make_pool(make, JFR_MAKE_METHOD, 1);
    jfr_make_method(make, 1, 2, 1);
    jfr_make_pool(make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(make, 2, 2);
    jfr_make_pool(make, JFR_MAKE_SYMBOL, 2);
    jfr_make_symbol(make, 1, method);
    jfr_make_symbol(make, 2, "Z");
    jfr_make_end(make);
}

static void chunks_stand_for_themselves(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=alloc");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    make.fixed = true;
    other_chunk(&make, "one");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=2");              /* not in this chunk */
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1"); /* no states either */
    jfr_make_chunk_end(&make);
    make.fixed = false;
    other_chunk(&make, "two");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    check(&make, "# " CPU " " JFR("alloc") "A.main;A.work 10000000\n"
                                           "# memory:live:count:objects:count " JFR(
                                               "alloc") " 1\n"
                                                        "A.main;A.work 2\nZ.one 1\nZ.two 1\n");
}

/* The wall rule of one chunk holds for the next until that has a setting, which is looked for. */
static void settings_outlive_their_chunk(void **state)
{
    struct jfr_make make;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=wall");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=2");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=2");
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=cpu");
    jfr_make_chunk_end(&make);
    check(&make, "# " WALL " " JFR("cpu") "A.main;A.work 10000000\n");
}

static void nothing_gives_nothing(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    check(&make, "");
    jfr_make_init(&make);
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    jfr_make_chunk_end(&make);
    check(&make, "");
}

/* ---- classes that are not the usual ones ---- */

/* Everything the format has, in the way of what is wanted. */
static const struct jfr_make_class odd_classes[] = {
    {1001, "boolean", ""},
    {1002, "char", ""},
    {1003, "float", ""},
    {1004, "double", ""},
    {1005, "byte", ""},
    {1006, "short", ""},
    {1007, "int", ""},
    {1008, "long", ""},
    {1009, "java.lang.String", ""},
    {2000, "Inner", "a:long b:java.lang.String c:Empty d:short[]"},
    {2001, "Empty", ""},
    {2002, "Outer", "x:Inner y:Inner[] z:Empty[]"},
    {JFR_MAKE_STACK, "jdk.types.StackTrace",
     "frames:jdk.types.StackFrame[] truncated:boolean more:Outer"},
    {2004, "jdk.types.StackFrame",
     "odd:Inner lineNumber:short note:java.lang.String method:jdk.types.Method* tail:Outer"},
    {JFR_MAKE_METHOD, "jdk.types.Method", "odd:Outer name:long hidden:boolean type:int f:float"},
    {JFR_MAKE_CLASS, "java.lang.Class", "f:float d:double name:jdk.types.Symbol* c:char"},
    {JFR_MAKE_SYMBOL, "jdk.types.Symbol", "f:float[] string:java.lang.String d:double[]"},
    {JFR_MAKE_STATE, "jdk.types.ThreadState", "b:byte name:java.lang.String"},
    {JFR_MAKE_EXECUTION, "jdk.ExecutionSample",
     "one:Outer state:byte two:boolean[] three:java.lang.String[] stackTrace:jdk.types.StackTrace* "
     "four:double five:float six:char seven:short eight:Empty nine:long[]"},
    {0, NULL, NULL},
};

static void put_inner(struct jfr_make *make)
{
    jfr_make_long(make, UINT64_MAX);
    jfr_make_utf8(make, "text");
    jfr_make_int(make, 0); /* d */
}

static void put_outer(struct jfr_make *make)
{
    put_inner(make);
    jfr_make_int(make, 2);
    put_inner(make);
    put_inner(make);
    jfr_make_int(make, 3); /* of nothing */
}

static void put_odd_frame(struct jfr_make *make, uint64_t method, uint8_t line)
{
    put_inner(make);
    if (make->fixed)
        jfr_make_byte(make, 0);
    jfr_make_byte(make, line);
    jfr_make_utf8(make, NULL);
    jfr_make_long(make, method);
    put_outer(make);
}

static void put_odd_constants(struct jfr_make *make)
{
    jfr_make_constants(make, 5);
    jfr_make_pool(make, JFR_MAKE_STACK, 1);
    jfr_make_long(make, 1);
    jfr_make_int(make, 2);
    put_odd_frame(make, 5, 17);
    put_odd_frame(make, 5, 18);
    jfr_make_byte(make, 1);
    put_outer(make);
    jfr_make_pool(make, JFR_MAKE_METHOD, 1);
    jfr_make_long(make, 5);
    put_outer(make);
    jfr_make_long(make, 6);
    jfr_make_byte(make, 1);
    jfr_make_int(make, 7);
    for (unsigned i = 0; i < 4; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_pool(make, JFR_MAKE_CLASS, 1);
    jfr_make_long(make, 7);
    for (unsigned i = 0; i < 12; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_long(make, 8);
    if (make->fixed)
        jfr_make_byte(make, 0);
    jfr_make_byte(make, 'c');
    jfr_make_pool(make, JFR_MAKE_SYMBOL, 2);
    for (unsigned id = 6; id <= 8; id += 2) {
        jfr_make_long(make, id);
        jfr_make_int(make, 1);
        for (unsigned i = 0; i < 4; i++)
            jfr_make_byte(make, 0xff);
        jfr_make_utf8(make, id == 6 ? "run" : "java/lang/Thread");
        jfr_make_int(make, 0);
    }
    jfr_make_pool(make, JFR_MAKE_STATE, 1);
    jfr_make_long(make, 200);
    jfr_make_byte(make, 0xff);
    jfr_make_utf8(make, "STATE_RUNNABLE");
    jfr_make_end(make);
}

static void put_odd_event(struct jfr_make *make)
{
    jfr_make_begin(make, JFR_MAKE_EXECUTION);
    put_outer(make);
    jfr_make_byte(make, 200);
    jfr_make_int(make, 3);
    for (unsigned i = 0; i < 3; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_int(make, 2);
    jfr_make_utf8(make, "a string");
    jfr_make_utf8(make, NULL);
    jfr_make_long(make, 1);
    /* What follows is not looked at: the event's size is enough. */
    jfr_make_end(make);
}

static void fields_are_found_by_name(void **state)
{
    (void)state;
    for (unsigned fixed = 0; fixed < 2; fixed++) {
        struct jfr_make make;

        jfr_make_init(&make);
        make.classes = odd_classes;
        make.fixed = fixed;
        jfr_make_chunk(&make);
        put_odd_event(&make);
        put_odd_constants(&make);
        jfr_make_metadata(&make);
        put_odd_event(&make);
        jfr_make_chunk_end(&make);
        check(&make, "# " CPU " {" SHOP "java/lang/Thread.run;java/lang/Thread.run 20000000\n");
    }
}

/* Fields that have the right name and are something else are as if they were not there. */
static void fields_of_other_kinds_are_not_taken(void **state)
{
    static const struct jfr_make_class classes[] = {
        {10, "int", ""},
        {11, "long", ""},
        {20, "java.lang.String", ""},
        {21, "Pair", "a:long b:long"},
        {JFR_MAKE_STATE, "jdk.types.ThreadState", "name:long"},
        {JFR_MAKE_STACK, "jdk.types.StackTrace", "frames:long[]"},
        {JFR_MAKE_WALL_CLOCK, "profiler.WallClockSample",
         "stackTrace:Pair samples:long[] contextId:java.lang.String"},
        {JFR_MAKE_EXECUTION, "jdk.ExecutionSample", "stackTrace:jdk.types.StackTrace* state:long"},
        {JFR_MAKE_SETTING, "jdk.ActiveSetting", "name:long value:long"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    make.classes = classes;
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STATE, 1);
    jfr_make_long(&make, 1);
    jfr_make_long(&make, 99);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_long(&make, 1);
    jfr_make_int(&make, 0);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "");
    jfr_make_event(&make, JFR_MAKE_WALL_CLOCK, "");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    check(&make, "# " CPU " {" SHOP " 10000000\n# " WALL " {" SHOP " 10000000\n");
}

/* ---- stacks ---- */

static void what_is_missing_is_left_out(void **state)
{
    static const uint64_t frames[] = {2, UINT32_MAX, 99, 7, 8, 7, 9, 7, 1, 0};
    struct jfr_make make;

    (void)state;
    begin(&make);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 5, frames, 5);
    jfr_make_stack(&make, 6, frames, 0);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 2);
    jfr_make_method(&make, 8, 77, 3); /* of no class */
    jfr_make_method(&make, 9, 1, 78); /* without a name */
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=6"); /* no frames */
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=0"); /* none */
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=4"); /* not there */
    jfr_make_chunk_end(&make);
    check(&make, "# memory:live:count:objects:count {" SHOP " 3\nA.main;A.;A.work 1\n");
}

static enum fg_code look_at_lines(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    uint32_t *n = arg;

    (void)err;
    assert_int_equal(batch->n_mappings, 1);
    assert_int_equal(batch->mappings[0].flags, FG_MAPPING_FUNCTIONS);
    for (uint32_t i = 0; i < batch->n_locations; i++) {
        const struct fg_line *line = &batch->lines[batch->locations[i].first_line];

        assert_int_equal(batch->locations[i].n_lines, 1);
        assert_int_equal(batch->locations[i].mapping, 0);
        assert_int_equal(batch->functions[line->function].system_name.len, 0);
        assert_true(line->line == 10 || line->line == 20 || line->line == 0);
    }
    assert_int_equal(batch->n_functions, 2);
    assert_int_equal(batch->n_locations, 3);
    assert_int_equal(batch->profiles[0].n_samples, 3);
    (*n)++;
    return FG_OK;
}

/* Stacks are told apart by lines; a negative line is none. */
static void lines_are_kept(void **state)
{
    static const uint64_t frames[] = {2, UINT32_MAX, 1, 10};
    struct fg_arena *arena = fg_arena_create(ARENA_MAX_BYTES);
    struct fg_decode_counts counts = {0};
    struct jfr_make make;
    struct run run;
    struct fg_err err;
    uint32_t n = 0;

    (void)state;
    begin(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 5, frames, 2);
    jfr_make_stack(&make, 6, frames + 2, 1);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=6");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(
        fg_jfr_decode(jfr_make_slice(&make), &run.request, arena, look_at_lines, &n, &counts, &err),
        FG_OK);
    assert_int_equal(n, 1);
    fg_buf_done(&run.out);
    jfr_make_done(&make);
    fg_arena_destroy(arena);
}

static void names_are_cleaned_and_text(void **state)
{
    static const uint64_t frames[] = {5, 1, 6, 1, 7, 1, 8, 1};
    static const char utf16[] = {4, 3, 'n', '\xe9', 1, '\xac', '\x41'}; /* n, e acute, euro sign */
    struct jfr_make make;

    (void)state;
    begin(&make);
    jfr_make_constants(&make, 5);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_stack(&make, 5, frames, 4);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 4);
    jfr_make_method(&make, 5, 5, 11);
    jfr_make_method(&make, 6, 2, 12);
    jfr_make_method(&make, 7, 2, 13);
    jfr_make_method(&make, 8, 2, 14);
    jfr_make_pool(&make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(&make, 5, 10);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 5);
    jfr_make_symbol(&make, 10, "App$$Lambda$71.0x00007fa86c086f18");
    jfr_make_long(&make, 11); /* Latin-1 */
    jfr_make_byte(&make, 5);
    jfr_make_int(&make, 2);
    jfr_make_byte(&make, 'l');
    jfr_make_byte(&make, 0xe9);
    jfr_make_long(&make, 12); /* UTF-16 */
    for (size_t i = 0; i < sizeof utf16; i++)
        jfr_make_byte(&make, (uint8_t)utf16[i]);
    jfr_make_long(&make, 13); /* a constant */
    jfr_make_byte(&make, 2);
    jfr_make_long(&make, 500);
    jfr_make_symbol(&make, 14, "not\xff text"); /* and not UTF-8 either */
    jfr_make_pool(&make, JFR_MAKE_STRING, 1);
    jfr_make_named(&make, 500, "constant");
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_chunk_end(&make);
    check(&make, "# memory:live:count:objects:count {" SHOP
                 "B.not\xef\xbf\xbd text;B.constant;B.n\xc3\xa9\xe2\x82\xac;App$$Lambda_.l\xc3\xa9 "
                 "1\n");
}

static void limits_hold(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=2");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.upload.limits.stack_depth_max = 2;
    expect_text(&run, jfr_make_slice(&make),
                "# memory:live:count:objects:count {" SHOP "A.main;A.work 2\n");
    assert_int_equal(run.counts.stacks_cut, 1);
    run.request.upload.limits.stack_depth_max = 0;
    run.request.upload.limits.symbol_max_bytes = 5;
    expect_text(&run, jfr_make_slice(&make),
                "# memory:live:count:objects:count {" SHOP ".main;.work 1\n.main;.work;.leaf 1\n");
    assert_int_equal(run.counts.symbols_cut, 3);
    run.request.upload.limits.symbol_max_bytes = 0;
    run.request.upload.limits.samples_max = 2;
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    run.request.upload.limits.samples_max = 1;
    expect_error(&run, jfr_make_slice(&make), FG_E_INVALID,
                 "samples count limit (max_profile_stacktrace_samples, actual: 2, limit: 1)");
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* ---- labels ---- */

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
        fg_buf_done(&run.out);
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
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1 contextId=100");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.labels = FG_LIT("no message");
    expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "LabelsSnapshot");
    put_context(&snapshot, 100, three);
    for (uint64_t i = 1; i <= 6; i++)
        put_string(&snapshot, i, texts[i - 1]);
    run.request.labels = fg_buf_slice(&snapshot);
    run.request.upload.limits.sample_labels_max = 2;
    expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "sample labels limit");
    run.request.upload.limits.sample_labels_max = 3;
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    put_map(&snapshot, CONTEXTS, 100, FG_LIT("\x0a\x05zz"));
    put_map(&snapshot, CONTEXTS, 101, FG_LIT("\x0a\x05zz"));
    run.request.labels = fg_buf_slice(&snapshot);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK); /* nobody looks at it */
    fg_buf_clear(&snapshot);
    put_map(&snapshot, CONTEXTS, 100, FG_LIT("\x0a\x05zz"));
    run.request.labels = fg_buf_slice(&snapshot);
    expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "labels of context 100");
    fg_buf_done(&snapshot);
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* ---- refusals ---- */

static void patch(struct jfr_make *make, size_t at, uint64_t value, unsigned width)
{
    for (unsigned i = 0; i < width; i++)
        make->out.ptr[at + i] = (uint8_t)(value >> 8 * (width - 1 - i));
}

static const struct {
    const char *name;
    size_t at; /* in the header */
    uint64_t value;
    unsigned width;
    const char *text;
} headers[] = {
    {"no recording", 0, 0x1f8b0800, 4, "chunk at byte 0: does not begin with \"FLR\""},
    {"version 1", 4, 1, 2, "version 1.1 is not supported"},
    {"version 3", 4, 3, 2, "version 3.1 is not supported"},
    {"never finished", 8, 0, 8, "never finished"},
    {"smaller than its header", 8, 67, 8, "size is 67 bytes"},
    {"larger than the recording", 8, 1u << 20, 8, "size is 1048576 bytes"},
    {"huge", 8, UINT64_MAX, 8, "size is 18446744073709551615 bytes"},
    {"metadata in the header", 24, 67, 8, "metadata at byte 67"},
    {"metadata behind the end", 24, UINT64_MAX, 8, "metadata at byte 18446744073709551615"},
    {"metadata that is none", 24, 72, 8, "at byte 72 is no metadata"},
};

static void headers_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(headers); i++) {
        struct jfr_make make;

        print_message("  %s\n", headers[i].name);
        begin(&make);
        jfr_make_chunk_end(&make);
        patch(&make, headers[i].at, headers[i].value, headers[i].width);
        check_error(&make, FG_E_DECODE, headers[i].text);
    }
}

/* What a header says without meaning: where constants are, times, ticks a second. */
static void idle_talk_of_headers_is_not_listened_to(void **state)
{
    static const size_t words[] = {16, 32, 40, 48, 56};

    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(words); i++) {
        struct jfr_make make;

        begin(&make);
        jfr_make_event(&make, JFR_MAKE_MONITOR, "stackTrace=1 duration=3");
        jfr_make_chunk_end(&make);
        patch(&make, words[i / 2], i % 2 == 0 ? 0 : UINT64_MAX, 8);
        check(&make, "# mutex:contentions:count:mutex:count {" SHOP "A.main;A.work 1\n"
                     "# mutex:delay:nanoseconds:mutex:count {" SHOP "A.main;A.work 3\n");
    }
}

static void what_is_cut_short_is_refused(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    for (size_t len = 1; len < make.out.len; len++)
        expect_error(&run, fg_slice_sub(jfr_make_slice(&make), 0, len), FG_E_DECODE, "jfr: chunk");
    /* And the same bytes as a chunk of that size, so that the rest of the reader sees the cut. */
    for (size_t len = 68; len < make.out.len; len++) {
        patch(&make, 8, len, 8);
        if (run_decode(&run, fg_slice_sub(jfr_make_slice(&make), 0, len)) == FG_OK)
            assert_int_equal(run.n_batches, 0); /* exactly between two events */
    }
    fg_buf_puts(&make.out, "garbage");
    patch(&make, 8, make.out.len - 7, 8);
    expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "does not begin");
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* An event that is not what its class says. */
static void put_bad_event(struct jfr_make *make, unsigned which)
{
    switch (which) {
    case 0: /* too short for its fields */
        jfr_make_begin(make, JFR_MAKE_EXECUTION);
        jfr_make_long(make, 1);
        jfr_make_end(make);
        break;
    case 1: /* of no bytes at all */
        fg_buf_putc(&make->out, 0);
        break;
    case 2: /* longer than the chunk */
        fg_buf_puts(&make->out, "\x7f\x65");
        break;
    case 3: /* constants of a class nobody knows */
        jfr_make_constants(make, 1);
        jfr_make_pool(make, 4711, 1);
        jfr_make_end(make);
        break;
    case 4: /* more constants than there are */
        jfr_make_constants(make, 1);
        jfr_make_pool(make, JFR_MAKE_SYMBOL, 3);
        jfr_make_symbol(make, 1, "A");
        jfr_make_end(make);
        break;
    case 5: /* a string of no known kind */
        jfr_make_constants(make, 1);
        jfr_make_pool(make, JFR_MAKE_SYMBOL, 1);
        jfr_make_long(make, 1);
        jfr_make_byte(make, 6);
        jfr_make_end(make);
        break;
    case 6: /* more frames than bytes */
        jfr_make_constants(make, 1);
        jfr_make_pool(make, JFR_MAKE_STACK, 1);
        jfr_make_long(make, 1);
        jfr_make_byte(make, 0);
        jfr_make_int(make, 1000000);
        jfr_make_end(make);
        break;
    case 7: /* fewer pools than it says */
        jfr_make_constants(make, 2);
        jfr_make_pool(make, JFR_MAKE_SYMBOL, 0);
        jfr_make_end(make);
        break;
    default: /* so many samples at once that their time does not fit */
        jfr_make_event(make, JFR_MAKE_WALL_CLOCK, "stackTrace=1 state=1 samples=2147483647");
        jfr_make_event(make, JFR_MAKE_MONITOR, "stackTrace=1 duration=0x7fffffffffffffff");
        jfr_make_event(make, JFR_MAKE_MONITOR, "stackTrace=1 duration=1");
    }
}

static void events_are_checked(void **state)
{
    static const char *const texts[] = {
        "jdk.ExecutionSample cannot be read",
        "is not whole",
        "is not whole",
        "constants of class 4711, which is not described",
        "a constant of jdk.types.Symbol cannot be read",
        "a constant of jdk.types.Symbol cannot be read",
        "a constant of jdk.types.StackTrace cannot be read",
        "constants cut short",
        "exceeds 64 bits",
    };

    (void)state;
    for (unsigned i = 0; i < FG_COUNT(texts); i++) {
        struct jfr_make make;

        print_message("  %s\n", texts[i]);
        begin(&make);
        put_bad_event(&make, i);
        jfr_make_chunk_end(&make);
        check_error(&make, i < 8 ? FG_E_DECODE : FG_E_INVALID, texts[i]);
    }
}

static const struct {
    const char *name;
    struct jfr_make_class classes[3];
    const char *text;
} metadata[] = {
    {"field of a class nobody knows",
     {{50, "jdk.ExecutionSample", "x:Nowhere state:long"}},
     "jdk.ExecutionSample cannot be read"},
    {"class in itself",
     {{50, "jdk.ExecutionSample", "x:jdk.ExecutionSample state:jdk.ExecutionSample*"}},
     "jdk.ExecutionSample cannot be read"},
    {"classes in each other",
     {{50, "jdk.ExecutionSample", "x:Y state:Y*"}, {2, "Y", "x:Z"}, {3, "Z", "x:Y"}},
     "jdk.ExecutionSample cannot be read"},
    {"arrays in each other",
     {{50, "jdk.ExecutionSample", "x:Y[] state:Y*"}, {2, "Y", "x:Z[]"}, {3, "Z", "x:Y[]"}},
     "jdk.ExecutionSample cannot be read"},
};

static void classes_are_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(metadata); i++) {
        struct jfr_make_class classes[5] = {{11, "long", ""}};
        struct jfr_make make;

        print_message("  %s\n", metadata[i].name);
        for (size_t c = 0; c < 3 && metadata[i].classes[c].name != NULL; c++)
            classes[c + 1] = metadata[i].classes[c];
        jfr_make_init(&make);
        make.classes = classes;
        jfr_make_chunk(&make);
        jfr_make_metadata(&make);
        jfr_make_begin(&make, 50);
        for (unsigned n = 0; n < 200; n++)
            jfr_make_byte(&make, 1);
        jfr_make_end(&make);
        jfr_make_chunk_end(&make);
        check_error(&make, FG_E_DECODE, metadata[i].text);
    }
}

/* Metadata written by hand: a number of strings, and what follows them. */
static const struct {
    const char *name, *bytes;
    size_t len;
    const char *text;
} by_hand[] = {
    {"nothing", "", 0, "metadata"},
    {"more strings than bytes", "\x7f", 1, "string 0"},
    {"string of no known kind", "\x01\x09", 2, "string 1"},
    {"root without elements", "\x01\x01\x00\x00", 4, "metadata cannot be read behind class 0"},
    {"string nobody has", "\x01\x01\x00\x00\x01\x05\x00\x00", 8, "metadata cannot be read"},
    {"class without id",
     "\x03\x03\x08metadata\x03\x05"
     "class\x01"
     "\x00\x00\x01"
     "\x00\x00\x01"
     "\x01\x00\x00",
     28, "has no id"},
    {"more attributes than bytes", "\x01\x01\x00\x7f", 4, "metadata cannot be read"},
};

static void metadata_is_checked(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(by_hand); i++) {
        struct jfr_make make;

        print_message("  %s\n", by_hand[i].name);
        jfr_make_init(&make);
        jfr_make_chunk(&make);
        make.metadata_at = make.out.len;
        jfr_make_begin(&make, 0);
        for (unsigned n = 0; n < 3; n++)
            jfr_make_long(&make, 1);
        for (size_t n = 0; n < by_hand[i].len; n++)
            jfr_make_byte(&make, (uint8_t)by_hand[i].bytes[n]);
        jfr_make_end(&make);
        jfr_make_chunk_end(&make);
        check_error(&make, FG_E_DECODE, by_hand[i].text);
    }
}

/* Elements in elements in elements. */
static void deep_metadata_is_refused(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    jfr_make_chunk(&make);
    make.metadata_at = make.out.len;
    jfr_make_begin(&make, 0);
    for (unsigned n = 0; n < 3; n++)
        jfr_make_long(&make, 1);
    jfr_make_int(&make, 1);
    jfr_make_byte(&make, 1);
    for (unsigned n = 0; n < 100000; n++) {
        jfr_make_int(&make, 0);
        jfr_make_int(&make, 0);
        jfr_make_int(&make, 1);
    }
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    check_error(&make, FG_E_DECODE, "metadata cannot be read");
}

static void what_the_sink_says_is_the_end(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.refuse = true;
    expect_error(&run, jfr_make_slice(&make), FG_E_UNAVAILABLE, "no place");
    run.refuse = false;
    run.request.upload.labels.count = 0;
    expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "service name is not provided");
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* ---- hostile ones: each ends soon, and within the memory of one upload ---- */

/* Classes without bytes in classes without bytes: 200 fields of 200 fields of 200 fields ... */
static void nothing_of_nothing_ends(void **state)
{
    static char fields[8][200 * 5];
    struct jfr_make_class classes[11] = {{11, "long", ""},
                                         {50, "jdk.ExecutionSample", "x:C0 state:C0*"}};
    static const char *const names[] = {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7"};
    struct jfr_make make;

    (void)state;
    for (size_t c = 0; c < 8; c++) {
        size_t len = 0;

        for (unsigned f = 0; f < 200 && c < 7; f++)
            len += (size_t)snprintf(fields[c] + len, sizeof fields[c] - len, "%sf:%s",
                                    f == 0 ? "" : " ", names[c + 1]);
        classes[2 + c] = (struct jfr_make_class){100 + c, names[c], fields[c]};
    }
    jfr_make_init(&make);
    make.classes = classes;
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    jfr_make_begin(&make, 50);
    jfr_make_long(&make, 1);
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    check_error(&make, FG_E_DECODE, "jdk.ExecutionSample cannot be read");
}

/* Arrays as long as what is left of the chunk, of elements that take no bytes. */
static void arrays_of_nothing_end(void **state)
{
    static const struct jfr_make_class classes[] = {
        {11, "long", ""},
        {12, "Empty", ""},
        {13, "Hollow", "a:Empty b:Empty"},
        {50, "jdk.ExecutionSample", "x:Hollow[] state:long"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    make.classes = classes;
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    for (unsigned i = 0; i < 200; i++) {
        jfr_make_begin(&make, 50);
        jfr_make_int(&make, 20000);
        for (unsigned n = 0; n < 20000; n++)
            jfr_make_byte(&make, 1);
        jfr_make_end(&make);
    }
    jfr_make_chunk_end(&make);
    check(&make, "");
}

/* A stack whose frames are stacks: what a frame calls its method is no place of frames. */
static void stacks_of_stacks_are_empty(void **state)
{
    static const struct jfr_make_class classes[] = {
        {11, "long", ""},
        {JFR_MAKE_STACK, "jdk.types.StackTrace", "frames:jdk.types.StackTrace[] method:long"},
        {JFR_MAKE_LIVE, "profiler.LiveObject", "stackTrace:jdk.types.StackTrace*"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    make.classes = classes;
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_long(&make, 1);
    jfr_make_int(&make, 1); /* a frame: no frames, method 70 */
    jfr_make_int(&make, 0);
    jfr_make_long(&make, 70);
    jfr_make_long(&make, 71);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    check(&make, "# memory:live:count:objects:count {" SHOP " 1\n");
}

/* Very many methods of a class whose name is very long. */
static void long_names_end(void **state)
{
    enum { METHODS = 20000, NAME_BYTES = 60000 };
    struct fg_buf frames, name;
    struct jfr_make make;
    struct run run;

    (void)state;
    fg_buf_init(&frames, SIZE_MAX);
    fg_buf_init(&name, SIZE_MAX);
    for (uint64_t i = 0; i < METHODS; i++) {
        const uint64_t frame[] = {i + 10, 1};

        fg_buf_append(&frames, frame, sizeof frame);
    }
    for (unsigned i = 0; i < NAME_BYTES; i++)
        fg_buf_putc(&name, 'x');
    fg_buf_putc(&name, '\0');
    begin(&make);
    jfr_make_constants(&make, 4);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 1);
    jfr_make_symbol(&make, 7, (const char *)name.ptr);
    jfr_make_pool(&make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(&make, 7, 7);
    jfr_make_pool(&make, JFR_MAKE_METHOD, METHODS);
    for (uint64_t i = 0; i < METHODS; i++)
        jfr_make_method(&make, i + 10, 7, 3);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_stack(&make, 7, (const uint64_t *)(const void *)frames.ptr, METHODS);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=7");
    jfr_make_chunk_end(&make);
    run_init(&run);
    expect_error(&run, jfr_make_slice(&make), FG_E_TOO_LARGE, "strings add up");
    assert_true(run.used_bytes < 8 * 1024 * 1024);
    fg_buf_done(&run.out);
    fg_buf_done(&frames);
    fg_buf_done(&name);
    jfr_make_done(&make);
}

/* Settings that name a long constant again and again. */
static void long_settings_end(void **state)
{
    struct fg_buf name;
    struct jfr_make make;

    (void)state;
    fg_buf_init(&name, SIZE_MAX);
    for (unsigned i = 0; i < 1 << 20; i++)
        fg_buf_putc(&name, 'x');
    fg_buf_putc(&name, '\0');
    begin(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STRING, 1);
    jfr_make_named(&make, 1, (const char *)name.ptr);
    jfr_make_end(&make);
    for (unsigned i = 0; i < 1000; i++) {
        jfr_make_begin(&make, JFR_MAKE_SETTING);
        jfr_make_long(&make, 1);
        jfr_make_long(&make, 1);
        jfr_make_byte(&make, 2);
        jfr_make_long(&make, 1);
        jfr_make_byte(&make, 0);
        jfr_make_end(&make);
    }
    jfr_make_chunk_end(&make);
    fg_buf_done(&name);
    check_error(&make, FG_E_TOO_LARGE, "strings add up");
}

/* Thousands of chunks: what one costs must not depend on those before it. */
static void many_chunks_use_little_memory(void **state)
{
    struct jfr_make make;
    struct fg_buf many;
    struct run run;

    (void)state;
    fg_buf_init(&many, SIZE_MAX);
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    run.arena_max_bytes = run.used_bytes + 4096;
    for (unsigned i = 0; i < 2000; i++)
        fg_buf_put(&many, jfr_make_slice(&make));
    expect_text(&run, fg_buf_slice(&many),
                "# memory:live:count:objects:count {" SHOP "A.main;A.work 2000\n");
    fg_buf_done(&many);
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

/* With any less memory than it takes there is an error, and nothing is handed over. */
static void the_arena_is_the_limit(void **state)
{
    struct jfr_make make;
    struct run run;
    size_t need;

    (void)state;
    begin(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=wall");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    need = run.used_bytes;
    for (run.arena_max_bytes = 0; run.arena_max_bytes < need; run.arena_max_bytes += 16)
        expect_error(&run, jfr_make_slice(&make), FG_E_TOO_LARGE, "");
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    fg_buf_done(&run.out);
    jfr_make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_event_makes_its_profile),
        cmocka_unit_test(kinds_come_in_order_and_sums),
        cmocka_unit_test(the_rate_is_the_upload_s),
        cmocka_unit_test(settings_say_what_samples_are),
        cmocka_unit_test(constants_may_come_last),
        cmocka_unit_test(constants_may_be_spread),
        cmocka_unit_test(chunks_stand_for_themselves),
        cmocka_unit_test(settings_outlive_their_chunk),
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(fields_of_other_kinds_are_not_taken),
        cmocka_unit_test(what_is_missing_is_left_out),
        cmocka_unit_test(lines_are_kept),
        cmocka_unit_test(names_are_cleaned_and_text),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(contexts_are_labels),
        cmocka_unit_test(bad_labels_are_refused),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(idle_talk_of_headers_is_not_listened_to),
        cmocka_unit_test(what_is_cut_short_is_refused),
        cmocka_unit_test(events_are_checked),
        cmocka_unit_test(classes_are_checked),
        cmocka_unit_test(metadata_is_checked),
        cmocka_unit_test(deep_metadata_is_refused),
        cmocka_unit_test(what_the_sink_says_is_the_end),
        cmocka_unit_test(nothing_of_nothing_ends),
        cmocka_unit_test(arrays_of_nothing_end),
        cmocka_unit_test(stacks_of_stacks_are_empty),
        cmocka_unit_test(long_names_end),
        cmocka_unit_test(long_settings_end),
        cmocka_unit_test(many_chunks_use_little_memory),
        cmocka_unit_test(the_arena_is_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
