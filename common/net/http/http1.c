/*
 * The state machine of a connection that speaks HTTP/1.0 or 1.1 (RFC 9112).
 *
 * Bytes come in with http1_input(), answers go out through struct http_io; there are no sockets and
 * no libuv here, so that a fuzzer or a test can drive it from memory. llhttp finds the pieces of a
 * message; we stop it after each message, so that one call never sees two of them and a later
 * request is parsed only when there is room for it (pipeline_max). What must wait stays in
 * `pending`, and then nothing is read from the socket: that is the back-pressure.
 *
 * A request enters the queue when its head is complete and leaves it when its answer is written.
 * The answers leave in the order of the queue, whenever the handlers give them. Handlers run from
 * feed(), never from inside of llhttp; when they answer at once, http1_pump() notices that it is
 * running already, and the answers of all requests of one read leave with one write.
 *
 * A refused request is answered in its turn too. If its body is short, it is read and dropped,
 * which is cheaper for both sides than a new connection; otherwise nothing more is read (state
 * LAST).
 *
 * Closing a socket while the peer still sends makes TCP reset the connection, and a reset discards
 * what the peer has not read yet: our answer. So after a refusal we end our side only and throw
 * away what comes, for a while (state LINGER), as nginx's lingering_close does.
 */
#include "common/net/http/impl.h"

enum {
    WRITE_BATCH = 8,         /* answers in one write */
    BODY_FIRST_BYTES = 4096, /* room for the first chunk of a body of unknown length */
    DIRECT_READ_MIN_BYTES =
        2048, /* below, the read of the loop's buffer takes more than the body */
    CHUNK_SLACK_BYTES = 64 * 1024, /* framing that any chunked body may have, ... */
    CHUNK_SLACK_FACTOR = 16,       /* ... and per byte; a chunk of one byte has a frame of five */
};

#define BODY_GRACE_NS  (5 * FG_SECOND_NS)
#define LINGER_NS      (2 * FG_SECOND_NS)
#define DRAIN_GRACE_NS (100 * FG_MS_NS) /* a request may be on its way while we decide to close */

static const llhttp_settings_t parser_settings;

void http1_init(struct http_conn *conn, struct http_loop *owner, const struct http_io *io,
                int64_t now_mono_ns)
{
    conn->magic = HTTP_CONN_MAGIC;
    conn->state = HTTP_CONN_HEAD;
    conn->owner = owner;
    conn->io = io;
    conn->refs = 1;
    conn->last = &conn->first;
    conn->since_mono_ns = conn->now_mono_ns = now_mono_ns;
    fg_buf_init(&conn->pending, HTTP_READ_BYTES);
    llhttp_init(&conn->parser, HTTP_REQUEST, &parser_settings);
    conn->parser.data = conn;
}

void http_conn_unref(struct http_conn *conn)
{
    fg_assert(conn->refs > 0);
    if (--conn->refs > 0)
        return;
    fg_buf_done(&conn->pending);
    conn->magic = 0;
    conn->io->release(conn);
}

/* --- the queue --- */

static void queue_push(struct http_conn *conn, struct fg_http_request *req)
{
    *conn->last = req;
    conn->last = &req->next;
    conn->n_queued++;
}

static struct fg_http_request *queue_pop(struct http_conn *conn)
{
    struct fg_http_request *req = conn->first;

    conn->first = req->next;
    if (conn->first == NULL)
        conn->last = &conn->first;
    req->next = NULL;
    conn->n_queued--;
    return req;
}

/* The newest one, which is not complete and never will be. */
static void queue_drop_newest(struct http_conn *conn)
{
    struct fg_http_request **link = &conn->first;

    while (&(*link)->next != conn->last)
        link = &(*link)->next;
    http_request_free(*link);
    *link = NULL;
    conn->last = link;
    conn->n_queued--;
}

static void drop_written(struct http_conn *conn)
{
    for (; conn->n_writing > 0; conn->n_writing--)
        http_request_free(queue_pop(conn));
    if (conn->first == NULL && conn->current == NULL)
        conn->since_mono_ns = fg_mono_ns(conn->owner->clock);
}

/* --- refusing and closing --- */

static struct fg_http_request *request_begin(struct http_conn *conn)
{
    struct fg_http_request *req = http_request_new(conn, conn->now_mono_ns);

