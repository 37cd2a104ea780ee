/*
 * What the Kubernetes API says of pods: pages of a list (core/v1 PodList) and the events of a watch
 * (meta/v1 WatchEvent, one JSON object a line).
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_KUBERNETES_POD_H
#define FG_DISTRIBUTOR_SCRAPE_KUBERNETES_POD_H

#include "common/base/buf.h"
#include "distributor/scrape/discovery.h"
#include "distributor/scrape/profile_kind.h"

/*
 * Adds them. None for a pod that does not ask for it, has no address yet or has come to its end. A
 * profile whose port cannot be told gives a target without address, so that somebody sees it.
 * FG_E_LIMIT.
 */
enum fg_code dist_pod_read(const json_t *pod, const struct dist_profile_kinds *kinds,
                           struct dist_discovered *discovered, struct fg_err *err) fg_must_check;

/* "namespace/name"; false when the object has no such names. */
bool dist_pod_name(const json_t *pod, struct fg_buf *out);

/* A pod and its targets, those from first up to n of `found`; mostly it has none. */
struct dist_pods_entry {
    struct fg_slice name; /* "namespace/name" */
    size_t first, n;
};

/* Everything in the arena of `found`. */
struct dist_pods_page {
    struct dist_discovered *discovered;
    struct fg_slice version;      /* of the list: what a watch begins with */
    struct fg_slice next;         /* where the next page begins; empty: this is the last */
    struct dist_pods_entry *pods; /* those that have targets */
    size_t n_pods;
};

/* FG_E_DECODE, FG_E_LIMIT. dist_pods_page_done() it. */
enum fg_code dist_pods_read_page(struct fg_slice text, const struct dist_profile_kinds *kinds,
                                 struct dist_pods_page *ret_page, struct fg_err *err) fg_must_check;
void dist_pods_page_done(struct dist_pods_page *page); /* zeroed is fine */

enum dist_pods_event_kind {
    PODS_CHANGED, /* added or modified */
    PODS_DELETED,
    PODS_BOOKMARK, /* nothing but a new version */
    PODS_EXPIRED,  /* the version is too old: everything has to be listed again */
};

struct dist_pods_event {
    enum dist_pods_event_kind kind;
    struct dist_discovered *discovered;
    struct fg_slice version;    /* to go on from; empty when it is EXPIRED */
    struct dist_pods_entry pod; /* of CHANGED and DELETED */
};

/* FG_E_DECODE, FG_E_LIMIT; FG_E_UNAVAILABLE: the event is an error, and what it says.
 * dist_pods_event_done() it. */
enum fg_code dist_pods_read_event(struct fg_slice line, const struct dist_profile_kinds *kinds,
                                  struct dist_pods_event *ret_event,
                                  struct fg_err *err) fg_must_check;
void dist_pods_event_done(struct dist_pods_event *event); /* zeroed is fine */

/* What a refused request's body, a meta/v1 Status, says; "" when it is none. */
void dist_pods_read_status(struct fg_slice text, struct fg_buf *out);

#endif
