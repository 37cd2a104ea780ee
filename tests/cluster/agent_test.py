#!/usr/bin/env python3
"""Agents, which only forward: what one acknowledged is at its target exactly once, and it keeps and answers nothing itself.

    agent_test.py [-k REGEX] [--seconds N] [--seed N]
"""

import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "lib"), os.path.join(HERE, os.pardir, "corpus")]
import yaml  # noqa: E402

import captured  # noqa: E402
import certs  # noqa: E402
import cluster as clusters  # noqa: E402
import corpus_test  # noqa: E402
import flamegrid  # noqa: E402
import pprof  # noqa: E402
from canary import Canary  # noqa: E402
from flamegrid import check  # noqa: E402
from forward_test import LIFE_S, metric, target, targets, wait_sent, wait_until  # noqa: E402
from ledger import COUNT, START_S, Clients, Ledger, send_again, verify  # noqa: E402
from link import ANSWERS_HELD, CUT, HELD, OPEN, SILENT, Link  # noqa: E402

EXAMPLE = os.path.join(flamegrid.ROOT, "deploy", "helm", "examples", "agent-daemonset.yaml")
MANUAL = os.path.join(flamegrid.ROOT, "deploy", "operations", "forwarding.md")
ALL_TIME_MS = corpus_test.ALL_TIME_MS
FOLDED = b"main;work 3\n"
RETRY_AFTER_S = 15  # of a full queue
LARGE_STACKS = 60000
PATIENT = "30s"  # for requests with much in them, on a slow machine


def kills_and_cuts(seed, seconds):
    """Kills the agent or its target, cuts and stops the link between them, again and again."""
    ledger, rng = Ledger(seed), random.Random(seed + 1)
    end, rounds = time.monotonic() + seconds, 0
    with flamegrid.Server() as there, contextlib.closing(Link(there.port)) as link, \
            flamegrid.Agent(*targets(target(link.port))) as agent:
        there.start().wait_ready()
        agent.start().wait_ready()
        while time.monotonic() < end:
            with Clients(agent.port, ledger, 0.01) as clients:
                link.set(rng.choice([OPEN, OPEN, CUT, HELD, ANSWERS_HELD, SILENT]))
                time.sleep(rng.uniform(*LIFE_S))
                victim = rng.choice([agent, there, None])
                if victim is not None:
                    check(victim.alive(), "it ended by itself:\n%s", victim.log_tail())
                    victim.kill()
            check(not clients.faults, "%s", clients.faults[:3])
            if victim is not None:
                victim.start().wait_ready()
            rounds += 1
        link.set(OPEN)
        send_again(agent.port, ledger)
        wait_sent(agent)
        verify(there.port, ledger)
        check(metric(agent, "flamegrid_forward_dropped_profiles_total") == 0, "profiles were dropped")
        print("     %d rounds, %d pushes" % (rounds, len(ledger.pushes)))


def into_a_cluster(seed, seconds):
    """Kills the agent and members of the cluster that it forwards to; a canary looks through both."""
    rng = random.Random(seed)
    with clusters.Cluster() as cluster:
        cluster.start()
        with flamegrid.Agent(*targets(target(cluster.push.port, timeout="10s"))) as agent:
            agent.start().wait_ready()
            with Canary("http://127.0.0.1:%d" % agent.port, "--for", "%ds" % seconds, "--lag", "60s", "--settle", "60s", "--rate", "40/s",
                        ask="http://127.0.0.1:%d" % cluster.query.port) as canary:
                canary.wait_started()
                end, kills = time.monotonic() + seconds, 0
                while time.monotonic() < end:
                    time.sleep(rng.uniform(*LIFE_S))
                    # One ingester at a time: two of three have to acknowledge a profile.
                    victim = rng.choice([agent, agent, *cluster.of("ingester", "distributor")])
                    check(victim.alive(), "it ended by itself:\n%s", victim.log_tail())
                    victim.kill()
                    victim.start()
                    victim.wait_ready()
                    kills += 1
                code, counts = canary.finish()
                check(code == 0, "%d %s\n%s", code, counts, canary.errors())
            check(counts["acknowledged"] == counts["pushed"] > 100 and counts["reads"] > 10, "%s", counts)
            check(counts["lost"] + counts["double"] + counts["foreign"] + counts["unknown"] == 0, "%s", counts)
            wait_sent(agent)
            print("     %d kills, %d pushes" % (kills, counts["pushed"]))


