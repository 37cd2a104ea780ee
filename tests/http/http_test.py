#!/usr/bin/env python3
"""The server as curl finds it: HTTP/1.1, HTTP/2, TLS; and among hostile clients (hostile.py).

    http_test.py [-k REGEX]
"""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import certs  # noqa: E402
import flamegrid  # noqa: E402
import hostile  # noqa: E402
from flamegrid import check  # noqa: E402

VERSIONS = {"--http1.1": "1.1", "--http2-prior-knowledge": "2", "--http2": "1.1"}  # the last: no upgrade by default
TIMEOUT_S = 60
BODY_MAX_BYTES = 8 * 1024 * 1024
RELOAD_TIMEOUT_S = 60  # it looks every five seconds
FOLDED = "main;work;hash 30\nmain;work;sort 10\n"


def curl(*arguments, stdin=b""):
    """Returns the exit code and the output: the body of the answer, then what -w prints."""
    done = subprocess.run(["curl", "-sS", "--noproxy", "*", "--max-time", str(TIMEOUT_S), *arguments],
                          input=stdin, capture_output=True, timeout=2 * TIMEOUT_S)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def asked(url, *arguments, stdin=b""):
    """Returns status, version and body of an answer, which must come."""
    code, out, err = curl("-w", "\n%{http_code} %{http_version}", url, *arguments, stdin=stdin)
    check(code == 0, "curl %s: exit code %d: %s", arguments, code, err)
    body, _, last = out.rpartition("\n")
    status, version = last.split()
    return int(status), version, body


# ---- cleartext ----


def case_versions(server):
    for flag, want in VERSIONS.items():
        status, version, body = asked(server.url + "/buildinfo", flag)
        check((status, version) == (200, want), "%s: %s, HTTP/%s", flag, status, version)
        check(json.loads(body)["status"] == "success", "%s: %s", flag, body)


def case_push_and_ask(server):
    """A profile pushed over one HTTP version is found over another."""
    for number, flag in enumerate(VERSIONS):
        name = "version-%d.cpu" % number
        status, _, body = asked("%s/ingest?name=%s&from=now-10s&until=now" % (server.url, name), flag,
                                "--data-binary", "@-", stdin=FOLDED.encode())
        check(status == 200, "%s: %s %s", flag, status, body)
    for flag in VERSIONS:
        status, version, body = asked(
            server.url + "/querier.v1.QuerierService/LabelValues", flag, "-H", "Content-Type: application/json",
            "-d", json.dumps({"name": "service_name", "matchers": ["{}"], "start": 1, "end": int(time.time() * 1000) + 60_000}))
        names = json.loads(body).get("names", [])
        check(status == 200 and all("version-%d" % n in names for n in range(len(VERSIONS))), "%s: %s", flag, names)


def case_uploads(server):
    """Malformed bodies of many sizes are read to the end and refused with the right status."""
    for flag, want in VERSIONS.items():
        for size in (1, 20_000, 300_000, 5_000_000):
            status, version, _ = asked(server.url + "/ingest?name=a.cpu&format=pprof", flag, "--data-binary", "@-",
                                       stdin=b"\xff" * size)
            check((status, version) == (422, want), "%s, %d bytes: %s, HTTP/%s", flag, size, status, version)


def case_too_large(server):
    for flag, want in VERSIONS.items():
        status, version, _ = asked(server.url + "/ingest?name=a.cpu", flag, "--data-binary", "@-",
                                   stdin=b"x" * (BODY_MAX_BYTES + 1))
        # What is refused in HTTP/1.1 is refused before the upgrade.
        check(status == 413 and version in (want, "1.1"), "%s: %s, HTTP/%s", flag, status, version)


def case_page(server):
    """A large answer, compressed as browsers request it."""
    bodies = {asked(server.url + "/", flag, "--compressed")[2] for flag in VERSIONS}
    check(len(bodies) == 1, "the page differs between versions")
    check(bodies.pop().startswith("<!"), "no page")


