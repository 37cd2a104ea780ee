/*
 * Requests of HTTP/2, as nghttp2's callbacks bring them. nghttp2 has checked them before (RFC 9113,
 * 8.1 to 8.3): names in lower case, pseudo-headers complete and first, nothing that belongs to a
 * connection, a body as long as Content-Length says. It resets streams that break these rules.
 *
 * Handlers are not called from here, for they may answer, and nghttp2 is not to be entered twice:
 * complete requests wait in a list until it has returned (http2.c).
 */
#include "common/net/http/http2.h"

enum {
    STREAM_WINDOW_MAX_BYTES = 4 * 1024 * 1024, /* opened at once for an admitted upload */
    FIELD_OVERHEAD_BYTES = 32,                 /* RFC 9113, 6.5.2: size of a field in a list */
    /* A header list longer than this many times the limit ends the connection. No client sends one
     * by mistake, and in HPACK one byte can stand for a field of 4 KiB. */
    LISTS_MAX = 4,
};

/* --- heads --- */

void fg_http2_request_begin(struct fg_http_conn *conn, struct fg_http_request *req,
                            int32_t stream_id)
{
    struct fg_http2 *h2 = conn->http2;

    req->h2.stream_id = stream_id;
    req->next = h2->first;
    if (req->next != NULL)
        req->next->h2.prev = req;
    h2->first = req;
    h2->n_requests++;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    /* Answers take turns, 16 KiB each. By default, RFC 9218 sends a large answer before all
     * after it. */
    static const nghttp2_extpri in_turns = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    struct fg_http_conn *conn = arg;
    struct fg_http2 *h2 = conn->http2;
    struct fg_http_request *req;

    h2->list_bytes = 0;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; /* trailers */
    /* Streams that were reset are none to nghttp2, but a handler may still be at work on each. */
    if (h2->n_requests >= 2 * conn->owner->config.streams_max ||
        !fg_http_request_fits(conn, h2->n_requests)) {
        (void)nghttp2_submit_rst_stream(conn->http2->session, NGHTTP2_FLAG_NONE,
                                        frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    req = fg_http_request_new(conn);
    fg_http_conn_idle(conn, false);
    fg_http2_request_begin(conn, req, frame->hd.stream_id);
    (void)nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, req);
    (void)nghttp2_session_change_extpri_stream_priority(session, frame->hd.stream_id, &in_turns, 1);
    return 0;
}

static enum fg_http_refusal add_header(struct fg_http_request *req, struct fg_slice name,
                                       struct fg_slice value)
{
    struct fg_http_header *header = &req->headers[req->n_headers];
    enum fg_http_refusal why;

    if (req->n_headers == HTTP_HEADERS_MAX)
        return HTTP_HEAD_TOO_LARGE;
    *header = (struct fg_http_header){0};
    why = fg_http_request_add_piece(req, &header->name, name);
    if (why == HTTP_ACCEPTED)
        why = fg_http_request_add_piece(req, &header->value, value);
    if (why == HTTP_ACCEPTED)
        req->n_headers++;
    return why;
}

static enum fg_http_method method_of(struct fg_slice name)
{
    for (unsigned method = FG_HTTP_GET; method <= FG_HTTP_OPTIONS; method <<= 1)
        if (fg_slice_is(name, fg_http_method_name((enum fg_http_method)method)))
            return (enum fg_http_method)method;
    return FG_HTTP_OTHER;
}

/* Pseudo-headers become what HTTP/1.1 would have said (RFC 9113, 8.3.1). */
static enum fg_http_refusal add_field(struct fg_http_request *req, struct fg_slice name,
                                      struct fg_slice value)
{
    if (!fg_slice_starts(name, ":"))
        return add_header(req, name, value);
    if (fg_slice_is(name, ":path"))
        return fg_http_request_add_piece(req, &req->url, value);
    if (fg_slice_is(name, ":authority"))
        return add_header(req, FG_LIT("host"), value);
    if (fg_slice_is(name, ":method"))
        req->method = method_of(value);
    return HTTP_ACCEPTED;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct fg_http_request *req =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    struct fg_http_conn *conn = arg;
    uint64_t max_bytes = conn->owner->config.head_max_bytes;

    (void)flags;
    conn->http2->list_bytes += name_len + value_len + FIELD_OVERHEAD_BYTES;
    if (conn->http2->list_bytes > LISTS_MAX * max_bytes) {
        fg_http2_break(conn, NGHTTP2_ENHANCE_YOUR_CALM);
        return NGHTTP2_ERR_CALLBACK_FAILURE; /* stops decoding the rest of the input */
    }
    /* Trailers are read and dropped, as in HTTP/1.1. A head that is too large is read to its end,
     * since HPACK's table has to follow, but costs no memory. */
    if (req == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST || req->refusal != HTTP_ACCEPTED)
        return 0;
    req->refusal = conn->http2->list_bytes > max_bytes
                       ? HTTP_HEAD_TOO_LARGE
                       : add_field(req, fg_bytes(name, name_len), fg_bytes(value, value_len));
    return 0;
}

/* Bytes that no header may have, which nghttp2 would pass over: RFC 9113, 8.2.1 wants a reset. */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
                             const uint8_t *name, size_t name_len, const uint8_t *value,
                             size_t value_len, uint8_t flags, void *arg)
{
    (void)session;
    (void)frame;
    (void)name;
    (void)name_len;
    (void)value;
    (void)value_len;
    (void)flags;
    (void)arg;
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static uint64_t body_len(const struct fg_http_request *req, bool end_stream)
{
    uint64_t len;

    if (end_stream)
        return 0;
    if (!fg_parse_u64(fg_http_header(req, "Content-Length"), &len))
        return HTTP_LENGTH_UNKNOWN;
    return len;
}

/* Opens the window for the whole body: what it needs beyond the first window is given at once. */
static void open_window(struct fg_http_request *req, uint64_t len)
{
    nghttp2_session *session = req->conn->http2->session;

    if (len == HTTP_LENGTH_UNKNOWN || len <= HTTP2_STREAM_WINDOW_BYTES)
        return;
    len = FG_MIN(len, (uint64_t)STREAM_WINDOW_MAX_BYTES);
    (void)nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, req->h2.stream_id,
                                                (int32_t)len);
}

