/*
 * Where the API of Kubernetes is, as a process in a pod finds it.
 *
 * Source: "Accessing the Kubernetes API from a Pod" of the Kubernetes documentation.
 * Thread: any, while nobody changes the environment.
 */
#ifndef FG_COMMON_NET_KUBERNETES_H
#define FG_COMMON_NET_KUBERNETES_H

#include "common/base/err.h"

enum { FG_KUBERNETES_URL_MAX_BYTES = 1100 }; /* of `given`, or built of an address and a port */

/* The directory that a pod has its token (token) and the CA of the API (ca.crt) in. */
#define FG_KUBERNETES_CREDENTIALS "/var/run/secrets/kubernetes.io/serviceaccount"

/*
 * Writes the URL of the API server, without a path. given: the setting of that name, at most 1,000
 * bytes; empty: of the environment that Kubernetes gives each container. FG_E_INVALID: it is no
 * https URL, or this process is in no pod.
 */
enum fg_code fg_kubernetes_url(const char *given, const char *setting,
                               char out[FG_KUBERNETES_URL_MAX_BYTES],
                               struct fg_err *err) fg_must_check;

#endif
