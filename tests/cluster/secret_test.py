#!/usr/bin/env python3
"""A cluster whose calls are made with a secret: it works, strangers get nothing, and the secret changes while it runs.

    secret_test.py [-k REGEX] [--seed N] [--keep]
"""

import os
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
import tls_test  # noqa: E402
from flamegrid import check  # noqa: E402

START_TIMEOUT_S = 60


class Secrets:
    """The files of each process: one with secrets, and one with settings that names it."""

    def __init__(self, folder):
        self.folder = folder
        self.current = [os.urandom(32).hex()]
        self.all = set(self.current)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, secrets):
        """Replaces the file in one step."""
        self.all.update(secrets)
        with open(self.path(name + ".next"), "w", encoding="ascii") as file:
            file.write("# of a test\n" + "".join(secret + "\n" for secret in secrets))
        os.replace(self.path(name + ".next"), self.path(name + ".secret"))

    def settings(self, name):
        self.write(name, self.current)
        return self.write_settings(name, {"secret_file": self.path(name + ".secret")})

    def write_settings(self, name, rpc):
        path = self.path(name + ".yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write("rpc:\n  cluster: prod\n" + "".join("  %s: %s\n" % item for item in rpc.items()))
        return path


def change(run, secrets):
    """Writes secrets for all running processes, and waits until each has loaded them."""
    members = run.cluster.of("ingester", "distributor", "querier")
    before = {member.name: member.metrics().get(tls_test.RELOADS, 0) for member in members}
    run.papers.current = secrets
    for member in members:
        run.papers.write(member.name, secrets)
    run.wait("new secrets", lambda: all(member.metrics().get(tls_test.RELOADS, 0) > before[member.name]
                                        for member in members))
    run.progress("new secrets")


def nothing_tells(run):
    """No secret is in a log, in metrics or in the settings that a process shows."""
    for member in run.cluster.members.values():
        said = [member.log()] + [member.operate("GET", target)[1].decode() for target in ("/metrics", "/config")]
        for secret in run.papers.all:
            check(not any(secret in text for text in said), "%s tells a secret", member.name)


def strangers(rng, keep, folder):
    """Calls with another secret, without one, and with TLS without one are refused; the cluster continues."""
    with tls_test.Run(rng, keep, folder, papers=Secrets(folder)) as run:
        port = run.draw("ingester").link.port
        context = tls_test.ssl.SSLContext(tls_test.ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = tls_test.ssl.CERT_NONE
        check(tls_test.hello(port, None) == b"", "let in in the clear")
        check(tls_test.hello(port, context) == b"", "let in without a secret")
        member = run.cluster.add("distributor", 8)
        run.papers.write(member.name, [os.urandom(32).hex()])
        tls_test.refused(run, member)
        check(any("the other side has a different secret or none" in other.log() for other in run.cluster.of("ingester")),
              "no ingester says why")
        tls_test.distributor_in_the_clear(run, 6)
        nothing_tells(run)
        run.none_failed()
        print("     %s" % run.finish())


def changed(rng, keep, folder):
    """Changes the secret in three steps, with a restart of each ingester; afterwards the old one is refused."""
    with tls_test.Run(rng, keep, folder, papers=Secrets(folder)) as run:
        old, new = run.papers.current[0], os.urandom(32).hex()
        change(run, [old, new])
        change(run, [new, old])
        change(run, [new])
        for member in run.cluster.of("ingester"):
            tls_test.restart(run, member)
            run.progress("%s is restarted" % member.name)
        member = run.cluster.add("distributor", 9)
        run.papers.write(member.name, [old])
        tls_test.refused(run, member)
        nothing_tells(run)
        run.none_failed()
        print("     %s" % run.finish())


def in_the_clear(_rng, _keep, folder):
    """An ingester that anybody could call does not start, and says what to set."""
    program = os.path.join(os.path.dirname(flamegrid.binary()), "flamegrid-ingester")
    given = [program, "--listen", "127.0.0.1:0", "--bucket.path", os.path.join(folder, "bucket"),
             "--data", os.path.join(folder, "head"), "--ring.address", "tcp://127.0.0.1:1", "--rpc_listen", "tcp://0.0.0.0:0"]
    os.mkdir(os.path.join(folder, "bucket"))
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=START_TIMEOUT_S)
    check(done.returncode != 0, "it started")
    said = done.stdout + done.stderr
    check("rpc.secret_file" in said and "rpc.insecure: true" in said, "%s", said)
    with open(os.path.join(folder, "log"), "w", encoding="ascii") as log:
        process = subprocess.Popen([*given, "--rpc.insecure", "true"], stdout=log, stderr=log)
    try:
        time.sleep(2)
        check(process.poll() is None, "it ended with %s", process.returncode)
    finally:
        process.kill()
        process.wait()


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    arguments, tally = flamegrid.parse_seeded(parser)
    for name, case in (("secret: strangers", strangers), ("secret: a new one", changed),
                       ("secret: in the clear", in_the_clear)):
        with tempfile.TemporaryDirectory(prefix="flamegrid-secret.") as folder:
            tally.run(name, case, random.Random(arguments.seed), arguments.keep, folder)
    tally.finish()


if __name__ == "__main__":
    main()
