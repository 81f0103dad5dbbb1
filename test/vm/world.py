# SPDX-License-Identifier: Apache-2.0
"""world: what is wanted of the machine, how it changes, and what is seen of it from both ends.

Every file that was ever wanted is known here in all its versions, so a file on the machine is one of them or it is torn. Every event and
every status that the agent's store was seen to hold is known, so one that never reaches the server is lost. Nothing is expected that was
not seen: what the agent had not yet written when the power went, nobody was promised.
"""
import hashlib
import json
import random
import threading
import time

from rig import API, EDGE, BenchError

NS = "edge-vm"
DIR = "/srv/vm"
FILES = {"plain": ["plain.a", "plain.b"], "owed": ["owed.conf"], "other": ["other.conf"]}
APPS = ["steady", "single", "beat"]
JOBS = ["once", "sure", "cron"]
# What an onChange made is only there after a power cut if the onChange saw to it.
ON_CHANGE = f"cp {DIR}/owed.conf {DIR}/owed.new && sync {DIR}/owed.new && mv {DIR}/owed.new {DIR}/owed.seen && sync {DIR}"
COMMANDS = {
    "steady": "[ -e /run/first ] || cut -d ' ' -f 1 /proc/uptime >/run/first; exec sleep 100000",
    "single": f"exec 9>/run/single.lock; flock -n 9 || {{ echo twice >>{DIR}/twice; exit 9; }}; exec sleep 100000",
    "beat": "sleep 4; exit 3",
}
# A mark leaves the machine as it is made: what a job did is known whatever the power cut takes. One writer at a time has the port.
MARK = 'mark() { (flock 9; echo "$1 $JOB $VERSION $LIMPET_RUN ${LIMPET_SCHEDULED:--}" >/dev/virtio-ports/marks) 9>/run/marks.lock; }; '
JOB_COMMAND = "set -e; [ -c /dev/virtio-ports/marks ]; " + MARK + "mark begin; sleep 0.5; mark end"
JOB_SPECS = {
    "once": {"execution": "AtMostOnce", "backoffLimit": 0},
    "sure": {"execution": "AtLeastOnce", "backoffLimit": 1000},
    "cron": {"execution": "AtMostOnce", "backoffLimit": 0, "schedule": "* * * * *", "startingDeadlineSeconds": 45, "concurrencyPolicy": "Forbid"},
}
# Of these the status changes by itself all the time, and Ready comes and goes.
RESTLESS = ("beat", "cron")
# Every process of an app by its environment: no process is started for it.
PROCESSES = """for p in /proc/[0-9]*; do
	mapfile -d '' env <$p/environ || continue
	app='' version=''
	for v in "${env[@]}"; do case $v in APP=*) app=${v#*=} ;; VERSION=*) version=${v#*=} ;; esac; done
	[ -z "$app" ] || echo "process $app $version ${p#/proc/}"
done 2>/dev/null
"""


HUGE = 1_000_000  # versions from here on have 900 KB


def body(path, version):
    """Of a file; from 1 to 200 lines, so that some fit into a sector and others into no page."""
    lines = (version * 7919 + len(path)) % 200 + 1 if version < HUGE else 20_000
    return "".join(f"{path} version {version} line {i} of {lines}\n" for i in range(1, lines + 1))


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


