#include "common/storage/store/mark.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct fg_mark mark_of(uint32_t n_logs)
{
    struct fg_mark mark = {.number = 7, .manifest = 5, .manifest_size = 1234, .n_logs = n_logs};

    for (uint32_t i = 0; i < n_logs; i++)
        mark.logs[i] = (struct fg_mark_log){100 + i, 1000 * (uint64_t)i};
    return mark;
}

static void marks_are_read_back(void **state)
{
    static const uint32_t counts[] = {0, 1, 3, FG_MARK_LOGS_MAX};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(counts); i++) {
        struct fg_mark mark = mark_of(counts[i]), found = {0};
        struct fg_buf slot;

        fg_buf_init(&slot, FG_MARK_SLOT_BYTES);
        fg_mark_encode(&mark, &slot);
        assert_int_equal(slot.len, FG_MARK_SLOT_BYTES);
        assert_true(fg_mark_decode(fg_buf_slice(&slot), &found));
        assert_memory_equal(&found, &mark, sizeof mark);
        fg_buf_done(&slot);
    }
}

static void a_torn_slot_is_ignored(void **state)
{
    struct fg_mark mark = mark_of(3), found;
    struct fg_buf slot;
    size_t used = 40 + 3 * 16;

    (void)state;
    fg_buf_init(&slot, FG_MARK_SLOT_BYTES);
    fg_mark_encode(&mark, &slot);
    for (size_t len = 0; len < used; len++)
        assert_false(fg_mark_decode(fg_slice_sub(fg_buf_slice(&slot), 0, len), &found));
    assert_true(fg_mark_decode(fg_slice_sub(fg_buf_slice(&slot), 0, used), &found));
    for (size_t at = 0; at < used; at++) {
        slot.ptr[at] ^= 1;
        assert_false(fg_mark_decode(fg_buf_slice(&slot), &found));
        slot.ptr[at] ^= 1;
    }
    fg_buf_done(&slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_read_back),
        cmocka_unit_test(a_torn_slot_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
