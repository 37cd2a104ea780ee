#include "deploy/canary/page.h"

#include "common/net/metrics_page.h"

struct canary_page {
    struct fg_work *work;
    struct fg_loop *loop;
    struct fg_http_server *server;
    struct fg_metrics_page *metrics;
};

/* The pages stop first, then the pool that they use; the loop ends before the server is freed,
 * whose connections live on it. */
static void page_free(struct canary_page *page, bool looping)
{
    fg_metrics_page_stop(page->metrics);
    fg_work_destroy(page->work);
    if (looping)
        fg_loop_stop(page->loop);
    fg_metrics_page_destroy(page->metrics);
    fg_http_server_destroy(page->server);
    fg_loop_destroy(page->loop);
    free(page);
}

enum fg_code canary_page_open(const char *listen, struct fg_registry *registry,
                              struct canary_page **ret_page, struct fg_err *err)
{
    /* One worker: only scrapes use it. */
    static const struct fg_lane_config lanes[FG_LANES] = {
        [FG_LANE_BACKGROUND] = {.threads = 1, .queue_max = 1}};
    struct fg_http_config config = FG_HTTP_CONFIG_DEFAULT;
    struct canary_page *page = fg_new(struct canary_page);
    bool looping;

    config.drain_ns = FG_SECOND_NS; /* the end of a run waits no longer for a scrape */
    page->loop = fg_loop_create("metrics");
    page->server = fg_http_server_create(&config, &(struct fg_http_lent){0});
    looping = fg_loop_start(page->loop, err) == FG_OK;
    if (!looping || fg_work_create("canary", lanes, &page->work, err) != FG_OK) {
        page_free(page, looping);
        return err->code;
    }
    page->metrics = fg_metrics_page_create(registry, page->work);
    fg_metrics_page_route(page->metrics, page->server);
    if (fg_http_server_start(page->server, listen, &page->loop, 1, err) != FG_OK) {
        page_free(page, looping);
        return err->code;
    }
    *ret_page = page;
    return FG_OK;
}

void canary_page_close(struct canary_page *page)
{
    if (page == NULL)
        return;
    fg_http_server_stop(page->server);
    page_free(page, true);
}
