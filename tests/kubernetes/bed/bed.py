"""A cluster of Kubernetes on this machine: a control plane, nodes in three zones, a network, disks, names, and an object store.

It runs in a network, mount and PID namespace of its own (cluster_test.py), so all of it ends with the first process of that one.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request

import control
import disks
import network
import stores
from api import ApiError

HERE = os.path.dirname(os.path.abspath(__file__))
NODES = 6
ZONES = ("zone-a", "zone-b", "zone-c")
DOMAIN = "cluster.local"
REGISTRY = "bed"
START_TIMEOUT_S = 180
PAUSE_S = 0.5
HELM_TIMEOUT_S = 900
# With the sanitizers of a build for development.
VARIABLES = {name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}


def wait(what, timeout_s, condition, why=lambda: ""):
    """Waits until condition() returns something, and returns that."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            found = condition()
        except (OSError, ApiError) as fault:
            found, last = None, fault
        else:
            last = None
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError("%s: not in %d s. %s%s" % (what, timeout_s, last or "", why()))
        time.sleep(PAUSE_S)


class Node:
    """A node as a process: the kubelet, with which its pods end."""

    def __init__(self, bed, number):
        self.bed, self.number = bed, number
        self.name, self.zone = "node-%d" % number, ZONES[(number - 1) % len(ZONES)]
        self.process = None
        self.lost = False

    def start(self):
        if self.lost:
            network.mend(self.number)
            self.lost = False
        with open(os.path.join(self.bed.folder, self.name + ".out"), "ab") as log:
            self.process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, os.path.join(HERE, "kubelet.py"), self.bed.folder,
                                             str(self.number)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def lose(self):
        """The node is without power: nobody is told."""
        network.cut(self.number)
        self.lost = True
        self.process.kill()
        self.process.wait()


