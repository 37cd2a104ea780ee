/* Answers, whatever the version: what handlers say, errors in their one form, refusals. */
#include "common/base/json_writer.h"
#include "common/net/http/impl.h"

enum { ERROR_BODY_MAX_BYTES = 16 * 1024 }; /* a message of 512 bytes, each escaped */

/* RFC 9110, 15; codes without a phrase are still valid. */
const char *fg_http_status_phrase(unsigned status)
{
    static const struct {
        unsigned status;
        const char *phrase;
    } phrases[] = {
        {200, "OK"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {303, "See Other"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };

    for (size_t i = 0; i < FG_COUNT(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}

const char *fg_http_date(struct fg_http_loop *owner)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now_s = (time_t)(fg_wall_ns(owner->clock) / FG_SECOND_NS);
    struct tm tm;

    /* Written once a second (RFC 9110, 5.6.7). */
    if (now_s != owner->date_s && gmtime_r(&now_s, &tm) != NULL) {
        /* Not strftime(): its names of days follow the locale. */
        (void)snprintf(owner->date, sizeof owner->date, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[tm.tm_wday % 7], tm.tm_mday % 100, months[tm.tm_mon % 12],
                       (tm.tm_year + 1900) % 10000, tm.tm_hour % 100, tm.tm_min % 100,
                       tm.tm_sec % 100);
        owner->date_s = now_s;
    }
    return owner->date;
}

/* Replaces line ends: a value that ends its line would let its author write headers of his own. */
static void put_header(struct fg_buf *out, const char *name, const char *value)
{
    for (const char *c = name; *c != '\0'; c++)
        fg_buf_putc(out, *c == '\r' || *c == '\n' || *c == ':' ? '-' : (uint8_t)*c);
    fg_buf_put(out, FG_LIT(": "));
    for (const char *c = value; *c != '\0'; c++)
        fg_buf_putc(out, *c == '\r' || *c == '\n' ? ' ' : (uint8_t)*c);
    fg_buf_put(out, FG_LIT("\r\n"));
}

void fg_http_add_header(struct fg_http_request *req, const char *name, const char *value)
{
    if (fg_slice_is_nocase(fg_cstr(name), "Retry-After"))
        req->retry_after = true;
    put_header(&req->extra, name, value);
}

void fg_http_add_trailer(struct fg_http_request *req, const char *name, const char *value)
{
    put_header(&req->trailers, name, value);
}

void fg_http_no_coding(struct fg_http_request *req)
{
    req->no_coding = true;
}

void fg_http_set_flow(struct fg_http_request *req, uint64_t flow)
{
    req->flow = flow;
}

bool fg_http_status_has_body(unsigned status)
{
    return status >= 200 && status != 204 && status != 304;
}

static bool sends_body(const struct fg_http_request *req)
{
    return req->method != FG_HTTP_HEAD && fg_http_status_has_body(req->status);
}

void fg_http_finish(struct fg_http_request *req)
{
    req->content_bytes = req->out.len;
    if (!sends_body(req))
        fg_buf_done(&req->out);
    fg_http_answer_shrink(req);
    req->conn->protocol->respond(req);
}

void fg_http_count_answer(struct fg_http_request *req)
{
    struct fg_http_loop *owner = req->conn->owner;

    fg_http_stats_answered(owner->stats, req->conn->protocol->version, req->stats_at, req->status,
                           fg_mono_ns(owner->clock) - req->start_mono_ns);
    if (req->refusal == HTTP_ACCEPTED)
        fg_http_stats_inflight(owner->stats, -1);
    else
        fg_http_stats_refused(owner->stats, req->refusal);
}

/* login: where one logs in; NULL: it is not said. */
static void denial_body(struct fg_buf *body, const char *code, const char *message,
                        const char *login)
{
    struct fg_json_writer json = fg_json_writer(body);

    fg_buf_init(body, ERROR_BODY_MAX_BYTES);
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "code", code);
    fg_json_put_cstr(&json, "message", message);
    if (login != NULL)
        fg_json_put_cstr(&json, "login", login);
    fg_json_end(&json);
}

static void error_body(struct fg_buf *body, const char *code, const char *message)
{
    denial_body(body, code, message, NULL);
}

/* Replaces an answer that does not fit the budget by a 503, which is small and therefore always
 * fits. */
static void drop_answer(struct fg_http_request *req)
{
    fg_buf_done(&req->out);
    fg_buf_clear(&req->extra);
    fg_buf_clear(&req->trailers);
    req->status = 503;
    req->coding = HTTP_IDENTITY;
    req->encoded = false;
    error_body(&req->out, "unavailable", "no memory left for responses, try again");
    put_header(&req->extra, "Content-Type", "application/json");
    put_header(&req->extra, "Retry-After", "1");
    fg_assert(fg_http_answer_hold(req)); /* it is small */
}

void fg_http_put_headers(struct fg_http_request *req, const char *content_type)
{
    if (content_type != NULL)
        put_header(&req->extra, "Content-Type", content_type);
    /* Browsers are told to use TLS only (RFC 6797). Not for localhost: the rule would apply to
     * every other program on the user's machine. Browsers ignore it for IP addresses. */
    if (req->conn->secure && req->authority.ptr != NULL &&
        !fg_http_is_loopback_host(req->authority))
        put_header(&req->extra, "Strict-Transport-Security", "max-age=31536000");
}

/* From here on the answer is ours. */
static void respond(struct fg_http_request *req, unsigned status, const char *content_type,
                    struct fg_buf *body)
{
    req->status = status;
    if (body != NULL) {
        fg_buf_done(&req->out);
        req->out = *body;
        fg_buf_init(body, body->max_bytes);
    }
    fg_http_put_headers(req, content_type);
    if ((status == 429 || status == 503) && !req->retry_after)
        put_header(&req->extra, "Retry-After", "1");
    if (sends_body(req) && !fg_http_answer_hold(req))
        drop_answer(req);
    fg_http_count_answer(req);
    fg_http_request_drop_body(req);
    if (req->encoded) {
        fg_http_coding_vary(req);
        fg_http_finish(req);
        return;
    }
    req->coding = fg_http_coding_for(req);
    if (req->coding == HTTP_IDENTITY || !fg_http_coding_start(req)) {
        req->coding = HTTP_IDENTITY;
        fg_http_finish(req);
    }
}

void fg_http_respond(struct fg_http_request *req, unsigned status, const char *content_type,
                     struct fg_buf *body)
{
    fg_assert(req->magic == HTTP_REQUEST_MAGIC && req->state == HTTP_WORKING && !req->streaming);
    fg_assert(status >= 200 && status <= 999); /* 1xx is not an answer */
    respond(req, status, content_type, body);
}

void fg_http_no_retry(struct fg_http_request *req)
{
    req->retry_after = true;
}

void fg_http_respond_error(struct fg_http_request *req, const struct fg_err *err)
{
    struct fg_buf body;

    if (!fg_code_retry(err->code))
        fg_http_no_retry(req);

    error_body(&body, fg_code_name(err->code), err->msg);
    fg_http_respond(req, fg_code_http(err->code), "application/json", &body);
}

/* --- refusals --- */

static const struct {
    unsigned status;
    const char *code, *message;
} refusals[HTTP_REFUSALS] = {
    [HTTP_NOT_FOUND] = {404, NULL, "404 page not found\n"},
    [HTTP_BAD_METHOD] = {405, NULL, NULL},
    [HTTP_MALFORMED] = {400, "invalid_argument", "malformed HTTP request"},
    [HTTP_HEAD_TOO_LARGE] = {431, "invalid_argument", "request head too large"},
    [HTTP_BODY_TOO_LARGE] = {413, "invalid_argument", "request body too large"},
    [HTTP_NO_BUDGET] = {429, "resource_exhausted", "no memory left for requests, try again"},
    [HTTP_TOO_SLOW] = {408, "deadline_exceeded", "request arrived too slowly"},
    [HTTP_BAD_EXPECTATION] = {417, "invalid_argument", "unknown expectation"},
    [HTTP_BAD_TRANSFER_CODING] = {501, "unimplemented", "transfer coding other than chunked"},
    [HTTP_BAD_VERSION] = {505, "unimplemented", "HTTP version other than 1.0 and 1.1"},
    [HTTP_CLEARTEXT] = {400, "invalid_argument", "this port accepts only TLS (https://)"},
    [HTTP_AMBIGUOUS] = {400, "invalid_argument",
                        "the request has two headers X-Scope-OrgID or Authorization"},
    [HTTP_NO_CERTIFICATE] = {403, "permission_denied",
                             "a client certificate is required (setting tls_client_auth)"},
    [HTTP_FORBIDDEN_HOST] = {421, "permission_denied",
                             "this server does not allow that host name; add it to the "
                             "setting allowed_hosts"},
    [HTTP_CROSS_SITE] = {403, "permission_denied",
                         "web pages of other sites must not send requests that change anything; "
                         "the setting allowed_origins lists exceptions"},
    [HTTP_NO_ACTION] = {403, "permission_denied",
                        "this route needs the header X-Flamegrid-Action, with any value, so that "
                        "no web page of another site can call it"},
    [HTTP_DENIED] = {0, NULL, NULL}, /* the guard says them */
    [HTTP_TOO_MANY_CONNECTIONS] = {503, "unavailable",
                                   "too many connections (setting connections_max)"},
    [HTTP_TOO_MANY_OF_ADDRESS] =
        {503, "unavailable",
         "too many connections from this address (setting connections_per_address_max)"},
};

static void put_allow(struct fg_http_request *req)
{
    const char *between = "Allow: ";

    for (unsigned method = FG_HTTP_GET; method <= FG_HTTP_OPTIONS; method <<= 1) {
        if (!(req->allow & method))
            continue;
        fg_buf_puts(&req->extra, between);
        fg_buf_puts(&req->extra, fg_http_method_name((enum fg_http_method)method));
        between = ", ";
    }
    if (req->allow != 0)
        fg_buf_put(&req->extra, FG_LIT("\r\n"));
}

void fg_http_refuse(struct fg_http_request *req)
{
    unsigned status = refusals[req->refusal].status;
    const char *message = refusals[req->refusal].message;
    struct fg_buf body;

    if (req->refusal == HTTP_DENIED) {
        status = fg_code_http(req->denial->code);
        denial_body(&body, fg_code_name(req->denial->code), req->denial->msg,
                    status == 401 ? req->conn->owner->lent.guard->log_in_path : NULL);
        if (status == 401) /* RFC 9110, 11.6.1; browsers are not to ask for a password themselves */
            put_header(&req->extra, "WWW-Authenticate", "Bearer realm=\"flamegrid\"");
        respond(req, status, "application/json", &body);
    } else if (req->refusal == HTTP_BAD_METHOD) {
        put_allow(req);
        respond(req, status, NULL, NULL);
    } else if (req->refusal == HTTP_NOT_FOUND) {
        fg_buf_init(&body, 1024);
        fg_buf_puts(&body, message);
        put_header(&req->extra, "X-Content-Type-Options", "nosniff");
        respond(req, status, "text/plain; charset=utf-8", &body);
    } else {
        error_body(&body, refusals[req->refusal].code, message);
        respond(req, status, "application/json", &body);
    }
}
