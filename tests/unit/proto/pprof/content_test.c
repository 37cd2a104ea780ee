/* What comes out of a pprof: samples and what they name, times, and quirks of agents. */
#include "common/base/time.h"
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DAY_NS (24 * FG_HOUR_NS)

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
    decoded_expect_text(decoded.batch.types[0].type, "samples");
    decoded_expect_text(decoded.batch.types[1].unit, "nanoseconds");
    decoded_expect_text(decoded.batch.period_type.type, "cpu");
    assert_int_equal(decoded.batch.n_profiles, 1);
    profile = &decoded.batch.profiles[0];
    assert_int_equal(profile->time_ns, 400 * DAY_NS);
    assert_int_equal(profile->duration_ns, 15 * FG_SECOND_NS);
    assert_int_equal(profile->period, 10000000);
    assert_int_equal(decoded.info.period, 10000000);
    assert_true(decoded.info.has_time);
    assert_int_equal(profile->labels.count, 2);
    assert_int_equal(profile->n_samples, 2);
    decoded_expect_folded(&decoded, 0, 0, "main;work;inlined 3\n");
    decoded_expect_folded(&decoded, 0, 1, "main;0x5000 5\nmain;work;inlined 30\n");
    location = &decoded.batch.locations[0];
    assert_int_equal(location->address, 0x401234);
    assert_int_equal(location->n_lines, 2);
    assert_int_equal(decoded.batch.lines[location->first_line].line, 7);
    assert_int_equal(decoded.batch.functions[0].start_line, 12);
    decoded_expect_text(decoded.batch.functions[0].system_name, "work_sys");
    decoded_expect_text(decoded.batch.functions[0].filename, "work.c");
    assert_int_equal(decoded.batch.mappings[0].start, 0x400000);
    assert_int_equal(decoded.batch.mappings[0].limit, 0x401000);
    assert_int_equal(decoded.batch.mappings[0].offset, 0x40);
    decoded_expect_text(decoded.batch.mappings[0].filename, "/bin/shop");
    decoded_expect_text(decoded.batch.mappings[0].build_id, "build");
    assert_int_equal(decoded.counts.samples_dropped, 0);
    decoded_done(&decoded);
    make_done(&make);
}

static void addresses_of_named_mappings_are_removed(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_mapping(&make, 9, 0x400000, "/bin/shop", true);
    make_function(&make, 1, "main", "", "", 0);
    make_location(&make, 1, 9, 0x401234, (struct make_line[]){{1, 1}}, 1);
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.locations[0].address, 0);
    assert_int_equal(decoded.batch.mappings[0].start, 0);
    assert_int_equal(decoded.batch.mappings[0].limit, 0);
    assert_int_equal(decoded.batch.mappings[0].offset, 0);
    assert_int_equal(decoded.batch.mappings[0].flags, FG_MAPPING_FUNCTIONS);
    decoded_done(&decoded);
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
    make_sample_of(&make, (uint64_t[]){UINT64_MAX, 3, UINT64_C(1) << 40}, 3, 5, NULL, 0);
    decode(&decoded, make_finish(&make));
    decoded_expect_folded(&decoded, 0, 0, "root;middle;leaf 5\n");
    decoded_done(&decoded);
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
    decoded_expect_folded(&decoded, 0, 0, "z;y;x 11\n");
    decoded_expect_folded(&decoded, 0, 1, "z;y;x 13\n");
    decoded_expect_folded(&decoded, 0, 2, "z;y;x 15\n");
    decoded_done(&decoded);
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
    make_sample_of(&make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
    make_sample_of(&make, (uint64_t[]){2, 1}, 2, 2, NULL, 0);
    make_sample_of(&make, (uint64_t[]){3, 2}, 2, 4, NULL, 0);
    make_sample_of(&make, NULL, 0, 8, NULL, 0);
    make_sample_of(&make, NULL, 0, 16, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_stacks, 3);
    assert_int_equal(decoded.batch.profiles[0].n_samples, 3);
    decoded_expect_folded(&decoded, 0, 0, " 24\na;b 2\nb;a 5\n");
    decoded_done(&decoded);
    make_done(&make);
}

static void zero_and_negative_samples_are_dropped(void **state)
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
    decoded_expect_folded(&decoded, 0, 0, "");
    decoded_expect_folded(&decoded, 0, 1, "a 9\n");
    decoded_done(&decoded);
    make_done(&make);
}

