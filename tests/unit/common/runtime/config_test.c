#include "common/base/time.h"
#include "common/runtime/config.h"
#include "common/runtime/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

struct values {
    uint64_t port;
    uint64_t head_max_bytes;
    int64_t delay_ns;
    double ratio;
    bool fsync;
    char *path;
    char *token, *rules;
    unsigned level;
    uint64_t cache_bytes;
};

#define AT(field) FG_CONF_AT(struct values, field)
/* clang-format off */
static const struct fg_conf_field top_fields[] = {
    {"port", FG_CONF_UINT, AT(port), .def = "4040", .min = "1", .max = "65535", .doc = "Listens here."},
};
static const struct fg_conf_field ingester_fields[] = {
    {"head_max_bytes", FG_CONF_BYTES, AT(head_max_bytes), .def = "512MiB", .min = "16MiB", .doc = "Memory."},
    {"delay", FG_CONF_NS, AT(delay_ns), .def = "2ms", .max = "7d", .doc = "Waits."},
    {"ratio", FG_CONF_FLOAT, AT(ratio), .def = "0.5", .min = "0", .max = "1", .doc = "A part."},
    {"fsync", FG_CONF_BOOL, AT(fsync), .def = "true", .doc = "Syncs."},
    {"path", FG_CONF_STRING, AT(path), .def = "data", .min = "1", .max = "100", .doc = "A folder."},
};
static const struct fg_conf_field log_fields[] = {
    {"level", FG_CONF_ENUM, AT(level), .def = "info", .choices = "debug|info|warn|error", .doc = "Least."},
    {"rules", FG_CONF_YAML, AT(rules), .def = "", .max = "100", .doc = "A list."},
    {"token", FG_CONF_SECRET, AT(token), .def = "", .max = "20", .doc = "Secret."},
};
static const struct fg_conf_field cache_fields[] = {
    {"bytes", FG_CONF_BYTES, AT(cache_bytes), .def = "1GiB", .doc = "Of the cache."},
};
/* clang-format on */

static struct values values;
static struct fg_conf_section sections[] = {
    {"", top_fields, FG_COUNT(top_fields), &values},
    {"ingester", ingester_fields, FG_COUNT(ingester_fields), &values},
    {"log", log_fields, FG_COUNT(log_fields), &values},
    {"store.cache", cache_fields, FG_COUNT(cache_fields), &values},
};
static const char *const other_keys[] = {"house", NULL};
static const char *const other_log_keys[] = {"colour", NULL};
static const struct fg_conf_other others[] = {
    {"", other_keys},   {"log", other_log_keys},
    {"ingester", NULL}, /* which is here: all of it counts as here */
    {"querier", NULL},  {"store.disk", NULL},
};
static struct fg_conf conf = {.sections = sections,
                              .n_sections = FG_COUNT(sections),
                              .others = others,
                              .n_others = FG_COUNT(others)};
static struct fg_err err;

static int clear(void **state)
{
    (void)state;
    fg_conf_done(&conf);
    memset(&values, 0, sizeof values);
    memset(&err, 0, sizeof err);
    return 0;
}

static enum fg_code parse(const char *yaml)
{
    return fg_conf_parse_yaml(&conf, fg_cstr(yaml), "f.yaml", &err);
}

static void load_defaults(void)
{
    assert_int_equal(fg_conf_load(&conf, NULL, NULL, NULL, 0, &err), FG_OK);
}

static void assert_double(double got, double want)
{
    assert_memory_equal(&got, &want, sizeof got);
}

static void defaults(void **state)
{
    (void)state;
    load_defaults();
    assert_int_equal(values.port, 4040);
    assert_int_equal(values.head_max_bytes, 512 << 20);
    assert_int_equal(values.delay_ns, 2 * FG_MS_NS);
    assert_double(values.ratio, 0.5);
    assert_true(values.fsync);
    assert_string_equal(values.path, "data");
    assert_string_equal(values.token, "");
    assert_int_equal(values.level, 1);
    assert_int_equal(values.cache_bytes, 1 << 30);
}

