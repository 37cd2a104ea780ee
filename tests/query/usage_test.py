#!/usr/bin/env python3
"""What tenants used, day by day: /api/usage and the commands usage and cost, against a count of the requests.

    usage_test.py [-k REGEX] [--seed N]
"""

import csv
import datetime
import gzip
import hashlib
import io
import json
import os
import random
import subprocess
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import flamegrid  # noqa: E402
import pprof  # noqa: E402
import raw_usage  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
NOON_S = DAY_S // 2
DAYS = 4
WAIT_S = 120
TENANTS = ("acme", "zoo")
SERVICES = ("shop", "gone", "odd.name-x_y")
SETTINGS = ["--multitenancy_enabled", "true", "--compactor.interval", "1s", "--compactor.hour_delay", "0s",
            "--compactor.day_delay", "0s", "--compactor.fold_quiet", "0s", "--compactor.deletion_wait", "0s",
            "--querier.manifest_age", "1s", "--querier.usage_interval", "1s", "--ingester.segments.poll", "1s"]
EXACT = raw_usage.KEYS + ("series",)


class World:
    """Days in the life of one server's data, at noon of each, whatever the time is."""

    def __init__(self, rng, data):
        self.rng, self.data = rng, data
        self.first = int(time.time()) // DAY_S
        self.requests = raw_usage.Requests()
        self.documents = {}  # path: digest
        self.bodies = []

    def server(self, day):
        server = flamegrid.Server(*SETTINGS, data=self.data)
        shift_s = (self.first + day) * DAY_S + NOON_S - int(time.time())
        server.environment = {**flamegrid.preload("shifted_clock"), "SHIFTED_CLOCK_S": str(shift_s)}
        return server

    def send(self, server, tenant, service, labels, body):
        name = service + "{" + ",".join("%s=%s" % item for item in labels.items()) + "}"
        now = (self.first + DAYS) * DAY_S  # pprof has times of its own
        target = "/ingest?" + urllib.parse.urlencode({"name": name, "format": "pprof", "from": now, "until": now + 1})
        client = flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenant})
        status, text = client.send("POST", target, body)
        check(status == 200, "%s: %d %s", target, status, text)
        self.requests.add(tenant, service, labels, body)

    def draw_time_ns(self, day):
        """Most of the morning, some of the days before, some of the first and last moments of a day."""
        start_ns = (self.first + day) * raw_usage.DAY_NS
        kind = self.rng.random()
        if kind < 0.1:
            return start_ns
        if kind < 0.2:
            return start_ns - 1
        if kind < 0.4:
            return start_ns - self.rng.randrange(3 * raw_usage.DAY_NS)
        return start_ns + self.rng.randrange(10 * 3600 * 10**9)

    def push(self, server, day, count):
        for _ in range(count):
            rng = self.rng
            stacks = {("main", "f%d" % n): (rng.randrange(1, 9), rng.randrange(1, 99)) for n in range(rng.randrange(1, 40))}
            raw = pprof.make(stacks, self.draw_time_ns(day))
            body = gzip.compress(raw, rng.randrange(1, 10)) if rng.random() < 0.7 else raw
            sent = (rng.choice(TENANTS), rng.choice(SERVICES), {"pod": "p%d" % rng.randrange(3)}, body)
            self.send(server, *sent)
            self.bodies.append(sent)
            if rng.random() < 0.2:  # an agent that did not hear the answer
                self.send(server, *rng.choice(self.bodies[-20:]))

    def delete(self, server, day):
        end = (self.first + day) * DAY_S
        status, body = server.operate("POST", "/compactor/delete?selector=%%7Bservice_name=%%22gone%%22%%7D&start=0&end=%d" % end,
                                      headers={"X-Scope-OrgID": "acme"})
        check(status == 200, "delete: %d %s", status, body)

    def look_at_documents(self):
        """No version changes or disappears."""
        found = {}
        for folder, _, files in os.walk(os.path.join(self.data, "bucket", "usage", "days")):
            for file in files:
                with open(os.path.join(folder, file), "rb") as opened:
                    found[os.path.join(folder, file)] = hashlib.sha256(opened.read()).hexdigest()
        for path, digest in self.documents.items():
            check(found.get(path) == digest, "%s has changed", path)
        self.documents = found
        return found


class Range:
    """A world as span() needs it, of final days only."""

    def __init__(self, first, until):
        self.range = {"from": first, "until": until}


def ask(server, tenants, expected=200, **params):
    client = flamegrid.Client(server.port, headers={"X-Scope-OrgID": tenants})
    status, body = client.send("GET", "/api/usage?" + urllib.parse.urlencode(params))
    check(status == expected, "/api/usage: %d %s", status, body[:500])
    return body if params.get("format") == "csv" or expected != 200 else json.loads(body)


