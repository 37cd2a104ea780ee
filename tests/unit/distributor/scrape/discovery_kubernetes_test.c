/* Tests listing and watching against an API server over TLS that answers as the test says: pages of
 * lists, and lines of watches one at a time. Nothing is scraped: the interval is a day. */
#include "common/runtime/log.h"
#include "common/runtime/stop.h"
#include "distributor/scrape/discovery_kubernetes.h"
#include "tests/lib/fake_server.h"
#include "tests/unit/distributor/scrape/room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES_MAX = 8, REQUESTS_MAX = 64, REQUEST_BYTES = 1024, LINES_MAX = 32 };

/* What the API answers; lines wait until a watch is open. */
struct api {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const char *pages[PAGES_MAX]; /* the n-th of a list; "" is 410, "!" is 403, "+" is too large */
    size_t n_pages;
    const char *lines[LINES_MAX]; /* of watches; "" ends one, "410" answers one with that */
    size_t n_lines, next_line;
    char requests[REQUESTS_MAX][REQUEST_BYTES];
    size_t n_requests, n_watches;
    bool stop;
};

struct fixture {
    struct room *room;
    struct dist_kubernetes_discovery *kubernetes;
    struct api api;
    struct fake_identity identity;
    struct fake_server *server;
    char url[64], token[96], ca[96];
    const char *namespace, *node;
    sem_t stopped;
};

/* ---- the API ---- */

/* Returns the page for "continue=pN", by default the first. */
static size_t page_of(const char *request)
{
    const char *at = strstr(request, "continue=p");

    return at == NULL ? 0 : strtoul(at + strlen("continue=p"), NULL, 10);
}

static void answer_too_large(struct fake_connection *connection)
{
    size_t size = 3 << 20;
    char *large = fg_malloc(size);

    memset(large, ' ', size);
    (void)fake_respond(connection, 200, "", fg_bytes(large, size));
    free(large);
}

static void answer_list(struct fake_connection *connection, struct api *api, const char *request)
{
    const char *page;

    (void)pthread_mutex_lock(&api->lock);
    page = page_of(request) < api->n_pages ? api->pages[page_of(request)] : "";
    (void)pthread_mutex_unlock(&api->lock);
    if (strcmp(page, "+") == 0 && strstr(request, "limit=50") != NULL)
        answer_too_large(connection);
    else if (strcmp(page, "!") == 0)
        (void)fake_respond(connection, 403, "",
                           FG_LIT("{\"kind\":\"Status\",\"message\":\"pods is forbidden\"}"));
    else if (page[0] != '{')
        (void)fake_respond(connection, 410, "", FG_LIT("{\"message\":\"expired\"}"));
    else
        (void)fake_respond(connection, 200, "", fg_cstr(page));
}

/* Waits for the next line and returns it. NULL: the test ended, or a newer watch gets the line. */
static const char *wait_line(struct api *api, size_t watch)
{
    const char *line = NULL;

    (void)pthread_mutex_lock(&api->lock);
    while (!api->stop && api->n_watches == watch && api->next_line == api->n_lines)
        (void)pthread_cond_wait(&api->changed, &api->lock);
    if (!api->stop && api->n_watches == watch)
        line = api->lines[api->next_line++];
    (void)pthread_mutex_unlock(&api->lock);
    return line;
}

/* These lines end the watch, so the next line is for the next watch. */
static bool is_last(const char *line)
{
    return strstr(line, "ERROR") != NULL || strstr(line, "nonsense") != NULL;
}

