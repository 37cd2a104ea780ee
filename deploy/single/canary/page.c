#include "deploy/single/canary/page.h"

#include "common/net/http.h"

enum { METRICS_MAX_BYTES = 1024 * 1024 };

struct page {
    struct fg_registry *registry;
    struct fg_loop *loop;
    struct fg_http_server *server;
};

static void get_metrics(struct fg_http_request *req, void *arg)
{
    struct page *page = arg;
    struct fg_buf body;

    fg_buf_init(&body, METRICS_MAX_BYTES);
    fg_registry_write(page->registry, &body);
    fg_http_respond(req, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}

static void drop(struct page *page, bool looping)
{
    if (looping)
        fg_loop_stop(page->loop);
    fg_http_server_destroy(page->server);
    fg_loop_destroy(page->loop);
    free(page);
}

enum fg_code page_open(const char *listen, struct fg_registry *registry, struct page **ret_page,
                       struct fg_err *err)
{
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct page *page = fg_new(struct page);
    bool looping;

    config.drain_ns = FG_SECOND_NS;
    page->registry = registry;
    page->loop = fg_loop_create("metrics");
    page->server = fg_http_server_create(&config, NULL, NULL, NULL);
    fg_http_server_route(page->server, &(struct fg_http_route){.methods = FG_HTTP_GET,
                                                               .path = "/metrics",
                                                               .handler = get_metrics,
                                                               .arg = page});
    looping = fg_loop_start(page->loop, err) == FG_OK;
    if (!looping || fg_http_server_start(page->server, listen, &page->loop, 1, err) != FG_OK) {
        drop(page, looping);
        return err->code;
    }
    *ret_page = page;
    return FG_OK;
}

void page_close(struct page *page)
{
    if (page == NULL)
        return;
    fg_http_server_stop(page->server);
    drop(page, true);
}
