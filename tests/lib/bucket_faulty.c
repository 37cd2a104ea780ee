/*
 * A bucket that loses, tears and delays what it passes on. Each request becomes one of its own to
 * the inner bucket, so that an answer can be thrown away.
 *
 *   send --> (drawn) --delay--> ARRIVES --> inner --> ANSWERED --delay--> done()
 *
 * Without delays all of that happens within send, if the inner bucket allows it.
 */
#include "common/storage/bucket/bucket.h"
#include "common/storage/bucket/impl.h"
#include "tests/lib/bucket_doubles.h"
#include "tests/lib/delays.h"

enum draw {
    DRAW_LOSE_REQUEST,
    DRAW_LOSE_ANSWER,
    DRAW_REFUSE,
    DRAW_TEAR,
    DRAW_STRAGGLE,
    DRAW_SPOIL,
    DRAW_SPOT,
    DRAW_DELAY_IN,
    DRAW_DELAY_OUT,
    DRAWS
};

enum fate { PASSED, REQUEST_LOST, ANSWER_LOST, REFUSED, TORN, STRAGGLING, SPOILT };

struct fg_bucket_faulty {
    struct fg_bucket bucket;
    struct fg_bucket *inner; /* borrowed */
    pthread_mutex_t lock;    /* of the next ones; never held while done() is called */
    struct fg_bucket_faults faults;
    uint64_t count, fail_at; /* fail_at 0: never */
    bool fail_late;
    struct delays delays;
};

struct faulty_passed {
    struct fg_bucket_request inner;
    struct fg_bucket_faulty *faulty;
    struct fg_bucket_request *outer; /* NULL: it was told that its request is lost */
    struct fg_buf content;           /* of a straggler, which outlives what it is a copy of */
    char name[FG_BUCKET_NAME_MAX_BYTES + 1];
    uint64_t seed; /* of its draws */
    enum fate fate;
    bool answered;
    int64_t out_ns; /* how late the answer is */
    struct delayed delayed;
};

/* ---- what becomes of a request ---- */

static enum fate fate_of(const struct fg_bucket_faults *faults, uint64_t seed)
{
    if (delays_strikes(seed, DRAW_LOSE_REQUEST, faults->lose_request_permille))
        return REQUEST_LOST;
    if (delays_strikes(seed, DRAW_REFUSE, faults->refuse_permille))
        return REFUSED;
    if (delays_strikes(seed, DRAW_TEAR, faults->tear_permille))
        return TORN;
    if (delays_strikes(seed, DRAW_LOSE_ANSWER, faults->lose_answer_permille))
        return ANSWER_LOST;
    if (delays_strikes(seed, DRAW_STRAGGLE, faults->straggle_permille))
        return STRAGGLING;
    if (delays_strikes(seed, DRAW_SPOIL, faults->spoil_permille))
        return SPOILT;
    return PASSED;
}

static bool writes(const struct fg_bucket_request *request)
{
    return request->verb == FG_BUCKET_PUT || request->verb == FG_BUCKET_DELETE;
}

static void lose(struct fg_bucket_request *outer, const char *what)
{
    (void)fg_bucket_fail(outer, FG_E_UNAVAILABLE, "%s", what);
    outer->unsure = writes(outer);
}

static void spoil(struct faulty_passed *passed)
{
    struct fg_buf *body = &passed->outer->body;
    uint64_t spot = delays_draw(passed->seed, DRAW_SPOT);

    if (body->len > 0)
        body->ptr[spot / 8 % body->len] ^= (uint8_t)(1u << spot % 8);
}

