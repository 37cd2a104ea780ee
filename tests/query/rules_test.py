#!/usr/bin/env python3
"""Recording rules: the service that keeps them, and the metrics that they make, against a slow model.

    rules_test.py [-k REGEX] [--seed N]
"""

import concurrent.futures
import json
import os
import random
import re
import signal
import sys
import threading
import time
import urllib.parse

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, folder) for folder in ("lib", "bucket")]

import cluster  # noqa: E402
import exporting  # noqa: E402
import flamegrid  # noqa: E402
import raw_profiles  # noqa: E402
from flamegrid import check  # noqa: E402
from raw_profiles import CPU  # noqa: E402

SERVICE = "/settings.v1.RecordingRulesService/"
INUSE = exporting.INUSE
SELECTOR = '{__profile_type__="%s"}' % CPU
SETTINGS = ["--compactor.interval", "1h"]
MINUTES = 3
RECONNECT_S = 60
EVALUATED_S = 20  # until rules are evaluated after something has changed: two rounds of the evaluator, and a retry
UNASKED_S = 6  # more than a round
PROFILES = 240
NAMES = ["main", "work", "serve", "step0", "step1", "step2", 'odd "name"\\ {x}', "caf\u00e9"]
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
LINE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)(?: (\d+))?$")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def call(client, method, tenant=None, **fields):
    """Returns status and answer."""
    headers = {"Content-Type": "application/json", **({"X-Scope-OrgID": tenant} if tenant else {})}
    status, body = client.send("POST", SERVICE + method, json.dumps(fields), headers)
    return status, json.loads(body)


def made(client, metric, tenant=None, **fields):
    """Creates a rule and returns it."""
    fields.setdefault("matchers", [SELECTOR])
    status, answer = call(client, "UpsertRecordingRule", tenant, metricName=metric, **fields)
    check(status == 200, "%s: %d %s", metric, status, answer)
    return answer["rule"]


class Metrics(dict):
    """{metric: {labels: (value, time)}}. why: what the text says of rules without values."""

    why = ()


def parse(text):
    """Checks the form on the way."""
    found, kinds, last = Metrics(), {}, None
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            check(name not in kinds and kind == "gauge", "%s", line)
            kinds[name] = kind
        elif not line.startswith("#"):
            match = LINE.match(line)
            check(match, "not a line of metrics: %s", line)
            name, labels, value, at = match.groups()
            check(name in kinds and (name == last or name not in found), "%s is not with the others of its name", line)
            rest = LABEL.sub("", labels or "")
            check(rest.strip(",") == "", "%s has %s", line, rest)
            key = frozenset((label, re.sub(r"\\.", lambda escape: ESCAPES[escape.group()], text)) for label, text in
                            LABEL.findall(labels or ""))
            check(key not in found.setdefault(name, {}), "twice: %s", line)
            found[name][key] = (float(value), at and int(at))
            last = name
    found.why = [line for line in text.splitlines() if line.startswith("# rule ")]
    return found


def scrape(client, until_ms=None, tenant=None, status=200, headers=None):
    target = "/api/metrics" + ("?until=%d" % until_ms if until_ms is not None else "")
    got, body = client.send("GET", target, headers={**({"X-Scope-OrgID": tenant} if tenant else {}), **(headers or {})})
    check(got == status, "%s: %d %s", target, got, body[:500])
    return parse(body.decode()) if status == 200 else body.decode()


def of_rule(found, rule):
    """{labels without the rule's: value} of one rule."""
    mark = ("rule_id", rule["id"])
    return {key - {mark}: value for key, (value, _) in found.get(rule["metricName"], {}).items() if mark in key}


def health(found, name, rule):
    return found["flamegrid_rule_" + name].get(frozenset({("rule_id", rule["id"]), ("metric", rule["metricName"])}), (None,))[0]


# ---- profiles ----

class World:
    """Profiles of some minutes, many of them at the very bounds."""

    def __init__(self, rng):
        self.rng = rng
        self.start_s = (int(time.time()) - 1800) // 60 * 60
        self.cpu, self.memory = [], []

    def draw(self):
        rng = self.rng
        labels = {"service_name": rng.choice(["shop", "cart"]), "pod": "p%d" % rng.randrange(5)}
        if rng.randrange(2):
            labels["zone"] = rng.choice(["z0", 'z"1\\'])
        time_ns = self.start_s * 10**9 + rng.randrange(MINUTES) * 60 * 10**9 + rng.choice(
            [0, 1, 10**6, 60 * 10**9 - 1, 60 * 10**9 - 10**6, rng.randrange(60 * 10**9)])
        stacks = {}
        for _ in range(rng.randrange(1, 5)):
            stack = ("main", *(rng.choice(NAMES) for _ in range(rng.randrange(5))))
            stacks[stack] = rng.randrange(1, 1000) * 10**6
        return raw_profiles.Profile(labels, time_ns, stacks)

    def push(self, client, count):
        request = {"series": []}
        for _ in range(count):
            for name, kind, drawn in (("process_cpu", ("cpu", "nanoseconds"), self.cpu), ("memory", ("inuse_space", "bytes"), self.memory)):
                profile = self.draw()
                drawn.append(profile)
                types = (kind,)
                request["series"].append(exporting.series(
                    {"__name__": name, **profile.labels}, profile.time_ns,
                    {stack: (value,) for stack, value in profile.stacks.items()}, types))
        status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps(request), {"Content-Type": "application/json"})
        check(status == 200, "push: %d %s", status, body)

    def minute(self, number, profiles):
        from_ns = (self.start_s + 60 * number) * 10**9
        return [profile for profile in profiles if from_ns <= profile.time_ns < from_ns + 60 * 10**9]

    def end_ms(self, number):
        return (self.start_s + 60 * (number + 1)) * 1000