static void yaml_sets_all_types(void **state)
{
    (void)state;
    load_defaults();
    assert_int_equal(parse("# a comment\n"
                           "port: 80\n"
                           "ingester:\n"
                           "  head_max_bytes: 64MiB\n"
                           "  delay: 1h30m\n"
                           "  ratio: 1e-3\n"
                           "  fsync: off\n"
                           "  path: \"/a b\"\n"
                           "log: {level: error, token: 'x'}\n"
                           "store:\n"
                           "  cache:\n"
                           "    bytes: 4096\n"),
                     FG_OK);
    assert_int_equal(values.port, 80);
    assert_int_equal(values.head_max_bytes, 64 << 20);
    assert_int_equal(values.delay_ns, 90 * FG_MINUTE_NS);
    assert_double(values.ratio, 1e-3);
    assert_false(values.fsync);
    assert_string_equal(values.path, "/a b");
    assert_string_equal(values.token, "x");
    assert_int_equal(values.level, 3);
    assert_int_equal(values.cache_bytes, 4096);
}

static void files_without_settings_are_fine(void **state)
{
    static const char *const cases[] = {
        "",    "# nothing\n", "---\n",       "---\n...\n",
        "~\n", "{}\n",        "ingester:\n", "ingester:\n  # all commented out\nlog: {}\n"};

    (void)state;
    load_defaults();
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        assert_int_equal(parse(cases[i]), FG_OK);
    assert_int_equal(fg_conf_parse_yaml(&conf, fg_bytes(NULL, 0), "f.yaml", &err), FG_OK);
    assert_int_equal(values.port, 4040);
}

