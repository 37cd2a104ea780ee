"""People log in at an identity provider that others wrote, as a browser does."""

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
import urllib.parse

import agents
import flamegrid
import world

SECRET = "s3cret/+: %"  # what a form would change
WAIT_S = 60
REDIRECTS_MAX = 12


class Provider:
    """oidc-provider in a process of its own."""

    def __init__(self, driver, public_url):
        self.driver, self.public_url = driver, public_url
        self.port = flamegrid.free_port()
        self.issuer = "http://127.0.0.1:%d" % self.port
        self.log = tempfile.TemporaryFile()
        self.process = None

    def __enter__(self):
        self.start("first")
        return self

    def __exit__(self, *exception):
        self.stop()
        self.log.close()

    def start(self, kid):
        """Starts it with a new key, which has this id."""
        self.process = subprocess.Popen(["node", "provider.mjs", str(self.port), SECRET, self.public_url, kid], cwd=self.driver.folder,
                                        env=self.driver.environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        self.log.seek(0)
        raise agents.Unavailable("the provider does not run: %s" % self.log.read()[-1000:])

    def stop(self):
        self.process.kill()
        self.process.wait()

    def token(self, audience):
        """Returns a JSON Web Token of the workload agent."""
        answer = Browser().send("POST", self.issuer + "/token", {"grant_type": "client_credentials", "client_id": "agent",
                                                                 "client_secret": SECRET, "resource": "urn:" + audience})
        flamegrid.check(answer.status == 200, "the provider: %d %s", answer.status, answer.body)
        return json.loads(answer.body)["access_token"]


class Answer:
    def __init__(self, response, url):
        self.status, self.body, self.url = response.status, response.read().decode("utf-8", "replace"), url
        self.cookies = response.msg.get_all("Set-Cookie") or []
        self.location = response.getheader("Location")
        self.challenge = response.getheader("WWW-Authenticate") or ""
        if self.location is not None:
            self.location = urllib.parse.urljoin(url, self.location)


class Browser:
    """Keeps cookies for each server, and follows no redirect by itself."""

    def __init__(self):
        self.cookies = {}

    def send(self, method, url, form=None, headers=None):
        parts = urllib.parse.urlsplit(url)
        jar = self.cookies.setdefault(parts.netloc, {})
        headers = dict(headers or {})
        if jar:
            headers["Cookie"] = "; ".join("%s=%s" % item for item in jar.items())
        body = None
        if form is not None:
            body = form if isinstance(form, str) else urllib.parse.urlencode(form)
            headers.setdefault("Content-Type", "application/x-www-form-urlencoded")
        connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        connection.request(method, parts._replace(scheme="", netloc="", fragment="").geturl(), body, headers)
        answer = Answer(connection.getresponse(), url)
        connection.close()
        for line in answer.cookies:
            name, _, rest = line.partition("=")
            value = rest.partition(";")[0]
            jar[name] = value
            if value == "" or re.search("max-age=0", line, re.I) or "01 Jan 1970" in line:
                jar.pop(name)
        return answer


def form_of(answer):
    """The URL that the first form of a page goes to, and its hidden fields."""
    form = re.search(r'<form[^>]*action="([^"]*)".*?</form>', answer.body, re.S)
    flamegrid.check(answer.status == 200 and form, "the provider: %d %s", answer.status, answer.body[-1500:])
    fields = {}
    for field in re.findall(r"<input[^>]*>", form.group(0)):
        given = dict(re.findall(r'(\w+)="([^"]*)"', field))
        if given.get("type") == "hidden":
            fields[given["name"]] = given.get("value", "")
    return urllib.parse.urljoin(answer.url, form.group(1)), fields


class World:
    """A provider and a server that know each other."""

    def __init__(self, driver):
        self.driver = driver

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        secret = os.path.join(self.folder.name, "secret")
        with open(secret, "w", encoding="utf-8") as file:
            file.write(SECRET + "\n")
        self.asking = world.Asking("--audit.flush", "1s")
        self.url = "http://127.0.0.1:%d" % self.asking.server.port
        self.provider = Provider(self.driver, self.url).__enter__()
        bindings = [{"issuer": self.provider.issuer, "claim": "groups", "value": "dev", "tenants": "team-*", "role": "editor"},
                    {"issuer": self.provider.issuer, "claim": "sub", "value": "root", "tenants": "*", "role": "cluster-admin"}]
        issuers = [{"issuer": self.provider.issuer, "audience": "flamegrid-cli"}]
        self.asking.server.arguments += (
            "--access.issuers", json.dumps(issuers), "--access.bindings", json.dumps(bindings), "--access.login.issuer", self.provider.issuer,
            "--access.login.client_id", "flamegrid", "--access.login.device_client_id", "flamegrid-cli", "--access.login.client_secret_file", secret, "--access.login.public_url", self.url)
        self.asking.__enter__()
        self.wait_login()
        return self

    def __exit__(self, *exception):
        self.asking.__exit__(*exception)
        self.provider.__exit__(*exception)
        self.folder.cleanup()

    def wait_login(self):
        """Until the provider's document and the keys of sessions are there, a log-in is answered with 503."""
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = Browser().send("GET", self.url + "/auth/login")
            flamegrid.check(answer.status in (303, 503), "%d %s", answer.status, answer.body)
            if answer.status == 303:
                return
            flamegrid.check(time.monotonic() < deadline, "no log-in: %s", answer.body)
            time.sleep(0.1)

    def begin(self, browser, target="/"):
        """To the provider's answer: the URL of our callback."""
        answer = browser.send("GET", self.url + "/auth/login?return=" + urllib.parse.quote(target, safe=""))
        flamegrid.check(answer.status == 303, "login: %d %s", answer.status, answer.body)
        return answer.location

    def visit(self, browser, url, name):
        """Logs in at the provider, and agrees to what it asks."""
        answer = browser.send("GET", url)
        for _ in range(REDIRECTS_MAX):
            if answer.location is not None:
                if answer.location.startswith(self.url):
                    return answer.location
                answer = browser.send("GET", answer.location)
                continue
            action, fields = form_of(answer)
            if fields.get("prompt") == "login":
                fields.update(login=name, password="x")
            answer = browser.send("POST", action, fields)
        raise AssertionError("the provider redirects for ever")

    def allow_device(self, browser, url, name):
        """Enters the code of a device, logs in, and agrees."""
        answer = browser.send("GET", url)
        for _ in range(REDIRECTS_MAX):
            if answer.location is not None:
                answer = browser.send("GET", answer.location)
            elif "<form" in answer.body:
                action, fields = form_of(answer)
                if fields.get("prompt") == "login":
                    fields.update(login=name, password="x")
                answer = browser.send("POST", action, fields)
            else:
                flamegrid.check(answer.status == 200, "the provider: %d %s", answer.status, answer.body[-1500:])
                return
        raise AssertionError("the provider redirects for ever")

    def log_in(self, browser, name, target="/"):
        callback = self.visit(browser, self.begin(browser, target), name)
        answer = browser.send("GET", callback)
        flamegrid.check(answer.status == 303, "callback: %d %s", answer.status, answer.body)
        return answer

    def audited(self, name):
        """What the audit has of somebody's log-ins."""
        status, body = self.asking.send("GET", "/api/audit?kind=login&who=" + name, self.asking.admin)
        flamegrid.check(status == 200, "audit: %d %s", status, body)
        return json.loads(body)["records"] if isinstance(body, (str, bytes)) else body["records"]

    def token(self, scopes, tenants):
        status, body = self.asking.send("POST", "/api/tokens", self.asking.admin, {"name": "test", "tenants": tenants, "scopes": scopes})
        flamegrid.check(status == 200, "token: %d %s", status, body)
        return json.loads(body)["token"]

    def until(self, holds, what):
        deadline = time.monotonic() + WAIT_S
        while not holds():
            flamegrid.check(time.monotonic() < deadline, "%s", what)
            time.sleep(0.05)

    def whoami(self, browser):
        answer = browser.send("GET", self.url + "/api/whoami")
        return answer.status, json.loads(answer.body)


def log_in(here):
    browser = Browser()
    status, said = here.whoami(browser)
    flamegrid.check(status == 401 and said["login"] == "/auth/login", "without a session: %d %s", status, said)
    answer = here.log_in(browser, "ada", "/ui/?query=a%26b")
    flamegrid.check(answer.location == here.url + "/ui/?query=a%26b", "back to %s", answer.location)
    cookie = [line for line in answer.cookies if line.startswith("flamegrid=")][0]
    flamegrid.check("HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie and "ada" not in cookie, "%s", cookie)
    status, who = here.whoami(browser)
    flamegrid.check(status == 200 and who["subject"] == "ada" and who["name"] == "ada the tester" and who["kind"] == "person", "%d %s", status, who)
    flamegrid.check(sorted(who["tenants"]) == ["team-a", "team-b"], "%s", who)
    flamegrid.check(sorted(who["scopes"]) == ["read", "rules", "share"], "%s", who)


def keep_to_roles(here):
    nobody, ada, root = Browser(), Browser(), Browser()
    here.log_in(nobody, "bob")
    here.log_in(ada, "ada")
    here.log_in(root, "root")
    flamegrid.check(here.whoami(nobody)[1]["tenants"] == [], "bob has tenants")
    route, ask = here.url + "/querier.v1.QuerierService/LabelNames", '{"start": 1, "end": 2}'
    for browser, tenant, want in ((nobody, "team-a", 403), (ada, "team-a", 200), (ada, "shop", 403), (root, "shop", 200)):
        answer = browser.send("POST", route, ask, {"X-Scope-OrgID": tenant, "Content-Type": "application/json"})
        flamegrid.check(answer.status == want, "%s: %d %s", tenant, answer.status, answer.body)


def need_csrf(here):
    browser = Browser()
    here.log_in(browser, "root")
    csrf = here.whoami(browser)[1]["csrf"]
    tenant, json_body = here.url + "/api/tenants", {"Content-Type": "application/json"}
    for value, want in ((None, 403), ("0" * 32, 403), (csrf + "0", 403), (csrf, 200)):
        headers = dict(json_body, **({} if value is None else {"X-Flamegrid-Csrf": value}))
        answer = browser.send("POST", tenant, '{"id": "by-root"}', headers)
        flamegrid.check(answer.status == want, "csrf %s: %d %s", value, answer.status, answer.body)
    # The value of another session of the same person is another one.
    other = Browser()
    here.log_in(other, "root")
    flamegrid.check(here.whoami(other)[1]["csrf"] != csrf, "two sessions have one csrf value")
    # A page of another site cannot even send it.
    answer = browser.send("POST", tenant, '{"id": "by-other"}', dict(json_body, **{"X-Flamegrid-Csrf": csrf, "Origin": "https://evil.example"}))
    flamegrid.check(answer.status == 403, "another site: %d", answer.status)


def trust_its_own_page(here):
    """A browser says which site a request comes from. Only a page of this server needs no csrf value."""
    browser = Browser()
    here.log_in(browser, "root")
    for site, want in (("same-origin", 200), ("same-site", 403), ("cross-site", 403), ("none", 403)):
        answer = browser.send("POST", here.url + "/api/tenants", '{"id": "by-page"}', {"Content-Type": "application/json", "Sec-Fetch-Site": site})
        flamegrid.check(answer.status == want, "%s: %d %s", site, answer.status, answer.body)


def send_to_the_log_in(here):
    """Opening a page without a session begins a log-in, which comes back to the same address. Programs and frames get the page."""
    html = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Dest": "document"}
    browser = Browser()
    answer = browser.send("GET", here.url + "/?query=a%20b", headers=html)
    flamegrid.check(answer.status == 303 and answer.location == here.url + "/auth/login?return=%2F%3Fquery%3Da%2520b", "%d %s", answer.status, answer.location)
    callback = here.visit(browser, browser.send("GET", answer.location).location, "ada")
    answer = browser.send("GET", callback)
    flamegrid.check(answer.location == here.url + "/?query=a%20b", "back to %s", answer.location)
    flamegrid.check(browser.send("GET", answer.location, headers=html).status == 200, "the page with a session")
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "text/html", "Sec-Fetch-Dest": "iframe"}, {"Accept": "text/html", "Authorization": "Bearer x"}):
        answer = Browser().send("GET", here.url + "/", headers=headers)
        flamegrid.check(answer.status == 200, "%s: %d", headers, answer.status)


