/* Tests lists of target groups in YAML and JSON, and their errors. */
#include "distributor/scrape/discovery_file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* clang-format off */
static const struct {
    const char *what, *path, *text;
    const char *want; /* label sets one after another, or the error text */
    bool wrong;
} cases[] = {
    {"nothing", "t.yaml", "", "", false},
    {"comments alone", "t.yaml", "# none yet\n", "", false},
    {"an empty list", "t.json", "[]", "", false},
    {"Prometheus' form", "t.json",
     "[{\"targets\": [\"a:1\", \"b:2\"], \"labels\": {\"env\": \"dev\", \"job\": \"x\"}}, {\"targets\": [\"c:3\"]}]",
     "{__address__=\"a:1\", env=\"dev\", job=\"x\"}{__address__=\"b:2\", env=\"dev\", job=\"x\"}{__address__=\"c:3\"}", false},
    {"the same in YAML", "t.yml",
     "- targets: [\"a:1\", 'b:2']\n  labels:\n    env: dev\n    job: x\n- targets:\n    - c:3\n",
     "{__address__=\"a:1\", env=\"dev\", job=\"x\"}{__address__=\"b:2\", env=\"dev\", job=\"x\"}{__address__=\"c:3\"}", false},
    {"what looks like a number is text", "t.yaml", "- {targets: [10.0.0.1:80], labels: {v: 1, yes: true}}",
     "{__address__=\"10.0.0.1:80\", v=\"1\", yes=\"true\"}", false},
    {"null labels", "t.yaml", "- {targets: [a], labels: }", "{__address__=\"a\"}", false},
    {"an empty label is none", "t.json", "[{\"targets\":[\"a\"],\"labels\":{\"x\":\"\"}}]", "{__address__=\"a\"}", false},
    {"the list's address wins", "t.json", "[{\"targets\":[\"a\"],\"labels\":{\"__address__\":\"b\"}}]", "{__address__=\"a\"}", false},
    {"no targets in a group", "t.json", "[{\"targets\":[]}]", "", false},
    {"UTF-8", "t.json", "[{\"targets\":[\"a\"],\"labels\":{\"\\u00e4\":\"\\ud83d\\udd25\"}}]", "{__address__=\"a\", \303\244=\"\360\237\224\245\"}", false},

    {"no JSON", "t.json", "[{\"targets\": [\"a\"]", "t.json:1", true},
    {"two documents in JSON", "t.json", "[]\n[]", "t.json:2", true},
    {"a key twice in JSON", "t.json", "[{\"targets\":[],\"targets\":[]}]", "duplicate", true},
    {"no YAML", "t.yaml", "- targets: [a\n- b", "t.yaml:3", true},
    {"two documents in YAML", "t.yaml", "[]\n---\n[]", "a second document at t.yaml:2", true},
    {"a key twice in YAML", "t.yaml", "- targets: []\n  targets: []", "targets is set a second time at t.yaml:2", true},
    {"an alias", "t.yaml", "- targets: &a [x]\n- targets: *a", "an anchor", true},
    {"a map in the place of a list", "t.json", "{\"targets\":[\"a\"]}", "t.json: not a list of groups", true},
    {"a text in the place of a group", "t.json", "[\"a:1\"]", "group 1 is not a map", true},
    {"a mistyped key", "t.json", "[{\"targets\":[]},{\"target\":[\"a\"]}]", "group 2: unknown key \"target\"; did you mean \"targets\"?", true},
    {"no targets", "t.yaml", "- labels: {a: b}", "group 1: \"targets\" is not a list", true},
    {"a number as target", "t.json", "[{\"targets\":[80]}]", "target 1 is not a string", true},
    {"a number as label", "t.json", "[{\"targets\":[\"a\"],\"labels\":{\"v\":1}}]", "label \"v\" must be a label name with a string value", true},
    {"a list as labels", "t.json", "[{\"targets\":[\"a\"],\"labels\":[1]}]", "\"labels\" is not a map", true},
    {"a NUL", "t.yaml", "- targets: [\"a\\0b\"]", "a NUL", true},
    {"nested too deeply", "t.yaml", "[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]", "nested deeper than 16", true},
};
/* clang-format on */

static void read_case(size_t i)
{
    struct dist_discovered *discovered = dist_discovered_create();
    struct fg_err err = {.msg = ""};
    struct fg_buf got;
    enum fg_code code;

    print_message("  %s\n", cases[i].what);
    code = dist_file_discovery_read(cases[i].path, fg_cstr(cases[i].text), discovered, &err);
    fg_buf_init(&got, 1 << 20);
    for (size_t t = 0; code == FG_OK && t < discovered->n_targets; t++)
        fg_labels_write(&discovered->targets[t], &got);
    if (cases[i].wrong != (code != FG_OK))
        fail_msg("code %d, %s%.*s", (int)code, err.msg, FG_S(fg_buf_slice(&got)));
    if (cases[i].wrong && strstr(err.msg, cases[i].want) == NULL)
        fail_msg("\"%s\", not \"%s\"", err.msg, cases[i].want);
    if (!cases[i].wrong && !fg_slice_is(fg_buf_slice(&got), cases[i].want))
        fail_msg("%.*s, not %s", FG_S(fg_buf_slice(&got)), cases[i].want);
    fg_buf_done(&got);
    dist_discovered_destroy(discovered);
}

static void groups_of_targets_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        read_case(i);
}

/* Many targets with many labels each: a small file that would need much memory. */
static void memory_for_targets_with_many_labels_is_bounded(void **state)
{
    struct dist_discovered *discovered = dist_discovered_create();
    struct fg_buf text;
    struct fg_err err;

    (void)state;
    fg_buf_init(&text, 1 << 20);
    fg_buf_puts(&text, "[{\"labels\":{\"x\":\"y\"");
    for (int i = 0; i < 20000; i++)
        fg_buf_printf(&text, ",\"l%d\":\"\"", i);
    fg_buf_puts(&text, "},\"targets\":[\"a\"");
    for (int i = 0; i < 50000; i++)
        fg_buf_printf(&text, ",\"%d\"", i);
    fg_buf_puts(&text, "]}]");
    assert_false(text.full);
    assert_int_equal(dist_file_discovery_read("t.json", fg_buf_slice(&text), discovered, &err),
                     FG_E_LIMIT);
    fg_buf_done(&text);
    dist_discovered_destroy(discovered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_targets_are_read),
        cmocka_unit_test(memory_for_targets_with_many_labels_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
