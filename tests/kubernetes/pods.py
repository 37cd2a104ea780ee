"""Rendered pods as processes of this machine: with their commands, variables, files and folders. Only addresses differ.

A pod has a root file system of its own that is read-only, made of the machine's libraries and of what its volumes have, and the
user that its security context names; see Pod. Addresses are on loopback, one for each pod, and names of services are in /etc/hosts.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import yaml

import rules
import tools

sys.path[:0] = [os.path.join(tools.ROOT, "tests", "lint"), os.path.join(tools.HERE, "bed")]

import certs  # noqa: E402
import chart as lint  # noqa: E402
import flamegrid  # noqa: E402
import sandbox  # noqa: E402
from flamegrid import check  # noqa: E402
from variants import cluster  # noqa: E402

PROGRAMS = os.path.dirname(flamegrid.binary())
SECRET_DIR = "/run/secrets/flamegrid"
READY_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60
CANARY_S = 5
NOWHERE = "256.0.0.1"  # no address


def environment(**more):
    """The variables of a process: none of ours, which would be settings."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith(("FG_", "FLAMEGRID_", "AWS_"))}, **more}


# ---- single programs ----

class Listed:
    """A program that runs, for its list of routes."""

    def __init__(self, part):
        self.part = part

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="flamegrid-test.")
        admin = flamegrid.free_port()
        self.url = "http://127.0.0.1:%d/routes" % admin
        bucket = os.path.join(self.folder.name, "bucket")
        os.mkdir(bucket)
        self.process = subprocess.Popen(
            [os.path.join(PROGRAMS, "flamegrid-" + self.part), "--listen", "127.0.0.1:%d" % flamegrid.free_port(), "--admin_listen",
             "127.0.0.1:%d" % admin, "--bucket.path", bucket], env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def paths(self):
        """Paths at `listen`, less those of probes and of every program."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(self.url, timeout=5) as answer:
                    return {route["path"].rstrip("/") for route in json.load(answer)["listen"]}
            except OSError:
                check(time.monotonic() < deadline and self.process.poll() is None, "no routes from the %s", self.part)
                time.sleep(0.05)


class Secrets:
    """Files in the place of all secrets that pods may have, and programs that start with them."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("rpc", "bucket", "access", "encryption", "tls", "var/lib", "var/cache"):
            os.makedirs(os.path.join(folder, name))
        papers = certs.Certificates(folder)
        papers.make("ca")
        papers.make("pod", issuer="ca", names=["%s.flamegrid" % part for part in ("ingester", "distributor", "querier")])
        for place in ("rpc", "tls"):
            for source, name in (("pod.pem", "tls.crt"), ("pod.key", "tls.key"), ("ca.pem", "ca.crt")):
                os.link(os.path.join(folder, source), os.path.join(folder, place, name))
        token = subprocess.run([flamegrid.binary(), "access", "init", "--data", os.path.join(folder, "first")], check=True,
                               capture_output=True, timeout=60, env=environment()).stdout
        for name, content in (("rpc/secret", b"0" * 64), ("bucket/access_key", b"key"), ("bucket/secret_key", b"secret"), ("access/bootstrapToken", token),
                              ("access/masterKey", b"1" * 64), ("access/clientSecret", b"secret"), ("encryption/key", b"2" * 64)):
            with open(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT, 0o440), "wb") as file:
                file.write(content)

    def try_start(self, part, settings, command):
        """Starts the program of a pod at an address that there is not, and returns what it says to that."""
        path = os.path.join(self.folder, part + ".yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(settings.replace(SECRET_DIR, self.folder).replace("/etc/flamegrid-tenants", self.folder).replace(
                "/var/", self.folder + "/var/"))
        with open(os.path.join(self.folder, "tenants.yaml"), "w", encoding="utf-8") as file:
            file.write("overrides: {}\n")
        check(command[-2:] == ["--config", "/etc/flamegrid/flamegrid.yaml"], "%s", command)
        # What Kubernetes and workload identity give each pod.
        given = environment(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT="1")
        done = subprocess.run([os.path.join(PROGRAMS, os.path.basename(command[0])), *command[1:-1], path, "--listen", NOWHERE + ":4040"], capture_output=True,
                              text=True, timeout=60, env=given, cwd=self.folder)
        check(done.returncode == 1, "exit code %d: %s", done.returncode, done.stderr)
        return done.stderr


