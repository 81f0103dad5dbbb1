# SPDX-License-Identifier: Apache-2.0
"""witness: who saw what, and whether they agree.

The API server's watch stream is one witness: every status that the server accepted, in its order, and every event. The agent's store is
the other: read whole from a copy of its file while the agent is dead, so it is what was committed and nothing else. What the store held at
any death, or had acknowledged, must be on the server in the end, once.
"""
import collections
import datetime
import http.client
import json
import os
import shutil
import sqlite3
import tempfile
import threading

from rig import EDGE, BenchError, Client

EVENTS = "/apis/events.k8s.io/v1/namespaces"


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- The server ------------------------------------------------------------------------------------------------------------------


class Stream(threading.Thread):
    """One watch, renewed from where it ended; from the beginning of the list on nothing is left out."""

    def __init__(self, cluster, path, tell):
        super().__init__(daemon=True)
        self.cluster, self.client, self.path, self.tell = cluster, Client(cluster.kubeconfig), path, tell
        self.over, self.gaps, self.rv = False, 0, None
        self._list()
        self.start()

    def _list(self):
        answer = self.client.get(self.path)
        self.rv = answer["metadata"]["resourceVersion"]
        for item in answer["items"]:
            self.tell("ADDED", item)

    def run(self):
        while not self.over:
            try:
                self._follow()
            except (OSError, ValueError, AttributeError, BenchError, http.client.HTTPException):
                self.client.close()
                self.client = Client(self.cluster.kubeconfig)  # it may have another authority
                threading.Event().wait(0.2)

    def _follow(self):
        self.client.close()
        self.client._connect()
        query = f"{self.path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={self.rv}"
        self.client.conn.request("GET", query, None, {"Authorization": f"Bearer {self.client.token}"})
        answer = self.client.conn.getresponse()
        for line in answer if answer.status == 200 else ():
            event = json.loads(line)
            if event["type"] == "ERROR" and event["object"].get("code") != 410:
                raise BenchError(str(event["object"]))
            if event["type"] == "ERROR":
                self._lost_place()
                return
            self.rv = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self.tell(event["type"], event["object"])
        if answer.status not in (200, 410):
            raise BenchError(f"watch: {answer.status}")
        if answer.status == 410:
            self._lost_place()

    def _lost_place(self):
        """A witness with a gap is told as one: what it did not see it cannot deny."""
        self.gaps += 1
        self._list()

    def stop(self):
        self.over = True
        self.client.close()


class Server:
    """What the server accepted in one namespace."""

    PLURALS = ("edgeapps", "edgeconfigs", "edgenodes")

    def __init__(self, cluster, ns):
        self.lock = threading.Lock()
        self.now = {}                                   # (plural, name) -> object
        self.statuses = collections.defaultdict(list)   # uid -> [status, ...] as accepted, in order
        self.known = collections.defaultdict(set)       # uid -> canonical statuses
        self.events = {}                                # name -> Event
        self.cluster, self.ns = cluster, ns
        self.streams = [Stream(cluster, f"{EDGE}/{ns}/{p}", lambda what, o, p=p: self._object(p, what, o)) for p in self.PLURALS]
        self.streams.append(Stream(cluster, f"{EVENTS}/{ns}/events", self._event))

    def _object(self, plural, what, obj):
        meta = obj["metadata"]
        with self.lock:
            if what == "DELETED":
                self.now.pop((plural, meta["name"]), None)
                return
            self.now[(plural, meta["name"])] = obj
            status, before = obj.get("status") or {}, self.statuses[meta["uid"]]
            if status and (not before or before[-1] != status):
                before.append(status)
                self.known[meta["uid"]].add(canonical(status))

    def _event(self, what, event):
        with self.lock:
            if what != "DELETED":
                self.events[event["metadata"]["name"]] = event

    def look_again(self):
        """What is there now, not by watch: one that was opened before a CRD changed tells what its old schema keeps."""
        client = Client(self.cluster.kubeconfig)
        for p in self.PLURALS:
            items = client.get(f"{EDGE}/{self.ns}/{p}")["items"]
            with self.lock:
                self.now.update({(p, item["metadata"]["name"]): item for item in items})
        client.close()

    def all(self, plural):
        with self.lock:
            return {name: o for (p, name), o in self.now.items() if p == plural}

    @property
    def gaps(self):
        return sum(s.gaps for s in self.streams)

    def stop(self):
        for s in self.streams:
            s.stop()


