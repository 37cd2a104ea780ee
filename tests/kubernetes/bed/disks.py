"""A folder for each claim of a disk: what a storage class does."""

import os
import shutil

from api import ApiError

CLASS = "bed"
PROVISIONER = "flamegrid.test/folder"
SELECTED = "volume.kubernetes.io/selected-node"


def storage_class():
    """The default class. Disks are of the zone of the pod that comes first, as those of cloud providers."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete",
            "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}


class Disks:
    """Makes and removes them; on_change is called whenever claims or disks have changed."""

    def __init__(self, api, folder, zones):
        self.api, self.folder, self.zones = api, folder, zones  # zones: {name of a node: zone}

    def provide(self, claim):
        node = claim["metadata"].get("annotations", {}).get(SELECTED)
        if claim["spec"].get("storageClassName") != CLASS or claim["spec"].get("volumeName") or node is None or "deletionTimestamp" in claim["metadata"]:
            return
        uid, name = claim["metadata"]["uid"], "pvc-" + claim["metadata"]["uid"]
        place = os.path.join(self.folder, "disks", name)
        os.makedirs(place, exist_ok=True)
        terms = [{"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self.zones[node]]}]}]
        disk = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}}, "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]}, "accessModes": claim["spec"]["accessModes"], "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete", "hostPath": {"path": place}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"], "uid": uid}}}
        try:
            self.api.create("/api/v1/persistentvolumes", disk)
        except ApiError as fault:
            if fault.status != 409:
                raise

    def remove(self, disk):
        if disk.get("status", {}).get("phase") == "Released":
            self.api.delete("/api/v1/persistentvolumes/" + disk["metadata"]["name"])
            shutil.rmtree(disk["spec"]["hostPath"]["path"], ignore_errors=True)