def grouped(profiles, group_by):
    found = {}
    for profile in profiles:
        found.setdefault(frozenset(raw_profiles.group_of(profile.labels, group_by)), []).append(profile)
    return found


def of_functions(profiles, meant, own):
    return sum(value for profile in profiles for stack, value in profile.stacks.items()
               if (meant(stack[-1]) if own else any(map(meant, stack))))


def total(profiles):
    return sum(profile.value() for profile in profiles)


def series_of(profiles):
    return len({frozenset(profile.labels.items()) for profile in profiles})


def close(found, want):
    """The same series with the same values: one division and, of shares and means, one multiplication apart."""
    return found.keys() == want.keys() and all(abs(found[key] - want[key]) <= 1e-12 * abs(want[key]) for key in want)


def want_top(groups, count, own, share):
    want = {}
    for group, profiles in groups.items():
        names = {name for profile in profiles for stack in profile.stacks for name in stack}
        values = {name: of_functions(profiles, lambda one, name=name: one == name, own) for name in names}
        totals = sorted((name for name in names if values[name]), key=lambda name: (-values[name], name.encode()))
        for name in totals[:count]:
            want[group | {("function", name)}] = values[name] / (total(profiles) if share else 60)
    return want


def check_values(world, client, rules, number, after_ms=(0, 1, 59_999)):
    found = scrape(client, world.end_ms(number) + world.rng.choice(after_ms))
    cpu, memory = world.minute(number, world.cpu), world.minute(number, world.memory)
    at_s = found["flamegrid_rule_minute_end_timestamp_seconds"][frozenset()][0]
    check(at_s * 1000 == world.end_ms(number), "%s", at_s)
    for rule in rules.values():
        check(all(at == world.end_ms(number) for _, at in found[rule["metricName"]].values()), "%s", found[rule["metricName"]])
        check(health(found, "complete", rule) == 1, "%s: %s", rule["id"], found.why)
    check(health(found, "profiles", rules["all"]) == len(cpu), "%s", found)

    by_service, by_both = grouped(cpu, ["service_name"]), grouped(cpu, ["zone", "pod"])
    external = frozenset({("team", 'a "b"')})
    shop = [profile for profile in cpu if profile.labels["service_name"] == "shop"]
    wants = {
        "all": {external: total(cpu) / 60},
        "by": {group: total(profiles) / 60 for group, profiles in by_both.items()},
        "by_share": {group: total(profiles) / total(cpu) for group, profiles in by_service.items()},
        "one": {frozenset(): of_functions(shop, lambda name: name == "work", False) / 60},
        "names": {group: of_functions(profiles, lambda name: name in ("step1", "step2"), True) / 60
                  for group, profiles in by_both.items()},
        "regex": {group: of_functions(profiles, lambda name: re.fullmatch("step[01]|caf.", name), False) / total(profiles)
                  for group, profiles in by_service.items()},
        "top": want_top(by_service, 3, False, False),
        "top_self": want_top(by_both, 2, True, True),
        "memory": {group: total(profiles) * series_of(profiles) / len(profiles)
                   for group, profiles in grouped(memory, ["service_name"]).items()},
        "memory_main": {frozenset(): of_functions(memory, lambda name: name == "work", True) * series_of(memory) / len(memory)},
    }
    check(wants.keys() == rules.keys(), "%s", rules)
    for name, want in wants.items():
        values = of_rule(found, rules[name])
        check(close(values, want), "minute %d, %s: %s instead of %s", number, name, values, want)


