/*
 * Reads what the Kubernetes API says of pods: pages of a list (core/v1 PodList) and the events of a
 * watch (meta/v1 WatchEvent, one JSON object per line). Pure: no I/O, no clock.
 *
 * A pod asks to be scraped by annotations, for each kind of profile (cpu, memory, goroutine, mutex,
 * block, ...):
 *
 *     profiles.grafana.com/cpu.scrape: "true"
 *     profiles.grafana.com/cpu.port: "8080"        or
 *     profiles.grafana.com/cpu.port_name: http
 *     profiles.grafana.com/cpu.path: /debug/pprof/profile      (if it is not the default)
 *     profiles.grafana.com/cpu.scheme: https
 *
 * Kinds at one port are one target. In addition to __meta_kubernetes_… of Prometheus' role "pod" a
 * target has the labels that Pyroscope's Helm chart adds: namespace, pod, container, the pod's own
 * labels, and service_name, service_repository, service_git_ref and service_root_path from
 * annotations.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_KUBERNETES_POD_H
#define FG_DISTRIBUTOR_SCRAPE_KUBERNETES_POD_H

#include "common/base/buf.h"
#include "distributor/scrape/discovery.h"
#include "distributor/scrape/profile_kind.h"

/*
 * Adds the targets of a pod: none if it does not ask to be scraped, has no address yet, or has
 * ended. A kind whose port is unknown gives a target without an address, which the status page
 * shows as dropped. FG_E_LIMIT: too many targets.
 */
enum fg_code dist_pod_read(const json_t *pod, const struct dist_profile_kinds *kinds,
                           struct dist_discovered *discovered, struct fg_err *err) fg_must_check;

/* Appends "namespace/name". Returns false if the object has no such names. */
bool dist_pod_name(const json_t *pod, struct fg_buf *out);

/* A pod and its targets: n of `discovered`, from index `first`. Most pods have none. */
struct dist_pods_entry {
    struct fg_slice name; /* "namespace/name" */
    size_t first, n;
};

/* A page of a list. Everything lives in the arena of `discovered`. */
struct dist_pods_page {
    struct dist_discovered *discovered;
    struct fg_slice version;      /* of the list: a watch starts from it */
    struct fg_slice next;         /* continue token of the next page; empty: this is the last */
    struct dist_pods_entry *pods; /* those that have targets */
    size_t n_pods;
};

/* Reads a page; release it with dist_pods_page_done(). FG_E_DECODE, FG_E_LIMIT. */
enum fg_code dist_pods_read_page(struct fg_slice text, const struct dist_profile_kinds *kinds,
                                 struct dist_pods_page *ret_page, struct fg_err *err) fg_must_check;
void dist_pods_page_done(struct dist_pods_page *page); /* zeroed is fine */

enum dist_pods_event_kind {
    PODS_CHANGED, /* added or modified */
    PODS_DELETED,
    PODS_BOOKMARK, /* nothing but a new version */
    PODS_EXPIRED,  /* the version is too old: list all pods again */
};

struct dist_pods_event {
    enum dist_pods_event_kind kind;
    struct dist_discovered *discovered;
    struct fg_slice version;    /* to continue from; empty for EXPIRED */
    struct dist_pods_entry pod; /* of CHANGED and DELETED */
};

/* Reads an event; release it with dist_pods_event_done(). FG_E_DECODE, FG_E_LIMIT.
 * FG_E_UNAVAILABLE: the event is an error, with its message. */
enum fg_code dist_pods_read_event(struct fg_slice line, const struct dist_profile_kinds *kinds,
                                  struct dist_pods_event *ret_event,
                                  struct fg_err *err) fg_must_check;
void dist_pods_event_done(struct dist_pods_event *event); /* zeroed is fine */

/* Appends the message of a meta/v1 Status, the body of a refused request; nothing if it is none. */
void dist_pods_read_status(struct fg_slice text, struct fg_buf *out);

#endif
