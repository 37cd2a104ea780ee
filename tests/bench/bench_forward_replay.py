#!/usr/bin/env python3
"""What live agents feel of a server that catches up and is on another machine: as bench_forward_live.py, without that server.

    bench_forward_replay.py [--rounds N] [--seconds N] [--rate N] [--backlog N] [--warm N] [--nice N] [--folder FOLDER]
                            [--rate-max-bytes BYTES] [--binaries FILE ...]

First a node sends a backlog to a receiver, and its requests are recorded. In each round a new receiver gets the same requests at the
same times from a program that does nothing else, so neither the node's threads nor its disk take part. A process that stands behind all
others is still in their way: next to a thread that waits for the processor, Linux lets the one that runs be replaced by any that wakes
up. --binaries measures several receivers in turns with the same requests. Needs to be root. Set FG_BINARY to a release build, and FG_PUSH
to its bench_push.
"""

import argparse
import os
import queue
import re
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import flamegrid  # noqa: E402
from bench_forward_live import Pairs, fill, measure, parser_of, pending, place  # noqa: E402
from link import CUT, OPEN, Link  # noqa: E402

CONNECTIONS = 4  # as many as a node has in flight at the least
HEAD_END = b"\r\n\r\n"


class Recorder(Link):
    """A link that keeps what its clients send, and when."""

    def __init__(self, *targets):
        self.sent = []  # of each client: [(time, bytes)]
        super().__init__(*targets)

    def pump(self, source, sink, held_in):
        if source.getpeername()[1] in self.targets:  # answers
            super().pump(source, sink, held_in)
            return
        chunks = []
        self.sent.append(chunks)
        super().pump(Tap(source, chunks), sink, held_in)

    def requests(self):
        """Returns all forwarded pushes as (time, bytes), by time."""
        found = []
        for chunks in self.sent:
            found += divide(chunks)
        return sorted((at, data) for at, data in found if data.startswith(b"POST /forward.v1.ForwardService/Push"))


class Tap:
    """A socket whose received bytes are kept."""

    def __init__(self, source, kept):
        self.source, self.kept = source, kept

    def recv(self, n_bytes):
        data = self.source.recv(n_bytes)
        self.kept.append((time.monotonic(), data))
        return data

    def fileno(self):
        return self.source.fileno()

    def shutdown(self, how):
        self.source.shutdown(how)


def length_of(head):
    found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return int(found.group(1)) if found else 0


def divide(chunks):
    """Divides what came on a connection into requests."""
    found, data, began = [], b"", None
    for at, chunk in chunks:
        began = began or at
        data += chunk
        while HEAD_END in data:
            head = data.index(HEAD_END) + len(HEAD_END)
            end = head + length_of(data[:head])
            if len(data) < end:
                break
            found.append((began, data[:end]))
            data, began = data[end:], at
        if not data:
            began = None
    return found


def ask(connection, request):
    """Sends a request and reads its answer."""
    connection.sendall(request)
    answer = b""
    while HEAD_END not in answer:
        answer += connection.recv(1 << 16) or b"\r\n\r\n"
    flamegrid.check(answer.startswith(b"HTTP/1.1 200 "), "%s", answer[:200])
    head = answer.index(HEAD_END) + len(HEAD_END)
    left = length_of(answer[:head]) - (len(answer) - head)
    while left > 0:
        data = connection.recv(left)
        flamegrid.check(data, "the connection ended %d bytes before the answer", left)
        left -= len(data)


class Replay:
    """Sends requests, at their times counted from the first one, or (timed false) one after another."""

    def __init__(self, port, requests, timed):
        self.left, self.lock = queue.SimpleQueue(), threading.Lock()
        self.stopped, self.ended = False, 0
        began = time.monotonic()
        for at, data in requests:
            self.left.put((began + at - requests[0][0] if timed else 0, data))
        self.threads = [threading.Thread(target=self.run, args=(port,)) for _ in range(CONNECTIONS if timed else 1)]
        for thread in self.threads:
            thread.start()

    def run(self, port):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            while not self.stopped:
                try:
                    at, data = self.left.get_nowait()
                except queue.Empty:
                    break
                time.sleep(max(0, at - time.monotonic()))
                ask(connection, data)
        with self.lock:
            self.ended += 1

    def join(self):
        for thread in self.threads:
            thread.join()
        flamegrid.check(self.ended == len(self.threads), "a request failed")

    def stop(self):
        """Ends the replay. Returns whether it had more to send."""
        more = not self.left.empty()
        self.stopped = True
        self.join()
        return more


def record(arguments):
    """Returns the requests that send what warms a receiver up, and those of the backlog."""
    with flamegrid.Server("--memory_max_bytes", "4GiB") as receiver:
        receiver.start().wait_ready()
        link = Recorder(receiver.port)
        with flamegrid.Server("--memory_max_bytes", "1GiB", "--forward.targets",
                              "[{name: there, url: 'http://127.0.0.1:%d', rate_max_bytes: %s}]" % (link.port, arguments.rate_max_bytes)) as node:
            node.start().wait_ready()
            start_s, parts = int(time.time()) - 30 * 86400, []
            for count, start in ((arguments.warm, start_s - 1), (arguments.backlog, start_s)):
                link.set(CUT)
                fill(node, arguments.folder, count, start)
                link.sent.clear()
                link.set(OPEN)
                while pending(node) > 0:
                    time.sleep(0.2)
                parts.append(link.requests())
        link.close()
    return parts


def stored(receiver):
    return int(re.search(r"^flamegrid_ingester_profiles_stored_total (\d+)", receiver.metrics(), re.M).group(1))


def catch_up(receiver, backlog, arguments):
    before, began = stored(receiver), time.monotonic()
    replay = Replay(receiver.port, backlog, True)
    took = measure(receiver, arguments.folder, arguments)
    seconds = time.monotonic() - began
    flamegrid.check(replay.stop(), "the backlog of %d requests was too small", len(backlog))
    return took, (stored(receiver) - before) / seconds - arguments.rate


def run(number, warm, backlog, pairs, arguments):
    with flamegrid.Server("--memory_max_bytes", "4GiB") as receiver:
        receiver.start().wait_ready()
        Replay(receiver.port, warm, False).join()
        measure(receiver, arguments.folder, argparse.Namespace(**{**vars(arguments), "seconds": 5}))  # its stacks come
        os.sync()
        pairs.measure(number, lambda: measure(receiver, arguments.folder, arguments), lambda: catch_up(receiver, backlog, arguments))


def main():
    parser = parser_of(__doc__, rounds=4, seconds=24, rate=250, backlog=75000, warm=8000, rate_max_bytes="1850kB")
    parser.add_argument("--binaries", nargs="+", help="of receivers; FG_BINARY if there are none")
    arguments = parser.parse_args()
    place(0, None, arguments.nice)  # processes that are started have it, too
    warm, backlog = record(arguments)
    print("%d and %d requests, %.0f bytes the mean, in %.0f s" %
          (len(warm), len(backlog), sum(len(data) for _, data in backlog) / len(backlog), backlog[-1][0] - backlog[0][0]))
    receivers = {binary: Pairs(os.path.basename(binary)) for binary in arguments.binaries or [os.environ["FG_BINARY"]]}
    Pairs.print_head()
    for number in range(arguments.rounds):
        for binary, pairs in receivers.items():
            os.environ["FG_BINARY"] = binary
            run(number, warm, backlog, pairs, arguments)
    for pairs in receivers.values():
        pairs.report()


if __name__ == "__main__":
    main()
