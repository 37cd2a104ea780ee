#include "tests/unit/ingester/forward/parcel_expect.h"

#include "common/net/inflate.h"
#include "proto/pprof/pprof.h"
#include "proto/push.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DEAD_MAX = 32, ARENA_BYTES = 8 << 20 };

void parcel_run_open_with(struct parcel_run *run, const char *target, unsigned n_profiles)
{
    parcel_run_open(run, target);
    for (unsigned n = 0; n < n_profiles; n++)
        (void)parcel_run_push(run, n);
}

void parcel_run_assert_numbers(struct ing_outbox_numbers numbers, uint64_t done, uint64_t refused,
                               uint64_t pending)
{
    assert_int_equal(numbers.done, done);
    assert_int_equal(numbers.dropped[OUTBOX_BY_REFUSED], refused);
    assert_int_equal(numbers.dead, refused);
    assert_int_equal(numbers.pending_profiles, pending);
    assert_int_equal(numbers.taken_profiles, 0);
    assert_int_equal(numbers.dropped[OUTBOX_BY_GONE] + numbers.dropped[OUTBOX_BY_EXPIRED] +
                         numbers.dropped[OUTBOX_BY_FULL] + numbers.dropped[OUTBOX_BY_OPERATOR],
                     0);
}

/* Ends the parcel, and the run. */
void parcel_run_end_with(struct parcel_run *run, uint64_t done, uint64_t refused, uint64_t pending)
{
    parcel_run_assert_numbers(parcel_run_end(run), done, refused, pending);
    parcel_run_close(run);
}

/* One dead profile and why. */
void parcel_run_assert_dead(struct parcel_run *run, struct fg_id id, const char *reason)
{
    fg_auto(fg_arena) *arena = fg_arena_create(ARENA_BYTES);
    struct ing_outbox_dead *dead;
    struct fg_err err;
    size_t n;

    assert_int_equal(
        ing_outbox_list_dead(run->common.outbox, 0, 0, DEAD_MAX, arena, &dead, &n, &err), FG_OK);
    for (size_t i = 0; i < n; i++)
        if (fg_id_eq(dead[i].entry.key.id, id)) {
            if (fg_slice_search(dead[i].reason, reason) == SIZE_MAX)
                fail_msg("\"%.*s\" lacks \"%s\"", FG_S(dead[i].reason), reason);
            return;
        }
    fail_msg("the profile is not dead");
}

Forward__V1__Refusal parcel_run_refusal(uint32_t profile, char *message)
{
    Forward__V1__Refusal refusal = FORWARD__V1__REFUSAL__INIT;

    refusal.profile = profile;
    refusal.code = fg_code_grpc(FG_E_INVALID);
    refusal.message = message;
    return refusal;
}

Forward__V1__Result parcel_run_define(void)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.define = true;
    return result;
}

Forward__V1__Result parcel_run_failed(enum fg_code code, char *message)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.code = fg_code_grpc(code);
    result.message = message;
    return result;
}

Forward__V1__Result parcel_run_beyond(Forward__V1__LimitOf limit_of, uint32_t retry_after_s)
{
    Forward__V1__Result result =
        parcel_run_failed(FG_E_LIMIT, (char *)(uintptr_t) "too many series");

    result.limit_of = limit_of;
    result.retry_after_s = retry_after_s;
    return result;
}

/* Takes the next round, of which all is stored. */
void parcel_run_store_all(struct parcel_run *run)
{
    Forward__V1__Result results[PARCEL_BATCHES_MAX];

    for (size_t b = 0; b < run->n_batches; b++)
        results[b] = parcel_run_stored(run->batches[b].n);
    assert_int_equal(parcel_run_answer(run, results, run->n_batches), SENDER_TAKEN);
}

/* Reads a request that has one profile. */
void parcel_run_read_push(struct fg_slice body, struct fg_arena *arena, struct fg_batch *ret_batch)
{
    struct fg_decode_counts counts = {0};
    struct fg_pprof_request request = {0};
    struct fg_pprof_info info;
    struct fg_buf inflated;
    struct fg_slice pprof;
    struct fg_push push;
    struct fg_err err;

    if (fg_push_read(body, arena, &push, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(push.n_series, 1);
    assert_int_equal(push.n_profiles, 1);
    pprof = push.series[0].profiles[0];
    assert_true(pprof.len > 2 && pprof.ptr[0] == 0x1f && pprof.ptr[1] == 0x8b); /* gzip */
    fg_buf_init(&inflated, SIZE_MAX);
    if (fg_inflate(pprof, FG_CODING_GZIP, ARENA_BYTES, &inflated, &err) != FG_OK)
        fail_msg("%s", err.msg);
    pprof = fg_arena_copy(arena, fg_buf_slice(&inflated)); /* the batch borrows from it */
    fg_buf_done(&inflated);
    request.upload =
        (struct fg_upload){.labels = push.series[0].labels, .limits = FG_DECODE_LIMITS_DEFAULT};
    if (fg_pprof_decode(pprof, &request, arena, ret_batch, &info, &counts, &err) != FG_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(ret_batch->n_profiles, 1);
}

Forward__V1__Result parcel_run_expand(void)
{
    Forward__V1__Result result = FORWARD__V1__RESULT__INIT;

    result.expand = true;
    return result;
}
