"""Rules that all rendered objects keep, whatever the values. Each rule yields its complaints."""

import re

import yaml

from variants import ACCOUNT

WORKLOADS = ("Deployment", "StatefulSet")
# Keys and texts that would be a secret in plain sight.
SECRET_KEY = re.compile(r"^(.*_)?(password|passwd|secret_key|session_token|token|private_key)$", re.I)
SECRET_TEXT = re.compile(r"fgt_[A-Za-z0-9]{8}|-----BEGIN|AKIA[0-9A-Z]{16}")


def name_of(thing):
    return "%s/%s" % (thing["kind"], thing["metadata"]["name"])


def workloads(things):
    return [thing for thing in things if thing["kind"] in WORKLOADS]


def component_of(thing):
    return thing["metadata"]["labels"]["app.kubernetes.io/component"]


def pod_of(thing):
    return thing["spec"]["template"]


def containers_of(thing):
    return pod_of(thing)["spec"]["containers"]


def matches(selector, labels):
    """Whether matchLabels select these labels."""
    return all(labels.get(key) == value for key, value in (selector or {}).items())


def names_are_unique(things):
    seen = set()
    for thing in things:
        key = (thing["apiVersion"].split("/")[0], name_of(thing))
        if key in seen:
            yield "%s is there twice" % name_of(thing)
        seen.add(key)


def names_are_short_enough(things):
    """A label of pods has the name of a StatefulSet and a hash: without room for it there are no pods."""
    for thing in things:
        if len(thing["metadata"]["name"]) > (52 if thing["kind"] == "StatefulSet" else 63):
            yield "%s: %d characters" % (name_of(thing), len(thing["metadata"]["name"]))


def labels_are_complete(things):
    for thing in things:
        for label in ("name", "instance", "component", "part-of", "version", "managed-by"):
            if "app.kubernetes.io/" + label not in thing["metadata"].get("labels", {}):
                yield "%s has no label app.kubernetes.io/%s" % (name_of(thing), label)


def pods_are_restricted(things):
    """The pod security standard "restricted", and more: a root file system that is read-only, and no token that nobody needs."""
    for thing in workloads(things):
        pod = pod_of(thing)["spec"]
        security = pod["securityContext"]
        if not (security["runAsNonRoot"] is True and security.get("runAsUser", 1) > 0 and security["seccompProfile"] == {"type": "RuntimeDefault"}):
            yield "%s: security context of the pod" % name_of(thing)
        if security["fsGroupChangePolicy"] != "OnRootMismatch" or pod["automountServiceAccountToken"] is not False or pod["enableServiceLinks"] is not False:
            yield "%s: groups of files, token or service links" % name_of(thing)
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod.get(field):
                yield "%s: %s" % (name_of(thing), field)
        for container in pod["containers"] + pod.get("initContainers", []):
            if container["securityContext"] != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}:
                yield "%s: security context of %s" % (name_of(thing), container["name"])
            if any("hostPort" in port for port in container.get("ports", [])):
                yield "%s: a port of the host" % name_of(thing)
        ours = component_of(thing) in ("ingester", "scraper")
        tokens = [source for volume in pod.get("volumes", []) for source in volume.get("projected", {}).get("sources", []) if "serviceAccountToken" in source]
        if len(tokens) > ours or any(token["serviceAccountToken"]["expirationSeconds"] > 3600 for token in tokens):
            yield "%s: a token for the API server" % name_of(thing)
        for volume in pod.get("volumes", []):
            kinds = set(volume) - {"name"}
            if not kinds <= {"configMap", "secret", "projected", "emptyDir", "ephemeral"}:
                yield "%s: volume %s" % (name_of(thing), volume)
            if volume.get("secret", volume.get("projected", {"defaultMode": 0o440}))["defaultMode"] != 0o440:
                yield "%s: others may read %s" % (name_of(thing), volume["name"])