    req->method = FG_HTTP_OTHER;
    req->stats_at = http_stats_of(conn->owner->stats, SIZE_MAX, FG_HTTP_OTHER);
    return req;
}

/* Answers without reading on: the connection ends with this answer. */
static void refuse_now(struct http_conn *conn, enum http_refusal why)
{
    struct fg_http_request *req = conn->current == NULL ? request_begin(conn) : conn->current;

    if (conn->state == HTTP_CONN_HEAD)
        queue_push(conn, req);
    conn->current = NULL;
    conn->state = HTTP_CONN_LAST;
    conn->unread = true;
    conn->raw_bytes = 0;
    conn->in = fg_bytes(NULL, 0);
    req->refusal = why;
    http_refuse(req);
}

void http1_cut(struct http_conn *conn)
{
    if (conn->state >= HTTP_CONN_CLOSING)
        return;
    conn->state = HTTP_CONN_CLOSING;
    conn->io->close(conn);
}

/* The last answer has left. */
static void leave(struct http_conn *conn)
{
    if (!conn->unread || conn->eof) {
        http1_cut(conn);
        return;
    }
    conn->state = HTTP_CONN_LINGER;
    conn->since_mono_ns = fg_mono_ns(conn->owner->clock);
    conn->io->shutdown(conn);
}

void http1_closed(struct http_conn *conn)
{
    conn->state = HTTP_CONN_CLOSED;
    conn->in = fg_bytes(NULL, 0);
    while (conn->first != NULL) {
        struct fg_http_request *req = queue_pop(conn);

        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
        if (req == conn->current)
            conn->current = NULL;
        /* Those that a handler or a worker has are freed when they come back, see http1_ready(). */
        if (req->state == HTTP_READY || req->state == HTTP_RECEIVING)
            http_request_free(req);
    }
    if (conn->current != NULL)
        http_request_free(conn->current);
    conn->current = NULL;
    http_conn_unref(conn);
}

/* --- heads --- */

/* Ends the parsing from inside of it; feed() refuses the request then. */
static int stop(struct http_conn *conn, enum http_refusal why)
{
    conn->stopped = why;
    return -1;
}

static int on_message_begin(llhttp_t *parser)
{
    struct http_conn *conn = parser->data;

    conn->current = request_begin(conn);
    conn->since_mono_ns = conn->now_mono_ns;
    return 0;
}

/* One piece of a URL, name or value; the pieces of one follow each other. */
static int span_add(struct http_conn *conn, struct http_span *span, const char *at, size_t len)
{
    struct fg_buf *head = &conn->current->head;

    if (span->len == 0)
        span->at = (uint32_t)head->len;
    fg_buf_append(head, at, len);
    if (head->full)
        return stop(conn, HTTP_HEAD_TOO_LARGE);
    span->len += (uint32_t)len;
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct http_conn *conn = parser->data;

    return span_add(conn, &conn->current->url, at, len);
}

/* Fields after a body (trailers) are read and dropped: nothing of ours needs them. */
static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    struct http_conn *conn = parser->data;
    struct fg_http_request *req = conn->current;

    if (conn->state == HTTP_CONN_BODY)
        return 0;
    if (req->n_headers == HTTP_HEADERS_MAX)
        return stop(conn, HTTP_HEAD_TOO_LARGE);
    return span_add(conn, &req->headers[req->n_headers].name, at, len);
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    struct http_conn *conn = parser->data;
    struct fg_http_request *req = conn->current;

    if (conn->state == HTTP_CONN_BODY)
        return 0;
    return span_add(conn, &req->headers[req->n_headers].value, at, len);
}

static int on_header_value_complete(llhttp_t *parser)
{
    struct http_conn *conn = parser->data;
    struct fg_http_request *req = conn->current;
    struct http_span *value;

    if (conn->state == HTTP_CONN_BODY)
        return 0;
    /* llhttp skips the blanks before a value only. */
    value = &req->headers[req->n_headers].value;
    while (value->len > 0 && strchr(" \t", req->head.ptr[value->at + value->len - 1]) != NULL)
        value->len--;
    if (++req->n_headers < HTTP_HEADERS_MAX)
        req->headers[req->n_headers] = (struct http_header){0};
    return 0;
}

