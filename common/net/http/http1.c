/*
 * The state machine of a connection that speaks HTTP/1.0 or 1.1 (RFC 9112).
 *
 * Bytes come in with input(), answers go out through struct fg_http_io; there are no sockets and no
 * libuv here, so that a fuzzer or a test can drive it from memory. llhttp finds the pieces of a
 * message (http1_parse.c); we stop it after each message, so that one call never sees two of them
 * and a later request is parsed only when there is room for it: fewer than pipeline_max are at
 * work, and the answers before it do not wait to be read. Input that must wait stays in `pending`,
 * and then nothing is read from the socket: that is the back-pressure.
 *
 * A request enters the queue when its head is complete and leaves it when its answer is written.
 * The answers leave in the order of the queue, whenever the handlers give them. Handlers run from
 * feed_once(), never from inside of llhttp; when they answer at once, pump() notices that it is
 * running already, and the answers of all requests of one read leave with one write.
 *
 * A refused request is answered in its turn too. If its body is short, it is read and dropped,
 * which is cheaper for both sides than a new connection; otherwise nothing more is read (state
 * LAST).
 */
#include "common/net/http/impl.h"

enum {
    WRITE_BATCH = HTTP_WRITE_BUFS / HTTP1_ANSWER_BUFS, /* answers in one write */
    DIRECT_READ_MIN_BYTES =
        2048, /* below, the read of the loop's buffer takes more than the body */
    CHUNK_SLACK_BYTES = 64 * 1024, /* framing that any chunked body may have, ... */
    CHUNK_SLACK_FACTOR = 16,       /* ... and per byte; a chunk of one byte has a frame of five */
    HELD_MAX_BYTES = 64 * 1024,    /* of unread answers; with more the next request waits */
};

#define DRAIN_GRACE_NS (100 * FG_MS_NS) /* a request may be on its way while we decide to close */

static void begin(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    h1->state = HTTP1_HEAD;
    h1->fresh = true;
    h1->last = &h1->first;
    h1->since_mono_ns = conn->now_mono_ns;
    fg_buf_init(&h1->pending, HTTP_READ_BYTES);
    fg_http1_parser_init(conn);
}

/* --- the queue --- */

void fg_http1_queue_push(struct fg_http_conn *conn, struct fg_http_request *req)
{
    struct fg_http1 *h1 = &conn->http1;

    *h1->last = req;
    h1->last = &req->next;
    h1->n_queued++;
}

static struct fg_http_request *queue_pop(struct fg_http1 *h1)
{
    struct fg_http_request *req = h1->first;

    fg_assert(req != NULL && h1->n_queued > 0);
    h1->first = req->next;
    if (h1->first == NULL)
        h1->last = &h1->first;
    req->next = NULL;
    h1->n_queued--;
    return req;
}

/* Drops the newest request, which is not complete and never will be. */
static void queue_drop_newest(struct fg_http1 *h1)
{
    struct fg_http_request **link = &h1->first;

    while (&(*link)->next != h1->last)
        link = &(*link)->next;
    fg_http_request_free(*link);
    *link = NULL;
    h1->last = link;
    h1->n_queued--;
}

static void drop_written(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    /* If no answer was being written, it was what the first one has so far. */
    if (h1->n_writing == 0 && h1->first != NULL && h1->first->streaming)
        fg_http_stream_left(h1->first);
    for (; h1->n_writing > 0; h1->n_writing--)
        fg_http_request_free(queue_pop(h1));
    if (h1->first == NULL && h1->current == NULL)
        h1->since_mono_ns = fg_mono_ns(conn->owner->clock);
}

/* --- input that waits --- */

static void drop_pending(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    if (h1->pending_bytes == 0)
        return;
    if (conn->owner->lent.heads != NULL)
        fg_budget_give(conn->owner->lent.heads, h1->pending_bytes);
    h1->pending_bytes = 0;
    fg_buf_done(&h1->pending);
    fg_buf_init(&h1->pending, HTTP_READ_BYTES);
}

/* Keeps input that has to wait. Returns false if there is no memory for it. */
static bool keep_pending(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;
    struct fg_budget *budget = conn->owner->lent.heads;

    drop_pending(conn);
    if (budget != NULL && !fg_budget_take(budget, h1->in.len))
        return false;
    h1->pending_bytes = h1->in.len;
    fg_buf_put(&h1->pending, h1->in);
    fg_assert(!h1->pending.full);
    h1->in = fg_buf_slice(&h1->pending);
    return true;
}

/* --- refusing --- */

