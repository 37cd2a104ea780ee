/*
 * What a source of targets has found: label sets, in the words of Prometheus "discovered labels".
 * Labels whose names begin with "__" say how to scrape (target.h); the rest describes the target.
 *
 * Two forms are read here: lists of groups (Prometheus' file_sd: https://prometheus.io/docs, "file
 * service discovery"), which static targets have too, and pods of the Kubernetes API (pod.h).
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_FOUND_H
#define FG_DISTRIBUTOR_SCRAPE_FOUND_H

#include "common/base/arena.h"
#include "common/model/labels.h"
#include "distributor/scrape/doc.h"

/* Sorted sets with an address each; all in the arena. */
struct dist_found {
    struct fg_arena *arena;
    struct fg_labels *targets;
    size_t n_targets, cap_targets;
};

struct dist_found *dist_found_create(void);
void dist_found_destroy(struct dist_found *found); /* NULL is fine */
FG_AUTO(dist_found, dist_found_destroy)

/*
 * One more: these labels, of which the last of equal names holds; the texts are in the arena or
 * live as long. FG_E_LIMIT: more than one source may bring.
 */
enum fg_code dist_found_add(struct dist_found *found, const struct fg_labels *labels,
                            struct fg_err *err) fg_must_check;

/*
 * Targets of a list of groups: [{targets: [HOST:PORT, ...], labels: {NAME: VALUE, ...}}, ...]; null
 * has none. FG_E_INVALID says which group is wrong and why; then nothing was added that counts.
 */
enum fg_code dist_found_read_groups(struct dist_found *found, const json_t *groups,
                                    const char *name, struct fg_err *err) fg_must_check;

/* A copy in the arena; FG_E_LIMIT at its end. */
enum fg_code dist_found_copy(struct dist_found *found, struct fg_slice text,
                             struct fg_slice *ret_copy, struct fg_err *err) fg_must_check;

#endif
