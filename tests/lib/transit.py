"""A server that speaks the protocol of the transit engine of HashiCorp Vault, for one key of type aes256-gcm96: encrypt and
decrypt with associated data (https://developer.hashicorp.com/vault/api-docs/secret/transit). No Vault was used to make it."""

import base64
import http.server
import json
import os
import threading

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class Transit:
    """`with Transit(token) as transit`: transit.url; transit.calls counts answers by path; transit.sealed refuses all,
    transit.refused the owners ("shop") of some keys."""

    def __init__(self, token, key="flamegrid"):
        self.token, self.key, self.sealed, self.refused, self.calls = token, key, False, set(), {}
        self.secret = AESGCM(os.urandom(32))
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

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def answer(self, path, authorization, body):
        if self.sealed:
            return 503, {"errors": ["Vault is sealed"]}
        if authorization != "Bearer " + self.token:
            return 403, {"errors": ["permission denied"]}
        associated = base64.b64decode(body["associated_data"], validate=True)
        if associated.decode().removeprefix("flamegrid key of ") in self.refused:
            return 400, {"errors": ["refused"]}
        self.calls[path] = self.calls.get(path, 0) + 1
        if path == "/v1/transit/encrypt/" + self.key:
            nonce = os.urandom(12)
            sealed = nonce + self.secret.encrypt(nonce, base64.b64decode(body["plaintext"], validate=True), associated)
            return 200, {"request_id": "1", "data": {"ciphertext": "vault:v1:" + base64.b64encode(sealed).decode(), "key_version": 1}}
        if path == "/v1/transit/decrypt/" + self.key:
            sealed = base64.b64decode(body["ciphertext"].removeprefix("vault:v1:"), validate=True)
            try:
                plain = self.secret.decrypt(sealed[:12], sealed[12:], associated)
            except InvalidTag:
                return 400, {"errors": ["cipher: message authentication failed"]}
            return 200, {"request_id": "2", "data": {"plaintext": base64.b64encode(plain).decode()}}
        return 404, {"errors": []}
