/*
 * Finds out at the stop whether this ingester's pod comes back. If its StatefulSet has fewer
 * replicas now, the ingester leaves the ring and hands over what it holds. If the StatefulSet is
 * deleted, all of its pods stop at once, and none waits until another one is back. In every other
 * case, such as an update or a drained node, the pod comes back with its disk, and the ingester
 * keeps its place.
 *
 * Asked of the API at SIGTERM rather than in a preStop hook: it is one request less that can fail,
 * and the same time of grace. Whatever goes wrong means that the ingester keeps its place, which
 * loses nothing; an operator removes the member then (deploy/operations).
 *
 * Source: "StatefulSets", Ordinal Index and Start ordinal, of the Kubernetes documentation.
 */
#ifndef FG_INGESTER_SCALE_DOWN_H
#define FG_INGESTER_SCALE_DOWN_H

#include "common/runtime/config.h"

/* Settings, section "ingester.kubernetes". */
struct ing_scale_down_settings {
    char *statefulset, *namespace, *api, *credentials;
};

extern const struct fg_conf_field ing_scale_down_fields[];
extern const size_t ing_scale_down_n_fields;

/* What becomes of the pod of an ingester after its stop. */
enum ing_pod_fate {
    ING_POD_RETURNS,     /* after an update, or on another node; also if nobody can tell */
    ING_POD_GOES,        /* its StatefulSet has fewer replicas now */
    ING_POD_SET_DELETED, /* with all pods of its StatefulSet, whose disks stay */
};

/* Reads a StatefulSet, as the API answers it in JSON, for the pod with this name. FG_E_INVALID: no
 * StatefulSet, or the pod's name is not of it. */
enum fg_code ing_scale_down_read(struct fg_slice document, struct fg_slice pod,
                                 enum ing_pod_fate *ret_fate, struct fg_err *err) fg_must_check;

/* Returns whether the API answers, which may take ten seconds, and logs why not. False if the
 * settings name no StatefulSet. For the start. Any thread that may wait. */
bool ing_scale_down_may_ask(const struct ing_scale_down_settings *settings, const char *pod);

/*
 * Asks the API, which may take ten seconds, and logs what it says. may_ask: what
 * ing_scale_down_may_ask() returned at the start; if the API refuses now what it allowed then, the
 * permission has been deleted right after the StatefulSet, as `helm uninstall` does. Any thread
 * that may wait.
 */
enum ing_pod_fate ing_scale_down_ask(const struct ing_scale_down_settings *settings,
                                     const char *pod, bool may_ask);

#endif
