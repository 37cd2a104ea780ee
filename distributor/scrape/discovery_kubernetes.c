/*
 *           a page            the last page             it ends or fails
 *   LIST -----------> READ -------------------> WATCH --------------------> PAUSE
 *    ^ ^                |                         ^                          | |
 *    | '-- more pages --'                         '--- a version is known ---' |
 *    '-------------- no version: no complete list, or it is too old -----------'
 *
 * A list that fails goes to PAUSE as well and leaves the targets as they were: pods are removed
 * only after a complete list. A watch goes on from the version of the last event; bookmarks bring
 * newer versions while nothing happens.
 */
#include "distributor/scrape/discovery_kubernetes.h"

#include "common/base/str.h"
#include "common/runtime/log.h"
#include "distributor/scrape/kubernetes_pod.h"

#define GROUP_PREFIX "pod:"

enum {
    PAGE_PODS = 50, /* of about 10 KiB each; fewer if a page gets too large */
    PAGE_MAX_BYTES = 2 * 1024 * 1024,
    EVENT_MAX_BYTES = 1024 * 1024, /* one pod; etcd stores no larger object by default */
    WATCH_S = 240, /* up to twice as long; then another API server may get the watch */
    WATCH_GRACE_S = 30,
    URL_MAX_BYTES = 16 * 1024, /* the API, VERSION and a selector of 2,000, escaped */
    PATH_MAX_BYTES = 4096,     /* PATH_MAX of Linux */
    VERSION_MAX_BYTES = 4096,  /* of a list to go on with, a token of about 100 bytes */
    STATUS_OK = 200,
    STATUS_GONE = 410,
};

static const int64_t CONNECT_TIMEOUT_NS = 10 * FG_SECOND_NS, LIST_TIMEOUT_NS = 60 * FG_SECOND_NS;

enum state { LIST, READ, WATCH, PAUSE };

struct dist_kubernetes_discovery {
    struct dist_kubernetes_discovery_config config;
    struct fg_client *client;
    struct fg_client_tls tls;
    char ca_file[PATH_MAX_BYTES], token_file[PATH_MAX_BYTES];
    enum state state;
    uv_timer_t timer;
    unsigned failures; /* in a row */
    char error[FG_ERR_MSG_MAX_BYTES];

    struct fg_client_request request; /* the one in progress, if there is one */
    struct fg_buf url;
    unsigned page_pods;
    struct fg_buf next;    /* where the next page begins */
    struct fg_buf version; /* empty: there is no complete list */
    struct fg_buf lines;   /* of a watch: received, not read yet; the last may be incomplete */
    bool expired;          /* the watch said so */

    struct fg_job job; /* reads a page */
    struct dist_pods_page page;

    void (*on_stopped)(void *arg); /* not NULL: discovery is stopping */
    void *stopped_arg;
};

static const char *const state_names[] = {
    [LIST] = "listing pods",
    [READ] = "reading a list of pods",
    [WATCH] = "watching pods",
    [PAUSE] = "waiting to try again",
};

const char *dist_kubernetes_discovery_state(const struct dist_kubernetes_discovery *kubernetes,
                                            const char **ret_error)
{
    *ret_error = kubernetes->error[0] == '\0' ? NULL : kubernetes->error;
    return state_names[kubernetes->state];
}

static void set_text(struct fg_buf *buf, struct fg_slice text)
{
    fg_buf_clear(buf);
    fg_buf_put(buf, text);
}

/* ---- pauses ---- */

int64_t dist_kubernetes_discovery_pause_ns(int64_t pause_ns, unsigned failures, uint64_t random)
{
    enum { DOUBLINGS_MAX = 5 }; /* up to 32 times the first pause: half a minute */
    int64_t longest_ns = pause_ns << FG_MIN(failures, (unsigned)DOUBLINGS_MAX);

    /* Half of it is jitter: when the API comes back, not all distributors may ask at once. */
    return longest_ns / 2 + (int64_t)(random % (uint64_t)(longest_ns / 2 + 1));
}

static uint64_t random_number(void)
{
    return fg_mix64(fg_hash_seed() ^ (uint64_t)fg_mono_ns(fg_clock_real()));
}

