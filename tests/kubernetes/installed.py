"""Enough of an API server for `helm template --dry-run=server`, which looks at what is installed: it has StatefulSets, and nothing else."""

import http.server
import json
import threading

import tools

SETS = "/apis/apps/v1/namespaces/profiles/statefulsets"


def answers(sets):
    """What a client that discovers the API asks for, by path."""
    version = {"groupVersion": "apps/v1", "version": "v1"}
    return {
        "/version": {"major": "1", "minor": str(tools.USUAL), "gitVersion": "v1.%d.0" % tools.USUAL},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": []},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [{"name": "apps", "versions": [version], "preferredVersion": version}]},
        "/apis/apps/v1": {"kind": "APIResourceList", "groupVersion": "apps/v1",
                          "resources": [{"name": "statefulsets", "kind": "StatefulSet", "namespaced": True, "verbs": ["get", "list"]}]},
        SETS: {"kind": "StatefulSetList", "apiVersion": "apps/v1", "metadata": {}, "items": sets},
    }


class Installed:
    """An API server with these StatefulSets. `asked` are the paths that clients have asked for."""

    def __init__(self, sets):
        known, asked = answers(sets), []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                path = self.path.split("?")[0]
                asked.append(path)
                body = json.dumps(known.get(path, {"kind": "Status", "code": 404})).encode()
                self.send_response(200 if path in known else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.asked = asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_port

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.server.shutdown()
        self.server.server_close()