def rules_of(client):
    memory = ['{__profile_type__="%s"}' % INUSE]
    return {
        "all": made(client, "cpu", externalLabels=[{"name": "team", "value": 'a "b"'}]),
        "by": made(client, "cpu", groupBy=["zone", "pod"]),
        "by_share": made(client, "cpu_share", groupBy=["service_name"], value="SHARE"),
        "one": made(client, "work", matchers=['{service_name="shop"}', SELECTOR],
                    stacktraceFilter={"functionName": {"functionName": "work"}}),
        "names": made(client, "steps", groupBy=["zone", "pod"], functions={"names": ["step1", "step2"], "metricType": "SELF"}),
        "regex": made(client, "steps", groupBy=["service_name"], functions={"regex": "step[01]|caf."}, value="SHARE"),
        "top": made(client, "top", groupBy=["service_name"], top={"functions": 3}),
        "top_self": made(client, "top", groupBy=["zone", "pod"], top={"functions": 2, "metricType": "SELF"}, value="SHARE"),
        "memory": made(client, "memory", matchers=memory, groupBy=["service_name"]),
        "memory_main": made(client, "memory", matchers=memory, functions={"names": ["work"], "metricType": "SELF"}),
    }


def values_are_those_of_the_profiles(rng):
    """In the head, in segments, and after a restart; each time all minutes."""
    world = World(rng)
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        world.push(client, PROFILES)
        rules = rules_of(client)
        for number in range(MINUTES):
            check_values(world, client, rules, number)
        status, body = server.operate("POST", "/ingester/flush")
        check(status == 200, "flush: %d %s", status, body)
        world.push(client, PROFILES)
        check(server.terminate() == 0, "%s", server.log_tail())
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        status, answer = call(client, "ListRecordingRules")
        check(status == 200 and answer["rules"] == list(rules.values()), "%s instead of %s", answer, rules)
        for number in range(MINUTES):
            check_values(world, client, rules, number)
        text = server.metrics()
        check('flamegrid_querier_rule_evaluations_total{result="complete"} %d' % (MINUTES * len(rules)) in text, "%s", text)
        check_values(world, client, rules, 0)
        check('flamegrid_querier_rule_evaluations_total{result="cached"} %d' % len(rules) in server.metrics(), "not cached")


def many_at_once(rng):
    """Each minute is computed once, and all who ask get the same text."""
    world = World(rng)
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        world.push(client, PROFILES)
        rules = rules_of(client)
        asked = [number % MINUTES for number in range(24)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda number: scrape(flamegrid.Client(server.port), world.end_ms(number)), asked))
        for number, answer in zip(asked, found):
            check(answer == found[number], "minute %d: two answers: %s and %s", number, answer, found[number])
        for number in range(MINUTES):
            check_values(world, client, rules, number)
        check('flamegrid_querier_rule_evaluations_total{result="complete"} %d' % (MINUTES * len(rules)) in server.metrics(),
              "computed twice")


def tenants_that_scrape(_):
    """Scrapes of a tenant fill its own share of the queue: those of another one are not refused, nor are people of either."""
    busy, rest, counts, lock = "team-a", "team-b", {}, threading.Lock()
    with flamegrid.Server(*SETTINGS, "--multitenancy_enabled=true", "--workers=1", "--query_queue_max=8") as server:
        server.start().wait_ready()
        for tenant in (busy, rest):
            for number in range(5):
                made(flamegrid.Client(server.port), "cpu%d" % number, tenant)
        end_ms = int(time.time()) // 60 * 60_000 - 300_000

        def ask(tenant, target, times):
            client = flamegrid.Client(server.port)
            for number in range(times):
                status, body = client.send("GET", target + "%d" % (end_ms - number * 60_000), headers={"X-Scope-OrgID": tenant})
                check(status in (200, 429), "%s: %d %s", target, status, body[:300])
                with lock:
                    key = (tenant, target, status)
                    counts[key] = counts.get(key, 0) + 1

        metrics, names = "/api/metrics?until=", "/api/labels?from=now-6h&until="
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = [pool.submit(ask, busy, metrics, 60) for _ in range(13)]
            asked += [pool.submit(ask, *what, 60) for what in ((rest, metrics), (rest, names), (busy, names))]
            for one in asked:
                one.result()
        check(counts.get((busy, metrics, 429), 0) > 0, "nothing was refused: %s", counts)
        for what in ((rest, metrics), (rest, names), (busy, names)):
            check(counts.get((*what, 200)) == 60, "%s: %s", what, counts)


def minutes_without_data(_):
    """No series, which is complete; and no minute that is not over yet, or long gone."""
    with flamegrid.Server(*SETTINGS, "--limits.retention_period", "2h") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        found = scrape(client)
        end_s = found["flamegrid_rule_minute_end_timestamp_seconds"][frozenset()][0]
        check(120 <= time.time() - end_s < 181 and end_s % 60 == 0, "%s", end_s)
        rule = made(client, "cpu", value="SHARE")
        found = scrape(client)
        check("cpu" not in found and health(found, "complete", rule) == 1 and health(found, "series", rule) == 0, "%s", found)
        now_ms = int(time.time() * 1000)
        for until, text in (("x", "later than 120 s"), (now_ms - 60_000, "later than 120 s"), (now_ms + 10**9, "later than"),
                            (now_ms - 3 * 3_600_000, "before all profiles"), (0, "before all")):
            status, body = client.send("GET", "/api/metrics?until=%s" % until)
            check(status == 400 and text in body.decode(), "%s: %d %s", until, status, body)
        scrape(client, now_ms - 3_600_000)
        # Prometheus does not wait: what is not ready by then is not sent.
        scrape(client, status=504, headers={"X-Prometheus-Scrape-Timeout-Seconds": "0.000000001"})
        for timeout in ("10", "1e9", "nan", "-1", "x"):
            scrape(client, headers={"X-Prometheus-Scrape-Timeout-Seconds": timeout})