def case_doors(server):
    """Operators have a port of their own, and pages of other sites are refused."""
    admin = "http://127.0.0.1:%d" % server.admin_port
    push = server.url + "/ingest?name=door.cpu&from=now-10s&until=now"
    for path in ("/metrics", "/config", "/ring", "/compactor/status"):
        check(asked(server.url + path)[0] == 404, "%s is on the port for clients", path)
    for path in ("/metrics", "/config", "/compactor/status", "/ready", "/healthz", "/buildinfo"):
        check(asked(admin + path)[0] == 200, "%s is not on the port for operators", path)
    check(asked(admin + "/ingest?name=a.cpu", "-d", "x")[0] == 404, "pushes at the port for operators")
    for path in ("/ingester/flush", "/compactor/delete?selector=%7B%7D&start=0&end=now"):
        for flag in ("--http1.1", "--http2-prior-knowledge"):
            status, _, body = asked(admin + path, flag, "-d", "")
            check(status == 403 and "X-Flamegrid-Action" in body, "%s: %s %s", path, status, body)
            status, _, body = asked(admin + path, flag, "-d", "", "-H", "X-Flamegrid-Action: x", "-H", "Origin: http://evil.example")
            check(status == 403 and "allowed_origins" in body, "%s: %s %s", path, status, body)
    check(asked(admin + "/ingester/flush", "-d", "", "-H", "X-Flamegrid-Action: flush")[0] == 200, "flush")
    for header, want in {"X: y": 200, "Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403,
                         "Origin: null": 403, "Origin: http://127.0.0.1:1": 403, "Origin: " + server.url: 200}.items():
        for flag in ("--http1.1", "--http2-prior-knowledge"):
            status, _, body = asked(push, flag, "-H", header, "--data-binary", FOLDED)
            check(status == want, "%s: %s %s", header, status, body)
    for url, want in {push: 421, server.url + "/": 421, admin + "/config": 421, server.url + "/ready": 200}.items():
        status, _, body = asked(url, "-H", "Host: evil.example:4040", *(("-d", FOLDED) if url == push else ()))
        check(status == want and (want == 200 or "allowed_hosts" in body), "%s: %s %s", url, status, body)


def case_counted(server):
    for version in ("1.1", "2"):
        found = re.search(r'^flamegrid_http_answers_total\{version="%s"\} (\d+)$' % version, server.metrics(), re.M)
        check(found and int(found.group(1)) > 0, "HTTP/%s is not counted", version)


# ---- TLS ----


class Certificates(certs.Certificates):
    """Of a server and its clients."""

    def __init__(self, folder):
        super().__init__(folder)
        self.make("ca")
        self.make("server", "ca")
        self.make("client", "ca")
        self.make("stranger")

    def of_server(self, *more):
        return ("--tls_cert_file", self.path("server.pem"), "--tls_key_file", self.path("server.key"), *more)

    def of_client(self, name):
        return ("--cert", self.path(name + ".pem"), "--key", self.path(name + ".key"))


class SecureServer(flamegrid.Server):
    """Sends a request over https; the server is ready when it answers."""

    def __init__(self, certificates, *more):
        super().__init__(*certificates.of_server(*more))
        self.certificates = certificates
        self.url = "https://127.0.0.1:%d" % self.port
        self.trust = ("--cacert", certificates.path("ca.pem"))

    def ready(self):
        code, out, _ = curl("-w", "%{http_code}", "-o", os.devnull, self.url + "/ready", *self.trust,
                            *self.certificates.of_client("client"))
        return int(out) if code == 0 else 0

    def subject(self):
        """Returns the common name in the certificate of the server."""
        context = ssl.create_default_context(cafile=self.certificates.path("ca.pem"))
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S) as plain:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
                return dict(pair[0] for pair in secure.getpeercert()["subject"])["commonName"]

    def metric(self, name):
        found = re.search(r"^%s (\d+)$" % re.escape(name), self.metrics(), re.M)
        return int(found.group(1)) if found else None


def tls_versions(server):
    for flag, want in {"--http2": "2", "--http1.1": "1.1"}.items():
        for tls in ("1.2", "1.3"):
            status, version, _ = asked(server.url + "/buildinfo", flag, "--tls-max", tls, *server.trust)
            check((status, version) == (200, want), "%s, TLS %s: %s, HTTP/%s", flag, tls, status, version)
    code, _, _ = curl(server.url + "/ready", "--tls-max", "1.1", "--ciphers", "DEFAULT@SECLEVEL=0", *server.trust)
    check(code == 35, "TLS 1.1: exit code %d", code)
    for version in ("1.2", "1.3"):
        check(server.metric('flamegrid_tls_handshakes_total{version="%s"}' % version) > 0, "TLS %s", version)


