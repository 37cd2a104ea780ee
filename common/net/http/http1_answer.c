/*
 * The form that an answer has in HTTP/1.1: status line and headers before the body, and where it
 * has trailers the frame of a chunk around it (RFC 9112, 7.1).
 */
#include "common/net/http/impl.h"

static void put_length(struct fg_http_request *req)
{
    struct fg_buf *head = &req->out_head;

    /* Trailers only for a client that says that it reads them (RFC 9110, 6.5.1). */
    req->chunked =
        req->streaming || (req->trailers.len > 0 && !req->http10 && req->method != FG_HTTP_HEAD &&
                           fg_http_header_has(req, "TE", "trailers"));
    if (req->chunked) {
        fg_buf_put(head, FG_LIT("Transfer-Encoding: chunked\r\n"));
        return;
    }
    fg_buf_put(head, FG_LIT("Content-Length: "));
    fg_buf_u64(head, req->content_bytes);
    fg_buf_put(head, FG_LIT("\r\n"));
}

/* Sends the body as one chunk: its size goes to the end of the head, and what follows it into
 * `extra`. */
static void put_chunk(struct fg_http_request *req)
{
    struct fg_buf *tail = &req->extra; /* the head has what was in it */

    fg_buf_clear(tail);
    if (req->out.len > 0) {
        fg_buf_printf(&req->out_head, "%zx\r\n", req->out.len);
        fg_buf_put(tail, FG_LIT("\r\n"));
    }
    fg_buf_put(tail, FG_LIT("0\r\n"));
    fg_buf_put(tail, fg_buf_slice(&req->trailers));
    fg_buf_put(tail, FG_LIT("\r\n"));
    fg_assert(!tail->full && !req->trailers.full);
}

static void put_head(struct fg_http_request *req)
{
    struct fg_buf *head = &req->out_head;

    fg_buf_put(head, FG_LIT("HTTP/1.1 "));
    fg_buf_u64(head, req->status);
    fg_buf_putc(head, ' ');
    fg_buf_puts(head, fg_http_status_phrase(req->status));
    fg_buf_put(head, FG_LIT("\r\nDate: "));
    fg_buf_puts(head, fg_http_date(req->conn->owner));
    fg_buf_put(head, FG_LIT("\r\n"));
    if (fg_http_status_has_body(req->status))
        put_length(req);
    if (req->coding != HTTP_IDENTITY)
        fg_buf_put(head, req->coding == HTTP_GZIP ? FG_LIT("Content-Encoding: gzip\r\n")
                                                  : FG_LIT("Content-Encoding: zstd\r\n"));
    if (fg_http1_closes_after(req))
        fg_buf_put(&req->out_head, FG_LIT("Connection: close\r\n"));
    else if (req->http10)
        fg_buf_put(&req->out_head, FG_LIT("Connection: keep-alive\r\n"));
    fg_buf_put(head, fg_buf_slice(&req->extra));
    fg_buf_put(head, FG_LIT("\r\n"));
    fg_assert(!req->extra.full && !head->full);
}

void fg_http1_put_answer(struct fg_http_request *req)
{
    struct fg_buf *stream = &req->stream;

    if (req->streaming)
        /* What the socket does not have yet. It may still read from `stream`. */
        fg_buf_append(&req->out_head, stream->ptr + req->stream_given,
                      stream->len - req->stream_given);
    else
        put_head(req);
    if (req->chunked)
        put_chunk(req);
    fg_assert(!req->out_head.full);
}

void fg_http1_put_stream_head(struct fg_http_request *req)
{
    put_head(req);
    fg_http_stream_init(req, fg_buf_slice(&req->out_head));
    fg_buf_clear(&req->out_head);
}

bool fg_http1_put_stream(struct fg_http_request *req, struct fg_slice piece)
{
    enum { FRAME_BYTES = 16 }; /* the size of a piece in hexadecimal, and two line ends */
    struct fg_buf *stream = &req->stream;

    if (piece.len + FRAME_BYTES > stream->cap - stream->len)
        return false;
    fg_buf_printf(stream, "%zx\r\n", piece.len);
    fg_buf_put(stream, piece);
    fg_buf_put(stream, FG_LIT("\r\n"));
    fg_assert(!stream->full);
    return true;
}

unsigned fg_http1_answer_bufs(const struct fg_http_request *req, uv_buf_t *bufs)
{
    unsigned n = 0;

    bufs[n++] = uv_buf_init((char *)req->out_head.ptr, (unsigned)req->out_head.len);
    if (req->out.len > 0)
        bufs[n++] = (uv_buf_t){.base = (char *)req->out.ptr, .len = req->out.len};
    if (req->chunked)
        bufs[n++] = uv_buf_init((char *)req->extra.ptr, (unsigned)req->extra.len);
    return n;
}
