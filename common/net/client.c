/*
 *              +--------- more than running_max ---------+
 *              |                                         v
 *   send ---> (can it run?) ---- yes ----> RUNNING <--- WAITING
 *              |                             |           |
 *              no: refused, a file is missing|           |
 *              v                             v           | cancel
 *            FAILED ---- next turn of the -> done()      v
 *                        loop                          (caller's)
 *
 * libcurl says which sockets it waits for (on_want) and when it wants to be called next (on_delay);
 * it is called from handles of the loop and never from its own callbacks. What has come to its end
 * is collected after each such call, so done() runs where libcurl may be called again.
 */
#include "common/net/client.h"

#include "common/base/str.h"
#include "common/base/time.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum {
    HEAD_MAX_BYTES = 64 * 1024,  /* of an answer; servers and proxies send less than 16 KiB */
    TOKEN_MAX_BYTES = 16 * 1024, /* a service account's has one or two thousand */
    URL_SHOWN_MAX_BYTES = 200,   /* in errors, so that the reason still fits */
    CA_CACHE_S = 600,            /* how long a file of CAs is not read again */
    KEEPALIVE_S = 30, /* of TCP: a watch is silent for a minute and its peer may be gone */
    CONNECTION_MAX_S = 600,
};

enum request_state { REQUEST_IDLE, REQUEST_WAITING, REQUEST_RUNNING, REQUEST_FAILED };

/* A transfer of libcurl's, kept from request to request with its TLS sessions. */
struct fg_client_slot {
    CURL *easy;
    struct fg_client_request *request;
    struct curl_slist *headers;
    char error[CURL_ERROR_SIZE];
    struct fg_client_slot *next_free;
};

struct client_list {
    struct fg_client_request *first, *last;
    unsigned count;
};

struct fg_client {
    struct fg_client_config config;
    CURLM *multi;
    uv_timer_t delay; /* libcurl's */
    uv_timer_t soon;  /* runs while something has failed */
    struct client_list waiting, running, failed;
    struct fg_client_slot *free_slots;
};

struct socket {
    uv_poll_t poll;
    struct fg_client *client;
    curl_socket_t fd;
};

/* ---- lists ---- */

static void list_add(struct client_list *list, struct fg_client_request *request)
{
    request->before = list->last;
    request->after = NULL;
    if (list->last != NULL)
        list->last->after = request;
    else
        list->first = request;
    list->last = request;
    list->count++;
}

static void list_remove(struct client_list *list, struct fg_client_request *request)
{
    if (request->before != NULL)
        request->before->after = request->after;
    else
        list->first = request->after;
    if (request->after != NULL)
        request->after->before = request->before;
    else
        list->last = request->before;
    request->before = request->after = NULL;
    list->count--;
}

static struct client_list *list_of(struct fg_client *client, unsigned state)
{
    switch (state) {
    case REQUEST_WAITING:
        return &client->waiting;
    case REQUEST_RUNNING:
        return &client->running;
    default:
        fg_assert(state == REQUEST_FAILED);
        return &client->failed;
    }
}

static void set_state(struct fg_client_request *request, enum request_state state)
{
    if (request->state != REQUEST_IDLE)
        list_remove(list_of(request->client, request->state), request);
    request->state = state;
    if (state != REQUEST_IDLE)
        list_add(list_of(request->client, state), request);
}

/* ---- errors ---- */

void fg_client_show_url(const char *url, struct fg_buf *out)
{
    struct fg_slice whole = fg_cstr(url), rest = whole;
    size_t scheme = fg_slice_search(whole, "://"), authority = 0;

    if (scheme != SIZE_MAX) {
        fg_buf_put(out, fg_slice_sub(whole, 0, scheme + 3));
        rest = fg_slice_sub(whole, scheme + 3, whole.len);
    }
    /* Everything up to the last @ of the authority, which ends at the first of these. */
    while (authority < rest.len && strchr("/?#", rest.ptr[authority]) == NULL)
        authority++;
    for (size_t i = authority; i > 0; i--)
        if (rest.ptr[i - 1] == '@') {
            rest = fg_slice_sub(rest, i, rest.len);
            break;
        }
    fg_buf_put(out, fg_slice_sub(rest, 0, out->max_bytes - FG_MIN(out->len, out->max_bytes)));
}