def pods_are_complete(things):
    """Probes, resources, spread and the labels that find the pods."""
    for thing in workloads(things):
        component = component_of(thing)
        pod = pod_of(thing)
        if not matches(thing["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]):
            yield "%s: the selector does not match the pods" % name_of(thing)
        if pod["spec"]["terminationGracePeriodSeconds"] < 60:
            yield "%s: %d s to stop" % (name_of(thing), pod["spec"]["terminationGracePeriodSeconds"])
        container = containers_of(thing)[0]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if container[probe]["httpGet"]["port"] not in ports:
                yield "%s: %s asks a port that is not there" % (name_of(thing), probe)
        if component != "canary" and container["livenessProbe"]["httpGet"]["path"] != "/healthz":
            yield "%s: liveness depends on more than the process" % name_of(thing)
        resources = container["resources"]
        if not (resources["requests"]["cpu"] and resources["requests"]["memory"] and resources["limits"]["memory"]):
            yield "%s: resources" % name_of(thing)
        if component not in ("single", "canary"):
            hosts = [rule for rule in pod["spec"]["topologySpreadConstraints"] if rule["topologyKey"] == "kubernetes.io/hostname"]
            if len(hosts) != 1 or (component == "ingester") != (hosts[0]["whenUnsatisfiable"] == "DoNotSchedule"):
                yield "%s: spread among hosts" % name_of(thing)
            for rule in pod["spec"]["topologySpreadConstraints"]:
                if not matches(rule["labelSelector"]["matchLabels"], pod["metadata"]["labels"]):
                    yield "%s: the spread is of other pods" % name_of(thing)
        declared = {volume["name"] for volume in pod["spec"].get("volumes", [])}
        declared |= {claim["metadata"]["name"] for claim in thing["spec"].get("volumeClaimTemplates", [])}
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in declared:
                yield "%s: there is no volume %s" % (name_of(thing), mount["name"])
        paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
        for path in paths:
            if any(other != path and other.startswith(path + "/") for other in paths):
                yield "%s: a volume is mounted below another one, %s" % (name_of(thing), path)


def sets_with_data_are_not_pruned(things):
    """The disks of ingesters and single servers have profiles that no object store has yet."""
    for thing in workloads(things):
        if component_of(thing) not in ("ingester", "single"):
            continue
        annotations = thing["metadata"].get("annotations", {})
        if annotations.get("argocd.argoproj.io/sync-options") != "Prune=false":
            yield "%s: Argo CD deletes it when values do not name it any more" % name_of(thing)
        if annotations.get("kustomize.toolkit.fluxcd.io/prune") != "disabled":
            yield "%s: Flux deletes it when values do not name it any more" % name_of(thing)


def references_lead_somewhere(things):
    """Objects that others name are there: services, config maps, accounts, workloads, issuers."""
    known = {name_of(thing) for thing in things}
    made = {thing["spec"]["secretName"] for thing in things if thing["kind"] == "Certificate"}
    for thing in things:
        wanted = []
        if thing["kind"] in WORKLOADS:
            pod = pod_of(thing)["spec"]
            wanted += ["ConfigMap/" + volume["configMap"]["name"] for volume in pod.get("volumes", []) if "configMap" in volume]
            if pod["serviceAccountName"] not in ("default", ACCOUNT):
                wanted.append("ServiceAccount/" + pod["serviceAccountName"])
            if thing["kind"] == "StatefulSet":
                wanted.append("Service/" + thing["spec"]["serviceName"])
            for volume in pod.get("volumes", []):
                secret = volume.get("secret", {}).get("secretName", "")
                if "-rpc-" in secret and secret not in made:
                    yield "%s: nobody makes the secret %s" % (name_of(thing), secret)
        elif thing["kind"] == "HorizontalPodAutoscaler":
            wanted.append("Deployment/" + thing["spec"]["scaleTargetRef"]["name"])
        elif thing["kind"] in ("HTTPRoute", "GRPCRoute"):
            wanted += ["Service/" + backend["name"] for rule in thing["spec"]["rules"] for backend in rule["backendRefs"]]
        elif thing["kind"] == "Ingress":
            wanted += ["Service/" + path["backend"]["service"]["name"] for rule in thing["spec"]["rules"] for path in rule["http"]["paths"]]
        elif thing["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            wanted.append("%s/%s" % (thing["roleRef"]["kind"], thing["roleRef"]["name"]))
        for name in wanted:
            if name not in known:
                yield "%s: there is no %s" % (name_of(thing), name)


def selectors_find_pods(things):
    """Services, budgets, policies and monitors are about pods that are there, and about ports that these have."""
    for thing in things:
        spec = thing.get("spec", {})
        if thing["kind"] == "Service":
            selector, ports = spec["selector"], [port["targetPort"] for port in spec["ports"]]
        elif thing["kind"] in ("PodDisruptionBudget", "PodMonitor"):
            selector, ports = spec["selector"]["matchLabels"], [end["port"] for end in spec.get("podMetricsEndpoints", [])]
        elif thing["kind"] == "NetworkPolicy":
            selector, ports = spec["podSelector"]["matchLabels"], [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
        elif thing["kind"] == "ServiceMonitor":
            services = [other for other in things if other["kind"] == "Service" and matches(spec["selector"]["matchLabels"], other["metadata"]["labels"])]
            if len(services) != 1 or spec["endpoints"][0]["port"] not in [port["name"] for port in services[0]["spec"]["ports"]]:
                yield "%s finds %d services" % (name_of(thing), len(services))
            continue
        else:
            continue
        found = [work for work in workloads(things) if matches(selector, pod_of(work)["metadata"]["labels"])]
        if not found:
            yield "%s selects no pods" % name_of(thing)
        if len({component_of(work) for work in found}) > 1:
            yield "%s selects pods of several parts" % name_of(thing)
        for work in found:
            names = {port["name"] for port in containers_of(work)[0]["ports"]}
            for port in ports:
                if port not in names:
                    yield "%s: %s has no port %s" % (name_of(thing), name_of(work), port)


def every_pod_has_a_policy(things):
    if not any(thing["kind"] == "NetworkPolicy" for thing in things):
        return
    for work in workloads(things):
        policies = [thing for thing in things if thing["kind"] == "NetworkPolicy" and
                    matches(thing["spec"]["podSelector"]["matchLabels"], pod_of(work)["metadata"]["labels"])]
        if len(policies) != 1 or policies[0]["spec"]["policyTypes"] != ["Ingress", "Egress"]:
            yield "%s has %d network policies" % (name_of(work), len(policies))


def secrets_are_references(things):
    """No object is a Secret, and no value looks like one."""
    def look(at, value):
        if isinstance(value, dict):
            for key, below in value.items():
                if SECRET_KEY.match(str(key)) and isinstance(below, str) and below:
                    yield "%s: %s has a value" % (at, key)
                yield from look(at, below)
        elif isinstance(value, list):
            for below in value:
                yield from look(at, below)
        elif isinstance(value, str):
            if SECRET_TEXT.search(value):
                yield "%s: a secret" % at
            if "\n" in value and at.startswith("ConfigMap/") and "dashboard" not in at:
                yield from look(at, yaml.safe_load(value))

    for thing in things:
        if thing["kind"] == "Secret":
            yield "%s: secrets are made by their owners" % name_of(thing)
        yield from look(name_of(thing), thing)


RULES = (names_are_unique, names_are_short_enough, labels_are_complete, pods_are_restricted, pods_are_complete, sets_with_data_are_not_pruned,
         references_lead_somewhere, selectors_find_pods, every_pod_has_a_policy, secrets_are_references)


def complaints(things):
    return [complaint for rule in RULES for complaint in rule(things)]
