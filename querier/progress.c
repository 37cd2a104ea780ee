#include "querier/progress.h"

#include "common/base/str.h"

#include <inttypes.h>
#include <pthread.h>

enum {
    EVENT_EVERY_MS = 200,   /* people see a smooth bar */
    EVENT_MAX_BYTES = 1024, /* a handful of numbers as JSON */
    /* Proxies close what is silent for long: an event is sent although nothing has changed. */
    SILENT_MAX_EVENTS = 50,
};

#define EVENT_STREAM "text/event-stream"

static const char result_head[] = "event: result\ndata: ";
static const char line_head[] = "\ndata: ";

struct progress_numbers {
    uint64_t stage, done, total, bytes, profiles;
};

struct qry_progress {
    _Atomic uint64_t stage, done, total, bytes, profiles;

    /* Over the stream: the loop sends events until the worker has the result, and compresses it as
     * what follows them. */
    pthread_mutex_t lock;
    bool begun; /* the answer is streamed */
    bool last;  /* only the result, or an error, follows */

    /* Of the loop. */
    struct fg_http_request *req;
    uv_timer_t timer;
    bool started; /* the timer is the loop's */
    struct progress_numbers told;
    unsigned silent; /* times that the numbers were those that were told */
};

/* ---- on the query's thread ---- */

static void publish(const struct qry_query *query)
{
    struct qry_progress *progress = query->progress;

    atomic_store_explicit(&progress->bytes, query->bytes, memory_order_relaxed);
    atomic_store_explicit(&progress->profiles, query->profiles, memory_order_relaxed);
}

void qry_progress_stage(const struct qry_query *query, enum qry_stage stage)
{
    if (query->progress == NULL)
        return;
    atomic_store_explicit(&query->progress->stage, stage, memory_order_relaxed);
    publish(query);
}

void qry_progress_plan(const struct qry_query *query, uint64_t pieces)
{
    if (query->progress != NULL)
        atomic_fetch_add_explicit(&query->progress->total, pieces, memory_order_relaxed);
}

void qry_progress_step(const struct qry_query *query)
{
    if (query->progress == NULL)
        return;
    atomic_fetch_add_explicit(&query->progress->done, 1, memory_order_relaxed);
    publish(query);
}

/* Each line of an event's data has its name before it; a JSON document is one line. */
enum fg_code qry_progress_frame(struct qry_query *query, struct fg_err *err)
{
    struct fg_slice rest = fg_buf_slice(&query->body);
    struct fg_buf framed;

    fg_buf_init(&framed, query->body.max_bytes);
    (void)fg_buf_reserve(&framed, FG_MIN(rest.len + EVENT_MAX_BYTES, framed.max_bytes));
    fg_buf_puts(&framed, result_head);
    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, '\n'), rest.len);

        fg_buf_put(&framed, fg_slice_sub(rest, 0, end));
        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
        if (rest.len > 0)
            fg_buf_puts(&framed, line_head);
    }
    fg_buf_puts(&framed, "\n\n");
    fg_buf_done(&query->body);
    query->body = framed;
    return framed.full ? fg_fail(err, FG_E_LIMIT,
                                 "the response exceeds %llu bytes (querier.answer_max_bytes)",
                                 (unsigned long long)query->querier->answer_max_bytes)
                       : FG_OK;
}

bool qry_progress_encode(struct qry_query *query)
{
    struct qry_progress *progress = query->progress;
    bool begun;

    (void)pthread_mutex_lock(&progress->lock);
    progress->last = true;
    begun = progress->begun;
    (void)pthread_mutex_unlock(&progress->lock);
    return begun ? fg_http_encode_last(query->req, &query->body)
                 : fg_http_encode(query->req, &query->body);
}

/* ---- on the loop ---- */

bool qry_progress_wanted(struct fg_http_request *req)
{
    return fg_http_accept_weight(req, "text/event-stream") > 0 ||
           fg_slice_is(fg_http_param(req, "progress"), "true");
}

void qry_progress_create(struct qry_query *query)
{
    query->progress = fg_new(struct qry_progress);
    query->progress->req = query->req;
    fg_assert(pthread_mutex_init(&query->progress->lock, NULL) == 0);
}