static enum fg_code fail(struct fg_client_request *request, enum fg_code code, const char *what)
{
    struct fg_buf url;

    fg_buf_init(&url, URL_SHOWN_MAX_BYTES);
    fg_client_show_url(request->url, &url);
    request->code = fg_fail(&request->err, code, "%.*s: %s", FG_S(fg_buf_slice(&url)), what);
    fg_buf_done(&url);
    return request->code;
}

static enum fg_code code_of(CURLcode result)
{
    switch (result) {
    case CURLE_OK:
        return FG_OK;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return FG_E_INVALID;
    case CURLE_OPERATION_TIMEDOUT:
        return FG_E_DEADLINE;
    case CURLE_FILESIZE_EXCEEDED:
        return FG_E_TOO_LARGE;
    default:
        return FG_E_UNAVAILABLE;
    }
}

/* ---- callbacks of a transfer ---- */

/* Too long a head: libcurl ends the transfer when less is taken than was given. */
static size_t on_head(char *bytes, size_t size, size_t count, void *arg)
{
    struct fg_client_request *request = ((struct fg_client_slot *)arg)->request;
    struct fg_slice line = fg_bytes(bytes, size * count);

    if (fg_slice_starts(line, "HTTP/")) /* "100 Continue" may have come before */
        fg_buf_clear(&request->head);
    fg_buf_put(&request->head, line);
    if (request->head.full)
        (void)fail(request, FG_E_TOO_LARGE, "the response headers are too large");
    return request->head.full ? 0 : line.len;
}

static bool is_success(CURL *easy)
{
    long status = 0;

    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    return status / 100 == 2;
}

static bool collect(struct fg_client_request *request, struct fg_slice chunk)
{
    struct fg_budget *budget = request->client->config.budget;
    char what[64];

    if (budget != NULL && !fg_budget_take(budget, chunk.len)) {
        (void)fail(request, FG_E_LIMIT, "no memory is available for the response at the moment");
        return false;
    }
    request->budgeted_bytes += budget == NULL ? 0 : chunk.len;
    fg_buf_put(&request->answer, chunk);
    if (!request->answer.full)
        return true;
    (void)snprintf(what, sizeof what, "the response exceeds %zu bytes", request->body_max_bytes);
    (void)fail(request, FG_E_TOO_LARGE, what);
    return false;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct fg_client_slot *slot = arg;
    struct fg_client_request *request = slot->request;
    struct fg_slice chunk = fg_bytes(bytes, size * count);
    bool go_on;

    if (request->on_chunk != NULL && is_success(slot->easy)) {
        go_on = request->on_chunk(request, chunk);
        if (!go_on)
            (void)fail(request, FG_E_CANCELED, "ended by the receiver");
    } else {
        go_on = collect(request, chunk);
    }
    return go_on ? chunk.len : CURL_WRITEFUNC_ERROR;
}

/* ---- a transfer's options ---- */

static void add_header(struct fg_client_slot *slot, const char *line)
{
    struct curl_slist *longer = curl_slist_append(slot->headers, line);

    fg_assert(longer != NULL); /* memory is gone */
    slot->headers = longer;
}

static enum fg_code read_token(struct fg_client_request *request, char *token, size_t size)
{
    struct fg_slice text;
    ssize_t got = -1;
    int fd = open(request->token_file, O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        got = read(fd, token, size - 1);
        (void)close(fd);
    }
    if (got < 0) {
        struct fg_err why;

        (void)fg_fail_errno(&why, errno, "token file %.200s", request->token_file);
        return fail(request, FG_E_INVALID, why.msg);
    }
    text = fg_trim(fg_bytes(token, (size_t)got));
    memmove(token, text.ptr, text.len);
    token[text.len] = '\0';
    if (text.len == 0 || (size_t)got == size - 1 || strlen(token) != text.len ||
        strpbrk(token, "\r\n") != NULL)
        return fail(request, FG_E_INVALID, "the token file contains no token");
    return FG_OK;
}

static enum fg_code add_token(struct fg_client_slot *slot)
{
    static const char prefix[] = "Authorization: Bearer ";
    char line[sizeof prefix + TOKEN_MAX_BYTES];

