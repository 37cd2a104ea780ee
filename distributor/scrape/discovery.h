/*
 * What the sources of targets share.
 *
 * A source discovers label sets (Prometheus: "discovered labels"). Labels whose names begin with
 * "__" say how to scrape (target.h); the others describe the target. Static targets and files are
 * lists of groups, as in Prometheus' file_sd; the Kubernetes API gives pods (kubernetes_pod.h).
 *
 * Thread: any; one at a time for each object.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H
#define FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H

#include "common/base/arena.h"
#include "common/model/labels.h"
#include "common/runtime/document.h"

/* Label sets, each sorted and with an address; all in the arena. */
struct dist_discovered {
    struct fg_arena *arena;
    struct fg_labels *targets;
    size_t n_targets, cap_targets;
};

/* Creates an empty list. Never fails. */
struct dist_discovered *dist_discovered_create(void);
void dist_discovered_destroy(struct dist_discovered *discovered); /* NULL is fine */
FG_AUTO(dist_discovered, dist_discovered_destroy)

/*
 * Adds a label set. Of equal names the last one counts. The texts live at least as long as the
 * arena. FG_E_LIMIT: the source has too many targets.
 */
enum fg_code dist_discovered_add(struct dist_discovered *discovered, const struct fg_labels *labels,
                                 struct fg_err *err) fg_must_check;

/*
 * Adds the targets of a list of groups: [{targets: [HOST:PORT, ...], labels: {NAME: VALUE, ...}},
 * ...]; null is an empty list. FG_E_INVALID: which group is invalid and why; what was added before
 * it is to be discarded.
 */
enum fg_code dist_discovered_read_groups(struct dist_discovered *discovered, const json_t *groups,
                                         const char *name, struct fg_err *err) fg_must_check;

/* Copies a text into the arena. FG_E_LIMIT: the arena is full. */
enum fg_code dist_discovered_copy(struct dist_discovered *discovered, struct fg_slice text,
                                  struct fg_slice *ret_copy, struct fg_err *err) fg_must_check;

#endif
