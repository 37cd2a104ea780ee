/*
 * Requests of HTTP/1.1 as llhttp finds them: each callback looks at one piece and stops the parser
 * when it will not have the message (http1.c refuses the request then).
 */
#include "common/net/http/impl.h"

/* Stops the parser from inside of a callback. */
static int stop(struct fg_http_conn *conn, enum fg_http_refusal why)
{
    conn->http1.stopped = why;
    return -1;
}

/* --- heads --- */

static int on_message_begin(llhttp_t *parser)
{
    struct fg_http_conn *conn = parser->data;

    conn->http1.current = fg_http_request_new(conn);
    fg_http_conn_idle(conn, false);
    /* The time for the first head runs from the beginning of the connection, not from its first
     * byte. */
    if (!conn->http1.fresh)
        conn->http1.since_mono_ns = conn->now_mono_ns;
    return 0;
}

static int add_piece(struct fg_http_conn *conn, struct fg_http_span *span, const char *at,
                     size_t len)
{
    enum fg_http_refusal why =
        fg_http_request_add_piece(conn->http1.current, span, fg_bytes(at, len));

    return why == HTTP_ACCEPTED ? 0 : stop(conn, why);
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    struct fg_http_conn *conn = parser->data;

    return add_piece(conn, &conn->http1.current->url, at, len);
}

/* Fields after a body (trailers) are read and dropped: nothing of ours needs them. */
static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    struct fg_http_conn *conn = parser->data;
    struct fg_http_request *req = conn->http1.current;

    if (conn->http1.state == HTTP1_BODY)
        return 0;
    if (req->n_headers == HTTP_HEADERS_MAX)
        return stop(conn, HTTP_HEAD_TOO_LARGE);
    return add_piece(conn, &req->headers[req->n_headers].name, at, len);
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    struct fg_http_conn *conn = parser->data;
    struct fg_http_request *req = conn->http1.current;

    if (conn->http1.state == HTTP1_BODY)
        return 0;
    return add_piece(conn, &req->headers[req->n_headers].value, at, len);
}

static int on_header_value_complete(llhttp_t *parser)
{
    struct fg_http_conn *conn = parser->data;
    struct fg_http_request *req = conn->http1.current;
    struct fg_http_span *value;

    if (conn->http1.state == HTTP1_BODY)
        return 0;
    /* llhttp skips the blanks before a value only. */
    value = &req->headers[req->n_headers].value;
    while (value->len > 0 && strchr(" \t", req->head.ptr[value->at + value->len - 1]) != NULL)
        value->len--;
    if (++req->n_headers < HTTP_HEADERS_MAX)
        req->headers[req->n_headers] = (struct fg_http_header){0};
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

/* Ends the connection if the borders of the message are in doubt (request smuggling). llhttp has
 * made further checks. */
static enum fg_http_refusal check_framing(const llhttp_t *parser, const struct fg_http_request *req)
{
    unsigned n_hosts = fg_http_header_count(req, "Host");
    unsigned n_codings = fg_http_header_count(req, "Transfer-Encoding");

    if (parser->http_major != 1 || parser->http_minor > 1)
        return HTTP_BAD_VERSION;
    /* RFC 9112, 3.2: exactly one in HTTP/1.1. With two, we and a proxy might see two different
     * sites. */
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

/* True if the body of a refused request may be read to its end, to keep the connection. */
static bool worth_skipping(const llhttp_t *parser, const struct fg_http_request *req)
{
    /* A client that waits for 100 may send the body after a refusal or not: we cannot know. */
    if (fg_http_header(req, "Expect").ptr != NULL)
        return false;
    return (parser->flags & F_CHUNKED) || parser->content_length <= HTTP_SKIP_MAX_BYTES;
}

static int on_headers_complete(llhttp_t *parser)
{
    struct fg_http_conn *conn = parser->data;
    struct fg_http1 *h1 = &conn->http1;
    struct fg_http_request *req = h1->current;
    enum fg_http_refusal why;

    h1->fresh = false;
    h1->upgrade = parser->upgrade;
    parser->upgrade = 0; /* the message goes on as it would without, see received() of http1.c */
    req->method = method_of(parser);
    req->http10 = parser->http_minor == 0;
    why = check_framing(parser, req);
    if (why == HTTP_ACCEPTED && !fg_http_request_url(req))
        why = HTTP_MALFORMED;
    if (why != HTTP_ACCEPTED)
        return stop(conn, why);
    why = fg_http_request_admit(req, (parser->flags & F_CHUNKED) ? HTTP_LENGTH_UNKNOWN
                                                                 : parser->content_length);
    if (why != HTTP_ACCEPTED && !worth_skipping(parser, req))
        return stop(conn, why);
    req->refusal = why;
    req->skip_body = why != HTTP_ACCEPTED;
    fg_http1_queue_push(conn, req);
    h1->state = HTTP1_BODY;
    h1->since_mono_ns = conn->now_mono_ns;
    h1->raw_bytes = 0;
    return 0;
}

/* --- bodies --- */

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    struct fg_http_conn *conn = parser->data;
    struct fg_http_request *req = conn->http1.current;
    struct fg_buf *body = &req->body;
    enum fg_http_refusal why;

    req->want_continue = false; /* it did not wait */
    if (req->skip_body)
        return 0;
    if (body->ptr != NULL && (const uint8_t *)at == body->ptr + body->len) {
        fg_assert(len <= body->cap - body->len);
        body->len += len; /* read in place, see body_room() of http1.c */
        return 0;
    }
    why = fg_http_request_grow(req, len);
    if (why != HTTP_ACCEPTED)
        return stop(conn, why);
    fg_buf_append(body, at, len);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct fg_http_conn *conn = parser->data;

    conn->http1.complete = true;
    conn->http1.current->keep_alive = llhttp_should_keep_alive(parser);
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

void fg_http1_parser_init(struct fg_http_conn *conn)
{
    llhttp_init(&conn->http1.parser, HTTP_REQUEST, &parser_settings);
    conn->http1.parser.data = conn;
}
