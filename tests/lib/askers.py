"""Threads that query a server while a test does something else."""

import threading
import time

import flamegrid

TIMEOUT_S = 120
PATIENCE_S = 60


class Askers:
    """Threads that query continuously, each over its own connection, until the block ends; ask(client) returns the status.

    codes has the number of each status, took has the seconds of each answer."""

    def __init__(self, server, count, ask, tenant=None):
        self.server, self.ask, self.stopped = server, ask, threading.Event()
        self.headers = {"X-Scope-OrgID": tenant} if tenant else None
        self.took, self.codes, self.lock = [], {}, threading.Lock()
        self.threads = [threading.Thread(target=self.loop, daemon=True) for _ in range(count)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *exception):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

    def loop(self):
        client = flamegrid.Client(self.server.port, timeout=TIMEOUT_S, headers=self.headers)
        while not self.stopped.is_set():
            begin = time.monotonic()
            status = self.ask(client)
            with self.lock:
                self.took.append(time.monotonic() - begin)
                self.codes[status] = self.codes.get(status, 0) + 1

    def wait_for(self, status):
        """Waits until a thread got that status."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with self.lock:
                if self.codes.get(status, 0) > 0:
                    return
            time.sleep(0.01)
        raise AssertionError("nobody got %d: %s" % (status, self.codes))
