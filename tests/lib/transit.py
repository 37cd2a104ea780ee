"""A server that speaks the protocol of the transit engine of HashiCorp Vault, for one key of type aes256-gcm96 with versions: encrypt and
decrypt with associated data (https://developer.hashicorp.com/vault/api-docs/secret/transit). Status and text of what it refuses are those of
Vault 1.21, which answers the same cases of tests/bucket/encryption.py when it can be built (vault.py)."""

import base64
import http.server
import json
import os
import ssl
import threading
import time

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY = "flamegrid"
VERBS = ("encrypt", "decrypt")


class Transit:
    """`with Transit(certificates) as transit`: transit.url, which needs the authority `ca`; transit.calls counts answers by path; transit.refused
    has the owners ("shop") of keys that it refuses."""

    def __init__(self, certificates):
        self.sealed, self.refused, self.calls, self.tokens, self.oldest = False, set(), {}, {}, 1
        self.versions = [AESGCM(os.urandom(32))]
        transit = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_arguments):
                pass

            def do_POST(self):  # noqa: N802
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = transit.answer(self.path, self.headers.get("Authorization"), body)
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        certificates.make("vault-ca")
        certificates.make("vault", "vault-ca")
        self.ca = certificates.path("vault-ca.pem")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.path("vault.pem"), certificates.path("vault.key"))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads, self.server.handle_error = True, lambda *_arguments: None  # those who do not trust us hang up
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.url = "https://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    # ---- what an operator does ----

    def seal(self):
        self.sealed = True

    def unseal(self):
        self.sealed = False

    def token(self, *verbs, seconds=3600):
        """A token that may do so much, for a time."""
        name = "hvs." + os.urandom(12).hex()
        self.tokens[name] = (verbs or VERBS, time.monotonic() + seconds)
        return name

    def renew(self, token, seconds):
        self.tokens[token] = (self.tokens[token][0], time.monotonic() + seconds)

    def revoke(self, token):
        del self.tokens[token]

    def rotate(self):
        self.versions.append(AESGCM(os.urandom(32)))

    def require(self, version):
        """The least version that is decrypted."""
        self.oldest = version

    # ---- what it answers ----

    def may(self, verb, authorization):
        verbs, until = self.tokens.get((authorization or "").removeprefix("Bearer "), ((), 0))
        return verb in verbs and time.monotonic() < until

    def answer(self, path, authorization, body):
        if self.sealed:
            return 503, {"errors": ["Vault is sealed"]}
        _, _, mount, verb, key = path.split("/")
        if mount != "transit" or key != KEY or not self.may(verb, authorization):
            return 403, {"errors": ["1 error occurred:\n\t* permission denied\n\n"]}
        associated = base64.b64decode(body["associated_data"], validate=True)
        if associated.decode().removeprefix("flamegrid key of ") in self.refused:
            return 400, {"errors": ["refused"]}
        self.calls[path] = self.calls.get(path, 0) + 1
        return self.encrypt(body, associated) if verb == "encrypt" else self.decrypt(body, associated)

    def encrypt(self, body, associated):
        nonce, version = os.urandom(12), len(self.versions)
        sealed = nonce + self.versions[-1].encrypt(nonce, base64.b64decode(body["plaintext"], validate=True), associated)
        text = "vault:v%d:%s" % (version, base64.b64encode(sealed).decode())
        return 200, {"request_id": "1", "data": {"ciphertext": text, "key_version": version}}

    def decrypt(self, body, associated):
        _, version, text = body["ciphertext"].split(":")
        version, sealed = int(version.removeprefix("v")), base64.b64decode(text, validate=True)
        if version < self.oldest:
            return 400, {"errors": ["ciphertext or signature version is disallowed by policy (too old)"]}
        try:
            plain = self.versions[version - 1].decrypt(sealed[:12], sealed[12:], associated)
        except InvalidTag:
            return 400, {"errors": ["cipher: message authentication failed"]}
        return 200, {"request_id": "2", "data": {"plaintext": base64.b64encode(plain).decode()}}
