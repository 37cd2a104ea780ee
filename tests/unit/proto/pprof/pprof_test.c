/* The decoder against profiles made by hand, good and bad, and against itself in another order. */
#include "common/base/time.h"
#include "proto/pprof/pprof.h"
#include "tests/lib/batch_folded.h"
#include "tests/lib/pprof_make.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DAY_NS (24 * FG_HOUR_NS)

enum { ARENA_MAX_BYTES = 64 * 1024 * 1024 };

/* ---- decoding ---- */

struct decoded {
    struct fg_arena *arena;
    struct fg_batch batch;
    struct fg_pprof_info info;
    struct fg_decode_counts counts;
    enum fg_code code;
    struct fg_err err;
};

static struct fg_label series_labels[] = {
    {FG_LIT("__name__"), FG_LIT("process_cpu")},
    {FG_LIT("service_name"), FG_LIT("shop")},
};

static struct fg_pprof_request plain_request(void)
{
    return (struct fg_pprof_request){
        .upload = {.labels = {series_labels, FG_COUNT(series_labels)},
                   .time_ns = 7000,
                   .duration_ns = 70,
                   .limits = FG_DECODE_LIMITS_DEFAULT},
    };
}

static void decode_request(struct decoded *out, struct fg_slice in,
                           const struct fg_pprof_request *request)
{
    *out = (struct decoded){.arena = fg_arena_create(ARENA_MAX_BYTES)};
    out->err.code = FG_OK;
    out->code =
        fg_pprof_decode(in, request, out->arena, &out->batch, &out->info, &out->counts, &out->err);
    if (out->code != FG_OK)
        assert_int_equal(out->err.code, out->code);
    else
        fg_batch_identify(&out->batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
}

static void decode(struct decoded *out, struct fg_slice in)
{
    struct fg_pprof_request request = plain_request();

    decode_request(out, in, &request);
    if (out->code != FG_OK)
        print_message("decode: %s\n", out->err.msg);
    assert_int_equal(out->code, FG_OK);
}

static void forget(struct decoded *decoded)
{
    fg_arena_destroy(decoded->arena);
}

static void assert_refused(struct fg_slice in, const struct fg_pprof_request *request,
                           enum fg_code code, const char *text)
{
    struct decoded decoded;

    decode_request(&decoded, in, request);
    if (decoded.code != FG_OK && strstr(decoded.err.msg, text) == NULL)
        print_message("\"%s\" is not in \"%s\"\n", text, decoded.err.msg);
    assert_int_equal(decoded.code, code);
    assert_non_null(strstr(decoded.err.msg, text));
    forget(&decoded);
}

static void assert_folded(const struct fg_batch *batch, uint32_t profile, uint32_t type,
                          const char *want)
{
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    assert_true(profile < batch->n_profiles);
    profile_folded(batch, &batch->profiles[profile], type, &text);
    fg_buf_putc(&text, 0);
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
}

static void assert_text(struct fg_slice text, const char *want)
{
    if (!fg_slice_is(text, want))
        print_message("\"%.*s\" is not \"%s\"\n", FG_S(text), want);
    assert_true(fg_slice_is(text, want));
}

/* A sample of these locations and one value. */
static void add_sample(struct make *make, const uint64_t *locations, size_t n, int64_t value,
                       const struct make_label *labels, size_t n_labels)
{
    make_sample(make, &(struct make_sample){locations, n, &value, 1, labels, n_labels});
}

/* ---- what comes out ---- */

static void everything_is_read(void **state)
{
    struct make make;
    struct decoded decoded;
    const struct fg_profile *profile;
    const struct fg_batch_location *location;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_type(&make, "cpu", "nanoseconds");
    make_period(&make, "cpu", "nanoseconds", 10000000);
    make_time(&make, 400 * DAY_NS, 15 * FG_SECOND_NS);
    make_mapping(&make, 1, 0x400000, "/bin/shop", false);
    make_function(&make, 1, "work", "work_sys", "work.c", 12);
    make_function(&make, 2, "inlined", "", "inl.h", 3);
    make_function(&make, 3, "main", "", "main.c", 1);
    make_location(&make, 1, 1, 0x401234, (struct make_line[]){{2, 7}, {1, 20}}, 2);
    make_location(&make, 2, 1, 0x400010, (struct make_line[]){{3, 99}}, 1);
    make_location(&make, 3, 1, 0x5000, NULL, 0);
    make_sample(&make,
                &(struct make_sample){(uint64_t[]){1, 2}, 2, (int64_t[]){3, 30}, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){(uint64_t[]){3, 2}, 2, (int64_t[]){0, 5}, 2, NULL, 0});
    decode(&decoded, make_finish(&make));

    assert_int_equal(decoded.batch.n_types, 2);
    assert_text(decoded.batch.types[0].type, "samples");
    assert_text(decoded.batch.types[1].unit, "nanoseconds");
    assert_text(decoded.batch.period_type.type, "cpu");
    assert_int_equal(decoded.batch.n_profiles, 1);
    profile = &decoded.batch.profiles[0];
    assert_int_equal(profile->time_ns, 400 * DAY_NS);
    assert_int_equal(profile->duration_ns, 15 * FG_SECOND_NS);
    assert_int_equal(profile->period, 10000000);
    assert_int_equal(decoded.info.period, 10000000);
    assert_true(decoded.info.has_time);
    assert_int_equal(profile->labels.count, 2);
    assert_int_equal(profile->n_samples, 2);
    assert_folded(&decoded.batch, 0, 0, "main;work;inlined 3\n");
    assert_folded(&decoded.batch, 0, 1, "main;0x5000 5\nmain;work;inlined 30\n");
    location = &decoded.batch.locations[0];
    assert_int_equal(location->address, 0x401234);
    assert_int_equal(location->n_lines, 2);
    assert_int_equal(decoded.batch.lines[location->first_line].line, 7);
    assert_int_equal(decoded.batch.functions[0].start_line, 12);
    assert_text(decoded.batch.functions[0].system_name, "work_sys");
    assert_text(decoded.batch.functions[0].filename, "work.c");
    assert_int_equal(decoded.batch.mappings[0].start, 0x400000);
    assert_int_equal(decoded.batch.mappings[0].limit, 0x401000);
    assert_int_equal(decoded.batch.mappings[0].offset, 0x40);
    assert_text(decoded.batch.mappings[0].filename, "/bin/shop");
    assert_text(decoded.batch.mappings[0].build_id, "build");
    assert_int_equal(decoded.counts.samples_dropped, 0);
    forget(&decoded);
    make_done(&make);
}

static void addresses_of_named_mappings_go(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_mapping(&make, 9, 0x400000, "/bin/shop", true);
    make_function(&make, 1, "main", "", "", 0);
    make_location(&make, 1, 9, 0x401234, (struct make_line[]){{1, 1}}, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.locations[0].address, 0);
    assert_int_equal(decoded.batch.mappings[0].start, 0);
    assert_int_equal(decoded.batch.mappings[0].limit, 0);
    assert_int_equal(decoded.batch.mappings[0].offset, 0);
    assert_int_equal(decoded.batch.mappings[0].flags, FG_MAPPING_FUNCTIONS);
    forget(&decoded);
    make_done(&make);
}

/* Ids as Go's runtime, perf and a stranger give them: any number but 0, in any order. */
static void ids_are_any_numbers(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, UINT64_MAX, "leaf");
    make_frame(&make, 3, "middle");
    make_frame(&make, UINT64_C(1) << 40, "root");
    add_sample(&make, (uint64_t[]){UINT64_MAX, 3, UINT64_C(1) << 40}, 3, 5, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_folded(&decoded.batch, 0, 0, "root;middle;leaf 5\n");
    forget(&decoded);
    make_done(&make);
}

/* Runs of packed and single numbers in one message follow one another. */
static void packed_and_unpacked_mix(void **state)
{
    struct make make;
    struct decoded decoded;
    struct fg_buf message;

    (void)state;
    make_start(&make);
    make_type(&make, "a", "");
    make_type(&make, "b", "");
    make_type(&make, "c", "");
    make_frame(&make, 1, "x");
    make_frame(&make, 2, "y");
    make_frame(&make, 3, "z");
    fg_buf_init(&message, SIZE_MAX);
    make_int(&message, 1, 1);
    make_bytes(&message, 2, FG_LIT("\x0a\x0b"));
    make_bytes(&message, 1, FG_LIT("\x02"));
    make_bytes(&message, 1, FG_LIT(""));
    make_int(&message, 2, 12);
    make_int(&message, 1, 3);
    make_bytes(&make.out, 2, fg_buf_slice(&message));
    fg_buf_done(&message);
    make.unpacked = true;
    make_sample(&make,
                &(struct make_sample){(uint64_t[]){1, 2, 3}, 3, (int64_t[]){1, 2, 3}, 3, NULL, 0});
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.profiles[0].n_samples, 1);
    assert_folded(&decoded.batch, 0, 0, "z;y;x 11\n");
    assert_folded(&decoded.batch, 0, 1, "z;y;x 13\n");
    assert_folded(&decoded.batch, 0, 2, "z;y;x 15\n");
    forget(&decoded);
    make_done(&make);
}