def tls_push(server):
    for flag in ("--http2", "--http1.1"):
        for size in (20_000, 5_000_000):
            status, _, _ = asked(server.url + "/ingest?name=a.cpu&format=pprof", flag, *server.trust,
                                 "--data-binary", "@-", stdin=b"\xff" * size)
            check(status == 422, "%s, %d bytes: %s", flag, size, status)


def tls_many_at_a_time(server):
    """Over TLS, because curl 7.88 fails when it opens several streams in cleartext at once."""
    count = 300
    code, out, err = curl("-Z", "--parallel-max", "100", "-w", "%{http_code} %{num_connects}\n", "-o", os.devnull,
                          "%s/ready?[1-%d]" % (server.url, count), *server.trust)
    check(code == 0, "exit code %d: %s", code, err[-500:])
    answers = [line.split() for line in out.splitlines()]
    check(sum(status == "200" for status, _ in answers) == count, "%d answers", len(answers))
    check(sum(int(connects) for _, connects in answers) < 10, "not one connection: %s", answers)


def tls_cleartext(server):
    status, _, body = asked(server.url.replace("https", "http") + "/ready", "--http1.1")
    check(status == 400 and "TLS" in body, "%s %s", status, body)
    code, _, _ = curl(server.url.replace("https", "http") + "/ready", "--http2-prior-knowledge")
    check(code != 0, "HTTP/2 in cleartext was answered")


def tls_reload(server):
    certificates = server.certificates
    check(server.subject() == "server", "%s", server.subject())
    expiry = server.metric("flamegrid_tls_certificate_expiry_timestamp_seconds")
    check(0 < expiry - time.time() < 11 * 86400, "expiry %s", expiry)
    # A broken pair first: the server has to live on with the old one.
    with open(certificates.path("server.key"), "w", encoding="ascii") as key:
        key.write("nonsense\n")
    wait_for(lambda: server.metric("flamegrid_tls_reload_failures_total") == 1, "the broken key")
    check(server.subject() == "server", "%s", server.subject())
    check("keeping the old certificate" in server.log_tail(), "nothing in the log: %s", server.log_tail())
    certificates.make("second", "ca")
    for suffix in (".pem", ".key"):
        os.replace(certificates.path("second" + suffix), certificates.path("server" + suffix))
    wait_for(lambda: server.subject() == "second", "the new certificate")


def wait_for(condition, what):
    deadline = time.monotonic() + RELOAD_TIMEOUT_S
    while not condition():
        check(time.monotonic() < deadline, "not in %d s: %s", RELOAD_TIMEOUT_S, what)
        time.sleep(0.1)


def tls_end(server):
    """An idle connection does not delay the end."""
    context = ssl.create_default_context(cafile=server.certificates.path("ca.pem"))
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as plain:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as secure:
            check(secure.selected_alpn_protocol() == "h2", "%s", secure.selected_alpn_protocol())
            secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
            start = time.monotonic()
            check(server.terminate() == 0, "%s", server.log_tail())
            check(time.monotonic() - start < 20, "the end took %.1f s", time.monotonic() - start)


def tls_client_certificates(server):
    certificate = server.certificates.of_client("client")
    for flag in ("--http2", "--http1.1"):
        check(asked(server.url + "/buildinfo", flag, *server.trust, *certificate)[0] == 200, "refused")
        for path in ("/ready", "/healthz"):  # a kubelet has no certificate
            check(asked(server.url + path, flag, *server.trust)[0] == 200, "%s needs a certificate", path)
        status, _, body = asked(server.url + "/buildinfo", flag, *server.trust)
        check(status == 403 and "tls_client_auth" in body, "%s %s", status, body)
        status, _, _ = asked(server.url + "/ingest?name=a.cpu", flag, *server.trust, "-d", "x")
        check(status == 403, "%s", status)
    code, _, _ = curl(server.url + "/ready", *server.trust, *server.certificates.of_client("stranger"))
    check(code != 0, "a stranger was let in")
    status, _, _ = asked("http://127.0.0.1:%d/metrics" % server.admin_port)  # on this machine, without TLS
    check(status == 200, "/metrics: %d", status)


def tls_strict_transport(server):
    """Browsers are told to use only TLS, except for localhost."""
    for host, want in (("profiles.example", True), ("localhost", False)):
        code, out, err = curl("-i", server.url + "/ready", "-H", "Host: " + host, *server.trust)
        check(code == 0, "%s", err)
        check(("strict-transport-security: max-age=" in out.lower()) == want, "%s: %s", host, out)