static void no_growth_makes_no_profile(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 0);
    decoded_done(&decoded);
    make_done(&make);

    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_sample_of(&make, (uint64_t[]){1}, 1, 0, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 0);
    assert_int_equal(decoded.counts.samples_dropped, 1);
    decoded_done(&decoded);
    make_done(&make);
}

/* A sample that refers to what is not there goes alone. A mapping without its name is none. */
static void only_dangling_samples_are_dropped(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_bytes(&make.out, 5, FG_LIT("\x08\x02\x10\xe7\x07")); /* a name out of range */
    make_bytes(&make.out, 3, FG_LIT("\x08\x05\x28\xe7\x07")); /* a file, too */
    make_location(&make, 2, 0, 0, (struct make_line[]){{1, 1}, {2, 1}}, 2); /* of that function */
    make_location(&make, 3, 0, 0, (struct make_line[]){{9, 1}}, 1);         /* of none */
    make_location(&make, 4, 0, 0, (struct make_line[]){{1, 7}}, 1);
    make_location(&make, 6, 5, 0x20, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1, 2}, 2, 2, NULL, 0);
    make_sample_of(&make, (uint64_t[]){3, 1}, 2, 4, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1, 77}, 2, 8, NULL, 0);
    make_sample_of(&make, (uint64_t[]){0, 1}, 2, 16, NULL, 0);
    make_bytes(&make.out, 2,
               FG_LIT("\x0a\x01\x01\x12\x01\x20\x1a\x05\x08\x01\x10\xe7\x07")); /* a label */
    make_sample_of(&make, (uint64_t[]){4, 1}, 2, 64, NULL, 0);
    make_sample_of(&make, (uint64_t[]){6, 1}, 2, 128, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.counts.samples_dangling, 5);
    assert_int_equal(decoded.counts.samples_dropped, 0);
    decoded_expect_folded(&decoded, 0, 0, "a 1\na;0x20 128\na;a 64\n");
    decoded_done(&decoded);
    make_done(&make);
}

/* No value is lost: a location of which nothing is known leaves its stacks, and not its samples; a
 * mapping that is not there is no mapping. */
static void empty_locations_leave_their_stacks(void **state)
{
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "samples", "count");
    make_frame(&make, 1, "a");
    make_location(&make, 2, 0, 0, NULL, 0);
    make_location(&make, 3, 77, 0x10, (struct make_line[]){{1, 1}}, 1);
    make_location(&make, 4, 77, 0x20, NULL, 0);
    make_sample_of(&make, (uint64_t[]){2, 1}, 2, 1, NULL, 0);
    make_sample_of(&make, (uint64_t[]){3, 1}, 2, 2, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1}, 1, 4, NULL, 0);
    make_sample_of(&make, (uint64_t[]){4, 1}, 2, 8, NULL, 0);
    make_sample_of(&make, (uint64_t[]){2}, 1, 16, NULL, 0);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.counts.locations_dropped, 1);
    assert_int_equal(decoded.counts.samples_dropped, 0);
    decoded_expect_folded(&decoded, 0, 0, " 16\na 5\na;0x20 8\na;a 2\n");
    decoded_done(&decoded);
    make_done(&make);
}

/* What a location without lines has is its address: it stays, with where it is mapped, also if the
 * mapping says that it has functions. Named locations of the same mapping lose both. */
