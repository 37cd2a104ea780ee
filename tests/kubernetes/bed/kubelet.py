#!/usr/bin/env python3
"""The kubelet of one node of a bed: `kubelet.py BED NUMBER`.

BED is the folder of the bed, with bed.json (bed.py). The node is number NUMBER of it; with this process, which is the first of a PID
namespace, all of its pods end. It registers the node, renews its lease, and runs the pods that are bound to it (pod.py).
"""

import json
import os
import signal
import sys
import threading
import time

import network
from api import Api, ApiError
from container import stamp
from pod import Pod

LEASE_S = 2
STATUS_S = 5
RESOURCES = {"cpu": "64", "memory": "256Gi", "pods": "100", "ephemeral-storage": "1Ti"}  # more than there is: pods only have to fit as requests


class Node:
    def __init__(self, folder, number):
        with open(os.path.join(folder, "bed.json"), encoding="utf-8") as file:
            bed = json.load(file)
        declared = bed["nodes"][number - 1]
        self.bed, self.number = folder, number
        self.name, self.zone = declared["name"], declared["zone"]
        self.folder = os.path.join(folder, self.name)
        self.api = Api(bed["host"], bed["port"], bed["token"], bed["authority"])
        self.api_service, self.domain, self.images, self.variables = bed["api_service"], bed["domain"], bed["images"], bed["variables"]
        self.pods = {}
        self.lock = threading.Lock()
        for name in ("pods", "logs"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)

    def say(self, text):
        with open(os.path.join(self.folder, "log"), "a", encoding="utf-8") as file:
            file.write("%s %s\n" % (time.strftime("%H:%M:%S"), text))

    def next_number(self):
        """Returns the number of a new pod, which no other one had, also not before the node was lost."""
        path = os.path.join(self.folder, "numbers")
        with open(path, "ab+") as file:
            file.write(b".")
            return file.tell()

    def image(self, name):
        if name not in self.images:
            raise OSError("there is no image %s" % name)
        return self.images[name]

    # ---- the node ----

    def register(self):
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": self.zone,
                  "topology.kubernetes.io/region": "bed"}
        try:
            self.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}})
        except ApiError as fault:
            if fault.status != 409:
                raise
        self.report()

    def report(self):
        now = stamp(time.time())
        conditions = [{"type": kind, "status": status, "lastHeartbeatTime": now, "reason": "Bed", "message": ""} for kind, status in (
            ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False"), ("Ready", "True"))]
        self.api.patch("/api/v1/nodes/%s/status" % self.name, {"status": {
            "capacity": RESOURCES, "allocatable": RESOURCES, "conditions": conditions, "addresses": [{"type": "InternalIP", "address": network.NODES}, {"type": "Hostname", "address": self.name}],
            "nodeInfo": {"kubeletVersion": "v1.37.2", "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": os.uname().release, "osImage": "bed",
                         "containerRuntimeVersion": "bed://1", "machineID": self.name, "systemUUID": self.name, "bootID": self.name, "kubeProxyVersion": ""}}})

    def renew(self):
        """Says that the node is alive, for ever."""
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        report_mono = 0
        while True:
            now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".000000Z"
            spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now}
            try:
                try:
                    self.api.patch(leases + "/" + self.name, {"spec": spec})
                except ApiError as fault:
                    if fault.status != 404:
                        raise
                    self.api.create(leases, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": self.name}, "spec": spec})
                if time.monotonic() >= report_mono:
                    self.report()
                    report_mono = time.monotonic() + STATUS_S
            except (ApiError, OSError) as why:
                self.say("lease: %s" % why)
            time.sleep(LEASE_S)

    # ---- its pods ----

    def on_list(self, things):
        found = {thing["metadata"]["uid"]: thing for thing in things}
        for thing in things:
            self.on_change("MODIFIED", thing)
        with self.lock:
            lost = [pod for uid, pod in self.pods.items() if uid not in found]
        for pod in lost:
            pod.forget()

    def on_change(self, kind, thing):
        uid = thing["metadata"]["uid"]
        with self.lock:
            pod = self.pods.get(uid)
            if pod is None and kind != "DELETED" and thing.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
                pod = self.pods[uid] = Pod(self, thing, self.next_number())
                pod.start()
                return
        if pod is not None:
            pod.update(thing)
            if kind == "DELETED":
                pod.forget()

    def on_end(self, pod):
        with self.lock:
            self.pods.pop(pod.uid, None)

    def run(self):
        while True:
            try:
                self.register()
                break
            except (ApiError, OSError) as why:
                self.say("register: %s" % why)
                time.sleep(1)
        threading.Thread(target=self.renew, daemon=True).start()
        self.api.follow("/api/v1/pods", self.on_list, self.on_change, fieldSelector="spec.nodeName=" + self.name)


def main():
    # As the first process of its namespace it gets no signal that it has no handler for.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    Node(sys.argv[1], int(sys.argv[2])).run()


if __name__ == "__main__":
    main()
