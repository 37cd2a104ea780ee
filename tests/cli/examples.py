"""The examples of documents: what stands in their blocks of shell commands, run as it is."""

import contextlib
import http.server
import os
import re
import subprocess
import threading

import flamegrid
from flamegrid import check

TIMEOUT_S = 60


def blocks(page, language):
    with open(os.path.join(flamegrid.ROOT, page), encoding="utf-8") as file:
        found = re.findall(r"^```%s\n(.*?)^```$" % language, file.read(), re.M | re.S)
    check(found, "%s has no %s", page, language)
    return found


def run(page, folder, replaced):
    """All blocks of a page in one shell, with other addresses. What they print; a command that fails, or a status of 400 and
    above, is an error."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".curlrc"), "w", encoding="utf-8") as file:
        file.write("fail-with-body\nsilent\nshow-error\nnoproxy = *\n")
    script = "set -euo pipefail\n" + "echo\n".join(blocks(page, "sh"))
    for name, other in replaced.items():
        script = script.replace(name, other)
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S,
                          env={**os.environ, "CURL_HOME": folder})
    check(done.returncode == 0, "%s: exit code %d: %s%s", page, done.returncode, done.stdout, done.stderr)
    return done.stdout.strip()


@contextlib.contextmanager
def target(profile):
    """A process that is profiled at /debug/pprof: every GET is answered with the profile. Its address."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(profile)))
            self.end_headers()
            self.wfile.write(profile)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "http://127.0.0.1:%d" % server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
