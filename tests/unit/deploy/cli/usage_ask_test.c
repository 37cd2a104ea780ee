/* What `flamegrid usage` says of an answer that does not have all yet. */
#include "deploy/cli/usage_ask.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define DAY(preliminary) "{\"day\":\"2026-11-27\",\"preliminary\":" preliminary "}"
#define WAITING(profiles, bytes)                                                                   \
    "{\"tenant\":\"a\",\"profiles\":" profiles ",\"wire_bytes\":" bytes "}"

static void missing_usage_is_told_in_one_sentence(void **state)
{
    static const struct {
        const char *answer, *says;
    } cases[] = {
        {"{\"days\":[],\"waiting\":[" WAITING("0", "0") "]}",
         "nothing is counted for these days yet; profiles are counted once they are in the bucket, "
         "some minutes after they came"},
        {"{\"days\":[],\"waiting\":[" WAITING("1", "7") "]}",
         "not all is in yet: 1 profile (7B as sent) still to be merged, for no day yet"},
        {"{\"days\":[" DAY("false") "],\"waiting\":[" WAITING("0", "0") "]}", ""},
        {"{\"days\":[" DAY("true") "," DAY("false") "],\"waiting\":[]}",
         "not all is in yet: the numbers of 1 day still grow"},
        {"{\"days\":[" DAY("false") "],\"waiting\":[" WAITING("2", "1024") "," WAITING("3",
                                                                                       "0") "]}",
         "not all is in yet: 5 profiles (1.00KiB as sent) still to be merged, for no day yet"},
        {"{\"days\":[" DAY("true") "," DAY("true") "],\"waiting\":[" WAITING("1", "1") "]}",
         "not all is in yet: 1 profile (1B as sent) still to be merged, for no day yet, and the "
         "numbers of 2 days still grow"},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        json_t *answer = json_loads(cases[i].answer, 0, NULL);
        struct fg_buf text;

        assert_non_null(answer);
        fg_buf_init(&text, SIZE_MAX);
        cli_usage_missing(answer, &text);
        fg_buf_putc(&text, '\0');
        assert_string_equal((const char *)text.ptr, cases[i].says);
        fg_buf_done(&text);
        json_decref(answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_usage_is_told_in_one_sentence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
