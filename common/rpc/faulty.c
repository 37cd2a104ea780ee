/*
 * A peer that loses and doubles what it passes on. Each call becomes a call of its own to the inner
 * peer, so that an answer can be thrown away without the caller's structure being touched by two.
 */
#include "common/base/hash.h"
#include "common/rpc/call.h"

#include <stdatomic.h>

struct faulty {
    struct fg_peer peer;
    struct fg_peer *inner; /* borrowed */
    struct fg_peer_faults faults;
    _Atomic uint64_t drawn;
    atomic_uint refs; /* 1, and one per call passed on: a duplicate may outlive the peer */
};

struct passed {
    struct fg_call call; /* to inner */
    struct faulty *faulty;
    struct fg_call *outer; /* NULL: nobody waits for this one */
    uint8_t bytes[];       /* of a duplicate: head and payload */
};

static void faulty_unref(struct faulty *faulty)
{
    if (atomic_fetch_sub(&faulty->refs, 1) == 1)
        free(faulty);
}

static void passed_free(struct passed *passed)
{
    struct faulty *faulty = passed->faulty;

    fg_call_done(faulty->inner, &passed->call);
    free(passed);
    faulty_unref(faulty);
}

static bool draw(struct faulty *faulty, unsigned permille)
{
    uint64_t nr = atomic_fetch_add(&faulty->drawn, 1);

    /* The increment is SplitMix64's, whose finaliser fg_mix64() is. */
    return fg_mix64(faulty->faults.seed + nr * UINT64_C(0x9e3779b97f4a7c15)) % 1000 < permille;
}

static void on_done(struct fg_call *inner)
{
    struct passed *passed = fg_container(inner, struct passed, call);
    struct fg_call *outer = passed->outer;

    if (outer == NULL) {
        passed_free(passed);
        return;
    }
    outer->transport = passed;
    outer->code = inner->code;
    outer->err = inner->err;
    outer->reply_head = inner->reply_head;
    outer->reply_payload = inner->reply_payload;
    outer->rest_key = inner->rest_key;
    outer->rest_bytes = inner->rest_bytes;
    fg_call_finish(outer);
}

static void on_done_lost(struct fg_call *inner)
{
    struct passed *passed = fg_container(inner, struct passed, call);
    struct fg_call *outer = passed->outer;

    passed_free(passed);
    fg_call_fail(outer, FG_E_UNAVAILABLE, "the answer was made to get lost");
}

static struct passed *pass(struct faulty *faulty, const struct fg_call *call, struct fg_call *outer,
                           size_t extra)
{
    struct passed *passed = fg_calloc(1, sizeof *passed + extra);

    passed->call.method = call->method;
    passed->call.head = call->head;
    passed->call.payload = call->payload;
    passed->call.deadline_mono_ns = call->deadline_mono_ns;
    passed->call.done = on_done;
    passed->call.single = true; /* each part takes its chances here */
    passed->faulty = faulty;
    passed->outer = outer;
    atomic_fetch_add(&faulty->refs, 1);
    return passed;
}

/* Nobody waits for the duplicate, so it cannot borrow from the caller. */
static struct passed *duplicate(struct faulty *faulty, const struct fg_call *call)
{
    struct passed *twin = pass(faulty, call, NULL, call->head.len + call->payload.len);

    if (call->head.len > 0)
        memcpy(twin->bytes, call->head.ptr, call->head.len);
    if (call->payload.len > 0)
        memcpy(twin->bytes + call->head.len, call->payload.ptr, call->payload.len);
    twin->call.head = fg_bytes(twin->bytes, call->head.len);
    twin->call.payload = fg_bytes(twin->bytes + call->head.len, call->payload.len);
    return twin;
}

static void faulty_send(struct fg_peer *base, struct fg_call *call)
{
    struct faulty *faulty = fg_container(base, struct faulty, peer);
    /* Always three draws a call, so that one probability does not shift what the others do. */
    bool drop_request = draw(faulty, faulty->faults.drop_request_permille);
    bool drop_reply = draw(faulty, faulty->faults.drop_reply_permille);
    bool twice = draw(faulty, faulty->faults.duplicate_permille);
    struct passed *passed;

    if (drop_request) {
        fg_call_fail(call, FG_E_UNAVAILABLE, "the request was made to get lost");
        return;
    }
    if (twice)
        fg_peer_send(faulty->inner, &duplicate(faulty, call)->call);
    passed = pass(faulty, call, call, 0);
    if (drop_reply)
        passed->call.done = on_done_lost;
    fg_peer_send(faulty->inner, &passed->call);
}

static void faulty_release(struct fg_call *call)
{
    if (call->transport != NULL)
        passed_free(call->transport);
    call->transport = NULL;
}

static void faulty_destroy(struct fg_peer *base)
{
    faulty_unref(fg_container(base, struct faulty, peer));
}

struct fg_peer *fg_peer_faulty(struct fg_peer *inner, const struct fg_peer_faults *faults)
{
    static const struct fg_peer_ops ops = {faulty_send, faulty_release, faulty_destroy};
    struct faulty *faulty = fg_new(struct faulty);

    faulty->peer.ops = &ops;
    faulty->inner = inner;
    faulty->faults = *faults;
    atomic_init(&faulty->refs, 1);
    return &faulty->peer;
}
