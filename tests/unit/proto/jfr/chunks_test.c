/* Chunks and their constants, in whatever order they come. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void constants_may_come_last(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    jfr_make_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=cpu");
    jfr_make_usual_constants(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
    jfr_make_metadata(&make);
    jfr_make_chunk_end(&make);
    run_check(&make,
              "# " CPU " " JFR("cpu") "A.main;A.work 10000000\nA.main;A.work;B.leaf 10000000\n");
}

/* As the JDK writes: what one event with constants needs is in another, and some come twice. */
static void constants_may_be_spread(void **state)
{
    static const uint64_t frames[] = {7, 1};
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STACK, 2);
    jfr_make_stack(&make, 900, frames, 1);
    jfr_make_stack(&make, 1, frames, 1); /* was there: the first counts */
    jfr_make_pool(&make, JFR_MAKE_STATE, 0);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=900 state=1");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_METHOD, 1);
    jfr_make_method(&make, 7, 2, 66000);
    jfr_make_end(&make);
    jfr_make_constants(&make, 1);
    jfr_make_pool(&make, JFR_MAKE_SYMBOL, 1);
    jfr_make_symbol(&make, 66000, "late");
    jfr_make_end(&make);
    jfr_make_chunk_end(&make);
    run_check(&make, "# " CPU " {" SHOP "A.main;A.work 10000000\nB.late 10000000\n");
}

/* A chunk whose constants have the same ids as the usual ones and mean something else. */
static void other_chunk(struct jfr_make *make, const char *method)
{
    static const uint64_t frames[] = {1, 5};

    jfr_make_chunk(make);
    jfr_make_metadata(make);
    jfr_make_constants(make, 4);
    jfr_make_pool(make, JFR_MAKE_STACK, 1);
    jfr_make_stack(make, 1, frames, 1);
    jfr_make_pool(make, JFR_MAKE_METHOD, 1);
    jfr_make_method(make, 1, 2, 1);
    jfr_make_pool(make, JFR_MAKE_CLASS, 1);
    jfr_make_class_of(make, 2, 2);
    jfr_make_pool(make, JFR_MAKE_SYMBOL, 2);
    jfr_make_symbol(make, 1, method);
    jfr_make_symbol(make, 2, "Z");
    jfr_make_end(make);
}

#define ALLOC JFR("alloc")

static void ids_are_valid_in_their_chunk_only(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=alloc");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    make.fixed = true;
    other_chunk(&make, "one");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=2");              /* not in this chunk */
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1"); /* no states either */
    jfr_make_chunk_end(&make);
    make.fixed = false;
    other_chunk(&make, "two");
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_LIVE, "stackTrace=1");
    jfr_make_chunk_end(&make);
    run_check(&make,
              "# " CPU " " ALLOC "A.main;A.work 10000000\n"
              "# memory:live:count:objects:count " ALLOC " 1\nA.main;A.work 2\nZ.one 1\nZ.two 1\n");
}

/* The wall rule of one chunk holds for the next until that has a setting, which is looked for. */
static void settings_outlive_their_chunk(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=wall");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=2");
    jfr_make_chunk_end(&make);
    jfr_make_usual_chunk(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=2");
    jfr_make_event(&make, JFR_MAKE_SETTING, "name=event value=cpu");
    jfr_make_chunk_end(&make);
    run_check(&make, "# " WALL " " JFR("cpu") "A.main;A.work 10000000\n");
}

static void empty_input_makes_no_profiles(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init(&make);
    run_check(&make, "");
    jfr_make_init(&make);
    jfr_make_chunk(&make);
    jfr_make_metadata(&make);
    jfr_make_chunk_end(&make);
    run_check(&make, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constants_may_come_last),
        cmocka_unit_test(constants_may_be_spread),
        cmocka_unit_test(ids_are_valid_in_their_chunk_only),
        cmocka_unit_test(settings_outlive_their_chunk),
        cmocka_unit_test(empty_input_makes_no_profiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