static enum fg_http_method method_of(const llhttp_t *parser)
{
    switch (parser->method) {
    case HTTP_GET:
        return FG_HTTP_GET;
    case HTTP_HEAD:
        return FG_HTTP_HEAD;
    case HTTP_POST:
        return FG_HTTP_POST;
    case HTTP_PUT:
        return FG_HTTP_PUT;
    case HTTP_DELETE:
        return FG_HTTP_DELETE;
    case HTTP_OPTIONS:
        return FG_HTTP_OPTIONS;
    default:
        return FG_HTTP_OTHER;
    }
}

static unsigned count_headers(const struct fg_http_request *req, const char *name)
{
    unsigned n = 0;

    for (unsigned i = 0; i < req->n_headers; i++)
        n += fg_slice_is_nocase(http_span(req, req->headers[i].name), name);
    return n;
}

/* What makes a message's borders doubtful ends the connection; llhttp has looked for more. */
static enum http_refusal check_framing(const llhttp_t *parser, const struct fg_http_request *req)
{
    unsigned n_hosts = count_headers(req, "Host");
    unsigned n_codings = count_headers(req, "Transfer-Encoding");

    if (parser->http_major != 1 || parser->http_minor > 1)
        return HTTP_BAD_VERSION;
    /* RFC 9112, 3.2: exactly one in HTTP/1.1. Two are how to be seen as two sites. */
    if (n_hosts > 1 || (n_hosts == 0 && !req->http10))
        return HTTP_MALFORMED;
    if (n_codings == 0)
        return HTTP_ACCEPTED;
    /* RFC 9112, 6.1: none in HTTP/1.0, and never with a length. */
    if (n_codings > 1 || req->http10 || (parser->flags & F_CONTENT_LENGTH))
        return HTTP_MALFORMED;
    if (!fg_slice_is_nocase(fg_http_header(req, "Transfer-Encoding"), "chunked"))
        return HTTP_BAD_TRANSFER_CODING;
    return HTTP_ACCEPTED;
}

static enum http_refusal check_expectation(struct fg_http_request *req)
{
    struct fg_slice expect = fg_http_header(req, "Expect");

    if (expect.ptr == NULL || req->http10) /* RFC 9110, 10.1.1: ignored in HTTP/1.0 */
        return HTTP_ACCEPTED;
    if (!fg_slice_is_nocase(expect, "100-continue"))
        return HTTP_BAD_EXPECTATION;
    req->want_continue = true;
    return HTTP_ACCEPTED;
}

static bool take_budget(struct fg_http_request *req, uint64_t bytes)
{
    struct fg_budget *budget = req->conn->owner->budget;

    if (budget != NULL && !fg_budget_take(budget, bytes))
        return false;
    req->admitted_bytes += bytes;
    return true;
}

/* A body of known length has its memory before its first byte is read. */
static enum http_refusal admit_body(const llhttp_t *parser, struct fg_http_request *req)
{
    if (parser->flags & F_CHUNKED) {
        fg_buf_init(&req->body, (size_t)req->body_max_bytes);
        return HTTP_ACCEPTED;
    }
    if (parser->content_length > req->body_max_bytes)
        return HTTP_BODY_TOO_LARGE;
    if (!take_budget(req, parser->content_length))
        return HTTP_NO_BUDGET;
    fg_buf_init(&req->body, (size_t)parser->content_length);
    fg_assert(fg_buf_reserve(&req->body, (size_t)parser->content_length));
    return HTTP_ACCEPTED;
}

static enum http_refusal check_head(struct http_conn *conn, struct fg_http_request *req)
{
    enum http_refusal why = http_server_match(conn->owner->server, req);

    if (why == HTTP_ACCEPTED)
        why = check_expectation(req);
    if (why == HTTP_ACCEPTED)
        why = admit_body(&conn->parser, req);
    return why;
}

