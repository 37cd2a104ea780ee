/*
 * Answers that leave before they are complete. Pieces wait in one small buffer that never moves, so
 * that the socket can borrow it; the last piece is an answer like any other (hold.c).
 */
#include "common/base/json_writer.h"
#include "common/net/http/impl.h"

enum { ERROR_MAX_BYTES = 6 * FG_ERR_MSG_MAX_BYTES + 256 }; /* an escape has six characters */

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
    fg_http_coding_stream(req);
    req->conn->protocol->stream_begin(req);
    return true;
}

/* The coding goes on from a piece only if the protocol has taken it. */
static bool put_coded(struct fg_http_request *req, struct fg_slice piece)
{
    struct fg_http_coded coded = req->coded;
    struct fg_buf framed;
    bool taken;

    if (piece.len > HTTP_STREAM_BYTES)
        return false; /* as without the coding, and before it is copied */
    fg_buf_init(&framed, SIZE_MAX);
    fg_http_coding_store(req->coding, &coded, piece, false, &framed);
    taken = req->conn->protocol->stream_put(req, fg_buf_slice(&framed));
    fg_buf_done(&framed);
    if (taken)
        req->coded = coded;
    return taken;
}

bool fg_http_stream_put(struct fg_http_request *req, struct fg_slice piece)
{
    fg_assert(req->streaming && req->state == HTTP_WORKING && !req->encoded && piece.len > 0);
    if (fg_http_gone(req))
        return false;
    return req->coding == HTTP_IDENTITY ? req->conn->protocol->stream_put(req, piece)
                                        : put_coded(req, piece);
}

bool fg_http_stream_end(struct fg_http_request *req, struct fg_buf *last)
{
    fg_assert(req->streaming && req->state == HTTP_WORKING);
    fg_buf_done(&req->out);
    req->out = *last;
    if (!fg_http_answer_hold(req)) {
        fg_buf_init(&req->out, SIZE_MAX);
        req->encoded = false; /* another piece will be the last */
        return false;
    }
    fg_buf_init(last, last->max_bytes);
    fg_http_count_answer(req);
    fg_http_request_drop_body(req);
    if (req->coding != HTTP_IDENTITY && !req->encoded) {
        if (req->out.len >= HTTP_CODING_MIN_BYTES && fg_http_coding_start(req))
            return true;
        /* The stream has begun in this coding, so what no worker compresses is framed here: a copy
         * of the piece, a millisecond for some megabytes, only when the lane is full. */
        fg_http_coding_store_last(req, &req->out);
    }
    fg_http_finish(req);
    return true;
}

void fg_http_stream_fail(struct fg_http_request *req, const struct fg_err *err)
{
    struct fg_json_writer json;
    struct fg_buf body;

    fg_buf_init(&body, ERROR_MAX_BYTES);
    json = fg_json_writer(&body);
    fg_buf_puts(&body, "event: error\ndata: ");
    fg_json_begin_object(&json, NULL);
    fg_json_put_u64(&json, "status", fg_code_http(err->code));
    fg_json_put_cstr(&json, "code", fg_code_name(err->code));
    fg_json_put_cstr(&json, "message", err->msg);
    fg_json_end(&json);
    fg_buf_puts(&body, "\n\n");
    fg_assert(!body.full && fg_http_stream_end(req, &body)); /* small ones always fit */
}