class World:
    """The wanted state. One thread changes it; `hold` is the lock under which nothing changes."""

    def __init__(self, cluster, seed):
        self.rng = random.Random(f"world {seed}")
        self.client = cluster.client()
        self.hold = threading.Lock()
        self.version = {name: 0 for name in [*FILES, *APPS, *JOBS]}
        self.ever = {}  # sha -> (path, version)
        self.changes = 0
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._keep_changing, daemon=True)
        self.failure = None

    def create(self):
        for name in FILES:
            self.client.create(NS, "edgeconfigs", self._object("EdgeConfig", name, self._config(name)))
        for name in APPS:
            self.client.create(NS, "edgeapps", self._object("EdgeApp", name, self._app(name)))
        for name in JOBS:
            self.client.create(NS, "edgejobs", self._object("EdgeJob", name, self._job(name)))
        self.thread.start()

    def stop(self):
        self.stopped.set()
        self.thread.join()

    @staticmethod
    def _object(kind, name, spec):
        return {"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec}

    def _config(self, name):
        """What a path may hold is known before anybody can write it."""
        version = self.version[name]
        files = []
        for file in FILES[name]:
            text = body(file, version)
            self.ever[sha(text)] = (file, version)
            files.append({"path": f"{DIR}/{file}", "content": text})
        spec = {"files": files}
        if name == "owed":
            spec["onChange"] = {"command": ["/bin/sh", "-c", ON_CHANGE]}
        return spec

    def _app(self, name):
        return {"command": ["/bin/sh", "-c", COMMANDS[name]], "terminationGracePeriodSeconds": 1,
                "env": [{"name": "APP", "value": name}, {"name": "VERSION", "value": str(self.version[name])}]}

    def _job(self, name):
        return {"command": ["/bin/bash", "-c", JOB_COMMAND], "terminationGracePeriodSeconds": 1,
                "env": [{"name": "JOB", "value": name}, {"name": "VERSION", "value": str(self.version[name])}], **JOB_SPECS[name]}

    def _keep_changing(self):
        try:
            while not self.stopped.wait(self.rng.uniform(0.1, 1.5)):
                with self.hold:
                    self._change(self.rng.choice([*FILES, *FILES, *APPS, "once", "sure"]))
        except (OSError, BenchError) as e:
            self.failure = e

    def change(self, name, version=None):
        """To that version, or to the next one."""
        with self.hold:
            self._change(name, version)

    def _change(self, name, version=None):
        self.version[name] = self.version[name] + 1 if version is None else version
        self.changes += 1
        if name in FILES:
            self.client.patch(NS, "edgeconfigs", name, {"spec": self._config(name)})
        elif name in JOBS:
            self.client.patch(NS, "edgejobs", name, {"spec": self._job(name)})
        else:
            self.client.patch(NS, "edgeapps", name, {"spec": self._app(name)})


# --- what the machine says


class Seen:
    """One look into the machine: the store's rows, the files, the processes, the agent's own words."""

    def __init__(self, text):
        self.objects, self.statuses, self.events, self.files, self.processes = {}, {}, {}, {}, []
        self.damaged_rows = 0
        self.status = None
        for line in text.splitlines():
            word, _, rest = line.partition(" ")
            if line.startswith('{"table"'):
                self._row(json.loads(line))
            elif word == "status" and rest.startswith("{"):
                self.status = json.loads(rest)
            elif word == "file":
                digest, _, path = rest.partition("  ")
                self.files[path.rsplit("/", 1)[-1]] = digest
            elif word == "process":
                app, version, pid = rest.split()
                self.processes.append((app, int(version), int(pid)))

    def _row(self, line):
        table, row = line["table"], line["row"]
        self.damaged_rows += not line["crc_ok"]
        if table == "object":
            self.objects[name_of(row["key"])] = row
        elif table == "status":
            self.statuses[name_of(row["key"])] = row["json"]
        elif table == "event":
            self.events[row["name"]] = row

    def wants_files(self):
        """path -> sha, by the specs in the machine's own cache."""
        return {f["path"].rsplit("/", 1)[-1]: sha(f["content"])
                for name in FILES if name in self.objects for f in self.objects[name]["json"]["spec"]["files"]}

    def wants_apps(self):
        return {name: int(self.objects[name]["json"]["spec"]["env"][1]["value"]) for name in APPS if name in self.objects}

    def running(self, app):
        return [version for name, version, _ in self.processes if name == app]

    def follows_its_cache(self):
        """None, or what is not as the cached specs want it. `beat` ends all the time."""
        for path, digest in self.wants_files().items():
            if self.files.get(path) != digest:
                return f"{path} is {self.files.get(path)}, wanted is {digest}"
        if self.files.get("owed.seen") != self.files.get("owed.conf"):
            return "the owed onChange has not run"
        for app, version in self.wants_apps().items():
            if app != "beat" and self.running(app) != [version]:
                return f"{app} runs as {self.running(app)}, wanted is {version}"
        for job in ("once", "sure"):
            state = self.statuses.get(job, {}).get("state")
            if job in self.objects and state != "Succeeded" and not (job == "once" and state == "Unknown"):
                return f"the job {job} is {state}"
        return None


def name_of(key):
    return key.rsplit("/", 1)[-1]


# A dump that ends in an error, as of an agent that just starts or is starved, is none: half of the rows would be taken for all of them.
LOOK = f"limpet store dump >/run/look 2>/run/look.error && cat /run/look; echo \"status $(limpet status -o json)\"; sha256sum {DIR}/* | sed 's/^/file /'; {PROCESSES}"


def look(machine):
    return Seen(machine.run(LOOK)[1])


# --- what the server says


class Server:
    def __init__(self, cluster):
        self.client = cluster.client()

    def objects(self):
        """name -> object, of the kinds that the world changes."""
        return {o["metadata"]["name"]: o
                for plural in ("edgeapps", "edgeconfigs", "edgejobs") for o in self.client.get(f"{EDGE}/{NS}/{plural}")["items"]}

    def node(self):
        return self.client.get(f"{EDGE}/{NS}/edgenodes/vm")

    def events(self):
        return self.client.get(f"/apis/events.k8s.io/v1/namespaces/{NS}/events")["items"]


def condition(o, kind):
    for c in (o.get("status") or {}).get("conditions", []):
        if c["type"] == kind:
            return c["status"]
    return None


def not_told(objects, seen):
    """None, or where the server's status is not that of the machine, or not about the present spec."""
    for name, o in objects.items():
        status = o.get("status") or {}
        if status.get("observedGeneration") != o["metadata"]["generation"]:
            return f"{name}: generation {o['metadata']['generation']}, the status speaks of {status.get('observedGeneration')}"
        if name not in RESTLESS and condition(o, "Ready") != "True" and status.get("state") != "Unknown":
            return f"{name} is not Ready: {status}"
        if name not in RESTLESS and status != seen.statuses.get(name):
            return f"{name}: the server has {status}, the machine {seen.statuses.get(name)}"
    return None


class Monotonic(threading.Thread):
    """Watches the statuses on the server: none may speak of an older spec than the one before it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.newest, self.backward, self.failure = server, {}, [], None
        self.stopped = threading.Event()

    def run(self):
        try:
            while not self.stopped.wait(0.1):
                self._look()
        except (OSError, BenchError) as e:
            self.failure = e

    def _look(self):
        for name, o in self.server.objects().items():
            key = o["metadata"]["uid"]
            observed = (o.get("status") or {}).get("observedGeneration", 0)
            if observed < self.newest.get(key, 0):
                self.backward.append(f"{name}: {self.newest[key]}, then {observed}")
            self.newest[key] = observed

    def stop(self):
        self.stopped.set()
        self.join()


class Ledger:
    """What was seen in the store and must reach the server, and what reached it more than once."""

    def __init__(self):
        self.owed, self.told, self.lost, self.twice = {}, set(), [], []
        self.generation = {}  # name -> newest observedGeneration seen in the store
        self.cached = {}  # name -> newest generation of a spec seen in the store
        self.succeeded = {}  # run of a job, seen as succeeded -> the job

    def witness(self, seen):
        for name, row in seen.events.items():
            if name not in self.told:
                self.owed[name] = f"{row['reason']}: {row['note']}"
        for name, status in seen.statuses.items():
            self.generation[name] = max(self.generation.get(name, 0), status.get("observedGeneration", 0))
            for run in status.get("runs", []):
                if run["outcome"] == "Succeeded":
                    self.succeeded[run["name"]] = name
        for name, row in seen.objects.items():
            self.cached[name] = max(self.cached.get(name, 0), row["generation"])

    def judge_marks(self, marks):
        """What jobs really did, against what was said of them. (what ran twice, what did not run)"""
        begun, ended = {}, set()
        for word, job, version, run, instant in marks:
            if word == "end":
                ended.add(run)
            elif job != "sure":
                what = (job, instant if job == "cron" else version)
                begun[what] = begun.get(what, 0) + 1
        twice = [f"{job} for {what} began {n} times" for (job, what), n in begun.items() if n > 1]
        return twice, [f"run {run} of {job} is said to have succeeded" for run, job in self.succeeded.items() if run not in ended]

    def settle(self, server):
        """When everything is said to be told: is it?"""
        events = server.events()
        there = {e["metadata"]["name"] for e in events}
        self.lost += [f"{name} ({what})" for name, what in self.owed.items() if name not in there]
        self.told |= self.owed.keys() & there
        self.owed.clear()
        seen = {}
        for e in events:
            what = (e["regarding"]["uid"], e["reason"], e.get("note"), e["eventTime"])
            if seen.setdefault(what, e["metadata"]["name"]) != e["metadata"]["name"]:
                self.twice.append(f"{what}: {seen[what]} and {e['metadata']['name']}")
        for name, o in server.objects().items():
            got = (o.get("status") or {}).get("observedGeneration", 0)
            if got < self.generation.get(name, 0):
                self.lost.append(f"status of {name}: {self.generation[name]} was stored, {got} is told")
