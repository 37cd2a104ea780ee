"""A release of the chart in a bed, installed as deploy/helm/README.md says, and what its canaries say of it."""

import secrets
import threading
import time

import bed as beds
import stores
from canary import Canary
from flamegrid import check

NAMESPACE_LABELS = {"pod-security.kubernetes.io/enforce": "restricted"}
HELM_WAIT = "600s"
READY_TIMEOUT_S = 600
GREEN_TIMEOUT_S = 120
RATE, READS = "60/s", "6/s"
NEVER = ("unknown", "skipped", "wrong", "lost", "double", "foreign")
# Pushes that had no 2xx at first, and queries without a complete answer.
RETRIED = ("refused", "unanswered", "unavailable")
RING_PORT = 5040


class Release:
    """One release of the chart in a namespace of the same name."""

    def __init__(self, bed, name, version, **values):
        self.bed, self.name, self.version, self.more = bed, name, version, values
        self.workloads = "/apis/apps/v1/namespaces/%s/" % name

    def values(self):
        endpoint = self.bed.store.url
        return {"image": {"registry": beds.REGISTRY, "tag": self.version.name}, "bucket": {"existingSecret": "flamegrid-bucket"},
                "settings": {"bucket": {"type": "s3", "s3": {"bucket": stores.NAME, "endpoint": endpoint, "region": stores.REGION, "prefix": self.name}}},
                "canary": {"rate": "4/s", "reads": "1/s"}, **self.more}

    def install(self):
        self.bed.namespace(self.name, **NAMESPACE_LABELS)
        self.bed.secret(self.name, "flamegrid-rpc", secret=secrets.token_hex(32))
        self.bed.secret(self.name, "flamegrid-bucket", access_key=stores.NAME, secret_key=stores.NAME)
        self.helm("install")

    def upgrade(self, version=None, **values):
        self.version = version or self.version
        self.more = {**self.more, **values}
        self.helm("upgrade")

    def helm(self, verb):
        self.bed.helm(verb, "flamegrid", self.version.chart, "--namespace", self.name, "--wait", "--timeout", HELM_WAIT, values=self.values())
        self.wait_settled()

    def uninstall(self):
        """The namespace stays, with secrets and disks."""
        self.bed.helm("uninstall", "flamegrid", "--namespace", self.name, "--wait", "--timeout", HELM_WAIT)
        beds.wait("all pods of %s have ended" % self.name, READY_TIMEOUT_S, lambda: not self.bed.pods(self.name),
                  why=lambda: " %s" % [pod["metadata"]["name"] for pod in self.bed.pods(self.name)])

    # ---- what there is ----

    def wait_settled(self, timeout_s=READY_TIMEOUT_S):
        """Waits until all workloads are as they are declared, and no other pods are left."""
        beds.wait("all pods of %s are ready" % self.name, timeout_s, self.settled, why=lambda: " %s" % self.unsettled())

    def settled(self):
        self.bed.check()
        return not self.unsettled()

    def unsettled(self):
        found = []
        for kind in ("statefulsets", "deployments"):
            for work in self.bed.api.get(self.workloads + kind)["items"]:
                status, wanted = work.get("status", {}), work["spec"].get("replicas", 1)
                counts = [status.get(key, 0) for key in ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas")]
                if status.get("observedGeneration") != work["metadata"]["generation"] or counts != [wanted] * 4:
                    found.append("%s: %s of %d" % (work["metadata"]["name"], counts, wanted))
        found += ["%s ends" % pod["metadata"]["name"] for pod in self.bed.pods(self.name) if "deletionTimestamp" in pod["metadata"]]
        return found

    def address(self, part):
        """Returns the URL of a part's service."""
        service = self.bed.api.get("/api/v1/namespaces/%s/services/flamegrid-%s" % (self.name, part))
        return "http://%s:4040" % service["spec"]["clusterIP"]

    def canary_pod(self):
        pods = [pod for pod in self.bed.pods(self.name, "canary") if pod.get("status", {}).get("podIP") and "deletionTimestamp" not in pod["metadata"]]
        return pods[0] if pods else None

    def canary_counts(self):
        """Returns {name without its prefix: value} of the chart's canary."""
        pod = self.canary_pod()
        if pod is None:
            return None
        page = beds.metrics(pod["status"]["podIP"], 9090)
        return {name[len("flamegrid_canary_"):]: value for name, value in page.items() if name.startswith("flamegrid_canary_")}

    def wait_green(self, profiles=40, reads=10):
        """Waits until the chart's canary has seen its profiles, and none was missing, double or wrong."""
        def enough():
            counts = self.canary_counts()
            return counts if counts and counts["profiles_acknowledged_total"] >= profiles and counts["reads_total"] >= reads else None
        counts = beds.wait("the canary is green", GREEN_TIMEOUT_S, enough, why=lambda: " %s" % self.canary_counts())
        wrong = {name: counts[name] for name in ("reads_wrong_total", "profiles_lost_total", "profiles_double_total", "profiles_foreign_total") if counts[name] != 0}
        check(not wrong, "the canary: %s\n%s", wrong, self.bed.log(self.canary_pod(), "canary")[-3000:])
        return counts


class Load:
    """A canary outside of the release, which no rollout restarts, and which so sees all of it. Use as a context."""

    def __init__(self, release, rate=RATE, reads=READS):
        self.release = release
        self.canary = Canary(release.address("distributor"), "--rate", rate, "--reads", reads, ask=release.address("querier"))
        self.begun = time.monotonic()
        self.marks = []

    def __enter__(self):
        self.canary.wait_started()
        beds.wait("profiles are acknowledged", GREEN_TIMEOUT_S, lambda: self.canary.counts()["profiles_acknowledged_total"] > 20)
        return self

    def __exit__(self, *exception):
        self.canary.__exit__(*exception)

    def mark(self, what):
        """Notes how far it is, for the report."""
        counts = self.canary.counts()
        self.marks.append("%4d s  %-42s %6d acknowledged, %d refused, %d unanswered" % (
            time.monotonic() - self.begun, what, counts["profiles_acknowledged_total"], counts['push_failures_total{reason="refused"}'],
            counts['push_failures_total{reason="unanswered"}']))
        print("     " + self.marks[-1], flush=True)

    def finish(self, retries=False):
        """Ends it, and checks its counts. retries: whether pushes and queries may have needed another try."""
        code, counts = self.canary.stop()
        print("     %s in %d s: %s" % (self.release.name, time.monotonic() - self.begun, ", ".join("%s %d" % item for item in counts.items())), flush=True)
        wrong = {name: counts[name] for name in NEVER + (() if retries else RETRIED) if counts.get(name)}
        check(code == 0 and not wrong, "exit code %d, %s\n%s", code, wrong, self.canary.errors() + "\n" + self.canary.log()[-3000:])
        check(counts["acknowledged"] == counts["pushed"] > 0 and counts["reads"] > 0, "%s", counts)
        return counts


class Background(threading.Thread):
    """Something that goes on while the test does something else; join_or_raise() says whether it failed."""

    def __init__(self, function):
        super().__init__(daemon=True)
        self.function, self.fault = function, None

    def run(self):
        try:
            self.function()
        except Exception as fault:  # it is raised again by whoever waits
            self.fault = fault

    def join_or_raise(self):
        self.join()
        if self.fault is not None:
            raise self.fault
