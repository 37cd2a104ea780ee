/* The form that an answer has in HTTP/1.1: status line and headers. */
#include "common/net/http/impl.h"

static void put_connection(struct fg_http_request *req)
{
    if (http1_closes_after(req))
        fg_buf_put(&req->out_head, FG_LIT("Connection: close\r\n"));
    else if (req->http10)
        fg_buf_put(&req->out_head, FG_LIT("Connection: keep-alive\r\n"));
}

void http1_put_answer(struct fg_http_request *req)
{
    struct fg_buf *head = &req->out_head;

    fg_buf_put(head, FG_LIT("HTTP/1.1 "));
    fg_buf_u64(head, req->status);
    fg_buf_putc(head, ' ');
    fg_buf_puts(head, http_status_phrase(req->status));
    fg_buf_put(head, FG_LIT("\r\nDate: "));
    fg_buf_puts(head, http_date(req->conn->owner));
    fg_buf_put(head, FG_LIT("\r\n"));
    if (http_status_has_body(req->status)) {
        fg_buf_put(head, FG_LIT("Content-Length: "));
        fg_buf_u64(head, req->content_bytes);
        fg_buf_put(head, FG_LIT("\r\n"));
    }
    if (req->coding != HTTP_IDENTITY)
        fg_buf_put(head, req->coding == HTTP_GZIP ? FG_LIT("Content-Encoding: gzip\r\n")
                                                  : FG_LIT("Content-Encoding: zstd\r\n"));
    put_connection(req);
    fg_buf_put(head, fg_buf_slice(&req->extra));
    fg_buf_put(head, FG_LIT("\r\n"));
    fg_assert(!head->full && !req->extra.full);
}
