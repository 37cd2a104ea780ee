"""A KMS of another project: moto's, with keys in memory, which checks the signature of each request with botocore, and what
policies allow (tests/bucket/README.md)."""

import json
import re
import signal
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request

import stores

REGION = "eu-west-1"
USER = "flamegrid"
START_TIMEOUT_S = 60


class Kms:
    """`with Kms() as kms`: kms.url, kms.access and kms.secret of a user who may encrypt and decrypt. Raises stores.Unavailable."""

    ALLOW = {"Effect": "Allow", "Action": ["kms:Encrypt", "kms:Decrypt"], "Resource": "*"}

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="flamegrid-kms.")
        self.moto = stores.Moto(self.folder.name)
        self.url = self.moto.url
        self.process = None

    def __enter__(self):
        self.moto.install()
        self.process = subprocess.Popen(self.moto.command(), cwd=self.folder.name, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_ready()
            self.checks(False)
            self.iam(Action="CreateUser", UserName=USER)
            text = self.iam(Action="CreateAccessKey", UserName=USER)
            self.access, self.secret = (re.search("<%s>([^<]+)<" % name, text).group(1) for name in ("AccessKeyId", "SecretAccessKey"))
            self.allow(self.ALLOW)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def wait_ready(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                urllib.request.urlopen(self.url + "/moto-api/data.json", timeout=5).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("moto did not start")
                time.sleep(0.05)

    def pause(self):
        """Connections stay open without answers."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    # ---- what an administrator does; these requests are not signed ----

    def post(self, path, body, **headers):
        request = urllib.request.Request(self.url + path, data=body.encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read().decode()

    def checks(self, on):
        """Turns the checks of signatures and policies on or off."""
        self.post("/moto-api/reset-auth", "0" if on else "inf", **{"Content-Type": "text/plain"})  # else it would be a form

    def unchecked(self, service, body, **headers):
        """Requests without a signature say only which service they are for."""
        self.checks(False)
        headers["Authorization"] = "AWS4-HMAC-SHA256 Credential=x/20260101/%s/%s/aws4_request" % (REGION, service)
        text = self.post("/", body, **headers)
        self.checks(True)
        return text

    def iam(self, **fields):
        return self.unchecked("iam", urllib.parse.urlencode({"Version": "2010-05-08", **fields}))

    def kms(self, action, **fields):
        headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "TrentService." + action}
        text = self.unchecked("kms", json.dumps(fields), **headers)
        return json.loads(text) if text else None

    def allow(self, *statements):
        """Replaces what the user may do."""
        document = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
        self.iam(Action="PutUserPolicy", UserName=USER, PolicyName="kms", PolicyDocument=document)

    def make_key(self, alias):
        """Its ARN."""
        arn = self.kms("CreateKey")["KeyMetadata"]["Arn"]
        self.kms("CreateAlias", AliasName="alias/" + alias, TargetKeyId=arn)
        return arn

    def settings(self, key):
        return ["--encryption.kms.key", key, "--encryption.kms.endpoint", self.url, "--encryption.kms.region", REGION,
                "--encryption.kms.access_key", self.access, "--encryption.kms.secret_key", self.secret]