def defaults(part, definitions, name):
    """All settings that the values of a part may have, with their defaults."""
    settings = {}
    for path, default, values, _ in lint.rows(lint.ask(PROGRAMS, lint.PROGRAMS[part])):
        if lint.is_ours(path, values) or default == "":
            continue
        kind = lint.kind_of(values)
        if kind == "number":
            default = lint.number(default)
        elif kind == "true or false":
            default = default == "true"
        *sections, key = path.split(".")
        place = settings
        for section in sections:
            place = place.setdefault(section, {})
        place[key] = default
    check("properties" in definitions[name] and "workers" in definitions[name]["properties"], "%s has no settings", name)
    return settings


# ---- pods ----

class Pod:
    """A process with the command, variables, volumes and user of a rendered pod."""

    def __init__(self, node, work, name, address):
        self.node, self.work, self.name, self.address = node, work, name, address
        self.spec = rules.pod_of(work)["spec"]
        self.container = rules.containers_of(work)[0]
        self.part = rules.component_of(work)
        self.log = os.path.join(node.folder, name + ".log")
        self.user = self.spec["securityContext"]["runAsUser"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.process = None

    def folder(self, volume):
        """The folder of a volume. What a pod writes stays when it starts again."""
        path = os.path.join(self.node.folder, self.name + "." + volume["name"])
        if not os.path.isdir(path):
            os.mkdir(path)
            if "configMap" in volume:
                for name, text in self.node.config_map(volume["configMap"]["name"]).items():
                    with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                        file.write(text)
            elif volume["name"] == "api":
                os.chown(path, 0, self.spec["securityContext"]["fsGroup"])  # there is no API server: the ingester keeps its place
            elif "secret" in volume:
                for item in volume["secret"]["items"]:
                    with open(os.path.join(path, item["path"]), "w", encoding="ascii") as file:
                        file.write(self.node.secrets[volume["secret"]["secretName"]])
                    os.chmod(file.name, volume["secret"]["defaultMode"])
                    os.chown(file.name, 0, self.spec["securityContext"]["fsGroup"])
            else:
                os.chown(path, self.user, self.spec["securityContext"]["fsGroup"])
        return path

    def volumes(self):
        declared = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        for mount in self.container.get("volumeMounts", []):
            yield self.folder(declared.get(mount["name"], {"name": mount["name"]})), mount["mountPath"], "ro" if mount.get("readOnly") else "rw"

    def variables(self):
        known = {**{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}}
        for variable in self.container.get("env", []):
            value = variable.get("value")
            if value is None:
                check(variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}, "%s", variable)
                value = self.name
            for name, text in known.items():
                value = value.replace("$(%s)" % name, text)
            known[variable["name"]] = value
        return known

    def command(self):
        """The command with an address of loopback, where servers allow no other names by themselves, and with a folder for the object store."""
        words = list(self.container["command"])
        if self.part == "canary":
            return [self.address + word if word.startswith(":") else word for word in words]
        words += ["--listen", "%s:%d" % (self.address, self.ports["http"]), "--admin_listen", "%s:%d" % (self.address, self.ports["admin"]),
                  "--allowed_hosts", "*", "--bucket.type", "directory", "--bucket.path", "/bucket"]
        for port, flag in (("rpc", "--rpc_listen"), ("share", "--querier.share.listen")):
            if port in self.ports:
                words += [flag, "tls+tcp://%s:%d" % (self.address, self.ports[port])]
        return words

    def start(self):
        root = os.path.join(self.node.folder, self.name + ".root")
        os.makedirs(root, exist_ok=True)
        mounts = [*self.volumes(), (self.node.bucket, "/bucket", "rw")]
        group = self.spec["securityContext"]["runAsGroup"]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                sandbox.command(root, mounts, self.variables(), self.command()), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=sandbox.environment(os.path.abspath(PROGRAMS), self.node.hosts, os.devnull, self.user, group, [group], True))
        return self

    def probe(self, kind):
        get = self.container[kind]["httpGet"]
        try:
            with urllib.request.urlopen("http://%s:%d%s" % (self.address, self.ports[get["port"]], get["path"]), timeout=5):
                return True
        except (OSError, urllib.error.HTTPError):
            return False

    def wait_ready(self):
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not self.probe("readinessProbe"):
            check(self.process.poll() is None, "%s has ended with %s:\n%s", self.name, self.process.returncode, self.said())
            check(time.monotonic() < deadline, "%s is not ready:\n%s", self.name, self.said())
            time.sleep(0.1)
        check(self.probe("livenessProbe") and self.probe("startupProbe"), "%s is ready and not alive", self.name)

    def stop(self, times=1):
        """Sends SIGTERM; a second one ends an ingester's wait for others that are away."""
        for _ in range(times):
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                pass
        check(self.process.wait(STOP_TIMEOUT_S) in (0, 0 if times == 1 else 128 + signal.SIGTERM), "%s ended with %d:\n%s", self.name, self.process.returncode,
              self.said())

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]


