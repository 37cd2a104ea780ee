"""Programs and schemas of others that the tests of the chart use: built once from their Go modules, with the versions in go.sum."""

import json
import os
import re
import subprocess
import sys
import zipfile

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lib"))

from stores import Unavailable, fetch  # noqa: E402

HERE = os.path.join(ROOT, "tests", "kubernetes")
BUILD = os.path.join(ROOT, "build", "kubernetes")
CHART = os.path.join(ROOT, "deploy", "helm", "flamegrid")
OLDEST_GO = (1, 26)
PACKAGES = {"helm3": "helm.sh/helm/v3/cmd/helm", "helm4": "helm.sh/helm/v4/cmd/helm",
            "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform", "kube-score": "github.com/zegl/kube-score/cmd/kube-score"}
OLDEST, USUAL, NEWEST = 25, 33, 37  # minor versions of Kubernetes 1


def build(tool):
    """Returns the path of a tool."""
    path = os.path.join(BUILD, tool)
    version = re.search(r"go(\d+)\.(\d+)", fetch("go", "version"))
    if version is None or tuple(map(int, version.groups())) < OLDEST_GO:
        raise Unavailable("no Go %d.%d or later" % OLDEST_GO)
    fetch("go", "build", "-mod=readonly", "-ldflags=-s -w", "-o", path, PACKAGES[tool], cwd=os.path.join(HERE, tool))
    return path


def schemas():
    """Returns the folder with the schemas of Kubernetes, a folder for each version."""
    top = os.path.join(BUILD, "schemas")
    if not os.path.isdir(top):
        fetch(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes",
              "--dest", BUILD, "--requirement", os.path.join(HERE, "locks", "kubernetes-validate.txt"))
        wheel = next(os.path.join(BUILD, name) for name in os.listdir(BUILD) if name.endswith(".whl"))
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                # Strict ones, which know all keys, of the objects themselves, and what these refer to.
                match = re.search(r"/v1\.(\d+)\.0-local-strict/(_definitions|[a-z]+(?:-[a-z]+)?-v\d)\.json$", name)
                if match:
                    path = os.path.join(top + ".new", "v1.%s" % match.group(1), match.group(2) + ".json")
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    # They refer to each other by places on a server: here it is by files.
                    schema = json.loads(packed.read(name).replace(b'"/api/_definitions.json#', b'"_definitions.json#'))
                    del schema["$id"]
                    with open(path, "w", encoding="utf-8") as file:
                        json.dump(schema, file)
        os.rename(top + ".new", top)
    return top


class Refused(Exception):
    """Helm did not render the values."""


def render(helm, values, minor=USUAL, release="fg", namespace="profiles", chart=CHART, server=None):
    """Returns what `helm template` prints for values, a map. server: the URL of an API server that it asks what is installed."""
    asks = [] if server is None else ["--dry-run=server", "--kube-apiserver", server]
    done = subprocess.run([helm, "template", release, chart, "--namespace", namespace, "--kube-version", "1.%d.0" % minor, *asks, "--values", "-"],
                          input=json.dumps(values), capture_output=True, text=True, timeout=120,
                          env={**os.environ, "HELM_CACHE_HOME": BUILD, "HELM_CONFIG_HOME": BUILD, "HELM_DATA_HOME": BUILD})
    if done.returncode != 0:
        raise Refused(done.stderr)
    return done.stdout


class UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Keys that are there twice are a fault: Helm 4 refuses them when it applies."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, "the key %s is there twice" % key, node.start_mark)
        return super().construct_mapping(node, deep)


def objects(text):
    """The objects in rendered text."""
    return [document for document in yaml.load_all(text, UniqueKeys) if document]