/* clang-format off */
static const struct {
    const char *yaml, *msg;
} bad_yaml[] = {
    /* names */
    {"port: 1\n\ningestor:\n  delay: 1s\n", "unknown key \"ingestor\" at f.yaml:3; did you mean \"ingester\"?"},
    {"ingester:\n  head_max_byte: 1\n", "unknown key \"ingester.head_max_byte\" at f.yaml:2; did you mean \"ingester.head_max_bytes\"?"},
    {"head_max_bytes: 1\n", "unknown key \"head_max_bytes\" at f.yaml:1; did you mean \"ingester.head_max_bytes\"?"},
    {"zzzzzzzzz: 1\n", "unknown key \"zzzzzzzzz\" at f.yaml:1"},
    {"store:\n  cash:\n    bytes: 1\n", "unknown key \"store.cash\" at f.yaml:2; did you mean \"store.cache\"?"},
    /* values */
    {"port: x\n", "port: \"x\" is not a whole number (f.yaml:1)"},
    {"port: 0\n", "port: 0 is below the minimum 1 (f.yaml:1)"},
    {"port: 65536\n", "port: 65536 is above the maximum 65535 (f.yaml:1)"},
    {"port: -1\n", "port: \"-1\" is not a whole number (f.yaml:1)"},
    {"ingester:\n\n\n  head_max_bytes: 1MiB\n", "ingester.head_max_bytes: 1MiB is below the minimum 16MiB (f.yaml:4)"},
    {"ingester:\n  head_max_bytes: 1XiB\n", "ingester.head_max_bytes: \"1XiB\" has an unknown unit (B kB MB GB TB KiB MiB GiB TiB) (f.yaml:2)"},
    {"ingester:\n  head_max_bytes: MiB\n", "ingester.head_max_bytes: \"MiB\" is not a size such as 64KiB, 512MiB, 10MB or 4096 (f.yaml:2)"},
    {"ingester:\n  head_max_bytes: 16777216TiB\n", "ingester.head_max_bytes: \"16777216TiB\" is too large for a size (f.yaml:2)"},
    {"ingester:\n  delay: 10\n", "ingester.delay: \"10\" needs a unit (ns us ms s m h d w y) (f.yaml:2)"},
    {"ingester:\n  delay: 1m1h\n", "ingester.delay: \"1m1h\" has its units in the wrong order (f.yaml:2)"},
    {"ingester:\n  delay: soon\n", "ingester.delay: \"soon\" is not a duration such as 250us, 10s, 1h30m or 7d (f.yaml:2)"},
    {"ingester:\n  delay: 1h30\n", "ingester.delay: \"1h30\" needs a unit (ns us ms s m h d w y) (f.yaml:2)"},
    {"ingester:\n  delay: 300000000000w\n", "ingester.delay: \"300000000000w\" is too long for a duration (f.yaml:2)"},
    {"ingester:\n  delay: 1w1ns\n", "ingester.delay: 1w1ns is above the maximum 7d (f.yaml:2)"},
    {"ingester:\n  delay:\n", "ingester.delay: \"\" is not a duration such as 250us, 10s, 1h30m or 7d (f.yaml:2)"},
    {"ingester:\n  ratio: 1.01\n", "ingester.ratio: 1.01 is above the maximum 1 (f.yaml:2)"},
    {"ingester:\n  ratio: .inf\n", "ingester.ratio: \".inf\" is not a number (f.yaml:2)"},
    {"ingester:\n  fsync: maybe\n", "ingester.fsync: \"maybe\" is neither true nor false (f.yaml:2)"},
    {"ingester:\n  path: ''\n", "ingester.path: a length of 0 is below the minimum 1 (f.yaml:2)"},
    {"ingester:\n  path: \"a\\0b\"\n", "ingester.path: \"a\" contains a NUL character (f.yaml:2)"},
    {"log:\n  level: loud\n", "log.level: \"loud\" is not one of debug|info|warn|error (f.yaml:2)"},
    {"log:\n  token: aaaaaaaaaaaaaaaaaaaaa\n", "log.token: a length of 21 is above the maximum 20 (f.yaml:2)"},
    {"log:\n  token: \"a\\0b\"\n", "log.token: \"***\" contains a NUL character (f.yaml:2)"},
    /* shape */
    {"port: 1\nport: 1\n", "port is set a second time at f.yaml:2"},
    {"log: {}\ningester:\nlog: {}\n", "log is set a second time at f.yaml:3"},
    {"log:\n  level: info\n  level: info\n", "log.level is set a second time at f.yaml:3"},
    {"port: &a 1\n", "an anchor is not a setting at f.yaml:1"},
    {"log: &a\n  level: info\n", "an anchor is not a setting at f.yaml:1"},
    {"port: *a\n", "an alias is not a setting at f.yaml:1"},
    {"port: !!int 1\n", "a tag is not a setting at f.yaml:1"},
    {"log: !x {level: info}\n", "a tag is not a setting at f.yaml:1"},
    {"port: [1]\n", "port: expected a value, found a list at f.yaml:1"},
    {"log: [1]\n", "log: expected a map, found a value at f.yaml:1"},
    {"log:\n  rules: [*x]\n", "an alias is not a setting at f.yaml:2"},
    {"log:\n  rules: [[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]\n", "lists and maps nested deeper than 16 at f.yaml:2"},
    {"- port\n", "expected a setting, found a list at f.yaml:1"},
    {"port\n", "expected a map of settings, found a value at f.yaml:1"},
    {"port: {a: 1}\n", "port: expected a value, found a map at f.yaml:1"},
    {"log: 1\n", "log: expected a map, found a value at f.yaml:1"},
    {"? {a: 1}\n: 2\n", "expected a key, found a map at f.yaml:1"},
    {"'': 1\n", "a key that is not a word at f.yaml:1"},
    {"\"a\\nb\": 1\n", "a key that is not a word at f.yaml:1"},
    {"port: 1\n---\nport: 2\n", "a second document at f.yaml:2"},
    {"port: 1\n\tlog: 1\n", "found a tab character that violates indentation at f.yaml:2"},
    {"log: {level: info\n", "did not find expected ',' or '}' at f.yaml:2"},
};
/* clang-format on */

static void bad_yaml_says_where(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(bad_yaml); i++) {
        (void)clear(NULL);
        load_defaults();
        assert_int_equal(parse(bad_yaml[i].yaml), FG_E_INVALID);
        assert_int_equal(err.code, FG_E_INVALID);
        assert_string_equal(err.msg, bad_yaml[i].msg);
    }
}

