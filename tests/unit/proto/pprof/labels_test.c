/* Labels of series and samples: profiles are told apart by them, and spans linked. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1}, 1, 2, gc, 2);
    make_sample_of(&make, (uint64_t[]){1}, 1, 4, gc, 1);
    make_sample_of(&make, (uint64_t[]){1}, 1, 8, reversed, 2);
    make_sample_of(&make, (uint64_t[]){1}, 1, 16, ordered, 2);
    make_sample_of(&make, (uint64_t[]){1}, 1, 32, gc + 1, 1); /* only a number: as if without */
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 3);
    assert_int_equal(decoded.batch.profiles[0].labels.count, 2);
    decoded_expect_folded(&decoded, 0, 0, "a 33\n");
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[1].labels, "thread"), "gc");
    assert_int_equal(decoded.batch.profiles[1].labels.count, 3);
    decoded_expect_folded(&decoded, 1, 0, "a 6\n");
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[2].labels, "thread"), "main");
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[2].labels, "zone"), "b");
    assert_int_equal(decoded.batch.profiles[2].labels.count, 4);
    decoded_expect_folded(&decoded, 2, 0, "a 24\n");
    assert_false(fg_id_eq(decoded.batch.profiles[0].id, decoded.batch.profiles[1].id));
    decoded_done(&decoded);
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
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, other, 1);
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, third, 1);
    make_sample_of(&make, (uint64_t[]){2}, 1, 4, third, 1);
    make_sample_of(&make, (uint64_t[]){1}, 1, 8, NULL, 0);
    make_sample_of(&make, (uint64_t[]){1}, 1, 16, spans, 2);
    decode(&decoded, make_finish(&make));
    assert_int_equal(decoded.batch.n_profiles, 1);
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[0].labels, "service_name"), "shop");
    decoded_expect_folded(&decoded, 0, 0, "a 26\nb 4\n");
    assert_int_equal(decoded.batch.profiles[0].n_samples, 3);
    assert_int_equal(decoded.batch.profiles[0].n_links, 1);
    decoded_done(&decoded);
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
        make_sample_of(&make, (uint64_t[]){1}, 1, 2, cases[i].labels, cases[i].n);
        make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
        make_sample_of(&make, (uint64_t[]){1}, 1, 3, cases[i].labels, cases[i].n);
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
        decoded_expect_folded(&decoded, 0, 0, "a 6\n");
        decoded_done(&decoded);
        make_done(&make);
    }
}

static struct fg_slice name_by_types(const struct fg_batch *batch, void *arg)
{
    ++*(int *)arg;
    return batch->n_types == 1 && fg_slice_is(batch->types[0].type, "wall") ? FG_LIT("wall")
                                                                            : FG_LIT("other");
}

static void a_missing_name_is_refused(void **state)
{
    struct fg_pprof_request request = decode_plain_request();
    int asked = 0;
    struct make make;
    struct decoded decoded;

    (void)state;
    make_start(&make);
    make_type(&make, "wall", "nanoseconds");
    make_frame(&make, 1, "a");
    make_sample_of(&make, (uint64_t[]){1}, 1, 1, NULL, 0);
    request.name = name_by_types;
    request.arg = &asked;
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    assert_int_equal(asked, 1);
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[0].labels, "__name__"),
                        "process_cpu");
    decoded_done(&decoded);
    request.upload.labels = (struct fg_labels){decode_series + 1, 1};
    decode_by(&decoded, make_finish(&make), &request);
    assert_int_equal(decoded.code, FG_OK);
    decoded_expect_text(fg_labels_get(&decoded.batch.profiles[0].labels, "__name__"), "wall");
    decoded_done(&decoded);
    make_done(&make);
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
    make_sample_of(&make, NULL, 0, 1, NULL, 0);
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_pprof_request request = decode_plain_request();
        struct fg_label labels[3] = {cases[i].label, decode_series[0], decode_series[1]};

        print_message("  %s\n", cases[i].name);
        if (cases[i].from == 1)
            labels[1] = decode_series[1];
        request.upload.labels = (struct fg_labels){labels, 3 - cases[i].from};
        decode_expect_error(make_finish(&make), &request, FG_E_INVALID, cases[i].text);
    }
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_labels_make_profiles),
        cmocka_unit_test(series_labels_win),
        cmocka_unit_test(links_stay_with_samples),
        cmocka_unit_test(a_missing_name_is_refused),
        cmocka_unit_test(labels_of_the_series_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
