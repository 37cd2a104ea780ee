"""A cluster with `flamegrid canary` on it, which pushes and asks all the time: what every test of a cluster looks at."""

import os
import shutil
import sys
import time

import canary
import cluster as clusters
from flamegrid import check

RATE = ["--rate", "40/s", "--reads", "10/s", "--services", "3", "--settle", "60s"]
SPAN_S = (0.5, 4)  # of a fault
PROGRESS_S = 30  # after a fault pushes and answers are there again
DRAIN_S = 90
WAIT_S = 60


class Run:
    """A cluster with a canary on it, from start to the last look at what is in the bucket."""

    def __init__(self, rng, keep, **shape):
        self.rng, self.keep = rng, keep
        self.cluster = clusters.Cluster(**shape)
        self.bird = None
        self.n_lines = 0
        self.others = 0  # profiles that were pushed beside the canary's

    def __enter__(self):
        try:
            self.cluster.start()
            self.bird = canary.Canary("http://127.0.0.1:%d" % self.cluster.push.port, *RATE,
                                      query_url="http://127.0.0.1:%d" % self.cluster.query.port)
            self.bird.wait_started()
            self.progress("the start")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, fault, trace):
        self.cluster.keep = self.keep and kind is not None
        if self.bird and self.cluster.keep:
            shutil.copy(self.bird.log_path, os.path.join(self.cluster.folder, "canary.log"))
        if self.bird:
            self.bird.__exit__()
        self.cluster.__exit__()

    def draw(self, *kinds):
        return self.rng.choice(self.cluster.of(*kinds))

    def span(self):
        return self.rng.uniform(*SPAN_S)

    def counts(self):
        counts = self.bird.counts()
        wrong = {name: counts["profiles_%s_total" % name] for name in ("lost", "double", "foreign")}
        check(not any(wrong.values()), "%s\n%s", wrong, self.bird.errors())
        return counts

    def progress(self, after):
        """Pushes are acknowledged and questions answered again, and nothing is wrong with the answers."""
        first, deadline = self.counts(), time.monotonic() + PROGRESS_S
        while True:
            now = self.counts()
            if all(now[name] > first[name] + 3 for name in ("profiles_acknowledged_total", "reads_total")):
                return
            check(time.monotonic() < deadline, "%d s after %s: %s, then %s\n%s", PROGRESS_S, after, first, now,
                  self.bird.log()[-2000:])
            time.sleep(0.1)

    def wait(self, what, reached):
        deadline = time.monotonic() + WAIT_S
        while not reached():
            check(time.monotonic() < deadline, "not in %d s: %s", WAIT_S, what)
            time.sleep(0.1)

    def callers(self, member):
        """Who of those that call it says that there is a connection to this ingester?"""
        label = 'flamegrid_rpc_peer_connected{peer="127.0.0.1:%d"}' % member.link.port
        return {other.name for other in self.cluster.of("distributor", "querier") if other.metrics().get(label)}

    def wait_found(self, member, callers):
        """Until all of them have found it again: who is killed next may be another one that is needed."""
        self.wait("%s found again" % member.name, lambda: callers <= self.callers(member))

    def failures(self):
        counts = self.counts()
        return [int(counts[name]) for name in ('push_failures_total{reason="refused"}',
                                               'push_failures_total{reason="unanswered"}', "reads_unavailable_total")]

    def none_failed(self):
        """No push was refused or unanswered, and each question had an answer."""
        refused, unanswered, unavailable = self.failures()
        check(refused == unanswered == unavailable == 0, "%d pushes were refused, %d had no answer; %d questions:\n%s",
              refused, unanswered, unavailable, self.bird.log()[-3000:])

    def complaints(self):
        """What the canary has said since the last call about pushes and questions that failed."""
        lines = self.bird.log().splitlines()[1:]
        new, self.n_lines = lines[self.n_lines:], len(lines)
        return new

    def finish(self):
        """The canary's own last check; then all of it is in the bucket, once."""
        code, sums = self.bird.stop()
        check(code == 0, "canary: exit code %d, %s\n%s", code, sums, self.bird.errors())
        check(sums["unknown"] == 0, "never acknowledged: %s\n%s", sums, self.bird.log()[-2000:])
        for member in self.cluster.of("ingester"):
            status, body = member.operate("POST", "/ingester/flush", DRAIN_S)
            check(status == 200, "flush of %s: %d %s", member.name, status, body)
        for kinds in (("distributor", "querier", "compactor"), ("ingester",)):
            for member in self.cluster.of(*kinds):
                member.terminate()
        stored = self.cluster.verify()
        check(stored == sums["acknowledged"] + self.others, "%d profiles are in the bucket, %d of others, %s", stored,
              self.others, sums)
        return sums
