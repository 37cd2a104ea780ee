"""DNS for pods: names of services, and of pods that have a host name in a service, as the DNS specification of Kubernetes has them."""

import socket
import socketserver
import struct
import threading

TTL_S = 2
A, AAAA, ANY = 1, 28, 255
NO_ERROR, NO_NAME = 0, 3
MESSAGE_BYTES = 1232


def answer(query, addresses_of):
    """Returns the answer to a query. addresses_of(name) returns addresses, or None if there is no such name."""
    number, flags = struct.unpack(">HH", query[:4])
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("ascii", "replace").lower())
        at += 1 + query[at]
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    question = query[12:at + 5]
    addresses = addresses_of(".".join(labels))
    found = addresses if addresses and kind in (A, ANY) else []
    code = NO_NAME if addresses is None else NO_ERROR
    body = b"".join(struct.pack(">HHHIH", 0xC00C, A, 1, TTL_S, 4) + socket.inet_aton(address) for address in found)
    # An authoritative answer, to a question that may have wanted recursion.
    return struct.pack(">HHHHHH", number, 0x8580 | flags & 0x0100 | code, 1, len(found), 0, 0) + question + body


class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        message, where = self.request
        try:
            reply = answer(message, self.server.addresses_of)
        except (IndexError, struct.error):
            return  # not a question
        if len(reply) > MESSAGE_BYTES:
            reply = reply[:2] + bytes([reply[2] | 2]) + reply[3:6] + bytes(6) + reply[12:MESSAGE_BYTES]
        where.sendto(reply, self.client_address)


class Tcp(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            size = self.rfile.read(2)
            if len(size) < 2:
                return
            reply = answer(self.rfile.read(struct.unpack(">H", size)[0]), self.server.addresses_of)
            self.wfile.write(struct.pack(">H", len(reply)) + reply)


class Names:
    """What the names of a cluster's domain stand for, of mirrors of services and endpoint slices."""

    def __init__(self, domain, services, slices):
        self.domain, self.services, self.slices = domain, services, slices

    def addresses(self, name):
        suffix = ".svc." + self.domain
        if not name.endswith(suffix):
            return None
        labels = name[:-len(suffix)].split(".")
        if len(labels) not in (2, 3):
            return None
        service = self.services.get(labels[-1], labels[-2])
        if service is None:
            return None
        if service["spec"].get("clusterIP") not in (None, "None"):
            return [service["spec"]["clusterIP"]] if len(labels) == 2 else None
        found = []
        for piece in self.slices.all():
            if piece["metadata"]["namespace"] == labels[-1] and piece["metadata"]["labels"].get("kubernetes.io/service-name") == labels[-2]:
                for endpoint in piece.get("endpoints") or []:
                    if endpoint.get("conditions", {}).get("ready", True) and (len(labels) == 2 or endpoint.get("hostname") == labels[0]):
                        found += endpoint["addresses"]
        return found if found or len(labels) == 2 else None


def serve(address, addresses_of):
    """Answers at port 53 in threads of their own."""
    for kind, handler in ((socketserver.ThreadingUDPServer, Udp), (socketserver.ThreadingTCPServer, Tcp)):
        kind.allow_reuse_address = kind.daemon_threads = True
        server = kind((address, 53), handler)
        server.addresses_of = addresses_of
        threading.Thread(target=server.serve_forever, daemon=True).start()