static void end(struct faulty_passed *passed)
{
    struct fg_bucket_request *outer = passed->outer;

    switch (passed->fate) {
    case REQUEST_LOST:
        lose(outer, "the request was made to get lost");
        break;
    case ANSWER_LOST:
        lose(outer, "the answer was made to get lost");
        break;
    case STRAGGLING:
        break; /* it knows */
    case TORN:
        lose(outer, "the connection was made to break");
        break;
    case REFUSED:
        (void)fg_bucket_fail(outer, FG_E_UNAVAILABLE, "made to fail");
        break;
    case SPOILT:
        fg_bucket_take_answer(outer, &passed->inner);
        spoil(passed);
        break;
    case PASSED:
        fg_bucket_take_answer(outer, &passed->inner);
        break;
    }
    fg_bucket_clear(&passed->inner);
    fg_buf_done(&passed->content);
    free(passed);
    if (outer != NULL)
        fg_bucket_finish(outer);
}

/* ---- its way ---- */

static void step(struct faulty_passed *passed);

/* Goes on at once, or in its turn. */
static void later(struct faulty_passed *passed, int64_t delay_ns)
{
    struct fg_bucket_faulty *faulty = passed->faulty;

    if (delay_ns == 0) {
        step(passed);
        return;
    }
    delays_put(&faulty->delays, &passed->delayed, fg_mono_ns(faulty->faults.clock) + delay_ns);
}

static void on_done(struct fg_bucket_request *inner)
{
    struct faulty_passed *passed = fg_container(inner, struct faulty_passed, inner);

    passed->answered = true;
    later(passed, passed->out_ns);
}

/* The caller hears that it is lost, and forgets what it wanted to write. */
static void leave_behind(struct faulty_passed *passed)
{
    struct fg_bucket_request *outer = fg_take(passed->outer);

    memcpy(passed->name, outer->name, strlen(outer->name) + 1);
    fg_buf_put(&passed->content, outer->content);
    passed->inner.name = passed->name;
    passed->inner.content = fg_buf_slice(&passed->content);
    lose(outer, "the request was made to get lost");
    fg_bucket_finish(outer);
    later(passed, passed->out_ns);
}

/* Did its caller give up on the way? */
static bool is_given_up(struct faulty_passed *passed)
{
    struct fg_clock *clock = passed->faulty->faults.clock;

    return clock != NULL && passed->outer != NULL &&
           fg_bucket_check(passed->outer, fg_mono_ns(clock)) != FG_OK;
}

static void step(struct faulty_passed *passed)
{
    if (passed->answered || passed->fate == REQUEST_LOST || passed->fate == REFUSED ||
        passed->fate == TORN) {
        end(passed);
    } else if (is_given_up(passed)) {
        struct fg_bucket_request *outer = passed->outer;

        free(passed);
        fg_bucket_finish(outer);
    } else if (passed->fate == STRAGGLING && passed->outer != NULL) {
        leave_behind(passed);
    } else {
        fg_bucket_send(passed->faulty->inner, &passed->inner);
    }
}

static struct faulty_passed *make(struct fg_bucket_faulty *faulty, struct fg_bucket_request *outer)
{
    struct faulty_passed *passed = fg_new(struct faulty_passed);

    passed->faulty = faulty;
    passed->outer = outer;
    passed->inner.verb = outer->verb;
    passed->inner.name = outer->name;
    passed->inner.offset = outer->offset;
    passed->inner.length = outer->length;
    passed->inner.content_max_bytes = outer->content_max_bytes;
    passed->inner.content = outer->content;
    passed->inner.path = outer->path;
    passed->inner.in_parts = outer->in_parts;
    passed->inner.condition = outer->condition;
    passed->inner.if_etag = outer->if_etag;
    passed->inner.by_folder = outer->by_folder;
    passed->inner.page_max = outer->page_max;
    passed->inner.after = outer->after;
    passed->inner.older_than_ns = outer->older_than_ns;
    passed->inner.done = on_done;
    fg_buf_init(&passed->content, SIZE_MAX);
    return passed;
}

/* Locked. */
static int64_t delay_of(const struct fg_bucket_faulty *faulty, uint64_t seed, enum draw nr)
{
    return delays_half(faulty->faults.clock, faulty->faults.delay_max_ns, seed, nr);
}

