/* What the events of a recording count for, and what its settings say of them. */
#include "tests/lib/jfr_make.h"
#include "tests/unit/proto/jfr/run.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* ---- the table of events ---- */

static const struct {
    const char *name;
    uint64_t class;
    const char *values, *want;
} events[] = {
    {"CPU", JFR_MAKE_EXECUTION, "stackTrace=1 state=1",
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"CPU of a thread in another state", JFR_MAKE_EXECUTION, "stackTrace=1 state=3",
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"a thread that sleeps", JFR_MAKE_EXECUTION, "stackTrace=1 state=2", ""},
    {"a thread in no state", JFR_MAKE_EXECUTION, "stackTrace=1 state=7", ""},
    {"wall clock", JFR_MAKE_WALL_CLOCK, "stackTrace=2 state=1 samples=3 timeSpan=9",
     "# " WALL " {" SHOP "A.main;A.work;B.leaf 30000000\n"},
    {"new TLAB", JFR_MAKE_IN_TLAB, "stackTrace=1 allocationSize=7 tlabSize=1048576",
     "# memory:alloc_in_new_tlab_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_in_new_tlab_bytes:bytes:space:bytes {" SHOP "A.main;A.work 1048576\n"},
    {"outside TLAB", JFR_MAKE_OUTSIDE_TLAB, "stackTrace=1 allocationSize=7",
     "# memory:alloc_outside_tlab_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_outside_tlab_bytes:bytes:space:bytes {" SHOP "A.main;A.work 7\n"},
    {"allocation sample", JFR_MAKE_ALLOC_SAMPLE, "stackTrace=1 weight=4294967296",
     "# memory:alloc_sample_objects:count:space:bytes {" SHOP "A.main;A.work 1\n"
     "# memory:alloc_sample_bytes:bytes:space:bytes {" SHOP "A.main;A.work 4294967296\n"},
    {"monitor", JFR_MAKE_MONITOR, "stackTrace=2 duration=12345",
     "# mutex:contentions:count:mutex:count {" SHOP "A.main;A.work;B.leaf 1\n"
     "# mutex:delay:nanoseconds:mutex:count {" SHOP "A.main;A.work;B.leaf 12345\n"},
    {"park", JFR_MAKE_PARK, "stackTrace=2 duration=54321 timeout=3",
     "# block:contentions:count:block:count {" SHOP "A.main;A.work;B.leaf 1\n"
     "# block:delay:nanoseconds:block:count {" SHOP "A.main;A.work;B.leaf 54321\n"},
    {"live object", JFR_MAKE_LIVE, "stackTrace=1 allocationSize=99",
     "# memory:live:count:objects:count {" SHOP "A.main;A.work 1\n"},
    {"malloc", JFR_MAKE_MALLOC, "stackTrace=1 size=512 address=7",
     "# memory:malloc_objects:count:: {" SHOP "A.main;A.work 1\n"
     "# memory:malloc_bytes:bytes:: {" SHOP "A.main;A.work 512\n"},
    {"nothing of ours", JFR_MAKE_OTHER, "startTime=7", ""},
};

static void each_kind_of_event_makes_its_profile(void **state)
{
    (void)state;
    for (unsigned fixed = 0; fixed < 2; fixed++) {
        for (size_t i = 0; i < FG_COUNT(events); i++) {
            struct jfr_make make;

            print_message("  %s%s\n", events[i].name, fixed ? ", numbers in full width" : "");
            jfr_make_init(&make);
            make.fixed = fixed;
            jfr_make_usual_chunk(&make);
            jfr_make_event(&make, events[i].class, events[i].values);
            jfr_make_chunk_end(&make);
            run_check(&make, events[i].want);
        }
    }
}

static void kinds_come_in_order_and_sums(void **state)
{
    struct jfr_make make;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=5");
    for (unsigned i = 0; i < 3; i++) {
        jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=2 state=1");
        jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1 startTime=77777777777");
    }
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=7");
    jfr_make_event(&make, JFR_MAKE_PARK, "stackTrace=1 duration=0x8000000000000000"); /* negative */
    jfr_make_chunk_end(&make);
    run_check(&make, "# " CPU " {" SHOP "A.main;A.work 30000000\nA.main;A.work;B.leaf 30000000\n"
                     "# block:contentions:count:block:count {" SHOP "A.main;A.work 2\n"
                     "# block:delay:nanoseconds:block:count {" SHOP "A.main;A.work 12\n");
}

