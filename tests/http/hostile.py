"""Hostile clients, clients that do not read, and a disk that does not answer: how much memory the server holds, and
whether it still serves others.

A well-behaved client sends probes and pushes meanwhile, and must get its answers.
"""

import http.client
import json
import os
import re
import socket
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "lib"))
import faulty_disk  # noqa: E402
import flamegrid  # noqa: E402
from flamegrid import check  # noqa: E402

MIB = 1 << 20
FEW_FILES = 600
TIMEOUT_S = 60
MEMORY_MIB = 64  # the server's budget; of which answers have an eighth
ANSWERS_BYTES = MEMORY_MIB * MIB // 8
# Of a profile whose flame graph is more than a megabyte of JSON: long names, since the floods are about bytes, and a node costs
# the server time.
STACKS, PADDING = 1_000, "x" * 440
CONNECTIONS = 16
REQUESTS = 8  # that each of them sends at a time
GROWTH_MIB = 128  # by which a flood may grow the process; without a bound what is asked for grows it by half as much again
WINDOW_S = 90
GIVEN_BACK = "freed memory returned to the operating system"

# The address sanitizer keeps freed blocks in quarantine, which would look like memory that the server holds.
SANITIZERS = {"ASAN_OPTIONS": "quarantine_size_mb=1"}