    if (slot->request->token_file == NULL)
        return FG_OK;
    memcpy(line, prefix, sizeof prefix);
    if (read_token(slot->request, line + sizeof prefix - 1, TOKEN_MAX_BYTES) != FG_OK)
        return slot->request->code;
    add_header(slot, line);
    return FG_OK;
}

static long ms_of(int64_t ns)
{
    return ns <= 0 ? 0 : (long)FG_MAX(ns / FG_MS_NS, 1);
}

/* Sets the options that all requests have in common. */
static void set_always(struct fg_client_slot *slot)
{
    unsigned max_s = slot->request->client->config.connection_max_s;
    CURL *easy = slot->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, slot);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, slot->error);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    /* The path goes as it came: "/a/../b" is not to reach another route than the one that was
     * checked. */
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_S);
    curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, max_s == 0 ? (long)CONNECTION_MAX_S : max_s);
    /* Else the end of a request whose name is still being looked up would wait for the look-up. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "flamegrid");
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_head);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, slot);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, slot);
}

static void set_tls(CURL *easy, const struct fg_client_tls *tls)
{
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_CACHE_S);
    if (tls == NULL)
        return;
    if (tls->ca_file != NULL)
        curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
    if (tls->cert_file != NULL)
        curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file);
    if (tls->key_file != NULL)
        curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file);
    if (tls->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

static bool is_head(const struct fg_client_request *request)
{
    return request->method != NULL && strcmp(request->method, "HEAD") == 0;
}

static void set_method(CURL *easy, const struct fg_client_request *request)
{
    const char *method = request->method == NULL ? "GET" : request->method;

    if (request->body.ptr != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.ptr);
    }
    if (is_head(request))
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

static enum fg_code set_up(struct fg_client_slot *slot)
{
    const struct fg_client_request *request = slot->request;

    set_always(slot);
    set_tls(slot->easy, request->tls);
    set_method(slot->easy, request);
    curl_easy_setopt(slot->easy, CURLOPT_CONNECTTIMEOUT_MS, ms_of(request->connect_timeout_ns));
    curl_easy_setopt(slot->easy, CURLOPT_TIMEOUT_MS, ms_of(request->timeout_ns));
    /* The length in an answer to HEAD is not that of the answer itself. */
    if (request->on_chunk == NULL && !is_head(request))
        curl_easy_setopt(slot->easy, CURLOPT_MAXFILESIZE_LARGE,
                         (curl_off_t)request->body_max_bytes);
    curl_easy_setopt(slot->easy, CURLOPT_URL, request->url);
    curl_easy_setopt(slot->easy, CURLOPT_FRESH_CONNECT, request->once ? 1L : 0L);
    add_header(slot, "Expect:"); /* none: waiting for "100 Continue" would cost a second */
    if (request->body.ptr != NULL)
        add_header(slot, "Content-Type:"); /* none but the caller's */
    for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++)
        add_header(slot, request->headers[i]);
    if (add_token(slot) != FG_OK)
        return request->code;
    curl_easy_setopt(slot->easy, CURLOPT_HTTPHEADER, slot->headers);
    return FG_OK;
}

/* ---- slots ---- */

static struct fg_client_slot *slot_take(struct fg_client *client)
{
    struct fg_client_slot *slot = client->free_slots;

    if (slot != NULL) {
        client->free_slots = slot->next_free;
        return slot;
    }
    slot = fg_new(struct fg_client_slot);
    slot->easy = curl_easy_init();
    fg_assert(slot->easy != NULL); /* memory is gone */
    return slot;
}

static void slot_give(struct fg_client *client, struct fg_client_slot *slot)
{
    curl_easy_reset(slot->easy);
    curl_slist_free_all(slot->headers);
    slot->headers = NULL;
    slot->request = NULL;
    slot->error[0] = '\0';
    slot->next_free = client->free_slots;
    client->free_slots = slot;
}

/* The request does not run any more. */
static void leave_slot(struct fg_client_request *request)
{
    struct fg_client_slot *slot = fg_take(request->slot);

    fg_assert(curl_multi_remove_handle(request->client->multi, slot->easy) == CURLM_OK);
    slot_give(request->client, slot);
}