/* One file for several programs: what others have is passed over, but not slips. */
static void settings_of_others_are_passed_over(void **state)
{
    (void)state;
    load_defaults();
    assert_int_equal(parse("house: 4\nquerier: {share: {a: [1, {b: 2}]}, x: y}\nport: 1\n"
                           "log: {colour: red, level: warn}\n"
                           "store: {disk: {bytes: 1}, cache: {bytes: 7}}\n"),
                     FG_OK);
    assert_int_equal(values.port, 1);
    assert_int_equal(values.level, 2);
    assert_int_equal(values.cache_bytes, 7);
    assert_int_equal(parse("querier: 3"), FG_OK);

    assert_int_equal(parse("ingester: {dely: 3ms}"), FG_E_INVALID);
    assert_string_equal(err.msg, "unknown key \"ingester.dely\" at f.yaml:1; did you mean "
                                 "\"ingester.delay\"?");
    assert_int_equal(parse("log: {house: 1}"), FG_E_INVALID);
    assert_int_equal(parse("store: {disks: {bytes: 1}}"), FG_E_INVALID);
    assert_int_equal(parse("queriers: {x: 1}"), FG_E_INVALID);
    assert_int_equal(parse("querier: {x: 1}\nquerier: {y: 1}"), FG_E_INVALID);
    assert_string_equal(err.msg, "querier is set a second time at f.yaml:2");
}

static void others_have_no_flags(void **state)
{
    char *flags[] = {"--house=4"};

    (void)state;
    assert_int_equal(fg_conf_load(&conf, NULL, NULL, flags, 1, &err), FG_E_INVALID);
}

static void too_deep_and_too_large(void **state)
{
    static const struct fg_conf_field field = {"x", FG_CONF_UINT, AT(port), .def = "1"};
    struct fg_conf_section deep[] = {{"a.b.c.d", &field, 1, &values}};
    struct fg_conf deep_conf = {.sections = deep, .n_sections = 1};
    struct fg_buf large;

    (void)state;
    assert_int_equal(fg_conf_parse_yaml(&deep_conf, FG_LIT("a: {b: {c: {x: 1}}}"), "f.yaml", &err),
                     FG_E_INVALID);
    assert_string_equal(err.msg, "unknown key \"a.b.c.x\" at f.yaml:1; did you mean \"a.b.c.d\"?");
    assert_int_equal(
        fg_conf_parse_yaml(&deep_conf, FG_LIT("a: {b: {c: {d: {x: 1}}}}"), "f.yaml", &err),
        FG_E_INVALID);
    assert_string_equal(err.msg, "maps nested deeper than 4 at f.yaml:1");

    fg_buf_init(&large, 2 << 20);
    assert_true(fg_buf_reserve(&large, (1 << 20) + 1));
    memset(large.ptr, '\n', (1 << 20) + 1);
    large.len = 1 << 20;
    assert_int_equal(fg_conf_parse_yaml(&conf, fg_buf_slice(&large), "f.yaml", &err), FG_OK);
    large.len++;
    assert_int_equal(fg_conf_parse_yaml(&conf, fg_buf_slice(&large), "f.yaml", &err), FG_E_INVALID);
    assert_string_equal(err.msg, "f.yaml is larger than 1 MiB");
    fg_buf_done(&large);
}

static void sizes(void **state)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"4096", 4096},
        {"1B", 1},
        {"64kB", 64000},
        {"64KB", 64000},
        {"64KiB", 65536},
        {"10MB", 10000000},
        {"10MiB", 10485760},
        {"2GB", 2000000000},
        {"2GiB", UINT64_C(2147483648)},
        {"1TB", UINT64_C(1000000000000)},
        {"1TiB", UINT64_C(1099511627776)},
        {"0", 0},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char flag[100];
        char *flags[] = {flag};

        (void)clear(NULL);
        (void)snprintf(flag, sizeof flag, "--store.cache.bytes=%s", cases[i].text);
        assert_int_equal(fg_conf_load(&conf, NULL, NULL, flags, 1, &err), FG_OK);
        assert_true(values.cache_bytes == cases[i].bytes);
    }
}

static void durations(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"7ns", 7},
        {"250us", 250000},
        {"5ms", 5 * FG_MS_NS},
        {"10s", 10 * FG_SECOND_NS},
        {"1m", FG_MINUTE_NS},
        {"1h30m", 90 * FG_MINUTE_NS},
        {"7d", 7 * 24 * FG_HOUR_NS},
        {"1w", 7 * 24 * FG_HOUR_NS},
        {"1d2h3m4s5ms6us7ns", INT64_C(93784005006007)},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char yaml[100];

        (void)snprintf(yaml, sizeof yaml, "ingester: {delay: %s}", cases[i].text);
        assert_int_equal(parse(yaml), FG_OK);
        assert_true(values.delay_ns == cases[i].ns);
    }
}

