#include "deploy/cli/args.h"
#include "deploy/cli/cli.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WORDS_MAX = 8 };

struct values {
    const char *name, *file;
    uint64_t limit;
    bool types;
};

typedef enum fg_code (*parser)(const struct cli_args_command *command, int argc, char **argv,
                               int *ret_words, struct fg_err *err);

/* line: the words of a command line, NULL after the last. */
static enum fg_code parse_by(parser by, const char *const *line, struct values *ret_values,
                             char **argv, int *ret_words, struct fg_err *err)
{
    static struct values values;
    static const struct cli_args_option options[] = {
        {"name", 'n', ARGS_TEXT, &values.name, "NAME", "", 0, 0},
        {"file", 'o', ARGS_TEXT, &values.file, "FILE", "", 0, 0},
        {"limit", 0, ARGS_NUMBER, &values.limit, "N", "", 1, 100},
        {"types", 0, ARGS_FLAG, &values.types, NULL, "", 0, 0},
    };
    static const struct cli_args_command command = {"test", "", "", "", options, FG_COUNT(options),
                                                    NULL};
    int argc = 0;

    values = (struct values){0};
    for (; line[argc] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)line[argc];
    enum fg_code code = by(&command, argc, argv, ret_words, err);
    *ret_values = values;
    return code;
}

static enum fg_code parse(const char *const *line, struct values *ret_values, char **argv,
                          int *ret_words, struct fg_err *err)
{
    return parse_by(cli_args_parse, line, ret_values, argv, ret_words, err);
}

static void options_may_stand_before_and_after_words(void **state)
{
    static const char *const line[] = {"a",         "--name", "x y",    "-", "-oout",
                                       "--limit=7", "--",     "--name", NULL};
    char *argv[FG_COUNT(line)];
    struct values values;
    struct fg_err err;
    int words;

    (void)state;
    assert_int_equal(parse(line, &values, argv, &words, &err), FG_OK);
    assert_int_equal(words, 3);
    assert_string_equal(argv[0], "a");
    assert_string_equal(argv[1], "-");
    assert_string_equal(argv[2], "--name");
    assert_string_equal(values.name, "x y");
    assert_string_equal(values.file, "out");
    assert_int_equal(values.limit, 7);
    assert_false(values.types);
}

/* Splits the line into words and settings, which have to be these. */
static void check_split(const char *const *line, const char *const *want, int want_words,
                        int want_settings, struct values *ret_values)
{
    static struct values values;
    static const struct cli_args_option options[] = {
        {"file", 'o', ARGS_TEXT, &values.file, "FILE", "", 0, 0},
        {"limit", 0, ARGS_NUMBER, &values.limit, "N", "", 1, 100},
        {"types", 't', ARGS_FLAG, &values.types, NULL, "", 0, 0},
    };
    static const struct cli_args_command command = {"test", "", "", "", options, FG_COUNT(options),
                                                    NULL};
    char *argv[WORDS_MAX * 2];
    int argc = 0, words, settings;
    struct fg_err err;

    values = (struct values){0};
    for (; line[argc] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)line[argc];
    assert_int_equal(cli_args_split(&command, argc, argv, &words, &settings, &err), FG_OK);
    assert_int_equal(words, want_words);
    assert_int_equal(settings, want_settings);
    for (int i = 0; i < words + settings; i++)
        assert_string_equal(argv[i], want[i]);
    *ret_values = values;
}