static void equal_stacks_are_summed(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_frame(&make, 2, "b");
    /* The same content under another id is the same location. */
    make_location(&make, 3, 0, 0, (struct make_line[]){{1, 0}}, 1);
    add_sample(&make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
    add_sample(&make, (uint64_t[]){2, 1}, 2, 2, NULL, 0);
    add_sample(&make, (uint64_t[]){3, 2}, 2, 4, NULL, 0);
    add_sample(&make, NULL, 0, 8, NULL, 0);
    add_sample(&make, NULL, 0, 16, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_stacks, 3);
    assert_int_equal(decoded.batch.profiles[0].n_samples, 3);
    assert_folded(&decoded.batch, 0, 0, " 24\na;b 2\nb;a 5\n");
    forget(&decoded);
    make_done(&make);
}

static void zero_and_negative_samples_go(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_type(&make, "cpu", "nanoseconds");
    make_frame(&make, 1, "a");
    make_sample(&make, &(struct make_sample){(uint64_t[]){1}, 1, (int64_t[]){0, 0}, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){(uint64_t[]){1}, 1, (int64_t[]){-1, 50}, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){(uint64_t[]){1}, 1, (int64_t[]){7, -1}, 2, NULL, 0});
    make_sample(&make, &(struct make_sample){(uint64_t[]){1}, 1, (int64_t[]){0, 9}, 2, NULL, 0});
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.counts.samples_dropped, 3);
    assert_int_equal(decoded.batch.profiles[0].n_samples, 1);
    assert_folded(&decoded.batch, 0, 0, "");
    assert_folded(&decoded.batch, 0, 1, "a 9\n");
    forget(&decoded);
    make_done(&make);
}

static void nothing_left_is_no_profile(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 0);
    forget(&decoded);
    make_done(&make);

    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    add_sample(&make, (uint64_t[]){1}, 1, 0, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 0);
    assert_int_equal(decoded.counts.samples_dropped, 1);
    forget(&decoded);
    make_done(&make);
}

/* Locations with neither name nor address, or of a mapping nobody knows, go with their samples. */
static void empty_locations_go_with_their_samples(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_location(&make, 2, 0, 0, NULL, 0);
    make_location(&make, 3, 77, 0x10, (struct make_line[]){{1, 1}}, 1);
    add_sample(&make, (uint64_t[]){2, 1}, 2, 1, NULL, 0);
    add_sample(&make, (uint64_t[]){3, 1}, 2, 2, NULL, 0);
    add_sample(&make, (uint64_t[]){1}, 1, 4, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.counts.locations_dropped, 2);
    assert_int_equal(decoded.counts.samples_dropped, 2);
    assert_folded(&decoded.batch, 0, 0, "a 4\n");
    forget(&decoded);
    make_done(&make);
}

