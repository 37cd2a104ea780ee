"""The disk cache: what a server has read of an object store it need not read again, also after a restart;
and whatever becomes of the cache's files, the answers stay."""

import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))

import exporting  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

RESTARTS_MAX = 8

# No profile stays in the head.
SETTINGS = ["--ingester.segments.evict_after", "0s", "--ingester.segments.poll", "1s"]


def metric(server, name):
    return int(re.search(r"^flamegrid_%s (\d+)$" % name, server.metrics(), re.M).group(1))


def wait_for(wanted, what):
    deadline = time.monotonic() + 30
    while not wanted():
        check(time.monotonic() < deadline, "%s", what)
        time.sleep(0.05)


def ask(client, start_s):
    return exporting.answers(client, start_s * 1000, (start_s + exporting.STEP_S * exporting.PROFILES) * 1000)


def fill(server, start_s):
    """Fills the bucket and the cache, stops the server, and returns the answers that it gave."""
    client = flamegrid.Client(server.start().wait_ready().port)
    exporting.push_all(client, start_s)
    status, body = server.operate("POST", "/ingester/flush")
    check(status == 200, "flush: %d %s", status, body)
    time.sleep(1.5)  # until the head has read the manifest and forgets
    wanted = ask(client, start_s)
    check(metric(server, "querier_bucket_bytes_total") > 0, "nothing was read of the bucket")
    wait_for(lambda: metric(server, "disk_cache_queued_bytes") == 0, "what was read is not written")
    check(metric(server, "disk_cache_dropped_total") == 0, "something was dropped")
    check(metric(server, "disk_cache_entries") > 0, "nothing is there")
    check(server.terminate() == 0, "%s", server.log_tail())
    return wanted


def ask_again(server, start_s, wanted):
    """Queries after a restart. Returns the bytes read from the bucket and the hits of the disk cache."""
    client = flamegrid.Client(server.start().wait_ready().port)
    exporting.compare(ask(client, start_s), wanted)
    found = [metric(server, name) for name in ("querier_bucket_bytes_total", "disk_cache_hits_total")]
    wait_for(lambda: metric(server, "disk_cache_queued_bytes") == 0, "what was read is not written")
    check(server.terminate() == 0, "%s", server.log_tail())
    return found


def ask_until_all_is_there(server, start_s, wanted):
    """Restarts until all is cached: the compactor replaces objects that were read, and a first query may precede the scan."""
    for _ in range(RESTARTS_MAX):
        fetched, hits = ask_again(server, start_s, wanted)
        if fetched == 0:
            check(hits > 0, "nothing was read at all")
            return
    raise AssertionError("%d bytes are read of the bucket at each start" % fetched)


def spoil(folder):
    """Damages each cache file in every way."""
    for name in os.listdir(folder):
        if not name.endswith(".cache"):
            continue
        with open(os.path.join(folder, name), "r+b") as file:
            content = bytearray(file.read())
            for at in range(300, len(content), 700):
                content[at] ^= 0x55
            file.seek(0)
            file.write(content)
            file.truncate(len(content) - 100)


def restart_and_faults(settings):
    start_s = int(time.time()) // 86400 * 86400 - 5 * 86400
    with flamegrid.Server(*settings, *SETTINGS) as server:
        wanted = fill(server, start_s)
        ask_until_all_is_there(server, start_s, wanted)
        spoil(os.path.join(server.data, "cache"))
        fetched, _ = ask_again(server, start_s, wanted)
        check(fetched > 0, "spoilt things were not read again")
        ask_until_all_is_there(server, start_s, wanted)
    with flamegrid.Server(*settings, *SETTINGS, "--querier.disk_cache_max_bytes", "0") as server:
        client = flamegrid.Client(server.start().wait_ready().port)
        exporting.compare(ask(client, start_s), wanted)
        check(not os.path.exists(os.path.join(server.data, "cache")), "a cache that was not asked for")


def refused(settings):
    """A cache folder that cannot be made stops the start."""
    with flamegrid.Server(*settings, "--querier.disk_cache", "/dev/null/cache") as server:
        code = server.start().wait()
        check(code == 1 and "/dev/null/cache" in server.log_tail(), "%d %s", code, server.log_tail())
