/* Records of the outbox: what was put is read back, and nothing else is taken for a record. */
#include "ingester/forward/entry.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const struct ing_outbox_entry entries[] = {
    {.key = {.chunk = {{1, 2, 3}, 4}, .series = 5, .time_ns = -6, .id = {7, 8}},
     .received_wall_ns = INT64_C(1700000000000000000),
     .bytes = 900},
    {.key = {.chunk = {{UINT32_MAX, UINT16_MAX, UINT32_MAX}, UINT32_MAX},
             .series = UINT32_MAX,
             .time_ns = INT64_MIN,
             .id = {UINT64_MAX, UINT64_MAX}},
     .received_wall_ns = INT64_MIN,
     .bytes = UINT64_MAX,
     .via = {{{1, 2}, {3, 4}, {5, 6}, {7, 8}}, OUTBOX_VIA_MAX}},
};

static void assert_same(const struct ing_outbox_entry *a, const struct ing_outbox_entry *b)
{
    assert_true(ing_head_same_chunk(&a->key.chunk, &b->key.chunk));
    assert_int_equal(a->key.series, b->key.series);
    assert_int_equal(a->key.time_ns, b->key.time_ns);
    assert_true(fg_id_eq(a->key.id, b->key.id));
    assert_int_equal(a->received_wall_ns, b->received_wall_ns);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->via.n, b->via.n);
    for (uint8_t i = 0; i < a->via.n; i++)
        assert_true(fg_id_eq(a->via.stores[i], b->via.stores[i]));
}

static void entry_is_read_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < FG_COUNT(entries); i++) {
        struct ing_outbox_entry found;
        struct fg_buf out;

        fg_buf_init(&out, OUTBOX_ENTRY_MAX_BYTES);
        ing_outbox_put_entry(&out, &entries[i]);
        assert_false(out.full);
        assert_true(ing_outbox_get_entry(fg_buf_slice(&out), &found));
        assert_same(&entries[i], &found);
        fg_buf_done(&out);
    }
}

static void damaged_entry_is_none(void **state)
{
    struct ing_outbox_entry found;
    struct fg_buf out;

    (void)state;
    fg_buf_init(&out, SIZE_MAX);
    ing_outbox_put_entry(&out, &entries[1]);
    for (size_t len = 0; len < out.len; len++)
        assert_false(ing_outbox_get_entry(fg_bytes(out.ptr, len), &found));
    fg_buf_putc(&out, 0); /* a byte too many */
    assert_false(ing_outbox_get_entry(fg_buf_slice(&out), &found));
    out.len--;
    out.ptr[0] = 2; /* a version that is not known */
    assert_false(ing_outbox_get_entry(fg_buf_slice(&out), &found));
    out.ptr[0] = 1;
    out.ptr[out.len - (size_t)OUTBOX_VIA_MAX * FG_ID_BYTES - 1] = OUTBOX_VIA_MAX + 1;
    for (size_t i = 0; i < FG_ID_BYTES; i++) /* as long as it says, and too long a way */
        fg_buf_putc(&out, 0);
    assert_false(ing_outbox_get_entry(fg_buf_slice(&out), &found));
    fg_buf_done(&out);
}

static void keys_are_in_the_order_of_targets_and_numbers(void **state)
{
    static const struct {
        uint16_t target;
        uint64_t seq;
    } keys[] = {{0, 0}, {0, 1}, {0, 256}, {0, UINT64_MAX}, {1, 0}, {256, 0}, {UINT16_MAX, 7}};
    uint8_t before[OUTBOX_KEY_BYTES] = {0};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(keys); i++) {
        struct fg_buf out;
        uint16_t target;
        uint64_t seq;

        fg_buf_init(&out, OUTBOX_KEY_BYTES);
        ing_outbox_put_key(&out, keys[i].target, keys[i].seq);
        assert_true(ing_outbox_get_key(fg_buf_slice(&out), &target, &seq));
        assert_int_equal(target, keys[i].target);
        assert_int_equal(seq, keys[i].seq);
        assert_false(ing_outbox_get_key(fg_bytes(out.ptr, out.len - 1), &target, &seq));
        assert_true(i == 0 || memcmp(before, out.ptr, out.len) < 0);
        memcpy(before, out.ptr, out.len);
        fg_buf_done(&out);
    }
}

static void record_of_a_target_is_read_back(void **state)
{
    static const struct ing_outbox_meta metas[] = {{0, 0, false}, {UINT16_MAX, UINT64_MAX, true}};

    (void)state;
    for (size_t i = 0; i < FG_COUNT(metas); i++) {
        struct ing_outbox_meta found;
        struct fg_buf out;

        fg_buf_init(&out, SIZE_MAX);
        ing_outbox_put_meta(&out, &metas[i]);
        assert_true(ing_outbox_get_meta(fg_buf_slice(&out), &found));
        assert_int_equal(found.number, metas[i].number);
        assert_int_equal(found.reserved, metas[i].reserved);
        assert_int_equal(found.paused, metas[i].paused);
        for (size_t len = 0; len < out.len; len++)
            assert_false(ing_outbox_get_meta(fg_bytes(out.ptr, len), &found));
        out.ptr[out.len - 1] |= 2; /* a flag that is not known */
        assert_false(ing_outbox_get_meta(fg_buf_slice(&out), &found));
        fg_buf_done(&out);
    }
}

