/*
 * A request is a copy of what the machine asked for, on its way on a thread of the world's. So it
 * may arrive after the machine gave up, or was killed.
 *
 *   send --copy--> [way there] --> inner --> [way back] --> answers --> done(), machine's thread
 *                     \________________________\__ deadline, cancel: answered without it
 */
#include "common/storage/bucket/impl.h"
#include "tests/lib/threads.h"
#include "tests/sim/shells/faults.h"

#include <pthread.h>

enum { FILE_MAX_BYTES = 64 << 20 };

static const int64_t PATIENCE_NS = FG_MINUTE_NS; /* of a request without a deadline */

enum fate { DONE, REFUSED, LOST, ANSWER_LOST, LATE, FULL };

/* An answered request, for the thread that calls done(). */
struct answer {
    struct fg_bucket_request *outer;
    struct answer *next;
};

struct trip {
    struct fg_bucket_request inner;
    struct sim_net *net;
    struct fg_bucket_request *outer; /* NULL: it was answered */
    struct fg_buf content;
    enum fate fate;
    int64_t give_up_mono_ns;
    char name[FG_BUCKET_NAME_MAX_BYTES + 1], *after;
    struct thread *thread; /* NULL: not begun */
    struct trip *next;
};

struct sim_net {
    struct fg_bucket bucket;
    unsigned machine;
    struct fg_bucket *inner;
    const struct faults *faults;
    bool dead, closing;
    struct trip *trips; /* not answered */
    struct answer *first, **last;
    pthread_t thread;
    pthread_mutex_t lock; /* for `answered` only: threads do not run at the same time */
    pthread_cond_t answered;
    uint64_t requests, failed;
};

static bool strikes(unsigned permille)
{
    return threads_draw(1000) < permille;
}

static enum fate draw_fate(const struct faults *faults, enum fg_bucket_verb verb)
{
    if (faults->verbs != 0 && (faults->verbs & 1u << verb) == 0)
        return DONE;
    if (strikes(faults->refuse))
        return REFUSED;
    if (strikes(faults->lose))
        return LOST;
    if (strikes(faults->lose_answer))
        return ANSWER_LOST;
    if (strikes(faults->late))
        return LATE;
    return verb == FG_BUCKET_PUT && faults->bucket_full ? FULL : DONE;
}

static bool writes(const struct fg_bucket_request *request)
{
    return request->verb == FG_BUCKET_PUT || request->verb == FG_BUCKET_DELETE;
}

static bool is_certain(enum fate fate)
{
    return fate == REFUSED || fate == FULL;
}

/* ---- answers ---- */

/* Takes the trip's result, or a failure; the machine's thread calls done(). Once. Nobody else runs
 * meanwhile. */
static void answer(struct trip *trip, enum fg_code failed, const char *why)
{
    struct sim_net *net = trip->net;
    struct fg_bucket_request *outer = trip->outer, *inner = &trip->inner;
    struct trip **at = &net->trips;
    struct answer *answer;

    trip->outer = NULL;
    while (*at != trip)
        at = &(*at)->next;
    *at = trip->next;
    if (net->dead)
        return;
    if (failed != FG_OK) {
        net->failed++;
        (void)fg_bucket_fail(outer, failed, "%s", why);
        outer->unsure = writes(outer) && !is_certain(trip->fate);
    } else {
        fg_bucket_take_answer(outer, inner);
    }
    answer = fg_new(struct answer);
    answer->outer = outer;
    *net->last = answer;
    net->last = &answer->next;
    threads_pin();
    (void)pthread_cond_signal(&net->answered);
    threads_unpin();
}

static void *answer_all(void *arg)
{
    struct sim_net *net = arg;

    (void)pthread_setname_np(pthread_self(), "network");
    (void)pthread_mutex_lock(&net->lock);
    while (!net->closing || net->first != NULL) {
        struct answer *answer = net->first;

        if (answer == NULL) {
            (void)pthread_cond_wait(&net->answered, &net->lock);
            continue;
        }
        net->first = answer->next;
        if (net->first == NULL)
            net->last = &net->first;
        (void)pthread_mutex_unlock(&net->lock);
        fg_bucket_finish(answer->outer);
        free(answer);
        (void)pthread_mutex_lock(&net->lock);
    }
    (void)pthread_mutex_unlock(&net->lock);
    return NULL;
}

/* ---- a trip ---- */

/* Under way for so long; who asked may give up meanwhile. */
static void travel(struct trip *trip, int64_t ns)
{
    int64_t end_ns = threads_now_ns() + ns;

    while (trip->outer != NULL && threads_now_ns() < end_ns) {
        if (threads_now_ns() >= trip->give_up_mono_ns)
            answer(trip, FG_E_DEADLINE, "no answer in time");
        else
            (void)threads_wait(FG_MIN(end_ns, trip->give_up_mono_ns) - threads_now_ns());
    }
    if (threads_now_ns() < end_ns)
        threads_sleep(end_ns - threads_now_ns());
}

static void on_arrived(struct fg_bucket_request *inner)
{
    (void)inner; /* within send */
}

static void arrive(struct trip *trip)
{
    threads_pin();
    fg_bucket_send(trip->net->inner, &trip->inner);
    threads_unpin();
}

static int64_t draw_delay(const struct faults *faults)
{
    return 1 + (int64_t)threads_draw(
                   (uint64_t)(faults->delay_max_ns == 0 ? 20 * FG_MS_NS : faults->delay_max_ns));
}

