"""A model hub on 127.0.0.1: the part of the hub's protocol that fetching a model needs, with faults on demand.

The API lists a revision's files; /resolve/ answers small files itself (by way of a relative redirect) and sends large
ones to a "store" at another port, as the real hub does. What is asked for is written down in `requests`.
"""
import hashlib
import http.server
import json
import re
import socket
import ssl
import threading
import time
import urllib.parse


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def commit_of(text):
    return hashlib.sha1(text.encode()).hexdigest()


class Repo:
    """One repository: files by revision. Large files (over 10 kB) are kept in the store, as LFS files are."""

    def __init__(self, files, name="x"):
        self.files = dict(files)
        self.refs = {"main": commit_of(name)}
        self.gated = False        # files need the token
        self.private = False      # the listing too
        self.is_hidden_blobs = False  # the listing tells neither sizes nor hashes

    def commit(self, revision):
        return revision if revision in self.refs.values() else self.refs.get(revision)

    def is_large(self, path):
        return len(self.files[path]) > 10_000

    def sibling(self, path):
        if self.is_hidden_blobs:
            return {"rfilename": path}
        data = self.files[path]
        entry = {"rfilename": path, "size": len(data), "blobId": git_sha1(data)}
        if self.is_large(path):
            entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
        return entry


class Hub:
    """Serves `repos` until stopped. Faults: `faults[path]` is a list of callables that answer the next requests for
    it, each called with the handler; an entry that returns False lets the request pass on."""

    TOKEN = "hf_testtoken"

    def __init__(self, tls=None):
        self.repos = {}
        self.faults = {}
        self.requests = []     # (server, method, path, headers)
        self.answer_s = 0      # pause of the store between pieces of 64 KiB
        self.lock = threading.Lock()
        self.hub = self._start("hub", tls)
        self.store = self._start("store", tls)
        scheme = "https" if tls else "http"
        self.url = f"{scheme}://127.0.0.1:{self.hub.server_port}"
        self.store_url = f"{scheme}://127.0.0.1:{self.store.server_port}"

    def _start(self, role, tls):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Handler,), {"state": self, "role": role}))
        server.daemon_threads = True
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return server

    def stop(self):
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def seen(self, part):
        """Requests whose path has this part, as (method, path, headers)."""
        with self.lock:
            return [(m, p, h) for _, m, p, h in self.requests if part in p]

    def bytes_fetched(self, path):
        """Sum of the ranges that were asked for of a large file."""
        return [h.get("Range") for m, p, h in self.seen(path) if m == "GET" and p.startswith("/store/")]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Hub
    role: str

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        path = urllib.parse.urlsplit(self.path).path
        with self.state.lock:
            self.state.requests.append((self.role, self.command, path, dict(self.headers)))
            waiting = next((f for part, f in self.state.faults.items() if part in path and f), None)
            fault = waiting.pop(0) if waiting else None
        try:
            if fault and fault(self) is not False:
                return
            self.serve(path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve(self, path):
        if match := re.fullmatch(r"/api/models/((?:[^/]+/)?[^/]+)/revision/(.+)", path):
            return self.serve_listing(match[1], urllib.parse.unquote(match[2]))
        if match := re.fullmatch(r"(?:/api/resolve-cache/models)?/((?:[^/]+/)?[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.serve_file(match[1], match[2], urllib.parse.unquote(match[3]), path.startswith("/api/"))
        if match := re.fullmatch(r"/store/((?:[^/]+/)?[^/]+)/(.+)", path):
            if "Authorization" in self.headers:  # a token must never come here
                return self.reply(400, b"a token was leaked to the store")
            return self.send_data(self.state.repos[match[1]].files[urllib.parse.unquote(match[2])])
        return self.reply(404, b"no such page")

    def has_token(self):
        return self.headers.get("Authorization") == f"Bearer {Hub.TOKEN}"

    def serve_listing(self, name, revision):
        repo = self.state.repos.get(name)
        if repo is None or (repo.private and not self.has_token()):
            return self.error(401 if not self.has_token() else 404, "RepoNotFound", "Repository not found")
        commit = repo.commit(revision)
        if commit is None:
            return self.error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        listing = {"id": name, "sha": commit, "siblings": [repo.sibling(path) for path in repo.files]}
        return self.reply(200, json.dumps(listing).encode(), {"Content-Type": "application/json"})

    def serve_file(self, name, revision, path, is_cached_path):
        repo = self.state.repos[name]
        if repo.gated and not self.has_token():
            token_given = "Authorization" in self.headers
            return self.error(403 if token_given else 401, "GatedRepo", f"Access to model {name} is restricted.")
        if path not in repo.files:
            return self.error(404, "EntryNotFound", "Entry not found")
        data, headers = repo.files[path], {"X-Repo-Commit": repo.commit(revision)}
        if repo.is_large(path):
            headers |= {"X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data)),
                        "Location": f"{self.state.store_url}/store/{name}/{urllib.parse.quote(path)}"}
            return self.reply(302, b"Found. Redirecting", headers)
        if not is_cached_path:
            location = f"/api/resolve-cache/models/{name}/resolve/{revision}/{urllib.parse.quote(path)}"
            return self.reply(307, b"", headers | {"Location": location})
        return self.send_data(data, headers | {"ETag": f'"{git_sha1(data)}"'})

    def send_data(self, data, headers=None):
        status, headers, first = 200, dict(headers or {}), 0
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(match[1]), int(match[2] or len(data) - 1)
            if first >= len(data):
                return self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            headers["Content-Range"] = f"bytes {first}-{min(last, len(data) - 1)}/{len(data)}"
            status, data = 206, data[first:last + 1]
        return self.reply(status, data, headers)

    def error(self, status, code, message):
        self.reply(status, json.dumps({"error": message}).encode(), {"X-Error-Code": code, "X-Error-Message": message})

    def reply(self, status, body=b"", headers=None, sent=None):
        """sent: only so many bytes of the body, then the connection is cut."""
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        view = memoryview(body)[:sent]
        for at in range(0, len(view), 65536):
            self.wfile.write(view[at:at + 65536])
            if self.state.answer_s and self.role == "store":
                time.sleep(self.state.answer_s)
        if sent is not None:
            self.wfile.flush()
            self.close_connection = True


class Proxy:
    """An HTTP proxy: tunnels for CONNECT, passes plain requests on. Requests' first lines are in `asked`."""

    def __init__(self, refuses=False):
        self.asked, self.refuses = [], refuses
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(65536)
            if not piece:
                return
            head += piece
        line = head.split(b"\r\n", 1)[0].decode()
        self.asked.append(line)
        if self.refuses:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return client.close()
        method, target, _ = line.split(" ")
        if method == "CONNECT":
            host, port = target.rsplit(":", 1)
            server = socket.create_connection((host, int(port)))
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:  # one request per connection: the path alone, and the server closes
            url = urllib.parse.urlsplit(target)
            server = socket.create_connection((url.hostname, url.port))
            path = url.path + ("?" + url.query if url.query else "")
            rest = head.split(b"\r\n", 1)[1]
            server.sendall(f"{method} {path} HTTP/1.1\r\nConnection: close\r\n".encode() + rest)
        threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
        self._pump(server, client)

    @staticmethod
    def _pump(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def status(code, **headers):
    """A fault: answers with this status."""
    return lambda handler: handler.reply(code, b"no", {k.replace("_", "-"): v for k, v in headers.items()})


def cut_after(count):
    """A fault: sends so many bytes of what was asked for, then cuts the connection."""
    def fault(handler):
        whole = handler.reply
        handler.reply = lambda code, body=b"", headers=None: whole(code, body, headers, sent=count)
        handler.serve(urllib.parse.urlsplit(handler.path).path)
        handler.reply = whole
    return fault


def damaged(handler):
    """A fault: right length, wrong bytes."""
    whole = handler.reply
    handler.reply = lambda code, body=b"", headers=None: whole(code, bytes(b ^ 255 for b in body), headers)
    handler.serve(urllib.parse.urlsplit(handler.path).path)
    handler.reply = whole


def without_range(handler):
    """A fault: the server takes no Range and sends everything."""
    del handler.headers["Range"]
    return False


def hang(handler):
    """A fault: no answer for a while."""
    time.sleep(5)
    handler.close_connection = True
