#!/usr/bin/env python3
"""Runs the image's server in its sandbox, and is its client: on the network of the sandbox, which has loopback only.

    in_image.py COMMAND...      the command that runs its arguments in the image
"""

import http.client
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

WAIT_S = 60
CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"


def main():
    inside = sys.argv[1:]
    port, admin_port = flamegrid.free_port(), flamegrid.free_port()
    server = subprocess.Popen(inside + ["/usr/bin/flamegrid", "server", "--listen", "127.0.0.1:%d" % port, "--admin_listen",
                                        "127.0.0.1:%d" % admin_port, "--data", "/var/lib/flamegrid/data"])
    try:
        client, deadline = flamegrid.Client(port), time.monotonic() + WAIT_S
        while True:
            check(server.poll() is None, "the server ended with %s", server.returncode)
            check(time.monotonic() < deadline, "the server is not ready")
            try:
                if client.send("GET", "/ready")[0] == 200:
                    break
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.05)
        now = int(time.time())
        status, body = client.send("POST", "/ingest?name=image.cpu&from=%d&until=%d" % (now - 10, now), "main;work 30\nmain;rest 12\n")
        check(status == 200, "/ingest: %d %s", status, body)
        total = client.flame_total(CPU, '{service_name="image"}', (now - 60) * 1000, (now + 60) * 1000)
        check(total > 0 and total % 42 == 0, "of 42 samples the answer has %d", total)
        server.terminate()
        check(server.wait(WAIT_S) == 0, "exit code %d", server.returncode)
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


main()