/* May we read a refused request's body to its end, to keep the connection? */
static bool worth_skipping(const llhttp_t *parser, const struct fg_http_request *req)
{
    /* Who waits for 100 sends no body after a refusal, or does: we cannot know which. */
    if (fg_http_header(req, "Expect").ptr != NULL)
        return false;
    return (parser->flags & F_CHUNKED) || parser->content_length <= HTTP_SKIP_MAX_BYTES;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct http_conn *conn = parser->data;
    struct fg_http_request *req = conn->current;
    enum http_refusal why;

    parser->upgrade = 0; /* RFC 9110, 7.8: a server may ignore it, and we do */
    req->method = method_of(parser);
    req->http10 = parser->http_minor == 0;
    why = check_framing(parser, req);
    if (why == HTTP_ACCEPTED && !http_request_url(req))
        why = HTTP_MALFORMED;
    if (why != HTTP_ACCEPTED)
        return stop(conn, why);
    why = check_head(conn, req);
    if (why != HTTP_ACCEPTED && !worth_skipping(parser, req))
        return stop(conn, why);
    req->refusal = why;
    req->skip_body = why != HTTP_ACCEPTED;
    queue_push(conn, req);
    conn->state = HTTP_CONN_BODY;
    conn->since_mono_ns = conn->now_mono_ns;
    conn->raw_bytes = 0;
    return 0;
}

/* --- bodies --- */

/* Room for len more bytes of a chunked body: the budget is asked before the memory is. */
static enum http_refusal grow_body(struct fg_http_request *req, size_t len)
{
    struct fg_buf *body = &req->body;
    size_t want;

    if (len <= body->cap - body->len)
        return HTTP_ACCEPTED;
    if (len > body->max_bytes - body->len)
        return HTTP_BODY_TOO_LARGE;
    want = FG_MAX(body->cap * 2, BODY_FIRST_BYTES);
    want = FG_MAX(want, body->len + len);
    want = FG_MIN(want, body->max_bytes);
    if (!take_budget(req, want - body->cap))
        return HTTP_NO_BUDGET;
    fg_assert(fg_buf_reserve(body, want - body->len));
    return HTTP_ACCEPTED;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct http_conn *conn = parser->data;
    struct fg_http_request *req = conn->current;
    struct fg_buf *body = &req->body;
    enum http_refusal why;

    req->want_continue = false; /* it did not wait */
    if (req->skip_body)
        return 0;
    if (body->ptr != NULL && (const uint8_t *)at == body->ptr + body->len) {
        fg_assert(len <= body->cap - body->len);
        body->len += len; /* read in place, see http1_body_room() */
        return 0;
    }
    why = grow_body(req, len);
    if (why != HTTP_ACCEPTED)
        return stop(conn, why);
    fg_buf_append(body, at, len);
    return 0;
}

uv_buf_t http1_body_room(struct http_conn *conn)
{
    struct fg_http_request *req = conn->current;
    size_t room;

    if (conn->state != HTTP_CONN_BODY || req->skip_body || (conn->parser.flags & F_CHUNKED))
        return uv_buf_init(NULL, 0);
    room = req->body.cap - req->body.len;
    if (room < DIRECT_READ_MIN_BYTES)
        return uv_buf_init(NULL, 0);
    return uv_buf_init((char *)req->body.ptr + req->body.len,
                       (unsigned)FG_MIN(room, (size_t)INT32_MAX));
}

