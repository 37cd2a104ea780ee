/*
 * All targets of all sources, in groups: static targets, each file, each pod. A group is replaced
 * as a whole; targets that are in it before and after go on as if nothing had happened, and what
 * two groups have is scraped once.
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

/* No groups are left: dist_scrape_pool_end() was called, or none was ever made. NULL is fine. */
void dist_scrape_pool_destroy(struct dist_scrape_pool *targets);

/* The group is this from now on. trusted: its targets get our token and certificate. */
void dist_scrape_pool_update(struct dist_scrape_pool *targets, const char *group,
                             const struct dist_discovered *discovered, bool trusted);
void dist_scrape_pool_remove(struct dist_scrape_pool *targets, const char *group);

/* Between these two, groups whose names begin so have to be updated, or they are removed. */
void dist_scrape_pool_mark(struct dist_scrape_pool *targets, const char *prefix);
void dist_scrape_pool_sweep(struct dist_scrape_pool *targets, const char *prefix);

/* Removes all of them; what is under way goes on to its end (context->on_gone). */
void dist_scrape_pool_end(struct dist_scrape_pool *targets);

/* For the page; by group and address. */
struct dist_scrape_pool_view {
    const char *group; /* by which it came first */
    const struct dist_target *target;
    struct dist_scrape_loop *const *scrapes;
    uint32_t n_scrapes;
};
void dist_scrape_pool_each(struct dist_scrape_pool *targets,
                           void (*each)(const struct dist_scrape_pool_view *view, void *arg),
                           void *arg);

/* Of those that make no target, the first thousand. */
struct dist_scrape_pool_dropped {
    const char *group;
    const struct fg_labels *discovered;
    const char *why;
};
void dist_scrape_pool_each_dropped(struct dist_scrape_pool *targets,
                                   void (*each)(const struct dist_scrape_pool_dropped *dropped,
                                                void *arg),
                                   void *arg);

struct dist_scrape_pool_counts {
    size_t active, dropped, elsewhere;
};
struct dist_scrape_pool_counts dist_scrape_pool_count(const struct dist_scrape_pool *targets);

#endif