# ---- formats ----


def push_everything(port, rows, requests):
    """Sends the whole corpus: files of all formats, and requests of real clients. Returns {file: status}."""
    client, statuses = flamegrid.Client(port), {}
    for row in rows:
        statuses[row["file"]] = corpus_test.push(client, row)[0]
    for row in requests:
        captured.send(client, port, row)
    return statuses


def everything(port):
    """Returns the series that a server has, by all their labels, and {(service, type): {stack: value}}."""
    client = flamegrid.Client(port)
    series = [tuple(sorted(labels.items())) for labels in client.label_sets([], [], *ALL_TIME_MS)]
    found = {}
    for service, kind in {(dict(labels)["service_name"], dict(labels)["__profile_type__"]) for labels in series}:
        merged = client.merged_profile(kind, "{service_name=%s}" % json.dumps(service, ensure_ascii=False), *ALL_TIME_MS)
        found[service, kind] = pprof.folded_json(merged)
    return sorted(series), found


def agent_dead(agent):
    """Returns what the target has refused for good."""
    status, body = flamegrid.Client(agent.port).send("GET", "/api/forward/central/dead")
    check(status == 200, "%d %s", status, body)
    return json.loads(body)["dead"]


def all_formats():
    """Whatever is pushed to an agent is at its target as if it had been pushed there, with the same answers."""
    formats = corpus_test.FORMATS | corpus_test.OTHERS
    rows = [row for row in corpus_test.rows(formats) if row["expect"] == "accept"]
    requests = [row for row in corpus_test.rows(captured.FORMATS) if row["format"] == "http-capture"]
    check({row["format"] for row in rows} == set(formats) and requests, "formats without a file")
    with flamegrid.Server() as direct, flamegrid.Server() as there:
        direct.start().wait_ready()
        there.start().wait_ready()
        with flamegrid.Agent(*targets(target(there.port, timeout=PATIENT))) as agent:
            agent.start().wait_ready()
            wanted_statuses = push_everything(direct.port, rows, requests)
            statuses = push_everything(agent.port, rows, requests)
            check(statuses == wanted_statuses, "%s", {file: (status, wanted_statuses[file]) for file, status in statuses.items()
                                                      if status != wanted_statuses[file]})
            wait_sent(agent)
            dead = agent_dead(agent)
            check(not dead, "the target has refused %d: %s", len(dead), dead[:3])
        (wanted_series, wanted), (series, got) = everything(direct.port), everything(there.port)
        check(series == wanted_series, "series %s", set(series) ^ set(wanted_series))
        for key, stacks in wanted.items():
            check(got[key] == stacks, "%s differs: %d stacks, %d", key, len(got[key]), len(stacks))
        print("     %d series of %d files and %d requests" % (len(series), len(rows), len(requests)))


# ---- what it is not ----


def no_queries():
    """An agent answers questions with 404 and where to ask; what concerns itself works."""
    with flamegrid.Agent(*targets(target(flamegrid.free_port()))) as agent:
        agent.start().wait_ready()
        client = flamegrid.Client(agent.port)
        for method, path, body in (("GET", "/", None), ("GET", "/pyroscope/render?query=x", None), ("GET", "/api/status", None),
                                   ("POST", "/querier.v1.QuerierService/LabelNames", b"{}"), ("POST", "/ingester/flush", b"")):
            status, answer = client.send(method, path, body, {"Content-Type": "application/json"})
            check(status == 404 and b"this is an agent" in answer, "%s: %d %s", path, status, answer)
            check(b"central, http://127.0.0.1:" in answer, "%s does not say where to ask: %s", path, answer)
        check(client.send("GET", "/ingest")[0] == 405, "GET /ingest")
        check(client.send("POST", "/ingest?name=shop&from=%d" % START_S, FOLDED)[0] == 200, "push")
        for path in ("/ready", "/healthz", "/buildinfo", "/api/forward", "/api/v1/status/buildinfo", "/api/v1/targets"):
            check(client.send("GET", path)[0] == 200, "%s: %d", path, client.send("GET", path)[0])
        check(metric(agent, "flamegrid_forward_pending_profiles") == 1, "the push does not wait")
        status, config = agent.operate("GET", "/config")
        check(status == 200 and b"memory_max_bytes: 128MiB" in config, "%d %s", status, config[:300])
        listed = subprocess.run([flamegrid.binary(), "forward", "ls", "--url", "http://127.0.0.1:%d" % agent.port], capture_output=True,
                                text=True, check=True)
        check("central" in listed.stdout, "%s", listed.stdout)


