"""The network of a bed: one network namespace for its nodes together, and one for each pod, joined by a pair of links.

Pods have addresses of their own and no common segment: each packet of a pod goes through the namespace of the nodes, where services are
translated (kube-proxy) and policies apply (policies.py). Addresses are of 198.18.0.0/15, which RFC 2544 reserves for test beds.
"""

import os
import subprocess

NODES = "198.18.0.1"  # the nodes, the API server, names, the object store
SERVICES = "198.19.0.0/16"
PODS = "198.18.0.0/16"
PODS_OF_NODE = 253
COMMAND_TIMEOUT_S = 60
CHAINS = ("FORWARD", "INPUT", "OUTPUT")  # what passes through, and what nodes themselves get and send


def run(*words, text=None):
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode != 0:
        raise OSError("%s: %s" % (" ".join(words), done.stderr.strip()))
    return done.stdout


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def begin():
    """Prepares the network namespace of this process, which is a new one."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", NODES + "/32", "dev", "lo")
    # Packets to a service get the address of a pod before they leave.
    run("ip", "route", "add", SERVICES, "dev", "lo", "src", NODES)
    write("/proc/sys/net/ipv4/ip_forward", "1")
    os.makedirs("/run/netns", exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "mode=755", "names", "/run/netns")


def pod_address(node, number):
    """Returns the address of the pod with a number on a node, both from 1 on."""
    return "198.18.%d.%d" % (node, 1 + number % PODS_OF_NODE)


class Link:
    """The network namespace of a pod."""

    def __init__(self, node, number):
        self.name = "n%dp%d" % (node, number)
        self.address = pod_address(node, number)
        self.path = "/run/netns/" + self.name

    def attach(self):
        self.detach()
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        run("ip", "link", "set", self.name, "up")
        run("ip", "route", "replace", self.address + "/32", "dev", self.name, "src", NODES)
        for words in (("link", "set", "lo", "up"), ("link", "set", "eth0", "up"), ("address", "add", self.address + "/32", "dev", "eth0"),
                      ("route", "add", NODES, "dev", "eth0", "scope", "link"), ("route", "add", "default", "via", NODES)):
            run("ip", "-n", self.name, *words)
        # Programs that may not bind below 1024 otherwise may do so in a container, too.
        run("ip", "netns", "exec", self.name, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start")

    def detach(self):
        """Removes what there is of it, also of one with the same name that was left."""
        subprocess.run(["ip", "link", "delete", self.name], capture_output=True, timeout=COMMAND_TIMEOUT_S)
        subprocess.run(["ip", "netns", "delete", self.name], capture_output=True, timeout=COMMAND_TIMEOUT_S)

    def enter(self):
        """The words before a command that runs in it."""
        return ["nsenter", "--net=" + self.path, "--"]


def pods_of(node):
    return "198.18.%d.0/24" % node


def cut(node):
    """Drops all that pods of a node send and get: nobody is told. A route remains, or those who call would hear that there is none."""
    for chain in CHAINS:
        for flag in ("-s", "-d"):
            run("iptables", "-w", "-I", chain, "1", flag, pods_of(node), "-j", "DROP")
    run("ip", "route", "add", pods_of(node), "dev", "lo", "src", NODES)


def mend(node):
    for chain in CHAINS:
        for flag in ("-s", "-d"):
            run("iptables", "-w", "-D", chain, flag, pods_of(node), "-j", "DROP")
    run("ip", "route", "delete", pods_of(node), "dev", "lo")