static void addresses_stay_without_names(void **state)
{
    static const bool flags[] = {true, false};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(flags); i++) {
        const struct fg_batch_mapping *named, *unnamed;
        const struct fg_batch_location *locations;
        struct make make;
        struct decoded decoded;

        make_start(&make);
        make_type(&make, "samples", "count");
        make_mapping(&make, 1, 0x1000, "/lib/libc.so.6", flags[i]);
        make_frame(&make, 1, "a");
        make_location(&make, 2, 1, 0x1010, (struct make_line[]){{1, 1}}, 1);
        make_location(&make, 3, 1, 0x1020, NULL, 0);
        make_location(&make, 4, 1, 0x1030, NULL, 0);
        make_sample_of(&make, (uint64_t[]){3, 2, 1}, 3, 1, NULL, 0);
        make_sample_of(&make, (uint64_t[]){4, 2, 1}, 3, 2, NULL, 0);
        decode(&decoded, make_finish(&make));
        locations = decoded.batch.locations;
        assert_int_equal(decoded.batch.n_mappings, flags[i] ? 2 : 1);
        named = &decoded.batch.mappings[locations[1].mapping];
        unnamed = &decoded.batch.mappings[locations[2].mapping];
        assert_int_equal(named->start, flags[i] ? 0 : 0x1000);
        assert_int_equal(named->flags, flags[i] ? FG_MAPPING_FUNCTIONS : 0);
        assert_int_equal(locations[1].address, flags[i] ? 0 : 0x1010);
        assert_int_equal(unnamed->start, 0x1000);
        assert_int_equal(unnamed->flags, 0);
        assert_true(fg_slice_is(unnamed->filename, "/lib/libc.so.6"));
        assert_int_equal(locations[2].address, 0x1020);
        assert_int_equal(locations[3].mapping, locations[2].mapping);
        decoded_expect_folded(&decoded, 0, 0, "a;a;0x1020 1\na;a;0x1030 2\n");
        decoded_done(&decoded);
        make_done(&make);
    }
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
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    decoded_expect_folded(&decoded, 0, 0, "first 1\n");
    decoded_done(&decoded);
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
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    decoded_expect_folded(&decoded, 0, 0, "a 1\n");
    decoded_done(&decoded);
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
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    decoded_expect_folded(&decoded, 0, 0, "a 1\n");
    decoded_expect_text(decoded.batch.types[0].unit, "count");
    decoded_done(&decoded);
    make_done(&make);
}

/* ---- times ---- */

static void a_time_in_1970_counts_as_missing(void **state)
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
        make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        decode(&decoded, make_finish(&make));
        assert_int_equal(decoded.batch.profiles[0].time_ns, cases[i].want_time);
        assert_int_equal(decoded.batch.profiles[0].duration_ns, cases[i].want_duration);
        assert_int_equal(decoded.info.has_time, cases[i].has_time);
        decoded_done(&decoded);
        make_done(&make);
    }
}

/* ---- quirks of agents ---- */

static void dotnet_ids_and_dashes(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "alloc-size", "bytes");
    make_function(&make, 0, "a", "", "", 0);
    make_function(&make, 0, "b", "", "", 0);
    make_location(&make, 8, 0, 0, (struct make_line[]){{8, 1}}, 1);
    make_location(&make, 9, 0, 0, (struct make_line[]){{9, 1}}, 1);
    make_sample_of(&make, (uint64_t[]){9, 8}, 2, 3, NULL, 0);
    request.quirks = FG_PPROF_DOTNET;
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    decoded_expect_text(decoded.batch.types[0].type, "alloc_size");
    decoded_expect_folded(&decoded, 0, 0, "a;b 3\n");
    decoded_done(&decoded);
    make_done(&make);
}

static void go_names_lose_their_shapes(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "t", "u");
    make_function(&make, 1, "slices.Sort[go.shape.int]", "sys[go.shape.int]", "zsort.go", 0);
    make_location(&make, 1, 0, 0, (struct make_line[]){{1, 1}}, 1);
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    decoded_expect_folded(&decoded, 0, 0, "slices.Sort 1\n");
    decoded_expect_text(decoded.batch.functions[0].system_name, "sys");
    decoded_done(&decoded);
    request.quirks = FG_PPROF_NOT_GO;
    decode_by(&decoded, make_finish(&make), &request);
    decoded_expect_folded(&decoded, 0, 0, "slices.Sort[go.shape.int] 1\n");
    decoded_done(&decoded);
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(addresses_of_named_mappings_are_removed),
        cmocka_unit_test(ids_are_any_numbers),
        cmocka_unit_test(packed_and_unpacked_mix),
        cmocka_unit_test(equal_stacks_are_summed),
        cmocka_unit_test(zero_and_negative_samples_are_dropped),
        cmocka_unit_test(no_growth_makes_no_profile),
        cmocka_unit_test(only_dangling_samples_are_dropped),
        cmocka_unit_test(empty_locations_leave_their_stacks),
        cmocka_unit_test(addresses_stay_without_names),
        cmocka_unit_test(of_equal_ids_the_first_counts),
        cmocka_unit_test(unknown_fields_are_skipped),
        cmocka_unit_test(strings_may_come_first_or_in_runs),
        cmocka_unit_test(a_time_in_1970_counts_as_missing),
        cmocka_unit_test(dotnet_ids_and_dashes),
        cmocka_unit_test(go_names_lose_their_shapes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
