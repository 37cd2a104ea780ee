"""`flamegrid canary` as the ledger client of a test: started, stopped, and its counts."""

import os
import signal
import subprocess
import tempfile
import time

import flamegrid

STOP_TIMEOUT_S = 180  # it waits for answers, settles what it sent, and asks for all of it once more


class Canary:
    """One process. Use as a context, at whose end it is stopped. Its output goes to the file log_path."""

    def __init__(self, through, *arguments, ask=None):
        self.port = flamegrid.free_port()
        handle, self.log_path = tempfile.mkstemp(prefix="flamegrid-canary.")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("FLAMEGRID_", "FG_"))}
        environment["NO_PROXY"] = "127.0.0.1"
        with os.fdopen(handle, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [flamegrid.binary(), "canary", "--through", through, "--ask", ask or through,
                 "--listen", "127.0.0.1:%d" % self.port, *arguments],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=environment, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        os.unlink(self.log_path)

    def finish(self):
        """Waits for a canary with a duration. Returns (exit code, {count: value})."""
        out, _ = self.process.communicate(timeout=STOP_TIMEOUT_S)
        return self.process.returncode, {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def wait_started(self):
        """Waits until it serves its metrics."""
        while self.process.poll() is None:
            try:
                self.counts()
                return self
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the canary ended with %d:\n%s" % (self.process.returncode, self.log()))

    def counts(self):
        """Returns {metric name without its prefix: value}, current values."""
        body = flamegrid.Client(self.port).send("GET", "/metrics")[1].decode()
        lines = [line.split(" ") for line in body.splitlines() if not line.startswith("#")]
        return {name[len("flamegrid_canary_"):]: float(value) for name, value in lines}

    def log(self):
        with open(self.log_path, encoding="utf-8") as log:
            return log.read()

    def errors(self, most=10):
        """Returns the first lines about wrong answers."""
        return "\n".join([line for line in self.log().splitlines() if "level=error" in line][:most])