def tls_wrong_settings(certificates):
    for want, arguments in {
        "both tls_cert_file and tls_key_file": ("--tls_cert_file", certificates.path("ca.pem")),
        "key values mismatch": ("--tls_cert_file", certificates.path("ca.pem"),
                                "--tls_key_file", certificates.path("client.key")),
        "No such file": ("--tls_cert_file", "/nonexistent", "--tls_key_file", "/nonexistent"),
        "tls_client_auth needs tls_client_ca_file": certificates.of_server("--tls_client_auth", "require"),
    }.items():
        with flamegrid.Server(*arguments) as server:
            check(server.start().wait() == 1, "started with %s", arguments)
            check(want in server.log_tail(), "%s: %s", arguments, server.log_tail())


def run_cleartext(tally):
    cases = [(name[len("case_"):], case) for name, case in globals().items() if name.startswith("case_")]
    cases = [(name, case) for name, case in cases if tally.wants(name)]
    if not cases:
        return
    with flamegrid.Server("--distributor.body_max_bytes", str(BODY_MAX_BYTES)) as server:
        server.url = "http://127.0.0.1:%d" % server.port
        server.start().wait_ready()
        for name, case in cases:
            tally.run(name, case, server)
        if server.terminate() != 0:
            tally.fail("server", server.log_tail())


def grpc_health():
    """The frame of a HealthCheckResponse, and the trailer that says that all is well; in JSON the name that Pyroscope gives."""
    with flamegrid.Server() as server:
        server.start().wait_ready()
        url = "http://127.0.0.1:%d/grpc.health.v1.Health/Check" % server.port
        grpc = ["curl", "-sS", "-i", "--http2-prior-knowledge", "-H", "content-type: application/grpc", "-H", "te: trailers",
                "--data-binary", "@-"]
        done = subprocess.run([*grpc, url], input=bytes(5), capture_output=True, check=True)
        check(b"\x00\x00\x00\x00\x02\x08\x01" in done.stdout and b"grpc-status: 0" in done.stdout, "%s", done.stdout)
        done = subprocess.run(["curl", "-sS", "-H", "content-type: application/json", "-d", "{}", url], capture_output=True, check=True)
        check(json.loads(done.stdout) == {"status": "SERVING_STATUS_SERVING"}, "%s", done.stdout)
        # On 12 (unimplemented) clients of gRPC go on without a watch; on any other status they report a failure.
        done = subprocess.run([*grpc, url.replace("Check", "Watch")], input=bytes(5), capture_output=True, check=True)
        check(b"HTTP/2 200" in done.stdout and b"grpc-status: 12" in done.stdout, "%s", done.stdout)
        check(server.terminate() == 0, "%s", server.log_tail())


def upgrade_allowed():
    with flamegrid.Server("--http2_upgrade", "true", "--allowed_hosts", "profiles.example") as server:
        server.start().wait_ready()
        url = "http://127.0.0.1:%d/buildinfo" % server.port
        check(asked(url, "--http2")[:2] == (200, "2"), "no upgrade")
        check(asked(url, "-H", "Host: Profiles.example:80")[0] == 200, "a name that is allowed")
        check(server.terminate() == 0, "%s", server.log_tail())


def run_tls(tally):
    if not any(tally.wants(name) for name in globals() if name.startswith("tls_")):
        return
    with tempfile.TemporaryDirectory(prefix="flamegrid-tls.") as folder:
        certificates = Certificates(folder)
        tally.run("tls_wrong_settings", tls_wrong_settings, certificates)
        with SecureServer(certificates, "--tls_client_auth", "require",
                          "--tls_client_ca_file", certificates.path("ca.pem")) as server:
            server.start().wait_ready()
            tally.run("tls_client_certificates", tls_client_certificates, server)
        with SecureServer(certificates) as server:
            server.start().wait_ready()
            for case in (tls_versions, tls_strict_transport, tls_push, tls_many_at_a_time, tls_cleartext, tls_reload, tls_end):
                tally.run(case.__name__, case, server)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    run_cleartext(tally)
    tally.run("upgrade_allowed", upgrade_allowed)
    tally.run("grpc_health", grpc_health)
    run_tls(tally)
    for case in hostile.CASES:
        tally.run("hostile_" + case.__name__, case)
    tally.finish()


if __name__ == "__main__":
    main()
