#include "distributor/query_proxy.h"

#include "common/access/access.h"
#include "common/base/hash.h"
#include "common/base/json_writer.h"
#include "common/base/str.h"
#include "common/base/time.h"
#include "common/net/client.h"
#include "common/net/ui_pages.h"
#include "common/runtime/log.h"

#include <stdatomic.h>

enum {
    QUERIERS_MAX = 64,             /* bits of forwarded->tried */
    URL_MAX_BYTES = 2000,          /* of one querier */
    QUERY_MAX_BYTES = 1024 * 1024, /* body of a request, as queriers have it */
    HEADERS_MAX = 24,              /* passed on; there are fewer names */
    WAITING_PER_RUNNING = 4,       /* requests beyond running_max that wait for their turn */
    MEMORY_SHARE = 8,              /* an eighth of the process's memory is for responses */
    EVENT_MAX_BYTES = 1024,        /* of progress; queriers send 200 */
};

static const int64_t AVOID_NS = 10 * FG_SECOND_NS; /* a querier that did not answer */
enum { GONE_EVERY_MS = 250 };                      /* looks for clients that have disconnected */

#define CONF(field) FG_CONF_AT(struct dist_query_proxy_settings, field)

/* clang-format off */
const struct fg_conf_field dist_query_proxy_fields[] = {
    {"urls", FG_CONF_STRING, CONF(urls), .def = "", .max = "10000",
     .doc = "URLs of queriers, separated by commas, for example http://querier-1:4040,http://querier-2:4040. Queries that reach the distributor are passed on to them in turn, so that one URL serves agents, Grafana and the command line. Empty: queries get 404."},
    {"timeout", FG_CONF_NS, CONF(timeout_ns), .def = "65s", .min = "100ms", .max = "1h",
     .doc = "Timeout of a query that is passed on, retries included. It should exceed `querier.timeout`."},
    {"connect_timeout", FG_CONF_NS, CONF(connect_timeout_ns), .def = "2s", .min = "10ms", .max = "1m",
     .doc = "Timeout for connecting to a querier. After it the next querier is asked."},
    {"running_max", FG_CONF_UINT, CONF(running_max), .def = "64", .min = "1", .max = "4096",
     .doc = "Queries passed on at a time. Four times as many wait for their turn; further queries are refused with 503."},
    {"answer_max_bytes", FG_CONF_BYTES, CONF(answer_max_bytes), .def = "256MiB", .min = "64KiB", .max = "4GiB",
     .doc = "Maximum size of a response that is passed on. All responses together may use an eighth of `memory_max_bytes`."},
    {"upload_max_bytes", FG_CONF_BYTES, CONF(upload_max_bytes), .def = "32MiB", .min = "1MiB", .max = "1GiB",
     .doc = "Size of a request with an ad hoc profile that is passed on. Larger requests are refused with 413. In Pyroscope's interface a file has four thirds of its size; it should exceed that of `querier.adhoc_upload_max_bytes`."},
    {"ca_file", FG_CONF_STRING, CONF(ca_file), .def = "", .max = "4000",
     .doc = "CA certificates in PEM format that verify queriers with https. Empty: those of the system."},
    {"cert_file", FG_CONF_STRING, CONF(cert_file), .def = "", .max = "4000",
     .doc = "Client certificate in PEM format, with its chain, for queriers that demand one (`tls_client_auth`). Empty: none."},
    {"key_file", FG_CONF_STRING, CONF(key_file), .def = "", .max = "4000",
     .doc = "Private key of `cert_file` in PEM format. Empty: it is in `cert_file`."},
};

#define PROXY_METRICS(M)                                                                                     \
    M(COUNTER, PROXY_ANSWERED, "flamegrid_query_proxy_requests_total{result=\"answered\"}", "Queries passed on to queriers, by result") \
    M(COUNTER, PROXY_UNAVAILABLE, "flamegrid_query_proxy_requests_total{result=\"unavailable\"}", "Queries passed on to queriers, by result") \
    M(COUNTER, PROXY_REFUSED, "flamegrid_query_proxy_requests_total{result=\"refused\"}", "Queries passed on to queriers, by result") \
    M(COUNTER, PROXY_CANCELED, "flamegrid_query_proxy_requests_total{result=\"canceled\"}", "Queries passed on to queriers, by result") \
    M(COUNTER, PROXY_RETRIES, "flamegrid_query_proxy_retries_total", "Queries sent to another querier because one did not answer") \
    M(GAUGE, PROXY_RUNNING, "flamegrid_query_proxy_running", "Queries passed on that are not answered yet") \
    M(GAUGE, PROXY_BYTES, "flamegrid_query_proxy_response_bytes", "Memory of responses of queriers that are being received") \
    M(HISTOGRAM, PROXY_SECONDS, "flamegrid_query_proxy_duration_seconds", "Duration of a query that is passed on, retries included")