def large_upload():
    """However little memory it has: an upload of nearly limits.max_profile_size_bytes is taken, and arrives."""
    lines = b"".join(b"main;f%d;%0250d 1\n" % (number, number) for number in range(LARGE_STACKS))
    check(12 << 20 < len(lines) < 16 << 20, "%d bytes", len(lines))
    with flamegrid.Server() as there:
        there.start().wait_ready()
        with flamegrid.Agent(*targets(target(there.port, timeout=PATIENT)), "--distributor.push_timeout", PATIENT) as agent:
            agent.start().wait_ready()
            status, answer = flamegrid.Client(agent.port).send("POST", "/ingest?name=large&format=folded&sampleRate=0&from=%d&until=%d" % (
                START_S, START_S + 10), lines)
            check(status == 200, "%d %s", status, answer)
            wait_sent(agent)
        total = flamegrid.Client(there.port).flame_total(COUNT, '{service_name="large"}', (START_S - 10) * 1000, (START_S + 100) * 1000)
        check(total == LARGE_STACKS, "%d", total)


def servers_file():
    """An agent takes the file of a server: what only a server has is passed over, and what is nobody's is refused."""
    with flamegrid.Agent(*targets(target(flamegrid.free_port()))) as agent:
        path = os.path.join(agent.folder, "settings.yaml")
        agent.arguments += ("--config", path)
        with open(path, "w", encoding="ascii") as file:
            file.write("bucket: {path: /nowhere}\nquerier: {timeout: 5s}\ncompactor: {}\ningester: {segments: {linger: 1s}}\n")
        agent.start().wait_ready()
        check(agent.terminate() == 0, "%s", agent.log_tail())
        with open(path, "a", encoding="ascii") as file:
            file.write("targets: []\n")
        agent.start()
        check(agent.wait() == 2 and 'unknown key "targets"' in agent.log(), "%s", agent.log_tail())


def without_targets():
    """An agent that could only throw profiles away does not start, and says which lines are missing."""
    with flamegrid.Agent() as agent:
        agent.start()
        check(agent.wait() == 1, "it started")
        check("forward: {targets: [{name: central, url: 'https://profiles.example'}]}" in agent.log(), "%s", agent.log_tail())


def without_a_past():
    """There are no blocks to send once more: a resend is refused, and so is a target that wants the past."""
    with flamegrid.Agent(*targets(target(flamegrid.free_port(), since="now-24h"))) as agent:
        agent.start()
        check(agent.wait() == 1 and "target central: since: an agent keeps nothing" in agent.log(), "%s", agent.log_tail())
        agent.arguments = targets(target(flamegrid.free_port()))
        agent.start().wait_ready()
        status, answer = flamegrid.Client(agent.port).send("POST", "/api/forward/central/resend?from=now-1h&until=now", headers=flamegrid.ACTION)
        check(status == 400 and b"keeps no blocks" in answer, "%d %s", status, answer)


