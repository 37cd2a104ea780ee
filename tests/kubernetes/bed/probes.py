"""Probes of containers, and what a hook does: requests, connections and commands."""

import http.client
import json
import socket
import ssl
import subprocess
import threading
import time

LEAST_PAUSE_S = 0.05


def port_of(container, port):
    """Returns the number of a port that may be a name."""
    if isinstance(port, int):
        return port
    return next(each["containerPort"] for each in container.get("ports", []) if each["name"] == port)


def get(container, action, address, timeout_s):
    """Returns whether the answer is 2xx or 3xx."""
    port = port_of(container, action["port"])
    host = action.get("host", address)
    if action.get("scheme", "HTTP") == "HTTPS":
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl._create_unverified_context())  # as a kubelet does
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        headers = {each["name"]: each["value"] for each in action.get("httpHeaders", [])}
        connection.request("GET", action.get("path", "/"), headers={"User-Agent": "kube-probe/1.37", "Connection": "close", **headers})
        return 200 <= connection.getresponse().status < 400
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def connects(container, action, address, timeout_s):
    try:
        with socket.create_connection((address, port_of(container, action["port"])), timeout_s):
            return True
    except OSError:
        return False


class Probe(threading.Thread):
    """Asks one question of a running container again and again. after: a probe that has to have succeeded before. on_result is called with
    whether it succeeded when a threshold is reached and that was not so before."""

    def __init__(self, run, kind, on_result, after=None):
        super().__init__(daemon=True)
        self.run_of, self.kind, self.on_result, self.after = run, kind, on_result, after
        self.what = run.container[kind]
        self.passed = threading.Event()  # a startup probe's end
        self.ended = threading.Event()

    def stop(self):
        self.ended.set()

    def ask(self):
        timeout_s = self.what.get("timeoutSeconds", 1)
        return ask(self.run_of, self.what, timeout_s)

    def run(self):
        period_s = self.what.get("periodSeconds", 10)
        known, count, latest = None, 0, None
        if self.after is not None:
            while not self.after.passed.wait(0.1):
                if self.ended.is_set():
                    return
        self.ended.wait(max(self.what.get("initialDelaySeconds", 0), LEAST_PAUSE_S))
        while not self.ended.is_set():
            begun = time.monotonic()
            result = self.ask()
            count = count + 1 if result == latest else 1
            latest = result
            enough = self.what.get("successThreshold", 1) if result else self.what.get("failureThreshold", 3)
            if count >= enough and result != known and not self.ended.is_set():
                known = result
                self.on_result(result)
                if result and self.kind == "startupProbe":
                    self.passed.set()
                    return
            self.ended.wait(max(period_s - (time.monotonic() - begun), LEAST_PAUSE_S))


def ask(run, what, timeout_s):
    if "httpGet" in what:
        return get(run.container, what["httpGet"], run.address, timeout_s)
    if "tcpSocket" in what:
        return connects(run.container, what["tcpSocket"], run.address, timeout_s)
    if "exec" in what:
        return run.execute(what["exec"]["command"], timeout_s)
    if "grpc" in what:
        return serves(run, what["grpc"], timeout_s)
    raise ValueError("a probe that this kubelet does not know: %s" % json.dumps(what))


def serves(run, action, timeout_s):
    """Asks the gRPC health service with curl, which speaks HTTP/2: an answer SERVING is the message 08 01."""
    service = action.get("service", "").encode()
    message = b"\x0a" + bytes([len(service)]) + service if service else b""
    try:
        done = subprocess.run(["curl", "--silent", "--http2-prior-knowledge", "--max-time", str(timeout_s), "--header", "content-type: application/grpc", "--header", "te: trailers",
                               "--data-binary", "@-", "http://%s:%d/grpc.health.v1.Health/Check" % (run.address, action["port"])],
                              input=b"\x00" + len(message).to_bytes(4, "big") + message, capture_output=True, timeout=timeout_s + 5)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0 and done.stdout[5:] == b"\x08\x01"