/* clang-format on */
const size_t dist_query_proxy_n_fields = FG_COUNT(dist_query_proxy_fields);
FG_METRICS_ENUM(proxy_metric, PROXY_METRICS)
FG_METRICS_TABLE(proxy_metrics, PROXY_METRICS)

struct querier_url {
    struct fg_slice url;         /* in settings->urls, without a slash at its end */
    int64_t avoid_until_mono_ns; /* proxy loop */
};

struct dist_query_proxy {
    struct dist_query_proxy_config config;
    struct querier_url queriers[QUERIERS_MAX];
    unsigned n_queriers;
    struct fg_budget budget;
    struct fg_client_tls tls;
    struct fg_metrics *metrics;
    struct fg_loop *loop; /* NULL: not started */
    struct fg_client *client;

    /* Of the proxy loop. */
    uv_timer_t gone_timer;
    struct forwarded *first; /* what is under way */
    uint64_t n_running;      /* of them */
    unsigned next_querier;
};

/* A request on its way. The handler makes it; then it belongs to the proxy loop, and after its
 * answer to the loop of the request again. */
struct forwarded {
    struct dist_query_proxy *proxy;
    struct fg_http_request *req;
    struct fg_loop *home;
    struct fg_msg msg;
    const char *method;
    bool once; /* it changes something, so it is not sent again once a querier may have it */
    struct fg_slice body_in; /* of the request, until it is answered, as the next two */
    const char *path;        /* with the query */
    const char *headers[HEADERS_MAX + 1];
    int64_t start_mono_ns, deadline_mono_ns;
    struct fg_client_request request;
    struct fg_buf url;
    unsigned first_querier;      /* the others follow in turn */
    uint64_t tried;              /* bits of queriers that were asked */
    struct querier_url *querier; /* the last of them */
    struct forwarded *next, *previous;

    /* Of answers as events: those of progress are passed on as they come, the last one with the
     * outcome. */
    bool events;         /* the client asks for them */
    struct fg_buf last;  /* what came of an event that is not complete, or is the last one */
    uint64_t held_bytes; /* of the budget, for it */
    bool no_room;        /* it did not fit */
    struct fg_msg tell;  /* carries an event to the home loop, */
    atomic_bool telling; /* ... while it is under way; others are left out meanwhile */
    char event[EVENT_MAX_BYTES];
    size_t event_len;
    bool begun; /* home loop: the answer is streamed */

    /* The outcome, without the client and the proxy, which may be gone by then. */
    struct fg_err err; /* FG_OK: a querier answered */
    unsigned status;
    struct fg_buf head, body;
};

/* ---- the answer (loop of the request) ---- */

/* Belongs to the connection to the querier, or is what the server writes itself. */
static bool is_own_header(struct fg_slice name)
{
    static const char *const names[] = {
        "connection", "keep-alive",     "proxy-authenticate", "proxy-connection",
        "te",         "trailer",        "transfer-encoding",  "upgrade",
        "date",       "content-length", "content-type",       "server",
    };

    for (size_t i = 0; i < FG_COUNT(names); i++)
        if (fg_slice_is_nocase(name, names[i]))
            return true;
    return false;
}

/* Adds the headers of the answer to that of req. Returns its Content-Type, or NULL. */
static const char *copy_headers(struct fg_http_request *req, struct fg_slice head)
{
    const char *type = NULL;

    while (head.len > 0) {
        size_t end = FG_MIN(fg_slice_find(head, '\n'), head.len);
        struct fg_slice line = fg_trim(fg_slice_sub(head, 0, end));
        size_t colon = fg_slice_find(line, ':');
        struct fg_slice name = fg_slice_sub(line, 0, colon);
        const char *name_text, *value;

        head = fg_slice_sub(head, end + 1, SIZE_MAX);
        if (colon == SIZE_MAX || fg_slice_starts(line, "HTTP/"))
            continue; /* the status line, and the empty one at the end */
        /* Copied: the buffer of the answer is freed before the head has been sent. */
        value = fg_arena_text(fg_http_arena(req), fg_trim(fg_slice_sub(line, colon + 1, SIZE_MAX)));
        name_text = fg_arena_text(fg_http_arena(req), name);
        if (fg_slice_is_nocase(name, "content-type"))
            type = value;
        if (!is_own_header(name) && name_text != NULL && value != NULL)
            fg_http_add_header(req, name_text, value);
    }
    return type;
}

#define EVENT_STREAM "text/event-stream"

