/* A request as its handler sees it: headers, parameters, percent-decoding. */
#include "common/net/http/impl.h"

enum {
    KEEP_MAX_BYTES = 8 * 1024, /* of a buffer or an arena, in a spare request */
};

struct fg_http_request *fg_http_request_new(struct fg_http_conn *conn)
{
    struct fg_http_loop *owner = conn->owner;
    /* Spare requests belong to one loop, so no lock is needed. */
    struct fg_http_request *req = owner->spare;

    if (req != NULL) {
        owner->spare = req->next;
        owner->n_spare--;
    } else {
        req = fg_new(struct fg_http_request);
        req->magic = HTTP_REQUEST_MAGIC;
        req->arena = fg_arena_create(HTTP_ARENA_MAX_BYTES);
        fg_buf_init(&req->head, owner->config.head_max_bytes);
        fg_buf_init(&req->extra, HTTP_ARENA_MAX_BYTES);
        fg_buf_init(&req->trailers, HTTP_ARENA_MAX_BYTES);
        fg_buf_init(&req->out_head, (size_t)2 * HTTP_ARENA_MAX_BYTES);
        fg_buf_init(&req->body, 0);
        fg_buf_init(&req->out, SIZE_MAX);
    }
    req->conn = conn;
    req->next = NULL;
    req->method = FG_HTTP_OTHER;
    req->stats_at = fg_http_stats_of(owner->stats, SIZE_MAX, FG_HTTP_OTHER);
    req->start_mono_ns = conn->now_mono_ns;
    conn->refs++;
    fg_http_request_pay(req);
    return req;
}

static void forget(struct fg_buf *buf)
{
    fg_buf_clear(buf);
    if (buf->cap > KEEP_MAX_BYTES) {
        size_t max_bytes = buf->max_bytes;

        fg_buf_done(buf);
        fg_buf_init(buf, max_bytes);
    }
}

/* Resets a request to what fg_http_request_new() gives; small buffers keep their memory. */
static void request_reset(struct fg_http_request *req)
{
    /* Before the arena, which has it. */
    if (req->grant != NULL)
        req->conn->owner->lent.guard->release(req->conn->owner->lent.guard->arg, req->grant);
    req->grant = NULL;
    if (fg_arena_used_bytes(req->arena) > KEEP_MAX_BYTES) {
        fg_arena_destroy(req->arena);
        req->arena = fg_arena_create(HTTP_ARENA_MAX_BYTES);
    }
    fg_arena_reset(req->arena);
    forget(&req->head);
    forget(&req->extra);
    forget(&req->trailers);
    forget(&req->out_head);
    fg_buf_done(&req->out);
    fg_buf_done(&req->stream);
    req->stream_given = 0;
    req->streaming = false;
    req->state = HTTP_RECEIVING;
    req->refusal = HTTP_ACCEPTED;
    req->http10 = req->keep_alive = req->want_continue = false;
    req->no_coding = req->skip_body = req->chunked = req->retry_after = req->encoded = false;
    atomic_store_explicit(&req->gone, false, memory_order_relaxed);
    req->url = (struct fg_http_span){0};
    req->n_headers = 0;
    req->headers[0] = (struct fg_http_header){0}; /* the next ones as they come */
    req->path = req->query = req->authority = fg_bytes(NULL, 0);
    req->denial = NULL;
    req->route = NULL;
    req->allow = req->status = 0;
    req->body_max_bytes = req->content_bytes = 0;
    req->bodies = NULL;
    req->flow = 0;
    req->coding = HTTP_IDENTITY;
    req->h2 = (struct fg_http_stream){0};
}

void fg_http_request_drop_body(struct fg_http_request *req)
{
    fg_buf_done(&req->body);
    if (req->bodies != NULL && req->admitted_bytes > 0)
        fg_budget_give(req->bodies, req->admitted_bytes);
    req->admitted_bytes = 0;
}

void fg_http_request_free(struct fg_http_request *req)
{
    struct fg_http_conn *conn = req->conn;
    struct fg_http_loop *owner = conn->owner;

    /* Budgets first: the reset forgets which of them the body was taken from. */
    fg_http_request_drop_body(req);
    fg_http_answer_release(req);
    fg_http_request_repay(req);
    request_reset(req);
    if (owner->n_spare < HTTP_SPARE_REQUESTS) {
        req->next = owner->spare;
        owner->spare = req;
        owner->n_spare++;
    } else {
        fg_http_request_destroy(req);
    }
    /* Last, since it may free the connection. */
    fg_http_conn_unref(conn);
}

void fg_http_request_destroy(struct fg_http_request *req)
{
    req->magic = 0;
    fg_arena_destroy(req->arena);
    fg_buf_done(&req->head);
    fg_buf_done(&req->extra);
    fg_buf_done(&req->trailers);
    fg_buf_done(&req->out_head);
    fg_buf_done(&req->out);
    fg_buf_done(&req->stream);
    fg_buf_done(&req->body);
    free(req);
}