def encrypted(seed):
    """The queue of an agent with encryption.mode is not readable on disk, and is sent after a restart."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there, contextlib.closing(Link(there.port)) as link, flamegrid.Agent(*targets(target(link.port))) as agent:
        key = os.path.join(agent.folder, "key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="ascii") as file:
            file.write("c0ffee00" * 8 + "\n")
        agent.arguments += ("--encryption.mode", "per_tenant", "--encryption.key_file", key)
        link.set(CUT)
        agent.start().wait_ready()
        with Clients(agent.port, ledger, 0.02):
            time.sleep(1)
        send_again(agent.port, ledger)
        check(agent.terminate() == 0, "%s", agent.log_tail())
        frame = ledger.pushes[0].frame.encode()
        for folder, _, names in os.walk(agent.data):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    check(frame not in file.read(), "%s is readable in %s", frame, name)
        there.start().wait_ready()
        link.set(OPEN)
        agent.start().wait_ready()
        wait_sent(agent)
        verify(there.port, ledger)


def full_queue():
    """A full queue that refuses says when to come again."""
    with flamegrid.Agent(*targets(target(flamegrid.free_port(), queue_max_bytes="1MiB", when_full="refuse"))) as agent:
        agent.start().wait_ready()
        connection = http.client.HTTPConnection("127.0.0.1", agent.port)
        for number in range(200):
            stacks = {("main", "f%d" % (number * 5000 + k)): (1, k + 1) for k in range(5000)}
            connection.request("POST", "/ingest?name=big&format=pprof&from=%d" % (START_S + number),
                               pprof.make(stacks, (START_S + number) * 10**9))
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                break
        check(response.status == 429 and b"queue_max_bytes" in body, "%d %s", response.status, body)
        check(response.headers["Retry-After"] == str(RETRY_AFTER_S), "Retry-After: %s", response.headers["Retry-After"])
        client = flamegrid.Client(agent.port)
        check(client.send("GET", "/ready")[0] == 200, "not ready")


def from_server_to_agent_and_back(seed):
    """A folder is a server's, an agent's and a server's again: its blocks stay, and everything is sent, once."""
    ledger = Ledger(seed)
    with flamegrid.Server() as there, contextlib.closing(Link(there.port)) as link:
        there.start().wait_ready()
        link.set(CUT)
        with flamegrid.Server(*targets(target(link.port))) as node, flamegrid.Agent(*targets(target(link.port)), data=node.data) as agent:
            node.start().wait_ready()
            with Clients(node.port, ledger, 0.01):
                time.sleep(1)
            send_again(node.port, ledger)
            check(node.terminate() == 0, "%s", node.log_tail())
            agent.start()
            check(agent.wait() == 1 and "POST /ingester/flush" in agent.log(), "it started:\n%s", agent.log_tail())
            check("has %d profiles" % len(ledger.pushes) in agent.log(), "%d pushes:\n%s", len(ledger.pushes), agent.log_tail())
            node.start().wait_ready()
            check(node.operate("POST", "/ingester/flush")[0] == 200, "flush")
            check(node.terminate() == 0, "%s", node.log_tail())
            agent.start().wait_ready()
            with Clients(agent.port, ledger, 0.01):
                time.sleep(1)
            send_again(agent.port, ledger)
            pending = metric(agent, "flamegrid_forward_pending_profiles")
            check(pending == len(ledger.pushes), "%d of %d wait", pending, len(ledger.pushes))
            check(agent.terminate() == 0, "%s", agent.log_tail())
            node.start().wait_ready()
            wait_until("what the agent had is looked up", lambda: metric(node, "flamegrid_ingester_profiles_unchecked") == 0)
            verify(node.port, ledger)
            check(node.operate("POST", "/ingester/flush")[0] == 200, "flush")
            verify(node.port, ledger)
            link.set(OPEN)
            wait_sent(node)
            verify(there.port, ledger)
            check(node.terminate() == 0, "%s", node.log_tail())
            found = subprocess.run([flamegrid.binary(), "bucket", "verify", "--data", node.data], capture_output=True, text=True, check=False)
            check(found.returncode == 0, "%s%s", found.stdout, found.stderr)


# ---- Kubernetes ----