static void of_equal_ids_the_first_counts(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_function(&make, 5, "first", "", "", 0);
    make_function(&make, 5, "second", "", "", 0);
    make_location(&make, 1, 0, 0, (struct make_line[]){{5, 0}}, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_folded(&decoded.batch, 0, 0, "first 1\n");
    forget(&decoded);
    make_done(&make);
}

static void unknown_fields_are_skipped(void **state)
{
    struct make make;
    struct decoded decoded;
    struct fg_buf message;

    (void)state;
    make_start(&make);
    make_int(&make.out, 15, 3);
    make_bytes(&make.out, 99, FG_LIT("whatever"));
    fg_buf_varint(&make.out, 100 << 3 | 1);
    fg_buf_le64(&make.out, 1);
    fg_buf_varint(&make.out, 100 << 3 | 5);
    fg_buf_le32(&make.out, 1);
    make_type(&make, "samples", "count");
    make_function(&make, 1, "a", "", "", 0);
    fg_buf_init(&message, SIZE_MAX);
    make_int(&message, 1, 1);
    make_int(&message, 17, 5);
    make_bytes(&message, 4, FG_LIT("\x08\x01\x18\x09")); /* a line with a column */
    make_bytes(&make.out, 4, fg_buf_slice(&message));
    fg_buf_done(&message);
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_folded(&decoded.batch, 0, 0, "a 1\n");
    forget(&decoded);
    make_done(&make);
}

static void strings_may_come_first_or_in_runs(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_strings(&make);
    make_type(&make, "samples", "count");
    make_strings(&make);
    make_frame(&make, 1, "a");
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_folded(&decoded.batch, 0, 0, "a 1\n");
    assert_text(decoded.batch.types[0].unit, "count");
    forget(&decoded);
    make_done(&make);
}

/* ---- times ---- */

static void a_time_in_1970_is_none(void **state)
{
    static const struct {
        const char *name;
        int64_t time_ns, duration_ns, want_time, want_duration;
        bool has_time;
    } cases[] = {
        {"none", 0, 0, 7000, 70, false},
        {"microseconds by mistake", INT64_C(1700000000000000), 5, 7000, 5, false},
        {"last of 1970", 365 * DAY_NS - 1, -3, 7000, 70, false},
        {"first of 1971", 365 * DAY_NS, 9, 365 * DAY_NS, 9, true},
        {"before 1970", -1, -1, 7000, 70, false},
        {"least", INT64_MIN, INT64_MIN, 7000, 70, false},
        {"greatest", INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct make make;
        struct decoded decoded;

        print_message("  %s\n", cases[i].name);
        make_start(&make);
        make_time(&make, cases[i].time_ns, cases[i].duration_ns);
        make_type(&make, "samples", "count");
        make_frame(&make, 1, "a");
        add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        decode(&decoded, make_finish(&make));
        assert_int_equal(decoded.batch.profiles[0].time_ns, cases[i].want_time);
        assert_int_equal(decoded.batch.profiles[0].duration_ns, cases[i].want_duration);
        assert_int_equal(decoded.info.has_time, cases[i].has_time);
        forget(&decoded);
        make_done(&make);
    }
}

/* ---- labels ---- */

static void sample_labels_make_profiles(void **state)
{
    const struct make_label gc[] = {{"thread", "gc", 0}, {"bytes", NULL, 4096}};
    const struct make_label reversed[] = {{"zone", "b", 0}, {"thread", "main", 0}};
    const struct make_label ordered[] = {{"thread", "main", 0}, {"zone", "b", 0}};
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    add_sample(&make, (uint64_t[]){1}, 1, 2, gc, 2);
    add_sample(&make, (uint64_t[]){1}, 1, 4, gc, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 8, reversed, 2);
    add_sample(&make, (uint64_t[]){1}, 1, 16, ordered, 2);
    add_sample(&make, (uint64_t[]){1}, 1, 32, gc + 1, 1); /* only a number: as if without */
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 3);
    assert_int_equal(decoded.batch.profiles[0].labels.count, 2);
    assert_folded(&decoded.batch, 0, 0, "a 33\n");
    assert_text(fg_labels_get(&decoded.batch.profiles[1].labels, "thread"), "gc");
    assert_int_equal(decoded.batch.profiles[1].labels.count, 3);
    assert_folded(&decoded.batch, 1, 0, "a 6\n");
    assert_text(fg_labels_get(&decoded.batch.profiles[2].labels, "thread"), "main");
    assert_text(fg_labels_get(&decoded.batch.profiles[2].labels, "zone"), "b");
    assert_int_equal(decoded.batch.profiles[2].labels.count, 4);
    assert_folded(&decoded.batch, 2, 0, "a 24\n");
    assert_false(fg_id_eq(decoded.batch.profiles[0].id, decoded.batch.profiles[1].id));
    forget(&decoded);
    make_done(&make);
}

/* What the series says wins; groups that then have equal labels are one profile. */
static void series_labels_win(void **state)
{
    const struct make_label other[] = {{"service_name", "other", 0}};
    const struct make_label third[] = {{"service_name", "third", 0}};
    const struct make_label spans[] = {{"service_name", "third", 0},
                                       {"span_id", "0000000000000001", 0}};
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_frame(&make, 2, "b");
    add_sample(&make, (uint64_t[]){1}, 1, 1, other, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 1, third, 1);
    add_sample(&make, (uint64_t[]){2}, 1, 4, third, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 8, NULL, 0);
    add_sample(&make, (uint64_t[]){1}, 1, 16, spans, 2);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 1);
    assert_text(fg_labels_get(&decoded.batch.profiles[0].labels, "service_name"), "shop");
    assert_folded(&decoded.batch, 0, 0, "a 26\nb 4\n");
    assert_int_equal(decoded.batch.profiles[0].n_samples, 3);
    assert_int_equal(decoded.batch.profiles[0].n_links, 1);
    forget(&decoded);
    make_done(&make);
}

/* The link of the sample with this value; NULL when it has none. */
static const struct fg_link *link_of(const struct fg_profile *profile, int64_t value)
{
    for (uint32_t i = 0; i < profile->n_links; i++)
        if (profile->values[profile->links[i].sample] == value)
            return &profile->links[i];
    return NULL;
}