static void list_from_the_start(struct dist_kubernetes_discovery *kubernetes);
static void watch(struct dist_kubernetes_discovery *kubernetes);

static void on_timer(uv_timer_t *timer)
{
    struct dist_kubernetes_discovery *kubernetes = timer->data;

    fg_assert(kubernetes->state == PAUSE);
    /* No version: there is no complete list yet, or it has expired. */
    if (kubernetes->version.len == 0)
        list_from_the_start(kubernetes);
    else
        watch(kubernetes);
}

static void pause_now(struct dist_kubernetes_discovery *kubernetes)
{
    int64_t pause_ns = dist_kubernetes_discovery_pause_ns(kubernetes->config.pause_ns,
                                                          kubernetes->failures, random_number());

    kubernetes->state = PAUSE;
    fg_assert(uv_timer_start(&kubernetes->timer, on_timer, (uint64_t)(pause_ns / FG_MS_NS), 0) ==
              0);
}

static void note_failure(struct dist_kubernetes_discovery *kubernetes, const char *why)
{
    kubernetes->failures++;
    (void)snprintf(kubernetes->error, sizeof kubernetes->error, "%s", why);
    fg_metric_add(kubernetes->config.metrics, SCRAPE_K8S_FAILURES, 1);
    fg_log_warn("Kubernetes API request failed, will retry", fg_ls("err", why),
                fg_lu("failures", kubernetes->failures));
}

static void fail(struct dist_kubernetes_discovery *kubernetes, const char *why)
{
    note_failure(kubernetes, why);
    pause_now(kubernetes);
}

static void note_success(struct dist_kubernetes_discovery *kubernetes)
{
    kubernetes->failures = 0;
    kubernetes->error[0] = '\0';
}

/* ---- requests ---- */

static void put_parameter(struct fg_buf *url, const char *name, struct fg_slice value)
{
    if (value.len == 0)
        return;
    fg_buf_putc(url, fg_slice_find(fg_buf_slice(url), '?') == SIZE_MAX ? '?' : '&');
    fg_buf_puts(url, name);
    fg_buf_putc(url, '=');
    fg_buf_url(url, value);
}

/* Begins the URL with what lists and watches have in common. */
static void begin_url(struct dist_kubernetes_discovery *kubernetes)
{
    const struct dist_kubernetes_discovery_config *config = &kubernetes->config;
    struct fg_buf *url = &kubernetes->url;
    char node[512];

    fg_buf_clear(url);
    fg_buf_printf(url, "%s/api/v1", config->api);
    if (config->namespace[0] != '\0') {
        fg_buf_puts(url, "/namespaces/");
        fg_buf_url(url, fg_cstr(config->namespace));
    }
    fg_buf_puts(url, "/pods");
    (void)snprintf(node, sizeof node, "spec.nodeName=%s", config->node);
    put_parameter(url, "fieldSelector", config->node[0] == '\0' ? FG_LIT("") : fg_cstr(node));
    put_parameter(url, "labelSelector", fg_cstr(config->selector));
}

static void put_number(struct fg_buf *url, const char *name, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put_parameter(url, name, fg_cstr(text));
}

static void send_request(struct dist_kubernetes_discovery *kubernetes, int64_t timeout_ns,
                         bool (*on_chunk)(struct fg_client_request *request, struct fg_slice chunk),
                         void (*done)(struct fg_client_request *request))
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct fg_client_request *request = &kubernetes->request;

    fg_buf_putc(&kubernetes->url, '\0');
    if (kubernetes->url.full) {
        fail(kubernetes, "the API's URL is longer than 16 KiB");
        return;
    }
    fg_client_clear(request);
    *request = (struct fg_client_request){
        .url = (const char *)kubernetes->url.ptr,
        .headers = headers,
        .tls = &kubernetes->tls,
        .token_file = kubernetes->token_file,
        .connect_timeout_ns = CONNECT_TIMEOUT_NS,
        .timeout_ns = timeout_ns,
        .body_max_bytes = PAGE_MAX_BYTES,
        .on_chunk = on_chunk,
        .done = done,
    };
    fg_client_send(kubernetes->client, request);
}

