/*
 * Any bytes as a YAML file. What is accepted is written and read again, and has to be accepted and
 * written the same: the running values are what a user may start from.
 */
#include "common/runtime/config.h"

struct values {
    uint64_t number, bytes;
    int64_t ns;
    double ratio;
    bool flag;
    char *text;
    unsigned choice;
};

#define AT(field) FG_CONF_AT(struct values, field)
/* clang-format off */
static const struct fg_conf_field top[] = {
    {"n", FG_CONF_UINT, AT(number), .def = "4", .min = "1", .max = "65535"},
    {"text", FG_CONF_STRING, AT(text), .def = "x", .max = "100"},
};
static const struct fg_conf_field inner[] = {
    {"bytes", FG_CONF_BYTES, AT(bytes), .def = "1MiB"},
    {"ns", FG_CONF_NS, AT(ns), .def = "1s", .max = "7d"},
    {"ratio", FG_CONF_FLOAT, AT(ratio), .def = "0.5"},
    {"flag", FG_CONF_BOOL, AT(flag), .def = "true"},
    {"choice", FG_CONF_ENUM, AT(choice), .def = "one", .choices = "one|two"},
};
/* clang-format on */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct values values = {0};
    struct fg_conf_section sections[] = {{"", top, FG_COUNT(top), &values},
                                         {"in.ner", inner, FG_COUNT(inner), &values}};
    struct fg_conf conf = {.sections = sections, .n_sections = FG_COUNT(sections)};
    struct fg_buf once, twice;
    struct fg_err err;

    fg_buf_init(&once, 1 << 20);
    fg_buf_init(&twice, 1 << 20);
    fg_assert(fg_conf_load(&conf, NULL, NULL, NULL, 0, &err) == FG_OK);
    if (fg_conf_parse_yaml(&conf, fg_bytes(data, size), "fuzz", &err) == FG_OK) {
        fg_conf_write_yaml(&conf, &once);
        fg_assert(fg_conf_parse_yaml(&conf, fg_buf_slice(&once), "again", &err) == FG_OK);
        fg_conf_write_yaml(&conf, &twice);
        fg_assert(fg_slice_eq(fg_buf_slice(&once), fg_buf_slice(&twice)));
    } else {
        fg_assert(err.code == FG_E_INVALID && err.msg[0] != '\0');
    }
    fg_conf_done(&conf);
    fg_buf_done(&once);
    fg_buf_done(&twice);
    return 0;
}