/* Locked. */
static void send_event(struct qry_progress *progress)
{
    static const char *const stages[] = {
        [QRY_STAGE_QUEUED] = "queued",
        [QRY_STAGE_BLOCKS] = "blocks",
        [QRY_STAGE_INGESTERS] = "ingesters",
        [QRY_STAGE_ANSWER] = "answer",
    };
    struct progress_numbers now = {
        .stage = atomic_load_explicit(&progress->stage, memory_order_relaxed),
        .done = atomic_load_explicit(&progress->done, memory_order_relaxed),
        .total = atomic_load_explicit(&progress->total, memory_order_relaxed),
        .bytes = atomic_load_explicit(&progress->bytes, memory_order_relaxed),
        .profiles = atomic_load_explicit(&progress->profiles, memory_order_relaxed),
    };
    char text[EVENT_MAX_BYTES];
    int len;

    if (memcmp(&now, &progress->told, sizeof now) == 0 && ++progress->silent < SILENT_MAX_EVENTS)
        return;
    len = snprintf(text, sizeof text,
                   "event: progress\ndata: {\"stage\":\"%s\",\"done\":%" PRIu64
                   ",\"total\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"profiles\":%" PRIu64 "}\n\n",
                   stages[now.stage], now.done, now.total, now.bytes, now.profiles);
    /* What the client has no room for is told later, with newer numbers. */
    if (fg_http_stream_put(progress->req, fg_bytes(text, (size_t)len))) {
        progress->told = now;
        progress->silent = 0;
    }
}

/* Of an answer from a cache that proxies or browsers keep the events would be old. */
static void forbid_caches(struct qry_progress *progress)
{
    fg_http_add_header(progress->req, "Cache-Control", "no-store");
}

/* Begins the answer unless it has begun. Returns false if the client is gone. Locked. */
static bool begin_stream(struct qry_progress *progress)
{
    if (progress->begun || fg_http_gone(progress->req))
        return progress->begun;
    forbid_caches(progress);
    progress->begun = fg_http_stream_begin(progress->req, EVENT_STREAM);
    progress->told.done = UINT64_MAX; /* so that the first event is sent at once */
    return progress->begun;
}

static void on_timer(uv_timer_t *timer)
{
    struct qry_progress *progress = timer->data;

    (void)pthread_mutex_lock(&progress->lock);
    if (!progress->last && begin_stream(progress))
        send_event(progress);
    (void)pthread_mutex_unlock(&progress->lock);
}

void qry_progress_start(struct qry_query *query)
{
    struct qry_progress *progress = query->progress;

    fg_assert(uv_timer_init(fg_loop_uv(fg_http_loop(query->req)), &progress->timer) == 0);
    progress->timer.data = progress;
    progress->started = true;
    fg_assert(uv_timer_start(&progress->timer, on_timer, EVENT_EVERY_MS, EVENT_EVERY_MS) == 0);
}

static void end_with_error(struct fg_http_request *req, const struct fg_err *err)
{
    const struct fg_err known = fg_connect_known(err);

    fg_http_stream_fail(req, &known);
}

void qry_progress_finish(struct qry_query *query)
{
    struct fg_http_request *req = query->req;
    struct fg_err err = query->job.err;

    if (!query->progress->begun && query->job.code != FG_OK) {
        fg_connect_refuse(req, &query->call, &err); /* early enough for a status of its own */
    } else if (!query->progress->begun) {           /* nothing to tell but the result */
        forbid_caches(query->progress);
        fg_http_respond(req, 200, EVENT_STREAM, &query->body);
    } else if (query->job.code != FG_OK) {
        end_with_error(req, &err);
    } else if (!fg_http_stream_end(req, &query->body)) {
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "no memory left for responses, try again");
        end_with_error(req, &err);
    }
}

static void free_progress(struct qry_progress *progress)
{
    (void)pthread_mutex_destroy(&progress->lock);
    free(progress);
}

static void on_closed(uv_handle_t *timer)
{
    free_progress(timer->data);
}

void qry_progress_destroy(struct qry_query *query)
{
    struct qry_progress *progress = fg_take(query->progress);

    if (progress == NULL)
        return;
    if (progress->started)
        uv_close((uv_handle_t *)&progress->timer, on_closed);
    else
        free_progress(progress);
}
