/* Recordings that are refused: none of it is handed over, and the error says what is wrong. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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
        jfr_make_init_usual(&make);
        jfr_make_chunk_end(&make);
        patch(&make, headers[i].at, headers[i].value, headers[i].width);
        run_check_error(&make, FG_E_DECODE, headers[i].text);
    }
}

/* What a header says without meaning: where constants are, times, ticks a second. */
static void endless_headers_are_cut_off(void **state)
{
    static const size_t words[] = {16, 32, 40, 48, 56};

    (void)state;
    for (size_t i = 0; i < 2 * FG_COUNT(words); i++) {
        struct jfr_make make;

        jfr_make_init_usual(&make);
        jfr_make_event(&make, JFR_MAKE_MONITOR, "stackTrace=1 duration=3");
        jfr_make_chunk_end(&make);
        patch(&make, words[i / 2], i % 2 == 0 ? 0 : UINT64_MAX, 8);
        run_check(&make, "# mutex:contentions:count:mutex:count {" SHOP "A.main;A.work 1\n"
                         "# mutex:delay:nanoseconds:mutex:count {" SHOP "A.main;A.work 3\n");
    }
}

static void truncated_input_is_refused(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    for (size_t len = 1; len < make.out.len; len++)
        run_expect_error(&run, fg_slice_sub(jfr_make_slice(&make), 0, len), FG_E_DECODE,
                         "jfr: chunk");
    /* And the same bytes as a chunk of that size, so that the rest of the reader sees the cut. */
    for (size_t len = 68; len < make.out.len; len++) {
        patch(&make, 8, len, 8);
        if (run_decode(&run, fg_slice_sub(jfr_make_slice(&make), 0, len)) == FG_OK)
            assert_int_equal(run.n_batches, 0); /* exactly between two events */
    }
    fg_buf_puts(&make.out, "garbage");
    patch(&make, 8, make.out.len - 7, 8);
    run_expect_error(&run, jfr_make_slice(&make), FG_E_DECODE, "does not begin");
    run_done(&run);
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
        jfr_make_init_usual(&make);
        put_bad_event(&make, i);
        jfr_make_chunk_end(&make);
        run_check_error(&make, i < 8 ? FG_E_DECODE : FG_E_INVALID, texts[i]);
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
        jfr_make_init_of(&make, classes);
        jfr_make_begin(&make, 50);
        for (unsigned n = 0; n < 200; n++)
            jfr_make_byte(&make, 1);
        jfr_make_end(&make);
        jfr_make_chunk_end(&make);
        run_check_error(&make, FG_E_DECODE, metadata[i].text);
    }
}

/* The head of metadata written by hand; what follows in the event is up to the test. */
static void begin_metadata(struct jfr_make *make)
{
    jfr_make_init(make);
    jfr_make_chunk(make);
    make->metadata_at = make->out.len;
    jfr_make_begin(make, 0);
    for (unsigned n = 0; n < 3; n++)
        jfr_make_long(make, 1);
}

/* A number of strings, and what follows them. */
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
        begin_metadata(&make);
        for (size_t n = 0; n < by_hand[i].len; n++)
            jfr_make_byte(&make, (uint8_t)by_hand[i].bytes[n]);
        jfr_make_end(&make);
        jfr_make_chunk_end(&make);
        run_check_error(&make, FG_E_DECODE, by_hand[i].text);
    }
}

/* Elements in elements in elements. */
static void deep_metadata_is_refused(void **state)
{
    struct jfr_make make;

    (void)state;
    begin_metadata(&make);
    jfr_make_int(&make, 1);
    jfr_make_byte(&make, 1);
    for (unsigned n = 0; n < 100000; n++) {
        jfr_make_int(&make, 0);
        jfr_make_int(&make, 0);
        jfr_make_int(&make, 1);
    }
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    run_check_error(&make, FG_E_DECODE, "metadata cannot be read");
}

static void an_error_of_the_sink_ends_the_decoding(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.refuse = true;
    run_expect_error(&run, jfr_make_slice(&make), FG_E_UNAVAILABLE, "no place");
    run.refuse = false;
    run.request.upload.labels.count = 0;
    run_expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "service name is not provided");
    run_done(&run);
    jfr_make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(endless_headers_are_cut_off),
        cmocka_unit_test(truncated_input_is_refused),
        cmocka_unit_test(events_are_checked),
        cmocka_unit_test(classes_are_checked),
        cmocka_unit_test(metadata_is_checked),
        cmocka_unit_test(deep_metadata_is_refused),
        cmocka_unit_test(an_error_of_the_sink_ends_the_decoding),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
