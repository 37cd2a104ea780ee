#include "deploy/cli/upload_file.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

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
        cmocka_unit_test(files_are_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