/* Answers without reading on: the connection ends with this answer. */
static void refuse_now(struct fg_http_conn *conn, enum fg_http_refusal why)
{
    struct fg_http1 *h1 = &conn->http1;
    struct fg_http_request *req = h1->current == NULL ? fg_http_request_new(conn) : h1->current;

    if (h1->state == HTTP1_HEAD)
        fg_http1_queue_push(conn, req);
    h1->current = NULL;
    h1->state = HTTP1_LAST;
    conn->unread = true;
    h1->in = fg_bytes(NULL, 0);
    req->refusal = why;
    fg_http_refuse(req);
}

static void pump(struct fg_http_conn *conn);

void fg_http1_refuse(struct fg_http_conn *conn, enum fg_http_refusal why)
{
    conn->http1.pumping = true; /* write and settle only once the state is the last one */
    refuse_now(conn, why);
    conn->http1.pumping = false;
    pump(conn);
}

static void end(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    h1->in = fg_bytes(NULL, 0);
    while (h1->first != NULL) {
        struct fg_http_request *req = queue_pop(h1);

        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
        if (req == h1->current)
            h1->current = NULL;
        /* Those that a handler or a worker has are freed when they come back, see respond(). */
        if (req->state == HTTP_READY || req->state == HTTP_RECEIVING)
            fg_http_request_free(req);
    }
    if (h1->current != NULL)
        fg_http_request_free(h1->current);
    h1->current = NULL;
    drop_pending(conn);
}

/* --- going on --- */

static void received(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;
    struct fg_http_request *req = h1->current;

    h1->complete = h1->line_begun = h1->line_over = h1->line_blank = false;
    h1->current = NULL;
    h1->state = req->keep_alive ? HTTP1_HEAD : HTTP1_LAST;
    h1->since_mono_ns = conn->now_mono_ns;
    h1->raw_bytes = 0;
    llhttp_reset(&h1->parser);
    if (h1->state == HTTP1_LAST && h1->in.len > 0) {
        conn->unread = true;
        h1->in = fg_bytes(NULL, 0);
    }
    if (req->refusal != HTTP_ACCEPTED)
        fg_http_refuse(req);
    else if (h1->state == HTTP1_HEAD && h1->first == req && h1->upgrade &&
             fg_http2_upgrade_wanted(req))
        h1->state = HTTP1_UPGRADED;
    else
        fg_http_request_work(req);
}

/* Refuses a message that has cost more bytes than it may. */
static enum fg_http_refusal check_raw_bytes(const struct fg_http_conn *conn)
{
    const struct fg_http1 *h1 = &conn->http1;
    const struct fg_http_request *req = h1->current;

    if (h1->state == HTTP1_HEAD)
        return h1->raw_bytes > conn->owner->config.head_max_bytes ? HTTP_HEAD_TOO_LARGE
                                                                  : HTTP_ACCEPTED;
    if (req->skip_body)
        return h1->raw_bytes > HTTP_SKIP_MAX_BYTES ? req->refusal : HTTP_ACCEPTED;
    /* Extensions of chunks and trailers are bytes that no limit on bodies counts. */
    if ((h1->parser.flags & F_CHUNKED) &&
        h1->raw_bytes > CHUNK_SLACK_BYTES + CHUNK_SLACK_FACTOR * (uint64_t)req->body.len)
        return HTTP_MALFORMED;
    return HTTP_ACCEPTED;
}

static bool can_feed(const struct fg_http_conn *conn)
{
    const struct fg_http1 *h1 = &conn->http1;

    if (h1->in.len == 0)
        return false;
    /* The next request may always begin if no other is under way. */
    return h1->state == HTTP1_BODY ||
           (h1->state == HTTP1_HEAD &&
            (h1->current != NULL || h1->first == NULL ||
             (h1->n_queued < conn->owner->config.pipeline_max &&
              conn->held_bytes <= HELD_MAX_BYTES && fg_http_request_fits(conn, h1->n_queued))));
}

/*
 * Returns false if the request line has two adjacent blanks. llhttp takes them for one, while
 * another parser may see an empty URL between them, or a method that ends with a blank (RFC 9112,
 * 3).
 */
static bool check_line(struct fg_http1 *h1)
{
    struct fg_slice in = h1->in;

    while (!h1->line_over && in.len > 0) {
        size_t end = FG_MIN(fg_slice_find(in, '\n'), in.len);
        struct fg_slice line = fg_slice_sub(in, 0, end);

        if ((h1->line_blank && fg_slice_starts(line, " ")) ||
            fg_slice_search(line, "  ") != SIZE_MAX)
            return false;
        if (line.len > 0)
            h1->line_blank = fg_slice_ends(line, " ");
        /* Empty lines before the request line are ignored (RFC 9112, 2.2). */
        h1->line_begun = h1->line_begun || (line.len > 0 && !fg_slice_starts(line, "\r"));
        h1->line_over = h1->line_begun && end < in.len;
        in = fg_slice_sub(in, end + 1, in.len);
    }
    return true;
}