/* Passes an event of progress on. Events that the client has no room for are left out. */
static void stream_event(struct fg_msg *msg)
{
    struct forwarded *forwarded = fg_container(msg, struct forwarded, tell);

    if (!forwarded->begun) {
        fg_http_add_header(forwarded->req, "Cache-Control", "no-store");
        forwarded->begun = fg_http_stream_begin(forwarded->req, EVENT_STREAM);
    }
    if (forwarded->begun)
        (void)fg_http_stream_put(forwarded->req, fg_bytes(forwarded->event, forwarded->event_len));
    atomic_store_explicit(&forwarded->telling, false, memory_order_release);
}

/* Ends an answer that has begun, with the last event. */
static void end_stream(struct forwarded *forwarded)
{
    struct fg_err err = forwarded->err;
    struct fg_slice last = fg_buf_slice(&forwarded->body);

    /* Another querier was asked after the first progress, and has none to tell. */
    if (err.code == FG_OK && (forwarded->status != 200 || !fg_slice_starts(last, "event: ")))
        (void)fg_fail(&err, forwarded->status == 429 ? FG_E_LIMIT : FG_E_UNAVAILABLE,
                      "a querier went away, and the next one answered with status %u, try again",
                      forwarded->status);
    if (err.code == FG_OK && fg_http_stream_end(forwarded->req, &forwarded->body))
        return;
    if (err.code == FG_OK)
        (void)fg_fail(&err, FG_E_UNAVAILABLE, "no memory left for responses, try again");
    fg_http_stream_fail(forwarded->req, &err);
}

static void respond(struct fg_msg *msg)
{
    struct forwarded *forwarded = fg_container(msg, struct forwarded, msg);
    const char *type;

    if (forwarded->begun) {
        end_stream(forwarded);
    } else if (forwarded->err.code == FG_OK) {
        type = copy_headers(forwarded->req, fg_buf_slice(&forwarded->head));
        if (!forwarded->events) /* the querier has compressed it as the client asked */
            fg_http_no_coding(forwarded->req);
        fg_http_no_retry(forwarded->req); /* that is among the headers, if it can help */
        fg_http_respond(forwarded->req, forwarded->status, type, &forwarded->body);
    } else {
        fg_http_respond_error(forwarded->req, &forwarded->err);
    }
    fg_buf_done(&forwarded->head);
    fg_buf_done(&forwarded->body);
    fg_buf_done(&forwarded->url);
    free(forwarded);
}

/* ---- queriers (proxy loop) ---- */

/* Forgets what came of events. */
static void drop_events(struct forwarded *forwarded)
{
    fg_buf_done(&forwarded->last);
    fg_budget_give(&forwarded->proxy->budget, forwarded->held_bytes);
    forwarded->held_bytes = 0;
    forwarded->no_room = false;
}

/* Keeps a part of an event. Returns false if there is no memory for it. */
static bool keep_bytes(struct forwarded *forwarded, struct fg_slice bytes)
{
    struct fg_buf *last = &forwarded->last;

    if (bytes.len > last->max_bytes - last->len ||
        !fg_budget_take(&forwarded->proxy->budget, bytes.len))
        return false;
    forwarded->held_bytes += bytes.len;
    fg_buf_put(last, bytes);
    return true;
}

/* Sends the first event of `last` on its way, if it is complete and one of progress. Returns false
 * if it is none: then it stays. */
static bool pass_event(struct forwarded *forwarded)
{
    struct fg_slice all = fg_buf_slice(&forwarded->last);
    bool busy = atomic_load_explicit(&forwarded->telling, memory_order_acquire);
    size_t end, len;

    /* The last event may have hundreds of megabytes and comes in thousands of pieces: it is not
     * looked through for its end each time. */
    if (!fg_slice_starts(all, "event: progress\n"))
        return false;
    end = fg_slice_search(all, "\n\n");
    if (end == SIZE_MAX)
        return false;
    len = end + 2;
    if (len <= sizeof forwarded->event && !busy) {
        memcpy(forwarded->event, all.ptr, len);
        forwarded->event_len = len;
        atomic_store_explicit(&forwarded->telling, true, memory_order_relaxed);
        forwarded->tell.run = stream_event;
        /* Before the outcome, which goes the same way. */
        fg_loop_post(forwarded->home, &forwarded->tell);
    }
    memmove(forwarded->last.ptr, forwarded->last.ptr + len, all.len - len);
    forwarded->last.len -= len;
    fg_budget_give(&forwarded->proxy->budget, len);
    forwarded->held_bytes -= len;
    return true;
}

static bool on_chunk(struct fg_client_request *request, struct fg_slice chunk)
{
    struct forwarded *forwarded = fg_container(request, struct forwarded, request);

    forwarded->no_room = !keep_bytes(forwarded, chunk);
    if (!fg_slice_starts(fg_client_header(request, "Content-Type"), EVENT_STREAM))
        return !forwarded->no_room; /* a route without events: the body as it is */
    while (!forwarded->no_room && pass_event(forwarded))
        continue;
    return !forwarded->no_room;
}

