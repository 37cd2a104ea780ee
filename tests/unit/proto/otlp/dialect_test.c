/* Releases 1.8, 1.9 and 1.10 number the fields of Sample differently: all three are read. */
#include "proto/otlp/dialect.h"
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/otlp/decoded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- one profile in every encoding ---- */

struct encoding {
    enum fg_otlp_version version;
    bool unpacked;
};

static const struct encoding encodings[] = {
    {FG_OTLP_1_8, false}, {FG_OTLP_1_9, false}, {FG_OTLP_1_10, false},
    {FG_OTLP_1_8, true},  {FG_OTLP_1_9, true},  {FG_OTLP_1_10, true},
};

/* Numbers of a sample; zero ends the lists. */
struct sample {
    unsigned stack, link;
    uint8_t values[4], attributes[4];
    unsigned n_timestamps;
};

static const struct sample samples[] = {
    {.stack = 1, .link = 1, .values = {3, 4}, .attributes = {1}},
    {.stack = 2, .values = {5}},
    {.stack = 2, .attributes = {1, 2}, .n_timestamps = 2},
    {.stack = 1, .link = 2, .values = {6, 7}, .n_timestamps = 2},
    {.stack = 1, .attributes = {2}, .n_timestamps = 1},
    {.stack = 2, .link = 2, .values = {127}, .attributes = {2}, .n_timestamps = 1},
};

#define LABELS(before, after)                                                                      \
    "{__name__=\"process_cpu\", __otel__=\"true\", " before                                        \
    "service_name=\"unknown_service\"" after                                                       \
    "} at 5000 for 50 period cpu/nanoseconds 10\ncpu/nanoseconds\n"
#define TRACE "trace 000102030405060708090a0b0c0d0e0f"

/* clang-format off */
static const char decoded_samples[] =
    LABELS("k=\"7\", ", "") "main;work 70\nspan 1 " TRACE " 70\n"
    LABELS("", "") "main 50\nmain;work 130\nspan 2 " TRACE " 130\n"
    LABELS("k=\"7\", ", ", t=\"x\"") "main 20\n"
    LABELS("", ", t=\"x\"") "main 1270\nmain;work 10\nspan 2 " TRACE " 1270\n";
/* clang-format on */

static void put_list(struct fg_buf *out, unsigned field, const uint8_t *numbers, bool unpacked)
{
    size_t count = strlen((const char *)numbers);

    if (!unpacked && count > 0)
        make_bytes(out, field, fg_bytes(numbers, count));
    for (size_t i = 0; unpacked && i < count; i++)
        make_int(out, field, numbers[i]);
}

static void put_sample(struct fg_buf *out, const struct sample *sample,
                       const struct encoding *encoding)
{
    bool newest = encoding->version == FG_OTLP_1_10;
    uint8_t times[8 * 4] = {0};

    make_int(out, 1, sample->stack);
    put_list(out, newest ? 4 : 2, sample->values, encoding->unpacked);
    put_list(out, newest ? 2 : 3, sample->attributes, encoding->unpacked);
    if (sample->link != 0)
        make_int(out, newest ? 3 : 4, sample->link);
    if (!encoding->unpacked && sample->n_timestamps > 0)
        make_bytes(out, 5, fg_bytes(times, 8 * sample->n_timestamps));
    for (unsigned i = 0; encoding->unpacked && i < sample->n_timestamps; i++) {
        fg_buf_varint(out, FG_PB_TAG(5, FG_PB_I64));
        fg_buf_le64(out, 1);
    }
}

/* Fields of Profile that one version has where another has something else. */
static void put_profile_rest(struct fg_buf *out, enum fg_otlp_version version)
{
    static const struct fg_slice profile_id = FG_LIT("0123456789abcdef");

    if (version == FG_OTLP_1_8) {
        make_bytes(out, 7, FG_LIT("\x05\x06")); /* comments */
        make_bytes(out, 8, profile_id);
        make_bytes(out, 12, FG_LIT("\x01"));
    } else {
        make_bytes(out, 7, profile_id);
        make_int(out, 8, 1); /* attributes dropped */
        make_bytes(out, 11, FG_LIT("\x01"));
    }
}

static void put_value_type(struct fg_buf *out, unsigned field, unsigned type, unsigned unit)
{
    struct fg_buf inner;

    fg_buf_init(&inner, SIZE_MAX);
    make_int(&inner, 1, type);
    make_int(&inner, 2, unit);
    make_message(out, field, &inner);
    fg_buf_done(&inner);
}

static void put_link(struct fg_buf *table, uint8_t span)
{
    const uint8_t span_id[8] = {span};
    struct fg_buf link;

    fg_buf_init(&link, SIZE_MAX);
    make_bytes(&link, 1,
               FG_LIT("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"));
    make_bytes(&link, 2, fg_bytes(span_id, sizeof span_id));
    make_message(table, OTLP_DICTIONARY_LINKS, &link);
    fg_buf_done(&link);
}