static void answer_watch(struct fake_connection *connection, struct api *api)
{
    const char *line;
    size_t watch;

    (void)pthread_mutex_lock(&api->lock);
    watch = ++api->n_watches;
    (void)pthread_cond_broadcast(&api->changed);
    (void)pthread_mutex_unlock(&api->lock);
    line = wait_line(api, watch);
    if (line != NULL && strcmp(line, "410") == 0) {
        (void)fake_respond(connection, 410, "", FG_LIT("{\"message\":\"too old\"}"));
        return;
    }
    (void)fake_write(connection, FG_LIT("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    for (; line != NULL && line[0] != '\0'; line = wait_line(api, watch)) {
        /* Sends the line in two pieces, its end with the next line: pieces are not lines. */
        (void)fake_write_chunk(connection, fg_slice_sub(fg_cstr(line), 0, 10));
        (void)fake_write_chunk(connection, fg_slice_sub(fg_cstr(line), 10, SIZE_MAX));
        (void)fake_write_chunk(connection, FG_LIT("\n"));
        if (is_last(line))
            break;
    }
    (void)fake_write_chunk(connection, FG_LIT(""));
}

static void note_request(struct api *api, const char *request)
{
    (void)pthread_mutex_lock(&api->lock);
    assert_true(api->n_requests < REQUESTS_MAX);
    (void)snprintf(api->requests[api->n_requests++], REQUEST_BYTES, "%.*s", REQUEST_BYTES - 1,
                   request);
    (void)pthread_mutex_unlock(&api->lock);
}

static void handle(struct fake_connection *connection, void *arg)
{
    struct fixture *f = arg;
    char request[8192];

    while (fake_read(connection, request, sizeof request)) {
        note_request(&f->api, request);
        if (strstr(request, "Authorization: Bearer secret") == NULL)
            (void)fake_respond(connection, 401, "", FG_LIT("{\"message\":\"who are you\"}"));
        else if (strstr(request, "watch=1") != NULL)
            answer_watch(connection, &f->api);
        else
            answer_list(connection, &f->api, request);
    }
}

static void set_pages(struct fixture *f, const char *first, const char *second)
{
    (void)pthread_mutex_lock(&f->api.lock);
    f->api.pages[0] = first;
    f->api.pages[1] = second;
    f->api.n_pages = second == NULL ? 1 : 2;
    (void)pthread_mutex_unlock(&f->api.lock);
}

static void tell(struct fixture *f, const char *line)
{
    (void)pthread_mutex_lock(&f->api.lock);
    assert_true(f->api.n_lines < LINES_MAX);
    f->api.lines[f->api.n_lines++] = line;
    (void)pthread_cond_broadcast(&f->api.changed);
    (void)pthread_mutex_unlock(&f->api.lock);
}

/* Waits for a request that contains the text, from the n-th on, and returns it. */
static size_t wait_request(struct fixture *f, size_t from, const char *part)
{
    for (;;) {
        (void)pthread_mutex_lock(&f->api.lock);
        for (size_t i = from; i < f->api.n_requests; i++) {
            if (strstr(f->api.requests[i], part) != NULL) {
                (void)pthread_mutex_unlock(&f->api.lock);
                return i;
            }
        }
        (void)pthread_mutex_unlock(&f->api.lock);
        (void)usleep(1000);
    }
}

/* ---- pods ---- */

#define POD(name, ip, version, scrape)                                                             \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\",\"resourceVersion\":\"" version      \
    "\",\"annotations\":{\"profiles.grafana.com/cpu.scrape\":\"" scrape                            \
    "\",\"profiles.grafana.com/"                                                                   \
    "cpu.port\":\"6060\"}},\"spec\":{\"containers\":[{\"name\":\"c\"}]},"                          \
    "\"status\":{\"phase\":\"Running\",\"podIP\":\"" ip "\"}}"
#define LIST(version, next, items)                                                                 \
    "{\"metadata\":{\"resourceVersion\":\"" version "\",\"continue\":\"" next                      \
    "\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}"
#define TARGET(name, ip)                                                                           \
    ip ":6060{container=\"c\", instance=\"" ip ":6060\", namespace=\"n\", pod=\"" name             \
       "\", service_name=\"n/c\"}"

/* ---- fixture ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void start_on_loop(void *arg)
{
    struct fixture *f = arg;

    f->kubernetes = dist_kubernetes_discovery_start(&(struct dist_kubernetes_discovery_config){
        .loop = f->room->loop,
        .work = f->room->work,
        .targets = f->room->targets,
        .metrics = f->room->metrics,
        .kinds = &f->room->kinds,
        .api = f->url,
        .credentials = f->identity.folder,
        .namespace = f->namespace,
        .node = f->node,
        .selector = "",
        .pause_ns = 5 * FG_MS_NS,
    });
}

static void start(struct fixture *f)
{
    fg_loop_call(f->room->loop, start_on_loop, f);
}

static void on_stopped(void *arg)
{
    (void)sem_post(arg);
}

static void stop_on_loop(void *arg)
{
    struct fixture *f = arg;

    dist_kubernetes_discovery_stop(f->kubernetes, on_stopped, &f->stopped);
}

static int set_up(void **state)
{
    struct fixture *f = fg_new(struct fixture);

    fg_ignore_sigpipe();
    fg_log_set_level(FG_LOG_ERROR);
    (void)pthread_mutex_init(&f->api.lock, NULL);
    (void)pthread_cond_init(&f->api.changed, NULL);
    fake_identity_create(&f->identity);
    (void)snprintf(f->token, sizeof f->token, "%s/token", f->identity.folder);
    (void)snprintf(f->ca, sizeof f->ca, "%s/ca.crt", f->identity.folder);
    assert_int_equal(symlink(f->identity.cert, f->ca), 0);
    write_file(f->token, "secret");
    f->server = fake_server_start(&f->identity, false, handle, f);
    (void)snprintf(f->url, sizeof f->url, "https://127.0.0.1:%u", fake_server_port(f->server));
    f->namespace = f->node = "";
    f->room = room_create(24 * FG_HOUR_NS, 4);
    assert_int_equal(sem_init(&f->stopped, 0, 0), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    fg_loop_call(f->room->loop, stop_on_loop, f);
    while (sem_wait(&f->stopped) != 0)
        continue;
    room_destroy(f->room);
    dist_kubernetes_discovery_destroy(f->kubernetes);
    (void)pthread_mutex_lock(&f->api.lock);
    f->api.stop = true;
    (void)pthread_cond_broadcast(&f->api.changed);
    (void)pthread_mutex_unlock(&f->api.lock);
    fake_server_stop(f->server);
    (void)unlink(f->token);
    (void)unlink(f->ca);
    fake_identity_destroy(&f->identity);
    (void)pthread_mutex_destroy(&f->api.lock);
    (void)pthread_cond_destroy(&f->api.changed);
    free(f);
    return 0;
}

/* ---- tests ---- */

static void a_list_comes_in_pages_and_is_watched(void **state)
{
    struct fixture *f = *state;

    set_pages(f, LIST("5", "p1", POD("a", "10.0.0.1", "1", "true")),
              LIST("5", "", POD("b", "10.0.0.2", "2", "true") "," POD("x", "10.0.0.9", "2", "")));
    start(f);
    room_wait_targets(f->room, TARGET("a", "10.0.0.1") " " TARGET("b", "10.0.0.2"));
    (void)wait_request(f, 0, "GET /api/v1/pods?limit=50 HTTP");
    (void)wait_request(f, 0, "GET /api/v1/pods?limit=50&continue=p1 HTTP");
    (void)wait_request(
        f, 0,
        "GET /api/v1/pods?watch=1&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=");
    room_wait_metric(f->room, SCRAPE_LISTS, 1);
}

static void events_change_targets(void **state)
{
    struct fixture *f = *state;

    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    start(f);
    tell(f, EVENT("ADDED", POD("b", "10.0.0.2", "6", "true")));
    room_wait_targets(f->room, TARGET("a", "10.0.0.1") " " TARGET("b", "10.0.0.2"));
    tell(f, EVENT("MODIFIED", POD("b", "10.0.0.3", "7", "true")));
    room_wait_targets(f->room, TARGET("a", "10.0.0.1") " " TARGET("b", "10.0.0.3"));
    tell(f, EVENT("MODIFIED", POD("a", "10.0.0.1", "8", "false")));
    room_wait_targets(f->room, TARGET("b", "10.0.0.3"));
    tell(f, EVENT("DELETED", POD("b", "10.0.0.3", "9", "true")));
    room_wait_targets(f->room, "");
    assert_int_equal(fg_metric_get(f->room->metrics, SCRAPE_EVENTS), 4);
}

static void a_watch_continues_from_the_last_version(void **state)
{
    struct fixture *f = *state;

    set_pages(f, LIST("5", "", ""), NULL);
    start(f);
    tell(f, EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"42\"}}"));
    tell(f, ""); /* the watch times out */
    (void)wait_request(f, 0, "resourceVersion=42&");
    tell(f, EVENT("ADDED", POD("a", "10.0.0.1", "43", "true")));
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
    assert_int_equal(fg_metric_get(f->room->metrics, SCRAPE_LISTS), 1);
    assert_int_equal(fg_metric_get(f->room->metrics, SCRAPE_K8S_FAILURES), 0);
}

