"""The volumes of a pod as folders."""

import base64
import os
import shutil
import subprocess
import time

PERMISSIONS_TIMEOUT_S = 60


class NotYet(Exception):
    """A source of a volume, such as a secret, does not exist yet."""


class Volumes:
    """The volumes of one pod. Those of API objects follow the objects; those of claims stay when the pod goes."""

    def __init__(self, api, pod, folder, address):
        self.api, self.pod, self.folder, self.address = api, pod, folder, address
        self.namespace = pod["metadata"]["namespace"]
        self.declared = {volume["name"]: volume for volume in pod["spec"].get("volumes", [])}
        self.group = pod["spec"].get("securityContext", {}).get("fsGroup")
        self.places = {}  # name: folder
        self.written = {}  # name: {file: (content, mode)} of the last version
        self.renew_mono = {}  # name: when the token in it is renewed

    def make(self):
        """NotYet, ApiError: try again later."""
        for name in self.declared:
            if name not in self.places:
                self.places[name] = self.make_one(name)

    def make_one(self, name):
        volume = self.declared[name]
        place = os.path.join(self.folder, name)
        if "emptyDir" in volume:
            os.makedirs(place, exist_ok=True)
            os.chmod(place, 0o777)
            self.own(place)
        elif "persistentVolumeClaim" in volume or "ephemeral" in volume:
            claim = volume.get("persistentVolumeClaim", {}).get("claimName") or "%s-%s" % (self.pod["metadata"]["name"], name)
            place = self.of_claim(claim)
            self.own(place)
        else:
            self.write(name, place)
        return place

    def own(self, place):
        """Gives a folder to the pod's group, with all that is in it unless that has happened before (fsGroupChangePolicy)."""
        if self.group is None:
            return
        status = os.stat(place)
        if status.st_gid != self.group or status.st_mode & 0o2070 != 0o2070:
            for words in (("chgrp", "-R", str(self.group)), ("chmod", "-R", "g+rwX"), ("chmod", "g+s")):
                subprocess.run([*words, place], check=True, timeout=PERMISSIONS_TIMEOUT_S)

    def of_claim(self, claim):
        found = self.api.find("/api/v1/namespaces/%s/persistentvolumeclaims/%s" % (self.namespace, claim))
        if found is None or found.get("status", {}).get("phase") != "Bound":
            raise NotYet("claim %s is not bound" % claim)
        disk = self.api.get("/api/v1/persistentvolumes/" + found["spec"]["volumeName"])
        place = disk["spec"]["hostPath"]["path"]
        os.makedirs(place, exist_ok=True)
        return place

    # ---- volumes of API objects ----

    def refresh(self):
        """Brings volumes of API objects up to date, and renews tokens."""
        for name, place in self.places.items():
            if name in self.written:
                self.write(name, place)

    def write(self, name, place):
        """Replaces all files at once, as programs expect of Kubernetes: names are links into `..data`, a link to a folder that changes."""
        files = self.files(name)
        if files == self.written.get(name):
            return
        os.makedirs(place, exist_ok=True)
        version = "..%d" % time.time_ns()
        folder = os.path.join(place, version)
        os.mkdir(folder)
        for path, (content, mode) in files.items():
            full = os.path.join(folder, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "wb") as file:
                file.write(content)
            os.chmod(full, mode | (0o040 if self.group is not None and mode & 0o400 else 0))
            if self.group is not None:
                os.chown(full, -1, self.group)
        os.chmod(folder, 0o755)
        link = os.path.join(place, "..data")
        old = os.readlink(link) if os.path.islink(link) else None
        os.symlink(version, link + ".new")
        os.replace(link + ".new", link)
        for top in {path.split("/")[0] for path in files}:
            if not os.path.islink(os.path.join(place, top)):
                os.symlink(os.path.join("..data", top), os.path.join(place, top))
        if old is not None:
            shutil.rmtree(os.path.join(place, old))
        self.written[name] = files

    def files(self, name):
        """Returns {path: (content, mode)}."""
        volume = self.declared[name]
        for kind in ("configMap", "secret", "downwardAPI", "projected"):
            if kind in volume:
                source = volume[kind]
                mode = source.get("defaultMode", 0o644)
                if kind != "projected":
                    return self.of_source(name, kind, source, mode)
                files = {}
                for part in source["sources"]:
                    (part_kind, part_source), = part.items()
                    files.update(self.of_source(name, part_kind, part_source, mode))
                return files
        raise ValueError("volume %s: a kind that this kubelet does not know: %s" % (name, sorted(volume)))

    def of_source(self, name, kind, source, mode):
        if kind == "serviceAccountToken":
            return {source["path"]: (self.token(name, source), mode)}
        if kind == "downwardAPI":
            return {item["path"]: (field(self.pod, item["fieldRef"]["fieldPath"], self.address).encode(), item.get("mode", mode)) for item in source["items"]}
        content = contents(self.api, self.namespace, "configmaps" if kind == "configMap" else "secrets", source.get("secretName") or source["name"],
                           source.get("optional", False))
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        missing = [item["key"] for item in items if item["key"] not in content]
        if missing and not source.get("optional"):
            raise NotYet("%s of volume %s has no key %s" % (kind, name, missing[0]))
        return {item["path"]: (content[item["key"]], item.get("mode", mode)) for item in items if item["key"] in content}

    def token(self, name, source):
        """Returns the token of the volume; renews it after four fifths of its time."""
        if time.monotonic() < self.renew_mono.get(name, 0):
            return self.written[name][source["path"]][0]
        account = self.pod["spec"].get("serviceAccountName", "default")
        asked = source.get("expirationSeconds", 3600)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {
            "expirationSeconds": asked, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": self.pod["metadata"]["name"], "uid": self.pod["metadata"]["uid"]},
            **({"audiences": [source["audience"]]} if "audience" in source else {})}}
        answer = self.api.create("/api/v1/namespaces/%s/serviceaccounts/%s/token" % (self.namespace, account), request)
        self.renew_mono[name] = time.monotonic() + 0.8 * asked
        return answer["status"]["token"].encode()


