/* What is scraped and how it goes, in HTML and in the form of Prometheus' /api/v1/targets. */
#ifndef FG_DISTRIBUTOR_SCRAPE_PAGE_H
#define FG_DISTRIBUTOR_SCRAPE_PAGE_H

#include "common/base/buf.h"
#include "distributor/scrape/files.h"
#include "distributor/scrape/kubernetes.h"

/* Any of them may be NULL. */
struct dist_page_sources {
    struct dist_targets *targets;
    struct dist_files *files;
    struct dist_kubernetes *kubernetes;
};

enum dist_page_what { PAGE_ACTIVE = 1, PAGE_DROPPED = 2 };

/* On the loop of the sources. what: bits of page_what. */
void dist_page_write_html(const struct dist_page_sources *sources, int64_t wall_ns,
                          struct fg_buf *out);
void dist_page_write_json(const struct dist_page_sources *sources, unsigned what,
                          struct fg_buf *out);

#endif