/* stacks: 1 main;work 2 main. attributes: 1 k=7 2 t=x */
static void put_dictionary(struct fg_buf *request)
{
    static const char *const strings[] = {"",     "samples", "count", "cpu", "nanoseconds",
                                          "main", "work",    "k",     "t"};
    struct fg_buf table, entry, inner;

    fg_buf_init(&table, SIZE_MAX);
    fg_buf_init(&entry, SIZE_MAX);
    fg_buf_init(&inner, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(strings); i++)
        make_bytes(&table, OTLP_DICTIONARY_STRINGS, fg_cstr(strings[i]));
    for (unsigned i = 0; i < 3; i++) { /* nothing, main, work */
        if (i > 0)
            make_int(&entry, OTLP_FUNCTION_NAME, 4 + i);
        make_message(&table, OTLP_DICTIONARY_FUNCTIONS, &entry);
        if (i > 0) {
            make_int(&inner, OTLP_LINE_FUNCTION, i);
            make_message(&entry, OTLP_LOCATION_LINES, &inner);
        }
        make_message(&table, OTLP_DICTIONARY_LOCATIONS, &entry);
    }
    make_message(&table, OTLP_DICTIONARY_STACKS, &entry);
    make_bytes(&entry, OTLP_STACK_LOCATIONS, FG_LIT("\x02\x01"));
    make_message(&table, OTLP_DICTIONARY_STACKS, &entry);
    make_bytes(&entry, OTLP_STACK_LOCATIONS, FG_LIT("\x01"));
    make_message(&table, OTLP_DICTIONARY_STACKS, &entry);
    make_message(&table, OTLP_DICTIONARY_LINKS, &entry);
    put_link(&table, 1);
    put_link(&table, 2);
    make_message(&table, OTLP_DICTIONARY_ATTRIBUTES, &entry);
    make_int(&entry, OTLP_ATTRIBUTE_KEY, 7);
    make_int(&inner, OTLP_ANY_INT, 7);
    make_message(&entry, OTLP_ATTRIBUTE_VALUE, &inner);
    make_message(&table, OTLP_DICTIONARY_ATTRIBUTES, &entry);
    make_int(&entry, OTLP_ATTRIBUTE_KEY, 8);
    make_bytes(&inner, OTLP_ANY_STRING, FG_LIT("x"));
    make_message(&entry, OTLP_ATTRIBUTE_VALUE, &inner);
    make_message(&table, OTLP_DICTIONARY_ATTRIBUTES, &entry);
    make_message(request, OTLP_REQUEST_DICTIONARY, &table);
    fg_buf_done(&table);
    fg_buf_done(&entry);
    fg_buf_done(&inner);
}

static void put_profile(struct fg_buf *scope, const struct encoding *encoding)
{
    struct fg_buf profile, inner;

    fg_buf_init(&profile, SIZE_MAX);
    fg_buf_init(&inner, SIZE_MAX);
    put_value_type(&profile, OTLP_PROFILE_SAMPLE_TYPE, 1, 2);
    for (size_t i = 0; i < FG_COUNT(samples); i++) {
        put_sample(&inner, &samples[i], encoding);
        make_message(&profile, OTLP_PROFILE_SAMPLES, &inner);
    }
    fg_buf_varint(&profile, FG_PB_TAG(OTLP_PROFILE_TIME, FG_PB_I64));
    fg_buf_le64(&profile, 5000);
    make_int(&profile, OTLP_PROFILE_DURATION, 50);
    put_value_type(&profile, OTLP_PROFILE_PERIOD_TYPE, 3, 4);
    make_int(&profile, OTLP_PROFILE_PERIOD, 10);
    put_profile_rest(&profile, encoding->version);
    make_message(scope, OTLP_SCOPES_PROFILES, &profile);
    fg_buf_done(&profile);
    fg_buf_done(&inner);
}

static void put_request(struct fg_buf *request, const struct encoding *encoding)
{
    struct fg_buf scope, resource;

    fg_buf_init(&scope, SIZE_MAX);
    fg_buf_init(&resource, SIZE_MAX);
    put_profile(&scope, encoding);
    make_message(&resource, OTLP_RESOURCES_SCOPES, &scope);
    make_message(request, OTLP_REQUEST_RESOURCES, &resource);
    put_dictionary(request);
    fg_buf_done(&scope);
    fg_buf_done(&resource);
}