def come_back_here(here):
    for target in ("https://evil.example/", "//evil.example/", "/\\evil.example/", "\\\\evil.example", "/\t/evil.example", "javascript:alert(1)",
                   "evil.example", "", "/" + "x" * 2000, "/%0d%0aSet-Cookie: a=b\r\nSet-Cookie: c=d"):
        answer = here.log_in(Browser(), "bob", target)
        flamegrid.check(answer.location == here.url + "/", "%s: back to %s", target, answer.location)
        flamegrid.check(len(answer.cookies) == 2, "%s: %s", target, answer.cookies)


def refuse_callbacks(here):
    """What others might bring a browser to."""
    victim, attacker = Browser(), Browser()
    callback = here.visit(attacker, here.begin(attacker), "ada")
    # A browser that began no log-in, and one that began another: log-in CSRF.
    answer = victim.send("GET", callback)
    flamegrid.check(answer.status == 400 and not victim.cookies[here.url[7:]], "no log-in begun: %d %s", answer.status, answer.body)
    here.begin(victim)
    answer = victim.send("GET", callback)
    flamegrid.check(answer.status == 400 and here.whoami(victim)[0] == 401, "another's answer: %d %s", answer.status, answer.body)
    # Its own browser: another issuer named, then the right one, then the code again.
    jar = dict(attacker.cookies[here.url[7:]])
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query))
    for changes, want in (({"iss": "https://evil.example"}, 400), ({"state": query["state"][:-1]}, 400), ({"state": ""}, 400), ({"code": ""}, 400),
                          ({"error": "access_denied"}, 403), ({"code": "x" * 43}, 403), ({}, 303)):
        attacker.cookies[here.url[7:]] = dict(jar)
        answer = attacker.send("GET", here.url + "/auth/callback?" + urllib.parse.urlencode({**query, **changes}))
        flamegrid.check(answer.status == want, "%s: %d %s", changes, answer.status, answer.body)
    attacker.cookies[here.url[7:]] = dict(jar)
    answer = attacker.send("GET", callback)
    flamegrid.check(answer.status == 403, "a code twice: %d %s", answer.status, answer.body)


