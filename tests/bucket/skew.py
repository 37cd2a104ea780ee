"""A machine whose clock is a day off uses the time of the object store: nothing is refused or deleted by mistake."""

import os
import sys
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

DAY_S = 86400
QUERY = urllib.parse.quote('process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="app"}')


def metric(server, name):
    values = [line.split()[-1] for line in server.metrics().splitlines() if line.startswith(name + " ")]
    check(len(values) == 1, "%s: %s", name, values)
    return float(values[0])


def push_and_ask(client):
    """A profile of the current time, which a wrong clock takes for one of yesterday or tomorrow."""
    now_s = int(time.time())
    status, answer = client.send("POST", "/ingest?name=app.cpu&format=folded&from=%d&until=%d" % (now_s - 10, now_s),
                                 "main;work 7\n")
    check(status == 200, "a profile of now: %d %s", status, answer)
    status, answer = client.send("GET", "/pyroscope/render?from=now-1h&until=now&query=" + QUERY)
    check(status == 200 and b"work" in answer, "%d %s", status, answer[:300])


def clock_is_off(settings, shift_s):
    limits = ["--limits.reject_older_than", "1h", "--limits.reject_newer_than", "10m"]
    with flamegrid.Server(*settings, *limits) as server:
        server.environment = {**flamegrid.preload("shifted_clock"), "SHIFTED_CLOCK_S": str(shift_s)}
        client = flamegrid.Client(server.start().wait_ready().port)
        check(abs(metric(server, "flamegrid_clock_offset_seconds") + shift_s) <= 5, "the offset")
        status, body = client.send("GET", "/ready")
        check(status == 200 and b"clock_off" in body, "%d %s", status, body)
        push_and_ask(client)
        check(server.terminate() == 0, "%s", server.log_tail())


def clocks_that_are_off(settings):
    clock_is_off(settings, -DAY_S)
    clock_is_off(settings, DAY_S)