static void faulty_send(struct fg_bucket *bucket, struct fg_bucket_request *outer)
{
    struct fg_bucket_faulty *faulty = fg_container(bucket, struct fg_bucket_faulty, bucket);
    struct faulty_passed *passed = make(faulty, outer);
    int64_t in_ns;

    (void)pthread_mutex_lock(&faulty->lock);
    passed->seed = fg_mix64(faulty->faults.seed + ++faulty->count);
    passed->fate = fate_of(&faulty->faults, passed->seed);
    if (passed->fate == STRAGGLING && (outer->verb != FG_BUCKET_PUT || outer->path != NULL))
        passed->fate = PASSED;
    if (faulty->faults.refused_put != NULL && outer->verb == FG_BUCKET_PUT &&
        strcmp(outer->name, faulty->faults.refused_put) == 0)
        passed->fate = REFUSED;
    if (faulty->count == faulty->fail_at)
        passed->fate = faulty->fail_late ? ANSWER_LOST : REFUSED;
    in_ns = delay_of(faulty, passed->seed, DRAW_DELAY_IN);
    passed->out_ns = delay_of(faulty, passed->seed, DRAW_DELAY_OUT);
    (void)pthread_mutex_unlock(&faulty->lock);
    later(passed, in_ns);
}

/* Its time comes as it was drawn: a cancelled request has not got back what it did either. */
static void faulty_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    (void)bucket, (void)request;
}

static void faulty_close(struct fg_bucket *bucket)
{
    struct fg_bucket_faulty *faulty = fg_container(bucket, struct fg_bucket_faulty, bucket);

    delays_done(&faulty->delays);
    (void)pthread_mutex_destroy(&faulty->lock);
    free(faulty);
}

/* ---- outside ---- */

struct fg_bucket_faulty *fg_bucket_faulty_create(struct fg_bucket *inner,
                                                 const struct fg_bucket_faults *faults)
{
    static const struct fg_bucket_ops ops = {faulty_send, faulty_cancel, faulty_close};
    struct fg_bucket_faulty *faulty = fg_new(struct fg_bucket_faulty);

    faulty->bucket.ops = &ops;
    faulty->bucket.wraps = inner;
    faulty->inner = inner;
    faulty->faults = *faults;
    (void)pthread_mutex_init(&faulty->lock, NULL);
    delays_init(&faulty->delays);
    return faulty;
}

struct fg_bucket *fg_bucket_faulty_bucket(struct fg_bucket_faulty *faulty)
{
    return &faulty->bucket;
}

void fg_bucket_faulty_set(struct fg_bucket_faulty *faulty, const struct fg_bucket_faults *faults)
{
    (void)pthread_mutex_lock(&faulty->lock);
    faulty->faults = *faults;
    (void)pthread_mutex_unlock(&faulty->lock);
}

void fg_bucket_faulty_fail(struct fg_bucket_faulty *faulty, uint64_t k, bool late)
{
    (void)pthread_mutex_lock(&faulty->lock);
    faulty->fail_at = k == 0 ? 0 : faulty->count + k;
    faulty->fail_late = late;
    (void)pthread_mutex_unlock(&faulty->lock);
}

uint64_t fg_bucket_faulty_count(struct fg_bucket_faulty *faulty)
{
    uint64_t count;

    (void)pthread_mutex_lock(&faulty->lock);
    count = faulty->count;
    (void)pthread_mutex_unlock(&faulty->lock);
    return count;
}

int64_t fg_bucket_faulty_next_mono_ns(struct fg_bucket_faulty *faulty)
{
    return delays_next_mono_ns(&faulty->delays);
}

void fg_bucket_faulty_turn(struct fg_bucket_faulty *faulty)
{
    struct delayed *due;

    while ((due = delays_take(&faulty->delays, faulty->faults.clock)) != NULL)
        step(fg_container(due, struct faulty_passed, delayed));
}
