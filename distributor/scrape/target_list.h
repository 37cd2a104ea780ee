/* The state of all targets as JSON, in the form of Prometheus' /api/v1/targets with what we know
 * besides. The web page (querier/ui) shows it. */
#ifndef FG_DISTRIBUTOR_SCRAPE_TARGET_LIST_H
#define FG_DISTRIBUTOR_SCRAPE_TARGET_LIST_H

#include "common/base/buf.h"
#include "distributor/scrape/discovery_file.h"
#include "distributor/scrape/discovery_kubernetes.h"

/* Any of them may be NULL. */
struct dist_target_sources {
    struct dist_scrape_pool *targets;
    struct dist_file_discovery *files;
    struct dist_kubernetes_discovery *kubernetes;
};

enum dist_target_list { TARGETS_ACTIVE = 1, TARGETS_DROPPED = 2 };

/* Appends the JSON. On the loop of the sources. what: bits of enum dist_target_list. */
void dist_target_list_write(const struct dist_target_sources *sources, unsigned what,
                            struct fg_buf *out);

#endif