static void links_stay_with_samples(void **state)
{
    static const uint8_t no_trace[FG_ID_BYTES],
        trace[FG_ID_BYTES] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
                              0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff};
    static const struct {
        const char *name;
        struct make_label labels[3];
        size_t n;
        bool linked;
        uint64_t span;
        const uint8_t *trace;
    } cases[] = {
        {"span", {{"span_id", "0102030405060708", 0}}, 1, true, 0x0807060504030201, no_trace},
        {"old name",
         {{"profile_id", "FFeeddccbbaa9988", 0}},
         1,
         true,
         0x8899aabbccddeeff,
         no_trace},
        {"trace", {{"trace_id", "00112233445566778899aabbccddeeff", 0}}, 1, true, 0, trace},
        {"both",
         {{"trace_id", "00112233445566778899AABBCCDDEEFF", 0}, {"span_id", "ff00000000000000", 0}},
         2,
         true,
         0xff,
         trace},
        {"zero span", {{"span_id", "0000000000000000", 0}}, 1, false, 0, NULL},
        {"zero trace", {{"trace_id", "00000000000000000000000000000000", 0}}, 1, false, 0, NULL},
        {"short", {{"span_id", "01020304", 0}}, 1, false, 0, NULL},
        {"no hex", {{"span_id", "010203040506070g", 0}}, 1, false, 0, NULL},
        {"half a trace",
         {{"span_id", "0100000000000000", 0}, {"trace_id", "0011223344556677889900zz00000000", 0}},
         2,
         true,
         1,
         no_trace},
        {"a number", {{"span_id", NULL, 5}}, 1, false, 0, NULL},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct make make;
        struct decoded decoded;
        const struct fg_profile *profile;
        const struct fg_link *link;

        print_message("  %s\n", cases[i].name);
        make_start(&make);
        make_type(&make, "samples", "count");
        make_frame(&make, 1, "a");
        add_sample(&make, (uint64_t[]){1}, 1, 2, cases[i].labels, cases[i].n);
        add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        add_sample(&make, (uint64_t[]){1}, 1, 3, cases[i].labels, cases[i].n);
        decode(&decoded, make_finish(&make));
        assert_int_equal(decoded.batch.n_profiles, 1);
        profile = &decoded.batch.profiles[0];
        assert_int_equal(profile->labels.count, 2);
        assert_int_equal(profile->n_samples, cases[i].linked ? 2 : 1);
        assert_int_equal(profile->n_links, cases[i].linked);
        link = link_of(profile, 5);
        assert_int_equal(link != NULL, cases[i].linked);
        if (link != NULL) {
            assert_int_equal(link->span_id, cases[i].span);
            assert_memory_equal(link->trace_id, cases[i].trace, FG_ID_BYTES);
        }
        assert_folded(&decoded.batch, 0, 0, "a 6\n");
        forget(&decoded);
        make_done(&make);
    }
}

static struct fg_slice name_by_types(const struct fg_batch *batch, void *arg)
{
    ++*(int *)arg;
    return batch->n_types == 1 && fg_slice_is(batch->types[0].type, "wall") ? FG_LIT("wall")
                                                                            : FG_LIT("other");
}

static void a_name_is_asked_for(void **state)
{
    struct fg_pprof_request request = plain_request();
    int asked = 0;
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "wall", "nanoseconds");
    make_frame(&make, 1, "a");
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    request.name = name_by_types;
    request.arg = &asked;
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(asked, 1);
    assert_text(fg_labels_get(&decoded.batch.profiles[0].labels, "__name__"), "process_cpu");
    forget(&decoded);
    request.upload.labels = (struct fg_labels){series_labels + 1, 1};
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_text(fg_labels_get(&decoded.batch.profiles[0].labels, "__name__"), "wall");
    forget(&decoded);
    make_done(&make);
}

/* ---- limits ---- */

static void deep_stacks_keep_their_root(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "leaf");
    make_frame(&make, 2, "mid");
    make_frame(&make, 3, "root");
    add_sample(&make, (uint64_t[]){1, 2, 3}, 3, 1, NULL, 0);
    add_sample(&make, (uint64_t[]){2, 3}, 2, 2, NULL, 0);
    request.upload.limits.stack_depth_max = 2;
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.stacks_cut, 1);
    assert_folded(&decoded.batch, 0, 0, "root;mid 3\n");
    forget(&decoded);
    make_done(&make);
}

static void long_symbols_keep_their_end(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "s", "c");
    make_frame(&make, 1, "package.function");
    make_frame(&make, 2,
               "aa\xc3\xa9"
               "bcdefg"); /* the eighth byte from the end is inside the é */
    add_sample(&make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
    request.upload.limits.symbol_max_bytes = 7;
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(decoded.counts.symbols_cut, 2);
    assert_folded(&decoded.batch, 0, 0, "bcdefg;unction 1\n");
    forget(&decoded);
    make_done(&make);
}

static void limits_refuse(void **state)
{
    const struct make_label two[] = {{"a", "1", 0}, {"b", "2", 0}};
    struct fg_pprof_request request = plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    add_sample(&make, (uint64_t[]){1}, 1, 1, two, 2);
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    request.upload.limits.samples_max = 1;
    assert_refused(make_finish(&make), &request, FG_E_INVALID,
                   "exceeds the samples count limit (max_profile_stacktrace_samples, actual: 2, "
                   "limit: 1)");
    request.upload.limits.samples_max = 2;
    request.upload.limits.sample_labels_max = 1;
    assert_refused(make_finish(&make), &request, FG_E_INVALID, "exceeds the sample labels limit");
    request.upload.limits.sample_labels_max = 2;
    request.upload.limits.label_names_max = 3;
    assert_refused(make_finish(&make), &request, FG_E_INVALID,
                   "profile series has 4 label names; limit 3 (max_label_names_per_series)");
    request.upload.limits.label_names_max = 4;
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    forget(&decoded);
    make_done(&make);
}

/* n lines of one function in one location. */
static void make_lines(struct make *make, uint64_t id, size_t n)
{
    struct make_line *lines = fg_calloc(n, sizeof *lines);

    for (size_t i = 0; i < n; i++)
        lines[i] = (struct make_line){1, (int64_t)i};
    make_location(make, id, 0, 0, lines, n);
    free(lines);
}

static void lines_of_a_location_are_bounded(void **state)
{
    static const struct {
        size_t lines;
        bool fine;
    } cases[] = {{1024, true}, {1025, false}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_pprof_request request = plain_request();
        struct make make;
        struct decoded decoded;

        make_start(&make);
        make_type(&make, "samples", "count");
        make_function(&make, 1, "a", "", "", 0);
        make_lines(&make, 1, cases[i].lines);
        add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        if (cases[i].fine) {
            decode(&decoded, make_finish(&make));
            assert_int_equal(decoded.batch.n_lines, cases[i].lines);
            forget(&decoded);
        } else {
            assert_refused(make_finish(&make), &request, FG_E_INVALID, "1025 lines");
        }
        make_done(&make);
    }
}

/*
 * One long string named by very many functions or labels: what is done for each has to be bounded
 * though the upload is small.
 */
