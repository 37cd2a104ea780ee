/*
 * Pods of a Kubernetes cluster that ask to be scraped (pod.h): its API is asked for a list, page by
 * page, and then told to tell of changes ("list and watch", https://kubernetes.io/docs, "API
 * concepts"). See the drawing in kubernetes.c.
 *
 * Needs the right to list and watch pods; the token and the API's certificate are those of the
 * pod's service account, and read again with every request.
 *
 * Thread: the loop's; lists are read by jobs on the INGEST lane. Requests have a client of their
 * own, so that scrapes may be ended while a change is told.
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
    const char *credentials; /* folder with token and ca.crt */
    const char *namespace;   /* only pods of this one; "": of all */
    const char *node;        /* only pods on this one; "": on all */
    const char *selector;    /* of labels, in the API's words; "": all pods */
    int64_t pause_ns;        /* before asking again; longer with every failure */
};

/* Begins at once. */
struct dist_kubernetes_discovery *
dist_kubernetes_discovery_start(const struct dist_kubernetes_discovery_config *config);

/* Ends it; on_stopped() comes when nothing is under way any more.
 * dist_kubernetes_discovery_destroy() it after the loop was stopped. */
void dist_kubernetes_discovery_stop(struct dist_kubernetes_discovery *kubernetes,
                                    void (*on_stopped)(void *arg), void *arg);
void dist_kubernetes_discovery_destroy(
    struct dist_kubernetes_discovery *kubernetes); /* NULL is fine */

/* For the page: what it does at the moment, and what went wrong last; NULL: nothing since it went
 * well. */
const char *dist_kubernetes_discovery_state(const struct dist_kubernetes_discovery *kubernetes,
                                            const char **ret_error);

/* How long to wait after that many failures in a row: up to 32 times as long as after none, and not
 * the same for everybody. */
int64_t dist_kubernetes_discovery_pause_ns(int64_t pause_ns, unsigned failures, uint64_t random);

#endif