def late_profiles(rng):
    """What comes after a minute was evaluated is counted ten minutes later, once."""
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        rule = made(client, "cpu")
        minute_s = int(time.time()) // 60 * 60 - 3600

        def send(n):
            series = [exporting.series({"__name__": "process_cpu", "service_name": "shop"}, minute_s * 10**9 + rng.randrange(60 * 10**9),
                                       {("main",): (1,)}, (("cpu", "nanoseconds"),)) for _ in range(n)]
            status, body = client.send("POST", "/push.v1.PusherService/Push", json.dumps({"series": series}),
                                       {"Content-Type": "application/json"})
            check(status == 200, "push: %d %s", status, body)

        def late_of(end_s):
            found = scrape(client, end_s * 1000)
            return health(found, "profiles_late", rule) if "flamegrid_rule_profiles_late" in found else None

        send(3)
        check(late_of(minute_s + 60) is None and late_of(minute_s + 720) is None, "nothing was evaluated ten minutes before")
        send(4)
        check(late_of(minute_s + 660) == 4, "%s instead of 4", late_of(minute_s + 660))
        send(2)
        check(late_of(minute_s + 660) == 4, "a minute was evaluated twice")
        check("flamegrid_querier_rule_late_profiles_total 4\n" in server.metrics(), "%s", server.metrics())
        check(health(scrape(client, (minute_s + 60) * 1000), "profiles", rule) == 3, "the minute has changed")


# ---- the service ----

def the_service(_):
    with flamegrid.Server(*SETTINGS, "--limits.max_recording_rules", "4") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        check(call(client, "ListRecordingRules") == (200, {}), "there are rules")
        first = made(client, " cpu_total ", groupBy=["service_name"], externalLabels=[{"name": "a", "value": "b"}],
                     generation=7)
        check(re.fullmatch("[a-zA-Z]{10}", first["id"]) and first["generation"] == "1", "%s", first)
        check({key: first[key] for key in first if key != "id"} == {
            "metricName": "cpu_total", "profileType": CPU, "matchers": [SELECTOR], "groupBy": ["service_name"],
            "externalLabels": [{"name": "a", "value": "b"}], "generation": "1"}, "%s", first)
        # A request without an id that comes again means the same rule.
        again = made(client, " cpu_total ", groupBy=["service_name"], externalLabels=[{"name": "a", "value": "b"}])
        check(again == first and call(client, "ListRecordingRules") == (200, {"rules": [first]}), "%s", again)
        mine = made(client, "mine", id="mine", generation=5)
        check(mine["generation"] == "1", "%s", mine)
        status, answer = call(client, "UpsertRecordingRule", id="mine", metricName="mine", matchers=[SELECTOR], generation=3)
        check((status, answer["code"]) == (409, "already_exists") and "conflicting update, please try again" in answer["message"],
              "%d %s", status, answer)
        changed = made(client, "renamed", id="mine", generation=1)
        check(made(client, "renamed", id="mine", generation=1) == changed, "a change that comes again is another one")
        check(changed["generation"] == "2" and changed["metricName"] == "renamed", "%s", changed)
        check(call(client, "GetRecordingRule", id=" mine ") == (200, {"rule": changed}), "another rule")
        check(call(client, "ListRecordingRules") == (200, {"rules": [first, changed]}), "other rules")
        made(client, "third")
        made(client, "fourth")
        status, answer = call(client, "UpsertRecordingRule", metricName="fifth", matchers=[SELECTOR])
        check(status == 429 and "at most 4" in answer["message"], "%d %s", status, answer)
        # Asking again would not help, so nobody is told when to.
        client.connection.request("POST", SERVICE + "UpsertRecordingRule", json.dumps({"metricName": "fifth", "matchers": [SELECTOR]}),
                                  {"Content-Type": "application/json"})
        response = client.connection.getresponse()
        check(response.status == 429 and response.getheader("Retry-After") is None and response.read(), "%s", response.getheaders())
        made(client, "renamed_again", id="mine", generation=2)
        check(call(client, "DeleteRecordingRule", id="mine") == (200, {}), "not deleted")
        for method in ("GetRecordingRule", "DeleteRecordingRule"):
            status, answer = call(client, method, id="mine")
            check((status, answer["code"]) == (404, "not_found") and "mine" in answer["message"], "%d %s", status, answer)
            status, answer = call(client, method, id="")
            check(status == 400 and answer["message"].endswith("id is required"), "%d %s", status, answer)
        check(len(call(client, "ListRecordingRules")[1]["rules"]) == 3, "not three")