static void a_long_string_cannot_be_named_without_end(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct fg_buf long_text;
    struct make make;

    (void)state;
    fg_buf_init(&long_text, SIZE_MAX);
    for (size_t i = 0; i < 60000; i++)
        fg_buf_putc(&long_text, 'x');
    make_start(&make);
    make_type(&make, "samples", "count");
    make_strings(&make);
    make_bytes(&make.out, 6, fg_buf_slice(&long_text)); /* string 3 */
    for (uint64_t i = 1; i <= 5000; i++) {
        struct fg_buf message;

        fg_buf_init(&message, SIZE_MAX);
        make_int(&message, 1, i);
        make_int(&message, 2, 3);
        make_int(&message, 3, 3);
        make_bytes(&make.out, 5, fg_buf_slice(&message));
        fg_buf_done(&message);
    }
    assert_refused(fg_buf_slice(&make.out), &request, FG_E_TOO_LARGE, "names of functions");
    make_done(&make);

    make_start(&make);
    make_type(&make, "samples", "count");
    make_strings(&make);
    make_bytes(&make.out, 6, FG_LIT("key"));            /* string 3 */
    make_bytes(&make.out, 6, fg_buf_slice(&long_text)); /* string 4 */
    make_bytes(&make.out, 2, FG_LIT("\x12\x01\x01\x1a\x04\x08\x03\x10\x04"));
    assert_refused(fg_buf_slice(&make.out), &request, FG_E_INVALID, "label value too long");
    make_done(&make);
    fg_buf_done(&long_text);
}

static void memory_is_bounded(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct fg_arena *arena = fg_arena_create(100000);
    struct fg_decode_counts counts = {0};
    struct fg_pprof_info info;
    struct fg_batch batch;
    struct fg_err err;
    struct make make;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    for (int i = 0; i < 100000; i++)
        make_bytes(&make.out, 2, FG_LIT(""));
    assert_int_equal(
        fg_pprof_decode(make_finish(&make), &request, arena, &batch, &info, &counts, &err),
        FG_E_TOO_LARGE);
    assert_true(fg_arena_used_bytes(arena) <= 100000);
    fg_arena_destroy(arena);
    make_done(&make);
}

/* ---- what is refused ---- */

struct bad {
    const char *name;
    void (*make)(struct make *make);
    enum fg_code code;
    const char *text;
};

static void bad_no_types(struct make *make)
{
    make_frame(make, 1, "a");
}

static void bad_location_0(struct make *make)
{
    make_type(make, "t", "u");
    make_location(make, 0, 0, 1, NULL, 0);
}

static void bad_function_0(struct make *make)
{
    make_type(make, "t", "u");
    make_location(make, 1, 0, 0, (struct make_line[]){{0, 1}}, 1);
}

static void bad_function_unknown(struct make *make)
{
    make_type(make, "t", "u");
    make_function(make, 1, "a", "", "", 0);
    make_location(make, 1, 0, 0, (struct make_line[]){{2, 1}}, 1);
}

static void bad_sample_of_location_0(struct make *make)
{
    make_type(make, "t", "u");
    make_frame(make, 1, "a");
    add_sample(make, (uint64_t[]){0}, 1, 1, NULL, 0);
}

static void bad_sample_of_unknown_location(struct make *make)
{
    make_type(make, "t", "u");
    make_frame(make, 1, "a");
    add_sample(make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
}

static void bad_values_short(struct make *make)
{
    make_type(make, "t", "u");
    make_type(make, "t2", "u");
    add_sample(make, NULL, 0, 1, NULL, 0);
}

static void bad_values_long(struct make *make)
{
    make_type(make, "t", "u");
    make_sample(make, &(struct make_sample){NULL, 0, (int64_t[]){1, 2}, 2, NULL, 0});
}

static void bad_values_none(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT(""));
}

static void bad_dash(struct make *make)
{
    make_type(make, "alloc-size", "u");
}

static void bad_65_types(struct make *make)
{
    for (int i = 0; i < 65; i++)
        make_type(make, "t", "u");
}

static void bad_utf8(struct make *make)
{
    make_type(make, "t", "u");
    make_frame(make, 1, "a\xff");
}

static void bad_type_index(struct make *make)
{
    make_bytes(&make->out, 1, FG_LIT("\x08\x09"));
}

static void bad_period_index(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 11, FG_LIT("\x08\x09"));
}

static void bad_function_index(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 5, FG_LIT("\x08\x01\x10\x09"));
}

static void bad_mapping_index(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 3, FG_LIT("\x08\x01\x28\x09"));
}

static void bad_label_index(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x12\x01\x01\x1a\x04\x08\x01\x10\x09"));
}

static void bad_overflow(struct make *make)
{
    make_type(make, "t", "u");
    add_sample(make, NULL, 0, INT64_MAX, NULL, 0);
    add_sample(make, NULL, 0, 1, NULL, 0);
}

static void bad_string_0(struct make *make)
{
    make_type(make, "t", "u");
    make->n_written = 1; /* leaves "" out */
}

static void bad_no_strings(struct make *make)
{
    make_bytes(&make->out, 1, FG_LIT(""));
    make->n_written = make->n_strings;
}

static void bad_sample_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x0a\x05\x01"));
}

static void bad_ids_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x0a\x01\x80"));
}

static void bad_values_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x12\x01\x80"));
}

static void bad_location_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 4, FG_LIT("\x08\x80"));
}

static void bad_line_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 4, FG_LIT("\x08\x01\x22\x02\x08\x80"));
}

static void bad_label_cut(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x12\x01\x01\x1a\x02\x08\x80"));
}

static void bad_length(struct make *make)
{
    make_type(make, "t", "u");
    fg_buf_varint(&make->out, 6 << 3 | 2);
    fg_buf_varint(&make->out, UINT64_MAX);
}

static void bad_group(struct make *make)
{
    make_type(make, "t", "u");
    fg_buf_varint(&make->out, 7 << 3 | 3);
}

