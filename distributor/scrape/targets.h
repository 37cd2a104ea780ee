/*
 * All targets of all sources, in groups: static targets, each file, each pod. A group is replaced
 * as a whole; targets that are in it before and after go on as if nothing had happened, and what
 * two groups have is scraped once.
 *
 * Thread: the loop's.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_TARGETS_H
#define FG_DISTRIBUTOR_SCRAPE_TARGETS_H

#include "distributor/scrape/found.h"
#include "distributor/scrape/scrape.h"

struct dist_targets;

struct dist_targets_config {
    struct dist_scrape_context *context; /* borrowed, as are the kinds */
    struct dist_target_config target;
    uint32_t share_index, share_count; /* which of how many distributors this is */
    size_t targets_max;
};

struct dist_targets *dist_targets_create(const struct dist_targets_config *config);

/* No groups are left: dist_targets_end() was called, or none was ever made. NULL is fine. */
void dist_targets_destroy(struct dist_targets *targets);

/* The group is this from now on. trusted: its targets get our token and certificate. */
void dist_targets_update(struct dist_targets *targets, const char *group,
                         const struct dist_found *found, bool trusted);
void dist_targets_remove(struct dist_targets *targets, const char *group);

/* Between these two, groups whose names begin so have to be updated, or they are removed. */
void dist_targets_mark(struct dist_targets *targets, const char *prefix);
void dist_targets_sweep(struct dist_targets *targets, const char *prefix);

/* Removes all of them; what is under way goes on to its end (context->on_gone). */
void dist_targets_end(struct dist_targets *targets);

/* For the page; by group and address. */
struct dist_targets_view {
    const char *group; /* by which it came first */
    const struct dist_target *target;
    struct dist_scrape *const *scrapes;
    uint32_t n_scrapes;
};
void dist_targets_each(struct dist_targets *targets,
                       void (*each)(const struct dist_targets_view *view, void *arg), void *arg);

/* Of those that make no target, the first thousand. */
struct dist_targets_dropped {
    const char *group;
    const struct fg_labels *discovered;
    const char *why;
};
void dist_targets_each_dropped(struct dist_targets *targets,
                               void (*each)(const struct dist_targets_dropped *dropped, void *arg),
                               void *arg);

struct dist_targets_counts {
    size_t active, dropped, elsewhere;
};
struct dist_targets_counts dist_targets_count(const struct dist_targets *targets);

#endif
