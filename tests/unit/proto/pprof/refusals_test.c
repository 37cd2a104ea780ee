/* Malformed pprofs are refused, and the error says what is wrong. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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
    make_sample_of(make, (uint64_t[]){1}, 1, 1, NULL, 0);
}

static void bad_function_unknown(struct make *make)
{
    make_type(make, "t", "u");
    make_function(make, 1, "a", "", "", 0);
    make_location(make, 1, 0, 0, (struct make_line[]){{2, 1}}, 1);
    make_sample_of(make, (uint64_t[]){1}, 1, 1, NULL, 0);
}

static void bad_sample_of_location_0(struct make *make)
{
    make_type(make, "t", "u");
    make_frame(make, 1, "a");
    make_sample_of(make, (uint64_t[]){0}, 1, 1, NULL, 0);
}

static void bad_sample_of_unknown_location(struct make *make)
{
    make_type(make, "t", "u");
    make_frame(make, 1, "a");
    make_sample_of(make, (uint64_t[]){1, 2}, 2, 1, NULL, 0);
}

static void bad_values_short(struct make *make)
{
    make_type(make, "t", "u");
    make_type(make, "t2", "u");
    make_sample_of(make, NULL, 0, 1, NULL, 0);
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
    make_location(make, 1, 0, 0, (struct make_line[]){{1, 1}}, 1);
    make_sample_of(make, (uint64_t[]){1}, 1, 1, NULL, 0);
}

static void bad_label_index(struct make *make)
{
    make_type(make, "t", "u");
    make_bytes(&make->out, 2, FG_LIT("\x12\x01\x01\x1a\x04\x08\x01\x10\x09"));
}

static void bad_overflow(struct make *make)
{
    make_type(make, "t", "u");
    make_sample_of(make, NULL, 0, INT64_MAX, NULL, 0);
    make_sample_of(make, NULL, 0, 1, NULL, 0);
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
        {"only a line of function 0", bad_function_0, FG_E_INVALID,
         "of location id 1 is not there"},
        {"only a line of an unknown function", bad_function_unknown, FG_E_INVALID,
         "of location id 1 is not there"},
        {"only a sample of location 0", bad_sample_of_location_0, FG_E_INVALID,
         "sample 0: location id 0 is not there"},
        {"only a sample of an unknown location", bad_sample_of_unknown_location, FG_E_INVALID,
         "location id 2"},
        {"too few values", bad_values_short, FG_E_INVALID, "sample value length mismatch"},
        {"too many values", bad_values_long, FG_E_INVALID, "sample value length mismatch"},
        {"no values", bad_values_none, FG_E_INVALID, "sample value length mismatch"},
        {"a dash in a type", bad_dash, FG_E_INVALID, "sample type contains -"},
        {"65 types", bad_65_types, FG_E_INVALID, "65 sample types"},
        {"not UTF-8", bad_utf8, FG_E_INVALID, "invalid utf8 string"},
        {"type out of range", bad_type_index, FG_E_INVALID, "index out of range"},
        {"period type out of range", bad_period_index, FG_E_INVALID, "index out of range"},
        {"only a function name out of range", bad_function_index, FG_E_INVALID,
         "of location id 1 is not there"},
        {"only a label out of range", bad_label_index, FG_E_INVALID, "label 0 is not there"},
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
    struct fg_pprof_request request = decode_plain_request();

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct make make;

        print_message("  %s\n", cases[i].name);
        make_start(&make);
        cases[i].make(&make);
        decode_expect_error(make_finish(&make), &request, cases[i].code, cases[i].text);
        make_done(&make);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_profiles_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
