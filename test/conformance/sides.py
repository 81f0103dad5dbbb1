# SPDX-License-Identifier: Apache-2.0
"""sides: the real API server and the model of it, as two things that answer the same questions.

Both have request(), open() for a watch, settle() after a change that takes a moment, and what happens to a server. An answer is (status, content type,
Retry-After, text); what it means is no business of this file.
"""
import csv
import http.client
import json
import os
import ssl
import subprocess
import threading
import time
from collections import namedtuple

Answer = namedtuple("Answer", "status content_type retry_after text")
TIMEOUT_S = 60
USER_AGENT = "conformance"


class Real:
    """Through loopback, with the token of the cluster's administrator unless told otherwise."""

    name = "real"

    def __init__(self, cluster_dir, cluster_program):
        self.dir, self.program = cluster_dir, cluster_program
        with open(os.path.join(cluster_dir, "port"), encoding="utf-8") as f:
            self.port = int(f.read())
        with open(os.path.join(cluster_dir, "tokens.csv"), encoding="utf-8") as f:
            self.admin = next(row[0] for row in csv.reader(f) if row[1] == "admin")
        self.context = ssl.create_default_context(cafile=os.path.join(cluster_dir, "pki", "server-ca.crt"))
        self.connection = None

    def _connect(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=TIMEOUT_S)

    def _send(self, connection, method, url, body, kind, accept, token):
        headers = {"Authorization": f"Bearer {token or self.admin}", "Accept": accept or "application/json", "User-Agent": ""}
        if body is not None:
            headers["Content-Type"] = kind or "application/json"
        connection.request(method, url, body.encode() if body is not None else None, headers)
        return connection.getresponse()

    def request(self, method, url, body=None, kind=None, accept=None, token=None):
        for attempt in (1, 2):  # a connection that was kept may be gone
            try:
                self.connection = self.connection or self._connect()
                r = self._send(self.connection, method, url, body, kind, accept, token)
                text = r.read().decode()
                return Answer(r.status, r.getheader("Content-Type", ""), int(r.getheader("Retry-After") or 0), text)
            except (ConnectionError, http.client.HTTPException):
                self.connection = None
                if attempt == 2:
                    raise

    def open(self, url):
        return RealWatch(self, url)

    def cluster(self, *command):
        subprocess.run([self.program, command[0], self.dir, *command[1:]], check=True, stdout=subprocess.DEVNULL)
        self.connection = None

    def restart(self):
        self.cluster("stop-apiserver")
        self.cluster("start-apiserver")

    def _until(self, what, condition):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited in vain: {what}")
            time.sleep(0.05)

    def settle(self, url, status, text):
        def as_expected():
            a = self.request("GET", url)
            return a.status == status and text in a.text

        self._until(f"{url} is answered with {status} {text}", as_expected)

    def compact(self, url):
        """A storage that forgets all but the last hundred revisions, and as many of them as it takes until a continue token is too old."""
        self.cluster("down")
        forgetful = {**os.environ, "KINE_COMPACT_INTERVAL": "2s", "KINE_COMPACT_MIN_RETAIN": "100"}
        command = [self.program, "up", self.dir, "--no-controller-manager", "--owner", str(os.getppid())]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=forgetful)
        done = 0

        def is_too_old():
            nonlocal done
            for done in range(done + 1, done + 21):
                note = json.dumps({"metadata": {"annotations": {"n": str(done)}}})
                self.request("PATCH", "/api/v1/namespaces/default", note, "application/merge-patch+json")
            return self.request("GET", url).status == 410

        self._until(f"{url} is too old", is_too_old)

    def orphan(self, url):
        """The answer to the token of a ServiceAccount that was deleted, when it is not taken any more."""
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        one = json.dumps({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "orphan"}})
        ask = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
        made = self.request("POST", accounts, one)
        token = json.loads(self.request("POST", f"{accounts}/orphan/token", ask).text)["status"]["token"]
        before = self.request("GET", url, token=token).status
        if made.status != 201 or before != 403:
            raise RuntimeError(f"the account is of no use: {made.status}, {before}")
        self.request("DELETE", f"{accounts}/orphan")
        self._until("the token is refused", lambda: self.request("GET", url, token=token).status == 401)
        return self.request("GET", url, token=token)

    def close(self):
        self.connection = None


class RealWatch:
    """Read by a thread of its own, for the answers of other requests come meanwhile."""

    def __init__(self, side, url):
        self.lines, self.lock, self.ended = [], threading.Condition(), False
        self.connection = side._connect()
        self.response = side._send(self.connection, "GET", url, None, None, None, None)
        self.answer = Answer(self.response.status, self.response.getheader("Content-Type", ""), 0, "")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for line in self.response:
                with self.lock:
                    self.lines.append(line.decode())
                    self.lock.notify()
        except (OSError, http.client.HTTPException, AttributeError):
            pass  # it was cut, or closed by us
        with self.lock:
            self.ended = True
            self.lock.notify()

    def collect(self, events, seconds):
        """Until so many lines are there (None: until it ends), or the time is over."""
        deadline = time.monotonic() + seconds
        with self.lock:
            while not self.ended and (events is None or len(self.lines) < events):
                left = deadline - time.monotonic()
                if left <= 0 or not self.lock.wait(left):
                    break
            text = "".join(self.lines)
            self.lines = []
            return Answer(self.answer.status, self.answer.content_type, 0, text), self.ended

    def close(self):
        sock = self.connection.sock
        if sock is not None:
            sock.close()


class Model:
    """The simulator's server, in a process that time passes for when we say so."""

    name = "model"

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the model ended ({self.process.wait()}) at {what}")
        return json.loads(line)

    def _request(self, method, url, body, kind, accept):
        a = self.ask(do="request", method=method, url=url, body=body or "", type=kind or "application/json", accept=accept or "application/json")
        return a, Answer(a["status"], a["content_type"], a["retry_after"], a["body"])

    def request(self, method, url, body=None, kind=None, accept=None, token=None):
        a, answer = self._request(method, url, body, kind, accept)
        if "watch" not in a:
            return answer
        said = self.ask(do="collect", watch=a["watch"], ms=TIMEOUT_S * 1000)
        return answer._replace(text=said["body"])

    def open(self, url):
        return ModelWatch(self, url)

    def restart(self):
        self.ask(do="restart")

    def settle(self, url, status, text):
        self.ask(do="pass", ms=1500)

    def compact(self, url):
        self.ask(do="compact")

    def orphan(self, url):
        self.ask(do="delete-account")
        if (before := self.request("GET", url).status) != 200:
            raise RuntimeError(f"the token is refused at once: {before}")
        self.ask(do="pass", ms=12000)
        answer = self.request("GET", url)
        self.ask(do="restore-account")
        return answer

    def close(self):
        self.process.stdin.close()
        if self.process.wait(10) != 0:
            raise RuntimeError("the model ended badly")


class ModelWatch:
    def __init__(self, side, url):
        self.side = side
        a, self.answer = side._request("GET", url, None, None, None)
        self.watch = a.get("watch")

    def collect(self, events, seconds):
        said = self.side.ask(do="collect", watch=self.watch, ms=0 if events is not None else int(seconds * 1000))
        return self.answer._replace(text=said["body"]), said["ended"]

    def close(self):
        pass