static void settings_go_behind_the_words_wherever_they_stand(void **state)
{
    static const struct {
        const char *line[WORDS_MAX * 2], *want[WORDS_MAX];
        int words, settings;
    } cases[] = {
        {{NULL}, {NULL}, 0, 0},
        {{"--data", "x", "-t", "ls", "a", NULL}, {"ls", "a", "--data", "x"}, 2, 2},
        {{"ls", "--config", "c", "a", "--bucket.type=s3", "-oout", "--limit", "7", NULL},
         {"ls", "a", "--config", "c", "--bucket.type=s3"},
         2,
         3},
        /* What begins with -- is no value: the settings say that one is missing. */
        {{"--data", "--other", "--types", "-", NULL}, {"-", "--data", "--other"}, 1, 2},
        {{"ls", "--data", NULL}, {"ls", "--data"}, 1, 1},
    };
    struct values values;

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++)
        check_split(cases[i].line, cases[i].want, cases[i].words, cases[i].settings, &values);
    check_split(cases[2].line, cases[2].want, 2, 3, &values);
    assert_string_equal(values.file, "out");
    assert_int_equal(values.limit, 7);
    assert_false(values.types);
}

static void an_option_without_its_value_is_an_error_among_settings(void **state)
{
    static uint64_t number;
    static const struct cli_args_option options[] = {
        {"limit", 0, ARGS_NUMBER, &number, "N", "", 1, 100},
    };
    static const struct cli_args_command command = {"test", "", "", "", options, 1, NULL};
    char other[] = "--other=1", limit[] = "--limit", *argv[] = {other, limit};
    struct fg_err err;
    int words, settings;

    (void)state;
    assert_int_equal(cli_args_split(&command, 2, argv, &words, &settings, &err), FG_E_INVALID);
    assert_string_equal(err.msg, "--limit needs a value: N");
}

struct test_verb {
    struct cli_args_verb verb;
    int number;
};

/* Options that no verb lists are those of all. */
static void verbs_take_their_own_options_and_words(void **state)
{
    static const struct test_verb rows[] = {
        {{"list", NULL, 0, 0, NULL, "lists\n"}, 1},
        {{"make", "ID [MORE]", 1, 2, "name size", "makes\n"}, 2},
    };
    static const struct cli_args_verbs verbs = CLI_ARGS_VERBS(rows);
    static const struct {
        const char *line[WORDS_MAX];
        int number; /* 0: refused */
    } cases[] = {
        {{"list", NULL}, 1},
        {{"--json", "list", NULL}, 1},
        {{"list", "a", NULL}, 0},
        {{"list", "--size", "1", NULL}, 0},
        {{"list", "--name=a", NULL}, 0},
        {{"make", NULL}, 0},
        {{"make", "a", NULL}, 2},
        {{"--size", "1", "make", "a", "--json", "b", NULL}, 2},
        {{"make", "a", "b", "c", NULL}, 0},
        {{"fake", NULL}, 0},
        {{NULL}, 0},
    };
    const char *name;
    uint64_t size;
    bool json;
    const struct cli_args_option options[] = {
        {"name", 'n', ARGS_TEXT, &name, "NAME", "", 0, 0},
        {"size", 0, ARGS_NUMBER, &size, "N", "", 1, 100},
        {"json", 0, ARGS_FLAG, &json, NULL, "", 0, 0},
    };
    const struct cli_args_command command = {"test", "", "", "", options, FG_COUNT(options),
                                             &verbs};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases) * 2; i++) {
        bool on_bucket = i % 2 == 1;
        const char *const *line = cases[i / 2].line;
        char *argv[WORDS_MAX];
        int argc = 0, words, settings, code;

        for (; line[argc] != NULL; argc++)
            argv[argc] = (char *)(uintptr_t)line[argc];
        const struct test_verb *verb =
            on_bucket ? cli_args_begin_on_bucket(&command, argc, argv, &words, &settings, &code)
                      : cli_args_begin_verb(&command, argc, argv, &words, &code);
        assert_int_equal(verb == NULL ? 0 : verb->number, cases[i / 2].number);
        if (verb == NULL)
            assert_int_equal(code, CLI_USAGE);
    }
}

