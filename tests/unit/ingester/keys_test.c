#include "ingester/keys.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint64_t next_random(uint64_t *random)
{
    *random += UINT64_C(0x9e3779b97f4a7c15);
    return fg_mix64(*random);
}

static struct ing_head_profile_key random_key(uint64_t *random)
{
    /* Few different numbers, so that keys share their beginnings; some negative times. */
    return (struct ing_head_profile_key){
        .chunk = {{(uint32_t)(next_random(random) % 2), (uint16_t)(next_random(random) % 3 << 8),
                   (uint32_t)(next_random(random) % 3) << 24},
                  (uint32_t)(next_random(random) % 2) << 16},
        .series = (uint32_t)(next_random(random) % 2) << 31,
        .time_ns = (int64_t)next_random(random) >> (next_random(random) % 64),
        .id = {next_random(random), next_random(random) % 2},
    };
}

static int chunk_order(const struct ing_head_chunk_key *a, const struct ing_head_chunk_key *b)
{
    if (a->group.tenant != b->group.tenant)
        return a->group.tenant < b->group.tenant ? -1 : 1;
    if (a->group.shard != b->group.shard)
        return a->group.shard < b->group.shard ? -1 : 1;
    if (a->group.window != b->group.window)
        return a->group.window < b->group.window ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static int key_order(const struct ing_head_profile_key *a, const struct ing_head_profile_key *b)
{
    int order = chunk_order(&a->chunk, &b->chunk);
    uint8_t ids[2][FG_ID_BYTES];

    assert_int_equal(order == 0, ing_head_same_chunk(&a->chunk, &b->chunk));
    if (order != 0)
        return order;
    if (a->series != b->series)
        return a->series < b->series ? -1 : 1;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    fg_id_put(ids[0], a->id);
    fg_id_put(ids[1], b->id);
    return memcmp(ids[0], ids[1], FG_ID_BYTES);
}

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void keys_sort_as_their_fields(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct ing_head_profile_key keys[2] = {random_key(&random), random_key(&random)}, back;
        struct ing_head_chunk_key chunk;
        struct fg_buf bytes[2], seek;

        for (size_t k = 0; k < 2; k++) {
            fg_buf_init(&bytes[k], 100);
            ing_head_put_profile_key(&bytes[k], &keys[k]);
            assert_int_equal(bytes[k].len, HEAD_PROFILE_KEY_BYTES);
        }
        assert_int_equal(sign(fg_slice_cmp(fg_buf_slice(&bytes[0]), fg_buf_slice(&bytes[1]))),
                         sign(key_order(&keys[0], &keys[1])));
        assert_true(ing_head_get_profile_key(fg_buf_slice(&bytes[0]), &back));
        assert_int_equal(key_order(&back, &keys[0]), 0);
        fg_buf_init(&seek, 100);
        ing_head_put_series_seek(&seek, &keys[0].chunk, keys[0].series, keys[0].time_ns);
        assert_true(fg_slice_cmp(fg_buf_slice(&seek), fg_buf_slice(&bytes[0])) < 0);
        fg_buf_clear(&seek);
        ing_head_put_chunk_key(&seek, &keys[0].chunk);
        assert_true(ing_head_get_chunk_key(fg_buf_slice(&seek), &chunk));
        assert_int_equal(chunk_order(&chunk, &keys[0].chunk), 0);
        fg_buf_done(&seek);
        fg_buf_done(&bytes[0]);
        fg_buf_done(&bytes[1]);
    }
}

static void keys_of_wrong_length_are_rejected(void **state)
{
    static const uint8_t bytes[64];

    (void)state;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        struct ing_head_profile_key profile;
        struct ing_head_chunk_key chunk;

        assert_int_equal(ing_head_get_profile_key(fg_bytes(bytes, len), &profile),
                         len == HEAD_PROFILE_KEY_BYTES);
        assert_int_equal(ing_head_get_chunk_key(fg_bytes(bytes, len), &chunk),
                         len == HEAD_CHUNK_KEY_BYTES);
    }
}

static void windows_are_ten_minutes(void **state)
{
    static const struct {
        int64_t time_ns, duration_ns;
        uint32_t window;
    } cases[] = {
        {0, 0, 0},
        {599999999999, 0, 0},
        {599999999999, 1, 1},
        {600000000000, 0, 1},
        {600000000000, -1, 1},
        {INT64_C(1700000400) * FG_SECOND_NS, 0, 2833334},
        {INT64_C(1700000400) * FG_SECOND_NS - 1, 0, 2833333},
        {600000000000, HEAD_DURATION_MAX_NS, 145},
        {600000000000, INT64_MAX, 145},
        {-1, 0, 0},
        {INT64_MIN, 5, 0},
        {INT64_MAX, 0, (uint32_t)(INT64_MAX / 600000000000)},
        {INT64_MAX, INT64_MAX, (uint32_t)(INT64_MAX / 600000000000)},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(cases); i++) {
        uint32_t window = ing_head_window(cases[i].time_ns, cases[i].duration_ns);

        assert_int_equal(window, cases[i].window);
        assert_true(cases[i].time_ns >= ing_head_window_first_ns(window));
        assert_true(cases[i].time_ns < ing_head_window_end_ns(window) ||
                    ing_head_window_end_ns(window) == INT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_sort_as_their_fields),
        cmocka_unit_test(keys_of_wrong_length_are_rejected),
        cmocka_unit_test(windows_are_ten_minutes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