static void body_begin(struct fg_http_request *req, uint64_t len)
{
    struct fg_http_conn *conn = req->conn;
    struct fg_http2 *h2 = conn->http2;

    req->h2.in_body = true;
    req->h2.body_mono_ns = conn->now_mono_ns;
    if (h2->n_bodies++ == 0) {
        h2->bodies_mono_ns = conn->now_mono_ns;
        h2->bodies_bytes = 0;
    }
    open_window(req, len);
    if (req->want_continue)
        fg_http2_submit_continue(req);
}

void fg_http2_refuse(struct fg_http_request *req, enum fg_http_refusal why)
{
    fg_http2_body_end(req->conn, req);
    req->skip_body = true;
    req->refusal = why;
    fg_http_refuse(req);
}

static bool hosts_agree(const struct fg_http_request *req)
{
    struct fg_slice first = fg_http_header(req, "Host");

    for (unsigned i = 0; i < req->n_headers; i++)
        if (fg_slice_is_nocase(fg_http_span(req, req->headers[i].name), "Host") &&
            !fg_slice_eq_nocase(fg_http_span(req, req->headers[i].value), first))
            return false;
    return true;
}

static void head_complete(struct fg_http_request *req, bool end_stream)
{
    uint64_t len = body_len(req, end_stream);
    enum fg_http_refusal why = req->refusal;

    req->h2.has_head = true;
    /* :authority became a Host header. Another one must be equal (RFC 9113, 8.3.1). */
    if (why == HTTP_ACCEPTED && (!hosts_agree(req) || !fg_http_request_url(req)))
        why = HTTP_MALFORMED;
    if (why == HTTP_ACCEPTED)
        why = fg_http_request_admit(req, len);
    if (why != HTTP_ACCEPTED)
        fg_http2_refuse(req, why);
    else if (!end_stream)
        body_begin(req, len);
}

/* --- bodies --- */

static int on_data_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                         const uint8_t *data, size_t len, void *arg)
{
    struct fg_http_request *req = nghttp2_session_get_stream_user_data(session, stream_id);
    struct fg_http_conn *conn = arg;
    enum fg_http_refusal why;

    (void)flags;
    /* Whether the bytes are kept or thrown away, they no longer take window of other streams. */
    (void)nghttp2_session_consume_connection(session, len);
    conn->http2->bodies_bytes += len;
    if (req == NULL || req->skip_body)
        return 0;
    req->h2.body_bytes += len;
    why = fg_http_request_grow(req, len);
    if (why != HTTP_ACCEPTED) {
        fg_http2_refuse(req, why);
        return 0;
    }
    fg_buf_append(&req->body, data, len);
    (void)nghttp2_session_consume_stream(session, stream_id, len);
    return 0;
}

/* --- ends --- */

void fg_http2_request_complete(struct fg_http_request *req)
{
    struct fg_http2 *h2 = req->conn->http2;

    fg_http2_body_end(req->conn, req);
    if (req->refusal != HTTP_ACCEPTED)
        return; /* answered already */
    req->h2.complete = true;
    req->h2.next_complete = NULL;
    *h2->complete_last = req;
    h2->complete_last = &req->h2.next_complete;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct fg_http_request *req;
    bool end_stream = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

    (void)arg;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    req = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (req == NULL)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        head_complete(req, end_stream);
    if (end_stream)
        fg_http2_request_complete(req);
    return 0;
}

/*
 * Go's gRPC clients end a connection with a GOAWAY that names their own last stream, where only one
 * of the server's may stand (RFC 9113, 6.8). nghttp2 answers that with an error, which does no
 * harm: they are gone. It is not counted as one, since every restart of a collector would be.
 */
static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *arg)
{
    struct fg_http_conn *conn = arg;

    (void)session;
    (void)error;
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->hd.stream_id == 0)
        conn->http2->left = true;
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *arg)
{
    struct fg_http_request *req = nghttp2_session_get_stream_user_data(session, stream_id);
    struct fg_http_conn *conn = arg;

    (void)error_code;
    if (req == NULL)
        return 0;
    req->h2.stream_id = 0;
    atomic_store_explicit(&req->gone, true, memory_order_relaxed);
    if ((req->state == HTTP_RECEIVING && !req->h2.complete) ||
        (req->state == HTTP_READY && req->h2.borrowed == 0))
        fg_http2_drop(conn, req);
    return 0;
}

void fg_http2_in_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_invalid_header_callback(callbacks, on_invalid_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
