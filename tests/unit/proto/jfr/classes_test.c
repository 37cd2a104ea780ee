/* Classes that are not the usual ones: the reader goes by what a recording says of itself. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Everything the format has, in the way of what is wanted. */
static const struct jfr_make_class odd_classes[] = {
    {1001, "boolean", ""},
    {1002, "char", ""},
    {1003, "float", ""},
    {1004, "double", ""},
    {1005, "byte", ""},
    {1006, "short", ""},
    {1007, "int", ""},
    {1008, "long", ""},
    {1009, "java.lang.String", ""},
    {2000, "Inner", "a:long b:java.lang.String c:Empty d:short[]"},
    {2001, "Empty", ""},
    {2002, "Outer", "x:Inner y:Inner[] z:Empty[]"},
    {JFR_MAKE_STACK, "jdk.types.StackTrace",
     "frames:jdk.types.StackFrame[] truncated:boolean more:Outer"},
    {2004, "jdk.types.StackFrame",
     "odd:Inner lineNumber:short note:java.lang.String method:jdk.types.Method* tail:Outer"},
    {JFR_MAKE_METHOD, "jdk.types.Method", "odd:Outer name:long hidden:boolean type:int f:float"},
    {JFR_MAKE_CLASS, "java.lang.Class", "f:float d:double name:jdk.types.Symbol* c:char"},
    {JFR_MAKE_SYMBOL, "jdk.types.Symbol", "f:float[] string:java.lang.String d:double[]"},
    {JFR_MAKE_STATE, "jdk.types.ThreadState", "b:byte name:java.lang.String"},
    {JFR_MAKE_EXECUTION, "jdk.ExecutionSample",
     "one:Outer state:byte two:boolean[] three:java.lang.String[] stackTrace:jdk.types.StackTrace* "
     "four:double five:float six:char seven:short eight:Empty nine:long[]"},
    {0, NULL, NULL},
};

static void put_inner(struct jfr_make *make)
{
    jfr_make_long(make, UINT64_MAX);
    jfr_make_utf8(make, "text");
    jfr_make_int(make, 0); /* d */
}

static void put_outer(struct jfr_make *make)
{
    put_inner(make);
    jfr_make_int(make, 2);
    put_inner(make);
    put_inner(make);
    jfr_make_int(make, 3); /* of nothing */
}

static void put_odd_frame(struct jfr_make *make, uint64_t method, uint8_t line)
{
    put_inner(make);
    if (make->fixed)
        jfr_make_byte(make, 0);
    jfr_make_byte(make, line);
    jfr_make_utf8(make, NULL);
    jfr_make_long(make, method);
    put_outer(make);
}

static void put_odd_constants(struct jfr_make *make)
{
    jfr_make_constants(make, 5);
    jfr_make_pool(make, JFR_MAKE_STACK, 1);
    jfr_make_long(make, 1);
    jfr_make_int(make, 2);
    put_odd_frame(make, 5, 17);
    put_odd_frame(make, 5, 18);
    jfr_make_byte(make, 1);
    put_outer(make);
    jfr_make_pool(make, JFR_MAKE_METHOD, 1);
    jfr_make_long(make, 5);
    put_outer(make);
    jfr_make_long(make, 6);
    jfr_make_byte(make, 1);
    jfr_make_int(make, 7);
    for (unsigned i = 0; i < 4; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_pool(make, JFR_MAKE_CLASS, 1);
    jfr_make_long(make, 7);
    for (unsigned i = 0; i < 12; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_long(make, 8);
    if (make->fixed)
        jfr_make_byte(make, 0);
    jfr_make_byte(make, 'c');
    jfr_make_pool(make, JFR_MAKE_SYMBOL, 2);
    for (unsigned id = 6; id <= 8; id += 2) {
        jfr_make_long(make, id);
        jfr_make_int(make, 1);
        for (unsigned i = 0; i < 4; i++)
            jfr_make_byte(make, 0xff);
        jfr_make_utf8(make, id == 6 ? "run" : "java/lang/Thread");
        jfr_make_int(make, 0);
    }
    jfr_make_pool(make, JFR_MAKE_STATE, 1);
    jfr_make_long(make, 200);
    jfr_make_byte(make, 0xff);
    jfr_make_utf8(make, "STATE_RUNNABLE");
    jfr_make_end(make);
}

static void put_odd_event(struct jfr_make *make)
{
    jfr_make_begin(make, JFR_MAKE_EXECUTION);
    put_outer(make);
    jfr_make_byte(make, 200);
    jfr_make_int(make, 3);
    for (unsigned i = 0; i < 3; i++)
        jfr_make_byte(make, 0xff);
    jfr_make_int(make, 2);
    jfr_make_utf8(make, "a string");
    jfr_make_utf8(make, NULL);
    jfr_make_long(make, 1);
    /* What follows is not looked at: the event's size is enough. */
    jfr_make_end(make);
}

static void fields_are_found_by_name(void **state)
{
    (void)state;
    for (unsigned fixed = 0; fixed < 2; fixed++) {
        struct jfr_make make;

        jfr_make_init(&make);
        make.classes = odd_classes;
        make.fixed = fixed;
        jfr_make_chunk(&make);
        put_odd_event(&make);
        put_odd_constants(&make);
        jfr_make_metadata(&make);
        put_odd_event(&make);
        jfr_make_chunk_end(&make);
        run_check(&make, "# " CPU " {" SHOP "java/lang/Thread.run;java/lang/Thread.run 20000000\n");
    }
}

/* Fields that have the right name and are something else are as if they were not there. */
static void fields_of_other_kinds_are_not_taken(void **state)
{
    static const struct jfr_make_class classes[] = {
        {10, "int", ""},
        {11, "long", ""},
        {20, "java.lang.String", ""},
        {21, "Pair", "a:long b:long"},
        {JFR_MAKE_STATE, "jdk.types.ThreadState", "name:long"},
        {JFR_MAKE_STACK, "jdk.types.StackTrace", "frames:long[]"},
        {JFR_MAKE_WALL_CLOCK, "profiler.WallClockSample",
         "stackTrace:Pair samples:long[] contextId:java.lang.String"},
        {JFR_MAKE_EXECUTION, "jdk.ExecutionSample", "stackTrace:jdk.types.StackTrace* state:long"},
        {JFR_MAKE_SETTING, "jdk.ActiveSetting", "name:long value:long"},
        {0, NULL, NULL},
    };
    struct jfr_make make;

    (void)state;
    jfr_make_init_of(&make, classes);
    jfr_make_constants(&make, 2);
    jfr_make_pool(&make, JFR_MAKE_STATE, 1);
    jfr_make_long(&make, 1);
    jfr_make_long(&make, 99);
    jfr_make_pool(&make, JFR_MAKE_STACK, 1);
    jfr_make_long(&make, 1);
    jfr_make_int(&make, 0);
    jfr_make_end(&make);
    jfr_make_event(&make, JFR_MAKE_SETTING, "");
    jfr_make_event(&make, JFR_MAKE_WALL_CLOCK, "");
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_chunk_end(&make);
    run_check(&make, "# " CPU " {" SHOP " 10000000\n# " WALL " {" SHOP " 10000000\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_found_by_name),
        cmocka_unit_test(fields_of_other_kinds_are_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
