/*
 * GET /metrics: a registry as Prometheus text.
 *
 * The text is made on a worker, at most once a second, and shared by all requests that arrive
 * meanwhile. So a scrape never holds up other requests of its loop, and many scrapes cost no more
 * than one. The text is compressed on the worker, too, once for all.
 */
#ifndef FG_COMMON_NET_METRICS_PAGE_H
#define FG_COMMON_NET_METRICS_PAGE_H

#include "common/net/http.h"

struct fg_metrics_page;

/* Creates a page. Borrows both; the BACKGROUND lane of `work` makes the text. Never fails. */
struct fg_metrics_page *fg_metrics_page_create(struct fg_registry *registry, struct fg_work *work);

/* Destroys the page after fg_metrics_page_stop(). Requests that have a text may still be answered
 * by their loops. NULL is fine. */
void fg_metrics_page_destroy(struct fg_metrics_page *page);

/* Adds GET /metrics to a server that has not started yet; there may be several. */
void fg_metrics_page_route(struct fg_metrics_page *page, struct fg_http_server *server);

/*
 * Waits until no text is being made. From then on no hook of the registry is called. Call it after
 * the servers were stopped and before the modules with hooks are destroyed, not from a loop. NULL
 * is fine.
 */
void fg_metrics_page_stop(struct fg_metrics_page *page);

#endif