/* The API reports an expired version in two ways. */
static void an_expired_version_lists_all_pods_again(void **state)
{
    static const char *const ways[] = {
        EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410,\"message\":\"too old\"}"), "410"};
    struct fixture *f = *state;

    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    start(f);
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
    for (uint64_t i = 0; i < FG_COUNT(ways); i++) {
        /* Pods removed meanwhile disappear with the new list and not earlier. */
        set_pages(f,
                  i == 0 ? LIST("9", "", POD("b", "10.0.0.2", "8", "true"))
                         : LIST("11", "", POD("c", "10.0.0.3", "10", "true")),
                  NULL);
        tell(f, ways[i]);
        room_wait_targets(f->room, i == 0 ? TARGET("b", "10.0.0.2") : TARGET("c", "10.0.0.3"));
        room_wait_metric(f->room, SCRAPE_LISTS, i + 2);
    }
    (void)wait_request(f, 0, "resourceVersion=11&");
}

static void expired_pages_restart_the_list(void **state)
{
    struct fixture *f = *state;
    size_t at;

    set_pages(f, LIST("5", "p1", POD("a", "10.0.0.1", "1", "true")), "");
    start(f);
    at = wait_request(f, 0, "continue=p1");
    set_pages(f, LIST("6", "", POD("b", "10.0.0.2", "6", "true")), NULL);
    (void)wait_request(f, at, "limit=50 HTTP");
    room_wait_targets(f->room, TARGET("b", "10.0.0.2"));
}

