"""A container of a pod: its process, its probes, its hook before the end."""

import os
import signal
import subprocess
import time

import probes
import sandbox
import volumes

BACKOFF_S = (0, 10, 20, 40, 80, 160, 300)  # before the n-th start
STEADY_S = 600  # after this time the count of starts begins again
KILL_TIMEOUT_S = 30


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Container:
    """One container; the pod's thread calls everything except what probes report."""

    def __init__(self, pod, declared):
        self.pod, self.container = pod, declared
        self.name = declared["name"]
        self.root = os.path.join(pod.folder, "root." + self.name)
        self.log = os.path.join(pod.node.folder, "logs", "%s.%s.%s.log" % (pod.namespace, pod.name, self.name))
        self.process = None
        self.starts = 0
        self.started_s = None
        self.probes = []
        self.started = self.ready = False
        self.killing = False  # since its liveness probe failed
        self.waiting = "ContainerCreating"
        self.last = None  # how it ended the time before
        self.ended = None
        self.start_mono = 0
        self.used = (0, 0)  # most memory in MiB, processor time in seconds

    @property
    def address(self):
        return self.pod.link.address

    # ---- start ----

    def start(self):
        """NotYet, ApiError: try again later."""
        api, thing = self.pod.node.api, self.pod.thing
        known = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": self.pod.name, "KUBERNETES_SERVICE_HOST": self.pod.node.api_service,
                 "KUBERNETES_SERVICE_PORT": "443", **self.pod.node.variables, **volumes.variables(api, thing, self.container, self.address)}
        words = [volumes.expand(word, known) for word in (*self.container.get("command", []), *self.container.get("args", []))]
        mounts = [(os.path.join(self.pod.volumes.places[mount["name"]], mount.get("subPath", "")), mount["mountPath"], "ro" if mount.get("readOnly") else "rw")
                  for mount in self.container.get("volumeMounts", [])]
        security = {**self.pod.security, **self.container.get("securityContext", {})}
        user, group = security.get("runAsUser", 0), security.get("runAsGroup", 0)
        groups = [group, *([security["fsGroup"]] if "fsGroup" in security else []), *security.get("supplementalGroups", [])]
        self.as_user = ["/usr/bin/setpriv", "--reuid", str(user), "--regid", str(group), "--groups", ",".join(map(str, groups)), "--no-new-privs", "--inh-caps=-all",
                        "--bounding-set=-all", "/usr/bin/env", "-i", *("%s=%s" % item for item in known.items())]
        os.makedirs(self.root, exist_ok=True)
        environment = sandbox.environment(self.pod.node.image(self.container["image"]), self.pod.hosts, self.pod.resolver, user, group, groups,
                                          security.get("readOnlyRootFilesystem", False))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*self.pod.link.enter(), *sandbox.command(self.root, mounts, known, words)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment, cwd="/")
        self.starts += 1
        self.started_s, self.ended, self.waiting, self.killing = time.time(), None, None, False
        self.begin_probes()

    def begin_probes(self):
        startup = None
        self.probes = []
        self.started = "startupProbe" not in self.container
        self.ready = self.started and "readinessProbe" not in self.container
        if not self.started:
            startup = probes.Probe(self, "startupProbe", self.on_startup)
            self.probes.append(startup)
        for kind, on_result in (("readinessProbe", self.on_readiness), ("livenessProbe", self.on_liveness)):
            if kind in self.container:
                self.probes.append(probes.Probe(self, kind, on_result, after=startup))
        for probe in self.probes:
            probe.start()

    def on_startup(self, result):
        if result:
            self.started = True
            self.ready = self.ready or "readinessProbe" not in self.container
        else:
            self.pod.event("Unhealthy", "startup probe failed: %s" % self.name)
            self.killing = True
        self.pod.wake.set()

    def on_readiness(self, result):
        if not result and self.ready:
            self.pod.event("Unhealthy", "readiness probe failed: %s" % self.name)
        self.ready = result
        self.pod.wake.set()

    def on_liveness(self, result):
        if not result:
            self.pod.event("Unhealthy", "liveness probe failed: %s" % self.name)
            self.killing = True
            self.pod.wake.set()

    # ---- while it runs, called again and again ----

    def advance(self):
        """Starts it if it is time to, and sees whether it ended."""
        if self.process is None:
            if time.monotonic() >= self.start_mono and (self.ended is None or self.restarts()):
                self.start()
            return
        if self.killing:
            self.stop(self.pod.grace_s)
        if self.process.poll() is not None:
            self.take_end()
            if self.restarts():
                if time.time() - self.started_s > STEADY_S:
                    self.starts = 1
                self.start_mono = time.monotonic() + BACKOFF_S[min(self.starts - 1, len(BACKOFF_S) - 1)]
                self.waiting = "CrashLoopBackOff"
                self.pod.event("BackOff" if self.starts > 1 else "Restarted", "%s ended with %d" % (self.name, self.last["terminated"]["exitCode"]))

    def measure(self):
        """Notes the memory and processor time of the process so far."""
        try:
            with open("/proc/%d/status" % self.process.pid, encoding="ascii") as file:
                memory = next((int(line.split()[1]) for line in file if line.startswith("VmHWM:")), 0)
            with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as file:
                ticks = sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))
            self.used = (memory // 1024, ticks / os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError):
            pass  # it ends

    def restarts(self):
        policy = self.pod.thing["spec"].get("restartPolicy", "Always")
        return policy == "Always" or policy == "OnFailure" and self.ended["exitCode"] != 0

    def take_end(self):
        code = self.process.returncode
        for probe in self.probes:
            probe.stop()
        self.pod.event("Used", "%s: %d MiB, %.1f s of CPU in %d s" % (self.name, *self.used, time.time() - self.started_s))
        self.process = None
        self.started = self.ready = False
        self.ended = {"exitCode": code if code >= 0 else 128 - code, "reason": "Completed" if code == 0 else "Error", "startedAt": stamp(self.started_s),
                      "finishedAt": stamp(time.time())}
        self.last = {"terminated": self.ended}

    # ---- end ----

    def before_stop(self, grace_s):
        """The preStop hook: at most as long as the pod may take to stop."""
        hook = self.container.get("lifecycle", {}).get("preStop", {})
        if self.process is None or not hook:
            return
        if "sleep" in hook:
            # A process that ends meanwhile ends the pause: a kubelet would wait, for nothing.
            try:
                self.process.wait(min(hook["sleep"]["seconds"], grace_s))
            except subprocess.TimeoutExpired:
                pass
        elif "httpGet" in hook:
            probes.get(self.container, hook["httpGet"], self.address, grace_s)
        elif "exec" in hook:
            self.execute(hook["exec"]["command"], grace_s)

    def terminate(self):
        if self.process is not None:
            self.measure()
            self.process.send_signal(signal.SIGTERM)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait(KILL_TIMEOUT_S)

    def stop(self, grace_s):
        """Ends it alone, for a start after that."""
        deadline = time.monotonic() + grace_s
        self.before_stop(grace_s)
        self.terminate()
        try:
            self.process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            self.kill()

    def execute(self, words, timeout_s):
        """Runs a command in the container; returns whether it succeeded."""
        process = self.process
        if process is None:
            return False
        try:
            return subprocess.run(["nsenter", "--target", str(process.pid), "--mount", "--net", "--root", "--wd", "--", *self.as_user, *words], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=timeout_s).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def status(self):
        if self.process is not None:
            state = {"running": {"startedAt": stamp(self.started_s)}}
        elif self.waiting is not None:
            state = {"waiting": {"reason": self.waiting}}
        else:
            state = {"terminated": self.ended}
        return {"name": self.name, "image": self.container["image"], "imageID": self.container["image"], "containerID": "bed://%s-%d" % (self.name, self.starts),
                "ready": self.ready and self.process is not None, "started": self.started and self.process is not None, "restartCount": max(self.starts - 1, 0),
                "state": state, "lastState": self.last or {}}
