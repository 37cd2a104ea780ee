/*
 * A connection that speaks HTTP/2: events come in, nghttp2 makes frames of them or out of them,
 * and pump() hands complete requests to their handlers and writes what may be written.
 *
 * nghttp2 is entered from input(), pump() and tick() only, and never twice: whatever its callbacks
 * or a handler do meanwhile finds `pumping` set and leaves the writing to who began.
 *
 * We read as long as the connection lives: WINDOW_UPDATE, without which no answer would leave, has
 * to come through. What bounds memory instead are the budgets (requests and answers), streams_max
 * * (requests) and the meter (frames that nghttp2 would answer). Unlike in HTTP/1.1, a request does
 * not wait until earlier answers are read: the streams may belong to many users behind one proxy.
 */
#include "common/net/http/http2.h"

enum {
    CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024, /* 80 MB/s at 50 ms; what comes is used at once */
    CONTROL_MAX_BYTES = 4 * 1024 * 1024,
    HEAD_SEND_MAX_BYTES = 2 * 1024 * 1024, /* of an answer; handlers may add 1 MiB of headers */
};

#define DRAIN_GRACE_NS (100 * FG_MS_NS) /* a request may be on its way while we decide to close */
/* For peers that send on although they were answered. Most see the answer and end the stream
 * themselves, and some (curl 7.88) take our reset for the answer. Windows stay shut meanwhile. */
#define STREAM_LINGER_NS (2 * FG_SECOND_NS)

/* --- nghttp2's parts --- */

static void *session_malloc(size_t size, void *arg)
{
    (void)arg;
    return fg_malloc(size);
}

static void *session_calloc(size_t count, size_t size, void *arg)
{
    (void)arg;
    return fg_calloc(count, size);
}

static void *session_realloc(void *ptr, size_t size, void *arg)
{
    (void)arg;
    return fg_realloc(ptr, size);
}

static void session_free(void *ptr, void *arg)
{
    (void)arg;
    free(ptr);
}

/* One for the process: each session copies what it needs. */
static pthread_once_t parts_once = PTHREAD_ONCE_INIT;
static nghttp2_session_callbacks *callbacks;
static nghttp2_option *option;

static void make_parts(void)
{
    fg_assert(nghttp2_session_callbacks_new(&callbacks) == 0);
    fg_http2_in_callbacks(callbacks);
    fg_http2_out_callbacks(callbacks);
    fg_assert(nghttp2_option_new(&option) == 0);
    nghttp2_option_set_no_auto_window_update(option, 1); /* windows follow the budget */
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, HEAD_SEND_MAX_BYTES);
}

static void begin(struct fg_http_conn *conn)
{
    const struct fg_http_config *config = &conn->owner->config;
    struct fg_http2 *h2 = fg_new(struct fg_http2);
    nghttp2_mem mem = {NULL, session_malloc, session_free, session_calloc, session_realloc};
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, config->streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_STREAM_WINDOW_BYTES},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)config->head_max_bytes},
        /* Trees of priorities cost memory and time, and hardly any client sends them (RFC 9113,
         * 5.3.1); answers take turns instead. */
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };

    (void)pthread_once(&parts_once, make_parts);
    conn->http2 = h2;
    h2->complete_last = &h2->complete;
    h2->idle_mono_ns = conn->now_mono_ns;
    fg_buf_init(&h2->control, CONTROL_MAX_BYTES);
    fg_http2_meter_init(&h2->meter, conn->now_mono_ns);
    fg_assert(nghttp2_session_server_new3(&h2->session, callbacks, conn, option, &mem) == 0);
    fg_assert(
        nghttp2_submit_settings(h2->session, NGHTTP2_FLAG_NONE, settings, FG_COUNT(settings)) == 0);
    fg_assert(nghttp2_session_set_local_window_size(h2->session, NGHTTP2_FLAG_NONE, 0,
                                                    CONNECTION_WINDOW_BYTES) == 0);
}