static int on_message_complete(llhttp_t *parser)
{
    struct http_conn *conn = parser->data;

    conn->complete = true;
    conn->current->keep_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* --- going on --- */

static void received(struct http_conn *conn)
{
    struct fg_http_request *req = conn->current;
    const struct fg_http_route *route = req->route;

    conn->complete = false;
    conn->current = NULL;
    conn->state = req->keep_alive ? HTTP_CONN_HEAD : HTTP_CONN_LAST;
    conn->since_mono_ns = conn->now_mono_ns;
    conn->raw_bytes = 0;
    llhttp_reset(&conn->parser);
    if (conn->state == HTTP_CONN_LAST && conn->in.len > 0) {
        conn->unread = true;
        conn->in = fg_bytes(NULL, 0);
    }
    if (req->refusal != HTTP_ACCEPTED) {
        http_refuse(req);
        return;
    }
    req->state = HTTP_WORKING;
    http_stats_inflight(conn->owner->stats, 1);
    route->handler(req, route->arg);
}

/* Does the message that is being received cost more than it may? */
static enum http_refusal check_raw_bytes(const struct http_conn *conn)
{
    const struct fg_http_request *req = conn->current;

    if (conn->state == HTTP_CONN_HEAD)
        return conn->raw_bytes > conn->owner->config.head_max_bytes ? HTTP_HEAD_TOO_LARGE
                                                                    : HTTP_ACCEPTED;
    if (req->skip_body)
        return conn->raw_bytes > HTTP_SKIP_MAX_BYTES ? req->refusal : HTTP_ACCEPTED;
    /* Extensions of chunks and trailers are bytes that no limit on bodies counts. */
    if ((conn->parser.flags & F_CHUNKED) &&
        conn->raw_bytes > CHUNK_SLACK_BYTES + CHUNK_SLACK_FACTOR * (uint64_t)req->body.len)
        return HTTP_MALFORMED;
    return HTTP_ACCEPTED;
}

static bool can_feed(const struct http_conn *conn)
{
    if (conn->in.len == 0)
        return false;
    return conn->state == HTTP_CONN_BODY ||
           (conn->state == HTTP_CONN_HEAD && conn->n_queued < conn->owner->config.pipeline_max);
}

/* Parses until a message is complete, or there is no more input, or the request is refused. */
static void feed_once(struct http_conn *conn)
{
    const char *from = (const char *)conn->in.ptr;
    size_t used = conn->in.len;
    llhttp_errno_t error = llhttp_execute(&conn->parser, from, used);
    enum http_refusal why;

    if (error != HPE_OK && !conn->complete) {
        why = conn->stopped == HTTP_ACCEPTED ? HTTP_MALFORMED : conn->stopped;
        refuse_now(conn, why);
        return;
    }
    if (conn->complete)
        used = (size_t)(llhttp_get_error_pos(&conn->parser) - from);
    conn->in = fg_slice_sub(conn->in, used, conn->in.len);
    if (conn->complete) {
        received(conn);
        return;
    }
    conn->raw_bytes += used;
    why = check_raw_bytes(conn);
    if (why != HTTP_ACCEPTED)
        refuse_now(conn, why);
}

/* false: nothing more can be written now. */
static bool write_batch(struct http_conn *conn)
{
    uv_buf_t bufs[2 * WRITE_BATCH];
    unsigned n = 0, n_bufs = 0;

    for (struct fg_http_request *req = conn->first;
         req != NULL && req->state == HTTP_READY && n < WRITE_BATCH; req = req->next) {
        bufs[n_bufs++] = uv_buf_init((char *)req->out_head.ptr, (unsigned)req->out_head.len);
        if (req->out.len > 0)
            bufs[n_bufs++] = (uv_buf_t){.base = (char *)req->out.ptr, .len = req->out.len};
        n++;
    }
    if (n == 0)
        return false;
    conn->n_writing = n;
    conn->writing = !conn->io->write(conn, bufs, n_bufs);
    if (!conn->writing)
        drop_written(conn);
    return !conn->writing;
}

/* "100 Continue", when all answers before it have left and the client still waits for it. */
static void write_continue(struct http_conn *conn)
{
    static char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buf = uv_buf_init(text, sizeof text - 1);
    struct fg_http_request *req = conn->current;

    if (conn->state != HTTP_CONN_BODY || req == NULL || conn->writing || conn->first != req ||
        !req->want_continue)
        return;
    req->want_continue = false;
    conn->writing = !conn->io->write(conn, &buf, 1);
}

static void flush(struct http_conn *conn)
{
    while (conn->state < HTTP_CONN_LINGER && !conn->writing && write_batch(conn))
        continue;
    write_continue(conn);
}

/* The peer sends no more: what is not complete never will be. */
static void end_input(struct http_conn *conn)
{
    if (conn->current != NULL && conn->state == HTTP_CONN_BODY)
        queue_drop_newest(conn);
    else if (conn->current != NULL)
        http_request_free(conn->current);
    conn->current = NULL;
    conn->state = HTTP_CONN_LAST;
}

static bool wants_input(const struct http_conn *conn)
{
    if (conn->eof || conn->in.len > 0 || conn->state >= HTTP_CONN_CLOSING)
        return false;
    return conn->state <= HTTP_CONN_BODY || conn->raw_bytes < HTTP_LINGER_MAX_BYTES;
}

/* Decides, after everything possible was done, what to wait for. */
static void settle(struct http_conn *conn)
{
    bool want;

    if (conn->eof && conn->in.len == 0 && conn->state <= HTTP_CONN_BODY)
        end_input(conn);
    if (conn->state == HTTP_CONN_LAST && conn->first == NULL && !conn->writing)
        leave(conn);
    if (conn->state >= HTTP_CONN_CLOSING)
        return;
    want = wants_input(conn);
    if (want != conn->reading) {
        conn->reading = want;
        conn->io->read(conn, want);
    }
}

void http1_pump(struct http_conn *conn)
{
    if (conn->pumping || conn->state >= HTTP_CONN_CLOSING)
        return;
    conn->pumping = true;
    do {
        while (can_feed(conn))
            feed_once(conn);
        flush(conn);
    } while (can_feed(conn));
    conn->pumping = false;
    settle(conn);
}

/* --- events --- */

void http1_input(struct http_conn *conn, struct fg_slice bytes, int64_t now_mono_ns)
{
    conn->now_mono_ns = now_mono_ns;
    if (conn->state >= HTTP_CONN_LAST) { /* LAST or LINGER: thrown away */
        conn->unread = true;
        conn->raw_bytes += bytes.len;
        settle(conn);
        return;
    }
    fg_assert(conn->in.len == 0); /* else we were not reading */
    conn->in = bytes;
    http1_pump(conn);
    if (conn->in.len > 0) {
        fg_buf_clear(&conn->pending);
        fg_buf_put(&conn->pending, conn->in);
        fg_assert(!conn->pending.full);
        conn->in = fg_buf_slice(&conn->pending);
    }
}

void http1_eof(struct http_conn *conn)
{
    if (conn->state >= HTTP_CONN_CLOSING)
        return;
    conn->eof = true;
    conn->reading = false;
    for (struct fg_http_request *req = conn->first; req != NULL; req = req->next)
        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    if (conn->state == HTTP_CONN_LINGER)
        http1_cut(conn);
    else
        http1_pump(conn);
}

void http1_written(struct http_conn *conn)
{
    conn->writing = false;
    drop_written(conn);
    http1_pump(conn);
}

void http1_ready(struct fg_http_request *req)
{
    req->state = HTTP_READY;
    if (req->conn->state == HTTP_CONN_CLOSED)
        http_request_free(req);
    else
        http1_pump(req->conn);
}

void http1_refuse(struct http_conn *conn, enum http_refusal why, int64_t now_mono_ns)
{
    conn->now_mono_ns = now_mono_ns;
    conn->pumping = true; /* write and settle only once the state is the last one */
    refuse_now(conn, why);
    conn->pumping = false;
    http1_pump(conn);
}

bool http1_closes_after(struct fg_http_request *req)
{
    struct http_conn *conn = req->conn;

    if (req->next != NULL || (conn->current != NULL && conn->current != req))
        return false; /* more answers follow */
    if (conn->owner->draining && conn->state == HTTP_CONN_HEAD && conn->in.len == 0)
        conn->state = HTTP_CONN_LAST;
    return conn->state >= HTTP_CONN_LAST;
}

static bool body_too_slow(const struct http_conn *conn, int64_t now_mono_ns)
{
    const struct fg_http_config *config = &conn->owner->config;
    int64_t took_ns = now_mono_ns - conn->since_mono_ns;

    if (took_ns > config->body_timeout_ns)
        return true;
    return took_ns > BODY_GRACE_NS &&
           (double)conn->raw_bytes <
               (double)config->body_min_per_s * ((double)took_ns / (double)FG_SECOND_NS);
}

void http1_tick(struct http_conn *conn, int64_t now_mono_ns)
{
    const struct fg_http_config *config = &conn->owner->config;
    int64_t took_ns = now_mono_ns - conn->since_mono_ns;
    bool begun = conn->current != NULL || conn->raw_bytes > 0;

    switch (conn->state) {
    case HTTP_CONN_HEAD:
        if (begun && took_ns > config->head_timeout_ns)
            http1_refuse(conn, HTTP_TOO_SLOW, now_mono_ns);
        else if (!begun && conn->first == NULL &&
                 took_ns > (conn->owner->draining ? DRAIN_GRACE_NS : config->idle_timeout_ns))
            http1_cut(conn);
        break;
    case HTTP_CONN_BODY:
        if (body_too_slow(conn, now_mono_ns))
            http1_refuse(conn, HTTP_TOO_SLOW, now_mono_ns);
        break;
    case HTTP_CONN_LINGER:
        if (took_ns > LINGER_NS || conn->raw_bytes >= HTTP_LINGER_MAX_BYTES)
            http1_cut(conn);
        break;
    case HTTP_CONN_LAST: /* the transport watches the writing, the handlers have deadlines */
    case HTTP_CONN_CLOSING:
    case HTTP_CONN_CLOSED:
        break;
    }
}
