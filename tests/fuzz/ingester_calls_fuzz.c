/*
 * Heads of calls to an ingester: a byte that says which one, then the head. It is answered or
 * refused by a whole ingester that is alone in its ring and holds two profiles, whose store has an
 * id that seeds know: 1, 2, 3 ... 16.
 */
#include "common/base/time.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/head_run.h"
#include "tests/lib/store_doubles.h"

static const enum fg_rpc_method methods[] = {FG_RPC_SELECT, FG_RPC_SERIES, FG_RPC_POINTS,
                                             FG_RPC_STATS,  FG_RPC_GROUPS, FG_RPC_FETCH,
                                             FG_RPC_ROWS,   FG_RPC_USE,    FG_RPC_QUERY_USE};

/* A generation that no manifest has is waited for, and many inputs name one. */
static const int64_t CALL_NS = 50 * FG_MS_NS;

static int64_t in(int64_t ns)
{
    return fg_mono_ns(fg_clock_real()) + ns;
}

static struct fg_store *store_with_id(void)
{
    static const uint8_t id[FG_ID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct fg_store *store = fg_store_memory(HEAD_FAMILIES);
    struct fg_store_batch batch;
    struct fg_err err;

    fg_store_batch_init(&batch);
    fg_store_put(&batch, HEAD_META, FG_LIT("writer"), fg_bytes(id, sizeof id));
    fg_assert(fg_store_write(store, &batch, &err) == FG_OK);
    fg_store_batch_done(&batch);
    return store;
}

static void start(struct head *head)
{
    static const struct head_sample sample = {"main;work", {3, 30}, 7};
    struct head_profile profile = {.tenant = "t",
                                   .service = "s",
                                   .time_ns = 1000 * FG_HOUR_NS,
                                   .samples = &sample,
                                   .n_samples = 1};
    struct fg_err err;

    head_open_seated(head, store_with_id(), fg_bucket_memory(), "fuzz", 1);
    fg_assert(fg_ring_watch_start(head->watch, &err) == FG_OK &&
              fg_ring_watch_wait_member(head->watch, FG_RING_MEMBER_ACTIVE, in(FG_MINUTE_NS),
                                        &err) == FG_OK);
    fg_assert(head_push(head, &profile, true).stored == 1);
    profile.time_ns++;
    fg_assert(head_push(head, &profile, true).stored == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct head head;
    struct fg_call call = {0};

    if (head.ingester == NULL)
        start(&head);
    if (size == 0)
        return 0;
    call.deadline_mono_ns = in(CALL_NS);
    call.method = methods[data[0] % FG_COUNT(methods)];
    call.head = fg_bytes(data + 1, size - 1);
    if (fg_peer_call(head.peer, &call) != FG_OK)
        fg_assert(call.err.code == call.code && call.code != FG_E_INTERNAL);
    fg_call_done(head.peer, &call);
    return 0;
}