static void malformed_profiles_are_refused(void **state)
{
    static const struct bad cases[] = {
        {"no sample types", bad_no_types, FG_E_INVALID, "empty profile"},
        {"a location with id 0", bad_location_0, FG_E_INVALID, "location id is 0"},
        {"a line of function 0", bad_function_0, FG_E_INVALID, "function id is 0"},
        {"a line of an unknown function", bad_function_unknown, FG_E_INVALID, "function id 2"},
        {"a sample of location 0", bad_sample_of_location_0, FG_E_INVALID, "location id is 0"},
        {"a sample of an unknown location", bad_sample_of_unknown_location, FG_E_INVALID,
         "location id 2"},
        {"too few values", bad_values_short, FG_E_INVALID, "sample value length mismatch"},
        {"too many values", bad_values_long, FG_E_INVALID, "sample value length mismatch"},
        {"no values", bad_values_none, FG_E_INVALID, "sample value length mismatch"},
        {"a dash in a type", bad_dash, FG_E_INVALID, "sample type contains -"},
        {"65 types", bad_65_types, FG_E_INVALID, "65 sample types"},
        {"not UTF-8", bad_utf8, FG_E_INVALID, "invalid utf8 string"},
        {"type out of range", bad_type_index, FG_E_INVALID, "index out of range"},
        {"period type out of range", bad_period_index, FG_E_INVALID, "index out of range"},
        {"function name out of range", bad_function_index, FG_E_INVALID, "index out of range"},
        {"mapping file out of range", bad_mapping_index, FG_E_INVALID, "index out of range"},
        {"label out of range", bad_label_index, FG_E_INVALID, "index out of range"},
        {"a sum over 63 bits", bad_overflow, FG_E_INVALID, "exceeds 64 bits"},
        {"string 0", bad_string_0, FG_E_INVALID, "string 0 should be empty string"},
        {"no strings", bad_no_strings, FG_E_INVALID, "string 0 should be empty string"},
        {"a sample cut short", bad_sample_cut, FG_E_DECODE, "sample 0"},
        {"location ids cut short", bad_ids_cut, FG_E_DECODE, "location ids cut short"},
        {"values cut short", bad_values_cut, FG_E_DECODE, "sample 0"},
        {"a location cut short", bad_location_cut, FG_E_DECODE, "location 0"},
        {"a line cut short", bad_line_cut, FG_E_DECODE, "location 0"},
        {"a label cut short", bad_label_cut, FG_E_DECODE, "label"},
        {"a length past the end", bad_length, FG_E_DECODE, "not a profile"},
        {"a group", bad_group, FG_E_DECODE, "not a profile"},
    };
    struct fg_pprof_request request = plain_request();

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct make make;

        print_message("  %s\n", cases[i].name);
        make_start(&make);
        cases[i].make(&make);
        assert_refused(make_finish(&make), &request, cases[i].code, cases[i].text);
        make_done(&make);
    }
}

static void labels_of_the_series_are_checked(void **state)
{
    static const struct {
        const char *name;
        struct fg_label label;
        size_t from; /* of the good labels, how many to leave out */
        const char *text;
    } cases[] = {
        {"no name", {FG_LIT("a"), FG_LIT("b")}, 1, "invalid metric name"},
        {"no labels", {FG_LIT("a"), FG_LIT("")}, 2, "at least one label pair"},
        {"no service", {FG_LIT("__name__"), FG_LIT("x")}, 2, "service name is not provided"},
        {"empty name", {FG_LIT(""), FG_LIT("x")}, 0, "invalid label name"},
        {"name not UTF-8", {FG_LIT("\xff"), FG_LIT("x")}, 0, "invalid label name"},
        {"value not UTF-8", {FG_LIT("x"), FG_LIT("\xff")}, 0, "invalid label value"},
    };
    struct make make;

    (void)state;
    make_start(&make);
    make_type(&make, "t", "u");
    add_sample(&make, NULL, 0, 1, NULL, 0);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_pprof_request request = plain_request();
        struct fg_label labels[3] = {cases[i].label, series_labels[0], series_labels[1]};

        print_message("  %s\n", cases[i].name);
        if (cases[i].from == 1)
            labels[1] = series_labels[1];
        request.upload.labels = (struct fg_labels){labels, 3 - cases[i].from};
        assert_refused(make_finish(&make), &request, FG_E_INVALID, cases[i].text);
    }
    make_done(&make);
}

/* ---- quirks of agents ---- */

static void dotnet_ids_and_dashes(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "alloc-size", "bytes");
    make_function(&make, 0, "a", "", "", 0);
    make_function(&make, 0, "b", "", "", 0);
    make_location(&make, 8, 0, 0, (struct make_line[]){{8, 1}}, 1);
    make_location(&make, 9, 0, 0, (struct make_line[]){{9, 1}}, 1);
    add_sample(&make, (uint64_t[]){9, 8}, 2, 3, NULL, 0);
    request.quirks = FG_PPROF_DOTNET;
    decode_request(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_text(decoded.batch.types[0].type, "alloc_size");
    assert_folded(&decoded.batch, 0, 0, "a;b 3\n");
    forget(&decoded);
    make_done(&make);
}

static void go_names_lose_their_shapes(void **state)
{
    struct fg_pprof_request request = plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "t", "u");
    make_function(&make, 1, "slices.Sort[go.shape.int]", "sys[go.shape.int]", "zsort.go", 0);
    make_location(&make, 1, 0, 0, (struct make_line[]){{1, 1}}, 1);
    add_sample(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_folded(&decoded.batch, 0, 0, "slices.Sort 1\n");
    assert_text(decoded.batch.functions[0].system_name, "sys");
    forget(&decoded);
    request.quirks = FG_PPROF_NOT_GO;
    decode_request(&decoded, make_finish(&make), &request);
    assert_folded(&decoded.batch, 0, 0, "slices.Sort[go.shape.int] 1\n");
    forget(&decoded);
    make_done(&make);
}

/* ---- the same profile in another order ---- */

enum { MODEL_FUNCTIONS = 12, MODEL_LOCATIONS = 20, MODEL_SAMPLES = 40, MODEL_DEPTH = 6 };

struct model_sample {
    uint32_t locations[MODEL_DEPTH], depth;
    int64_t values[2];
    struct make_label labels[3];
    uint32_t n_labels;
};

/* What a profile says, whatever way it is written. */
struct model {
    char names[MODEL_FUNCTIONS][8];
    struct make_line lines[MODEL_LOCATIONS][2];
    uint32_t n_lines[MODEL_LOCATIONS];
    uint64_t addresses[MODEL_LOCATIONS], mappings[MODEL_LOCATIONS];
    struct model_sample samples[MODEL_SAMPLES];
    uint32_t n_samples;
};

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