def refuse_cookies(here):
    browser = Browser()
    here.log_in(browser, "ada")
    jar = browser.cookies[here.url[7:]]
    good = jar["flamegrid"]
    here.begin(browser)
    for value in (jar["flamegrid-login"], good[:-1], good + "A", "A" * 100, "", good[:40] + ("A" if good[40] != "A" else "B") + good[41:], "x" * 5000):
        jar["flamegrid"] = value
        flamegrid.check(here.whoami(browser)[0] == 401, "cookie %s…", value[:20])
    jar["flamegrid"] = good
    flamegrid.check(here.whoami(browser)[0] == 200, "the good cookie")


def asked_at(here, browser):
    """What the provider asks for when somebody logs in: prompt=NAME, or nothing."""
    answer = browser.send("GET", here.begin(browser))
    while answer.location is not None and not answer.location.startswith(here.url):
        answer = browser.send("GET", answer.location)
    return "" if answer.location is not None else "prompt=" + form_of(answer)[1].get("prompt", "")


def log_out(here):
    browser = Browser()
    here.log_in(browser, "ada")
    csrf = here.whoami(browser)[1]["csrf"]
    flamegrid.check(browser.send("GET", here.url + "/auth/logout").status == 405, "GET logs out")
    flamegrid.check(browser.send("POST", here.url + "/auth/logout", {}).status == 403, "no csrf value")
    flamegrid.check(here.whoami(browser)[0] == 200, "still logged in")
    answer = browser.send("POST", here.url + "/auth/logout", {"csrf": csrf})
    flamegrid.check(answer.status == 303 and answer.location.startswith(here.provider.issuer + "/session/end?"), "%d %s", answer.status, answer.location)
    flamegrid.check(here.whoami(browser)[0] == 401, "still logged in")
    # The provider's session goes on until its log-out is visited: nobody is asked for a name before, and everybody after.
    flamegrid.check("prompt=login" not in asked_at(here, browser), "the provider has forgotten the session")
    leave = browser.send("GET", answer.location)
    action, fields = form_of(leave)
    left = browser.send("POST", action, {**fields, "logout": "yes"})
    flamegrid.check(left.status == 303 and left.location.rstrip("/") == here.url, "back to %s", left.location)
    flamegrid.check("prompt=login" in asked_at(here, browser), "the provider still knows the session")
    # A script gets the address in the answer.
    here.log_in(browser, "ada")
    script = {"X-Flamegrid-Csrf": here.whoami(browser)[1]["csrf"], "Accept": "application/json"}
    answer = browser.send("POST", here.url + "/auth/logout", headers=script)
    flamegrid.check(answer.status == 200 and json.loads(answer.body)["location"].startswith(here.provider.issuer + "/session/end?"), "%s", answer.body)
    flamegrid.check(here.whoami(browser)[0] == 401, "still logged in")
    deadline = time.monotonic() + WAIT_S
    while not {"logged in", "logged out"} <= {record["detail"] for record in here.audited("ada")}:
        flamegrid.check(time.monotonic() < deadline, "the audit has %s", here.audited("ada"))
        time.sleep(0.1)
    for record in here.audited("ada"):
        flamegrid.check((record["session"], record["issuer"]) == ("ada", here.provider.issuer), "the audit has %s", record)
        flamegrid.check(record["who"] == "ada (%s)" % here.provider.issuer, "the audit has %s", record)


