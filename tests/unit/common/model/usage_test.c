/* Sums of sizes, and shares of a request that brings several profiles. */
#include "common/base/hash.h"
#include "common/model/usage.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { SHARES_MAX = 50, ROUNDS = 2000 };

static void unknown_sizes_do_not_count(void **state)
{
    struct fg_usage usage = {0};

    (void)state;
    fg_usage_count(&usage, (struct fg_profile_size){false, 0, 0}, 10);
    assert_true(fg_usage_eq(&usage, &(struct fg_usage){0}));
    fg_usage_count(&usage, (struct fg_profile_size){true, 0, 0}, 10);
    fg_usage_count(&usage, (struct fg_profile_size){true, 3, UINT32_MAX}, 0);
    assert_true(fg_usage_eq(&usage, &(struct fg_usage){2, 10, 3, UINT32_MAX}));
}

static void sums_saturate(void **state)
{
    struct fg_usage usage = {1, INT64_MAX - 1, 5, INT64_MAX};

    (void)state;
    fg_usage_add(&usage, &(struct fg_usage){1, 2, INT64_MAX, INT64_MAX});
    assert_true(fg_usage_eq(&usage, &(struct fg_usage){2, INT64_MAX, INT64_MAX, INT64_MAX}));
    fg_usage_add(&usage, &(struct fg_usage){0, 0, UINT64_MAX, 0});
    assert_true(usage.wire_bytes == INT64_MAX);
}

static void usage_is_read_back(void **state)
{
    static const struct {
        const char *name;
        struct fg_usage usage;
        bool bad;
    } cases[] = {
        {"none", {0, 0, 0, 0}, false},
        {"some", {3, 2, 1000, 1 << 20}, false},
        {"the most", {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}, false},
        {"bytes of no profiles", {0, 0, 0, 1}, true},
        {"samples of no profiles", {0, 1, 0, 0}, true},
        {"more than a sum can be", {1, 1, (uint64_t)INT64_MAX + 1, 1}, true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        struct fg_usage got;
        struct fg_buf buf;
        struct fg_cur cur;

        print_message("  %s\n", cases[i].name);
        fg_buf_init(&buf, 100);
        fg_usage_put(&buf, &cases[i].usage);
        cur = fg_cur(fg_buf_slice(&buf));
        got = fg_usage_get(&cur);
        assert_int_equal(cur.bad, cases[i].bad);
        if (!cases[i].bad)
            assert_true(fg_cur_end(&cur) && fg_usage_eq(&got, &cases[i].usage));
        for (size_t len = 0; len < buf.len; len++) {
            cur = fg_cur(fg_bytes(buf.ptr, len));
            (void)fg_usage_get(&cur);
            assert_true(cur.bad);
        }
        fg_buf_done(&buf);
    }
}

/* Whatever the weights are, shares add up to the whole, and a larger weight has no smaller share
 * (except for rounding). */
static void shares_add_up_to_the_whole(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t weights[SHARES_MAX], wire = 0, raw = 0, all = 0;
        struct fg_profile_size sizes[SHARES_MAX];
        uint64_t whole = fg_mix64(random++) >> (32 + round % 31);
        size_t n = 1 + fg_mix64(random++) % SHARES_MAX;

        for (size_t i = 0; i < n; i++) {
            weights[i] = round % 5 == 0 ? 0 : fg_mix64(random++) >> (round % 60);
            all = weights[i] > UINT64_MAX - all ? UINT64_MAX : all + weights[i];
        }
        fg_profile_sizes_share(whole, whole / 3, weights, n, sizes);
        for (size_t i = 0; i < n; i++) {
            assert_true(sizes[i].known);
            wire += sizes[i].wire_bytes;
            raw += sizes[i].raw_bytes;
            if (all == 0)
                assert_in_range(sizes[i].wire_bytes, whole / n, whole / n + 1);
        }
        assert_true(wire == whole && raw == whole / 3);
    }
}

static void a_share_is_as_large_as_its_weight(void **state)
{
    const uint64_t weights[] = {1, 0, 2, 1};
    struct fg_profile_size sizes[4];

    (void)state;
    fg_profile_sizes_share(100, 1000, weights, 4, sizes);
    assert_int_equal(sizes[0].wire_bytes, 25);
    assert_int_equal(sizes[1].wire_bytes, 0);
    assert_int_equal(sizes[2].wire_bytes, 50);
    assert_int_equal(sizes[3].raw_bytes, 250);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_sizes_do_not_count),
        cmocka_unit_test(sums_saturate),
        cmocka_unit_test(usage_is_read_back),
        cmocka_unit_test(shares_add_up_to_the_whole),
        cmocka_unit_test(a_share_is_as_large_as_its_weight),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
