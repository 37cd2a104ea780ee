/* The state of all targets, as HTML and in the form of Prometheus' /api/v1/targets. */
#ifndef FG_DISTRIBUTOR_SCRAPE_STATUS_PAGE_H
#define FG_DISTRIBUTOR_SCRAPE_STATUS_PAGE_H

#include "common/base/buf.h"
#include "distributor/scrape/discovery_file.h"
#include "distributor/scrape/discovery_kubernetes.h"

/* Any of them may be NULL. */
struct dist_status_sources {
    struct dist_scrape_pool *targets;
    struct dist_file_discovery *files;
    struct dist_kubernetes_discovery *kubernetes;
};

enum dist_status_targets { STATUS_ACTIVE = 1, STATUS_DROPPED = 2 };

/* Append the page or the JSON. On the loop of the sources. what: bits of enum dist_status_targets.
 */
void dist_status_write_html(const struct dist_status_sources *sources, int64_t wall_ns,
                            struct fg_buf *out);
void dist_status_write_json(const struct dist_status_sources *sources, unsigned what,
                            struct fg_buf *out);

#endif