/* --- requests --- */

static void unlink_request(struct fg_http2 *h2, struct fg_http_request *req)
{
    if (req->h2.prev != NULL)
        req->h2.prev->next = req->next;
    else
        h2->first = req->next;
    if (req->next != NULL)
        req->next->h2.prev = req->h2.prev;
    h2->n_requests--;
}

void fg_http2_drop(struct fg_http_conn *conn, struct fg_http_request *req)
{
    struct fg_http2 *h2 = conn->http2;

    fg_http2_body_end(conn, req);
    unlink_request(h2, req);
    fg_http_request_free(req);
    if (h2->n_requests == 0)
        h2->idle_mono_ns = fg_mono_ns(conn->owner->clock);
}

void fg_http2_body_end(struct fg_http_conn *conn, struct fg_http_request *req)
{
    if (!req->h2.in_body)
        return;
    req->h2.in_body = false;
    conn->http2->n_bodies--;
}

/* Hands over complete requests. Handlers may answer and other streams may close meanwhile, so
 * the list is read again from its start each time. */
static void serve_complete(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    while (h2->complete != NULL && conn->state == HTTP_CONN_OPEN) {
        struct fg_http_request *req = h2->complete;

        h2->complete = req->h2.next_complete;
        if (h2->complete == NULL)
            h2->complete_last = &h2->complete;
        req->h2.complete = false;
        if (req->h2.stream_id == 0)
            fg_http2_drop(conn, req); /* reset meanwhile */
        else
            fg_http_request_work(req);
    }
}

/* --- going on --- */

void fg_http2_break(struct fg_http_conn *conn, uint32_t error_code)
{
    struct fg_http2 *h2 = conn->http2;

    if (h2->broken)
        return;
    h2->broken = true;
    (void)nghttp2_session_terminate_session(h2->session, error_code);
}

static bool at_work(const struct fg_http2 *h2)
{
    for (const struct fg_http_request *req = h2->first; req != NULL; req = req->next)
        if (req->state == HTTP_WORKING || req->state == HTTP_CODING)
            return true;
    return false;
}

static void leave(struct fg_http_conn *conn)
{
    for (struct fg_http_request *req = conn->http2->first; req != NULL; req = req->next)
        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    conn->unread = true; /* frames of the peer's are nearly always on their way */
    fg_http_conn_leave(conn);
}

/* Decides what to wait for, after everything possible was done. */
static void settle(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;
    bool idle = !conn->writing && nghttp2_session_want_write(h2->session) == 0;

    if (idle && nghttp2_session_want_read(h2->session) == 0)
        leave(conn);
    else if (idle && conn->eof && !at_work(h2)) /* nobody will open a window any more */
        fg_http_conn_cut(conn);
    else
        fg_http_conn_read(conn, !conn->eof);
    fg_http_conn_idle(conn, conn->state == HTTP_CONN_OPEN && h2->n_requests == 0 && !conn->writing);
}

static void pump(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    if (h2->pumping || conn->state != HTTP_CONN_OPEN)
        return;
    h2->pumping = true;
    serve_complete(conn);
    while (conn->state == HTTP_CONN_OPEN && !conn->writing && fg_http2_write_batch(conn))
        continue;
    h2->pumping = false;
    if (conn->state == HTTP_CONN_OPEN)
        settle(conn);
}

/* --- events --- */

/* Maps nghttp2's errors that end a session. For all others it has queued a GOAWAY itself. */
static uint32_t error_code_of(ssize_t error)
{
    switch (error) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
        return NGHTTP2_PROTOCOL_ERROR;
    case NGHTTP2_ERR_FLOODED:
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
        return NGHTTP2_ENHANCE_YOUR_CALM;
    default:
        return NGHTTP2_INTERNAL_ERROR;
    }
}

