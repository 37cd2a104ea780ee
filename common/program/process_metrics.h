/*
 * Shows what the process itself uses: memory, processor time, file descriptors, under the names
 * that Prometheus' client libraries give them, so that dashboards of every program fit; its memory
 * budget and its version.
 *
 * Thread: creation and end on the main thread; scrapes read /proc on theirs.
 */
#ifndef FG_COMMON_PROGRAM_PROCESS_METRICS_H
#define FG_COMMON_PROGRAM_PROCESS_METRICS_H

#include "common/runtime/metrics.h"

struct fg_process_metrics;

/* Registers the metrics. registry is borrowed and outlives them. memory_max_bytes: the budget of
 * the process. Never fails. */
struct fg_process_metrics *fg_process_metrics_create(struct fg_registry *registry,
                                                     uint64_t memory_max_bytes);
/* Removes the metrics. Accepts NULL. Not from a hook of a scrape. */
void fg_process_metrics_destroy(struct fg_process_metrics *process);

#endif