/* Trouble of the queriers is no fault of the client's: it may try again, unless the response is too
 * large. The reason, which has a URL in it, is in the log. */
static void take_outcome(struct forwarded *forwarded)
{
    struct fg_client_request *request = &forwarded->request;

    fg_buf_init(&forwarded->head, 0);
    fg_buf_init(&forwarded->body, 0);
    if (request->code == FG_OK) {
        forwarded->err = (struct fg_err){.code = FG_OK};
        forwarded->status = request->status;
        forwarded->head = request->head;
        forwarded->body = request->answer;
        fg_buf_init(&request->head, 0);
        fg_buf_init(&request->answer, 0);
        if (forwarded->last.len > 0) { /* there were pieces, so there is no other body */
            fg_buf_done(&forwarded->body);
            forwarded->body = forwarded->last;
            fg_buf_init(&forwarded->last, 0);
        }
    } else if (forwarded->no_room) {
        (void)fg_fail(&forwarded->err, FG_E_UNAVAILABLE,
                      "no memory left for the response of the querier, try again");
    } else if (request->code == FG_E_CANCELED) {
        forwarded->err = request->err; /* nobody reads it */
    } else if (request->code == FG_E_TOO_LARGE) {
        (void)fg_fail(&forwarded->err, FG_E_INTERNAL,
                      "the response of the querier exceeds query_proxy.answer_max_bytes");
    } else if (request->code == FG_E_LIMIT) {
        (void)fg_fail(&forwarded->err, FG_E_UNAVAILABLE,
                      "too many queries are passed on at the moment, try again");
    } else {
        (void)fg_fail(&forwarded->err, FG_E_UNAVAILABLE, "no querier answered, try again");
    }
    fg_client_clear(request); /* gives its budget back */
    drop_events(forwarded);
}

static void finish(struct forwarded *forwarded)
{
    struct dist_query_proxy *proxy = forwarded->proxy;

    take_outcome(forwarded);
    fg_assert(proxy->n_running > 0);
    if (forwarded->previous == NULL)
        proxy->first = forwarded->next;
    else
        forwarded->previous->next = forwarded->next;
    if (forwarded->next != NULL)
        forwarded->next->previous = forwarded->previous;
    fg_metric_set(proxy->metrics, PROXY_RUNNING, (int64_t)--proxy->n_running);
    fg_metric_add(proxy->metrics,
                  forwarded->err.code == FG_OK           ? PROXY_ANSWERED
                  : forwarded->err.code == FG_E_CANCELED ? PROXY_CANCELED
                                                         : PROXY_UNAVAILABLE,
                  1);
    fg_metric_observe_ns(proxy->metrics, PROXY_SECONDS,
                         fg_mono_ns(fg_clock_real()) - forwarded->start_mono_ns);
    forwarded->msg.run = respond;
    fg_loop_post(forwarded->home, &forwarded->msg); /* from here it is the home loop's */
}

/* Returns the querier to ask next, or NULL if all were asked: in turn, those that did not answer
 * lately last. */
static struct querier_url *choose(const struct forwarded *forwarded)
{
    struct dist_query_proxy *proxy = forwarded->proxy;
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct querier_url *avoided = NULL;

    for (unsigned i = 0; i < proxy->n_queriers; i++) {
        unsigned number = (forwarded->first_querier + i) % proxy->n_queriers;
        struct querier_url *querier = &proxy->queriers[number];

        if ((forwarded->tried >> number & 1) != 0)
            continue;
        if (querier->avoid_until_mono_ns <= now_ns)
            return querier;
        if (avoided == NULL)
            avoided = querier;
    }
    return avoided;
}

static void on_answer(struct fg_client_request *request);

static void send_to_querier(struct forwarded *forwarded, struct querier_url *querier)
{
    struct dist_query_proxy *proxy = forwarded->proxy;
    const struct dist_query_proxy_settings *settings = proxy->config.settings;
    int64_t left_ns = forwarded->deadline_mono_ns - fg_mono_ns(fg_clock_real());

    forwarded->querier = querier;
    forwarded->tried |= UINT64_C(1) << (querier - proxy->queriers);
    fg_client_clear(&forwarded->request);
    drop_events(forwarded);
    fg_buf_init(&forwarded->last, (size_t)settings->answer_max_bytes);
    fg_buf_clear(&forwarded->url);
    fg_buf_put(&forwarded->url, querier->url);
    fg_buf_puts(&forwarded->url, forwarded->path);
    fg_buf_putc(&forwarded->url, '\0');
    forwarded->request = (struct fg_client_request){
        .method = forwarded->method,
        .url = (const char *)forwarded->url.ptr,
        .headers = forwarded->headers,
        .tls = &proxy->tls,
        .connect_timeout_ns = FG_MIN(settings->connect_timeout_ns, FG_MAX(left_ns, FG_MS_NS)),
        .timeout_ns = FG_MAX(left_ns, FG_MS_NS),
        .body_max_bytes = (size_t)settings->answer_max_bytes,
        .on_chunk = forwarded->events ? on_chunk : NULL,
        .done = on_answer,
    };
    if (strcmp(forwarded->method, "POST") == 0 || strcmp(forwarded->method, "PUT") == 0)
        forwarded->request.body = forwarded->body_in.ptr != NULL ? forwarded->body_in : FG_LIT("");
    fg_client_send(proxy->client, &forwarded->request);
}

