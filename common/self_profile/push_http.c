#include "common/self_profile/push_http.h"

#include "common/base/time.h"
#include "common/net/client.h"

enum {
    URL_MAX_BYTES = 2100, /* the setting, and the path */
    HEADER_MAX_BYTES = 200,
    ANSWER_MAX_BYTES = 64 * 1024,
};

static const int64_t CONNECT_TIMEOUT_NS = 5 * FG_SECOND_NS, TIMEOUT_NS = 10 * FG_SECOND_NS;

struct fg_push_http {
    struct fg_loop *loop;
    struct fg_client *client;
    char url[URL_MAX_BYTES], tenant[HEADER_MAX_BYTES];
    const char *headers[3];
    struct fg_client_tls tls;
    const char *token_file;
    struct fg_client_request request;
    struct fg_self_profile_push *push; /* under way; NULL: none. The loop's */
};

struct fg_push_http *fg_push_http_create(const struct fg_self_profile_settings *settings,
                                         struct fg_loop *loop)
{
    struct fg_push_http *http = fg_new(struct fg_push_http);
    size_t len = strlen(settings->url);

    while (len > 0 && settings->url[len - 1] == '/')
        len--;
    http->loop = loop;
    (void)snprintf(http->url, sizeof http->url, "%.*s/push.v1.PusherService/Push", (int)len,
                   settings->url);
    (void)snprintf(http->tenant, sizeof http->tenant, "X-Scope-OrgID: %s", settings->tenant);
    http->headers[0] = "Content-Type: application/proto";
    http->headers[1] = http->tenant;
    http->tls.ca_file = settings->ca_file[0] != '\0' ? settings->ca_file : NULL;
    http->token_file = settings->token_file[0] != '\0' ? settings->token_file : NULL;
    return http;
}

static void end(struct fg_push_http *http, enum fg_code code, const char *why)
{
    struct fg_self_profile_push *push = fg_take(http->push);

    push->done(push, code, why);
}

static void on_answer(struct fg_client_request *request)
{
    struct fg_push_http *http = fg_container(request, struct fg_push_http, request);
    struct fg_err err = request->err;
    enum fg_code code = request->code;

    if (code == FG_OK && request->status != 200)
        code = fg_fail(&err, FG_E_UNAVAILABLE, "%s answers with status %u: %.*s", http->url,
                       request->status, FG_S(fg_slice_sub(fg_buf_slice(&request->answer), 0, 200)));
    fg_client_clear(request);
    end(http, code, err.msg);
}

static void send_on_loop(struct fg_msg *msg)
{
    struct fg_self_profile_push *push = fg_container(msg, struct fg_self_profile_push, msg);
    struct fg_push_http *http = push->sink_arg;

    if (http->client == NULL)
        http->client = fg_client_create(
            &(struct fg_client_config){.loop = http->loop, .running_max = 1, .waiting_max = 1});
    http->push = push;
    http->request = (struct fg_client_request){
        .method = "POST",
        .url = http->url,
        .headers = http->headers,
        .body = fg_buf_slice(&push->body),
        .tls = &http->tls,
        .token_file = http->token_file,
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .timeout_ns = TIMEOUT_NS,
        .body_max_bytes = ANSWER_MAX_BYTES,
        .done = on_answer,
    };
    fg_client_send(http->client, &http->request);
}

static void start_push(void *arg, struct fg_self_profile_push *push)
{
    struct fg_push_http *http = arg;

    push->sink_arg = http;
    push->msg.run = send_on_loop;
    fg_loop_post(http->loop, &push->msg);
}

static void cancel_on_loop(void *arg)
{
    struct fg_push_http *http = arg;

    if (http->push == NULL)
        return;
    fg_client_cancel(&http->request);
    fg_client_clear(&http->request);
    end(http, FG_E_CANCELED, "the program stops");
}

/* The call runs after the message of a push that was just handed over. */
static void hurry(void *arg)
{
    struct fg_push_http *http = arg;

    fg_loop_call(http->loop, cancel_on_loop, http);
}

struct fg_self_profile_sink fg_push_http_sink(struct fg_push_http *http)
{
    return (struct fg_self_profile_sink){.send = start_push, .hurry = hurry, .arg = http};
}

static void close_on_loop(void *arg)
{
    struct fg_push_http *http = arg;

    if (http->client != NULL)
        fg_client_close(http->client);
}

void fg_push_http_close(struct fg_push_http *http)
{
    if (http != NULL)
        fg_loop_call(http->loop, close_on_loop, http);
}

void fg_push_http_destroy(struct fg_push_http *http)
{
    if (http == NULL)
        return;
    fg_client_destroy(http->client);
    free(http);
}
