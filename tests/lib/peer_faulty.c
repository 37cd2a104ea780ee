/*
 * Each call becomes one of its own to the inner peer, so that an answer can be thrown away without
 * the caller's structure being touched by two.
 *
 *   send --> (drawn) --delay--> ARRIVES --> inner --> ANSWERED --delay--> done()
 *
 * Without delays all of that happens within send, if the inner peer allows it.
 */
#include "tests/lib/peer_faulty.h"

#include "common/base/hash.h"
#include "common/net/rpc/call.h"
#include "tests/lib/delays.h"

enum draw {
    DRAW_DROP_REQUEST,
    DRAW_DROP_REPLY,
    DRAW_DUPLICATE,
    DRAW_DELAY_IN,
    DRAW_DELAY_OUT,
    DRAW_DELAY_TWIN,
};

enum fate { PASSED, REQUEST_LOST, REPLY_LOST };

struct fg_peer_faulty {
    struct fg_peer peer;
    struct fg_peer *inner; /* borrowed */
    atomic_uint refs;      /* 1, and one per call passed on: a duplicate may outlive the peer */
    pthread_mutex_t lock;  /* of the next ones; never held while done() is called */
    struct fg_peer_faults faults;
    uint64_t count, fail_at; /* fail_at 0: never */
    bool fail_late;
    bool requests_cut, replies_cut;
    struct delays delays;
};

struct faulty_call {
    struct fg_call inner;
    struct fg_peer_faulty *faulty;
    struct fg_call *outer; /* NULL: nobody waits for this one */
    enum fate fate;
    bool answered;
    int64_t out_ns; /* how late the answer is */
    struct delayed delayed;
    uint8_t bytes[]; /* head and payload of one that is sent later */
};

/* Locked. */
static int64_t delay_of(const struct fg_peer_faulty *faulty, uint64_t seed, enum draw nr)
{
    return delays_half(faulty->faults.clock, faulty->faults.delay_max_ns, seed, nr);
}

/* ---- the end of its way ---- */

static void faulty_unref(struct fg_peer_faulty *faulty)
{
    if (atomic_fetch_sub(&faulty->refs, 1) > 1)
        return;
    delays_done(&faulty->delays);
    (void)pthread_mutex_destroy(&faulty->lock);
    free(faulty);
}

static void passed_free(struct faulty_call *passed)
{
    struct fg_peer_faulty *faulty = passed->faulty;

    if (passed->answered)
        fg_call_done(faulty->inner, &passed->inner);
    free(passed);
    faulty_unref(faulty);
}

static void lose(struct faulty_call *passed, const char *what)
{
    struct fg_call *outer = passed->outer;

    passed_free(passed);
    if (outer != NULL)
        fg_call_fail(outer, FG_E_UNAVAILABLE, what);
}