/* Asks another querier if this one is away: it cannot be reached, or is starting or stopping. */
static void on_answer(struct fg_client_request *request)
{
    struct forwarded *forwarded = fg_container(request, struct forwarded, request);
    struct dist_query_proxy *proxy = forwarded->proxy;
    int64_t now_ns = fg_mono_ns(fg_clock_real());
    struct querier_url *other;
    /* Not in time, and nothing was sent: connect_timeout has passed, of a machine that is gone. */
    bool gone = request->code == FG_E_DEADLINE && !request->sent;

    if (request->code == FG_E_UNAVAILABLE || gone ||
        (request->code == FG_OK && request->status == 503)) {
        bool may_be_done = forwarded->once && (request->sent || request->code == FG_OK);

        /* One line each time that it goes away, not one for each query. */
        if (forwarded->querier->avoid_until_mono_ns <= now_ns)
            fg_log_warn("querier is unavailable, asking it last for 10 s",
                        fg_lb("url", forwarded->querier->url),
                        fg_ls("err", request->code == FG_OK ? "status 503" : request->err.msg));
        forwarded->querier->avoid_until_mono_ns = now_ns + AVOID_NS;
        other = may_be_done ? NULL : choose(forwarded);
        if (other != NULL && now_ns < forwarded->deadline_mono_ns) {
            fg_metric_add(proxy->metrics, PROXY_RETRIES, 1);
            send_to_querier(forwarded, other);
            return;
        }
    }
    finish(forwarded);
}

static void begin_forward(struct fg_msg *msg)
{
    struct forwarded *forwarded = fg_container(msg, struct forwarded, msg);
    struct dist_query_proxy *proxy = forwarded->proxy;
    struct querier_url *querier;

    forwarded->next = proxy->first;
    if (forwarded->next != NULL)
        forwarded->next->previous = forwarded;
    proxy->first = forwarded;
    fg_metric_set(proxy->metrics, PROXY_RUNNING, (int64_t)++proxy->n_running);
    forwarded->first_querier = proxy->next_querier++ % proxy->n_queriers;
    querier = choose(forwarded);
    fg_assert(querier != NULL); /* without queriers there is no route */
    send_to_querier(forwarded, querier);
}

/* ---- the request (its loop) ---- */

/* Returns false if a line does not fit into the request's arena. */
static bool take_headers(struct forwarded *forwarded)
{
    /* What queriers read, and what decides the form of their answer. */
    static const char *const names[] = {
        "X-Scope-OrgID",
        "Content-Type",
        "Content-Encoding",
        "Accept",
        "Accept-Encoding",
        "Authorization",
        "Cookie", /* has the session of a person, which the querier decides about */
        "X-Flamegrid-Csrf",
        "If-None-Match",
        "Connect-Protocol-Version",
        "Connect-Timeout-Ms",
        "Connect-Accept-Encoding",
        "Connect-Content-Encoding",
        "grpc-timeout",
        "X-Grpc-Web",
        "X-User-Agent",
        "X-Flamegrid-Action",
        "X-Flamegrid-Partial",
        "X-Flamegrid-Refine",
        "X-Flamegrid-Statistics",
        "X-Prometheus-Scrape-Timeout-Seconds",
    };
    struct fg_buf line;
    unsigned n = 0;
    bool fits = true;

    fg_buf_init(&line, SIZE_MAX);
    for (size_t i = 0; i < FG_COUNT(names) && fits; i++) {
        struct fg_slice value = fg_http_header(forwarded->req, names[i]);
        bool cookie = strcmp(names[i], "Cookie") == 0;

        /* Events are read here, so they come as they are and get their coding from our server. */
        if (value.ptr == NULL || (forwarded->events && strcmp(names[i], "Accept-Encoding") == 0))
            continue;
        fg_buf_clear(&line);
        /* libcurl takes "Name:" as a header that is not to be sent; "Name;" is an empty one. */
        fg_buf_printf(&line, value.len == 0 ? "%s;" : "%s: ", names[i]);
        if (cookie)
            fg_http_put_cookies(forwarded->req, &line);
        else
            fg_buf_put(&line, value);
        forwarded->headers[n] = fg_arena_text(fg_http_arena(forwarded->req), fg_buf_slice(&line));
        fits = forwarded->headers[n++] != NULL;
    }
    fg_buf_done(&line);
    return fits;
}