static void model_random(struct model *model, uint64_t *random)
{
    static const char *const threads[] = {"main", "gc", "io"};
    static const char *const spans[] = {"0100000000000000", "0200000000000000"};

    memset(model, 0, sizeof *model);
    for (size_t i = 0; i < MODEL_FUNCTIONS; i++)
        (void)snprintf(model->names[i], sizeof model->names[i], "f%u",
                       (unsigned)(next_random(random) % 9));
    for (size_t i = 0; i < MODEL_LOCATIONS; i++) {
        model->n_lines[i] = (uint32_t)(next_random(random) % 3);
        model->addresses[i] = 1 + next_random(random) % 5;
        model->mappings[i] = next_random(random) % 3;
        for (size_t k = 0; k < 2; k++)
            model->lines[i][k] = (struct make_line){next_random(random) % MODEL_FUNCTIONS,
                                                    (int64_t)(next_random(random) % 3)};
    }
    model->n_samples = (uint32_t)(next_random(random) % MODEL_SAMPLES);
    for (uint32_t i = 0; i < model->n_samples; i++) {
        struct model_sample *sample = &model->samples[i];

        sample->depth = (uint32_t)(next_random(random) % MODEL_DEPTH);
        for (uint32_t k = 0; k < sample->depth; k++)
            sample->locations[k] = (uint32_t)(next_random(random) % MODEL_LOCATIONS);
        sample->values[0] = (int64_t)(next_random(random) % 4);
        sample->values[1] = (int64_t)(next_random(random) % 4) - 1;
        if (next_random(random) % 2 == 0)
            sample->labels[sample->n_labels++] =
                (struct make_label){"thread", threads[next_random(random) % 3], 0};
        if (next_random(random) % 3 == 0)
            sample->labels[sample->n_labels++] =
                (struct make_label){"span_id", spans[next_random(random) % 2], 0};
        if (next_random(random) % 3 == 0)
            sample->labels[sample->n_labels++] = (struct make_label){"bytes", NULL, 7};
    }
}

/* A random order of count things. */
static void shuffle(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)(next_random(random) % i), swap = order[i - 1];

        order[i - 1] = order[k];
        order[k] = swap;
    }
}

static void write_sample(struct make *make, const struct model_sample *sample,
                         const uint64_t *location_ids, uint64_t *random)
{
    uint64_t locations[MODEL_DEPTH];
    struct make_label labels[3];
    uint32_t order[3];

    for (uint32_t i = 0; i < sample->depth; i++)
        locations[i] = location_ids[sample->locations[i]];
    shuffle(order, sample->n_labels, random);
    for (uint32_t i = 0; i < sample->n_labels; i++)
        labels[i] = sample->labels[order[i]];
    make_sample(make, &(struct make_sample){locations, sample->depth, sample->values, 2, labels,
                                            sample->n_labels});
}

/* Ids, order, packing and the place of the strings at random. */
static void model_write(const struct model *model, struct make *make, uint64_t *random)
{
    uint32_t order[MODEL_SAMPLES];
    uint64_t function_ids[MODEL_FUNCTIONS], location_ids[MODEL_LOCATIONS];
    bool counted = next_random(random) % 2 == 0;

    make_start(make);
    make->unpacked = next_random(random) % 2 == 0;
    for (int i = 0; i < 5; i++) { /* strings nobody needs move the numbers of the others */
        char text[24];

        (void)snprintf(text, sizeof text, "%llx", (unsigned long long)next_random(random));
        (void)make_string(make, text);
    }
    make_type(make, "samples", "count");
    make_type(make, "cpu", "nanoseconds");
    if (next_random(random) % 2 == 0)
        make_strings(make);
    make_mapping(make, 1, 0x1000, "/bin/a", false);
    make_mapping(make, 2, 0x2000, "/bin/b", true);
    shuffle(order, MODEL_FUNCTIONS, random);
    for (uint32_t i = 0; i < MODEL_FUNCTIONS; i++) {
        uint32_t f = order[i];

        function_ids[f] = counted ? i + 1 : 1 + next_random(random);
        make_function(make, function_ids[f], model->names[f], "", "file", 3);
    }
    shuffle(order, MODEL_LOCATIONS, random);
    for (uint32_t i = 0; i < MODEL_LOCATIONS; i++) {
        uint32_t l = order[i];
        struct make_line lines[2];

        for (size_t k = 0; k < 2; k++)
            lines[k] = (struct make_line){function_ids[model->lines[l][k].function],
                                          model->lines[l][k].line};
        location_ids[l] = counted ? i + 1 : 1 + next_random(random);
        make_location(make, location_ids[l], model->mappings[l], model->addresses[l], lines,
                      model->n_lines[l]);
    }
    shuffle(order, model->n_samples, random);
    for (uint32_t i = 0; i < model->n_samples; i++)
        write_sample(make, &model->samples[order[i]], location_ids, random);
}

static int id_order(const void *left, const void *right)
{
    return fg_id_cmp(*(const struct fg_id *)left, *(const struct fg_id *)right);
}

/* All ids of profiles, then of stacks with samples, each sorted. */
static size_t sorted_ids(const struct fg_batch *batch, struct fg_id *ids)
{
    for (uint32_t i = 0; i < batch->n_profiles; i++)
        ids[i] = batch->profiles[i].id;
    for (uint32_t i = 0; i < batch->n_stacks; i++)
        ids[batch->n_profiles + i] = batch->stacks[i].id;
    qsort(ids, batch->n_profiles, sizeof *ids, id_order);
    qsort(ids + batch->n_profiles, batch->n_stacks, sizeof *ids, id_order);
    return batch->n_profiles + batch->n_stacks;
}

static void order_makes_no_difference(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct fg_id ids[2][2 * MODEL_SAMPLES];
        struct decoded decoded[2];
        uint64_t random = seed;
        struct model model;
        struct make make;
        size_t counts[2];

        model_random(&model, &random);
        for (size_t i = 0; i < 2; i++) {
            model_write(&model, &make, &random);
            decode(&decoded[i], make_finish(&make));
            counts[i] = sorted_ids(&decoded[i].batch, ids[i]);
            forget(&decoded[i]);
            make_done(&make);
        }
        if (counts[0] != counts[1] || memcmp(ids[0], ids[1], counts[0] * sizeof ids[0][0]) != 0)
            fail_msg("seed %llu", (unsigned long long)seed);
    }
}