static void input(struct fg_http_conn *conn, struct fg_slice bytes)
{
    struct fg_http2 *h2 = conn->http2;
    ssize_t n;

    if (h2->broken) {
        fg_http_conn_discard(conn, bytes.len);
        return;
    }
    h2->pumping = true;
    if (!fg_http2_meter_count(&h2->meter, bytes, conn->now_mono_ns)) {
        fg_http2_break(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    } else {
        n = nghttp2_session_mem_recv(h2->session, bytes.ptr, bytes.len);
        if (n < 0)
            fg_http2_break(conn, error_code_of(n));
    }
    h2->pumping = false;
    pump(conn);
}

void fg_http2_begin_upgraded(struct fg_http_request *req, struct fg_slice settings)
{
    struct fg_http_conn *conn = req->conn;
    struct fg_http2 *h2 = conn->http2;

    fg_http2_control_put(h2, FG_LIT("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                                    "Upgrade: h2c\r\n\r\n"));
    fg_http2_request_begin(conn, req, 1);
    req->h2.has_head = true;
    if (nghttp2_session_upgrade2(h2->session, settings.ptr, settings.len,
                                 req->method == FG_HTTP_HEAD, NULL) == 0) {
        (void)nghttp2_session_set_stream_user_data(h2->session, 1, req);
        fg_http2_request_complete(req);
    } else { /* settings with values that none may have */
        fg_http2_break(conn, NGHTTP2_PROTOCOL_ERROR);
        fg_http2_drop(conn, req);
    }
    pump(conn);
}

static uv_buf_t body_room(struct fg_http_conn *conn)
{
    (void)conn;
    return uv_buf_init(NULL, 0);
}

static void on_eof(struct fg_http_conn *conn)
{
    for (struct fg_http_request *req = conn->http2->first; req != NULL; req = req->next)
        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    pump(conn);
}

static void written(struct fg_http_conn *conn)
{
    fg_http2_release_batch(conn);
    pump(conn);
}

static void respond(struct fg_http_request *req)
{
    struct fg_http_conn *conn = req->conn;

    if (conn->state == HTTP_CONN_CLOSED) {
        fg_http_request_free(req);
        return;
    }
    req->state = HTTP_READY;
    if (req->h2.stream_id == 0) {
        if (req->h2.borrowed == 0) /* else when the socket has let go of its pieces */
            fg_http2_drop(conn, req);
        return;
    }
    if (req->streaming)
        fg_http2_resume_stream(req);
    else
        fg_http2_submit_answer(req);
    pump(conn);
}

static void stream_begin(struct fg_http_request *req)
{
    fg_http2_submit_stream(req);
    pump(req->conn);
}

static bool stream_put(struct fg_http_request *req, struct fg_slice piece)
{
    if (piece.len > req->stream.cap - req->stream.len)
        return false;
    fg_buf_put(&req->stream, piece);
    fg_http2_resume_stream(req);
    pump(req->conn);
    return true;
}

/* --- time --- */

/*
 * A body is too slow only where the connection is: a client that sends many at a time sends each of
 * them slowly, and decides itself which comes first. body_timeout holds for each.
 */
static bool body_too_slow(const struct fg_http_conn *conn, const struct fg_http_request *req)
{
    const struct fg_http2 *h2 = conn->http2;

    if (conn->now_mono_ns - req->h2.body_mono_ns > conn->owner->config.body_timeout_ns)
        return true;
    return fg_http_body_too_slow(conn, req->h2.body_mono_ns, req->h2.body_bytes) &&
           fg_http_body_too_slow(conn, h2->bodies_mono_ns, h2->bodies_bytes);
}

/* Returns whether the answer waits for the peer to open a window. Otherwise it may be slow because
 * streams take turns, or because the socket is slow, which socket.c watches. */
static bool is_shut(const struct fg_http_conn *conn, const struct fg_http_request *req)
{
    nghttp2_session *session = conn->http2->session;

    return !conn->writing && !req->h2.sent &&
           (nghttp2_session_get_stream_remote_window_size(session, req->h2.stream_id) <= 0 ||
            nghttp2_session_get_remote_window_size(session) <= 0);
}

static void watch_answer(struct fg_http_conn *conn, struct fg_http_request *req)
{
    uint32_t code;

    if (!is_shut(conn, req))
        req->h2.reader = (struct fg_http_reader){0};
    if (req->h2.sent && conn->now_mono_ns - req->h2.sent_mono_ns > STREAM_LINGER_NS &&
        !conn->writing)
        code = NGHTTP2_NO_ERROR; /* and the body is not wanted any more: RFC 9113, 8.1 */
    else if (is_shut(conn, req) && fg_http_reader_too_slow(&req->h2.reader, conn->owner,
                                                           req->h2.sent_bytes, conn->now_mono_ns))
        code = NGHTTP2_CANCEL;
    else
        return;
    (void)nghttp2_submit_rst_stream(conn->http2->session, NGHTTP2_FLAG_NONE, req->h2.stream_id,
                                    code);
}

static void watch_request(struct fg_http_conn *conn, struct fg_http_request *req)
{
    const struct fg_http_config *config = &conn->owner->config;

    if (req->state == HTTP_RECEIVING && !req->h2.has_head &&
        conn->now_mono_ns - req->start_mono_ns > config->head_timeout_ns) {
        /* No other frame may come before the head is complete: there is nobody left to answer. */
        fg_http_stats_refused(conn->owner->stats, HTTP_TOO_SLOW);
        fg_http2_break(conn, NGHTTP2_ENHANCE_YOUR_CALM);
    } else if (req->h2.in_body && body_too_slow(conn, req)) {
        fg_http2_refuse(req, HTTP_TOO_SLOW);
    } else if ((req->state == HTTP_READY || req->stream.len > req->stream_given) &&
               req->h2.stream_id != 0) {
        watch_answer(conn, req);
    }
}

/* RFC 9113, 6.8: first say that we stop, then, when that has arrived, up to which stream. */
static void drain(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    if (h2->stage == HTTP2_RUNNING) {
        (void)nghttp2_submit_shutdown_notice(h2->session);
        h2->stage = HTTP2_NOTICED;
        h2->notice_mono_ns = conn->now_mono_ns;
    } else if (h2->stage == HTTP2_NOTICED &&
               conn->now_mono_ns - h2->notice_mono_ns > DRAIN_GRACE_NS) {
        (void)nghttp2_submit_goaway(h2->session, NGHTTP2_FLAG_NONE,
                                    nghttp2_session_get_last_proc_stream_id(h2->session),
                                    NGHTTP2_NO_ERROR, NULL, 0);
        h2->stage = HTTP2_ENDING;
    }
}

static void tick(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    h2->pumping = true;
    for (struct fg_http_request *req = h2->first; req != NULL; req = req->next)
        watch_request(conn, req);
    if (conn->owner->draining)
        drain(conn);
    if (h2->n_requests == 0 &&
        conn->now_mono_ns - h2->idle_mono_ns > conn->owner->config.idle_timeout_ns)
        fg_http2_break(conn, NGHTTP2_NO_ERROR);
    h2->pumping = false;
    pump(conn);
}

/* --- the end --- */

static void end(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    nghttp2_session_del(h2->session);
    while (h2->first != NULL) {
        struct fg_http_request *req = h2->first;

        unlink_request(h2, req);
        req->next = NULL;
        atomic_store_explicit(&req->gone, true, memory_order_relaxed);
        /* Those that a handler or a worker has are freed when they come back, see respond(). */
        if (req->state == HTTP_READY || req->state == HTTP_RECEIVING)
            fg_http_request_free(req);
    }
    fg_buf_done(&h2->control);
    free(h2);
    conn->http2 = NULL;
}

const struct fg_http_protocol fg_http2_protocol = {
    .version = HTTP_2,
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