static void option_values_may_be_joined_or_separate(void **state)
{
    static const struct {
        const char *line[WORDS_MAX], *name;
    } cases[] = {
        {{"--name", "a"}, "a"},
        {{"--name=a"}, "a"},
        {{"-n", "a"}, "a"},
        {{"-na"}, "a"},
        {{"--name="}, ""},
        {{"--name=a=b"}, "a=b"},
        {{"--name", "--file"}, "--file"}, /* a value may look like an option */
        {{"--name", "a", "--name", "b"}, "b"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char *argv[WORDS_MAX];
        struct values values;
        struct fg_err err;
        int words;

        print_message("  %s\n", cases[i].line[0]);
        assert_int_equal(parse(cases[i].line, &values, argv, &words, &err), FG_OK);
        assert_string_equal(values.name, cases[i].name);
        assert_int_equal(words, 0);
    }
}

static void errors_name_the_fault(void **state)
{
    static const struct {
        const char *line[WORDS_MAX], *want;
    } cases[] = {
        {{"--nmae", "x"}, "unknown option --nmae (did you mean --name?)"},
        {{"--whatever"}, "unknown option --whatever"},
        {{"-x"}, "unknown option -x"},
        {{"--name"}, "--name needs a value: NAME"},
        {{"-n"}, "--name needs a value: NAME"},
        {{"--types=yes"}, "--types takes no value"},
        {{"--limit", "0"}, "--limit 0: a number from 1 to 100 is needed"},
        {{"--limit", "101"}, "--limit 101: a number from 1 to 100 is needed"},
        {{"--limit", "many"}, "--limit many: a number from 1 to 100 is needed"},
        {{"--limit", "99999999999999999999"},
         "--limit 99999999999999999999: a number from 1 to 100 is needed"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char *argv[WORDS_MAX];
        struct values values;
        struct fg_err err;
        int words;

        assert_int_equal(parse(cases[i].line, &values, argv, &words, &err), FG_E_INVALID);
        assert_string_equal(err.msg, cases[i].want);
    }
}

/* Wrong arguments exit with 2 before anything is sent; every command has --help. */
static void wrong_arguments_exit_with_2_and_help_with_0(void **state)
{
    static const struct {
        int (*run)(int argc, char **argv);
        const char *line[WORDS_MAX];
        int want;
    } cases[] = {
        {cli_push, {"--help"}, CLI_OK},
        {cli_query, {"a", "--nonsense", "-h"}, CLI_OK},
        {cli_labels, {"--help"}, CLI_OK},
        {cli_push, {NULL}, CLI_USAGE},
        {cli_push, {"file"}, CLI_USAGE},
        {cli_push, {"file", "--name", "a", "--format", "xml"}, CLI_USAGE},
        {cli_push, {"file", "--name", "a", "--token", "a\nb: c"}, CLI_USAGE},
        {cli_query, {NULL}, CLI_USAGE},
        {cli_query, {"a", "b"}, CLI_USAGE},
        {cli_query, {"a{b=c}"}, CLI_USAGE},
        {cli_query, {"a", "--output", "png"}, CLI_USAGE},
        {cli_query, {"a", "--from", "now", "--until", "now-1h"}, CLI_USAGE},
        {cli_labels, {"a", "b"}, CLI_USAGE},
        {cli_labels, {"--types", "a"}, CLI_USAGE},
        {cli_labels, {"--match", "{"}, CLI_USAGE},
        {cli_push, {"/nowhere/to/be.found", "--name", "a"}, CLI_FAILED},
        {cli_labels, {"--url", "ftp://127.0.0.1"}, CLI_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        char *argv[WORDS_MAX];
        int argc = 0;

        for (; cases[i].line[argc] != NULL; argc++)
            argv[argc] = (char *)(uintptr_t)cases[i].line[argc];
        print_message("  %zu\n", i);
        assert_int_equal(cases[i].run(argc, argv), cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_may_stand_before_and_after_words),
        cmocka_unit_test(settings_go_behind_the_words_wherever_they_stand),
        cmocka_unit_test(an_option_without_its_value_is_an_error_among_settings),
        cmocka_unit_test(verbs_take_their_own_options_and_words),
        cmocka_unit_test(option_values_may_be_joined_or_separate),
        cmocka_unit_test(errors_name_the_fault),
        cmocka_unit_test(wrong_arguments_exit_with_2_and_help_with_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