def command_of(here):
    """How an operator's commands run, and the admin's token."""
    def command(*words, token):
        done = subprocess.run([flamegrid.binary(), *words], env={**world.environment(), "FLAMEGRID_URL": here.url, "FLAMEGRID_TOKEN": token},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout, done.stderr

    return command, here.asking.admin


def bind_by_command(here):
    """People get roles without a change of settings, and a tenant-admin gives them in its tenant only."""
    run, admin = command_of(here)
    browser = Browser()
    here.log_in(browser, "ada")  # of the group dev, which has team-*
    status, said = here.whoami(browser)
    flamegrid.check(status == 200 and "shop" not in said["tenants"], "%d %s", status, said)
    options = ("--issuer", here.provider.issuer, "--claim", "groups", "--value", "dev", "--tenants", "shop")
    code, out, err = run("binding", "create", *options, "--role", "viewer", "--json", token=admin)
    flamegrid.check(code == 0, "create: %s", err)
    binding = json.loads(out)
    here.until(lambda: "shop" in here.whoami(browser)[1]["tenants"], "the binding does not count")
    code, out, err = run("binding", "list", token=admin)
    flamegrid.check(code == 0 and out.startswith(binding["id"]) and "groups=dev  viewer in shop" in out, "list: %s %s", out, err)

    own = here.token(["tenant-admin"], ["shop"])
    flamegrid.check(binding["id"] in run("binding", "list", token=own)[1], "its own is hidden")
    flamegrid.check(binding["id"] not in run("binding", "list", token=here.token(["tenant-admin"], ["user-1"]))[1], "another's is shown")
    for tenants, role, may in (("shop", "editor", True), ("user-1", "viewer", False), ("shop*", "viewer", False), ("*", "cluster-admin", False),
                               ("{value}", "sender", False)):
        code, out, err = run("binding", "create", *options[:-1], tenants, "--role", role, token=own)
        flamegrid.check((code == 0) == may and (may or "may not create such a binding" in err), "%s %s: %d %s", tenants, role, code, err)
    for wrong, why in ((("--issuer", "https://elsewhere.example"), "not in the setting access.issuers"), (("--role", "king"), "roles are"),
                       (("--tenants", "a*b"), "no name of a tenant"), (("--claim", ""), "claim")):
        code, out, err = run("binding", "create", *options, "--role", "viewer", *wrong, token=admin)
        flamegrid.check(code == 1 and why in err, "%s: %d %s", wrong, code, err)
    for line in run("binding", "list", token=own)[1].splitlines():
        flamegrid.check(run("binding", "delete", line.split()[0], token=own)[0] == 0, "delete %s", line)
    flamegrid.check(run("binding", "delete", binding["id"], token=admin)[0] == 1, "twice")
    here.until(lambda: "shop" not in here.whoami(browser)[1]["tenants"], "the binding still counts")


def end_sessions(here):
    """A copy of a cookie is worth nothing once the sessions of its person are ended; a new log-in is."""
    run, admin = command_of(here)
    ada, thief, root = Browser(), Browser(), Browser()
    here.log_in(ada, "ada")
    here.log_in(root, "root")
    thief.cookies = json.loads(json.dumps(ada.cookies))
    flamegrid.check(here.whoami(thief)[0] == 200, "the copy of a cookie")
    code, out, err = run("session", "revoke", "ada", token=admin)
    flamegrid.check(code == 0 and "the sessions of ada are ended" in out, "revoke: %d %s", code, err)
    here.until(lambda: here.whoami(thief)[0] == 401, "the copy is good")
    flamegrid.check(here.whoami(ada)[0] == 401 and here.whoami(root)[0] == 200, "whose")
    time.sleep(1)  # sessions know the second that they began in
    here.log_in(ada, "ada")
    flamegrid.check(here.whoami(ada)[0] == 200, "a new session")
    flamegrid.check(here.whoami(thief)[0] == 401, "the copy is good again")
    flamegrid.check(run("session", "revoke", "ada", token=here.token(["tenant-admin"], ["shop"]))[0] == 1, "without admin")

    def records():
        return json.loads(here.asking.send("GET", "/api/audit?kind=admin&limit=10000", here.asking.admin)[1])["records"]

    here.until(lambda: any(each.get("route") == "/api/sessions:revoke" and "ada" in each.get("detail", "") for each in records()), "it is in no record")


def survive_a_restart(here):
    """Sessions are in browsers, their keys in the bucket."""
    browser, half = Browser(), Browser()
    here.log_in(browser, "ada")
    callback = here.visit(half, here.begin(half), "ada")
    here.asking.server.terminate()
    here.asking.server.start().wait_ready()
    here.wait_login()
    flamegrid.check(here.whoami(browser)[0] == 200, "the session is gone")
    answer = half.send("GET", callback)
    flamegrid.check(answer.status == 303, "a log-in under way: %d %s", answer.status, answer.body)


def stay_at_the_provider(here):
    """access.login.provider_logout: false. A log-out is of this server alone."""
    arguments = here.asking.server.arguments
    here.asking.server.terminate()
    here.asking.server.arguments = (*arguments, "--access.login.provider_logout", "false")
    here.asking.server.start().wait_ready()
    here.wait_login()
    browser = Browser()
    here.log_in(browser, "ada")
    answer = browser.send("POST", here.url + "/auth/logout", {"csrf": here.whoami(browser)[1]["csrf"]})
    flamegrid.check((answer.status, answer.location) == (303, here.url + "/"), "%d %s", answer.status, answer.location)
    here.log_in(browser, "ada")
    script = {"X-Flamegrid-Csrf": here.whoami(browser)[1]["csrf"], "Accept": "application/json"}
    answer = browser.send("POST", here.url + "/auth/logout", headers=script)
    flamegrid.check((answer.status, json.loads(answer.body)) == (200, {}), "%d %s", answer.status, answer.body)
    flamegrid.check(here.whoami(browser)[0] == 401, "still logged in")
    here.asking.server.terminate()
    here.asking.server.arguments = arguments
    here.asking.server.start().wait_ready()
    here.wait_login()


class Command:
    """Commands of a person with a home of its own."""

    def __init__(self, here):
        self.home = tempfile.TemporaryDirectory()
        self.environment = {**world.environment(), "HOME": self.home.name, "FLAMEGRID_URL": here.url}
        self.environment.pop("XDG_CONFIG_HOME", None)

    def start(self, *arguments):
        return subprocess.Popen([flamegrid.binary(), *arguments], env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.decode(), err.decode()


def log_in_a_command(here):
    command = Command(here)
    flamegrid.check(command.run("whoami")[0] == 1, "without a log-in")
    login = command.start("login")
    line = login.stderr.readline().decode()
    url = re.search(r"http\S+", line)
    flamegrid.check(url, "no URL: %s %s", line, login.stderr.read() if login.poll() is not None else "")
    here.allow_device(Browser(), url.group(0), "ada")
    out, err = login.communicate(timeout=60)
    flamegrid.check(login.returncode == 0, "login: %d %s", login.returncode, err)
    code, out, err = command.run("whoami", "--json")
    who = json.loads(out) if code == 0 else {}
    flamegrid.check(code == 0 and who["subject"] == "ada" and sorted(who["tenants"]) == ["team-a", "team-b"], "whoami: %d %s %s", code, out, err)
    # The file is its owner's alone, and its token goes to this server alone.
    folder = os.path.join(command.home.name, ".config", "flamegrid", "tokens")
    files = [os.path.join(folder, name) for name in os.listdir(folder)]
    flamegrid.check(len(files) == 1 and os.stat(files[0]).st_mode & 0o777 == 0o600 and os.stat(folder).st_mode & 0o77 == 0, "%s", files)
    code, out, err = command.run("whoami", "--url", here.url.replace("127.0.0.1", "localhost"))
    flamegrid.check(code == 1, "the token went to another server: %s", out)
    os.chmod(files[0], 0o640)
    code, out, err = command.run("whoami")
    flamegrid.check(code == 1 and "chmod 600" in err, "a file that others can read: %d %s", code, err)
    os.chmod(files[0], 0o600)
    flamegrid.check(command.run("whoami")[0] == 0, "after chmod")
    flamegrid.check(command.run("login", "--forget")[0] == 0 and not os.listdir(folder) and command.run("whoami")[0] == 1, "forgotten")


def describe_itself(here):
    status, body = here.asking.send("GET", "/.well-known/oauth-protected-resource")
    told = json.loads(body)
    answer = Browser().send("GET", here.url + "/api/whoami")
    flamegrid.check(answer.status == 401 and 'resource_metadata="%s/.well-known/oauth-protected-resource"' % here.url in answer.challenge, "%s", answer.challenge)
    flamegrid.check(status == 200 and told["resource"] == here.url and told["authorization_servers"] == [here.provider.issuer], "%d %s", status, told)


def hide_secrets(here):
    browser = Browser()
    here.log_in(browser, "ada")
    session = browser.cookies[here.url[7:]]["flamegrid"]
    log = here.asking.server.log()
    status, config = here.asking.server.operate("GET", "/config")
    for text in (log, config.decode()):
        flamegrid.check(SECRET not in text and urllib.parse.quote(SECRET) not in text and session not in text, "a secret is shown")


CASES = (("people: log in", log_in), ("people: keep to their roles", keep_to_roles), ("people: csrf", need_csrf), ("people: its own page", trust_its_own_page),
         ("people: a page sends to the log-in", send_to_the_log_in), ("people: return path", come_back_here),
         ("people: hostile callbacks", refuse_callbacks), ("people: hostile cookies", refuse_cookies), ("people: log out", log_out),
         ("people: bind by command", bind_by_command), ("people: end sessions", end_sessions),
         ("people: restart", survive_a_restart), ("people: stay at the provider", stay_at_the_provider), ("people: a command logs in", log_in_a_command), ("people: protected resource", describe_itself), ("people: no secret is shown", hide_secrets))


def run(tally):
    if not any(tally.wants(name) for name, case in CASES):
        return
    driver = world.Provider("access-provider")
    try:
        driver.ready()
        here = World(driver).__enter__()
    except agents.Unavailable as missing:
        for name, case in CASES:
            tally.skip(name, missing)
        return
    try:
        for name, case in CASES:
            tally.run(name, case, here)
    finally:
        here.__exit__(None, None, None)
