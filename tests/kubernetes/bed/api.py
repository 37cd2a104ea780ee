"""A client of the API server: requests, and lists that are followed as they change."""

import http.client
import json
import ssl
import threading
import time
import urllib.parse

REQUEST_TIMEOUT_S = 30
WATCH_S = 240  # the server ends a watch after this time, and the client begins another one
RETRY_S = 0.5
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """An answer that is not 2xx."""

    def __init__(self, status, message):
        super().__init__("%d: %s" % (status, message))
        self.status = status


class Api:
    """Each thread has a connection of its own."""

    def __init__(self, host, port, token, authority):
        self.host, self.port, self.token = host, port, token
        self.context = ssl.create_default_context(cafile=authority)
        self.local = threading.local()

    def connect(self, timeout_s):
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=self.context)

    def headers(self, kind):
        return {"Authorization": "Bearer " + self.token, "Content-Type": kind, "Accept": "application/json"}

    def call(self, method, path, body=None, kind="application/json"):
        """Returns the object of the answer. OSError: there was none."""
        connection = getattr(self.local, "connection", None)
        if connection is None:
            connection = self.local.connection = self.connect(REQUEST_TIMEOUT_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), self.headers(kind))
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()  # the next call connects again
            raise OSError(str(fault) or type(fault).__name__)
        if status >= 300:
            try:
                message = json.loads(content)["message"]
            except (ValueError, KeyError):
                message = content[:300].decode("utf-8", "replace")
            raise ApiError(status, message)
        return json.loads(content)

    def get(self, path):
        return self.call("GET", path)

    def find(self, path):
        """Returns the object, or None if it does not exist."""
        try:
            return self.get(path)
        except ApiError as fault:
            if fault.status != 404:
                raise
            return None

    def create(self, path, body):
        return self.call("POST", path, body)

    def patch(self, path, body):
        return self.call("PATCH", path, body, MERGE)

    def delete(self, path, options=None):
        """Returns whether the object existed."""
        try:
            self.call("DELETE", path, options)
            return True
        except ApiError as fault:
            if fault.status != 404:
                raise
            return False

    def follow(self, path, on_list, on_change, **select):
        """Calls on_list with all objects, then on_change with the type of each change and its object, for ever. After a lost connection
        or a lost place it lists again."""
        while True:
            try:
                answer = self.get(path + "?" + urllib.parse.urlencode(select))
                on_list(answer["items"])
                self.watch(path, answer["metadata"]["resourceVersion"], on_change, select)
            except (OSError, ApiError, ValueError):
                time.sleep(RETRY_S)

    def watch(self, path, version, on_change, select):
        """Returns when the server has forgotten the version."""
        while True:
            connection = self.connect(WATCH_S + REQUEST_TIMEOUT_S)
            query = {**select, "watch": "1", "resourceVersion": version, "timeoutSeconds": WATCH_S, "allowWatchBookmarks": "true"}
            try:
                connection.request("GET", path + "?" + urllib.parse.urlencode(query), headers=self.headers("application/json"))
                answer = connection.getresponse()
                if answer.status != 200:
                    return
                for line in answer:
                    change = json.loads(line)
                    if change["type"] == "ERROR":
                        return
                    version = change["object"]["metadata"]["resourceVersion"]
                    if change["type"] != "BOOKMARK":
                        on_change(change["type"], change["object"])
            except http.client.HTTPException as fault:
                raise OSError(str(fault))
            finally:
                connection.close()


class Mirror:
    """All objects of a kind as they are now, by namespace and name, in a thread of its own."""

    def __init__(self, api, path, on_change=None, **select):
        self.items = {}
        self.lock = threading.Lock()
        self.listed = threading.Event()
        self.on_change = on_change or (lambda: None)
        threading.Thread(target=api.follow, args=(path, self.replace, self.change), kwargs=select, daemon=True).start()

    @staticmethod
    def key(thing):
        return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]

    def replace(self, things):
        with self.lock:
            self.items = {self.key(thing): thing for thing in things}
        self.listed.set()
        self.on_change()

    def change(self, kind, thing):
        with self.lock:
            if kind == "DELETED":
                self.items.pop(self.key(thing), None)
            else:
                self.items[self.key(thing)] = thing
        self.on_change()

    def get(self, namespace, name):
        with self.lock:
            return self.items.get((namespace, name))

    def all(self):
        with self.lock:
            return list(self.items.values())