#define PATH_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"

/* The path was decoded, and queriers decode theirs: other characters get their escapes back, so
 * that nothing of a path becomes another part of the URL. */
static bool take_path(struct forwarded *forwarded)
{
    struct fg_slice path = fg_http_path(forwarded->req), query = fg_http_query(forwarded->req);
    struct fg_buf text;

    fg_buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < path.len; i++) {
        if (path.ptr[i] != '\0' && strchr(PATH_CHARACTERS, path.ptr[i]) != NULL)
            fg_buf_putc(&text, path.ptr[i]);
        else
            fg_buf_printf(&text, "%%%02X", path.ptr[i]);
    }
    if (query.len > 0)
        fg_buf_putc(&text, '?');
    fg_buf_put(&text, query);
    forwarded->path = fg_arena_text(fg_http_arena(forwarded->req), fg_buf_slice(&text));
    fg_buf_done(&text);
    return forwarded->path != NULL;
}

static void refuse(struct forwarded *forwarded, unsigned status, enum fg_code code,
                   const char *message)
{
    struct fg_http_request *req = forwarded->req;
    struct fg_err err;
    struct fg_json_writer json;
    struct fg_buf body;

    fg_metric_add(forwarded->proxy->metrics, PROXY_REFUSED, 1);
    free(forwarded);
    if (status == fg_code_http(code)) {
        (void)fg_fail(&err, code, "%s", message);
        fg_http_respond_error(req, &err);
        return;
    }
    fg_buf_init(&body, SIZE_MAX);
    json = fg_json_writer(&body);
    fg_json_begin_object(&json, NULL);
    fg_json_put_cstr(&json, "code", "unimplemented");
    fg_json_put_cstr(&json, "message", message);
    fg_json_end(&json);
    fg_buf_putc(&body, '\n');
    fg_http_respond(req, status, "application/json", &body);
}

static void forward(struct fg_http_request *req, struct dist_query_proxy *proxy, bool changes)
{
    const struct fg_tenants *tenants = proxy->config.tenants;
    struct forwarded *forwarded = fg_new(struct forwarded);
    enum fg_http_method method = fg_http_method(req);
    struct fg_slice type = fg_http_header(req, "Content-Type");
    struct fg_tenant_ids ids;
    struct fg_err err;

    forwarded->proxy = proxy;
    forwarded->req = req;
    forwarded->home = fg_http_loop(req);
    /* Of HEAD the server sends the head of GET's answer. */
    forwarded->method = fg_http_method_name(method == FG_HTTP_HEAD ? FG_HTTP_GET : method);
    forwarded->events =
        fg_http_can_stream(req) && (fg_http_accept_weight(req, EVENT_STREAM) > 0 ||
                                    fg_slice_is(fg_http_param(req, "progress"), "true"));
    /* Our server compresses answers as events: each tenant's wait for those of the same one. A
     * request without a tenant is answered by the querier. */
    if (forwarded->events && tenants != NULL && fg_tenants_are_several(tenants) &&
        fg_access_tenants(req, true, &ids, &err) == FG_OK && ids.n > 0)
        fg_http_set_flow(req, fg_hash64_table(ids.ids[0]));
    forwarded->once = changes && strcmp(forwarded->method, "GET") != 0;
    forwarded->body_in = fg_http_body(req);
    forwarded->start_mono_ns = fg_mono_ns(fg_clock_real());
    forwarded->deadline_mono_ns = forwarded->start_mono_ns + proxy->config.settings->timeout_ns;
    if (fg_slice_starts(type, "application/grpc") &&
        !fg_slice_starts(type, "application/grpc-web")) {
        refuse(forwarded, 415, FG_E_UNIMPLEMENTED,
               "gRPC is not passed on to queriers: use Connect or gRPC-web, or call a querier");
        return;
    }
    if (!take_path(forwarded) || !take_headers(forwarded)) {
        refuse(forwarded, fg_code_http(FG_E_UNAVAILABLE), FG_E_UNAVAILABLE,
               "no memory left for requests, try again");
        return;
    }
    fg_buf_init(&forwarded->url, SIZE_MAX);
    forwarded->msg.run = begin_forward;
    fg_loop_post(proxy->loop, &forwarded->msg);
}

static void on_read(struct fg_http_request *req, void *arg)
{
    forward(req, arg, false);
}

static void on_change(struct fg_http_request *req, void *arg)
{
    forward(req, arg, true);
}

