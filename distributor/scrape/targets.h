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

struct targets;

struct targets_config {
    struct scrape_context *context; /* borrowed, as are the kinds */
    struct target_config target;
    uint32_t share_index, share_count; /* which of how many distributors this is */
    size_t targets_max;
};

struct targets *targets_create(const struct targets_config *config);

/* No groups are left: targets_end() was called, or none was ever made. NULL is fine. */
void targets_destroy(struct targets *targets);

/* The group is this from now on. trusted: its targets get our token and certificate. */
void targets_update(struct targets *targets, const char *group, const struct found *found,
                    bool trusted);
void targets_remove(struct targets *targets, const char *group);

/* Between these two, groups whose names begin so have to be updated, or they are removed. */
void targets_mark(struct targets *targets, const char *prefix);
void targets_sweep(struct targets *targets, const char *prefix);

/* Removes all of them; what is under way goes on to its end (context->on_gone). */
void targets_end(struct targets *targets);

/* For the page; by group and address. */
struct targets_view {
    const char *group; /* by which it came first */
    const struct target *target;
    struct scrape *const *scrapes;
    uint32_t n_scrapes;
};
void targets_each(struct targets *targets, void (*each)(const struct targets_view *view, void *arg),
                  void *arg);

/* Of those that make no target, the first thousand. */
struct targets_dropped {
    const char *group;
    const struct fg_labels *discovered;
    const char *why;
};
void targets_each_dropped(struct targets *targets,
                          void (*each)(const struct targets_dropped *dropped, void *arg),
                          void *arg);

struct targets_counts {
    size_t active, dropped, elsewhere;
};
struct targets_counts targets_count(const struct targets *targets);

#endif
