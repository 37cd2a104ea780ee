/* Hostile recordings: each ends soon, and within the memory of one upload. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Classes without bytes in classes without bytes: 200 fields of 200 fields of 200 fields ... */
static void composites_without_bytes_are_bounded(void **state)
{
    static char fields[8][200 * 5];
    struct jfr_make_class classes[11] = {{11, "long", ""},
                                         {50, "jdk.ExecutionSample", "x:C0 state:C0*"}};
    static const char *const names[] = {"C0", "C1", "C2", "C3", "C4", "C5", "C6", "C7"};
    struct jfr_make make;

    (void)state;
    for (size_t c = 0; c < 8; c++) {
        size_t len = 0;

        for (unsigned f = 0; f < 200 && c < 7; f++)
            len += (size_t)snprintf(fields[c] + len, sizeof fields[c] - len, "%sf:%s",
                                    f == 0 ? "" : " ", names[c + 1]);
        classes[2 + c] = (struct jfr_make_class){100 + c, names[c], fields[c]};
    }
    jfr_make_init_of(&make, classes);
    jfr_make_begin(&make, 50);
    jfr_make_long(&make, 1);
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    run_check_error(&make, FG_E_DECODE, "jdk.ExecutionSample cannot be read");
}

/* Arrays as long as what is left of the chunk, of elements that take no bytes. */
static void arrays_of_empty_composites_are_bounded(void **state)
{
    static const struct jfr_make_class classes[] = {
        {11, "long", ""},
        {12, "Empty", ""},
        {13, "Hollow", "a:Empty b:Empty"},
        {50, "jdk.ExecutionSample", "x:Hollow[] state:long"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init_of(&make, classes);
    for (unsigned i = 0; i < 200; i++) {
        jfr_make_begin(&make, 50);
        jfr_make_int(&make, 20000);
        for (unsigned n = 0; n < 20000; n++)
            jfr_make_byte(&make, 1);
        jfr_make_end(&make);
    }
    jfr_make_chunk_end(&make);
    run_check(&make, "");
}

/* A stack whose frames are stacks: what a frame calls its method is no place of frames. */
static void stacks_of_stacks_are_empty(void **state)
{
    static const struct jfr_make_class classes[] = {
        {11, "long", ""},
        {JFR_MAKE_STACK, "jdk.types.StackTrace", "frames:jdk.types.StackTrace[] method:long"},
        {JFR_MAKE_LIVE, "profiler.LiveObject", "stackTrace:jdk.types.StackTrace*"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init_of(&make, classes);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_long(&make, 1);
    jfr_make_int(&make, 1); /* a frame: no frames, method 70 */
    jfr_make_int(&make, 0);
    jfr_make_long(&make, 70);
    jfr_make_long(&make, 71);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_check(&make, "# memory:live:count:objects:count {" SHOP " 1\n");
}

/* Very many methods of a class whose name is very long. */
static void long_names_end(void **state)
{
    enum { METHODS = 20000, NAME_BYTES = 60000 };
    struct fg_buf frames, name;
    struct jfr_make make;
    struct run run;

    (void)state;
    fg_buf_init(&frames, SIZE_MAX);
    fg_buf_init(&name, SIZE_MAX);
    for (uint64_t i = 0; i < METHODS; i++) {
        const uint64_t frame[] = {i + 10, 1};

        fg_buf_append(&frames, frame, sizeof frame);
    }
    for (unsigned i = 0; i < NAME_BYTES; i++)
        fg_buf_putc(&name, 'x');
    fg_buf_putc(&name, '\0');
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 4);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 1);
    jfr_make_symbol(&make, 7, (const char *)name.ptr);
    jfr_make_pool(&make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(&make, 7, 7);
    jfr_make_pool(&make, JFR_MAKE_METHOD, METHODS);
    for (uint64_t i = 0; i < METHODS; i++)
        jfr_make_method(&make, i + 10, 7, 3);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_stack(&make, 7, (const uint64_t *)(const void *)frames.ptr, METHODS);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=7");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run_expect_error(&run, jfr_make_slice(&make), FG_E_TOO_LARGE, "strings add up");
    assert_true(run.used_bytes < 8 * 1024 * 1024);
    run_done(&run);
    fg_buf_done(&frames);
    fg_buf_done(&name);
    jfr_make_done(&make);
}

/* Settings that name a long constant again and again. */
static void long_settings_end(void **state)
{
    struct fg_buf name;
    struct jfr_make make;

    (void)state;
    fg_buf_init(&name, SIZE_MAX);
    for (unsigned i = 0; i < 1 << 20; i++)
        fg_buf_putc(&name, 'x');
    fg_buf_putc(&name, '\0');
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STRING, 1);
    jfr_make_named(&make, 1, (const char *)name.ptr);
    jfr_make_end(&make);
    for (unsigned i = 0; i < 1000; i++) {
        jfr_make_begin(&make, JFR_MAKE_SETTING);
        jfr_make_long(&make, 1);
        jfr_make_long(&make, 1);
        jfr_make_byte(&make, 2);
        jfr_make_long(&make, 1);
        jfr_make_byte(&make, 0);
        jfr_make_end(&make);
    }
    jfr_make_chunk_end(&make);
    fg_buf_done(&name);
    run_check_error(&make, FG_E_TOO_LARGE, "strings add up");
}

/* Thousands of chunks: what one costs must not depend on those before it. */
static void many_chunks_use_little_memory(void **state)
{
    struct jfr_make make;
    struct fg_buf many;
    struct run run;

    (void)state;
    fg_buf_init(&many, SIZE_MAX);
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    run.arena_max_bytes = run.used_bytes + 4096;
    for (unsigned i = 0; i < 2000; i++)
        fg_buf_put(&many, jfr_make_slice(&make));
    run_expect_text(&run, fg_buf_slice(&many),
                    "# memory:live:count:objects:count {" SHOP "A.main;A.work 2000\n");
    fg_buf_done(&many);
    run_done(&run);
    jfr_make_done(&make);
}

/* With any less memory than it takes there is an error, and nothing is handed over. */
static void the_arena_is_the_limit(void **state)
{
    struct jfr_make make;
    struct run run;
    size_t need;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=wall");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    need = run.used_bytes;
    for (run.arena_max_bytes = 0; run.arena_max_bytes < need; run.arena_max_bytes += 16)
        run_expect_error(&run, jfr_make_slice(&make), FG_E_TOO_LARGE, "");
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    run_done(&run);
    jfr_make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composites_without_bytes_are_bounded),
        cmocka_unit_test(arrays_of_empty_composites_are_bounded),
        cmocka_unit_test(stacks_of_stacks_are_empty),
        cmocka_unit_test(long_names_end),
        cmocka_unit_test(long_settings_end),
        cmocka_unit_test(many_chunks_use_little_memory),
        cmocka_unit_test(the_arena_is_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