static void durations_have_years(void **state)
{
    int64_t ns = 0;

    (void)state;
    assert_null(fg_conf_read_duration(FG_LIT("2y1w"), &ns));
    assert_true(ns == (2 * 365 + 7) * 24 * FG_HOUR_NS);
    assert_string_equal(fg_conf_read_duration(FG_LIT("293y"), &ns), "is too long for a duration");
    assert_string_equal(fg_conf_read_duration(FG_LIT("1w2y"), &ns),
                        "has its units in the wrong order");
}

static void bools(void **state)
{
    static const char *const words[2][5] = {{"false", "no", "off", "0", "False"},
                                            {"true", "yes", "on", "1", "TRUE"}};

    (void)state;
    for (size_t yes = 0; yes < 2; yes++) {
        for (size_t i = 0; i < 5; i++) {
            char yaml[100];

            values.fsync = yes == 0;
            (void)snprintf(yaml, sizeof yaml, "ingester: {fsync: %s}", words[yes][i]);
            assert_int_equal(parse(yaml), FG_OK);
            assert_int_equal(values.fsync, yes);
        }
    }
}

/* Writes the text to a file that is gone when the test ends; its name is in path. */
static void write_file(char path[static 32], const char *text)
{
    int fd;

    (void)snprintf(path, 32, "/tmp/fg-config-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(close(fd), 0);
}

static void later_sources_win(void **state)
{
    static const struct {
        const char *yaml, *env, *flag;
        uint64_t want;
    } cases[] = {
        {NULL, NULL, NULL, 4040},          {"port: 1", NULL, NULL, 1},
        {"port: 1", "FG_PORT=2", NULL, 2}, {"port: 1", "FG_PORT=2", "--port=3", 3},
        {NULL, "FG_PORT=2", NULL, 2},      {"port: 1", NULL, "--port=3", 3},
        {NULL, "FGPORT=2", NULL, 4040}, /* not ours */
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char env_text[100], flag_text[100], path[32] = "";
        char *env[] = {env_text, NULL}, *flags[] = {flag_text};

        (void)clear(NULL);
        (void)snprintf(env_text, sizeof env_text, "%s",
                       cases[i].env == NULL ? "HOME=/" : cases[i].env);
        (void)snprintf(flag_text, sizeof flag_text, "%s",
                       cases[i].flag == NULL ? "" : cases[i].flag);
        if (cases[i].yaml != NULL)
            write_file(path, cases[i].yaml);
        assert_int_equal(fg_conf_load(&conf, path, env, flags, cases[i].flag == NULL ? 0 : 1, &err),
                         FG_OK);
        assert_int_equal(values.port, cases[i].want);
        if (cases[i].yaml != NULL)
            assert_int_equal(unlink(path), 0);
    }
}

static void files_that_cannot_be_read(void **state)
{
    char path[32], want[100];

    (void)state;
    assert_int_equal(fg_conf_load(&conf, "/nowhere/x.yaml", NULL, NULL, 0, &err), FG_E_NOT_FOUND);
    assert_string_equal(err.msg, "/nowhere/x.yaml: No such file or directory");
    assert_int_equal(fg_conf_load(&conf, "/", NULL, NULL, 0, &err), FG_E_INTERNAL);
    assert_string_equal(err.msg, "/: Is a directory");
    assert_int_equal(fg_conf_load(&conf, "/dev/zero", NULL, NULL, 0, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "/dev/zero is larger than 1 MiB");
    write_file(path, "log:\n  level: x\n");
    (void)snprintf(want, sizeof want, "log.level: \"x\" is not one of debug|info|warn|error (%s:2)",
                   path);
    assert_int_equal(fg_conf_load(&conf, path, NULL, NULL, 0, &err), FG_E_INVALID);
    assert_string_equal(err.msg, want);
    assert_int_equal(unlink(path), 0);
}

/* clang-format off */
static const struct {
    const char *env, *flags[3], *msg; /* msg NULL: path becomes "p" */
} outside[] = {
    {"FG_INGESTER_PATH=p", {NULL}, NULL},
    {NULL, {"--ingester.path=p"}, NULL},
    {NULL, {"--ingester.path", "p"}, NULL},
    {NULL, {"--ingester.path=x", "--ingester.path=p"}, NULL},
    {"FG_INGESTER_PATH=p", {"--ingester.head-max-bytes=1GB"}, NULL},
    {"FG_INGESTER_DELAY=3", {NULL}, "ingester.delay: \"3\" needs a unit (ns us ms s m h d w y) (FG_INGESTER_DELAY)"},
    {"FG_INGESTER_PATH=\xff", {NULL}, "ingester.path: \"\xff\" is not UTF-8 (FG_INGESTER_PATH)"},
    {"FG_LOG_TOKEN=\xff", {NULL}, "log.token: \"***\" is not UTF-8 (FG_LOG_TOKEN)"},
    {NULL, {"--log.levle=info"}, "unknown flag \"--log.levle\"; did you mean \"--log.level\"?"},
    {NULL, {"--log.levle"}, "unknown flag \"--log.levle\"; did you mean \"--log.level\"?"},
    {NULL, {"--nothing", "--log.level=info"}, "unknown flag \"--nothing\""},
    {NULL, {"--log.level=loud"}, "log.level: \"loud\" is not one of debug|info|warn|error (--log.level)"},
    {NULL, {"--log.level"}, "flag --log.level needs a value"},
    {NULL, {"--log.level", "--port=1"}, "flag --log.level needs a value"},
    {NULL, {"log.level=info"}, "unexpected argument \"log.level=info\""},
    {NULL, {"--"}, "unexpected argument \"--\""},
    {NULL, {"-p"}, "unexpected argument \"-p\""},
};
/* clang-format on */

static void environment_and_flags(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(outside); i++) {
        char texts[4][100] = {{0}};
        char *env[] = {texts[3], NULL}, *flags[3] = {texts[0], texts[1], texts[2]};
        size_t n_flags = 0;
        enum fg_code code;

        (void)clear(NULL);
        (void)snprintf(texts[3], sizeof texts[3], "%s",
                       outside[i].env == NULL ? "A=b" : outside[i].env);
        for (; n_flags < 3 && outside[i].flags[n_flags] != NULL; n_flags++)
            (void)snprintf(texts[n_flags], sizeof texts[n_flags], "%s", outside[i].flags[n_flags]);
        code = fg_conf_load(&conf, NULL, env, flags, n_flags, &err);
        if (outside[i].msg == NULL) {
            assert_int_equal(code, FG_OK);
            assert_string_equal(values.path, "p");
        } else {
            assert_int_equal(code, FG_E_INVALID);
            assert_string_equal(err.msg, outside[i].msg);
        }
    }
}

/* Others put variables there: Kubernetes one for each service, FG_WEB_SERVICE_HOST and the like. */
static void unknown_variables_are_told_and_passed_over(void **state)
{
    char unknown[] = "FG_INGESTOR_PATH=p", bare[] = "FG_=p", known[] = "FG_INGESTER_PATH=q";
    char *env[] = {unknown, bare, known, NULL};
    char text[2000] = "";
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    fg_log_set_fd(fds[1]);
    assert_int_equal(fg_conf_load(&conf, NULL, env, NULL, 0, &err), FG_OK);
    fg_log_set_fd(2);
    assert_true(read(fds[0], text, sizeof text - 1) > 0);
    assert_non_null(strstr(text, "level=warn msg=\"environment variable ignored\""));
    assert_non_null(strstr(text, "did you mean \\\"FG_INGESTER_PATH\\\"?"));
    assert_string_equal(values.path, "q");
    (void)close(fds[0]);
    (void)close(fds[1]);
}

static void a_failed_value_changes_nothing(void **state)
{
    (void)state;
    load_defaults();
    assert_int_equal(parse("port: 70000"), FG_E_INVALID);
    assert_int_equal(values.port, 4040);
    assert_int_equal(parse("ingester: {path: ''}"), FG_E_INVALID);
    assert_string_equal(values.path, "data");
}

static void assert_text(const struct fg_buf *buf, const char *want)
{
    char *text = fg_calloc(buf->len + 1, 1);

    assert_false(buf->full);
    memcpy(text, buf->ptr, buf->len);
    assert_string_equal(text, want);
    free(text);
}

static void yaml_of_the_running_values(void **state)
{
    struct fg_buf out;

    (void)state;
    load_defaults();
    assert_int_equal(parse("log: {token: hidden}"), FG_OK);
    fg_buf_init(&out, 4096);
    fg_conf_write_yaml(&conf, &out);
    assert_text(&out, "port: 4040\n"
                      "ingester:\n"
                      "  head_max_bytes: 512MiB\n"
                      "  delay: 2ms\n"
                      "  ratio: 0.5\n"
                      "  fsync: true\n"
                      "  path: \"data\"\n"
                      "log:\n"
                      "  level: info\n"
                      "  rules: \"\"\n"
                      "  token: \"***\"\n"
                      "store.cache:\n"
                      "  bytes: 1GiB\n");
    fg_buf_done(&out);
}

static void put_setting(void *arg, const struct fg_conf_setting *setting)
{
    fg_buf_printf(arg, "%.*s=%.*s%s\n", FG_S(setting->name), FG_S(setting->value),
                  setting->differs ? " differs" : "");
}

static void settings_one_at_a_time(void **state)
{
    struct fg_buf out;

    (void)state;
    load_defaults();
    assert_int_equal(parse("log: {token: hidden, level: warn}\nstore: {cache: {bytes: 1024MiB}}\n"
                           "ingester: {path: other, ratio: 0.50, delay: 3ms}"),
                     FG_OK);
    fg_buf_init(&out, 4096);
    fg_conf_each(&conf, put_setting, &out);
    assert_text(&out, "port=4040\n"
                      "ingester.head_max_bytes=512MiB\n"
                      "ingester.delay=3ms differs\n"
                      "ingester.ratio=0.5\n"
                      "ingester.fsync=true\n"
                      "ingester.path=other differs\n"
                      "log.level=warn differs\n"
                      "log.rules=\n"
                      "log.token=*** differs\n"
                      "store.cache.bytes=1GiB\n");
    fg_buf_done(&out);
}

static void written_yaml_reads_back(void **state)
{
    /* clang-format off */
    static const struct {
        uint64_t bytes;
        int64_t ns;
        double ratio;
        const char *path;
    } cases[] = {
        {UINT64_C(16777216), 0, 0, "plain"},
        {UINT64_C(16777217), 1, 1, "a: b # c"},
        {UINT64_MAX, 7 * 24 * FG_HOUR_NS, 0.1, "\"quotes\" and \\"},
        {UINT64_C(1) << 40, 7 * 24 * FG_HOUR_NS - 1, 1.0 / 3, "line\nend\ttab\x7f\x1b"},
        {UINT64_C(3) << 30, FG_HOUR_NS + 1, 1e-300, "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x94\xa5"},
        {UINT64_C(1024) * 16385, 999, 0.30000000000000004, "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\xef\xbf\xbf"},
        {UINT64_C(20000000), 1000, 5e-324, " null "},
    };
    /* clang-format on */

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_buf out;

        (void)clear(NULL);
        load_defaults();
        values.head_max_bytes = cases[i].bytes;
        values.delay_ns = cases[i].ns;
        values.ratio = cases[i].ratio;
        free(values.path);
        values.path = strdup(cases[i].path);
        fg_buf_init(&out, 4096);
        fg_conf_write_yaml(&conf, &out);
        (void)clear(NULL);
        load_defaults();
        if (fg_conf_parse_yaml(&conf, fg_buf_slice(&out), "f.yaml", &err) != FG_OK)
            fail_msg("%s", err.msg);
        assert_true(values.head_max_bytes == cases[i].bytes);
        assert_true(values.delay_ns == cases[i].ns);
        assert_double(values.ratio, cases[i].ratio);
        assert_string_equal(values.path, cases[i].path);
        fg_buf_done(&out);
    }
}

