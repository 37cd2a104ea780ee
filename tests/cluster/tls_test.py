#!/usr/bin/env python3
"""A cluster whose calls go over TLS with certificates of both sides: what works without works with it, strangers get
nothing, and certificates are renewed while it runs.

    tls_test.py [-k REGEX] [--seed N] [--keep]
"""

import os
import random
import socket
import ssl
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import certs  # noqa: E402
import flamegrid  # noqa: E402
import watched  # noqa: E402
from flamegrid import check  # noqa: E402

NOTICED_ROUNDS = 6
HELLO = b"\0SP\0\x00\x30\0\0"  # nng's first bytes, of a caller (SP over TCP; protocol 0x30 is REQ)
HELLO_BACK = b"\0SP\0\x00\x31\0\0"
FAILED = ("TLS between services failed", "cannot connect to another service", "ingester cannot be called")
RELOADS = "flamegrid_rpc_tls_reloads_total"


class Run(watched.Run):
    def __init__(self, rng, keep, folder, papers=None, **shape):
        super().__init__(rng, keep, papers=papers or certs.Papers(folder), **shape)

    @property
    def papers(self):
        return self.cluster.papers


def restart(run, member):
    """Restarts an ingester and waits until all callers have found it: only then may the next one stop."""
    callers = run.callers(member)
    check(callers, "nobody is connected to %s", member.name)
    member.terminate()
    run.wait("the end of %s seen" % member.name, lambda: not run.callers(member))
    member.start().wait_ready()
    run.wait_found(member, callers)


# ---- faults, as without TLS ----

def killed(rng, keep, folder):
    """An ingester, a distributor and a querier are killed and restarted; a fourth ingester joins."""
    with Run(rng, keep, folder) as run:
        for kind in ("ingester", "distributor", "querier"):
            member = run.draw(kind)
            member.kill()
            time.sleep(run.span())
            run.progress("%s is gone" % member.name)
            member.start().wait_ready()
            run.progress("%s is back" % member.name)
        run.cluster.add("ingester", 4).start().wait_ready()
        run.progress("ingester-4 has joined")
        run.cluster.wait_drained(watched.DRAIN_S)
        print("     %s" % run.finish())


def noticed(rng, keep, folder):
    """Callers notice each stop of an ingester and find it again, with pushes and queries in progress."""
    with Run(rng, keep, folder) as run:
        for _ in range(NOTICED_ROUNDS):
            restart(run, run.draw("ingester"))
        print("     %s" % run.finish())


# ---- strangers ----

