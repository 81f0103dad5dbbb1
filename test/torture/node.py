# SPDX-License-Identifier: Apache-2.0
"""node: one agent with its machine, its objects and the witnesses; what may be done to it, and when it is right again.

"Right" means three things at once: the machine equals the specs, the server's statuses speak of these specs and say Ready, and the agent is
online with nothing left to do or to tell. How long it takes to become right again is the time to converge.
"""
import itertools
import os
import select
import shutil
import signal
import subprocess
import time

from rig import OUT, Agent, BenchError, Cluster, edgeapp, edgeconfig, run, wait_for
from proxy import Proxy
from witness import Server, Store, judge

CONVERGE_S = 240  # only a defect takes longer
numbers = itertools.count(1)

# A workload that says so when it starts, and complains when a second one of its kind is there: the lock is held as long as the process
# lives, and the kernel frees it. `sleep`'s argument tells whose it is.
WORKLOAD = """exec 9>>"$LEDGER.lock-$LIMPET_INSTANCE"
flock -n 9 || echo "twice $LIMPET_INSTANCE" >>"$LEDGER"
echo "start $LIMPET_INSTANCE $ROUND" >>"$LEDGER"
exec sleep "$MARK"
"""


class TorturedCluster(Cluster):
    """With the controller manager, for namespaces that are really deleted."""

    def __init__(self, rig, name):  # pylint: disable=super-init-not-called
        self.dir = os.path.join(rig.ram, "cluster-" + name)
        self.kubeconfig = os.path.join(self.dir, "kubeconfig")
        rig.at_exit(self.command, "wipe")
        self.command("up", "--owner", str(os.getpid()))
        self.port = int(open(os.path.join(self.dir, "port"), encoding="ascii").read())
        self.env = dict(os.environ, KUBECONFIG=self.kubeconfig)
        run(rig.limpetctl, "install", env=self.env)