static void every_version_decodes_to_the_same(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(encodings); i++) {
        struct decoded decoded = {0};
        struct fg_buf bytes;

        print_message("  encoding %zu\n", i);
        fg_buf_init(&bytes, SIZE_MAX);
        put_request(&bytes, &encodings[i]);
        request.version = FG_OTLP_ANY;
        decode_by(&decoded, fg_buf_slice(&bytes), &request);
        decoded_expect_text(&decoded, decoded_samples);
        assert_int_equal(decoded.result.version, encodings[i].version);
        assert_int_equal(decoded.result.accepted, 1);
        assert_int_equal(decoded.counts.samples_dropped, 0);
        decoded_done(&decoded);

        request.version = encodings[i].version; /* known to the caller */
        decode_by(&decoded, fg_buf_slice(&bytes), &request);
        decoded_expect_text(&decoded, decoded_samples);
        decoded_done(&decoded);
        fg_buf_done(&bytes);
    }
}

static void every_cut_is_refused(void **state)
{
    struct fg_otlp_request request = decode_plain_request(FG_OTLP_PROTOBUF);

    (void)state;
    for (size_t i = 0; i < FG_COUNT(encodings); i++) {
        struct fg_buf bytes;

        fg_buf_init(&bytes, SIZE_MAX);
        put_request(&bytes, &encodings[i]);
        for (size_t len = 0; len < bytes.len; len++) {
            struct decoded decoded = {0};
            uint8_t *copy = fg_malloc(FG_MAX(len, 1)); /* so that the sanitizer sees one more */

            memcpy(copy, bytes.ptr, len);
            decode_by(&decoded, fg_bytes(copy, len), &request);
            assert_int_not_equal(decoded.code, FG_OK);
            decoded_done(&decoded);
            free(copy);
        }
        fg_buf_done(&bytes);
    }
}

/* ---- what samples say ---- */

#define L2  "\x12\x01\x01"     /* field 2: a packed list of one */
#define L22 "\x12\x02\x81\x01" /* the same with a number of two bytes */
#define D2  "\x12\x02\x01\x01" /* of two */
#define V2  "\x10\x01"         /* field 2: a varint */
#define L3  "\x1a\x01\x01"
#define V3  "\x18\x01"
#define L4  "\x22\x01\x01"
#define V4  "\x20\x01"
#define L5                                                                                         \
    "\x2a\x08"                                                                                     \
    "12345678" /* timestamps, packed */
#define D5                                                                                         \
    "\x2a\x10"                                                                                     \
    "1234567812345678"
#define I5                                                                                         \
    "\x29"                                                                                         \
    "12345678" /* one of them alone */
#define CUT "\x12\x05"
#define ID8                                                                                        \
    "\x42\x10"                                                                                     \
    "0123456789abcdef" /* of a Profile */
#define A12 "\x62\x01\x01"

enum { SAMPLES_MAX = 3, REFUSED = -1 };