def day_number(text):
    return (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days


def span(world):
    """Parameters of all days that have anything; or of a range."""
    if isinstance(world, Range):
        return world.range
    first, last = (datetime.date(1970, 1, 1) + datetime.timedelta(days=world.first + day) for day in (-5, DAYS + 5))
    return {"from": first.isoformat(), "until": last.isoformat()}


def rows_of(answer):
    return {(day["tenant"], day_number(day["day"]), service["service"]): {key: service[key] for key in EXACT}
            for day in answer["days"] for service in day["services"]}


def counted(answer):
    """{key: sum}, with what waits in segments."""
    return {key: sum(day[key] for day in answer["days"]) + sum(part[key] for part in answer["waiting"])
            for key in raw_usage.KEYS}


def wait_for(wanted, what):
    deadline = time.monotonic() + WAIT_S
    while True:
        said = wanted()
        if said is True:
            return
        check(time.monotonic() < deadline, "%s: %s", what, said)
        time.sleep(0.2)


def sums_of(rows):
    return {key: sum(row[key] for row in rows.values()) for key in raw_usage.KEYS}


def flush(server):
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)


def nothing_waits(server):
    answer = ask(server, "|".join(TENANTS))
    return all(part["profiles"] == 0 for part in answer["waiting"]) or answer["waiting"]


def live_a_day(world, day):
    """Noon: profiles come, some of them twice; the process is killed; one day a deletion is asked for."""
    with world.server(day) as server:
        server.start().wait_ready()
        world.push(server, day, 25)
        if day == 2:
            world.delete(server, day)
        flush(server)
        if world.rng.random() < 0.5:
            server.kill()
            server.start().wait_ready()
        world.push(server, day, 5)
        flush(server)
        wanted = sums_of(world.requests.rows())
        # In segments or blocks: nothing is missing or twice at any moment.
        wait_for(lambda: (lambda got: got == wanted or "%s, sent were %s" % (got, wanted))
                 (counted(ask(server, "|".join(TENANTS), **span(world)))), "running numbers")
        wait_for(lambda: nothing_waits(server), "segments")
        world.look_at_documents()
        check(server.terminate() == 0, "%s", server.log_tail())


def check_accept(server):
    """CSV for those who want it more than JSON."""
    client = flamegrid.Client(server.port, headers={"X-Scope-OrgID": "acme"})
    for accept, csv_wanted in (("text/csv", True), ("text/csv;q=0", False), ("application/json;q=0.5, text/csv", True), ("*/*", False),
                               ("application/json, text/csv;q=0.5", False)):
        status, body = client.send("GET", "/api/usage", headers={"Accept": accept})
        check(status == 200 and body.startswith(b"{") != csv_wanted, "%s: %d %s", accept, status, body[:200])


def check_csv(server, answer, world):
    text = ask(server, "|".join(TENANTS), format="csv", by="service", **span(world)).decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    got = {(row["tenant"], day_number(row["day"]), row["service"]): {key: int(row[key]) for key in EXACT} for row in rows}
    check(got == rows_of(answer), "CSV: %s", text[:2000])
    check(text.endswith("\r\n") and all(row["preliminary"] == "false" for row in rows), "%s", text[:500])
    days = list(csv.DictReader(io.StringIO(ask(server, "acme", format="csv", **span(world)).decode(), newline="")))
    for row in days:
        wanted = [day for day in answer["days"] if day["tenant"] == "acme" and day["day"] == row["day"]]
        check(len(wanted) == 1 and int(row["stored_byte_days"]) == wanted[0]["stored_byte_days"] and
              int(row["wire_bytes"]) == wanted[0]["wire_bytes"], "%s", row)