/* Parses until a message is complete, the input ends, or the request is refused. */
static void feed_once(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;
    const char *from = (const char *)h1->in.ptr;
    size_t used = h1->in.len;
    enum fg_http_refusal why;
    llhttp_errno_t error;

    if (h1->state == HTTP1_HEAD && !check_line(h1)) {
        refuse_now(conn, HTTP_MALFORMED);
        return;
    }
    error = llhttp_execute(&h1->parser, from, used);
    if (error != HPE_OK && !h1->complete) {
        why = h1->stopped == HTTP_ACCEPTED ? HTTP_MALFORMED : h1->stopped;
        refuse_now(conn, why);
        return;
    }
    if (h1->complete)
        used = (size_t)(llhttp_get_error_pos(&h1->parser) - from);
    h1->in = fg_slice_sub(h1->in, used, h1->in.len);
    if (h1->complete) {
        received(conn);
        return;
    }
    h1->raw_bytes += used;
    why = check_raw_bytes(conn);
    if (why != HTTP_ACCEPTED)
        refuse_now(conn, why);
}

/* Writes what the first answer has so far, if it is streamed. Returns as below. */
static bool write_stream(struct fg_http_conn *conn)
{
    struct fg_http_request *req = conn->http1.first;
    uv_buf_t buf;

    if (req == NULL || !req->streaming || req->state == HTTP_READY || req->stream.len == 0)
        return false;
    buf = (uv_buf_t){.base = (char *)req->stream.ptr, .len = req->stream.len};
    req->stream_given = req->stream.len;
    if (!fg_http_conn_write(conn, &buf, 1))
        return false;
    drop_written(conn);
    return true;
}

/* Writes the next answers. Returns false if nothing more can be written now. */
static bool write_batch(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;
    uv_buf_t bufs[HTTP_WRITE_BUFS];
    unsigned n = 0, n_bufs = 0;

    for (struct fg_http_request *req = h1->first;
         req != NULL && req->state == HTTP_READY && n < WRITE_BATCH; req = req->next) {
        n_bufs += fg_http1_answer_bufs(req, bufs + n_bufs);
        n++;
    }
    if (n == 0)
        return write_stream(conn);
    h1->n_writing = n;
    if (!fg_http_conn_write(conn, bufs, n_bufs))
        return false;
    drop_written(conn);
    return true;
}

/* Writes "100 Continue" if all answers before it have left and the client still waits for it. */
static void write_continue(struct fg_http_conn *conn)
{
    static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buf = uv_buf_init(text, sizeof text - 1);
    struct fg_http_request *req = conn->http1.current;

    if (conn->http1.state != HTTP1_BODY || req == NULL || conn->writing ||
        conn->http1.first != req || !req->want_continue)
        return;
    req->want_continue = false;
    (void)fg_http_conn_write(conn, &buf, 1);
}

/* Decides what to wait for, after everything possible was done. */
static void settle(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    if (h1->in.len == 0)
        drop_pending(conn);
    if (conn->eof && h1->in.len == 0 && h1->state != HTTP1_LAST) {
        /* The peer sends no more, so an incomplete request will never be complete. */
        if (h1->current != NULL && h1->state == HTTP1_BODY)
            queue_drop_newest(h1);
        else if (h1->current != NULL)
            fg_http_request_free(h1->current);
        h1->current = NULL;
        h1->state = HTTP1_LAST;
    }
    if (h1->state == HTTP1_LAST && h1->first == NULL && !conn->writing)
        fg_http_conn_leave(conn);
    else
        fg_http_conn_read(
            conn, !conn->eof && h1->in.len == 0 &&
                      (h1->state != HTTP1_LAST || conn->discarded_bytes < HTTP_LINGER_MAX_BYTES));
    fg_http_conn_idle(conn, conn->state == HTTP_CONN_OPEN && h1->state == HTTP1_HEAD &&
                                h1->first == NULL && h1->current == NULL && !conn->writing);
}

static void pump(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;

    if (h1->pumping || conn->state != HTTP_CONN_OPEN)
        return;
    h1->pumping = true;
    do {
        while (can_feed(conn))
            feed_once(conn);
        while (conn->state == HTTP_CONN_OPEN && !conn->writing && write_batch(conn))
            continue;
        write_continue(conn);
    } while (can_feed(conn));
    h1->pumping = false;
    if (conn->state == HTTP_CONN_OPEN && h1->state == HTTP1_UPGRADED) {
        /* Hands the connection over to HTTP/2: all requests before were answered. */
        struct fg_slice rest = h1->in;
        struct fg_buf copy; /* what is pending goes with HTTP/1.1 */

        fg_buf_init(&copy, HTTP_READ_BYTES);
        fg_buf_put(&copy, rest);
        fg_http2_upgrade(queue_pop(h1), fg_buf_slice(&copy));
        fg_buf_done(&copy);
    } else if (conn->state == HTTP_CONN_OPEN) {
        settle(conn);
    }
}

