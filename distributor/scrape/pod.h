/*
 * Targets of a pod, as the Kubernetes API gives it (core/v1 Pod, in JSON). It asks to be scraped by
 * its annotations, for each kind of profile (cpu, memory, goroutine, mutex, block, ...):
 *
 *     profiles.grafana.com/cpu.scrape: "true"
 *     profiles.grafana.com/cpu.port: "8080"        or
 *     profiles.grafana.com/cpu.port_name: http
 *     profiles.grafana.com/cpu.path: /debug/pprof/profile      (where it is not the usual one)
 *     profiles.grafana.com/cpu.scheme: https
 *
 * Kinds at one port are one target. Beside __meta_kubernetes_… of Prometheus' discovery (role
 * "pod") it has the labels that Pyroscope's Helm chart gives: namespace, pod, container, the pod's
 * own labels, and service_name, service_repository, service_git_ref and service_root_path by
 * annotation.
 */
#ifndef FG_DISTRIBUTOR_SCRAPE_POD_H
#define FG_DISTRIBUTOR_SCRAPE_POD_H

#include "common/base/buf.h"
#include "distributor/scrape/found.h"
#include "distributor/scrape/kind.h"

/*
 * Adds them. None for a pod that does not ask for it, has no address yet or has come to its end. A
 * profile whose port cannot be told gives a target without address, so that somebody sees it.
 * FG_E_LIMIT.
 */
enum fg_code dist_pod_read(const json_t *pod, const struct dist_kinds *kinds,
                           struct dist_found *found, struct fg_err *err) fg_must_check;

/* "namespace/name"; false when the object has no such names. */
bool dist_pod_name(const json_t *pod, struct fg_buf *out);

#endif
