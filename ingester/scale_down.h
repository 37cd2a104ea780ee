/*
 * Finds out at the stop whether this ingester's pod goes for good, because its StatefulSet has
 * fewer replicas now. Then the ingester leaves the ring and hands over what it holds. In every
 * other case, such as an update or a drained node, the pod comes back with its disk, and the
 * ingester keeps its place.
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

/*
 * Reads a StatefulSet, as the API answers it in JSON: *ret_goes is true if it has so few replicas
 * that the pod with this name is none of them. A set that is being deleted keeps its pods' places:
 * their disks stay. FG_E_INVALID: no StatefulSet, or the pod's name is not of it.
 */
enum fg_code ing_scale_down_read(struct fg_slice document, struct fg_slice pod, bool *ret_goes,
                                 struct fg_err *err) fg_must_check;

/* Asks the API, which may take ten seconds, and logs what it says. False if the settings name no
 * StatefulSet. Any thread that may wait. */
bool ing_scale_down_is_asked(const struct ing_scale_down_settings *settings, const char *pod);

#endif