/* --- events --- */

static void input(struct fg_http_conn *conn, struct fg_slice bytes)
{
    struct fg_http1 *h1 = &conn->http1;

    if (h1->state == HTTP1_LAST) {
        fg_http_conn_discard(conn, bytes.len);
        return;
    }
    fg_assert(h1->in.len == 0); /* else we were not reading */
    h1->in = bytes;
    pump(conn);
    if (h1->in.len > 0 && conn->state == HTTP_CONN_OPEN && !keep_pending(conn))
        fg_http1_refuse(conn, HTTP_NO_BUDGET); /* after the answers to earlier requests */
}

static uv_buf_t body_room(struct fg_http_conn *conn)
{
    struct fg_http1 *h1 = &conn->http1;
    struct fg_http_request *req = h1->current;
    size_t room;

    if (h1->state != HTTP1_BODY || req->skip_body || (h1->parser.flags & F_CHUNKED))
        return uv_buf_init(NULL, 0);
    room = req->body.cap - req->body.len;
    if (room < DIRECT_READ_MIN_BYTES)
        return uv_buf_init(NULL, 0);
    return uv_buf_init((char *)req->body.ptr + req->body.len,
                       (unsigned)FG_MIN(room, (size_t)INT32_MAX));
}

static void on_eof(struct fg_http_conn *conn)
{
    for (struct fg_http_request *req = conn->http1.first; req != NULL; req = req->next)
        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    pump(conn);
}

static void written(struct fg_http_conn *conn)
{
    drop_written(conn);
    pump(conn);
}

static void stream_begin(struct fg_http_request *req)
{
    fg_http1_put_stream_head(req);
    pump(req->conn);
}

static bool stream_put(struct fg_http_request *req, struct fg_slice piece)
{
    if (!fg_http1_put_stream(req, piece))
        return false;
    pump(req->conn);
    return true;
}

static void respond(struct fg_http_request *req)
{
    req->state = HTTP_READY;
    if (req->conn->state == HTTP_CONN_CLOSED) {
        fg_http_request_free(req);
        return;
    }
    fg_http1_put_answer(req);
    pump(req->conn);
}

bool fg_http1_closes_after(struct fg_http_request *req)
{
    struct fg_http_conn *conn = req->conn;
    struct fg_http1 *h1 = &conn->http1;

    if (req->next != NULL || (h1->current != NULL && h1->current != req))
        return false; /* more answers follow */
    if (conn->owner->draining && h1->state == HTTP1_HEAD && h1->in.len == 0)
        h1->state = HTTP1_LAST;
    return h1->state == HTTP1_LAST;
}

static void tick(struct fg_http_conn *conn)
{
    const struct fg_http_config *config = &conn->owner->config;
    struct fg_http1 *h1 = &conn->http1;
    int64_t took_ns = conn->now_mono_ns - h1->since_mono_ns;
    bool begun = h1->current != NULL || h1->raw_bytes > 0;

    switch (h1->state) {
    case HTTP1_HEAD:
        if (begun && took_ns > config->head_timeout_ns) {
            fg_http1_refuse(conn, HTTP_TOO_SLOW);
        } else if (!begun && h1->fresh && took_ns > config->head_timeout_ns) {
            fg_http_stats_event(conn->owner->stats, HTTP_CLOSED_SILENT);
            fg_http_conn_cut(conn);
        } else if (!begun && h1->first == NULL &&
                   took_ns > (conn->owner->draining ? DRAIN_GRACE_NS : config->idle_timeout_ns)) {
            fg_http_conn_cut(conn);
        }
        break;
    case HTTP1_BODY:
        if (took_ns > config->body_timeout_ns ||
            fg_http_body_too_slow(conn, h1->since_mono_ns, h1->raw_bytes))
            fg_http1_refuse(conn, HTTP_TOO_SLOW);
        break;
    case HTTP1_UPGRADED:
    case HTTP1_LAST: /* the transport watches the writing, the handlers have deadlines */
        break;
    }
}

const struct fg_http_protocol fg_http1_protocol = {
    .version = HTTP_1,
    .begin = begin,
    .input = input,
    .body_room = body_room,
    .eof = on_eof,
    .written = written,
    .tick = tick,
    .pump = pump,
    .respond = respond,
    .stream_begin = stream_begin,
    .stream_put = stream_put,
    .end = end,
};
