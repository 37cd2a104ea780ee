/*
 * What the sources of targets share.
 *
 * A source discovers label sets (Prometheus: "discovered labels"). Labels whose names begin with
 * "__" say how to scrape (target.h); the others describe the target. Static targets and files are
 * lists of groups, as in Prometheus' file_sd; the Kubernetes API gives pods (kubernetes_pod.h).
 *
 * Documents in JSON and YAML are read into one kind of tree, jansson's, so that the code that reads
 * targets and settings from them exists once. YAML scalars are strings, whatever they look like; an
 * empty value ("key:") is null.
 *
 * Thread: any; one at a time for each object.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H
#define FG_DISTRIBUTOR_SCRAPE_DISCOVERY_H

#include "common/base/arena.h"
#include "common/model/labels.h"

#include <jansson.h>

enum { DOCUMENT_DEPTH_MAX = 16 }; /* of nested lists and maps in YAML; ours need four */

/*
 * Parse a text into a tree; release it with json_decref(). name stands for the text in errors.
 * FG_E_INVALID, with name and line: malformed text; duplicate keys; in YAML also aliases, nesting
 * deeper than DOCUMENT_DEPTH_MAX, a NUL, and more than 1 MiB. Empty YAML is null. A tree of JSON
 * may take twenty times the size of the text: the caller limits it.
 */
enum fg_code dist_document_from_json(struct fg_slice text, const char *name, json_t **ret_doc,
                                     struct fg_err *err) fg_must_check;
enum fg_code dist_document_from_yaml(struct fg_slice text, const char *name, json_t **ret_doc,
                                     struct fg_err *err) fg_must_check;

/* Returns the text of a string, borrowed from it; ptr NULL for any other value. */
struct fg_slice dist_document_text(const json_t *value);

/* Returns the text of the member with that name; ptr NULL: it is missing or no string. */
struct fg_slice dist_document_get(const json_t *object, const char *key);

/* Checks that the object has no other keys than the n known ones. FG_E_INVALID: "<what>: unknown
 * key …", with the nearest known key. */
enum fg_code dist_document_check_keys(json_t *object, const char *const *known, size_t n,
                                      const char *what, struct fg_err *err) fg_must_check;

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