enum fg_http_refusal fg_http_request_add_piece(struct fg_http_request *req,
                                               struct fg_http_span *span, struct fg_slice piece)
{
    struct fg_buf *head = &req->head;

    /* Paid before the memory is taken, so that heads of many connections stay within their
     * budget. */
    if (!fg_http_request_pay_head(req, head->len + piece.len))
        return HTTP_NO_BUDGET;
    if (span->len == 0)
        span->at = (uint32_t)head->len;
    fg_buf_put(head, piece);
    span->len += (uint32_t)piece.len;
    return head->full ? HTTP_HEAD_TOO_LARGE : HTTP_ACCEPTED;
}

/* --- percent-decoding (RFC 3986, 2.1) --- */

/* Decodes escapes. plus: '+' is a blank, as in forms. Returns false if an escape is invalid or
 * the arena is full. Text without escapes is not copied. */
static bool percent_decode(struct fg_arena *arena, struct fg_slice text, bool plus,
                           struct fg_slice *ret_text)
{
    struct fg_cur cur = fg_cur(text);
    uint8_t *out;
    size_t len = 0;

    if (fg_slice_find(text, '%') == SIZE_MAX && (!plus || fg_slice_find(text, '+') == SIZE_MAX)) {
        *ret_text = text;
        return true;
    }
    out = fg_arena_alloc(arena, text.len);
    if (out == NULL)
        return false;
    while (fg_cur_more(&cur)) {
        uint8_t c = fg_cur_u8(&cur);

        if (c == '%') {
            if (!fg_parse_hex(fg_cur_take(&cur, 2), &c, 1))
                return false;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[len++] = c;
    }
    *ret_text = fg_bytes(out, len);
    return true;
}

/* Takes the host out of "http://host/path", which clients send to proxies and servers must accept,
 * too (RFC 9112, 3.2.2). It replaces that of the Host header. */
static struct fg_slice take_authority(struct fg_http_request *req, struct fg_slice url)
{
    size_t skip, slash;

    if (fg_slice_starts(url, "http://"))
        skip = sizeof "http://" - 1;
    else if (fg_slice_starts(url, "https://"))
        skip = sizeof "https://" - 1;
    else
        return url;
    url = fg_slice_sub(url, skip, url.len);
    slash = FG_MIN(fg_slice_find(url, '/'), url.len);
    req->authority = fg_slice_sub(url, 0, slash);
    return slash == url.len ? fg_bytes("/", 1) : fg_slice_sub(url, slash, url.len);
}

bool fg_http_request_url(struct fg_http_request *req)
{
    struct fg_slice url;
    size_t mark;

    req->authority = fg_http_header(req, "Host");
    url = take_authority(req, fg_http_span(req, req->url));
    if (!fg_slice_starts(url, "/") && !fg_slice_is(url, "*"))
        return false;
    mark = fg_slice_find(url, '#');
    if (mark != SIZE_MAX)
        url = fg_slice_sub(url, 0, mark);
    mark = fg_slice_find(url, '?');
    if (mark != SIZE_MAX) {
        req->query = fg_slice_sub(url, mark + 1, url.len);
        url = fg_slice_sub(url, 0, mark);
    }
    /* A handler that takes the path for a C string would see another one after %00. */
    return percent_decode(req->arena, url, false, &req->path) &&
           fg_slice_find(req->path, '\0') == SIZE_MAX;
}

/* --- what handlers ask --- */

enum fg_http_method fg_http_method(const struct fg_http_request *req)
{
    return req->method;
}

const char *fg_http_method_name(enum fg_http_method method)
{
    switch (method) {
    case FG_HTTP_GET:
        return "GET";
    case FG_HTTP_HEAD:
        return "HEAD";
    case FG_HTTP_POST:
        return "POST";
    case FG_HTTP_PUT:
        return "PUT";
    case FG_HTTP_DELETE:
        return "DELETE";
    case FG_HTTP_OPTIONS:
        return "OPTIONS";
    default:
        return "other";
    }
}

struct fg_slice fg_http_query(const struct fg_http_request *req)
{
    return req->query;
}

struct fg_slice fg_http_path(const struct fg_http_request *req)
{
    return req->path;
}

struct fg_slice fg_http_route_path(const struct fg_http_request *req)
{
    return req->route == NULL ? fg_bytes(NULL, 0) : fg_cstr(req->route->path);
}

struct fg_slice fg_http_body(const struct fg_http_request *req)
{
    return fg_buf_slice(&req->body);
}

/* The first one counts. X-Scope-OrgID and Authorization are never there twice:
 * fg_http_request_admit() refuses that. */
struct fg_slice fg_http_header(const struct fg_http_request *req, const char *name)
{
    size_t len = strlen(name);

