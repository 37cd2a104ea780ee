/*
 * Answers in HTTP/2: their fields, and what leaves in one write. Frames without bodies are copied
 * into the control buffer; bodies are borrowed from their answers until the socket has them.
 */
#include "common/net/http/http2.h"

enum {
    FRAME_HEAD_BYTES = 9,
    BATCH_MAX_BYTES = 256 * 1024,        /* in one write: 16 frames of bodies */
    CONTROL_MAX_BYTES = 4 * 1024 * 1024, /* a batch, and a head as large as a handler made it */
    CONTROL_KEEP_BYTES = 8 * 1024,       /* of an idle connection */
};

/* --- fields --- */

static void put_field(struct fg_buf *fields, struct fg_slice name, struct fg_slice value)
{
    nghttp2_nv field = {.name = (uint8_t *)(uintptr_t)name.ptr,
                        .namelen = name.len,
                        .value = (uint8_t *)(uintptr_t)value.ptr,
                        .valuelen = value.len};

    fg_buf_append(fields, &field, sizeof field);
}

/* "Name: value\r\n" and so on, as response.c writes them; nghttp2 makes the names small. */
static void put_lines(struct fg_buf *fields, struct fg_slice lines)
{
    while (lines.len > 0) {
        size_t end = FG_MIN(fg_slice_search(lines, "\r\n"), lines.len);
        struct fg_slice line = fg_slice_sub(lines, 0, end);
        size_t colon = fg_slice_find(line, ':');

        put_field(fields, fg_slice_sub(line, 0, colon),
                  fg_trim(fg_slice_sub(line, colon + 1, line.len)));
        lines = fg_slice_sub(lines, end + 2, lines.len);
    }
}

static const nghttp2_nv *fields_of(const struct fg_buf *fields)
{
    fg_assert(!fields->full);
    return (const void *)fields->ptr; /* malloc's, so aligned for anything */
}

static size_t n_fields(const struct fg_buf *fields)
{
    return fields->len / sizeof(nghttp2_nv);
}

void fg_http2_submit_continue(struct fg_http_request *req)
{
    struct fg_buf *fields = &req->out_head;

    req->want_continue = false;
    fg_buf_clear(fields);
    put_field(fields, FG_LIT(":status"), FG_LIT("100"));
    (void)nghttp2_submit_headers(req->conn->http2->session, NGHTTP2_FLAG_NONE, req->h2.stream_id,
                                 NULL, fields_of(fields), n_fields(fields), NULL);
}

/* --- bodies --- */

static ssize_t read_body(nghttp2_session *session, int32_t stream_id, uint8_t *buf, size_t length,
                         uint32_t *ret_flags, nghttp2_data_source *source, void *arg)
{
    struct fg_http_request *req = source->ptr;
    size_t streamed = req->stream.len - req->stream_given;
    size_t left;

    (void)session;
    (void)stream_id;
    (void)buf;
    (void)arg;
    *ret_flags = NGHTTP2_DATA_FLAG_NO_COPY;
    if (streamed > 0)
        return (ssize_t)FG_MIN(streamed, length);
    if (req->state != HTTP_READY)
        return NGHTTP2_ERR_DEFERRED;          /* until fg_http2_resume_stream() */
    left = req->out.len - req->h2.sent_bytes; /* a worker may have had it until now */
    if (left > length)
        return (ssize_t)length;
    *ret_flags |= NGHTTP2_DATA_FLAG_EOF;
    if (req->trailers.len > 0) {
        *ret_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;

        struct fg_buf *fields = &req->out_head;

        fg_buf_clear(fields);
        put_lines(fields, fg_buf_slice(&req->trailers));
        (void)nghttp2_submit_trailer(req->conn->http2->session, req->h2.stream_id,
                                     fields_of(fields), n_fields(fields));
    }
    return (ssize_t)left;
}

