#!/usr/bin/env python3
"""The chart in a Kubernetes of its own: a real control plane, and nodes that run our programs as processes. README.md says more.

    cluster_test.py [-k REGEX] [--keep] [--helm4]

It needs root, network namespaces and Go. --keep leaves the folder with logs. FG_PREVIOUS: the commit of the version before this one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "bed"), os.path.join(os.path.dirname(HERE), "lib")]

import bed as beds  # noqa: E402
import flamegrid  # noqa: E402
import parts  # noqa: E402
import tools  # noqa: E402
from api import ApiError  # noqa: E402
from flamegrid import check  # noqa: E402
from release import NAMESPACE_LABELS, Load, Release  # noqa: E402

RUN_TIMEOUT_S = 7200
SETTLE_S = 15  # of load before and after what a case does
DRAIN_TIMEOUT_S = 900
LOST_S = 45
UNINSTALL_MAX_S = 120  # an ingester that waited for another one would take five minutes
CURL_TIMED_OUT = 28  # nothing comes back
INSIDE = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]


class Scene:
    """A bed, and two versions to run in it. The release of the present version is there for all cases that need one."""

    def __init__(self, bed, versions):
        self.bed, self.versions = bed, versions
        self.present = None

    def release(self):
        if self.present is None:
            release = Release(self.bed, "flamegrid", self.versions["present"])
            release.install()
            self.present = release
        return self.present


class Found:
    """A version that was built outside."""

    def __init__(self, name, chart):
        self.name, self.chart = name, chart


# ---- cases ----

def case_install_is_green_and_restricted(scene):
    """What the manual says gives a canary that sees each of its profiles once, in a namespace that refuses pods that are not restricted."""
    begun = time.monotonic()
    release = scene.release()
    installed = time.monotonic()
    counts = release.wait_green()
    print("     installed in %d s, green %d s later: %d profiles acknowledged, %d sums checked" % (
        installed - begun, time.monotonic() - installed, counts["profiles_acknowledged_total"], counts["reads_total"]), flush=True)
    try:
        scene.bed.api.create("/api/v1/namespaces/%s/pods" % release.name, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root"}, "spec": {
            "containers": [{"name": "root", "image": "bed/flamegrid:present", "command": ["/usr/bin/id"]}]}})
    except ApiError as fault:
        check(fault.status == 403 and "restricted" in str(fault), "%s", fault)
    else:
        raise AssertionError("a pod that is not restricted was accepted")
    zones = {pod["metadata"]["name"]: pod["metadata"]["labels"].get("topology.kubernetes.io/zone") for pod in scene.bed.pods(release.name, "ingester")}
    check(sorted(zones.values()) == sorted(beds.ZONES), "ingesters by zone: %s", zones)


def case_policies_keep_others_out(scene):
    """Agents of another namespace reach distributors, and nothing else; names of services are found."""
    release = scene.release()
    scene.bed.namespace("agents", **NAMESPACE_LABELS)
    ingester = scene.bed.pods(release.name, "ingester")[0]
    for name, url, reached in (("agent", "http://flamegrid-distributor.%s:4040/ready" % release.name, True),
                               ("reader", "http://flamegrid-querier.%s:4040/ready" % release.name, False),
                               ("operator", "http://%s:5040/healthz" % ingester["status"]["podIP"], False)):
        code = scene.bed.run_once("agents", name, "bed/flamegrid:present", "/usr/bin/curl", "--silent", "--fail", "--max-time", "5", url)
        check(code == (0 if reached else CURL_TIMED_OUT), "%s: curl %s ended with %d", name, url, code)


def case_ingesters_scale_to_six_and_back(scene):
    """Six ingesters take part, and those that go hand over what they have before they do."""
    release = scene.release()
    with Load(release) as load:
        time.sleep(SETTLE_S)
        load.mark("3 ingesters")
        release.upgrade(ingester={"replicas": 6})
        load.mark("6 ingesters")
        time.sleep(SETTLE_S)
        for replicas in (5, 4, 3):  # as the manual says, one at a time
            release.upgrade(ingester={"replicas": replicas})
            load.mark("%d ingesters" % replicas)
        time.sleep(SETTLE_S)
        load.finish()
    release.wait_green()


def case_drain_of_all_nodes(scene):
    """Nodes are drained one after the other, as when their system is updated, budgets allowing; disks go with ingesters to another node of the zone."""
    release = scene.release()
    with Load(release) as load:
        time.sleep(SETTLE_S)
        load.mark("before nodes are drained")
        for node in scene.bed.nodes:
            try:
                n_pods = scene.bed.drain(node, DRAIN_TIMEOUT_S)
                release.wait_settled()
                load.mark("%s: %d pods are elsewhere" % (node.name, n_pods))
            finally:
                scene.bed.cordon(node, False)
        time.sleep(SETTLE_S)
        load.finish()
    release.wait_green()


def busiest_zone(scene, release):
    """Returns the zone with most of what clients call."""
    zone_of = {node.name: node.zone for node in scene.bed.nodes}
    zones = [zone_of[pod["spec"]["nodeName"]] for part in ("distributor", "querier") for pod in scene.bed.pods(release.name, part)]
    return max(beds.ZONES, key=zones.count)


def case_loss_of_a_zone(scene):
    """All nodes of a zone lose their power, and come back later. Requests to them that were in flight are sent again; nothing is lost."""
    release = scene.release()
    with Load(release) as load:
        time.sleep(SETTLE_S)
        zone = busiest_zone(scene, release)
        nodes = [node for node in scene.bed.nodes if node.zone == zone]
        load.mark("before %s is lost" % zone)
        for node in nodes:
            node.lose()
        before = load.canary.counts()["profiles_acknowledged_total"]
        time.sleep(LOST_S)
        load.mark("%d s without it" % LOST_S)
        check(load.canary.counts()["profiles_acknowledged_total"] > before + LOST_S, "hardly any profile was acknowledged without the zone")
        for node in nodes:
            node.start()
        beds.wait("nodes are back", beds.START_TIMEOUT_S, lambda: len(scene.bed.ready_nodes()) == beds.NODES)
        release.wait_settled()
        load.mark("it is back")
        time.sleep(SETTLE_S)
        load.finish(retries=True)
    release.wait_green(profiles=20, reads=5)


def case_uninstall_is_quick_and_keeps_disks(scene):
    """Ingesters that all go at once do not wait for each other, and their disks stay."""
    release = scene.release()
    begun = time.monotonic()
    release.uninstall()
    scene.present = None
    took_s = time.monotonic() - begun
    print("     uninstalled in %d s" % took_s, flush=True)
    check(took_s < UNINSTALL_MAX_S, "it took %d s", took_s)
    claims = scene.bed.api.get("/api/v1/namespaces/%s/persistentvolumeclaims" % release.name)["items"]
    disks = [claim["metadata"]["name"] for claim in claims if claim["status"]["phase"] == "Bound" and "deletionTimestamp" not in claim["metadata"]]
    check({"data-flamegrid-ingester-%d" % number for number in range(3)} <= set(disks), "disks that are left: %s", disks)


def case_single_server_is_green(scene):
    """The mode that needs no object store; the server restarts once, with its disk."""
    release = Release(scene.bed, "single", scene.versions["present"], mode="single", settings={}, bucket={})
    release.install()
    release.wait_green()
    release.upgrade(single={"settings": {"log_level": "warn"}})
    release.wait_green(profiles=80, reads=20)
    release.uninstall()


def case_upgrade_and_back(scene):
    """The version before this one, this one, and the one before again."""
    release = Release(scene.bed, "upgrade", scene.versions["previous"])
    release.install()
    release.wait_green()
    with Load(release) as load:
        time.sleep(SETTLE_S)
        load.mark("the version before")
        for version in ("present", "previous"):
            release.upgrade(scene.versions[version])
            load.mark(version)
            time.sleep(SETTLE_S)
        load.finish()
    release.wait_green()


CASES = (case_install_is_green_and_restricted, case_policies_keep_others_out, case_ingesters_scale_to_six_and_back, case_drain_of_all_nodes, case_loss_of_a_zone,
         case_uninstall_is_quick_and_keeps_disks, case_single_server_is_green, case_upgrade_and_back)


# ---- outside and inside of the namespaces ----

def name_of(case):
    return case.__name__[len("case_"):].replace("_", " ")


def inside(folder, tally):
    """Runs the cases. This process is the second of a PID namespace: all others end with it."""
    with open(os.path.join(folder, "parts.json"), encoding="utf-8") as file:
        made = json.load(file)
    os.environ["FG_BINARY"] = os.path.join(made["images"]["present"], "flamegrid")
    bed = beds.Bed(folder, made["kube"], made["helm"], made["images"])
    try:
        begun = time.monotonic()
        bed.start()
        print("     the cluster is there after %d s" % (time.monotonic() - begun), flush=True)
        scene = Scene(bed, {name: Found(name, chart) for name, chart in made["charts"].items()})
        for case in CASES:
            tally.run(name_of(case), case, scene)
        if tally.failed:
            print("\n".join(bed.told()[-80:]), flush=True)
    finally:
        bed.stop()
    tally.finish()


def make(folder, helm):
    """Builds what a bed needs. Unavailable: it cannot be had here."""
    os.makedirs(tools.BUILD, exist_ok=True)
    made = {"helm": tools.build(helm), "kube": parts.kube(), "images": {}, "charts": {}}
    missing = parts.stores_missing(folder)
    if missing:
        raise parts.Unavailable(missing)
    for name, tree in (("present", tools.ROOT), ("previous", parts.tree_of(parts.previous()))):
        version = parts.Version(name, tree, folder)
        made["images"][name], made["charts"][name] = version.programs, version.chart
    with open(os.path.join(folder, "parts.json"), "w", encoding="utf-8") as file:
        json.dump(made, file)


def main():
    parser = flamegrid.arguments_of(__doc__)
    parser.add_argument("--keep", action="store_true", help="keep the folder with logs, and name it")
    parser.add_argument("--helm4", action="store_true", help="with Helm 4, which applies on the side of the server")
    parser.add_argument("--inside", metavar="FOLDER", help="for itself")
    options = parser.parse_args()
    tally = flamegrid.Tally(options.pattern)
    if options.inside:
        inside(options.inside, tally)
    if os.getuid() != 0 or subprocess.run([*INSIDE, "ip", "link", "set", "lo", "up"], stderr=subprocess.DEVNULL).returncode != 0:
        tally.skip("cluster", "needs root and network namespaces")
        tally.finish()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the folder goes, and with this process the bed
    folder = tempfile.mkdtemp(prefix="flamegrid-bed.")
    os.chmod(folder, 0o755)
    try:
        make(folder, "helm4" if options.helm4 else "helm3")
        more = ["-k", options.pattern] if options.pattern else []
        code = subprocess.run([*INSIDE, sys.executable, os.path.abspath(__file__), "--inside", folder, *more], timeout=RUN_TIMEOUT_S).returncode
    except parts.Unavailable as why:
        tally.skip("cluster", why)
        tally.finish()
    finally:
        if options.keep:
            print("logs are in " + folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
