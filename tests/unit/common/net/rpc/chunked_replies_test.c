/* Answers that wait: who gets them, how long, and how many there is room for. */
#include "common/base/time.h"
#include "common/net/rpc/chunked_replies.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MAX_BYTES = 1000, OWNER = 7, OTHER = 8 };

static const int64_t DEADLINE_NS = 100 * FG_SECOND_NS, IDLE_NS = 30 * FG_SECOND_NS;

static int set_up(void **state)
{
    *state = fg_chunked_replies_create(MAX_BYTES);
    return 0;
}

static int tear_down(void **state)
{
    fg_chunked_replies_destroy(*state);
    return 0;
}

/* Of so many bytes; 0: there was no room. */
static uint64_t add(struct fg_chunked_replies *replies, uint32_t owner, size_t bytes,
                    int64_t now_ns)
{
    struct fg_chunked_reply *answer;
    struct fg_buf payload;
    struct fg_err err;
    uint64_t key = 0;

    fg_buf_init(&payload, SIZE_MAX);
    for (size_t i = 0; i < bytes; i++)
        fg_buf_putc(&payload, (uint8_t)i);
    if (fg_chunked_replies_add(replies, owner, &payload, now_ns, DEADLINE_NS, &answer, &err) ==
        FG_OK) {
        assert_int_equal(payload.len, 0);
        assert_int_equal(answer->payload.len, bytes);
        key = answer->key;
        fg_chunked_replies_unref(replies, answer);
    } else {
        assert_int_equal(err.code, FG_E_LIMIT);
        assert_int_equal(payload.len, bytes); /* still the caller's */
    }
    fg_buf_done(&payload);
    return key;
}

static bool is_there(struct fg_chunked_replies *replies, uint32_t owner, uint64_t key,
                     int64_t now_ns)
{
    struct fg_chunked_reply *answer = fg_chunked_replies_find(replies, owner, key, now_ns);

    if (answer != NULL)
        fg_chunked_replies_unref(replies, answer);
    return answer != NULL;
}

static void a_chunked_reply_belongs_to_its_connection(void **state)
{
    uint64_t key = add(*state, OWNER, 10, 0);

    assert_true(is_there(*state, OWNER, key, 0));
    assert_false(is_there(*state, OTHER, key, 0));
    assert_false(is_there(*state, OWNER, key + 1, 0));
    fg_chunked_replies_drop_owner(*state, OTHER);
    assert_true(is_there(*state, OWNER, key, 0));
    fg_chunked_replies_drop_owner(*state, OWNER);
    assert_false(is_there(*state, OWNER, key, 0));
    assert_int_equal(fg_chunked_replies_bytes(*state), 0);
}

static void an_idle_chunked_reply_is_removed(void **state)
{
    uint64_t key = add(*state, OWNER, 10, 0);

    for (int64_t now_ns = 0; now_ns < DEADLINE_NS; now_ns += IDLE_NS - 1)
        assert_true(is_there(*state, OWNER, key, now_ns));
    assert_false(is_there(*state, OWNER, key, DEADLINE_NS));
    key = add(*state, OWNER, 10, 0);
    fg_chunked_replies_sweep(*state, IDLE_NS - 1);
    assert_int_equal(fg_chunked_replies_bytes(*state), 10);
    fg_chunked_replies_sweep(*state, IDLE_NS);
    assert_int_equal(fg_chunked_replies_bytes(*state), 0);
    assert_false(is_there(*state, OWNER, key, 0));
}

static void the_bytes_of_chunked_replies_are_bounded(void **state)
{
    assert_int_equal(add(*state, OWNER, MAX_BYTES + 1, 0), 0);
    assert_int_not_equal(add(*state, OWNER, MAX_BYTES - 1, 0), 0);
    assert_int_equal(add(*state, OTHER, 2, 0), 0);
    assert_int_not_equal(add(*state, OTHER, 1, 0), 0);
    assert_int_equal(fg_chunked_replies_bytes(*state), MAX_BYTES);
    assert_int_not_equal(add(*state, OTHER, 2, IDLE_NS), 0); /* the others are over */
}

static void the_number_of_chunked_replies_is_bounded(void **state)
{
    unsigned n = 0;

    while (add(*state, OWNER, 1, 0) != 0)
        n++;
    assert_int_equal(n, 256);
}

static void readers_keep_a_removed_reply_alive(void **state)
{
    uint64_t key = add(*state, OWNER, 10, 0);
    struct fg_chunked_reply *answer = fg_chunked_replies_find(*state, OWNER, key, 0);

    assert_non_null(answer);
    fg_chunked_replies_drop_owner(*state, OWNER);
    assert_int_equal(answer->payload.ptr[9], 9);
    fg_chunked_replies_drop(*state, answer); /* twice is once */
    assert_int_equal(fg_chunked_replies_bytes(*state), 0);
    fg_chunked_replies_unref(*state, answer);
}

static void keys_of_another_process_are_unknown(void **state)
{
    struct fg_chunked_replies *other = fg_chunked_replies_create(MAX_BYTES);

    assert_int_not_equal(add(*state, OWNER, 1, 0), add(other, OWNER, 1, 0));
    fg_chunked_replies_destroy(other);
}

#define HELD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HELD(a_chunked_reply_belongs_to_its_connection),
        HELD(an_idle_chunked_reply_is_removed),
        HELD(the_bytes_of_chunked_replies_are_bounded),
        HELD(the_number_of_chunked_replies_is_bounded),
        HELD(readers_keep_a_removed_reply_alive),
        HELD(keys_of_another_process_are_unknown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