def rss_mib(server):
    with open("/proc/%d/statm" % server.process.pid, encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // MIB


def metric(server, name):
    found = re.search(r"^%s (\d+)$" % re.escape(name), server.metrics(), re.M)
    check(found, "no metric %s", name)
    return int(found.group(1))


def answers(server):
    """Returns true if an operator's request is answered; a connection too many is closed."""
    try:
        return server.operate("GET", "/ready", timeout=5)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def wait_for(condition, what):
    deadline = time.monotonic() + WINDOW_S
    while not condition():
        check(time.monotonic() < deadline, "not in %d s: %s", WINDOW_S, what)
        time.sleep(0.1)


def large_answer(server, n_stacks=STACKS, bytes_max=ANSWERS_BYTES // 2):
    """Returns path and size of a large answer."""
    stacks = "".join("main;%s 1\n" % ";".join("%s_%06d_%s" % (name, i, PADDING) for name in ("handler", "step", "leaf"))
                     for i in range(n_stacks))
    client = flamegrid.Client(server.port)
    status, body = client.send("POST", "/ingest?name=large.cpu&format=folded&from=now-10s&until=now", stacks)
    check(status == 200, "push: %d %s", status, body)
    path = "/pyroscope/render?query=process_cpu:samples:count:cpu:nanoseconds%7Bservice_name=%22large%22%7D&from=now-1h" \
           "&max-nodes=1000000"
    status, body = client.send("GET", path)
    if status != 200 or len(body) < MIB:
        path = path.replace("process_cpu:samples:count:cpu:nanoseconds", "process_cpu:cpu:nanoseconds:cpu:nanoseconds")
        status, body = client.send("GET", path)
    check(status == 200 and len(body) > MIB, "%d, %d bytes", status, len(body))
    check(len(body) < bytes_max, "%d bytes", len(body))
    return path, len(body)


def unread(port, data):
    """A connection that sends the data and reads nothing."""
    sock = socket.socket()
    sock.settimeout(TIMEOUT_S)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", port))
    sock.sendall(data)
    return sock


LEAST_ANSWERS = 10  # that a bystander has to get, and more


class Bystander(threading.Thread):
    """A well-behaved client: its probes and pushes must be answered all the time."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.slowest_s, self.asked, self.fault = port, 0, 0, None
        self.over = threading.Event()

    def run(self):
        push = "/ingest?name=bystander.cpu&format=folded&from=now-10s&until=now"
        try:
            while not self.over.wait(0.05):
                for method, target, body in (("GET", "/healthz", None), ("POST", push, "main;work 1\n")):
                    began = time.monotonic()
                    status, answer = flamegrid.Client(self.port, TIMEOUT_S).send(method, target, body)
                    check(status == 200, "%s: %d %s", target, status, answer)
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                    self.asked += 1
        except Exception as fault:  # end() raises it
            self.fault = fault

    def lacks_answers(self):
        return self.fault is None and self.asked <= LEAST_ANSWERS

    def end(self):
        self.over.set()
        self.join()
        check(self.fault is None, "the bystander: %s", self.fault)
        check(self.asked > LEAST_ANSWERS, "the bystander was answered %d times", self.asked)
        print("     %d answers to it meanwhile, the slowest after %.3f s" % (self.asked, self.slowest_s))


def check_memory(server, before_mib, name):
    """Answers stay within their budget, and the process has grown by at most what a flood may cost."""
    held = metric(server, "flamegrid_answer_memory_bytes")
    check(held <= ANSWERS_BYTES, "answers hold %d bytes of %d", held, ANSWERS_BYTES)
    grown = rss_mib(server) - before_mib
    print("     %s: answers hold %.1f MiB, the process has grown by %d MiB" % (name, held / MIB, grown))
    check(grown < GROWTH_MIB, "the process has grown by %d MiB, from %d", grown, before_mib)


def check_calm(server):
    """After the flood no answer is in memory any more, and the server exits in order."""
    wait_for(lambda: metric(server, "flamegrid_answer_memory_bytes") == 0, "answers of closed connections are held")
    check(server.terminate() == 0, "%s", server.log_tail())


def flood(server, request, answered):
    """Connections that send many requests for large answers and read none. answered: asks for one and reads it; returns
    (status, Retry-After) and whether it is complete."""
    before, bystander, socks = rss_mib(server), Bystander(server.port), []
    bystander.start()
    for number in range(CONNECTIONS):
        socks.append(unread(server.port, request(number) * REQUESTS))
        socks[-1].recv(1)  # it has begun to answer
        if number % 4 == 3:
            check_memory(server, before, "%d connections" % (number + 1))
    check(metric(server, "flamegrid_http_answers_refused_total") > 0, "all answers were held")
    # A client that reads gets 503 with Retry-After, and an answer as soon as stalled readers have been cut off.
    said = set()

    def is_served():
        refusal, complete = answered()
        said.add(refusal)
        return complete

    wait_for(is_served, "a client that reads is not served: %s" % said)
    check(said <= {(200, None), (503, "1"), (429, "1")}, "%s", said)
    check(metric(server, 'flamegrid_http_slow_readers_total{reason="stalled"}') > 0, "nobody was cut off")
    bystander.end()
    for sock in socks:
        sock.close()
    check_calm(server)


def ask(server, path):
    client = flamegrid.Client(server.port, TIMEOUT_S)
    client.connection.request("GET", path)
    response = client.connection.getresponse()
    return (response.status, response.headers["Retry-After"]), response.read()


def unread_answers():
    """Connections that ask for large answers, sixteen at a time, and read none."""
    with flamegrid.Server("--memory_max_bytes", "%dMiB" % MEMORY_MIB) as server:
        server.environment = SANITIZERS
        server.start().wait_ready()
        path, _ = large_answer(server)

        def answered():
            refusal, _ = ask(server, path)
            return refusal, refusal[0] == 200

        flood(server, lambda number: ("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode(), answered)


def unread_streams():
    """The same of answers as events: the result is one event, whose memory is bounded like that of other answers. Half of
    the clients take it compressed, which makes it small, and its coding must not wait for them either."""
    with flamegrid.Server("--memory_max_bytes", "%dMiB" % MEMORY_MIB) as server:
        server.environment = SANITIZERS
        server.start().wait_ready()
        path = large_answer(server)[0] + "&progress=true"

        def answered():
            refusal, body = ask(server, path)
            event = body[body.rindex(b"event: "):] if refusal[0] == 200 else b""
            if event.startswith(b"event: error\n"):  # it had begun: the status is in the event
                return (json.loads(event.partition(b"data: ")[2])["status"], "1"), False
            return refusal, event.startswith(b"event: result\n") and body.endswith(b"\n\n")

        flood(server, lambda number: ("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (
            path, "Accept-Encoding: gzip\r\n" if number % 2 else "")).encode(), answered)


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header field in HPACK without an entry in the table."""
    return bytes((0, len(name))) + name.encode() + bytes((127, len(value) - 127) if len(value) >= 127 else (len(value),)) \
        + value.encode()


def shut_windows():
    """HTTP/2 clients that open no window: each answer stays in memory as a whole."""
    with flamegrid.Server("--memory_max_bytes", "%dMiB" % MEMORY_MIB) as server:
        server.environment = SANITIZERS
        server.start().wait_ready()
        path, _ = large_answer(server)
        head = b"".join(literal(*field) for field in ((":method", "GET"), (":path", path), (":scheme", "http"),
                                                      (":authority", "localhost")))
        begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 0))
        before, bystander, socks = rss_mib(server), Bystander(server.port), []
        bystander.start()
        for number in range(10):
            socks.append(unread(server.port, begin))
            for stream in range(1, 17, 2):
                socks[-1].sendall(frame(1, 5, stream, head))
            time.sleep(0.2)
            if number % 5 == 4:
                check_memory(server, before, "%d connections of 8 streams" % (number + 1))
        wait_for(lambda: metric(server, "flamegrid_http_answers_refused_total") > 0, "all answers were held")
        check_memory(server, before, "all")
        bystander.end()
        for sock in socks:
            sock.close()
        check_calm(server)