bool dist_query_proxy_is_on(const struct dist_query_proxy *proxy)
{
    return proxy->n_queriers > 0;
}

void dist_query_proxy_routes(struct dist_query_proxy *proxy, struct fg_http_server *server)
{
    enum { READ = FG_HTTP_GET, CALL = FG_HTTP_GET | FG_HTTP_POST };
    static const struct {
        const char *path, *name;
        bool prefix;
        unsigned methods;
        enum fg_http_kind kind;
        bool uploads; /* ad hoc profiles, which are larger than queries */
    } routes[] = {
        {"/querier.v1.QuerierService/", "query_proxy", true, CALL, FG_HTTP_READS, false},
        {"/settings.v1.SettingsService/", "query_proxy", true, CALL, FG_HTTP_CHANGES, false},
        {"/settings.v1.RecordingRulesService/", "query_proxy", true, CALL, FG_HTTP_CHANGES, false},
        {"/capabilities.v1.FeatureFlagsService/", "query_proxy", true, CALL, FG_HTTP_READS, false},
        {"/version.v1.Version/", "query_proxy", true, CALL, FG_HTTP_READS, false},
        {"/vcs.v1.VCSService/", "query_proxy", true, CALL, FG_HTTP_READS, false},
        /* The querier knows which of these change something. For it the request comes from no
         * browser, so whether a page of another site may send it is decided here. */
        {"/api/", "query_proxy", true, CALL | FG_HTTP_PUT | FG_HTTP_DELETE, FG_HTTP_CHANGES, false},
        {"/api/compare", "query_proxy", false, CALL, FG_HTTP_READS, false},
        {"/api/adhoc", "query_proxy", false, CALL, FG_HTTP_CHANGES, true},
        {"/adhocprofiles.v1.AdHocProfileService/", "query_proxy", true, CALL, FG_HTTP_CHANGES,
         true},
        {"/debuginfo.v1alpha1.DebuginfoService/", "query_proxy", true, CALL, FG_HTTP_READS, false},
        {"/pyroscope/render", "query_proxy", false, READ, FG_HTTP_READS, false},
        {"/pyroscope/render-diff", "query_proxy", false, READ, FG_HTTP_READS, false},
        {"/pyroscope/label-values", "query_proxy", false, READ, FG_HTTP_READS, false},
        {FG_UI_ASSETS, "query_proxy_ui", true, READ, FG_HTTP_READS, false},
        {FG_UI_EMBED, "query_proxy_ui", false, READ, FG_HTTP_READS, false},
#define PAGE(path) {path, "query_proxy_ui", false, READ, FG_HTTP_READS, false},
        FG_UI_PAGES(PAGE)
#undef PAGE
    };

    const uint64_t upload_max = proxy->config.settings->upload_max_bytes;

    for (size_t i = 0; i < FG_COUNT(routes) && proxy->n_queriers > 0; i++)
        fg_http_server_route(server,
                             &(struct fg_http_route){
                                 .methods = routes[i].methods,
                                 .path = routes[i].path,
                                 .prefix = routes[i].prefix,
                                 .body_max_bytes = routes[i].uploads ? upload_max : QUERY_MAX_BYTES,
                                 .bodies = routes[i].uploads ? proxy->config.uploads : NULL,
                                 .handler = routes[i].kind == FG_HTTP_CHANGES ? on_change : on_read,
                                 .arg = proxy,
                                 .name = routes[i].name,
                                 .kind = routes[i].kind,
                                 .scopes = strcmp(routes[i].name, "query_proxy") == 0
                                               ? FG_SCOPE_KNOWN
                                               : (unsigned)FG_SCOPE_OPEN,
                             });
}

/* ---- life ---- */

static enum fg_code read_urls(struct dist_query_proxy *proxy, struct fg_err *err)
{
    struct fg_slice rest = fg_cstr(proxy->config.settings->urls);

    while (rest.len > 0) {
        size_t end = FG_MIN(fg_slice_find(rest, ','), rest.len);
        struct fg_slice url = fg_trim(fg_slice_sub(rest, 0, end));

        rest = fg_slice_sub(rest, end + 1, SIZE_MAX);
        /* Paths begin with a slash, and queriers know none that begin with two. */
        while (fg_slice_ends(url, "/"))
            url = fg_slice_sub(url, 0, url.len - 1);
        if (url.len > URL_MAX_BYTES || fg_slice_find(url, '?') != SIZE_MAX ||
            fg_slice_find(url, ' ') != SIZE_MAX ||
            (!fg_slice_starts(url, "http://") && !fg_slice_starts(url, "https://")))
            return fg_fail(err, FG_E_INVALID,
                           "setting query_proxy.urls: \"%.*s\" is not a URL like "
                           "http://querier-1:4040",
                           FG_S(fg_slice_sub(url, 0, 200)));
        if (proxy->n_queriers == QUERIERS_MAX)
            return fg_fail(err, FG_E_INVALID, "setting query_proxy.urls: more than %d URLs",
                           QUERIERS_MAX);
        proxy->queriers[proxy->n_queriers++].url = url;
    }
    return FG_OK;
}

