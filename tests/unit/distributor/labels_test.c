#include "distributor/labels.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* clang-format off */
static const struct {
    const char *what;
    struct fg_label sent[3];
    uint64_t sessions_max;
    const char *want;
} cases[] = {
    {"nothing", {{FG_LIT(""), FG_LIT("")}}, 0, "{service_name=\"unknown_service\"}"},
    {"a service", {{FG_LIT("service_name"), FG_LIT("a")}}, 0, "{service_name=\"a\"}"},
    {"an empty one", {{FG_LIT("service_name"), FG_LIT("")}}, 0, "{service_name=\"unknown_service\"}"},
    {"no sessions", {{FG_LIT("__session_id__"), FG_LIT("77e425ea48b3919f")}}, 0, "{service_name=\"unknown_service\"}"},
    /* 0x9f91b348ea25e477 % 10  is 3 */
    {"sessions", {{FG_LIT("__session_id__"), FG_LIT("77e425ea48b3919f")}}, 10,
     "{__session_id__=\"0300000000000000\", service_name=\"unknown_service\"}"},
    {"one session", {{FG_LIT("__session_id__"), FG_LIT("77e425ea48b3919f")}}, 1,
     "{__session_id__=\"0000000000000000\", service_name=\"unknown_service\"}"},
    {"no session", {{FG_LIT("__session_id__"), FG_LIT("77e425ea48b3919")}}, 10, "{service_name=\"unknown_service\"}"},
    {"not hex", {{FG_LIT("__session_id__"), FG_LIT("77e425ea48b3919x")}}, 10, "{service_name=\"unknown_service\"}"},
};
/* clang-format on */

static void upload_relabelling_rules_are_applied(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_arena *arena = fg_arena_create(64 << 10);
        struct fg_labels sent = {.items = fg_arena_new(arena, struct fg_label, 3)}, labels;
        const struct fg_limit_settings limits = {.max_sessions_per_series = cases[i].sessions_max};
        struct fg_buf text;
        struct fg_err err;

        print_message("  %s\n", cases[i].what);
        while (sent.count < 3 && cases[i].sent[sent.count].name.len > 0) {
            sent.items[sent.count] = cases[i].sent[sent.count];
            sent.count++;
        }
        assert_int_equal(dist_series_labels(&sent, &limits, arena, &labels, &err), FG_OK);
        fg_labels_sort(&labels);
        fg_buf_init(&text, SIZE_MAX);
        fg_labels_write(&labels, &text);
        fg_buf_putc(&text, '\0');
        assert_string_equal((const char *)text.ptr, cases[i].want);
        fg_buf_done(&text);
        fg_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(upload_relabelling_rules_are_applied)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
