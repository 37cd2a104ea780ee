"""A TCP link between two processes that a test controls: cut, stopped in one or both directions, or spread over targets."""

import os
import select
import socket
import threading

import flamegrid

CHUNK_BYTES = 1 << 16
CONNECT_TIMEOUT_S = 5
LOOK_S = 0.05

OPEN, CUT, HELD, ANSWERS_HELD, SILENT = "open", "cut", "held", "answers held", "silent"


class Link:
    """Forwards connections to `port`. set(CUT): closes all connections and accepts none. set(HELD): bytes wait, as when
    packets are lost, and arrive when the link is open again; ANSWERS_HELD: only bytes from the target wait. set(SILENT):
    closes all connections; new ones get no byte and are closed by the next set()."""

    def __init__(self, *targets):
        self.targets = list(targets)
        self.turn = 0
        self.mode = OPEN
        self.lock = threading.Lock()
        self.pairs = set()
        self.listener = socket.create_server(("127.0.0.1", flamegrid.free_port()))
        self.port = self.listener.getsockname()[1]
        self.closing = False
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def close(self):
        self.closing = True
        self.set(CUT)
        self.thread.join()
        self.listener.close()

    def set(self, mode):
        with self.lock:
            self.mode = mode
            if mode in (CUT, SILENT):
                for pair in self.pairs:
                    for end in pair:
                        shut(end)

    def accept(self):
        while not self.closing:
            if not select.select([self.listener], [], [], LOOK_S)[0]:
                continue
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def connect(self):
        """Connects to the next target that accepts; None: no target does."""
        for _ in self.targets:
            self.turn += 1
            try:
                return socket.create_connection(("127.0.0.1", self.targets[self.turn % len(self.targets)]), CONNECT_TIMEOUT_S)
            except OSError:
                pass
        return None

    def keep_silent(self, client):
        """Serves the connection until the mode changes."""
        with client:
            while self.mode == SILENT:
                select.select([], [], [], LOOK_S)

    def serve(self, client):
        if self.mode == SILENT:
            self.keep_silent(client)
            return
        server = None if self.mode == CUT else self.connect()
        if server is None:
            client.close()
            return
        server.settimeout(None)
        with self.lock:
            self.pairs.add((client, server))
            if self.mode in (CUT, SILENT):
                shut(client)
        back = threading.Thread(target=self.pump, args=(server, client, (HELD, ANSWERS_HELD)), daemon=True)
        back.start()
        self.pump(client, server, (HELD,))
        back.join()
        with self.lock:
            self.pairs.discard((client, server))
        client.close()
        server.close()

    def pump(self, source, sink, held_in):
        """Copies bytes until one end is closed, then closes the other."""
        while True:
            try:
                if self.mode in held_in:
                    select.select([], [], [], LOOK_S)
                    if source.fileno() < 0:
                        break
                    continue
                if not select.select([source], [], [], LOOK_S)[0]:
                    continue
                data = source.recv(CHUNK_BYTES)
                if not data:
                    break
                while self.mode in held_in:
                    select.select([], [], [], LOOK_S)
                sink.sendall(data)
            except (OSError, ValueError):
                break
        shut(source)
        shut(sink)


def shut(end):
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
