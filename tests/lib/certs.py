"""Certificates for tests in a folder, made by the openssl command."""

import os
import subprocess

TIMEOUT_S = 60
NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
DAYS = 10
EXPIRED = -1  # days: it ended yesterday


class Certificates:
    """A folder with name.pem and name.key of each certificate."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=TIMEOUT_S)

    def make(self, name, issuer=None, days=DAYS, names=()):
        """Makes a certificate. Without an issuer it signs itself and is an authority. names: DNS names in addition to localhost."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name + ".key")]
        if issuer is None:
            self.openssl("req", "-x509", *key, "-days", str(days), "-subj", "/CN=" + name, "-out", self.path(name + ".pem"))
            return
        with open(self.path("names"), "w", encoding="ascii") as file:
            file.write(NAMES + "".join(",DNS:" + each for each in names) + "\n")
        self.openssl("req", *key, "-subj", "/CN=" + name, "-out", self.path(name + ".csr"))
        self.openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(issuer + ".pem"),
                     "-CAkey", self.path(issuer + ".key"), "-CAcreateserial", "-days", str(days),
                     "-extfile", self.path("names"), "-out", self.path(name + ".pem"))
