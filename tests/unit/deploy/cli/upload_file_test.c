#include "deploy/cli/upload_file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void formats_are_found(void **state)
{
    static const struct {
        const char *path;
        struct fg_slice content;
        const char *want;
    } cases[] = {
        {"-", {(const uint8_t *)"\x1f\x8b\x08", 3}, "pprof"},
        {"-", {(const uint8_t *)"\n\4\10\1\20\0", 6}, "pprof"},
        {"-", {(const uint8_t *)"main;work 30\n", 13}, "folded"},
        {"-", {NULL, 0}, "folded"},
        {"profile.pb.gz", {(const uint8_t *)"\x1f\x8b\x08", 3}, "pprof"},
        {"rec.jfr", {(const uint8_t *)"\x1f\x8b\x08", 3}, "jfr"},
        {"cpu.pb", {(const uint8_t *)"\n\4\10\1", 4}, "pprof"},
        {"cpu.pprof", {(const uint8_t *)"\n\4\10\1", 4}, "pprof"},
        {"a.lines", {(const uint8_t *)"a;b\n", 4}, "lines"},
        {"a.folded", {(const uint8_t *)"a;b 1\n", 6}, "folded"},
        {"out.txt", {(const uint8_t *)"a;b 1\n", 6}, "folded"},
        {"stacks", {(const uint8_t *)"a;b 1\n", 6}, "folded"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        print_message("  %s %zu\n", cases[i].path, i);
        assert_string_equal(cli_upload_file_format(cases[i].path, cases[i].content), cases[i].want);
        assert_true(cli_upload_file_is_format(cases[i].want));
    }
    assert_false(cli_upload_file_is_format("xml"));
}

static void files_are_read_whole(void **state)
{
    static const char path[] = FG_SOURCE_DIR "/LICENSE";
    struct fg_buf out;
    struct fg_err err;

    (void)state;
    fg_buf_init(&out, 1 << 20);
    assert_int_equal(cli_upload_file_read(path, &out, &err), FG_OK);
    assert_true(out.len > 500);
    fg_buf_done(&out);
    fg_buf_init(&out, 100);
    assert_int_equal(cli_upload_file_read(path, &out, &err), FG_E_LIMIT);
    fg_buf_done(&out);
    fg_buf_init(&out, 100);
    assert_int_not_equal(cli_upload_file_read(FG_SOURCE_DIR "/nowhere", &out, &err), FG_OK);
    assert_int_not_equal(cli_upload_file_read(FG_SOURCE_DIR, &out, &err), FG_OK); /* a folder */
    fg_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_found),
        cmocka_unit_test(files_are_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
