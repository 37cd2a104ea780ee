#include "common/self_profile/sampling.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Seeds are fixed, so these pass or fail always; bounds are four standard errors. */

static void distances_are_exponential(void **state)
{
    enum { DRAWS = 100000, MEAN = 512 * 1024 };
    double sum = 0, squares = 0;
    uint64_t random = 1;

    (void)state;
    for (unsigned i = 0; i < DRAWS; i++) {
        double next = (double)fg_sampling_next(&random, MEAN);

        assert_true(next >= 1);
        sum += next;
        squares += next * next;
    }
    assert_true(fabs(sum / DRAWS / MEAN - 1) < 4 / sqrt(DRAWS));
    /* The mean square is twice the square of the mean. */
    assert_true(fabs(squares / DRAWS / MEAN / MEAN - 2) < 4 * sqrt(20.0 / DRAWS));
}

/* As the hooks count: blocks of one size, until the distance is used up. */
static void sampled_blocks_stand_for_all(void **state)
{
    static const uint64_t sizes[] = {1, 100, 4096, 500000, 512 * 1024, 3000000};
    enum { MEAN = 512 * 1024, SAMPLES = 20000 };

    (void)state;
    for (size_t k = 0; k < FG_COUNT(sizes); k++) {
        int64_t left, estimated_1024 = 0;
        uint64_t random = k, blocks = 0;
        unsigned samples = sizes[k] < 100 ? 100 : SAMPLES;

        print_message("  %llu bytes\n", (unsigned long long)sizes[k]);
        left = fg_sampling_next(&random, MEAN);
        for (unsigned n = 0; n < samples; blocks++) {
            left -= (int64_t)sizes[k];
            if (left >= 0)
                continue;
            left = fg_sampling_next(&random, MEAN);
            estimated_1024 += fg_sampling_weight_1024(sizes[k], MEAN);
            n++;
        }
        assert_true(fabs((double)estimated_1024 / 1024 / (double)blocks - 1) < 4 / sqrt(samples));
    }
    assert_true(fg_sampling_weight_1024(0, MEAN) >= (int64_t)1024 * MEAN);
    assert_int_equal(fg_sampling_weight_1024(UINT64_C(1) << 40, MEAN), 1024);
}

static void sampled_lengths_stand_for_all(void **state)
{
    static const int64_t lengths[] = {1, 700, 60000, 99999, 100000, 5000000};
    enum { MEAN = 100000, EVENTS = 2000000 };
    uint64_t random = 7;

    (void)state;
    for (size_t k = 0; k < FG_COUNT(lengths); k++) {
        double count = 0, sum = 0, samples = 0;

        print_message("  %lld\n", (long long)lengths[k]);
        for (unsigned i = 0; i < EVENTS; i++) {
            int64_t length = 0, n = fg_sampling_of_length(&random, lengths[k], MEAN, &length);

            count += (double)n;
            sum += n > 0 ? (double)length : 0;
            samples += n > 0;
        }
        assert_true(samples > 0);
        assert_true(fabs(count / EVENTS - 1) < 4 / sqrt(samples));
        assert_true(fabs(sum / EVENTS / (double)lengths[k] - 1) < 4 / sqrt(samples));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances_are_exponential),
        cmocka_unit_test(sampled_blocks_stand_for_all),
        cmocka_unit_test(sampled_lengths_stand_for_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