static void on_scrape(void *arg)
{
    struct dist_query_proxy *proxy = arg;

    fg_metric_set(proxy->metrics, PROXY_BYTES, (int64_t)fg_budget_used(&proxy->budget));
}

static const char *file_of(const char *setting)
{
    return setting[0] == '\0' ? NULL : setting;
}

enum fg_code dist_query_proxy_create(const struct dist_query_proxy_config *config,
                                     struct dist_query_proxy **ret_proxy, struct fg_err *err)
{
    struct dist_query_proxy *proxy = fg_new(struct dist_query_proxy);
    const struct dist_query_proxy_settings *settings = config->settings;

    proxy->config = *config;
    proxy->tls = (struct fg_client_tls){.ca_file = file_of(settings->ca_file),
                                        .cert_file = file_of(settings->cert_file),
                                        .key_file = file_of(settings->key_file)};
    fg_budget_init(&proxy->budget, config->memory_max_bytes / MEMORY_SHARE);
    if (read_urls(proxy, err) != FG_OK) {
        dist_query_proxy_destroy(proxy);
        return err->code;
    }
    proxy->metrics = fg_metrics_register(config->registry, proxy_metrics, FG_COUNT(proxy_metrics));
    fg_registry_on_scrape(config->registry, on_scrape, proxy);
    *ret_proxy = proxy;
    return FG_OK;
}

/* Ends what nobody waits for, so that the querier notices, too, and ends its work. */
static void on_gone_timer(uv_timer_t *timer)
{
    struct dist_query_proxy *proxy = timer->data;
    struct forwarded *next;

    for (struct forwarded *forwarded = proxy->first; forwarded != NULL; forwarded = next) {
        next = forwarded->next; /* finish() takes it out of the list */
        if (!fg_http_gone(forwarded->req))
            continue;
        fg_client_cancel(&forwarded->request);
        forwarded->request.code =
            fg_fail(&forwarded->request.err, FG_E_CANCELED, "client has disconnected");
        finish(forwarded);
    }
}

static void start_timer(void *arg)
{
    struct dist_query_proxy *proxy = arg;

    fg_assert(uv_timer_init(fg_loop_uv(proxy->loop), &proxy->gone_timer) == 0);
    proxy->gone_timer.data = proxy;
    fg_assert(uv_timer_start(&proxy->gone_timer, on_gone_timer, GONE_EVERY_MS, GONE_EVERY_MS) == 0);
}

enum fg_code dist_query_proxy_start(struct dist_query_proxy *proxy, struct fg_err *err)
{
    unsigned running_max = (unsigned)proxy->config.settings->running_max;

    if (proxy->n_queriers == 0)
        return FG_OK;
    proxy->loop = fg_loop_create("query-proxy");
    proxy->client = fg_client_create(&(struct fg_client_config){
        .loop = proxy->loop,
        .running_max = running_max,
        .waiting_max = WAITING_PER_RUNNING * running_max,
        .budget = &proxy->budget,
    });
    if (fg_loop_start(proxy->loop, err) != FG_OK) {
        fg_client_destroy(fg_take(proxy->client));
        fg_loop_destroy(fg_take(proxy->loop));
        return err->code;
    }
    fg_loop_call(proxy->loop, start_timer, proxy);
    return FG_OK;
}

static void end_all(void *arg)
{
    struct dist_query_proxy *proxy = arg;

    while (proxy->first != NULL) {
        struct forwarded *forwarded = proxy->first;

        /* Cancelled requests call nobody back, so finish() is called here; the home loops still run
         * and answer their clients. */
        fg_client_cancel(&forwarded->request);
        forwarded->request.code =
            fg_fail(&forwarded->request.err, FG_E_UNAVAILABLE, "server is stopping");
        finish(forwarded);
    }
    uv_close((uv_handle_t *)&proxy->gone_timer, NULL);
    fg_client_close(proxy->client);
}

void dist_query_proxy_stop(struct dist_query_proxy *proxy)
{
    if (proxy == NULL || proxy->loop == NULL)
        return;
    /* On the loop, which alone touches its requests; it returns when none is left. */
    fg_loop_call(proxy->loop, end_all, proxy);
    fg_loop_stop(proxy->loop);
    fg_client_destroy(fg_take(proxy->client));
    fg_loop_destroy(fg_take(proxy->loop));
}

void dist_query_proxy_destroy(struct dist_query_proxy *proxy)
{
    free(proxy);
}