def wrong_rules(_):
    right = {"metricName": "cpu", "matchers": [SELECTOR]}
    label = {"name": "a", "value": "b"}
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        for wrong, text in (
                ({"id": "a1"}, 'invalid request: id "a1" must match ^[a-zA-Z]+$'),
                ({"id": "a" * 65}, "letters of id: at most 64"),
                ({"metricName": ""}, "metric_name is required"),
                ({"metricName": "1cpu"}, 'metric_name "1cpu" is invalid'),
                ({"metricName": "c\u00e4pu"}, "is invalid"),
                ({"metricName": "flamegrid_rule_series"}, "is invalid"),
                ({"metricName": "a" * 257}, "at most 256"),
                ({"matchers": []}, 'matchers must contain a "__profile_type__" matcher'),
                ({"matchers": ["{}"]}, 'matchers must contain a "__profile_type__" matcher'),
                ({"matchers": [SELECTOR, SELECTOR]}, 'must contain a "__profile_type__" matcher'),
                ({"matchers": ['{__profile_type__=~"a.*"}']}, 'matcher "__profile_type__" must have type "="'),
                ({"matchers": ['{__profile_type__="a"}']}, 'matcher "__profile_type__" is invalid'),
                ({"matchers": ["{a="]}, 'matcher "{a=" is invalid'),
                ({"matchers": ['{a=~"("}', SELECTOR]}, "is invalid"),
                ({"matchers": [SELECTOR, *['{a%d="b"}' % number for number in range(40)]]}, "label matchers: at most 32"),
                ({"groupBy": ["a-b"]}, 'group_by label "a-b" must match ^[a-zA-Z_][a-zA-Z0-9_]*$'),
                ({"groupBy": ["__name__"]}, "by themselves"),
                ({"groupBy": ["rule_id"]}, "by themselves"),
                ({"groupBy": ["function"], "top": {"functions": 1}}, "by themselves"),
                ({"groupBy": ["a", "a"]}, 'label "a" is there twice'),
                ({"groupBy": ["a"], "externalLabels": [label]}, 'label "a" is there twice'),
                ({"groupBy": ["a%d" % number for number in range(17)]}, "at most 16"),
                ({"externalLabels": [{"name": "", "value": "b"}]}, "must match"),
                ({"externalLabels": [label, label]}, "twice"),
                ({"generation": -1, "id": "a"}, "generation must be positive"),
                ({"functions": {}}, "one of names and regex"),
                ({"functions": {"names": ["a"], "regex": "b"}}, "one of names and regex"),
                ({"functions": {"regex": "("}}, 'functions: regex "(" is invalid'),
                ({"functions": {"names": ["a"] * 101}}, "at most 100"),
                ({"top": {}}, "at least 1: at most 100"),
                ({"top": {"functions": 101}}, "at most 100"),
                ({"top": {"functions": 1}, "functions": {"names": ["a"]}}, "only one of"),
                ({"stacktraceFilter": {"functionName": {}}}, "function_name is required"),
                ({"functions": {"names": ["a" * 20000]}}, "at most 16384 bytes"),
                ({"metricName": "1", "matchers": [], "groupBy": ["-"]}, "is invalid: must match")):
            status, answer = call(client, "UpsertRecordingRule", **{**right, **wrong})
            check(status == 400 and text in answer["message"], "%s: %d %s", wrong, status, answer)
        status, answer = call(client, "UpsertRecordingRule", metricName="1", groupBy=["-"])
        check(len(answer["message"].splitlines()) == 3, "not all faults: %s", answer)
        check(call(client, "ListRecordingRules") == (200, {}), "a wrong rule was stored")


def race(queriers):
    """Each changes the same rule from the same generation: one of them does; and rules of both stay."""
    clients = [flamegrid.Client(member.port) for member in queriers]
    made(clients[0], "cpu", id="shared")
    with concurrent.futures.ThreadPoolExecutor(len(clients)) as pool:
        for generation in range(1, 11):
            done = list(pool.map(lambda pair: call(pair[1], "UpsertRecordingRule", id="shared", metricName="by_%d" % pair[0],
                                                   matchers=[SELECTOR], generation=generation), enumerate(clients)))
            statuses = sorted(status for status, _ in done)
            check(statuses == [200, 409], "%s", done)
            winner, = (answer["rule"] for status, answer in done if status == 200)
            check(winner["generation"] == str(generation + 1), "%s", winner)
            for client in clients:
                check(call(client, "GetRecordingRule", id="shared") == (200, {"rule": winner}), "another rule has won")
        names = [["r%s%s" % (chr(97 + number), side) for number in range(12)] for side in "AB"]
        list(pool.map(lambda pair: [made(clients[pair[0]], "cpu", id=name.replace("r", "")) for name in pair[1]],
                      enumerate(names)))
    listed = [call(client, "ListRecordingRules") for client in clients]
    check(listed[0] == listed[1] and len(listed[0][1]["rules"]) == 25, "%s", listed)


