"""HashiCorp Vault itself: its core, HTTP interface, tokens, policies and transit engine, built from its Go module (tests/bucket/README.md).
The double of it is transit.py."""

import json
import os
import re
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import flamegrid
import stores
from transit import KEY, VERBS

OLDEST_GO = (1, 25)
START_TIMEOUT_S = 60
HERE = os.path.join(stores.HERE, "vault")
PROGRAM = os.path.join(stores.BUILD, "vault")
SOURCES = os.path.join(stores.BUILD, "vault-src")  # go.mod names it
MODULE, SUM = "github.com/hashicorp/vault@v1.21.4", "h1:KHGcdSnJtombvae1gDk+jZ50kiFngJPFDOvcCJRnU0c="
UNUSED = ("changelog", "ui", "website")
# Vault is built with the folder sdk of its repository, which has more than the newest release of that module that goes with it.
PATCHES = (
    ("builtin/logical/transit/path_restore.go", "restoredKeyName, err := b.lm.RestorePolicy(", "restoredKeyName, err := keyName, b.lm.RestorePolicy("),
    ("vault/logical_system_activation_flags.go", "ActivationFunc(ctx, nil)", 'ActivationFunc(ctx, nil, "")'),
    ("vault/identity_store.go", "ActivationFunc: iStore.activateDeduplication,",
     "ActivationFunc: func(ctx context.Context, req *logical.Request, _ string) error { return iStore.activateDeduplication(ctx, req) },"),
)


def unpack():
    """Puts Vault's module, with the sum that it has to have, into SOURCES."""
    found = json.loads(stores.fetch("go", "mod", "download", "-json", MODULE, cwd=stores.BUILD))
    if found["Sum"] != SUM:
        raise stores.Unavailable("%s has the sum %s" % (MODULE, found["Sum"]))
    shutil.rmtree(SOURCES, ignore_errors=True)
    shutil.copytree(found["Dir"], SOURCES, ignore=lambda folder, _names: UNUSED if folder == found["Dir"] else (), copy_function=shutil.copyfile)
    for folder, _, _ in os.walk(SOURCES):
        os.chmod(folder, 0o755)  # Go's cache is not writable
    for path, before, after in PATCHES:
        path = os.path.join(SOURCES, path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        flamegrid.check(before in text, "%s has changed", path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after))


def build():
    """Builds the program once, with the versions in go.sum: minutes of processor time. Raises stores.Unavailable."""
    version = re.search(r"go(\d+)\.(\d+)", stores.fetch("go", "version"))
    if version is None or tuple(map(int, version.groups())) < OLDEST_GO:
        raise stores.Unavailable("no Go %d.%d or later" % OLDEST_GO)
    os.makedirs(stores.BUILD, exist_ok=True)
    unpack()
    stores.fetch("nice", "go", "build", "-mod=readonly", "-p=1", "-ldflags=-s -w", "-o", PROGRAM, ".", cwd=HERE)


def why_missing(may_build):
    """Returns None if Vault can run, else the reason. Reuses an earlier build of the same sources; otherwise builds it if `may_build`."""
    newest = max(os.path.getmtime(os.path.join(HERE, name)) for name in os.listdir(HERE))
    if os.path.exists(PROGRAM) and os.path.getmtime(PROGRAM) >= newest:
        return None
    if not may_build:
        return "it takes minutes to build: tests/bucket/run --vault"
    try:
        build()
    except stores.Unavailable as missing:
        return str(missing)
    return None


class Vault:
    """`with Vault(certificates) as vault`: initialized, unsealed, with the transit engine and a key. Its operator's methods are those of transit.py."""

    def __init__(self, certificates):
        certificates.make("vault-ca")
        certificates.make("vault", "vault-ca")
        self.ca, self.address = certificates.path("vault-ca.pem"), "127.0.0.1:%d" % flamegrid.free_port()
        self.url, self.root, self.process, self.policies = "https://" + self.address, None, None, 0
        self.certificate = (certificates.path("vault.pem"), certificates.path("vault.key"))
        self.trust = ssl.create_default_context(cafile=self.ca)

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, self.address, *self.certificate], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        try:
            self.wait_ready()
            made = self.ask("PUT", "sys/init", {"secret_shares": 1, "secret_threshold": 1})
            self.key, self.root = made["keys"][0], made["root_token"]
            self.unseal()
            self.ask("POST", "sys/mounts/transit", {"type": "transit"})
            self.ask("POST", "transit/keys/" + KEY, {"type": "aes256-gcm96"})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None):
        request = urllib.request.Request("%s/v1/%s" % (self.url, path), method=method, data=json.dumps(body or {}).encode(),
                                         headers={"X-Vault-Token": self.root} if self.root else {})
        try:
            with urllib.request.urlopen(request, timeout=30, context=self.trust) as answer:
                text = answer.read()
        except urllib.error.HTTPError as fault:
            raise RuntimeError("%s %s: %d %s" % (method, path, fault.code, fault.read()))
        return json.loads(text) if text else None

    def wait_ready(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(self.url + "/v1/sys/seal-status", timeout=5, context=self.trust).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("Vault did not start")
                time.sleep(0.05)

    def seal(self):
        self.ask("PUT", "sys/seal")

    def unseal(self):
        self.ask("PUT", "sys/unseal", {"key": self.key})
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self.ask("GET", "sys/mounts")
                return
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def token(self, *verbs, seconds=3600):
        self.policies += 1
        name = "policy-%d" % self.policies
        rules = "".join('path "transit/%s/%s" { capabilities = ["update"] }\n' % (verb, KEY) for verb in verbs or VERBS)
        self.ask("PUT", "sys/policies/acl/" + name, {"policy": rules})
        made = self.ask("POST", "auth/token/create", {"policies": [name], "no_default_policy": True, "ttl": "%ds" % seconds})
        return made["auth"]["client_token"]

    def renew(self, token, seconds):
        self.ask("POST", "auth/token/renew", {"token": token, "increment": "%ds" % seconds})

    def revoke(self, token):
        self.ask("POST", "auth/token/revoke", {"token": token})

    def rotate(self):
        self.ask("POST", "transit/keys/%s/rotate" % KEY)

    def require(self, version):
        self.ask("POST", "transit/keys/%s/config" % KEY, {"min_decryption_version": version})
