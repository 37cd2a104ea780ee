#!/usr/bin/env python3
"""Adds to a control plane the other services of a cluster: names, disks, network policies. `addons.py BED`, with the folder of the bed."""

import json
import os
import sys
import threading
import time

import disks
import names
import network
import policies
from api import Api, ApiError, Mirror

PAUSE_S = 0.2  # changes that come together are handled together


class Worker(threading.Thread):
    """Calls a function after changes, one at a time, and again later if it failed."""

    def __init__(self, name, function):
        super().__init__(daemon=True)
        self.title, self.function = name, function
        self.changed = threading.Event()

    def run(self):
        while True:
            self.changed.wait()
            time.sleep(PAUSE_S)
            self.changed.clear()
            try:
                self.function()
            except (ApiError, OSError) as why:
                print("%s: %s" % (self.title, why), flush=True)
                time.sleep(PAUSE_S)
                self.changed.set()


def main():
    folder = sys.argv[1]
    with open(os.path.join(folder, "bed.json"), encoding="utf-8") as file:
        bed = json.load(file)
    api = Api(bed["host"], bed["port"], bed["token"], bed["authority"])

    names.serve(network.NODES, names.Names(bed["domain"], Mirror(api, "/api/v1/services"), Mirror(api, "/apis/discovery.k8s.io/v1/endpointslices")).addresses)

    folders = disks.Disks(api, folder, {node["name"]: node["zone"] for node in bed["nodes"]})
    storage = Worker("disks", lambda: [act(thing) for mirror, act in ((claims, folders.provide), (volumes, folders.remove)) for thing in mirror.all()])
    claims = Mirror(api, "/api/v1/persistentvolumeclaims", storage.changed.set)
    volumes = Mirror(api, "/api/v1/persistentvolumes", storage.changed.set)
    storage.start()

    policies.prepare()
    filter_ = policies.Filter()
    filters = Worker("policies", lambda: filter_.apply(rules.all(), pods.all(), namespaces.all()))
    rules = Mirror(api, "/apis/networking.k8s.io/v1/networkpolicies", filters.changed.set)
    pods = Mirror(api, "/api/v1/pods", filters.changed.set)
    namespaces = Mirror(api, "/api/v1/namespaces", filters.changed.set)
    filters.start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
