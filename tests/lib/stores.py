"""Object stores of other projects, as processes with an empty bucket; tests/bucket/README.md says which and why."""

import hashlib
import hmac
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import flamegrid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "bucket")  # with what is installed, and the locks of it
BUILD = os.path.join(ROOT, "build", "bucket")
OLDEST_GO = (1, 25)
INSTALL_TIMEOUT_S = 900
START_TIMEOUT_S = 60
NAME = "flamegrid"  # of bucket, access key and secret key
REGION = "us-east-1"


class Unavailable(Exception):
    """A toolchain or a registry is missing; this is no failure of flamegrid."""


def fetch(*command, **options):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=INSTALL_TIMEOUT_S, **options)
    except (OSError, subprocess.TimeoutExpired) as missing:
        raise Unavailable(str(missing))
    if done.returncode != 0:
        raise Unavailable("%s: %s" % (" ".join(command), done.stdout.decode("utf-8", "replace")[-400:]))
    return done.stdout.decode("utf-8", "replace")


class Store:
    """A server process with an empty bucket."""

    refused = None  # what the proof says of it

    def __init__(self, folder, host="127.0.0.1"):
        self.folder, self.host = folder, host
        self.port = flamegrid.free_port()
        self.url = "http://%s:%d" % (host, self.port)
        self.process = None

    def start(self):
        self.install()
        self.spawn()

    def spawn(self):
        """Starts the process, also after a stop: it keeps its objects."""
        self.process = subprocess.Popen(self.command(), cwd=self.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "ROOT_ACCESS_KEY": NAME, "ROOT_SECRET_KEY": NAME})
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.make_bucket():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("%s did not start" % type(self).__name__)
            time.sleep(0.05)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def pause(self):
        """Suspends the process: connections stay open without answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def make_bucket(self):
        try:
            with urllib.request.urlopen(signed_put("%s:%d" % (self.host, self.port), "/" + NAME), timeout=5):
                return True
        except urllib.error.HTTPError as fault:
            return fault.code == 409  # it is there
        except OSError:
            return False


class Versitygw(Store):
    program = os.path.join(BUILD, "versitygw")

    def install(self):
        """Builds the program once, with the versions in go.sum."""
        version = re.search(r"go(\d+)\.(\d+)", fetch("go", "version"))
        if version is None or tuple(map(int, version.groups())) < OLDEST_GO:
            raise Unavailable("no Go %d.%d or later" % OLDEST_GO)
        fetch("go", "build", "-mod=readonly", "-o", self.program, "github.com/versity/versitygw/cmd/versitygw",
              cwd=os.path.join(HERE, "versitygw"))
        self.home = os.path.join(self.folder, "store")
        os.makedirs(self.home, exist_ok=True)
        try:
            # Without extended attributes it could store etags in other files (--sidecar), but then it sometimes
            # returns a content with the etag of another one, and updates are lost.
            os.setxattr(self.home, "user.flamegrid", b"")
        except OSError as fault:
            raise Unavailable("%s: extended attributes: %s" % (self.home, fault))

    def command(self):
        return [self.program, "--port", "%s:%d" % (self.host, self.port), "--quiet", "posix", self.home]


class Moto(Store):
    refused = "a multipart put if match"

    def install(self):
        """Makes a virtual environment with the packages in locks/moto.txt."""
        self.home = os.path.join(BUILD, "venv-moto")
        if not os.path.exists(os.path.join(self.home, "bin", "pip")):
            fetch(sys.executable, "-m", "venv", self.home)
        fetch(os.path.join(self.home, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check",
              "--require-hashes", "--requirement", os.path.join(HERE, "locks", "moto.txt"))

    def command(self):
        return [os.path.join(self.home, "bin", "moto_server"), "-H", self.host, "-p", str(self.port)]


def signed_put(host, path, content=b""):
    """Signs a request with Signature Version 4, independently of the code under test."""
    date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    digest = hashlib.sha256(content).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": date}
    names = ";".join(sorted(headers))
    request = "\n".join(["PUT", path, "", *("%s:%s" % item for item in sorted(headers.items())), "", names, digest])
    scope = "%s/%s/s3/aws4_request" % (date[:8], REGION)
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + NAME).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    headers["Content-Type"] = "application/octet-stream"  # else it would be a form
    headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s" % (
        NAME, scope, names, hmac.new(key, text.encode(), hashlib.sha256).hexdigest())
    return urllib.request.Request("http://%s%s" % (host, path), data=content, method="PUT", headers=headers)


def why_missing(store):
    """Installs it; None, or why it cannot be had."""
    os.makedirs(BUILD, exist_ok=True)
    try:
        store.install()
    except Unavailable as why:
        return str(why)
    return None


def any_store(folder, host="127.0.0.1"):
    """Starts the first available store; if there is none, says why for each."""
    os.makedirs(BUILD, exist_ok=True)
    reasons = []
    for kind in (Versitygw, Moto):
        store = kind(folder, host)
        try:
            store.start()
            return store, reasons
        except Unavailable as why:
            reasons.append("%s: %s" % (kind.__name__, why))
        except RuntimeError:
            store.stop()
            raise
    return None, reasons


def settings(store, prefix):
    """Returns the settings of the bucket without its keys."""
    return ["--bucket.type", "s3", "--bucket.s3.endpoint", store.url, "--bucket.s3.bucket", NAME,
            "--bucket.s3.prefix", prefix]


def keys():
    return ["--bucket.s3.access_key", NAME, "--bucket.s3.secret_key", NAME]
