#!/usr/bin/env python3
"""The official agents, run against a server of ours: what they send arrives, and adds up.

    agents_test.py [-k REGEX]

Each agent's driver burns CPU in two functions, and says at its end how much in each. What the server says
has to agree: the share of the functions, the label that their samples carry, the profile types, the
labels of the agent. An agent is run again until there are samples enough for the comparison, so a busy
machine takes longer and is no reason to fail.
"""

import concurrent.futures
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import agents  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

PARALLEL = 3  # a little more than there are cores: agents wait for their uploads
ALL_TIME_MS = (1, (1 << 62) // 1_000_000)

# With n samples of which a share p is expected, one standard deviation is sqrt(p (1 - p) / n): of 600
# samples, 1.8 points. Where the share is out by more than the tolerance, more samples tell chance from
# error: chance goes away. So does the loss of labels next to the start and the end of an agent's recording.
ENOUGH_SAMPLES = 600
TOLERANCE = 0.05
MOST_RUNS = 15
# Node's agent at its end now and then takes a profile after it has switched profiles off, and takes the
# program with it. That is its own affair, unless it happens every time.
MOST_FALLS = 3
FALL = re.compile("Heap profiler is not enabled|Wall profiler is not started")

DRIVER_SHARE, DRIVER_TOLERANCE = 0.75, 0.03  # what a driver says of itself
LEAST_LABELLED = 0.85  # of a function's samples that carry its label
MOST_FOREIGN = 0.05  # of samples under a label that are the other function's

COMPLAINTS = re.compile("error|fail|refused|exception|panic|traceback|unexpected", re.I)
UPLOAD_ROUTE = re.compile('route="(ingest|push_v1|v1development_profiles|opentelemetry)')


class Trial:
    """The output of an agent, and the answers of the server about its samples."""

    def __init__(self, agent, port):
        self.agent = agent
        self.port = port
        self.runs = []  # (exit code, output)
        self.alpha = self.beta = 0.0  # seconds, as the driver says

    def run_until_enough(self):
        url = "http://127.0.0.1:%d" % self.port
        falls = 0
        while len(self.runs) < MOST_RUNS:
            code, said = self.agent.run(url)
            if code != 0 and FALL.search(said) and falls < MOST_FALLS:
                falls += 1
                continue
            self.runs.append((code, said))
            check(code == 0, "exit code %d: %s", code, said[-2000:])
            truth = re.findall(r'^\{"service.*\}$', said, re.M)
            check(len(truth) == 1, "no word on what was burnt: %s", said[-2000:])
            truth = json.loads(truth[0])
            self.alpha += truth["burn_alpha"]
            self.beta += truth["burn_beta"]
            if all(self.is_enough(*entry) for entry in self.agent.sampled.items()):
                break
        return self

    def is_enough(self, profile_type, of_one):
        alpha, beta = self.seen(profile_type)
        return (alpha + beta >= ENOUGH_SAMPLES * of_one and self.is_near(alpha, beta)
                and (not self.agent.labels or all(own >= LEAST_LABELLED * all_ for _, all_, own, _ in self.labelled(profile_type))))

    def labelled(self, profile_type):
        """Returns for each function its name, its samples, those under its own label, and those of the other one under that."""
        alpha, beta = self.seen(profile_type)
        under_alpha, under_beta = (self.seen(profile_type, ',burn="%s"' % name) for name in ("alpha", "beta"))
        return (("alpha", alpha, under_alpha[0], under_alpha[1]), ("beta", beta, under_beta[1], under_beta[0]))

    def is_near(self, alpha, beta):
        return alpha + beta > 0 and abs(alpha / (alpha + beta) - self.truth()) <= TOLERANCE

    def client(self):
        """Returns a new client: a persistent connection would be idle for too long."""
        return flamegrid.Client(self.port)

    def truth(self):
        return self.alpha / (self.alpha + self.beta)

    def selector(self, extra=""):
        return '{service_name="%s"%s}' % (self.agent.service, extra)

    def seen(self, profile_type, extra=""):
        """Returns the totals of the two functions."""
        frames, _ = self.client().flame_frames(profile_type, self.selector(extra), *ALL_TIME_MS)
        return [sum(total for name, total in frames.items() if function in name)
                for function in ("burn_alpha", "burn_beta")]


def try_agent(agent, port):
    agent.driver.ready()
    return Trial(agent, port).run_until_enough()


def check_output(trial):
    own_faults = trial.agent.driver.own_faults
    for _, said in trial.runs:
        complaints = [line for line in said.splitlines() if COMPLAINTS.search(line)
                      and not (own_faults and re.search(own_faults, line))]
        check(not complaints, "%s", "\n".join(complaints))
    check(abs(trial.truth() - DRIVER_SHARE) <= DRIVER_TOLERANCE, "the driver burnt %.3f in alpha", trial.truth())


def check_share(trial):
    for profile_type, of_one in trial.agent.sampled.items():
        alpha, beta = trial.seen(profile_type)
        check(alpha + beta >= ENOUGH_SAMPLES * of_one, "%s: %d of burn_alpha and %d of burn_beta after %d runs are "
              "not enough", profile_type, alpha, beta, len(trial.runs))
        check(trial.is_near(alpha, beta), "%s: %.3f is alpha's, the driver burnt %.3f there", profile_type,
              alpha / (alpha + beta), trial.truth())


def check_labels(trial):
    for profile_type in trial.agent.sampled:
        for name, all_, own, foreign in trial.labelled(profile_type):
            check(own >= LEAST_LABELLED * all_, "%s: of burn_%s's %d only %d have the label", profile_type, name,
                  all_, own)
            check(foreign <= MOST_FOREIGN * own, "%s: burn=%s has %d of its own function, %d of the other",
                  profile_type, name, own, foreign)


def check_types(trial):
    found = trial.client().label_sets([trial.selector()], ["__profile_type__"], *ALL_TIME_MS)
    found = {labels["__profile_type__"] for labels in found}
    check(trial.agent.types <= found <= trial.agent.types | trial.agent.may, "%s instead of %s", sorted(found),
          sorted(trial.agent.types))


def check_tags(trial):
    names = list(trial.agent.tags)
    for labels in trial.client().label_sets([trial.selector()], names, *ALL_TIME_MS):
        check(labels == trial.agent.tags, "%s instead of %s", labels, trial.agent.tags)


CHECKS = {"is quiet": check_output, "share": check_share, "labels": check_labels, "types": check_types,
          "tags": check_tags}


def checks_of(agent):
    return {name: case for name, case in CHECKS.items()
            if (agent.labels or name != "labels") and (agent.tags or name != "tags")}


def report(tally, agent, future):
    try:
        trial = future.result()
    except agents.Unavailable as missing:
        tally.skip(agent.name, missing)
        return
    except Exception as fault:  # the other agents still count
        tally.fail(agent.name, "%s: %s" % (type(fault).__name__, fault))
        return
    for profile_type in agent.sampled:
        alpha, beta = trial.seen(profile_type)
        print("     %s: %d runs, %.3f of %s is alpha's, the driver says %.3f" % (
            agent.name, len(trial.runs), alpha / max(alpha + beta, 1), profile_type, trial.truth()))
    for name, case in checks_of(agent).items():
        tally.run("%s %s" % (agent.name, name), case, trial)


def check_nothing_refused(server):
    """Counts in the metrics of the server: several agents do not report a failed upload."""
    refused = []
    for line in server.metrics().splitlines():
        name, _, value = line.rpartition(" ")
        failed = name.startswith("pyroscope_request_duration_seconds_count") and UPLOAD_ROUTE.search(name) \
            and 'status_code="200"' not in name
        counted = name.startswith(("flamegrid_distributor_uploads_refused_total", "flamegrid_http_refused_total",
                                   "flamegrid_worker_refused_jobs_total", "flamegrid_http2_"))
        if (failed or counted) and float(value):
            refused.append(line)
    check(not refused, "%s", "\n".join(refused))


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__.splitlines()[0]).parse_args().pattern)
    chosen = [agent for agent in agents.all_agents()
              if any(tally.wants("%s %s" % (agent.name, name)) for name in checks_of(agent))]
    with flamegrid.Server() as server, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        server.start().wait_ready()
        trials = {pool.submit(try_agent, agent, server.port): agent for agent in chosen}
        for future in concurrent.futures.as_completed(trials):
            report(tally, trials[future], future)
        tally.run("nothing refused", check_nothing_refused, server)
        tally.run("stops cleanly", lambda: check(server.terminate() == 0, "%s", server.log_tail()))
    tally.finish()


if __name__ == "__main__":
    main()
