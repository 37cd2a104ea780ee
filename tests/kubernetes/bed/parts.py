"""Builds the parts of a bed before it starts: the control plane, Helm, and images of two versions of flamegrid."""

import hashlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import tools  # noqa: E402
import stores  # noqa: E402
from stores import Unavailable, fetch  # noqa: E402

SOURCES = os.path.join(tools.HERE, "kube")
KUBERNETES = "v1.37.2"
VERSION = "k8s.io/component-base/version"
BUILD_TIMEOUT_S = 5400
# Without tags, this many landings ago was the version before this one.
LANDINGS_BACK = 10


def kube():
    """Returns the path of the control plane's program: in a cache, since it takes a quarter of an hour to build."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        with open(os.path.join(SOURCES, name), "rb") as file:
            digest.update(file.read())
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "flamegrid")
    path = os.path.join(cache, "kube-" + digest.hexdigest()[:16])
    if not os.path.exists(path):
        os.makedirs(cache, exist_ok=True)
        print("building the control plane: a quarter of an hour on two cores, the first time", flush=True)
        major, minor = KUBERNETES[1:].split(".")[:2]
        stamps = " ".join("-X %s.%s=%s" % (VERSION, name, value) for name, value in (("gitVersion", KUBERNETES), ("gitMajor", major), ("gitMinor", minor)))
        build("go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + stamps, "-o", path + ".new", ".", cwd=SOURCES)
        os.rename(path + ".new", path)
    return path


def build(*words, cwd):
    """Runs what takes long, without the programs and settings of tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FG_")}
    try:
        done = subprocess.run(["nice", "-n", "5", *words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=BUILD_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as why:
        raise Unavailable(str(why))
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (" ".join(words[:2]), done.stdout[-1500:]))


def git(*words):
    return fetch("git", "-C", tools.ROOT, *words).strip()


def previous():
    """Returns the commit of the version before this one: FG_PREVIOUS, or the newest tag before HEAD, or a landing some time ago."""
    asked = os.environ.get("FG_PREVIOUS")
    if not asked:
        try:
            asked = git("describe", "--tags", "--abbrev=0", "HEAD^")
        except Unavailable:
            asked = "HEAD~%d" % LANDINGS_BACK
    return git("rev-parse", "--short=12", asked + "^{commit}")


def tree_of(commit):
    """Returns a folder with the sources of a commit."""
    folder = os.path.join(tools.BUILD, "previous", commit)
    if not os.path.isdir(folder):
        os.makedirs(folder + ".new")
        packed = subprocess.Popen(["git", "-C", tools.ROOT, "archive", commit], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder + ".new"], stdin=packed.stdout, check=True)
        if packed.wait() != 0:
            raise Unavailable("git archive %s: %d" % (commit, packed.returncode))
        os.rename(folder + ".new", folder)
    return folder


class Version:
    """A version of flamegrid: the folder of its image's programs, and its chart."""

    def __init__(self, name, tree, folder):
        build("bash", "deploy/run", "--build-only", cwd=tree)
        self.name, self.chart = name, os.path.join(tree, "deploy", "helm", "flamegrid")
        self.programs = os.path.join(folder, name, "bin")
        fetch("cmake", "--install", os.path.join(tree, "build", "release"), "--prefix", os.path.join(folder, name), "--strip")


def stores_missing(folder):
    """Returns why there is no object store, or None."""
    reasons = [stores.why_missing(kind(folder)) for kind in (stores.Versitygw, stores.Moto)]
    return "; ".join(reasons) if all(reasons) else None
