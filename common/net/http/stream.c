/*
 * Answers that leave before they are complete. Pieces wait in one small buffer that never moves, so
 * that the socket can borrow it; the last piece is an answer like any other (hold.c).
 */
#include "common/net/http/impl.h"

void fg_http_stream_init(struct fg_http_request *req, struct fg_slice head)
{
    size_t bytes = head.len + HTTP_STREAM_BYTES;

    fg_buf_init(&req->stream, bytes);
    fg_assert(fg_buf_reserve(&req->stream, bytes));
    fg_buf_put(&req->stream, head);
    req->stream_given = 0;
}

void fg_http_stream_left(struct fg_http_request *req)
{
    struct fg_buf *stream = &req->stream;

    stream->len -= req->stream_given;
    if (stream->len > 0)
        memmove(stream->ptr, stream->ptr + req->stream_given, stream->len);
    req->stream_given = 0;
}

bool fg_http_can_stream(const struct fg_http_request *req)
{
    /* HTTP/1.0 has no chunks: its body would end with the connection, as after a failure. */
    return !req->http10 && req->method != FG_HTTP_HEAD;
}

bool fg_http_stream_begin(struct fg_http_request *req, const char *content_type)
{
    fg_assert(req->magic == HTTP_REQUEST_MAGIC && req->state == HTTP_WORKING && !req->streaming);
    if (!fg_http_can_stream(req) || fg_http_gone(req))
        return false;
    req->streaming = true;
    req->status = 200;
    fg_http_put_headers(req, content_type);
    req->conn->protocol->stream_begin(req);
    return true;
}

bool fg_http_stream_put(struct fg_http_request *req, struct fg_slice piece)
{
    fg_assert(req->streaming && req->state == HTTP_WORKING && piece.len > 0);
    return !fg_http_gone(req) && req->conn->protocol->stream_put(req, piece);
}

bool fg_http_stream_end(struct fg_http_request *req, struct fg_buf *last)
{
    fg_assert(req->streaming && req->state == HTTP_WORKING);
    fg_buf_done(&req->out);
    req->out = *last;
    if (!fg_http_answer_hold(req)) {
        fg_buf_init(&req->out, SIZE_MAX);
        return false;
    }
    fg_buf_init(last, last->max_bytes);
    fg_http_count_answer(req);
    fg_http_request_drop_body(req);
    fg_http_finish(req);
    return true;
}
