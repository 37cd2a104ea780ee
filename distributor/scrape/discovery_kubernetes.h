/*
 * Discovers pods of a Kubernetes cluster that ask to be scraped (kubernetes_pod.h). It lists all
 * pods page by page and then watches for changes ("list and watch", https://kubernetes.io/docs,
 * "API concepts"). discovery_kubernetes.c has the drawing.
 *
 * It needs the permission to list and watch pods. Token and CA certificate are those of the pod's
 * service account; they are read again for every request.
 *
 * Thread: the loop's; lists are parsed by jobs on the INGEST lane. Requests use a client of their
 * own, so that a watch event may end scrapes, whose client must not be called from its callbacks.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_DISCOVERY_KUBERNETES_H
#define FG_DISTRIBUTOR_SCRAPE_DISCOVERY_KUBERNETES_H

#include "common/runtime/work.h"
#include "distributor/scrape/scrape_pool.h"

struct dist_kubernetes_discovery;

struct dist_kubernetes_discovery_config {
    struct fg_loop *loop;
    struct fg_work *work;
    struct dist_scrape_pool *targets;
    struct fg_metrics *metrics;
    const struct dist_profile_kinds *kinds;
    const char *api;         /* https://HOST:PORT */
    const char *credentials; /* directory with token and ca.crt */
    const char *namespace;   /* only pods of this namespace; "": of all */
    const char *node;        /* only pods on this node; "": on all */
    const char *selector;    /* label selector as the API takes it; "": all pods */
    int64_t pause_ns;        /* before the next request; doubles with every failure */
};

/* Starts discovery at once. */
struct dist_kubernetes_discovery *
dist_kubernetes_discovery_start(const struct dist_kubernetes_discovery_config *config);

/* Stops discovery. on_stopped() is called when no request and no job runs any more. Destroy it
 * after the loop was stopped. */
void dist_kubernetes_discovery_stop(struct dist_kubernetes_discovery *kubernetes,
                                    void (*on_stopped)(void *arg), void *arg);
void dist_kubernetes_discovery_destroy(
    struct dist_kubernetes_discovery *kubernetes); /* NULL is fine */

/* Returns what it does at the moment, for the list of targets. *ret_error: the last error, NULL if
 * the last request succeeded. */
const char *dist_kubernetes_discovery_state(const struct dist_kubernetes_discovery *kubernetes,
                                            const char **ret_error);

/* Returns the pause after that many failures in a row: up to 32 times pause_ns, plus jitter from
 * `random`. */
int64_t dist_kubernetes_discovery_pause_ns(int64_t pause_ns, unsigned failures, uint64_t random);

#endif
