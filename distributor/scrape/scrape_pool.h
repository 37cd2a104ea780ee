/*
 * All targets of all sources, in groups: the static targets, each file, each pod. An update
 * replaces a whole group. Targets that are in it before and after keep their scrape loops, and a
 * target of two groups is scraped once.
 *
 * Thread: the loop's.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_SCRAPE_POOL_H
#define FG_DISTRIBUTOR_SCRAPE_SCRAPE_POOL_H

#include "distributor/scrape/discovery.h"
#include "distributor/scrape/scrape_loop.h"

struct dist_scrape_pool;

struct dist_scrape_pool_config {
    struct dist_scrape_context *context; /* borrowed, as are the kinds */
    struct dist_target_config target;
    uint32_t share_index, share_count; /* which of how many distributors this is */
    size_t targets_max;
};

struct dist_scrape_pool *dist_scrape_pool_create(const struct dist_scrape_pool_config *config);

/* Frees it, without groups: after dist_scrape_pool_end(), or if there never were any. NULL is fine.
 */
void dist_scrape_pool_destroy(struct dist_scrape_pool *targets);

/* Replaces the targets of a group. trusted: its targets get our token and certificate. */
void dist_scrape_pool_update(struct dist_scrape_pool *targets, const char *group,
                             const struct dist_discovered *discovered, bool trusted);
void dist_scrape_pool_remove(struct dist_scrape_pool *targets, const char *group);

/* Removes, in the sweep, the groups whose names begin with prefix and that were not updated since
 * the mark. */
void dist_scrape_pool_mark(struct dist_scrape_pool *targets, const char *prefix);
void dist_scrape_pool_sweep(struct dist_scrape_pool *targets, const char *prefix);

/* Removes all groups. Scrapes in progress go on until they end (context->on_gone). */
void dist_scrape_pool_end(struct dist_scrape_pool *targets);

/* A target, for the status page. */
struct dist_scrape_pool_view {
    const char *group; /* the first that has it */
    const struct dist_target *target;
    struct dist_scrape_loop *const *scrapes;
    uint32_t n_scrapes;
};
/* Calls each() for every target, by group and address. */
void dist_scrape_pool_each(struct dist_scrape_pool *targets,
                           void (*each)(const struct dist_scrape_pool_view *view, void *arg),
                           void *arg);

/* A label set that makes no target. */
struct dist_scrape_pool_dropped {
    const char *group;
    const struct fg_labels *discovered;
    const char *why;
};
/* Calls each() for the dropped label sets, at most a thousand. */
void dist_scrape_pool_each_dropped(struct dist_scrape_pool *targets,
                                   void (*each)(const struct dist_scrape_pool_dropped *dropped,
                                                void *arg),
                                   void *arg);

struct dist_scrape_pool_counts {
    size_t active, dropped, elsewhere;
};
struct dist_scrape_pool_counts dist_scrape_pool_count(const struct dist_scrape_pool *targets);

#endif
