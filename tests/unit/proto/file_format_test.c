#include "proto/file_format.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void formats_are_found(void **state)
{
    static const struct {
        const char *name, *content;
        size_t len;
        enum fg_file_format want;
    } cases[] = {
        {"-", "\x1f\x8b\x08", 3, FG_FILE_PPROF},
        {"-", "\x28\xb5\x2f\xfd\x04", 5, FG_FILE_PPROF},
        {"-", "\n\4\10\1\20\0", 6, FG_FILE_PPROF},
        {"-", "main;work 30\n", 13, FG_FILE_FOLDED},
        {"-", "", 0, FG_FILE_FOLDED},
        {"-", "\r\n {\"$schema\":1}", 16, FG_FILE_SPEEDSCOPE},
        {"-", "FLR\0\0\2", 6, FG_FILE_JFR},
        {"recording.bin", "FLR\0\0\2", 6, FG_FILE_JFR},
        {"cpu.pb", "FLR\0\0\2", 6, FG_FILE_JFR},
        {"cpu.pb", "FLR", 3, FG_FILE_PPROF},
        {"profile.pb.gz", "\x1f\x8b\x08", 3, FG_FILE_PPROF},
        {"rec.jfr", "\x1f\x8b\x08", 3, FG_FILE_JFR},
        {"rec.jfr.gz", "\x1f\x8b\x08", 3, FG_FILE_JFR},
        {"a.folded.gz", "\x1f\x8b\x08", 3, FG_FILE_FOLDED},
        {"a.tree.zst", "\x28\xb5\x2f\xfd\x04", 5, FG_FILE_TREE},
        {"cpu.pb", "\n\4\10\1", 4, FG_FILE_PPROF},
        {"CPU.PB", "text", 4, FG_FILE_PPROF},
        {"cpu.pprof", "\n\4\10\1", 4, FG_FILE_PPROF},
        {"a.lines", "a;b\n", 4, FG_FILE_LINES},
        {"a.folded", "a;b 1\n", 6, FG_FILE_FOLDED},
        {"a.collapsed", "a;b 1\n", 6, FG_FILE_FOLDED},
        {"a.trie", "\0\0\0", 3, FG_FILE_TRIE},
        {"a.speedscope.json", "[]", 2, FG_FILE_SPEEDSCOPE},
        {"out.txt", "a;b 1\n", 6, FG_FILE_FOLDED},
        {"stacks", "a;b 1\n", 6, FG_FILE_FOLDED},
        {".gz", "a;b 1\n", 6, FG_FILE_FOLDED},
        {"-", "{\"version\":1,\"flamebearer\":{}}", 30, FG_FILE_FLAMEBEARER},
        {"a.json", "{\"flamebearer\":{}}", 18, FG_FILE_FLAMEBEARER},
        {"a.json", "{\"profiles\":{\"flamebearer\":1}}", 32, FG_FILE_SPEEDSCOPE},
        {"a.json", "{\"flamebearer", 13, FG_FILE_SPEEDSCOPE},
        {"-", "# captured\n\na b 7/8 1.5: 10 cycles:\n\t0f f (m)\n", 46, FG_FILE_PERF_SCRIPT},
        {"out.txt", "a 7 1.5: cycles:\n", 17, FG_FILE_PERF_SCRIPT},
        {"out.folded", "a 7 1.5: cycles:\n", 17, FG_FILE_FOLDED},
        {"a.perf_script", "", 0, FG_FILE_PERF_SCRIPT},
        {"-", "7 cycles:\n", 10, FG_FILE_FOLDED},
        {"-", "main;work: 7\n", 13, FG_FILE_FOLDED},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s %zu\n", cases[i].name, i);
        assert_int_equal(
            fg_file_format_find(fg_cstr(cases[i].name), fg_bytes(cases[i].content, cases[i].len)),
            cases[i].want);
    }
}

static void names_lead_back(void **state)
{
    enum fg_file_format found;

    (void)state;
    for (unsigned i = FG_FILE_PPROF; i <= FG_FILE_SPEEDSCOPE; i++) {
        assert_true(fg_file_format_parse(fg_cstr(fg_file_format_name(i)), &found));
        assert_int_equal(found, i);
    }
    assert_true(fg_file_format_parse(FG_LIT("groups"), &found));
    assert_int_equal(found, FG_FILE_FOLDED);
    assert_false(fg_file_format_parse(FG_LIT("xml"), &found));
    assert_false(fg_file_format_parse(FG_LIT(""), &found));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_found),
        cmocka_unit_test(names_lead_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
