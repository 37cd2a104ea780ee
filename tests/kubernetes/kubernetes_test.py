#!/usr/bin/env python3
"""The Helm chart: what it renders is valid, safe and complete, and our programs start with it.

    kubernetes_test.py [-k REGEX] [--write] [--all]

--write brings deploy/kubernetes up to date. --all has the tools that take minutes to build, too: Helm 4 and kube-score.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

import installed
import pods
import rules
import tools
from variants import ACCOUNT, CLUSTER, DIGEST, REFUSED, VARIANTS, cluster

import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

MANIFESTS = os.path.join(tools.ROOT, "deploy", "kubernetes")
EXAMPLES = os.path.join(tools.ROOT, "deploy", "helm", "examples")
RENDERED = {"cluster.yaml": {"settings": {"bucket": {"type": "s3", "s3": {"bucket": "flamegrid", "endpoint": "https://s3.example.com"}}},
                             "bucket": {"existingSecret": "flamegrid-bucket"}},
            "single.yaml": {"mode": "single"}}
HEADER = """# Made by tests/kubernetes/run --write from the chart deploy/helm/flamegrid: change that one. For Kubernetes 1.%d and later.
""" % tools.USUAL
# Kinds that Kubernetes does not know by itself.
OTHERS = ("Certificate", "Issuer", "HTTPRoute", "GRPCRoute", "PodMonitor", "ServiceMonitor", "PrometheusRule", "ScaledObject")


class Chart:
    """The chart rendered with each set of values, once."""

    def __init__(self):
        self.helm = tools.build("helm3")
        self.texts = {}
        self.accepted = set()  # programs and the settings with which they start

    def text(self, name, minor=tools.USUAL):
        values, oldest = VARIANTS[name]
        minor = max(minor, oldest)
        if (name, minor) not in self.texts:
            self.texts[name, minor] = tools.render(self.helm, values, minor)
        return self.texts[name, minor]

    def objects(self, name, minor=tools.USUAL):
        return tools.objects(self.text(name, minor))


def find(things, kind, component):
    found = [thing for thing in things if thing["kind"] == kind and rules.component_of(thing) == component]
    check(len(found) == 1, "%d objects %s of %s", len(found), kind, component)
    return found[0]


def settings_of(things, part):
    return yaml.safe_load(find(things, "ConfigMap", part)["data"]["flamegrid.yaml"])


# ---- what is rendered ----

def case_rules(chart, name):
    faults = rules.complaints(chart.objects(name))
    check(not faults, "%s", "\n".join(faults))


def case_refused(chart, name):
    values, said = REFUSED[name]
    try:
        tools.render(chart.helm, values)
    except tools.Refused as fault:
        check(said in str(fault), "%s", fault)
        check("nil pointer" not in str(fault), "%s", fault)
    else:
        raise AssertionError("rendered")


def conforms(kubeconform, folder, minor):
    done = subprocess.run([kubeconform, "-strict", "-summary", "-output", "json", "-kubernetes-version", "1.%d.0" % minor, "-skip", ",".join(OTHERS),
                           "-schema-location", os.path.join(tools.schemas(), "v1.%d" % minor, "{{.ResourceKind}}{{.KindSuffix}}.json"), folder],
                          capture_output=True, text=True, timeout=120)
    said = json.loads(done.stdout)
    check(done.returncode == 0 and said["summary"]["valid"] > 0, "%s", done.stdout[-3000:] + done.stderr[-500:])


# Whose objects differ from version to version.
BY_VERSION = ("cluster", "single", "zones", "scrapers", "pod certificates")


def case_schemas(chart, minor):
    """All objects are valid for a version of Kubernetes: with all values for the usual one, for the others with those that differ."""
    names = [name for name, (_, oldest) in VARIANTS.items() if oldest <= minor and (minor == tools.USUAL or name in BY_VERSION)]
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(names):
            with open(os.path.join(folder, "%d.yaml" % number), "w", encoding="utf-8") as file:
                file.write(chart.text(name, minor))
        for number, path in enumerate(glob.glob(os.path.join(EXAMPLES, "*.yaml"))):
            shutil.copy(path, os.path.join(folder, "example%d.yaml" % number))
        conforms(tools.build("kubeconform"), folder, minor)


def case_schemas_refuse_what_there_is_not(chart):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "wrong.yaml"), "w", encoding="utf-8") as file:
            file.write(chart.text("cluster").replace("minReadySeconds:", "minReadyMinutes:"))
        try:
            conforms(tools.build("kubeconform"), folder, tools.USUAL)
        except AssertionError as fault:
            check("minReadyMinutes" in str(fault), "%s", fault)
        else:
            raise AssertionError("a field that there is not was valid")


def rendered(chart, values):
    return HEADER + tools.render(chart.helm, values, release="flamegrid", namespace="flamegrid")


def case_manifests(chart):
    """deploy/kubernetes is what the chart renders."""
    for name, values in RENDERED.items():
        with open(os.path.join(MANIFESTS, name), encoding="utf-8") as file:
            check(file.read() == rendered(chart, values), "deploy/kubernetes/%s: bring it up to date with tests/kubernetes/run --write", name)


def case_render_is_stable(chart):
    """A second time gives the same: tools that compare with the cluster see no changes."""
    for name in ("cluster", "cert-manager"):
        check(chart.text(name) == tools.render(chart.helm, VARIANTS[name][0]), "%s", name)


def case_overlay_and_examples(chart):
    """What the example of an overlay changes is in the manifests, and examples send to services that the chart makes."""
    with open(os.path.join(MANIFESTS, "cluster.yaml"), encoding="utf-8") as file:
        things = tools.objects(file.read())
    known = {(thing["kind"], thing["metadata"]["name"]) for thing in things}
    with open(os.path.join(MANIFESTS, "overlay", "kustomization.yaml"), encoding="utf-8") as file:
        overlay = yaml.safe_load(file)
    check(overlay["resources"] == ["../cluster.yaml"], "%s", overlay["resources"])
    check({image["name"] for image in overlay["images"]} == {"flamegrid"}, "%s", overlay["images"])
    # The manifests name keys, which come before a role.
    check(not any(patch["target"]["kind"] == "ServiceAccount" for patch in overlay["patches"]), "a role that nothing uses")
    for patch in overlay["patches"]:
        target = (patch["target"]["kind"], patch["target"]["name"])
        check(target in known, "there is no %s", target)
        thing = next(thing for thing in things if (thing["kind"], thing["metadata"]["name"]) == target)
        for operation in yaml.safe_load(patch["patch"]):
            place = thing
            for key in operation["path"].strip("/").split("/")[:None if operation["op"] == "replace" else -1]:
                key = key.replace("~1", "/")
                place = place[int(key)] if isinstance(place, list) else place[key]
    hosts = {"%s.flamegrid.svc" % thing["metadata"]["name"] for thing in things if thing["kind"] == "Service"}
    for path in glob.glob(os.path.join(EXAMPLES, "*.yaml")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        used = set(re.findall(r"[a-z-]+\.flamegrid\.svc", text))
        check(used <= hosts and (used or os.path.basename(path) not in ("alloy.yaml", "collector.yaml")), "%s: %s", path, used)
        # CRI-O starts no container with less than 12 MiB.
        limits = re.findall(r"limits: \{[^}]*memory: (\d+)Mi", text)
        check(all(int(limit) >= 16 for limit in limits), "%s: %s", path, limits)
    with open(os.path.join(EXAMPLES, "keda.yaml"), encoding="utf-8") as file:
        scaled = tools.objects(file.read())
    parts = set()
    for thing in scaled:
        target = thing["spec"]["scaleTargetRef"]
        check((target.get("kind", "Deployment"), target["name"]) in known, "%s", target)
        parts.add(target["name"].removeprefix("flamegrid-"))
        for trigger in thing["spec"]["triggers"]:
            if re.search(r"^max|_age_|_lag_", trigger["metadata"]["query"]):
                check(trigger.get("metricType") == "Value", "divided by the number of pods: %s", trigger)
    for work in rules.workloads(chart.objects("KEDA")):
        check("replicas" not in work["spec"] or rules.component_of(work) not in parts, "%s: an upgrade sets what KEDA has set", rules.name_of(work))


# ---- what it means ----

def allowed(things):
    """(from, to, port) that network policies allow among the parts, for callers and for the called."""
    parts = {rules.component_of(work): work for work in rules.workloads(things)}
    policies = {rules.component_of(thing): thing["spec"] for thing in things if thing["kind"] == "NetworkPolicy"}
    flows = set()

    def selected(peers, labels):
        # Peers of this namespace; those of others are not our parts.
        return any(rules.matches(peer["podSelector"].get("matchLabels"), labels) for peer in peers if set(peer) == {"podSelector"})

    for called, work in parts.items():
        ports = {port["name"]: port["containerPort"] for port in rules.containers_of(work)[0]["ports"]}
        for caller, other in parts.items():
            for port in ports.values():
                into = any(selected(rule["from"], rules.pod_of(other)["metadata"]["labels"]) for rule in policies[called]["ingress"]
                           if port in [ports[entry["port"]] for entry in rule["ports"]])
                out = any(selected(rule["to"], rules.pod_of(work)["metadata"]["labels"]) for rule in policies[caller]["egress"]
                          if "to" in rule and port in [entry["port"] for entry in rule.get("ports", [])])
                if into and out:
                    flows.add((caller, called, port))
    return flows


CALLS = {("distributor", "ingester", 4101), ("querier", "ingester", 4101), ("ingester", "ingester", 4101), ("querier", "querier", 4102),
         ("canary", "distributor", 4040), ("canary", "querier", 4040),
         ("ingester", "distributor", 4040), ("querier", "distributor", 4040), ("compactor", "distributor", 4040)}


def case_policies_allow_what_is_needed(chart):
    check(allowed(chart.objects("cluster")) == CALLS, "%s", allowed(chart.objects("cluster")) ^ CALLS)
    proxied = CALLS | {("distributor", "querier", 4040)}
    check(allowed(chart.objects("query proxy")) == proxied, "%s", allowed(chart.objects("query proxy")) ^ proxied)
    scraped = allowed(chart.objects("scrapers")) - CALLS
    check(scraped == {("scraper", "ingester", 4101)}, "%s", scraped)
    check(allowed(chart.objects("single")) == {("canary", "single", 4040)}, "%s", allowed(chart.objects("single")))
    outside = [rule for rule in find(chart.objects("cluster"), "NetworkPolicy", "compactor")["spec"]["egress"] if "to" not in rule]
    check([[port["port"] for port in rule["ports"]] for rule in outside] == [[53, 53], [443, 9000]], "%s", outside)


def case_own_profiles_go_to_distributors(chart):
    """With tokens only if the chart was given one, behind a gateway only if pods are trusted: a distributor would refuse what comes without."""
    for part in ("ingester", "querier", "compactor"):
        url = settings_of(chart.objects("cluster"), part)["self_profiling"]["url"]
        check(url.startswith("http://") and "-distributor." in url and url.endswith(":4040"), "%s: %s", part, url)
        check(settings_of(chart.objects("tokens"), part)["self_profiling"]["token_file"] == "/run/secrets/flamegrid/access/selfProfilingToken", "%s", part)
        check("self_profiling" not in settings_of(chart.objects("tokens without one for self-profiling"), part), "%s", part)
        check("self_profiling" not in settings_of(chart.objects("header"), part), "a distributor refuses pods: %s", part)
        check("self_profiling" in settings_of(chart.objects("header with pods that are trusted"), part), "%s", part)
    check("self_profiling" not in settings_of(chart.objects("cluster"), "distributor"), "a distributor takes its own")
    check("self_profiling" not in settings_of(chart.objects("single"), "single"), "a single server takes its own")


def case_pods_start_without_the_token_of_a_later_step(chart):
    """Of the tokens in pods only a running server makes the one for self-profiling: pods wait for all others."""
    for part in ("ingester", "distributor", "querier", "compactor"):
        work = next(work for work in rules.workloads(chart.objects("tokens")) if rules.component_of(work) == part)
        access = next(volume for volume in rules.pod_of(work)["spec"]["volumes"] if volume["name"] == "access")
        optional = {source["secret"]["items"][0]["path"]: source["secret"].get("optional", False) for source in access["projected"]["sources"]}
        check(optional == {"bootstrapToken": False, "masterKey": False, "selfProfilingToken": True}, "%s: %s", part, optional)
    canary = rules.containers_of(find(chart.objects("tokens"), "Deployment", "canary"))[0]["env"]
    check("optional" not in canary[0]["valueFrom"]["secretKeyRef"], "a canary without its token would run until somebody restarts it: %s", canary)


def case_workload_identity_reaches_every_pod(chart):
    """Accounts of all pods have the annotations; an account that others made is that of all pods, and their roles are bound to it."""
    for name, accounts in (("workload identity", {"fg-flamegrid", "fg-flamegrid-ingester"}), ("an account of others", {ACCOUNT})):
        things = chart.objects(name)
        used = {rules.pod_of(work)["spec"]["serviceAccountName"] for work in rules.workloads(things)}
        check(used == accounts, "%s: pods have the accounts %s", name, used)
        made = {thing["metadata"]["name"]: thing["metadata"].get("annotations") for thing in things if thing["kind"] == "ServiceAccount"}
        check(set(made) == accounts - {ACCOUNT} and all(made.values()), "%s: %s", name, made)
        bound = {subject["name"] for thing in things if thing["kind"] in ("RoleBinding", "ClusterRoleBinding") for subject in thing["subjects"]}
        check(bound and bound <= accounts, "%s: roles are bound to %s", name, bound)


def case_operators_port_is_for_prometheus(chart):
    """Nobody else reaches the port that stops members."""
    monitoring = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    for thing in chart.objects("scrapers"):
        if thing["kind"] == "NetworkPolicy":
            for rule in thing["spec"]["ingress"]:
                if rule["ports"] == [{"port": "admin"}]:
                    check(rule["from"] == monitoring, "%s: %s", thing["metadata"]["name"], rule["from"])
                else:
                    check(all(port["port"] != "admin" for port in rule["ports"]), "%s: %s", thing["metadata"]["name"], rule)
        if thing["kind"] == "Service" and thing["spec"].get("clusterIP") != "None":
            check([port["port"] for port in thing["spec"]["ports"]] == [4040], "%s", thing)


def case_memory_follows_the_limit(chart):
    for size, limit in (("cluster", 2 << 30), ("medium", 6 << 30), ("large", 16 << 30)):
        check(settings_of(chart.objects(size), "ingester")["memory_max_bytes"] == limit * 3 // 4, "%s", size)
    own = tools.objects(tools.render(chart.helm, cluster(querier={"resources": {"requests": {"cpu": "1500m"}, "limits": {"memory": "1000M"}}})))
    settings = settings_of(own, "querier")
    check((settings["memory_max_bytes"], settings["loops"], settings["workers"]) == (750_000_000, 2, 4), "%s", settings)


def case_ipv6_everywhere(chart):
    """No address of the other family to listen at, and each service has the family."""
    things = chart.objects("IPv6")
    check(settings_of(things, "ingester")["rpc_listen"] == "tls+tcp://[::]:4101", "%s", settings_of(things, "ingester"))
    check(settings_of(things, "querier")["querier"]["share"]["listen"] == "tls+tcp://[::]:4102", "%s", settings_of(things, "querier"))
    check("0.0.0.0" not in "".join(text for thing in things if thing["kind"] == "ConfigMap" for name, text in thing["data"].items() if name == "flamegrid.yaml"),
          "an address of IPv4")
    services = [thing for thing in things if thing["kind"] == "Service"]
    check(len(services) > 9, "%d services", len(services))
    for service in services:
        check((service["spec"]["ipFamilyPolicy"], service["spec"]["ipFamilies"]) == ("SingleStack", ["IPv6"]), "%s", rules.name_of(service))


def case_users_of_pods(chart):
    """User 10001, or none for a platform that chooses users."""
    for name, users in (("cluster", {"runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}), ("OpenShift", {})):
        for work in rules.workloads(chart.objects(name)):
            security = rules.pod_of(work)["spec"]["securityContext"]
            check({key: value for key, value in security.items() if isinstance(value, int) and value is not True} == users, "%s: %s", rules.name_of(work), security)
    for thing in chart.objects("OpenShift"):
        if thing["kind"] == "NetworkPolicy":
            ports = [(port["port"], port["protocol"]) for rule in thing["spec"]["egress"] for port in rule["ports"] if "protocol" in port]
            check(ports == [(53, "UDP"), (53, "TCP"), (5353, "UDP"), (5353, "TCP")], "%s: %s", rules.name_of(thing), ports)


def case_ingesters_have_time_to_wait_and_to_stop(chart):
    for grace in (180, 300, 600, 3600):
        things = tools.objects(tools.render(chart.helm, cluster(ingester={"terminationGracePeriodSeconds": grace})))
        wait = settings_of(things, "ingester").get("ring", {}).get("maintenance_wait", "300s")
        check(60 <= int(wait.removesuffix("s")) <= 300 and 2 * int(wait.removesuffix("s")) <= grace, "%d s to stop, and a wait of %s", grace, wait)
        check(rules.pod_of(find(things, "StatefulSet", "ingester"))["spec"]["terminationGracePeriodSeconds"] == grace, "%d", grace)
    own = tools.objects(tools.render(chart.helm, cluster(settings={**CLUSTER["settings"], "ring": {"maintenance_wait": "0"}})))
    check(settings_of(own, "ingester")["ring"]["maintenance_wait"] == "0", "%s", settings_of(own, "ingester"))


def case_canary_looks_back_as_far_as_limits_allow(chart):
    """Beyond them it would miss profiles that are only hidden, and raise an alarm."""
    for values, window in (({}, "12h"), ({"settings": {"limits": {"retention_period": "14d"}}}, "43200s"), ({"settings": {"limits": {"max_query_lookback": "6h"}}}, "19440s"),
                           ({"settings": {"limits": {"max_query_length": "1h", "retention_period": "2h"}}}, "3240s"),
                           ({"querier": {"settings": {"limits": {"max_query_lookback": "1h"}}}}, "3240s"), ({"tenants": {"anonymous": {"retention_period": "10h"}}}, "32400s"),
                           ({"tenants": {"canary": {"retention_period": "10h"}, "anonymous": {"retention_period": "1h"}}, "canary": {"tenant": "canary"}}, "32400s"),
                           ({"settings": {"limits": {"retention_period": "6h"}}, "tenants": {"anonymous": {"retention_period": "0"}}}, "12h"),
                           ({"settings": {"limits": {"retention_period": "6h"}}, "canary": {"window": "5h"}}, "5h")):
        things = tools.objects(tools.render(chart.helm, {**CLUSTER, **values, "settings": {**CLUSTER["settings"], **values.get("settings", {})}}))
        command = rules.containers_of(find(things, "Deployment", "canary"))[0]["command"]
        check(command[command.index("--window") + 1] == window, "%s: %s", values, command)


def case_sizes_may_be_numbers(chart):
    """In a file of values, where they are floats; files of settings have them in full."""
    things = tools.objects(tools.render(chart.helm, {
        "bucket": CLUSTER["bucket"], "settings": {"bucket": {"type": "s3", "s3": {"bucket": "profiles", "part_size": 16777216}}, "disk_reserve_bytes": 2147483648},
        "ingester": {"settings": {"memory_max_bytes": 2147483648}}, "querier": {"resources": {"limits": {"memory": 3000000000}}},
        "tenants": {"shop": {"max_profile_size_bytes": 33554432}}}))
    settings = settings_of(things, "ingester")
    check((settings["memory_max_bytes"], settings["bucket"]["s3"]["part_size"]) == (2147483648, 16777216), "%s", settings)
    check(settings_of(things, "querier")["memory_max_bytes"] == 2250000000, "%s", settings_of(things, "querier"))
    check(rules.containers_of(find(things, "Deployment", "querier"))[0]["resources"]["limits"]["memory"] == 3000000000, "querier")
    texts = [text for thing in things if thing["kind"] == "ConfigMap" for text in thing["data"].values()]
    check(not any(re.search(r": \d[\d.]*e\+\d", text) for text in texts), "%s", texts)


def scratch_of(chart, compactor, **settings):
    """Bytes of the scratch disk."""
    things = tools.objects(tools.render(chart.helm, cluster(settings={**CLUSTER["settings"], **settings}, compactor={"settings": compactor})))
    scratch = next(volume for volume in rules.pod_of(find(things, "StatefulSet", "compactor"))["spec"]["volumes"] if volume["name"] == "scratch")
    return int(scratch["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"].removesuffix("Mi")) << 20


def case_scratch_has_room_for_the_largest_job(chart):
    """compactor/job.c wants three times the input beyond the reserve, a twentieth of the disk; ext4 takes 3 % and a journal of at most 128 MiB."""
    for job in (4 << 20, 500_000_000, 1 << 30, 2 << 30, 64 << 30):
        size = scratch_of(chart, {"compactor": {"job_max_bytes": "%dB" % job}})
        check(size - size // 20 - size * 3 // 100 - (128 << 20) >= 3 * job, "%d bytes for jobs of %d", size, job)
        for settings, own in (({"disk_reserve_bytes": "5GiB"}, {}), ({}, {"disk_reserve_bytes": "5GiB"})):
            check(scratch_of(chart, {"compactor": {"job_max_bytes": "%dB" % job}, **own}, **settings) == size + (5 << 30), "%d: %s %s", job, settings, own)


def case_settings_come_in_order(chart):
    """Settings of a part before those of all, before those of the chart; only what changed restarts."""
    before, after = chart.objects("cluster"), chart.objects("settings of parts")
    check(settings_of(after, "ingester")["log_level"] == "debug" and settings_of(after, "querier")["log_level"] == "warn", "log_level")
    check(settings_of(after, "ingester")["ingester"] == {"commit_delay": "2ms", "workers": 2, "query_workers": 2}, "%s", settings_of(after, "ingester"))
    scratch = find(after, "StatefulSet", "compactor")["spec"]["template"]["spec"]["volumes"]
    check([volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"] for volume in scratch if volume["name"] == "scratch"] ==
          ["7628Mi"], "%s", scratch)
    changed = tools.objects(tools.render(chart.helm, cluster(querier={"settings": {"querier": {"timeout": "30s"}}})))

    def sums(things):
        return {rules.name_of(work): rules.pod_of(work)["metadata"].get("annotations", {}).get("checksum/config") for work in rules.workloads(things)}
    differ = {name for name, value in sums(before).items() if sums(changed)[name] != value}
    check(differ == {"Deployment/fg-flamegrid-querier"}, "%s", differ)


def case_zones(chart):
    things = chart.objects("zones")
    sets = [work for work in rules.workloads(things) if "ingester" in work["metadata"]["name"]]
    check([work["metadata"]["name"] for work in sets] == ["fg-flamegrid-ingester-%s" % zone for zone in "abc"], "%s", sets)
    for zone, work in zip("abc", sets):
        pod = rules.pod_of(work)["spec"]
        check(pod["nodeSelector"] == {"topology.kubernetes.io/zone": zone}, "%s", zone)
        check({"name": "FG_RING_ZONE", "value": zone} in pod["containers"][0]["env"], "%s", zone)
        check({"name": "FG_INGESTER_KUBERNETES_STATEFULSET", "value": work["metadata"]["name"]} in pod["containers"][0]["env"], "%s", zone)
        check(work["spec"]["selector"]["matchLabels"]["flamegrid/zone"] == zone, "%s", zone)
    long = [work for work in rules.workloads(chart.objects("long names")) if rules.component_of(work) == "ingester"]
    for number, (zone, work) in enumerate(zip("ab", long)):
        check(work["metadata"]["name"] == "f" * 40 + "-ingester-c%d" % (number + 1) and len(work["metadata"]["name"]) == 52, "%s", work["metadata"]["name"])
        check(rules.pod_of(work)["spec"]["nodeSelector"] == {"topology.kubernetes.io/zone": "northamerica-northeast1-" + zone}, "%s", zone)
    role = find(things, "Role", "ingester")
    check(role["rules"] == [{"apiGroups": ["apps"], "resources": ["statefulsets"], "resourceNames": [work["metadata"]["name"] for work in sets],
                             "verbs": ["get"]}], "%s", role)
    variables = {variable["name"]: variable for variable in rules.containers_of(find(chart.objects("cluster", 35), "StatefulSet", "ingester"))[0]["env"]}
    check(variables["FG_RING_ZONE"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['topology.kubernetes.io/zone']", "%s", variables)
    variables = rules.containers_of(find(chart.objects("cluster", 34), "StatefulSet", "ingester"))[0]["env"]
    check("FG_RING_ZONE" not in [variable["name"] for variable in variables], "%s", variables)


def sets_of(chart, name, replicas=None):
    """The StatefulSets of values, as a cluster has them; with another number of pods of each if one is given."""
    sets = [thing for thing in chart.objects(name) if thing["kind"] == "StatefulSet"]
    return [{**thing, "spec": {**thing["spec"], "replicas": thing["spec"]["replicas"] if replicas is None else replicas}} for thing in sets]


def case_sets_with_pods_are_not_deleted(chart):
    """Helm would delete sets that values do not name, at once, with profiles that are on their disks only."""
    zones = {"zones": ["a", "b", "c"], "ingester": {"replicas": 1}}
    three = {"zones": [{"name": "", "replicas": 3}, "a", "b", "c"], "ingester": {"replicas": 1}}
    for before, replicas, values, lost in (
            ("cluster", None, cluster(), None), ("zones", None, VARIANTS["zones"][0], None),
            ("cluster", None, cluster(**zones), "fg-flamegrid-ingester has 3 pods"), ("cluster", None, cluster(**three), None), ("cluster", 0, cluster(**zones), None),
            ("zones", None, cluster(zones=["a", "b"], ingester={"replicas": 2}), "fg-flamegrid-ingester-c has 2 pods"),
            ("zones", None, cluster(zones=["a", "b", {"name": "c", "replicas": 0}], ingester={"replicas": 2}), None),
            ("cluster", None, cluster(fullnameOverride="flames"), "fg-flamegrid-ingester has 3 pods"),
            ("single", None, cluster(), "fg-flamegrid-single has 1 pods"), ("single", 0, cluster(), None),
            ("cluster", None, {"mode": "single"}, "fg-flamegrid-ingester has 3 pods")):
        with installed.Installed(sets_of(chart, before, replicas)) as api:
            try:
                tools.render(chart.helm, values, server=api.url)
            except tools.Refused as fault:
                check(lost is not None and lost in str(fault) and "Other names, zones and modes" in str(fault), "%s, then %s: %s", before, values, fault)
            else:
                check(lost is None, "%s, then %s", before, values)
            check(installed.SETS in api.asked, "%s", api.asked)
    sets = sets_of(chart, "cluster")
    for work in sets:
        work["metadata"] = {**work["metadata"], "labels": {**work["metadata"]["labels"], "app.kubernetes.io/instance": "another"}}
    with installed.Installed(sets) as api:
        tools.render(chart.helm, cluster(**zones), server=api.url)


def case_a_set_shrinks_next_to_others(chart):
    things = tools.objects(tools.render(chart.helm, cluster(zones=[{"name": "", "replicas": 2}, "a", {"name": "b", "zone": "eu-west-1b", "replicas": 0}],
                                                            ingester={"replicas": 1})))
    sets = {work["metadata"]["name"]: work["spec"] for work in rules.workloads(things) if rules.component_of(work) == "ingester"}
    check({name: spec["replicas"] for name, spec in sets.items()} == {"fg-flamegrid-ingester": 2, "fg-flamegrid-ingester-a": 1, "fg-flamegrid-ingester-b": 0}, "%s", sets)
    check("flamegrid/zone" not in sets["fg-flamegrid-ingester"]["selector"]["matchLabels"], "a selector of a set that is there cannot change")
    # As the set was rendered before there were zones.
    check(sets["fg-flamegrid-ingester"]["template"] == find(chart.objects("cluster"), "StatefulSet", "ingester")["spec"]["template"], "its pods would restart")


def case_rules_and_dashboards_are_there(chart):
    """Each file of rules is an object with the same groups, each dashboard is one that Grafana finds."""
    things = chart.objects("monitoring")
    for kind, folder, end in (("PrometheusRule", "prometheus", ".yaml"), ("ConfigMap", "dashboards", ".json")):
        found = {thing["metadata"]["name"]: thing for thing in things if thing["kind"] == kind and thing["metadata"]["labels"]["app.kubernetes.io/component"]
                 in ("rules", "dashboards")}
        paths = glob.glob(os.path.join(tools.CHART, "files", folder, "*" + end))
        check(len(found) == len(paths), "%s of %s", sorted(found), paths)
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text = file.read()
            name = os.path.basename(path)
            if kind == "PrometheusRule":
                thing = found["fg-flamegrid-" + name[:-len(end)]]
                check(thing["spec"] == yaml.safe_load(text) and thing["spec"]["groups"] and thing["metadata"]["labels"]["release"] == "prometheus", "%s", name)
            else:
                thing = found["fg-flamegrid-dashboard-" + name[:-len(end)]]
                check(json.loads(thing["data"][name]) == json.loads(text) and thing["metadata"]["labels"]["grafana_dashboard"] == "1", "%s", name)
    check(any(thing["kind"] == "PrometheusRule" for thing in things), "no rules")


def alerts_of(things):
    return {rule["alert"]: rule for thing in things if thing["kind"] == "PrometheusRule" for group in thing["spec"]["groups"] for rule in group["rules"] if "alert" in rule}


def case_alerts_fit_the_installation(chart):
    """Certificates that live for a day are no alert for all of it; pages have an address."""
    usual, daily = alerts_of(chart.objects("monitoring")), alerts_of(chart.objects("pod certificates"))
    differ = {name for name in usual if usual[name] != daily[name]}
    check(differ == {"FlamegridCertificateExpiring"}, "%s", differ)
    for rule, limits in ((usual, [14 * 86400, 14 * 86400]), (daily, [14 * 86400, 2 * 3600])):
        found = [int(count) * int(unit) for count, unit in re.findall(r"< (\d+) \* (\d+)", rule["FlamegridCertificateExpiring"]["expr"])]
        check(found == limits, "%s", rule["FlamegridCertificateExpiring"])
    own = alerts_of(tools.objects(tools.render(chart.helm, cluster(monitoring={"prometheusRule": {
        "enabled": True, "runbookBase": "https://git.example/flamegrid/blob/main/", "rpcCertificateHours": 48}}))))
    check("< 48 * 3600" in own["FlamegridCertificateExpiring"]["expr"], "%s", own["FlamegridCertificateExpiring"])
    for name, rule in own.items():
        path = usual[name]["annotations"]["runbook_url"]
        check(rule["annotations"]["runbook_url"] == "https://git.example/flamegrid/blob/main/" + path, "%s", rule)


def case_images(chart):
    things = chart.objects("names")
    images = {rules.containers_of(work)[0]["image"] for work in rules.workloads(things)}
    check(images == {"registry.example/flamegrid@" + DIGEST}, "%s", images)
    for work in rules.workloads(things):
        check(rules.pod_of(work)["spec"]["imagePullSecrets"] == [{"name": "pull"}] and work["metadata"]["name"].startswith("flames-"), "%s", rules.name_of(work))


def case_extras_reach_every_pod(chart):
    for work in rules.workloads(chart.objects("extras")):
        pod, container = rules.pod_of(work), rules.containers_of(work)[0]
        check(pod["metadata"]["labels"]["team"] == "platform" and container["args"] == ["--log_level", "debug"], "%s", pod)
        check(pod["spec"]["hostUsers"] is False and pod["spec"]["priorityClassName"] and pod["spec"]["nodeSelector"] == {"disk": "ssd"}, "%s", pod["spec"])
        check({"name": "AWS_REGION", "value": "eu-west-1"} in container["env"] and container["envFrom"], "%s", container)
        check({"name": "ca", "mountPath": "/etc/ca"} in container["volumeMounts"], "%s", container)
    check(rules.pod_of(find(chart.objects("extras"), "Deployment", "querier"))["metadata"]["annotations"]["note"] == "2", "annotations of a part")


def case_routes_agree_with_the_programs(chart):
    """Every path that takes profiles goes to distributors: those that the program lists, less those that it has for queries."""
    things = chart.objects("routes")
    prefixes = [match["path"]["value"] for match in find([thing for thing in things if thing["kind"] == "HTTPRoute"], "HTTPRoute", "routes")
                ["spec"]["rules"][0]["matches"]]
    ingress = [path for thing in things if thing["kind"] == "Ingress" for path in thing["spec"]["rules"][0]["http"]["paths"]]
    check([path["path"] for path in ingress] == [*prefixes, "/"], "%s", ingress)
    with pods.Listed("distributor") as distributor, pods.Listed("querier") as querier:
        ours, theirs = distributor.paths(), querier.paths()

    def taken(path):
        return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)
    check({path for path in ours - theirs if not taken(path)} == {"/api/v1/targets"}, "not routed to distributors: %s", [p for p in ours - theirs if not taken(p)])
    lost = [path for path in theirs - ours if taken(path)]
    check(not lost, "distributors do not answer: %s", lost)
    for prefix in prefixes:
        check(any(path == prefix or path.startswith(prefix + "/") for path in ours), "no distributor has %s", prefix)
    services = [match["method"]["service"] for match in find(things, "GRPCRoute", "routes")["spec"]["rules"][0]["matches"]]
    check({"/" + service for service in services} == {prefix for prefix in prefixes if "." in prefix}, "%s", services)


# ---- our programs ----

def case_programs_accept(chart, name):
    """Each part reads its file, opens its secrets, and fails at the address to listen at, which is wrong, and at nothing else."""
    things = chart.objects(name)
    with tempfile.TemporaryDirectory() as folder:
        secrets = pods.Secrets(folder)
        for work in rules.workloads(things):
            part = rules.component_of(work)
            if part == "canary":
                continue
            settings, command = find(things, "ConfigMap", part)["data"]["flamegrid.yaml"], rules.containers_of(work)[0]["command"]
            # Most choices are about some parts, and leave the files of the others as they are.
            if (command[0], settings) not in chart.accepted:
                said = secrets.try_start(part, settings, command)
                check(pods.NOWHERE in said, "%s: %s", part, said)
                chart.accepted.add((command[0], settings))


def case_every_setting_may_be_a_value(chart):
    """With its default, each setting passes the schema and the program."""
    with open(os.path.join(tools.CHART, "values.schema.json"), encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    values = cluster(scraper={"enabled": True})
    for part in ("ingester", "distributor", "querier", "compactor", "scraper"):
        settings = pods.defaults(part, definitions, part + "Settings")
        # Two defaults that go together only with what the chart sets.
        for path in ("memory_max_bytes",):
            settings.pop(path, None)
        settings["bucket"]["type"] = "s3"
        settings["bucket"]["s3"]["bucket"] = "profiles"
        values[part] = {**values.get(part, {}), "settings": settings}
    VARIANTS["every setting"] = (values, 28)
    case_programs_accept(chart, "every setting")


# ---- with tools that take long to build ----

def case_helm_4_renders_the_same(chart):
    helm = tools.build("helm4")
    for name, (values, oldest) in VARIANTS.items():
        minor = max(oldest, tools.USUAL)
        check(tools.objects(tools.render(helm, values, minor)) == chart.objects(name), "%s", name)
    for name, (values, said) in REFUSED.items():
        try:
            tools.render(helm, values)
        except tools.Refused as fault:
            check(said in str(fault), "%s: %s", name, fault)
        else:
            raise AssertionError(name)


# Findings of kube-score that we do not share, with the reason.
SCORE_IGNORED = {
    "container-resources": "limits of processors make pauses",
    "container-ephemeral-storage-request-and-limit": "root file systems are read-only, and caches have a size",
    "container-image-pull-policy": "versions and digests do not change",
    "pod-networkpolicy": "it takes egress to any address at named ports for none",
    "pod-probes-identical": "a canary has one page, for both",
    "statefulset-has-host-podantiaffinity": "topologySpreadConstraints spread pods",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints spread pods",
    "deployment-replicas": "canaries are one",
}


def case_kube_score(chart):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cluster", "single"):
            path = os.path.join(folder, name + ".yaml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(chart.text(name))
            command = [tools.build("kube-score"), "score", "--output-format", "ci", "--kubernetes-version", "v1.%d" % tools.USUAL]
            for check_name in SCORE_IGNORED:
                command += ["--ignore-test", check_name]
            done = subprocess.run([*command, path], capture_output=True, text=True, timeout=120)
            faults = [line for line in done.stdout.splitlines() if line.startswith(("[CRITICAL]", "[WARNING]"))]
            check("[OK]" in done.stdout and not faults, "%s", "\n".join(faults) or done.stdout + done.stderr)


def main():
    parser = flamegrid.arguments_of(__doc__)
    parser.add_argument("--write", action="store_true", help="bring deploy/kubernetes up to date")
    parser.add_argument("--all", action="store_true", help="with Helm 4 and kube-score")
    options = parser.parse_args()
    tally = flamegrid.Tally(options.pattern)
    os.makedirs(tools.BUILD, exist_ok=True)
    try:
        chart = Chart()
    except tools.Unavailable as missing:
        tally.skip("helm", missing)
        tally.finish()
    if options.write:
        for name, values in RENDERED.items():
            with open(os.path.join(MANIFESTS, name), "w", encoding="utf-8") as file:
                file.write(rendered(chart, values))
    for name in VARIANTS:
        tally.run("rules: " + name, case_rules, chart, name)
        tally.run("programs start: " + name, case_programs_accept, chart, name)
    for name in REFUSED:
        tally.run("refused: " + name, case_refused, chart, name)
    for minor in range(tools.OLDEST, tools.NEWEST + 1):
        tally.run("schemas: 1.%d" % minor, case_schemas, chart, minor)
    for case in (case_schemas_refuse_what_there_is_not, case_manifests, case_overlay_and_examples, case_render_is_stable, case_policies_allow_what_is_needed, case_own_profiles_go_to_distributors, case_workload_identity_reaches_every_pod, case_pods_start_without_the_token_of_a_later_step, case_operators_port_is_for_prometheus,
                 case_memory_follows_the_limit, case_ipv6_everywhere, case_users_of_pods, case_canary_looks_back_as_far_as_limits_allow, case_ingesters_have_time_to_wait_and_to_stop, case_sizes_may_be_numbers, case_scratch_has_room_for_the_largest_job, case_settings_come_in_order, case_zones, case_sets_with_pods_are_not_deleted, case_a_set_shrinks_next_to_others, case_rules_and_dashboards_are_there, case_alerts_fit_the_installation, case_images, case_extras_reach_every_pod,
                 case_routes_agree_with_the_programs, case_every_setting_may_be_a_value, pods.case_a_cluster_of_rendered_pods):
        tally.run(case.__name__[len("case_"):].replace("_", " "), case, chart)
    if options.all:
        for case in (case_helm_4_renders_the_same, case_kube_score):
            tally.run(case.__name__[len("case_"):].replace("_", " "), case, chart)
    tally.finish()


if __name__ == "__main__":
    main()