def command(server, *words):
    done = subprocess.run([flamegrid.binary(), *words, "--url", "http://127.0.0.1:%d" % server.port, "--tenant", "acme"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    check(done.returncode == 0, "%s: %s", words, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def check_commands(server, answer, world):
    ours = [day for day in answer["days"] if day["tenant"] == "acme"]
    range_ = ["--from", span(world)["from"], "--until", span(world)["until"]]
    printed = json.loads(command(server, "usage", "--json", "--by", "service", *range_)[0])
    check([day["day"] for day in printed["days"]] == [day["day"] for day in ours], "%s", printed)
    check(command(server, "usage", "--csv", *range_)[0].count("\r\n") == len(ours) + 1, "--csv")
    table, said = command(server, "usage", *range_)
    check(any(day["preliminary"] for day in ours) == ("still grow\n" in said), "%s", said)
    table = table.splitlines()
    check(len(table) == len(ours) + 1 and table[1].startswith(ours[0]["day"]), "%s", table)
    services = command(server, "usage", "--by", "service", *range_)[0].splitlines()
    check(len(services) == sum(len(day["services"]) for day in ours) + 1, "%s", services)
    (cost,) = json.loads(command(server, "cost", "--json", "--gb-month", "2", "--thousand-writes", "3", *range_)[0])
    stored = sum(day["stored_byte_days"] + day["stored_byte_seconds"] / DAY_S for day in ours) / 2**30 / (730 / 24)
    check(abs(cost["storage_usd"] - 2 * stored) < 1e-9 and cost["writes"] == sum(day["writes"] for day in ours), "%s", cost)
    check(abs(cost["writes_usd"] - 3 * cost["writes"] / 1000) < 1e-9, "%s", cost)
    check(abs(cost["total_usd"] - sum(cost[key] for key in ("storage_usd", "writes_usd", "reads_usd"))) < 1e-9, "%s", cost)
    check("acme" in command(server, "cost", *range_)[0], "the table")


def usage_is_what_was_sent(rng):
    folder = flamegrid.Server()  # for its folder alone
    with folder:
        world = World(rng, folder.data)
        for day in range(DAYS):
            live_a_day(world, day)
        wanted = world.requests.rows()
        with world.server(DAYS + 1) as server:
            server.start().wait_ready()

            def is_final():
                answer = ask(server, "|".join(TENANTS), by="service", **span(world))
                open_days = [day["day"] for day in answer["days"] if day["preliminary"] and day["profiles"] > 0]
                return not open_days or open_days

            wait_for(is_final, "documents")
            answer = ask(server, "|".join(TENANTS), by="service", **span(world))
            got = {key: row for key, row in rows_of(answer).items() if row["profiles"] > 0}
            # What was deleted before its day was over is in no block whose series could be counted.
            for key, row in wanted.items():
                deleted = key[0] == "acme" and key[2] == "gone"
                have = dict(got.get(key, {}))
                if deleted and have:
                    have["series"] = row["series"]
                check(have == row, "%s: %s, sent were %s", key, have, row)
            check(got.keys() == wanted.keys(), "%s", got.keys() ^ wanted.keys())
            totals = raw_usage.by_day(wanted)
            for day in ask(server, "|".join(TENANTS), **span(world))["days"]:
                total = totals.get((day["tenant"], day_number(day["day"])), dict.fromkeys(EXACT, 0))
                check(all(day[key] == total[key] for key in raw_usage.KEYS), "%s, sent were %s", day, total)
            final = [day for day in answer["days"] if not day["preliminary"]]
            check(any(day["revision"] > 1 for day in final), "no day was corrected")
            check(sum(day["queries"] for day in final) > 0 and sum(day["cpu_ms"] for day in final) > 0, "queries")
            check(all(day["stored_byte_days"] + day["stored_byte_seconds"] > 0 for day in final
                      if day_number(day["day"]) > world.first), "stored bytes: %s", final)
            answer["days"] = final
            world.look_at_documents()
            last = max(day["day"] for day in final)
            until = (datetime.date.fromisoformat(last) + datetime.timedelta(days=1)).isoformat()
            check_csv(server, answer, Range(span(world)["from"], until))
            check_accept(server)
            check_commands(server, answer, Range(span(world)["from"], until))
            check(server.terminate() == 0, "%s", server.log_tail())


def one_tenant_does_not_see_another(_):
    with flamegrid.Server(*SETTINGS) as server:
        server.start().wait_ready()
        check([part["tenant"] for part in ask(server, "acme")["waiting"]] == ["acme"], "tenants of the answer")
        check(ask(server, "acme")["days"] == [], "a tenant without profiles")
        for params, text in (({"from": "2026-02-30"}, b"from"), ({"from": "now", "until": "now-2d"}, b"before"), ({"by": "week"}, b"by"),
                             ({"format": "xml"}, b"format"), ({"from": "1971-01-01"}, b"400 days"),
                             ({"from": "99999999999999999999"}, b"from")):
            body = ask(server, "acme", 400, **params)
            check(text in body, "%s: %s", params, body)


def main():
    arguments, tally = flamegrid.parse_seeded(flamegrid.arguments_of(__doc__))
    for case in (usage_is_what_was_sent, one_tenant_does_not_see_another):
        tally.run(case.__name__, case, random.Random(arguments.seed))
    tally.finish()


if __name__ == "__main__":
    main()