static void detect_by_the_wire_types(void **state)
{
    static const struct {
        const char *name, *samples[SAMPLES_MAX], *profile;
        int version; /* or REFUSED */
        const char *why;
    } cases[] = {
        {"no sample", {NULL}, NULL, FG_OTLP_1_10, NULL},
        {"nothing in it", {""}, NULL, FG_OTLP_1_10, NULL},
        {"timestamps alone", {L5}, NULL, FG_OTLP_1_10, NULL},
        {"values", {L2}, NULL, FG_OTLP_1_9, NULL},
        {"values by themselves", {V2}, NULL, FG_OTLP_1_9, NULL},
        {"attributes of 1.9", {L2 L3}, NULL, FG_OTLP_1_9, NULL},
        {"a link of 1.9", {L2 V4}, NULL, FG_OTLP_1_9, NULL},
        {"attributes and a link of 1.9", {L2 L3 V4}, NULL, FG_OTLP_1_9, NULL},
        {"a link of 1.9, timestamps", {V4 L5}, NULL, FG_OTLP_1_9, NULL},
        {"attributes of 1.9, timestamps", {L3 L5}, NULL, FG_OTLP_1_9, NULL},
        {"values of 1.10", {L4}, NULL, FG_OTLP_1_10, NULL},
        {"attributes of 1.10", {L2 L4}, NULL, FG_OTLP_1_10, NULL},
        {"a link of 1.10", {L2 V3 L4}, NULL, FG_OTLP_1_10, NULL},
        {"a link of 1.10, timestamps", {V3 L5}, NULL, FG_OTLP_1_10, NULL},
        {"attributes and a link of 1.10, timestamps", {L2 V3 L5}, NULL, FG_OTLP_1_10, NULL},
        {"one sample says it for all", {L5, L2 L5, L2 V4 L5}, NULL, FG_OTLP_1_9, NULL},
        {"the last one says it", {L2 L5, L2 L5, L4 L5}, NULL, FG_OTLP_1_10, NULL},

        {"a list of two, unpacked: 1.9", {V2 V3 V3 V4}, NULL, FG_OTLP_1_9, NULL},
        {"a list of two, unpacked: 1.10", {V2 V3 V4 V4}, NULL, FG_OTLP_1_10, NULL},
        {"value and attribute, unpacked: 1.9", {V2 V3}, NULL, FG_OTLP_1_9, NULL},
        {"a value, unpacked: 1.10", {V4}, NULL, FG_OTLP_1_10, NULL},
        {"value and link, unpacked: 1.10", {V3 V4}, NULL, FG_OTLP_1_10, NULL},
        {"value and attribute, unpacked: 1.10", {V2 V4}, NULL, FG_OTLP_1_10, NULL},
        {"timestamps, unpacked, after a list", {L4, V2 I5}, NULL, FG_OTLP_1_10, NULL},

        {"a value for each timestamp", {L2 L5}, NULL, FG_OTLP_1_9, NULL},
        {"a value for each of two", {D2 D5, L2 L5}, NULL, FG_OTLP_1_9, NULL},
        {"in numbers of two bytes", {L22 L5}, NULL, FG_OTLP_1_9, NULL},
        {"one by one", {V2 V2 I5 I5}, NULL, FG_OTLP_1_9, NULL},
        {"more attributes than timestamps", {D2 L5}, NULL, FG_OTLP_1_10, NULL},
        {"more timestamps than attributes", {L2 D5}, NULL, FG_OTLP_1_10, NULL},
        {"equal numbers in some samples only", {L2 L5, D2 L5, L2 L5}, NULL, FG_OTLP_1_10, NULL},

        {"profile_id of 1.8", {L2}, ID8, FG_OTLP_1_8, NULL},
        {"attributes of a profile of 1.8", {L2 L3}, A12, FG_OTLP_1_8, NULL},
        {"a profile_id when no sample says anything", {L5}, ID8, FG_OTLP_1_8, NULL},
        {"field 12 of a version to come", {L4}, A12, FG_OTLP_1_10, NULL},

        {"attributes of 1.9 and values of 1.10", {L3 L4}, NULL, REFUSED, "sample 0"},
        {"two versions",
         {L2 L3, L5, L2 L4},
         NULL,
         REFUSED,
         "resource 0, scope 0, profile 0, sample 0 is of OTLP 1.8 or 1.9, but resource 0, scope 0, "
         "profile 0, sample 2 of 1.10"},
        {"the other way round",
         {L4, L2},
         NULL,
         REFUSED,
         "sample 1 is of OTLP 1.8 or 1.9, but resource 0, scope 0, profile 0, sample 0 of 1.10"},
        {"links of both", {L2 V3 L5, V4 L5}, NULL, REFUSED, "sample 1 is of OTLP 1.8 or 1.9"},
        {"only values of both, unpacked", {V2, V4}, NULL, REFUSED, "sample 0 is of OTLP 1.8"},

        {"a cut sample says nothing", {L4, L3 CUT}, NULL, FG_OTLP_1_10, NULL},
        {"nor does it if it is the only one", {L3 CUT}, NULL, FG_OTLP_1_10, NULL},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf request, resource, scope, profile;
        enum fg_otlp_version version = FG_OTLP_ANY;
        struct fg_err err;
        enum fg_code code;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&request, SIZE_MAX);
        fg_buf_init(&resource, SIZE_MAX);
        fg_buf_init(&scope, SIZE_MAX);
        fg_buf_init(&profile, SIZE_MAX);
        for (size_t k = 0; k < SAMPLES_MAX && cases[i].samples[k] != NULL; k++)
            make_bytes(&profile, OTLP_PROFILE_SAMPLES, fg_cstr(cases[i].samples[k]));
        if (cases[i].profile != NULL)
            fg_buf_puts(&profile, cases[i].profile);
        make_message(&scope, OTLP_SCOPES_PROFILES, &profile);
        make_message(&resource, OTLP_RESOURCES_SCOPES, &scope);
        make_message(&request, OTLP_REQUEST_RESOURCES, &resource);

        code = fg_otlp_detect(fg_buf_slice(&request), FG_OTLP_ANY, &version, &err);
        if (cases[i].version == REFUSED) {
            assert_int_equal(code, FG_E_DECODE);
            if (strstr(err.msg, cases[i].why) == NULL)
                fail_msg("\"%s\" is not in \"%s\"", cases[i].why, err.msg);
        } else {
            assert_int_equal(code, FG_OK);
            assert_int_equal(version, cases[i].version);
        }
        fg_buf_done(&request);
        fg_buf_done(&resource);
        fg_buf_done(&scope);
        fg_buf_done(&profile);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_decodes_to_the_same),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(detect_by_the_wire_types),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