def two_queriers(rng):
    """They race for one object, and give the same values, also when one of them dies."""
    world = World(rng)
    with cluster.Cluster(ingesters=2, distributors=1, queriers=2, compactors=1) as members:
        members.start()
        queriers = members.of("querier")
        race(queriers)
        clients = [flamegrid.Client(member.port) for member in queriers]
        for rule in call(clients[0], "ListRecordingRules")[1]["rules"]:
            call(clients[0], "DeleteRecordingRule", id=rule["id"])
        rules = rules_of(clients[0])
        world.push(flamegrid.Client(members.of("distributor")[0].port), PROFILES)
        for client in clients:
            for number in range(MINUTES):
                check_values(world, client, rules, number)
        for querier in queriers:  # both: the owner of the rules has the values of all minutes in its cache
            querier.kill()
            querier.start()
        for querier in queriers:
            querier.wait_ready()
        check_values(world, flamegrid.Client(queriers[0].port), rules, 1)
        nothing_is_incomplete(world, members, rules, flamegrid.Client(queriers[0].port))


def minutes_of(member, result):
    return member.metrics().get('flamegrid_querier_rule_scheduled_total{result="%s"}' % result, 0)


def scrapes_of(member, by):
    return member.metrics().get('flamegrid_querier_rule_scrapes_total{by="%s"}' % by, 0)


def evaluations_of(member):
    return member.metrics()['flamegrid_querier_rule_evaluations_total{result="complete"}']


def wait_until(condition, what, timeout=EVALUATED_S):
    deadline = time.monotonic() + timeout
    while not condition():
        check(time.monotonic() < deadline, "not in %d s: %s", timeout, what)
        time.sleep(0.2)


def delay_of(border_s):
    """The least delay of at least two minutes with which a minute becomes due at border_s."""
    return 120 + (border_s - 120) % 60


class Now(World):
    """Profiles of the newest minutes that are due, of which the last one will be at border_s."""

    def __init__(self, rng, border_s):
        super().__init__(rng)
        self.start_s = border_s - delay_of(border_s) - MINUTES * 60

    @staticmethod
    def values(member, headers=None):
        """Returns the values of a scrape without the metrics about its making, and the end of the minute."""
        found = scrape(flamegrid.Client(member.port), headers=headers)
        for name in ("last_evaluation_timestamp_seconds", "evaluation_duration_seconds", "profiles_late"):
            found.pop("flamegrid_rule_" + name, None)
        return found


def evaluated_each_minute(rng):
    """One querier evaluates the rules, without being asked; another one does if it dies, and all answer the same."""
    border_s = int(time.time()) + 45
    world = Now(rng, border_s)
    settings = {**cluster.QUICK, "querier": [*cluster.QUICK["querier"], "--querier.rules_delay", "%ds" % delay_of(border_s)]}
    with cluster.Cluster(ingesters=2, distributors=1, queriers=2, compactors=1, settings=settings) as members:
        members.start()
        queriers = members.of("querier")
        world.push(flamegrid.Client(members.of("distributor")[0].port), PROFILES)
        rules = rules_of(flamegrid.Client(queriers[0].port))
        time.sleep(UNASKED_S)
        check(not any(minutes_of(member, "complete") for member in queriers), "rules are evaluated that nobody scrapes")

        # One of them evaluates the next minute.
        scrape(flamegrid.Client(queriers[0].port))
        time.sleep(border_s - 1 - time.time())
        before = [minutes_of(member, "complete") for member in queriers]
        wait_until(lambda: [minutes_of(member, "complete") for member in queriers] != before, "a minute without a scrape",
                   1 + EVALUATED_S)
        check(time.time() >= border_s, "a minute was evaluated before it was due")
        owner, = (member for member in queriers if minutes_of(member, "complete"))
        other, = (member for member in queriers if member is not owner)
        computed, passed = [evaluations_of(member) for member in queriers], scrapes_of(other, "owner")
        found = [world.values(member) for member in queriers for _ in range(2)]
        check(found == found[:1] * 4, "two answers: %s", found)
        check([evaluations_of(member) for member in queriers] == computed, "a scrape has computed the minute again")
        check(scrapes_of(other, "owner") == passed + 2, "%s", other.metrics())
        check_values(world, flamegrid.Client(owner.port), rules, MINUTES - 1, [0])

        # An owner that does not answer costs half of a scrape's time, and no value.
        owner.signal(signal.SIGSTOP)
        begun = time.monotonic()
        check(world.values(other, {"X-Prometheus-Scrape-Timeout-Seconds": "10"}) == found[0], "other values")
        check(time.monotonic() - begun < 10 and scrapes_of(other, "fallback") == 1, "%s", other.metrics())
        owner.signal(signal.SIGCONT)

        # One that is gone has an heir, which is not asked either, and ingesters that are away leave a minute for later.
        for member in queriers:
            member.kill()
        for member in members.of("ingester"):
            member.kill()
        other.start()
        wait_until(lambda: minutes_of(other, "failed") > 0, "an evaluation that fails")
        check(minutes_of(other, "complete") == 0, "complete without ingesters: %s", other.metrics())
        for member in members.of("ingester"):
            member.start()
        wait_until(lambda: minutes_of(other, "complete") > 0, "the evaluation again", RECONNECT_S)
        computed = evaluations_of(other)
        client = flamegrid.Client(other.wait_ready().port)
        if time.time() < border_s + 55:
            check(world.values(other) == found[0] and evaluations_of(other) == computed, "other values of the heir")
        check_values(world, client, rules, MINUTES - 1, [0])