static void submit(struct fg_http_request *req, bool has_body)
{
    struct fg_http2 *h2 = req->conn->http2;
    struct fg_buf *fields = &req->out_head;
    nghttp2_data_provider body = {.source.ptr = req, .read_callback = read_body};
    char status[4], length[24];

    if (req->method == FG_HTTP_HEAD || !fg_http_status_has_body(req->status))
        fg_buf_clear(&req->trailers); /* nothing they could follow */
    (void)snprintf(status, sizeof status, "%u", req->status % 1000);
    (void)snprintf(length, sizeof length, "%" PRIu64, req->content_bytes);
    fg_buf_clear(fields);
    put_field(fields, FG_LIT(":status"), fg_cstr(status));
    put_field(fields, FG_LIT("date"), fg_cstr(fg_http_date(req->conn->owner)));
    /* With trailers it is one of a stream of messages, whose length nobody says. */
    if (fg_http_status_has_body(req->status) && req->trailers.len == 0 && !req->streaming)
        put_field(fields, FG_LIT("content-length"), fg_cstr(length));
    if (req->coding != HTTP_IDENTITY)
        put_field(fields, FG_LIT("content-encoding"),
                  req->coding == HTTP_GZIP ? FG_LIT("gzip") : FG_LIT("zstd"));
    put_lines(fields, fg_buf_slice(&req->extra));
    fg_assert(!req->extra.full && !req->trailers.full);
    /* Fails only when the stream is being closed, and then the request goes with it. */
    (void)nghttp2_submit_response(h2->session, req->h2.stream_id, fields_of(fields),
                                  n_fields(fields), has_body ? &body : NULL);
    fg_http2_meter_answered(&h2->meter);
}

void fg_http2_submit_answer(struct fg_http_request *req)
{
    submit(req, req->out.len > 0 || req->trailers.len > 0);
}

void fg_http2_submit_stream(struct fg_http_request *req)
{
    fg_http_stream_init(req, fg_bytes(NULL, 0));
    submit(req, true);
}

void fg_http2_resume_stream(struct fg_http_request *req)
{
    /* Fails if it is not deferred: then it is asked for anyhow. */
    (void)nghttp2_session_resume_data(req->conn->http2->session, req->h2.stream_id);
}

/* --- a write --- */

void fg_http2_control_put(struct fg_http2 *h2, struct fg_slice bytes)
{
    struct fg_http2_piece *last = h2->n_pieces == 0 ? NULL : &h2->pieces[h2->n_pieces - 1];

    if (last == NULL || last->req != NULL) {
        last = &h2->pieces[h2->n_pieces++];
        *last = (struct fg_http2_piece){.at = h2->control.len};
    }
    last->len += bytes.len;
    fg_buf_put(&h2->control, bytes);
    h2->batch_bytes += bytes.len;
}

/* True if there is room for a head and a body, and for a frame without a body that nghttp2 gives
 * us after them. */
static bool batch_has_room(const struct fg_http2 *h2)
{
    return h2->n_pieces + 3 <= HTTP_WRITE_BUFS && h2->batch_bytes < BATCH_MAX_BYTES;
}

static int send_body(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                     size_t len, nghttp2_data_source *source, void *arg)
{
    struct fg_http_conn *conn = arg;
    struct fg_http2 *h2 = conn->http2;
    struct fg_http_request *req = source->ptr;

    (void)session;
    (void)frame;
    if (!batch_has_room(h2))
        return NGHTTP2_ERR_WOULDBLOCK; /* asked again for the next write */
    fg_http2_control_put(h2, fg_bytes(head, FRAME_HEAD_BYTES));
    if (len > 0) {
        /* read_body() gave bytes of one of the two. */
        bool of_stream = req->stream_given < req->stream.len;
        size_t *sent = of_stream ? &req->stream_given : &req->h2.sent_bytes;

        h2->pieces[h2->n_pieces++] = (struct fg_http2_piece){req, of_stream, *sent, len};
        req->h2.borrowed++;
        *sent += len;
        h2->batch_bytes += len;
        fg_http2_meter_sent_data(&h2->meter);
    }
    return 0;
}

