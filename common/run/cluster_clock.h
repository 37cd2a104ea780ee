/*
 * The cluster's time: this machine's clock, unless it is off. What stores profiles compares their
 * times with "now", and agents drop what is refused as too old or too new; so one machine whose
 * clock is a day off would lose all that is sent to it. The object store, which all services share,
 * says its time in each answer; where that differs by half a minute or more, it counts.
 *
 * One answer alone changes nothing: two in a row have to agree. The metric
 * flamegrid_clock_offset_seconds has what was heard last (the store's time minus ours), and the
 * condition clock_off says that ours is not used.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_RUN_CLUSTER_CLOCK_H
#define FG_COMMON_RUN_CLUSTER_CLOCK_H

#include "common/base/time.h"
#include "common/run/condition.h"

struct fg_cluster_clock;

/* Makes one that goes as `own` does. own, registry and conditions (NULL: none) are borrowed. */
struct fg_cluster_clock *fg_cluster_clock_create(struct fg_clock *own, struct fg_registry *registry,
                                                 struct fg_conditions *conditions);

/* Frees it; nobody asks its clocks any more, nor scrapes the registry. NULL is fine. */
void fg_cluster_clock_destroy(struct fg_cluster_clock *cluster);

/* Returns the clock that says the cluster's time. Monotonic time is that of `own`. */
struct fg_clock *fg_cluster_clock(struct fg_cluster_clock *cluster);

/* Returns the clock that says the earlier one of the cluster's time and our own: for what is
 * deleted by its age, which must not go because one clock is ahead. */
struct fg_clock *fg_cluster_clock_earlier(struct fg_cluster_clock *cluster);

/* Takes note that somebody who keeps the cluster's time said it was wall_ns (whole seconds) in
 * answer to a request that was sent at sent_mono_ns and has been answered now. cluster NULL:
 * nothing. */
void fg_cluster_clock_heard(struct fg_cluster_clock *cluster, int64_t wall_ns,
                            int64_t sent_mono_ns);

#endif