/* Fails with a sentence about a response that has another status than 200. */
static void fail_status(struct dist_kubernetes_discovery *kubernetes)
{
    const struct fg_client_request *request = &kubernetes->request;
    struct fg_buf said, url;
    struct fg_err err;

    fg_buf_init(&said, 512);
    fg_buf_init(&url, 160);
    dist_pods_read_status(fg_buf_slice(&request->answer), &said);
    fg_client_show_url(request->url, &url);
    (void)fg_fail(&err, FG_E_UNAVAILABLE, "%.*s: status %u%s%.*s", FG_S(fg_buf_slice(&url)),
                  request->status, said.len > 0 ? ": " : "", FG_S(fg_buf_slice(&said)));
    fg_buf_done(&said);
    fg_buf_done(&url);
    fail(kubernetes, err.msg);
}

/* ---- lists ---- */

static void on_listed(struct fg_client_request *request);

static void list_pods(struct dist_kubernetes_discovery *kubernetes)
{
    kubernetes->state = LIST;
    begin_url(kubernetes);
    put_number(&kubernetes->url, "limit", kubernetes->page_pods);
    put_parameter(&kubernetes->url, "continue", fg_buf_slice(&kubernetes->next));
    send_request(kubernetes, LIST_TIMEOUT_NS, NULL, on_listed);
}

static void list_from_the_start(struct dist_kubernetes_discovery *kubernetes)
{
    fg_buf_clear(&kubernetes->next);
    fg_buf_clear(&kubernetes->version);
    /* Pods that the whole list does not name any more are removed by take_page(). */
    dist_scrape_pool_mark(kubernetes->config.targets, GROUP_PREFIX);
    list_pods(kubernetes);
}

static void on_listed(struct fg_client_request *request)
{
    struct dist_kubernetes_discovery *kubernetes =
        fg_container(request, struct dist_kubernetes_discovery, request);

    if (request->code == FG_E_TOO_LARGE && kubernetes->page_pods > 1) {
        /* Pods may have annotations of 256 KiB each. */
        kubernetes->page_pods /= 2;
        list_pods(kubernetes);
    } else if (request->code != FG_OK) {
        fail(kubernetes, request->err.msg);
    } else if (request->status != STATUS_OK) {
        fail_status(kubernetes); /* 410, too: the pages are too old, and the list starts over */
    } else {
        kubernetes->state = READ;
        if (!fg_work_submit(kubernetes->config.work, FG_LANE_INGEST, &kubernetes->job))
            fail(kubernetes, "no worker is free to read a list of pods");
    }
}

/* Worker. */
static enum fg_code read_page(struct fg_job *job, struct fg_err *err)
{
    struct dist_kubernetes_discovery *kubernetes =
        fg_container(job, struct dist_kubernetes_discovery, job);

    return dist_pods_read_page(fg_buf_slice(&kubernetes->request.answer), kubernetes->config.kinds,
                               &kubernetes->page, err);
}

static void update_pod(struct dist_kubernetes_discovery *kubernetes,
                       const struct dist_discovered *discovered, const struct dist_pods_entry *pod)
{
    const struct dist_discovered part = {.targets = discovered->targets + pod->first,
                                         .n_targets = pod->n};
    size_t size = strlen(GROUP_PREFIX) + pod->name.len + 1;
    char *group = fg_malloc(size);

    (void)snprintf(group, size, GROUP_PREFIX "%.*s", FG_S(pod->name));
    if (pod->n > 0)
        dist_scrape_pool_update(kubernetes->config.targets, group, &part, false);
    else
        dist_scrape_pool_remove(kubernetes->config.targets, group);
    free(group);
}

static void take_page(struct dist_kubernetes_discovery *kubernetes)
{
    struct dist_pods_page *page = &kubernetes->page;

    for (size_t i = 0; i < page->n_pods; i++)
        update_pod(kubernetes, page->discovered, &page->pods[i]);
    set_text(&kubernetes->next, page->next);
    if (page->next.len == 0)
        /* The version of the last page counts: a watch from it begins where the list ended. */
        set_text(&kubernetes->version, page->version);
    dist_pods_page_done(page);
    if (kubernetes->next.full || kubernetes->version.full) {
        fail(kubernetes, "list of pods: a version or token of more than 4 KiB");
    } else if (kubernetes->next.len > 0) {
        list_pods(kubernetes);
    } else {
        dist_scrape_pool_sweep(kubernetes->config.targets, GROUP_PREFIX);
        fg_metric_add(kubernetes->config.metrics, SCRAPE_LISTS, 1);
        fg_log_info("pods listed", fg_lb("version", fg_buf_slice(&kubernetes->version)));
        note_success(kubernetes);
        watch(kubernetes);
    }
}

