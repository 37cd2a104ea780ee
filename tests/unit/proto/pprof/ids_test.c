/* What the ids of profiles and stacks are made of. */
#include "tests/lib/pprof_make.h"
#include "tests/unit/proto/pprof/decoded.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Everything a profile's or a stack's id is made of changes it. */
static void every_part_counts_for_the_id(void **state)
{
    struct fg_id profiles[16], stacks[16];

    (void)state;
    for (size_t i = 0; i < FG_COUNT(profiles); i++) {
        struct make_label label = {"thread", i == 1 ? "b" : "a", 0};
        struct fg_pprof_request request = decode_plain_request();
        struct decoded decoded;
        struct make make;

        make_start(&make);
        make_type(&make, i == 2 ? "wall" : "cpu", i == 3 ? "ms" : "ns");
        make_period(&make, "cpu", i == 4 ? "ms" : "ns", 100);
        make_mapping(&make, 1, i == 5 ? 0x2000 : 0x1000, i == 6 ? "/b" : "/a", false);
        make_function(&make, 1, i == 7 ? "g" : "f", i == 8 ? "g" : "f", i == 9 ? "g" : "f",
                      i == 10 ? 2 : 1);
        make_location(&make, 1, 1, i == 11 ? 2 : 1, (struct make_line[]){{1, i == 12 ? 2 : 1}}, 1);
        make_sample_of(&make, (uint64_t[]){1, 1}, i == 13 ? 2 : 1, 1, &label, 1);
        request.upload.time_ns += i == 14;
        request.upload.duration_ns += i == 15;
        decode_by(&decoded, make_finish(&make), &request);
        assert_int_equal(decoded.code, FG_OK);
        profiles[i] = decoded.batch.profiles[0].id;
        stacks[i] = decoded.batch.stacks[0].id;
        decoded_done(&decoded);
        make_done(&make);
        for (size_t k = 0; k < i; k++)
            if (fg_id_eq(profiles[i], profiles[k]))
                fail_msg("%zu and %zu have one id", k, i);
        assert_int_equal(fg_id_eq(stacks[i], stacks[0]), i < 5 || i > 13);
    }
}

/* The tenant and, where there is no time of its own, the sender count too. */
static void tenant_and_origin_count_for_the_id(void **state)
{
    struct decoded decoded;
    struct make make;
    struct fg_id first;

    (void)state;
    make_start(&make);
    make_type(&make, "t", "u");
    make_sample_of(&make, NULL, 0, 1, NULL, 0);
    decode(&decoded, make_finish(&make));
    first = decoded.batch.profiles[0].id;
    fg_batch_identify(&decoded.batch, FG_LIT("tenant2"), FG_LIT(""), FG_LIT(""));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT("host"), FG_LIT(""));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT("key"));
    assert_false(fg_id_eq(first, decoded.batch.profiles[0].id));
    fg_batch_identify(&decoded.batch, FG_LIT("tenant"), FG_LIT(""), FG_LIT(""));
    assert_true(fg_id_eq(first, decoded.batch.profiles[0].id));
    decoded_done(&decoded);
    make_done(&make);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_counts_for_the_id),
        cmocka_unit_test(tenant_and_origin_count_for_the_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