static void two_sections_of_one_name_are_written_once(void **state)
{
    struct fg_conf_section twice[] = {
        {"log", log_fields, 1, &values},
        {"", top_fields, 1, &values},
        {"log", cache_fields, 1, &values},
    };
    struct fg_conf both = {.sections = twice, .n_sections = 3};
    struct fg_buf out;

    (void)state;
    assert_int_equal(fg_conf_load(&both, NULL, NULL, NULL, 0, &err), FG_OK);
    fg_buf_init(&out, 4096);
    fg_conf_write_yaml(&both, &out);
    assert_text(&out, "log:\n  level: info\n  bytes: 1GiB\nport: 4040\n");
    assert_int_equal(fg_conf_parse_yaml(&both, fg_buf_slice(&out), "f.yaml", &err), FG_OK);
    fg_buf_done(&out);
}

static void docs_and_help(void **state)
{
    struct fg_conf two = {.sections = sections + 1, .n_sections = 2};
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, 4096);
    fg_conf_write_docs(&two, &out);
    assert_text(
        &out,
        "## ingester\n\n"
        "| Setting | Default | Values | Meaning |\n|---|---|---|---|\n"
        "| `ingester.head_max_bytes` | `512MiB` | bytes, at least 16MiB | Memory. |\n"
        "| `ingester.delay` | `2ms` | duration, at most 7d | Waits. |\n"
        "| `ingester.ratio` | `0.5` | number, at least 0, at most 1 | A part. |\n"
        "| `ingester.fsync` | `true` | true or false | Syncs. |\n"
        "| `ingester.path` | `data` | text, at least 1 bytes, at most 100 bytes | A folder. |\n"
        "\n## log\n\n"
        "| Setting | Default | Values | Meaning |\n|---|---|---|---|\n"
        "| `log.level` | `info` | debug\\|info\\|warn\\|error | Least. |\n"
        "| `log.rules` |  | YAML, at most 100 bytes | A list. |\n"
        "| `log.token` |  | secret, at most 20 bytes | Secret. |\n");
    fg_buf_clear(&out);
    two.n_sections = 1;
    fg_conf_write_help(&two, &out);
    assert_text(&out,
                "  --ingester.head_max_bytes  bytes, at least 16MiB (default 512MiB)\n"
                "      Memory.\n"
                "  --ingester.delay  duration, at most 7d (default 2ms)\n"
                "      Waits.\n"
                "  --ingester.ratio  number, at least 0, at most 1 (default 0.5)\n"
                "      A part.\n"
                "  --ingester.fsync  true or false (default true)\n"
                "      Syncs.\n"
                "  --ingester.path  text, at least 1 bytes, at most 100 bytes (default data)\n"
                "      A folder.\n");
    fg_buf_done(&out);
}