def header_bomb():
    """Kilobytes of HPACK that stand for megabytes of headers, again and again: each ends its connection, and the loop
    goes on serving others."""
    value = b"x" * 3900
    block = b"\x82\x84\x86" + b"\x01\x09localhost" + b"\x40\x01x\x7f" + bytes(((3900 - 127) & 127 | 128, (3900 - 127) >> 7))
    block += value + bytes((0x80 | 62,)) * 12_000
    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
    with flamegrid.Server() as server:
        server.environment = SANITIZERS
        server.start().wait_ready()
        bystander = Bystander(server.port)
        bystander.start()
        sent, until = 0, time.monotonic() + 3
        while time.monotonic() < until:
            sock = unread(server.port, begin + frame(1, 5, 1, block))
            while sock.recv(4096):
                continue
            sock.close()
            sent += 1
        bystander.end()
        check(metric(server, 'flamegrid_http2_closed_total{reason="flood"}') == sent, "not all of %d were closed", sent)
        print("     %d connections, each ended" % sent)
        check(server.terminate() == 0, "%s", server.log_tail())


def many_scrapes():
    """Scrapes without end at the operators' port, whose answers nobody reads: the text is made once a second."""
    with flamegrid.Server("--memory_max_bytes", "%dMiB" % MEMORY_MIB) as server:
        server.environment = SANITIZERS
        server.start().wait_ready()
        size = len(server.metrics())
        check(size < 64 * 1024, "/metrics of an empty server has %d bytes", size)
        before, bystander, socks = rss_mib(server), Bystander(server.port), []
        bystander.start()
        request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 16
        until = time.monotonic() + 3
        # On a slow machine for longer: until the bystander has been answered often enough meanwhile.
        while time.monotonic() < until or (bystander.lacks_answers() and time.monotonic() < until + TIMEOUT_S):
            sock = socket.socket()
            sock.settimeout(TIMEOUT_S)
            try:
                sock.connect(("127.0.0.1", server.admin_port))
                sock.send(request)
                socks.append(sock)
            except OSError:  # more connections than it accepts from one address
                sock.close()
            if len(socks) == 400:
                socks.pop(0).close()
        grown = rss_mib(server) - before
        check(grown < GROWTH_MIB, "the process has grown by %d MiB", grown)
        bystander.end()
        for sock in socks:
            sock.close()
        # It may take a moment until the server has seen that the others are closed.
        wait_for(lambda: answers(server), "the answer to an operator")
        check(server.terminate() == 0, "%s", server.log_tail())


def one_address():
    """More silent connections than the limit: other clients are still served, and the silent ones are closed."""
    with flamegrid.Server("--connections_max", "40", "--loops", "1") as server:
        server.start().wait_ready()
        socks = [unread(server.port, b"") for _ in range(100)]
        began = time.monotonic()
        for _ in range(20):
            check(flamegrid.Client(server.port, TIMEOUT_S).send("GET", "/healthz")[0] == 200, "kept out")
        check(metric(server, 'flamegrid_http_idle_closed_total{reason="room"}') >= 60, "nobody made room")
        wait_for(lambda: metric(server, "pyroscope_tcp_connections") <= 2, "silent connections stay")
        print("     silent connections were closed after %.0f s" % (time.monotonic() - began))
        for sock in socks:
            sock.close()
        check(server.terminate() == 0, "%s", server.log_tail())