def environment_of(container):
    """The variables as Kubernetes sets them: $(NAME) is that of an earlier one."""
    values = {}
    for variable in container["env"]:
        if "valueFrom" in variable:
            check(variable["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}, "%s", variable)
            values[variable["name"]] = "node-7"
        else:
            values[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match.group(1)], variable["value"])
    return values


def daemonset():
    """The example's settings are taken as they are, and profiles get the node as a label; volumes, ports and names fit together."""
    with open(EXAMPLE, encoding="utf-8") as file:
        parts = {part["kind"]: part for part in yaml.safe_load_all(file)}
    pod = parts["DaemonSet"]["spec"]["template"]["spec"]
    container, volumes = pod["containers"][0], {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    check(set(volumes) == {mount["name"] for mount in container["volumeMounts"]}, "volumes that nobody mounts: %s", set(volumes))
    config = parts["ConfigMap"]["data"]
    check(mounts["/etc/flamegrid"]["configMap"]["name"] == parts["ConfigMap"]["metadata"]["name"], "the ConfigMap has another name")
    check(container["args"] == ["agent", "--config", "/etc/flamegrid/" + "".join(config)], "%s, %s", container["args"], list(config))
    settings, (text,) = yaml.safe_load("".join(config.values())), config.values()
    check(settings["data"] in mounts, "the queue is not on a volume")
    ports = {port["name"]: ":%d" % port["containerPort"] for port in container["ports"]}
    check(ports == {"http": settings["listen"], "admin": settings["admin_listen"]}, "%s", ports)
    for policy in parts["NetworkPolicy"]["spec"]["ingress"]:
        check(all(port["port"] in ports for port in policy["ports"]), "%s", policy)
    check(parts["Service"]["spec"]["ports"][0]["targetPort"] == "http", "the Service")
    check(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", "the pod")
    for one in (container, *pod["initContainers"]):
        guarded = one["securityContext"]
        check(guarded["readOnlyRootFilesystem"] and not guarded["allowPrivilegeEscalation"], "%s", one["name"])
        check(guarded["capabilities"]["drop"] == ["ALL"], "%s", one["name"])
    variables = environment_of(container)
    target_, = yaml.safe_load(variables["FG_FORWARD_TARGETS"])
    check(os.path.dirname(target_["token_file"]) in mounts, "the token is on no volume")
    with flamegrid.Server() as there:
        there.start().wait_ready()
        variables["FG_FORWARD_TARGETS"] = variables["FG_FORWARD_TARGETS"].replace(target_["url"], "http://127.0.0.1:%d" % there.port)
        with flamegrid.Agent("--scrape.kubernetes.api", "https://127.0.0.1:%d" % flamegrid.free_port()) as agent:
            path, token = os.path.join(agent.folder, "settings.yaml"), os.path.join(agent.folder, "token")
            agent.arguments += ("--config", path, "--scrape.kubernetes.credentials", agent.folder)
            made = certs.Certificates(agent.folder)
            made.make("ca", None)
            os.rename(made.path("ca.pem"), os.path.join(agent.folder, "ca.crt"))
            for name, content in ((path, text), (token, "secret\n")):
                with open(name, "w", encoding="utf-8") as file:
                    file.write(content)
            agent.environment = {name: value.replace(target_["token_file"], token) for name, value in variables.items()}
            agent.start().wait_ready()
            client = flamegrid.Client(agent.port)
            for probe in ("readinessProbe", "livenessProbe"):
                check(container[probe]["httpGet"]["port"] == "http", "%s", container[probe])
                check(client.send("GET", container[probe]["httpGet"]["path"])[0] == 200, "%s", container[probe])
            check(client.send("POST", "/ingest?name=shop&from=%d" % START_S, FOLDED)[0] == 200, "push")
            wait_sent(agent)
        labels = flamegrid.Client(there.port).label_sets([], ["node", "service_name"], *ALL_TIME_MS)
        check(labels == [{"node": "node-7", "service_name": "shop"}], "%s", labels)


def documented_defaults():
    """The manual's table has each default that is not the server's."""
    defaults = []
    for command in ("agent", "server"):
        printed = subprocess.run([flamegrid.binary(), command, "--docs"], capture_output=True, text=True, check=True).stdout
        defaults.append(dict(re.findall(r"^\| `([\w.]+)` \| `?([^|`]*?)`? \|", printed, re.M)))
    agents, servers = defaults
    with open(MANUAL, encoding="utf-8") as file:
        rows = re.findall(r"^\| `([\w.]+)` \| `([^`]+)` \| `([^`]+)` \|$", file.read(), re.M)
    check({name: (one, other) for name, one, other in rows} ==
          {name: (value, servers[name]) for name, value in agents.items() if value != servers[name]}, "%s", rows)


def main():
    parser = flamegrid.arguments_of(__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=15, help="of each loop of kills and cuts")
    arguments, tally = flamegrid.parse_seeded(parser)
    tally.run("agent: kills and cuts", kills_and_cuts, arguments.seed, arguments.seconds)
    tally.run("agent: kills of the agent and of members of a cluster", into_a_cluster, arguments.seed, arguments.seconds)
    tally.run("agent: all formats", all_formats)
    tally.run("agent: questions", no_queries)
    tally.run("agent: a large upload", large_upload)
    tally.run("agent: the file of a server", servers_file)
    tally.run("agent: the example of a DaemonSet", daemonset)
    tally.run("agent: the manual's defaults", documented_defaults)
    tally.run("agent: no targets", without_targets)
    tally.run("agent: no past", without_a_past)
    tally.run("agent: a full queue refuses", full_queue)
    tally.run("agent: an encrypted queue", encrypted, arguments.seed)
    tally.run("agent: from a server to an agent and back", from_server_to_agent_and_back, arguments.seed)
    tally.finish()


if __name__ == "__main__":
    main()
