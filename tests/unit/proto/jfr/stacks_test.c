/* Stacks: what is in them, what they are made of, how long they may be. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void missing_parts_are_left_out(void **state)
{
    static const uint64_t frames[] = {2, UINT32_MAX, 99, 7, 8, 7, 9, 7, 1, 0};
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 5, frames, 5);
    jfr_make_stack(&make, 6, frames, 0);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 2);
    jfr_make_method(&make, 8, 77, 3); /* of no class */
    jfr_make_method(&make, 9, 1, 78); /* without a name */
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=6"); /* no frames */
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=0"); /* none */
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=4"); /* not there */
    jfr_make_chunk_end(&make);
    run_check(&make, "# memory:live:count:objects:count {" SHOP " 3\nA.main;A.;A.work 1\n");
}

/* What async-profiler records of native code has a class without a name. */
static void a_frame_without_a_class_has_no_leading_dot(void **state)
{
    static const uint64_t frames[] = {2, 20, 8, 0, 9, 0};
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 4);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_stack(&make, 5, frames, 3);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 2);
    jfr_make_method(&make, 8, 7, 30);
    jfr_make_method(&make, 9, 7, 31);
    jfr_make_pool(&make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(&make, 7, 32);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 3);
    jfr_make_symbol(&make, 30, "__libc_start_main");
    jfr_make_symbol(&make, 31, ".plt");
    jfr_make_symbol(&make, 32, "");
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_chunk_end(&make);
    run_check(&make,
              "# memory:live:count:objects:count {" SHOP ".plt;__libc_start_main;A.work 1\n");
}

static enum fg_code look_at_lines(struct fg_batch *batch, void *arg, struct fg_err *err)
{
    uint32_t *n = arg;

    (void)err;
    assert_int_equal(batch->n_mappings, 1);
    assert_int_equal(batch->mappings[0].flags, FG_MAPPING_FUNCTIONS);
    for (uint32_t i = 0; i < batch->n_locations; i++) {
        const struct fg_line *line = &batch->lines[batch->locations[i].first_line];

        assert_int_equal(batch->locations[i].n_lines, 1);
        assert_int_equal(batch->locations[i].mapping, 0);
        assert_int_equal(batch->functions[line->function].system_name.len, 0);
        assert_true(line->line == 10 || line->line == 20 || line->line == 0);
    }
    assert_int_equal(batch->n_functions, 2);
    assert_int_equal(batch->n_locations, 3);
    assert_int_equal(batch->profiles[0].n_samples, 3);
    (*n)++;
    return FG_OK;
}

/* Stacks are told apart by lines; a negative line is none. */
static void lines_are_kept(void **state)
{
    static const uint64_t frames[] = {2, UINT32_MAX, 1, 10};
    struct fg_arena *arena = fg_arena_create(RUN_ARENA_MAX_BYTES);
    struct fg_decode_counts counts = {0};
    struct jfr_make make;
    struct run run;
    struct fg_err err;
    uint32_t n = 0;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 5, frames, 2);
    jfr_make_stack(&make, 6, frames + 2, 1);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=6");
    jfr_make_chunk_end(&make);
    run_init(&run);
    assert_int_equal(
        fg_jfr_decode(jfr_make_slice(&make), &run.request, arena, look_at_lines, &n, &counts, &err),
        FG_OK);
    assert_int_equal(n, 1);
    run_done(&run);
    jfr_make_done(&make);
    fg_arena_destroy(arena);
}

static void names_are_cleaned_and_text(void **state)
{
    static const uint64_t frames[] = {5, 1, 6, 1, 7, 1, 8, 1};
    static const char utf16[] = {4, 3, 'n', '\xe9', 1, '\xac', '\x41'}; /* n, e acute, euro sign */
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 5);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_stack(&make, 5, frames, 4);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 4);
    jfr_make_method(&make, 5, 5, 11);
    jfr_make_method(&make, 6, 2, 12);
    jfr_make_method(&make, 7, 2, 13);
    jfr_make_method(&make, 8, 2, 14);
    jfr_make_pool(&make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(&make, 5, 10);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 5);
    jfr_make_symbol(&make, 10, "App$$Lambda$71.0x00007fa86c086f18");
    jfr_make_long(&make, 11); /* Latin-1 */
    jfr_make_byte(&make, 5);
    jfr_make_int(&make, 2);
    jfr_make_byte(&make, 'l');
    jfr_make_byte(&make, 0xe9);
    jfr_make_long(&make, 12); /* UTF-16 */
    for (size_t i = 0; i < sizeof utf16; i++)
        jfr_make_byte(&make, (uint8_t)utf16[i]);
    jfr_make_long(&make, 13); /* a constant */
    jfr_make_byte(&make, 2);
    jfr_make_long(&make, 500);
    jfr_make_symbol(&make, 14, "not\xff text"); /* and not UTF-8 either */
    jfr_make_pool(&make, JFR_MAKE_STRING, 1);
    jfr_make_named(&make, 500, "constant");
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=5");
    jfr_make_chunk_end(&make);
    run_check(&make,
              "# memory:live:count:objects:count {" SHOP
              "B.not\xef\xbf\xbd text;B.constant;B.n\xc3\xa9\xe2\x82\xac;App$$Lambda_.l\xc3\xa9 "
              "1\n");
}

static void limits_hold(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=2");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.upload.limits.stack_depth_max = 2;
    run_expect_text(&run, jfr_make_slice(&make),
                    "# memory:live:count:objects:count {" SHOP "A.main;A.work 2\n");
    assert_int_equal(run.counts.stacks_cut, 1);
    run.request.upload.limits.stack_depth_max = 0;
    run.request.upload.limits.symbol_max_bytes = 5;
    run_expect_text(&run, jfr_make_slice(&make),
                    "# memory:live:count:objects:count {" SHOP
                    ".main;.work 1\n.main;.work;.leaf 1\n");
    assert_int_equal(run.counts.symbols_cut, 3);
    run.request.upload.limits.symbol_max_bytes = 0;
    run.request.upload.limits.samples_max = 2;
    assert_int_equal(run_decode(&run, jfr_make_slice(&make)), FG_OK);
    run.request.upload.limits.samples_max = 1;
    run_expect_error(&run, jfr_make_slice(&make), FG_E_INVALID,
                     "samples count limit (max_profile_stacktrace_samples, actual: 2, limit: 1)");
    run_done(&run);
    jfr_make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_parts_are_left_out),
        cmocka_unit_test(a_frame_without_a_class_has_no_leading_dot),
        cmocka_unit_test(lines_are_kept),
        cmocka_unit_test(names_are_cleaned_and_text),
        cmocka_unit_test(limits_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