def few_files():
    """Silent connections from many addresses, more than the process may have files: it goes on to store and answer."""
    with flamegrid.Server("--loops", "1") as server:
        server.wrapper = ["prlimit", "--nofile=%d" % FEW_FILES]
        server.start().wait_ready()
        check("connections_max lowered" in server.log_tail(), "nothing says that there are few files")
        socks = []
        for number in range(2 * FEW_FILES):
            sock = socket.socket()
            sock.settimeout(TIMEOUT_S)
            sock.bind(("127.0.1.%d" % (1 + number % 200), 0))
            sock.connect(("127.0.0.1", server.port))
            socks.append(sock)
        used = metric(server, "process_open_fds")  # first: they are closed after 10 s
        check(FEW_FILES / 2 < used < 0.8 * FEW_FILES, "%d of %d files are open", used, FEW_FILES)
        for number in range(5):
            target = "/ingest?name=app-%d.cpu&format=folded&from=now-10s&until=now" % number
            check(flamegrid.Client(server.port, TIMEOUT_S).send("POST", target, "main;work 1\n")[0] == 200, "push")
            check(server.operate("POST", "/ingester/flush", TIMEOUT_S)[0] == 200, "the flush needs files")
        used = metric(server, "process_open_fds")
        check(used < 0.8 * FEW_FILES, "%d of %d files are open", used, FEW_FILES)
        for sock in socks:
            sock.close()
        check(server.terminate() == 0, "%s", server.log_tail())


def memory_goes_back():
    """After a flood the process returns its memory to the system."""
    with flamegrid.Server("--memory_max_bytes", "2GiB") as server:
        server.environment = {"ASAN_OPTIONS": "quarantine_size_mb=1:allocator_release_to_os_interval_ms=100"}
        server.start().wait_ready()
        path, size = large_answer(server, n_stacks=3 * STACKS, bytes_max=16 * MIB)
        before, socks = rss_mib(server), []
        request = ("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode()
        # The system takes some of each answer that nobody reads, and the server's heap had some room: until it has grown.
        while rss_mib(server) - before < 100 and len(socks) * size < 600 * MIB:
            socks.append(unread(server.port, request))
            socks[-1].recv(1)
        held = rss_mib(server)
        check(held - before >= 100, "it holds only %d MiB more", held - before)
        check(GIVEN_BACK not in server.log_tail(), "memory was given back before")
        for sock in socks:
            sock.close()
        # The sanitizer's allocator returns memory by itself, so the log tells whether the server asked for it.
        wait_for(lambda: GIVEN_BACK in server.log_tail(), "nothing was given back")
        wait_for(lambda: rss_mib(server) < before + (held - before) / 3, "the process keeps its memory")
        print("     %d MiB before, %d MiB in the flood, %d MiB after" % (before, held, rss_mib(server)))
        check(server.terminate() == 0, "%s", server.log_tail())


def blocked_disk():
    """Probes and scrapes are answered while the disk does not respond."""
    with flamegrid.Server() as server:
        disk = faulty_disk.FaultyDisk(server)
        server.start().wait_ready()
        for number in range(3):
            target = "/ingest?name=app-%d.cpu&format=folded&from=now-10s&until=now" % number
            check(flamegrid.Client(server.port).send("POST", target, "main;work 1\n")[0] == 200, "push")
        disk.fail("sync hold")
        flushed = []
        flush = threading.Thread(target=lambda: flushed.append(server.operate("POST", "/ingester/flush", TIMEOUT_S)))
        flush.start()  # the steps of a flush write to the store
        wait_for(disk.hits, "nothing is written")
        time.sleep(0.5)
        slowest = 0
        for _ in range(3):
            for port, target in ((server.admin_port, "/metrics"), (server.port, "/healthz"), (server.port, "/ready"),
                                 (server.admin_port, "/healthz"), (server.admin_port, "/config")):
                began = time.monotonic()
                status, body = flamegrid.Client(port, TIMEOUT_S).send("GET", target)
                slowest = max(slowest, time.monotonic() - began)
                check(status == 200, "%s: %d %s", target, status, body[:200])
            time.sleep(flamegrid.METRICS_FRESH_S)  # so that the next scrape makes a text of its own
        check(flush.is_alive(), "the disk was not blocked meanwhile")
        print("     the slowest answer came after %.3f s" % slowest)
        disk.fail()
        flush.join()
        check(flushed[0][0] == 200, "flush: %s", flushed)
        check(server.terminate() == 0, "%s", server.log_tail())


CASES = (unread_answers, unread_streams, shut_windows, header_bomb, many_scrapes, one_address, few_files, memory_goes_back, blocked_disk)
