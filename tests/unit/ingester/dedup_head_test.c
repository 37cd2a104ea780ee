/* Duplicates in the head: a profile is found in whichever chunk of its group it is. */
#include "ingester/dedup_head.h"
#include "tests/lib/store_doubles.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { IDS = 5000 };

static struct ing_head_profile_key key_of(uint32_t number, uint32_t profile)
{
    return (struct ing_head_profile_key){
        .chunk = {.group = {1, 2, 3}, .number = number},
        .series = 4,
        .time_ns = 5,
        .id = fg_hash128(fg_bytes((const uint8_t *)&profile, sizeof profile)),
    };
}

static void put(struct fg_store *store, const struct ing_head_profile_key *key)
{
    struct fg_store_batch batch;
    struct fg_buf bytes;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_buf_init(&bytes, HEAD_PROFILE_KEY_BYTES);
    ing_head_put_profile_key(&bytes, key);
    fg_store_put(&batch, HEAD_PROFILES, fg_buf_slice(&bytes), FG_LIT("record"));
    assert_int_equal(fg_store_write(store, &batch, &err), FG_OK);
    fg_buf_done(&bytes);
    fg_store_batch_done(&batch);
}

static bool find(struct fg_store *store, uint32_t profile, const uint32_t *numbers, uint32_t n)
{
    const struct ing_head_profile_key key = key_of(UINT32_MAX, profile); /* the number is ignored */
    struct fg_err err;
    bool found;

    assert_int_equal(ing_dedup_head_find(store, &key, numbers, n, &found, &err), FG_OK);
    return found;
}

static void profile_is_found_in_any_chunk_that_is_named(void **state)
{
    static const uint32_t all[] = {0, 7, 9}, others[] = {0, 9};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    const struct ing_head_profile_key key = key_of(7, 1);

    (void)state;
    put(store, &key);
    assert_true(find(store, 1, all, FG_COUNT(all)));
    assert_false(find(store, 1, others, FG_COUNT(others)));
    assert_false(find(store, 2, all, FG_COUNT(all)));
    assert_false(find(store, 1, NULL, 0));
    fg_store_close(store);
}

static void store_failure_leaves_the_result_alone(void **state)
{
    static const uint32_t numbers[] = {7};
    struct fg_store *inner = fg_store_memory(HEAD_FAMILIES);
    const struct ing_head_profile_key key = key_of(7, 1);
    struct fg_store_faulty faulty;
    bool found = false;
    struct fg_err err;

    (void)state;
    fg_store_faulty_init(&faulty, inner);
    put(inner, &key);
    faulty.fail_reads = true;
    assert_int_not_equal(ing_dedup_head_find(&faulty.store, &key, numbers, 1, &found, &err), FG_OK);
    assert_false(found);
    fg_store_close(inner);
}

static void id_is_added_to_a_batch_once(void **state)
{
    struct ing_dedup_batch batch = {0};

    (void)state;
    for (int round = 0; round < 2; round++) { /* the second time with the memory of the first */
        for (uint32_t i = 0; i < IDS; i++)
            assert_true(ing_dedup_batch_add(&batch, key_of(0, i).id));
        for (uint32_t i = 0; i < IDS; i++)
            assert_false(ing_dedup_batch_add(&batch, key_of(0, i).id));
        assert_int_equal(batch.n, IDS);
        ing_dedup_batch_clear(&batch);
        assert_int_equal(batch.n, 0);
    }
    ing_dedup_batch_done(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profile_is_found_in_any_chunk_that_is_named),
        cmocka_unit_test(store_failure_leaves_the_result_alone),
        cmocka_unit_test(id_is_added_to_a_batch_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