static void finish_stop(struct dist_kubernetes_discovery *kubernetes);

static void on_page_read(struct fg_job *job)
{
    struct dist_kubernetes_discovery *kubernetes =
        fg_container(job, struct dist_kubernetes_discovery, job);

    fg_client_clear(&kubernetes->request);
    if (kubernetes->on_stopped != NULL)
        finish_stop(kubernetes);
    else if (job->code != FG_OK)
        fail(kubernetes, job->err.msg);
    else
        take_page(kubernetes);
}

/* ---- watching ---- */

static void take_event(struct dist_kubernetes_discovery *kubernetes,
                       const struct dist_pods_event *event)
{
    fg_metric_add(kubernetes->config.metrics, SCRAPE_EVENTS, 1);
    switch (event->kind) {
    case PODS_CHANGED:
    case PODS_DELETED:
        update_pod(kubernetes, event->discovered,
                   event->kind == PODS_CHANGED
                       ? &event->pod
                       : &(struct dist_pods_entry){.name = event->pod.name});
        break;
    case PODS_BOOKMARK:
        break;
    case PODS_EXPIRED:
        kubernetes->expired = true;
        break;
    }
    if (event->version.len > 0)
        /* Events of all kinds have a version; a watch that goes on from it misses nothing. */
        set_text(&kubernetes->version, event->version);
}

/* Takes an event. Returns false, with the reason, if the watch cannot go on. */
static bool take_line(struct dist_kubernetes_discovery *kubernetes, struct fg_slice line,
                      struct fg_err *err)
{
    struct dist_pods_event event;

    if (fg_trim(line).len == 0)
        return true;
    if (dist_pods_read_event(line, kubernetes->config.kinds, &event, err) != FG_OK) {
        kubernetes->expired = true; /* an event is lost, so the targets may be wrong: list again */
        return false;
    }
    take_event(kubernetes, &event);
    dist_pods_event_done(&event);
    return !kubernetes->expired;
}

/* Takes all complete lines. */
static bool take_lines(struct dist_kubernetes_discovery *kubernetes, struct fg_err *err)
{
    struct fg_buf *lines = &kubernetes->lines;
    struct fg_slice rest = fg_buf_slice(lines);
    bool go_on = true;
    size_t end;

    while (go_on && (end = fg_slice_find(rest, '\n')) != SIZE_MAX) {
        go_on = take_line(kubernetes, fg_slice_sub(rest, 0, end), err);
        rest = fg_slice_sub(rest, end + 1, rest.len);
    }
    if (rest.len < lines->len && rest.len > 0)
        memmove(lines->ptr, rest.ptr, rest.len);
    lines->len = rest.len;
    return go_on;
}

static bool on_chunk(struct fg_client_request *request, struct fg_slice chunk)
{
    struct dist_kubernetes_discovery *kubernetes =
        fg_container(request, struct dist_kubernetes_discovery, request);
    struct fg_err err = {.code = FG_OK};

    /* Any byte shows that the API works: the next pause is short again. */
    note_success(kubernetes);
    fg_buf_put(&kubernetes->lines, chunk);
    if (kubernetes->lines.full) {
        kubernetes->expired = true;
        (void)fg_fail(&err, FG_E_TOO_LARGE, "watch of pods: an event exceeds %d bytes",
                      EVENT_MAX_BYTES);
    } else {
        (void)take_lines(kubernetes, &err);
    }
    if (err.code != FG_OK)
        note_failure(kubernetes, err.msg);
    return !kubernetes->expired;
}