    for (unsigned i = 0; i < req->n_headers; i++)
        if (req->headers[i].name.len == len &&
            fg_slice_is_nocase(fg_http_span(req, req->headers[i].name), name))
            return fg_http_span(req, req->headers[i].value);
    return fg_bytes(NULL, 0);
}

/* Finds "name=value" among those of one header, which "; " separates. */
static struct fg_slice find_cookie(struct fg_slice list, const char *name)
{
    while (list.len > 0) {
        size_t end = FG_MIN(fg_slice_find(list, ';'), list.len);
        struct fg_slice pair = fg_trim(fg_slice_sub(list, 0, end));
        size_t equals = fg_slice_find(pair, '=');

        if (equals != SIZE_MAX && fg_slice_is(fg_slice_sub(pair, 0, equals), name))
            return fg_slice_sub(pair, equals + 1, pair.len);
        list = fg_slice_sub(list, end + 1, list.len);
    }
    return fg_bytes(NULL, 0);
}

struct fg_slice fg_http_cookie(const struct fg_http_request *req, const char *name)
{
    struct fg_slice found = fg_bytes(NULL, 0);

    for (unsigned i = 0; i < req->n_headers && found.ptr == NULL; i++)
        if (fg_slice_is_nocase(fg_http_span(req, req->headers[i].name), "Cookie"))
            found = find_cookie(fg_http_span(req, req->headers[i].value), name);
    return found;
}

void fg_http_put_cookies(const struct fg_http_request *req, struct fg_buf *out)
{
    const char *between = "";

    for (unsigned i = 0; i < req->n_headers; i++) {
        if (!fg_slice_is_nocase(fg_http_span(req, req->headers[i].name), "Cookie"))
            continue;
        fg_buf_puts(out, between);
        fg_buf_put(out, fg_http_span(req, req->headers[i].value));
        between = "; ";
    }
}

unsigned fg_http_header_count(const struct fg_http_request *req, const char *name)
{
    unsigned n = 0;

    for (unsigned i = 0; i < req->n_headers; i++)
        n += fg_slice_is_nocase(fg_http_span(req, req->headers[i].name), name);
    return n;
}

bool fg_http_header_has(const struct fg_http_request *req, const char *name, const char *token)
{
    struct fg_slice list = fg_http_header(req, name);

    while (list.len > 0) {
        size_t end = FG_MIN(fg_slice_find(list, ','), list.len);

        if (fg_slice_is_nocase(fg_trim(fg_slice_sub(list, 0, end)), token))
            return true;
        list = fg_slice_sub(list, end + 1, list.len);
    }
    return false;
}

/* Matches one "name=value" of the query. A pair that cannot be decoded does not exist, as in
 * Go's net/url; neither does one with ';', which other programs take for a separator. */
static bool param_matches(struct fg_arena *arena, struct fg_slice pair, struct fg_slice name,
                          struct fg_slice *ret_raw_value)
{
    size_t equals = fg_slice_find(pair, '=');
    struct fg_slice key = fg_slice_sub(pair, 0, equals);

    if (fg_slice_find(pair, ';') != SIZE_MAX)
        return false;
    /* An escape is longer than what it stands for: most other keys end here, undecoded. */
    if (key.len < name.len || !percent_decode(arena, key, true, &key) || !fg_slice_eq(key, name))
        return false;
    *ret_raw_value = equals == SIZE_MAX ? fg_bytes(pair.ptr + pair.len, 0)
                                        : fg_slice_sub(pair, equals + 1, pair.len);
    return true;
}

size_t fg_http_params(struct fg_http_request *req, const char *name, struct fg_slice *values,
                      size_t max)
{
    struct fg_slice rest = req->query;
    size_t n = 0;

    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, '&'), rest.len);
        struct fg_slice value;

        if (param_matches(req->arena, fg_slice_sub(rest, 0, end), fg_cstr(name), &value) &&
            percent_decode(req->arena, value, true, &value)) {
            if (n < max)
                values[n] = value;
            n++;
        }
        rest = fg_slice_sub(rest, end + 1, rest.len);
    }
    return n;
}

struct fg_slice fg_http_param(struct fg_http_request *req, const char *name)
{
    struct fg_slice value;

    return fg_http_params(req, name, &value, 1) > 0 ? value : fg_bytes(NULL, 0);
}

struct fg_arena *fg_http_arena(struct fg_http_request *req)
{
    return req->arena;
}

struct fg_loop *fg_http_loop(struct fg_http_request *req)
{
    return req->conn->owner->loop;
}

struct fg_slice fg_http_peer(const struct fg_http_request *req)
{
    return fg_cstr(req->conn->peer);
}

bool fg_http_has_certificate(const struct fg_http_request *req)
{
    return req->conn->certified;
}

void fg_http_set_grant(struct fg_http_request *req, void *grant)
{
    fg_assert(req->grant == NULL);
    req->grant = grant;
}

const void *fg_http_grant(const struct fg_http_request *req)
{
    return req->grant;
}

bool fg_http_gone(const struct fg_http_request *req)
{
    /* Relaxed: it is a hint that work is in vain, and orders nothing else. */
    return atomic_load_explicit(&req->gone, memory_order_relaxed);
}
