/*
 * The cluster's time: this machine's clock, corrected if it is wrong. Services compare the times of
 * profiles with "now" and refuse what is too old or too new, and agents drop refused profiles. So a
 * machine whose clock is a day off would lose everything that is sent to it. The object store,
 * which all services share, reports its time in each response; if that differs from the machine's
 * clock by half a minute or more, the store's time is used.
 *
 * A correction needs two responses in a row that agree. The metric flamegrid_clock_offset_seconds
 * shows the last difference (store minus machine), and the condition clock_off is raised while the
 * machine's clock is not used.
 *
 * Thread: any.
 */
#ifndef FG_COMMON_RUNTIME_CLUSTER_CLOCK_H
#define FG_COMMON_RUNTIME_CLUSTER_CLOCK_H

#include "common/base/time.h"
#include "common/runtime/condition.h"

struct fg_cluster_clock;

/* Creates it, equal to `own` at first. own, registry and conditions (NULL: none) are borrowed. */
struct fg_cluster_clock *fg_cluster_clock_create(struct fg_clock *own, struct fg_registry *registry,
                                                 struct fg_conditions *conditions);

/* Frees it. Call it when no thread uses its clocks or scrapes the registry. Accepts NULL. */
void fg_cluster_clock_destroy(struct fg_cluster_clock *cluster);

/* Returns the clock of the cluster's time. Its monotonic time is that of `own`. */
struct fg_clock *fg_cluster_clock(struct fg_cluster_clock *cluster);

/* Returns the clock of the earlier of the cluster's time and `own`. For deletions by age: a clock
 * that is ahead must not delete anything. */
struct fg_clock *fg_cluster_clock_earlier(struct fg_cluster_clock *cluster);

/* Notes that the store reported wall_ns (whole seconds) in the response, which has just arrived, to
 * a request sent at sent_mono_ns. cluster NULL: does nothing. */
void fg_cluster_clock_heard(struct fg_cluster_clock *cluster, int64_t wall_ns,
                            int64_t sent_mono_ns);

#endif
