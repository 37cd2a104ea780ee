"""The pages of a server in a browser, each case of pages.mjs against a server that has what it is about."""

import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, os.pardir, "lib"), os.path.join(HERE, os.pardir, "agents")]

import agents  # noqa: E402
import flamegrid  # noqa: E402

STACKS = b"main;work;hash 30\nmain;work;sort 10\nmain;idle 2\n"


class Browser(agents.Driver):
    """playwright-core, by npm as package-lock.json says; the browser is the machine's."""

    source = HERE

    def install(self):
        self.environment["CHROMIUM"] = shutil.which("chromium") or ""
        if not self.environment["CHROMIUM"]:
            raise agents.Unavailable("no chromium: deploy/install ui")
        self.need(("node", "--version"), (18, 0), "node")
        self.need(("npm", "--version"), (8, 0), "node")
        self.fetch("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")

    def look(self, case, server):
        fault = self.step("node", "pages.mjs", case, "http://127.0.0.1:%d" % server.port)
        flamegrid.check(not fault, "%s", fault)


def push(server):
    client = flamegrid.Client(server.port)
    status, body = client.send("POST", "/ingest?name=shop.cpu{pod=a}&from=now-10s&until=now", STACKS)
    flamegrid.check(status == 200, "push: %d %s", status, body)


def look(browser, case, folder, prepare, settings):
    with flamegrid.Server(*settings, data=tempfile.mkdtemp(dir=folder)) as server:
        server.start().wait_ready()
        prepare(server)
        browser.look(case, server)


def main():
    tally = flamegrid.Tally(flamegrid.arguments_of(__doc__).parse_args().pattern)
    targets = ["--scrape.targets", "[{targets: ['127.0.0.1:9'], labels: {service_name: nobody}}]"]
    cases = {"empty": (lambda server: None, []), "profiles": (push, []), "wrong filter": (push, []),
             "unknown page": (lambda server: None, []), "targets": (lambda server: None, targets)}
    browser = Browser("ui")
    with tempfile.TemporaryDirectory(prefix="flamegrid-ui.") as folder:
        for name, (prepare, settings) in cases.items():
            if not tally.wants(name):
                continue
            try:
                browser.ready()
            except agents.Unavailable as why:
                tally.skip(name, why)
                continue
            tally.run(name, look, browser, name, folder, prepare, settings)
    tally.finish()


if __name__ == "__main__":
    main()