static void on_watched(struct fg_client_request *request)
{
    struct dist_kubernetes_discovery *kubernetes =
        fg_container(request, struct dist_kubernetes_discovery, request);

    if (kubernetes->expired || (request->code == FG_OK && request->status == STATUS_GONE)) {
        /* No failure: the API keeps old versions for minutes only. List again. */
        fg_buf_clear(&kubernetes->version);
        pause_now(kubernetes);
    } else if (request->code != FG_OK) {
        fail(kubernetes, request->err.msg);
    } else if (request->status != STATUS_OK) {
        fail_status(kubernetes);
    } else {
        pause_now(kubernetes); /* timeoutSeconds is over */
    }
}

static void watch(struct dist_kubernetes_discovery *kubernetes)
{
    uint64_t watch_s = WATCH_S + random_number() % WATCH_S;

    kubernetes->state = WATCH;
    kubernetes->expired = false;
    /* The next list tries whole pages again. */
    kubernetes->page_pods = PAGE_PODS;
    fg_buf_clear(&kubernetes->lines);
    begin_url(kubernetes);
    put_number(&kubernetes->url, "watch", 1);
    put_parameter(&kubernetes->url, "allowWatchBookmarks", FG_LIT("true"));
    put_parameter(&kubernetes->url, "resourceVersion", fg_buf_slice(&kubernetes->version));
    put_number(&kubernetes->url, "timeoutSeconds", watch_s);
    send_request(kubernetes, (int64_t)(watch_s + WATCH_GRACE_S) * FG_SECOND_NS, on_chunk,
                 on_watched);
}

/* ---- life ---- */

struct dist_kubernetes_discovery *
dist_kubernetes_discovery_start(const struct dist_kubernetes_discovery_config *config)
{
    struct dist_kubernetes_discovery *kubernetes = fg_new(struct dist_kubernetes_discovery);

    kubernetes->config = *config;
    kubernetes->client = fg_client_create(
        &(struct fg_client_config){.loop = config->loop, .running_max = 1, .waiting_max = 0});
    (void)snprintf(kubernetes->ca_file, sizeof kubernetes->ca_file, "%s/ca.crt",
                   config->credentials);
    (void)snprintf(kubernetes->token_file, sizeof kubernetes->token_file, "%s/token",
                   config->credentials);
    kubernetes->tls.ca_file = kubernetes->ca_file;
    kubernetes->page_pods = PAGE_PODS;
    kubernetes->job = (struct fg_job){.home = config->loop, .run = read_page, .done = on_page_read};
    fg_buf_init(&kubernetes->url, URL_MAX_BYTES);
    fg_buf_init(&kubernetes->next, VERSION_MAX_BYTES);
    fg_buf_init(&kubernetes->version, VERSION_MAX_BYTES);
    fg_buf_init(&kubernetes->lines, EVENT_MAX_BYTES);
    fg_assert(uv_timer_init(fg_loop_uv(config->loop), &kubernetes->timer) == 0);
    kubernetes->timer.data = kubernetes;
    list_from_the_start(kubernetes);
    return kubernetes;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct dist_kubernetes_discovery *kubernetes = handle->data;

    kubernetes->on_stopped(kubernetes->stopped_arg);
}

static void finish_stop(struct dist_kubernetes_discovery *kubernetes)
{
    dist_pods_page_done(&kubernetes->page);
    fg_client_clear(&kubernetes->request);
    fg_client_close(kubernetes->client);
    uv_close((uv_handle_t *)&kubernetes->timer, on_timer_closed);
}

void dist_kubernetes_discovery_stop(struct dist_kubernetes_discovery *kubernetes,
                                    void (*on_stopped)(void *arg), void *arg)
{
    kubernetes->on_stopped = on_stopped;
    kubernetes->stopped_arg = arg;
    fg_assert(uv_timer_stop(&kubernetes->timer) == 0);
    if (kubernetes->state == READ)
        return; /* the job has the page; on_page_read() goes on */
    fg_client_cancel(&kubernetes->request);
    finish_stop(kubernetes);
}

void dist_kubernetes_discovery_destroy(struct dist_kubernetes_discovery *kubernetes)
{
    if (kubernetes == NULL)
        return;
    fg_client_destroy(kubernetes->client);
    fg_buf_done(&kubernetes->url);
    fg_buf_done(&kubernetes->next);
    fg_buf_done(&kubernetes->version);
    fg_buf_done(&kubernetes->lines);
    free(kubernetes);
}