/* Changes one thing that counts. */
static void model_change(struct model *model, uint64_t *random)
{
    struct model_sample *sample = &model->samples[next_random(random) % model->n_samples];

    sample->values[0] += 1;
    sample->values[1] = 1; /* so that the sample stays whatever it was */
}

static void other_content_is_another_profile(void **state)
{
    size_t compared = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct fg_id ids[2][2 * MODEL_SAMPLES];
        struct decoded decoded;
        uint64_t random = seed;
        struct model model;
        struct make make;
        size_t counts[2];

        model_random(&model, &random);
        if (model.n_samples == 0)
            continue;
        for (size_t i = 0; i < 2; i++) {
            model_write(&model, &make, &random);
            decode(&decoded, make_finish(&make));
            (void)sorted_ids(&decoded.batch, ids[i]);
            counts[i] = decoded.batch.n_profiles;
            forget(&decoded);
            make_done(&make);
            model_change(&model, &random);
        }
        if (counts[0] == counts[1] && memcmp(ids[0], ids[1], counts[0] * sizeof ids[0][0]) == 0)
            fail_msg("seed %llu", (unsigned long long)seed);
        compared++;
    }
    assert_true(compared > 250);
}

/* Everything a profile's or a stack's id is made of changes it. */
static void every_part_counts_for_the_id(void **state)
{
    struct fg_id profiles[16], stacks[16];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(profiles); i++) {
        struct make_label label = {"thread", i == 1 ? "b" : "a", 0};
        struct fg_pprof_request request = plain_request();
        struct decoded decoded;
        struct make make;

        make_start(&make);
        make_type(&make, i == 2 ? "wall" : "cpu", i == 3 ? "ms" : "ns");
        make_period(&make, "cpu", i == 4 ? "ms" : "ns", 100);
        make_mapping(&make, 1, i == 5 ? 0x2000 : 0x1000, i == 6 ? "/b" : "/a", false);
        make_function(&make, 1, i == 7 ? "g" : "f", i == 8 ? "g" : "f", i == 9 ? "g" : "f",
                      i == 10 ? 2 : 1);
        make_location(&make, 1, 1, i == 11 ? 2 : 1, (struct make_line[]){{1, i == 12 ? 2 : 1}}, 1);
        add_sample(&make, (uint64_t[]){1, 1}, i == 13 ? 2 : 1, 1, &label, 1);
        request.upload.time_ns += i == 14;
        request.upload.duration_ns += i == 15;
        decode_request(&decoded, make_finish(&make), &request);
        assert_int_equal(decoded.code, FG_OK);
        profiles[i] = decoded.batch.profiles[0].id;
        stacks[i] = decoded.batch.stacks[0].id;
        forget(&decoded);
        make_done(&make);
        for (size_t k = 0; k < i; k++)
            if (fg_id_eq(profiles[i], profiles[k]))
                fail_msg("%zu and %zu have one id", k, i);
        assert_int_equal(fg_id_eq(stacks[i], stacks[0]), i < 5 || i > 13);
    }
}

/* The tenant and, where there is no time of its own, the sender count too. */
static void tenant_and_origin_count_for_the_id(void **state)
{
    struct decoded decoded;
    struct make make;
    struct fg_id first;

    (void)state;
    make_start(&make);
    make_type(&make, "t", "u");
    add_sample(&make, NULL, 0, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    first = decoded.batch.profiles[0].id;
    fg_batch_identify(&decoded.batch, FG_LIT("tenant2"), FG_LIT(""), FG_LIT(""));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT("host"), FG_LIT(""));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT("key"));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
    assert_true(fg_id_eq(first, decoded.batch.profiles[0].id));
    forget(&decoded);
    make_done(&make);
}

/* Every prefix of a profile, and every single byte changed, ends in an answer. */
static void damage_is_survived(void **state)
{
    struct fg_pprof_request request = plain_request();
    uint64_t random = 5;
    struct model model;
    struct make make;
    struct fg_slice in;

    (void)state;
    model_random(&model, &random);
    model.n_samples = 10;
    model_write(&model, &make, &random);
    in = make_finish(&make);
    for (size_t i = 0; i < in.len; i++) {
        uint8_t *copy = fg_malloc(i + 1);
        struct decoded decoded;

        memcpy(copy, in.ptr, i); /* of its own, so that reading past the end is seen */
        decode_request(&decoded, fg_bytes(copy, i), &request);
        forget(&decoded);
        free(copy);
        make.out.ptr[i] ^= (uint8_t)(1 + next_random(&random) % 255);
        decode_request(&decoded, in, &request);
        forget(&decoded);
    }
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(addresses_of_named_mappings_go),
        cmocka_unit_test(ids_are_any_numbers),
        cmocka_unit_test(packed_and_unpacked_mix),
        cmocka_unit_test(equal_stacks_are_summed),
        cmocka_unit_test(zero_and_negative_samples_go),
        cmocka_unit_test(nothing_left_is_no_profile),
        cmocka_unit_test(empty_locations_go_with_their_samples),
        cmocka_unit_test(of_equal_ids_the_first_counts),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(strings_may_come_first_or_in_runs),
        cmocka_unit_test(a_time_in_1970_is_none),
        cmocka_unit_test(sample_labels_make_profiles),
        cmocka_unit_test(series_labels_win),
        cmocka_unit_test(links_stay_with_samples),
        cmocka_unit_test(a_name_is_asked_for),
        cmocka_unit_test(deep_stacks_keep_their_root),
        cmocka_unit_test(long_symbols_keep_their_end),
        cmocka_unit_test(limits_refuse),
        cmocka_unit_test(lines_of_a_location_are_bounded),
        cmocka_unit_test(a_long_string_cannot_be_named_without_end),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(malformed_profiles_are_refused),
        cmocka_unit_test(labels_of_the_series_are_checked),
        cmocka_unit_test(dotnet_ids_and_dashes),
        cmocka_unit_test(go_names_lose_their_shapes),
        cmocka_unit_test(order_makes_no_difference),
        cmocka_unit_test(other_content_is_another_profile),
        cmocka_unit_test(every_part_counts_for_the_id),
        cmocka_unit_test(tenant_and_origin_count_for_the_id),
        cmocka_unit_test(damage_is_survived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