def hello(port, context):
    """Returns what an ingester answers to the first bytes of a caller; context None: without TLS."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as plain:
        try:
            connection = context.wrap_socket(plain, server_hostname="localhost") if context else plain
            connection.sendall(HELLO)
            return connection.recv(len(HELLO_BACK))
        except (ssl.SSLError, ConnectionError):
            return b""
        except TimeoutError:
            return None


def client_context(papers, name):
    """A client context that trusts the authority of the cluster and shows the certificate of `name`; None: none."""
    context = ssl.create_default_context(cafile=papers.path("ca.pem"))
    if name:
        context.load_cert_chain(os.path.join(papers.path(name), "cert.pem"), os.path.join(papers.path(name), "key.pem"))
    return context


def callers(run):
    """Calls directly, so that no check on the side of the caller interferes."""
    port = run.draw("ingester").link.port
    for name, issuer, days in (("distributor", "ca", certs.DAYS), ("foreign", "other", certs.DAYS), ("old", "ca", certs.EXPIRED)):
        run.papers.issue(name, issuer, days=days)
    check(hello(port, client_context(run.papers, "distributor")) == HELLO_BACK, "a right certificate is refused")
    for name in (None, "foreign", "old"):
        check(hello(port, client_context(run.papers, name)) == b"", "let in with certificate: %s", name)
    check(hello(port, None) == b"", "let in in the clear")


def push(member):
    """Returns status and message of a push to a distributor."""
    now = int(time.time())
    return member.send("POST", "/ingest?name=stranger&from=%d&until=%d" % (now - 10, now), 30, b"main;f 1\n")


def is_cut_off(member, ingesters):
    """Whether the message says of all ingesters that there is no connection."""
    values = [value for name, value in member.metrics().items() if name.startswith("flamegrid_rpc_peer_connected{")]
    return len(values) == len(ingesters) and not any(values)


def says_why(member):
    """Which error it is depends on the side, and on which side refuses first."""
    return any(line in member.log() for line in FAILED)


def refused(run, member):
    """A distributor that no ingester trusts reads the ring like all others, but none of its pushes is stored."""
    member.start().wait_ready()
    status, body = push(member)
    check(status == 503, "%s: %d %s, ended: %s\n%s", member.name, status, body, member.process.poll(), member.log_tail())
    check(not any(value for name, value in member.metrics().items() if name.startswith("flamegrid_rpc_peer_connected{")),
          "%s is connected: %s", member.name, member.metrics())
    run.wait("a word of %s" % member.name, lambda: says_why(member))
    member.terminate()
    del run.cluster.members[member.name]


def strange_distributor(run, number, **papers):
    member = run.cluster.add("distributor", number)
    run.papers.issue(member.name, **papers)
    refused(run, member)
    check(any(says_why(other) for other in run.cluster.of("ingester")), "ingesters say nothing about %s", member.name)


def refusals(run, reason):
    name = 'flamegrid_rpc_refused_total{reason="%s"}' % reason
    return sum(member.metrics().get(name, 0) for member in run.cluster.of("ingester"))


def distributor_of_another_role(run, number, role, reason):
    """A distributor with the certificate of another service or of none: all its pushes are refused."""
    member = run.cluster.add("distributor", number)
    run.papers.issue(member.name, role=role)
    before = refusals(run, reason)
    member.start().wait_ready()
    status, body = push(member)
    check(status == 503, "%s: %d %s", member.name, status, body)
    check(refusals(run, reason) > before, "nothing was counted as %s", reason)
    member.terminate()
    del run.cluster.members[member.name]


def distributor_in_the_clear(run, number):
    member = run.cluster.add("distributor", number)
    run.papers.write_settings(member.name, {})
    refused(run, member)


def strange_ingester(run, **papers):
    """One of three ingesters returns with an untrusted certificate: the others go on without it until that is replaced."""
    member = run.draw("ingester")
    member.terminate()
    run.papers.issue(member.name, **papers)
    member.start()
    run.wait("connections of before gone", lambda: not run.callers(member))
    run.progress("%s has %s" % (member.name, papers))
    check(not run.callers(member), "%s are connected to %s", run.callers(member), member.name)
    check(any(says_why(other) for other in run.cluster.of("distributor")), "nobody says why")
    member.terminate()
    run.papers.issue(member.name)
    member.start().wait_ready()
    run.wait("connections to %s" % member.name, lambda: run.callers(member))
    run.progress("%s has the right ones" % member.name)


def strangers(rng, keep, folder):
    with Run(rng, keep, folder) as run:
        callers(run)
        strange_distributor(run, 8, issuer="other")
        strange_distributor(run, 9, trusted=("other",))
        strange_distributor(run, 7, days=certs.EXPIRED)
        distributor_of_another_role(run, 4, "querier", "role")
        distributor_of_another_role(run, 5, "somebody", "certificate")
        distributor_in_the_clear(run, 6)
        strange_ingester(run, issuer="other")
        strange_ingester(run, days=certs.EXPIRED)
        run.none_failed()
        print("     %s" % run.finish())


# ---- new certificates ----

def renew(run, **papers):
    """Replaces the certificates of all running processes, and waits until each has loaded them."""
    members = run.cluster.of("ingester", "distributor", "querier")
    before = {member.name: member.metrics().get(RELOADS, 0) for member in members}
    for member in members:
        run.papers.issue(member.name, **papers)
    run.wait("new certificates", lambda: all(member.metrics().get(RELOADS, 0) > before[member.name] for member in members))
    run.progress("new certificates: %s" % papers)


def renewed(rng, keep, folder):
    """A new certificate for each; then a new authority in three steps, after which the old one is refused."""
    with Run(rng, keep, folder) as run:
        renew(run)
        renew(run, trusted=("ca", "other"))
        renew(run, issuer="other", trusted=("ca", "other"))
        renew(run, issuer="other", trusted=("other",))
        for member in run.cluster.of("ingester"):
            restart(run, member)
            run.progress("%s is restarted" % member.name)
        run.none_failed()
        for member in run.cluster.of("distributor", "querier"):  # which may end a client's connection
            member.terminate()
            member.start().wait_ready()
            run.progress("%s is restarted" % member.name)
        strange_distributor(run, 9, issuer="ca", trusted=("other",))
        print("     %s" % run.finish())


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--keep", action="store_true", help="leave logs and data of what failed")
    arguments, tally = flamegrid.parse_seeded(parser)
    for name, case in (("TLS: kill -9", killed), ("TLS: who is gone is noticed", noticed),
                       ("TLS: strangers", strangers), ("TLS: new certificates", renewed)):
        with tempfile.TemporaryDirectory(prefix="flamegrid-papers.") as folder:
            tally.run(name, case, random.Random(arguments.seed), arguments.keep, folder)
    tally.finish()


if __name__ == "__main__":
    main()
