"""A pod on a node, from its binding to its end, in a thread of its own."""

import os
import shutil
import threading
import time

import network
from api import ApiError
from container import Container, stamp
from volumes import NotYet, Volumes

TICK_S = 0.2
RETRY_S = 1
REFRESH_S = 20  # volumes of ConfigMaps and Secrets
OURS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")  # conditions that a kubelet sets


class Pod(threading.Thread):
    def __init__(self, node, thing, number):
        super().__init__(daemon=True)
        self.node, self.thing = node, thing
        self.namespace, self.name, self.uid = (thing["metadata"][key] for key in ("namespace", "name", "uid"))
        self.path = "/api/v1/namespaces/%s/pods/%s" % (self.namespace, self.name)
        self.folder = os.path.join(node.folder, "pods", self.uid)
        self.hosts, self.resolver = os.path.join(self.folder, "hosts"), os.path.join(self.folder, "resolv.conf")
        self.link = network.Link(node.number, number)
        self.security = thing["spec"].get("securityContext", {})
        self.volumes = Volumes(node.api, thing, os.path.join(self.folder, "volumes"), self.link.address)
        self.containers = [Container(self, each) for each in thing["spec"]["containers"]]
        self.wake = threading.Event()
        self.gone = False  # from the API server
        self.prepared = False
        self.begun_s = time.time()
        self.reported = None
        self.changed_s = {}  # condition: (status, since when)
        self.trouble = None  # why it has not started

    # ---- from the node's thread ----

    def update(self, thing):
        self.thing = thing
        self.wake.set()

    def forget(self):
        self.gone = True
        self.wake.set()

    @property
    def grace_s(self):
        grace_s = self.thing["metadata"].get("deletionGracePeriodSeconds")
        return self.thing["spec"].get("terminationGracePeriodSeconds", 30) if grace_s is None else grace_s

    def deleted(self):
        return self.gone or "deletionTimestamp" in self.thing["metadata"]

    def event(self, reason, message):
        self.node.say("%s/%s: %s: %s" % (self.namespace, self.name, reason, message))

    # ---- its own thread ----

    def run(self):
        try:
            self.live()
            self.end()
        finally:
            for container in self.containers:
                for probe in container.probes:
                    probe.stop()
                container.kill()
            self.link.detach()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.node.on_end(self)

    def live(self):
        refresh_mono = time.monotonic() + REFRESH_S
        while not self.deleted():
            pause_s = TICK_S
            try:
                if not self.prepared:
                    self.prepare()
                for container in self.containers:
                    container.advance()
                if time.monotonic() >= refresh_mono:
                    self.volumes.refresh()
                    refresh_mono = time.monotonic() + REFRESH_S
                self.report()
                self.trouble = None
            except (NotYet, ApiError, OSError, ValueError) as why:
                if str(why) != self.trouble:
                    self.trouble = str(why)
                    self.event("Waiting", why)
                pause_s = RETRY_S
            self.wake.wait(pause_s)
            self.wake.clear()

    def prepare(self):
        os.makedirs(self.folder, exist_ok=True)
        self.volumes.make()
        spec = self.thing["spec"]
        with open(self.resolver, "w", encoding="ascii") as file:
            domain = "svc." + self.node.domain
            file.write("nameserver %s\nsearch %s.%s %s %s\noptions ndots:5\n" % (network.NODES, self.namespace, domain, domain, self.node.domain))
        with open(self.hosts, "w", encoding="ascii") as file:
            full = " %s.%s.%s.svc.%s" % (spec["hostname"], spec["subdomain"], self.namespace, self.node.domain) if "subdomain" in spec else ""
            file.write("127.0.0.1 localhost\n%s%s %s\n" % (self.link.address, full, spec.get("hostname", self.name)))
        if spec.get("initContainers"):
            raise ValueError("this kubelet starts no init containers")
        self.link.attach()
        self.prepared = True

    def end(self):
        """Hooks, TERM, and KILL when the time is over, which may become shorter meanwhile."""
        begun = time.monotonic()
        self.event("Killing", "grace %d s" % self.grace_s)
        if not self.gone:
            self.try_report()
            hooks = [threading.Thread(target=container.before_stop, args=(self.grace_s,), daemon=True) for container in self.containers]
            for hook in hooks:
                hook.start()
            while any(hook.is_alive() for hook in hooks) and not self.over(begun):
                time.sleep(TICK_S)
        for container in self.containers:
            container.terminate()
        while any(container.process is not None and container.process.poll() is None for container in self.containers) and not self.over(begun):
            self.try_report()
            self.wake.wait(TICK_S)
            self.wake.clear()
        for container in self.containers:
            if container.process is not None:
                if container.process.poll() is None:
                    self.event("Killed", "%s did not stop in %d s" % (container.name, time.monotonic() - begun))
                container.kill()
                container.take_end()
                container.waiting = None
                self.event("Stopped", "%s ended with %d after %.1f s" % (container.name, container.ended["exitCode"], time.monotonic() - begun))
        self.try_report()
        while not self.gone:
            try:
                self.node.api.delete(self.path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}})
                return
            except ApiError as fault:
                if fault.status == 409:
                    return  # it is another pod by now
            except OSError:
                pass
            time.sleep(RETRY_S)

    def over(self, begun):
        # A pod that was deleted by force, because its node was lost, has no time at all.
        return self.gone or time.monotonic() - begun >= self.grace_s

    # ---- status ----

    def phase(self):
        if all(container.process is None and container.ended is not None and container.waiting is None for container in self.containers):
            return "Succeeded" if all(container.ended["exitCode"] == 0 for container in self.containers) else "Failed"
        return "Running" if any(container.starts for container in self.containers) else "Pending"

    def condition(self, kind, value):
        status = "True" if value else "False"
        known = self.changed_s.get(kind)
        if known is None or known[0] != status:
            known = self.changed_s[kind] = (status, time.time())
        return {"type": kind, "status": status, "lastTransitionTime": stamp(known[1])}

    def report(self):
        """Tells the API server what has changed."""
        containers = [container.status() for container in self.containers]
        ready = all(each["ready"] for each in containers)
        conditions = [self.condition(kind, value) for kind, value in zip(OURS, (self.prepared, True, ready, ready))]
        # Conditions of others stay: of the scheduler, and of those who evict.
        others = [each for each in self.thing.get("status", {}).get("conditions", []) if each["type"] not in OURS]
        status = {"phase": self.phase(), "startTime": stamp(self.begun_s), "hostIP": network.NODES, "hostIPs": [{"ip": network.NODES}], "conditions": others + conditions,
                  "containerStatuses": containers}
        if self.prepared:
            status.update(podIP=self.link.address, podIPs=[{"ip": self.link.address}])
        if status != self.reported:
            self.node.api.patch(self.path + "/status", {"metadata": {"uid": self.uid}, "status": status})
            self.reported = status

    def try_report(self):
        try:
            if not self.gone:
                self.report()
        except ApiError as fault:
            if fault.status in (404, 409):
                self.gone = True
        except OSError:
            pass