# --- The store -------------------------------------------------------------------------------------------------------------------


class Store:
    """The store of an agent that does not run, from a copy: the original is not touched."""

    def __init__(self, state_dir):
        self.slots, self.events = {}, {}
        with tempfile.TemporaryDirectory() as copy:
            for suffix in ("", "-wal"):
                path = os.path.join(state_dir, "limpet.db" + suffix)
                if os.path.exists(path):
                    shutil.copy(path, copy)
            db = sqlite3.connect(os.path.join(copy, "limpet.db"))
            self._read(db)
            db.close()

    def _read(self, db):
        unsent = {key for key, in db.execute("SELECT key FROM unsent")}
        for key, uid, generation, seq, text in db.execute("SELECT key,uid,generation,seq,json FROM status"):
            self.slots[key] = (uid, generation, seq, json.loads(bytes(text)), key in unsent)
        for name, uid, reason, note, us, trusted, pending in db.execute("SELECT name,uid,reason,note,first_us,first_trusted,pending FROM event"):
            self.events[name] = (uid, reason, note, us, bool(trusted), bool(pending))


# --- Do they agree? --------------------------------------------------------------------------------------------------------------


class Verdict:
    """lost, twice: lists of words, for the reader of a failure. seen: how many observations were compared."""

    def __init__(self):
        self.lost, self.twice, self.seen = [], [], 0


def judge(server, stores, final):
    """`stores`: as found at each death; `final`: after an orderly stop."""
    v = Verdict()
    with server.lock:
        for store in stores + [final]:
            _events(v, server, store)
            _statuses(v, server, store)
        _final(v, server, final)
        _event_twins(v, server)
        _status_twins(v, server)
    v.lost, v.twice = sorted(set(v.lost)), sorted(set(v.twice))
    return v


def _events(v, server, store):
    for name, (uid, reason, note, us, trusted, _) in store.events.items():
        v.seen += 1
        there = server.events.get(name)
        if there is None:
            v.lost.append(f"event {name} {reason} ({note})")
        elif trusted and there["eventTime"] != micro(us):
            v.lost.append(f"event {name} {reason}: happened at {micro(us)}, the server has {there['eventTime']}")


def _statuses(v, server, store):
    """What the store says is acknowledged was accepted by the server."""
    for key, (uid, _, seq, status, pending) in store.slots.items():
        v.seen += 1
        if not pending and uid in server.known and canonical(status) not in server.known[uid]:
            v.lost.append(f"status {key} {seq} is acknowledged, and the server never had it")


def _final(v, server, final):
    for key, (uid, _, seq, status, pending) in final.slots.items():
        plural, _, name = key.split("/")
        there = server.now.get((plural, name))
        if there is None or there["metadata"]["uid"] != uid:
            continue  # gone meanwhile
        if pending:
            v.lost.append(f"status {key} {seq} still waits")
        elif canonical(there.get("status")) != canonical(status):
            v.lost.append(f"status {key} {seq} is not what the server has in the end")


def _event_twins(v, server):
    said = {}
    for name, e in server.events.items():
        what = (e["regarding"].get("uid"), e["reason"], e.get("note"), e["eventTime"])
        if said.setdefault(what, name) != name:
            v.twice.append(f"event {name} says what {said[what]} says")


def _status_twins(v, server):
    """A status that comes back after another one was accepted, or one whose counts go back: old news accepted after newer."""
    for uid, statuses in server.statuses.items():
        texts = [canonical(s) for s in statuses]
        for i, text in enumerate(texts):
            if text in texts[:i]:
                v.twice.append(f"status of {uid}: version {i} had been accepted before: {text[:200]}")
        for name in ("driftRepairs", "observedGeneration"):
            counts = [s[name] for s in statuses if name in s]
            if counts != sorted(counts):
                v.twice.append(f"status of {uid}: {name} goes back: {counts}")


def micro(us):
    return datetime.datetime.fromtimestamp(us // 1000000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + f".{us % 1000000:06d}Z"