static void hand_over(struct faulty_call *passed)
{
    const struct fg_call *inner = &passed->inner;
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

/* ---- its way ---- */

static void step(struct faulty_call *passed);

/* Goes on at once, or in its turn. */
static void later(struct faulty_call *passed, int64_t delay_ns)
{
    struct fg_peer_faulty *faulty = passed->faulty;

    if (delay_ns == 0) {
        step(passed);
        return;
    }
    delays_put(&faulty->delays, &passed->delayed, fg_mono_ns(faulty->faults.clock) + delay_ns);
}

static void on_done(struct fg_call *inner)
{
    struct faulty_call *passed = fg_container(inner, struct faulty_call, inner);

    passed->answered = true;
    later(passed, passed->out_ns);
}

static bool is_cut(struct fg_peer_faulty *faulty, bool reply)
{
    bool cut;

    (void)pthread_mutex_lock(&faulty->lock);
    cut = reply ? faulty->replies_cut : faulty->requests_cut;
    (void)pthread_mutex_unlock(&faulty->lock);
    return cut;
}

static void step(struct faulty_call *passed)
{
    bool cut = is_cut(passed->faulty, passed->answered);

    if (!passed->answered && (cut || passed->fate == REQUEST_LOST))
        lose(passed, cut ? "cut off" : "the request was made to get lost");
    else if (!passed->answered)
        fg_peer_send(passed->faulty->inner, &passed->inner);
    else if (cut || passed->fate == REPLY_LOST)
        lose(passed, cut ? "cut off" : "the answer was made to get lost");
    else
        hand_over(passed);
}

/* ---- its beginning ---- */

/* Takes copies: the sender keeps head and payload only until send returns. */
static struct faulty_call *make(struct fg_peer_faulty *faulty, const struct fg_call *call,
                                struct fg_call *outer)
{
    size_t extra = call->head.len + call->payload.len;
    struct faulty_call *passed = fg_calloc(1, sizeof *passed + extra);

    if (call->head.len > 0)
        memcpy(passed->bytes, call->head.ptr, call->head.len);
    if (call->payload.len > 0)
        memcpy(passed->bytes + call->head.len, call->payload.ptr, call->payload.len);
    passed->inner.method = call->method;
    passed->inner.head = fg_bytes(passed->bytes, call->head.len);
    passed->inner.payload = fg_bytes(passed->bytes + call->head.len, call->payload.len);
    passed->inner.deadline_mono_ns = call->deadline_mono_ns;
    passed->inner.done = on_done;
    passed->inner.single = true; /* each part takes its chances here */
    passed->faulty = faulty;
    passed->outer = outer;
    atomic_fetch_add(&faulty->refs, 1);
    return passed;
}

/* Locked. */
static enum fate fate_of(struct fg_peer_faulty *faulty, uint64_t seed)
{
    if (faulty->count == faulty->fail_at)
        return faulty->fail_late ? REPLY_LOST : REQUEST_LOST;
    if (delays_strikes(seed, DRAW_DROP_REQUEST, faulty->faults.drop_request_permille))
        return REQUEST_LOST;
    if (delays_strikes(seed, DRAW_DROP_REPLY, faulty->faults.drop_reply_permille))
        return REPLY_LOST;
    return PASSED;
}

static void faulty_send(struct fg_peer *base, struct fg_call *call)
{
    struct fg_peer_faulty *faulty = fg_container(base, struct fg_peer_faulty, peer);
    struct faulty_call *passed, *twin = NULL;
    int64_t in_ns, twin_ns;
    uint64_t seed;

    if (fg_rpc_frame_size(&(struct fg_rpc_frame){.head = call->head, .payload = call->payload}) ==
        0) {
        fg_call_refuse(call, FG_E_TOO_LARGE, "the request exceeds the message size limit");
        return;
    }
    passed = make(faulty, call, call);
    (void)pthread_mutex_lock(&faulty->lock);
    seed = fg_mix64(faulty->faults.seed + ++faulty->count);
    passed->fate = fate_of(faulty, seed);
    passed->out_ns = delay_of(faulty, seed, DRAW_DELAY_OUT);
    in_ns = delay_of(faulty, seed, DRAW_DELAY_IN);
    twin_ns = delay_of(faulty, seed, DRAW_DELAY_TWIN);
    if (passed->fate != REQUEST_LOST &&
        delays_strikes(seed, DRAW_DUPLICATE, faulty->faults.duplicate_permille))
        twin = make(faulty, call, NULL);
    (void)pthread_mutex_unlock(&faulty->lock);
    if (twin != NULL)
        later(twin, twin_ns);
    later(passed, in_ns);
}

static void faulty_release(struct fg_call *call)
{
    if (call->transport != NULL)
        passed_free(call->transport);
    call->transport = NULL;
}

static void faulty_destroy(struct fg_peer *base)
{
    struct fg_peer_faulty *faulty = fg_container(base, struct fg_peer_faulty, peer);

    faulty_unref(faulty);
}

/* ---- outside ---- */

struct fg_peer_faulty *fg_peer_faulty_create(struct fg_peer *inner,
                                             const struct fg_peer_faults *faults)
{
    static const struct fg_peer_ops ops = {faulty_send, faulty_release, faulty_destroy};
    struct fg_peer_faulty *faulty = fg_new(struct fg_peer_faulty);

    faulty->peer.ops = &ops;
    faulty->inner = inner;
    faulty->faults = *faults;
    (void)pthread_mutex_init(&faulty->lock, NULL);
    delays_init(&faulty->delays);
    atomic_init(&faulty->refs, 1);
    return faulty;
}

struct fg_peer *fg_peer_faulty_peer(struct fg_peer_faulty *faulty)
{
    return &faulty->peer;
}

void fg_peer_faulty_set(struct fg_peer_faulty *faulty, const struct fg_peer_faults *faults)
{
    (void)pthread_mutex_lock(&faulty->lock);
    faulty->faults = *faults;
    (void)pthread_mutex_unlock(&faulty->lock);
}

void fg_peer_faulty_cut(struct fg_peer_faulty *faulty, bool requests, bool replies)
{
    (void)pthread_mutex_lock(&faulty->lock);
    faulty->requests_cut = requests;
    faulty->replies_cut = replies;
    (void)pthread_mutex_unlock(&faulty->lock);
}

void fg_peer_faulty_fail(struct fg_peer_faulty *faulty, uint64_t k, bool late)
{
    (void)pthread_mutex_lock(&faulty->lock);
    faulty->fail_at = k == 0 ? 0 : faulty->count + k;
    faulty->fail_late = late;
    (void)pthread_mutex_unlock(&faulty->lock);
}

uint64_t fg_peer_faulty_count(struct fg_peer_faulty *faulty)
{
    uint64_t count;

    (void)pthread_mutex_lock(&faulty->lock);
    count = faulty->count;
    (void)pthread_mutex_unlock(&faulty->lock);
    return count;
}

int64_t fg_peer_faulty_next_mono_ns(struct fg_peer_faulty *faulty)
{
    return delays_next_mono_ns(&faulty->delays);
}

void fg_peer_faulty_turn(struct fg_peer_faulty *faulty)
{
    struct delayed *due;

    while ((due = delays_take(&faulty->delays, faulty->faults.clock)) != NULL)
        step(fg_container(due, struct faulty_call, delayed));
}