static void resend_is_read_back(void **state)
{
    static const struct ing_resend resends[] = {
        {.state = RESEND_COMMITS, .from_ns = INT64_MIN, .until_ns = INT64_MIN},
        {.state = RESEND_READS,
         .from_ns = -1,
         .until_ns = INT64_MAX,
         .begun_wall_ns = 5,
         .ended_wall_ns = 6,
         .tenant = "team-a",
         .time_ns = 7,
         .id = {8, 9},
         .sent = UINT64_MAX,
         .known = 10,
         .filtered = 11,
         .refused = 12,
         .lost = 13,
         .incomplete = true},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(resends); i++) {
        struct ing_resend found;
        struct fg_buf out, again;

        fg_buf_init(&out, SIZE_MAX);
        fg_buf_init(&again, SIZE_MAX);
        ing_outbox_put_resend(&out, &resends[i]);
        assert_true(ing_outbox_get_resend(fg_buf_slice(&out), &found));
        assert_int_equal(found.state, resends[i].state);
        assert_string_equal(found.tenant, resends[i].tenant);
        assert_int_equal(found.lost, resends[i].lost);
        ing_outbox_put_resend(&again, &found);
        assert_true(fg_slice_eq(fg_buf_slice(&out), fg_buf_slice(&again)));
        for (size_t len = 0; len < out.len; len++)
            assert_false(ing_outbox_get_resend(fg_bytes(out.ptr, len), &found));
        out.ptr[1] = RESEND_DONE + 1;
        assert_false(ing_outbox_get_resend(fg_buf_slice(&out), &found));
        fg_buf_done(&out);
        fg_buf_done(&again);
    }
}

static void places_of_a_resend_are_read_back(void **state)
{
    static struct ing_resend_tenants tenants = {
        .last = "c", .n = 2, .places = {{"a", 1, {2, 3}, 0}, {"b", -4, {5, 6}, 0}}};
    struct ing_resend_tenants found;
    int64_t begun_wall_ns;
    struct fg_buf out;

    (void)state;
    for (unsigned n = 0; n <= 2; n++) {
        fg_buf_init(&out, SIZE_MAX);
        tenants.n = n;
        ing_outbox_put_resend_tenants(&out, 7, &tenants);
        assert_true(ing_outbox_get_resend_tenants(fg_buf_slice(&out), &begun_wall_ns, &found));
        assert_int_equal(begun_wall_ns, 7);
        assert_string_equal(found.last, "c");
        assert_int_equal(found.n, n);
        assert_memory_equal(found.places, tenants.places, n * sizeof found.places[0]);
        for (size_t len = 0; len < out.len; len++)
            assert_false(
                ing_outbox_get_resend_tenants(fg_bytes(out.ptr, len), &begun_wall_ns, &found));
        fg_buf_done(&out);
    }
}

/* Nothing relies on places in another order, or of tenants that have not begun. */
static void places_of_a_resend_that_make_no_sense_are_none(void **state)
{
    static struct ing_resend_tenants tenants[] = {
        {.last = "c", .n = 2, .places = {{.tenant = "b"}, {.tenant = "a"}}},
        {.last = "c", .n = 2, .places = {{.tenant = "b"}, {.tenant = "b"}}},
        {.last = "c", .n = 1, .places = {{.tenant = "d"}}},
        {.last = "c", .n = 1, .places = {{.tenant = ""}}},
        {.last = "", .n = 1, .places = {{.tenant = "a"}}},
    };

    (void)state;
    for (size_t i = 0; i < FG_COUNT(tenants); i++) {
        struct ing_resend_tenants found;
        int64_t begun_wall_ns;
        struct fg_buf out;

        fg_buf_init(&out, SIZE_MAX);
        ing_outbox_put_resend_tenants(&out, 7, &tenants[i]);
        assert_false(ing_outbox_get_resend_tenants(fg_buf_slice(&out), &begun_wall_ns, &found));
        fg_buf_done(&out);
    }
}

static void dead_entry_keeps_a_reason_of_bounded_length(void **state)
{
    struct fg_slice reason, entry;
    struct fg_buf long_reason, out;
    int64_t died_wall_ns;

    (void)state;
    fg_buf_init(&long_reason, SIZE_MAX);
    fg_buf_init(&out, SIZE_MAX);
    while (long_reason.len <= OUTBOX_REASON_MAX_BYTES)
        fg_buf_puts(&long_reason, "too large. ");
    ing_outbox_put_dead(&out, -5, fg_buf_slice(&long_reason), FG_LIT("entry"));
    assert_true(ing_outbox_get_dead(fg_buf_slice(&out), &died_wall_ns, &reason, &entry));
    assert_int_equal(died_wall_ns, -5);
    assert_int_equal(reason.len, OUTBOX_REASON_MAX_BYTES);
    assert_memory_equal(reason.ptr, long_reason.ptr, reason.len);
    assert_true(fg_slice_is(entry, "entry"));
    assert_false(ing_outbox_get_dead(fg_bytes(out.ptr, 20), &died_wall_ns, &reason, &entry));
    fg_buf_done(&long_reason);
    fg_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_is_read_back),
        cmocka_unit_test(damaged_entry_is_none),
        cmocka_unit_test(keys_are_in_the_order_of_targets_and_numbers),
        cmocka_unit_test(record_of_a_target_is_read_back),
        cmocka_unit_test(resend_is_read_back),
        cmocka_unit_test(places_of_a_resend_are_read_back),
        cmocka_unit_test(places_of_a_resend_that_make_no_sense_are_none),
        cmocka_unit_test(dead_entry_keeps_a_reason_of_bounded_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
