"""The control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kube-proxy as processes of this network namespace."""

import json
import os
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import network
from api import Api
from certs import Certificates

PORT = 6443
START_TIMEOUT_S = 240
STOP_TIMEOUT_S = 20
API_SERVICE = "198.19.0.1"  # the first address of services
ETCD = "http://127.0.0.1:2379"
# A node that is lost is known as such after this time, of 40 s; its pods are replaced after the tolerations' 300 s.
NODE_GRACE_S = 12


class Control:
    """The processes, and a client with all rights."""

    def __init__(self, kube, folder):
        self.kube, self.folder = kube, os.path.join(folder, "control")
        os.makedirs(self.folder)
        self.processes = {}
        self.token = secrets.token_hex(16)
        self.authority = self.path("ca.pem")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        self.make_papers()
        self.launch("etcd", "--data-dir", self.path("etcd"), "--listen-client-urls", ETCD, "--advertise-client-urls", ETCD, "--listen-peer-urls", "http://127.0.0.1:2380",
                    "--initial-advertise-peer-urls", "http://127.0.0.1:2380", "--initial-cluster", "default=http://127.0.0.1:2380", "--unsafe-no-fsync", "--log-level", "warn")
        self.launch("apiserver", "--etcd-servers", ETCD, "--secure-port", str(PORT), "--advertise-address", network.NODES, "--bind-address", "0.0.0.0",
                    "--tls-cert-file", self.path("server.pem"), "--tls-private-key-file", self.path("server.key"), "--token-auth-file", self.path("tokens"),
                    "--service-account-key-file", self.path("accounts.key"), "--service-account-signing-key-file", self.path("accounts.key"),
                    "--service-account-issuer", "https://kubernetes.default.svc.cluster.local", "--service-cluster-ip-range", network.SERVICES,
                    "--authorization-mode", "Node,RBAC", "--allow-privileged", "--cert-dir", self.path("certificates"))
        self.wait_ready()
        self.launch("controller-manager", "--kubeconfig", self.kubeconfig(), "--service-account-private-key-file", self.path("accounts.key"), "--root-ca-file", self.authority,
                    "--use-service-account-credentials", "--leader-elect=false", "--node-monitor-grace-period", "%ds" % NODE_GRACE_S, "--node-monitor-period", "2s",
                    "--horizontal-pod-autoscaler-sync-period", "3s", "--cert-dir", self.path("certificates"))
        self.launch("scheduler", "--kubeconfig", self.kubeconfig(), "--leader-elect=false", "--cert-dir", self.path("certificates"))
        return self.api()

    def start_proxy(self, node):
        """Starts what translates addresses of services: one for all nodes, since they share a network namespace. The node has to be registered."""
        self.launch("proxy", "--kubeconfig", self.kubeconfig(), "--proxy-mode", "iptables", "--cluster-cidr", network.PODS, "--hostname-override", node,
                    "--conntrack-max-per-core", "0", "--conntrack-tcp-timeout-established", "0", "--conntrack-tcp-timeout-close-wait", "0")

    def make_papers(self):
        papers = Certificates(self.folder)
        papers.make("ca")
        papers.make("server", issuer="ca", names=["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"],
                    addresses=[network.NODES, API_SERVICE])
        papers.openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.path("accounts.key"))
        with open(self.path("tokens"), "w", encoding="ascii") as file:
            file.write('%s,bed,bed,"system:masters"\n' % self.token)
        with open(self.kubeconfig(), "w", encoding="utf-8") as file:  # YAML, of which JSON is a part
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "bed",
                       "clusters": [{"name": "bed", "cluster": {"server": "https://%s:%d" % (network.NODES, PORT), "certificate-authority": self.authority}}],
                       "users": [{"name": "bed", "user": {"token": self.token}}], "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}]}, file)

    def kubeconfig(self):
        """Returns a file for clients with all rights."""
        return self.path("kubeconfig")

    def launch(self, name, *arguments):
        with open(self.path(name + ".log"), "ab") as log:
            self.processes[name] = subprocess.Popen([self.kube, name, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)

    def wait_ready(self):
        context = ssl.create_default_context(cafile=self.authority)
        request = urllib.request.Request("https://%s:%d/readyz" % (network.NODES, PORT), headers={"Authorization": "Bearer " + self.token})
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urllib.request.urlopen(request, timeout=5, context=context):
                    return
            except (OSError, urllib.error.HTTPError):
                pass
            self.check()
            if time.monotonic() > deadline:
                raise RuntimeError("the API server was not ready in %d s:\n%s" % (START_TIMEOUT_S, self.said("apiserver")))
            time.sleep(0.2)

    def check(self):
        """Raises if one of the processes has ended."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError("%s ended with %d:\n%s" % (name, process.returncode, self.said(name)))

    def said(self, name):
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def api(self):
        return Api(network.NODES, PORT, self.token, self.authority)

    def stop(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(STOP_TIMEOUT_S)