class Node(Agent):
    """`program`: which limpet; `disk`: a directory for its state, e.g. a small file system."""

    def __init__(self, rig, cluster, seed, settings=None, program=None, state=None, twin_of=None):
        name = f"t{next(numbers)}"
        self.proxy = Proxy(cluster.port, seed)
        rig.at_exit(self.proxy.refuse)
        self.clock = os.path.join(rig.ram, name + ".clock")
        self.ledger = os.path.join(rig.ram, name + ".ledger")
        self.mark = f"1000000.{os.getpid() % 100000}{name[1:]}"
        open(self.ledger, "w", encoding="ascii").close()
        super().__init__(rig, cluster, name, {"log.level": "debug", **(settings or {})}, self.proxy, state=state)
        if program:
            shutil.copy(program, self.program)
        self.client = cluster.client()
        self.server = Server(cluster, self.ns)
        rig.at_exit(self.server.stop)
        self.specs = {"edgeapps": {}, "edgeconfigs": {}}  # what the machine is to be
        self.stores, self.crashed = [], set()
        self.program_env = dict(os.environ, TORTURE_CLOCK=self.clock)

    # --- Life and death of the agent

    def launch(self):
        """Without waiting for anything."""
        with open(os.path.join(self.run_dir, "agent.log"), "ab") as log:
            self.process = subprocess.Popen([self.program, "--config", self.ini, "run"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.program_env)
        return self

    def start(self):
        self.launch()
        wait_for(f"agent {self.name} is online", CONVERGE_S, self.online)
        return self

    def kill(self):
        """As a crash does it; what its store holds at that moment is kept as a witness."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        if os.path.exists(os.path.join(self.state, "limpet.db")):
            self.stores.append(Store(self.state))

    def kill_shims(self, chance, share=0.4):
        struck = [pid for pid in self.shims() if chance.random() < share]
        for pid in struck:
            self.kill_one(pid)
            self.crashed = set(self.specs["edgeapps"])
        return len(struck)

    # --- What it is to do

    def app(self, name, replicas=1, text="0", **spec):
        env = [{"name": "ROUND", "value": text}, {"name": "LEDGER", "value": f"{self.ledger}-{name}"}, {"name": "MARK", "value": self.mark}]
        body = edgeapp(name, ["/bin/sh", "-c", WORKLOAD], replicas=replicas, env=env, **spec)
        self._put("edgeapps", body)

    def config(self, name, text, **spec):
        body = edgeconfig(name, {f"{self.files}/{name}": text})
        body["spec"].update(spec)
        self._put("edgeconfigs", body)

    def _put(self, plural, body):
        name = body["metadata"]["name"]
        if name in self.specs[plural]:
            self.client.patch(self.ns, plural, name, {"spec": body["spec"]})
        else:
            self.client.create(self.ns, plural, body)
        self.specs[plural][name] = body["spec"]

    def delete(self, plural, name):
        self.client.delete(self.ns, plural, name)
        self.specs[plural].pop(name)

    # --- What others do to the machine

    def drift(self, name):
        with open(f"{self.files}/{name}", "w", encoding="ascii") as f:
            f.write("drift\n")

    @staticmethod
    def kill_one(pid):
        """Returns when it is dead: until then it looks alive, and the machine as if nothing had to be put right."""
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            return  # it ended meanwhile
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            dead = select.poll()
            dead.register(fd, select.POLLIN)
            dead.poll()
        except ProcessLookupError:
            pass
        finally:
            os.close(fd)

    def kill_workload(self, chance):
        there = self.workloads()
        if there:
            pid, app, *_ = chance.choice(there)
            self.crashed.add(app)
            self.kill_one(pid)
        return bool(there)

    def refresh(self, text):
        """What crashed gets a new revision, for the second crash of one waits 10 s before it is started again, the third 20 s, as it should.
        How many specs that changed."""
        crashed = {app for app in self.crashed if app in self.specs["edgeapps"]}
        for app in crashed:
            self.app(app, self.specs["edgeapps"][app]["replicas"], text)
        self.crashed.clear()
        return len(crashed)

    # --- Is it right?

    def workloads(self):
        """(pid, app, instance, round) of what really runs, from /proc."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                if not entry.isdigit() or self.mark.encode() not in open(f"/proc/{entry}/cmdline", "rb").read():
                    continue
                env = dict(v.split("=", 1) for v in open(f"/proc/{entry}/environ", "rb").read().decode().split("\0") if "=" in v)
                stat = open(f"/proc/{entry}/stat", encoding="ascii", errors="replace").read()
                if f"{self.run_dir}/i/" in str(env) and ") Z " not in stat:
                    found.append((int(entry), env["LEDGER"].rsplit("-", 1)[1], env["LIMPET_INSTANCE"], env["ROUND"]))
            except (OSError, KeyError, UnicodeDecodeError):
                pass  # it ended meanwhile
        return found

    def machine_is_wrong(self):
        """A word about the first thing that is not as specified; None: all is."""
        want = sorted((app, str(i), _round(spec)) for app, spec in self.specs["edgeapps"].items() for i in range(spec["replicas"]))
        have = sorted(w[1:] for w in self.workloads())
        if want != have:
            return f"processes: {have}, wanted {want}"
        for name, spec in self.specs["edgeconfigs"].items():
            for file in spec["files"]:
                if _content(file["path"]) != file["content"]:
                    return f"{file['path']}: {_content(file['path'])!r}, wanted {file['content']!r}"
        wanted = {os.path.basename(f["path"]) for spec in self.specs["edgeconfigs"].values() for f in spec["files"]}
        left = set(os.listdir(self.files)) - wanted
        return f"files nobody wants: {left}" if left else None

    def server_is_wrong(self):
        for plural, specs in self.specs.items():
            there = self.server.all(plural)
            for name in specs:
                obj = there.get(name)
                status = (obj or {}).get("status") or {}
                ready = [c for c in status.get("conditions", []) if c["type"] == "Ready"]
                if not obj or status.get("observedGeneration") != obj["metadata"]["generation"]:
                    return f"{plural}/{name}: the status speaks of generation {status.get('observedGeneration')}"
                if not ready or ready[0]["status"] != "True":
                    return f"{plural}/{name}: {ready}"
        return None

    def agent_is_wrong(self):
        s = self.status()
        if s is None:
            return "the agent does not answer"
        box = s["outbox"]
        if s["link"]["state"] != "Online" or box["statusPending"] or box["eventsPending"] or s["engine"]["waiting"]:
            return f"link {s['link']}, outbox {box}, engine {s['engine']}"
        return None

    def is_wrong(self):
        return self.agent_is_wrong() or self.server_is_wrong() or self.machine_is_wrong()

    def converge(self, since=None, seconds=CONVERGE_S):
        """Until it is right and stays so for a moment; seconds since `since` (monotonic; now)."""
        began = since if since is not None else time.monotonic()
        deadline = time.monotonic() + seconds
        while True:
            why = self.is_wrong()
            right_at = time.monotonic()
            if why is None and self.is_wrong() is None:
                return right_at - began
            if time.monotonic() > deadline:
                raise BenchError(f"{self.name} is not right after {seconds} s: {why}; {self.last_words()}")
            time.sleep(0.02)

    def heals(self, seconds=CONVERGE_S):
        """The machine alone, whatever the link does; seconds it took."""
        began = time.monotonic()
        wait_for(f"{self.name} heals the machine", seconds, lambda: self.machine_is_wrong() is None, 0.02)
        return time.monotonic() - began

    # --- What was promised

    def verdict(self, server_restarts=False):
        """Ends the agent in an orderly way; what the witnesses say of the whole life. A server that was started anew has no history for a
        watch to go on from; else a witness that lost its place is no witness."""
        self.stop()
        self.server.look_again()
        v = judge(self.server, self.stores, Store(self.state))
        for name in os.listdir(os.path.dirname(self.ledger)):
            if name.startswith(os.path.basename(self.ledger) + "-") and ".lock-" not in name:
                self._read_ledger(v, name)
        if self.server.gaps and not server_restarts:
            v.lost.append(f"the witness lost its place {self.server.gaps} times")
        return v

    def _read_ledger(self, v, name):
        """Of an app: instances that found a second one, and rounds that were started after a newer one had been."""
        newest = {}
        for line in open(os.path.join(os.path.dirname(self.ledger), name), encoding="ascii"):
            word, instance, *rest = line.split()
            if word == "twice":
                v.twice.append(f"{name}: instance {instance} was started while another one ran")
            elif int(rest[0]) < newest.get(instance, -1):
                v.twice.append(f"{name}: instance {instance} was started with {rest[0]}, after {newest[instance]}")
            else:
                newest[instance] = int(rest[0])


def _round(spec):
    return next(v["value"] for v in spec["env"] if v["name"] == "ROUND")


def _content(path):
    try:
        return open(path, encoding="ascii").read()
    except OSError:
        return None


def torture_program():
    return os.path.join(OUT, "torture", "limpet")