/* ---- requests ---- */

static void on_soon(uv_timer_t *timer);

static void fail_soon(struct fg_client_request *request)
{
    struct fg_client *client = request->client;

    set_state(request, REQUEST_FAILED);
    fg_assert(uv_timer_start(&client->soon, on_soon, 0, 0) == 0);
}

static void start_transfer(struct fg_client_request *request)
{
    struct fg_client *client = request->client;
    struct fg_client_slot *slot = slot_take(client);

    slot->request = request;
    if (set_up(slot) != FG_OK) {
        slot_give(client, slot);
        fail_soon(request);
        return;
    }
    request->slot = slot;
    set_state(request, REQUEST_RUNNING);
    fg_assert(curl_multi_add_handle(client->multi, slot->easy) == CURLM_OK);
}

static void run_waiting(struct fg_client *client)
{
    while (client->waiting.first != NULL && client->running.count < client->config.running_max)
        start_transfer(client->waiting.first);
}

static void on_soon(uv_timer_t *timer)
{
    struct fg_client *client = timer->data;

    /* Those of now: who fails and at once tries again must not keep the loop. */
    for (unsigned n = client->failed.count; n > 0 && client->failed.first != NULL; n--) {
        struct fg_client_request *request = client->failed.first;

        set_state(request, REQUEST_IDLE);
        request->done(request);
    }
    run_waiting(client);
}

static bool has_left(CURL *easy)
{
    long bytes = 0; /* of the request's head; its body comes after it */

    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
}

static void finish(struct fg_client_slot *slot, CURLcode result)
{
    struct fg_client_request *request = slot->request;
    struct fg_client *client = request->client;
    long status = 0;

    curl_easy_getinfo(slot->easy, CURLINFO_RESPONSE_CODE, &status);
    request->status = (unsigned)status;
    request->sent = has_left(slot->easy);
    /* A request that a callback refused has its reason already. */
    if (result != CURLE_OK && request->code == FG_OK)
        (void)fail(request, code_of(result),
                   slot->error[0] != '\0' ? slot->error : curl_easy_strerror(result));
    leave_slot(request);
    set_state(request, REQUEST_IDLE);
    request->done(request);
    run_waiting(client);
}

static void finish_all(struct fg_client *client)
{
    CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(client->multi, &left)) != NULL) {
        struct fg_client_slot *slot = NULL;

        fg_assert(msg->msg == CURLMSG_DONE);
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&slot);
        finish(slot, msg->data.result);
    }
}

/* ---- the loop's side of libcurl ---- */

static void act(struct fg_client *client, curl_socket_t fd, int events)
{
    int running;

    fg_assert(curl_multi_socket_action(client->multi, fd, events, &running) == CURLM_OK);
    finish_all(client);
}

static void on_delay_over(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_delay(CURLM *multi, long delay_ms, void *arg)
{
    struct fg_client *client = arg;

    (void)multi;
    if (delay_ms < 0)
        fg_assert(uv_timer_stop(&client->delay) == 0);
    else
        fg_assert(uv_timer_start(&client->delay, on_delay_over, (uint64_t)delay_ms, 0) == 0);
    return 0;
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct socket *socket = fg_container(poll, struct socket, poll);
    int flags = 0;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if ((events & UV_READABLE) != 0)
        flags |= CURL_CSELECT_IN;
    if ((events & UV_WRITABLE) != 0)
        flags |= CURL_CSELECT_OUT;
    act(socket->client, socket->fd, flags);
}

static void on_socket_closed(uv_handle_t *handle)
{
    free(fg_container(handle, struct socket, poll));
}

/* libcurl waits for something else of a socket from now on, or for nothing, before it closes it. */
static int on_want(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct fg_client *client = arg;
    struct socket *socket = known;
    int events = 0;

    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (socket != NULL) {
            fg_assert(curl_multi_assign(client->multi, fd, NULL) == CURLM_OK);
            uv_close((uv_handle_t *)&socket->poll, on_socket_closed);
        }
        return 0;
    }
    if (socket == NULL) {
        socket = fg_new(struct socket);
        socket->client = client;
        socket->fd = fd;
        fg_assert(uv_poll_init_socket(fg_loop_uv(client->config.loop), &socket->poll, fd) == 0);
        fg_assert(curl_multi_assign(client->multi, fd, socket) == CURLM_OK);
    }
    if (what != CURL_POLL_OUT)
        events |= UV_READABLE;
    if (what != CURL_POLL_IN)
        events |= UV_WRITABLE;
    fg_assert(uv_poll_start(&socket->poll, events, on_ready) == 0);
    return 0;
}

