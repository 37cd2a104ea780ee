/*
 * What a source of targets has found: label sets, in the words of Prometheus "discovered labels".
 * Labels whose names begin with "__" say how to scrape (target.h); the rest describes the target.
 *
 * Two forms are read here: lists of groups (Prometheus' file_sd: https://prometheus.io/docs, "file
 * service discovery"), which static targets have too, and pods of the Kubernetes API (pod.h).
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H
#define FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H

#include "common/base/arena.h"
#include "common/model/labels.h"

#include <jansson.h>

enum { DOCUMENT_DEPTH_MAX = 16 };

/* json_decref() it. name stands for the text in errors. An empty text is null in YAML. JSON costs
 * up to twenty times its size in memory: the caller bounds it. */
enum fg_code dist_document_from_json(struct fg_slice text, const char *name, json_t **ret_doc,
                                     struct fg_err *err) fg_must_check;
enum fg_code dist_document_from_yaml(struct fg_slice text, const char *name, json_t **ret_doc,
                                     struct fg_err *err) fg_must_check;

/* Text of a string, borrowed from it; ptr NULL for anything else. */
struct fg_slice dist_document_text(const json_t *value);

/* Of the member of that name. */
struct fg_slice dist_document_get(const json_t *object, const char *key);

/*
 * FG_E_INVALID when the object has a member that is none of these n words: "<what>: unknown key …",
 * with the nearest known one.
 */
enum fg_code dist_document_check_keys(json_t *object, const char *const *known, size_t n,
                                      const char *what, struct fg_err *err) fg_must_check;

/* Sorted sets with an address each; all in the arena. */
struct dist_discovered {
    struct fg_arena *arena;
    struct fg_labels *targets;
    size_t n_targets, cap_targets;
};

struct dist_discovered *dist_discovered_create(void);
void dist_discovered_destroy(struct dist_discovered *discovered); /* NULL is fine */
FG_AUTO(dist_discovered, dist_discovered_destroy)

/*
 * One more: these labels, of which the last of equal names holds; the texts are in the arena or
 * live as long. FG_E_LIMIT: more than one source may bring.
 */
enum fg_code dist_discovered_add(struct dist_discovered *discovered, const struct fg_labels *labels,
                                 struct fg_err *err) fg_must_check;

/*
 * Targets of a list of groups: [{targets: [HOST:PORT, ...], labels: {NAME: VALUE, ...}}, ...]; null
 * has none. FG_E_INVALID says which group is wrong and why; then nothing was added that counts.
 */
enum fg_code dist_discovered_read_groups(struct dist_discovered *discovered, const json_t *groups,
                                         const char *name, struct fg_err *err) fg_must_check;

/* A copy in the arena; FG_E_LIMIT at its end. */
enum fg_code dist_discovered_copy(struct dist_discovered *discovered, struct fg_slice text,
                                  struct fg_slice *ret_copy, struct fg_err *err) fg_must_check;

#endif