static void the_rate_is_the_upload_s(void **state)
{
    struct jfr_make make;
    struct run run;

    (void)state;
    jfr_make_init_usual(&make);
    jfr_make_event(&make, JFR_MAKE_EXECUTION, "stackTrace=1 state=1");
    jfr_make_event(&make, JFR_MAKE_WALL_CLOCK, "stackTrace=1 state=1 samples=2");
    jfr_make_chunk_end(&make);
    run_init(&run);
    run.request.sample_rate = 1000;
    run_expect_text(&run, jfr_make_slice(&make),
                    "# " CPU " {" SHOP "A.main;A.work 1000000\n"
                    "# " WALL " {" SHOP "A.main;A.work 2000000\n");
    run.request.sample_rate = 0;
    run_expect_error(&run, jfr_make_slice(&make), FG_E_INVALID, "sampleRate is 0");
    run_done(&run);
    jfr_make_done(&make);
}

/* ---- settings ---- */

#define SETTING(value)                                                                             \
    {                                                                                              \
        JFR_MAKE_SETTING, "name=event value=" value                                                \
    }
#define EXECUTION(state)                                                                           \
    {                                                                                              \
        JFR_MAKE_EXECUTION, "stackTrace=1 state=" state                                            \
    }
#define CLOCK(state)                                                                               \
    {                                                                                              \
        JFR_MAKE_WALL_CLOCK, "stackTrace=1 samples=2 state=" state                                 \
    }

static const struct {
    const char *name;
    struct {
        uint64_t class;
        const char *values;
    } events[4];
    const char *want;
} settings[] = {
    {"the event is a label",
     {SETTING("itimer"), EXECUTION("1")},
     "# " CPU " " JFR("itimer") "A.main;A.work 10000000\n"},
    {"other settings are not",
     {{JFR_MAKE_SETTING, "name=interval value=10000000"}, EXECUTION("1")},
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"the last is the label of all",
     {SETTING("cpu"), EXECUTION("1"), SETTING("ctimer")},
     "# " CPU " " JFR("ctimer") "A.main;A.work 10000000\n"},
    {"an empty one is no label",
     {SETTING("cpu"), EXECUTION("1"), SETTING("")},
     "# " CPU " {" SHOP "A.main;A.work 10000000\n"},
    {"wall: a running thread is both",
     {SETTING("wall"), EXECUTION("1")},
     "# " CPU " " JFR("wall") "A.main;A.work 10000000\n# " WALL
                              " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: a sleeping thread",
     {SETTING("wall"), EXECUTION("2")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: a thread in no state",
     {SETTING("wall"), EXECUTION("9")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
    {"wall: clock of a running thread",
     {SETTING("wall"), CLOCK("1")},
     "# " CPU " " JFR("wall") "A.main;A.work 20000000\n# " WALL
                              " " JFR("wall") "A.main;A.work 20000000\n"},
    {"wall: clock of another thread",
     {SETTING("wall"), CLOCK("3")},
     "# " WALL " " JFR("wall") "A.main;A.work 20000000\n"},
    {"no more wall: what follows is CPU",
     {SETTING("wall"), EXECUTION("1"), SETTING("cpu"), EXECUTION("1")},
     "# " CPU " " JFR("cpu") "A.main;A.work 20000000\n# " WALL
                             " " JFR("cpu") "A.main;A.work 10000000\n"},
    {"the first holds for what stands before it",
     {EXECUTION("2"), SETTING("wall")},
     "# " WALL " " JFR("wall") "A.main;A.work 10000000\n"},
};

static void settings_say_what_samples_are(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(settings); i++) {
        struct jfr_make make;

        print_message("  %s\n", settings[i].name);
        jfr_make_init_usual(&make);
        for (size_t e = 0; e < 4 && settings[i].events[e].values != NULL; e++)
            jfr_make_event(&make, settings[i].events[e].class, settings[i].events[e].values);
        jfr_make_chunk_end(&make);
        run_check(&make, settings[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_event_makes_its_profile),
        cmocka_unit_test(kinds_come_in_order_and_sums),
        cmocka_unit_test(the_rate_is_the_upload_s),
        cmocka_unit_test(settings_say_what_samples_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