/* ---- outside ---- */

static void init_curl(void)
{
    fg_assert(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
}

struct fg_client *fg_client_create(const struct fg_client_config *config)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct fg_client *client = fg_new(struct fg_client);

    (void)pthread_once(&once, init_curl);
    client->config = *config;
    client->multi = curl_multi_init();
    fg_assert(client->multi != NULL); /* memory is gone */
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_want);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_delay);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)config->running_max);
    fg_assert(uv_timer_init(fg_loop_uv(config->loop), &client->delay) == 0);
    fg_assert(uv_timer_init(fg_loop_uv(config->loop), &client->soon) == 0);
    client->delay.data = client->soon.data = client;
    return client;
}

void fg_client_send(struct fg_client *client, struct fg_client_request *request)
{
    fg_assert(request->state == REQUEST_IDLE && request->done != NULL);
    fg_client_clear(request);
    request->client = client;
    request->code = FG_OK;
    request->status = 0;
    request->sent = false;
    fg_buf_init(&request->head, HEAD_MAX_BYTES);
    fg_buf_init(&request->answer, request->body_max_bytes);
    if (client->running.count < client->config.running_max) {
        start_transfer(request);
    } else if (client->waiting.count < client->config.waiting_max) {
        set_state(request, REQUEST_WAITING);
    } else {
        (void)fail(request, FG_E_LIMIT, "too many requests are in progress");
        fail_soon(request);
    }
}

void fg_client_cancel(struct fg_client_request *request)
{
    if (request->state == REQUEST_IDLE)
        return;
    if (request->slot != NULL) {
        request->sent = has_left(request->slot->easy);
        leave_slot(request);
    }
    set_state(request, REQUEST_IDLE);
    /* A request that waits for the place gets it from the loop: the caller may be in the middle of
     * cancelling all of them. */
    if (request->client->waiting.first != NULL)
        fg_assert(uv_timer_start(&request->client->soon, on_soon, 0, 0) == 0);
}

struct fg_slice fg_client_header(const struct fg_client_request *request, const char *name)
{
    struct fg_slice rest = fg_buf_slice(&request->head);

    while (rest.len > 0) {
        size_t end = fg_slice_find(rest, '\n');
        struct fg_slice line = fg_slice_sub(rest, 0, end);
        size_t colon = fg_slice_find(line, ':');

        if (colon != SIZE_MAX && fg_slice_is_nocase(fg_slice_sub(line, 0, colon), name))
            return fg_trim(fg_slice_sub(line, colon + 1, line.len));
        rest = fg_slice_sub(rest, line.len + 1, rest.len);
    }
    return (struct fg_slice){NULL, 0};
}

void fg_client_clear(struct fg_client_request *request)
{
    fg_assert(request->state == REQUEST_IDLE);
    if (request->budgeted_bytes > 0)
        fg_budget_give(request->client->config.budget, request->budgeted_bytes);
    request->budgeted_bytes = 0;
    fg_buf_done(&request->head);
    fg_buf_done(&request->answer);
}

void fg_client_close(struct fg_client *client)
{
    fg_assert(client->running.count + client->waiting.count + client->failed.count == 0);
    while (client->free_slots != NULL) {
        struct fg_client_slot *slot = client->free_slots;

        client->free_slots = slot->next_free;
        curl_easy_cleanup(slot->easy);
        free(slot);
    }
    fg_assert(curl_multi_cleanup(client->multi) == CURLM_OK);
    uv_close((uv_handle_t *)&client->delay, NULL);
    uv_close((uv_handle_t *)&client->soon, NULL);
}

void fg_client_destroy(struct fg_client *client)
{
    free(client);
}
