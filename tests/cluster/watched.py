"""A cluster with `flamegrid canary`, which pushes and queries all the time: the basis of all tests of a cluster."""

import collections
import os
import shutil
import sys
import time

import canary
import cluster as clusters
import stores
from flamegrid import check

PUSHES, READS = 10, 5  # a second, of all canaries: some of both are under way at most faults
SPAN_S = (0.5, 4)  # of a fault
PROGRESS_S = 30  # after a fault pushes and answers are there again
DRAIN_S = 90
WAIT_S = 60


class Run:
    """A cluster with a canary, from its start to the last check of the bucket."""

    def __init__(self, rng, keep, tenants=(), store=None, begin=None, **shape):
        """tenants: each has a canary; none: one canary on a cluster without multitenancy. store: the object store that has
        the bucket; None: it is a folder. begin(run): called when the cluster runs and there is no canary yet."""
        self.rng, self.keep = rng, keep
        self.tenants = tenants
        self.begin = begin
        self.store = store
        self.cluster = clusters.Cluster(multitenancy=bool(tenants), bucket=store and stores.settings(store, "cluster") + stores.keys(),
                                        **shape)
        self.patient = clusters.WAIT in shape.get("settings", {}).get("ingester", [])  # ingesters wait for each other, and long
        self.birds = []
        self.n_lines = [0] * max(len(tenants), 1)
        self.others = 0  # profiles that were pushed besides the canaries'

    def __enter__(self):
        try:
            self.cluster.start()
            if self.begin:
                self.begin(self)
            options = [["--tenant", tenant] for tenant in self.tenants] or [[]]
            for of_tenant in options:
                self.birds.append(canary.Canary(
                    "http://127.0.0.1:%d" % self.cluster.push.port, "--rate", "%d/s" % (PUSHES / len(options)), "--reads",
                    "%d/s" % (READS / len(options)), "--services", "3", "--settle", "60s", *of_tenant,
                    ask="http://127.0.0.1:%d" % self.cluster.query.port))
            for bird in self.birds:
                bird.wait_started()
            self.progress("the start")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, fault, trace):
        self.cluster.keep = self.keep and kind is not None
        for number, bird in enumerate(self.birds):
            if self.cluster.keep:
                shutil.copy(bird.log_path, os.path.join(self.cluster.folder, "canary-%d.log" % number))
            bird.__exit__()
        self.cluster.__exit__()

    def bucket_folder(self):
        """The folder with the objects of the bucket."""
        if self.store:
            return os.path.join(self.store.home, stores.NAME, "cluster")
        return os.path.join(self.cluster.folder, "bucket", "objects")

    def draw(self, *kinds):
        return self.rng.choice(self.cluster.of(*kinds))

    def span(self):
        return self.rng.uniform(*SPAN_S)

    def log(self):
        """The output of the canaries."""
        return "".join(bird.log() for bird in self.birds)

    def errors(self):
        return "\n".join(bird.errors() for bird in self.birds)

    def each_counts(self):
        """Returns the counts of each canary, after a check that none has seen a wrong answer."""
        each = [bird.counts() for bird in self.birds]
        for counts in each:
            wrong = {name: counts["profiles_%s_total" % name] for name in ("lost", "double", "foreign")}
            check(not any(wrong.values()), "%s\n%s", wrong, self.errors())
        return each

    def counts(self):
        """Returns the sums over all canaries."""
        return collections.Counter(sum(map(collections.Counter, self.each_counts()), collections.Counter()))

    def progress(self, after, within_s=PROGRESS_S):
        """Waits until pushes are acknowledged and queries answered again, and checks the answers."""
        first, deadline = self.each_counts(), time.monotonic() + within_s
        while True:
            if all(now[name] > then[name] + 3 for then, now in zip(first, self.each_counts())
                   for name in ("profiles_acknowledged_total", "reads_total")):
                return
            check(time.monotonic() < deadline, "%d s after %s: %s, then %s\n%s", within_s, after, first,
                  self.each_counts(), self.log()[-2000:])
            time.sleep(0.1)

    def wait(self, what, reached):
        deadline = time.monotonic() + WAIT_S
        while not reached():
            check(time.monotonic() < deadline, "not in %d s: %s", WAIT_S, what)
            time.sleep(0.1)

    def callers(self, member):
        """Returns which callers of this ingester report a connection."""
        label = 'flamegrid_rpc_peer_connected{peer="127.0.0.1:%d"}' % member.link.port
        return {other.name for other in self.cluster.of("distributor", "querier") if other.metrics().get(label)}

    def wait_found(self, member, callers):
        """Waits until all callers have found it again: the next process to be killed may be needed."""
        self.wait("%s found again" % member.name, lambda: callers <= self.callers(member))

    def failures(self):
        counts = self.counts()
        return [int(counts[name]) for name in ('push_failures_total{reason="refused"}',
                                               'push_failures_total{reason="unanswered"}', "reads_unavailable_total")]

    def none_failed(self):
        """No push was refused or unanswered, and each query had an answer."""
        refused, unanswered, unavailable = self.failures()
        check(refused == unanswered == unavailable == 0, "%d pushes were refused, %d had no answer; %d questions:\n%s",
              refused, unanswered, unavailable, self.log()[-3000:])

    def complaints(self):
        """Returns what the canaries have said since the last call about failed pushes and queries."""
        new = []
        for number, bird in enumerate(self.birds):
            lines = bird.log().splitlines()[1:]
            new += lines[self.n_lines[number]:]
            self.n_lines[number] = len(lines)
        return new

    def finish(self):
        """The last check of the canaries themselves; then every profile is in the bucket once."""
        ends = [bird.stop() for bird in self.birds]
        check(all(code == 0 for code, _ in ends), "canaries: %s\n%s", ends, self.errors())
        sums = {name: sum(of_bird[name] for _, of_bird in ends) for name in ends[0][1]}
        check(sums["unknown"] == 0, "never acknowledged: %s\n%s", sums, self.log()[-2000:])
        for member in self.cluster.of("ingester"):
            status, body = member.operate("POST", "/ingester/flush", DRAIN_S)
            check(status == 200, "flush of %s: %d %s", member.name, status, body)
        for member in self.cluster.of("distributor", "querier", "compactor"):
            member.terminate()
        first, *others = self.cluster.of("ingester")
        first.terminate()
        for member in others:
            if self.patient:
                member.end_wait()
            else:
                member.terminate()
        stored = self.cluster.verify()
        check(stored == sums["acknowledged"] + self.others, "%d profiles are in the bucket, %d of others, %s", stored,
              self.others, sums)
        return sums