/* A list of the file, and the same as text: what is stored is YAML, on lines of its own or not. */
static void values_may_be_yaml(void **state)
{
    static const char list[] =
        "log:\n  rules:\n    - action: drop\n      \"regex\": 'a: b'\n    - [x]\n"
        "  level: warn\n";

    (void)state;
    assert_int_equal(fg_conf_parse_yaml(&conf, fg_cstr(list), "f.yaml", &err), FG_OK);
    assert_string_equal(values.rules, "- action: drop\n  \"regex\": 'a: b'\n- [x]\n");
    assert_int_equal(values.level, 2);
    assert_int_equal(
        fg_conf_parse_yaml(&conf, FG_LIT("log: {rules: '[{action: drop}]'}"), "f.yaml", &err),
        FG_OK);
    assert_string_equal(values.rules, "[{action: drop}]");
}

int main(void)
{
#define CLEARED(test) cmocka_unit_test_setup_teardown(test, clear, clear)
    const struct CMUnitTest tests[] = {
        CLEARED(defaults),
        CLEARED(yaml_sets_all_types),
        CLEARED(files_without_settings_are_fine),
        CLEARED(bad_yaml_says_where),
        CLEARED(settings_of_others_are_passed_over),
        CLEARED(others_have_no_flags),
        CLEARED(too_deep_and_too_large),
        CLEARED(values_may_be_yaml),
        CLEARED(sizes),
        CLEARED(durations),
        CLEARED(durations_have_years),
        CLEARED(bools),
        CLEARED(later_sources_win),
        CLEARED(files_that_cannot_be_read),
        CLEARED(environment_and_flags),
        CLEARED(unknown_variables_are_told_and_passed_over),
        CLEARED(a_failed_value_changes_nothing),
        CLEARED(yaml_of_the_running_values),
        CLEARED(settings_one_at_a_time),
        CLEARED(written_yaml_reads_back),
        CLEARED(two_sections_of_one_name_are_written_once),
        CLEARED(docs_and_help),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
