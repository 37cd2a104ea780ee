#include "proto/perf_script.h"
#include "tests/lib/batch_folded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static enum fg_code decode(struct fg_slice in, struct fg_arena *arena, struct fg_batch *batch,
                           struct fg_err *err)
{
    static struct fg_label labels[] = {{FG_LIT("__name__"), FG_LIT("file")},
                                       {FG_LIT("service_name"), FG_LIT("file")}};
    const struct fg_upload upload = {
        .labels = {labels, 2}, .time_ns = 5, .limits = FG_DECODE_LIMITS_DEFAULT};
    struct fg_decode_counts counts = {0};

    return fg_perf_script_decode(in, &upload, arena, batch, &counts, err);
}

/* Each type of the batch, and its stacks. */
static void assert_decodes(const char *in, const char *want)
{
    struct fg_arena *arena = fg_arena_create(1 << 24);
    struct fg_batch batch;
    struct fg_buf text;
    struct fg_err err;

    if (decode(fg_cstr(in), arena, &batch, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_true(fg_perf_script_is(fg_cstr(in)));
    fg_buf_init(&text, SIZE_MAX);
    for (uint32_t t = 0; t < batch.n_types; t++) {
        fg_buf_printf(&text, "%.*s/%.*s\n", FG_S(batch.types[t].type), FG_S(batch.types[t].unit));
        batch_folded(&batch, t, &text);
    }
    fg_buf_putc(&text, '\0');
    assert_string_equal((const char *)text.ptr, want);
    fg_buf_done(&text);
    fg_arena_destroy(arena);
}

static void samples_become_stacks(void **state)
{
    (void)state;
    assert_decodes("# captured on: today\n"
                   "\n"
                   "java 12688/12700 [002] 6544038.708352:     250000 cpu-clock:pppH: \n"
                   "\t    7f2c0a01b3c4 Interpreter+0x1c4 (/tmp/perf-12688.map)\n"
                   "\t    7f2c13f1d0aa [unknown] (/usr/lib/jvm/libjvm.so)\n"
                   "\n"
                   "java 12688/12700 [002] 6544038.718352:     250000 cpu-clock:pppH: \n"
                   "\t    7f2c0a01b3d0 Interpreter+0x1d0 (/tmp/perf-12688.map)\n"
                   "\t    7f2c13f1d0aa [unknown] (/usr/lib/jvm/libjvm.so)\n"
                   "\n",
                   "cpu-clock:pppH/samples\njava;[libjvm.so];Interpreter 2\n");
    /* A command of two words, symbols with blanks, brackets and a plus, files without a name. */
    assert_decodes("Web Content 7 1.5: cycles:\r\n"
                   " 0f std::map<a, b (*)(int)>::operator+(x)+0xa (/a (deleted))\r\n"
                   " 0e [unknown] ([kernel.kallsyms])\r\n"
                   " 0d [unknown] ([unknown])\r\n"
                   " 0d [unknown] (/tmp/b (deleted))\r\n"
                   " 0c main+1\r\n"
                   " 0b \r\n",
                   "cycles/samples\n"
                   "Web Content;[unknown];main+1;[b (deleted)];[unknown];[kernel.kallsyms];"
                   "std::map<a, b (*)(int)>::operator+(x) 1\n");
    /* Two events are two types; a sample ends where the next begins, or without a stack. */
    assert_decodes("a 1 1.0: x:\n"
                   " 0f f (m)\n"
                   "b 2 1.0: y:\n"
                   "\n"
                   "a 1 1.0: y:\n"
                   " 0f f (m)\n",
                   "x/samples\na;f 1\ny/samples\na;f 1\nb 1\n");
}

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"", "there is no sample"},
        {"main;work 3\n", "there is no sample"},
        {"7 1.0: x:\n", "there is no sample"},
        {"a 1 1.0: x:\n\n 0f f (m)\n", "line 3: neither"},
        {"a 1 1.0: x:\n zz f (m)\n", "line 2: neither"},
        {"a 1 1.0: x:\n 0f f (m)\nnothing\n", "line 3: neither"},
        {"a 1 1.0: x:\n 0f \xff (m)\n", "line 2: a frame's name is not UTF-8"},
        {"a 1 1.0: \xff:\n", "line 1: the name of an event"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(1 << 24);
        struct fg_batch batch;
        struct fg_err err = {0};

        print_message("  %zu\n", i);
        assert_int_equal(decode(fg_cstr(cases[i].in), arena, &batch, &err), FG_E_DECODE);
        if (strstr(err.msg, cases[i].want) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", err.msg, cases[i].want);
        fg_arena_destroy(arena);
    }
}

static void events_have_a_limit(void **state)
{
    struct fg_arena *arena = fg_arena_create(1 << 24);
    struct fg_batch batch;
    struct fg_err err;
    struct fg_buf in;

    (void)state;
    fg_buf_init(&in, SIZE_MAX);
    for (int i = 0; i < FG_PERF_EVENTS_MAX; i++)
        fg_buf_printf(&in, "a 1 1.0: e%d:\n\n", i);
    assert_int_equal(decode(fg_buf_slice(&in), arena, &batch, &err), FG_OK);
    assert_int_equal(batch.n_types, FG_PERF_EVENTS_MAX);
    fg_buf_puts(&in, "a 1 1.0: another:\n");
    assert_int_equal(decode(fg_buf_slice(&in), arena, &batch, &err), FG_E_DECODE);
    assert_non_null(strstr(err.msg, "more than 16 events"));
    fg_buf_done(&in);
    fg_arena_destroy(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_become_stacks),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(events_have_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
