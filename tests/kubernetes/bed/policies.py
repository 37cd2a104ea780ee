"""Network policies as rules of iptables, in the namespace that all packets of pods go through.

Policies say what is allowed; anything else of a pod that a policy selects is dropped, as most networks do. Services are already translated
here, so ports and addresses are those of pods.
"""

import network

TOP = "BED-POLICIES"


def selects(selector, labels):
    """Whether a label selector matches; an empty one matches everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or []:
        value, among = labels.get(term["key"]), term.get("values") or []
        fits = {"In": value in among, "NotIn": value not in among, "Exists": value is not None, "DoesNotExist": value is None}[term["operator"]]
        if not fits:
            return False
    return True


def address_of(pod):
    """Returns the address of a pod that has one and runs."""
    status = pod.get("status", {})
    return status.get("podIP") if status.get("phase") not in ("Succeeded", "Failed") else None


class Rules:
    """The text for iptables-restore, of all policies, pods and namespaces."""

    def __init__(self, policies, pods, namespaces):
        self.pods = [pod for pod in pods if address_of(pod)]
        self.policies = policies
        self.labels = {namespace["metadata"]["name"]: namespace["metadata"].get("labels", {}) for namespace in namespaces}
        self.chains, self.lines = [TOP], ["-A %s -m conntrack --ctstate RELATED,ESTABLISHED -j RETURN" % TOP]

    def text(self):
        for direction, kind, flag in (("egress", "Egress", "-s"), ("ingress", "Ingress", "-d")):
            for pod in self.pods:
                policies = [policy for policy in self.policies if policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
                            and kind in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], pod["metadata"].get("labels", {}))]
                if policies:
                    self.pod(pod, policies, direction, flag)
        return "*filter\n%s\n%s\nCOMMIT\n" % ("\n".join(":%s - [0:0]" % chain for chain in self.chains), "\n".join(self.lines))

    def pod(self, pod, policies, direction, flag):
        chain = "BED-%s-%s" % (direction[0].upper(), address_of(pod))
        self.chains.append(chain)
        self.lines.append("-A %s %s %s -j %s" % (TOP, flag, address_of(pod), chain))
        if direction == "ingress":
            # Probes come from the node, and are always allowed.
            self.lines.append("-A %s -s %s -j RETURN" % (chain, network.NODES))
        for policy in policies:
            for rule in policy["spec"].get(direction) or []:
                for peer in self.peers(rule.get("from" if direction == "ingress" else "to"), policy["metadata"]["namespace"]):
                    other = "" if peer is None else "%s %s " % ("-s" if direction == "ingress" else "-d", peer)
                    for port in self.ports(rule.get("ports"), pod if direction == "ingress" else None):
                        self.lines.append("-A %s %s%s-j RETURN" % (chain, other, port))
        self.lines.append("-A %s -j DROP" % chain)

    def peers(self, peers, namespace):
        """Yields addresses; None stands for any."""
        if not peers:
            yield None
            return
        for peer in peers:
            if "ipBlock" in peer:
                yield peer["ipBlock"]["cidr"]
                continue
            for pod in self.pods:
                where = pod["metadata"]["namespace"]
                inside = selects(peer["namespaceSelector"], self.labels.get(where, {})) if "namespaceSelector" in peer else where == namespace
                if inside and selects(peer.get("podSelector", {}), pod["metadata"].get("labels", {})):
                    yield address_of(pod)

    @staticmethod
    def ports(ports, pod):
        """Yields matches. A name is a port of the pod that is called."""
        if not ports:
            yield ""
        for port in ports or []:
            protocol, number = port.get("protocol", "TCP").lower(), port.get("port")
            if isinstance(number, str):
                number = next((each["containerPort"] for container in pod["spec"]["containers"] for each in container.get("ports", []) if each["name"] == number), None)
                if number is None:
                    continue
            last = ":%d" % port["endPort"] if "endPort" in port else ""
            yield "-p %s %s" % (protocol, "-m %s --dport %d%s " % (protocol, number, last) if number is not None else "")


def prepare():
    """Sends all that pods send and get through the chain of policies."""
    network.run("iptables", "-w", "-N", TOP)
    for chain in network.CHAINS:
        network.run("iptables", "-w", "-I", chain, "1", "-j", TOP)


class Filter:
    """Keeps the rules of this network namespace up to date."""

    def __init__(self):
        self.text = None

    def apply(self, policies, pods, namespaces):
        text = Rules(policies, pods, namespaces).text()
        if text != self.text:
            network.run("iptables-restore", "-w", "--noflush", text=text)
            self.text = text