class Node:
    """All rendered pods on this machine."""

    def __init__(self, things, folder):
        self.things, self.folder = things, folder
        os.chmod(folder, 0o755)
        self.bucket = os.path.join(folder, "bucket")
        os.mkdir(self.bucket)
        os.chmod(self.bucket, 0o777)
        self.secrets = {"flamegrid-rpc": os.urandom(32).hex(), "bucket-keys": "none"}
        self.hosts = os.path.join(folder, "hosts")
        net = "127.%d.%d" % (1 + os.getpid() // 250 % 250, 1 + os.getpid() % 250)
        self.pods = []
        budgets = {thing["spec"]["scaleTargetRef"]["name"]: thing["spec"]["minReplicas"] for thing in things if thing["kind"] == "HorizontalPodAutoscaler"}
        for work in rules.workloads(things):
            for number in range(work["spec"].get("replicas", budgets.get(work["metadata"]["name"]))):
                self.pods.append(Pod(self, work, "%s-%d" % (work["metadata"]["name"], number), "%s.%d" % (net, len(self.pods) + 1)))
        self.write_hosts()

    def write_hosts(self):
        with open(self.hosts, "w", encoding="ascii") as file:
            for service in (thing for thing in self.things if thing["kind"] == "Service"):
                domain = "%s.%s.svc.cluster.local" % (service["metadata"]["name"], service["metadata"]["namespace"])
                for pod in self.pods:
                    if rules.matches(service["spec"]["selector"], rules.pod_of(pod.work)["metadata"]["labels"]):
                        own = " %s.%s" % (pod.name, domain) if pod.work["spec"].get("serviceName") == service["metadata"]["name"] else ""
                        file.write("%s %s%s\n" % (pod.address, domain, own))

    def config_map(self, name):
        return next(thing["data"] for thing in self.things if thing["kind"] == "ConfigMap" and thing["metadata"]["name"] == name)

    def of(self, part):
        return [pod for pod in self.pods if pod.part == part]


def case_a_cluster_of_rendered_pods(chart):
    """The pods that the chart renders find each other, and the canary finds each of its profiles once; then all end in order."""
    things = tools.objects(tools.render(chart.helm, cluster(canary={"rate": "20/s", "reads": "4/s"})))
    with tempfile.TemporaryDirectory(prefix="flamegrid-test.") as folder:
        node = Node(things, folder)
        try:
            for pod in node.pods:
                if pod.part != "canary":
                    pod.start()
            for pod in node.pods:
                if pod.part != "canary":
                    pod.wait_ready()
            canary = node.of("canary")[0].start()
            canary.wait_ready()
            time.sleep(CANARY_S)
            # A pod that starts again has its name, its address in the ring and its disk.
            again = node.of("ingester")[2]
            again.stop()
            again.start().wait_ready()
            time.sleep(CANARY_S)
            canary.stop()
            said = dict(line.split()[:2] for line in canary.said().splitlines() if len(line.split()) >= 2)
            check(int(said["acknowledged"]) > CANARY_S and int(said["reads"]) > 0, "%s", canary.said())
            check([said[fault] for fault in ("lost", "double", "foreign", "wrong")] == ["0"] * 4, "%s", canary.said())
            for part in ("distributor", "querier", "compactor"):
                for pod in node.of(part):
                    pod.stop()
            for pod in node.of("ingester"):
                pod.stop(times=2)
        finally:
            for pod in node.pods:
                pod.kill()