def contents(api, namespace, kind, name, optional=False):
    """Returns {key: bytes} of a ConfigMap or Secret."""
    found = api.find("/api/v1/namespaces/%s/%s/%s" % (namespace, kind, name))
    if found is None:
        if optional:
            return {}
        raise NotYet("%s %s does not exist" % (kind, name))
    content = {key: base64.b64decode(value) for key, value in found.get("binaryData", {}).items()}
    for key, value in found.get("data", {}).items():
        content[key] = base64.b64decode(value) if kind == "secrets" else value.encode()
    return content


def field(pod, path, address):
    """Returns the value of a field as the downward API has it."""
    if path.startswith("metadata.labels['"):
        return pod["metadata"].get("labels", {}).get(path[len("metadata.labels['"):-2], "")
    if path.startswith("metadata.annotations['"):
        return pod["metadata"].get("annotations", {}).get(path[len("metadata.annotations['"):-2], "")
    value = {"metadata.name": pod["metadata"]["name"], "metadata.namespace": pod["metadata"]["namespace"], "metadata.uid": pod["metadata"]["uid"],
             "spec.nodeName": pod["spec"].get("nodeName"), "spec.serviceAccountName": pod["spec"].get("serviceAccountName"), "status.podIP": address}.get(path)
    if value is None:
        raise ValueError("field %s: this kubelet does not know it" % path)
    return value


def variables(api, pod, container, address):
    """Returns the environment of a container."""
    namespace = pod["metadata"]["namespace"]
    known = {}
    for source in container.get("envFrom", []):
        kind = "configMapRef" if "configMapRef" in source else "secretRef"
        reference = source[kind]
        content = contents(api, namespace, "configmaps" if kind == "configMapRef" else "secrets", reference["name"], reference.get("optional", False))
        known.update({source.get("prefix", "") + key: value.decode() for key, value in content.items()})
    for variable in container.get("env", []):
        known[variable["name"]] = value_of(api, pod, container, variable, known, address)
    return known


def value_of(api, pod, container, variable, known, address):
    if "valueFrom" not in variable:
        return expand(variable.get("value", ""), known)
    source = variable["valueFrom"]
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], address)
    for kind, collection in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if kind in source:
            reference = source[kind]
            content = contents(api, pod["metadata"]["namespace"], collection, reference["name"], reference.get("optional", False))
            if reference["key"] not in content:
                if reference.get("optional"):
                    return ""
                raise NotYet("%s %s has no key %s" % (collection, reference["name"], reference["key"]))
            return content[reference["key"]].decode()
    raise ValueError("variable %s of %s: this kubelet does not know its source" % (variable["name"], container["name"]))


def expand(text, known):
    """Replaces $(NAME) of known names."""
    for name, value in known.items():
        text = text.replace("$(%s)" % name, value)
    return text