/* The client asks again with a smaller limit if a page is too large. */
static void large_pages_become_smaller(void **state)
{
    struct fixture *f = *state;

    set_pages(f, "+", NULL);
    start(f);
    (void)wait_request(f, 0, "limit=50 HTTP");
    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    (void)wait_request(f, 0, "limit=25 HTTP");
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
}

struct look {
    struct fixture *f;
    char error[512];
};

static void look_on_loop(void *arg)
{
    struct look *look = arg;
    const char *error;

    (void)dist_kubernetes_discovery_state(look->f->kubernetes, &error);
    (void)snprintf(look->error, sizeof look->error, "%s", error == NULL ? "" : error);
}

static void wait_error(struct fixture *f, const char *part)
{
    struct look look = {.f = f};

    while (strstr(look.error, part) == NULL || (part[0] == '\0' && look.error[0] != '\0')) {
        (void)usleep(1000);
        fg_loop_call(f->room->loop, look_on_loop, &look);
    }
}

static void refusals_of_the_api_are_shown_and_retried(void **state)
{
    struct fixture *f = *state;

    set_pages(f, "!", NULL);
    start(f);
    wait_error(f, "/api/v1/pods?limit=50: status 403: pods is forbidden");
    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
    wait_error(f, "");
}

/* A changed token is used from the next request on. */
static void the_token_is_read_again(void **state)
{
    struct fixture *f = *state;

    write_file(f->token, "old");
    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    start(f);
    wait_error(f, "status 401: who are you");
    write_file(f->token, "secret");
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
}

/* Targets stay as they were while the API is away, and after nonsense everything is listed again.
 */
static void api_failures_keep_the_targets(void **state)
{
    struct fixture *f = *state;

    set_pages(f, LIST("5", "", POD("a", "10.0.0.1", "1", "true")), NULL);
    start(f);
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
    set_pages(f, "!", NULL);
    tell(f, "{\"type\": nonsense}");
    room_wait_metric(f->room, SCRAPE_K8S_FAILURES, 2); /* the event, and a list */
    room_wait_targets(f->room, TARGET("a", "10.0.0.1"));
    set_pages(f, LIST("6", "", ""), NULL);
    room_wait_targets(f->room, "");
}

static void settings_restrict_namespace_and_node(void **state)
{
    struct fixture *f = *state;

    f->namespace = "prod";
    f->node = "node-1";
    set_pages(f, LIST("5", "", ""), NULL);
    start(f);
    (void)wait_request(
        f, 0,
        "GET /api/v1/namespaces/prod/pods?fieldSelector=spec.nodeName%3Dnode-1&limit="
        "50 HTTP");
    (void)wait_request(
        f, 0, "GET /api/v1/namespaces/prod/pods?fieldSelector=spec.nodeName%3Dnode-1&watch=1&");
}

static void pauses_grow_with_failures_and_are_random(void **state)
{
    (void)state;
    for (unsigned failures = 0; failures < 100; failures++) {
        int64_t longest_ns = FG_SECOND_NS << FG_MIN(failures, 5u);

        assert_int_equal(dist_kubernetes_discovery_pause_ns(FG_SECOND_NS, failures, 0),
                         longest_ns / 2);
        for (uint64_t random = 1; random < 100; random++)
            assert_in_range(
                dist_kubernetes_discovery_pause_ns(FG_SECOND_NS, failures, fg_mix64(random)),
                longest_ns / 2, longest_ns);
    }
    assert_int_not_equal(dist_kubernetes_discovery_pause_ns(FG_SECOND_NS, 3, 1),
                         dist_kubernetes_discovery_pause_ns(FG_SECOND_NS, 3, 2));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_list_comes_in_pages_and_is_watched),
        TEST(events_change_targets),
        TEST(a_watch_continues_from_the_last_version),
        TEST(an_expired_version_lists_all_pods_again),
        TEST(expired_pages_restart_the_list),
        TEST(large_pages_become_smaller),
        TEST(refusals_of_the_api_are_shown_and_retried),
        TEST(the_token_is_read_again),
        TEST(api_failures_keep_the_targets),
        TEST(settings_restrict_namespace_and_node),
        cmocka_unit_test(pauses_grow_with_failures_and_are_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