class Bed:
    def __init__(self, folder, kube, helm, images):
        self.folder, self.helm_program, self.images = folder, helm, images
        self.control = control.Control(kube, folder)
        self.nodes = [Node(self, number + 1) for number in range(NODES)]
        self.api = self.store = self.addons = None

    # ---- start and stop ----

    def start(self):
        network.begin()
        self.store, reasons = stores.any_store(os.path.join(self.folder), network.NODES)
        if self.store is None:
            raise stores.Unavailable("; ".join(reasons))
        self.api = self.control.start()
        with open(os.path.join(self.folder, "bed.json"), "w", encoding="utf-8") as file:
            json.dump({"host": network.NODES, "port": control.PORT, "token": self.control.token, "authority": self.control.authority, "api_service": control.API_SERVICE,
                       "domain": DOMAIN, "variables": VARIABLES, "images": {"%s/flamegrid:%s" % (REGISTRY, name): place for name, place in self.images.items()},
                       "nodes": [{"name": node.name, "zone": node.zone} for node in self.nodes]}, file)
        self.api.create("/apis/storage.k8s.io/v1/storageclasses", disks.storage_class())
        with open(os.path.join(self.folder, "addons.out"), "ab") as log:
            self.addons = subprocess.Popen([sys.executable, os.path.join(HERE, "addons.py"), self.folder], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for node in self.nodes:
            node.start()
        wait("nodes are ready", START_TIMEOUT_S, lambda: len(self.ready_nodes()) == NODES)
        self.control.start_proxy(self.nodes[0].name)

    def stop(self):
        for process in [node.process for node in self.nodes] + [self.addons]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        self.control.stop()
        if self.store is not None:
            self.store.stop()

    def check(self):
        """Raises if a part of the bed itself has ended."""
        self.control.check()
        for process in [self.addons, *(node.process for node in self.nodes)]:
            if process.poll() is not None:
                raise RuntimeError("%s ended with %d" % (process.args, process.returncode))

    def ready_nodes(self):
        """Those that take pods: a controller takes the taint of a new node away some time after it has said that it is ready."""
        return [node["metadata"]["name"] for node in self.api.get("/api/v1/nodes")["items"] if not node["spec"].get("taints") and
                any(each["type"] == "Ready" and each["status"] == "True" for each in node.get("status", {}).get("conditions", []))]

    # ---- what people do with kubectl and helm ----

    def namespace(self, name, **labels):
        self.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})

    def secret(self, namespace, name, **texts):
        self.api.create("/api/v1/namespaces/%s/secrets" % namespace, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts})

    def helm(self, *words, values=None):
        """Runs helm; values are those of --values."""
        home = os.path.join(self.folder, "helm")
        more = ["--values", "-"] if values is not None else []
        done = subprocess.run([self.helm_program, *words, *more], input=None if values is None else json.dumps(values), capture_output=True, text=True, timeout=HELM_TIMEOUT_S,
                              env={"PATH": os.environ["PATH"], "HOME": home, "KUBECONFIG": self.control.kubeconfig(), "HELM_CACHE_HOME": home, "HELM_CONFIG_HOME": home, "HELM_DATA_HOME": home})
        if done.returncode != 0:
            raise AssertionError("helm %s: %s" % (" ".join(words), done.stderr.strip()))
        return done.stdout

    def pods(self, namespace, component=None):
        path = "/api/v1/namespaces/%s/pods" % namespace
        if component is not None:
            path += "?labelSelector=app.kubernetes.io/component%%3D%s" % component
        return self.api.get(path)["items"]

    def cordon(self, node, yes=True):
        self.api.patch("/api/v1/nodes/" + node.name, {"spec": {"unschedulable": yes}})

    def drain(self, node, timeout_s):
        """Evicts all pods of a node, as `kubectl drain` does, and waits until they have ended. Returns how many there were."""
        self.cordon(node)
        deadline = time.monotonic() + timeout_s
        seen = set()
        while True:
            left = self.api.get("/api/v1/pods?fieldSelector=spec.nodeName%%3D%s" % node.name)["items"]
            if not left:
                return len(seen)
            seen.update(pod["metadata"]["uid"] for pod in left)
            if time.monotonic() > deadline:
                raise AssertionError("%s still has %s" % (node.name, [pod["metadata"]["name"] for pod in left]))
            for pod in left:
                if "deletionTimestamp" not in pod["metadata"]:
                    self.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
            time.sleep(PAUSE_S)

    def evict(self, namespace, name):
        try:
            self.api.create("/api/v1/namespaces/%s/pods/%s/eviction" % (namespace, name),
                            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}})
        except ApiError as fault:
            if fault.status not in (404, 429):  # 429: the budget does not allow it now
                raise

    def run_once(self, namespace, name, image, *command):
        """Runs a command in a pod of its own, restricted, and returns its exit code."""
        pods = "/api/v1/namespaces/%s/pods" % namespace
        self.api.create(pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": "once", "image": image, "command": list(command),
                            "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}}]}})
        pod = wait("the pod %s ends" % name, START_TIMEOUT_S, lambda: next(
            (pod for pod in [self.api.get(pods + "/" + name)] if pod.get("status", {}).get("phase") in ("Succeeded", "Failed")), None))
        self.api.delete(pods + "/" + name)
        return pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]

    def log(self, pod, container):
        """Returns what a container said, on whichever nodes it has been."""
        name = "%s.%s.%s.log" % (pod["metadata"]["namespace"], pod["metadata"]["name"], container)
        texts = []
        for node in self.nodes:
            path = os.path.join(self.folder, node.name, "logs", name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    texts.append(file.read())
        return "".join(texts)

    def told(self):
        """What kubelets noted."""
        lines = []
        for node in self.nodes:
            path = os.path.join(self.folder, node.name, "log")
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    lines += [line.rstrip() + " [%s]" % node.name for line in file]
        return sorted(lines)


def metrics(address, port, path="/metrics", timeout_s=10):
    """Returns {name with labels: value} of a page of metrics."""
    with urllib.request.urlopen("http://%s:%d%s" % (address, port, path), timeout=timeout_s) as answer:
        lines = [line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}