def one_server(rng):
    """It evaluates alone, also after a restart."""
    border_s = int(time.time()) + 30
    world = Now(rng, border_s)
    with flamegrid.Server(*SETTINGS, "--querier.rules_delay", "%ds" % delay_of(border_s)) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        world.push(client, PROFILES)
        rules = rules_of(client)
        scrape(client)
        complete = 'flamegrid_querier_rule_scheduled_total{result="complete"} %d\n'
        wait_until(lambda: complete % 1 in server.metrics(), "an evaluation without a scrape")
        check(server.terminate() == 0, "%s", server.log_tail())
        client = flamegrid.Client(server.start().wait_ready().port)
        wait_until(lambda: complete % 1 in server.metrics(), "an evaluation after a restart")
        wait_until(lambda: complete % 2 in server.metrics(), "the next minute", border_s + EVALUATED_S - time.time())
        check('flamegrid_querier_rule_tenants 1\n' in server.metrics(), "%s", server.metrics())
        check_values(world, client, rules, MINUTES - 1, [0])
        check('flamegrid_querier_rule_evaluations_total{result="cached"} %d\n' % len(rules) in server.metrics(), "not cached")


def nothing_is_incomplete(world, members, rules, client):
    """Without ingesters a rule has no values of a new minute, and says so; what was computed before stays. Then it has them."""
    for member in members.of("ingester"):
        member.kill()
    check_values(world, client, rules, 1)
    found = scrape(client, world.end_ms(2))
    check(found.keys() == {name for name in found if name.startswith("flamegrid_rule_")}, "%s", found)
    check(all(health(found, "complete", rule) == 0 for rule in rules.values()), "%s", found)
    check(found["flamegrid_rule_minute_end_timestamp_seconds"][frozenset()][0] * 1000 == world.end_ms(2), "%s", found)
    client.connection.request("GET", "/api/metrics?until=%d" % world.end_ms(2))
    response = client.connection.getresponse()
    text = response.read().decode()
    check(response.getheader("X-Flamegrid-Complete") == "false", "%s %s", response.getheaders(), text)
    check(all("# rule %s: " % rule["id"] in text for rule in rules.values()), "no reason: %s", text)
    check(text.count("required ingesters responded") == 3 and text.count("not evaluated: earlier rules") == len(rules) - 3, "%s", text)
    for member in members.of("ingester"):
        member.start()
    for member in members.of("ingester"):
        member.wait_ready()
    # The querier connects to them again after a pause of its own.
    deadline = time.monotonic() + RECONNECT_S
    while not all(health(scrape(client, world.end_ms(2)), "complete", rule) == 1 for rule in rules.values()):
        check(time.monotonic() < deadline, "the ingesters are not asked again")
        time.sleep(0.2)
    check_values(world, client, rules, 2)


# ---- limits and damage ----

