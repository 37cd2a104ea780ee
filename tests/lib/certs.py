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

    def make(self, name, issuer=None, days=DAYS, names=(), addresses=()):
        """Makes a certificate. Without an issuer it signs itself and is an authority. names, addresses: in addition to those of localhost."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(name + ".key")]
        if issuer is None:
            self.openssl("req", "-x509", *key, "-days", str(days), "-subj", "/CN=" + name, "-out", self.path(name + ".pem"))
            return
        with open(self.path("names"), "w", encoding="ascii") as file:
            file.write(NAMES + "".join(",DNS:" + each for each in names) + "".join(",IP:" + each for each in addresses) + "\n")
        self.openssl("req", *key, "-subj", "/CN=" + name, "-out", self.path(name + ".csr"))
        self.openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA", self.path(issuer + ".pem"),
                     "-CAkey", self.path(issuer + ".key"), "-CAcreateserial", "-days", str(days),
                     "-extfile", self.path("names"), "-out", self.path(name + ".pem"))


class Papers(Certificates):
    """What each process has of its own: cert.pem, key.pem and ca.pem in a folder that changes as a whole, as a secret of
    Kubernetes does, and a file of settings that names them."""

    def __init__(self, folder):
        super().__init__(folder)
        self.sets = 0
        for authority in ("ca", "other"):
            self.make(authority)

    def settings(self, name):
        """Certificates of a new member."""
        self.issue(name)
        files = {"tls_%s_file" % paper: os.path.join(self.path(name), paper + ".pem") for paper in ("cert", "key", "ca")}
        return self.write_settings(name, {"tls_server_name": "localhost", **files})

    def write_settings(self, name, rpc):
        path = self.path(name + ".yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write("rpc:\n  cluster: prod\n" + "".join("  %s: %s\n" % item for item in rpc.items()))
        return path

    def issue(self, name, issuer="ca", trusted=("ca",), days=DAYS, role=None):
        """Replaces the certificates of a process. role: another role than that of its name."""
        self.sets += 1
        number = "set-%d" % self.sets
        folder = self.path(number)
        os.mkdir(folder)
        self.make(number, issuer, days, ["%s.flamegrid" % (role or name.split("-")[0])])
        os.rename(folder + ".pem", os.path.join(folder, "cert.pem"))
        os.rename(folder + ".key", os.path.join(folder, "key.pem"))
        with open(os.path.join(folder, "ca.pem"), "w", encoding="ascii") as file:
            for authority in trusted:
                with open(self.path(authority + ".pem"), encoding="ascii") as one:
                    file.write(one.read())
        os.symlink(folder, self.path("next"))
        os.replace(self.path("next"), self.path(name))