/* Counts streams that nghttp2 ends by itself. */
static void count_end(const struct fg_http_conn *conn, const nghttp2_frame *frame)
{
    struct fg_http_stats *stats = conn->owner->stats;
    uint32_t code;

    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        code = frame->rst_stream.error_code;
        if (code == NGHTTP2_PROTOCOL_ERROR)
            fg_http_stats_refused(stats, HTTP_MALFORMED);
        else if (code == NGHTTP2_REFUSED_STREAM)
            fg_http_stats_event(stats, HTTP2_STREAM_REFUSED);
    } else if (frame->hd.type == NGHTTP2_GOAWAY && !conn->http2->left) {
        code = frame->goaway.error_code;
        if (code != NGHTTP2_NO_ERROR)
            fg_http_stats_event(stats,
                                code == NGHTTP2_ENHANCE_YOUR_CALM ? HTTP2_FLOOD : HTTP2_BROKEN);
    }
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct fg_http_conn *conn = arg;
    struct fg_http_request *req;

    count_end(conn, frame);
    if ((frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
        req = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
        if (req != NULL) {
            req->h2.sent = true;
            req->h2.sent_mono_ns = fg_mono_ns(conn->owner->clock);
        }
    }
    return 0;
}

void fg_http2_out_callbacks(nghttp2_session_callbacks *callbacks)
{
    nghttp2_session_callbacks_set_send_data_callback(callbacks, send_body);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
}

/* Collects nghttp2's frames until the batch is full. Returns false if nghttp2 has failed. */
static bool collect(struct fg_http2 *h2)
{
    const uint8_t *bytes;
    ssize_t n = 0;

    do {
        n = nghttp2_session_mem_send(h2->session, &bytes);
        if (n > 0)
            fg_http2_control_put(h2, fg_bytes(bytes, (size_t)n));
    } while (n > 0 && batch_has_room(h2));
    fg_assert(!h2->control.full);
    return n >= 0;
}

static unsigned make_bufs(const struct fg_http2 *h2, uv_buf_t bufs[HTTP_WRITE_BUFS])
{
    for (unsigned i = 0; i < h2->n_pieces; i++) {
        const struct fg_http2_piece *piece = &h2->pieces[i];
        uint8_t *base = piece->req == NULL ? h2->control.ptr
                        : piece->of_stream ? piece->req->stream.ptr
                                           : piece->req->out.ptr;

        bufs[i] = (uv_buf_t){.base = (char *)base + piece->at, .len = piece->len};
    }
    return h2->n_pieces;
}

void fg_http2_release_batch(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;

    for (unsigned i = 0; i < h2->n_pieces; i++) {
        struct fg_http_request *req = h2->pieces[i].req;

        if (req == NULL || --req->h2.borrowed > 0)
            continue;
        if (req->streaming)
            fg_http_stream_left(req);
        /* While a handler has it, it comes back. */
        if (req->h2.stream_id == 0 && req->state == HTTP_READY)
            fg_http2_drop(conn, req);
    }
    h2->n_pieces = 0;
    h2->batch_bytes = 0;
    fg_buf_clear(&h2->control);
    if (h2->control.cap > CONTROL_KEEP_BYTES) {
        fg_buf_done(&h2->control);
        fg_buf_init(&h2->control, CONTROL_MAX_BYTES);
    }
}

bool fg_http2_write_batch(struct fg_http_conn *conn)
{
    struct fg_http2 *h2 = conn->http2;
    uv_buf_t bufs[HTTP_WRITE_BUFS];

    if (!collect(h2)) {
        fg_http_conn_cut(conn);
        return false;
    }
    if (h2->n_pieces == 0 || !fg_http_conn_write(conn, bufs, make_bufs(h2, bufs)))
        return false;
    fg_http2_release_batch(conn);
    return true;
}