def budget(rng):
    """What exceeds it is added up, to the last nanosecond; the greatest functions are counted only."""
    world = World(rng)
    with flamegrid.Server(*SETTINGS, "--limits.max_recording_rule_series", "9") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        world.push(client, PROFILES)
        overflow = frozenset({("flamegrid_overflow", "true")})
        rules = {"sums": made(client, "a_sums", groupBy=["pod", "service_name"]),
                 "steps": made(client, "b_steps", groupBy=["pod", "service_name"], functions={"regex": "step."}),
                 "memory": made(client, "c_memory", matchers=['{__profile_type__="%s"}' % INUSE], groupBy=["pod", "service_name"],
                                functions={"regex": "step."})}
        found = scrape(client, world.end_ms(1))
        cpu, memory = world.minute(1, world.cpu), world.minute(1, world.memory)
        dropped = 0
        for name, profiles, value in (
                ("sums", cpu, lambda some: total(some) / 60),
                ("steps", cpu, lambda some: of_functions(some, lambda name: name[:4] == "step", False) / 60),
                ("memory", memory, lambda some: of_functions(some, lambda name: name[:4] == "step", False) * series_of(some) / len(some))):
            groups = grouped(profiles, ["pod", "service_name"])
            order = sorted(groups, key=lambda group: sorted(group))
            want = {group: value(groups[group]) for group in order[:3]}
            want[overflow] = value([profile for group in order[3:] for profile in groups[group]])
            check(close(of_rule(found, rules[name]), want), "%s: %s instead of %s", name, of_rule(found, rules[name]), want)
            check(health(found, "series_dropped", rules[name]) == len(groups) - 3, "%s", found)
            dropped += len(groups) - 3
        for rule in rules.values():
            call(client, "DeleteRecordingRule", id=rule["id"])
        few = made(client, "a", groupBy=["service_name"])
        top = made(client, "b", groupBy=["service_name"], top={"functions": 5})
        found = scrape(client, world.end_ms(1))
        # Two of nine: what the first rule leaves of its four is the second one's.
        check(len(of_rule(found, few)) == 2 and len(of_rule(found, top)) == 6, "%s", found)
        check(health(found, "series_dropped", top) == 4, "%s", found)
        check("flamegrid_querier_rule_series_dropped_total %d\n" % (4 + dropped) in server.metrics(), "not counted")


def damaged_object(_):
    """It is said, nothing overwrites it, and other tenants do not notice. A rule that cannot be read is one without values."""
    with flamegrid.Server(*SETTINGS, "--multitenancy_enabled", "true") as server:
        server.start().wait_ready()
        client = flamegrid.Client(server.port)
        made(client, "cpu", "team-a")
        rule = made(client, "cpu", "team-b")
        path, = (os.path.join(folder, "rules") for folder, _, files in os.walk(server.data)
                 if "rules" in files and os.path.basename(folder) == "team-a")
        with open(path, "r+b") as stored:
            stored.seek(9)
            byte = stored.read(1)[0]
            stored.seek(9)
            stored.write(bytes([byte ^ 1]))
        for method, fields in (("ListRecordingRules", {}), ("GetRecordingRule", {"id": "a"}), ("DeleteRecordingRule", {"id": "a"}),
                               ("UpsertRecordingRule", {"metricName": "cpu", "matchers": [SELECTOR]})):
            status, answer = call(client, method, "team-a", **fields)
            check((status, answer["code"]) == (500, "data_loss") and "tenants/team-a/rules" in answer["message"], "%d %s", status,
                  answer)
        text = scrape(client, tenant="team-a", status=500)
        check("tenants/team-a/rules" in text, "%s", text)
        check(health(scrape(client, tenant="team-b"), "complete", rule) == 1, "the other tenant has no metrics")
        scrape(client, tenant="team-a|team-b", status=400)
        scrape(client, status=401)
        status, answer = call(client, "ListRecordingRules", "team-a|team-b")
        check(status == 400 and "one tenant" in answer["message"], "%d %s", status, answer)
        os.remove(path)
        check(call(client, "ListRecordingRules", "team-a") == (200, {}), "still damaged")


def unreadable_profiles(rng):
    """A rule without values says why, and advises nothing that scrapes cannot do: values are of complete data only."""
    world = World(rng)
    with flamegrid.Server(*SETTINGS) as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        rule = made(client, "cpu", stacktraceFilter={"functionName": {"functionName": "work"}})  # a total needs no stacks
        status, body = client.send("POST", "/ingest?name=torn.cpu&from=%d&until=%d" % (world.start_s + 10, world.start_s + 20), b"main;work 7\n")
        check(status == 200, "push: %d %s", status, body)
        check(server.operate("POST", "/ingester/flush")[0] == 200, "flush")
        check(server.terminate() == 0, "%s", server.log_tail())
        path, = (os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(server.data, "bucket", "objects", "segments"))
                 for name in names)
        with open(path, "r+b") as segment:
            byte = segment.read(101)[-1]
            segment.seek(100)
            segment.write(bytes([byte ^ 4]))
        client = flamegrid.Client(server.start().wait_ready().port)
        found = scrape(client, world.end_ms(0))
        check(health(found, "complete", rule) == 0 and len(found.why) == 1, "%s", found)
        check("part anonymous/" in found.why[0] and "partial" not in found.why[0], "%s", found.why)
        status, body = client.send("GET", "/api/functions?query=%s{}&from=%d" % (CPU, world.start_s))
        check(status == 503 and b"set partial=true" in body, "%d %s", status, body)


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__))
    for case in (the_service, wrong_rules, values_are_those_of_the_profiles, many_at_once, tenants_that_scrape, minutes_without_data, late_profiles, budget, damaged_object,
                 unreadable_profiles, two_queriers, evaluated_each_minute, one_server):
        tally.run("rules_" + case.__name__, case, random.Random(arguments.seed))
    tally.finish()


if __name__ == "__main__":
    main()