static void make_trip(void *arg)
{
    struct trip *trip = arg;
    const struct faults *faults = trip->net->faults;
    int64_t there_ns = draw_delay(faults), back_ns = draw_delay(faults);

    trip->thread = threads_self();
    travel(trip, there_ns);
    if (trip->outer == NULL && strikes(500)) /* the connection was closed */
        trip->fate = LOST;
    if (trip->fate == DONE || trip->fate == ANSWER_LOST)
        arrive(trip);
    travel(trip, back_ns);
    if (trip->outer != NULL && trip->fate == DONE)
        answer(trip, FG_OK, "");
    else if (trip->outer != NULL && trip->fate == REFUSED)
        answer(trip, FG_E_UNAVAILABLE, "refused");
    else if (trip->outer != NULL && trip->fate == FULL)
        answer(trip, FG_E_NO_SPACE, "the bucket is full");
    if (trip->fate == LATE) {
        travel(trip, (int64_t)threads_draw((uint64_t)(2 * FG_MINUTE_NS)));
        arrive(trip);
    }
    while (trip->outer != NULL) /* nothing comes back */
        travel(trip, FG_HOUR_NS);
    fg_bucket_clear(&trip->inner);
    fg_buf_done(&trip->content);
    free(trip->after);
    free(trip);
}

static void copy_file(const char *path, struct fg_buf *out)
{
    FILE *file = fopen(path, "re");
    size_t got;

    fg_assert(file != NULL);
    do {
        fg_assert(fg_buf_reserve(out, 1 << 16));
        got = fread(out->ptr + out->len, 1, 1 << 16, file);
        out->len += got;
    } while (got > 0);
    fg_assert(ferror(file) == 0);
    (void)fclose(file);
}

static void net_send(struct fg_bucket *bucket, struct fg_bucket_request *outer)
{
    struct sim_net *net = fg_container(bucket, struct sim_net, bucket);
    struct trip *trip = fg_new(struct trip);
    int64_t patience_ns = threads_now_ns() + PATIENCE_NS;

    trip->net = net;
    trip->outer = outer;
    trip->inner = (struct fg_bucket_request){
        .verb = outer->verb,
        .name = trip->name,
        .offset = outer->offset,
        .length = outer->length,
        .content_max_bytes = outer->content_max_bytes,
        .condition = outer->condition,
        .if_etag = outer->if_etag,
        .by_folder = outer->by_folder,
        .page_max = outer->page_max,
        .older_than_ns = outer->older_than_ns,
    };
    (void)snprintf(trip->name, sizeof trip->name, "%s", outer->name == NULL ? "" : outer->name);
    if (outer->after != NULL)
        trip->inner.after = trip->after = strdup(outer->after);
    fg_buf_init(&trip->content, FILE_MAX_BYTES);
    if (outer->verb == FG_BUCKET_PUT && outer->path != NULL)
        copy_file(outer->path, &trip->content);
    else if (outer->verb == FG_BUCKET_PUT)
        fg_buf_put(&trip->content, outer->content);
    trip->inner.content = fg_buf_slice(&trip->content);
    trip->inner.done = on_arrived;
    trip->fate = draw_fate(net->faults, outer->verb);
    trip->give_up_mono_ns =
        outer->deadline_mono_ns == 0 ? patience_ns : FG_MIN(outer->deadline_mono_ns, patience_ns);
    trip->next = net->trips;
    net->trips = trip;
    net->requests++;
    threads_spawn(0, "request", make_trip, trip);
}

static void net_cancel(struct fg_bucket *bucket, struct fg_bucket_request *request)
{
    struct sim_net *net = fg_container(bucket, struct sim_net, bucket);
    struct trip *trip = net->trips;

    while (trip != NULL && trip->outer != request)
        trip = trip->next;
    if (trip == NULL)
        return;
    answer(trip, FG_E_CANCELED, "cancelled");
    if (trip->thread != NULL)
        threads_wake(trip->thread);
}

static void net_close(struct fg_bucket *bucket)
{
    (void)bucket; /* sim_net_close() */
}

/* ---- life ---- */

struct sim_net *sim_net_create(unsigned machine, struct fg_bucket *inner,
                               const struct faults *faults)
{
    static const struct fg_bucket_ops ops = {net_send, net_cancel, net_close};
    struct sim_net *net = fg_new(struct sim_net);

    net->bucket.ops = &ops;
    net->machine = machine;
    net->inner = inner;
    net->faults = faults;
    net->last = &net->first;
    (void)pthread_mutex_init(&net->lock, NULL);
    (void)pthread_cond_init(&net->answered, NULL);
    fg_assert(pthread_create(&net->thread, NULL, answer_all, net) == 0);
    return net;
}

struct fg_bucket *sim_net_bucket(struct sim_net *net)
{
    return &net->bucket;
}

void sim_net_kill(struct sim_net *net)
{
    net->dead = true;
    while (net->trips != NULL)
        answer(net->trips, FG_E_CANCELED, "killed");
}

void sim_net_close(struct sim_net *net)
{
    fg_assert(net->trips == NULL);
    (void)pthread_mutex_lock(&net->lock);
    net->closing = true;
    (void)pthread_cond_signal(&net->answered);
    (void)pthread_mutex_unlock(&net->lock);
    (void)pthread_join(net->thread, NULL);
}

uint64_t sim_net_requests(const struct sim_net *net)
{
    return net->requests;
}

uint64_t sim_net_failed(const struct sim_net *net)
{
    return net->failed;
}
